//! Options shared by counters of functions and by calls of an entry function, and their callers.

use clap::Args;
use erlang::calls::CallTree;
use measure::count;
use report::console::{sanitise, wrap};

use super::budget::{BudgetArgs, ProcessArgs};
use super::connect::NodeArgs;
use crate::failure::Failure;
use crate::output;

/// Callers and callees that are shown of a function.
const NEIGHBOURS: usize = 4;
/// Where names begin below a function.
const INDENT: usize = 13;
/// Functions whose neighbours are shown.
const FUNCTIONS: usize = 10;

/// Options of counters and their output.
#[derive(Debug, Args)]
pub(super) struct CountArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// Functions that are shown
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
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
            (!none).then(|| (function.to_owned(), named(&callers), named(&callees)))
        })
        .collect();
    let columns = output::style().columns;
    rows.iter()
        .try_for_each(|row| output::print(&neighbours(row, columns)))
}

/// A function, and below it who calls it and whom it calls: names are too long to stand beside each other.
fn neighbours((function, callers, callees): &(String, String, String), columns: usize) -> String {
    let mut out = format!("\n{}\n", sanitise(function));
    for (what, names) in [("called by", callers), ("calls", callees)] {
        let lines = wrap(&sanitise(names), columns.saturating_sub(INDENT));
        for (number, line) in lines.iter().enumerate() {
            let head = if number == 0 { what } else { "" };
            let head = format!("  {head}");
            out += &format!("{head:INDENT$}{line}\n");
        }
    }
    out
}

fn named(pairs: &[(&str, u64)]) -> String {
    let shown = pairs.iter().take(NEIGHBOURS);
    let shown: Vec<_> = shown
        .map(|(name, calls)| format!("{name} {}", count(*calls)))
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::neighbours;

    #[test]
    fn names_are_whole_and_stand_below_each_other() {
        let text = |it: &str| it.to_owned();
        let row = (
            text("rabbit_channel:deliver_to_queues/2"),
            text("rabbit_channel:handle_method/3 152, rabbit_channel:process_routing_confirm/6 7"),
            String::new(),
        );
        assert_eq!(
            neighbours(&row, 60),
            "\nrabbit_channel:deliver_to_queues/2\n  called by  rabbit_channel:handle_method/3 152,\n             \
             rabbit_channel:process_routing_confirm/6 7\n"
        );
    }
}
