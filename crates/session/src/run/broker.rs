//! The broker under load: started for the run, or attached.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use archive::{BrokerSummary, Topology};
use load::Endpoint;
use measure::{Problem, Time};

use super::RunOptions;
use super::faults::{PlayedFaults, Victim};
use super::recording::Recording;
use crate::brokers::rabbitmq::{self, RabbitMq};
use crate::experiment::{BrokerKind, BrokerSpec, FaultSpec, write_faults};
use crate::guardian;
use crate::listener::Listener;
use crate::{Attached, Error, Experiment, Observer, attach, oauth2, processes, sockets};

/// The embedded broker is ready within milliseconds; this is for a machine that is very busy.
const EMBEDDED_READY: Duration = Duration::from_secs(20);
/// Time to end by itself once its standard input is closed.
const EMBEDDED_STOP: Duration = Duration::from_secs(5);

/// The broker under load. Dropping it ends what was started for the run.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) endpoint: Endpoint,
    /// Its process, where it runs here and could be found.
    pub(crate) pid: Option<u32>,
    pub(crate) runtime: Option<String>,
    pub(crate) shares_this_machine: bool,
    /// Who listens on its port, where it was not started for the run.
    pub(crate) listener: Listener,
    kind: &'static str,
    version: Option<String>,
    handle: Handle,
}

#[derive(Debug)]
enum Handle {
    Managed {
        node: Box<RabbitMq>,
        /// Keeps the access token fresh, where there is one.
        _renewal: Option<oauth2::Renewal>,
    },
    Embedded(Embedded),
    Attached {
        /// Keeps the access token fresh, where there is one.
        _attached: Box<Attached>,
    },
}

impl Broker {
    pub(crate) fn start(
        experiment: &Experiment,
        options: &RunOptions,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        match experiment.broker.kind {
            BrokerKind::Rabbitmq => Self::managed(&experiment.broker, options, control, observer),
            BrokerKind::Embedded => Self::embedded(&experiment.fault, options, observer),
            BrokerKind::Attach => Self::attached(experiment, observer),
        }
    }

    fn managed(
        spec: &BrokerSpec,
        options: &RunOptions,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let config = managed_config(spec, options);
        let mut progress = |text: &str, waited: Duration| match waited {
            Duration::ZERO => observer.step(text),
            _ => observer.waiting(text, waited),
        };
        let node = RabbitMq::start(&config, &mut progress, &|| control.is_stopping())?;
        for note in node.notes() {
            observer.step(note);
        }
        let mut endpoint = node.endpoint()?;
        spec.secure(&mut endpoint);
        if spec.oauth2.is_some() {
            observer.step("asking for an access token");
        }
        let renewal = oauth2::log_in(spec, &mut endpoint)?;
        Ok(Self {
            endpoint,
            pid: Some(node.pid()),
            runtime: Some(node.runtime().to_owned()),
            shares_this_machine: true,
            listener: Listener::default(),
            kind: "rabbitmq",
            version: Some(node.version().to_owned()),
            handle: Handle::Managed {
                node: Box::new(node),
                _renewal: renewal,
            },
        })
    }

    fn embedded(
        faults: &[FaultSpec],
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        observer.step("starting the embedded broker");
        let (embedded, url) = Embedded::start(faults, options)?;
        Ok(Self {
            endpoint: url.parse()?,
            pid: Some(embedded.child.id()),
            runtime: None,
            shares_this_machine: true,
            listener: Listener::default(),
            kind: "embedded",
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            handle: Handle::Embedded(embedded),
        })
    }

    fn attached(experiment: &Experiment, observer: &mut dyn Observer) -> Result<Self, Error> {
        if experiment.broker.oauth2.is_some() {
            observer.step("asking for an access token");
        }
        let attached = attach(&experiment.broker)?;
        let endpoint = attached.endpoint.clone();
        let addresses = sockets::addresses_here(&endpoint.host, endpoint.port);
        let here = !addresses.is_empty();
        let found = match sockets::listening_on(&addresses).as_slice() {
            [one] => Some(*one),
            // Who of them serves us is seen once we are connected.
            _ => None,
        };
        let given = experiment.broker.pid;
        let pid = given.or(found);
        if let Some(pid) = experiment
            .broker
            .pid
            .filter(|pid| processes::stat(*pid).is_none())
        {
            return Err(Problem::new(
                "broker.pid names no process",
                pid,
                "leave it out to find the process by its port",
            )
            .into());
        }
        Ok(Self {
            endpoint,
            pid,
            runtime: None,
            shares_this_machine: here || pid.is_some(),
            listener: Listener { found, given },
            kind: "",
            version: None,
            handle: Handle::Attached {
                _attached: Box::new(attached),
            },
        })
    }

