//! The run folder: its types, how it is written while a run goes on, and how it is read again,
//! whole or cut off.
//!
//! `session` and `profile` write it, `report` reads it; they share nothing else.

mod record;
mod series;
mod summary;
mod warning;

pub use record::{
    BindingRecord, Event, ExchangeRecord, Hardware, PhaseSpan, QueueRecord, RunRecord, RunState,
    Topology, Versions, default_runs_dir,
};
pub use series::{ProcessUsage, SeriesPoint};
pub use summary::{
    BrokerSummary, FunctionShare, PerMessage, ProfileSummary, Rss, RunSummary, Throughput,
};
pub use warning::{Warning, WarningCode};
