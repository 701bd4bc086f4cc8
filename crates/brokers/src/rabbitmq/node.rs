//! A disposable RabbitMQ node.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use erlang::{ConnectOptions, Cookie, NodeName};
use load::Endpoint;
use measure::Refused;
use stacks::ErlangProcess;

use super::install::{Installation, PRODUCT};
use super::members::Membership;
use super::setup::{self, COOKIE, DATA, NEEDED_SPACE, Setup};
use super::{Config, control, ports};
use crate::copying::{Copied, copy_folder};
use crate::guardian::private_file;
use crate::log::LogFollower;
use crate::managed::{Launch, Managed, Progress, Waiting, Workspace};
use crate::{BrokerError, Fault};

/// A running node. Dropping it stops it.
#[derive(Debug)]
pub struct RabbitMq {
    installation: Installation,
    setup: Setup,
    process: Managed,
    runtime: String,
    copied: Option<Copied>,
}

/// A node that has all that it needs, and is not started.
#[derive(Debug)]
pub(super) struct Prepared {
    installation: Installation,
    setup: Setup,
    launch: Launch,
    workspace: Workspace,
}

impl Prepared {
    /// Starts it and waits until it takes clients.
    pub(super) fn start(self, waiting: &mut Waiting<'_>) -> Result<RabbitMq, BrokerError> {
        let runtime = format!("Erlang/OTP {}", self.installation.erlang.release);
        let what = format!("starting {PRODUCT} {} on {runtime}", self.installation.version);
        Ok(RabbitMq {
            process: self.workspace.start(self.launch, &what, waiting)?,
            installation: self.installation,
            setup: self.setup,
            runtime,
            copied: None,
        })
    }
}

