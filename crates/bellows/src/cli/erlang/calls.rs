//! `erlang calls` and `erlang memory`: costs of functions, in time or in words.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, value_parser};
use erlang::calls::{Accumulated, Calls, CallsOptions, Counter, Counting, FunctionCost, ObserverCost, ProcessCost};
use erlang::{Ended, FunctionPattern, Helper};
use measure::{Nanos, Refused, count, counted};
use report::console::{grid, named_grid, sanitise, sentence};
use serde::Serialize;

use super::alloc::AllocatorsArgs;
use super::connect::{left, measured};
use super::options::{CountArgs, print_neighbours};
use super::progress::Progress;
use super::root::RootArgs;
use super::stacks::Stacks;
use super::time::{TimeArgs, TimedCall};
use crate::profile_formats::Output;
use crate::{Done, Failure, output, signals};

/// The narrowest name of a function that is of use.
const LEAST_NAME: usize = 44;
/// Traces that saw less than one in this many of the counted calls may show something else.
const SMALL_PART: u64 = 50;
/// Processes that are traced shortly.
const BURSTS: u16 = 10;
const BLOCKS: u8 = 4;
const PROCESSES: usize = 10;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows erlang calls rabbit@localhost exometer_slide rabbit_mgmt_db --duration 5s
  bellows erlang calls rabbit@localhost rabbit_channel rabbit_amqqueue --role channel --limit 30
  bellows erlang calls rabbit@localhost rabbit_mgmt_wm_queues rabbit_mgmt_db -o calls.svg
  bellows erlang calls rabbit@localhost --root rabbit_mgmt_wm_queues:to_json/2 --duration 30s
  bellows erlang calls rabbit@localhost --root rabbit_mgmt_wm_queues:to_json/2 --waits -o path.svg
  bellows erlang calls rabbit@localhost --time 'rabbit_amqqueue:list(<<\"/\">>)'
  bellows erlang calls rabbit@localhost --time 'rabbit_amqqueue:info_all(<<\"/\">>)' -o queues.svg
  bellows erlang calls rabbit@localhost --time 'ets:tab2list(rabbit_queue)' --times 10 --traced 0
  bellows erlang calls rabbit@localhost --time 'lists:seq(1, 1000)' lists --result

Calls and own time are counted by the node itself, exactly, while the counters run. Accumulated time, waits, \
callers and callees come from short traces of the busiest processes. With --root calls of one function are traced one \
by one, also in the processes that they ask; functions that are called too often for that are counted alone. With \
--time the function is really called, so name one that changes nothing; its arguments are terms, which are read and \
not evaluated. `bellows help erlang` tells more.")]
pub(super) struct CallsArgs {
    #[command(flatten)]
    count: CountArgs,
    /// Functions to count, or with --root to trace (then optional): MODULE, MODULE:FUNCTION or MODULE:FUNCTION/ARITY.
    /// With --time the call MODULE:FUNCTION(TERM, ...), and functions to trace below it [default: those that run there]
    #[arg(value_name = "MODULE", required_unless_present = "root")]
    functions: Vec<FunctionsOrCall>,
    /// Busiest processes that are traced shortly, for accumulated time, callers and callees; 0 for none
    #[arg(long, value_name = "N", default_value_t = BURSTS, value_parser = value_parser!(u16).range(..=100),
          conflicts_with_all = ["root", "time"])]
    bursts: u16,
    #[command(flatten)]
    root: RootArgs,
    #[command(flatten)]
    time: TimeArgs,
    /// Draw the waits, too, in the file of -o
    #[arg(long, requires = "output")]
    waits: bool,
    /// Write the stacks: a flame graph (.svg), folded stacks (.folded), or another format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Debug)]
enum FunctionsOrCall {
    Functions(FunctionPattern),
    /// `MODULE:FUNCTION(TERM, ...)`.
    Call(String),
}

impl FromStr for FunctionsOrCall {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        if text.contains('(') { Ok(Self::Call(text.to_owned())) } else { text.parse().map(Self::Functions) }
    }
}

