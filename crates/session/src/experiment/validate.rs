//! All that can be checked of an experiment before anything is started.

use load::{Endpoint, QueueType};

use super::{BrokerKind, BrokerSpec, Experiment, ExperimentError, LoadSpec};

/// More destinations are a slip of the keyboard: each needs a connection per client.
const MOST_DESTINATIONS: usize = 100_000;

impl Experiment {
    /// Checks all that can be checked before anything is started.
    ///
    /// # Errors
    /// The first value that makes no sense, with the remedy.
    pub fn validate(&self) -> Result<(), ExperimentError> {
        let fail = |text: String| {
            Err(ExperimentError::new(
                &format!("experiment {:?}", self.name),
                None,
                text,
            ))
        };
        if self.load.is_empty() && self.churn.is_none() {
            return fail(
                "there is no load; add a [[load]] with a destination, or a [churn]".to_owned(),
            );
        }
        self.check_broker()?;
        if let Some(text) = self.profile_problem() {
            return fail(text);
        }
        for (i, spec) in self.load.iter().enumerate() {
            let many = spec.destinations.len();
            if many > MOST_DESTINATIONS {
                return fail(format!(
                    "load.{i}.destinations names {many}; {MOST_DESTINATIONS} are the most"
                ));
            }
            if spec.num_destinations == 0 || spec.num_destinations > MOST_DESTINATIONS {
                return fail(format!(
                    "load.{i}.num-destinations = {} is not between 1 and {MOST_DESTINATIONS}",
                    spec.num_destinations
                ));
            }
            if self.broker.kind == BrokerKind::Embedded && spec.request_reply {
                return fail(format!(
                    "load.{i}.request-reply: the embedded broker has no direct reply-to; take \
                     broker.kind = \"rabbitmq\""
                ));
            }
            if self.broker.kind == BrokerKind::Embedded && spec.queue_type != QueueType::Classic {
                return fail(format!(
                    "load.{i}.queue-type: the embedded broker has classic queues only; take \
                     \"classic\", or broker.kind = \"rabbitmq\""
                ));
            }
        }
        let elsewhere = self.load.iter().any(|spec| spec.url.is_some());
        if self.broker.kind != BrokerKind::Attach && elsewhere {
            return fail(format!(
                "load.url has no effect on broker.kind = {:?}; leave it out, or set broker.kind = \
                 \"attach\"",
                self.broker.kind.name()
            ));
        }
        let asking = |spec: &&LoadSpec| spec.request_reply;
        let asks = self.load.iter().filter(asking).any(LoadSpec::has_producers);
        if asks != self.load.iter().filter(asking).any(LoadSpec::has_consumers) {
            return fail(
                "request-reply needs producers that ask and consumers that answer; ask for both"
                    .to_owned(),
            );
        }
        if self
            .load
            .iter()
            .filter(asking)
            .any(|spec| spec.commit_every > 0)
        {
            return fail(
                "commit-every has no place beside request-reply: requests are answered by replies, and \
                 transactions by commits; leave out one of the two"
                    .to_owned(),
            );
        }
        if let Some(text) = self.fault_problem() {
            return fail(text);
        }
        for (i, spec) in self.load.iter().enumerate() {
            if let Some(text) = arrivals_problem(spec) {
                return fail(format!("load.{i}.{text}"));
            }
        }
        if let Some(text) = self.churn_problem() {
            return fail(text);
        }
        let valid = self.endpoint().and_then(|endpoint| {
            if let Some(churn) = self.churn_plan(&endpoint)? {
                churn.validate()?;
            }
            if self.load.is_empty() {
                return Ok(());
            }
            load::validate(&self.plan(&endpoint, 0)?)
        });
        match valid {
            Ok(()) => Ok(()),
            Err(e) => fail(e.problem().sentence()),
        }
    }

    /// The part of [`Experiment::validate`] that is about the broker.
    pub(crate) fn check_broker(&self) -> Result<(), ExperimentError> {
        match broker_problem(&self.broker) {
            None => Ok(()),
            Some(text) => Err(ExperimentError::new(
                &format!("experiment {:?}", self.name),
                None,
                text,
            )),
        }
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
            "{second}: there is a {first} too, and a group takes one of rate, schedule and think-time; leave one out"
        )),
        [] | ["think-time"] if spec.rate_per_producer => Some(
            "rate-per-producer = true has no effect without a rate; give a rate or a schedule, or \
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
        .or_else(|| zero(broker.schedulers == Some(0), "broker.schedulers = 0 runs nothing; take 1 or more, or leave it out for one per core"))
        .or_else(|| broker.frame_max.filter(|bytes| !(4_096..=131_072).contains(bytes)).map(|bytes| format!("broker.frame-max = {bytes} is not between 4096 and 131072 bytes")))
        .or_else(|| zero(broker.pid == Some(0), "broker.pid = 0 is no process; take its number, or leave it out to find it by its port"))
}
