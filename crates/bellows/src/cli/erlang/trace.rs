//! `erlang trace`: calls, their callers, their arguments, and their durations.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use clap::{Args, value_parser};
use erlang::trace::{Call, Return, Trace, TraceEvent, TraceOptions};
use erlang::{Ended, FunctionPattern, Helper, Node, ProcessFilter};
use measure::Nanos;
use report::console::sanitise;
use serde::Serialize;

use super::connect::{NodeArgs, leave};
use super::options::{BudgetArgs, ProcessArgs};
use super::progress::Progress;
use crate::{Done, Failure, output, signals};

/// Longest wait for one answer, so that Ctrl-C is heard.
const WAIT: Duration = Duration::from_millis(250);
const PIDS: usize = 3;
/// Longest wait for the size of stacks.
const ASK: Duration = Duration::from_secs(5);
/// Returns of the last calls may take longer than the trace.
const BEYOND: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows erlang trace rabbit@localhost rabbit_mgmt_wm_queues:to_json/2 --max-calls 1 --duration 60
  bellows erlang trace rabbit@localhost rabbit_amqqueue:declare --returns --durations
  bellows erlang trace rabbit@localhost rabbit_channel:handle_cast/2 --role channel --rate 1000
  bellows erlang trace rabbit@localhost lists:keyfind/3 --match '_, N, _ when N > 1' --max-calls 5

It ends at the first limit that trips, and says which. Arguments and results are cut, and secrets in them \
masked, on the node. `bellows help erlang` tells more.")]
pub(super) struct TraceArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Functions to trace: MODULE:FUNCTION/ARITY, MODULE:FUNCTION, or MODULE with --max-calls
    #[arg(value_name = "M:F/A", required = true)]
    functions: Vec<FunctionPattern>,
    /// Calls after which it ends [default: 100]
    #[arg(long, alias = "limit", value_name = "N", value_parser = value_parser!(u32).range(1..=100_000))]
    max_calls: Option<u32>,
    /// Calls in one second at which it ends, as 100 or 100/s
    #[arg(long, value_name = "N/s", default_value = "500", value_parser = per_second)]
    rate: u32,
    /// Print what calls return, or the exception that ends them; each call keeps words of its process's stack until it
    /// returns
    #[arg(long)]
    returns: bool,
    /// Print how long calls take, waits included; as --returns
    #[arg(long)]
    durations: bool,
    /// Only calls whose arguments match, as in a function's head, perhaps with `when`
    #[arg(long = "match", value_name = "PATTERN")]
    arguments: Option<String>,
    /// Print no arguments
    #[arg(long)]
    no_arguments: bool,
    #[command(flatten)]
    processes: ProcessArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Print it as a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn per_second(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse() {
        Ok(rate @ 1..=100_000) => Ok(rate),
        _ => Err("give calls per second from 1 to 100000, such as 100/s".to_owned()),
    }
}

#[derive(Debug, Serialize)]
struct CallRow {
    time: String,
    pid: String,
    role: String,
    name: String,
    function: String,
    arguments: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<ReturnRow>,
}

#[derive(Debug, Serialize)]
struct ReturnRow {
    /// `ok`, or the class of an exception.
    kind: String,
    duration_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Debug, Serialize)]
struct TraceRows {
    calls: Vec<CallRow>,
    ended: String,
    /// Modules that were reloaded meanwhile, so that calls are missing.
    loaded_anew: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreturned: Option<Unreturned>,
}

/// Calls without a return when the trace ended: the emulator keeps a mark of each on its process's stack until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Unreturned {
    calls: usize,
    /// The processes that made them.
    pids: BTreeSet<String>,
    /// Words of these processes' stacks; absent where the node does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_words: Option<u64>,
}

impl Unreturned {
    /// A sentence without a full stop.
    fn describe(&self) -> String {
        let words =
            self.stack_words.map_or_else(String::new, |words| format!(" ({} words now)", measure::count(words)));
        let pids: Vec<_> = self.pids.iter().take(PIDS).map(String::as_str).collect();
        let more = match self.pids.len().saturating_sub(PIDS) {
            0 => String::new(),
            more => format!(" and {}", measure::counted(more as u64, "other")),
        };
        format!(
            "{} not returned: marks of {} stay on the stack of {}{more}{words} until then, for good where a function \
             goes on in a tail call",
            match self.calls {
                1 => "1 call has".to_owned(),
                calls => format!("{} calls have", measure::count(calls as u64)),
            },
            if self.calls == 1 { "it" } else { "them" },
            pids.join(", "),
        )
    }
}