/// Functions among which there is no call.
fn patterns(given: &[FunctionsOrCall]) -> Result<Vec<FunctionPattern>, Failure> {
    let pattern = |it: &FunctionsOrCall| match it {
        FunctionsOrCall::Functions(pattern) => Ok(pattern.clone()),
        FunctionsOrCall::Call(call) => Err(Failure::usage(
            format!("{call} is a call, and functions are wanted here"),
            "give it first, with --time, to have it called, or write MODULE:FUNCTION/ARITY",
        )),
    };
    given.iter().map(pattern).collect()
}

#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  bellows erlang memory rabbit@localhost rabbit_channel --duration 5s
  bellows erlang memory rabbit@localhost prometheus_text_format prometheus_model_helpers --json
  bellows erlang memory rabbit@localhost --allocators
  bellows erlang memory rabbit@localhost --allocators --every 10s --count 6

Counting needs a node of Erlang/OTP 26 or later; --allocators does not.",
    mut_arg("duration", |arg| arg.default_value_if("allocators", "true", "2"))
)]
pub(super) struct MemoryArgs {
    #[command(flatten)]
    count: CountArgs,
    /// Functions to count: MODULE, MODULE:FUNCTION or MODULE:FUNCTION/ARITY
    #[arg(value_name = "MODULE", required_unless_present = "allocators")]
    functions: Vec<FunctionPattern>,
    #[command(flatten)]
    allocators: AllocatorsArgs,
}

impl CallsArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let format = self.output.as_deref().map(Output::of_file).transpose()?;
        let output = self.output.as_deref().zip(format);
        if self.time.time {
            return self.timed(output)?.execute();
        }
        let functions = patterns(&self.functions)?;
        if self.root.root.is_some() {
            return self.root.execute(&self.count, &functions, output, self.waits);
        }
        let what = Wanted { command: "erlang calls", counter: Counter::Time, bursts: self.bursts };
        self.count.count(&functions, what, |calls| {
            // What was counted is printed by then, also where there is nothing to draw.
            output.map_or(Ok(()), |(path, format)| self.draw(calls, &functions, path, format))
        })
    }

    /// The call that is to be timed: the first of the arguments.
    fn timed<'a>(&'a self, output: Option<(&'a Path, Output)>) -> Result<TimedCall<'a>, Failure> {
        let Some((first, functions)) = self.functions.split_first() else {
            let help = "name it first: MODULE:FUNCTION(TERM, ...)";
            return Err(Failure::usage("--time needs a call", help));
        };
        let call = match first {
            FunctionsOrCall::Call(call) => call.clone(),
            FunctionsOrCall::Functions(named) => named.to_string(),
        };
        Ok(TimedCall {
            call,
            functions: patterns(functions)?,
            count: &self.count,
            time: &self.time,
            waits: self.waits,
            output,
        })
    }

    fn draw(&self, calls: &Calls, functions: &[FunctionPattern], path: &Path, format: Output) -> Result<(), Failure> {
        let traced = Nanos(calls.tree.nodes().iter().map(|it| it.running).sum());
        let all = calls.functions.iter().map(|it| it.own).sum::<u64>();
        let all = Nanos(all.saturating_mul(1_000));
        let modules: Vec<String> = functions.iter().map(ToString::to_string).collect();
        if all.0 > SMALL_PART.saturating_mul(traced.0) {
            output::line_aside(&format!(
                "short traces saw {traced} of the {all} that was counted: what the picture shows may be other calls \
                 than the table; trace longer with --duration, or more processes with --bursts"
            ));
        }
        let stacks = Stacks {
            tree: &calls.tree,
            waits: self.waits,
            title: &format!("Calls of {}", modules.join(", ")),
            subtitle: format!(
                "{traced} of the {all} that was counted, as short traces of the busiest processes saw it ({})",
                counted(calls.bursts.messages, "message")
            ),
            none: "trace longer with --duration, more processes with --bursts, or functions that are called more often",
        };
        stacks.write(path, format)
    }
}

