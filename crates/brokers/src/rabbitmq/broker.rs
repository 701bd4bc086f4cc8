//! A disposable node as the broker of an experiment.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::Topology;
use erlang::ConnectOptions;
use experiment::{BrokerKind, BrokerSpec, Experiment, LoadSpec};
use load::{Endpoint, Protocol};
use measure::Problem;
use serde_json::Value;
use stacks::ErlangProcess;
use web::Secret;
use web::definitions::Definitions;
use web::management::{LoginRemedy, ManagementOptions, TIMEOUT};

use super::cluster::of_node;
use super::install::{Installation, PRODUCT};
use super::{Cluster, Config, RabbitMq, checkout, ports, setup};
use crate::broker::{Registration, Request};
use crate::log::LogFollower;
use crate::managed::{Progress, Waiting, free_ports};
use crate::{Broker, BrokerError, Fault, Identity, Processes, RabbitMqNodes, guardian, oauth2};

pub(crate) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Rabbitmq, start)),
    product: PRODUCT,
    program: "rabbitmq-server",
    folders: &["/usr/lib/rabbitmq/bin", "/usr/sbin"],
    install: "apt-get install rabbitmq-server (as root)",
    processes: &["beam.smp", "beam", "erl"],
    subcommand: "",
    installed: check_startable,
    names_functions: Some(names_functions),
    ..Registration::NONE
};

const MANAGEMENT: &str = "rabbitmq_management";
const PROMETHEUS: &str = "rabbitmq_prometheus";
/// Where what is enabled for an experiment listens.
const LOCAL: &str = "127.0.0.1";
/// The user of a node, and its password.
const USER: &str = "guest";

/// Time that a node on prepared data may take until it takes clients.
const START_TIMEOUT_ON_DATA: Duration = Duration::from_secs(900);

#[derive(Debug)]
struct StartedNodes {
    cluster: Cluster,
    identity: Identity,
    /// Where each takes clients; at least one.
    endpoints: Vec<Endpoint>,
    endpoint: Endpoint,
    /// Its management API, where that is enabled.
    management: Option<ManagementOptions>,
    /// The servers of their pages of metrics, where an experiment asks for them.
    metrics_servers: Vec<String>,
    /// Keeps the access token fresh, where there is one.
    _renewal: Option<oauth2::Renewal>,
}

/// The first release that speaks AMQP 1.0 without a plugin.
const WITH_AMQP10: u32 = 4;

/// Refuses loads over AMQP 1.0 where RabbitMQ does not speak it.
fn refuse_amqp10(experiment: &Experiment, version: &str) -> Result<(), Problem> {
    let major: Option<u32> = version.split('.').next().and_then(|it| it.parse().ok());
    let over = |spec: &LoadSpec| spec.protocol == Some(Protocol::Amqp10);
    match experiment.load.iter().position(over) {
        Some(i) if major.is_some_and(|major| major < WITH_AMQP10) => Err(Problem::new(
            format!("{PRODUCT} {version} does not speak AMQP 1.0"),
            format!("load.{i}.protocol = \"amqp10\""),
            "set broker.root (--broker-root) to a RabbitMQ 4, or leave protocol out",
        )
        .about(format!("load.{i}.protocol"))),
        _ => Ok(()),
    }
}

