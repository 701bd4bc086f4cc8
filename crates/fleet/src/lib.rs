//! Several machines as one generator, without sockets, clocks or threads: what a coordinator and its workers say to
//! each other, how far their clocks are apart, and their states. Messages and `now` come in, messages and orders go
//! out. Only [`Host`] has a thread and the clock, and `nats` the network.
//!
//! ```text
//! coordinator                                       worker
//!                       <- Join, until greeted         joined
//! Hello                 ->
//! Probe, throughout     <-> Echo
//! Share                 ->                             preparing
//!                       <- Ready                       ready
//! Start (T0)            ->                             armed
//!                       <- Started, Slice, Event       running
//! End, Stop             ->
//!                       <- LoadEnded, Slice            draining
//!                       <- Ended
//! Release, to all       ->
//!                       <- Left                        done
//! ```
//!
//! Messages may be lost, repeated, delayed and reordered. Those with a number are sent again until the other side has
//! said that it has them, and are handled once and in order ([`Envelope`]). A free worker that a coordinator does not
//! answer stays free; one that was fenced calls again with a new session.
//!
//! A worker that records a broker's process carries nothing: it is ready, starts and leaves as the others do, and is
//! not missed where it is lost.
//!
//! **Lease.** A coordinator's messages return the stamp of the newest message that it has from that worker; the load
//! goes on until that stamp + lease. Who was not heard for the lease has therefore already stopped.

mod clock;
mod coordinator;
pub mod fuzzing;
mod host;
mod message;
#[cfg(feature = "nats")]
pub mod nats;
mod pieces;
mod slice;
mod stream;
mod worker;

pub use clock::{ClockEstimator, ClockLine, ProbeTimes};
pub use coordinator::{Coordinator, CoordinatorInput, CoordinatorOutput, Flaw, Member, Outage, RunRules};
pub use host::{Host, Inputs, Machine};
pub use message::{
    Envelope, LEDGER_PIECE, LoadOutcome, MOST_BYTES, PhaseSpan, RecordedProcess, Share, Tally, ToCoordinator, ToWorker,
    WorkerFacts, WorkerState,
};
pub use pieces::{PIECE, Piece, PieceRequest};
pub use slice::{Malformed, SliceData, SliceReader, SliceWriter};
pub use worker::{Worker, WorkerInput, WorkerOutput};
