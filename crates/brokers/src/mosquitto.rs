//! Disposable mosquitto brokers: a process with a configuration of its own in a temporary directory, a free port on the
//! loopback interface, no logins. It ends as RabbitMQ's nodes do.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::{BrokerKind, Experiment};
use load::{Ack, Endpoint, Protocol};
use measure::count;

use super::broker::{Registration, Request};
use super::guardian::{self, clean_leftovers};
use super::log::{self, LogFollower};
use super::managed::{Launch, Managed, Probe, Progress, Waiting, Workspace, accepts, free_ports};
use super::rabbitmq::Loader;
use super::{Broker, BrokerError, Fault, Identity, Processes, RabbitMqNodes};

pub(crate) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Mosquitto, start)),
    product: PRODUCT,
    program: "mosquitto",
    folders: &["/usr/sbin", "/usr/local/sbin"],
    install: "apt-get install mosquitto",
    processes: &["mosquitto"],
    installed: |spec| find(spec.root.as_deref()).map(drop),
    programs: |spec| Some(find(spec.root.as_deref()).ok()?.parent()?.to_owned()),
    ..Registration::NONE
};

const PRODUCT: &str = "Mosquitto";
const FILE: &str = "mosquitto.conf";
/// Messages in flight and queued for each client, of its own accord.
const DEFAULT_IN_FLIGHT: u32 = 20;
const DEFAULT_QUEUED: u32 = 1_000;
/// Where the program is, below a prefix or the root directory of another release of Linux.
const PLACES: [&str; 3] = ["sbin/mosquitto", "usr/sbin/mosquitto", "usr/local/sbin/mosquitto"];
/// Lines of its log that name its version.
const FIRST_LINES: usize = 50;
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Its log, bytes.
const NEEDED_SPACE: u64 = 16_000_000;

/// A mosquitto that an experiment has requested. Dropping it ends it.
#[derive(Debug)]
struct Mosquitto {
    process: Managed,
    identity: Identity,
    endpoint: Endpoint,
}

fn start(request: Request<'_>) -> Result<Box<dyn Broker>, BrokerError> {
    let spec = &request.experiment.broker;
    let cancelled = || request.control.is_stopping();
    let mut waiting = Waiting { progress: request.progress, cancelled: &cancelled };
    for sentence in clean_leftovers() {
        waiting.step(&sentence);
    }
    let program = find(spec.root.as_deref())?;
    let workspace = Workspace::new(PRODUCT, None, NEEDED_SPACE)?;
    let [port] = free_ports()?;
    let limits = Limits::of(request.experiment);
    workspace.write(FILE, configuration(request.experiment, port, limits)?.as_bytes())?;
    let file = workspace.directory().join(FILE);
    let (program, arguments) = command(spec.root.as_deref(), program, file)?;
    let launch = Launch {
        product: PRODUCT,
        program,
        arguments,
        environment: vec![("LANG".into(), "C.UTF-8".into())],
        process_name: "",
        probes: vec![Probe { port, answers: accepts }],
        reason: log::tail,
        start_timeout: START_TIMEOUT,
        guard: vec![request.bellows_exe.into(), guardian::SUBCOMMAND.into()],
    };
    let process = workspace.start(launch, "starting Mosquitto", &mut waiting)?;
    let listens = format!("{PRODUCT} listens: MQTT 127.0.0.1:{port}; {}", limits.sentence());
    (waiting.progress)(Progress::Ready(&listens));
    let mut endpoint = Endpoint::new("127.0.0.1", port);
    endpoint.protocol = Protocol::Mqtt;
    spec.secure(&mut endpoint);
    let version = version(&process.log_tail(FIRST_LINES));
    let identity = Identity { kind: spec.kind.name(), product: PRODUCT, version, runtime: None };
    Ok(Box::new(Mosquitto { process, identity, endpoint }))
}

