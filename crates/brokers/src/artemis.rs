//! Disposable ActiveMQ Artemis brokers: a JVM with an instance of its own in a temporary directory, a free port on the
//! loopback interface for all protocols, nothing of the machine's configuration. It ends as RabbitMQ's nodes do.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use experiment::BrokerKind;
use load::Endpoint;

use super::broker::{Registration, Request};
use super::guardian::{self, clean_leftovers};
use super::log::{self, LogFollower};
use super::managed::{Launch, Managed, Probe, Progress, Waiting, Workspace, accepts, free_ports};
use super::{Broker, BrokerError, Fault, Identity, Processes, RabbitMqNodes};

pub(crate) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Artemis, start)),
    product: PRODUCT,
    program: "artemis",
    folders: &[".tools/artemis/bin", "/opt/artemis/bin", "/opt/activemq-artemis/bin", "/opt/apache-artemis/bin"],
    install: "scripts/setup artemis",
    installed: |spec| ArtemisInstallation::find(spec.root.as_deref()).map(drop),
    programs: |spec| programs(spec.root.as_deref()),
    ..Registration::NONE
};

/// An Artemis that an experiment has requested. Dropping it ends it.
#[derive(Debug)]
struct Artemis {
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
    let installation = ArtemisInstallation::find(spec.root.as_deref())?;
    let workspace = Workspace::new(PRODUCT, None, NEEDED_SPACE)?;
    let guard = vec![request.bellows_exe.into(), guardian::SUBCOMMAND.into()];
    let (port, launch) = write_instance(&installation, &workspace, &spec.java_args, guard)?;
    let what = format!("starting {PRODUCT} {} on {}", installation.version, installation.runtime);
    let process = workspace.start(launch, &what, &mut waiting)?;
    let listens = format!("{PRODUCT} listens: AMQP 1.0 and its other protocols 127.0.0.1:{port}");
    (waiting.progress)(Progress::Ready(&listens));
    let mut endpoint = Endpoint::new("127.0.0.1", port);
    spec.secure(&mut endpoint);
    Ok(Box::new(Artemis {
        process,
        identity: Identity {
            kind: spec.kind.name(),
            product: PRODUCT,
            version: Some(installation.version),
            runtime: Some(installation.runtime),
        },
        endpoint,
    }))
}

impl Broker for Artemis {
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

impl RabbitMqNodes for Artemis {}

const PRODUCT: &str = "ActiveMQ Artemis";
/// Where `scripts/setup artemis` puts it, below a checkout's folder.
const OF_CHECKOUT: &str = ".tools/artemis";
const OF_MACHINE: [&str; 3] = ["/opt/artemis", "/opt/activemq-artemis", "/opt/apache-artemis"];
/// The archive with all that starts it, below an installation.
const BOOT: &str = "lib/artemis-boot.jar";

#[derive(Debug)]
struct ArtemisInstallation {
    /// Has `bin` and `lib`.
    home: PathBuf,
    /// Its version, such as `2.40.0`.
    version: String,
    /// The program that starts a JVM.
    java: PathBuf,
    /// The runtime: `Java 17.0.15`.
    runtime: String,
}

impl ArtemisInstallation {
    /// The one at `root`, or the first of those that are usual.
    fn find(root: Option<&Path>) -> Result<Self, BrokerError> {
        let home = home(root)?;
        let version = version(&home).ok_or_else(|| {
            let cause = format!("{} is an incomplete {PRODUCT}", home.display());
            let help = "unpack it again, or name another with broker.root";
            BrokerError::config(cause, "no artemis-server-VERSION.jar in its lib", help)
        })?;
        let java = java().ok_or_else(|| {
            let looked_for: [PathBuf; 2] = ["$JAVA_HOME/bin/java".into(), "java".into()];
            let help = "install it (apt-get install default-jre-headless), or set JAVA_HOME";
            BrokerError::not_installed("Java", &looked_for, help)
        })?;
        let runtime = java_version(&java).map_or_else(|| "Java".to_owned(), |version| format!("Java {version}"));
        Ok(Self { home, version, java, runtime })
    }

