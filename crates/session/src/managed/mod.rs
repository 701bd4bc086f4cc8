//! Disposable RabbitMQ nodes.
//!
//! [`RabbitMq::start`] starts one from an installation on this machine, apart from everything that
//! is installed or running here: own node name, free ports on the loopback interface, no EPMD,
//! temporary data directory, own cookie, no plugins but those asked for, none of the machine's configuration. It is
//! gone without trace afterwards, whatever ends bellows:
//!
//! * [`RabbitMq::stop`] and `Drop` end it;
//! * a guardian process ([`guard`]) starts the node and watches a pipe from bellows: end of file,
//!   also by `kill -9`, makes it kill the whole process tree and remove the directory;
//! * where the guardian was killed too, the next start does it ([`clean_leftovers`]), from a state
//!   file that tells who owned what.

mod certificates;
mod config;
mod control;
mod error;
pub mod guard;
mod guardian;
mod install;
mod log;
mod node;
mod process;
mod remains;

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use rustix::process::Signal;

pub use certificates::Certificates;
pub use config::Config;
pub use error::Error;
pub use remains::clean_leftovers;

use control::Messenger;
use guardian::{Guardian, Said};
use install::Installation;
use node::Node;
use remains::Remains;

use crate::processes::ProcessId;

/// How often a node that is starting is asked whether it is ready.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Time that a killed emulator may take to be gone, with all its memory.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Tries with other ports, where somebody took one before the node did.
const PORT_ATTEMPTS: u32 = 3;

/// Lines of the log that an error shows.
const TOLD_LINES: usize = 25;

/// A running node. Dropping it stops it.
#[derive(Debug)]
pub struct RabbitMq {
    installation: Installation,
    node: Node,
    remains: Remains,
    guardian: Option<Guardian>,
    /// `None` until it is ready.
    emulator: Option<ProcessId>,
    runtime: String,
    start_timeout: Duration,
}

