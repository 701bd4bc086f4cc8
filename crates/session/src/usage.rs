//! CPU time, memory and other activity of the broker's process tree, bellows and the machine, as named series.

use std::net::SocketAddr;

use archive::{ProcessUsage, SeriesName, SeriesUnit, series_of_node};
use linux::activity::{self, MeterRates, MeterValue, ProcessActivity, Unit};
use linux::machine::CpuTicks;
use linux::sockets::{self, Server};
use linux::threads::ThreadTimes;
use linux::{CombinedCores, CpuLimits, ProcessTree, ProcessUse, processes};
use measure::{Clock, Nanos, Time};

use crate::connection_time::ConnectionCounts;

/// How often a broker that has gone is looked for.
const LOOK_EVERY: Nanos = Nanos::from_millis(1_000);

/// Resource usage up to an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at: Time,
    /// The broker's process tree, where its pid is known and it lives.
    pub(crate) broker: Option<ProcessUse>,
    /// bellows itself.
    pub(crate) client: Option<ProcessUse>,
    pub(crate) machine: Option<CpuTicks>,
}

/// A process below which a killed node starts again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starter {
    pub(crate) node: usize,
    pub(crate) pid: u32,
    /// When it was about to start.
    pub(crate) at: Time,
}

/// A node that a fault of the run kills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Killed {
    pub(crate) node: usize,
    pub(crate) at: Time,
    /// The CPU time of its process just before; `None` where that could not be read.
    pub(crate) cpu: Option<Nanos>,
}

/// Where readings come from: the machine, or a test.
pub(crate) trait UsageSource {
    fn read(&mut self) -> Reading;
    fn threads(&mut self) -> ThreadTimes {
        ThreadTimes::default()
    }
    /// Usage so far of each node of a cluster that bellows started, in order; empty where there is none.
    fn nodes(&mut self) -> Vec<NodeUse> {
        Vec::new()
    }
    /// The broker, or a node of it, was killed; returns what its nodes held until then.
    fn killed(&mut self, _: &Killed) -> Vec<(SeriesName, f64)> {
        Vec::new()
    }
    /// Activity of machine and broker beside computing since the previous call.
    fn activity(&mut self) -> Vec<(SeriesName, f64)> {
        Vec::new()
    }
    fn connections(&mut self) -> ConnectionCounts {
        ConnectionCounts::default()
    }
    fn connections_behind(&mut self, _proxy: u32) -> ConnectionCounts {
        ConnectionCounts::default()
    }
    /// The process at the other end of our connections to the broker.
    fn server(&mut self) -> Server {
        Server::Unknown
    }
    /// Cores that the broker and bellows may use together, on a machine with this number of cores.
    fn combined_cores(&self, _machine: u32) -> Option<CombinedCores> {
        None
    }
    /// The broker is another process from now on.
    fn follow(&mut self, _pid: u32) {}
    /// The broker, or a node of a cluster, is another process from now on; what its nodes held until then.
    fn follow_node(&mut self, _node: usize, pid: u32) -> Vec<(SeriesName, f64)> {
        self.follow(pid);
        Vec::new()
    }
    /// The broker, or a node of a cluster, starts again below this process; what its nodes held until then.
    fn follow_starter(&mut self, starter: &Starter) -> Vec<(SeriesName, f64)> {
        self.follow_node(starter.node, starter.pid)
    }
    /// A process of this number, with its descendants, belongs to the load generator.
    fn generator(&mut self, _pid: u32) {}
    /// The watched process is not the broker.
    fn leave(&mut self) {}
}

/// Reads `/proc` and the processes' CPU clocks.
#[derive(Debug)]
pub(crate) struct ProcUsage {
    broker: ProcessTree,
    /// The broker's addresses, where a process that returns is to be found by them, and the time of the last search.
    pub(crate) returns_at: (Vec<SocketAddr>, Time),
    further: Vec<ProcessTree>,
    /// Other programs that load the broker, and their usage at the last reading.
    generators: Vec<(ProcessTree, ProcessUse)>,
    /// The broker's ports; in a cluster one of each node.
    pub(crate) ports: Vec<u16>,
    activity: Activity,
    /// Usage of each node, where bellows started all of them: the first is `broker`, the others are `further`.
    nodes: Option<NodeUsage>,
    /// Usage of a broker without other nodes up to its kill, until that was read.
    killed: Option<ProcessUse>,
}