impl RabbitMq {
    /// Starts a node and waits until it accepts AMQP connections. `progress` is told what is being done, and each
    /// second for how long; `cancelled` is asked every few milliseconds whether nobody wants the node any more.
    /// Errors: every [`BrokerError`] but [`BrokerError::Control`] and [`BrokerError::Fault`]; nothing is left behind.
    pub fn start(
        config: &Config,
        progress: &mut dyn FnMut(Progress<'_>),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, BrokerError> {
        let mut waiting = Waiting { progress, cancelled };
        ports::start_on_free(config, &mut waiting, |waiting| Self::try_start(config, waiting))
    }

    fn try_start(config: &Config, waiting: &mut Waiting<'_>) -> Result<Self, BrokerError> {
        let installation = Installation::find(config.root.as_deref())?;
        Self::check(config, &installation)?;
        let parent = config.parent_directory.as_deref();
        let workspace = Workspace::new(PRODUCT, parent, NEEDED_SPACE)?;
        let copied = copy_data(config, &workspace, waiting)?;
        let version = installation.version.clone();
        let started = Self::prepare(config, installation, workspace, None)?.start(waiting);
        let started = started.map_err(|error| match &config.data {
            Some(data) => data.refused(error, PRODUCT, &version),
            None => error,
        });
        Ok(Self { copied, ..started? })
    }

    /// Refuses what no node could be started with.
    pub(super) fn check(config: &Config, installation: &Installation) -> Result<(), BrokerError> {
        setup::check(config)?;
        ports::check(config)?;
        Self::check_known(config, installation)
    }

    /// Refuses settings and plugins that this installation does not have.
    pub(super) fn check_known(config: &Config, installation: &Installation) -> Result<(), BrokerError> {
        check_settings(installation, &config.settings)?;
        installation.check_plugins(&config.plugins)
    }

    /// Writes all that a node needs into its directory.
    pub(super) fn prepare(
        config: &Config,
        installation: Installation,
        workspace: Workspace,
        membership: Option<Membership>,
    ) -> Result<Prepared, BrokerError> {
        let (setup, launch) = Setup::write(config, &installation, &workspace, membership)?;
        Ok(Prepared { installation, setup, launch, workspace })
    }

    /// Where clients connect: `amqp://guest:guest@127.0.0.1:PORT`, or `amqps://` with [`Config::tls`].
    pub fn url(&self) -> String {
        match &self.setup.secured {
            Some((port, _)) => format!("amqps://guest:guest@127.0.0.1:{port}"),
            None => self.plain_url(),
        }
    }

    /// The listener without TLS, which there always is.
    pub fn plain_url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}", self.setup.port)
    }

    /// [`Self::url`] with the certificates that its clients need.
    pub fn endpoint(&self) -> Result<Endpoint, load::Error> {
        let mut endpoint: Endpoint = self.url().parse()?;
        let secured = self.setup.secured.as_ref();
        endpoint.tls = secured.map(|(_, certificates)| certificates.for_clients());
        Ok(endpoint)
    }

    /// The emulator's process (`beam.smp`); 0 while it is away.
    pub fn pid(&self) -> u32 {
        self.process.pid().unwrap_or(0)
    }

    /// The emulator's process: signals, restart, log.
    pub const fn process(&self) -> &Managed {
        &self.process
    }

    /// RabbitMQ's version: `3.10.8`.
    pub fn version(&self) -> &str {
        &self.installation.version
    }

    /// Its origin in words, beside the version; empty for a release.
    pub fn origin(&self) -> String {
        self.installation.origin()
    }

    /// Its runtime: `Erlang/OTP 25`.
    pub fn runtime(&self) -> &str {
        &self.runtime
    }

    /// Notes to the user on how the node was started.
    pub fn notes(&self) -> &[String] {
        &self.setup.notes
    }

    /// Which of its modules were replaced, in a few words; `None` where none were.
    /// Errors: where it takes one of them from elsewhere all the same, and those of [`Self::topology`].
    pub fn patched(&self, cancelled: &dyn Fn() -> bool) -> Result<Option<&str>, BrokerError> {
        let Some(patch) = &self.setup.patch else { return Ok(None) };
        let foreign: Vec<String> = control::ask(self.erlang()?, control::PATCHED, cancelled)?;
        match foreign.first() {
            None => Ok(Some(&patch.told)),
            Some(module) => {
                let help = "leave it out of the patch: it is Erlang's own, or was loaded before";
                Err(BrokerError::config("broker.patch: the node still loads a module from elsewhere", module, help))
            }
        }
    }

    /// How its Erlang node is reached: the port of its distribution, which no EPMD knows, and the cookie of its own.
    pub fn erlang(&self) -> Result<ConnectOptions, BrokerError> {
        let unreached = |reason: String| BrokerError::control("the address of its Erlang node", reason, false);
        let name = self.setup.erlang_name();
        let name: NodeName = name.parse().map_err(|it: Refused| unreached(it.what))?;
        let cookie = Cookie::read(&self.setup.directory.join(COOKIE)).map_err(|it| unreached(it.to_string()))?;
        let mut options = ConnectOptions::new(name, cookie);
        let address = self.setup.control_address;
        options.address = Some((address.ip().to_string(), address.port()));
        options.timeout = control::TIMEOUT;
        Ok(options)
    }

    /// Queues, exchanges and bindings. It costs the node some CPU time, so not in a measured phase.
    /// Errors: [`BrokerError::Control`], also where the node does not answer within 20 s, or before `cancelled`.
    pub fn topology(&self, cancelled: &dyn Fn() -> bool) -> Result<archive::Topology, BrokerError> {
        control::topology(self.erlang()?, cancelled)
    }

    /// Its busiest processes.
    pub fn erlang_processes(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<ErlangProcess>, BrokerError> {
        control::ask(self.erlang()?, control::PROCESSES, cancelled)
    }

    /// The names of the nodes of its cluster that run, as it sees them.
    pub(super) fn running(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, BrokerError> {
        control::ask(self.erlang()?, control::RUNNING, cancelled)
    }

    /// Some of its queues that do not serve yet, by name.
    pub(super) fn awaited(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, BrokerError> {
        control::ask(self.erlang()?, control::AWAITED, cancelled)
    }

    /// Makes the objects of a file of definitions.
    /// Errors: what RabbitMQ says against them, and those of [`Self::topology`].
    pub fn import(&self, definitions: &[u8], cancelled: &dyn Fn() -> bool) -> Result<(), BrokerError> {
        let file = self.setup.directory.join("definitions.json");
        private_file(&file, definitions)?;
        let said: String = control::ask(self.erlang()?, control::IMPORT, cancelled)?;
        match said.as_str() {
            "ok" => Ok(()),
            why => {
                let help = "import them into a node of your own to see which object it is";
                Err(BrokerError::config(format!("{PRODUCT} refuses the definitions"), why, help))
            }
        }
    }

    /// Pauses, resumes, kills or restarts the emulator.
    /// Errors: [`BrokerError::Fault`] where it is gone, and those of [`Self::restart`].
    pub fn inject(&mut self, fault: Fault) -> Result<(), BrokerError> {
        self.process.inject(fault)
    }

    /// Kills the emulator where it still runs, and starts it once more with the same data, name and
    /// ports. Its pid is another one then. The arguments are those of [`Self::start`].
    pub fn restart(
        &mut self,
        progress: &mut dyn FnMut(Progress<'_>),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), BrokerError> {
        self.process.restart(&mut Waiting { progress, cancelled })
    }

    /// Reads what the node logs from now on.
    pub fn follow_log(&self) -> LogFollower {
        self.process.follow_log()
    }

    /// The cost of copying data at its start; `None` where it began empty.
    pub(super) fn copied(&self) -> Option<String> {
        self.copied.as_ref().map(Copied::told)
    }

    /// Ends the node in order, and moves its data to a folder that is not there yet.
    /// Errors: where it does not end in order, or the data cannot be moved.
    pub fn keep_data(mut self, to: &Path, cancelled: &dyn Fn() -> bool) -> Result<(), BrokerError> {
        self.process.end_in_order(cancelled)?;
        let data = self.setup.directory.join(DATA);
        fs::rename(data, to).map_err(BrokerError::io("create", to))?;
        self.stop()
    }

    /// Stops the node at once and removes all of it; nothing is flushed to data that is thrown away.
    pub fn stop(self) -> Result<(), BrokerError> {
        self.process.stop()
    }
}

/// Gives the node a copy of the data that it is to begin with.
fn copy_data(config: &Config, workspace: &Workspace, waiting: &mut Waiting<'_>) -> Result<Option<Copied>, BrokerError> {
    let Some(original) = config.data.as_ref().and_then(|data| data.original.as_ref()) else { return Ok(None) };
    waiting.step("copying the prepared data");
    copy_folder(original, &workspace.directory().join(DATA), NEEDED_SPACE, waiting.cancelled).map(Some)
}

/// A schema has thousands of lines, and not millions.
const MOST_SCHEMA_BYTES: u64 = 4 << 20;

/// Refuses settings that no schema of the installation knows, which takes a node seconds; packed plugins are unknown.
fn check_settings(installation: &Installation, settings: &BTreeMap<String, String>) -> Result<(), BrokerError> {
    let known = if settings.is_empty() { Vec::new() } else { schema_keys(installation) };
    let unknown = settings.keys().find(|key| !known.iter().any(|it| is_meant(it, key)));
    let Some(unknown) = unknown.filter(|_| !known.is_empty()) else { return Ok(()) };
    let alike = |key: &&String| (strsim::jaro_winkler(key, unknown) * 1e6) as u64;
    let nearest = known.iter().max_by_key(alike).map_or("", String::as_str);
    let cause = format!("broker.config: RabbitMQ {} has no such key", installation.version);
    Err(BrokerError::config(cause, format!("unknown key {unknown:?}"), format!("did you mean {nearest:?}?")))
}

/// The keys of all schemas; none where one of them cannot be read.
fn schema_keys(installation: &Installation) -> Vec<String> {
    let mut keys = Vec::new();
    for plugin in fs::read_dir(&installation.plugins).into_iter().flatten().flatten() {
        if plugin.path().extension().is_some_and(|it| it == "ez") {
            return Vec::new();
        }
        let schemas = fs::read_dir(plugin.path().join("priv/schema"));
        for schema in schemas.into_iter().flatten().flatten() {
            let path = schema.path();
            if path.extension().is_none_or(|it| it != "schema") {
                continue;
            }
            let small = fs::metadata(&path).is_ok_and(|file| file.len() <= MOST_SCHEMA_BYTES);
            match fs::read(&path) {
                Ok(text) if small => keys.extend(mapped(&String::from_utf8_lossy(&text))),
                _ => return Vec::new(),
            }
        }
    }
    keys
}

/// The keys of a schema's mappings: `{mapping, "listeners.tcp.$name", …`.
fn mapped(schema: &str) -> impl Iterator<Item = String> {
    let mappings = schema.split("{mapping,").skip(1);
    mappings.filter_map(|text| {
        let (key, _) = text.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(key.to_owned())
    })
}

/// Whether a schema's key, in which `$name` stands for any word, means this one.
fn is_meant(known: &str, key: &str) -> bool {
    let (mut known, mut key) = (known.split('.'), key.split('.'));
    loop {
        match (known.next(), key.next()) {
            (None, None) => return true,
            (Some(known), Some(word)) if known == word || known.starts_with('$') => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_schemas_mappings() {
        let schema = "%% {datatype}\n{mapping, \"a.b\", \"rabbit.b\", [{datatype, integer}]}.\n\
                      {mapping,\n  \"listeners.tcp.$name\", \"x\"}.\n{translation, \"rabbit.y\"}. {mapping, cut";
        let keys: Vec<String> = mapped(schema).collect();
        assert_eq!(keys, ["a.b", "listeners.tcp.$name"]);
        let meant = |key| keys.iter().any(|known| is_meant(known, key));
        assert!(meant("a.b") && meant("listeners.tcp.default"));
        assert!(!meant("a") && !meant("a.b.c") && !meant("listeners.tcp") && !meant(""));
    }

    #[test]
    fn a_key_that_the_installed_rabbitmq_does_not_know_is_refused_with_the_nearest() {
        let Ok(installation) = Installation::find(None) else {
            testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
        };
        let with = |key: &str| BTreeMap::from([(key.to_owned(), "1".to_owned())]);
        for key in ["channel_max", "vm_memory_high_watermark.relative", "log.file.level"] {
            assert!(check_settings(&installation, &with(key)).is_ok(), "{key}");
        }
        if schema_keys(&installation).is_empty() {
            testkit::skip!("its plugins are packed");
        }
        let problem = check_settings(&installation, &with("chanel_max")).unwrap_err().problem();
        assert!(problem.value.contains("chanel_max"), "{problem:?}");
        assert!(problem.help.contains("\"channel_max\""), "{problem:?}");
    }
}
