//! Threads that host a coordinator or a worker: what happens comes through a channel, what it orders goes to a closure.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::{Clock, Time};

use crate::{Coordinator, CoordinatorInput, CoordinatorOutput, Worker, WorkerInput, WorkerOutput};

/// Inputs that wait at most: who has more to say waits, and messages of others are dropped, which they repeat.
const MOST_WAITING: usize = 4_096;

/// A coordinator or a worker, as its host sees it.
pub trait Machine: Send + 'static {
    /// Something that happens to it.
    type Input: Send + 'static;
    /// Orders to its host, and news.
    type Output;
    /// Time has passed.
    const TICK: Self::Input;

    /// Takes what happened at `now`.
    fn take(&mut self, now: Time, input: Self::Input) -> Vec<Self::Output>;

    /// When to give [`Machine::TICK`] at the latest.
    fn wake_at(&self) -> Time;
}

impl Machine for Coordinator {
    type Input = CoordinatorInput;
    type Output = CoordinatorOutput;
    const TICK: CoordinatorInput = CoordinatorInput::Tick;

    fn take(&mut self, now: Time, input: CoordinatorInput) -> Vec<CoordinatorOutput> {
        self.handle(now, input)
    }

    fn wake_at(&self) -> Time {
        self.next_wake()
    }
}

impl Machine for Worker {
    type Input = WorkerInput;
    type Output = WorkerOutput;
    const TICK: WorkerInput = WorkerInput::Tick;

    fn take(&mut self, now: Time, input: WorkerInput) -> Vec<WorkerOutput> {
        self.handle(now, input)
    }

    fn wake_at(&self) -> Time {
        self.next_wake()
    }
}

/// Something that happened, and when.
#[derive(Debug)]
enum Happened<I> {
    At(Time, I),
    /// Nobody needs the machine any more.
    Over,
}

/// Where a machine's host takes what happens.
#[derive(Debug)]
pub struct Inputs<I>(SyncSender<Happened<I>>);

impl<I> Clone for Inputs<I> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<I> Inputs<I> {
    /// Tells what happens now; waits where much is waiting.
    pub fn send(&self, input: I) {
        // A host that has ended needs nothing.
        let _ = self.0.send(Happened::At(Clock.now(), input));
    }

    /// Hands over a message that arrived then; drops it where much is waiting.
    pub fn arrived(&self, at: Time, input: I) {
        let _ = self.0.try_send(Happened::At(at, input));
    }
}

/// A machine on a thread of its own. Dropping this ends the thread.
#[derive(Debug)]
pub struct Host<M: Machine> {
    machine: Arc<Mutex<M>>,
    inputs: Inputs<M::Input>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine> Host<M> {
    /// Starts the thread, on which `hear` takes what the machine orders.
    pub fn start(machine: M, hear: impl FnMut(M::Output) + Send + 'static) -> io::Result<Self> {
        let (send, receive) = sync_channel(MOST_WAITING);
        let machine = Arc::new(Mutex::new(machine));
        let hosted = Arc::clone(&machine);
        let thread = thread::Builder::new().name("fleet".into()).spawn(move || run(&hosted, &receive, hear))?;
        Ok(Self { machine, inputs: Inputs(send), thread: Some(thread) })
    }

    /// Where it takes what happens.
    pub fn inputs(&self) -> Inputs<M::Input> {
        self.inputs.clone()
    }

    /// Looks at the machine, which waits meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&lock(&self.machine))
    }
}

impl<M: Machine> Drop for Host<M> {
    fn drop(&mut self) {
        let _ = self.inputs.0.send(Happened::Over);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock<M>(machine: &Mutex<M>) -> MutexGuard<'_, M> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run<M: Machine>(machine: &Mutex<M>, inputs: &Receiver<Happened<M::Input>>, mut hear: impl FnMut(M::Output)) {
    let mut last = Time(0);
    loop {
        let wait = lock(machine).wake_at().since(Clock.now());
        let (at, input) = match inputs.recv_timeout(Duration::from_nanos(wait.0)) {
            Ok(Happened::At(at, input)) => (at, input),
            Ok(Happened::Over) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => (Clock.now(), M::TICK),
        };
        last = last.max(at);
        let mut orders = lock(machine).take(last, input);
        // While much happens time passes, too.
        let now = Clock.now();
        if lock(machine).wake_at() <= now {
            last = last.max(now);
            orders.extend(lock(machine).take(last, M::TICK));
        }
        orders.into_iter().for_each(&mut hear);
    }
}
