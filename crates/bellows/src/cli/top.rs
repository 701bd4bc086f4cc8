//! `top`: where a profile spent its time, or its other events, by function, module, thread and class, and whose work it
//! was, by Erlang process.

use clap::Args;
use clap::builder::TypedValueParser;
use regex::Regex;
use report::console::{self, FunctionRowOf, FunctionSort, FunctionTable};
use serde_json::json;
use stacks::{WaitBy, WorkBy};

use super::args::{choice, given, named};
use super::profile_part::{ProfileArgs, ProfilePart};
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows top
  bellows top last --sort total --grep '^\\$rabbit_' --limit 40
  bellows top last --raw
  bellows top last --by line --grep rabbit_exchange --sort total
  bellows top last --by module --sort total
  bellows top last --by class
  bellows top last --by process
  bellows top last --event mmap
  bellows top last --event off-cpu --by reason
  bellows top profile.pb.gz --from 10 --to 20
  bellows top last --where 'end-to-end p99 > 50ms' --sort change")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Rows to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Order of functions, modules or threads, largest first; `self` unless another is given; of functions it is that
    /// of --raw
    #[arg(long, value_parser = named::<FunctionSort>())]
    sort: Option<FunctionSort>,
    /// Show only functions, modules or threads whose name matches
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Modules or threads in place of functions, or the samples split by class, by the Erlang process that ran, or by
    /// what ended a time off CPU
    #[arg(long, value_name = "WHAT", value_parser = rows_by())]
    by: Option<FunctionRowOf>,
    /// All functions by name, native ones too; without, a program in Erlang, Java or Go has a table of the functions of
    /// that language, each with the native code below it, and of the classes of all other samples
    #[arg(long, conflicts_with = "by")]
    raw: bool,
    /// Print the rows as JSON: an array, or without --by an object with those of both tables
    #[arg(long)]
    json: bool,
}

/// Reads the kind of rows in place of functions.
pub(super) fn rows_by() -> impl TypedValueParser<Value = FunctionRowOf> {
    use FunctionRowOf::{Class, Line, Module, Thread, Wait, Work};
    let reason = "Why times off CPU ended: a timer, another thread, the network, a wait for a processor, and so on";
    choice([
        ("line", Line, "Lines of source code: of Erlang and Go programs, and what a file of another profiler tells"),
        ("module", Module, "Erlang modules, Java classes, libraries, programs, the kernel"),
        ("thread", Thread, "Threads by what they are for: scheduler, aux"),
        ("class", Class, "The kind of work: garbage collection, allocators, scheduling, and so on"),
        ("process", Work(WorkBy::Process), "Each process by its name: `queue orders-7`"),
        ("role", Work(WorkBy::Role), "All queues, all channels, and so on"),
        ("connection", Work(WorkBy::Connection), "Connections, with all processes that work for one"),
        ("vhost", Work(WorkBy::VirtualHost), "Virtual hosts"),
        ("reason", Wait(WaitBy::Reason), reason),
        ("waker", Wait(WaitBy::Waker), "The threads that ended times off CPU"),
    ])
}

impl TopArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let of = self.by.unwrap_or_default();
        let part = self.profile.open()?.for_rows(of)?;
        let by = match of {
            FunctionRowOf::Class => None,
            FunctionRowOf::Work(by) => Some(by),
            FunctionRowOf::Wait(_) if part.profile.waits.is_empty() => return Err(no_waits(&part.name)),
            of => return self.functions(&part, of),
        };
        if let Some(option) = given([("--sort", self.sort.is_some()), ("--grep", self.grep.is_some())]).next() {
            let cause = format!("{option} has no effect on what the samples are split by");
            let help = "leave it out, or take --by module, --by thread, --by reason, --by waker or no --by";
            return Err(Failure::usage(cause, help));
        }
        match by {
            None if self.json => output::print_json(&part.profile.class_shares())?,
            None => self.print(&part, &console::classes(&part.profile, output::style()))?,
            Some(by) => self.work(&part, by)?,
        }
        Ok(Done::Fine)
    }

    fn work(&self, part: &ProfilePart, by: WorkBy) -> Result<(), Failure> {
        let profile = &part.profile;
        if !profile.tells_work(by) {
            return Err(identifiers_only(&part.name));
        }
        if self.json {
            return output::print_json(&console::work_rows(profile, by, self.limit));
        }
        self.print(part, &console::work(profile, by, self.limit, output::style()))
    }

    /// Prints text on a profile, behind the run that was taken where none was named.
    fn print(&self, part: &ProfilePart, text: &str) -> Result<(), Failure> {
        output::print(&format!("{}{text}", self.profile.taken(part)))
    }

    fn functions(&self, part: &ProfilePart, of: FunctionRowOf) -> Result<Done, Failure> {
        let only = |name: &str| self.grep.as_ref().is_none_or(|regex| regex.is_match(name));
        let sort = self.sort.unwrap_or_default();
        if sort == FunctionSort::Change && part.rest.is_none() {
            let cause = "--sort change needs a part to compare with the rest";
            return Err(Failure::usage(cause, "give --where, such as --where stall"));
        }
        let table = FunctionTable {
            of,
            limit: self.limit,
            sort,
            only: &only,
            rest: part.rest.as_ref(),
            which: part.which.as_deref(),
        };
        if self.json {
            let rows = table.rows(&part.profile).shown;
            match of {
                FunctionRowOf::Function => output::print_json(&json!({
                    "functions": rows,
                    "language_functions": table.language_rows(&part.profile),
                }))?,
                _ => output::print_json(&rows)?,
            }
        } else {
            let style = output::style();
            let few = console::few_samples(&part.profile, style);
            let language = console::language_functions(&part.profile, &table, style);
            let text = language.filter(|_| !self.raw && self.sort.is_none());
            let text = text.unwrap_or_else(|| console::functions(&part.profile, &table, style));
            self.print(part, &(few + &text))?;
        }
        Ok(Done::Fine)
    }
}

/// The failure of a profile without the reasons that ended times off CPU.
pub(super) fn no_waits(profile: &str) -> Failure {
    let help =
        "give a profile of the event off-cpu, which says it where it was taken by this version: `--event off-cpu`";
    Failure::failed(format!("{profile} does not say what its threads waited for"), help).observed(profile)
}

/// The failure of a profile without its processes' roles.
pub(super) fn identifiers_only(profile: &str) -> Failure {
    let help = "give a run whose load has ended, when its node is asked, or its *.stacks file; they say it where \
                bellows has started the node; `--by process` works with this one";
    Failure::failed(format!("{profile} has identifiers of its Erlang processes, not what they do"), help)
        .observed(profile)
}
