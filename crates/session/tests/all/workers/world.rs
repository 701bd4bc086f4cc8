//! A coordinator and workers in virtual time, between them a network that loses, repeats, delays and reorders.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

use fleet::{
    Coordinator, CoordinatorInput, CoordinatorOutput, Envelope, Flaw, Outage, RunRules, Share, SliceReader,
    SliceWriter, ToCoordinator, ToWorker, Worker, WorkerFacts, WorkerInput, WorkerOutput, WorkerState,
};
use measure::{Metric, Nanos, Phase, Slice, Time};
use testkit::Random;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
/// A worker's clock may gain as much in a lease.
const SLACK: u64 = MS;

/// A fleet, its network, and what fails.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) workers: usize,
    pub(crate) tolerate: usize,
    pub(crate) lease: u64,
    pub(crate) probes: u32,
    pub(crate) load: u64,
    pub(crate) messages: u64,
    /// One of so many messages is lost, or repeated; 0: none.
    pub(crate) loses: u64,
    pub(crate) slowest: u64,
    pub(crate) faults: Vec<(u64, Fault)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The worker's process ends, and another one begins.
    Restart(usize),
    /// It does not run for so long.
    Pause(usize, u64),
    /// Its messages are lost for so long, both ways.
    CutOff(usize, u64),
    /// Its messages are lost for so long, and those to it are not.
    Mute(usize, u64),
    /// Its drain does not end, and it lives.
    Hang(usize),
    PauseCoordinator(u64),
    KillCoordinator,
}

#[derive(Clone, Debug)]
enum Event {
    ToCoordinator(usize, Vec<u8>),
    ToHost(usize, Vec<u8>),
    TickCoordinator,
    TickHost(usize),
    /// Of the session of a host: its load.
    Prepared(usize, u64),
    LoadStep(usize, u64),
    Drained(usize, u64),
    Cleaned(usize, u64),
    Fault(Fault),
}

/// The load of one session, in the worker's clock.
#[derive(Debug)]
struct Load {
    next: u64,
    ends_at: u64,
    slices: u64,
}

#[derive(Debug)]
struct Host {
    offset: u64,
    ppm: u64,
    worker: Worker,
    session: u64,
    load: Option<Load>,
    paused_until: u64,
    cut_off_until: u64,
    muted_until: u64,
    hangs: bool,
    /// When the coordinator sent it something last.
    spoken_to_at: u64,
    wakes_at: u64,
}

impl Host {
    fn clock(&self, true_time: u64) -> u64 {
        self.offset + true_time + true_time / 1_000_000 * self.ppm
    }

    /// When its clock shows this, or just after.
    fn when(&self, clock: u64) -> u64 {
        let since = clock.saturating_sub(self.offset);
        since - since / (1_000_000 + self.ppm) * self.ppm
    }
}

/// A session's load as the coordinator has it.
#[derive(Clone, Debug, Default)]
struct Heard {
    session: u64,
    slices: u64,
    has_ended: bool,
    lost_at: Option<u64>,
}

pub(crate) struct World {
    scene: Scene,
    random: Random,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    bodies: std::collections::HashMap<u64, Event>,
    numbers: u64,
    coordinator: Coordinator,
    is_dead: bool,
    coordinator_paused_until: u64,
    coordinator_wakes_at: u64,
    hosts: Vec<Host>,
    writer: SliceWriter,
    reader: SliceReader,
    /// All slices of each session, by its number.
    produced: std::collections::HashMap<u64, u64>,
    heard: Vec<Heard>,
    sum: Slice,
    slice: Slice,
    closes_at: u64,
    starts_at: Option<u64>,
    /// When more were lost than is tolerated.
    fails_at: Option<u64>,
    ready: usize,
    started: Vec<(usize, u64)>,
    pub(crate) is_finished: bool,
    pub(crate) problems: String,
    /// Time that the coordinator's part took, if it is measured.
    pub(crate) clock: Option<fn() -> u64>,
    pub(crate) cost: u64,
    pub(crate) merged: u64,
}

fn facts(host: usize) -> WorkerFacts {
    WorkerFacts { name: format!("worker {host:04}"), machine: host.to_string(), ..WorkerFacts::default() }
}

/// The slice with this number of a session, from its start.
fn slice_of(session: u64, number: u64, start: u64, messages: u64) -> Slice {
    let mut random = Random::new(session * 100_003 + number);
    let mut slice = Slice::default();
    slice.reset(Time(start), Phase::Measure);
    slice.end = Time(start + 100 * MS);
    slice.counters.sent = 1 + random.below(1_000);
    slice.counters.received = number;
    for metric in Metric::MESSAGES {
        for _ in 0..messages {
            let power = random.below(22);
            slice.latencies.record(metric, Nanos(10_000 + random.below(1 << power)));
        }
    }
    slice
}

