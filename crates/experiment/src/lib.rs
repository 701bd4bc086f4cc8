//! The experiment file (TOML): its defaults, edits of single values, and checks that name cause, value and remedy.

mod built_in;
mod churn_spec;
mod cluster_spec;
mod command_spec;
mod edit;
mod error;
mod fault_spec;
mod flat_table;
mod grammar;
mod left_out;
mod load_spec;
mod origin;
mod plan;
mod prepare_spec;
mod probe_spec;
mod requirement;
mod schedule_spec;
mod scrape_spec;
mod security;
mod size_spec;
#[cfg(test)]
mod spec_tests;
mod trace_spec;
mod validate;

use std::collections::BTreeMap;
use std::path::PathBuf;

use load::{Allocation, Argument, Auth, StopCondition};
use measure::Length;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use flat_table::{FlatTable, flat_table};
pub use flat_table::{Held, TextKind, Texts};

pub use built_in::{BuiltIn, built_ins};
pub use churn_spec::ChurnSpec;
pub use cluster_spec::{MOST_NODES, PolicySpec};
pub use error::ExperimentError;
pub use fault_spec::{FaultSpec, RunFault, is_for_good, read_faults, write_faults};
pub use load_spec::{LoadKind, LoadSpec, NodesSpec};
pub use origin::{OptionNames, Origin};
pub use prepare_spec::{BrokerData, PrepareSpec};
pub use probe_spec::{OwnPage, ProbeSpec, ProbedAddresses, QUEUES_PATH};
pub use requirement::{RequireSpec, Requirement};
pub use schedule_spec::ScheduleSpec;
pub use scrape_spec::ScrapeSpec;
pub use security::OAuth2Spec;
pub use size_spec::SizeSpec;
pub use trace_spec::{NodeTrace, OneTrace, TraceSpec};
pub use web::Secret;

flat_table! {
    /// One experiment, as its file says it. Every default is stated here, once.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Experiment {
        /// Names the run folder.
        "name" name: String as Experiment = "run".to_owned(),
        /// The question that the experiment answers.
        "description" description: String as Text = String::new(),
        /// Threads of the load generator, one event loop each.
        "threads" threads: usize = 1,
        /// Whether every message is accounted for: lost, duplicated, reordered, damaged.
        "ledger" ledger: bool = true,
        /// The broker under load.
        "broker" broker: BrokerSpec = BrokerSpec::default(),
        /// How long each phase lasts.
        "phases" phases: PhasesSpec = PhasesSpec::default(),
        /// Profiling in the measured phase.
        "profile" profile: ProfileSpec = ProfileSpec::default(),
        /// Faults that are injected while the load runs.
        "fault" fault: Vec<FaultSpec> = Vec::new(),
        /// Requirements of the run; a missed one ends it with exit code 3.
        "require" require: Vec<RequireSpec> = Vec::new(),
        /// A further end of the load, beside its length and message counts.
        "until" until: Option<StopCondition> = None,
        /// Connections, channels or queues that come and go; in place of `load`.
        "churn" churn: Option<ChurnSpec> = None,
        /// HTTP requests at fixed times, beside the load or alone.
        "probe" probe: Vec<ProbeSpec> = Vec::new(),
        /// Groups of producers and consumers; at least one where there is neither churn nor a probe.
        "load" load: Vec<LoadSpec> = Vec::new(),
        /// Queues, and with `fill` their messages, that are there before the run begins. Of a group's keys those count
        /// that say where messages go and what they are.
        "prepare" prepare: Vec<PrepareSpec> = Vec::new(),
        /// Pages of metrics that are requested while the load runs.
        "scrape" scrape: Vec<ScrapeSpec> = Vec::new(),
        /// Functions that are traced on the broker's Erlang node while the load runs.
        "trace" trace: Vec<TraceSpec> = Vec::new(),
        /// Where its values were written.
        origin: Origin = Origin::default(),
        /// Where the nodes of a managed cluster take clients, once they are started.
        cluster: Vec<load::Endpoint> = Vec::new(),
        /// The broker that prepares data, where that is another one than its own: side A's, of runs in turns.
        prepared_by: Option<Box<BrokerSpec>> = None,
        /// Whether its broker began with data that was prepared before, perhaps long before.
        is_prepared: bool = false,
    }
}

impl FlatTable for Experiment {}

