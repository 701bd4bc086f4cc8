//! Call traces: which calls come in, who makes them, with what, and how long they take.

use std::time::{Duration, SystemTime};

use crate::budget::{Budget, Ended, refusal};
use crate::calls::number;
use crate::error::Error;
use crate::helper::{Answer, Helper, Worker};
use crate::pattern::{FunctionPattern, ProcessFilter};
use crate::term::{Term, as_atom, as_list, as_text, as_texts, as_tuple, atom, int, list, map, show, text};

/// Options of a trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The functions.
    pub functions: Vec<FunctionPattern>,
    /// A pattern of their arguments, as in a function's head, perhaps with `when`.
    pub arguments: Option<String>,
    /// The processes.
    pub processes: ProcessFilter,
    /// Calls after which it ends.
    pub limit: u32,
    /// Calls in one second at which it ends.
    pub rate: u32,
    /// Whether returns are traced, too.
    pub returns: bool,
    /// Bytes of each argument's text; 0 for none.
    pub argument_bytes: u16,
    /// Limits of its cost to the node.
    pub budget: Budget,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number, from 0.
    pub number: u64,
    /// When, by the node's clock.
    pub time: SystemTime,
    /// The process, such as `<0.512.0>`.
    pub pid: String,
    /// Its role, such as `queue`; empty where it has none.
    pub role: String,
    /// The name of its queue or connection, or its registered name; empty where it has none.
    pub name: String,
    /// The function's module.
    pub module: String,
    /// The function's name.
    pub function: String,
    /// Its number of arguments.
    pub arity: u8,
    /// The arguments as texts, cut, secrets masked.
    pub arguments: Vec<String>,
}

/// The return of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// The number of the call.
    pub number: u64,
    /// How long it took, waits included.
    pub duration: Duration,
    /// `ok`, or the class of its exception.
    pub kind: String,
    /// Its value or the exception's reason as text, cut, secrets masked.
    pub value: String,
}

/// Event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A function is called.
    Call(Call),
    /// A call that was told has returned.
    Return(Return),
    /// A module was loaded anew, which ended its trace; it goes on, and calls in between, up to a second, are missed.
    LoadedAnew(String),
}

/// A trace that runs on the node.
#[derive(Debug)]
pub struct Trace<'a> {
    helper: &'a Helper,
    worker: Worker,
    ended: Option<Ended>,
}

impl<'a> Trace<'a> {
    /// Starts it. What the node's side refuses, [`Trace::next`] tells.
    pub fn start(helper: &'a Helper, options: &TraceOptions) -> Result<Self, Error> {
        let functions = options.functions.iter().map(FunctionPattern::term);
        let argument = map([
            (atom("patterns"), list(functions)),
            (atom("match"), text(options.arguments.as_deref().unwrap_or(""))),
            (atom("processes"), options.processes.term()),
            (atom("limit"), int(options.limit.into())),
            (atom("rate"), int(options.rate.into())),
            (atom("returns"), atom(if options.returns { "true" } else { "false" })),
            (atom("arguments"), int(options.argument_bytes.into())),
            (atom("limits"), options.budget.term()),
        ]);
        Ok(Self { helper, worker: helper.run("bellows_trace", "start", argument)?, ended: None })
    }

    /// The next events, none where nothing came within the time.
    pub fn next(&mut self, wait: Duration) -> Result<Vec<TraceEvent>, Error> {
        self.ask("next", wait)
    }

    /// Why it ended; `None` while it runs or has events left.
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Ends it; what was on its way comes with the next events.
    pub fn stop(&mut self) -> Result<Vec<TraceEvent>, Error> {
        self.ask("stop", Duration::from_secs(10))
    }

    /// Removes what is left of it from the node.
    pub fn close(self) -> Result<(), Error> {
        self.helper.stop(self.worker)
    }

    fn ask(&mut self, request: &str, wait: Duration) -> Result<Vec<TraceEvent>, Error> {
        if self.ended.is_some() {
            return Ok(Vec::new());
        }
        let answer = self.helper.ask(&self.worker, atom(request), wait)?;
        let reply = match answer {
            Answer::Silent => return Ok(Vec::new()),
            Answer::Reply(reply) => reply,
            Answer::Ended => return Err(self.failed("it has ended".to_owned())),
            Answer::Failed(reason) => return Err(self.failed(reason)),
        };
        let unreadable = || self.failed(show(&reply, 200));
        let [events, state] = as_tuple(&reply).ok_or_else(unreadable)? else { return Err(unreadable()) };
        if as_atom(events) == Some("refused") {
            return Err(Error::Other(refusal(state)));
        }
        let events = as_list(events).ok_or_else(unreadable)?;
        let events = events.iter().map(event).collect::<Option<Vec<_>>>();
        let events = events.ok_or_else(unreadable)?;
        let ended = match as_tuple(state) {
            Some([_, why]) => Some(Ended::read(why).ok_or_else(unreadable)?),
            _ => None,
        };
        self.ended = ended;
        Ok(events)
    }

    fn failed(&self, reason: String) -> Error {
        self.helper.failed("the trace", reason)
    }
}

fn event(term: &Term) -> Option<TraceEvent> {
    match as_tuple(term)? {
        [_, count, micros, pid, role, name, module, function, arity, arguments] => Some(TraceEvent::Call(Call {
            number: number(count)?,
            time: SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(number(micros)?))?,
            pid: as_text(pid)?,
            role: as_text(role)?,
            name: as_text(name)?,
            module: as_text(module)?,
            function: as_text(function)?,
            arity: u8::try_from(number(arity)?).ok()?,
            arguments: as_texts(arguments)?,
        })),
        [_, module] => Some(TraceEvent::LoadedAnew(as_text(module)?)),
        [_, count, _, nanos, kind, value] => Some(TraceEvent::Return(Return {
            number: number(count)?,
            duration: Duration::from_nanos(number(nanos)?),
            kind: as_text(kind)?,
            value: as_text(value)?,
        })),
        _ => None,
    }
}
