//! One page after another from one server, parsed while it arrives.

use std::cell::Cell;
use std::io::{self, Read};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use measure::{Clock, Nanos, Problem, Time, count};
use ureq::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use ureq::http::{HeaderName, Response};
use ureq::{Agent, Body};
use wire::openmetrics::{LineCause, LineError, PageEvent, PageFormat, Parser};

use super::selection::Selection;
use super::{PageCost, ScrapePlan};
use crate::http::{Login, agent, told, told_io, trust};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// The largest page, in bytes: one of ten million series.
const MOST_PAGE: u64 = 2 << 30;
/// Where a server that says no length is quiet for this long at the end of the time, the page was there and has no end.
const QUIET: Nanos = Nanos::from_millis(250);
/// Bytes of a refusal that are read.
const MOST_REFUSAL: u64 = 200;
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.9,*/*;q=0.1";

/// A connection to the server of one page.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    login: Login,
    plan: ScrapePlan,
    /// Whether its page was there at one time.
    was_there: bool,
}

/// Outcome of one request.
#[derive(Debug)]
pub(super) struct Fetched {
    /// When the head of the answer had arrived.
    pub(super) answered: Option<Time>,
    pub(super) cost: PageCost,
    pub(super) result: Result<(), Problem>,
}

impl Client {
    pub(super) fn new(plan: &ScrapePlan) -> Result<Self, Problem> {
        let timeout = Duration::from_nanos(plan.timeout.0);
        let agent = agent(plan.url.as_str(), timeout, trust(plan.ca.as_deref(), false)?)
            .proxy(None)
            .input_buffer_size(PIECE)
            .build()
            .into();
        Ok(Self {
            agent,
            login: Login { user: plan.user.clone(), secret: plan.password.clone(), scheme: "Bearer" },
            plan: plan.clone(),
            was_there: false,
        })
    }

    /// Requests the page and hands its samples to `selection`.
    pub(super) fn fetch(&mut self, selection: &mut Selection) -> Fetched {
        let mut fetched = Fetched { answered: None, cost: PageCost::default(), result: Ok(()) };
        fetched.result = self.request(&mut fetched, selection);
        self.was_there |= fetched.result.is_ok();
        fetched
    }

    fn request(&self, fetched: &mut Fetched, selection: &mut Selection) -> Result<(), Problem> {
        let deadline = Clock.now() + self.plan.timeout;
        let mut get = self.agent.get(self.plan.url.as_str());
        get = get.header("Accept", ACCEPT);
        get = get.header("Accept-Encoding", if self.plan.gzip { "gzip" } else { "identity" });
        if let Some(authorization) = self.login.authorization() {
            get = get.header("Authorization", authorization);
        }
        let response = get.call().map_err(|error| self.unreachable(&told(&error)))?;
        fetched.answered = Some(Clock.now());
        let status = response.status();
        if status.as_u16() != 200 {
            let mut said = Vec::new();
            // What cannot be read says nothing.
            let _ = response.into_body().into_reader().take(MOST_REFUSAL).read_to_end(&mut said);
            let said = String::from_utf8_lossy(&said);
            let said = self.login.without_secrets(said.trim(), self.plan.url.as_str());
            let help = if matches!(status.as_u16(), 401 | 403) { NO_LOGIN } else { REFUSED };
            return Err(self.problem(&format!("was answered with {status}"), &said, help));
        }
        self.read(response, deadline, &mut fetched.cost, selection)
    }

    /// Reads the body of an answer to its end.
    fn read(
        &self,
        response: Response<Body>,
        deadline: Time,
        cost: &mut PageCost,
        selection: &mut Selection,
    ) -> Result<(), Problem> {
        let format = PageFormat::of_content_type(header(&response, &CONTENT_TYPE));
        let ends_when_closed =
            [CONTENT_LENGTH, TRANSFER_ENCODING].iter().all(|name| header(&response, name).is_empty());
        let encoding = header(&response, &CONTENT_ENCODING).trim().to_ascii_lowercase();
        let bytes = Cell::new(0);
        let body = Counted { inner: response.into_body().into_reader(), bytes: &bytes };
        let mut reader: Box<dyn Read + '_> = match encoding.as_str() {
            "" | "identity" => Box::new(body),
            "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(body)),
            other => return Err(self.problem("is encoded in a way that was not requested", other, ENCODED)),
        };
        let mut page = Page {
            parser: Parser::new(format),
            selection,
            first_wrong: None,
            is_cut_off: false,
            is_whole: false,
            ends_when_closed,
            last_byte: Clock.now(),
            parse: Nanos::ZERO,
        };
        let outcome = self.pieces(&mut *reader, deadline, &mut page);
        let outcome = outcome.map_err(|error| self.unless_open(&page, deadline).unwrap_or(error));
        if outcome.is_ok() {
            page.finish();
        }
        let totals = page.parser.totals();
        *cost = PageCost {
            bytes: bytes.get(),
            page_bytes: totals.bytes,
            series: totals.samples,
            wrong_lines: totals.errors,
            first_wrong: page.first_wrong.map(|wrong| wrong.to_string()),
            duplicates: page.selection.duplicates(),
            parse: page.parse,
            unmatched: Vec::new(),
        };
        outcome?;
        if page.is_cut_off {
            return Err(self.problem("is incomplete", "its last line is not # EOF", BROKEN));
        }
        if totals.samples == 0 && totals.errors > 0 {
            let first = cost.first_wrong.clone().unwrap_or_default();
            return Err(self.problem("is not a page of metrics", &first, NO_PAGE));
        }
        Ok(())
    }

    fn pieces(&self, reader: &mut dyn Read, deadline: Time, page: &mut Page<'_>) -> Result<(), Problem> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = match reader.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.problem("is incomplete", &told_io(&error), BROKEN)),
            };
            page.last_byte = Clock.now();
            page.feed(piece.get(..length).unwrap_or_default());
            if page.is_whole && page.ends_when_closed {
                return Ok(());
            }
            if page.parser.totals().bytes > MOST_PAGE {
                return Err(self.problem("has no end", &format!("{} bytes and more", count(MOST_PAGE)), NO_END));
            }
            if Clock.now() > deadline {
                return Err(self.problem("took too long", &format!("{} without an end", self.plan.timeout), SLOW));
            }
        }
    }

    /// Where a page was there, and has no end because its server says no length and does not close the connection.
    fn unless_open(&self, page: &Page<'_>, deadline: Time) -> Option<Problem> {
        let now = Clock.now();
        let quiet = now.since(page.last_byte);
        (page.ends_when_closed && now >= deadline && quiet >= QUIET).then(|| {
            let quiet = Nanos::from_millis(quiet.0 / 1_000_000);
            let value = format!(
                "nothing came in the last {quiet}; the answer has no Content-Length, and the connection stays open"
            );
            self.problem("has no end", &value, NOT_CLOSED)
        })
    }

    fn unreachable(&self, why: &str) -> Problem {
        if why.starts_with("protocol: ") {
            return self.problem("was not answered in HTTP", why, NO_HTTP);
        }
        let help = if self.was_there { AWAY } else { UNREACHABLE };
        self.problem("was not answered", why, help)
    }

    fn problem(&self, what: &str, value: &str, help: &str) -> Problem {
        Problem::new(format!("{} {what}", self.plan.url), value, help)
    }
}

const UNREACHABLE: &str = "check host and port, and that the plugin rabbitmq_prometheus is enabled; raise the time-out \
                           (--timeout; in an experiment, timeout of the scrape) if the server is only slow";
const AWAY: &str = "the page existed before: check the server's log; raise the time-out (--timeout; \
    in an experiment, timeout of the scrape) if the server is only slow";
const NO_HTTP: &str = "check host and port (RabbitMQ serves its pages of metrics on port 15692), and whether the \
    server wants https://";
const REFUSED: &str = "check the path and the port (RabbitMQ: /metrics, /metrics/per-object, \
    /metrics/detailed?family=… on port 15692)";
const NO_LOGIN: &str = "check user and password, or token: --user, --password-file and BELLOWS_SCRAPE_PASSWORD (in an \
    experiment, user and password-file of the scrape)";
const ENCODED: &str = "ask the server's administrator, or try --no-gzip";
const BROKEN: &str = "see the server's log; raise the time-out (--timeout; in an experiment, timeout of the scrape) \
    if the server is only slow";
const NO_END: &str = "select families on the server (RabbitMQ: /metrics/detailed?family=queue_coarse_metrics)";
const SLOW: &str = "raise the time-out (--timeout; in an experiment, timeout of the scrape)";
/// A longer time-out would make a request longer, and bring nothing.
const NOT_CLOSED: &str = "have the server close the connection behind the page, or say its length (Content-Length, or \
    chunks); a longer time-out does not help";
const NO_PAGE: &str = "check the path (RabbitMQ: /metrics or /metrics/per-object on port 15692)";

fn header<'a>(response: &'a Response<Body>, name: &HeaderName) -> &'a str {
    let value = response.headers().get(name);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A page that arrives.
struct Page<'a> {
    parser: Parser,
    selection: &'a mut Selection,
    first_wrong: Option<LineError>,
    /// The end that every OpenMetrics page has did not come: series may be missing.
    is_cut_off: bool,
    /// The end that every OpenMetrics page has came.
    is_whole: bool,
    /// Its length was not said: it ends where the server closes the connection.
    ends_when_closed: bool,
    /// When the last of it came.
    last_byte: Time,
    parse: Nanos,
}

impl Page<'_> {
    fn feed(&mut self, piece: &[u8]) {
        let begin = Clock.now();
        self.parser.feed(piece, |event| match event {
            PageEvent::Sample(sample) => self.selection.add(&sample),
            PageEvent::Eof => self.is_whole = true,
            PageEvent::Error(error) => {
                self.first_wrong.get_or_insert(error);
            }
            _ => {}
        });
        self.parse += Clock.now().since(begin);
    }

    fn finish(&mut self) {
        self.parser.finish(|event| match event {
            PageEvent::Sample(sample) => self.selection.add(&sample),
            PageEvent::Error(error) => {
                self.is_cut_off |= error.cause == LineCause::NoEof;
                self.first_wrong.get_or_insert(error);
            }
            _ => {}
        });
    }
}

/// Counts what is read.
struct Counted<'a, R> {
    inner: R,
    bytes: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + length as u64);
        Ok(length)
    }
}