measure::named! {
    /// Where the broker comes from, by its name in files.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BrokerKind {
        /// A disposable RabbitMQ node is started.
        #[default]
        Rabbitmq = "rabbitmq",
        /// A disposable ActiveMQ Artemis is started.
        Artemis = "artemis",
        /// A disposable mosquitto is started, which speaks MQTT.
        Mosquitto = "mosquitto",
        /// The embedded broker is started as a child process.
        Embedded = "embedded",
        /// A running broker is used.
        Attach = "attach",
    }
}

flat_table! {
    /// The broker under load.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BrokerSpec {
        /// Where the broker comes from.
        "kind" kind: BrokerKind = BrokerKind::Rabbitmq,
        /// `rabbitmq`: a prefix or root directory, also of another release of Linux, to take it from instead of the
        /// system's. `artemis`: its folder. `mosquitto`: a prefix with `sbin/mosquitto`, or the program.
        "root" root: Option<PathBuf> = None,
        /// `rabbitmq`: nodes that are started and joined to a cluster, at most 9; one where absent.
        "nodes" nodes: Option<u32> = None,
        /// `rabbitmq`: `"prepare"` makes once what `[[prepare]]`, `fill`, `definitions` and policies say, keeps the
        /// node's data, and begins every run with a copy of it.
        "data" data: Option<BrokerData> = None,
        /// With `data`: the folder in which prepared data is kept; `prepared` in bellows' own data folder where absent.
        "data-dir" data_dir: Option<PathBuf> = None,
        /// `rabbitmq`: a file of definitions that is imported before the load begins.
        "definitions" definitions: Option<PathBuf> = None,
        /// `rabbitmq`: policies that are set before the load begins, such as for mirrored queues.
        "policy" policy: Vec<PolicySpec> = Vec::new(),
        /// `rabbitmq`: settings for `rabbitmq.conf`, as tables or with dotted keys. `mosquitto`: for `mosquitto.conf`,
        /// such as `max_inflight_messages`.
        "config" config: BTreeMap<String, toml::Value> = BTreeMap::new(),
        /// `rabbitmq`: text of `advanced.config`, Erlang terms.
        "advanced" advanced: Option<String> as Text = None,
        /// `rabbitmq`: plugins that are enabled from the start, such as `rabbitmq_auth_backend_oauth2`.
        "plugins" plugins: Vec<String> as Nothing = Vec::new(),
        /// `rabbitmq`, and `attach` with a `node`: time between two readings of each node's memory from both sides,
        /// what its allocators hold and what the machine says; not read where absent.
        "memory-every" memory_every: Option<Length> = None,
        /// `rabbitmq`: the broker's Erlang schedulers (`+S`); one per core where absent.
        "schedulers" schedulers: Option<u32> = None,
        /// `rabbitmq`: further arguments of the Erlang emulator, one word each.
        "erlang-args" erlang_args: Vec<String> = Vec::new(),
        /// `rabbitmq`: a folder with compiled modules (`.beam`) that come before the node's own, of every node.
        "patch" patch: Option<PathBuf> = None,
        /// `artemis`: further arguments of the Java virtual machine, one word each.
        "java-args" java_args: Vec<String> = Vec::new(),
        /// `rabbitmq`: further environment of the node.
        "env" env: BTreeMap<String, String> = BTreeMap::new(),
        /// `rabbitmq`, `embedded`: connect over TLS, with certificates made for this run.
        "tls" tls: bool = false,
        /// `attach`: `amqp://user:password@host:port/vhost`, or `amqps://` for TLS; this machine where absent.
        /// `amqp10://host:port` and `amqps10://` mean AMQP 1.0, `mqtt://` and `mqtts://` MQTT.
        "url" url: Option<String> as Address = None,
        /// `attach`: further nodes of the same cluster, which share the connections.
        "further-urls" further_urls: Vec<String> as Address = Vec::new(),
        /// `attach`: how connections are assigned to several nodes.
        "allocation" allocation: Allocation = Allocation::default(),
        /// Seconds between two heartbeats; 0 takes the broker's, absent: 60. MQTT: the keep-alive, of which 0 is none.
        "heartbeat" heartbeat: Option<u16> = None,
        /// Largest frame in bytes; absent: 131072.
        "frame-max" frame_max: Option<u32> = None,
        /// `SO_SNDBUF` of the load's sockets in bytes.
        "send-buffer" send_buffer: Option<usize> = None,
        /// `SO_RCVBUF` of the load's sockets in bytes.
        "receive-buffer" receive_buffer: Option<usize> = None,
        /// Whether the kernel may hold small pieces back (Nagle's algorithm, no `TCP_NODELAY`).
        "nagle" nagle: bool = false,
        /// `attach`: User, instead of the URL's.
        "user" user: Option<String> as User = None,
        /// `attach`: the password, instead of the URL's.
        "password" password: Option<Secret> = None,
        /// PEM file with the authorities to trust, instead of the machine's.
        "ca" ca: Option<PathBuf> = None,
        /// PEM file with the client's certificate.
        "cert" cert: Option<PathBuf> = None,
        /// PEM file with the key of `cert`.
        "key" key: Option<PathBuf> = None,
        /// Name (SNI) to ask the broker for and to verify, instead of the URL's host.
        "sni" sni: Option<String> as Host = None,
        /// With TLS: names of protocols to offer (ALPN), the preferred one first.
        "alpn" alpn: Vec<String> as Nothing = Vec::new(),
        /// Accept any certificate; every output says so.
        "insecure" insecure: bool = false,
        /// `plain` (user and password), `external` (the client's certificate), `anonymous` (as nobody), or
        /// `scram-sha-256` (user and a proof of the password; AMQP 1.0).
        "auth" auth: Auth = Auth::Plain,
        /// `attach`, `rabbitmq`: log in with an access token in place of a password.
        "oauth2" oauth2: Option<OAuth2Spec> = None,
        /// `attach`: The broker's process, if its port does not lead to it.
        "pid" pid: Option<u32> = None,
        /// `attach`: RabbitMQ's Erlang node, NAME@HOST, to ask for its queues, bindings and processes.
        "node" node: Option<String> as Node = None,
        /// `attach`: That node's distribution port, without asking EPMD.
        "node-port" node_port: Option<u16> = None,
        /// `attach`: File with that node's cookie; if absent, `BELLOWS_ERLANG_COOKIE`, `~/.erlang.cookie`, or
        /// RabbitMQ's.
        "cookie-file" cookie_file: Option<PathBuf> = None,
        /// `attach`: RabbitMQ's management API, `http://HOST:15672`. It is asked for queues and bindings where no
        /// `node` is named, and probes of paths go there.
        "management" management: Option<String> as Address = None,
        /// `attach`: User of that API, with the tag monitoring; the password is in `BELLOWS_MANAGEMENT_PASSWORD`, else
        /// in `BELLOWS_PASSWORD`. If absent, the broker's user, by that or the broker's password.
        "management-user" management_user: Option<String> as User = None,
    }
}

