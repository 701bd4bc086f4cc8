//! `[[scrape]]`: pages of metrics that are requested beside the load.

use std::path::PathBuf;

use measure::{Length, Problem, Refused};
use serde::{Deserialize, Serialize};

use super::validate::wrong;
use super::{BrokerKind, BrokerSpec, Experiment, Hidden};
use crate::scrape::{MOST_SELECTED, ScrapePlan, ScrapeUrl, Selector};

/// More often nobody needs a page.
const SHORTEST: Length = Length(measure::Nanos::from_millis(10));
/// Where a page of a broker that is not started yet stands in checks.
const NOT_STARTED: &str = "http://127.0.0.1:15692";
/// Series of a page at most: those that a run holds.
const MOST_SERIES: usize = 10_000;

/// A page of metrics that is requested while the load runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScrapeSpec {
    /// Where the page is: `http://localhost:15692/metrics/per-object`; a path such as `/metrics/per-object` is one of a managed
    /// RabbitMQ's own pages, which bellows has it serve on a free port.
    pub url: String,
    /// What its series are called after; host, port and path where absent, or the path alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time between two requests.
    #[serde(default = "ScrapeSpec::usual_every")]
    pub every: Length,
    /// Series that the run keeps, counters as rates; none where absent, so that only the cost of the page is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<Selector>,
    /// Selected series at most.
    #[serde(default = "ScrapeSpec::usual_most")]
    pub max_series: usize,
    /// The longest that a request may take, its page included.
    #[serde(default = "ScrapeSpec::usual_timeout")]
    pub timeout: Length,
    /// Whether the server may compress the page.
    #[serde(default = "ScrapeSpec::usual_gzip")]
    pub gzip: bool,
    /// User of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its password; without a user, a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// With TLS: a PEM file with the authorities to trust, instead of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The server of a path, which the run fills in.
    #[serde(skip)]
    pub server: Option<String>,
}

impl ScrapeSpec {
    /// Whether it is a page of the broker under load, wherever that serves it.
    pub(super) fn is_of_broker(&self) -> bool {
        self.url.starts_with('/')
    }

    /// The page's whole address.
    fn address(&self) -> String {
        match self.is_of_broker() {
            true => format!(
                "{}{}",
                self.server.as_deref().unwrap_or(NOT_STARTED),
                self.url
            ),
            false => self.url.clone(),
        }
    }

    const fn usual_every() -> Length {
        Length::seconds(5)
    }

    const fn usual_most() -> usize {
        MOST_SELECTED
    }

    const fn usual_timeout() -> Length {
        Length::seconds(60)
    }

    const fn usual_gzip() -> bool {
        true
    }

    fn plan(
        &self,
        number: usize,
        broker: &BrokerSpec,
        taken: &[ScrapePlan],
    ) -> Result<ScrapePlan, Problem> {
        let key = |key: &str| format!("scrape.{number}.{key}");
        if self.is_of_broker() && !broker.serves_metrics() {
            return Err(wrong(
                key("url"),
                " is a path, and only a single RabbitMQ that bellows starts has pages that it could be one of",
                "write http://HOST:PORT/PATH",
            ));
        }
        let url: ScrapeUrl = self.address().parse().map_err(|refused: Refused| {
            wrong(key("url"), format!(": {}", refused.what), refused.help)
        })?;
        for (name, length) in [("every", self.every), ("timeout", self.timeout)] {
            if length < SHORTEST {
                let help = format!("give at least {SHORTEST}");
                return Err(wrong(key(name), format!(" is {length}"), help));
            }
        }
        if self.max_series == 0 || self.max_series > MOST_SERIES {
            let help = format!("give 1 to {MOST_SERIES}");
            return Err(wrong(
                key("max-series"),
                format!(" is {}", self.max_series),
                help,
            ));
        }
        if self.user.is_some() && self.password.is_none() {
            return Err(wrong(
                key("user"),
                " has no password",
                "give scrape.password, too",
            ));
        }
        // The port that was free just now tells nobody anything.
        let usual = match self.is_of_broker() {
            true => self.url.split(['?', '#']).next().unwrap_or_default(),
            false => url.short(),
        };
        let name = self.name.clone().unwrap_or_else(|| usual.to_owned());
        // Figures go by names in which capitals, spaces, - and _ are alike: of two such, the second one's would be the first one's.
        let plain = archive::plain_name(&name);
        if let Some(other) = (taken.iter()).find(|other| archive::plain_name(&other.name) == plain)
        {
            let why = match other.name == name {
                true => format!(" is {name:?} for two pages"),
                false => format!(
                    " is {name:?} for one page and {:?} for another, which results do not tell apart",
                    other.name
                ),
            };
            return Err(wrong(key("name"), why, "give each page a name of its own"));
        }
        Ok(ScrapePlan {
            name,
            url,
            every: self.every.0,
            timeout: self.timeout.0,
            select: self.select.clone(),
            most_series: self.max_series,
            gzip: self.gzip,
            user: self.user.clone(),
            password: self.password.as_deref().map(Hidden::new),
            ca: self.ca.clone(),
        })
    }
}

impl Experiment {
    /// What is requested beside the load.
    pub(crate) fn scrape_plans(&self) -> Result<Vec<ScrapePlan>, Problem> {
        let mut plans = Vec::new();
        for (number, spec) in self.scrape.iter().enumerate() {
            plans.push(spec.plan(number, &self.broker, &plans)?);
        }
        Ok(plans)
    }

    /// Whether a page of the broker's own metrics is requested, wherever it serves that.
    pub(crate) fn needs_metrics(&self) -> bool {
        self.scrape.iter().any(ScrapeSpec::is_of_broker)
    }

    /// The same with the server of such pages, which is known once the broker runs.
    pub(crate) fn with_metrics_server(&self, server: Option<&str>) -> Self {
        let mut resolved = self.clone();
        for scrape in &mut resolved.scrape {
            scrape.server = server.map(str::to_owned);
        }
        resolved
    }
}

impl BrokerSpec {
    /// Whether bellows can have it serve a page of metrics: each node of a cluster would have one of its own.
    fn serves_metrics(&self) -> bool {
        self.kind == BrokerKind::Rabbitmq && self.node_count() == 1
    }
}
