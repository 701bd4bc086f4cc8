//! The load engine: one event loop per thread, each with its own connections, recorders and part
//! of the schedule. [`run`] takes a resolved [`Plan`] and reports to a [`Sink`] ten times a second.
//! What every number means is said in `docs/measurement.md`.

mod control;
mod endpoint;
mod engine;
mod environment;
mod error;
mod failure;
mod limits;
mod node;
pub mod payload;
mod phase_clock;
mod plan;
mod protocol;
mod protocols;
mod random;
mod report;
mod requested;
mod resolve;
mod resolver;
pub mod scenario;
mod schedule;
mod seconds;
mod sizes;
mod thread_time;
mod together;
mod token;
mod window;

pub use control::Control;
pub use endpoint::{Auth, ConnectionSettings, Endpoint};
pub use environment::{Environment, EventLoop, System, Task};
pub use error::Error;
pub use limits::make_room;
pub use phase_clock::{PhaseClock, SliceEnd};
pub use plan::{
    Ack, Allocation, AmqpConsumers, AmqpDestination, AmqpProducers, Argument, Consumers, Declare,
    Destination, DestinationKind, Exchange, Group, Guarantee, LatencyStep, MessageProperties,
    Phases, Plan, Producers, Protocol, QueueHandling, QueueType, RandomKeys, ReconnectPolicy,
    Refusal, ServiceTime, Spin, StartDelay, StopCondition, StreamOffset, Subscription,
};
pub use report::{
    Censored, OperationTally, Outcome, PhaseTimes, ProgramEnd, RunEvent, Silence, Sink, SliceSink,
    ThreadUsage,
};
pub use requested::Requested;
pub use resolver::Resolver;
pub use schedule::{ArrivalProcess, ArrivalSchedule, RateProfile, Spacing, Step, Trace};
pub use sizes::{Bodies, Distribution, Json, SizeStep, Sizes};
pub use thread_time::ThreadTime;
pub use together::Together;
pub use token::Token;
pub use transport::tls::{ClientTls, Identity};
pub use transport::{
    ClientStream, ConnectOptions, Dial, Output, Poller, Readiness, Received, Sleep, SocketError,
    SocketOptions, Wake,
};

/// Finds what of a plan cannot be run, before anything is connected.
///
/// # Errors
/// [`Error::Invalid`] with the observed value and what would do.
pub fn validate(plan: &Plan) -> Result<(), Error> {
    protocols::validate(plan)
}

/// Runs a load to its end on `plan.threads` threads, and reports to `sink` on the calling one.
///
/// # Errors
/// Where the load could not start: see [`Error`]. What goes wrong after the start ends the run and
/// stands in [`Outcome::error`], beside what was counted until then.
pub fn run(plan: &Plan, control: &Control, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    make_room(plan.connection_count() as u64)?;
    run_in(&System, plan, control, sink)
}

/// Runs a plan in an environment of the caller's, as [`run`] does on this machine.
///
/// # Errors
/// Those of [`run`].
pub fn run_in<E: Environment>(
    environment: &E,
    plan: &Plan,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Outcome, Error> {
    let mut seconds = seconds::Seconds::of(sink);
    let together = Together::alone();
    let outcome = protocols::run(environment, plan, &together, control, &mut seconds);
    seconds.finish();
    outcome
}
