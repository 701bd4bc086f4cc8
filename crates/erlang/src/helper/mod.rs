//! The Erlang module that does the work on the node: loaded when a command needs it, removed at its end.
//! `scripts/helper` makes one of `bellows_*.erl` with the oldest supported OTP; its name carries a hash of all sources,
//! so that versions do not meet. Its keeper's owner process holds a lease, which a thread of ours renews, and undoes
//! everything when that or the connection ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::Problem;

use crate::error::Error;
use crate::node::{Mailbox, Node};
use crate::term::{Binary, Term, as_atom, as_int, as_text, as_tuple, atom, charlist, get, int, millis, show, tuple};

/// The module's name on a node, and its code.
const MODULE: (&str, &[u8]) = include!("beam/module.in");
const LOAD: &str = include_str!("load.erl");

/// A node without word from us for this long ends what it does for us.
const LEASE: Duration = Duration::from_secs(10);
const RENEW_EVERY: Duration = Duration::from_millis(2500);
/// Longest that loading, and removing, may take where others load and remove at the same time.
const SETTLE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// Shortest time-out of undoing on a busy node, which looks at each of its processes.
const UNDO: Duration = Duration::from_secs(60);
/// How soon a wish to stop is passed on to a worker.
const STOP_WITHIN: Duration = Duration::from_millis(50);

/// The helper module on a node, and this connection's owner process there.
#[derive(Debug)]
pub struct Helper {
    shared: Arc<Shared>,
    renewal: Option<JoinHandle<()>>,
    /// The owner process monitors its pid.
    _client: Mailbox,
}

#[derive(Debug)]
struct Shared {
    node: Node,
    owner: Term,
    closing: Mutex<bool>,
    closed: Condvar,
}

/// A process on the node that does one thing for this connection, such as a trace.
#[derive(Debug, Clone)]
pub struct Worker {
    pid: Term,
    /// Gets its answers, also those that come after the time, and learns of its end.
    answers: Arc<Mailbox>,
}

/// A worker's answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The worker's reply.
    Reply(Term),
    /// The worker has no answer yet.
    Silent,
    /// The worker has ended, and what it did is undone.
    Ended,
    /// The worker failed for this reason, and what it did is undone.
    Failed(String),
}

/// The name in the module of a function of a source, such as `start` of `bellows_top`.
fn function_name(source: &str, function: &str) -> String {
    let part = source.strip_prefix("bellows_").unwrap_or(source);
    format!("{part}_{function}")
}

impl Helper {
    /// Whether a registered name is that of a helper, of this bellows or another version.
    pub fn is_its_name(name: &str) -> bool {
        let hash = name.strip_prefix("bellows_").unwrap_or_default();
        // Whoever traces is registered, so that others see it.
        hash == "tracing" || hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// Loads the module where it is not there yet, and joins its keeper.
    pub fn load(node: &Node) -> Result<Self, Error> {
        Self::load_with_lease(node, LEASE)
    }

    /// As [`Helper::load`], with another time after which the node gives us up.
    pub fn load_with_lease(node: &Node, lease: Duration) -> Result<Self, Error> {
        let client = node.mailbox();
        let owner = join(node, &client.pid(), lease)?;
        let shared = Arc::new(Shared { node: node.clone(), owner, closing: Mutex::new(false), closed: Condvar::new() });
        let (renewed, every) = (Arc::clone(&shared), RENEW_EVERY.min(lease / 4));
        let renewal = thread::Builder::new().name("erlang lease".to_owned()).spawn(move || renewed.renew(every));
        let renewal = renewal.map_err(|error| {
            Error::Other(Problem::new("cannot start a thread", error, "check the limit of processes (ulimit -u)"))
        })?;
        Ok(Self { shared, renewal: Some(renewal), _client: client })
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.shared.node
    }

    /// The failure of something that we do on the node.
    pub(crate) fn failed(&self, call: &str, reason: impl Into<String>) -> Error {
        Error::Exception { node: self.node().name().clone(), call: call.to_owned(), reason: reason.into() }
    }

    /// The module's name on the node.
    pub const fn module() -> &'static str {
        MODULE.0
    }

