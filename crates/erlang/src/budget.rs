//! What a trace or profile may cost the node, and what ended it.

use std::time::Duration;

use measure::Problem;

use crate::term::{Term, as_atom, as_int, as_text, as_tuple, atom, int, map};

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
    #[must_use]
    pub const fn lasting(time: Duration) -> Self {
        Self {
            time,
            backlog: 10_000,
            tracer_bytes: 64 << 20,
            node_bytes: 256 << 20,
            run_queue: 32,
        }
    }

    pub(crate) fn term(&self) -> Term {
        let number = |value: u64| int(i64::try_from(value).unwrap_or(i64::MAX));
        let ms = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        map([
            (atom("for_ms"), number(ms)),
            (atom("backlog"), number(self.backlog.into())),
            (atom("tracer_bytes"), number(self.tracer_bytes)),
            (atom("node_bytes"), number(self.node_bytes)),
            (atom("run_queue"), number(self.run_queue.into())),
        ])
    }
}

/// What ended a trace or profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time was over.
    Time,
    /// All calls that were asked for have come.
    Limit(u64),
    /// We asked for it.
    Asked,
    /// A limit that protects the node tripped.
    Tripped {
        /// Its name, such as `backlog`.
        limit: String,
        /// What was observed.
        observed: u64,
        /// What is allowed.
        allowed: u64,
    },
}

impl Ended {
    /// Reads `{Limit, Observed, Allowed}`, or the atom `time`.
    pub(crate) fn read(term: &Term) -> Option<Self> {
        if as_atom(term) == Some("time") {
            return Some(Self::Time);
        }
        let [limit, observed, allowed] = as_tuple(term)? else {
            return None;
        };
        let number = |term| as_int(term).and_then(|value| u64::try_from(value).ok());
        Some(match as_atom(limit)? {
            "time" => Self::Time,
            "limit" => Self::Limit(number(observed)?),
            "asked" => Self::Asked,
            other => Self::Tripped {
                limit: other.to_owned(),
                observed: number(observed)?,
                allowed: number(allowed)?,
            },
        })
    }

    /// One sentence without a full stop.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Time => "the time is over".to_owned(),
            Self::Limit(calls) => format!(
                "the limit of {} is reached",
                measure::counted(*calls, "call")
            ),
            Self::Asked => "ended by hand".to_owned(),
            Self::Tripped {
                limit,
                observed,
                allowed,
            } => {
                let what = match limit.as_str() {
                    "rate" => "calls in one second",
                    "backlog" => "trace messages waiting on the node",
                    "tracer_memory" => "bytes of the tracing process",
                    "node_memory" => "bytes by which the node's memory rose",
                    "run_queue" => "processes waiting to run",
                    "unread" => "bytes of events that this side did not fetch",
                    "open_calls" => "calls waiting for their return",
                    "messages" => "trace messages",
                    "details" => "bytes of what calls cost, function by function",
                    "heap" => "bytes of the process that makes the calls",
                    "mailbox" => "messages waiting for the process that makes the calls",
                    other => other,
                };
                match limit.as_str() {
                    "exited" => "the process that made the calls has ended itself".to_owned(),
                    _ => format!("withdrew from the node: {observed} {what}, {allowed} allowed"),
                }
            }
        }
    }
}

/// What the node's side says where it does not begin: `{refused, Reason}`.
pub(crate) fn refusal(reason: &Term) -> Problem {
    let (what, about) = match as_tuple(reason) {
        Some([what, about]) => (
            as_atom(what).unwrap_or(""),
            as_text(about).unwrap_or_default(),
        ),
        _ => ("", String::new()),
    };
    let (cause, help) = match what {
        "busy" => (
            "somebody else traces on this node, and their trace is left alone",
            "wait until it has ended; Erlang/OTP 27 and later let several traces run side by side",
        ),
        "no_module" => ("the node has no such module", "check its name"),
        "no_function" => (
            "the module has no such function",
            "check its name and number of arguments; M:F traces every arity",
        ),
        "bad_match" => (
            "the pattern of arguments is not Erlang",
            "write the arguments as in a function's head, such as '<<\"orders\">>, _' or 'N, _ when N > 10'",
        ),
        "bad_expression" => (
            "this is no call of a function with terms as arguments",
            "write MODULE:FUNCTION(TERM, ...), such as 'rabbit_amqqueue:list(<<\"/\">>)'; calls, operators and variables inside are not evaluated",
        ),
        "no_role" => (
            "no process has this role",
            "roles are queue, channel, connection, writer, limiter, session, or a module's name",
        ),
        "no_process" => (
            "there is no such process",
            "write it as <0.512.0>, or its registered name",
        ),
        _ => ("the node's side refuses", "check the options"),
    };
    Problem::new(cause, about, help)
}
