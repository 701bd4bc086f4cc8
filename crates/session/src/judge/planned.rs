//! Facts known before the load begins.

use archive::Capacity;
use experiment::Experiment;
use load::scenario::Scenario;
use load::{Destination, DestinationKind, Group, Owed, Plan, QueueType};

const MESSAGE_TTL: &str = "x-message-ttl";

/// Facts known before the load begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// Messages that may be in flight, all producers together.
    pub(crate) in_flight_limit: Option<u64>,
    /// Deliveries that each message should lead to at least; `None` where only one side is here.
    pub(crate) deliveries_each: Option<f64>,
    /// Deliveries due per message by the end; `None` where consumers take a number, begin late, or messages expire.
    pub(crate) deliveries_due: Option<f64>,
    pub(crate) filled: u64,
    /// Total of messages that producers are to send; `None` where some have no such limit.
    pub(crate) messages: Option<u64>,
    /// Messages of each producer's transaction; 0 without transactions, or where they differ.
    pub(crate) transaction: u32,
    pub(crate) closed_loop: bool,
    /// No group has consumers.
    pub(crate) without_consumers: bool,
    pub(crate) slow_consumers: bool,
    pub(crate) capacity: Option<Capacity>,
}

impl Planned {
    pub(crate) fn of(scenario: &dyn Scenario) -> Self {
        let planned = Self {
            in_flight_limit: scenario.in_flight_limit(),
            closed_loop: scenario.is_closed_loop(),
            ..Self::default()
        };
        match scenario.plan() {
            None => planned,
            Some(plan) => Self {
                deliveries_each: deliveries_each(plan),
                deliveries_due: deliveries_each(plan).filter(|_| !plan.is_spread() && plan.groups.iter().all(gets_all)),
                messages: messages(plan),
                transaction: transaction(plan),
                without_consumers: plan.groups.iter().all(|it| it.own_consumers().next().is_none()),
                slow_consumers: plan.groups.iter().any(|g| g.consumer_count() > 0 && takes_its_time(&g.consumers)),
                ..planned
            },
        }
    }
}

fn messages(plan: &Plan) -> Option<u64> {
    let sending = plan.groups.iter().filter(|it| it.own_producers().next().is_some());
    let all = sending.map(Group::own_message_count);
    let all = all.reduce(|one, other| Some(one?.saturating_add(other?)))?;
    all.filter(|all| *all > 0)
}

fn transaction(plan: &Plan) -> u32 {
    let mut all = plan.senders().map(|it| it.producers.guarantee.commit_every());
    let first = all.next().unwrap_or(0);
    if all.all(|it| it == first) { first } else { 0 }
}

fn deliveries_each(plan: &Plan) -> Option<f64> {
    // Only the broker knows what a selector leaves out.
    if plan.has_selectors() {
        return None;
    }
    let deliveries = |group: &Group| {
        // What an exchange makes of a message is its own affair, but for one that gives it to the queue with its key.
        let fixed = group.producers.random_keys.is_none();
        let known = |d: &Destination| {
            d.amqp091.exchange.as_ref().is_none_or(|exchange| fixed && exchange.kind == "direct" && d.amqp091.bind)
        };
        let known = group.destinations.iter().all(known);
        let each = if group.destinations.iter().all(copies) {
            let receivers = (0..group.destinations.len()).map(|at| group.receivers_of(at));
            receivers.min().unwrap_or(1).max(1) as f64
        } else {
            1.0
        };
        (known && group.consumer_count() > 0).then_some(each)
    };
    let fewest = |sum: Option<f64>, each: f64| Some(sum.map_or(each, |sum| sum.min(each)));
    let producing = plan.groups.iter().filter(|it| it.producer_count() > 0);
    let all: Option<Vec<f64>> = producing.map(deliveries).collect();
    all.and_then(|all| all.into_iter().fold(None, fewest))
}

/// Whether each of its receivers gets a copy of every message.
fn copies(destination: &Destination) -> bool {
    destination.kind == DestinationKind::Topic || destination.amqp091.queue_type == QueueType::Stream
}

/// Whether the group's consumers have to get, and take, all that its destinations get.
fn gets_all(group: &Group) -> bool {
    let consumers = &group.consumers;
    let has_each = group.consumer_count() >= group.destinations.len();
    let is_queue = |it: &Destination| it.kind != DestinationKind::Topic;
    let is_kept = group.destinations.iter().all(is_queue);
    let later = begins_late(consumers);
    let is_owed = |it: &Destination| match it.kind {
        DestinationKind::Topic => !later,
        DestinationKind::Queue => group.owed(it, later) == Owed::All,
    };
    consumers.message_count.is_none_or(|it| it == 0)
        && (has_each || is_kept)
        && !expires(group)
        && group.destinations.iter().all(is_owed)
}

fn expires(group: &Group) -> bool {
    let lasts = |it: &Destination| !it.amqp091.arguments.contains_key(MESSAGE_TTL);
    group.producers.properties.expiration.is_some() || !group.destinations.iter().all(lasts)
}

