//! Calls of an entry function, followed into the processes that they ask.

use std::time::Duration;

use super::number;
use super::path::{self, Path};
use crate::budget::{Budget, refusal};
use crate::error::Error;
use crate::helper::{Answer, Helper, Worker};
use crate::pattern::{FunctionPattern, ProcessFilter};
use crate::term::{Term, as_atom, as_tuple, atom, int, list, map, show};

/// Time between two questions of how far it is.
const EVERY: Duration = Duration::from_millis(250);
/// Longest wait for one answer: at the end the node puts everything together.
const ANSWER: Duration = Duration::from_secs(60);

/// Options of following an entry.
#[derive(Clone, Debug)]
pub struct RootOptions {
    /// The entry function.
    pub root: FunctionPattern,
    /// Functions traced below it; those modules that run there if empty.
    pub functions: Vec<FunctionPattern>,
    /// The processes whose calls of the entry count.
    pub processes: ProcessFilter,
    /// How long; in the first quarter only the entry is traced.
    pub duration: Duration,
    /// Calls of the entry after which it ends.
    pub limit: u32,
    /// Calls of the entry in one second at which it ends.
    pub rate: u32,
    /// Trace messages at which it ends.
    pub messages: u32,
    /// Limits of its cost to the node.
    pub budget: Budget,
}

/// How calls of the entry are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootPhase {
    /// Only the entry is traced.
    #[default]
    Alone,
    /// Functions below it are counted.
    Counting,
    /// Functions below it are traced.
    Following,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootProgress {
    /// The phase.
    pub phase: RootPhase,
    /// Calls of the entry while only that was traced.
    pub untraced: u64,
    /// Calls of the entry that were traced with all below them.
    pub calls: u64,
    /// Trace messages.
    pub messages: u64,
}

/// Follows calls until one of the limits ends it, or `look` says that it is enough, and removes what is left of it from
/// the node.
///
/// # Errors
/// The node's side refuses or has failed, or the node cannot be asked.
pub fn follow(
    helper: &Helper,
    options: &RootOptions,
    look: impl FnMut(RootProgress) -> bool,
) -> Result<Path, Error> {
    let following = Following::begin(helper, options)?;
    let path = following.wait(look);
    following.end()?;
    path
}

/// Calls that the node follows.
#[derive(Debug)]
pub struct Following<'a> {
    helper: &'a Helper,
    worker: Worker,
}

impl<'a> Following<'a> {
    /// Begins. What the node's side refuses, [`Following::wait`] tells.
    ///
    /// # Errors
    /// The node cannot be asked.
    pub fn begin(helper: &'a Helper, options: &RootOptions) -> Result<Self, Error> {
        let worker = helper.run("bellows_root", "start", options.term())?;
        Ok(Self { helper, worker })
    }

    /// Waits until one of the limits ends it, or `look` says that it is enough.
    ///
    /// # Errors
    /// The node's side refuses or has failed, or the node cannot be asked.
    pub fn wait(&self, look: impl FnMut(RootProgress) -> bool) -> Result<Path, Error> {
        const WHAT: &str = "the trace of calls";
        let reply = last_reply(self.helper, &self.worker, WHAT, look)?;
        done(self.helper, &reply, WHAT, path::read)
    }

    /// Removes what is left of it from the node, which closing the helper does, too.
    ///
    /// # Errors
    /// The node cannot be asked.
    pub fn end(self) -> Result<(), Error> {
        self.helper.stop(self.worker)
    }
}

/// A worker's last answer.
fn last_reply(
    helper: &Helper,
    worker: &Worker,
    what: &str,
    mut look: impl FnMut(RootProgress) -> bool,
) -> Result<Term, Error> {
    let mut request = "next";
    loop {
        let reply = answer(helper, worker, request, what)?;
        match as_tuple(&reply) {
            Some([running, phase, untraced, calls, messages])
                if as_atom(running) == Some("running") =>
            {
                let count = |term| number(term).unwrap_or(0);
                let enough = look(RootProgress {
                    phase: match as_atom(phase) {
                        Some("detailed") => RootPhase::Following,
                        Some("counted") => RootPhase::Counting,
                        _ => RootPhase::Alone,
                    },
                    untraced: count(untraced),
                    calls: count(calls),
                    messages: count(messages),
                });
                request = if enough { "stop" } else { "next" };
                if !enough {
                    std::thread::sleep(EVERY);
                }
            }
            _ => return Ok(reply),
        }
    }
}

/// Waits for a worker's answer.
pub(crate) fn answer(
    helper: &Helper,
    worker: &Worker,
    request: &str,
    what: &str,
) -> Result<Term, Error> {
    let reason = match helper.ask(worker, atom(request), ANSWER)? {
        Answer::Reply(reply) => return Ok(reply),
        Answer::Silent => "it did not answer in time".to_owned(),
        Answer::Ended => "it was ended".to_owned(),
        Answer::Failed(reason) => reason,
    };
    Err(failed(helper, what, reason))
}

/// Reads `{done, Result}` or `{refused, Reason}`.
pub(crate) fn done<T>(
    helper: &Helper,
    reply: &Term,
    what: &str,
    read: impl Fn(&Term) -> Option<T>,
) -> Result<T, Error> {
    match as_tuple(reply) {
        Some([word, reason]) if as_atom(word) == Some("refused") => {
            Err(Error::Options(refusal(reason)))
        }
        Some([_, result]) => read(result).ok_or_else(|| failed(helper, what, show(result, 200))),
        _ => Err(failed(helper, what, show(reply, 200))),
    }
}

fn failed(helper: &Helper, what: &str, reason: String) -> Error {
    Error::Exception {
        node: helper.node().name().clone(),
        call: what.to_owned(),
        reason,
    }
}

impl RootOptions {
    fn term(&self) -> Term {
        let ms = i64::try_from(self.duration.as_millis()).unwrap_or(i64::MAX);
        let functions = self.functions.iter().map(FunctionPattern::term);
        map([
            (atom("root"), self.root.term()),
            (atom("patterns"), list(functions)),
            (atom("processes"), self.processes.term()),
            (atom("for_ms"), int(ms)),
            (atom("limit"), int(self.limit.into())),
            (atom("rate"), int(self.rate.into())),
            (atom("messages"), int(self.messages.into())),
            (atom("limits"), self.budget.term()),
        ])
    }
}