/// Usage of a node of a cluster, and how long it was there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NodeUse {
    /// Usage; its memory is 0 while the node is away.
    pub(crate) used: ProcessUse,
    /// Between its first reading and its last.
    pub(crate) watched: Nanos,
    /// The part of that in which it was running.
    pub(crate) ran: Nanos,
}

impl NodeUse {
    /// Adds the reading at the end of this time; `None`: away since then.
    fn add(&mut self, now: Option<ProcessUse>, since: Nanos) {
        self.watched += since;
        if self.used.threads > 0 && now.is_some() {
            self.ran += since;
        }
        self.used = now.unwrap_or(ProcessUse { cpu: self.used.cpu, ..ProcessUse::default() });
    }
}

#[derive(Debug, Default)]
struct NodeUsage {
    /// Usage of each at its last reading.
    last: Vec<NodeUse>,
    /// When that was.
    at: Time,
    /// When its series were last reported, and each one's usage then.
    told: Option<(Time, Vec<NodeUse>)>,
}

impl NodeUsage {
    /// Adds a reading of each node. What one that is away has used stays used, and its memory is given back.
    fn add(&mut self, at: Time, read: Vec<Option<ProcessUse>>) -> Option<ProcessUse> {
        self.last.resize(read.len(), NodeUse::default());
        let is_any_there = read.iter().any(Option::is_some);
        let since = at.since(std::mem::replace(&mut self.at, at));
        for (last, now) in self.last.iter_mut().zip(read) {
            last.add(now, since);
        }
        let all = self.last.iter().map(|it| it.used);
        is_any_there.then(|| all.fold(ProcessUse::default(), sum))
    }

    fn killed(&mut self, killed: &Killed, cpu: Nanos) -> Vec<(SeriesName, f64)> {
        let held = memory_of(&self.last);
        let since = killed.at.since(self.at);
        if let Some(node) = self.last.get_mut(killed.node) {
            node.add(Some(ProcessUse { cpu, ..node.used }), since);
            node.add(None, Nanos::ZERO);
        }
        held
    }

    /// A node that is read for the first time after a kill has run since it was about to start.
    fn started(&mut self, starter: &Starter) {
        let since = self.at.since(starter.at);
        if let Some(node) = self.last.get_mut(starter.node) {
            node.ran += since;
        }
    }

    /// CPU and memory of each since the last time, as named series.
    fn series(&mut self, now: Time) -> Vec<(SeriesName, f64)> {
        let before = self.told.replace((now, self.last.clone()));
        let Some((then, before)) = before else { return Vec::new() };
        let seconds = now.since(then).as_secs_f64();
        let values = memory_of(&self.last).into_iter().zip(self.last.iter().zip(&before)).enumerate();
        let values = values.flat_map(|(node, (memory, (used, before)))| {
            let cpu = used.used.cpu.saturating_sub(before.used.cpu).as_secs_f64() / seconds;
            let [name, _] = series_of_node(node);
            (seconds > 0.0).then_some((name, cpu)).into_iter().chain([memory])
        });
        values.collect()
    }
}

fn memory_of(nodes: &[NodeUse]) -> Vec<(SeriesName, f64)> {
    let value = |(node, it): (usize, &NodeUse)| {
        let [_, name] = series_of_node(node);
        (name, it.used.rss_bytes as f64)
    };
    nodes.iter().enumerate().map(value).collect()
}

impl ProcUsage {
    pub(crate) fn new(broker: Option<u32>) -> Self {
        Self {
            broker: ProcessTree::of(broker),
            returns_at: (Vec::new(), Time(0)),
            further: Vec::new(),
            generators: Vec::new(),
            ports: Vec::new(),
            activity: Activity::default(),
            nodes: None,
            killed: None,
        }
    }

