//! The embedded broker: `bellows broker` as a child process, so that it can be profiled apart from the load.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use load::Endpoint;
use measure::Problem;

use super::broker::{Registration, Request};
use super::managed::{Progress, Workspace};
use super::{Broker, BrokerError, Certificates, Fault, Identity, PlayedFaults, Processes, RabbitMqNodes};
use experiment::{BrokerKind, FaultSpec, write_faults};

pub(super) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Embedded, start)),
    product: "bellows broker",
    processes: &["bellows", "bellows-broker"],
    subcommand: "broker",
    ..Registration::NONE
};

const PRODUCT: &str = "bellows embedded broker";
/// Room for certificates and keys, bytes.
const NEEDED_SPACE: u64 = 1_000_000;
/// It is ready within milliseconds; this is for a machine that is very busy.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Time to end by itself once its standard input is closed, and to answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

fn start(request: Request<'_>) -> Result<Box<dyn Broker>, BrokerError> {
    let progress = request.progress;
    progress(Progress::Step("starting the embedded broker"));
    let spec = &request.experiment.broker;
    let secure = || {
        let workspace = Workspace::new(PRODUCT, None, NEEDED_SPACE)?;
        let certificates = Certificates::make(workspace.directory())?;
        Ok::<_, BrokerError>((workspace, certificates))
    };
    let secured = spec.tls.then(secure).transpose()?;
    let faults = &request.experiment.fault;
    let mut embedded = Embedded::start(faults, request.bellows_exe, secured)?;
    spec.secure(&mut embedded.endpoint);
    Ok(Box::new(embedded))
}

/// A running embedded broker. Dropping it ends it.
#[derive(Debug)]
struct Embedded {
    endpoint: Endpoint,
    identity: Identity,
    child: Child,
    /// Closed to end it; by the kernel, where bellows dies.
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    /// The keys of its TLS listener, which go with it.
    _workspace: Option<Workspace>,
}

impl Embedded {
    fn start(
        faults: &[FaultSpec],
        bellows: &Path,
        secured: Option<(Workspace, Certificates)>,
    ) -> Result<Self, BrokerError> {
        let exe = bellows.display();
        let mut command = Command::new(bellows);
        command.args(["broker", "--listen", "127.0.0.1:0", "--exit-with-stdin"]);
        if !faults.is_empty() {
            command.args(["--fault-script", &write_faults(faults)]);
        }
        let (workspace, certificates) = secured.unzip();
        if let Some(certificates) = &certificates {
            let (certificate, key) = certificates.server();
            command.args(["--tls-listen", "127.0.0.1:0"]);
            command.arg("--tls-cert").arg(certificate);
            command.arg("--tls-key").arg(key);
            command.arg("--tls-ca").arg(certificates.authority());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for us; the broker is needed until the drain has ended.
            .process_group(0)
            .spawn()
            .map_err(|e| {
                Problem::new(format!("cannot start `{exe} broker`"), e, "see ulimit -u and the file's permissions")
            })?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let scheme = certificates.as_ref().map_or("amqp", |_| "amqps");
        let (url, lines) = match child.stdout.take() {
            Some(stdout) => ready_line(stdout, scheme),
            None => (None, mpsc::channel().1),
        };
        let mut this = Self {
            endpoint: Endpoint::new("127.0.0.1", Endpoint::DEFAULT_PORT),
            identity: Identity {
                kind: BrokerKind::Embedded.name(),
                product: PRODUCT,
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                runtime: None,
            },
            child,
            stdin,
            lines,
            _workspace: workspace,
        };
        let Some(url) = url else {
            drop(this);
            let mut words = String::new();
            // It has ended, so its last words end too.
            let _ = stderr.map(|stderr| stderr.take(4_096).read_to_string(&mut words));
            let problem = Problem::new(
                format!("`{exe} broker` did not start"),
                format!("it was not ready within {} s", START_TIMEOUT.as_secs()),
                "check its output, and whether the machine is too busy",
            );
            return Err(problem.logged(words.trim()).into());
        };
        // Whatever it says later must not fill the pipe and stop it.
        thread::spawn(move || std::io::copy(&mut stderr?, &mut std::io::sink()).ok());
        this.endpoint = url.parse()?;
        this.endpoint.tls = certificates.as_ref().map(Certificates::for_clients);
        Ok(this)
    }

    fn say(&mut self, line: &str) -> Result<(), BrokerError> {
        let stdin = self.stdin.as_mut();
        let said = stdin.map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
        match said {
            Some(Ok(())) => Ok(()),
            Some(Err(e)) => Err(BrokerError::Fault(format!("the embedded broker does not listen: {e}"))),
            None => Err(BrokerError::Fault("the embedded broker is gone".into())),
        }
    }
}

impl Broker for Embedded {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        Processes::started(Some(self.child.id()))
    }

    fn inject(&mut self, _node: usize, fault: Fault) -> Result<(), BrokerError> {
        match fault {
            Fault::Begin(at) => self.say(&format!("begin {}\n", at.0)),
            _ => Err(BrokerError::Fault("the embedded broker plays its faults by itself".into())),
        }
    }

    fn played_faults(&mut self) -> Result<Option<PlayedFaults>, BrokerError> {
        self.say("report\n")?;
        let line = self
            .lines
            .recv_timeout(STOP_TIMEOUT)
            .map_err(|e| BrokerError::Fault(format!("the embedded broker does not say what it did: {e}")))?;
        let played = serde_json::from_str(&line)
            .map_err(|e| BrokerError::Fault(format!("the embedded broker said {line:?}: {e}")))?;
        Ok(Some(played))
    }
}

impl RabbitMqNodes for Embedded {}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
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

/// The address of the line `ready amqp://127.0.0.1:PORT`, or of another scheme; `None` where it is late. The thread
/// reads until the broker ends, so that the pipe never fills; further lines are in the receiver.
fn ready_line(stdout: impl Read + Send + 'static, scheme: &str) -> (Option<String>, mpsc::Receiver<String>) {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Nobody listens any more once the run has ended.
            let _ = send.send(line);
        }
    });
    let deadline = Instant::now() + START_TIMEOUT;
    while let Ok(line) = receive.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        let Some((found, address)) = ready_url(&line) else { break };
        if found == scheme {
            return (Some(format!("{found}://{address}")), receive);
        }
    }
    (None, receive)
}

/// Scheme and address of a line `ready amqp://127.0.0.1:PORT`.
fn ready_url(line: &str) -> Option<(&str, SocketAddr)> {
    let (scheme, address) = line.strip_prefix("ready ")?.trim().split_once("://")?;
    Some((scheme, address.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_understood() {
        let read = |text: &'static str| ready_line(text.as_bytes(), "amqp").0;
        assert_eq!(read("ready amqp://127.0.0.1:4567\n").as_deref(), Some("amqp://127.0.0.1:4567"));
        assert_eq!(read("error: port taken\n"), None);
        assert_eq!(read("ready amqp://nonsense\n"), None);
        assert_eq!(read(""), None);
        let both = "ready amqp://127.0.0.1:1\nready amqps://127.0.0.1:2\n";
        let secured = ready_line(both.as_bytes(), "amqps").0;
        assert_eq!(secured.as_deref(), Some("amqps://127.0.0.1:2"));
        assert_eq!(ready_line("ready amqp://127.0.0.1:1\n".as_bytes(), "amqps").0, None);
    }
}
