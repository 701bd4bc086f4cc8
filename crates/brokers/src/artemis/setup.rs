//! The files of an Artemis instance, and how its JVM is started.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::super::{
    BrokerError, log,
    managed::{Launch, Probe, Workspace, accepts, free_ports},
};
use super::install::{ArtemisInstallation, PRODUCT};

/// Time that it may take until it is ready, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Two journal files, ten that it keeps in store, and room for messages, bytes.
pub(super) const NEEDED_SPACE: u64 = 256_000_000;
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
pub(super) fn write(
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
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), directory.into()),
            ("LANG".into(), "C.UTF-8".into()),
        ],
        process_name: "java",
        probes: vec![Probe {
            port,
            answers: accepts,
        }],
        reason: log::tail,
        start_timeout: START_TIMEOUT,
        guard,
    };
    Ok((port, launch))
}

/// The JVM's arguments. The user's come last, so that they win.
fn arguments(
    installation: &ArtemisInstallation,
    directory: &Path,
    further: &[String],
) -> Vec<OsString> {
    let property = |name: &str, path: &Path| {
        let mut text = OsString::from(format!("-D{name}="));
        text.push(path);
        text
    };
    let natives = format!("bin/lib/linux-{}", std::env::consts::ARCH);
    let mut all: Vec<OsString> = JVM.iter().map(OsString::from).collect();
    all.extend([
        property("artemis.home", &installation.home),
        property("artemis.instance", directory),
        property("artemis.instance.etc", &directory.join("etc")),
        property("data.dir", &directory.join("data")),
        property("java.io.tmpdir", &directory.join("tmp")),
        property("java.library.path", &installation.home.join(natives)),
        property(
            "log4j2.configurationFile",
            &directory.join("etc/log4j2.properties"),
        ),
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