impl FlatTable for BrokerSpec {
    const SPARSE: &'static [&'static str] = &["tls", "insecure", "auth"];
}

flat_table! {
    /// How long each phase lasts.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PhasesSpec {
        /// Load runs, but does not count.
        "warmup" warmup: Length = Length::seconds(5),
        /// Length of the phase that the summary covers; `"0s"` measures until `message-count` is reached or somebody
        /// stops the run.
        "measure" measure: Length = Length::seconds(30),
        /// The longest wait for acknowledgements and deliveries at the end.
        "drain" drain: Length = Length::seconds(10),
    }
}

impl FlatTable for PhasesSpec {}

flat_table! {
    /// Profiling in the measured phase.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ProfileSpec {
        /// Events to sample, each a profile of its own: `cpu`, `off-cpu`, `context-switches`, `page-faults`,
        /// `minor-faults`, `major-faults`, `mmap`, `mmap-bytes`, `mmap-held`, `munmap`, `munmap-bytes`, `brk`,
        /// `malloc`, `malloc-bytes`, `malloc-held`, `free`, or a tracepoint such as `sched:sched_process_fork`; empty
        /// for no profile.
        "events" events: Vec<String> as Nothing = vec![profile::Event::usual().name.into_owned()],
        /// Samples per second of each running thread, of events that are too many to take each.
        "frequency" frequency: u32 = 999,
        /// How stacks are unwound: `whole`, by what makes most of them whole, or `frame-pointers`.
        "stacks" stacks: String as Nothing = "whole".to_owned(),
        /// Blocked times that are shorter are left out of `off-cpu`.
        "min-block" min_block: Length = Length(profile::Options::default().min_block),
        /// Switches sampling on and off in blocks of this length, in random order, through the measured phase, so that
        /// the run tells what its profile costs: `1s`. The profile then covers the blocks with it.
        "blocks" blocks: Option<Length> = None,
    }
}

