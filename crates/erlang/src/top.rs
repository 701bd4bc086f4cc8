//! A node's processes, schedulers and memory in a window of time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::Error;
use crate::helper::{Helper, MEMORY_KINDS, number, numbers, replied, text_of, unexpected};
use crate::term::{Term, as_atom, as_int, as_list, as_text, as_tuple, atom, get, int, millis, tuple};

/// Shortest time-out beside the window.
const LEAST: Duration = Duration::from_secs(30);

measure::named! {
    /// Order of processes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TopSort {
        /// Reductions in the window.
        Reductions = "reductions",
        /// Memory of the process.
        Memory = "memory",
        /// Messages that wait for the process.
        Messages = "messages",
        /// Binaries that the process refers to.
        Binaries = "binaries",
    }
}

/// Options of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopRequest {
    /// Length of the window.
    pub window: Duration,
    /// Which processes come first.
    pub sort: TopSort,
    /// Processes of the answer at most.
    pub limit: u32,
    /// Look for connections, channels and queues in flow control, which walks the node's metrics.
    pub flow: bool,
}

/// A process in the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopProcess {
    /// The process' identifier on its node.
    pub pid: String,
    /// `queue`, `channel`, `connection`, or the module that it began in; empty where it has a registered name only.
    pub role: String,
    /// Name of the queue or connection, or the registered name.
    pub name: String,
    /// Reductions per second.
    pub reductions_per_s: f64,
    /// Memory with stack and heap, in bytes.
    pub memory: u64,
    /// Messages that wait for it.
    pub messages: u64,
    /// Bytes of the binaries that it refers to.
    pub binaries: u64,
    /// Whether it waits for credit of another process.
    pub flow: bool,
    /// `running`, `runnable`, `waiting` and so on.
    pub status: String,
    /// The function that it is in.
    pub function: String,
}

/// How much of the window schedulers were busy, as shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchedulerUse {
    /// Schedulers of Erlang processes.
    pub normal: Vec<f64>,
    /// Schedulers of native functions that take long.
    pub dirty_cpu: Vec<f64>,
    /// Schedulers of native functions that wait for devices.
    pub dirty_io: Vec<f64>,
}

/// Somebody who is slowed down on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slowed {
    /// `connection`, `channel` or `queue`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// `flow`, `blocking` or `blocked`.
    pub state: String,
}

/// A table of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableSize {
    /// The table's name.
    pub name: String,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

/// A node's activity in a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopWindow {
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// The first processes.
    pub processes: Vec<TopProcess>,
    /// How busy schedulers were.
    pub schedulers: SchedulerUse,
    /// Processes and ports that are ready to run.
    pub run_queue: u64,
    /// Reductions, context switches, garbage collections, bytes read and written, per second.
    pub rates: BTreeMap<String, f64>,
    /// The node's memory by kind (`erlang:memory/0`), in bytes.
    pub memory: BTreeMap<String, u64>,
    /// Processes, ports, atoms, tables and file descriptors, with their limits.
    pub counts: BTreeMap<String, u64>,
    /// Who is slowed down, the first of them.
    pub flow: Vec<Slowed>,
    /// How many are slowed down.
    pub flow_count: u64,
    /// Whether all connections, channels and queues were looked at.
    pub flow_whole: bool,
    /// Alarms of RabbitMQ.
    pub alarms: Vec<String>,
    /// `booting`, `core_started`, `ready`, `stopping` or `stopped`; empty without RabbitMQ, or without an answer.
    pub rabbitmq: String,
    /// The largest tables.
    pub tables: Vec<TableSize>,
    /// How long the node runs, in milliseconds.
    pub uptime_ms: u64,
    /// How long the node took for the answer, waits for a scheduler included, in microseconds.
    pub node_us: u64,
    /// How long the answer took beside the window, in microseconds.
    pub answer_us: u64,
}

