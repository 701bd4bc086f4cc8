//! Several runs together: pairs and batches compared, limits and scales searched, a history of versions. Runs come in
//! as they were archived, or as an experiment that is to be run next; nothing is started here.

mod comparison;
#[cfg(test)]
mod example_warnings;
mod figures;
mod function_costs;
mod history;
mod limit;
mod log_comparison;
mod pairs;
mod repeats;
mod scale;
mod spoiled;
mod within;

pub use comparison::comparison;
pub use figures::ComparisonOptions;
pub use function_costs::{FunctionCosts, compare_functions};
pub use history::history;
pub use limit::{
    at_rate, first_rate, found_limit, limit_trial, next_rate, rate_options, requested_rate, suggested_rates,
    trials_left,
};
pub use log_comparison::{compare_logs, read_logs};
pub use pairs::{
    CellRuns, LEAST_PAIRS, NextRun, compare_cells, is_decided, looks_again, next_run_of, paired_run, runs_left,
};
pub use repeats::repeats;
pub use scale::{at_scale, check_one_group, next_scale, scale_law, scale_plan, scale_run};
pub use within::compare_within;
