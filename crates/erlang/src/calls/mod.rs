//! Costs of functions: calls and own time, or words, of each, counted by the emulator; and callers, from short traces.

pub(crate) mod path;
mod tree;

use std::cmp::Ordering;
use std::time::Duration;

use serde::Serialize;

use crate::budget::{Budget, Ended};
use crate::error::Error;
use crate::helper::{Helper, Worker};
use crate::pattern::{FunctionPattern, ProcessFilter};
use crate::term::{Term, as_atom, as_int, as_list, as_text, as_texts, as_tuple, atom, exactly, int, list, map, millis};
pub use path::{
    Comparison, CountedFunction, Difference, EntryCall, Following, ObserverEffect, Path, PerCall, RootOptions,
    RootPhase, RootProgress,
};
pub use tree::{Accumulated, CallTree, NodeCost, TreeNode};

/// Time that the node may take beyond the one asked for, for what it reads and traces shortly.
const BEYOND: Duration = Duration::from_secs(30);
/// Standard deviations of the normal distribution that chance leaves in one of a hundred cases.
const APART: f64 = 2.576;
/// Name of a count where it fails.
const COUNT: &str = "the count of calls";
/// The first release that counts words.
const WORDS_SINCE: u32 = 26;

/// Quantity counted beside calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Own time.
    Time,
    /// Words that were allocated on the heap.
    Words,
}

/// Options of counting.
#[derive(Clone, Debug)]
pub struct CallsOptions {
    /// Quantity counted beside calls.
    pub counter: Counter,
    /// The functions.
    pub functions: Vec<FunctionPattern>,
    /// The processes.
    pub processes: ProcessFilter,
    /// How long is counted; a quarter more passes between the blocks, without counters.
    pub duration: Duration,
    /// Parts between which nothing is counted, to measure what counting costs.
    pub blocks: u8,
    /// Processes that are traced shortly.
    pub bursts: u16,
    /// Limits of its cost to the node.
    pub budget: Budget,
}

/// The node's counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// The functions that were called, the costliest first.
    pub functions: Vec<FunctionCost>,
    /// The processes that called them, the costliest first.
    pub processes: Vec<ProcessCost>,
    /// The node's activity in each block.
    pub blocks: Vec<Block>,
    /// Why it ended.
    pub ended: Ended,
    /// Who calls whom.
    pub tree: CallTree,
    /// How the tree came about.
    pub bursts: Bursts,
    /// Modules that were loaded anew meanwhile: their counters began once more, or went away.
    pub loaded_anew: Vec<String>,
}

/// Cost of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionCost {
    /// Its name: `module:function/arity`.
    pub function: String,
    /// Its calls.
    pub calls: u64,
    /// Microseconds in itself and in what it calls that is not counted by itself, or words.
    pub own: u64,
    /// Processes that called it.
    pub processes: u64,
}

/// Cost of a process in these functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessCost {
    /// Its pid.
    pub pid: String,
    /// Its role, such as `queue`.
    pub role: String,
    /// The name of its queue or connection, or its registered name.
    pub name: String,
    /// Calls of the functions.
    pub calls: u64,
    /// Microseconds or words.
    pub own: u64,
}

/// The node's activity in a block of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Whether the counters ran.
    pub counted: bool,
    /// Its length.
    pub duration: Duration,
    /// Reductions of all processes.
    pub reductions: u64,
    /// Millionths of the schedulers' time that was spent on work.
    pub busy: u64,
}

/// The short traces that a tree was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Processes that were traced.
    pub processes: u64,
    /// Trace messages.
    pub messages: u64,
    /// Time for which a process was traced, all together.
    pub duration: Duration,
    /// Why they ended; `None` where there were none.
    pub ended: Option<Ended>,
}

/// Cost of counting to the node, from blocks with and without counters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ObserverCost {
    /// Share of the schedulers' time spent on work, with counters.
    pub busy_with: f64,
    /// Without counters.
    pub busy_without: f64,
    /// Reductions per second, with counters.
    #[serde(rename = "reductions_per_second_with")]
    pub reductions_with: f64,
    /// Without counters.
    #[serde(rename = "reductions_per_second_without")]
    pub reductions_without: f64,
    /// How far the blocks without counters lie apart in reductions, as a part of their mean.
    #[serde(rename = "spread_without")]
    pub spread: f64,
    /// Whether counting shows: reductions of blocks with and without counters differ by ranks, at a level of 1 %.
    pub is_told: bool,
}

/// A count that the node has begun.
#[derive(Debug)]
pub struct Counting<'a> {
    helper: &'a Helper,
    worker: Worker,
    duration: Duration,
}

