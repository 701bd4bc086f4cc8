//! What is known of a load before it begins.

use archive::Capacity;
use load::scenario::Scenario;
use load::{DestinationKind, Plan, QueueType, Silence};
use measure::Nanos;

/// What is known of a load before it begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// Connections that producers have, those of consumers excluded; 0 where nobody sends messages.
    pub(crate) producer_connections: u64,
    /// Messages that may be in flight, all producers together.
    pub(crate) in_flight_limit: Option<u64>,
    /// Deliveries that each message should lead to at least; `None` where only one side is here.
    pub(crate) deliveries_each: Option<f64>,
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
                producer_connections: plan
                    .groups
                    .iter()
                    .map(|group| group.producer_connection_count() as u64)
                    .sum(),
                deliveries_each: deliveries_each(plan),
                slow_consumers: plan
                    .groups
                    .iter()
                    .any(|g| g.consumer_count() > 0 && takes_its_time(&g.consumers)),
                ..planned
            },
        }
    }

    /// The share of what becomes due that a silence delays; all event loops have so many `connections`.
    pub(crate) fn delayed_share(&self, silence: &Silence, connections: u64) -> f64 {
        let of = if silence.is_own {
            // Whatever its connections are for.
            connections
        } else {
            self.producer_connections
        };
        // Operations are due to nobody in particular.
        if self.producer_connections == 0 || of == 0 {
            return 1.0;
        }
        (silence.connections as f64 / of as f64).min(1.0)
    }
}

fn deliveries_each(plan: &Plan) -> Option<f64> {
    let deliveries = |group: &load::Group| {
        let consumers = group.consumer_count();
        let copies = |d: &load::Destination| {
            d.kind == DestinationKind::Topic || d.amqp091.queue_type == QueueType::Stream
        };
        // What an exchange makes of a message is its own affair.
        let known = group
            .destinations
            .iter()
            .all(|d| d.amqp091.exchange.is_none());
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

fn takes_its_time(consumers: &load::Consumers) -> bool {
    !consumers.service.is_zero() || consumers.poll.is_some() || consumers.start_after > Nanos::ZERO
}

#[cfg(test)]
mod tests {
    use load::{Destination, Group};

    use super::*;

    fn planned(producers: usize, on: Option<usize>) -> Planned {
        let url = "amqp://localhost".parse().unwrap();
        let mut group = Group::new(url, vec![Destination::queue("q")]);
        group.producers.per_destination = producers;
        group.producers.connections = on;
        group.consumers.per_destination = 3;
        Planned::of(&Plan {
            groups: vec![group],
            ..Plan::default()
        })
    }

    fn silence(connections: u64, is_own: bool) -> Silence {
        Silence {
            connections,
            is_own,
            ..Silence::default()
        }
    }

    #[test]
    fn a_silence_delays_what_is_due_on_its_connections() {
        let share = |planned: Planned, silent, all| {
            let share = planned.delayed_share(&silence(silent, false), all);
            (share * 100.0).round() as u64
        };
        assert_eq!(share(planned(8, Some(1)), 1, 4), 100);
        assert_eq!(share(planned(8, Some(4)), 1, 7), 25);
        assert_eq!(share(planned(8, None), 2, 11), 25);
        // Away are those of consumers, too.
        assert_eq!(share(planned(8, None), 11, 11), 100);
        // Churn has none: a cycle is due to whichever connection is free.
        assert_eq!(share(Planned::default(), 1, 0), 100);
    }

    #[test]
    fn a_loop_that_does_not_run_delays_all_of_its_producers() {
        let share = |of_loop| planned(8, None).delayed_share(&silence(of_loop, true), 11);
        assert!((share(11) - 1.0).abs() < 1e-9);
        assert!((share(6) - 6.0 / 11.0).abs() < 1e-9, "one loop of two");
        let churn = Planned::default().delayed_share(&silence(3, true), 0);
        assert!((churn - 1.0).abs() < 1e-9);
    }
}
