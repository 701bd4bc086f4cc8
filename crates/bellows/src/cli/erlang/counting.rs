//! What counters of functions and calls of an entry function share: their options, and who calls whom.

use clap::Args;
use erlang::calls::CallTree;
use measure::count;
use report::console::{GridColumn, grid};

use super::budget::{BudgetArgs, ProcessArgs};
use super::connect::NodeArgs;
use crate::failure::Failure;
use crate::output;

/// Callers and callees that are shown of a function.
const NEIGHBOURS: usize = 4;
/// Functions whose neighbours are shown.
const FUNCTIONS: usize = 10;

/// What is counted, and shown of it.
#[derive(Debug, Args)]
pub(super) struct CountArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// Functions that are shown
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub(super) number: usize,
    #[command(flatten)]
    pub(super) processes: ProcessArgs,
    #[command(flatten)]
    pub(super) budget: BudgetArgs,
    /// Print it as a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Who calls the first of these functions, and whom they call.
pub(super) fn print_neighbours<'a>(
    tree: &CallTree,
    functions: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let rows: Vec<_> = functions
        .take(FUNCTIONS)
        .filter_map(|function| {
            let (callers, callees) = (tree.callers(function), tree.callees(function));
            let none = callers.is_empty() && callees.is_empty();
            (!none).then(|| vec![function.to_owned(), named(&callers), named(&callees)])
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heads = ["function", "called by", "calls"].map(GridColumn::text);
    let table = grid(&heads, Some(1), rows, output::style());
    output::print(&format!("\n{table}"))
}

fn named(pairs: &[(&str, u64)]) -> String {
    let shown = pairs.iter().take(NEIGHBOURS);
    let shown: Vec<_> = shown
        .map(|(name, calls)| format!("{name} {}", count(*calls)))
        .collect();
    shown.join(", ")
}