impl MemoryArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        if self.allocators.allocators {
            return self.allocators.show(&self.count);
        }
        let what = Wanted { command: "erlang memory", counter: Counter::Words, bursts: 0 };
        self.count.count(&self.functions, what, |_| Ok(()))
    }
}

/// The counter beside calls, and the number of bursts in which processes are traced.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    command: &'static str,
    counter: Counter,
    bursts: u16,
}

impl CountArgs {
    /// Counts and prints; `then` continues before the node has undone everything.
    fn count(
        &self,
        functions: &[FunctionPattern],
        what: Wanted,
        then: impl FnOnce(&Calls) -> Result<(), Failure>,
    ) -> Result<Done, Failure> {
        let lasting = self.budget.lasting()?;
        let options = CallsOptions {
            counter: what.counter,
            functions: functions.to_vec(),
            processes: self.processes.filter(),
            duration: lasting,
            blocks: BLOCKS,
            bursts: what.bursts,
            budget: self.budget.budget(lasting * 2 + Duration::from_secs(10)),
        };
        let stopped = signals::stop_flag()?;
        let node = self.node.connect(what.command)?;
        let helper = Helper::load(&node)?;
        let counting = Counting::begin(&helper, &options)?;
        output::line_aside(&format!("counts on {} for {}", node.name(), self.budget.duration));
        // Pauses take a quarter of the time more, short traces up to 0.2 s each.
        let whole = lasting * 5 / 4 + Duration::from_millis(200) * u32::from(what.bursts);
        let progress = Progress::of_time(whole, "counts");
        let mut so_far = None;
        let calls = counting.wait(&|| stopped.load(Ordering::Relaxed), &mut so_far);
        drop(progress);
        let (calls, gone) = measured(calls, so_far)?;
        let shown = self.show(&calls, what).and_then(|()| then(&calls));
        left(helper, shown.and(gone.map_or(Ok(Done::Fine), Err)))
    }

    fn show(&self, calls: &Calls, what: Wanted) -> Result<(), Failure> {
        match self.json {
            true => output::print_json(&rows(calls, what.counter))?,
            false => self.print(calls, what.counter, what.bursts)?,
        }
        // One that withdrew, or was ended by hand, has told less than it was asked for.
        if let Ended::Tripped { .. } | Ended::Asked | Ended::Gone = calls.ended {
            output::line_aside(&calls.ended.describe());
        }
        Ok(())
    }

    fn print(&self, calls: &Calls, counter: Counter, bursts: u16) -> Result<(), Failure> {
        let style = output::style();
        if calls.functions.is_empty() {
            output::print(none_called(calls))?;
        } else {
            let sums = calls.tree.accumulated();
            let own: u64 = calls.functions.iter().map(|it| it.own).sum();
            let shown = calls.functions.iter().take(self.limit);
            let rows = shown.map(|it| function_row(it, counter, own, &sums));
            // Names say more than what can be computed from the others.
            let (heads, drop): (&str, &'static [usize]) = match counter {
                Counter::Time if has_sampled(&sums) => {
                    ("function<|calls|own|%|own/call|~acc/call|~waits/call", &[4, 3, 6])
                }
                Counter::Time => ("function<|calls|own|%|own/call", &[4, 3]),
                Counter::Words => ("function<|calls|words|%|words/call", &[4, 3]),
            };
            output::print(&named_grid(heads, LEAST_NAME, drop, rows, style))?;
            let rows = calls.processes.iter().take(PROCESSES).map(|it| {
                let what = [it.role.as_str(), it.name.as_str()];
                let what: Vec<_> = what.into_iter().filter(|part| !part.is_empty()).collect();
                vec![it.pid.clone(), what.join(" "), count(it.calls), amount(it.own, counter)]
            });
            let heads = match counter {
                Counter::Time => "process<|what it is<|calls|own",
                Counter::Words => "process<|what it is<|calls|words",
            };
            output::print(&format!("\n{}", grid(heads, Some(1), rows, style)))?;
            let functions = calls.functions.iter().map(|it| it.function.as_str());
            print_neighbours(&calls.tree, functions.take(self.limit))?;
            if let Some(why) = unsampled(calls, bursts) {
                output::print(&format!("\n{}", sentence(&why, style)))?;
            }
        }
        output::print_prose(&format!("\n{}\n", provenance(calls, counter)))
    }
}

