//! Counts of queues, read from what the node holds of them in tables: no queue is asked unless that is requested.

use std::fmt;
use std::time::{Duration, Instant};

use measure::Problem;
use serde::Serialize;

use crate::calls;
use crate::error::Error;
use crate::helper::{Answer, Helper, Worker, number, text_of, unexpected};
use crate::node::Node;
use crate::term::{Term, as_atom, as_bytes, as_list, as_text, as_tuple, atom, get, int, millis, text, tuple};

/// Longest that reading what the node holds may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest that asking all queues may take.
const ALL_ASKED: Duration = Duration::from_secs(60);
/// Rows of an answer at most, whatever is requested.
pub const MOST_QUEUES: u32 = 100_000;

measure::named! {
    /// The order of queues.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum QueueSort {
        /// Most messages ready first.
        Ready = "ready",
        /// Most unacknowledged messages first.
        Unacked = "unacked",
        /// By virtual host and name.
        Name = "name",
    }
}

/// Which queues to read, and how.
#[derive(Clone, Debug)]
pub struct QueueRequest {
    /// The virtual host; all if absent.
    pub vhost: Option<String>,
    /// Which queues come first.
    pub sort: QueueSort,
    /// Queues of the answer at most.
    pub limit: u32,
    /// Asks each queue that can be asked, which may take this long, instead of the node's tables.
    pub fresh: Option<Duration>,
}

/// Where the numbers of a queue come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountSource {
    /// The node's tables, into which the queue writes at an interval.
    Held,
    /// The queue itself.
    Asked,
    /// The node's tables, because the queue did not answer in time.
    Silent,
    /// The node's tables, although queues were to be asked: nobody can ask a stream, or a type that a plugin brings.
    NeverAsked,
    /// Nothing is known of the queue.
    Unknown,
}

/// A queue with its counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueCount {
    /// The virtual host.
    pub vhost: String,
    /// The name, cut after 255 bytes.
    pub name: String,
    /// `classic`, `quorum`, `stream`, or the module of another type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Messages ready for delivery, where known.
    pub ready: Option<u64>,
    /// Messages delivered and not acknowledged, where known.
    pub unacked: Option<u64>,
    /// Consumers that are registered now.
    pub consumers: u32,
    /// Where the counts come from.
    pub source: CountSource,
    /// How old the counts can be at most, where that is known.
    pub age_limit_ms: Option<u64>,
}

/// Messages and consumers of a node's queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Queues, also those that are not among the rows.
    pub queues: u64,
    /// Messages ready in all whose numbers are known; `None` where those of none are.
    pub ready: Option<u64>,
    /// Unacknowledged messages of these.
    pub unacked: Option<u64>,
    /// Queues of which the node holds no numbers.
    pub unknown: u64,
    /// Queues that were asked and answered.
    pub asked: u64,
    /// Queues that did not answer in time.
    pub silent: u64,
    /// Queues that cannot be asked, where the others were.
    pub never_asked: u64,
    /// Nodes of the cluster that did not tell what they hold.
    pub silent_nodes: Vec<String>,
    /// Whether queues write their numbers into the node's tables (`none` where RabbitMQ collects no statistics).
    pub collects: String,
    /// How long the node took for the answer, waits for a scheduler included, in microseconds.
    pub node_us: u64,
    /// How long the answer took from request to the last row, in microseconds.
    pub answer_us: u64,
    /// The queues, in the order that was requested.
    pub rows: Vec<QueueCount>,
}

impl QueueCounts {
    /// Queues that are not among the rows.
    pub fn left_out(&self) -> u64 {
        self.queues.saturating_sub(self.rows.len() as u64)
    }

    /// Whether classic queues write no numbers.
    pub fn collects_nothing(&self) -> bool {
        self.collects == "none"
    }
}

/// Reads the counts. An error where the node is no RabbitMQ.
pub fn read_queues(helper: &Helper, request: &QueueRequest) -> Result<QueueCounts, Error> {
    let began = Instant::now();
    let (arguments, timeout) = arguments(request);
    let answer = helper.call_within(timeout, "bellows_queues", "read", arguments.into())?;
    answered(helper, request, &answer, began)
}