/// Deliveries of prefilled messages to the consumers of this plan.
pub(crate) fn filled(plan: &Plan, experiment: &Experiment, endpoint: &load::Endpoint) -> u64 {
    let filling = experiment.filling();
    if filling.load.iter().all(|load| load.fill == 0) {
        return 0;
    }
    // One that cannot be planned fills nothing: the run ends there.
    let Ok(filled) = filling.plan(endpoint, 0) else { return 0 };
    let groups = filled.groups.iter().zip(&filling.load);
    let deliveries = groups.flat_map(|(group, load)| {
        let names = group.destinations.iter().map(|it| it.name.as_str());
        names.map(move |name| load.fill.saturating_mul(deliveries_before(plan, name)))
    });
    deliveries.fold(0, u64::saturating_add)
}

/// Deliveries of each message that stood in this queue before the load began.
fn deliveries_before(plan: &Plan, queue: &str) -> u64 {
    let consuming = plan.groups.iter().filter(|it| it.consumer_count() > 0);
    let each = consuming.flat_map(|group| {
        let destinations = group.destinations.iter().enumerate();
        let its = destinations.filter(move |(_, it)| it.kind == DestinationKind::Queue && it.name == queue);
        its.map(move |(at, it)| match copies(it) {
            // Only who reads a stream from its beginning has to get what stands there.
            true if group.owed(it, true) == Owed::All => group.receivers_of(at) as u64,
            true => 0,
            false => 1,
        })
    });
    each.max().unwrap_or(0)
}

fn begins_late(consumers: &load::Consumers) -> bool {
    !consumers.start_after.is_zero() || !consumers.apart.is_zero()
}

fn takes_its_time(consumers: &load::Consumers) -> bool {
    !consumers.service.is_zero() || consumers.poll.is_some() || begins_late(consumers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(destination: Destination, consumers: usize) -> Plan {
        let mut group = Group::new(load::Endpoint::new("localhost", 0), vec![destination]);
        group.producers.total = Some(1);
        group.consumers.total = Some(consumers);
        Plan { groups: vec![group], ..Plan::default() }
    }

    fn stream() -> Destination {
        let mut stream = Destination::queue("s");
        stream.amqp091.queue_type = QueueType::Stream;
        stream
    }

    #[test]
    fn consumers_that_share_a_subscription_get_each_message_once() {
        let mut plan = plan(Destination::topic("t"), 3);
        assert_eq!(deliveries_each(&plan), Some(3.0));
        plan.groups[0].consumers.selector = Some("a = 1".to_owned());
        assert_eq!((deliveries_each(&plan), transaction(&plan)), (None, 0));
        plan.groups[0].consumers.selector = None;
        plan.groups[0].producers.guarantee = load::Guarantee::Commits(10);
        assert_eq!(transaction(&plan), 10);
        plan.groups[0].consumers.subscription =
            Some(load::Subscription { name: "s".to_owned(), shared: 1, ..load::Subscription::default() });
        assert_eq!(deliveries_each(&plan), Some(1.0));
    }

    #[test]
    fn what_was_sent_before_a_consumer_of_a_stream_began_is_not_due_and_what_stood_in_a_queue_is_once() {
        let mut late = plan(stream(), 1);
        assert!(gets_all(&late.groups[0]));
        late.groups[0].consumers.start_after = "2s".parse().expect("a length");
        assert!(!gets_all(&late.groups[0]));
        late.groups[0].consumers.amqp091.stream_offset = load::StreamOffset::First;
        assert!(gets_all(&late.groups[0]));
        // A queue keeps it, unless it expires.
        late.groups[0].destinations = vec![Destination::queue("q")];
        assert!(gets_all(&late.groups[0]));
        late.groups[0].producers.properties.expiration = Some("50".to_owned());
        assert!(!gets_all(&late.groups[0]));
        assert_eq!(deliveries_before(&plan(Destination::queue("q"), 3), "q"), 1);
        assert_eq!(deliveries_before(&plan(Destination::queue("q"), 3), "p"), 0);
        let mut plan = plan(stream(), 3);
        assert_eq!(deliveries_before(&plan, "s"), 0);
        plan.groups[0].consumers.amqp091.stream_offset = load::StreamOffset::First;
        assert_eq!(deliveries_before(&plan, "s"), 3);
    }

    #[test]
    fn messages_are_counted_where_every_producer_has_an_end() {
        let group = |producers: usize, message_count| {
            let mut group = Group::new(load::Endpoint::new("localhost", 0), Vec::new());
            group.producers.total = Some(producers);
            group.producers.message_count = message_count;
            group
        };
        let of = |groups: Vec<Group>| {
            let plan = Plan { groups, ..Plan::default() };
            messages(&plan)
        };
        assert_eq!(of(vec![group(2, Some(500)), group(1, Some(30))]), Some(530));
        assert_eq!(of(vec![group(1, Some(500)), group(1, None)]), None);
        assert_eq!(of(vec![group(1, Some(500)), group(0, None)]), Some(500));
        assert_eq!(of(vec![group(0, None)]), None);
        assert_eq!(of(Vec::new()), None);
        assert_eq!(of(vec![group(1, Some(u64::MAX)), group(1, Some(2))]), Some(u64::MAX));
    }
}
