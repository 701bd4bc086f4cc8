//! Data that exist before a run begins: the queues and messages of `[[prepare]]` and `fill`, and whether the broker's
//! data are kept and copied.

use load::{Consumers, QueueType};
use measure::{Length, Problem};
use serde::{Deserialize, Serialize};

use super::error::{ensure, wrong};
use super::flat_table::given;
use super::{BrokerKind, BrokerSpec, Experiment, LoadSpec, PhasesSpec};

/// Messages in flight of each queue's producer: more are no faster.
const IN_FLIGHT: u32 = 2_000;
/// The longest wait for the last confirms.
const LAST_CONFIRMS: Length = Length::seconds(30);
/// Longer than queues are declared for.
const NEVER: Length = Length::seconds(86_400);
/// Queues that one connection fills, where there are many.
const QUEUES_OF_CONNECTION: usize = 500;
/// Queues that have a connection each.
const MOST_CONNECTIONS: usize = 64;
/// Keys of a group that describe queues and their messages; the others describe a load.
const KEYS: &str = "destination destinations num-destinations exchange routing-key bind auto-delete queue-type durable \
    arguments declare url fill properties headers message-ids timestamps message-size persistent source-addresses \
    nodes";

/// Queues that are there before a run begins, with the keys of a load's group.
pub type PrepareSpec = LoadSpec;

/// Where the data of a broker comes from that bellows starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokerData {
    /// It is prepared once and kept; every run begins with a copy.
    Prepare,
}

impl Experiment {
    /// The part that fills: a producer for each queue, as fast as it can.
    pub fn filling(&self) -> Self {
        let filled = self.load.iter().filter(|load| load.fill > 0);
        let groups = self.prepare.iter().chain(filled);
        Self {
            load: groups.map(producer).collect(),
            prepare: Vec::new(),
            churn: None,
            fault: Vec::new(),
            probe: Vec::new(),
            scrape: Vec::new(),
            require: Vec::new(),
            until: None,
            ledger: false,
            phases: PhasesSpec { warmup: Length::seconds(0), measure: Length::seconds(0), drain: LAST_CONFIRMS },
            broker: BrokerSpec { data: None, ..self.broker.clone() },
            ..self.clone()
        }
    }

    /// The most messages that a queue of `[[prepare]]` or of a load is filled with.
    pub(super) fn prefilled(&self) -> u64 {
        self.prepare.iter().chain(&self.load).map(|it| it.fill).max().unwrap_or(0)
    }

    /// The broker that prepares the data, which this experiment's begins with a copy of.
    pub fn preparing_broker(&self) -> &BrokerSpec {
        self.prepared_by.as_deref().unwrap_or(&self.broker)
    }

    /// Adapts the load to a broker that began with a copy of prepared data, or did not.
    pub fn on_prepared(self, is_prepared: bool) -> Self {
        Self { is_prepared, ..self }
    }

    /// Whether both prepare equal data, whichever brokers they have.
    pub fn prepares_the_same(&self, other: &Self) -> bool {
        let of = |it: &Self| {
            let broker = &it.broker;
            let files = (broker.data_dir.clone(), broker.definitions.clone());
            (it.filling().load, broker.policy.clone(), files)
        };
        self.broker.data == other.broker.data && of(self) == of(other)
    }

    pub(super) fn check_prepared(&self) -> Result<(), Problem> {
        for (i, spec) in self.prepare.iter().enumerate() {
            let place = format!("prepare.{i}");
            self.check_load(&place, spec)?;
            check_keys(&place, spec)?;
        }
        if !self.prepare.is_empty() {
            self.check_prepared_plan().map_err(about_prepared)?;
        }
        match (self.broker.data, &self.broker.data_dir) {
            (None, dir) => {
                let help = "set broker.data = \"prepare\", or leave it out";
                ensure(dir.is_none(), "broker.data-dir", " has no effect without {broker.data}", help)
            }
            (Some(BrokerData::Prepare), _) => self.check_kept(),
        }
    }

    /// Plans `[[prepare]]` as if the broker were there.
    fn check_prepared_plan(&self) -> Result<(), Problem> {
        let alone = Self { load: self.prepare.iter().map(producer).collect(), prepare: Vec::new(), ..self.filling() };
        let endpoint = self.endpoint().map_err(|error| error.problem())?;
        let plan = alone.plan(&endpoint, 0).map_err(|error| error.problem())?;
        load::validate(&plan).map_err(|error| error.problem())
    }

    /// Checks that there is something to keep, and that it outlives the end of the node.
    fn check_kept(&self) -> Result<(), Problem> {
        let broker = &self.broker;
        let why = " = \"prepare\" works for one node only: addresses of a cluster change with each run";
        let help =
            "set broker.nodes = 1, or leave it out and let {fill} and [[prepare]] fill the cluster before each run";
        ensure(broker.node_count() <= 1, "broker.data", why, help)?;
        let fills = self.load.iter().any(|load| load.fill > 0) || !self.prepare.is_empty();
        let has_any = fills || broker.definitions.is_some() || !broker.policy.is_empty();
        let help = "add a [[prepare]] with queues, a load's {fill}, or broker.definitions";
        ensure(has_any, "broker.data", " = \"prepare\" has nothing to prepare", help)?;
        let mut prepared = self.prepare.iter().enumerate();
        prepared.try_for_each(|(i, spec)| check_durable(&format!("prepare.{i}"), spec))?;
        let mut filled = self.load.iter().enumerate().filter(|(_, spec)| spec.fill > 0);
        filled.try_for_each(|(i, spec)| check_durable(&format!("load.{i}"), spec))
    }
}