/// Reads the counts again and again, by a process of its own on the node.
#[derive(Debug)]
pub struct QueueReader {
    helper: Helper,
    worker: Worker,
}

impl QueueReader {
    /// Starts that process.
    pub fn start(helper: Helper) -> Result<Self, Error> {
        let worker = helper.run("bellows_queues", "serve", atom("none"))?;
        Ok(Self { helper, worker })
    }

    /// Reads the counts. An overloaded node answers, too. After an error the process may have ended.
    pub fn read(&self, request: &QueueRequest) -> Result<QueueCounts, Error> {
        let began = Instant::now();
        let (arguments, timeout) = arguments(request);
        let question = tuple(arguments);
        match self.helper.ask_directly(&self.worker, question, timeout)? {
            Answer::Reply(answer) => answered(&self.helper, request, &answer, began),
            _ => Err(Error::Timeout {
                node: self.helper.node().name().clone(),
                what: "to read its queues".to_owned(),
                after: timeout,
                is_fixed: true,
            }),
        }
    }

    /// Ends the process, and waits until nothing of bellows is left on the node.
    pub fn close(self) -> Result<(), Error> {
        self.helper.close()
    }
}

/// Tells a virtual host that has no queues from one that is not there.
fn check_vhost(helper: &Helper, vhost: &str) -> Result<(), Error> {
    let node = helper.node();
    let exists = node.call("rabbit_vhost", "exists", vec![text(vhost)])?;
    if as_atom(&exists) != Some("false") {
        return Ok(());
    }
    let cause = format!("{} has no such virtual host", node.name());
    let help = "check its name (rabbitmqctl list_vhosts lists them), or leave out --vhost";
    Err(Error::Other(Problem::new(cause, vhost, help)))
}

/// Arguments of the node's function, and time-out of its answer.
fn arguments(request: &QueueRequest) -> ([Term; 4], Duration) {
    let vhost = match &request.vhost {
        Some(vhost) => text(vhost),
        None => atom("all"),
    };
    let (fresh, timeout) = match request.fresh {
        Some(each) => (tuple([millis(each), millis(ALL_ASKED)]), ALL_ASKED + each + TIMEOUT),
        None => (atom("held"), TIMEOUT),
    };
    let arguments = [vhost, atom(request.sort.name()), int(request.limit.into()), fresh];
    (arguments, timeout)
}

fn answered(helper: &Helper, request: &QueueRequest, answer: &Term, began: Instant) -> Result<QueueCounts, Error> {
    if as_atom(answer) == Some("not_rabbitmq") {
        let node = helper.node();
        return Err(Error::Other(RabbitState::of(node)?.without_queues(node)));
    }
    let counts = counts(answer).ok_or_else(|| unexpected(helper, "bellows_queues:read/4"))?;
    if let (Some(vhost), 0) = (&request.vhost, counts.queues) {
        check_vhost(helper, vhost)?;
    }
    Ok(QueueCounts { answer_us: began.elapsed().as_micros() as u64, ..counts })
}

fn counts(answer: &Term) -> Option<QueueCounts> {
    let collects = text_of(answer, "collects")?;
    let intervals = get(answer, "intervals")?;
    let nodes = as_list(get(answer, "silent_nodes")?)?;
    let age = |kind: &str| match kind {
        "classic" if collects == "none" => None,
        // What collects the numbers waits for every node of the cluster: they may be as old as the silence.
        _ if !nodes.is_empty() => None,
        kind => number(intervals, kind),
    };
    let mut rows = Vec::new();
    for batch in as_list(get(answer, "batches")?)?.iter() {
        let mut rest = as_bytes(batch)?;
        while !rest.is_empty() {
            let (row, after) = row(rest, &age)?;
            rows.push(row);
            rest = after;
        }
    }
    let (queues, unknown) = (number(answer, "queues")?, number(answer, "unknown")?);
    // Without queues there are no messages; of queues without numbers nobody knows.
    let sum = |of| number(answer, of).map(|it| (unknown < queues || queues == 0).then_some(it));
    Some(QueueCounts {
        queues,
        ready: sum("ready")?,
        unacked: sum("unacked")?,
        unknown,
        asked: number(answer, "asked")?,
        silent: number(answer, "silent")?,
        never_asked: number(answer, "never_asked")?,
        silent_nodes: nodes.iter().filter_map(as_text).collect(),
        node_us: number(answer, "took_us")?,
        answer_us: 0,
        rows,
        collects,
    })
}

