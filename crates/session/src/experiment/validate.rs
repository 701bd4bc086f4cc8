//! All that can be checked of an experiment before anything is started.

use load::scenario::Scenario;
use load::{Endpoint, QueueType};
use measure::Problem;

use super::{BrokerKind, BrokerSpec, Experiment, ExperimentError, LoadSpec};

/// A sentence as a problem: what is wrong, with the key that it is about in front, and behind a semicolon the
/// remedy.
pub(super) fn problem_of(text: &str) -> Problem {
    let (what, help) = text
        .rsplit_once("; ")
        .unwrap_or((text, "give another value"));
    let key = what.split([' ', ':', '}']).next().unwrap_or_default();
    let key = key.trim_start_matches('{');
    let problem = Problem::new(what, "", help);
    match key.contains('.') || what.starts_with('{') {
        true => problem.about(key),
        false => problem,
    }
}

/// More destinations are a slip of the keyboard: each needs a connection per client.
const MOST_DESTINATIONS: usize = 100_000;

impl Experiment {
    /// Checks all that can be checked before anything is started.
    ///
    /// # Errors
    /// The first value that makes no sense, with the remedy.
    pub fn validate(&self) -> Result<(), ExperimentError> {
        self.check_broker()?;
        let problem = self
            .loads_problem()
            .or_else(|| self.profile_problem())
            .or_else(|| self.requests_problem())
            .map(|text| problem_of(&text))
            .or_else(|| self.check_faults().err())
            .or_else(|| self.churn_problem().map(|text| problem_of(&text)));
        match problem {
            Some(problem) => Err(self.wrong(problem)),
            None => self
                .check_plans()
                .map_err(|error| self.wrong(self.with_key_of_rate(error.problem()))),
        }
    }

    /// The part of [`Experiment::validate`] that is about the broker.
    pub(crate) fn check_broker(&self) -> Result<(), ExperimentError> {
        match broker_problem(&self.broker) {
            None => Ok(()),
            Some(text) => Err(self.wrong(problem_of(&text))),
        }
    }

    fn wrong(&self, problem: Problem) -> ExperimentError {
        ExperimentError::new(self.origin.explain(problem))
    }

    /// Plans the whole load, as if the broker were there.
    fn check_plans(&self) -> Result<(), load::Error> {
        let endpoint = self.endpoint().map_err(|error| error.about("broker.url"))?;
        endpoint.check_certificates()?;
        let churn = self.churn_plan(&endpoint)?;
        let messages = match self.load.is_empty() {
            true => None,
            false => Some(self.plan(&endpoint, 0)?),
        };
        if let Some(churn) = &churn {
            churn.validate()?;
        }
        if let Some(messages) = &messages {
            load::validate(messages)?;
        }
        let scenarios = [
            churn.as_ref().map(|it| it as &dyn Scenario),
            messages.as_ref().map(|it| it as &dyn Scenario),
        ];
        load::make_room(
            scenarios
                .into_iter()
                .flatten()
                .map(Scenario::connections)
                .sum(),
        )
    }

    /// A plan has one word for what a rate and a schedule say.
    fn with_key_of_rate(&self, problem: Problem) -> Problem {
        let Some(table) = problem.about.strip_suffix("rate") else {
            return problem;
        };
        let group = table
            .strip_prefix("load.")
            .and_then(|i| i.trim_end_matches('.').parse().ok());
        let has_schedule = match group {
            Some(group) => self
                .load
                .get::<usize>(group)
                .is_some_and(|spec| spec.schedule.is_some()),
            None => self
                .churn
                .as_ref()
                .is_some_and(|churn| churn.schedule.is_some()),
        };
        match has_schedule {
            true => {
                let key = format!("{table}schedule");
                problem.about(key)
            }
            false => problem,
        }
    }

    fn loads_problem(&self) -> Option<String> {
        if self.load.is_empty() && self.churn.is_none() {
            return Some(
                "there is no load; add a [[load]] with a destination, or a [churn]".to_owned(),
            );
        }
        let of_one = |(i, spec)| {
            self.load_problem(spec)
                .map(|text| format!("{{load.{i}.{text}"))
        };
        if let Some(text) = self.load.iter().enumerate().find_map(of_one) {
            return Some(text);
        }
        let elsewhere = self.load.iter().position(|spec| spec.url.is_some());
        let at = elsewhere.filter(|_| self.broker.kind != BrokerKind::Attach)?;
        Some(format!(
            "{{load.{at}.url}} has no effect on broker.kind = {:?}; leave it out, or set \
             broker.kind = \"attach\"",
            self.broker.kind.name()
        ))
    }

