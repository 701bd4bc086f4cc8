//! HTTP probes: requests at fixed times, whether or not the last one came back.
//!
//! Request *i* is due at `start + i * every`, on a connection of its own where the one before is still busy.

mod counts;
mod request;

use std::fmt;

use measure::{Clock, Metric, Nanos, ScenarioRole, Time};
use transport::tls::ClientTls;
use wire::http1::RequestHead;
pub use wire::http1::{HttpUrl, UrlError};

use self::counts::{RequestCounts, RequestFigures};
use self::request::{Failure, RequestSlot, RequestStage, Turn};
use super::operations::{self, Buffers, LoopContext, Operation, OperationMetrics, OperationServer};
use super::{Operations, Scenario};
use crate::control::Interruption;
use crate::resolve::Addresses;
use crate::{
    ArrivalSchedule, Control, Endpoint, Error, Outcome, Phases, Requested, RunEvent, Silence, SliceSink, StartBarrier,
    System,
};

/// Requests of a probe, an operation of the event loop.
struct Requests {
    head: Vec<u8>,
    told_redirect: bool,
}

/// The part of the event loop that requests work with.
type RequestContext<'a> = LoopContext<'a, Requests>;

/// A probe of one URL.
#[derive(Clone)]
pub struct ProbePlan {
    /// Tells it from others: empty, or letters, digits and `-`.
    pub name: String,
    /// Where requests go. Its login is not used: [`ProbePlan::headers`] has what is sent.
    pub url: HttpUrl,
    /// The URL as results show it.
    pub label: String,
    /// The method.
    pub method: String,
    /// Headers, those that log in among them.
    pub headers: Vec<(String, String)>,
    /// How `https` is secured.
    pub tls: ClientTls,
    /// When requests are due.
    pub schedule: ArrivalSchedule,
    /// Requests that were due in this time are not counted.
    pub warmup: Nanos,
    /// How long requests are sent after that; zero: until a scenario beside it ends.
    pub measure: Nanos,
    /// Maximum requests in flight, and connections.
    pub most_open: usize,
    /// The longest that a request may take.
    pub timeout: Nanos,
}

/// Headers may hold a password, and so may a path.
impl fmt::Debug for ProbePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbePlan")
            .field("name", &self.name)
            .field("label", &self.label)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl ProbePlan {
    /// Requests in flight at most.
    pub const MOST_OPEN: usize = 1_000;
    /// Letters of a name at most.
    pub const LONGEST_NAME: usize = 30;

    /// Checks what can be checked before anything is begun. Errors: [`Error::Invalid`], with the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = self.name.len() <= Self::LONGEST_NAME && self.name.bytes().all(is_letter);
        let cause = format!("{:?} cannot name a probe", self.name);
        let refused = Error::invalid(cause, "use at most 30 lower-case letters, digits and -");
        refused.observed(&self.name).about("name").unless(is_name)?;
        let most = self.most_open;
        let refused = Error::invalid(format!("{most} requests in flight are out of range"), "use 1 to 1000");
        refused.observed(most).about("max-open").unless((1..=Self::MOST_OPEN).contains(&most))?;
        let refused = Error::invalid("a time-out of 0 is too short", "give a length, such as 10s");
        refused.about("timeout").unless(self.timeout > Nanos::ZERO)?;
        self.head().map_err(|error| Error::invalid(error.to_string(), "change it").about("url"))?;
        let of_ca = |error: Error| match &self.tls.ca {
            Some(file) if error.to_string().contains(&*file.to_string_lossy()) => error.about("ca"),
            _ => error,
        };
        self.endpoint().check_certificates().map_err(of_ca)?;
        Scenario::requested(self).map(drop)
    }

    /// The request's bytes.
    fn head(&self) -> Result<Vec<u8>, wire::http1::HttpError> {
        let mut head = Vec::new();
        let host = self.url.authority();
        RequestHead { method: &self.method, target: &self.url.target, host: &host, headers: &self.headers }
            .encode(&mut head)?;
        Ok(head)
    }

    /// The server's address, for those who look it up and connect.
    fn endpoint(&self) -> Endpoint {
        let mut endpoint = Endpoint::new(self.url.host.as_str(), self.url.port);
        endpoint.tls = self.url.is_secured.then(|| self.tls.clone());
        endpoint
    }

    /// Scheme, host and port, as failures name them.
    fn place(&self) -> String {
        let scheme = if self.url.is_secured { "https" } else { "http" };
        format!("{scheme}://{}", self.url.authority())
    }

    /// Method and target, as failures name them behind the place: `GET /path`.
    fn request(&self) -> String {
        let place = self.place();
        let target = self.label.strip_prefix(&place).unwrap_or(&self.label);
        let target = if target.is_empty() { "/" } else { target };
        format!("{} {target}", self.method)
    }

    /// The key in JSON: `probe`, or `probe_NAME`.
    fn scenario(&self) -> String {
        match self.name.as_str() {
            "" => "probe".to_owned(),
            name => format!("probe_{}", name.replace('-', "_")),
        }
    }

    fn metrics(&self) -> ProbeMetrics {
        ProbeMetrics::resolve(&self.scenario())
    }
}

