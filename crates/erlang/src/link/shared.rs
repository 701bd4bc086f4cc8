//! State shared by the I/O thread and its callers.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem::size_of;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use erl_dist::message::Message;
use erl_dist::term::{Atom, Pid, PidOrAtom, Reference, Term};
use measure::Problem;

use super::handshake::Local;
use crate::error::Error;
use crate::options::NodeName;
use crate::term::{MOST_MEMORY, TermError, malformed};

/// The most messages that wait in a mailbox, and the memory that those of all mailboxes take; what comes beyond is
/// dropped and counted. One message of any size that is decoded has room.
const MOST_WAITING: usize = 64 << 10;
const MOST_WAITING_MEMORY: u64 = MOST_MEMORY;
/// Memory of a waiting message beside its own.
const PLACE: u64 = 2 * size_of::<(Arrival, u64)>() as u64;
/// Bytes that wait to be sent.
const MOST_OUTGOING: usize = 64 << 20;
const MOST_WATCHERS: usize = 64;

/// The number of one of our processes.
pub(crate) type MailboxId = u32;

/// A message to a process of ours.
pub(crate) type Arrival = Result<Term, TermError>;

/// One of our processes.
#[derive(Default)]
struct Process {
    waiting: VecDeque<(Arrival, u64)>,
    memory: u64,
    dropped: u64,
    arrived: Arc<Condvar>,
    watchers: Vec<(Pid, Reference)>,
}

/// Reason why the connection ended.
#[derive(Clone, Debug)]
pub(super) enum Loss {
    /// It has ended, and why.
    Ended(String),
    /// The node has answered no ping for this long.
    Silent(Duration),
}

impl From<String> for Loss {
    fn from(why: String) -> Self {
        Self::Ended(why)
    }
}

#[derive(Default)]
struct State {
    processes: HashMap<MailboxId, Process>,
    /// Memory of all waiting messages.
    memory: u64,
    next: MailboxId,
    next_reference: u32,
    outgoing: Vec<u8>,
    lost: Option<Loss>,
    closing: bool,
}

/// State shared by the I/O thread and its callers.
pub(crate) struct LinkShared {
    pub(crate) node: NodeName,
    local: Local,
    waker: mio::Waker,
    state: Mutex<State>,
}

impl fmt::Debug for LinkShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkShared").field("node", &self.node).field("local", &self.local).finish_non_exhaustive()
    }
}

