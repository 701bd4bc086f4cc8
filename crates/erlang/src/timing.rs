//! How long a function takes: calls of it one after the other, in a process of our own on the node.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::budget::{Budget, Ended, refusal};
use crate::calls::path::{SO_FAR, answer, done, nanos, read, so_far_every, told_so_far};
use crate::calls::{Path, number};
use crate::error::Error;
use crate::helper::{self, Helper};
use crate::pattern::FunctionPattern;
use crate::term::{
    Term, as_atom, as_bytes, as_text, as_texts, as_tuple, atom, exactly, get, int, list, map, millis, text,
};

/// Time between two questions of whether it is done.
const EVERY: Duration = Duration::from_millis(100);

/// Options of timing.
#[derive(Clone, Debug)]
pub struct TimeOptions {
    /// The call, as Erlang writes it: `module:function(terms)`.
    pub call: String,
    /// Calls that are timed, after a first one.
    pub times: u32,
    /// Time after which no further call begins.
    pub duration: Duration,
    /// Calls that are traced; 0 for none.
    pub traced: u32,
    /// Traced functions; those modules that run there if empty.
    pub functions: Vec<FunctionPattern>,
    /// Whether the text of the first call's value is told.
    pub value: bool,
    /// Trace messages at which it ends.
    pub messages: u32,
    /// Limits of its cost to the node.
    pub budget: Budget,
}

/// Results of timing.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The first call, in which caches are cold; `None` where it has not come to its end.
    pub first: Option<Duration>,
    /// The text of its value, cut, secrets masked, where it was asked for.
    pub value: Option<String>,
    /// The exception of the first call, after which there is no other, or the first of later ones.
    pub raised: Option<Raised>,
    /// The other calls, in their order.
    pub times: Vec<Duration>,
    /// Reductions per call.
    pub reductions: Option<u64>,
    /// Duration of a call that does nothing.
    pub empty: Option<Duration>,
    /// Garbage collections and words of some further calls.
    pub collected: Option<Collected>,
    /// The functions that were called in further calls.
    pub path: Option<Path>,
    /// Why no functions were traced.
    pub refused: Option<measure::Problem>,
    /// Why it ended.
    pub ended: Ended,
}

/// Exceptions of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Raised {
    /// Calls that ended with one.
    pub calls: u64,
    /// Its class: `error`, `exit` or `throw`.
    pub class: String,
    /// Its reason as text, cut, secrets masked.
    pub reason: String,
    /// The functions of its stack, the one first that raised it.
    pub stack: Vec<String>,
}

/// Heap activity of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// The calls whose garbage collections were counted.
    pub calls: u64,
    /// Garbage collections of the young generation.
    #[serde(rename = "minor_collections")]
    pub minor: u64,
    /// Garbage collections of the whole heap.
    #[serde(rename = "major_collections")]
    pub major: u64,
    /// Words allocated on the heap, per call.
    #[serde(rename = "words_per_call")]
    pub words: u64,
}

/// Calls the function, and waits until it is measured, or `look` says that it is enough. Where the node goes away
/// meanwhile, `so_far` has what was measured until shortly before.
pub fn time(
    helper: &Helper,
    options: &TimeOptions,
    mut look: impl FnMut() -> bool,
    so_far: &mut Option<Timing>,
) -> Result<Timing, Error> {
    const WHAT: &str = "the timing";
    let worker = helper.run("bellows_time", "start", options.term())?;
    let mut request = "next";
    let every = so_far_every(options.duration);
    let mut due = Instant::now() + every;
    let reply = loop {
        let reply = answer(helper, &worker, request, WHAT)?;
        match (as_atom(&reply), told_so_far(&reply)) {
            (Some("running" | "stopping"), _) => {}
            (_, Some(told)) => *so_far = timing(told).map(|it| Timing { ended: Ended::Gone, ..it }),
            _ => break reply,
        }
        std::thread::sleep(EVERY);
        request = match look() {
            true => "stop",
            false if Instant::now() >= due => {
                due = Instant::now() + every;
                SO_FAR
            }
            false => "next",
        };
    };
    helper.stop(worker)?;
    done(helper, &reply, WHAT, timing)
}

impl TimeOptions {
    fn term(&self) -> Term {
        let functions = self.functions.iter().map(FunctionPattern::term);
        let wanted = if self.value { "true" } else { "false" };
        map([
            (atom("source"), text(&self.call)),
            (atom("times"), int(self.times.into())),
            (atom("for_ms"), millis(self.duration)),
            (atom("traced"), int(self.traced.into())),
            (atom("patterns"), list(functions)),
            (atom("result"), atom(wanted)),
            (atom("messages"), int(self.messages.into())),
            (atom("limits"), self.budget.term()),
        ])
    }
}

fn timing(term: &Term) -> Option<Timing> {
    let nanoseconds = |term: &Term, key| helper::number(term, key).map(Duration::from_nanos);
    let ended = get(term, "ended")?;
    let path = get(term, "path");
    Some(Timing {
        first: nanoseconds(term, "first"),
        value: helper::text_of(term, "value"),
        raised: get(term, "raised").and_then(raised),
        times: get(term, "times").and_then(as_bytes).map(nanos).unwrap_or_default(),
        reductions: helper::number(term, "reductions"),
        empty: get(term, "empty").and_then(|it| nanoseconds(it, "nanos")),
        collected: get(term, "collected").and_then(collected),
        path: match path {
            Some(path) => Some(read(path)?),
            None => None,
        },
        refused: get(term, "refused").map(refusal),
        ended: match as_atom(ended) {
            Some("raised") => Ended::Limit(1),
            _ => Ended::read(ended)?,
        },
    })
}

fn raised(term: &Term) -> Option<Raised> {
    let [calls, class, reason, stack] = exactly(as_tuple(term)?)?;
    Some(Raised { calls: number(calls)?, class: as_text(class)?, reason: as_text(reason)?, stack: as_texts(stack)? })
}

fn collected(term: &Term) -> Option<Collected> {
    let [calls, minor, major, more, words] = exactly(as_tuple(term)?)?;
    Some(Collected {
        calls: number(calls)?,
        minor: number(minor)?,
        major: number(major)?,
        words: number(words)? / number(more)?.max(1),
    })
}
