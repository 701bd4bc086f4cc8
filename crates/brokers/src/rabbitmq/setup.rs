//! A node's files, ports and environment, so that nothing of the machine's own RabbitMQ leaks in.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use erlang::{ConnectOptions, Cookie};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::checkout::{self, Patch};
use super::install::{Erlang, Installation, PRODUCT};
use super::loader::{Loader, interpreter};
use super::members::Membership;
use super::{Config, START_TIMEOUT};
use crate::BrokerError;
use crate::certificates::Certificates;
use crate::guardian::{MARKER, guarded_directories, private_file, random_hex};
use crate::log::read;
use crate::managed::{Launch, Probe, Workspace, accepts, free_ports};

/// `vm_memory_high_watermark` of the reference experiment, bytes.
const MEMORY_LIMIT: u64 = 15_000_000_000;

/// `credit_flow_default_credit` of the reference experiment: four times RabbitMQ's own.
const CREDIT_FLOW: &str = "{1600,800}";

/// Free space below which the node would block its publishers, bytes; and what a node needs.
const DISK_FREE_LIMIT: u64 = 50_000_000;
pub(super) const NEEDED_SPACE: u64 = 256_000_000;

/// The folder with the node's data in its directory.
pub(super) const DATA: &str = "data";

/// Settings that bellows must know the values of.
const OWN_SETTINGS: [&str; 5] = ["listeners.tcp", "listeners.ssl", "default_user", "default_pass", "default_vhost"];

/// The plugin behind SASL EXTERNAL.
const LOGIN_BY_CERTIFICATE: &str = "rabbitmq_auth_mechanism_ssl";

/// Everything about a node that is settled before it runs.
#[derive(Debug)]
pub(super) struct Setup {
    /// The node's unique name.
    pub(super) name: String,
    /// Its Erlang name, where data is bound to one.
    bound_name: Option<String>,
    pub(super) directory: PathBuf,
    pub(super) port: u16,
    /// AMQP over TLS, where it is requested.
    pub(super) secured: Option<(u16, Certificates)>,
    /// Where Erlang's distribution listens: for the control commands, and for the other nodes of a cluster.
    pub(super) control_address: SocketAddrV4,
    /// Its place in a cluster; `None` where it is alone.
    membership: Option<Membership>,
    /// Applications of Erlang whose programs were replaced.
    applications: Option<PathBuf>,
    /// `ERL_EPMD_PORT`, whose default would lead to the machine's own EPMD.
    no_epmd: RefusingPort,
    pub(super) notes: Vec<String>,
    /// Modules in place of its own.
    pub(super) patch: Option<Patch>,
}

impl Setup {
    /// Picks ports, and fills the workspace with all that the node reads.
    pub(super) fn write(
        config: &Config,
        installation: &Installation,
        workspace: &Workspace,
        membership: Option<Membership>,
    ) -> Result<(Self, Launch), BrokerError> {
        let [port, control_port, tls_port] = free_ports()?;
        let alone = SocketAddrV4::new(Ipv4Addr::LOCALHOST, control_port);
        let mut setup = Self {
            name: workspace.name().to_owned(),
            bound_name: config.data.as_ref().map(|data| data.node.clone()),
            directory: workspace.directory().to_owned(),
            port,
            secured: None,
            control_address: membership.as_ref().map_or(alone, |it| it.listens_on),
            membership,
            applications: None,
            no_epmd: RefusingPort::reserve().map_err(BrokerError::io("find a free port on", "127.0.0.1"))?,
            notes: Vec::new(),
            patch: None,
        };
        setup.fill(config, installation, workspace, tls_port)?;
        let scripts = match &installation.checkout {
            Some(checkout) => checkout.furnish(&setup.directory)?,
            None => installation.scripts.clone(),
        };
        let arguments = setup.emulator_arguments(config, installation);
        let mut probes = vec![Probe { port, answers: speaks_amqp }];
        let secured = setup.secured.as_ref();
        probes.extend(secured.map(|(port, _)| Probe { port: *port, answers: accepts }));
        let launch = Launch {
            product: PRODUCT,
            program: scripts.join("rabbitmq-server"),
            arguments: Vec::new(),
            environment: setup.environment(config, installation, &arguments),
            process_name: "beam",
            probes,
            reason,
            start_timeout: config.start_timeout.unwrap_or(START_TIMEOUT),
            guard: config.guard.clone(),
        };
        Ok((setup, launch))
    }