impl LinkShared {
    pub(super) fn new(node: NodeName, local: Local, waker: mio::Waker) -> Self {
        Self { node, local, waker, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name that the node knows us by.
    pub(crate) fn local_name(&self) -> &str {
        &self.local.name
    }

    /// A process of this number, as the node sees it.
    pub(crate) fn pid(&self, id: MailboxId) -> Pid {
        Pid { node: Atom::from(self.local.name.as_str()), id, serial: 0, creation: self.local.creation }
    }

    /// A reference that no other is equal to.
    pub(crate) fn reference(&self) -> Reference {
        let mut state = self.state();
        state.next_reference = state.next_reference.wrapping_add(1);
        Reference {
            node: Atom::from(self.local.name.as_str()),
            id: vec![state.next_reference, 0, 0],
            creation: self.local.creation,
        }
    }

    pub(crate) fn enter(&self) -> MailboxId {
        let mut state = self.state();
        loop {
            // 28 bits are all that old nodes allow.
            state.next = (state.next + 1) & 0x0fff_ffff;
            let id = state.next;
            if id != 0 && !state.processes.contains_key(&id) {
                state.processes.insert(id, Process::default());
                return id;
            }
        }
    }

    /// Ends a process; who watches it learns of that.
    pub(crate) fn leave(&self, id: MailboxId) {
        let process = {
            let mut state = self.state();
            let process = state.processes.remove(&id);
            state.memory -= process.as_ref().map_or(0, |it| it.memory);
            process
        };
        for (watcher, reference) in process.into_iter().flat_map(|process| process.watchers) {
            let ended = Message::monitor_p_exit(
                PidOrAtom::Pid(self.pid(id)),
                watcher,
                reference,
                Term::from(Atom::from("normal")),
            );
            // Without a connection it has learnt of that already.
            let _ = self.send(ended);
        }
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), Error> {
        let framed = framed(message);
        let mut bytes = framed.map_err(|source| Error::undecoded(&self.node, "what we send", &source))?;
        let mut state = self.state();
        if let Some(loss) = &state.lost {
            return Err(self.lost(loss));
        }
        if state.outgoing.len() + bytes.len() > MOST_OUTGOING {
            let (cause, bytes) = (format!("{} does not read", self.node), state.outgoing.len());
            let help = "check whether the node is overloaded";
            return Err(Error::Other(Problem::new(cause, format_args!("{bytes} bytes wait"), help)));
        }
        state.outgoing.append(&mut bytes);
        drop(state);
        self.wake();
        Ok(())
    }

    fn lost(&self, loss: &Loss) -> Error {
        match loss {
            Loss::Ended(what) => Error::lost(&self.node, what),
            Loss::Silent(after) => Error::Silent(Problem::new(
                format!("{} no longer answers", self.node),
                format_args!("no answer for {after:?}"),
                "check whether its process was stopped or hangs (STAT in `ps -C beam.smp`) and whether its machine is \
                 overloaded; allow more with --timeout",
            )),
        }
    }

    /// For the thread: a frame that the node itself answers, without any of its processes. It monitors the process of
    /// a name that none can have, and the node says that there is none.
    pub(super) fn ping(&self) -> Vec<u8> {
        let nobody = PidOrAtom::Atom(Atom::from("undefined"));
        // Without a ping nothing is said of a silent node; the atom and our name are short enough to be encoded.
        framed(Message::monitor_p(self.pid(0), nobody, self.reference())).unwrap_or_default()
    }

    fn wake(&self) {
        // Fails only where the thread has ended.
        let _ = self.waker.wake();
    }

    /// Waits for the next message for a process, until `deadline`.
    pub(crate) fn receive(&self, id: MailboxId, deadline: Instant) -> Result<Option<Arrival>, Error> {
        let mut state = self.state();
        loop {
            let lost = state.lost.clone();
            let Some(process) = state.processes.get_mut(&id) else { return Ok(None) };
            if let Some((arrival, memory)) = process.waiting.pop_front() {
                process.memory -= memory;
                state.memory -= memory;
                return Ok(Some(arrival));
            }
            if let Some(loss) = lost {
                return Err(self.lost(&loss));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let arrived = Arc::clone(&process.arrived);
            let waited = arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Messages for a process that had no room.
    pub(crate) fn dropped(&self, id: MailboxId) -> u64 {
        let state = self.state();
        state.processes.get(&id).map_or(0, |it| it.dropped)
    }

    /// Lets the thread send what waits, and end.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.wake();
    }

    /// For the thread: whether to end.
    pub(super) fn is_closing(&self) -> bool {
        self.state().closing
    }

    /// For the thread: swaps what is to be sent out.
    pub(super) fn take_outgoing(&self, into: &mut Vec<u8>) {
        std::mem::swap(&mut self.state().outgoing, into);
    }

    /// For the thread: the connection is no more.
    pub(super) fn lose(&self, loss: Loss) {
        let mut state = self.state();
        state.lost.get_or_insert(loss);
        state.outgoing = Vec::new();
        for process in state.processes.values() {
            process.arrived.notify_all();
        }
    }

    /// For the thread: a message came for a process.
    pub(super) fn arrive(&self, id: MailboxId, arrival: Arrival, memory: u64) {
        let mut state = self.state();
        let memory = memory + PLACE;
        let Some(process) = state.processes.get_mut(&id) else { return };
        if process.waiting.len() >= MOST_WAITING {
            process.dropped += 1;
            return;
        }
        process.memory += memory;
        process.waiting.push_back((arrival, memory));
        process.arrived.notify_all();
        state.memory += memory;
    }

    /// For the thread: whether a message that takes so much may wait beside the others.
    pub(super) fn has_room(&self, memory: u64) -> bool {
        let waiting = self.state().memory;
        waiting == 0 || waiting.saturating_add(memory + PLACE) <= MOST_WAITING_MEMORY
    }

    /// For the thread: a message for a process had no room.
    pub(super) fn drop_one(&self, id: MailboxId) {
        if let Some(process) = self.state().processes.get_mut(&id) {
            process.dropped += 1;
        }
    }

    /// For the thread: a process of the node wants to know when one of ours ends.
    pub(super) fn watch(&self, watched: PidOrAtom, watcher: Pid, reference: Reference) {
        let mut state = self.state();
        if let PidOrAtom::Pid(pid) = &watched
            && pid.creation == self.local.creation
            && let Some(process) = state.processes.get_mut(&pid.id)
            && process.watchers.len() < MOST_WATCHERS
        {
            process.watchers.push((watcher, reference));
            return;
        }
        drop(state);
        let none = Term::from(Atom::from("noproc"));
        // Without a connection it learns of that anyway.
        let _ = self.send(Message::monitor_p_exit(watched, watcher, reference, none));
    }

    /// For the thread: it does not want to know any more.
    pub(super) fn unwatch(&self, watched: &PidOrAtom, reference: &Reference) {
        if let PidOrAtom::Pid(pid) = watched
            && let Some(process) = self.state().processes.get_mut(&pid.id)
        {
            process.watchers.retain(|(_, known)| known != reference);
        }
    }

    /// Whether a message is for a process of ours, and not of who had our name before.
    pub(super) fn is_ours(&self, pid: &Pid) -> bool {
        pid.creation == self.local.creation
    }
}

/// A message with its length before it.
fn framed(message: Message) -> Result<Vec<u8>, TermError> {
    let mut bytes = vec![0, 0, 0, 0, 112];
    message.write_into(&mut bytes).map_err(|error| malformed(&error))?;
    let size = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    if let Some(length) = bytes.first_chunk_mut::<4>() {
        *length = size.to_be_bytes();
    }
    Ok(bytes)
}

/// When something ends that may take so long.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600))
}
