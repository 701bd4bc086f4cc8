//! A world in which a whole load runs in one thread: time is a number, connections are memory, and what
//! happens at one instant happens in an order that the seed decides. A step of an event loop or of a broker
//! takes time, bytes travel for a while and arrive in pieces, and everything that a scene does to the load
//! (connections cut or held, brokers away, loops that do not run) happens at its instant exactly.
//!
//! ```text
//! coordinator, preparation: the test's own thread -- wait --> World::advance
//!                                                               |   earliest first, the seed among equals
//!      event loops (Environment::run_loop) <--------------------+--> hosts: embedded brokers, scripted peers
//!                 \______________ links: bytes, ends, how long they travel ______________/
//! ```

mod host;
mod link;
pub(crate) mod peer;
mod stream;
mod tap;
mod told;
mod turns;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use load::{Environment, EventLoop, Sleep, Task, ThreadTime};
use measure::ledger::LedgerSummary;
use measure::{Nanos, Time};
use testkit::Random;

use self::host::{Host, Kind, host_of};
use self::link::Link;
use self::stream::{Events, Poll};
pub(crate) use self::told::Told;
use self::turns::Turns;

const BEGINNING: Time = Time(1_000_000_000);
/// The time that a scene may take, …
const MOST_TIME: Nanos = Nanos(600 * 1_000_000_000);
/// … and the steps: more of either is a load that hangs.
const MOST_STEPS: u64 = 3_000_000;

/// How fast things are; each is drawn anew for every step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Duration of an event loop's step, in nanoseconds.
    pub(crate) loop_ns: (u64, u64),
    pub(crate) host_ns: (u64, u64),
    pub(crate) travel_ns: (u64, u64),
    /// Bytes that a connection holds in each direction.
    pub(crate) buffer: usize,
    /// Bytes that arrive at once at most, each after a time of its own; 0 for all.
    pub(crate) piece: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            loop_ns: (2_000, 8_000),
            host_ns: (2_000, 8_000),
            travel_ns: (5_000, 30_000),
            buffer: 256 << 10,
            piece: 0,
        }
    }
}

impl Pace {
    /// One of several worlds: a machine's own, a slow one, one of small pieces.
    pub(crate) fn random(random: &mut Random) -> Self {
        Self {
            loop_ns: random.of(&[(1_000, 3_000), (2_000, 8_000), (20_000, 60_000)]),
            host_ns: random.of(&[(1_000, 3_000), (2_000, 8_000), (20_000, 60_000)]),
            travel_ns: random.of(&[(1_000, 2_000), (5_000, 30_000), (100_000, 400_000)]),
            buffer: random.of(&[64 << 10, 256 << 10]),
            piece: random.of(&[0, 0, 0, 1_500, 300]),
        }
    }
}

type Action = Box<dyn FnOnce(&World) + Send>;

struct LoopSlot {
    event_loop: Option<Box<dyn EventLoop>>,
    /// Known from its first wait on.
    poll: Option<usize>,
    sleep: Sleep,
    free_at: Time,
    is_over: Arc<AtomicBool>,
}

struct PollSlot {
    is_woken: bool,
    events: Events,
}

struct State {
    random: Random,
    pace: Pace,
    loops: Vec<LoopSlot>,
    polls: Vec<PollSlot>,
    links: Vec<Link>,
    hosts: Vec<Host>,
    actions: Vec<(Time, Action)>,
    /// The loop that tells what it waits for.
    begins_wait: Option<usize>,
    ready: Ready,
    /// The coordinator does not run before.
    coordinator_free_at: Time,
    /// Whether new connections keep what they carry.
    is_tapped: bool,
    steps: u64,
    /// A sum over all that happened, in order.
    trace: u64,
}

struct Inner {
    now: AtomicU64,
    state: Mutex<State>,
    turns: Turns,
}

#[derive(Clone)]
pub(crate) struct World(Arc<Inner>);

impl LoopSlot {
    fn ready_at(&self, polls: &[Time]) -> Time {
        let woken = match self.sleep.until {
            None => Time(0),
            Some(until) => self.poll.map_or(until, |poll| until.min(polls[poll])),
        };
        let paused = self.sleep.pause.unwrap_or_default();
        woken.max(paused).max(self.free_at)
    }
}

/// When polls and hosts have something of their connections.
#[derive(Default)]
struct Ready {
    polls: Vec<Time>,
    hosts: Vec<Time>,
}

