//! What is known of a load before it begins.

use archive::Capacity;
use load::scenario::Scenario;
use load::{DestinationKind, Plan, QueueType};

/// What is known of a load before it begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// Messages that may be in flight, all producers together.
    pub(crate) in_flight_limit: Option<u64>,
    /// Deliveries that each message should lead to at least; `None` where only one side is here.
    pub(crate) deliveries_each: Option<f64>,
    /// Deliveries that each message must lead to by the end; `None` where some consumers take a number of them, or begin
    /// after the messages that topics do not keep.
    pub(crate) deliveries_due: Option<f64>,
    /// Messages that producers are to send, and no more, all together; `None` where some of them do not end so.
    pub(crate) messages: Option<u64>,
    pub(crate) closed_loop: bool,
    pub(crate) slow_consumers: bool,
    /// What calibration says of such a load.
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
                deliveries_due: deliveries_each(plan).filter(|_| plan.groups.iter().all(takes_all)),
                messages: messages(plan),
                slow_consumers: plan
                    .groups
                    .iter()
                    .any(|g| g.consumer_count() > 0 && takes_its_time(&g.consumers)),
                ..planned
            },
        }
    }
}

fn messages(plan: &Plan) -> Option<u64> {
    let producing = plan.groups.iter().filter(|it| it.producer_count() > 0);
    let all = producing.map(|it| it.producers.message_count);
    let all = all.reduce(|one, other| Some(one?.saturating_add(other?)))?;
    all.filter(|all| *all > 0)
}

fn deliveries_each(plan: &Plan) -> Option<f64> {
    let deliveries = |group: &load::Group| {
        let consumers = group.consumer_count();
        let copies = |d: &load::Destination| {
            d.kind == DestinationKind::Topic || d.amqp091.queue_type == QueueType::Stream
        };
        // What an exchange makes of a message is its own affair, but for one that gives it to the queue with its key.
        let fixed = group.producers.random_keys.is_none();
        let known = |d: &load::Destination| match &d.amqp091.exchange {
            Some(exchange) => fixed && exchange.kind == "direct" && d.amqp091.bind,
            None => true,
        };
        let known = group.destinations.iter().all(known);
        let each = if group.destinations.iter().all(copies) {
            (consumers / group.destinations.len().max(1)).max(1) as f64
        } else {
            1.0
        };
        (known && consumers > 0).then_some(each)
    };
    let fewest = |sum: Option<f64>, each: f64| Some(sum.map_or(each, |sum| sum.min(each)));
    let producing = plan.groups.iter().filter(|it| it.producer_count() > 0);
    let all: Option<Vec<f64>> = producing.map(deliveries).collect();
    all.and_then(|all| all.into_iter().fold(None, fewest))
}

/// Whether the group's consumers take all that its destinations get.
fn takes_all(group: &load::Group) -> bool {
    let consumers = &group.consumers;
    let begins_late = !consumers.start_after.is_zero() || !consumers.apart.is_zero();
    let keeps = |it: &load::Destination| it.kind != DestinationKind::Topic;
    let is_kept = group.destinations.iter().all(keeps);
    let has_each = group.consumer_count() >= group.destinations.len() || is_kept;
    consumers.message_count.is_none_or(|it| it == 0) && has_each && (is_kept || !begins_late)
}

fn takes_its_time(consumers: &load::Consumers) -> bool {
    let begins_late = !consumers.start_after.is_zero() || !consumers.apart.is_zero();
    !consumers.service.is_zero() || consumers.poll.is_some() || begins_late
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load ends with its messages where all of its producers do.
    #[test]
    fn messages_are_counted_where_every_producer_has_an_end() {
        let group = |producers: usize, message_count| {
            let mut group = load::Group::new(load::Endpoint::new("localhost", 0), Vec::new());
            group.producers.total = Some(producers);
            group.producers.message_count = message_count;
            group
        };
        let of = |groups: Vec<load::Group>| {
            let plan = Plan {
                groups,
                ..Plan::default()
            };
            messages(&plan)
        };
        assert_eq!(of(vec![group(2, Some(500)), group(1, Some(30))]), Some(530));
        assert_eq!(of(vec![group(1, Some(500)), group(1, None)]), None);
        assert_eq!(of(vec![group(1, Some(500)), group(0, None)]), Some(500));
        assert_eq!(of(vec![group(0, None)]), None);
        assert_eq!(of(Vec::new()), None);
        let more = vec![group(1, Some(u64::MAX)), group(1, Some(2))];
        assert_eq!(of(more), Some(u64::MAX));
    }
}