    /// Looks for a broker that has gone, which takes longer than a reading.
    fn look_again(&mut self) {
        let (addresses, looked) = &mut self.returns_at;
        let now = Clock.now();
        // What was found there at first and is not the broker, such as a tunnel, is not looked for either.
        if addresses.is_empty() || self.broker.root().is_none() || now.since(*looked) < LOOK_EVERY {
            return;
        }
        *looked = now;
        if let [pid] = sockets::listening_on(addresses).as_slice() {
            self.broker.follow(*pid);
        }
    }

    /// Also counts the usage of the brokers of these processes, each once.
    pub(crate) fn with_further(mut self, pids: impl IntoIterator<Item = u32>) -> Self {
        for pid in pids {
            let mut counted = std::iter::once(&self.broker).chain(&self.further);
            if !counted.any(|tree| tree.root() == Some(pid)) {
                self.further.push(ProcessTree::of(Some(pid)));
            }
        }
        self
    }

    /// Keeps the usage of each apart: they are nodes of a cluster, and one that is away may come back.
    pub(crate) fn of_nodes(mut self) -> Self {
        self.nodes = Some(NodeUsage::default());
        self
    }

    fn read_nodes(&mut self) {
        if self.nodes.is_some() {
            self.read();
        }
    }

    /// Memory of the nodes at the last reading.
    fn held(&self) -> Vec<(SeriesName, f64)> {
        self.nodes.as_ref().map_or_else(Vec::new, |it| memory_of(&it.last))
    }

    /// bellows itself, and the programs that it has load the broker.
    fn client(&mut self) -> Option<ProcessUse> {
        let own = own_use()?;
        let used = self.generators.iter_mut().map(|(tree, last)| {
            // What a program has used stays used when it has ended.
            *last = tree.read().unwrap_or(ProcessUse { cpu: last.cpu, ..ProcessUse::default() });
            *last
        });
        Some(used.fold(own, sum))
    }
}

impl UsageSource for ProcUsage {
    fn read(&mut self) -> Reading {
        // The clock is read right beside what divides by it.
        let trees = std::iter::once(&mut self.broker).chain(&mut self.further);
        let read: Vec<Option<ProcessUse>> = trees.map(ProcessTree::read).collect();
        if read.first().is_some_and(Option::is_none) {
            self.look_again();
        }
        let at = Clock.now();
        let broker = match &mut self.nodes {
            Some(nodes) => nodes.add(at, read),
            None => read
                .into_iter()
                .reduce(|all, next| all.zip(next).map(|(all, next)| sum(all, next)))
                .flatten()
                .or(self.killed),
        };
        self.killed = None;
        Reading { at, broker, client: self.client(), machine: CpuTicks::read() }
    }

    fn threads(&mut self) -> ThreadTimes {
        ThreadTimes::read(std::iter::once(&self.broker).chain(&self.further).flat_map(ProcessTree::pids))
    }

    fn activity(&mut self) -> Vec<(SeriesName, f64)> {
        let trees = std::iter::once(&self.broker).chain(&self.further);
        let pids: Vec<u32> = trees.flat_map(ProcessTree::pids).collect();
        let mut values = self.activity.read(&pids);
        if let Some(nodes) = &mut self.nodes {
            values.extend(nodes.series(Clock.now()));
        }
        values
    }

    fn nodes(&mut self) -> Vec<NodeUse> {
        self.read_nodes();
        self.nodes.as_ref().map_or_else(Vec::new, |it| it.last.clone())
    }

    fn killed(&mut self, killed: &Killed) -> Vec<(SeriesName, f64)> {
        let further = (killed.node.checked_sub(1)).and_then(|at| self.further.get_mut(at));
        let cpu = further.unwrap_or(&mut self.broker).killed(killed.cpu);
        match &mut self.nodes {
            Some(nodes) => nodes.killed(killed, cpu),
            None => {
                self.killed = Some(ProcessUse { cpu, ..ProcessUse::default() });
                Vec::new()
            }
        }
    }

    fn connections(&mut self) -> ConnectionCounts {
        ConnectionCounts::read(&self.ports)
    }

    fn connections_behind(&mut self, proxy: u32) -> ConnectionCounts {
        self.ports.first().map_or_else(ConnectionCounts::default, |port| ConnectionCounts::behind(proxy, *port))
    }

    fn server(&mut self) -> Server {
        self.ports.first().copied().map_or(Server::Unknown, sockets::server_of_our_connections)
    }