    pub(super) fn erlang_name(&self) -> String {
        let own = || format!("{}@localhost", self.name);
        let alone = || self.bound_name.clone().unwrap_or_else(own);
        self.membership.as_ref().map_or_else(alone, Membership::name)
    }

    fn fill(
        &mut self,
        config: &Config,
        installation: &Installation,
        workspace: &Workspace,
        tls_port: u16,
    ) -> Result<(), BrokerError> {
        let directory = &self.directory;
        let write = |name: &str, text: &str| workspace.write(name, text.as_bytes());
        let of_cluster = self.membership.as_ref().map(|it| it.cookie.clone());
        write(COOKIE, &of_cluster.map_or_else(|| random_hex(20), Ok)?)?;
        let cookie = directory.join(COOKIE);
        // Erlang refuses a cookie file that others can read; its own are read-only.
        fs::set_permissions(&cookie, Permissions::from_mode(0o400)).map_err(BrokerError::io("protect", &cookie))?;
        let reached = StartedNode {
            name: self.erlang_name(),
            host: self.control_address.ip().to_string(),
            port: self.control_address.port(),
            network: network(),
        };
        write(NODE_FILE, &serde_json::to_string(&reached).unwrap_or_default())?;
        let mut plugins: Vec<&str> = config.plugins.iter().map(String::as_str).collect();
        if config.tls && !plugins.contains(&LOGIN_BY_CERTIFICATE) {
            plugins.push(LOGIN_BY_CERTIFICATE);
        }
        write("enabled_plugins", &format!("[{}].\n", plugins.join(", ")))?;
        write("base.config", &base_config(self.membership.as_ref()))?;
        let mut lines = String::new();
        if config.tls {
            let certificates = Certificates::make(directory)?;
            lines.push_str(&tls_settings(&certificates, tls_port));
            self.secured = Some((tls_port, certificates));
        }
        for (key, value) in &config.settings {
            let _ = writeln!(lines, "{key} = {value}");
        }
        if !lines.is_empty() {
            write("rabbitmq.conf", &lines)?;
        }
        if let Some(advanced) = &config.advanced {
            write("advanced.config", advanced)?;
        }
        self.patch = link_modules(installation, directory, config.patch.as_deref())?;
        if installation.erlang.relocated || self.membership.is_some() {
            let port = self.control_address.port();
            self.applications = write_starters(&installation.erlang, directory, port)?;
        }
        Ok(())
    }

    /// The emulator's arguments. They are split at blanks by RabbitMQ's script, so files are named
    /// relative to the node's directory, which is its working directory.
    fn emulator_arguments(&mut self, config: &Config, installation: &Installation) -> String {
        let erlang = &installation.erlang;
        let mut arguments = format!(
            // With a name of its own from the start, the node neither starts nor asks an EPMD: both sides get the port.
            "{} {} -start_epmd false -erl_epmd_port {} -config base -pa ebin",
            self.membership.as_ref().map_or("-sname", |_| "-name"),
            self.erlang_name(),
            self.control_address.port()
        );
        if erlang.supports_perf() {
            // `true` would add a dump of 45 MB that nobody reads; both give frame pointers.
            arguments.push_str(" +JPperf map");
        } else {
            self.notes.push(format!(
                "Erlang/OTP {} has no JIT with perf support (OTP 25 or later on x86-64 and ARM64 \
                 has), so the profile cannot name Erlang functions",
                erlang.release
            ));
        }
        if let Some(schedulers) = config.schedulers {
            let _ = write!(arguments, " +S {schedulers}");
        }
        for argument in &config.emulator_arguments {
            let _ = write!(arguments, " {argument}");
        }
        arguments
    }

