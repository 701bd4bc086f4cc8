//! `top`: where a profile spent its time, by function.

use clap::{Args, ValueEnum};
use regex::Regex;
use report::console::{self, FunctionSort, FunctionTable};

use super::args::ProfileArgs;
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows top last
  bellows top last --sort total --grep '^\\$rabbit_' --limit 40
  bellows top profile.pb.gz --from 10 --to 20";

/// What `bellows top` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Functions to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Order of the functions, largest share first
    #[arg(long, default_value = "self")]
    sort: Sort,
    /// Show only functions whose name matches
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Print the functions as a JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// Share with the function at the leaf
    #[value(name = "self")]
    SelfShare,
    /// Share with the function anywhere in the stack
    Total,
}

impl TopArgs {
    /// Prints the table.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let (profile, _) = self.profile.open()?;
        let only = |name: &str| self.grep.as_ref().is_none_or(|regex| regex.is_match(name));
        let sort = match self.sort {
            Sort::SelfShare => FunctionSort::SelfShare,
            Sort::Total => FunctionSort::Total,
        };
        let table = FunctionTable {
            limit: self.limit,
            sort,
            only: &only,
        };
        if self.json {
            let (rows, ..) = table.rows(&profile);
            output::print_json(&rows.iter().map(|row| &row.share).collect::<Vec<_>>())?;
        } else {
            output::print(&console::functions(&profile, &table, output::style()))?;
        }
        Ok(Done::Fine)
    }
}