fn start(request: Request<'_>) -> Result<Box<dyn Broker>, BrokerError> {
    let spec = &request.experiment.broker;
    let mut config = config(spec, request.bellows_exe);
    if let Some(data) = request.data {
        // A node on much data reads all of it before it takes clients.
        config.start_timeout = Some(START_TIMEOUT_ON_DATA);
        config.parent_directory.clone_from(&data.parent);
        config.data = Some(data.clone());
    }
    let needed = request.experiment.needs_management();
    let management = needed.then(|| enable_management(&mut config)).transpose()?;
    let metrics_servers = match request.experiment.needs_metrics() {
        true => enable_metrics(&mut config, spec.node_count())?,
        false => Vec::new(),
    };
    ports::evade(&mut config, spec.node_count())?;
    let version = Installation::find(spec.root.as_deref())?.version;
    refuse_amqp10(request.experiment, &version)?;
    let is_prepared = request.data.is_some_and(|data| data.original.is_some());
    let imports = match is_prepared {
        // They are part of the data.
        true => Vec::new(),
        false => definitions_to_import(spec, &version)?,
    };
    let cancelled = || request.control.is_stopping();
    let is_relayed = request.experiment.cuts_nodes_off();
    let mut waiting = Waiting { progress: request.progress, cancelled: &cancelled };
    let cluster = Cluster::start(&config, spec.node_count(), is_relayed, &mut waiting)?;
    let first = first(&cluster)?;
    if is_prepared {
        wait_for_queues(first, &mut waiting)?;
    }
    first.notes().iter().for_each(|note| waiting.step(note));
    let mut version = first.version().to_owned() + &first.origin();
    if let Some(patched) = first.patched(&cancelled)? {
        waiting.step(&format!("modules replaced: {patched}"));
        version += &format!(" with {patched} replaced");
    }
    for (what, definitions) in imports {
        waiting.step(&format!("importing {what}"));
        first.import(&definitions, &cancelled)?;
    }
    let nodes = cluster.nodes().iter();
    let mut endpoints: Vec<Endpoint> = nodes.map(RabbitMq::endpoint).collect::<Result<_, _>>()?;
    endpoints.iter_mut().for_each(|it| spec.secure(it));
    let mut endpoint = endpoints.first().cloned().ok_or_else(no_node)?;
    if spec.oauth2.is_some() {
        waiting.step("requesting an access token");
    }
    let renewal = oauth2::log_in(spec, &mut endpoint, request.control)?;
    (waiting.progress)(Progress::Ready(&addresses(&config, &cluster, &endpoints)));
    Ok(Box::new(StartedNodes {
        identity: Identity {
            kind: spec.kind.name(),
            product: PRODUCT,
            version: Some(version),
            runtime: Some(first.runtime().to_owned()),
        },
        cluster,
        endpoints,
        endpoint,
        management,
        metrics_servers,
        _renewal: renewal,
    }))
}

/// The RabbitMQ that would be started, with its Erlang and the modules that are replaced: what is prepared by it is
/// prepared by no other. Errors: it is not there, or what replaces its modules is none of that.
pub fn described(spec: &BrokerSpec) -> Result<String, BrokerError> {
    described_as(&Installation::find(spec.root.as_deref())?, spec)
}

/// Refuses what no node could be started with, as far as that is known before one is. Ports are drawn later.
fn check_startable(spec: &BrokerSpec) -> Result<(), BrokerError> {
    let config = config(spec, Path::new(""));
    setup::check(&config)?;
    let installation = Installation::find(spec.root.as_deref())?;
    described_as(&installation, spec)?;
    RabbitMq::check_known(&config, &installation)
}

fn described_as(installation: &Installation, spec: &BrokerSpec) -> Result<String, BrokerError> {
    let mut told = format!("{PRODUCT} {}{}", installation.version, installation.origin());
    if let Some(patch) = &spec.patch {
        told += &format!(" with {} replaced", checkout::described_patch(patch)?);
    }
    Ok(format!("{told} on Erlang/OTP {}", installation.erlang.release))
}

/// Where the nodes listen, for whoever wants to look at them while they run.
fn addresses(config: &Config, cluster: &Cluster, endpoints: &[Endpoint]) -> String {
    let clients: Vec<String> = endpoints.iter().map(|it| format!("{}:{}", it.host, it.port)).collect();
    let mut parts = vec![format!("AMQP {}", clients.join(", "))];
    let of_nodes = (0..config.of_nodes.len().max(1)).map(|number| of_node(config, number));
    parts.extend(of_nodes.flat_map(|config| ports::listening(&config)));
    let nodes = cluster.nodes().iter();
    let names: Vec<String> = nodes.filter_map(|node| Some(node.erlang().ok()?.node.to_string())).collect();
    let (word, names) = match names.as_slice() {
        [one] => ("Erlang node", one.clone()),
        several => ("Erlang nodes", several.join(", ")),
    };
    parts.push(format!("{word} {names}"));
    format!("{PRODUCT} listens: {}; user {USER}", parts.join("; "))
}

