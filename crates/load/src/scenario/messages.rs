//! Messages from producers through queues to consumers: the event loops of `engine`.

use measure::Metric;

use super::Scenario;
use crate::protocol::amqp10::LinkConnection;
use crate::protocol::amqp091::AmqpConnection;
use crate::protocol::mixed::MixedConnection;
use crate::protocol::mqtt::MqttConnection;
use crate::{
    ArrivalProcess, Control, Environment, Error, Outcome, Phases, Plan, Protocol, Requested, SliceSink, StartBarrier,
    System, engine,
};

impl Scenario for Plan {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn subject(&self) -> &str {
        "messages"
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::MESSAGES.to_vec()
    }

    fn requested(&self) -> Result<Option<Requested>, Error> {
        Self::requested(self)
    }

    /// The in-flight windows of all producers here; `None` where one has no limit.
    fn in_flight_limit(&self) -> Option<u64> {
        let limit = |group: &crate::Group| {
            let producers = &group.producers;
            let each = match producers.guarantee.commit_every() {
                _ if matches!(producers.arrivals, ArrivalProcess::ThinkTime(_)) => 1,
                0 => producers.max_pending,
                // A transaction goes on when the one before is answered.
                messages => messages,
            };
            let limited = producers.guarantee.has_answers() && each > 0;
            limited.then(|| u64::from(each) * group.own_producers().count() as u64)
        };
        self.groups.iter().filter(|it| it.own_producers().next().is_some()).map(limit).sum()
    }

    fn connections(&self) -> u64 {
        self.connection_count() as u64
    }

    fn plan(&self) -> Option<&Plan> {
        Some(self)
    }

    fn is_closed_loop(&self) -> bool {
        Self::is_closed_loop(self)
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        run_plan(&System, self, together, control, sink)
    }
}

/// The protocol of all groups; `None` where they use several.
fn protocol_of(plan: &Plan) -> Option<Protocol> {
    let first = plan.groups.first().map_or_else(Protocol::default, |group| group.protocol);
    plan.groups.iter().all(|group| group.protocol == first).then_some(first)
}

pub(crate) fn validate(plan: &Plan) -> Result<(), Error> {
    match protocol_of(plan) {
        Some(Protocol::Amqp091) => engine::validate::<AmqpConnection>(plan),
        Some(Protocol::Amqp10) => engine::validate::<LinkConnection>(plan),
        Some(Protocol::Mqtt) => engine::validate::<MqttConnection>(plan),
        None => engine::validate::<MixedConnection>(plan),
    }
}

/// Runs a plan in an environment of the caller's, with the start and the end that others have, too. Errors: those of
/// [`crate::run`].
pub fn run_plan<E: Environment>(
    environment: &E,
    plan: &Plan,
    together: &StartBarrier,
    control: &Control,
    sink: &mut dyn SliceSink,
) -> Result<Outcome, Error> {
    let run = match protocol_of(plan) {
        Some(Protocol::Amqp091) => engine::run::<AmqpConnection, E>,
        Some(Protocol::Amqp10) => engine::run::<LinkConnection, E>,
        Some(Protocol::Mqtt) => engine::run::<MqttConnection, E>,
        None => engine::run::<MixedConnection, E>,
    };
    run(environment, plan, together, control, sink)
}
