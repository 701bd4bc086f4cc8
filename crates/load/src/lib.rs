//! The load engine: one event loop per thread, each with its own connections, recorders and part
//! of the schedule. [`run`] takes a resolved [`Plan`] and reports to a [`Sink`] ten times a second.
//! `docs/measurement.md` defines every number.

mod control;
mod engine;
mod environment;
mod failure;
mod phase_clock;
mod protocol;
mod report;
mod resolve;
pub mod scenario;
mod seconds;
mod share_progress;
mod window;

use self::scenario::messages;
pub use control::Control;
pub use environment::{Environment, EventLoop, System, Task, ThreadTime, make_room};
pub use phase_clock::{PhaseClock, SliceEnd, StartBarrier};
pub use plan::{
    Ack, Allocation, AmqpConsumers, AmqpDestination, AmqpProducers, Argument, ArrivalProcess, ArrivalSchedule, Auth,
    Bodies, ConnectionSettings, Consumers, Declare, Destination, DestinationKind, Distribution, Endpoint, Error,
    Exchange, Group, Guarantee, Json, LatencyStep, MessageProperties, MqttOptions, MqttVersion, Owed, OwnDestinations,
    Phases, Placement, Plan, Producers, Protocol, QueueHandling, QueueType, RandomKeys, RateProfile, ReconnectPolicy,
    Refusal, Requested, Resolver, SenderClock, ServiceTime, Share, SizeStep, Sizes, Spacing, Spin, StartDelay, Step,
    StopCondition, StreamOffset, Subscription, Token, Trace, payload,
};
pub use report::{Censored, OperationTally, Outcome, PhaseTimes, ProgramEnd, RunEvent, Silence, Sink, SliceSink};
pub use share_progress::ShareProgress;
pub use transport::tls::{ClientTls, Identity};
pub use transport::{
    ClientStream, ConnectOptions, Dial, Output, Poller, Readiness, Received, Sleep, SocketError, SocketOptions, Wake,
};

/// Finds what cannot be run, before anything connects. Errors: [`Error::Invalid`] with value and remedy.
pub fn validate(plan: &Plan) -> Result<(), Error> {
    messages::validate(plan)
}

/// Runs a load to its end on `plan.threads` threads, and reports to `sink` on the calling one. Errors: where the load
/// could not start: see [`Error`]. Later failures end the run and stand in [`Outcome::error`], beside the counts.
pub fn run(plan: &Plan, control: &Control, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    make_room(plan.connection_count() as u64)?;
    run_in(&System, plan, control, sink)
}

/// Runs a plan in an environment of the caller's, as [`run`] does on this machine. Errors: those of [`run`].
pub fn run_in<E: Environment>(
    environment: &E,
    plan: &Plan,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Outcome, Error> {
    let mut seconds = seconds::Seconds::of(sink);
    let together = StartBarrier::alone();
    let outcome = messages::run_plan(environment, plan, &together, control, &mut seconds);
    seconds.finish();
    outcome
}