fn none_called(calls: &Calls) -> &'static str {
    match calls.blocks.iter().any(|block| block.counted) {
        true if !calls.loaded_anew.is_empty() => "no call of these functions was counted\n",
        true => "none of these functions was called\n",
        false => "it was ended before the counters ran\n",
    }
}

/// Whether short traces saw a call that ended.
fn has_sampled(sums: &BTreeMap<&str, Accumulated>) -> bool {
    sums.values().any(|it| it.calls > 0)
}

/// Why there are no accumulated times; nothing where there are some, or where none were requested.
fn unsampled(calls: &Calls, bursts: u16) -> Option<String> {
    if bursts == 0 || has_sampled(&calls.tree.accumulated()) {
        return None;
    }
    let why = match (&calls.ended, calls.bursts.processes, calls.bursts.messages) {
        (Ended::Time, 0, _) => "none of the processes that called them ran any more",
        (Ended::Time, _, 0) => "these processes called none of the functions meanwhile",
        (Ended::Time, ..) => "no call both began and ended meanwhile",
        _ => "it was ended before them",
    };
    Some(format!(
        "No accumulated time, waits, callers and callees: the short traces after the count saw no whole call ({why}). \
         Count while the functions are called, or trace more processes with --bursts; --root follows one function's \
         calls."
    ))
}

fn function_row(cost: &FunctionCost, counter: Counter, whole: u64, sums: &BTreeMap<&str, Accumulated>) -> Vec<String> {
    let share = cost.own as f64 * 100.0 / whole.max(1) as f64;
    let per_call = cost.own as f64 / cost.calls.max(1) as f64;
    let mut row = vec![cost.function.clone(), count(cost.calls), amount(cost.own, counter), format!("{share:.1}")];
    match counter {
        Counter::Words => row.push(format!("{per_call:.1}")),
        Counter::Time => {
            row.push(Nanos((per_call * 1000.0) as u64).to_string());
            let sum = sums.get(cost.function.as_str()).filter(|it| it.calls > 0);
            let each =
                |of: fn(&Accumulated) -> u64| sum.map_or_else(String::new, |it| Nanos(of(it) / it.calls).to_string());
            if has_sampled(sums) {
                row.extend([each(|it| it.running), each(|it| it.waiting)]);
            }
        }
    }
    row
}

fn amount(own: u64, counter: Counter) -> String {
    match counter {
        Counter::Time => Nanos(own.saturating_mul(1000)).to_string(),
        Counter::Words => count(own),
    }
}

/// Which counts are exact, which sampled, and their cost.
fn provenance(calls: &Calls, counter: Counter) -> String {
    let on = calls.blocks.iter().filter(|it| it.counted);
    // Nothing adds up to -0.
    let seconds = on.map(|it| it.duration.as_secs_f64()).sum::<f64>() + 0.0;
    let how = if calls.loaded_anew.is_empty() { "Exact" } else { "Counted, though not all" };
    let mut text = match counter {
        Counter::Time => format!(
            "{how}, over {seconds:.1} s: calls and own time (BIFs and functions that are not counted included; waits \
             not)."
        ),
        Counter::Words => format!("{how}, over {seconds:.1} s: calls and words allocated on the heap."),
    };
    for module in &calls.loaded_anew {
        text += &format!(
            "\n{} was loaded anew in the window: counts are not whole (the node takes a module's counters away with \
             its code). Count again.",
            sanitise(module)
        );
    }
    if calls.bursts.processes > 0 {
        text += &format!(
            "\nSampled (~), from {} of {} for {} in all: accumulated time and waits per call, callers and callees; the \
             tracing makes these times longer. They are of fewer calls than own time is, which may exceed them.",
            counted(calls.bursts.messages, "trace message"),
            match calls.bursts.processes {
                1 => "one process".to_owned(),
                many => format!("{} processes", count(many)),
            },
            Nanos::from(calls.bursts.duration),
        );
        if let Some(tripped @ Ended::Tripped { .. }) = &calls.bursts.ended {
            text += &format!("\nThe short traces: {}.", tripped.describe());
        }
    }
    if let Some(cost) = calls.observer_cost() {
        text += &observer(&cost);
    }
    text
}