    /// The whole environment of the node: nothing but this comes through.
    fn environment(&self, config: &Config, installation: &Installation, arguments: &str) -> Vec<(OsString, OsString)> {
        let at = |name: &str| self.directory.join(name).into_os_string();
        // The user's come first, so that ours win.
        let mut environment: Vec<(OsString, OsString)> = config
            .environment
            .iter()
            .map(|(key, value)| (key.into(), value.into()))
            .chain(self.control_environment(installation))
            .collect();
        let mut set = |key: &str, value: OsString| environment.push((key.into(), value));
        // Makes the script become the emulator instead of waiting for it.
        set("RUNNING_UNDER_SYSTEMD", "true".into());
        // A node that fails says why in its log; a dump would only take time.
        set("ERL_CRASH_DUMP_SECONDS", "0".into());
        set("RABBITMQ_NODE_PORT", self.port.to_string().into());
        set("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".into());
        let port = self.control_address.port();
        set("RABBITMQ_DIST_PORT", port.to_string().into());
        // Else derived from the place of a module, which is a link's.
        set("RABBITMQ_PLUGINS_DIR", installation.plugins.clone().into());
        set("RABBITMQ_CONFIG_FILE", at("rabbitmq"));
        set("RABBITMQ_CONFIG_FILES", at("conf.d"));
        set("RABBITMQ_ADVANCED_CONFIG_FILE", at("advanced.config"));
        let data = match &self.bound_name {
            // Streams and quorum queues note their files' place: each node means its own directory by this name.
            Some(_) => Path::new("/proc/self/cwd").join(DATA).into_os_string(),
            None => at(DATA),
        };
        set("RABBITMQ_MNESIA_BASE", data);
        set("RABBITMQ_LOG_BASE", at("log"));
        set("RABBITMQ_LOGS", "-".into());
        set("RABBITMQ_ENABLED_PLUGINS_FILE", at("enabled_plugins"));
        set("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", arguments.into());
        if let Some(patch) = &self.patch {
            // Stands before all that RabbitMQ's script gives.
            let users = config.environment.get("ERL_AFLAGS");
            let users = users.map_or(String::new(), |users| format!(" {users}"));
            set("ERL_AFLAGS", (patch.arguments.clone() + &users).into());
        }
        if let Some(applications) = &self.applications {
            let mut libraries = applications.clone().into_os_string();
            if let Some(users) = config.environment.get("ERL_LIBS") {
                libraries.push(":");
                libraries.push(users);
            }
            set("ERL_LIBS", libraries);
        }
        environment
    }

    /// Variables that control commands share with the node.
    pub(super) fn control_environment(&self, installation: &Installation) -> Vec<(OsString, OsString)> {
        let mut path = self.directory.join(STARTERS).into_os_string();
        path.push(":");
        path.push(&installation.erlang.path);
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            // Erlang reads the cookie there.
            ("HOME".into(), self.directory.clone().into()),
            ("LANG".into(), "C.UTF-8".into()),
            (MARKER.into(), self.name.clone().into()),
            ("RABBITMQ_NODENAME".into(), self.erlang_name().into()),
            ("ERL_EPMD_PORT".into(), self.no_epmd.port.to_string().into()),
            // Must name something that does not exist, or /etc/rabbitmq/rabbitmq-env.conf is read.
            ("RABBITMQ_CONF_ENV_FILE".into(), self.directory.join("none").into()),
        ];
        if self.membership.is_some() {
            // Its host is an address.
            environment.push(("RABBITMQ_USE_LONGNAME".into(), "true".into()));
        }
        if let Some(libraries) = env::var_os("LD_LIBRARY_PATH") {
            environment.push(("LD_LIBRARY_PATH".into(), libraries));
        }
        environment
    }
}

/// Lines of `rabbitmq.conf`: a listener that asks for a certificate and does without, and a login by its common name.
fn tls_settings(certificates: &Certificates, port: u16) -> String {
    let (certificate, key) = certificates.server();
    format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\n\
         ssl_options.cacertfile = {}\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.verify = verify_peer\n\
         ssl_options.fail_if_no_peer_cert = false\n\
         ssl_cert_login_from = common_name\n\
         auth_mechanisms.1 = PLAIN\n\
         auth_mechanisms.2 = AMQPLAIN\n\
         auth_mechanisms.3 = EXTERNAL\n",
        certificates.authority().display(),
        certificate.display(),
        key.display(),
    )
}

