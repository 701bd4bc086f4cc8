//! Counts of queues as pages, JSON at `/queues` and OpenMetrics at `/metrics`, read from the node on request.

use experiment::QUEUES_PATH;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use erlang::queues::{QueueCounts, QueueReader, QueueRequest, write_open_metrics};
use erlang::{ConnectOptions, Error, Helper, Node};
use serde::Serialize;

use web::page_server::{Page, serve_pages};

const METRICS_PATH: &str = "/metrics";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Cost of the pages so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueuePageCost {
    /// Requests for a page.
    pub requests: u64,
    /// Times that the node was asked.
    pub reads: u64,
    /// Times that the node did not answer.
    pub failures: u64,
    /// Time that the node worked on the answers, in microseconds.
    pub node_us: u64,
    /// Time until the answers, in microseconds.
    pub answer_us: u64,
}

/// Counts of a node's queues, served over HTTP.
#[derive(Clone, Debug)]
pub struct QueuePage(Arc<QueuePageState>);

#[derive(Debug)]
struct QueuePageState {
    node: ConnectOptions,
    request: QueueRequest,
    /// Shortest time from one reading to the next.
    shortest: Duration,
    held: Mutex<LastRead>,
}

#[derive(Debug, Default)]
struct LastRead {
    /// `None` where the node did not answer last, until the next request.
    reader: Option<QueueReader>,
    is_closed: bool,
    read: Option<(Instant, Arc<QueueCounts>)>,
    cost: QueuePageCost,
}

impl QueuePage {
    /// Pages of a node's queues, read no more often than at the shortest interval. A node that goes away and comes
    /// back is connected to again when somebody asks; at first it must be reached and take a helper.
    pub fn open(node: ConnectOptions, request: QueueRequest, shortest: Duration) -> Result<Self, Error> {
        let held = Mutex::new(LastRead { reader: Some(read_from(&node)?), ..LastRead::default() });
        Ok(Self(Arc::new(QueuePageState { node, request, shortest, held })))
    }

    /// Cost of the pages so far.
    pub fn cost(&self) -> QueuePageCost {
        self.held().cost
    }

    /// Reads the node no more, and waits until it answers that nothing of bellows is left there.
    pub fn close(&self) -> Result<(), Error> {
        let mut held = self.held();
        held.is_closed = true;
        let reader = held.reader.take();
        drop(held);
        reader.map_or(Ok(()), QueueReader::close)
    }

    fn held(&self) -> MutexGuard<'_, LastRead> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh(&self) -> Result<(), String> {
        let mut held = self.held();
        held.cost.requests += 1;
        if held.read.as_ref().is_some_and(|(at, _)| at.elapsed() < self.0.shortest) {
            return Ok(());
        }
        if held.is_closed {
            return Err("bellows is about to end".to_owned());
        }
        match self.read(&mut held) {
            Ok(counts) => {
                held.cost.reads += 1;
                held.cost.node_us += counts.node_us;
                held.cost.answer_us += counts.answer_us;
                held.read = Some((Instant::now(), Arc::new(counts)));
                Ok(())
            }
            Err(error) => {
                held.cost.failures += 1;
                // The node may be another one by the next request.
                held.reader = None;
                Err(error.problem().sentence())
            }
        }
    }

    fn read(&self, held: &mut LastRead) -> Result<QueueCounts, Error> {
        let reader = match held.reader.take() {
            Some(reader) => reader,
            None => read_from(&self.0.node)?,
        };
        held.reader.insert(reader).read(&self.0.request)
    }

    /// The latest reading, its age, and the cost of all.
    fn last(&self) -> Option<(Duration, Arc<QueueCounts>, QueuePageCost)> {
        let held = self.held();
        let (at, counts) = held.read.as_ref()?;
        Some((at.elapsed(), Arc::clone(counts), held.cost))
    }
}

fn read_from(node: &ConnectOptions) -> Result<QueueReader, Error> {
    QueueReader::start(Helper::load(&Node::connect(node)?)?)
}

/// Serves the pages at an address, `HOST:PORT`, until the process ends; returns where it listens.
pub fn serve_queues(address: &str, page: &QueuePage) -> io::Result<SocketAddr> {
    serve_pages(address, pages_of(page))
}

pub(crate) fn pages_of(page: &QueuePage) -> Vec<(String, Box<dyn Page>)> {
    vec![
        (QUEUES_PATH.to_owned(), Box::new(CountsPage(page.clone(), JSON, QueuePage::write_json))),
        (METRICS_PATH.to_owned(), Box::new(CountsPage(page.clone(), OPEN_METRICS, QueuePage::write_open_metrics))),
    ]
}

/// Counts in one format: its content type, and how it is written.
struct CountsPage(QueuePage, &'static str, fn(&QueuePage, &mut dyn fmt::Write) -> fmt::Result);

impl Page for CountsPage {
    fn content_type(&self) -> &'static str {
        self.1
    }

    fn refresh(&self) -> Result<(), String> {
        self.0.refresh()
    }

    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        (self.2)(&self.0, out)
    }
}

#[derive(Serialize)]
struct QueuesAsJson<'a> {
    node: &'a str,
    /// Time since the node was read, in milliseconds; the counts can be older by the rows' limits.
    read_ms_ago: u64,
    left_out: u64,
    #[serde(flatten)]
    counts: &'a QueueCounts,
    cost: QueuePageCost,
}

impl QueuePage {
    fn write_json(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (ago, counts, cost) = self.last().ok_or(fmt::Error)?;
        let queues = QueuesAsJson {
            node: self.0.node.node.as_str(),
            read_ms_ago: ago.as_millis() as u64,
            left_out: counts.left_out(),
            counts: &counts,
            cost,
        };
        writeln!(out, "{}", serde_json::to_string(&queues).map_err(|_| fmt::Error)?)
    }

    fn write_open_metrics(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (ago, counts, cost) = self.last().ok_or(fmt::Error)?;
        write_open_metrics(&counts, out)?;
        let family = |out: &mut dyn fmt::Write, name: &str, kind: &str, help: &str| {
            writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}")
        };
        let name = "bellows_queues_read_age_seconds";
        family(out, name, "gauge", "Time since the node was read")?;
        writeln!(out, "{name} {}", ago.as_secs_f64())?;
        for (name, help, value) in [
            ("bellows_queues_requests", "Requests for a page", cost.requests as f64),
            ("bellows_queues_reads", "Times that the node was asked", cost.reads as f64),
            ("bellows_queues_failures", "Times that the node did not answer", cost.failures as f64),
            ("bellows_queues_node_seconds", "Time that the node worked on answers", cost.node_us as f64 / 1e6),
            ("bellows_queues_answer_seconds", "Time that answers took", cost.answer_us as f64 / 1e6),
        ] {
            family(out, name, "counter", help)?;
            writeln!(out, "{name}_total {value}")?;
        }
        writeln!(out, "# EOF")
    }
}