fn no_node() -> BrokerError {
    BrokerError::Fault("the cluster has no node".into())
}

/// The first node, which answers for all.
fn first(cluster: &Cluster) -> Result<&RabbitMq, BrokerError> {
    cluster.nodes().first().ok_or_else(no_node)
}

impl StartedNodes {
    /// Asks the first node that runs; one that is away would be waited for in vain.
    fn ask<T>(&self, question: impl Fn(&RabbitMq) -> Result<T, BrokerError>) -> Result<T, BrokerError> {
        let running = self.cluster.nodes().iter();
        let mut running = running.filter(|node| node.process().is_running());
        let none = || BrokerError::control("its queues and bindings", "none of its nodes runs", false);
        question(running.next().ok_or_else(none)?)
    }
}

impl Broker for StartedNodes {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        let mut pids = self.cluster.nodes().iter().map(|it| it.process().pid());
        Processes { further: pids.clone().skip(1).collect(), ..Processes::started(pids.next().flatten()) }
    }

    fn inject(&mut self, node: usize, fault: Fault) -> Result<(), BrokerError> {
        self.cluster.inject(node, fault)
    }

    fn starter(&self, node: usize) -> Option<u32> {
        self.cluster.nodes().get(node)?.process().starter()
    }

    fn follow_logs(&self) -> Vec<LogFollower> {
        self.cluster.nodes().iter().map(RabbitMq::follow_log).collect()
    }

    fn copied(&self) -> Option<String> {
        first(&self.cluster).ok()?.copied()
    }

    fn keep_data(self: Box<Self>, to: &Path, cancelled: &dyn Fn() -> bool) -> Result<(), BrokerError> {
        self.cluster.into_only()?.keep_data(to, cancelled)
    }

    fn logs(&self, lines: usize) -> String {
        first(&self.cluster).map_or_else(|_| String::new(), |it| it.process().log_tail(lines))
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        self.cluster.stop()
    }
}

impl RabbitMqNodes for StartedNodes {
    fn management(&self) -> Option<ManagementOptions> {
        self.management.clone()
    }

    fn metrics_servers(&self) -> &[String] {
        &self.metrics_servers
    }

    fn erlang(&self) -> Result<Option<ConnectOptions>, BrokerError> {
        first(&self.cluster)?.erlang().map(Some)
    }

    fn erlang_nodes(&self) -> Result<Vec<ConnectOptions>, BrokerError> {
        self.cluster.nodes().iter().map(RabbitMq::erlang).collect()
    }

    fn directories(&self) -> Vec<PathBuf> {
        let nodes = self.cluster.nodes().iter();
        let directory = |it: &RabbitMq| it.process().workspace().directory().to_owned();
        nodes.map(directory).collect()
    }

    fn nodes(&self) -> Vec<Endpoint> {
        match self.endpoints.as_slice() {
            [_] => Vec::new(),
            several => several.to_vec(),
        }
    }

    fn gone_nodes(&self) -> Vec<usize> {
        let nodes = self.cluster.nodes();
        // Of one node alone its clients tell.
        let nodes = nodes.iter().enumerate().filter(|_| nodes.len() > 1);
        nodes.filter(|(_, node)| !node.process().is_running()).map(|(number, _)| number).collect()
    }

    fn has_topology(&self) -> bool {
        true
    }

    fn topology(&self, cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
        let mut topology = self.ask(|node| node.topology(cancelled))?;
        // Their own names say nothing: in all else the nodes of a cluster are numbers.
        let named = self.cluster.nodes().iter().zip(0..).filter_map(|(node, number)| {
            let options = node.erlang().ok()?;
            Some((options.node.to_string(), format!("node {number}")))
        });
        let named: HashMap<String, String> = named.collect();
        for queue in &mut topology.queues {
            for name in queue.members.iter_mut().chain([&mut queue.leader]) {
                if let Some(number) = named.get(name) {
                    name.clone_from(number);
                }
            }
            queue.members.sort();
        }
        Ok(topology)
    }