impl Broker for Mosquitto {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        Processes::started(self.process.pid())
    }

    fn inject(&mut self, _node: usize, fault: Fault) -> Result<(), BrokerError> {
        self.process.inject(fault)
    }

    fn starter(&self, _node: usize) -> Option<u32> {
        self.process.starter()
    }

    fn follow_logs(&self) -> Vec<LogFollower> {
        vec![self.process.follow_log()]
    }

    fn logs(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        self.process.stop()
    }
}

impl RabbitMqNodes for Mosquitto {}

/// The program at `root`, or the first that is found: on the path, or where Debian has it.
fn find(root: Option<&Path>) -> Result<PathBuf, BrokerError> {
    let candidates: Vec<PathBuf> = match root {
        Some(root) => PLACES.iter().map(|place| root.join(place)).chain([root.to_owned()]).collect(),
        None => {
            let path = env::var_os("PATH").unwrap_or_default();
            let on_path = env::split_paths(&path).map(|folder| folder.join("mosquitto"));
            on_path.chain(REGISTRATION.folders.iter().map(|folder| Path::new(folder).join("mosquitto"))).collect()
        }
    };
    // A broker works in a directory of its own.
    let found = candidates.iter().find(|it| it.is_file()).and_then(|it| it.canonicalize().ok());
    found.ok_or_else(|| {
        let help = "install it (apt-get install mosquitto), or name its prefix with broker.root";
        BrokerError::not_installed(PRODUCT, &candidates, help)
    })
}

/// Program and arguments. One of another release of Linux begins by that one's loader.
fn command(root: Option<&Path>, program: PathBuf, file: PathBuf) -> Result<(PathBuf, Vec<OsString>), BrokerError> {
    let arguments = ["-c".into(), file.into()];
    let root = root.and_then(|root| root.canonicalize().ok()).filter(|root| root.is_dir());
    let loader = root.map_or(Ok(None), |root| Loader::find(&root, &program))?;
    Ok(match loader {
        None => (program, arguments.into()),
        Some(loader) => {
            let before = ["--library-path".into(), loader.libraries, program.into()];
            (loader.program, before.into_iter().chain(arguments).collect())
        }
    })
}

/// From the first line of its log: `1796129974: mosquitto version 2.0.11 starting`.
fn version(log: &str) -> Option<String> {
    let (_, behind) = log.split_once("mosquitto version ")?;
    behind.split_whitespace().next().map(str::to_owned)
}

/// Messages that the broker lets be in flight, and queues, for each client; 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    in_flight: u32,
    queued: u32,
}

impl Limits {
    /// Its own, but where messages are acknowledged as many as the load's windows, and a queue that drops none.
    fn of(experiment: &Experiment) -> Self {
        let mut limits = Self { in_flight: DEFAULT_IN_FLIGHT, queued: DEFAULT_QUEUED };
        for load in experiment.load.iter().filter(|load| load.mqtt.qos != Some(0)) {
            let window = |is_meant: bool, window: u32| match window {
                _ if !is_meant => 0,
                0 => u32::from(u16::MAX),
                window => window.min(u16::MAX.into()),
            };
            let sent = window(load.has_producers() && load.confirm, load.in_flight_window());
            let is_received = load.has_consumers() && load.consumers.ack != Ack::Auto;
            let received = window(is_received, load.consumers.prefetch.into());
            limits.in_flight = limits.in_flight.max(sent).max(received);
            if is_received {
                limits.queued = 0;
            }
        }
        limits
    }

    fn sentence(self) -> String {
        let queued = if self.queued == 0 { "no limit".to_owned() } else { count(self.queued.into()) };
        format!(
            "max_inflight_messages {} (default {DEFAULT_IN_FLIGHT}), max_queued_messages {queued} (default {})",
            count(self.in_flight.into()),
            count(DEFAULT_QUEUED.into())
        )
    }
}

