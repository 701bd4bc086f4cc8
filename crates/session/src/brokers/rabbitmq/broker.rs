//! A disposable node as the broker of an experiment.

use std::collections::BTreeMap;
use std::path::Path;

use archive::{Topology, profile::ErlangProcess};
use load::Endpoint;

use super::super::{
    Broker, BrokerError, Fault, Identity, Processes,
    log::LogFollower,
    managed::{Progress, free_ports},
    registration::{Registration, Request},
};
use super::{Config, RabbitMq, install::PRODUCT};
use crate::experiment::{BrokerKind, BrokerSpec};
use crate::{Error, guardian, oauth2};

pub(in crate::brokers) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Rabbitmq, start)),
    product: PRODUCT,
    program: "rabbitmq-server",
    folders: &["/usr/lib/rabbitmq/bin", "/usr/sbin"],
    install: "apt-get install rabbitmq-server (as root)",
    processes: &["beam.smp", "beam", "erl"],
    subcommand: "",
    names_functions: Some(names_functions),
    ..Registration::NONE
};

/// The plugin with the management API.
const MANAGEMENT: &str = "rabbitmq_management";

/// A node that an experiment has requested.
#[derive(Debug)]
struct Node {
    node: RabbitMq,
    identity: Identity,
    endpoint: Endpoint,
    /// The address of its management API, where that is enabled.
    management: Option<String>,
    /// Keeps the access token fresh, where there is one.
    _renewal: Option<oauth2::Renewal>,
}

fn start(request: Request<'_>) -> Result<Box<dyn Broker>, Error> {
    let spec = &request.experiment.broker;
    let observer = request.observer;
    let mut config = config(spec, request.bellows_exe);
    let management = match request.experiment.needs_management() {
        true => Some(enable_management(&mut config)?),
        false => None,
    };
    let mut progress = |progress: Progress<'_>| match progress {
        Progress::Step(text) => observer.step(text),
        Progress::Waiting(text, waited) => observer.waiting(text, waited),
        Progress::Logged(line) => observer.logged(line),
    };
    let cancelled = || request.control.is_stopping();
    let node = RabbitMq::start(&config, &mut progress, &cancelled)?;
    for note in node.notes() {
        observer.step(note);
    }
    let mut endpoint = node.endpoint()?;
    spec.secure(&mut endpoint);
    if spec.oauth2.is_some() {
        observer.step("requesting an access token");
    }
    let renewal = oauth2::log_in(spec, &mut endpoint, request.control)?;
    Ok(Box::new(Node {
        identity: Identity {
            kind: spec.kind.name(),
            product: PRODUCT,
            version: Some(node.version().to_owned()),
            runtime: Some(node.runtime().to_owned()),
        },
        node,
        endpoint,
        management,
        _renewal: renewal,
    }))
}

impl Broker for Node {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        Processes::started(self.node.process().pid())
    }

    fn management(&self) -> Option<String> {
        self.management.clone()
    }

    fn inject(&mut self, fault: Fault) -> Result<(), BrokerError> {
        self.node.inject(fault)
    }

    fn topology(&self, cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
        self.node.topology(cancelled)
    }

    fn erlang_processes(
        &self,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<ErlangProcess>, BrokerError> {
        self.node.erlang_processes(cancelled)
    }

    fn has_topology(&self) -> bool {
        true
    }

    fn follow_log(&self) -> Option<LogFollower> {
        Some(self.node.follow_log())
    }

    fn logs(&self, lines: usize) -> String {
        self.node.process().log_tail(lines)
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        self.node.stop()
    }
}

/// Enables the management API on a free port of the loopback interface, or on the one that the settings name;
/// its address.
fn enable_management(config: &mut Config) -> Result<String, Error> {
    if !config.plugins.iter().any(|name| name == MANAGEMENT) {
        config.plugins.push(MANAGEMENT.to_owned());
    }
    let [free] = free_ports()?;
    let mut setting = |key: &str, value: String| -> String {
        let settings = &mut config.settings;
        settings.entry(key.to_owned()).or_insert(value).clone()
    };
    setting("management.tcp.ip", "127.0.0.1".to_owned());
    let port = setting("management.tcp.port", free.to_string());
    Ok(format!("http://127.0.0.1:{port}"))
}

fn config(spec: &BrokerSpec, bellows_exe: &Path) -> Config {
    let mut settings = BTreeMap::new();
    flatten("", &mut spec.config.iter(), &mut settings);
    Config {
        root: spec.root.clone(),
        schedulers: spec.schedulers,
        settings,
        tls: spec.tls,
        plugins: spec.plugins.clone(),
        advanced: spec.advanced.clone(),
        environment: spec.env.clone(),
        emulator_arguments: spec.erlang_args.clone(),
        guard: vec![bellows_exe.into(), guardian::SUBCOMMAND.into()],
        ..Config::default()
    }
}

/// Dotted keys of TOML are tables; `rabbitmq.conf` has them as they were written.
fn flatten(
    prefix: &str,
    entries: &mut dyn Iterator<Item = (&String, &toml::Value)>,
    settings: &mut BTreeMap<String, String>,
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

/// What makes names of Erlang functions known: the flag that has the JIT tell them, as `+JPperf true`, or the node's
/// memory. The emulator shows its own flags with `-` in place of `+`.
fn names_functions(pid: u32, arguments: &[String]) -> Result<String, &'static str> {
    let flag = arguments.windows(2).find_map(|pair| match pair {
        [flag, value] if flag.ends_with("JPperf") && value != "false" && value != "no" => {
            Some(format!("+JPperf {value}"))
        }
        _ => None,
    });
    let in_memory = || profile::has_erlang_names(pid).then(|| "names in its memory".to_owned());
    flag.or_else(in_memory).ok_or(
        "run as root, or start it with RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+JPperf true' (OTP 25 or later)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_in_rabbitmq_conf() {
        let spec: BrokerSpec = toml::from_str(
            "config.vm_memory_high_watermark.absolute = \"2GB\"\nconfig.heartbeat = 60\nconfig.a.b = true",
        )
        .unwrap();
        let settings = config(&spec, Path::new("bellows")).settings;
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

    #[test]
    fn a_node_with_and_without_perf_support_is_told_apart() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let on = "/usr/lib/erlang/bin/beam.smp -W w -JPperf true -B i -- -root /usr/lib/erlang";
        // No process has this number: no memory can be looked into.
        let of = |line: &str| names_functions(u32::MAX, &words(line));
        assert_eq!(of(on), Ok("+JPperf true".to_owned()));
        for off in [
            "beam.smp -W w -B i",
            "beam.smp -JPperf false -B i",
            "beam.smp -JPperf",
        ] {
            let fix = of(off).unwrap_err();
            assert!(fix.contains("+JPperf true"), "{off}");
        }
    }
}
