//! `[[scrape]]`: pages of metrics that are requested beside the load.

use std::path::PathBuf;

use measure::{Length, Problem, Refused};
use serde::{Deserialize, Serialize};

use super::validate::wrong;
use super::{Experiment, Hidden};
use crate::scrape::{MOST_SELECTED, ScrapePlan, ScrapeUrl, Selector};

/// More often nobody needs a page.
const SHORTEST: Length = Length(measure::Nanos::from_millis(10));
/// Series of a page at most: those that a run holds.
const MOST_SERIES: usize = 10_000;

/// A page of metrics that is requested while the load runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScrapeSpec {
    /// Where the page is: `http://localhost:15692/metrics/per-object`.
    pub url: String,
    /// What its series are called after; host, port and path where absent.
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
}

impl ScrapeSpec {
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

    fn plan(&self, number: usize, taken: &[ScrapePlan]) -> Result<ScrapePlan, Problem> {
        let key = |key: &str| format!("scrape.{number}.{key}");
        let url: ScrapeUrl = self.url.parse().map_err(|refused: Refused| {
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
        let name = self.name.clone().unwrap_or_else(|| url.short().to_owned());
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
            plans.push(spec.plan(number, &plans)?);
        }
        Ok(plans)
    }
}
