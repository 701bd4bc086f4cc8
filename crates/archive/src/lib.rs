//! The run folder: its types, its writer during a run, and its reader, whole or cut off.
//!
//! `session` writes it, `report` reads it; they share nothing else.

mod collect;
mod comparison;
mod error;
mod facts;
mod files;
mod finding;
mod histogram_decode;
mod histogram_log;
mod labels;
mod latency_log;
mod latency_slices;
mod limit;
mod list;
mod matrix;
mod named_series;
mod pairs;
mod quantity;
mod reader;
mod record;
mod remove;
mod repeats;
mod select;
mod series;
mod slice;
mod summary;
#[cfg(test)]
mod tests;
mod traces;
mod verdict;
mod writer;

pub use collect::{ACROSS, CollectOptions, CollectedRun, NodeFolder, is_collected, judge_clocks};
pub use compare::{
    ComparedSideName, Decision, EffectFigure, FoundLimit, LimitPlan, ScaleDoubt, ScaleEstimate, ScaleLaw,
};
pub use comparison::{
    ComparedFamily, ComparedFigure, ComparedFrame, ComparedFunctions, ComparedName, ComparedRun, ComparedSide,
    ComparedStacks, Comparison, CostChange, ExplainedChange, FunctionChange, LeftOut, RenamedFunction, RunBlocks,
    RunsCounted, WithinOneRun,
};
pub use error::Error;
pub use facts::{
    BrokerUse, Capacity, ChurnFacts, ConnectionTime, Ended, Facts, Lacking, LoopUse, OwnFault, ProducerTime,
    RunQueueWait, WorkerAbsence, WorkerShare, WorkerSummary,
};
pub use files::{FolderLock, RunLock, data_folder, default_runs_dir};
pub use finding::{
    CoresUsed, FewSamples, Finding, MissedFaults, ProfileGap, RELEASE_BUILD, SentOf, Stall, StallWait, Stalled, Stood,
    Tier, WORKER_STOPPED, Warning, WarningCode,
};
pub use histogram_log::{HistogramLog, HistogramRecord, encode_histogram};
pub use labels::{Labels, Tag};
pub use latency_log::{LatencyLog, LogTag, LogUnit, UnitSource};
pub use latency_slices::LatencySlices;
pub use limit::{LimitOutcome, LimitTrial, LimitTrials, ScaleRun, ScaleRuns, SuggestedRate};
pub use list::{FolderKind, RunEntry, find_part, folders_of_runs, list_runs};
pub use matrix::{ComparedCell, ComparedMatrix, MatrixCell, MatrixKey, PairedMatrix, short_names};
pub use named_series::{
    ERLANG_MEMORY, MOST_SERIES, NamedPoint, NamedSeries, SeriesName, SeriesNames, SeriesUnit, SeriesValue,
    read_named_series, series_of_node,
};
pub use pairs::{PairedRun, PairedRuns};
pub use quantity::{Quantity, plain_name, probe_name};
pub use reader::RunReader;
pub use record::{
    BindingRecord, DeliveryPromise, Event, ExchangeRecord, FailedBy, FleetPart, Hardware, Period, PhaseSpan,
    QueueRecord, RunRecord, RunState, ScenarioStart, Topology, Versions,
};
pub use remove::Removable;
pub use repeats::{
    History, HistoryChange, HistoryFigure, HistoryLevel, HistoryRun, RepeatedFigure, RepeatedRun, Repeats,
    RepeatsSummary,
};
pub use select::{PeriodRange, Retention, RunFilter, RunOrder, prunable, sort_runs};
pub use series::{MESSAGES, ProcessUsage, ScenarioPoint, SeriesPoint};
pub use slice::{SliceLatency, SliceLog, SlicePoint};
pub use summary::{
    BrokerSummary, ClockBound, FailureCount, FaultOutcome, Lasted, MessageFlow, NodeSummary, ObserverEffect,
    ObserverRow, ObserverTable, PageCpu, PerMessage, ProfilingBlock, ProgramSummary, QuantityUnit, RequestedSummary,
    RequestedWindow, RequirementOutcome, Rss, RunSummary, ScenarioSummary, ScrapedPage, Throughput,
};
pub use traces::{LookSpan, TraceSummary, TracedCall, read_slowest_calls};
pub use verdict::{Awaited, Busy, Cause, Lateness, LimitedBy, Reason, Verdict};
pub use writer::{RunWriter, sanitised};

/// Names of the files of a run folder.
pub mod file {
    /// The run: see [`crate::RunRecord`].
    pub const RECORD: &str = "run.json";
    /// Tags and notes: see [`crate::Labels`].
    pub const LABELS: &str = "labels.json";
    /// Runs of one experiment together: see [`crate::Repeats`].
    pub const REPEATS: &str = "repeats.json";
    /// Plan of runs of two sides in turns: see [`crate::PairedRuns`].
    pub const PAIRS: &str = "pairs.json";
    /// Cells of several comparisons of runs in turns: see [`crate::PairedMatrix`].
    pub const MATRIX: &str = "matrix.json";
    /// Comparison of two sides: see [`crate::Comparison`].
    pub const COMPARISON: &str = "comparison.json";
    /// Costs of call paths on both sides: see [`crate::ComparedStacks`].
    pub const COMPARED_STACKS: &str = "comparison-stacks.json";
    /// At which rates an experiment was tried: see [`crate::LimitTrials`].
    pub const LIMIT: &str = "limit.json";
    /// One line per second: see [`crate::SeriesPoint`].
    pub const SERIES: &str = "series.jsonl";
    /// One line per tenth of a second: see [`crate::SlicePoint`].
    pub const SLICES: &str = "slices.jsonl";
    /// Named series of the machine, the broker and scraped pages: see [`crate::NamedSeries`].
    pub const METRICS: &str = "metrics.jsonl";
    /// Calls that traces of the broker's node saw: see [`crate::TracedCall`].
    pub const TRACES: &str = "traces.jsonl";
    /// Whole HDR histograms per second.
    pub const HISTOGRAMS: &str = "latency.hlog";
    pub use stacks::file::{FLAME, FOLDED, FURTHER_PPROF, PPROF, STACKS, of_event};

    /// The self-contained report.
    pub const REPORT: &str = "report.html";
}
