//! Limits of a trace or profile's cost to the node, and which of them ended it.

use std::time::Duration;

use measure::Problem;

use crate::error::Error;
use crate::term::{Term, as_atom, as_int, as_text, as_tuple, atom, exactly, int, map, millis};

/// Limits that the node itself holds: what looks at them runs there, at high priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Time from its beginning.
    pub time: Duration,
    /// Trace messages that may wait for the tracer.
    pub backlog: u32,
    /// Bytes that the tracer may take, with what waits for it.
    pub tracer_bytes: u64,
    /// Bytes by which the node's memory may rise meanwhile.
    pub node_bytes: u64,
    /// Processes by which the node's run queues may rise, for a second.
    pub run_queue: u32,
}

impl Budget {
    /// The usual limits for so long.
    pub const fn lasting(time: Duration) -> Self {
        Self { time, backlog: 10_000, tracer_bytes: 64 << 20, node_bytes: 256 << 20, run_queue: 32 }
    }

    pub(crate) fn term(&self) -> Term {
        let number = |value: u64| int(i64::try_from(value).unwrap_or(i64::MAX));
        map([
            (atom("for_ms"), millis(self.time)),
            (atom("backlog"), number(self.backlog.into())),
            (atom("tracer_bytes"), number(self.tracer_bytes)),
            (atom("node_bytes"), number(self.node_bytes)),
            (atom("run_queue"), number(self.run_queue.into())),
        ])
    }
}

/// Reason why a trace or profile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time was over.
    Time,
    /// All calls that were asked for have come.
    Limit(u64),
    /// We asked for it.
    Asked,
    /// The node went away, or did not answer any more: what it had told before is not all.
    Gone,
    /// A limit that protects the node tripped.
    Tripped {
        /// Its name, such as `backlog`.
        limit: String,
        /// Observed value.
        observed: u64,
        /// The limit that was passed.
        allowed: u64,
    },
}

impl Ended {
    /// Reads `{Limit, Observed, Allowed}`, or the atom `time`.
    pub(crate) fn read(term: &Term) -> Option<Self> {
        if as_atom(term) == Some("time") {
            return Some(Self::Time);
        }
        let [limit, observed, allowed] = exactly(as_tuple(term)?)?;
        let number = |term| as_int(term).and_then(|value| u64::try_from(value).ok());
        Some(match as_atom(limit)? {
            "time" => Self::Time,
            "limit" => Self::Limit(number(observed)?),
            "asked" => Self::Asked,
            other => Self::Tripped { limit: other.to_owned(), observed: number(observed)?, allowed: number(allowed)? },
        })
    }

    /// One sentence without a full stop.
    pub fn describe(&self) -> String {
        match self {
            Self::Time => "the time is over".to_owned(),
            Self::Limit(calls) => format!("the limit of {} is reached", measure::counted(*calls, "call")),
            Self::Asked => "stopped by the user".to_owned(),
            Self::Gone => "the node went away before the end: this is what it had told by then".to_owned(),
            Self::Tripped { limit, observed, allowed } => match tripped(limit, *observed, *allowed) {
                (text, "") => text,
                (text, remedy) => format!("{text} ({remedy})"),
            },
        }
    }

    /// Its cause, without the option that allows more.
    pub fn cause(&self) -> String {
        match self {
            Self::Tripped { limit, observed, allowed } => tripped(limit, *observed, *allowed).0,
            other => other.describe(),
        }
    }

    /// The limit that was reached, such as `rate`; empty where none was.
    pub fn limit(&self) -> &str {
        match self {
            Self::Time => "time",
            Self::Limit(_) => "limit",
            Self::Asked | Self::Gone => "",
            Self::Tripped { limit, .. } => limit,
        }
    }
}

/// Bytes in the unit of messages.
const MB: f64 = (1 << 20) as f64;

/// Which limit tripped, and at what; and what allows more.
fn tripped(limit: &str, observed: u64, allowed: u64) -> (String, &'static str) {
    let is_bytes = matches!(limit, "tracer_memory" | "node_memory" | "unread" | "details" | "heap");
    let shown = |value: u64| match is_bytes {
        true => {
            let text = format!("{:.1}", value as f64 / MB);
            format!("{} MB", text.trim_end_matches(".0"))
        }
        false => value.to_string(),
    };
    let seen = shown(observed);
    let (what, remedy) = match limit {
        "exited" => {
            let text = "the calling process ended";
            return (text.to_owned(), "");
        }
        "behind" => {
            let seconds = observed as f64 / 1e3;
            let text = format!("the tracing process was {seconds:.1} s late, and misses the calls of that time");
            let remedy = "leave out arguments (--no-arguments), name fewer functions or processes, or leave the node \
                          more CPU";
            return (text, remedy);
        }
        _ => reached(limit, &seen),
    };
    let allowed = match (is_bytes, allowed) {
        (false, 1) => "1 is".to_owned(),
        (_, allowed) => format!("{} are", shown(allowed)),
    };
    let text = format!("withdrew from the node: {what}, and {allowed} allowed");
    (text, remedy)
}

