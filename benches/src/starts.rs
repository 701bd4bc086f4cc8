//! How long a managed node takes until it speaks AMQP, beside `rabbitmq-server` started by hand with
//! the same plugins (none), and how long both take after a kill.

use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::environment::{Bench, rabbitmq};
use crate::table::Row;

/// Pairs, one after the other; the median counts.
const PAIRS: usize = 3;
/// Longest start of bellows, as a multiple of the server's alone.
const MOST: f64 = 1.15;
/// No start takes longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where packages put the scripts that run as whoever calls them.
const PREFIX: &str = "/usr/lib/rabbitmq/lib";

/// Starts and restarts, bellows and the server by turns.
pub fn starts(bench: &Bench) -> Result<Vec<Row>> {
    let server = server()?;
    let (mut own, mut plain) = (Times::default(), Times::default());
    for _ in 0..PAIRS {
        let began = Instant::now();
        let mut node = rabbitmq(bench, false)?;
        own.starts.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        node.restart(&mut |_| {}, &|| false)?;
        own.restarts.push(began.elapsed().as_secs_f64());
        node.stop()?;

        let mut node = Plain::new(&server)?;
        let began = Instant::now();
        node.start()?;
        plain.starts.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        node.kill();
        node.start()?;
        plain.restarts.push(began.elapsed().as_secs_f64());
    }
    let row = |what: &str, own: &mut [f64], plain: &mut [f64]| {
        let (own, plain) = (median(own), median(plain));
        Row::new(what, "s", own)
            .beside("rabbitmq-server", plain)
            .goal("at most 1.15 x rabbitmq-server", own <= plain * MOST)
    };
    Ok(vec![
        row("start of a managed node", &mut own.starts, &mut plain.starts),
        row("restart of a managed node after a kill", &mut own.restarts, &mut plain.restarts),
    ])
}

#[derive(Default)]
struct Times {
    starts: Vec<f64>,
    restarts: Vec<f64>,
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn server() -> Result<PathBuf> {
    let versions = fs::read_dir(PREFIX).with_context(|| format!("no RabbitMQ in {PREFIX}"))?;
    versions
        .flatten()
        .map(|version| version.path().join("sbin/rabbitmq-server"))
        .find(|script| script.exists())
        .with_context(|| format!("no RabbitMQ in {PREFIX}"))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A server in a folder of its own, with its own EPMD; both are gone when this is.
struct Plain<'a> {
    server: &'a Path,
    folder: PathBuf,
    port: u16,
    distribution: u16,
    epmd: u16,
    process: Option<Child>,
}

impl<'a> Plain<'a> {
    fn new(server: &'a Path) -> Result<Self> {
        let port = free_port()?;
        let folder = PathBuf::from(format!("/var/tmp/bellows-bench-{}-{port}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        fs::write(folder.join("enabled_plugins"), "[].\n")?;
        Ok(Self { server, folder, port, distribution: free_port()?, epmd: free_port()?, process: None })
    }

    /// Until it answers a protocol header with `connection.start`.
    fn start(&mut self) -> Result<()> {
        let log = fs::File::create(self.folder.join("output.log"))?;
        let process = Command::new(self.server)
            .env("HOME", &self.folder)
            .env("RABBITMQ_NODENAME", format!("bench-{}@localhost", self.port))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("ERL_EPMD_PORT", self.epmd.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_MNESIA_BASE", self.folder.join("data"))
            .env("RABBITMQ_LOG_BASE", self.folder.join("log"))
            .env("RABBITMQ_CONFIG_FILE", self.folder.join("none"))
            .env("RABBITMQ_CONF_ENV_FILE", self.folder.join("none"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.folder.join("enabled_plugins"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("rabbitmq-server")?;
        self.process = Some(process);
        let deadline = Instant::now() + PATIENCE;
        while !self.speaks() {
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.folder.join("output.log"))?;
                bail!("rabbitmq-server does not start: {log}");
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn speaks(&self) -> bool {
        let ask = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"AMQP\0\0\x09\x01")?;
            let mut first = [0];
            stream.read_exact(&mut first)?;
            // The type of a method frame.
            Ok(first == [1])
        };
        ask().unwrap_or(false)
    }

    /// The script and the emulator, which share a group.
    fn kill(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        if let Ok(id) = i32::try_from(process.id())
            && let Some(group) = Pid::from_raw(id)
        {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = process.wait();
    }
}

impl Drop for Plain<'_> {
    fn drop(&mut self) {
        self.kill();
        let _ = Command::new("epmd")
            .args(["-port", &self.epmd.to_string(), "-kill"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