/// The guards of the reference experiment, and loopback for everything. The user's files are read later and win.
fn base_config(membership: Option<&Membership>) -> String {
    let memory = MEMORY_LIMIT.min(linux::machine::usable_memory_bytes() / 10 * 6);
    let alone = || "{inet_dist_use_interface, {127,0,0,1}}".to_owned();
    let kernel = membership.map_or_else(alone, Membership::kernel_settings);
    let cluster = membership.map_or_else(String::new, Membership::rabbit_settings);
    format!(
        "[{{kernel, [{kernel}]}},\n \
          {{rabbit, [{{vm_memory_high_watermark, {{absolute, {memory}}}}},\n           \
                     {{credit_flow_default_credit, {CREDIT_FLOW}}},\n           \
                     {cluster}{{disk_free_limit, {DISK_FREE_LIMIT}}}]}}].\n"
    )
}

/// Makes one directory, `ebin`, with links to all modules, which Erlang otherwise looks for 50,000 times in vain, a
/// third of the node's start; those of a patch first, which are returned. The links go through short ones (`l/0`): one
/// of 60 bytes or more takes a disk block on ext4, whose removal can take milliseconds.
fn link_modules(installation: &Installation, node: &Path, patch: Option<&Path>) -> Result<Option<Patch>, BrokerError> {
    let (ebin, shortcuts) = (node.join("ebin"), node.join("l"));
    for directory in [&ebin, &shortcuts] {
        fs::create_dir(directory).map_err(BrokerError::io("create", directory))?;
    }
    let patched = patch.map(|patch| checkout::apply_patch(patch, node)).transpose()?;
    for (number, directory) in installation.module_directories().into_iter().enumerate() {
        let shortcut = shortcuts.join(number.to_string());
        symlink(&directory, &shortcut).map_err(BrokerError::io("create", &shortcut))?;
        for entry in fs::read_dir(&directory).map_err(BrokerError::io("read", &directory))?.flatten() {
            let name = entry.file_name();
            let target = Path::new("../l").join(number.to_string()).join(&name);
            if target.extension().is_some_and(|extension| extension == "beam") {
                // A module that is there already came from an application before this one.
                let _ = symlink(target, ebin.join(name));
            }
        }
    }
    Ok(patched)
}

/// Refuses what would break the node's isolation.
pub(super) fn check(config: &Config) -> Result<(), BrokerError> {
    for (key, value) in &config.settings {
        if OWN_SETTINGS.iter().any(|own| key.starts_with(own)) {
            let value = "bellows connects to a managed node as guest, to / on 127.0.0.1 and a free port";
            let help = "leave it out, or attach to a node of your own";
            return Err(BrokerError::config(format!("broker.config: {key} cannot be set"), value, help));
        }
        if key.is_empty() || key.contains(['\n', '=', '#']) || value.contains('\n') {
            let cause = "broker.config has an entry that rabbitmq.conf cannot hold";
            let help = "write a key without = and #, and a value without line breaks";
            return Err(BrokerError::config(cause, format!("{key:?} = {value:?}"), help));
        }
    }
    for argument in &config.emulator_arguments {
        if argument.is_empty() || argument.contains(char::is_whitespace) {
            let cause = "RabbitMQ's script splits arguments of the emulator at blanks";
            let help = "give each word by itself, or put the setting into advanced.config";
            return Err(BrokerError::config(cause, format!("{argument:?}"), help));
        }
    }
    if config.schedulers == Some(0) {
        let help = "give at least 1";
        return Err(BrokerError::config("a node without schedulers cannot run", "broker.schedulers is 0", help));
    }
    Ok(())
}

/// A port that refuses every connection at once, and that nobody can listen on: a socket that is bound and does not
/// listen. RabbitMQ asks an EPMD for names and tries to start one: a port that accepts and says nothing costs ten
/// seconds of time-outs, and on a free one an EPMD would be left behind.
#[derive(Debug)]
struct RefusingPort {
    port: u16,
    _socket: OwnedFd,
}

