//! `[[probe]]`: HTTP requests at fixed times, alone or beside the load.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use load::scenario::probe::{HttpUrl, ProbePlan, UrlError};
use load::{ArrivalSchedule, ClientTls, Error};
use measure::{Length, Nanos, Problem, Rate};
use serde::{Deserialize, Serialize};

use super::error::{ensure, wrong};
use super::flat_table::{FlatTable, flat_table};
use super::{BrokerKind, BrokerSpec, Experiment, ScheduleSpec, ScrapeSpec, Secret};
use web::management::ManagementOptions;

/// Path of the page of queues at its server.
pub const QUEUES_PATH: &str = "/queues";
/// Stands in for the management API in checks before the broker starts.
const NOT_STARTED: &str = "http://127.0.0.1:15672";
/// The user of a managed node.
const GUEST: &str = "guest";
/// Bytes of a token at most.
const LONGEST_TOKEN: u64 = 64 << 10;
/// Probes of an experiment at most: each has a thread of its own.
const MOST_PROBES: usize = 16;

/// A page that a run serves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnPage {
    /// Counts of the broker's queues, as `bellows erlang queues --listen` serves them.
    Queues,
}

/// Addresses of pages and APIs that are known only when the broker runs.
#[derive(Clone, Debug, Default)]
pub struct ProbedAddresses {
    /// The management API, and who logs in there.
    pub management: Option<ManagementOptions>,
    /// Servers of pages of our own.
    pub pages: Vec<(OwnPage, String)>,
}

impl ProbedAddresses {
    /// The server of a page.
    pub fn of_page(&self, page: OwnPage) -> Option<&str> {
        self.pages.iter().find(|(it, _)| *it == page).map(|(_, address)| address.as_str())
    }
}

flat_table! {
    /// HTTP requests at fixed times, whether or not the last one came back.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ProbeSpec {
        /// Tells several probes apart: lower-case letters, digits and `-`.
        "name" name: String as Label = String::new(),
        /// Where requests go; a path such as `/api/queues?columns=name` goes to the management API of a managed
        /// RabbitMQ, or of an attached one with `broker.management`.
        "url" url: String as Address = String::new(),
        /// A page that bellows serves while the run is on, in place of `url`.
        "page" page: Option<OwnPage> = None,
        /// Time from one request to the next; 2 s if absent.
        "every" every: Option<Length> = None,
        /// Requests per second, such as 20, 2k or 30/min, in place of `every`.
        "rate" rate: Option<Rate> = None,
        /// A rate that changes, in place of both.
        "schedule" schedule: Option<ScheduleSpec> = None,
        /// Method of the requests.
        "method" method: String as Nothing = "GET".to_owned(),
        /// Further headers; values are not archived.
        "headers" headers: BTreeMap<String, String> = BTreeMap::new(),
        /// User of basic authentication; the password is the URL's or that of `BELLOWS_PROBE_PASSWORD`.
        "user" user: Option<String> as User = None,
        /// File with a bearer token; that of `BELLOWS_PROBE_TOKEN` if absent.
        "bearer-file" bearer_file: Option<PathBuf> = None,
        /// Longest that a request may take.
        "timeout" timeout: Length = Length::seconds(10),
        /// Maximum requests in flight, each on a connection of its own.
        "max-open" max_open: usize = 100,
        /// PEM file with the authorities to trust, in place of the machine's own.
        "ca" ca: Option<PathBuf> = None,
        /// Accept any certificate.
        "insecure" insecure: bool = false,
        /// Never read from a file and never written to one.
        password: Option<Secret> = None,
        /// The server of a path or page, which the run fills in.
        server: Option<String> = None,
    }
}

impl FlatTable for ProbeSpec {
    const SPARSE: &'static [&'static str] = &["name", "url", "insecure"];
}

