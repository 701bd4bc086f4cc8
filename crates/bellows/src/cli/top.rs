//! `top`: where a profile spent its time, or its other events, by function and by class, and whose work it was, by Erlang process.

use archive::profile::{Profile, WorkBy};
use clap::{Args, ValueEnum};
use regex::Regex;
use report::console::{self, FunctionSort, FunctionTable};

use super::profile_part::{ProfileArgs, ProfilePart};
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows top last
  bellows top last --sort total --grep '^\\$rabbit_' --limit 40
  bellows top last --by class
  bellows top last --by process
  bellows top last --event mmap
  bellows top profile.pb.gz --from 10 --to 20
  bellows top last --where 'end-to-end p99 > 50ms' --sort change";

/// What `bellows top` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Rows to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Order of the functions, largest first
    #[arg(long, default_value = "self")]
    sort: Sort,
    /// Show only functions whose name matches
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Split the samples by class, or by the Erlang process that ran, in place of functions
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["sort", "grep"])]
    by: Option<By>,
    /// Print the rows as a JSON array
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
    /// Difference between the shares in the chosen seconds and in the rest
    Change,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// What the time goes into: garbage collection, allocators, scheduling, and so on
    Class,
    /// Each process by its name: `queue orders-7`
    Process,
    /// All queues, all channels, and so on
    Role,
    /// Connections, with all processes that work for one
    Connection,
    /// Virtual hosts
    Vhost,
}

impl TopArgs {
    /// Prints what the time went into, or whose work it was.
    fn work(&self, profile: &Profile, name: &str, by: By) -> Result<(), Failure> {
        let by = match by {
            By::Class if self.json => return output::print_json(&profile.class_shares()),
            By::Class => return output::print(&console::classes(profile, output::style())),
            By::Process => WorkBy::Process,
            By::Role => WorkBy::Role,
            By::Connection => WorkBy::Connection,
            By::Vhost => WorkBy::VirtualHost,
        };
        if !profile.tells_work(by) {
            return Err(identifiers_only(name));
        }
        if self.json {
            return output::print_json(&console::work_rows(profile, by, self.limit));
        }
        output::print(&console::work(profile, by, self.limit, output::style()))
    }

    /// Prints the table.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let part = self.profile.open()?;
        if let Some(by) = self.by {
            self.work(&part.profile, &part.name, by)?;
            return Ok(Done::Fine);
        }
        self.functions(&part)?;
        Ok(Done::Fine)
    }

    /// Prints the functions.
    fn functions(&self, part: &ProfilePart) -> Result<(), Failure> {
        let only = |name: &str| self.grep.as_ref().is_none_or(|regex| regex.is_match(name));
        let sort = match self.sort {
            Sort::SelfShare => FunctionSort::SelfShare,
            Sort::Total => FunctionSort::Total,
            Sort::Change if part.rest.is_some() => FunctionSort::Change,
            Sort::Change => {
                return Err(Failure::usage(
                    "--sort change needs a part to compare with the rest",
                    "give --where, such as --where stall",
                ));
            }
        };
        let table = FunctionTable {
            limit: self.limit,
            sort,
            only: &only,
            rest: part.rest.as_ref(),
            which: part.which.as_deref(),
        };
        if self.json {
            return output::print_json(&table.rows(&part.profile).shown);
        }
        output::print(&console::functions(&part.profile, &table, output::style()))
    }
}

/// The failure of a profile that does not say what its processes do.
fn identifiers_only(profile: &str) -> Failure {
    Failure::failed(
        format!("{profile} has identifiers of its Erlang processes, not what they do"),
        "give the run, or its *.stacks file, which says it where bellows has started the node; \
         `--by process` works with this one",
    )
    .observed(profile)
}