    fn erlang_processes(&self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<Vec<ErlangProcess>, BrokerError> {
        // One that is away would be waited for in vain.
        let running = (self.cluster.nodes().get(node)).filter(|it| it.process().is_running());
        running.map_or_else(|| Ok(Vec::new()), |node| node.erlang_processes(cancelled))
    }
}

/// Enables a plugin that serves HTTP on a free loopback port, or on the one that the settings name below `key`.
fn enable(config: &mut Config, plugin: &str, key: &str) -> Result<String, BrokerError> {
    add_plugin(config, plugin);
    let [free] = free_ports()?;
    let mut setting = |what: &str, value: String| -> String {
        let settings = &mut config.settings;
        settings.entry(format!("{key}.tcp.{what}")).or_insert(value).clone()
    };
    let ip = setting("ip", LOCAL.to_owned());
    let port = setting("port", free.to_string());
    Ok(format!("http://{}:{port}", host_of(&ip)))
}

fn add_plugin(config: &mut Config, plugin: &str) {
    if !config.plugins.iter().any(|name| name == plugin) {
        config.plugins.push(plugin.to_owned());
    }
}

/// Enables the pages of metrics: nodes of a cluster serve their own, each on a free port.
fn enable_metrics(config: &mut Config, nodes: u32) -> Result<Vec<String>, BrokerError> {
    const PORT: &str = "prometheus.tcp.port";
    // One that is named is of a node alone; of several, the check of shared ports refuses it.
    if nodes < 2 || config.settings.contains_key(PORT) {
        return Ok(vec![enable(config, PROMETHEUS, "prometheus")?]);
    }
    add_plugin(config, PROMETHEUS);
    let ip = config.settings.entry("prometheus.tcp.ip".to_owned());
    let ip = ip.or_insert_with(|| LOCAL.to_owned());
    let host = host_of(ip);
    ports::evade(config, nodes)?;
    let ports = config.of_nodes.iter().filter_map(|own| own.get(PORT));
    Ok(ports.map(|port| format!("http://{host}:{port}")).collect())
}

/// The host by which a server is reached that listens at an address.
fn host_of(ip: &str) -> String {
    match ip.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "[::1]".to_owned(),
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => ip.to_owned(),
    }
}

/// Enables the management API; the node's own user logs in there.
fn enable_management(config: &mut Config) -> Result<ManagementOptions, BrokerError> {
    Ok(ManagementOptions {
        url: enable(config, MANAGEMENT, "management")?,
        user: USER.to_owned(),
        password: Secret::new(USER),
        ca: None,
        insecure: false,
        remedy: LoginRemedy { login: "leave the user as it is", tag: "administrator" },
        timeout: TIMEOUT,
        busy: "the node is busy: prepare less at once, or give it more cores",
    })
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
        patch: spec.patch.clone(),
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

/// Finds a source of names for Erlang functions: `+JPperf true`, which the emulator shows with `-`, or its memory.
fn names_functions(pid: u32, arguments: &[String]) -> Result<String, &'static str> {
    // The last of several counts.
    let value = arguments.windows(2).rev().find_map(|pair| match pair {
        [flag, value] if flag.ends_with("JPperf") => Some(value),
        _ => None,
    });
    let flag = value.filter(|value| !["false", "no"].contains(&value.as_str()));
    let flag = flag.map(|value| format!("+JPperf {value}"));
    let in_memory = || profile::has_erlang_names(pid).then(|| "names in its memory".to_owned());
    flag.or_else(in_memory)
        .ok_or("run as root, or start it with RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+JPperf true' (OTP 25 or later)")
}

/// Time after which a queue that does not serve is the run's matter.
const QUEUES_TIMEOUT: Duration = Duration::from_secs(600);

