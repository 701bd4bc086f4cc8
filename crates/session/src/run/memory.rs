//! The memory of the broker's Erlang nodes from both sides, read under load, as named series of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use archive::{ERLANG_MEMORY, SeriesName, SeriesUnit};
use erlang::sides::{MemorySides, SidesReader};
use erlang::{ConnectOptions, Error, Node};
use measure::{Clock, Nanos, Time, counted};

use super::companion::{Collected, Companion, Second, SeriesRow, Unread};
use brokers::{Broker, BrokerError};
use experiment::Experiment;

/// The longest that a node may take to let us in, and to answer. One that takes longer leaves a gap.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a thread that waits for its next reading checks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Most readings that wait to be taken, which happens once a second.
const MOST_WAITING: usize = 1_024;
/// Answers of a node whose times are kept: those of two days at one a second or two.
const MOST_TIMES: usize = 100_000;
/// The VM's memory kinds that a run keeps; the rest of its total is the emulator's own.
const KINDS: [&str; 6] = ["total", "processes", "ets", "binary", "code", "atom"];

/// Threads that read the memory of nodes, and their readings.
#[derive(Debug, Default)]
pub(super) struct MemoryWatch {
    every: Nanos,
    readings: Option<Receiver<NodeReading>>,
    stop: Arc<AtomicBool>,
    nodes: Vec<WatchedNode>,
    options: Vec<ConnectOptions>,
}

/// A reading that takes longer holds values of moments so far apart that a node which allocates differs between them.
const SLOW: Duration = Duration::from_millis(50);

struct NodeReading {
    node: usize,
    asked: Time,
    /// When the answer had come, or was no longer waited for.
    at: Time,
    result: Result<MemorySides, Error>,
}

#[derive(Debug, Default)]
struct WatchedNode {
    name: String,
    /// Its latest values, until it fails to answer.
    latest: Vec<(SeriesName, f64)>,
    answers: u64,
    /// Duration of each of the first answers.
    took: Vec<Duration>,
    failed: u64,
}

impl MemoryWatch {
    /// Watches a broker's nodes, where the experiment asks for it.
    pub(super) fn of(experiment: &Experiment, broker: &dyn Broker) -> Result<Self, BrokerError> {
        Ok(match experiment.broker.memory_every {
            Some(every) => Self::new(every.0, broker.erlang_nodes()?),
            None => Self::default(),
        })
    }

    fn new(every: Nanos, options: Vec<ConnectOptions>) -> Self {
        let nodes =
            options.iter().map(|options| WatchedNode { name: options.node.to_string(), ..WatchedNode::default() });
        Self { every, readings: None, stop: Arc::default(), nodes: nodes.collect(), options }
    }

    fn take(&mut self) -> Collected {
        let readings: Vec<NodeReading> = self.readings.iter().flat_map(Receiver::try_iter).collect();
        let mut read = Collected::default();
        let is_any = !readings.is_empty();
        readings.into_iter().for_each(|reading| self.add(reading, &mut read));
        read.told.extend(is_any.then(|| self.told()));
        read
    }

    fn add(&mut self, reading: NodeReading, read: &mut Collected) {
        let several = self.nodes.len() > 1;
        let Some(node) = self.nodes.get_mut(reading.node) else { return };
        match reading.result {
            Ok(sides) => {
                // It was read before, and not the last time.
                if node.failed > 0 && node.latest.is_empty() {
                    read.notes.push(format!("the memory of {} is read again", node.name));
                }
                node.answers += 1;
                if node.took.len() < MOST_TIMES {
                    node.took.push(sides.took);
                }
                node.latest = series(&sides, several.then_some(reading.node));
                read.rows.push(SeriesRow { since: reading.at, length: self.every, values: node.latest.clone() });
            }
            Err(error) => {
                if node.failed == 0 || !node.latest.is_empty() {
                    let what = format!("the memory of {} cannot be read", node.name);
                    read.unread.push(Unread {
                        asked: reading.asked,
                        at: reading.at,
                        node: Some(reading.node),
                        otherwise: format!("{what}: {}", error.problem().sentence()),
                        what,
                    });
                }
                node.latest.clear();
                node.failed += 1;
            }
        }
    }