/// A group that sends the messages of another group's filling.
fn producer(load: &LoadSpec) -> LoadSpec {
    let mut handling = load.handling;
    handling.delete = false;
    let queues = load.destinations.len().max(1) * load.num_destinations;
    let connections = queues.div_ceil(QUEUES_OF_CONNECTION);
    LoadSpec {
        // A queue without messages is only declared.
        producers: usize::from(load.fill > 0),
        total_producers: None,
        producer_connections: (queues > MOST_CONNECTIONS && load.fill > 0).then(|| connections.max(MOST_CONNECTIONS)),
        rate: None,
        schedule: None,
        rate_per_producer: false,
        think_time: None,
        start_delay: None,
        start_after: None,
        max_pending: Some(IN_FLIGHT),
        confirm: true,
        commit_every: 0,
        request_reply: false,
        confirm_timeout: None,
        message_count: 0,
        recover: None,
        resend: false,
        // A backlog stays until it is consumed, and what reaches no queue is none.
        ttl: None,
        mandatory: true,
        consumers: idle_consumer(load.fill == 0),
        handling,
        ..load.clone()
    }
}

/// A consumer that never subscribes, for plans that only declare queues: a plan needs a client.
fn idle_consumer(is_needed: bool) -> Consumers {
    Consumers { per_destination: 0, total: is_needed.then_some(1), start_after: NEVER, ..Consumers::default() }
}

/// Refuses keys of `[[prepare]]` that would be silently without effect.
fn check_keys(place: &str, spec: &LoadSpec) -> Result<(), Problem> {
    let has_effect = |key: &str| KEYS.split_whitespace().any(|it| it == key);
    given(spec).keys().find(|key| !has_effect(key)).map_or(Ok(()), |key| {
        let why = " has no effect on prepared messages: they are sent unthrottled";
        Err(wrong(format!("{place}.{key}"), why, "leave it out, or write it in a [[load]]"))
    })
}

/// Refuses queues and messages that a restart of the node would lose.
fn check_durable(place: &str, spec: &LoadSpec) -> Result<(), Problem> {
    let queue = &spec.queue;
    let ensure = |is_fine: bool, key: &str, why: &str, help: &str| ensure(is_fine, format!("{place}.{key}"), why, help);
    let why = " = false: the queue would be gone when the node begins with its data";
    ensure(queue.durable, "durable", why, "leave it out, or leave out {broker.data}")?;
    let why = ": the queue would be deleted with the connection that declared it";
    ensure(!spec.exclusive, "exclusive", why, "leave it out, or leave out {broker.data}")?;
    let stays = spec.fill == 0 || queue.queue_type != QueueType::Classic || spec.persistent;
    let why = " = false: messages of a classic queue would be gone when the node begins with its data";
    ensure(stays, "persistent", why, "set it to true, or leave out {broker.data}")
}

/// A plan calls its groups loads.
fn about_prepared(problem: Problem) -> Problem {
    let renamed = |text: &str| text.replace("load.", "prepare.");
    let about = renamed(&problem.about);
    let (cause, help) = (renamed(&problem.cause), renamed(&problem.help));
    Problem::new(cause, problem.value, help).about(about)
}

impl BrokerSpec {
    /// Whether runs begin with a copy of data that is prepared once.
    pub fn is_prepared(&self) -> bool {
        self.kind == BrokerKind::Rabbitmq && self.data == Some(BrokerData::Prepare)
    }
}

#[cfg(test)]
mod tests {
    use crate::spec_tests::{read, refused};

    const LOAD: &str = "[[load]]\ndestination = \"queue://a\"\n";

    #[test]
    fn what_would_not_last_or_has_no_effect_is_refused_with_its_key() {
        let kept = "[broker]\ndata = \"prepare\"\n";
        let queue = "[[prepare]]\ndestination = \"queue://b\"\n";
        for [text, key] in testkit::table(include_str!("../tests/data/no-preparations.txt")) {
            testkit::assert_has(refused(text), [key]);
        }
        assert_eq!(refused(&format!("{kept}{queue}queue-type = \"stream\"\nfill = 10\n{LOAD}")), "");
    }

    #[test]
    fn what_fills_are_prepared_groups_and_loads_with_a_backlog() {
        let text = "[[prepare]]\ndestination = \"queue://many\"\nnum-destinations = 10000\nfill = 3\n\
                    [[prepare]]\ndestination = \"queue://empty\"\n\
                    [[load]]\ndestination = \"queue://a\"\nfill = 7\nrate = 5\nprefetch = 3\n\
                    [[load]]\ndestination = \"queue://b\"\n";
        let experiment = read(text);
        let filling = experiment.filling();
        let told: Vec<_> = filling.load.iter().map(|it| (it.fill, it.producers)).collect();
        assert_eq!(told, [(3, 1), (0, 0), (7, 1)]);
        // 10,000 connections are more than a broker takes at once.
        assert_eq!(filling.load[0].producer_connections, Some(64));
        assert_eq!(filling.load[2].rate, None);
        let with = |change: &str| {
            let mut other = experiment.clone();
            other.set(change).unwrap();
            experiment.prepares_the_same(&other)
        };
        assert!(with("load.0.prefetch=9") && with("broker.schedulers=1") && with("load.1.rate=1"));
        assert!(!with("load.0.fill=8") && !with("prepare.1.queue-type=quorum"));
        assert!(!with("load.0.message-size=99") && !with("broker.definitions=x.json"));
    }
}