impl<'a> Counting<'a> {
    /// Begins to count.
    pub fn begin(helper: &'a Helper, options: &CallsOptions) -> Result<Self, Error> {
        let release = helper.node().release();
        if options.counter == Counter::Words && release < WORDS_SINCE {
            return Err(Error::Other(measure::Problem::new(
                format!("{} cannot count words", helper.node().name()),
                format_args!("Erlang/OTP {release}"),
                "this needs Erlang/OTP 26 or later; `bellows erlang calls` counts time on this node",
            )));
        }
        let worker = helper.run("bellows_calls", "start", options.term())?;
        let counting = Self { helper, worker, duration: options.duration };
        let reply = counting.ask("begun", BEYOND, &|| false)?;
        match as_atom(&reply) {
            Some("begun") => Ok(counting),
            _ => {
                let refused = path::refused(helper, &reply, COUNT);
                helper.stop(counting.worker)?;
                Err(refused)
            }
        }
    }

    /// Waits for the result: all of it, or what there is once `stop` says so. Where the node goes away meanwhile,
    /// `so_far` has what was counted in the blocks before.
    pub fn wait(&self, stop: &dyn Fn() -> bool, so_far: &mut Option<Calls>) -> Result<Calls, Error> {
        loop {
            let reply = self.ask(path::SO_FAR, self.duration * 3 + BEYOND, stop)?;
            let Some(told) = path::told_so_far(&reply) else {
                return calls(&reply).ok_or_else(|| path::refused(self.helper, &reply, COUNT));
            };
            *so_far = calls(told).map(|it| Calls { ended: Ended::Gone, ..it });
        }
    }

    /// Removes what is left of it from the node, which closing the helper does, too.
    pub fn end(self) -> Result<(), Error> {
        self.helper.stop(self.worker)
    }

    fn ask(&self, what: &str, longest: Duration, stop: &dyn Fn() -> bool) -> Result<Term, Error> {
        let answer = self.helper.ask_until(&self.worker, atom(what), longest, stop)?;
        path::told(self.helper, answer, COUNT, "it did not end in time")
    }
}

impl Calls {
    /// Cost of counting; `None` where no block went without counters, or the node was idle.
    pub fn observer_cost(&self) -> Option<ObserverCost> {
        let (with, without): (Vec<_>, Vec<_>) = self.blocks.iter().partition(|it| it.counted);
        let (busy_with, reductions_with) = mean(&with)?;
        let (busy_without, reductions_without) = mean(&without)?;
        let rates: Vec<f64> = without.iter().map(|block| block.rate()).collect();
        let counted: Vec<f64> = with.iter().map(|block| block.rate()).collect();
        let most = rates.iter().copied().fold(f64::MIN, f64::max);
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        Some(ObserverCost {
            busy_with,
            busy_without,
            reductions_with,
            reductions_without,
            spread: (most - least) / reductions_without,
            is_told: ranks_apart(&counted, &rates) > APART,
        })
    }
}

/// How far two groups lie apart by ranks, in standard deviations of the Mann-Whitney statistic.
fn ranks_apart(a: &[f64], b: &[f64]) -> f64 {
    let above = |x: f64| {
        let of = |y: &f64| match x.total_cmp(y) {
            Ordering::Greater => 1.0,
            Ordering::Equal => 0.5,
            Ordering::Less => 0.0,
        };
        b.iter().map(of).sum::<f64>()
    };
    let (n, m) = (a.len() as f64, b.len() as f64);
    let apart = a.iter().map(|x| above(*x)).sum::<f64>() - n * m / 2.0;
    // By half a step less, as the statistic moves in steps.
    (apart.abs() - 0.5) / (n * m * (n + m + 1.0) / 12.0).sqrt().max(1e-9)
}

impl Block {
    /// Reductions per second.
    fn rate(&self) -> f64 {
        self.reductions as f64 / self.duration.as_secs_f64().max(1e-6)
    }
}

/// The blocks' share of work and reductions per second, weighted by time.
fn mean(blocks: &[&Block]) -> Option<(f64, f64)> {
    let seconds: f64 = blocks.iter().map(|it| it.duration.as_secs_f64()).sum();
    if seconds <= 0.0 {
        return None;
    }
    let busy = blocks.iter().map(|it| it.busy as f64 / 1e6 * it.duration.as_secs_f64());
    let reductions: u64 = blocks.iter().map(|it| it.reductions).sum();
    (reductions > 0).then(|| (busy.sum::<f64>() / seconds, reductions as f64 / seconds))
}