    /// Current values of all nodes; the count of unanswered readings, always there, makes a listener drop older ones.
    fn told(&self) -> Vec<(SeriesName, f64)> {
        let several = self.nodes.len() > 1;
        let told = self.nodes.iter().enumerate().flat_map(|(number, node)| {
            let unanswered = named("unanswered readings", SeriesUnit::Count, None, several.then_some(number));
            node.latest.iter().cloned().chain([(unanswered, node.failed as f64)])
        });
        told.collect()
    }
}

impl Companion for MemoryWatch {
    fn start(&mut self, begin: Time) -> Collected {
        let mut read = Collected::default();
        let (tell, readings) = sync_channel(MOST_WAITING);
        self.readings = Some(readings);
        for (node, options) in self.options.iter().enumerate() {
            let task = MemoryTask {
                node,
                options: ConnectOptions { timeout: TIMEOUT, ..options.clone() },
                every: self.every,
                stop: Arc::clone(&self.stop),
                tell: tell.clone(),
                reader: None,
            };
            let thread = thread::Builder::new().name(format!("memory-{node}"));
            if let Err(error) = thread.spawn(move || task.run(begin)) {
                read.notes.push(format!("the memory of {} cannot be read: {error}", options.node));
            }
        }
        read
    }

    fn second(&mut self, _: &Second) -> Collected {
        self.take()
    }

    /// Ends the readings, and reports their cost. One in flight ends with its time-out, unnoticed.
    fn load_ended(&mut self) -> Collected {
        self.stop.store(true, Ordering::Relaxed);
        let mut read = self.take();
        if self.readings.take().is_some() {
            read.notes.extend(self.nodes.iter().map(WatchedNode::sentence));
        }
        read
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl WatchedNode {
    fn sentence(&self) -> String {
        let mut took = self.took.clone();
        took.sort_unstable();
        let mut text = format!("memory of {}: {}", self.name, counted(self.answers, "reading"));
        if let (Some(middle), Some(longest)) = (took.get(took.len() / 2), took.last()) {
            text += &format!(", each in {} (median), {} at most", Nanos::from(*middle), Nanos::from(*longest));
        }
        if self.failed > 0 {
            text += &format!("; {} without an answer", self.failed);
        }
        let slow = took.iter().filter(|it| **it > SLOW).count();
        if slow > 0 {
            let (longer, apart) = (counted(slow as u64, "reading"), Nanos::from(SLOW));
            text += &format!(
                "; {longer} took over {apart}, so the two sides are of different moments: steps between them \
                 mean little there"
            );
        }
        text
    }
}

struct MemoryTask {
    node: usize,
    options: ConnectOptions,
    every: Nanos,
    stop: Arc<AtomicBool>,
    tell: SyncSender<NodeReading>,
    reader: Option<SidesReader>,
}

impl MemoryTask {
    fn run(mut self, begin: Time) {
        let mut due = begin;
        while self.wait(due) {
            let asked = Clock.now();
            let result = self.read();
            let at = Clock.now();
            let reading = NodeReading { node: self.node, asked, at, result };
            // Where nobody has taken any for minutes this one is a gap, and those after it are none.
            if let Err(TrySendError::Disconnected(_)) = self.tell.try_send(reading) {
                return;
            }
            // Those that were missed are not made up for: a node that is slow has enough to do.
            while due <= at {
                due = due + self.every;
            }
        }
    }

    fn wait(&self, due: Time) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = Duration::from(due.since(Clock.now()));
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Reads the node. A connection that has failed is closed, so that questions do not pile up at a node that hangs.
    fn read(&mut self) -> Result<MemorySides, Error> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => SidesReader::new(Node::connect(&self.options)?)?,
        };
        let sides = reader.read(TIMEOUT)?;
        self.reader = Some(reader);
        Ok(sides)
    }
}

