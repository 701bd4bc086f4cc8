//! Operations that a loop begins at their due times, each in a slot of its own: the cycles of churn, the requests
//! of a probe. The schedule is open, as for messages: operation *i* is due at a fixed time, from which its latency
//! counts, however late it began. So a server that stalls shows in all operations that were due meanwhile.

mod counts;
mod event_loop;
mod unanswered;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use measure::{Metric, Nanos, ScenarioRole, Time};
use transport::tls::Connector;

pub(crate) use self::counts::OperationCounts;
use self::event_loop::LoopReport;
pub(crate) use self::event_loop::{LoopContext, OperationLoop};
use super::{Operations, Scenario, Scheduled};
use crate::control::Interruption;
use crate::resolve::Addresses;
use crate::{ArrivalSchedule, Control, Error, Outcome, RunEvent, Silence, SliceSink, StartBarrier};

/// Memory for bytes that were read, lent to one slot after the other.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) plain: Vec<u8>,
    pub(crate) cipher: Vec<u8>,
}

/// The server of operations, found before any begins.
pub(crate) struct OperationServer<O> {
    pub(crate) operation: O,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) tls: Option<Arc<Connector>>,
    /// Told before anything else.
    pub(crate) event: Option<RunEvent>,
}

/// Room for one operation in flight, and its connection.
pub(crate) trait Slot {
    fn new(number: usize, now: Time) -> Self;

    /// When the operation in flight was due; `None` without one.
    fn due(&self) -> Option<Time>;

    /// Takes note of what the socket is ready for.
    fn notice(&mut self, event: &mio::event::Event);

    /// Whether the last turn left something to read.
    fn wants_turn(&self) -> bool;
}

/// A kind of operation. The [`OperationLoop`] has the due times, the slots, the phases and the counts; the operation
/// connects, writes and reads.
pub(crate) trait Operation: Sized {
    type Plan: Scenario;
    type Slot: Slot;
    /// Figures beside those that all operations have.
    type Figures;
    /// Why an operation got no further.
    type Failure;

    /// The subject of sentences: `a probe`.
    const SUBJECT: &'static str;
    const THREAD: &'static str;
    /// How often heartbeats and hanging operations are looked for.
    const POLL_INTERVAL: Nanos;
    /// Whether a run ends with an error where all its operations failed, though other loads ran beside them.
    const FAILS_BESIDE_OTHERS: bool;

    /// `None`: the next operation begins as soon as a slot is free.
    fn schedule(plan: &Self::Plan) -> Option<&ArrivalSchedule>;

    fn counts(plan: &Self::Plan, now: Time) -> OperationCounts<Self::Figures>;

    fn connect(plan: &Self::Plan, control: &Control) -> Result<OperationServer<Self>, Interruption>;

    /// Opens the connections that stay, before the loop is ready to start.
    fn open(_: &mut OperationLoop<'_, Self>) -> Result<(), Interruption> {
        Ok(())
    }

    /// Begins an operation; whether there is something to send at once.
    fn begin(
        &mut self,
        slot: &mut Self::Slot,
        context: &mut LoopContext<'_, Self>,
        due: Time,
        now: Time,
    ) -> Result<bool, Self::Failure>;

    /// Reads and writes what there is, up to a limit, and frees the slot where its operation has ended.
    fn turn(
        &mut self,
        slot: &mut Self::Slot,
        context: &mut LoopContext<'_, Self>,
        buffers: &mut Buffers,
    ) -> Result<(), Self::Failure>;

    /// Sends heartbeats, and finds silent servers and hanging operations; whether an address does not answer, and the
    /// next is to be tried. `heard` is when sockets were asked last: bytes not read yet are nobody's silence.
    fn keep_time(slot: &mut Self::Slot, plan: &Self::Plan, heard: Time) -> Result<bool, Self::Failure>;

    /// Counts an operation that has failed and frees its slot, or tries once more; an error ends the run.
    fn failed(
        &mut self,
        slot: &mut Self::Slot,
        context: &mut LoopContext<'_, Self>,
        failure: Self::Failure,
    ) -> Result<(), Error>;

    /// The silences that are over, or all at the end. What was due until some time was `due_until` it.
    fn take_silences(
        counts: &mut OperationCounts<Self::Figures>,
        due_until: impl Fn(Time) -> f64,
        is_end: bool,
    ) -> Vec<Silence>;

    /// A note on the whole run, told at its end.
    fn last_note(_: &LoopContext<'_, Self>) -> Option<String> {
        None
    }
}

/// Runs operations on a thread of their own, and hands what it tells to `sink` on this one.
pub(crate) fn run<O: Operation>(
    plan: &O::Plan,
    together: &StartBarrier,
    control: &Control,
    sink: &mut dyn SliceSink,
) -> Result<Outcome, Error> {
    let cause = format!("{} without a length would not end", O::SUBJECT);
    let refused = Error::invalid(cause, "give one (--duration, phases.measure)");
    refused.unless(plan.phases().measure.is_some() || !together.is_alone())?;
    let (tell, told) = channel();
    let (give_back, spare) = channel();
    thread::scope(|scope| {
        let work = || {
            let started = OperationLoop::<O>::start(plan, together, control, tell, spare);
            match started.and_then(OperationLoop::run) {
                Ok(outcome) => Ok(outcome),
                Err(Interruption::Stopped) => Ok(Outcome::never_started()),
                Err(Interruption::Failed(error)) => Err(error),
            }
        };
        let thread = thread::Builder::new().name(O::THREAD.to_owned());
        let worker = thread.spawn_scoped(scope, work).map_err(|error| Error::machine("start a thread", error))?;
        for event in told {
            match event {
                LoopReport::Event(event) => sink.event(event),
                LoopReport::Interval(interval) => {
                    sink.slice(&interval);
                    // Nobody needs it any more where that was the last one.
                    let _ = give_back.send(interval);
                }
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The metrics that the event loop itself records, resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationMetrics {
    /// The scenario's key, under which its tally stands.
    pub(crate) scenario: &'static str,
    /// The words for one and for several operations.
    pub(crate) words: [&'static str; 2],
    /// System that they load.
    pub(crate) role: ScenarioRole,
    pub(crate) begun: Metric,
    pub(crate) completed: Metric,
    pub(crate) failed: Metric,
    pub(crate) late: Metric,
    pub(crate) in_flight: Metric,
    pub(crate) not_begun: Metric,
    /// Operations that have neither ended nor been given up when the run ends; `None` where those are not counted.
    pub(crate) in_flight_at_end: Option<Metric>,
    /// From the due time until the operation has begun.
    pub(crate) wait: Metric,
    /// From the due time until the operation has ended.
    pub(crate) latency: Metric,
    /// Another latency from the due time; `None` where there is none.
    pub(crate) opened: Option<Metric>,
}

impl OperationMetrics {
    pub(crate) const fn operations(&self) -> Operations {
        let [one, many] = self.words;
        Operations {
            one,
            many,
            role: self.role,
            begun: self.begun,
            completed: self.completed,
            failed: Some(self.failed),
            scheduled: Some(Scheduled { late: self.late, not_begun: self.not_begun, wait: self.wait }),
            latency: self.latency,
        }
    }
}