impl CallsOptions {
    fn term(&self) -> Term {
        let counter = match self.counter {
            Counter::Time => "call_time",
            Counter::Words => "call_memory",
        };
        map([
            (atom("counter"), atom(counter)),
            (atom("patterns"), list(self.functions.iter().map(FunctionPattern::term))),
            (atom("processes"), self.processes.term()),
            (atom("for_ms"), millis(self.duration)),
            (atom("blocks"), int(self.blocks.max(1).into())),
            (atom("bursts"), int(self.bursts.into())),
            (atom("limits"), self.budget.term()),
        ])
    }
}

pub(crate) fn number(term: &Term) -> Option<u64> {
    u64::try_from(as_int(term)?).ok()
}

fn rows<T>(term: &Term, row: impl Fn(&[Term]) -> Option<T>) -> Option<Vec<T>> {
    let rows = as_list(term)?;
    rows.iter().map(|it| row(as_tuple(it)?)).collect()
}

fn name(module: &Term, function: &Term, arity: &Term) -> Option<String> {
    let (module, function) = (as_text(module)?, as_text(function)?);
    Some(format!("{module}:{function}/{}", number(arity)?))
}

fn calls(reply: &Term) -> Option<Calls> {
    let [_, functions, processes, blocks, ended, tree, bursts, anew] = exactly(as_tuple(reply)?)?;
    let [traced, messages, ms, why] = exactly(as_tuple(bursts)?)?;
    Some(Calls {
        functions: rows(functions, |row| match row {
            [module, function, arity, calls, own, processes] => Some(FunctionCost {
                function: name(module, function, arity)?,
                calls: number(calls)?,
                own: number(own)?,
                processes: number(processes)?,
            }),
            _ => None,
        })?,
        processes: rows(processes, |row| match row {
            [pid, role, name, calls, own] => Some(ProcessCost {
                pid: as_text(pid)?,
                role: as_text(role)?,
                name: as_text(name)?,
                calls: number(calls)?,
                own: number(own)?,
            }),
            _ => None,
        })?,
        blocks: rows(blocks, block)?,
        ended: Ended::read(ended)?,
        tree: tree::read(tree)?,
        bursts: Bursts {
            processes: number(traced)?,
            messages: number(messages)?,
            duration: Duration::from_millis(number(ms)?),
            ended: Ended::read(why),
        },
        loaded_anew: as_texts(anew)?,
    })
}

fn block(row: &[Term]) -> Option<Block> {
    let [kind, what] = row else { return None };
    let [micros, reductions, busy] = exactly(as_tuple(what)?)?;
    Some(Block {
        counted: as_atom(kind)? == "on",
        duration: Duration::from_micros(number(micros)?),
        reductions: number(reductions)?,
        busy: number(busy)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(blocks: &[(bool, u64)]) -> ObserverCost {
        let blocks = blocks.iter().map(|(counted, reductions)| Block {
            counted: *counted,
            duration: Duration::from_millis(250),
            reductions: *reductions,
            busy: 0,
        });
        let calls = Calls {
            functions: Vec::new(),
            processes: Vec::new(),
            blocks: blocks.collect(),
            ended: Ended::Time,
            tree: CallTree::default(),
            bursts: Bursts { processes: 0, messages: 0, duration: Duration::ZERO, ended: None },
            loaded_anew: Vec::new(),
        };
        calls.observer_cost().expect("blocks of both kinds")
    }

    /// Blocks as `bellows_calls` makes them: one without counters, then four with counters and one without, four times.
    fn blocks(reductions: impl Fn(usize, bool) -> u64) -> Vec<(bool, u64)> {
        let numbered = [false].into_iter().chain([true, true, true, true, false].repeat(4)).enumerate();
        numbered.map(|(at, on)| (on, reductions(at, on))).collect()
    }

    #[test]
    fn a_cost_is_told_where_all_blocks_tell_it_and_not_where_others_came_now_and_then() {
        let steady = |at: usize| 10_000 + at as u64 * 7 % 100;
        let told = cost(&blocks(|at, on| steady(at) + if on { 2_000 } else { 0 }));
        assert!(told.is_told, "{told:?}");
        // A request each second, that met counters by chance: 38 times as many reductions.
        let others = cost(&blocks(|at, _| steady(at) + if at % 5 == 2 { 1_900_000 } else { 0 }));
        assert!(others.reductions_with > 30.0 * others.reductions_without, "{others:?}");
        assert!(!others.is_told, "{others:?}");
        assert!(!cost(&blocks(|at, _| steady(at))).is_told);
        // Of one block nobody can tell anything.
        assert!(!cost(&[(true, 9_000), (false, 1_000)]).is_told);
    }
}