impl ProbeSpec {
    /// The variable with the password of basic authentication.
    pub const PASSWORD_VARIABLE: &str = "BELLOWS_PROBE_PASSWORD";
    /// The variable with a bearer token.
    pub const TOKEN_VARIABLE: &str = "BELLOWS_PROBE_TOKEN";

    /// Whether it asks the management API of the broker under load, wherever that is.
    fn is_management(&self) -> bool {
        self.page.is_none() && self.url.starts_with('/')
    }

    /// Lets it ask this management API.
    fn ask_management(&mut self, api: Option<&ManagementOptions>) {
        let logs_in = self.user.is_some() || self.bearer_file.is_some();
        match api {
            Some(api) => {
                self.server = Some(api.url.trim().trim_end_matches('/').to_owned());
                self.ca = self.ca.take().or_else(|| api.ca.clone());
                self.insecure |= api.insecure;
                if !logs_in {
                    self.user = Some(api.user.clone());
                    self.password = Some(api.password.clone());
                }
            }
            None if !logs_in => self.user = Some(GUEST.to_owned()),
            None => {}
        }
    }

    /// The target of requests, and its name in results. A server's port that was free just now says nothing.
    fn target(&self) -> (String, Option<String>) {
        let server = self.server.as_deref().unwrap_or(NOT_STARTED);
        match self.page {
            Some(OwnPage::Queues) => {
                (format!("{server}{QUEUES_PATH}"), Some("the page of queues that bellows serves".to_owned()))
            }
            None if self.is_management() => {
                (format!("{server}{}", self.url), Some(format!("{} of the management API", self.url)))
            }
            None => (self.url.clone(), None),
        }
    }

    /// Checks that it asks one thing, and a page of queues a broker that has them; else key, reason and remedy.
    fn check_target(&self, broker: &BrokerSpec) -> Result<(), (&'static str, &'static str, &'static str)> {
        match (self.url.is_empty(), self.page) {
            (true, None) => Err(("url", " is missing", "write http://HOST:PORT/PATH, or give a page")),
            (false, Some(_)) => Err(("page", ": a probe takes one of url and page", "leave one out")),
            (true, Some(OwnPage::Queues)) if !broker.has_erlang() => Err((
                "page",
                " needs a RabbitMQ's Erlang node, and none is known",
                "use a managed RabbitMQ, or name the node of an attached one with broker.node",
            )),
            _ => Ok(()),
        }
    }

    fn schedule(&self) -> Result<ArrivalSchedule, Error> {
        if let Some(schedule) = &self.schedule {
            return schedule.resolve(false);
        }
        let every = self.every.unwrap_or(Length::seconds(2));
        let rate = self.rate.or_else(|| Rate::per_second(1.0 / every.0.as_secs_f64()));
        let refused = || Error::invalid("requests every 0 s cannot be sent", "give a length").about("every");
        rate.map(ArrivalSchedule::constant).ok_or_else(refused)
    }

    /// The `Authorization` header: the probe's own, the bearer token, or user and password.
    fn authorization(&self, url: &HttpUrl) -> Result<Option<String>, Problem> {
        if let Some(token) = self.token()? {
            return Ok(Some(format!("Bearer {token}")));
        }
        let login = url.login.as_ref();
        let user = self.user.as_deref().or(login.map(|(user, _)| user.as_str()));
        let Some(user) = user else { return Ok(None) };
        let given = self.password.as_ref().map(|it| it.expose().to_owned());
        let of_url = login.map(|(_, password)| password.expose().to_owned());
        let of_url = of_url.filter(|password| !password.is_empty());
        let password = given
            .or(of_url)
            .or_else(|| std::env::var(Self::PASSWORD_VARIABLE).ok())
            .or_else(|| (user == GUEST).then(|| GUEST.to_owned()));
        let Some(password) = password else {
            let help = format!("set {}", Self::PASSWORD_VARIABLE);
            return Err(Problem::new("there is no password for the probe's user", user, help).about("user"));
        };
        let refused = Problem::new("the probe's user has a :", user, "basic authentication has no such users");
        refused.about("user").unless(!user.contains(':'))?;
        Ok(Some(web::http::basic(user, &password)))
    }