    /// What is wrong with a group, from its key on.
    fn load_problem(&self, spec: &LoadSpec) -> Option<String> {
        let many = spec.destinations.len();
        if many > MOST_DESTINATIONS {
            return Some(format!(
                "destinations}} names {many}; {MOST_DESTINATIONS} are the most"
            ));
        }
        if spec.num_destinations == 0 || spec.num_destinations > MOST_DESTINATIONS {
            return Some(format!(
                "num-destinations}} = {} is not between 1 and {MOST_DESTINATIONS}; give a number that is",
                spec.num_destinations
            ));
        }
        if self.broker.kind == BrokerKind::Embedded && spec.request_reply {
            return Some(
                "request-reply}: the embedded broker has no direct reply-to; take \
                 broker.kind = \"rabbitmq\""
                    .to_owned(),
            );
        }
        if self.broker.kind == BrokerKind::Embedded && spec.queue_type != QueueType::Classic {
            return Some(
                "queue-type}: the embedded broker has classic queues only; take \"classic\", or \
                 broker.kind = \"rabbitmq\""
                    .to_owned(),
            );
        }
        arrivals_problem(spec)
    }

    fn requests_problem(&self) -> Option<String> {
        let asking = |spec: &&LoadSpec| spec.request_reply;
        let asks = self.load.iter().filter(asking).any(LoadSpec::has_producers);
        if asks != self.load.iter().filter(asking).any(LoadSpec::has_consumers) {
            return Some(
                "request-reply needs producers that ask and consumers that answer; ask for both"
                    .to_owned(),
            );
        }
        let commits = |spec: &LoadSpec| spec.request_reply && spec.commit_every > 0;
        let at = self.load.iter().position(commits)?;
        Some(format!(
            "{{load.{at}.commit-every}} has no place beside {{request-reply}}: requests are answered by \
             replies, and transactions by commits; leave out one of the two"
        ))
    }

    /// Where an attached broker is. Where nothing is said, that is the first load's, if every load has its own, and
    /// this machine's default port otherwise: nobody is watched with whom nobody talks.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, load::Error> {
        let only_own = self.churn.is_none() && self.load.iter().all(|spec| spec.url.is_some());
        let first = self.load.first().filter(|_| only_own);
        let own = first.and_then(|spec| spec.url.as_deref());
        self.endpoint_at(self.broker.url.as_deref().or(own))
    }

    /// Where a group of its own broker connects.
    pub(super) fn own_endpoint(&self, spec: &LoadSpec) -> Result<Option<Endpoint>, load::Error> {
        let url = spec.url.as_deref();
        url.map(|url| self.endpoint_at(Some(url))).transpose()
    }

    /// All places that the load connects to, where a broker is attached to.
    pub(crate) fn loaded_endpoints(&self) -> Result<Vec<Endpoint>, load::Error> {
        let mut all = self.further_endpoints()?;
        for spec in &self.load {
            all.extend(self.own_endpoint(spec)?);
        }
        Ok(all)
    }

    /// Further nodes of an attached broker.
    pub(super) fn further_endpoints(&self) -> Result<Vec<Endpoint>, load::Error> {
        let urls = self.broker.further_urls.iter();
        urls.map(|url| self.endpoint_at(Some(url))).collect()
    }

    fn endpoint_at(&self, url: Option<&str>) -> Result<Endpoint, load::Error> {
        let broker = &self.broker;
        let mut endpoint = match url {
            Some(url) => url.parse::<Endpoint>()?,
            None => Endpoint::new("127.0.0.1", Endpoint::DEFAULT_PORT),
        };
        if let Some(user) = &broker.user {
            endpoint.user.clone_from(user);
        }
        if let Some(password) = &broker.password {
            endpoint.set_password(password);
        }
        broker.secure(&mut endpoint);
        Ok(endpoint)
    }

    fn profile_problem(&self) -> Option<String> {
        let is_unknown = |event: &&String| profile::Event::named(event).is_none();
        if let Some(event) = self.profile.events.iter().find(is_unknown) {
            let known = profile::EVENTS.map(|event| event.name);
            return Some(format!(
                "profile.events: {event:?} cannot be sampled by this version; take {known:?}, or \
                 [] for no profile"
            ));
        }
        let stacks = &self.profile.stacks;
        if profile::Stacks::named(stacks).is_none() {
            let known = profile::Stacks::ALL.map(|(name, _)| name);
            return Some(format!(
                "profile.stacks = {stacks:?} is no way to unwind stacks; take one of {known:?}"
            ));
        }
        let frequency = self.profile.frequency;
        (!(1..=50_000).contains(&frequency)).then(|| {
            format!(
                "profile.frequency = {frequency} is not between 1 and 50000 samples per second; \
                 999 is usual"
            )
        })
    }
}