impl TraceArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let options = self.options()?;
        let stopped = signals::stop_flag()?;
        let node = self.node.connect("erlang trace")?;
        let helper = Helper::load(&node)?;
        let mut trace = Trace::start(&helper, &options)?;
        let until = std::time::Instant::now() + options.budget.time + BEYOND;
        let mut printer = Printer::new(&self);
        // Calls that come take the place of the bar.
        let mut progress = Some(Progress::of_time(options.budget.time, "waits for calls"));
        while trace.ended().is_none() {
            let is_over = std::time::Instant::now() >= until;
            let events = if stopped.load(Ordering::Relaxed) || is_over { trace.stop() } else { trace.next(WAIT) };
            let events = match events {
                Ok(events) => events,
                // What came before is shown all the same.
                Err(error) => {
                    drop(progress);
                    printer.show_what_came(&error)?;
                    return Err(error.into());
                }
            };
            if !events.is_empty() {
                progress = progress.filter(|_| self.json);
                printer.show(events)?;
            }
        }
        drop(progress);
        let ended = trace.ended().cloned().unwrap_or(Ended::Asked);
        printer.unreturned = printer.left_open(|pids| stack_words(&node, pids));
        // A busy node takes its time to undo what was done: what was seen is shown by then.
        printer.end(&ended)?;
        leave(helper)?;
        Ok(Done::Fine)
    }

    /// Whether some calls of the functions do not count.
    fn is_filtered(&self) -> bool {
        self.arguments.is_some() || self.processes.filter() != ProcessFilter::All
    }

    fn options(&self) -> Result<TraceOptions, Failure> {
        let whole = self.functions.iter().find(|it| it.function.is_none());
        if let (Some(module), None) = (whole, self.max_calls) {
            let cause = format!("{module} stands for every function of a module");
            return Err(Failure::usage(cause, "say how many calls are enough with --max-calls, or name a function"));
        }
        Ok(TraceOptions {
            functions: self.functions.clone(),
            arguments: self.arguments.clone(),
            processes: self.processes.filter(),
            limit: self.max_calls.unwrap_or(100),
            rate: self.rate,
            returns: self.returns || self.durations,
            argument_bytes: if self.no_arguments { 0 } else { 300 },
            budget: self.budget.budget(self.budget.lasting()?),
        })
    }
}

/// Prints events as they come, or keeps them for JSON.
struct Printer<'a> {
    args: &'a TraceArgs,
    rows: Vec<CallRow>,
    calls: u64,
    /// Pids and functions of calls whose return has not come.
    open: HashMap<u64, (String, String)>,
    loaded_anew: BTreeSet<String>,
    unreturned: Option<Unreturned>,
}

/// Words of the stacks of these processes; nothing where the node does not tell.
fn stack_words(node: &Node, pids: &BTreeSet<String>) -> Option<u64> {
    let is_pid = |it: &&String| it.chars().all(|c| c.is_ascii_digit() || "<.>".contains(c));
    let pids: Vec<String> = pids.iter().filter(is_pid).map(|it| format!("{it:?}")).collect();
    let source = format!(
        "lists:sum([element(2, process_info(Pid, stack_size)) || Text <- [{}], Pid <- [list_to_pid(Text)], \
         is_process_alive(Pid)]).",
        pids.join(", ")
    );
    let words = erlang::term::as_int(&node.evaluate(ASK, &source).ok()?)?;
    u64::try_from(words).ok()
}

impl<'a> Printer<'a> {
    fn new(args: &'a TraceArgs) -> Self {
        Self { args, rows: Vec::new(), calls: 0, open: HashMap::new(), loaded_anew: BTreeSet::new(), unreturned: None }
    }

    /// The calls without a return, with the node's stacks of their processes.
    fn left_open(&self, words: impl FnOnce(&BTreeSet<String>) -> Option<u64>) -> Option<Unreturned> {
        let pids: BTreeSet<String> = self.open.values().map(|(pid, _)| pid.clone()).collect();
        (!pids.is_empty()).then(|| Unreturned { calls: self.open.len(), stack_words: words(&pids), pids })
    }

    fn show(&mut self, events: Vec<TraceEvent>) -> Result<(), Failure> {
        for event in events {
            if let TraceEvent::Call(call) = &event
                && (self.args.returns || self.args.durations)
            {
                self.open.insert(call.number, (call.pid.clone(), name_of(call)));
            }
            match (event, self.args.json) {
                (TraceEvent::Call(call), true) => self.rows.push(row(call)),
                (TraceEvent::Return(of), true) => self.keep(of),
                (TraceEvent::Call(call), false) => self.print_call(call)?,
                (TraceEvent::Return(of), false) => self.print_return(&of)?,
                (TraceEvent::LoadedAnew(module), _) => self.tell_anew(module),
            }
        }
        Ok(())
    }

    /// Warns once per module that calls are missing.
    fn tell_anew(&mut self, module: String) {
        if !self.loaded_anew.contains(&module) {
            output::line_aside(&format!(
                "{} was loaded anew, which ends its trace: it is traced again, and calls of up to a second each time \
                 are missing",
                sanitise(&module)
            ));
            self.loaded_anew.insert(module);
        }
    }