    fn token(&self) -> Result<Option<String>, Problem> {
        let text = match &self.bearer_file {
            Some(file) => Some(read_token(file)?),
            // Who names a user means that one.
            None if self.user.is_some() => None,
            None => std::env::var(Self::TOKEN_VARIABLE).ok(),
        };
        Ok(text.map(|text| text.trim().to_owned()))
    }

    fn plan(&self, experiment: &Experiment) -> Result<ProbePlan, Error> {
        let (given, label) = self.target();
        let refused = |error: UrlError| {
            let help = "write http://HOST:PORT/PATH or https://HOST:PORT/PATH";
            Error::Invalid(Problem::new(error.what, "", help).about("url"))
        };
        let url = HttpUrl::parse(&given).map_err(refused)?;
        let mut headers = vec![
            ("User-Agent".to_owned(), concat!("bellows/", env!("CARGO_PKG_VERSION")).to_owned()),
            ("Accept".to_owned(), "*/*".to_owned()),
        ];
        headers.retain(|(own, _)| !self.headers.keys().any(|it| it.eq_ignore_ascii_case(own)));
        headers.extend(self.headers.clone());
        let has_own = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
        if !headers.iter().any(has_own)
            && let Some(value) = self.authorization(&url).map_err(Error::Invalid)?
        {
            headers.push(("Authorization".to_owned(), value));
        }
        let plan = ProbePlan {
            name: self.name.clone(),
            label: web::redact::text(&label.unwrap_or_else(|| url.to_string())),
            url,
            method: self.method.clone(),
            headers,
            tls: ClientTls { ca: self.ca.clone(), insecure: self.insecure, ..ClientTls::default() },
            schedule: self.schedule()?,
            warmup: experiment.phases.warmup.0,
            measure: experiment.phases.measure.0,
            most_open: self.max_open,
            timeout: self.timeout.0,
        };
        plan.validate()?;
        Ok(plan)
    }
}

/// The first bytes of a file with a token.
fn read_token(file: &Path) -> Result<String, Problem> {
    let unreadable = |error: std::io::Error| {
        let name = file.display();
        Problem::new(format!("cannot read the bearer token of {name}"), error, "give a readable file")
            .about("bearer-file")
    };
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(LONGEST_TOKEN).read_to_string(&mut text))
        .map_err(unreadable)?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

impl Experiment {
    /// Whether a probe asks the broker's management API.
    pub fn needs_management(&self) -> bool {
        self.probe.iter().any(ProbeSpec::is_management)
    }

    /// Whether its only load are probes of whole addresses, and nothing of it speaks to a broker.
    pub fn asks_servers_alone(&self) -> bool {
        let BrokerSpec { kind, node, management, .. } = &self.broker;
        let asks_broker = *kind != BrokerKind::Attach || node.is_some() || management.is_some();
        self.probes_servers_alone() && !asks_broker
    }

    /// Whether its only load are probes of whole addresses.
    fn probes_servers_alone(&self) -> bool {
        let is_other_load = !self.load.is_empty() || self.churn.is_some() || !self.trace.is_empty();
        let is_whole = |probe: &ProbeSpec| probe.page.is_none() && !probe.is_management();
        !self.probe.is_empty() && self.probe.iter().all(is_whole) && !is_other_load
    }

    /// Chooses the broker's kind where nobody wrote one: none is started where nothing needs it.
    pub(super) fn settle_broker(&mut self) {
        if self.origin.tells_of("broker") {
            return;
        }
        let has_pages = self.scrape.iter().any(ScrapeSpec::is_of_broker);
        let needs_broker = has_pages || !self.fault.is_empty() || !self.prepare.is_empty();
        let is_alone = self.probes_servers_alone() && !needs_broker;
        let started = BrokerSpec::default();
        let attached = BrokerSpec { kind: BrokerKind::Attach, ..BrokerSpec::default() };
        // Another one was chosen by an option.
        if self.broker == started && is_alone {
            self.broker = attached;
        } else if self.broker == attached && !is_alone {
            self.broker = started;
        }
    }