    fn combined_cores(&self, machine: u32) -> Option<CombinedCores> {
        Some(CpuLimits::of(std::process::id())?.combined(&CpuLimits::of(self.broker.root()?)?, machine))
    }

    fn generator(&mut self, pid: u32) {
        self.generators.push((ProcessTree::of(Some(pid)), ProcessUse::default()));
    }

    fn leave(&mut self) {
        self.broker.leave();
    }

    fn follow_starter(&mut self, starter: &Starter) -> Vec<(SeriesName, f64)> {
        let held = self.held();
        let further = (starter.node.checked_sub(1)).and_then(|at| self.further.get_mut(at));
        further.unwrap_or(&mut self.broker).follow_starter(starter.pid);
        self.read_nodes();
        if let Some(nodes) = &mut self.nodes {
            nodes.started(starter);
        }
        held
    }

    fn follow_node(&mut self, node: usize, pid: u32) -> Vec<(SeriesName, f64)> {
        let held = self.held();
        match node.checked_sub(1).and_then(|at| self.further.get_mut(at)) {
            Some(tree) => tree.follow(pid),
            None => self.follow(pid),
        }
        self.read_nodes();
        held
    }

    fn follow(&mut self, pid: u32) {
        self.further.retain(|tree| tree.root() != Some(pid));
        self.broker.follow(pid);
    }
}

pub(crate) const fn sum(one: ProcessUse, other: ProcessUse) -> ProcessUse {
    ProcessUse {
        cpu: Nanos(one.cpu.0.saturating_add(other.cpu.0)),
        rss_bytes: one.rss_bytes.saturating_add(other.rss_bytes),
        threads: one.threads.saturating_add(other.threads),
    }
}

/// This process alone.
pub(crate) fn own_use() -> Option<ProcessUse> {
    let pid = std::process::id();
    let (cpu, stat) = (linux::cpu_time(pid)?, processes::stat(pid)?);
    let rss_bytes = stat.rss_pages.saturating_mul(rustix::param::page_size() as u64);
    Some(ProcessUse { cpu, rss_bytes, threads: stat.threads })
}

pub(crate) fn between(before: &Reading, after: &Reading) -> Usage {
    let elapsed = after.at.since(before.at);
    let process = |before: Option<ProcessUse>, after: Option<ProcessUse>| {
        let (before, after) = (before?, after?);
        let cpu_cores = ratio(after.cpu.saturating_sub(before.cpu).0, elapsed.0)?;
        Some(ProcessUsage { cpu_cores, rss_bytes: after.rss_bytes, threads: after.threads })
    };
    let share = |part: fn(&CpuTicks) -> u64| {
        let (before, after) = (before.machine?, after.machine?);
        let part = part(&after).saturating_sub(part(&before));
        ratio(part, after.total.saturating_sub(before.total))
    };
    Usage {
        broker: process(before.broker, after.broker),
        client: process(before.client, after.client),
        steal: share(|machine| machine.steal),
        idle: share(|machine| machine.idle),
        cores: after.machine.map_or(0, |machine| machine.cores),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) broker: Option<ProcessUsage>,
    pub(crate) client: Option<ProcessUsage>,
    /// Share of the machine's CPU time that its hypervisor took (0 to 1).
    pub(crate) steal: Option<f64>,
    /// Idle share of the machine's CPU time (0 to 1).
    pub(crate) idle: Option<f64>,
    /// Cores of the machine; 0 where that is not known.
    pub(crate) cores: u32,
}

const MACHINE: &str = "machine";
/// The source of the series of the broker's processes, or of the process that is recorded.
const BROKER: &str = "broker";

#[derive(Debug, Default)]
struct Activity {
    machine: MeterRates,
    processes: ProcessActivity,
    broker: MeterRates,
}

impl Activity {
    fn read(&mut self, pids: &[u32]) -> Vec<(SeriesName, f64)> {
        // The clock is read right beside what divides by it.
        let meters = activity::machine();
        let machine = self.machine.next(Clock.now(), meters).into_iter().map(|value| series(MACHINE, value));
        let meters = self.processes.read(pids);
        let broker = self.broker.next(Clock.now(), meters).into_iter().map(|value| series(BROKER, value));
        machine.chain(broker).collect()
    }
}