/// A row at the beginning of these bytes, and what is behind it.
fn row<'a>(bytes: &'a [u8], age: &impl Fn(&str) -> Option<u64>) -> Option<(QueueCount, &'a [u8])> {
    let (vhost, bytes) = name(bytes)?;
    let (queue, bytes) = name(bytes)?;
    let (kind, bytes) = name(bytes)?;
    let (source, bytes) = bytes.split_first()?;
    let (ready, bytes) = bytes.split_first_chunk()?;
    let (unacked, bytes) = bytes.split_first_chunk()?;
    let (consumers, bytes) = bytes.split_first_chunk()?;
    let source = match source {
        1 => CountSource::Held,
        2 => CountSource::Asked,
        3 => CountSource::Silent,
        4 => CountSource::NeverAsked,
        _ => CountSource::Unknown,
    };
    let known = |count: u64| (source != CountSource::Unknown).then_some(count);
    let row = QueueCount {
        ready: known(u64::from_be_bytes(*ready)),
        unacked: known(u64::from_be_bytes(*unacked)),
        consumers: u32::from_be_bytes(*consumers),
        age_limit_ms: match source {
            CountSource::Asked => Some(0),
            CountSource::Held | CountSource::Silent | CountSource::NeverAsked => age(&kind),
            CountSource::Unknown => None,
        },
        vhost,
        name: queue,
        kind,
        source,
    };
    Some((row, bytes))
}

/// A text behind its length.
fn name(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, bytes) = bytes.split_first()?;
    let (text, rest) = bytes.split_at_checked(usize::from(*length))?;
    Some((told_apart(text), rest))
}

/// A name may have any bytes: those that are no text are written out, so that no two names look alike.
fn told_apart(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

type Figure = fn(&QueueCount) -> Option<u64>;

/// Writes the counts as a page of OpenMetrics, without its end (`# EOF`).
pub fn write_open_metrics(counts: &QueueCounts, out: &mut dyn fmt::Write) -> fmt::Result {
    let families: [(&str, &str, Figure); 4] = [
        ("bellows_queue_messages_ready", "Messages ready for delivery", |row| row.ready),
        ("bellows_queue_messages_unacked", "Messages delivered and not acknowledged", |row| row.unacked),
        ("bellows_queue_consumers", "Consumers that are registered", |row| Some(row.consumers.into())),
        ("bellows_queue_age_limit_milliseconds", "Maximum age of the counts", |row| row.age_limit_ms),
    ];
    for (family, help, value) in families {
        writeln!(out, "# HELP {family} {help}.\n# TYPE {family} gauge")?;
        for row in &counts.rows {
            let Some(value) = value(row) else { continue };
            write!(out, "{family}{{vhost=\"")?;
            escaped(&row.vhost, out)?;
            out.write_str("\",queue=\"")?;
            escaped(&row.name, out)?;
            out.write_str("\",type=\"")?;
            escaped(&row.kind, out)?;
            writeln!(out, "\"}} {value}")?;
        }
    }
    let all = [
        ("bellows_queues", "Queues of the node", Some(counts.queues)),
        ("bellows_queues_messages_ready", "Messages ready in all queues with known counts", counts.ready),
        ("bellows_queues_messages_unacked", "Unacknowledged messages of all queues with known counts", counts.unacked),
        ("bellows_queues_unknown", "Queues without counts on the node", Some(counts.unknown)),
        ("bellows_queues_left_out", "Queues that are not on this page", Some(counts.left_out())),
    ];
    for (name, help, value) in all {
        let Some(value) = value else { continue };
        writeln!(out, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}")?;
    }
    Ok(())
}

/// A label's value between its quotes.
fn escaped(text: &str, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '"', '\n']) {
        let (before, after) = rest.split_at(at);
        out.write_str(before)?;
        let mut characters = after.chars();
        out.write_str(match characters.next() {
            Some('\n') => "\\n",
            Some('"') => "\\\"",
            _ => "\\\\",
        })?;
        rest = characters.as_str();
    }
    out.write_str(rest)
}

