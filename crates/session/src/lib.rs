//! Runs an experiment from its file to its archive: starts or attaches the broker, loads, samples and profiles it on
//! one time axis, and warns of doubtful numbers.

mod calibrate;
pub mod calibration;
mod command;
mod connection_time;
pub mod doctor;
mod error;
mod export;
mod hardware;
mod judge;
mod look;
mod observer;
mod prepared;
mod queue_page;
mod run;
mod seconds;
mod trace;
mod usage;

pub use calibrate::calibrate;
pub use error::Error;
pub use export::{ExportOptions, Exporter, MetricsTarget};
pub use judge::{ACHIEVED, FULL, OTHERS};
pub use look::Inspection;
pub use observer::{NoObserver, Observer};
pub use prepared::{PreparedData, PreparedFolder};
pub use profile::{Event, Stacks};
pub use queue_page::{QueuePage, QueuePageCost, serve_queues};
pub use run::{
    Carrier, ContinuousOptions, FleetRun, MakeScenario, Membership, Occasion, PeriodEnd, RecordOptions, RecordingEvent,
    RunOptions, RunOutcome, SCENARIOS, SharedFiles, Target, Texts, WorkerLink, busiest_descendant, check, nodes_called,
    record, record_continuously, run, run_again_if_not_ready, run_on, worker_facts,
};
pub use seconds::Seconds;
pub use trace::TracedBroker;