fn series(source: &str, meter: MeterValue) -> (SeriesName, f64) {
    let unit = match (meter.name.unit, meter.is_rate) {
        (Unit::Things, false) => SeriesUnit::Count,
        (Unit::Things, true) => SeriesUnit::PerSecond,
        (Unit::Bytes, false) => SeriesUnit::Bytes,
        (Unit::Bytes, true) => SeriesUnit::BytesPerSecond,
        (Unit::CpuSeconds, true) => SeriesUnit::Cores,
        (Unit::Seconds, true) => SeriesUnit::Share,
        (Unit::CpuSeconds | Unit::Seconds, false) => SeriesUnit::Seconds,
    };
    let name = SeriesName::new(source, meter.name.name, unit);
    (meter.name.labels.iter().fold(name, |name, (key, value)| name.with(key, value)), meter.value)
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn spin(length: Nanos) {
        let cpu = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            now.tv_sec * 1_000_000_000 + now.tv_nsec
        };
        let end = cpu() + length.0 as i64;
        let mut x = 1u64;
        while cpu() < end {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
    }

    #[test]
    fn our_own_work_is_seen_to_the_millisecond() {
        let mut source = ProcUsage::new(Some(std::process::id()));
        let before = source.read();
        spin(Nanos::from_millis(30));
        let after = source.read();
        let usage = between(&before, &after);
        let seconds = after.at.since(before.at).as_secs_f64();
        for used in [usage.client.unwrap(), usage.broker.unwrap()] {
            // Other tests of this process may run beside this one: only the lower bound is sure.
            assert!(used.cpu_cores * seconds >= 0.029, "{used:?} in {seconds} s");
            assert!(used.rss_bytes > 500_000 && used.threads >= 1, "{used:?}");
        }
        for of_another in [None, Some(u32::MAX)] {
            assert_eq!(ProcUsage::new(of_another).read().broker, None, "it is elsewhere, or has died");
        }
    }

    fn used(ms: u64) -> Option<ProcessUse> {
        Some(ProcessUse { cpu: Nanos::from_millis(ms), rss_bytes: 7, threads: 1 })
    }

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn what_a_killed_node_has_used_stays_used() {
        let mut nodes = NodeUsage::default();
        nodes.add(at(0), vec![used(100), used(50)]);
        assert!(nodes.series(at(0)).is_empty());
        let all = nodes.add(at(1_000), vec![used(600), None]).unwrap();
        assert_eq!((all.cpu, all.rss_bytes), (Nanos::from_millis(650), 7));
        let series = nodes.series(at(1_000));
        let values: Vec<_> =
            series.iter().map(|(name, value)| (name.name.as_str(), name.labels["node"].as_str(), *value)).collect();
        let expected = [
            ("CPU of nodes", "0", 0.5),
            ("memory of nodes", "0", 7.0),
            ("CPU of nodes", "1", 0.0),
            ("memory of nodes", "1", 0.0),
        ];
        assert_eq!(values, expected);
        assert_eq!(nodes.add(at(2_000), vec![None, None]), None);
    }

    /// Usage counts up to the kill itself; memory is 0 from then on.
    #[test]
    fn a_node_has_run_until_it_was_killed() {
        let mut nodes = NodeUsage::default();
        nodes.add(at(0), vec![used(0), used(0)]);
        nodes.series(at(0));
        nodes.add(at(1_000), vec![used(100), used(500)]);
        nodes.series(at(1_000));
        let killed = Killed { node: 1, at: at(1_600), cpu: None };
        let held = nodes.killed(&killed, Nanos::from_millis(800));
        assert_eq!(held.iter().map(|it| it.1).collect::<Vec<_>>(), [7.0, 7.0]);
        nodes.add(at(2_000), vec![used(200), None]);
        let series = nodes.series(at(2_000));
        let cpu = series.iter().filter(|it| it.0.name == "CPU of nodes");
        assert_eq!(cpu.map(|it| it.1).collect::<Vec<_>>(), [0.1, 0.3]);
        let was_away = |it: &NodeUse| it.ran < it.watched;
        assert_eq!(nodes.last.iter().map(was_away).collect::<Vec<_>>(), [false, true]);
        nodes.add(at(3_000), vec![used(300), None]);
        // It is there again, and has run for 0.3 s; then it runs for a second.
        nodes.add(at(4_000), vec![used(400), used(1_000)]);
        nodes.started(&Starter { node: 1, pid: 7, at: at(3_700) });
        nodes.add(at(5_000), vec![used(500), used(1_100)]);
        assert_eq!(nodes.last.iter().map(|it| it.ran.0 / 1_000_000).collect::<Vec<_>>(), [5_000, 2_900]);
    }

    #[test]
    fn a_broker_that_was_killed_has_used_something_until_then_and_nothing_later() {
        let killed = Busy::new();
        let mut source = ProcUsage::new(Some(killed.pid()));
        killed.use_up(Nanos::from_millis(20));
        let before = source.read().broker.expect("a broker").cpu;
        killed.use_up(before + Nanos::from_millis(20));
        killed.signal(rustix::process::Signal::STOP);
        let kill = Killed { node: 0, at: Clock.now(), cpu: linux::cpu_time(killed.pid()) };
        drop(killed);
        assert!(source.killed(&kill).is_empty(), "it has no nodes");
        let last = source.read().broker.expect("what it had used");
        assert!(last.cpu >= before + Nanos::from_millis(15), "{last:?}");
        assert_eq!((last.rss_bytes, source.read().broker), (0, None));
    }

    /// A program that computes until it is dropped.
    pub(crate) struct Busy(testkit::ChildGuard);

    impl Busy {
        pub(crate) fn new() -> Self {
            let mut command = std::process::Command::new("sh");
            let busy = command.args(["-c", "while :; do :; done"]).spawn();
            Self(testkit::ChildGuard(busy.expect("sh starts")))
        }

        pub(crate) fn pid(&self) -> u32 {
            self.0.id()
        }

        fn signal(&self, signal: rustix::process::Signal) {
            let pid = rustix::process::Pid::from_child(&self.0);
            rustix::process::kill_process(pid, signal).expect("a signal");
        }

        fn use_up(&self, cpu: Nanos) {
            use_up(&mut ProcessTree::of(Some(self.0.id())), cpu);
        }
    }

    fn use_up(tree: &mut ProcessTree, cpu: Nanos) {
        let deadline = Clock.now() + Nanos::from_millis(20_000);
        while tree.read().is_none_or(|used| used.cpu < cpu) {
            assert!(Clock.now() < deadline, "it gets no CPU");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn a_killed_node_that_was_restarted_counts_from_its_return() {
        use rustix::process::Signal;
        let (first, mut killed) = (Busy::new(), Busy::new());
        let mut source = ProcUsage::new(Some(first.0.id())).with_further([killed.0.id()]).of_nodes();
        killed.use_up(Nanos::from_millis(60));
        first.signal(Signal::STOP);
        killed.signal(Signal::STOP);
        let before = source.nodes();
        assert!(before[1].used.cpu >= Nanos::from_millis(60), "{before:?}");
        source.activity();
        killed.0.kill().expect("SIGKILL");
        killed.0.wait().expect("its end");
        let away = source.nodes();
        assert_eq!(away[1].used.cpu, before[1].used.cpu, "it stays used");
        assert_eq!(away[1].used.rss_bytes, 0);
        // What it uses while it starts is no part of the run's second in which it is back.
        let returned = Busy::new();
        returned.use_up(Nanos::from_millis(200));
        returned.signal(Signal::STOP);
        let held = source.follow_node(1, returned.0.id());
        assert!(held.len() == 2 && held[0].1 > 0.0 && held[1].1 <= 0.0, "{held:?}");
        let read = source.read();
        let back = source.nodes();
        assert!(back[1].used.cpu.saturating_sub(before[1].used.cpu) < Nanos::from_millis(50), "{before:?} {back:?}");
        assert!(back[1].used.rss_bytes > 0, "{back:?}");
        returned.signal(Signal::CONT);
        std::thread::sleep(std::time::Duration::from_millis(150));
        let later = source.read();
        let used = between(&read, &later).broker.expect("a broker").cpu_cores;
        assert!(used > 0.0 && used < 1.2, "{used} cores of one thread");
        let cores: f64 = (source.activity().iter())
            .filter(|(name, _)| name.name == "CPU of nodes" && name.labels["node"] == "1")
            .map(|(_, value)| value)
            .sum();
        assert!(cores > 0.0 && cores < 1.2, "{cores}");
    }

    /// Also what it has used before it is followed: that is heard of at the end of a second.
    #[test]
    fn what_a_node_uses_while_it_starts_again_is_its_own() {
        starts_again(false);
        starts_again(true);
    }

    fn starts_again(is_heard_late: bool) {
        use std::io::{BufRead as _, BufReader, Write as _};
        let killed = Busy::new();
        let mut source = ProcUsage::new(Some(killed.pid()));
        let before = source.read().broker.expect("the one that is killed");
        drop(killed);
        // Waits for a word, and then starts a program that computes.
        let script = "read word; while :; do :; done & echo $!; wait";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]);
        let piped = std::process::Stdio::piped;
        let starter = command.stdin(piped()).stdout(piped()).spawn();
        let mut starter = Busy(testkit::ChildGuard(starter.expect("sh starts")));
        let starts = Starter { node: 0, pid: starter.pid(), at: Clock.now() };
        if !is_heard_late {
            source.follow_starter(&starts);
            source.read().broker.expect("what starts it");
        }
        let mut input = starter.0.stdin.take().expect("its input");
        writeln!(input, "go").expect("a word");
        let mut said = String::new();
        let output = starter.0.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut said).expect("a line");
        let pid: u32 = said.trim().parse().expect("a process");
        let mut node = ProcessTree::of(Some(pid));
        use_up(&mut node, Nanos::from_millis(200));
        testkit::signal(pid, "STOP");
        if is_heard_late {
            source.follow_starter(&starts);
        }
        source.follow_node(0, pid);
        let after = source.read().broker.expect("the node");
        let (used, all) = (after.cpu.saturating_sub(before.cpu), node.read().expect("it").cpu);
        testkit::signal(pid, "KILL");
        let least = Nanos::from_millis(190);
        let most = all + Nanos::from_millis(50);
        assert!(used >= least && used <= most, "{used:?} of {all:?}");
    }

    #[test]
    fn shares_of_the_machine_are_of_its_ticks() {
        let reading = |total, idle, steal| Reading {
            machine: Some(CpuTicks { total, idle, steal, cores: 2 }),
            ..Reading::default()
        };
        let usage = between(&reading(100, 50, 0), &reading(300, 90, 10));
        assert_eq!((usage.steal, usage.idle), (Some(0.05), Some(0.2)));
        assert_eq!(between(&reading(1, 1, 1), &reading(1, 1, 1)).steal, None);
    }

    #[test]
    fn the_machine_and_this_process_have_series_from_the_second_reading_on() {
        let mut activity = Activity::default();
        let me = [std::process::id()];
        activity.read(&me);
        std::thread::sleep(std::time::Duration::from_millis(120));
        let values = activity.read(&me);
        let find = |source: &str, name: &str, label: &str| {
            let mut all = values.iter();
            let found =
                all.find(|(it, _)| it.source == source && it.name == name && it.labels.values().any(|it| it == label));
            found.map(|(name, value)| (name.unit, *value))
        };
        let (unit, cores) = find(MACHINE, "CPU", "user").unwrap();
        assert_eq!(unit, SeriesUnit::Cores);
        assert!((0.0..=1.2 * f64::from(linux::cpus::usable())).contains(&cores), "{cores}");
        let (unit, bytes) = find(BROKER, "memory", "anonymous").unwrap();
        assert_eq!(unit, SeriesUnit::Bytes);
        assert!(bytes > 1e5, "{bytes}");
        let (unit, rate) = find(BROKER, "context switches", "waited").unwrap();
        assert_eq!(unit, SeriesUnit::PerSecond);
        assert!(rate > 0.0, "it slept");
        assert!(find(BROKER, "memory", "anonymous").is_some());
        assert!(activity.read(&[]).iter().all(|(name, _)| name.source == MACHINE));
    }
}