impl Ready {
    fn scan(&mut self, links: &[Link], hosts: &[Host], polls: &[PollSlot], buffer: usize) {
        let never = Time(u64::MAX);
        self.polls.clear();
        self.polls.extend(polls.iter().map(|poll: &PollSlot| if poll.is_woken { Time(0) } else { never }));
        self.hosts.clear();
        self.hosts.resize(hosts.len(), never);
        for (at, link) in links.iter().enumerate() {
            if !link.is_hung_up {
                let poll = &mut self.polls[link.poll];
                *poll = link.tells_at().min(*poll);
            }
            if !link.is_over {
                let host = &mut self.hosts[link.host];
                let ready = if link.host_has_room(buffer) { Time(0) } else { hosts[link.host].link_ready_at(at, link) };
                *host = ready.min(*host);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Loop(usize),
    Host(usize),
    Action(usize),
}

impl World {
    pub(crate) fn new(seed: u64, pace: Pace) -> Self {
        let state = State {
            random: Random::new(seed ^ 0xA11C_E5ED),
            pace,
            loops: Vec::new(),
            polls: Vec::new(),
            links: Vec::new(),
            hosts: Vec::new(),
            actions: Vec::new(),
            begins_wait: None,
            ready: Ready::default(),
            coordinator_free_at: Time(0),
            is_tapped: false,
            steps: 0,
            trace: 0,
        };
        Self(Arc::new(Inner { now: AtomicU64::new(BEGINNING.0), state: Mutex::new(state), turns: Turns::default() }))
    }

    pub(crate) fn time(&self) -> Time {
        Time(self.0.now.load(Ordering::Relaxed))
    }

    /// A number that two runs of one scene have in common, and no two scenes.
    pub(crate) fn trace(&self) -> (u64, u64) {
        let state = self.state();
        (state.steps, state.trace)
    }

    /// From now on connections keep what they carry, for [`World::ledger`].
    pub(crate) fn tap(&self) {
        self.state().is_tapped = true;
    }

    /// The ledger of a load that sent so many messages to queues, as its connections carried them: what is missing at
    /// the end counts as lost.
    pub(crate) fn ledger(&self, sent: u64) -> LedgerSummary {
        tap::ledger(self.state().links.iter().filter_map(|link| link.tap.as_ref()), sent)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn at(&self, time: Time, action: impl FnOnce(&Self) + Send + 'static) {
        self.state().actions.push((time, Box::new(action)));
    }

    pub(crate) fn broker(&self, config: broker::Config) -> SocketAddr {
        let broker = broker::InMemory::new(config, self.time());
        self.add(Kind::Broker(Box::new(broker)))
    }

    /// A scripted peer, which is made anew for each connection, by its number.
    pub(crate) fn peer(
        &self,
        config: wire::amqp091::ServerConfig,
        script: impl FnMut(usize) -> Box<dyn peer::Serve> + Send + 'static,
    ) -> SocketAddr {
        self.add(Kind::Peer(config, Box::new(script)))
    }

    pub(crate) fn alias(&self, address: SocketAddr) -> SocketAddr {
        SocketAddr::new(address.ip(), address.port() + 10_000)
    }

    fn add(&self, kind: Kind) -> SocketAddr {
        let mut state = self.state();
        let number = state.hosts.len() as u16;
        state.hosts.push(Host::new(kind));
        SocketAddr::from(([127, 0, 0, 1], 10_000 + number))
    }

    /// Looks into, or changes, the embedded broker at an address.
    pub(crate) fn with_broker<T>(&self, address: SocketAddr, look: impl FnOnce(&mut broker::InMemory) -> T) -> T {
        self.with_host(address, |host| match &mut host.kind {
            Kind::Broker(broker) => look(broker),
            Kind::Peer(..) => panic!("no embedded broker"),
        })
    }

    fn with_host<T>(&self, address: SocketAddr, change: impl FnOnce(&mut Host) -> T) -> T {
        change(&mut self.state().hosts[host_of(address).expect("a host")])
    }

    /// In place of a broker comes a new one, which knows nothing: all connections end.
    pub(crate) fn restart_broker(&self, address: SocketAddr, config: broker::Config) {
        self.cut(Nanos::ZERO);
        let broker = broker::InMemory::new(config, self.time());
        let number = host_of(address).expect("a host");
        let mut state = self.state();
        for link in state.links.iter_mut().filter(|link| link.host == number) {
            link.is_over = true;
        }
        state.hosts[number] = Host::new(Kind::Broker(Box::new(broker)));
    }

    pub(crate) fn keep_away(&self, address: SocketAddr, is_away: bool) {
        self.with_host(address, |host| host.is_away = is_away);
    }

    /// Cuts all connections; brokers notice after so long.
    pub(crate) fn cut(&self, later: Nanos) {
        let now = self.time();
        for link in &mut self.state().links {
            link.cut(now, later);
        }
    }

    /// Nothing passes until then, on every connection or on every other one.
    pub(crate) fn hold(&self, until: Time, every_other: bool) {
        let step = 1 + usize::from(every_other);
        for link in self.state().links.iter_mut().step_by(step) {
            link.hold(until);
        }
    }

    pub(crate) fn stop_host(&self, address: SocketAddr, until: Time) {
        self.with_host(address, |host| host.free_at = host.free_at.max(until));
    }

    /// The load's loops, and its coordinator, do nothing until then.
    pub(crate) fn stop_load(&self, until: Time) {
        let mut state = self.state();
        for slot in &mut state.loops {
            slot.free_at = slot.free_at.max(until);
        }
        state.coordinator_free_at = state.coordinator_free_at.max(until);
    }

    pub(crate) fn stop_loop(&self, number: usize, until: Time) {
        let mut state = self.state();
        if let Some(slot) = state.loops.get_mut(number) {
            slot.free_at = slot.free_at.max(until);
        }
    }

    pub(crate) fn stop_coordinator(&self, until: Time) {
        let mut state = self.state();
        state.coordinator_free_at = state.coordinator_free_at.max(until);
    }

    pub(crate) fn pass(&self, length: Nanos) {
        let until = self.time() + length;
        while self.time() < until {
            self.advance(until);
        }
    }

    /// Lets one step happen, or the time go on to `limit` where there is none before.
    fn advance(&self, limit: Time) {
        let actor = {
            let mut state = self.state();
            let Some((time, actor)) = state.next(self.time(), limit) else {
                self.0.now.store(limit.0, Ordering::Relaxed);
                return;
            };
            self.0.now.store(time.0, Ordering::Relaxed);
            state.count(time, actor);
            actor
        };
        match actor {
            Actor::Loop(number) => self.step_loop(number),
            Actor::Host(number) => self.state().step_host(number, self.time()),
            Actor::Action(number) => {
                let (_, action) = self.state().actions.swap_remove(number);
                action(self);
            }
        }
    }

    fn step_loop(&self, number: usize) {
        let now = self.time();
        let mut event_loop = {
            let mut state = self.state();
            if let Some(poll) = state.loops[number].poll {
                state.hand_over_events(poll, now);
            }
            state.loops[number].event_loop.take().expect("a loop")
        };
        let Some(sleep) = event_loop.step() else {
            // Its connections end without the lock on this world.
            drop(event_loop);
            self.state().loops[number].is_over.store(true, Ordering::Relaxed);
            return;
        };
        self.state().begins_wait = Some(number);
        event_loop.wait(sleep);
        let mut state = self.state();
        let (least, most) = state.pace.loop_ns;
        let cost = state.draw(least, most);
        let slot = &mut state.loops[number];
        slot.event_loop = Some(event_loop);
        slot.free_at = slot.free_at.max(now + cost);
    }

    /// Notes what a loop waits for; or lets the world go on until this poll has something, or until then.
    fn wait(&self, poll: usize, sleep: Sleep) {
        {
            let mut state = self.state();
            if let Some(number) = state.begins_wait.take() {
                let slot = &mut state.loops[number];
                (slot.poll, slot.sleep) = (Some(poll), sleep);
                return;
            }
        }
        let deadline = sleep.until.unwrap_or(self.time());
        loop {
            let now = self.time();
            {
                let mut state = self.state();
                let busy = now < state.coordinator_free_at;
                if !busy && (now >= deadline || state.polls_ready_at(poll) <= now) {
                    state.hand_over_events(poll, now);
                    return;
                }
            }
            let next = self.state().polls_ready_at(poll).max(Time(now.0 + 1));
            let free_at = self.state().coordinator_free_at;
            self.let_pass(deadline.min(next).max(free_at));
        }
    }
}

/// One embedded broker in a world of its own, at a machine's own pace.
pub(crate) struct InMemory {
    pub(crate) world: World,
    address: SocketAddr,
}

impl InMemory {
    pub(crate) fn new(config: broker::Config) -> Self {
        let world = World::new(1, Pace::default());
        let address = world.broker(config);
        Self { world, address }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn fault_log(&self) -> broker::FaultLog {
        self.world.with_broker(self.address, |broker| broker.fault_log())
    }
}

/// Plays the scene of every seed, two at the same time; a load that hangs or panics is wrong.
pub(crate) fn play(seeds: &[u64], problem: impl Fn(u64) -> Option<String> + Sync) -> testkit::Played {
    testkit::play(seeds, 2, |seed| {
        catch_unwind(AssertUnwindSafe(|| problem(seed))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
            Some(format!("it panicked: {}", text.unwrap_or_default()))
        })
    })
}

/// Fails where a scene is wrong of the usual number of them; `test` is what repeats it.
pub(crate) fn prove(usual: u64, test: &str, problem: impl Fn(u64) -> Option<String> + Sync) {
    play(&testkit::seeds_and(usual, &[]), problem).assert_right(test);
}

impl State {
    fn draw(&mut self, least: u64, most: u64) -> Nanos {
        Nanos(least + self.random.below((most - least).max(1)))
    }

    /// The next step until then; among those of one instant the seed decides.
    fn next(&mut self, now: Time, limit: Time) -> Option<(Time, Actor)> {
        let mut best = limit;
        let mut all: Vec<Actor> = Vec::new();
        let mut offer = |time: Time, actor: Actor| {
            let time = time.max(now);
            if time < best {
                best = time;
                all.clear();
            }
            if time == best {
                all.push(actor);
            }
        };
        self.ready.scan(&self.links, &self.hosts, &self.polls, self.pace.buffer);
        for (number, slot) in self.loops.iter().enumerate() {
            if slot.event_loop.is_some() {
                offer(slot.ready_at(&self.ready.polls), Actor::Loop(number));
            }
        }
        for (number, host) in self.hosts.iter().enumerate() {
            offer(host.ready_at(self.ready.hosts[number]), Actor::Host(number));
        }
        for (number, (time, _)) in self.actions.iter().enumerate() {
            offer(*time, Actor::Action(number));
        }
        // What waits for the limit may be first.
        if all.is_empty() || (best == limit && self.random.one_in(1 + all.len() as u64)) {
            return None;
        }
        // What a scene does comes first: it has no order of its own.
        let action = all.iter().find(|it| matches!(it, Actor::Action(_)));
        let chosen = match action {
            Some(action) => *action,
            None => self.random.of(&all),
        };
        Some((best, chosen))
    }

    fn count(&mut self, time: Time, actor: Actor) {
        self.steps += 1;
        let number = match actor {
            Actor::Loop(number) => number,
            Actor::Host(number) => 1_000 + number,
            Actor::Action(number) => 2_000 + number,
        };
        let mixed = self.trace ^ time.0 ^ (number as u64) << 48;
        self.trace = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        assert!(self.steps < MOST_STEPS, "the load never ends: too many steps");
        assert!(time < BEGINNING + MOST_TIME, "the load never ends: {time:?}");
    }

    fn polls_ready_at(&self, poll: usize) -> Time {
        if self.polls[poll].is_woken {
            return Time(0);
        }
        let links = self.links.iter().filter(|link| link.poll == poll);
        let never = Time(u64::MAX);
        links.map(Link::tells_at).min().unwrap_or(never)
    }

    fn hand_over_events(&mut self, poll: usize, now: Time) {
        self.polls[poll].is_woken = false;
        let told = self.links.iter_mut().filter(|link| link.poll == poll).filter_map(|link| link.tell(now));
        let events = &self.polls[poll].events;
        events.lock().expect("events").extend(told);
    }
}

/// A task of the world that has ended, or will when the world goes on.
pub(crate) struct WorldTask {
    world: World,
    is_over: Arc<AtomicBool>,
}

impl Task for WorldTask {
    fn is_finished(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn join(self) -> bool {
        while !self.is_finished() && !std::thread::panicking() {
            self.world.let_pass(self.world.time() + Nanos::from_millis(1));
        }
        true
    }
}

impl Environment for World {
    type Poll = Poll;
    type Task = WorldTask;

    fn now(&self) -> Time {
        self.time()
    }

    fn wall_offset(&self) -> u64 {
        1_000_000_000_000_000_000
    }

    fn thread_time(&self) -> ThreadTime {
        ThreadTime::default()
    }

    fn poll(&self, _: usize) -> std::io::Result<Poll> {
        let events = Events::default();
        let mut state = self.state();
        state.polls.push(PollSlot { is_woken: false, events: Arc::clone(&events) });
        Ok(Poll { world: self.clone(), number: state.polls.len() - 1, events })
    }

    fn run_loop(&self, _: String, event_loop: impl EventLoop) -> std::io::Result<WorldTask> {
        let is_over = Arc::new(AtomicBool::new(false));
        self.state().loops.push(LoopSlot {
            event_loop: Some(Box::new(event_loop)),
            poll: None,
            sleep: Sleep { pause: None, until: None },
            free_at: Time(0),
            is_over: Arc::clone(&is_over),
        });
        Ok(WorldTask { world: self.clone(), is_over })
    }

    fn run_beside(&self, _: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<WorldTask> {
        // The others go on while it waits.
        work();
        Ok(WorldTask { world: self.clone(), is_over: Arc::new(AtomicBool::new(true)) })
    }

    fn receive<T>(&self, from: &Receiver<T>, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let deadline = self.time() + Nanos(timeout.as_nanos() as u64);
        loop {
            let free_at = self.state().coordinator_free_at;
            if self.time() < free_at {
                self.let_pass(free_at);
                continue;
            }
            match from.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if self.time() >= deadline => return Err(RecvTimeoutError::Timeout),
                Err(TryRecvError::Empty) => self.let_pass(deadline),
            }
        }
    }
}