/// Waits until all queues serve: a stream whose leader is not found yet refuses its clients.
fn wait_for_queues(node: &RabbitMq, waiting: &mut Waiting<'_>) -> Result<(), BrokerError> {
    let mut awaited = Vec::new();
    let serve = waiting.poll("waiting for its queues", QUEUES_TIMEOUT, |cancelled| {
        awaited = node.awaited(cancelled)?;
        Ok(awaited.is_empty())
    })?;
    if !serve {
        let seconds = QUEUES_TIMEOUT.as_secs();
        waiting.step(&format!("queues that are not available after {seconds} s: {}", awaited.join(", ")));
    }
    Ok(())
}

/// The first release without classic mirrored queues, which refuses their policies.
const WITHOUT_MIRRORS: u32 = 4;

/// Definitions to import into a RabbitMQ of this version, in this order, and their names.
fn definitions_to_import(spec: &BrokerSpec, version: &str) -> Result<Vec<(String, Vec<u8>)>, BrokerError> {
    let check = |text: &[u8], name: &str| {
        let definitions = Definitions::parse(text, name)?;
        refuse_mirrors(&definitions, version, name)
    };
    let mut all = Vec::new();
    // Queues of the file have their policies from the beginning.
    if !spec.policy.is_empty() {
        let policies = spec.policy.iter().enumerate().map(|(number, policy)| {
            serde_json::json!({
                "vhost": "/", "name": format!("bellows-{number}"), "pattern": policy.pattern,
                "apply-to": policy.apply_to.as_deref().unwrap_or("queues"),
                "priority": policy.priority.unwrap_or(0), "definition": policy.definition,
            })
        });
        let policies: Vec<_> = policies.collect();
        let text = serde_json::json!({ "policies": policies }).to_string();
        check(text.as_bytes(), "broker.policy").map_err(BrokerError::Config)?;
        all.push(("policies".to_owned(), text.into_bytes()));
    }
    if let Some(file) = &spec.definitions {
        let text = fs::read(file).map_err(BrokerError::io("read", file))?;
        let name = file.display().to_string();
        check(&text, &name).map_err(BrokerError::Config)?;
        all.push((name, text));
    }
    Ok(all)
}

