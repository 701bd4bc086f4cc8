//! Protocols: the engine over each of them, a line each.

use crate::engine;
use crate::protocol::{amqp10::LinkConnection, amqp091::AmqpConnection};
use crate::{Control, Environment, Error, Outcome, Plan, Protocol, SliceSink, Together};

/// See [`crate::validate`].
pub(crate) fn validate(plan: &Plan) -> Result<(), Error> {
    match plan.protocol {
        Protocol::Amqp091 => engine::validate::<AmqpConnection>(plan),
        Protocol::Amqp10 => engine::validate::<LinkConnection>(plan),
    }
}

/// See [`crate::run`].
pub(crate) fn run<E: Environment>(
    environment: &E,
    plan: &Plan,
    together: &Together,
    control: &Control,
    sink: &mut dyn SliceSink,
) -> Result<Outcome, Error> {
    let run = match plan.protocol {
        Protocol::Amqp091 => engine::run::<AmqpConnection, E>,
        Protocol::Amqp10 => engine::run::<LinkConnection, E>,
    };
    run(environment, plan, together, control, sink)
}