impl World {
    pub(crate) fn new(seed: u64, scene: Scene) -> Self {
        let mut random = Random::new(seed);
        let rules = RunRules {
            run: "run".to_owned(),
            lease: Nanos(scene.lease),
            tolerate: scene.tolerate,
            late: Nanos::from_millis(1),
            probes: scene.probes,
        };
        let hosts = (0..scene.workers).map(|host| Host {
            offset: random.below(1_000_000) * SECOND / 1_000,
            ppm: random.below(50),
            worker: Worker::new(1 + host as u64, facts(host)),
            session: 1 + host as u64,
            load: None,
            paused_until: 0,
            cut_off_until: 0,
            muted_until: 0,
            hangs: false,
            spoken_to_at: 0,
            wakes_at: 0,
        });
        let mut world = Self {
            hosts: hosts.collect(),
            random,
            now: SECOND,
            events: BinaryHeap::new(),
            bodies: std::collections::HashMap::new(),
            numbers: 0,
            coordinator: Coordinator::new(7, rules),
            is_dead: false,
            coordinator_paused_until: 0,
            coordinator_wakes_at: 0,
            writer: SliceWriter::default(),
            reader: SliceReader::default(),
            produced: std::collections::HashMap::new(),
            heard: Vec::new(),
            sum: Slice::default(),
            slice: Slice::default(),
            closes_at: 3 * SECOND,
            starts_at: None,
            fails_at: None,
            ready: 0,
            started: Vec::new(),
            is_finished: false,
            problems: String::new(),
            clock: None,
            cost: 0,
            merged: 0,
            scene,
        };
        world.sum.reset(Time(u64::MAX), Phase::Measure);
        world.sum.end = Time(0);
        for host in 0..world.hosts.len() {
            let at = world.now + world.random.below(500 * MS);
            world.at(at, Event::TickHost(host));
        }
        world.at(SECOND, Event::TickCoordinator);
        for (at, fault) in world.scene.faults.clone() {
            world.at(at, Event::Fault(fault));
        }
        world
    }

    fn at(&mut self, at: u64, event: Event) {
        self.numbers += 1;
        self.events.push(Reverse((at.max(self.now), self.numbers)));
        self.bodies.insert(self.numbers, event);
    }