/// Looks at the node for a window, which ends sooner where `stop` says so.
pub fn top(helper: &Helper, request: &TopRequest, stop: &dyn Fn() -> bool) -> Result<TopWindow, Error> {
    let began = Instant::now();
    let flow = atom(if request.flow { "true" } else { "false" });
    let sort = atom(request.sort.name());
    let argument = tuple([millis(request.window), sort, int(request.limit.into()), flow]);
    let worker = helper.run("bellows_top", "start", argument)?;
    let longest = request.window + helper.node().timeout().max(LEAST);
    let answer = helper.ask_until(&worker, atom("window"), longest, stop)?;
    // A node that does not answer is not asked for more: the helper's end undoes what is left.
    let reply = replied(helper, answer, "the window of `top`", longest)?;
    helper.stop(worker)?;
    let window = window(&reply).ok_or_else(|| unexpected(helper, "bellows_top:start/2"))?;
    let whole = began.elapsed().as_micros() as u64;
    Ok(TopWindow { answer_us: whole.saturating_sub((window.seconds * 1e6) as u64), ..window })
}

fn window(answer: &Term) -> Option<TopWindow> {
    let seconds = number(answer, "window_us")?.max(1) as f64 / 1e6;
    let list = |key: &str| get(answer, key).and_then(as_list);
    let rates = numbers(
        get(answer, "counters")?,
        &["reductions", "context_switches", "collections", "input_bytes", "output_bytes"],
    );
    let counts = [
        "processes",
        "process_limit",
        "ports",
        "port_limit",
        "atoms",
        "atom_limit",
        "tables",
        "descriptors",
        "descriptor_limit",
    ];
    Some(TopWindow {
        seconds,
        processes: list("processes")?.iter().map(|it| process(it, seconds)).collect::<Option<_>>()?,
        schedulers: schedulers(&list("schedulers")?),
        run_queue: number(answer, "run_queue")?,
        rates: rates.into_iter().map(|(key, value)| (key, value as f64 / seconds)).collect(),
        memory: numbers(get(answer, "memory")?, &MEMORY_KINDS),
        counts: numbers(get(answer, "counts")?, &counts),
        flow: list("flow")?.iter().map(slowed).collect::<Option<_>>()?,
        flow_count: number(answer, "flow_count")?,
        flow_whole: get(answer, "flow_whole").and_then(as_atom) == Some("true"),
        alarms: list("alarms")?.iter().filter_map(as_text).collect(),
        rabbitmq: text_of(answer, "rabbitmq")?,
        tables: list("tables")?.iter().map(table).collect::<Option<_>>()?,
        uptime_ms: number(answer, "uptime_ms")?,
        node_us: number(answer, "took_us")?,
        answer_us: 0,
    })
}

fn process(term: &Term, seconds: f64) -> Option<TopProcess> {
    let doing = get(term, "doing")?;
    Some(TopProcess {
        pid: text_of(term, "pid")?,
        role: text_of(term, "role")?,
        name: text_of(term, "name")?,
        reductions_per_s: number(term, "reductions")? as f64 / seconds,
        memory: number(term, "memory")?,
        messages: number(term, "messages")?,
        binaries: number(term, "binaries")?,
        flow: get(term, "flow").and_then(as_atom) == Some("true"),
        status: text_of(doing, "status")?,
        function: text_of(doing, "function")?,
    })
}

fn schedulers(terms: &[Term]) -> SchedulerUse {
    let mut all = SchedulerUse::default();
    for term in terms {
        let Some([kind, _, share]) = as_tuple(term) else { continue };
        let share = as_int(share).map_or(0.0, |it| it as f64 / 1e6);
        match as_atom(kind) {
            Some("normal") => all.normal.push(share),
            Some("dirty_cpu") => all.dirty_cpu.push(share),
            _ => all.dirty_io.push(share),
        }
    }
    all
}

fn slowed(term: &Term) -> Option<Slowed> {
    Some(Slowed { kind: text_of(term, "kind")?, name: text_of(term, "name")?, state: text_of(term, "state")? })
}

fn table(term: &Term) -> Option<TableSize> {
    Some(TableSize { name: text_of(term, "name")?, bytes: number(term, "bytes")?, rows: number(term, "rows")? })
}