impl RefusingPort {
    fn reserve() -> std::io::Result<Self> {
        // Without `SO_REUSEADDR`, which the standard library's listeners set.
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = SocketAddrV4::try_from(net::getsockname(&socket)?)?;
        Ok(Self { port: address.port(), _socket: socket })
    }
}

/// Whether a broker answers the protocol header with its first method (a frame of type 1).
fn speaks_amqp(port: u16) -> bool {
    let timeout = Duration::from_secs(2);
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(b"AMQP\0\0\x09\x01")?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        Ok::<bool, std::io::Error>(kind == [1])
    };
    ask().unwrap_or(false)
}

/// At most `lines` lines that say why a node ended: from the first error on, without crash reports that repeat it.
fn reason(log: &Path, lines: usize) -> String {
    reason_in(&read(log), lines)
}

fn reason_in(text: &str, lines: usize) -> String {
    let told: Vec<&str> = text.lines().filter(|line| !is_noise(line)).collect();
    let is_stamped = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let first_error = told.iter().position(|line| line.contains(" [error] "));
    let first = match first_error {
        Some(error) => error,
        // The emulator refused to start, said why, and explained all of its options.
        None if !told.iter().any(is_stamped) => 0,
        None => told.len().saturating_sub(lines),
    };
    told.into_iter().skip(first).take(lines).collect::<Vec<_>>().join("\n")
}

/// Empty lines, and those of crash reports: they are indented, or come from the emulator's end.
fn is_noise(line: &str) -> bool {
    let message = line
        .split_once(" [error] <")
        .map_or(line, |(_, rest)| rest.split_once("> ").map_or("", |(_, message)| message));
    message.trim().is_empty()
        || (message.len() < line.len() && message.starts_with("   "))
        || ["  crasher:", "  neighbours:", "Kernel pid terminated", "{\"Kernel pid", "Crash dump"]
            .iter()
            .any(|noise| message.starts_with(noise))
}

/// Erlang's file with the node's cookie, in its home directory.
pub(super) const COOKIE: &str = ".erlang.cookie";
/// The file in a node's directory that says how it is reached.
const NODE_FILE: &str = "erlang-node.json";

/// How a node is reached; its cookie stands beside it.
#[derive(Debug, Serialize, Deserialize)]
struct StartedNode {
    name: String,
    host: String,
    port: u16,
    /// The network that this address is of, as [`network`] tells it.
    #[serde(default)]
    network: String,
}

/// The network namespace of this process; empty where the system does not tell.
fn network() -> String {
    fs::read_link("/proc/self/ns/net").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Every node that a bellows of this user has started and that has not ended, by name.
pub fn started_nodes() -> Vec<ConnectOptions> {
    let directories = guarded_directories();
    let mut nodes: Vec<ConnectOptions> = directories.iter().filter_map(|it| read_node(it)).collect();
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    nodes
}

/// The directory of a node that a bellows of this user has started and that has not ended, by its name.
pub fn node_directory(node: &str) -> Option<PathBuf> {
    let mut directories = guarded_directories().into_iter();
    directories.find(|it| read_node(it).is_some_and(|options| options.node.as_str() == node))
}

/// Reads a directory's node; `None` for other brokers, for one that begins or ends, and in another network namespace.
fn read_node(directory: &Path) -> Option<ConnectOptions> {
    let text = fs::read(directory.join(NODE_FILE)).ok()?;
    let node: StartedNode = serde_json::from_slice(&text).ok()?;
    if node.network != network() {
        return None;
    }
    let cookie = Cookie::read(&directory.join(COOKIE)).ok()?;
    let mut options = ConnectOptions::new(node.name.parse().ok()?, cookie);
    options.address = Some((node.host, node.port));
    Some(options)
}

/// Directory of programs that the node finds first.
const STARTERS: &str = "bin";
/// Directory of Erlang's applications that have programs of their own.
const APPLICATIONS: &str = "lib";
/// Links to the loader, each called like the program it starts: the kernel names a process after the executed file.
const LOADERS: &str = "loaders";

/// Makes the node's `bin`, which Erlang searches first (`BINDIR`): the emulator's programs, and an `erl` that starts
/// Erlang where it is now, by the loader of its root if need be. Nodes that the node starts, as RabbitMQ 4 does, use
/// `port` and do not listen. Returns what `ERL_LIBS` has to name, so that applications find programs with a loader.
fn write_starters(erlang: &Erlang, node: &Path, port: u16) -> Result<Option<PathBuf>, BrokerError> {
    let starters = Starters { node, loader: erlang.loader.as_ref() };
    let directory = node.join(STARTERS);
    starters.copy(&erlang.emulator_directory, &directory, &["erl"])?;
    write_script(&directory.join("erl"), &erl(erlang, &directory, port))?;
    starters.copy_applications(&erlang.root.join("lib"))
}

/// Where programs are replaced by scripts that start them.
struct Starters<'a> {
    node: &'a Path,
    loader: Option<&'a Loader>,
}