impl RabbitMq {
    /// Starts a node and waits until it accepts AMQP connections. `progress` gets short sentences;
    /// `cancelled` is asked every few milliseconds whether anybody still wants the node.
    ///
    /// # Errors
    /// Every [`Error`] but [`Error::Control`]; nothing is left behind.
    pub fn start(
        config: &Config,
        progress: &mut dyn FnMut(&str),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        for sentence in clean_leftovers() {
            progress(&sentence);
        }
        let mut attempt = 1;
        loop {
            let installation = Installation::find(config.root.as_deref())?;
            progress(&format!(
                "starting RabbitMQ {} on Erlang/OTP {}",
                installation.version, installation.erlang.release
            ));
            match Self::try_start(config, installation, cancelled) {
                Err(Error::Exited { log, .. })
                    if log.contains("eaddrinuse") && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                    progress("somebody took a port that was free; trying others");
                }
                result => return result,
            }
        }
    }

    fn try_start(
        config: &Config,
        installation: Installation,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let (node, remains) = Node::prepare(config, &installation)?;
        let guardian = match Guardian::start(&config.guard, &node.name, &node.launch()) {
            Ok(guardian) => guardian,
            Err(error) => {
                let _ = remains.remove(None);
                return Err(error);
            }
        };
        let runtime = format!("Erlang/OTP {}", installation.erlang.release);
        let mut broker = Self {
            installation,
            node,
            remains,
            guardian: Some(guardian),
            emulator: None,
            runtime,
            start_timeout: config.start_timeout,
        };
        // From here on, dropping `broker` removes all of it.
        broker.wait_until_ready(config.start_timeout, cancelled)?;
        Ok(broker)
    }

    fn wait_until_ready(
        &mut self,
        timeout: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + timeout;
        let mut started = None;
        loop {
            let said = match &mut self.guardian {
                Some(guardian) => guardian.listen(LOOK_EVERY)?,
                None => Some(Said::Nothing),
            };
            match said {
                Some(Said::Started(id)) => started = Some(id),
                Some(Said::Exited(status)) => {
                    return Err(Error::Exited {
                        status,
                        log: log::reason(&self.node.log(), TOLD_LINES),
                    });
                }
                Some(Said::Failed(reason)) => return Err(Error::Guard(reason)),
                Some(Said::Nothing) => return Err(Error::Guard("it ended by itself".into())),
                None => {}
            }
            let listens = || {
                let secured = self.node.secured.as_ref();
                speaks_amqp(self.node.port) && secured.is_none_or(|(port, _)| accepts(*port))
            };
            if let Some(id) = started.filter(|_| listens()) {
                self.emulator = Some(self.find_emulator(id));
                return Ok(());
            }
            if cancelled() {
                return Err(Error::Cancelled);
            }
            if Instant::now() > deadline {
                return Err(Error::NotReady {
                    waited: timeout,
                    log: self.log_tail(TOLD_LINES),
                });
            }
        }
    }

    /// The start script becomes the emulator; one that starts it as a child is searched for it.
    fn find_emulator(&self, started: ProcessId) -> ProcessId {
        let is_emulator = |id: &ProcessId| {
            let stat = id.stat();
            stat.is_some_and(|stat| stat.command.starts_with("beam"))
        };
        [started]
            .into_iter()
            .chain(process::of_node(&self.node.name, None))
            .find(is_emulator)
            .unwrap_or(started)
    }

    /// Where clients connect: `amqp://guest:guest@127.0.0.1:PORT`, or `amqps://` with
    /// [`Config::tls`].
    #[must_use]
    pub fn url(&self) -> String {
        match &self.node.secured {
            Some((port, _)) => format!("amqps://guest:guest@127.0.0.1:{port}"),
            None => self.plain_url(),
        }
    }

    /// The listener without TLS, which there always is.
    #[must_use]
    pub fn plain_url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}", self.node.port)
    }

    /// [`Self::url`] with the certificates that its clients need.
    ///
    /// # Errors
    /// None; what [`Self::url`] says can be read.
    pub fn endpoint(&self) -> Result<load::Endpoint, load::Error> {
        let mut endpoint: load::Endpoint = self.url().parse()?;
        let secured = self.node.secured.as_ref();
        endpoint.tls = secured.map(|(_, certificates)| certificates.for_clients());
        Ok(endpoint)
    }

    /// The emulator's process (`beam.smp`).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.emulator.map_or(0, |id| id.pid)
    }

    /// RabbitMQ's version: `3.10.8`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.installation.version
    }

    /// What it runs on: `Erlang/OTP 25`.
    #[must_use]
    pub fn runtime(&self) -> &str {
        &self.runtime
    }

    /// What the user should know about how the node was started.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.node.notes
    }

    /// Queues, exchanges and bindings. It costs the node some CPU time, so not in a measured phase.
    ///
    /// # Errors
    /// [`Error::Control`], also where the node does not answer within 20 s.
    pub fn topology(&self) -> Result<archive::Topology, Error> {
        control::topology(
            &self.node,
            &self.installation,
            Messenger::choose(&self.installation),
        )
    }

    /// The last `lines` lines that the node logged.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        log::tail(&self.node.log(), lines)
    }

    /// Stops the emulator's clock (SIGSTOP): a broker that hangs. `false`: it is gone.
    pub fn pause(&self) -> bool {
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT). `false`: it is gone.
    pub fn resume(&self) -> bool {
        self.signal(Signal::CONT)
    }

    /// Kills the emulator (SIGKILL): a broker that crashes. Its files stay until [`Self::stop`].
    /// `false`: it is gone already.
    pub fn kill(&self) -> bool {
        self.signal(Signal::KILL)
    }

    /// A fault of long ago may have killed it, and its number may be anybody's by now.
    fn signal(&self, signal: Signal) -> bool {
        self.emulator.is_some_and(|id| id.signal(signal))
    }

    /// Kills the emulator where it still runs, and starts it once more with the same data, name and
    /// ports. Its pid is another one then. `cancelled` as for [`Self::start`].
    ///
    /// # Errors
    /// As for [`Self::start`]; the node is not running then.
    pub fn restart(&mut self, cancelled: &dyn Fn() -> bool) -> Result<(), Error> {
        self.kill();
        let deadline = Instant::now() + EXIT_TIMEOUT;
        let guardian = self
            .guardian
            .as_mut()
            .ok_or_else(|| Error::Guard("it is gone".into()))?;
        loop {
            match guardian.listen(LOOK_EVERY)? {
                Some(Said::Exited(_)) => break,
                Some(Said::Failed(reason)) => return Err(Error::Guard(reason)),
                Some(Said::Nothing) => return Err(Error::Guard("it ended by itself".into())),
                Some(Said::Started(_)) | None => {}
            }
            if Instant::now() > deadline {
                return Err(Error::Guard("the killed broker does not end".into()));
            }
        }
        guardian.start_again()?;
        self.emulator = None;
        self.wait_until_ready(self.start_timeout, cancelled)
    }

    /// Stops the node at once and removes all of it; nothing is flushed to data that is thrown away.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(guardian) = self.guardian.take() else {
            return Ok(());
        };
        // A guardian that was killed leaves its work to us.
        guardian
            .end()
            .or_else(|_| self.remains.latest().remove(None))
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Whether somebody listens there.
fn accepts(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok()
}

/// Whether a broker answers the protocol header with its first method (a frame of type 1).
fn speaks_amqp(port: u16) -> bool {
    let patience = Duration::from_secs(2);
    let ask = || {
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(b"AMQP\0\0\x09\x01")?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        Ok::<bool, std::io::Error>(kind == [1])
    };
    ask().unwrap_or(false)
}