    /// What is known of it before the first connection; an attached broker says more then.
    pub(crate) fn summary(&self) -> BrokerSummary {
        BrokerSummary {
            kind: self.kind.to_owned(),
            version: self.version.clone(),
            pid: self.pid,
        }
    }

    /// As it calls itself: `RabbitMQ 3.10.8`; `None` until it says.
    pub(crate) fn product(&self) -> Option<String> {
        let name = match self.handle {
            Handle::Managed { .. } => "RabbitMQ",
            Handle::Embedded(_) => "bellows embedded broker",
            Handle::Attached { .. } => return None,
        };
        Some(
            format!("{name} {}", self.version.as_deref().unwrap_or_default())
                .trim_end()
                .to_owned(),
        )
    }

    /// Whom faults hit, where the broker is ours to harm.
    pub(crate) fn victim(&mut self) -> Option<Victim<'_>> {
        match &mut self.handle {
            Handle::Managed { node, .. } => Some(Victim::Managed(node)),
            Handle::Embedded(embedded) => Some(Victim::Embedded(&mut embedded.pipe)),
            Handle::Attached { .. } => None,
        }
    }

    /// What the embedded broker did of its faults.
    pub(crate) fn played(&mut self) -> Option<Result<PlayedFaults, String>> {
        match &mut self.handle {
            Handle::Embedded(embedded) => Some(embedded.pipe.report()),
            Handle::Managed { .. } | Handle::Attached { .. } => None,
        }
    }

    /// Queues, exchanges and bindings, where the broker is ours to ask.
    pub(crate) fn topology(&self, recording: &mut Recording<'_>) -> Topology {
        let Handle::Managed { node, .. } = &self.handle else {
            return Topology::default();
        };
        node.topology().unwrap_or_else(|e| {
            recording.note(&format!("the topology could not be read: {e}"));
            Topology::default()
        })
    }

    /// Ends what was started for the run.
    pub(crate) fn stop(self, observer: &mut dyn Observer) {
        let problem = match self.handle {
            Handle::Attached { .. } => None,
            Handle::Managed { node, .. } => {
                observer.step("stopping RabbitMQ");
                node.stop().err().map(|e| e.to_string())
            }
            Handle::Embedded(embedded) => {
                observer.step("stopping the embedded broker");
                drop(embedded);
                None
            }
        };
        if let Some(problem) = problem {
            observer.step(&problem);
        }
    }
}

fn managed_config(spec: &BrokerSpec, options: &RunOptions) -> rabbitmq::Config {
    let mut settings = std::collections::BTreeMap::new();
    flatten("", &mut spec.config.iter(), &mut settings);
    rabbitmq::Config {
        root: spec.root.clone(),
        schedulers: spec.schedulers,
        settings,
        tls: spec.tls,
        plugins: spec.plugins.clone(),
        advanced: spec.advanced.clone(),
        environment: spec.env.clone(),
        emulator_arguments: spec.erlang_args.clone(),
        guard: vec![
            options.bellows_exe.clone().into(),
            guardian::SUBCOMMAND.into(),
        ],
        ..rabbitmq::Config::default()
    }
}

/// Dotted keys of TOML are tables; `rabbitmq.conf` has them as they were written.
fn flatten(
    prefix: &str,
    entries: &mut dyn Iterator<Item = (&String, &toml::Value)>,
    settings: &mut std::collections::BTreeMap<String, String>,
) {
    for (key, value) in entries {
        let path = format!("{prefix}{key}");
        match value {
            toml::Value::Table(table) => {
                flatten(&format!("{path}."), &mut table.iter(), settings);
            }
            toml::Value::String(text) => {
                settings.insert(path, text.clone());
            }
            plain => {
                settings.insert(path, plain.to_string());
            }
        }
    }
}

/// `bellows broker` as a child process, so that it can be profiled apart from the load.
#[derive(Debug)]
struct Embedded {
    child: Child,
    pipe: FaultPipe,
}