    /// The first probed server, where there is no broker: the process behind its port is watched.
    pub(super) fn probed_server(&self) -> Option<HttpUrl> {
        let first = self.probe.first().filter(|_| self.asks_servers_alone())?;
        HttpUrl::parse(&first.url).ok()
    }

    /// Pages of our own that probes ask, each once.
    pub fn own_pages(&self) -> BTreeSet<OwnPage> {
        self.probe.iter().filter_map(|probe| probe.page).collect()
    }

    /// Fills in addresses that are known only once the broker runs. Probes of the management API use the broker's login
    /// of it, unless they have their own.
    pub fn with_addresses(&self, addresses: &ProbedAddresses) -> Self {
        let mut resolved = self.clone();
        for probe in &mut resolved.probe {
            if let Some(page) = probe.page {
                probe.server = addresses.of_page(page).map(str::to_owned);
            } else if probe.is_management() {
                probe.ask_management(addresses.management.as_ref());
            }
        }
        resolved
    }

    /// The probes, resolved.
    pub fn probe_plans(&self) -> Result<Vec<ProbePlan>, Error> {
        let plans = self.probe.iter().enumerate();
        plans.map(|(i, spec)| spec.plan(self).map_err(|error| error.within(&format!("probe.{i}")))).collect()
    }

    /// Checks for keys that exclude each other, and probes that could not be told apart.
    pub(super) fn check_probes(&self) -> Result<(), Problem> {
        let why = format!(" has {} entries; at most {MOST_PROBES} are allowed", self.probe.len());
        ensure(self.probe.len() <= MOST_PROBES, "probe", why, "leave some out")?;
        let others = !self.load.is_empty() || self.churn.is_some();
        let is_fine = self.probe.is_empty() || others || self.phases.measure.0 != Nanos::ZERO;
        ensure(is_fine, "phases.measure", ": probes alone would not end", "give it a length")?;
        for (i, probe) in self.probe.iter().enumerate() {
            let key = |key: &str| format!("probe.{i}.{key}");
            let before = self.probe.iter().take(i);
            // Figures go by names in which these are alike: of two such, the second one's would be the first one's.
            let name = archive::plain_name(&probe.name);
            let is_new = !before.into_iter().any(|it| archive::plain_name(&it.name) == name);
            let why = ": another probe has this name, apart from capitals, spaces, - and _";
            ensure(is_new, key("name"), why, "give each probe a name of its own")?;
            let paces = [
                ("every", probe.every.is_some()),
                ("rate", probe.rate.is_some()),
                ("schedule", probe.schedule.is_some()),
            ];
            let mut paces = paces.iter().filter(|(_, given)| *given);
            if let (Some(_), Some((second, _))) = (paces.next(), paces.next()) {
                return Err(wrong(key(second), ": a probe takes one of every, rate and schedule", "leave one out"));
            }
            probe.check_target(&self.broker).map_err(|(at, why, help)| wrong(key(at), why, help))?;
            let is_known = !probe.is_management() || self.broker.has_management();
            let help = "write http://HOST:PORT/PATH, or name the API of an attached RabbitMQ as {broker.management}";
            ensure(is_known, key("url"), " is a path, but no management API is known", help)?;
        }
        Ok(())
    }

    /// Hides secrets of probes.
    pub(super) fn hide_probes(&mut self) {
        for probe in &mut self.probe {
            probe.url = match HttpUrl::parse(&probe.url) {
                Ok(url) => web::redact::text(&url.to_string()),
                Err(_) if probe.is_management() => web::redact::text(&probe.url),
                Err(_) => web::redact::url(&probe.url),
            };
            for value in probe.headers.values_mut() {
                web::redact::BLOT.clone_into(value);
            }
        }
    }
}