    /// Calls a function of a source of the module, such as `bellows_top`.
    pub fn call(&self, source: &str, function: &str, arguments: Vec<Term>) -> Result<Term, Error> {
        self.call_within(self.node().timeout(), source, function, arguments)
    }

    /// As [`Helper::call`], with a time-out of its own.
    pub fn call_within(
        &self,
        timeout: Duration,
        source: &str,
        function: &str,
        arguments: Vec<Term>,
    ) -> Result<Term, Error> {
        let function = function_name(source, function);
        match self.node().call_within(timeout, MODULE.0, &function, arguments) {
            // The node removes the module when it hears nothing from us for too long.
            Err(Error::Exception { reason, .. }) if is_gone(&reason) => Err(lease_lost(self.node())),
            answer => answer,
        }
    }

    /// Starts `source:function(Owner, argument)` in a process of its own on the node, which the owner ends with us.
    pub fn run(&self, source: &str, function: &str, argument: Term) -> Result<Worker, Error> {
        let function = atom(&function_name(source, function));
        let owner = self.shared.owner.clone();
        let arguments = vec![owner, atom(MODULE.0), function, argument];
        let reply = self.call("bellows_keeper", "run", arguments)?;
        match as_tuple(&reply) {
            Some([ok, pid]) if as_atom(ok) == Some("ok") => {
                let answers = Arc::new(self.node().mailbox());
                self.node().monitor(&answers, pid)?;
                Ok(Worker { pid: pid.clone(), answers })
            }
            _ => Err(lease_lost(self.node())),
        }
    }

    /// Asks a worker, and waits for its answer.
    pub fn ask(&self, worker: &Worker, request: Term, timeout: Duration) -> Result<Answer, Error> {
        self.ask_until(worker, request, timeout, &|| false)
    }