    /// The archive that a JVM starts it from.
    fn boot(&self) -> PathBuf {
        self.home.join(BOOT)
    }
}

/// The folder with the installation's own programs (`artemis`), where there is one.
fn programs(root: Option<&Path>) -> Option<PathBuf> {
    home(root).ok().map(|home| home.join("bin"))
}

fn home(root: Option<&Path>) -> Result<PathBuf, BrokerError> {
    let candidates = root.map_or_else(usual_folders, |root| vec![root.to_owned()]);
    let found = candidates.iter().find(|home| home.join(BOOT).is_file());
    // A broker works in a directory of its own.
    found.and_then(|home| home.canonicalize().ok()).ok_or_else(|| {
        let looked_for: Vec<PathBuf> = candidates.iter().map(|home| home.join(BOOT)).collect();
        let help = "fetch it (scripts/setup artemis), or name its folder with broker.root";
        BrokerError::not_installed(PRODUCT, &looked_for, help)
    })
}

/// Folders where it is looked for: the environment's, our checkout's, that of the program on the path, the machine's.
fn usual_folders() -> Vec<PathBuf> {
    let own = env::current_exe().unwrap_or_default();
    let checkouts = own.ancestors().skip(1).map(|folder| folder.join(OF_CHECKOUT));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path)
        .filter_map(|folder| Some(folder.join("artemis").canonicalize().ok()?.parent()?.parent()?.to_owned()));
    env::var_os("ARTEMIS_HOME")
        .map(PathBuf::from)
        .into_iter()
        .chain([PathBuf::from(OF_CHECKOUT)])
        .chain(checkouts)
        .chain(on_path)
        .chain(OF_MACHINE.map(PathBuf::from))
        .collect()
}

/// From the name of its largest part: `artemis-server-2.40.0.jar`.
fn version(home: &Path) -> Option<String> {
    let files = fs::read_dir(home.join("lib")).ok()?.flatten();
    files.filter_map(|file| file.file_name().into_string().ok()).find_map(|name| {
        let version = name.strip_prefix("artemis-server-")?.strip_suffix(".jar")?;
        version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
    })
}

fn java() -> Option<PathBuf> {
    let of_home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = of_home.into_iter().chain(env::split_paths(&path));
    folders.find_map(|folder| folder.join("java").canonicalize().ok()).filter(|java| java.is_file())
}

/// From the file `release` of its installation: `JAVA_VERSION="17.0.15"`.
fn java_version(java: &Path) -> Option<String> {
    let release = java.parent()?.parent()?.join("release");
    let text = fs::read_to_string(release).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?.trim_matches('"').to_owned())
}

/// Time that it may take until it is ready, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Two journal files, ten that it keeps in store, and room for messages, bytes.
const NEEDED_SPACE: u64 = 256_000_000;
/// Options of the JVM: the release's own, and frame pointers for profiles.
const JVM: [&str; 7] = [
    "-XX:+PreserveFramePointer",
    "-XX:+UseG1GC",
    "-XX:+UseStringDeduplication",
    "-Xms512M",
    "-Xmx2G",
    "-Dlog4j2.disableJmx=true",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
];

/// As `artemis create` makes it, without logins; queues and addresses come with their first use.
const BROKER: &str = r##"<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>bellows</name>
    <security-enabled>false</security-enabled>
    <persistence-enabled>true</persistence-enabled>
    <journal-type>NIO</journal-type>
    <paging-directory>data/paging</paging-directory>
    <bindings-directory>data/bindings</bindings-directory>
    <journal-directory>data/journal</journal-directory>
    <large-messages-directory>data/large-messages</large-messages-directory>
    <max-disk-usage>100</max-disk-usage>
    <acceptors>
      <acceptor name="all">tcp://127.0.0.1:{port}?tcpSendBufferSize=1048576;tcpReceiveBufferSize=1048576;protocols=CORE,AMQP,STOMP,MQTT,OPENWIRE</acceptor>
    </acceptors>
    <address-settings>
      <address-setting match="#">
        <address-full-policy>PAGE</address-full-policy>
        <max-delivery-attempts>-1</max-delivery-attempts>
        <auto-create-queues>true</auto-create-queues>
        <auto-create-addresses>true</auto-create-addresses>
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
      </address-setting>
    </address-settings>
  </core>