/// Time between two looks at a node that starts.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A node that is younger has not been stopped by somebody, but is about to start.
const YOUNG: Duration = Duration::from_secs(30);

/// State of RabbitMQ on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RabbitState {
    /// It starts: queues may not be known yet.
    Starting,
    /// It knows its queues.
    Started,
    /// The node runs without it, as after `rabbitmqctl stop_app`.
    Stopped,
    /// The node has no RabbitMQ, or one before 3.8, which does not say.
    Unknown,
}

impl RabbitState {
    /// Asks the node.
    pub fn of(node: &Node) -> Result<Self, Error> {
        let state = match node.call("rabbit_boot_state", "get", Vec::new()) {
            Err(Error::Exception { .. }) => return Ok(Self::Unknown),
            answer => answer?,
        };
        Ok(match as_atom(&state) {
            Some("booting") => Self::Starting,
            Some("core_started" | "ready") => Self::Started,
            Some("stopped") if age(node)? < YOUNG => Self::Starting,
            Some("stopping" | "stopped") => Self::Stopped,
            _ => Self::Unknown,
        })
    }

    /// Waits until RabbitMQ has started, and calls `waits` once where that takes time. An error after the longest wait.
    pub fn settled(node: &Node, longest: Duration, waits: impl FnOnce()) -> Result<Self, Error> {
        let end = Instant::now() + longest;
        let mut waits = Some(waits);
        loop {
            match Self::of(node)? {
                Self::Starting if Instant::now() < end => {}
                Self::Starting => return Err(Error::Other(still_starting(node, longest))),
                settled => return Ok(settled),
            }
            if let Some(waits) = waits.take() {
                waits();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Why a node without tables of queues has none.
    pub(crate) fn without_queues(self, node: &Node) -> Problem {
        let name = node.name();
        match self {
            Self::Starting | Self::Started => still_starting(node, Duration::ZERO),
            Self::Stopped => {
                Problem::new(format!("RabbitMQ is stopped on {name}"), "", "start it with rabbitmqctl start_app")
            }
            Self::Unknown => Problem::new(
                "the node does not run RabbitMQ",
                name,
                "name a node of RabbitMQ: epmd -names lists those of a machine",
            ),
        }
    }
}

fn still_starting(node: &Node, waited: Duration) -> Problem {
    let after = if waited.is_zero() { String::new() } else { format!("after {waited:?} of waiting") };
    Problem::new(
        format!("RabbitMQ on {} is still starting", node.name()),
        after,
        "run it again when rabbitmqctl await_startup has returned, or wait longer with --timeout",
    )
}

fn age(node: &Node) -> Result<Duration, Error> {
    let clock = node.call("erlang", "statistics", vec![atom("wall_clock")])?;
    let ms = as_tuple(&clock).and_then(|it| it.first()).and_then(calls::number);
    Ok(Duration::from_millis(ms.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{Binary, list, map};

    fn packed(vhost: &str, name: &[u8], source: u8, counts: [u64; 2], consumers: u32) -> Vec<u8> {
        let mut bytes = vec![vhost.len() as u8];
        bytes.extend(vhost.as_bytes());
        bytes.push(name.len() as u8);
        bytes.extend(name);
        bytes.extend(b"\x07classic");
        bytes.push(source);
        bytes.extend(counts.iter().flat_map(|it| it.to_be_bytes()));
        bytes.extend(consumers.to_be_bytes());
        bytes
    }

    /// Of seven queues, those of which no numbers are known.
    fn answer(unknown: i64, batch: &[u8], collects: &str, silent: &[&str]) -> Term {
        let numbers = ["queues", "ready", "unacked", "unknown", "asked", "silent", "never_asked", "took_us"];
        let of = |it: &&str| int(if *it == "unknown" { unknown } else { 7 });
        let mut pairs: Vec<(Term, Term)> = numbers.iter().map(|it| (atom(it), of(it))).collect();
        pairs.push((atom("collects"), text(collects)));
        let silent: Vec<Term> = silent.iter().map(|it| text(it)).collect();
        pairs.push((atom("silent_nodes"), list(silent)));
        pairs.push((atom("batches"), list(vec![Term::from(Binary::from(batch.to_vec()))])));
        pairs.push((atom("intervals"), map(vec![(atom("classic"), int(5_000))])));
        map(pairs)
    }

    fn page(answer: &Term) -> String {
        let mut page = String::new();
        write_open_metrics(&counts(answer).unwrap(), &mut page).unwrap();
        page
    }

    #[test]
    fn rows_are_read_and_what_is_cut_off_is_refused() {
        let mut batch = packed("/", b"a\xff\n", 1, [3, 4], 2);
        batch.extend(packed("other", b"b", 0, [0, 0], 0));
        let read = counts(&answer(1, &batch, "fine", &[])).unwrap();
        assert_eq!(read.left_out(), 5);
        let [first, second] = read.rows.as_slice() else { panic!("{read:?}") };
        assert_eq!((first.name.as_str(), first.ready, first.unacked), ("a\\xff\n", Some(3), Some(4)));
        assert_eq!((first.consumers, first.source, first.age_limit_ms), (2, CountSource::Held, Some(5_000)));
        assert_eq!((second.ready, second.source, second.age_limit_ms), (None, CountSource::Unknown, None));
        for length in 1..batch.len() {
            let cut = counts(&answer(1, batch.get(..length).unwrap(), "fine", &[]));
            assert!(cut.is_none_or(|it| it.rows.len() == 1), "{length}");
        }
        // Without statistics the numbers can be of any age.
        let read = counts(&answer(1, &batch, "none", &[])).unwrap();
        assert!(read.collects_nothing());
        assert_eq!(read.rows.first().unwrap().age_limit_ms, None);
        // What collects them waits for a node that is silent.
        let read = counts(&answer(1, &batch, "fine", &["n2@x"])).unwrap();
        assert_eq!(read.rows.first().unwrap().age_limit_ms, None);
        assert!(counts(&atom("ok")).is_none());
    }

    #[test]
    fn what_is_unknown_of_all_queues_is_no_sum() {
        let of = |unknown| counts(&answer(unknown, &[], "none", &[])).unwrap();
        assert_eq!((of(6).ready, of(6).unacked), (Some(7), Some(7)));
        let none = of(7);
        assert_eq!((none.ready, none.unacked), (None, None));
        let page = page(&answer(7, &[], "none", &[]));
        assert!(page.contains("bellows_queues_unknown 7"), "{page}");
        assert!(!page.contains("bellows_queues_messages"), "{page}");
    }

    /// Two series alike would make a page that Prometheus refuses as a whole.
    #[test]
    fn names_that_are_no_text_are_series_of_their_own() {
        let mut batch = packed("/", b"\xff", 1, [3, 4], 2);
        batch.extend(packed("/", b"\xfe", 1, [3, 4], 2));
        let page = page(&answer(1, &batch, "fine", &[]));
        let ready = |line: &&str| line.starts_with("bellows_queue_messages_ready{");
        let lines: Vec<&str> = page.lines().filter(ready).collect();
        assert_eq!(lines.len(), 2);
        assert_ne!(lines.first(), lines.last());
    }

    #[test]
    fn names_stay_inside_their_quotes_on_a_page() {
        let batch = packed("v\"", b"q\\\n# EOF", 1, [3, 4], 2);
        let page = page(&answer(1, &batch, "fine", &[]));
        let line = r#"bellows_queue_messages_ready{vhost="v\"",queue="q\\\n# EOF",type="classic"} 3"#;
        assert!(page.lines().any(|it| it == line), "{page}");
        assert!(page.lines().all(|it| !it.starts_with("# EOF")), "{page}");
    }
}