fn observer(cost: &ObserverCost) -> String {
    let effect = cost.reductions_with / cost.reductions_without - 1.0;
    let busy = format!(
        "schedulers {:.1} % busy while it counted, {:.1} % in between",
        cost.busy_with * 100.0,
        cost.busy_without * 100.0,
    );
    let [with, without] = [cost.reductions_with, cost.reductions_without].map(|it| count(it as u64));
    let (reductions, spread) = (format!("{with}/s and {without}/s"), cost.spread * 100.0);
    match cost.is_told && cost.spread < effect.abs() {
        false => format!(
            "\nCost of counting: not to be told from what the node does by itself: {busy}; reductions {reductions}, \
             which vary by {spread:.1} % without counters."
        ),
        true => format!(
            "\nCost of counting: {busy}; reductions {reductions}, {:+.1} %, where they vary by {spread:.1} % by \
             themselves.",
            effect * 100.0,
        ),
    }
}

#[derive(Debug, Serialize)]
struct CallsRows<'a> {
    ended: String,
    /// Modules that were reloaded meanwhile, so that their counts are incomplete.
    loaded_anew: &'a [String],
    /// Unit of `own`.
    unit: &'static str,
    counted_seconds: f64,
    functions: Vec<FunctionRow<'a>>,
    processes: &'a [ProcessCost],
    sampled_messages: u64,
    sampled_processes: u64,
    observer: Option<ObserverCost>,
}

#[derive(Debug, Serialize)]
struct FunctionRow<'a> {
    #[serde(flatten)]
    cost: &'a FunctionCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<SampledRow<'a>>,
}

#[derive(Debug, Serialize)]
struct SampledRow<'a> {
    calls: u64,
    accumulated_ns: u64,
    waiting_ns: u64,
    callers: Vec<NeighbourRow<'a>>,
    callees: Vec<NeighbourRow<'a>>,
}

#[derive(Debug, Serialize)]
struct NeighbourRow<'a> {
    function: &'a str,
    calls: u64,
}

fn rows(calls: &Calls, counter: Counter) -> CallsRows<'_> {
    let sums = calls.tree.accumulated();
    let neighbours =
        |pairs: Vec<_>| pairs.into_iter().map(|(function, calls)| NeighbourRow { function, calls }).collect();
    let functions = calls.functions.iter().map(|cost| FunctionRow {
        cost,
        sampled: sums.get(cost.function.as_str()).map(|sum| SampledRow {
            calls: sum.calls,
            accumulated_ns: sum.running,
            waiting_ns: sum.waiting,
            callers: neighbours(calls.tree.callers(&cost.function)),
            callees: neighbours(calls.tree.callees(&cost.function)),
        }),
    });
    let on = calls.blocks.iter().filter(|it| it.counted);
    CallsRows {
        ended: calls.ended.describe(),
        loaded_anew: &calls.loaded_anew,
        unit: match counter {
            Counter::Time => "microseconds",
            Counter::Words => "words",
        },
        // A sum of nothing is -0.
        counted_seconds: on.map(|it| it.duration.as_secs_f64()).sum::<f64>() + 0.0,
        functions: functions.collect(),
        processes: &calls.processes,
        sampled_messages: calls.bursts.messages,
        sampled_processes: calls.bursts.processes,
        observer: calls.observer_cost(),
    }
}
