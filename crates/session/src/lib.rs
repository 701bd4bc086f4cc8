//! One experiment from its file to its archive: the broker is started or attached, loaded,
//! sampled and profiled on one time axis, and what may be wrong with the numbers is said.

mod activity;
mod broker_objects;
pub mod brokers;
mod calibrate;
pub mod calibration;
mod command;
mod comparison;
mod connection_time;
pub mod definitions;
pub mod doctor;
mod error;
pub mod experiment;
mod export;
mod figures;
mod function_costs;
pub mod guardian;
mod hardware;
mod hidden;
mod history;
mod http;
mod judge;
mod limit;
mod log_comparison;
mod look;
pub mod management;
mod oauth2;
mod observer;
mod page_server;
mod pairs;
mod prepared;
mod push;
mod queue_page;
pub mod redact;
mod repeats;
mod run;
mod scale;
mod scenarios;
pub mod scrape;
mod seconds;
mod spoiled;
mod trace;
mod usage;
mod within;

pub use calibrate::calibrate;
pub use comparison::comparison;
pub use error::Error;
pub use experiment::Experiment;
pub use export::{ExportOptions, Exporter, MetricsTarget};
pub use figures::ComparisonOptions;
pub use function_costs::{FunctionCosts, compare_functions};
pub use history::history;
pub use limit::{
    at_rate, first_rate, found_limit, limit_trial, next_rate, rate_options, requested_rate,
    suggested_rates,
};
pub use log_comparison::{compare_logs, read_logs};
pub use look::Look;
pub use observer::{NoObserver, Observer};
pub use page_server::{Page, serve_page, serve_pages};
pub use pairs::{
    CellRuns, LEAST_PAIRS, NextRun, compare_cells, counted_pairs, is_decided, looks_again,
    next_run_of, paired_run, spare_pairs,
};
pub use prepared::{PreparedData, PreparedFolder};
pub use profile::{Event, Stacks};
pub use push::{PushOptions, PushTarget};
pub use queue_page::{QueuePage, QueuePageCost, serve_queues};
pub use repeats::repeats;
pub use run::{
    ContinuousOptions, PeriodEnd, RecordOptions, RunOptions, RunOutcome, Target, Texts, Told,
    check, nodes_called, record, record_continuously, run, run_again_if_not_ready, run_on,
};
pub use scale::{at_scale, next_scale, scale_law, scale_plan, scale_run};
pub use scenarios::{MakeScenario, SCENARIOS};
pub use seconds::Seconds;
pub use within::compare_within;