</configuration>
"##;

const BOOTSTRAP: &str = r#"<broker xmlns="http://activemq.apache.org/schema">
  <jaas-security domain="activemq"/>
  <server configuration="file:{directory}/etc/broker.xml"/>
</broker>
"#;

const MANAGEMENT: &str = "<management-context xmlns=\"http://activemq.apache.org/schema\"/>\n";

/// All on standard output, which is the broker's log.
const LOGGING: &str = "\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
logger.audit.name = org.apache.activemq.audit
logger.audit.level = OFF
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5level [%logger] %msg%n
";

/// Picks a port and fills the workspace with all that the broker reads.
fn write_instance(
    installation: &ArtemisInstallation,
    workspace: &Workspace,
    java_arguments: &[String],
    guard: Vec<OsString>,
) -> Result<(u16, Launch), BrokerError> {
    let [port] = free_ports()?;
    let directory = workspace.directory();
    for folder in ["etc", "tmp"] {
        let path = directory.join(folder);
        fs::create_dir(&path).map_err(BrokerError::io("create", &path))?;
    }
    let broker = BROKER.replace("{port}", &port.to_string());
    let bootstrap = BOOTSTRAP.replace("{directory}", &directory.display().to_string());
    for (name, text) in [
        ("etc/broker.xml", broker.as_str()),
        ("etc/bootstrap.xml", &bootstrap),
        ("etc/management.xml", MANAGEMENT),
        ("etc/log4j2.properties", LOGGING),
    ] {
        workspace.write(name, text.as_bytes())?;
    }
    let launch = Launch {
        product: PRODUCT,
        program: installation.java.clone(),
        arguments: arguments(installation, directory, java_arguments),
        environment: vec![
            ("PATH".into(), env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), directory.into()),
            ("LANG".into(), "C.UTF-8".into()),
        ],
        process_name: "java",
        probes: vec![Probe { port, answers: accepts }],
        reason: log::tail,
        start_timeout: START_TIMEOUT,
        guard,
    };
    Ok((port, launch))
}

/// The JVM's arguments. The user's come last, so that they win.
fn arguments(installation: &ArtemisInstallation, directory: &Path, further: &[String]) -> Vec<OsString> {
    let property = |name: &str, path: &Path| {
        let mut text = OsString::from(format!("-D{name}="));
        text.push(path);
        text
    };
    let natives = format!("bin/lib/linux-{}", env::consts::ARCH);
    let mut all: Vec<OsString> = JVM.iter().map(OsString::from).collect();
    all.extend([
        property("artemis.home", &installation.home),
        property("artemis.instance", directory),
        property("artemis.instance.etc", &directory.join("etc")),
        property("data.dir", &directory.join("data")),
        property("java.io.tmpdir", &directory.join("tmp")),
        property("java.library.path", &installation.home.join(natives)),
        property("log4j2.configurationFile", &directory.join("etc/log4j2.properties")),
    ]);
    all.extend(further.iter().map(OsString::from));
    all.extend([
        "-classpath".into(),
        installation.boot().into(),
        "org.apache.activemq.artemis.boot.Artemis".into(),
        "run".into(),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_broken_installation_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let missing = ArtemisInstallation::find(Some(dir.path())).unwrap_err().problem().sentence();
        testkit::assert_has(missing, ["scripts/setup artemis", BOOT]);
        fs::create_dir(dir.path().join("lib")).unwrap();
        fs::write(dir.path().join(BOOT), "").unwrap();
        let broken = ArtemisInstallation::find(Some(dir.path())).unwrap_err().problem().sentence();
        assert!(broken.contains("artemis-server-VERSION.jar"), "{broken}");
        fs::write(dir.path().join("lib/artemis-server-2.40.0.jar"), "").unwrap();
        assert_eq!(version(dir.path()).as_deref(), Some("2.40.0"));
    }
}
