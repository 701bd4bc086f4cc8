//! HTTP probes: requests at fixed times, whether or not the last one came back.
//!
//! Request *i* is due at `start + i * every`, on a connection of its own where the one before is still busy.

mod counts;
mod metrics;
mod request;
mod requests;

use std::fmt;

use measure::{Metric, Nanos};
use transport::tls::ClientTls;
use wire::http1::RequestHead;
pub use wire::http1::{HttpUrl, UrlError};

use self::metrics::ProbeMetrics;
use super::operations::{self, LoopContext};
use super::{Operations, Scenario};
use crate::{
    ArrivalSchedule, Control, Endpoint, Error, Outcome, Phases, Requested, SliceSink, Together,
};

/// Requests of a probe, an operation of the event loop.
struct Requests {
    /// The bytes of each request.
    head: Vec<u8>,
    /// A redirect was told of.
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

    /// Checks what can be checked before anything is begun.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.name.len() > Self::LONGEST_NAME || !self.name.bytes().all(is_letter) {
            return Err(Error::invalid(
                format!("{:?} cannot name a probe", self.name),
                "take at most 30 lower-case letters, digits and -",
            )
            .observed(&self.name)
            .about("name"));
        }
        if self.most_open == 0 || self.most_open > Self::MOST_OPEN {
            return Err(Error::invalid(
                format!("{} requests in flight cannot be had", self.most_open),
                "ask for 1 to 1000",
            )
            .observed(self.most_open)
            .about("max-open"));
        }
        if self.timeout == Nanos::ZERO {
            let help = "give a length, such as 10s";
            return Err(Error::invalid("a time-out of 0 answers nothing", help).about("timeout"));
        }
        self.head()
            .map_err(|error| Error::invalid(error.to_string(), "change it").about("url"))?;
        self.endpoint().check_certificates()?;
        Scenario::requested(self).map(drop)
    }

    /// The request's bytes.
    fn head(&self) -> Result<Vec<u8>, wire::http1::HttpError> {
        let mut head = Vec::new();
        let host = self.url.authority();
        RequestHead {
            method: &self.method,
            target: &self.url.target,
            host: &host,
            headers: &self.headers,
        }
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

    /// In requests.
    fn requested(&self) -> Result<Option<Requested>, Error> {
        Requested::of(&self.schedule).map(Some)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        Some(self.most_open as u64)
    }

    fn connections(&self) -> u64 {
        self.most_open as u64
    }

    /// The drain is as long as a request may take.
    fn phases(&self) -> Phases {
        Phases::new(self.warmup, self.measure, self.timeout)
    }

    /// Probes on a thread of its own, and hands what it tells to `sink` on this one.
    fn run(
        &self,
        together: &Together,
        control: &Control,
        sink: &mut dyn SliceSink,
    ) -> Result<Outcome, Error> {
        self.validate()?;
        operations::run::<Requests>(self, together, control, sink)
    }
}