/// Refuses policies of classic mirrored queues where RabbitMQ has none: it would refuse all that is imported with them.
fn refuse_mirrors(definitions: &Definitions, version: &str, name: &str) -> Result<(), Problem> {
    let major: Option<u32> = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_none_or(|major| major < WITHOUT_MIRRORS) {
        return Ok(());
    }
    let policies =
        definitions.in_order().filter(|(section, _)| *section == "policies").flat_map(|(_, policies)| policies);
    for policy in policies {
        let keys = policy.get("definition").and_then(Value::as_object);
        let mut keys = keys.into_iter().flat_map(|it| it.keys());
        if let Some(key) = keys.find(|key| key.starts_with("ha-")) {
            let pattern = policy.get("pattern").unwrap_or(&Value::Null);
            return Err(Problem::new(
                format!("{PRODUCT} {version} has no classic mirrored queues"),
                format!("{name}: {key} in the policy for {pattern}"),
                "leave out the ha-* keys and use quorum queues (queue-type = \"quorum\"), or name a RabbitMQ before \
                 4.0 with broker.root",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use experiment::Experiment;

    use super::*;

    #[test]
    fn settings_are_written_as_in_rabbitmq_conf() {
        let spec: BrokerSpec = toml::from_str(
            "config.vm_memory_high_watermark.absolute = \"2GB\"\nconfig.heartbeat = 60\nconfig.a.b = true",
        )
        .unwrap();
        let settings = config(&spec, Path::new("bellows")).settings;
        let written: Vec<String> = settings.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        assert_eq!(written, ["a.b = true", "heartbeat = 60", "vm_memory_high_watermark.absolute = 2GB"]);
    }

    #[test]
    fn loads_over_amqp_1_0_are_refused_before_a_node_that_does_not_speak_it_is_started() {
        let experiment = |protocol: &str| {
            Experiment::from_toml(&format!("[[load]]\n[[load]]\nprotocol = {protocol:?}"), "test").unwrap()
        };
        for version in ["3.10.8", "3.13.7"] {
            let problem = refuse_amqp10(&experiment("amqp10"), version).unwrap_err();
            assert!(problem.cause.contains(version), "{problem:?}");
            assert!(problem.help.contains("RabbitMQ 4"), "{problem:?}");
            assert_eq!(refuse_amqp10(&experiment("amqp091"), version), Ok(()));
        }
        // A version that is none is the broker's matter.
        for version in ["4.0.5", "10.1", "odd"] {
            assert_eq!(refuse_amqp10(&experiment("amqp10"), version), Ok(()));
        }
    }

    #[test]
    fn what_no_node_takes_is_refused_before_any_is_started() {
        let spec: BrokerSpec = toml::from_str("config.\"listeners.tcp.default\" = 5672").unwrap();
        let refused = check_startable(&spec).unwrap_err().problem();
        assert_eq!(refused.cause, "broker.config: listeners.tcp.default cannot be set");
    }

    #[test]
    fn a_server_is_reached_where_it_listens() {
        let hosts = ["127.0.0.1", "0.0.0.0", "::", "::1", "10.0.0.7", "here"].map(host_of);
        let reached = ["127.0.0.1", "127.0.0.1", "[::1]", "[::1]", "10.0.0.7", "here"];
        assert_eq!(hosts, reached.map(str::to_owned));
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
            "beam.smp -JPperf map -B i -JPperf false -B i",
            "beam.smp -JPperf",
        ] {
            let fix = of(off).unwrap_err();
            assert!(fix.contains("+JPperf true"), "{off}");
        }
    }

    #[test]
    fn policies_of_mirrored_queues_are_refused_from_4_0_on() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("exported.json");
        let policy = "{\"vhost\": \"/\", \"name\": \"m\", \"pattern\": \"^m\", \"definition\": {\"ha-params\": 2}}";
        fs::write(&file, format!("{{\"policies\": [{policy}]}}")).unwrap();
        let in_file = format!("[broker]\ndefinitions = {file:?}");
        let written = "[broker]\n[[broker.policy]]\npattern = \"^m\"\ndefinition = { max-length = 1, ha-mode = \
            \"all\" }";
        for (text, name, key) in
            [(in_file.as_str(), "exported.json", "ha-params"), (written, "broker.policy", "ha-mode")]
        {
            let spec = Experiment::from_toml(text, "test").unwrap().broker;
            assert_eq!(definitions_to_import(&spec, "3.13.7").unwrap().len(), 1);
            // A version that is none is the broker's matter.
            assert_eq!(definitions_to_import(&spec, "odd").unwrap().len(), 1);
            for version in ["4.0.5", "4", "10.1"] {
                let error = definitions_to_import(&spec, version).unwrap_err().problem();
                assert!(error.cause.contains(&format!("RabbitMQ {version} ")), "{error:?}");
                assert!(error.value.contains(name) && error.value.contains(key), "{error:?}");
                assert!(error.value.contains("^m") && error.help.contains("quorum"), "{error:?}");
            }
        }
        let others = "[broker]\n[[broker.policy]]\npattern = \"^ha-\"\ndefinition = { max-length = 1 }";
        let spec = Experiment::from_toml(others, "test").unwrap().broker;
        assert_eq!(definitions_to_import(&spec, "4.0.5").unwrap().len(), 1);
    }

    #[test]
    fn policies_are_written_as_rabbitmq_reads_them() {
        let text = "[broker]\n[[broker.policy]]\npattern = \"^ha\\\\.\"\ndefinition = { ha-mode = \"all\", max-length \
            = 10 }";
        let experiment = Experiment::from_toml(text, "test").unwrap();
        let [(what, json)] = &definitions_to_import(&experiment.broker, "3.10.8").unwrap()[..] else {
            panic!("one import");
        };
        assert_eq!(what, "policies");
        let json: Value = serde_json::from_slice(json).unwrap();
        let policy = &json["policies"][0];
        assert_eq!(policy["pattern"], "^ha\\.");
        assert_eq!(policy["apply-to"], "queues");
        assert_eq!(policy["definition"]["ha-mode"], "all");
        assert_eq!(policy["definition"]["max-length"], 10);
    }
}