/// The text of its configuration. The experiment's own settings come in place of these.
fn configuration(experiment: &Experiment, port: u16, limits: Limits) -> Result<String, BrokerError> {
    let own = &experiment.broker.config;
    let mut text = String::new();
    let all = [
        // As root it would become a user that cannot read its files.
        ("user", "root".to_owned()),
        ("log_dest", "stderr".to_owned()),
        ("connection_messages", "false".to_owned()),
        ("max_inflight_messages", limits.in_flight.to_string()),
        ("max_queued_messages", limits.queued.to_string()),
    ];
    let given = own.iter().map(|(key, value)| setting(key, value).map(|value| (key.as_str(), value)));
    let defaults = all.into_iter().filter(|(key, _)| !own.contains_key(*key)).map(Ok);
    for entry in defaults.chain(given) {
        let (key, value) = entry?;
        text.push_str(&format!("{key} {value}\n"));
    }
    text.push_str(&format!("listener {port} 127.0.0.1\nallow_anonymous true\n"));
    Ok(text)
}

/// A setting as its line has it. Errors: a value of several lines or parts.
fn setting(key: &str, value: &toml::Value) -> Result<String, BrokerError> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => value.to_string(),
        toml::Value::Array(_) | toml::Value::Table(_) | toml::Value::Datetime(_) => String::new(),
    };
    let is_word = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_word && !text.is_empty() && !text.contains(char::is_control) {
        return Ok(text);
    }
    let help = "write one text or number per setting of mosquitto.conf, such as max_inflight_messages = 100";
    Err(BrokerError::config(format!("broker.config.{key} is no setting of one line"), "", help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(text: &str) -> Experiment {
        let head = "[broker]\nkind = 'mosquitto'\n";
        Experiment::from_toml(&format!("{head}{text}"), "x.toml").unwrap()
    }

    #[test]
    fn limits_are_raised_where_messages_are_acknowledged_and_the_users_win() {
        let of = |load: &str| Limits::of(&experiment(&format!("[[load]]\ndestination = 'topic://t'\n{load}")));
        assert_eq!(of("qos = 0"), Limits { in_flight: 20, queued: 1_000 });
        assert_eq!(of("rate = 10"), Limits { in_flight: 1_000, queued: 0 });
        assert_eq!(of("max-pending = 5\nprefetch = 0"), Limits { in_flight: 65_535, queued: 0 });
        assert_eq!(of("max-pending = 5\nconsumers = 0"), Limits { in_flight: 20, queued: 1_000 });
        let sentence = of("rate = 10").sentence();
        assert!(sentence.contains("1,000 (default 20)") && sentence.contains("no limit (default 1,000)"), "{sentence}");
        let own = experiment("config = { max_inflight_messages = 7, sys_interval = 1 }\n[[load]]\n");
        let text = configuration(&own, 1_884, Limits::of(&own)).unwrap();
        for line in ["max_inflight_messages 7", "sys_interval 1", "max_queued_messages 0", "listener 1884 127.0.0.1"] {
            assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}: {text}");
        }
        assert_eq!(text.matches("max_inflight_messages").count(), 1, "{text}");
        let wrong = experiment("config = { a = ['b'] }\n[[load]]\n");
        assert!(configuration(&wrong, 1, Limits::of(&wrong)).unwrap_err().problem().sentence().contains("one line"));
    }

    #[test]
    fn the_log_names_the_version_and_a_missing_program_a_remedy() {
        let log = "1796129974: mosquitto version 2.0.11 starting\n1796129974: mosquitto version 2.0.11 running";
        assert_eq!(version(log).as_deref(), Some("2.0.11"));
        assert_eq!(version("1796129974: Error"), None);
        let folder = tempfile::tempdir().unwrap();
        let missing = find(Some(folder.path())).unwrap_err().problem().sentence();
        testkit::assert_has(missing, ["apt-get install mosquitto", "usr/sbin/mosquitto"]);
    }
}