/// Counts of [`Outcome::tallies`] go by the time at which a request was due: each that was due in the measured
/// phase is in exactly one of `completed`, `failed` and `not begun`, but where the run broke off.
impl Scenario for ProbePlan {
    fn name(&self) -> &'static str {
        self.metrics().operations().scenario
    }

    fn subject(&self) -> &str {
        &self.label
    }

    fn metrics(&self) -> Vec<Metric> {
        Self::metrics(self).all()
    }

    fn operations(&self) -> Option<Operations> {
        Some(Self::metrics(self).operations().operations())
    }

    fn requested(&self) -> Result<Option<Requested>, Error> {
        Requested::of(&self.schedule).map(Some)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        Some(self.most_open as u64)
    }

    /// The drain is as long as a request may take.
    fn phases(&self) -> Phases {
        Phases::new(self.warmup, self.measure, self.timeout)
    }

    /// Probes on a thread of its own, and hands what it tells to `sink` on this one.
    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        self.validate()?;
        operations::run::<Requests>(self, together, control, sink)
    }
}

measure::metrics! {
    /// The metrics of a probe.
    ///
    /// ```text
    /// due        sent                       first byte       last byte
    ///  |-- wait ---|------- first byte --------|---- body -----|
    ///              | connect, secure, if new   |
    ///              |------------- from send -------------------|
    ///  |--------------------- response ------------------------|
    /// ```
    ///
    /// `response` counts from the time that the request was due, and so is free of coordinated omission.
    struct ProbeMetrics of "probe" {
        response: latency() "probe_response", "response", "due time to the response's last byte; what has none counts \
            with the time that it waited: until its time-out, or the run's end";
        from_send: latency() "probe_from_send", "from send", "actual send time to the response's last byte";
        wait: part() "probe_wait", "wait", "due time to the actual send time";
        first_byte: part() "probe_first_byte", "first byte",
            "actual send time to the response's first byte; includes connecting, where that was needed";
        body: part() "probe_body", "body", "the response's first byte to its last";
        connect: latency() "probe_connect", "connect", "the TCP connection, where a new one was needed";
        secure: latency() "probe_secure", "secure", "the TLS handshake of a new connection";
        begun: counter("requests") "probe_begun", "begun", "requests that were sent";
        completed: counter("requests") "probe_completed", "completed", "responses with a status of 200 to 399";
        failed: counter("requests") "probe_failed", "failed", "requests without such a response";
        late: counter("requests") "probe_late", "late", "requests that were sent over 1 ms after they were due";
        in_flight: peak("requests") "probe_in_flight", "in flight", "most requests in flight at the same time";
        in_flight_at_end: counter("requests") "probe_in_flight_at_end", "in flight at the end",
            "requests that had neither answer nor time-out when the run ended";
        status_4xx: counter("requests") "probe_status_4xx", "status 4xx", "responses with a status of 400 to 499";
        status_5xx: counter("requests") "probe_status_5xx", "status 5xx", "responses with a status of 500 and more";
        timed_out: counter("requests") "probe_timed_out", "timed out",
            "requests without a whole response within the time-out";
        bytes: counter("bytes") "probe_bytes", "bytes", "bytes that were received, heads included";
        not_begun: counter("requests") "probe_not_begun", "not begun", "requests that were due and found no room \
            before the end: they count with the time that they had waited by then";
    }
    at the end: in_flight_at_end, not_begun
}

impl ProbeMetrics {
    fn operations(&self) -> OperationMetrics {
        OperationMetrics {
            scenario: self.begun.info().scenario,
            words: ["request", "requests"],
            role: ScenarioRole::Server,
            begun: self.begun,
            completed: self.completed,
            failed: self.failed,
            late: self.late,
            in_flight: self.in_flight,
            not_begun: self.not_begun,
            in_flight_at_end: Some(self.in_flight_at_end),
            wait: self.wait,
            latency: self.response,
            opened: None,
        }
    }
}

impl Operation for Requests {
    type Plan = ProbePlan;
    type Slot = RequestSlot;
    type Figures = RequestFigures;
    type Failure = Failure;

    const SUBJECT: &'static str = "a probe";
    const THREAD: &'static str = "bellows-probe";
    const POLL_INTERVAL: Nanos = Nanos(20_000_000);
    const FAILS_BESIDE_OTHERS: bool = false;

    fn schedule(plan: &ProbePlan) -> Option<&ArrivalSchedule> {
        Some(&plan.schedule)
    }

    fn counts(plan: &ProbePlan, now: Time) -> RequestCounts {
        RequestCounts::new(&plan.scenario(), now)
    }