/// A node's reading as series; `node` is its number where there are several.
fn series(sides: &MemorySides, node: Option<usize>) -> Vec<(SeriesName, f64)> {
    let mut all = Vec::new();
    let mut bytes = |name: &str, label: Option<(&str, &str)>, value: Option<f64>| {
        let name = named(name, SeriesUnit::Bytes, label, node);
        all.extend(value.map(|value| (name, value)));
    };
    let (carriers, _) = sides.carriers_and_blocks();
    bytes(BOTH, Some(("kind", "resident")), sides.machine.resident.map(|it| it as f64));
    bytes(BOTH, Some(("kind", "carriers")), Some(carriers as f64));
    for kind in KINDS {
        let value = sides.vm.get(kind).map(|it| *it as f64);
        bytes(BOTH, Some(("kind", &format!("VM {kind}"))), value);
    }
    for step in sides.difference() {
        bytes(BETWEEN, Some(("part", step.short())), Some(step.bytes as f64));
    }
    for it in &sides.allocators {
        bytes("carriers", Some(("allocator", &it.name)), Some(it.carriers as f64));
    }
    for it in &sides.allocators {
        bytes("blocks", Some(("allocator", &it.name)), Some(it.blocks as f64));
    }
    bytes("page cache of the machine", None, sides.machine.page_cache.map(|it| it as f64));
    let took = named("time of a reading", SeriesUnit::Seconds, None, node);
    all.push((took, sides.took.as_secs_f64()));
    all
}

const BOTH: &str = "both sides";
/// Source of the steps between the VM's total and resident memory.
const BETWEEN: &str = "between the sides";

fn named(name: &str, unit: SeriesUnit, label: Option<(&str, &str)>, node: Option<usize>) -> SeriesName {
    let node = node.map(|node| node.to_string());
    let labels = label.into_iter().chain(node.as_deref().map(|node| ("node", node)));
    labels.fold(SeriesName::new(ERLANG_MEMORY, name, unit), |series, (key, value)| series.with(key, value))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use erlang::Cookie;

    use super::*;

    /// Nobody listens there, so that a reading fails at once.
    fn nobody() -> ConnectOptions {
        let name = "nobody@127.0.0.1".parse().unwrap();
        let mut options = ConnectOptions::new(name, Cookie::new("cookie").unwrap());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        options.address = Some(("127.0.0.1".into(), free.local_addr().unwrap().port()));
        options
    }

    #[test]
    fn readings_that_took_long_are_told() {
        let node = |took: &[u64]| WatchedNode {
            name: "one".to_owned(),
            answers: took.len() as u64,
            took: took.iter().map(|it| Duration::from_millis(*it)).collect(),
            ..WatchedNode::default()
        };
        testkit::assert_has(node(&[1, 837, 119]).sentence(), ["; 2 readings took over 50.0 ms, so the two"]);
        testkit::assert_ends(node(&[1, 2, 50]).sentence(), "50.0 ms at most");
    }

    #[test]
    fn readings_end_with_the_load_once() {
        let mut memory = MemoryWatch::new(Nanos::from_millis(10), vec![nobody()]);
        memory.start(Clock.now());
        let notes = memory.load_ended().notes;
        assert!(notes.last().is_some_and(|it| it.starts_with("memory of nobody@127.0.0.1: 0 readings")), "{notes:?}");
        assert!(memory.stop.load(Ordering::Relaxed));
        assert!(memory.load_ended().notes.is_empty());
    }

    #[test]
    fn a_node_is_read_again_after_nobody_has_taken_readings_for_a_while() {
        let (tell, readings) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let task = MemoryTask {
            node: 0,
            options: nobody(),
            every: Nanos::from_millis(10),
            stop: Arc::clone(&stop),
            tell,
            reader: None,
        };
        let thread = thread::spawn(move || task.run(Clock.now()));
        // The first one waits, and those after it have no room.
        thread::sleep(Duration::from_millis(500));
        let longest = Duration::from_secs(10);
        for number in 0..3 {
            assert!(readings.recv_timeout(longest).is_ok_and(|it| it.result.is_err()), "{number}");
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }
}