impl Starters<'_> {
    /// Makes a directory with all that `from` has, but some: links, and scripts for programs that need the loader.
    fn copy(&self, from: &Path, to: &Path, but: &[&str]) -> Result<(), BrokerError> {
        fs::create_dir_all(to).map_err(BrokerError::io("create", to))?;
        for entry in fs::read_dir(from).map_err(BrokerError::io("read", from))? {
            let entry = entry.map_err(BrokerError::io("read", from))?;
            let (name, original) = (entry.file_name(), entry.path());
            if but.iter().any(|it| name == *it) {
                continue;
            }
            let to = to.join(name);
            match self.loader.filter(|_| interpreter(&original).is_some()) {
                Some(loader) => self.write_wrapper(loader, &original, &to)?,
                None => symlink(&original, &to).map_err(BrokerError::io("create", &to))?,
            }
        }
        Ok(())
    }

    /// Does so for every application with programs in its `priv/bin`, as `os_mon` has.
    fn copy_applications(&self, libraries: &Path) -> Result<Option<PathBuf>, BrokerError> {
        if self.loader.is_none() {
            return Ok(None);
        }
        let mut made = None;
        for entry in fs::read_dir(libraries).into_iter().flatten().flatten() {
            let from = entry.path();
            let (private, programs) = (from.join("priv"), from.join("priv/bin"));
            let mut files = fs::read_dir(&programs).into_iter().flatten().flatten();
            if !files.any(|file| interpreter(&file.path()).is_some()) {
                continue;
            }
            let directory = self.node.join(APPLICATIONS);
            let to = directory.join(entry.file_name());
            self.copy(&from, &to, &["priv"])?;
            self.copy(&private, &to.join("priv"), &["bin"])?;
            self.copy(&programs, &to.join("priv/bin"), &[])?;
            made = Some(directory);
        }
        Ok(made)
    }

    /// Writes a script that becomes a program through the loader: its process keeps number, environment and open files.
    fn write_wrapper(&self, loader: &Loader, program: &Path, wrapper: &Path) -> Result<(), BrokerError> {
        let links = self.node.join(LOADERS);
        fs::create_dir_all(&links).map_err(BrokerError::io("create", &links))?;
        let link = links.join(program.file_name().unwrap_or_default());
        match symlink(&loader.program, &link) {
            // Another application has a program of this name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(BrokerError::io("create", &link))?,
        }
        let mut text = b"#!/bin/sh\nexec ".to_vec();
        text.extend(quoted(link.as_os_str()));
        text.extend(b" --library-path ");
        text.extend(quoted(&loader.libraries));
        text.push(b' ');
        text.extend(quoted(program.as_os_str()));
        text.extend(b" \"$@\"\n");
        write_script(wrapper, &text)
    }
}