impl FlatTable for ProfileSpec {}

impl ProfileSpec {
    /// How to sample each event.
    pub fn options(&self) -> Vec<profile::Options> {
        let events = self.events.iter();
        let options = events.filter_map(|name| profile::Event::named(name)).map(|event| profile::Options {
            event,
            frequency: self.frequency,
            stacks: profile::Stacks::named(&self.stacks).unwrap_or_default(),
            min_block: self.min_block.0,
            ..profile::Options::default()
        });
        options.collect()
    }
}

impl Experiment {
    /// Reads an experiment. `origin` names the text in errors: a path, or `built-in NAME`.
    /// Errors: where the text is no TOML, has an unknown key, or a value of the wrong type. [`Experiment::validate`]
    /// checks the rest once all edits are made.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ExperimentError> {
        let read = toml::from_str::<Self>(text);
        let mut read = read.map_err(|e| ExperimentError::from_toml(origin, text, &e))?;
        read.origin = Origin::file(origin, text);
        match left_out::stand_in_of_file(text) {
            Some(problem) => read.refuse(problem).map(|()| read),
            None => {
                read.settle_broker();
                Ok(read)
            }
        }
    }

    /// A built-in experiment by its name. Errors: where none has the name; the nearest is named.
    pub fn built_in(name: &str) -> Result<Self, ExperimentError> {
        built_in::find(name)
    }

    /// Changes one value: `load.0.rate=20000`, `phases.measure=30s`, `broker.config.a.b=1`.
    /// The value is TOML; what is no TOML is text.
    pub fn set(&mut self, assignment: &str) -> Result<(), ExperimentError> {
        self.set_by("--set", assignment)
    }

    /// As [`Experiment::set`], by an option that errors name, also those of [`Experiment::validate`].
    pub fn set_by(&mut self, option: &str, assignment: &str) -> Result<(), ExperimentError> {
        *self = edit::edited(self, option, assignment)?;
        Ok(())
    }

    /// Whether its run ends without being stopped.
    pub fn ends_by_itself(&self) -> bool {
        let counted =
            |load: &LoadSpec| load.message_count > 0 || load.consumers.message_count.is_some_and(|count| count > 0);
        !self.phases.measure.is_zero() || self.until.is_some() || self.load.iter().any(counted)
    }

    /// The experiment as data for the archive: resolved, and without secrets.
    pub fn to_json(&self) -> Value {
        let mut public = self.without_secrets();
        if self.asks_servers_alone() {
            // It only led to the server's process: nobody spoke to a broker there.
            public.broker.url = None;
        }
        public.resolved()
    }

    /// The experiment as a file of all its values but secrets, whose keys a comment names.
    pub fn to_toml(&self) -> String {
        left_out::file(self, &self.without_secrets())
    }

    /// Keys of [`Self::to_json`] whose values are not the defaults, as `load.0.rate`.
    pub fn changed_keys(&self) -> Vec<String> {
        let defaults = Self {
            churn: self.churn.as_ref().map(|_| ChurnSpec::default()),
            probe: vec![ProbeSpec::default(); self.probe.len()],
            load: vec![LoadSpec::default(); self.load.len()],
            scrape: vec![ScrapeSpec::default(); self.scrape.len()],
            trace: vec![TraceSpec::default(); self.trace.len()],
            ..Self::default()
        };
        let mut changed = Vec::new();
        add_changed(&self.to_json(), Some(&defaults.resolved()), "", &mut changed);
        changed
    }

    fn resolved(mut self) -> Value {
        let by_url: Vec<_> = self.load.iter().map(|it| self.protocol_by_url(it)).collect();
        let is_attached = self.broker.kind == BrokerKind::Attach;
        for (spec, by_url) in self.load.iter_mut().zip(by_url) {
            spec.max_pending = Some(spec.in_flight_window());
            spec.protocol = spec.protocol.or(by_url.filter(|_| is_attached));
        }
        without_nulls(serde_json::to_value(self).unwrap_or_default())
    }

    /// Whether two experiments differ in values that [`Self::to_json`] hides.
    pub fn differs_in_hidden(&self, other: &Self) -> bool {
        let both = [self, other].map(|it| (it.clone().resolved(), it.to_json()));
        self.secrets() != other.secrets() || differ_in_hidden(both.each_ref().map(|(all, shown)| (all, shown)))
    }

    /// Fingerprints of the secrets of what is run, whatever their keys. A file's text is one, too, and comments differ.
    fn secrets(&self) -> Vec<String> {
        Secret::fingerprints(&Self { origin: Origin::default(), prepared_by: None, ..self.clone() })
    }

    /// Built key by key: secrets and addresses are known, and only names that the file's writer chose are left to a
    /// pattern.
    fn without_secrets(&self) -> Self {
        use web::redact::{self, BLOT};
        let mut public = self.clone();
        public.hide_probes();
        let broker = &mut public.broker;
        broker.url = broker.url.as_deref().map(redact::url);
        broker.management = broker.management.as_deref().map(redact::url);
        if let Some(oauth2) = &mut broker.oauth2 {
            oauth2.uri = redact::url(&oauth2.uri);
            for value in oauth2.parameters.values_mut() {
                BLOT.clone_into(value);
            }
        }
        for url in &mut broker.further_urls {
            *url = redact::url(url);
        }
        broker.advanced = broker.advanced.as_deref().map(redact::terms);
        for (name, value) in &mut broker.env {
            *value = redact::variable(name, value);
        }
        broker.erlang_args = redact::flags(&broker.erlang_args);
        broker.java_args = redact::flags(&broker.java_args);
        for (key, value) in &mut broker.config {
            redact_config(key, value);
        }
        for scrape in &mut public.scrape {
            scrape.url = if scrape.is_of_broker() { redact::text(&scrape.url) } else { redact::url(&scrape.url) };
        }
        for load in public.load.iter_mut().chain(&mut public.prepare) {
            load.url = load.url.as_deref().map(redact::url);
            load.command = redact::words(&load.command);
            redact_arguments(&mut load.headers);
            redact_arguments(&mut load.queue.arguments);
            redact_arguments(&mut load.consumers.amqp091.arguments);
        }
        public
    }
}