    fn keep(&mut self, of: Return) {
        self.open.remove(&of.number);
        let index = usize::try_from(of.number).unwrap_or(usize::MAX);
        if let Some(row) = self.rows.get_mut(index) {
            row.returned = Some(ReturnRow {
                duration_ns: Nanos::from(of.duration).0,
                value: self.args.returns.then_some(of.value),
                kind: of.kind,
            });
        }
    }

    fn print_call(&mut self, call: Call) -> Result<(), Failure> {
        self.calls += 1;
        let who = [call.pid.as_str(), &call.role, &call.name];
        let who: Vec<_> = who.into_iter().filter(|it| !it.is_empty()).collect();
        let what = match self.args.no_arguments {
            true => name_of(&call),
            false => format!("{}:{}({})", call.module, call.function, call.arguments.join(", ")),
        };
        let text = format!("{}  {}  {what}", clock(call.time), who.join(" "));
        output::print(&(sanitise(&text).into_owned() + "\n"))
    }

    fn print_return(&mut self, of: &Return) -> Result<(), Failure> {
        let (pid, function) = self.open.remove(&of.number).unwrap_or_default();
        let took = self.args.durations.then(|| format!(" after {}", Nanos::from(of.duration)));
        let took = took.unwrap_or_default();
        let value = match (self.args.returns, of.kind.as_str()) {
            (true, "ok") => format!(" -> {}", of.value),
            (false, "ok") => String::new(),
            (_, class) => format!(" -> {class}: {}", of.value),
        };
        let text = format!("                 {pid} {function} returns{took}{value}");
        output::print(&(sanitise(&text).into_owned() + "\n"))
    }

    fn end(self, ended: &Ended) -> Result<(), Failure> {
        if let (Some(unreturned), false) = (&self.unreturned, self.args.json) {
            output::line_aside(&sanitise(&unreturned.describe()));
        }
        match self.args.json {
            false if self.calls == 0 => {
                let help = match self.args.is_filtered() {
                    true => "; without --match, --role and --pid it tells whether it is called at all",
                    false => "",
                };
                output::line_aside(&format!("{}: no call was seen{help}", ended.describe()));
            }
            false => output::line_aside(&ended.describe()),
            true => self.print_rows(ended.describe())?,
        }
        Ok(())
    }

    /// The calls that came before a failure, where they were kept for JSON.
    fn show_what_came(self, failure: &erlang::Error) -> Result<(), Failure> {
        if self.rows.is_empty() { Ok(()) } else { self.print_rows(failure.problem().cause) }
    }

    fn print_rows(self, ended: String) -> Result<(), Failure> {
        output::print_json(&TraceRows {
            calls: self.rows,
            ended,
            loaded_anew: self.loaded_anew,
            unreturned: self.unreturned,
        })
    }
}

fn name_of(call: &Call) -> String {
    format!("{}:{}/{}", call.module, call.function, call.arity)
}

fn row(call: Call) -> CallRow {
    CallRow {
        time: timestamp(call.time).map_or_else(String::new, |it| it.to_string()),
        function: name_of(&call),
        pid: call.pid,
        role: call.role,
        name: call.name,
        arguments: call.arguments,
        returned: None,
    }
}

fn timestamp(time: SystemTime) -> Option<jiff::Timestamp> {
    jiff::Timestamp::try_from(time).ok()
}

/// The time of day on this machine's clock, to microseconds.
fn clock(time: SystemTime) -> String {
    let zoned = timestamp(time).map(|it| it.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(String::new, |it| it.strftime("%H:%M:%S.%6f").to_string())
}

#[cfg(test)]
mod tests {
    use super::{Unreturned, per_second};

    #[test]
    fn what_stays_on_stacks_is_told_with_its_size() {
        let of = |calls, pids: &[&str], stack_words| Unreturned {
            calls,
            pids: pids.iter().map(|it| (*it).to_owned()).collect(),
            stack_words,
        };
        let end = "until then, for good where a function goes on in a tail call";
        let one = format!("1 call has not returned: marks of it stay on the stack of <0.1.0> {end}");
        assert_eq!(of(1, &["<0.1.0>"], None).describe(), one);
        let several = "50 calls have not returned: marks of them stay on the stack of <0.1.0>, <0.2.0>, <0.3.0> and";
        let pids = ["<0.1.0>", "<0.2.0>", "<0.3.0>", "<0.4.0>"];
        let told = of(50, &pids, Some(20_550)).describe();
        assert_eq!(told, format!("{several} 1 other (20,550 words now) {end}"));
    }

    #[test]
    fn rates_are_per_second() {
        let read = ["100/s", "7", "0", "9/m"].map(|text| per_second(text).ok());
        assert_eq!(read, [Some(100), Some(7), None, None]);
    }
}
