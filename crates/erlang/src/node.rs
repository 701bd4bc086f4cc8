//! A node that functions are called on.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use erl_dist::message::Message;
use erl_dist::term::{Atom, PidOrAtom, Term};

use crate::error::Error;
use crate::link::{Link, MailboxId, deadline};
use crate::options::{ConnectOptions, NodeName};
use crate::term::{as_atom, as_text, as_tuple, atom, charlist, list, show, text, tuple};

/// Bytes of an exception's reason that are shown.
const REASON_BYTES: usize = 400;

const EVALUATE: &str = "{ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Source)), \
                        {ok, Forms} = erl_parse:parse_exprs(Tokens), \
                        {value, Value, _} = erl_eval:exprs(Forms, []), Value.";

/// Opens the link with the first cookie that the node does not refuse. All share the time that connecting may take.
fn open(options: &ConnectOptions) -> Result<Link, Error> {
    let begun = Instant::now();
    let mut opened = Link::open(options);
    for cookie in &options.other_cookies {
        let left = options.timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        let Err(Error::Cookie { tried: mut before, .. }) = opened else { break };
        opened = Link::open(&ConnectOptions { cookie: cookie.clone(), timeout: left, ..options.clone() });
        if let Err(Error::Cookie { tried, .. }) = &mut opened {
            before.append(tried);
            *tried = before;
        }
    }
    opened
}

/// A connection to a node, which lives as long as one of its clones or a [`Mailbox`]. We are hidden there.
#[derive(Clone, Debug)]
pub struct Node {
    link: Arc<Link>,
    release: u32,
    timeout: Duration,
}

