//! `[[scrape]]`: pages of metrics that are requested beside the load.

use std::path::PathBuf;

use measure::{Length, Problem, Refused};

use super::error::{ensure, wrong};
use super::flat_table::{FlatTable, flat_table};
use super::{BrokerKind, BrokerSpec, Experiment, MOST_NODES, Secret};
use web::scrape::{MOST_SELECTED, ScrapePlan, ScrapeUrl, Selector};

/// Shortest interval between two requests.
const SHORTEST: Length = Length(measure::Nanos::from_millis(10));
/// Stands in for a page's server in checks before the broker starts.
const NOT_STARTED: &str = "http://127.0.0.1:15692";
/// Series of a page at most: those that a run holds.
const MOST_SERIES: usize = 10_000;

flat_table! {
    /// A page of metrics that is requested while the load runs.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ScrapeSpec {
        /// Where the page is: `http://localhost:15692/metrics/per-object`; a path such as `/metrics/per-object` is one
        /// of a managed RabbitMQ's own pages, which bellows has it serve on a free port; of a cluster, each node's.
        "url" url: String as Address = String::new(),
        /// Prefix of its series' names; host, port and path where absent, or the path alone.
        "name" name: Option<String> as Label = None,
        /// Time between two requests.
        "every" every: Length = Length::seconds(5),
        /// Series that the run keeps, counters as rates; none where absent, so that only the cost of the page is kept.
        "select" select: Vec<Selector> = Vec::new(),
        /// Selected series at most.
        "max-series" max_series: usize = MOST_SELECTED,
        /// The longest that a request may take, its page included.
        "timeout" timeout: Length = Length::seconds(60),
        /// Whether the server may compress the page.
        "gzip" gzip: bool = true,
        /// User of the page.
        "user" user: Option<String> as User = None,
        /// Its password; without a user, a bearer token.
        "password" password: Option<Secret> = None,
        /// With TLS: a PEM file with the authorities to trust, instead of the machine's.
        "ca" ca: Option<PathBuf> = None,
        /// The servers of a path, one of each node, which the run fills in.
        servers: Vec<String> = Vec::new(),
    }
}

impl FlatTable for ScrapeSpec {
    const REQUIRED: Option<&'static str> = Some("url");
}

impl ScrapeSpec {
    /// Whether the page belongs to the broker under load, wherever that serves it.
    pub(super) fn is_of_broker(&self) -> bool {
        self.url.starts_with('/')
    }

    /// The page's whole addresses: of a path one at each node.
    fn addresses(&self, nodes: u32) -> Vec<String> {
        if !self.is_of_broker() {
            return vec![self.url.clone()];
        }
        if self.servers.is_empty() {
            let nodes = nodes.clamp(1, MOST_NODES) as usize;
            return vec![format!("{NOT_STARTED}{}", self.url); nodes];
        }
        self.servers.iter().map(|it| format!("{it}{}", self.url)).collect()
    }

    /// Checks that need no other part of the experiment but the broker.
    fn check(&self, number: usize, broker: &BrokerSpec) -> Result<(), Problem> {
        let key = |key: &str| format!("scrape.{number}.{key}");
        let is_known = !self.is_of_broker() || broker.kind == BrokerKind::Rabbitmq;
        let why = " is a path, but only a RabbitMQ that bellows starts has known pages";
        ensure(is_known, key("url"), why, "write http://HOST:PORT/PATH")?;
        for (name, length) in [("every", self.every), ("timeout", self.timeout)] {
            let help = format!("give at least {SHORTEST}");
            ensure(length >= SHORTEST, key(name), format!(" is {length}"), help)?;
        }
        let is_fine = (1..=MOST_SERIES).contains(&self.max_series);
        let help = format!("give 1 to {MOST_SERIES}");
        ensure(is_fine, key("max-series"), format!(" is {}", self.max_series), help)?;
        let has_login = self.user.is_none() || self.password.is_some();
        ensure(has_login, key("user"), " has no password", "give scrape.password, too")
    }

    fn plan(
        &self,
        number: usize,
        address: &str,
        node: Option<usize>,
        taken: &[ScrapePlan],
    ) -> Result<ScrapePlan, Problem> {
        let key = |key: &str| format!("scrape.{number}.{key}");
        let refuse = |refused: Refused| wrong(key("url"), format!(": {}", refused.what), refused.help);
        let url: ScrapeUrl = address.parse().map_err(refuse)?;
        // The port that was free just now tells nobody anything.
        let usual = match self.is_of_broker() {
            true => self.url.split(['?', '#']).next().unwrap_or_default(),
            false => url.short(),
        };
        let mut name = self.name.clone().unwrap_or_else(|| usual.to_owned());
        if let Some(node) = node {
            name += &format!(" of node {node}");
        }
        // Figures go by names in which capitals, spaces, - and _ are alike: the second of two such would be the first.
        let plain = archive::plain_name(&name);
        if let Some(other) = (taken.iter()).find(|other| archive::plain_name(&other.name) == plain) {
            let why = match other.name == name {
                true => format!(" is {name:?} for two pages"),
                false => format!(" is {name:?} for one page and {:?} for another, too similar for results", other.name),
            };
            return Err(wrong(key("name"), why, "give each page a name of its own"));
        }
        Ok(ScrapePlan {
            jitter: None,
            name,
            url,
            every: self.every.0,
            timeout: self.timeout.0,
            select: self.select.clone(),
            most_series: self.max_series,
            gzip: self.gzip,
            user: self.user.clone(),
            password: self.password.clone(),
            ca: self.ca.clone(),
        })
    }
}

impl Experiment {
    /// The pages to scrape beside the load: of a path one for each node.
    pub fn scrape_plans(&self) -> Result<Vec<ScrapePlan>, Problem> {
        let mut plans = Vec::new();
        for (number, spec) in self.scrape.iter().enumerate() {
            spec.check(number, &self.broker)?;
            let addresses = spec.addresses(self.broker.node_count());
            for (node, address) in addresses.iter().enumerate() {
                plans.push(spec.plan(number, address, (addresses.len() > 1).then_some(node), &plans)?);
            }
        }
        Ok(plans)
    }

    /// Whether a page of the broker's own metrics is requested, wherever it serves that.
    pub fn needs_metrics(&self) -> bool {
        self.scrape.iter().any(ScrapeSpec::is_of_broker)
    }

    /// Fills in the servers of the broker's own pages, which are known once the broker runs.
    pub fn with_metrics_servers(&self, servers: &[String]) -> Self {
        let mut resolved = self.clone();
        for scrape in &mut resolved.scrape {
            scrape.servers = servers.to_vec();
        }
        resolved
    }
}