/// What is said to the embedded broker, and what it answers.
#[derive(Debug)]
pub(crate) struct FaultPipe {
    /// Closed to end it; by the kernel, where bellows dies.
    stdin: Option<ChildStdin>,
    /// Lines of its standard output.
    lines: mpsc::Receiver<String>,
}

impl FaultPipe {
    fn say(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("the broker is gone")?;
        stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.flush())
            .map_err(|e| format!("the embedded broker does not listen: {e}"))
    }

    /// The faults' times count from here.
    pub(crate) fn begin(&mut self, at: Time) -> Result<(), String> {
        self.say(&format!("begin {}\n", at.0))
    }

    fn report(&mut self) -> Result<PlayedFaults, String> {
        self.say("report\n")?;
        let line = self
            .lines
            .recv_timeout(EMBEDDED_STOP)
            .map_err(|e| format!("the embedded broker does not say what it did: {e}"))?;
        serde_json::from_str(&line).map_err(|e| format!("the embedded broker said {line:?}: {e}"))
    }
}

impl Embedded {
    fn start(faults: &[FaultSpec], options: &RunOptions) -> Result<(Self, String), Error> {
        let exe = options.bellows_exe.display();
        let mut command = Command::new(&options.bellows_exe);
        command.args(["broker", "--listen", "127.0.0.1:0", "--exit-with-stdin"]);
        if !faults.is_empty() {
            command.args(["--fault-script", &write_faults(faults)]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for us; the broker is needed until the drain has ended.
            .process_group(0)
            .spawn()
            .map_err(|e| {
                let cause = format!("cannot start `{exe} broker`");
                Problem::new(cause, e, "see ulimit -u and the file's permissions")
            })?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let (url, lines) = stdout.map_or_else(|| (None, mpsc::channel().1), ready_line);
        let pipe = FaultPipe { stdin, lines };
        let this = Self { child, pipe };
        match url {
            Some(url) => {
                // Whatever it says later must not fill the pipe and stop it.
                thread::spawn(move || std::io::copy(&mut stderr?, &mut std::io::sink()).ok());
                Ok((this, url))
            }
            None => {
                drop(this);
                let mut words = String::new();
                // It has ended, so its last words end too.
                let _ = stderr.map(|stderr| stderr.take(4_096).read_to_string(&mut words));
                Err(Problem {
                    log: words.trim().to_owned(),
                    ..Problem::new(
                        format!("`{exe} broker` did not start"),
                        format!("it was not ready within {} s", EMBEDDED_READY.as_secs()),
                        "see what it said, and whether the machine is too busy",
                    )
                }
                .into())
            }
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.pipe.stdin.take());
        let patience = Instant::now() + EMBEDDED_STOP;
        while Instant::now() < patience {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        // Both fail only where it has ended by itself at last.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of the line `ready amqp://127.0.0.1:PORT`; `None` where it does not come in time.
/// The thread goes on reading until the broker ends, so that the pipe never fills; the lines that
/// follow are in the receiver.
fn ready_line(stdout: impl Read + Send + 'static) -> (Option<String>, mpsc::Receiver<String>) {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Nobody listens any more once the run has ended.
            let _ = send.send(line);
        }
    });
    let line = receive.recv_timeout(EMBEDDED_READY).ok();
    (line.as_deref().and_then(ready_url), receive)
}

fn ready_url(line: &str) -> Option<String> {
    let url = line.strip_prefix("ready ")?.trim();
    let address = url.strip_prefix("amqp://")?;
    address.parse::<SocketAddr>().ok()?;
    Some(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_understood() {
        let read = |text: &'static str| ready_line(text.as_bytes()).0;
        assert_eq!(
            read("ready amqp://127.0.0.1:4567\n").as_deref(),
            Some("amqp://127.0.0.1:4567")
        );
        assert_eq!(read("error: port taken\n"), None);
        assert_eq!(read("ready amqp://nonsense\n"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn settings_are_written_as_in_rabbitmq_conf() {
        let spec: BrokerSpec = toml::from_str(
            "config.vm_memory_high_watermark.absolute = \"2GB\"\nconfig.heartbeat = 60\nconfig.a.b = true",
        )
        .unwrap();
        let mut settings = std::collections::BTreeMap::new();
        flatten("", &mut spec.config.iter(), &mut settings);
        let written: Vec<String> = settings.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        assert_eq!(
            written,
            [
                "a.b = true",
                "heartbeat = 60",
                "vm_memory_high_watermark.absolute = 2GB"
            ]
        );
    }
}