impl Node {
    /// Connects to a node, and asks it for its release.
    pub fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let mut node = Self { link: Arc::new(open(options)?), release: 0, timeout: options.timeout };
        let release = node.call("erlang", "system_info", vec![atom("otp_release")])?;
        node.release = as_text(&release).and_then(|text| text.parse().ok()).ok_or_else(|| {
            let release = show(&release, REASON_BYTES);
            Error::handshake(&options.node, format_args!("its release is {release}"))
        })?;
        Ok(node)
    }

    /// Its name.
    pub fn name(&self) -> &NodeName {
        &self.link.shared.node
    }

    /// The name that it knows us by.
    pub fn local_name(&self) -> &str {
        self.link.shared.local_name()
    }

    /// The release of its Erlang/OTP, such as 25.
    pub const fn release(&self) -> u32 {
        self.release
    }

    /// How long a call may take where nothing else is said.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Calls a function, as `rpc:call` does, and waits for its result. An error also where the function fails.
    pub fn call(&self, module: &str, function: &str, arguments: Vec<Term>) -> Result<Term, Error> {
        self.call_within(self.timeout, module, function, arguments)
    }

    /// [`Node::call`] with another time-out. A function that takes longer goes on on the node.
    pub fn call_within(
        &self,
        timeout: Duration,
        module: &str,
        function: &str,
        arguments: Vec<Term>,
    ) -> Result<Term, Error> {
        let name = format!("{module}:{function}/{}", arguments.len());
        let shared = &self.link.shared;
        let mailbox = self.mailbox();
        let reference = Term::from(shared.reference());
        let request = tuple([
            atom("$gen_call"),
            tuple([mailbox.pid(), reference.clone()]),
            tuple([
                atom("call"),
                atom(module),
                atom(function),
                list(arguments),
                // What the function prints is the node's own business.
                atom("user"),
            ]),
        ]);
        let until = deadline(timeout);
        shared.send(Message::reg_send(mailbox.raw_pid(), Atom::from("rex"), request))?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(mut answer) = mailbox.receive_as(left, format_args!("the result of {name}"))? else {
                return Err(self.late(name, timeout));
            };
            if let Term::Tuple(answer) = &mut answer
                && let [to, result] = answer.elements.as_mut_slice()
                && *to == reference
            {
                let result = std::mem::replace(result, atom("taken"));
                return self.result(name, result);
            }
        }
    }

    /// A call without an answer: only the node's own time-out is the user's choice.
    fn late(&self, what: String, after: Duration) -> Error {
        Error::Timeout { node: self.name().clone(), what, after, is_fixed: after != self.timeout }
    }

    /// Sends a message to a process of the node, which nobody there forwards: other calls wait until the node's busy
    /// processes let its server of calls run. Whether the process exists is not told.
    pub(crate) fn tell(&self, to: &Term, message: Term) -> Result<(), Error> {
        let Term::Pid(to) = to else { return Ok(()) };
        self.link.shared.send(Message::send(to.clone(), message))
    }

    /// Has the node tell a mailbox when a process there ends, as `{'DOWN', Reason}`.
    pub(crate) fn monitor(&self, mailbox: &Mailbox, process: &Term) -> Result<(), Error> {
        let Term::Pid(process) = process else { return Ok(()) };
        let shared = &self.link.shared;
        let process = PidOrAtom::Pid(process.clone());
        let monitor = Message::monitor_p(mailbox.raw_pid(), process, shared.reference());
        shared.send(monitor)
    }

    /// The address of a process of ours that does not exist, for answers that nobody wants.
    pub(crate) fn nobody(&self) -> Term {
        Term::from(self.link.shared.pid(0))
    }

    /// Tells a result from a failure.
    fn result(&self, call: String, result: Term) -> Result<Term, Error> {
        match as_tuple(&result) {
            Some([word, reason]) if as_atom(word) == Some("badrpc") => {
                Err(Error::Exception { node: self.name().clone(), call, reason: show(reason, REASON_BYTES) })
            }
            _ => Ok(result),
        }
    }

    /// Evaluates expressions, as a shell does, and returns the last one's value. Sources and what becomes of them
    /// stay on the node. An error also for expressions that cannot be read.
    pub fn evaluate(&self, timeout: Duration, source: &str) -> Result<Term, Error> {
        let until = deadline(timeout);
        let left = |_: &str| until.saturating_duration_since(Instant::now());
        self.evaluate_with(left, EVALUATE, [("Source", text(source))])
    }

    /// Evaluates expressions with variables that are bound. `longest` is asked how long a function may take.
    pub(crate) fn evaluate_with<const N: usize>(
        &self,
        longest: impl Fn(&str) -> Duration,
        source: &str,
        bindings: [(&str, Term); N],
    ) -> Result<Term, Error> {
        let call = |module: &str, function: &str, arguments: Vec<Term>| {
            self.call_within(longest(function), module, function, arguments)
        };
        let tokens = call("erl_scan", "string", vec![charlist(source)])?;
        let tokens = self.second("erl_scan:string/1", tokens)?;
        let forms = call("erl_parse", "parse_exprs", vec![tokens])?;
        let forms = self.second("erl_parse:parse_exprs/1", forms)?;
        let bindings = list(bindings.map(|(name, value)| tuple([atom(name), value])));
        let value = call("erl_eval", "exprs", vec![forms, bindings])?;
        self.second("erl_eval:exprs/2", value)
    }

    /// The second element of an answer such as `{ok, Value, …}`.
    fn second(&self, call: &str, answer: Term) -> Result<Term, Error> {
        match answer {
            Term::Tuple(mut it) if it.elements.len() > 1 && as_atom(&it.elements[0]) != Some("error") => {
                Ok(it.elements.swap_remove(1))
            }
            other => Err(Error::Exception {
                node: self.name().clone(),
                call: call.to_owned(),
                reason: show(&other, REASON_BYTES),
            }),
        }
    }

    /// A process of ours.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox { id: self.link.shared.enter(), link: Arc::clone(&self.link) }
    }
}

/// A process of ours, to which those of the node send. It is bounded: 65,536 messages wait in it, and 256 MB in all
/// mailboxes of a connection, counted as they are in memory; more are dropped and counted. Who monitors its pid learns
/// when it is dropped. It keeps the connection open.
#[derive(Debug)]
pub struct Mailbox {
    link: Arc<Link>,
    id: MailboxId,
}

impl Mailbox {
    /// Its address.
    pub fn pid(&self) -> Term {
        Term::from(self.raw_pid())
    }

    /// The next message; `None` when the time is over.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Term>, Error> {
        self.receive_as(timeout, "one of its messages")
    }

    /// As [`Mailbox::receive`], with a name for what cannot be decoded.
    fn receive_as(&self, timeout: Duration, what: impl fmt::Display) -> Result<Option<Term>, Error> {
        let shared = &self.link.shared;
        let received = shared.receive(self.id, deadline(timeout))?.transpose();
        received.map_err(|source| Error::undecoded(&shared.node, what, &source))
    }

    /// Messages that had no room.
    pub fn dropped(&self) -> u64 {
        self.link.shared.dropped(self.id)
    }

    fn raw_pid(&self) -> erl_dist::term::Pid {
        self.link.shared.pid(self.id)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.link.shared.leave(self.id);
    }
}