    fn problem(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.problems, "{} ms: {text}", self.now / MS);
    }

    /// Plays until this time.
    pub(crate) fn play(&mut self, until: u64) {
        while let Some(Reverse((at, number))) = self.events.pop() {
            if at > until {
                self.events.push(Reverse((at, number)));
                break;
            }
            self.now = at;
            if let Some(event) = self.bodies.remove(&number) {
                self.happen(event);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let paused_until = match &event {
            Event::ToCoordinator(..) | Event::TickCoordinator => self.coordinator_paused_until,
            Event::ToHost(host, _) | Event::TickHost(host) => self.hosts[*host].paused_until,
            Event::Prepared(host, _) | Event::LoadStep(host, _) | Event::Drained(host, _) | Event::Cleaned(host, _) => {
                // Its threads come after the one that talks.
                self.hosts[*host].paused_until + 1
            }
            Event::Fault(_) => 0,
        };
        if self.now < paused_until {
            self.at(paused_until, event);
            return;
        }
        match event {
            Event::ToCoordinator(host, bytes) => {
                if self.now >= self.hosts[host].cut_off_until.max(self.hosts[host].muted_until) {
                    self.coordinate(|_| {
                        CoordinatorInput::Message(Envelope::<ToCoordinator>::decode(&bytes).expect("a message"))
                    });
                }
            }
            Event::TickCoordinator => {
                if self.now >= self.coordinator_wakes_at {
                    self.coordinate(|_| CoordinatorInput::Tick);
                    self.direct();
                }
            }
            Event::ToHost(host, bytes) => {
                let envelope = Envelope::<ToWorker>::decode(&bytes).expect("a message");
                if self.now >= self.hosts[host].cut_off_until && envelope.session == self.hosts[host].session {
                    self.work(host, WorkerInput::Message(envelope));
                }
            }
            Event::TickHost(host) => {
                if self.now >= self.hosts[host].wakes_at {
                    self.work(host, WorkerInput::Tick);
                }
            }
            Event::Fault(fault) => self.fault(fault),
            Event::Prepared(host, session)
            | Event::LoadStep(host, session)
            | Event::Drained(host, session)
            | Event::Cleaned(host, session) => {
                if self.hosts[host].session == session {
                    self.load(host, &event);
                }
            }
        }
    }

    fn load(&mut self, host: usize, event: &Event) {
        match event {
            Event::Prepared(..) => self.work(host, WorkerInput::Ready),
            Event::LoadStep(..) => self.load_step(host),
            Event::Drained(..) if self.hosts[host].hangs => {}
            Event::Drained(..) => {
                let mut rest = Slice::default();
                rest.reset(Time(1), Phase::Drain);
                let rest = self.writer.write(&rest);
                self.work(host, WorkerInput::Ended(Some(rest), Box::default()));
            }
            _ => self.work(host, WorkerInput::Cleaned),
        }
    }

    /// Sends a message over the network.
    fn send(&mut self, event: Event) {
        let loses = self.scene.loses;
        if loses > 0 && self.random.one_in(loses) {
            return;
        }
        let copies = if loses > 0 && self.random.one_in(loses) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = match self.random.below(20) {
                0 => self.random.below(self.scene.slowest),
                _ => 50_000 + self.random.below(200_000),
            };
            self.at(self.now + delay, event.clone());
        }
    }

    fn work(&mut self, host: usize, input: WorkerInput) {
        let it = &mut self.hosts[host];
        let now = it.clock(self.now);
        let outputs = it.worker.handle(Time(now), input);
        let session = it.session;
        let wakes_at = it.when(it.worker.next_wake().0.min(now + SECOND)).max(self.now + 1_000);
        if wakes_at != it.wakes_at {
            it.wakes_at = wakes_at;
            self.at(wakes_at, Event::TickHost(host));
        }
        for output in outputs {
            match output {
                WorkerOutput::Send(envelope) => {
                    let bytes = envelope.encode().expect("a message");
                    self.send(Event::ToCoordinator(host, bytes));
                }
                WorkerOutput::Prepare(_) if self.scene.loses > 0 && self.random.one_in(200) => {
                    self.work(host, WorkerInput::Refused("no broker".to_owned()));
                }
                WorkerOutput::Prepare(_) => {
                    let at = self.now + self.random.below(500 * MS);
                    self.at(at, Event::Prepared(host, session));
                }
                WorkerOutput::Start(at) => {
                    let it = &mut self.hosts[host];
                    let start = at.0.max(now);
                    it.load = Some(Load { next: start, ends_at: start + self.scene.load, slices: 0 });
                    let begins = it.when(start);
                    self.at(begins, Event::LoadStep(host, session));
                }
                WorkerOutput::End(at) => {
                    if let Some(load) = &mut self.hosts[host].load {
                        load.ends_at = load.ends_at.min(at.0);
                    } else {
                        self.at(self.now, Event::Drained(host, session));
                    }
                }
                WorkerOutput::Stop(_) => {
                    self.hosts[host].load = None;
                    self.at(self.now + MS, Event::Drained(host, session));
                }
                WorkerOutput::Release => {
                    if self.heard.iter().any(|it| !it.has_ended && it.lost_at.is_none()) {
                        self.problem(format_args!("{host} may clean up while others load"));
                    }
                    let at = self.now + self.random.below(50 * MS);
                    self.at(at, Event::Cleaned(host, session));
                }
                WorkerOutput::News(_) => {}
                WorkerOutput::Fenced(_) | WorkerOutput::Left => self.renew(host),
            }
        }
    }

    /// The host forgets its session, and begins another one.
    fn renew(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        it.load = None;
        it.session += 1_000_000;
        it.worker = Worker::new(it.session, facts(host));
        it.wakes_at = self.now + SECOND;
        self.at(self.now + SECOND, Event::TickHost(host));
    }

    /// Load was sent since the last step.
    fn load_step(&mut self, host: usize) {
        let it = &self.hosts[host];
        let (session, now) = (it.session, it.clock(self.now));
        let Some(load) = &it.load else { return };
        let (start, number, has_ended) = (load.next, load.slices, load.next >= load.ends_at);
        let since = self.now - it.spoken_to_at;
        if since > self.scene.lease + SLACK {
            self.problem(format_args!("load of {host} without a coordinator since {} ms", since / MS));
        }
        if self.fails_at.is_some_and(|at| self.now > at + self.scene.lease + SLACK) {
            self.problem(format_args!("load of {host} in a run that is invalid"));
        }
        let lost = self.heard.iter().find(|heard| heard.session == session).and_then(|it| it.lost_at);
        if let Some(at) = lost.filter(|at| self.now > at + SLACK) {
            self.problem(format_args!("load of {host}, which was lost at {} ms", at / MS));
        }
        if number == 0 && !has_ended && !self.produced.contains_key(&session) {
            self.produced.insert(session, 0);
            let core_wait = Nanos(self.random.below(100_000));
            let begun = now + core_wait.0;
            self.started.push((host, self.now));
            self.work(host, WorkerInput::Started { at: Time(begun), core_wait });
            let next = self.hosts[host].when(start + 100 * MS);
            self.at(next, Event::LoadStep(host, session));
            return;
        }
        if has_ended {
            self.hosts[host].load = None;
            self.work(host, WorkerInput::LoadEnded { at: Time(now) });
            let at = self.now + self.random.below(300 * MS);
            self.at(at, Event::Drained(host, session));
            return;
        }
        let data = self.writer.write(&slice_of(session, number, start, self.scene.messages));
        if let Some(load) = &mut self.hosts[host].load {
            (load.next, load.slices) = (start + 100 * MS, number + 1);
        }
        self.produced.insert(session, number + 1);
        self.work(host, WorkerInput::Slice(data));
        let next = self.hosts[host].when(start + 200 * MS);
        self.at(next, Event::LoadStep(host, session));
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Restart(host) => {
                let session = self.hosts[host].session;
                self.renew(host);
                self.hosts[host].paused_until = 0;
                if self.hosts[host].session == session {
                    self.problem(format_args!("no new session"));
                }
            }
            Fault::Pause(host, length) => self.hosts[host].paused_until = self.now + length,
            Fault::Mute(host, length) => self.hosts[host].muted_until = self.now + length,
            Fault::Hang(host) => self.hosts[host].hangs = true,
            Fault::CutOff(host, length) => self.hosts[host].cut_off_until = self.now + length,
            Fault::PauseCoordinator(length) => self.coordinator_paused_until = self.now + length,
            Fault::KillCoordinator => self.is_dead = true,
        }
    }

    fn coordinate(&mut self, input: impl FnOnce(&Self) -> CoordinatorInput) {
        if self.is_dead {
            return;
        }
        let begun = self.clock.map(|clock| clock());
        let outputs = self.coordinator.handle(Time(self.now), input(self));
        self.coordinator_wakes_at = self.coordinator.next_wake().0.max(self.now + 1);
        let mut sent = Vec::new();
        let mut heard = Vec::new();
        for output in outputs {
            match output {
                CoordinatorOutput::Send(envelope) => {
                    sent.push((envelope.session, envelope.encode().expect("a message")));
                }
                CoordinatorOutput::Slice(worker, data) if self.clock.is_some() => {
                    self.reader.add(&data, &mut self.sum).expect("a slice");
                    self.merged += 1;
                    self.heard[worker].slices += 1;
                }
                other => heard.push(other),
            }
        }
        if let (Some(clock), Some(begun)) = (self.clock, begun) {
            self.cost += clock() - begun;
        }
        self.at(self.coordinator_wakes_at, Event::TickCoordinator);
        for (session, bytes) in sent {
            let host = ((session - 1) % 1_000_000) as usize;
            self.hosts[host].spoken_to_at = self.now;
            self.send(Event::ToHost(host, bytes));
        }
        for output in heard {
            self.hear(output);
        }
    }

    fn hear(&mut self, output: CoordinatorOutput) {
        match output {
            CoordinatorOutput::Ready(_) => self.ready += 1,
            CoordinatorOutput::Slice(worker, data) => {
                self.reader.read(&data, &mut self.slice).expect("a slice");
                let heard = &mut self.heard[worker];
                let expected = heard.slices;
                heard.slices += 1;
                let (found, is_late) = (self.slice.counters.received, heard.lost_at.is_some() || heard.has_ended);
                self.sum.merge(&self.slice);
                self.merged += 1;
                if found != expected || is_late {
                    self.problem(format_args!("slice {found} of {worker} in place of {expected}; late: {is_late}"));
                }
            }
            CoordinatorOutput::LoadEnded(_, at) => self.coordinate(|_| CoordinatorInput::End(at)),
            CoordinatorOutput::Ended(worker, _) => self.heard[worker].has_ended = true,
            CoordinatorOutput::Lost(worker, _) => {
                self.heard[worker].lost_at = Some(self.now);
                let gaps = self.heard.iter().filter(|it| it.lost_at.is_some() && !it.has_ended).count();
                self.fails_at = self.fails_at.or((gaps > self.scene.tolerate).then_some(self.now));
            }
            CoordinatorOutput::Finished => self.is_finished = true,
            _ => {}
        }
    }

    /// Acts as the host of a coordinator does.
    fn direct(&mut self) {
        let members = self.coordinator.joined();
        let lost = self.heard.iter().filter(|it| it.lost_at.is_some()).count();
        if self.heard.is_empty() {
            if members == 0 || members < self.scene.workers && self.now < self.closes_at {
                return;
            }
            self.coordinate(|_| CoordinatorInput::Close);
            let names: Vec<String> = self.coordinator.members().iter().map(|it| it.facts.name.clone()).collect();
            for name in &names {
                let host: usize = name.trim_start_matches("worker ").parse().expect("a number");
                let session = self.hosts[host].session;
                self.heard.push(Heard { session, ..Heard::default() });
            }
            for worker in 0..names.len() as u32 {
                let workers = names.len() as u32;
                let share = Share { worker, workers, plan: "{}".to_owned(), run_id: 1, files: 0 };
                self.coordinate(|_| CoordinatorInput::Share(share));
            }
        } else if self.starts_at.is_none()
            && self.ready + lost >= self.heard.len()
            && self.coordinator.flaws().is_empty()
        {
            let at = self.now + SECOND;
            self.starts_at = Some(at);
            let length = Some(Nanos(self.scene.load));
            self.coordinate(|_| CoordinatorInput::Start { at: Time(at), length, drain: Nanos(2 * SECOND) });
        }
    }

    /// Whether all workers' whole load is in a valid run.
    pub(crate) fn is_whole(&self) -> bool {
        let is_whole = |it: &Heard| it.has_ended && self.produced.get(&it.session) == Some(&it.slices);
        self.is_finished && self.coordinator.flaws().is_empty() && self.heard.iter().all(is_whole)
    }

    /// Why workers were lost, where it is none of theirs.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.coordinator.outage()
    }

    /// Workers of whose load a part is missing, and why.
    pub(crate) fn gaps(&self) -> Vec<(usize, String)> {
        self.coordinator.gaps().collect()
    }

    /// Workers that were lost.
    pub(crate) fn lost(&self) -> Vec<usize> {
        let all = self.heard.iter().enumerate();
        all.filter(|(_, it)| it.lost_at.is_some()).map(|(worker, _)| worker).collect()
    }

    /// Problems of the whole, when all is over.
    pub(crate) fn judge(&mut self) -> Option<String> {
        for host in 0..self.hosts.len() {
            if self.hosts[host].load.is_some() {
                self.problem(format_args!("load of {host} goes on"));
            }
            let state = self.hosts[host].worker.state();
            if state != WorkerState::Joined {
                self.problem(format_args!("{host} is {}", state.name()));
            }
        }
        if !self.is_finished && !self.is_dead {
            self.problem(format_args!("no end"));
        }
        let flaws = self.coordinator.flaws();
        let gaps = self.heard.iter().filter(|it| it.lost_at.is_some() && !it.has_ended).count();
        let says_lost = flaws.iter().any(|it| matches!(it, Flaw::Lost(_)));
        if says_lost != (gaps > self.scene.tolerate) || flaws.iter().any(|it| matches!(it, Flaw::ClockMoved(_))) {
            self.problem(format_args!("{gaps} gaps: {flaws:?}"));
        }
        let mut sum = Slice::default();
        sum.reset(Time(0), Phase::Measure);
        for (worker, heard) in self.heard.clone().into_iter().enumerate() {
            let produced = self.produced.get(&heard.session).copied().unwrap_or(0);
            let is_whole = heard.slices == produced;
            if heard.slices > produced || self.is_finished && heard.lost_at.is_none() && !is_whole {
                self.problem(format_args!("{} of {produced} slices of {worker}", heard.slices));
            }
            (0..heard.slices).for_each(|it| sum.merge(&slice_of(heard.session, it, 0, self.scene.messages)));
        }
        let of = |it: &Slice| {
            let all = it.latencies.filled().flat_map(|(metric, it)| it.buckets().map(move |it| (metric, it)));
            (it.counters, all.collect::<Vec<_>>())
        };
        if of(&sum) != of(&self.sum) {
            self.problem(format_args!("sums differ"));
        }
        if let Some(at) = self.starts_at.filter(|_| flaws.is_empty()) {
            // A bound of 2 ms, and 1 ms of being late.
            let late = self.started.clone().into_iter().find(|(_, started)| started.abs_diff(at) > 3 * MS);
            if let Some((host, started)) = late {
                self.problem(format_args!("{host} started at {started} ns for {at}, and the run is valid"));
            }
        }
        (!self.problems.is_empty()).then(|| format!("{:?}\n{}", self.scene, self.problems))
    }
}