/// Keys that exclude each other, or do nothing alone.
fn arrivals_problem(spec: &LoadSpec) -> Option<String> {
    let given = [
        ("rate", spec.rate.is_some()),
        ("schedule", spec.schedule.is_some()),
        ("think-time", spec.think_time.is_some()),
    ];
    let given: Vec<&str> = given
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
        .collect();
    match given.as_slice() {
        [first, second, ..] => Some(format!(
            "{second}}}: there is a {first} too, and a group takes one of rate, schedule and think-time; leave one out"
        )),
        [] | ["think-time"] if spec.rate_per_producer => Some(
            "rate-per-producer} = true has no effect without a rate; give a rate or a schedule, or \
             leave it out"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Names that can be no plugin's; whether the others are there is seen when RabbitMQ is found.
fn plugin_problem(broker: &BrokerSpec) -> Option<String> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part)
    };
    let plugins = &broker.plugins;
    if let Some(name) = plugins.iter().find(|name| !is_name(name)) {
        return Some(format!(
            "broker.plugins: {name:?} is not the name of a plugin; write it as `rabbitmq-plugins \
             list` does, such as \"rabbitmq_auth_backend_oauth2\""
        ));
    }
    let twice = plugins.iter().enumerate().find(|(i, name)| {
        plugins
            .get(..*i)
            .is_some_and(|before| before.contains(name))
    });
    twice.map(|(_, name)| format!("broker.plugins names {name:?} twice; leave one out"))
}

/// Keys that another kind of broker would need, which would be silently without effect.
fn broker_problem(broker: &BrokerSpec) -> Option<String> {
    let for_attach = [
        ("url", broker.url.is_some()),
        ("further-urls", !broker.further_urls.is_empty()),
        ("user", broker.user.is_some()),
        ("password", broker.password.is_some()),
        ("pid", broker.pid.is_some()),
    ];
    let for_rabbitmq = [
        ("root", broker.root.is_some()),
        ("config", !broker.config.is_empty()),
        ("advanced", broker.advanced.is_some()),
        ("plugins", !broker.plugins.is_empty()),
        ("schedulers", broker.schedulers.is_some()),
        ("erlang-args", !broker.erlang_args.is_empty()),
        ("env", !broker.env.is_empty()),
    ];
    let misplaced = |keys: &[(&str, bool)], needed: BrokerKind| {
        let (key, _) = keys.iter().find(|(_, set)| *set && broker.kind != needed)?;
        Some(format!(
            "broker.{key} has no effect on kind = {:?}; leave it out, or set broker.kind = {:?}",
            broker.kind.name(),
            needed.name()
        ))
    };
    let zero = |set: bool, text: &str| set.then(|| text.to_owned());
    misplaced(&for_attach, BrokerKind::Attach)
        .or_else(|| misplaced(&for_rabbitmq, BrokerKind::Rabbitmq))
        .or_else(|| plugin_problem(broker))
        .or_else(|| broker.security_problem())
        .or_else(|| zero(broker.schedulers == Some(0), "{broker.schedulers} = 0 runs nothing; take 1 or more, or leave it out for one per core"))
        .or_else(|| broker.frame_max.filter(|bytes| !(4_096..=131_072).contains(bytes)).map(|bytes| format!("{{broker.frame-max}} = {bytes} is not between 4096 and 131072 bytes; 131072 is usual")))
        .or_else(|| zero(broker.pid == Some(0), "{broker.pid} = 0 is no process; take its number, or leave it out to find it by its port"))
}