/// The text of `erl`. A node of its own from the start is told about an EPMD; one that is not is somebody's helper.
fn erl(erlang: &Erlang, directory: &Path, port: u16) -> Vec<u8> {
    let mut text = b"#!/bin/sh\nROOTDIR=".to_vec();
    text.extend(quoted(erlang.root.as_os_str()));
    text.extend(b" BINDIR=");
    text.extend(quoted(directory.as_os_str()));
    text.extend(b" EMU=beam PROGNAME=erl\nexport ROOTDIR BINDIR EMU PROGNAME\ncase \" $* \" in\n");
    text.extend(b"*' -start_epmd '*) ;;\n");
    let helper = format!("-start_epmd false -erl_epmd_port {port} -dist_listen false");
    text.extend(format!("*) set -- \"$@\" {helper} ;;\nesac\n").into_bytes());
    text.extend(b"exec \"$BINDIR/erlexec\" \"$@\"\n");
    text
}

fn write_script(path: &Path, text: &[u8]) -> Result<(), BrokerError> {
    private_file(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(BrokerError::io("protect", path))
}

/// One word of a shell.
fn quoted(text: &OsStr) -> Vec<u8> {
    let mut word = vec![b'\''];
    for &byte in text.as_bytes() {
        match byte {
            b'\'' => word.extend(br"'\''"),
            other => word.push(other),
        }
    }
    word.push(b'\'');
    word
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn refused(config: &Config) -> String {
        check(config).unwrap_err().problem().sentence()
    }

    #[test]
    fn settings_that_would_break_the_isolation_are_refused() {
        let with = |key: &str, value: &str| Config {
            settings: [(key.to_owned(), value.to_owned())].into(),
            ..Config::default()
        };
        assert!(check(&with("channel_max", "100")).is_ok());
        assert!(refused(&with("listeners.tcp.default", "5672")).contains("listeners.tcp.default"));
        assert!(refused(&with("a", "1\nlisteners.tcp.1 = 1")).contains("cannot hold"));
        let words = Config { emulator_arguments: vec!["+S 4".into()], ..Config::default() };
        assert!(refused(&words).contains("at blanks"));
        assert!(refused(&Config { schedulers: Some(0), ..Config::default() }).contains("at least 1"));
    }

    #[test]
    fn an_epmd_can_neither_be_reached_nor_started_on_a_port_that_refuses() {
        let reserved = RefusingPort::reserve().unwrap();
        let at = |address| TcpListener::bind((address, reserved.port)).unwrap_err().kind();
        assert_eq!(at(Ipv4Addr::LOCALHOST), ErrorKind::AddrInUse);
        assert_eq!(at(Ipv4Addr::UNSPECIFIED), ErrorKind::AddrInUse);
        let began = std::time::Instant::now();
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, reserved.port));
        let refused = refused.unwrap_err().kind();
        assert_eq!(refused, ErrorKind::ConnectionRefused);
        assert!(began.elapsed() < Duration::from_secs(1));
        // The real one, in the foreground.
        let mut epmd = std::process::Command::new("epmd").args(["-port", &reserved.port.to_string()]).spawn().unwrap();
        let deadline = began + Duration::from_secs(10);
        while epmd.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > deadline {
                epmd.kill().unwrap();
                panic!("an EPMD listens on port {}", reserved.port);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    const BROKEN: &str = include_str!("../../tests/data/broken.log");

    #[test]
    fn the_reason_is_what_comes_before_the_crash_reports_or_the_end() {
        let reason = reason_in(BROKEN, 10);
        let lines: Vec<&str> = reason.lines().collect();
        assert_eq!(lines.len(), 3, "{reason}");
        assert!(lines[0].ends_with("transform_datatypes:"));
        assert!(lines[1].contains("nonsense"));
        assert_eq!(lines[2], "BOOT FAILED");
        assert_eq!(reason_in(BROKEN, 1).lines().count(), 1);
        // An emulator that refuses its options says so first.
        let usage = format!("bad amount of schedulers foo\nUsage: beam.smp\n{}", "-a size\n".repeat(90));
        assert!(reason_in(&usage, 5).starts_with("bad amount of schedulers foo"));
        let log: String = (0..9).map(|line| format!("2026-11-21 [info] <0.1.0> {line}\n")).collect();
        assert_eq!(reason_in(&log, 1), "2026-11-21 [info] <0.1.0> 8");
        assert_eq!(reason_in("", 5), "");
    }
}