    /// As [`Helper::ask`]; once `stop` says so, the worker is told to `stop`, and answers with what it has by then.
    pub fn ask_until(
        &self,
        worker: &Worker,
        request: Term,
        timeout: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Answer, Error> {
        // No call waits on the node meanwhile: its server would answer us after we have gone, and connect for that.
        let (node, us) = (self.node(), &worker.answers);
        node.tell(&worker.pid, tuple([atom("ask"), us.pid(), request]))?;
        let until = Instant::now() + timeout;
        let mut stopped = false;
        loop {
            if !stopped && stop() {
                stopped = true;
                let message = tuple([atom("ask"), node.nobody(), atom("stop")]);
                node.tell(&worker.pid, message)?;
            }
            let left = until.saturating_duration_since(Instant::now());
            match us.receive(left.min(STOP_WITHIN))? {
                Some(Term::Tuple(mut message)) => {
                    // Our own address, and the answer.
                    let answer = message.elements.pop();
                    return match message.elements.first().and_then(as_atom) {
                        Some("DOWN") => self.why_ended(worker),
                        _ => Ok(answer.map_or(Answer::Silent, Answer::Reply)),
                    };
                }
                _ if left.is_zero() => return Ok(Answer::Silent),
                _ => {}
            }
        }
    }

    fn why_ended(&self, worker: &Worker) -> Result<Answer, Error> {
        let arguments = vec![self.shared.owner.clone(), worker.pid.clone()];
        let reply = self.call("bellows_keeper", "why", arguments)?;
        Ok(match as_tuple(&reply) {
            Some([_, reason]) => Answer::Failed(as_text(reason).unwrap_or_default()),
            _ => Answer::Ended,
        })
    }

    /// As [`Helper::ask`], but no process of the node stands between: a worker of high priority answers at once also
    /// where the node is overloaded. Of a worker that has ended nothing is heard but silence.
    pub fn ask_directly(&self, worker: &Worker, request: Term, timeout: Duration) -> Result<Answer, Error> {
        let us = self.node().mailbox();
        let message = tuple([atom("ask"), us.pid(), request]);
        self.node().tell(&worker.pid, message)?;
        let Some(Term::Tuple(mut reply)) = us.receive(timeout)? else { return Ok(Answer::Silent) };
        // The first element is our own address.
        let reply = reply.elements.pop();
        Ok(reply.map_or(Answer::Silent, Answer::Reply))
    }

    /// Ends a worker, and waits until what it did is undone.
    pub fn stop(&self, worker: Worker) -> Result<(), Error> {
        let arguments = vec![self.shared.owner.clone(), worker.pid];
        let longest = self.shared.longest();
        self.call_within(longest, "bellows_keeper", "stop", arguments).map(drop).map_err(Error::undoing)
    }

    /// Undoes what was done for this connection, and waits until the module is gone, unless another bellows uses it.
    pub fn close(mut self) -> Result<(), Error> {
        self.end_renewal();
        self.shared.leave(self.shared.longest())
    }

    fn end_renewal(&mut self) {
        *self.shared.closing() = true;
        self.shared.closed.notify_all();
        if let Some(renewal) = self.renewal.take() {
            // It cannot panic, and a caller could do nothing about it.
            let _ = renewal.join();
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if self.renewal.is_some() {
            self.end_renewal();
            // The node does the same by itself when the connection or the lease ends.
            let _ = self.shared.leave(self.node().timeout());
        }
    }
}

impl Shared {
    fn closing(&self) -> MutexGuard<'_, bool> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the lease until the helper closes.
    fn renew(&self, every: Duration) {
        loop {
            let wait = self.closed.wait_timeout_while(self.closing(), every, |closing| !*closing);
            if *wait.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            // One that fails is followed by another; without any the node gives us up, and the next call says so. It
            // goes straight to the owner: a node that is overloaded for seconds is not one that we have left.
            let _ = self.node.tell(&self.owner, atom("renew"));
        }
    }

    /// Longest wait until something is undone.
    fn longest(&self) -> Duration {
        self.node.timeout().max(UNDO)
    }

    fn leave(&self, longest: Duration) -> Result<(), Error> {
        // The process that answers may be gone with the module before it does.
        let leave = function_name("bellows_keeper", "leave");
        let owner = vec![self.owner.clone()];
        let left = self.node.call_within(longest, MODULE.0, &leave, owner);
        match left.map_err(Error::undoing) {
            Ok(who) if as_atom(&who) == Some("others") => return Ok(()),
            Err(late @ Error::Undoing(_)) => return Err(late),
            _ => {}
        }
        let until = Instant::now() + SETTLE;
        loop {
            let arguments = || vec![atom(MODULE.0)];
            let loaded = self.node.call("erlang", "module_loaded", arguments())?;
            let old = self.node.call("erlang", "check_old_code", arguments())?;
            let named = self.node.call("erlang", "whereis", arguments())?;
            let is_false = |term: &Term| as_atom(term) == Some("false");
            let is_clean = is_false(&loaded) && is_false(&old);
            if is_clean && as_atom(&named) == Some("undefined") {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Error::Timeout {
                    node: self.node.name().clone(),
                    what: format!("to remove the module {}", MODULE.0),
                    after: SETTLE,
                    is_fixed: true,
                });
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Joins the keeper, and loads the module first where there is none.
fn join(node: &Node, client: &Term, lease: Duration) -> Result<Term, Error> {
    let name = function_name("bellows_keeper", "join");
    let lease = millis(lease);
    let until = Instant::now() + SETTLE;
    loop {
        let here = vec![atom(MODULE.0), atom(&name), int(2)];
        let is_here = node.call("erlang", "function_exported", here)?;
        let reply = match as_atom(&is_here) == Some("true") {
            // It may be on its way out, and the call end with it.
            true => node.call(MODULE.0, &name, vec![client.clone(), lease.clone()]),
            false => load(node, client, &lease).map(Ok)?,
        };
        let failed = match reply {
            Ok(reply) => match as_tuple(&reply) {
                Some([ok, owner]) if as_atom(ok) == Some("ok") => return Ok(owner.clone()),
                Some(_) => Some(not_loaded(node, &reply)),
                None => None,
            },
            Err(error) => Some(error),
        };
        if Instant::now() >= until {
            return Err(failed.unwrap_or_else(|| lease_lost(node)));
        }
        thread::sleep(PAUSE);
    }
}

/// Has the node evaluate `load.erl`; what that replied.
fn load(node: &Node, client: &Term, lease: &Term) -> Result<Term, Error> {
    let bindings = [
        ("Client", client.clone()),
        ("Lease", lease.clone()),
        ("Helper", atom(MODULE.0)),
        ("File", charlist(&format!("{}.erl", MODULE.0))),
        ("Code", Term::from(Binary::from(MODULE.1.to_vec()))),
    ];
    // Only loading itself waits for what others do on the node.
    let longest = |function: &str| if function == "exprs" { SETTLE * 2 } else { node.timeout() };
    node.evaluate_with(longest, LOAD, bindings)
}

/// Whether the reason of an exception is that the module is not there.
fn is_gone(reason: &str) -> bool {
    let Some((_, stack)) = reason.split_once("undef") else { return false };
    let first = stack.trim_start_matches([',', '[', '{', ' ']);
    first.is_empty() || first.starts_with(MODULE.0)
}

fn lease_lost(node: &Node) -> Error {
    Error::lost(node.name(), "it heard nothing from bellows for too long, and cleaned up; was bellows stopped?")
}

fn not_loaded(node: &Node, reply: &Term) -> Error {
    Error::Exception { node: node.name().clone(), call: "loading the helper's module".into(), reason: show(reply, 400) }
}

/// Keys of `erlang:memory/0`, in bytes.
pub(crate) const MEMORY_KINDS: [&str; 9] =
    ["total", "processes", "processes_used", "system", "atom", "atom_used", "binary", "code", "ets"];

/// A number that cannot be negative.
pub(crate) fn number(term: &Term, key: &str) -> Option<u64> {
    as_int(get(term, key)?).map(unsigned)
}

pub(crate) fn text_of(term: &Term, key: &str) -> Option<String> {
    as_text(get(term, key)?)
}

pub(crate) fn numbers(term: &Term, keys: &[&str]) -> BTreeMap<String, u64> {
    let pair = |key: &&str| Some(((*key).to_owned(), number(term, key)?));
    keys.iter().filter_map(pair).collect()
}

/// A count that cannot be negative.
pub(crate) fn unsigned(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

/// The reply of what has this name; an error where it gave none, for which we waited so long.
pub(crate) fn replied(helper: &Helper, answer: Answer, what: &str, after: Duration) -> Result<Term, Error> {
    Err(match answer {
        Answer::Reply(reply) => return Ok(reply),
        Answer::Failed(reason) => helper.failed(what, reason),
        Answer::Ended => helper.failed(what, "it was stopped on the node"),
        Answer::Silent => {
            Error::Timeout { node: helper.node().name().clone(), what: what.to_owned(), after, is_fixed: false }
        }
    })
}

/// The failure of an answer in another form than ours.
pub(crate) fn unexpected(helper: &Helper, call: &str) -> Error {
    helper.failed(call, "its answer has an unexpected form")
}

#[cfg(test)]
mod tests {
    use super::{MODULE, is_gone};

    #[test]
    fn a_module_that_the_node_took_away_is_told_from_a_function_that_it_never_had() {
        let name = MODULE.0;
        assert!(is_gone(&format!("{{'EXIT',{{undef,[{{{name},keeper_why,[x],[]}}]}}}}")));
        assert!(is_gone("undef"));
        let other = format!("{{undef,[{{erlang,new,[],[]}},{{{name},top_run,1,[]}}]}}");
        assert!(!is_gone(&other));
        assert!(!is_gone("{badarg,[]}"));
    }
}