/// Adds the paths of all values below `path` that differ from the defaults.
fn add_changed(value: &Value, default: Option<&Value>, path: &str, changed: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, it) in fields {
                let default = default.and_then(|of| of.get(key.as_str()));
                add_changed(it, default, &left_out::below(path, key), changed);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, it) in items.iter().enumerate() {
                let default = default.and_then(|of| of.get(index));
                add_changed(it, default, &left_out::below(path, index), changed);
            }
        }
        plain if default != Some(plain) => changed.push(path.to_owned()),
        _ => {}
    }
}

/// A value without the keys that nobody gave, at any depth.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = fields.into_iter().filter(|(_, value)| !value.is_null());
            given.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        plain => plain,
    }
}

/// Whether two values, each with its displayed form, differ in hidden parts.
fn differ_in_hidden([a, b]: [(&Value, &Value); 2]) -> bool {
    match (a.0, b.0) {
        (Value::Object(of_a), Value::Object(of_b)) => of_a.keys().chain(of_b.keys()).any(|key| {
            let at = |it: &'_ Value| it.get(key).cloned().unwrap_or_default();
            let [a, b] = [a, b].map(|(all, shown)| (at(all), at(shown)));
            differ_in_hidden([(&a.0, &a.1), (&b.0, &b.1)])
        }),
        (Value::Array(of_a), Value::Array(of_b)) if of_a.len() == of_b.len() => (0..of_a.len()).any(|index| {
            let at = |it: &'_ Value| it.get(index).cloned().unwrap_or_default();
            let [a, b] = [a, b].map(|(all, shown)| (at(all), at(shown)));
            differ_in_hidden([(&a.0, &a.1), (&b.0, &b.1)])
        }),
        (of_a, of_b) => {
            let hides = |shown: &Value| shown.to_string().contains(web::redact::BLOT);
            of_a != of_b && (a.1 == b.1 || hides(a.1) || hides(b.1))
        }
    }
}

fn redact_arguments(arguments: &mut BTreeMap<String, Argument>) {
    for (key, value) in arguments {
        let given = value.to_string();
        let shown = web::redact::argument(key, &given);
        if shown != given {
            *value = Argument::Text(shown);
        }
    }
}

fn redact_config(path: &str, value: &mut toml::Value) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                redact_config(&format!("{path}.{key}"), value);
            }
        }
        toml::Value::Array(values) => {
            for value in values {
                redact_config(path, value);
            }
        }
        toml::Value::String(text) => *text = web::redact::value(path, text),
        other => {
            if web::redact::value(path, "") == web::redact::BLOT {
                *other = toml::Value::String(web::redact::BLOT.to_owned());
            }
        }
    }
}