    /// Looks the host up.
    fn connect(plan: &ProbePlan, control: &Control) -> Result<OperationServer<Self>, Interruption> {
        let endpoint = plan.endpoint();
        let tls = endpoint.connector()?;
        let addresses =
            Addresses::of(&System, &endpoint, plan.timeout, control).map_err(|reason| reason.at(&plan.place()))?;
        let head = plan.head().map_err(|error| Error::invalid(error.to_string(), "change it"))?;
        Ok(OperationServer { operation: Self { head, told_redirect: false }, addresses, tls, event: None })
    }

    fn begin(
        &mut self,
        slot: &mut RequestSlot,
        context: &mut RequestContext<'_>,
        due: Time,
        now: Time,
    ) -> Result<bool, Failure> {
        slot.begin(context.plan, &self.head, due, now);
        if slot.is_busy() {
            return Ok(true);
        }
        slot.dial(&self.head, context, now)?;
        Ok(false)
    }

    fn turn(
        &mut self,
        slot: &mut RequestSlot,
        context: &mut RequestContext<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Failure> {
        match slot.turn(context, buffers)? {
            Turn::Open => {}
            Turn::Closed => {
                slot.drop_connection();
                context.free.retain(|free| *free != slot.number);
                context.free.push_front(slot.number);
            }
            Turn::Ended(status) => self.ended(slot, context, status),
        }
        Ok(())
    }

    fn keep_time(slot: &mut RequestSlot, plan: &ProbePlan, heard: Time) -> Result<bool, Failure> {
        if slot.is_busy() && slot.deadline <= heard {
            let (timeout, stage) = (plan.timeout, slot.stage.name());
            let error = Error::TimedOut {
                endpoint: plan.place(),
                detail: format!("no complete response within {timeout} (it was {stage})"),
            };
            return Err(Failure { error: Box::new(error), is_loss: false });
        }
        Ok(slot.is_late(heard))
    }

    /// On a kept connection that the server closed meanwhile a request is sent again.
    fn failed(
        &mut self,
        slot: &mut RequestSlot,
        context: &mut RequestContext<'_>,
        failure: Failure,
    ) -> Result<(), Error> {
        let now = Clock.now();
        let retries = failure.is_loss && slot.may_retry(context.plan);
        let (due, sent) = (slot.due, slot.sent);
        slot.drop_connection();
        if retries {
            context.counts.own.resent += 1;
            return match slot.dial(&self.head, context, now) {
                Ok(()) => Ok(()),
                Err(failure) => self.failed(slot, context, failure),
            };
        }
        context.free_after_failure(slot.number);
        context.addresses.refresh(now);
        let counts = &mut context.counts;
        let is_given_up = matches!(*failure.error, Error::TimedOut { .. });
        counts.lost(sent, now, is_given_up);
        if is_given_up {
            let metrics = counts.own.metrics;
            counts.add(metrics.timed_out, due, 1);
            counts.record(metrics.response, due, now.since(due));
            counts.record(metrics.from_send, due, now.since(sent));
        }
        if let Some(event) = counts.fail_request(due, *failure.error) {
            context.say(event);
        }
        Ok(())
    }

    fn take_silences(counts: &mut RequestCounts, due_until: impl Fn(Time) -> f64, is_end: bool) -> Vec<Silence> {
        counts.take_silences(due_until, is_end)
    }

    /// The server has closed connections just when a request was on its way, and may have seen that twice.
    fn last_note(context: &RequestContext<'_>) -> Option<String> {
        let resent = Some(context.counts.own.resent).filter(|resent| *resent > 0)?;
        let (resent, place) = (measure::counted(resent, "request"), context.plan.place());
        Some(format!("{resent} to {place} sent twice: the server closed the kept connection without an answer"))
    }
}

impl Requests {
    /// A response has come whole.
    fn ended(&mut self, slot: &RequestSlot, context: &mut RequestContext<'_>, status: u16) {
        let due = slot.due;
        if slot.stage == RequestStage::Kept {
            context.free.push_back(slot.number);
        } else {
            context.free.push_front(slot.number);
        }
        let (plan, counts) = (context.plan, &mut context.counts);
        if status < 400 {
            if let Some(event) = counts.complete(due) {
                context.say(event);
            }
            if status >= 300 && !std::mem::replace(&mut self.told_redirect, true) {
                let label = &plan.label;
                let note = format!("{label} answers with status {status}, which is not followed");
                context.say(RunEvent::Note(note));
            }
            return;
        }
        let metrics = counts.own.metrics;
        let group = if status < 500 { metrics.status_4xx } else { metrics.status_5xx };
        counts.add(group, due, 1);
        let help = match status {
            401 | 403 => "check user and password or token (--user and BELLOWS_PROBE_PASSWORD, --bearer-file)",
            404 => "check the path",
            _ => "check the server's log",
        };
        let error = Error::Refused {
            endpoint: plan.place(),
            action: format!("complete {}", plan.request()),
            detail: format!("status {status}"),
            help: help.to_owned(),
        };
        if let Some(event) = counts.fail_request(due, error) {
            context.say(event);
        }
    }
}