/// Observation where a limit tripped, and remedy.
fn reached(limit: &str, seen: &str) -> (String, &'static str) {
    match limit {
        "rate" => (format!("{seen} calls in one second"), "--rate allows more"),
        "backlog" => (format!("{seen} trace messages waited on the node"), "--max-backlog allows more"),
        "mailbox" => (format!("{seen} messages waited for the calling process"), "--max-backlog allows more"),
        "node_memory" => (format!("the node's memory rose by {seen}"), "--max-memory allows more"),
        "heap" => (format!("the calling process took {seen}"), "--max-memory allows more"),
        "run_queue" => (format!("{seen} processes waited to run"), "--max-run-queue allows more"),
        "messages" => (
            format!("{seen} trace messages"),
            "name fewer modules, or allow more with --max-messages where it is offered",
        ),
        "tracer_memory" => (format!("the tracing process took {seen}"), "name fewer functions or processes"),
        "unread" => (
            format!("{seen} of events were not fetched yet"),
            "name fewer functions or processes, or leave out arguments (--no-arguments)",
        ),
        "nested" => (
            format!(
                "{seen} calls in one process waited for their return, as in a function that calls itself and never \
                 returns; each has words on the process's stack"
            ),
            "leave out --returns and --durations, or trace a function that returns",
        ),
        "open_calls" => (format!("{seen} calls waited for their return"), "name fewer functions or processes"),
        "details" => (
            format!("the table of costs per function took {seen}"),
            "name fewer modules, or follow fewer calls with --max-calls",
        ),
        other => (format!("{other} was {seen}"), "see the options' budget"),
    }
}

/// The cause where no process has the role that is asked for.
const NO_ROLE: &str = "no process has this role";

/// Whether the node's side refused because no process has the role that was asked for; later there may be one.
pub fn lacks_role(error: &Error) -> bool {
    matches!(error, Error::Other(problem) if problem.cause == NO_ROLE)
}

/// The cause where a text is no call.
const NO_CALL: &str = "this is not a call of a function with terms as arguments";

/// Whether the node's side refused because a text is no call that it reads.
pub fn is_no_call(error: &Error) -> bool {
    matches!(error, Error::Other(problem) if problem.cause == NO_CALL)
}

/// Problem of a `{refused, Reason}` by which the node's side does not begin.
pub(crate) fn refusal(reason: &Term) -> Problem {
    let (what, about) = match as_tuple(reason) {
        Some([what, about]) => (as_atom(what).unwrap_or(""), as_text(about).unwrap_or_default()),
        _ => ("", String::new()),
    };
    let (cause, help) = match what {
        "busy" => (
            "another trace runs on this node",
            "wait until it has ended; Erlang/OTP 27 and later let several traces run side by side",
        ),
        "no_module" => ("the node has no such module", "check its name"),
        "no_function" => (
            "the module has no such function",
            "check its name and number of arguments; in a trace M:F means every arity",
        ),
        "bad_match" => (
            "the pattern of arguments is not Erlang",
            "write the arguments as in a function's head, such as '<<\"orders\">>, _' or 'N, _ when N > 10'",
        ),
        "other_arity" => (
            "the pattern of arguments has another number of arguments than the function",
            "write one for each argument, _ for any",
        ),
        "bad_expression" => (
            NO_CALL,
            "write MODULE:FUNCTION(TERM, ...), such as 'rabbit_amqqueue:list(<<\"/\">>)'; calls, operators and \
             variables inside are not evaluated",
        ),
        "no_role" => (NO_ROLE, "roles are queue, channel, connection, writer, limiter, session, or a module's name"),
        "no_process" => ("there is no such process", "write it as <0.512.0>, or its registered name"),
        _ => ("the node refuses", "check the options"),
    };
    Problem::new(cause, about, help)
}

#[cfg(test)]
mod tests {
    use super::{Ended, is_no_call, lacks_role, refusal, tripped};
    use crate::error::Error;
    use crate::term::{atom, text, tuple};

    #[test]
    fn a_role_that_no_process_has_yet_is_told_from_what_stays_wrong() {
        let refused = |what: &str| Error::Other(refusal(&tuple([atom(what), text("channel")])));
        assert!(lacks_role(&refused("no_role")));
        assert!(!lacks_role(&refused("no_module")));
        assert!(is_no_call(&refused("bad_expression")) && !is_no_call(&refused("no_module")));
    }

    #[test]
    fn a_limit_that_tripped_is_told_with_its_unit_and_what_allows_more() {
        let ended = Ended::Tripped { limit: "node_memory".to_owned(), observed: 280_289_904, allowed: 256 << 20 };
        assert_eq!(
            ended.describe(),
            "withdrew from the node: the node's memory rose by 267.3 MB, and 256 MB are allowed (--max-memory allows \
             more)"
        );
        let (said, remedy) = tripped("run_queue", 21_491, 56);
        assert_eq!(said, "withdrew from the node: 21491 processes waited to run, and 56 are allowed");
        assert_eq!(remedy, "--max-run-queue allows more");
        // All that the node's side says.
        let limits = "rate backlog mailbox heap messages tracer_memory unread open_calls nested details";
        for limit in limits.split(' ') {
            let (said, remedy) = tripped(limit, 5 << 20, 4 << 20);
            assert!(!remedy.contains("budget"), "{limit}: {remedy}");
            assert!(said.ends_with("are allowed"), "{limit}: {said}");
        }
    }
}
