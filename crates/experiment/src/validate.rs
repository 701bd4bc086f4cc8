//! All checks of an experiment that need no running broker.

use std::fmt::Display;

use archive::Repeats;
use load::scenario::Scenario;
use load::{Endpoint, Protocol, QueueType};
use measure::{Length, Nanos, Problem};

use super::flat_table::given;
use super::{BrokerKind, BrokerSpec, Experiment, ExperimentError, LoadSpec, ProbedAddresses, ProfileSpec};
use web::management::check_url;

/// A key whose value makes no sense; `why` follows the key as the user knows it.
pub(super) fn wrong(key: impl Into<Box<str>>, why: impl Display, help: impl Into<String>) -> Problem {
    let key = key.into();
    Problem::new(format!("{{{key}}}{why}"), "", help).about(key)
}

/// Fewer pairs of blocks tell next to nothing.
const LEAST_PAIRS: u64 = 3;
/// Blocks have a guard of 200 ms.
const SHORTEST_BLOCK: Nanos = Nanos::from_millis(500);
/// Messages are counted in slices of this length.
const BLOCK_STEP: Nanos = Nanos::from_millis(100);

/// More destinations are a slip of the keyboard: each needs a connection per client.
const MOST_DESTINATIONS: usize = 100_000;

impl Experiment {
    /// Checks all that can be checked before anything is started.
    pub fn validate(&self) -> Result<(), ExperimentError> {
        self.check_broker()?;
        self.check_name()
            .and_then(|()| self.check_commands())
            .and_then(|()| self.check_loads())
            .and_then(|()| self.check_prepared())
            .and_then(|()| self.check_nodes_of_loads())
            .and_then(|()| self.profile.check())
            .and_then(|()| self.check_blocks())
            .and_then(|()| self.check_requests())
            .and_then(|()| self.check_faults())
            .and_then(|()| self.check_churn())
            .and_then(|()| self.check_probes())
            .and_then(|()| self.scrape_plans().map(|_| ()))
            .and_then(|()| self.traced_nodes().map(|_| ()))
            .or_else(|problem| self.refuse(problem))?;
        self.check_plans().or_else(|error| self.refuse(self.with_key_of_rate(error.problem())))
    }

    /// The part of [`Experiment::validate`] that is about the broker.
    pub fn check_broker(&self) -> Result<(), ExperimentError> {
        self.broker.check().or_else(|problem| self.refuse(problem))
    }

    /// The archive refuses longer names where runs are repeated.
    fn check_name(&self) -> Result<(), Problem> {
        let (length, most) = (self.name.len(), Repeats::LONGEST_NAME);
        if length <= most {
            return Ok(());
        }
        Err(wrong("name", format!(" has {length} bytes"), format!("give it a name of {most} bytes at most")))
    }

    /// Blocks with profiling and without need a profile, time for some of each, and no other switching.
    fn check_blocks(&self) -> Result<(), Problem> {
        let Some(length) = self.profile.blocks else { return Ok(()) };
        self.profile.check_blocks(length)?;
        let (of, measure) = (format!(" = {length}"), self.phases.measure);
        let pairs = measure.0.0 / (2 * length.0.0);
        if !measure.is_zero() && pairs < LEAST_PAIRS {
            let why = format!("{of}: only {pairs} pairs of blocks fit into a measured phase of {measure}");
            let help = format!("measure for at least {LEAST_PAIRS} pairs, better 15: phases.measure = \"30s\"");
            return Err(wrong("profile.blocks", why, help));
        }
        if !self.fault.is_empty() {
            let why = format!("{of}: effects of a fault would count as cost of profiling");
            return Err(wrong("profile.blocks", why, "leave out the faults, or the blocks"));
        }
        Ok(())
    }

    /// A problem of its plan with the place of the value, in the user's names of keys and options.
    pub fn explain(&self, problem: Problem) -> Problem {
        self.origin.explain(problem)
    }

    /// The problem with its place.
    pub(super) fn refuse(&self, problem: Problem) -> Result<(), ExperimentError> {
        Err(ExperimentError::new(self.origin.explain(problem)))
    }

    /// Plans the whole load, as if the broker were there.
    fn check_plans(&self) -> Result<(), load::Error> {
        let endpoint = self.endpoint().map_err(|error| error.about("broker.url"))?;
        endpoint.check_certificates()?;
        let churn = self.churn_plan(&endpoint)?;
        let probes = self.with_addresses(&ProbedAddresses::default()).probe_plans()?;
        let messages = if self.load.is_empty() || self.has_commands() { None } else { Some(self.plan(&endpoint, 0)?) };
        if let Some(churn) = &churn {
            churn.validate()?;
        }
        if let Some(messages) = &messages {
            load::validate(messages)?;
        }
        let scenarios = [churn.as_ref().map(|it| it as &dyn Scenario), messages.as_ref().map(|it| it as &dyn Scenario)];
        let probes = probes.iter().map(|it| it as &dyn Scenario);
        load::make_room(scenarios.into_iter().flatten().chain(probes).map(Scenario::connections).sum())
    }

    /// Moves a problem with a plan's `rate` to the key `schedule` where the rate came from that.
    fn with_key_of_rate(&self, problem: Problem) -> Problem {
        let Some(table) = problem.about.strip_suffix("rate") else { return problem };
        let group = table.strip_prefix("load.").and_then(|i| i.trim_end_matches('.').parse().ok());
        let has_schedule = match group {
            Some(group) => self.load.get::<usize>(group).is_some_and(|spec| spec.schedule.is_some()),
            None => self.churn.as_ref().is_some_and(|churn| churn.schedule.is_some()),
        };
        let key = format!("{table}schedule");
        if has_schedule { problem.about(key) } else { problem }
    }

    fn check_loads(&self) -> Result<(), Problem> {
        if self.load.is_empty() && self.churn.is_none() && self.probe.is_empty() {
            let help = "add a [[load]] with a destination, a [churn] or a [[probe]]";
            return Err(Problem::new("there is no load", "", help));
        }
        for (i, spec) in self.load.iter().enumerate() {
            self.check_load(&format!("load.{i}"), spec)?;
        }
        let elsewhere = self.load.iter().position(|spec| spec.url.is_some());
        match elsewhere.filter(|_| self.broker.kind != BrokerKind::Attach) {
            None => Ok(()),
            Some(i) => {
                let why = format!(" has no effect on broker.kind = {:?}", self.broker.kind.name());
                Err(wrong(format!("load.{i}.url"), why, "leave it out, or set broker.kind = \"attach\""))
            }
        }
    }

    pub(super) fn check_load(&self, place: &str, spec: &LoadSpec) -> Result<(), Problem> {
        let of = |key: &str, why: &str, help: &str| Err(wrong(format!("{place}.{key}"), why, help));
        let many = spec.destinations.len();
        if many > MOST_DESTINATIONS {
            let help = format!("name at most {}", measure::count(MOST_DESTINATIONS as u64));
            return of("destinations", &format!(" names {}", measure::count(many as u64)), &help);
        }
        let numbered = spec.num_destinations;
        if !(1..=MOST_DESTINATIONS).contains(&numbered) {
            let why = format!(" = {numbered} is not between 1 and {MOST_DESTINATIONS}");
            return of("num-destinations", &why, "give a number that is");
        }
        let is_embedded = self.broker.kind == BrokerKind::Embedded;
        if is_embedded && spec.protocol == Some(Protocol::Amqp10) {
            let help = "leave it out, or use broker.kind = \"rabbitmq\" with a RabbitMQ 4 as broker.root";
            return of("protocol", ": the embedded broker speaks AMQP 0.9.1 only", help);
        }
        if self.broker.kind == BrokerKind::Artemis && spec.protocol == Some(Protocol::Amqp091) {
            return of("protocol", ": ActiveMQ Artemis speaks AMQP 1.0, not 0.9.1", "leave it out, or give \"amqp10\"");
        }
        if spec.protocol == Some(Protocol::Amqp091) && self.is_amqp10_by_url(spec) {
            let why = " = \"amqp091\", and the broker's URL says amqp10://";
            return of("protocol", why, "leave it out, or write amqp:// in the URL");
        }
        self.check_dialect(place, spec)?;
        if is_embedded && spec.request_reply {
            let help = "use broker.kind = \"rabbitmq\"";
            return of("request-reply", ": the embedded broker has no direct reply-to", help);
        }
        if is_embedded && spec.queue.queue_type != QueueType::Classic {
            let help = "use \"classic\", or broker.kind = \"rabbitmq\"";
            return of("queue-type", ": the embedded broker has classic queues only", help);
        }
        check_fill(place, spec)?;
        check_arrivals(place, spec)
    }

    /// Checks for what the broker that is to be started does not have over AMQP 1.0. Attached ones refuse it later.
    fn check_dialect(&self, place: &str, spec: &LoadSpec) -> Result<(), Problem> {
        if self.broker.kind == BrokerKind::Artemis
            && let Some(key) = spec.queue.foreign()
        {
            let further = match key {
                "exchange" => Some("name"),
                "arguments" => spec.queue.arguments.keys().next().map(String::as_str),
                _ => None,
            };
            let path = further.map_or_else(|| key.to_owned(), |further| format!("{key}.{further}"));
            let help = format!("leave {{{key}}} out, or set broker.kind = \"rabbitmq\"");
            // The name of an argument may be anything, and no text that stands for a key.
            let problem = wrong(format!("{place}.{key}"), ": ActiveMQ Artemis has none", help);
            return Err(problem.about(format!("{place}.{path}")));
        }
        let alone = std::slice::from_ref(&spec.destination);
        let names = if spec.destinations.is_empty() { alone } else { &spec.destinations };
        let is_over_1_0 = self.broker.kind == BrokerKind::Rabbitmq && self.protocol_of(spec) == Protocol::Amqp10;
        if is_over_1_0
            && spec.has_consumers()
            && spec.consumers.subscription.is_none()
            && names.iter().any(|name| name.starts_with("topic://"))
        {
            let key = if spec.destinations.is_empty() { "destination" } else { "destinations" };
            let why = ": topics without {subscription} are not supported over AMQP 1.0 on RabbitMQ";
            return Err(wrong(format!("{place}.{key}"), why, "give {subscription}, or leave {protocol} out"));
        }
        let commits = [("commit-every", spec.commit_every), ("consumer-commit-every", spec.consumers.commit_every)];
        let has_none = matches!(self.broker.kind, BrokerKind::Rabbitmq | BrokerKind::Embedded)
            && self.protocol_of(spec) == Protocol::Amqp10;
        match commits.into_iter().find(|(_, every)| has_none && *every > 0) {
            Some((key, _)) => {
                let help = format!("leave {{{key}}} out, or {{protocol}}");
                Err(wrong(format!("{place}.{key}"), ": only ActiveMQ Artemis has transactions over AMQP 1.0", help))
            }
            None => Ok(()),
        }
    }

    fn check_requests(&self) -> Result<(), Problem> {
        let Some(first) = self.load.iter().position(|spec| spec.request_reply) else { return Ok(()) };
        let asking = || self.load.iter().filter(|spec| spec.request_reply);
        if asking().any(LoadSpec::has_producers) != asking().any(LoadSpec::has_consumers) {
            let help = "set both above 0";
            return Err(wrong(format!("load.{first}.request-reply"), " needs producers and consumers", help));
        }
        let commits = |spec: &LoadSpec| spec.request_reply && spec.commit_every > 0;
        match self.load.iter().position(commits) {
            None => Ok(()),
            Some(i) => {
                let why = " excludes {request-reply}: requests are answered by replies, and transactions by commits";
                Err(wrong(format!("load.{i}.commit-every"), why, "leave out one of the two"))
            }
        }
    }

    /// Where an attached broker listens. By default that is the first load's URL, if every load has its own, else this
    /// machine's default port: a broker without load is not watched.
    pub fn endpoint(&self) -> Result<Endpoint, load::Error> {
        let only_own = self.churn.is_none() && self.load.iter().all(|spec| spec.url.is_some());
        let own = self.load.first().filter(|_| only_own).and_then(|spec| spec.url.as_deref());
        self.endpoint_at(self.broker.url.as_deref().or(own))
    }

    /// Where a group of its own broker connects.
    pub(super) fn own_endpoint(&self, spec: &LoadSpec) -> Result<Option<Endpoint>, load::Error> {
        let url = spec.url.as_deref();
        url.map(|url| self.endpoint_at(Some(url))).transpose()
    }

    /// All endpoints of an attached broker that the load connects to.
    pub fn loaded_endpoints(&self) -> Result<Vec<Endpoint>, load::Error> {
        let mut all = self.further_endpoints()?;
        for spec in &self.load {
            all.extend(self.own_endpoint(spec)?);
        }
        Ok(all)
    }

    /// Further nodes of an attached broker.
    pub(super) fn further_endpoints(&self) -> Result<Vec<Endpoint>, load::Error> {
        let urls = self.broker.further_urls.iter();
        let endpoint = |url: &String| self.endpoint_at(Some(url)).map_err(|error| error.about("broker.further-urls"));
        urls.map(endpoint).collect()
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
            endpoint.set_password(password.expose());
        }
        broker.secure(&mut endpoint);
        Ok(endpoint)
    }
}

impl ProfileSpec {
    fn check_blocks(&self, length: Length) -> Result<(), Problem> {
        let of = format!(" = {length}");
        let refuse = |why: &str, help: &str| Err(wrong("profile.blocks", format!("{of}{why}"), help));
        if self.events.is_empty() {
            return refuse(": nothing is sampled", "name an event in profile.events");
        }
        if length.0 < SHORTEST_BLOCK {
            return refuse(" is too short: messages in flight pass in its first 200 ms", "1s is usual");
        }
        if !length.0.0.is_multiple_of(BLOCK_STEP.0) {
            return refuse(" is not a number of tenths of a second, in which messages are counted", "1s is usual");
        }
        let named = self.events.iter().filter_map(|it| profile::Event::named(it));
        if let Some(held) = named.into_iter().find(profile::Event::is_held) {
            let why = format!(": memory freed while {} is off would count as held", held.name);
            return refuse(&why, "use malloc or mmap, or leave out the blocks");
        }
        Ok(())
    }

    /// Checks what can be checked without the kernel.
    pub fn check(&self) -> Result<(), Problem> {
        let is_unknown = |event: &&String| profile::Event::named(event).is_none();
        if let Some(event) = self.events.iter().find(is_unknown) {
            let known = profile::Event::known();
            let help = format!("known: {known}; [] disables the profile");
            return Err(wrong("profile.events", format!(": {event:?} is not an event"), help));
        }
        let mut others = self.events.iter().enumerate();
        if let Some((_, event)) = others.find(|(at, event)| self.events.iter().take(*at).any(|it| it == *event)) {
            return Err(wrong("profile.events", format!(": {event:?} is listed twice"), "name it once"));
        }
        let stacks = &self.stacks;
        if profile::Stacks::named(stacks).is_none() {
            let known = profile::Stacks::ALL.map(|(name, _)| name);
            let help = format!("use one of {known:?}");
            return Err(wrong("profile.stacks", format!(" = {stacks:?} is not a way to unwind stacks"), help));
        }
        let frequency = self.frequency;
        if !(1..=50_000).contains(&frequency) {
            let why = format!(" = {frequency} is not between 1 and 50000 samples per second");
            return Err(wrong("profile.frequency", why, "999 is usual"));
        }
        Ok(())
    }
}

/// Messages of before the run need a queue that stays where it is.
fn check_fill(place: &str, spec: &LoadSpec) -> Result<(), Problem> {
    let of = |why: &str, help: &str| Err(wrong(format!("{place}.fill"), why, help));
    if spec.fill == 0 {
        return Ok(());
    }
    let mut names = spec.destinations.iter().chain([&spec.destination]);
    if names.any(|name| name.starts_with("topic://")) {
        return of(": messages to a topic are lost before its consumers exist", "use a destination queue://NAME");
    }
    if spec.exclusive {
        return of(": an exclusive queue belongs to the connection of its consumers", "leave out {exclusive}");
    }
    let many = spec.destinations.len() > 1 || spec.num_destinations > 1;
    if spec.random_routing_keys.is_some() || (many && spec.queue.exchange.is_some()) {
        let why = " is impossible where an exchange chooses between several queues";
        return of(why, "leave out {exchange} and {random-routing-keys}, or use one queue");
    }
    if spec.handling.purge {
        let why = " = true would remove the messages of {fill}";
        return Err(wrong(format!("{place}.purge"), why, "leave out one of the two"));
    }
    Ok(())
}

/// Checks for keys that exclude each other, or do nothing alone.
fn check_arrivals(place: &str, spec: &LoadSpec) -> Result<(), Problem> {
    let given = [
        ("rate", spec.rate.is_some()),
        ("schedule", spec.schedule.is_some()),
        ("think-time", spec.think_time.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter_map(|(key, given)| given.then_some(key)).collect();
    match given.as_slice() {
        [first, second, ..] => {
            let why = format!(": there is a {first} too, and a group takes one of rate, schedule and think-time");
            Err(wrong(format!("{place}.{second}"), why, "leave one out"))
        }
        [] | ["think-time"] if spec.rate_per_producer => {
            let help = "give a rate or a schedule, or leave it out";
            Err(wrong(format!("{place}.rate-per-producer"), " = true has no effect without a rate", help))
        }
        _ => Ok(()),
    }
}

impl BrokerSpec {
    fn check(&self) -> Result<(), Problem> {
        self.check_kind()?;
        self.check_plugins()?;
        self.check_cluster()?;
        self.check_security()?;
        if self.schedulers == Some(0) {
            let help = "use 1 or more, or leave it out for one per core";
            return Err(wrong("broker.schedulers", " = 0 is too few", help));
        }
        let in_range = |bytes: &u32| (4_096..=131_072).contains(bytes);
        if let Some(bytes) = self.frame_max.filter(|bytes| !in_range(bytes)) {
            let why = format!(" = {bytes} is not between 4096 and 131072 bytes");
            return Err(wrong("broker.frame-max", why, "131072 is usual"));
        }
        if self.pid == Some(0) {
            let help = "give its number, or leave it out to find it by its port";
            return Err(wrong("broker.pid", " = 0 is not a process", help));
        }
        self.check_management()?;
        self.check_memory()?;
        self.check_node()
    }

    /// Whether it has a management API that bellows knows.
    pub(super) const fn has_management(&self) -> bool {
        match self.kind {
            BrokerKind::Rabbitmq => true,
            BrokerKind::Attach => self.management.is_some(),
            BrokerKind::Artemis | BrokerKind::Embedded => false,
        }
    }

    /// Whether it has an Erlang node that bellows knows.
    pub(super) const fn has_erlang(&self) -> bool {
        match self.kind {
            BrokerKind::Rabbitmq => true,
            BrokerKind::Attach => self.node.is_some(),
            BrokerKind::Artemis | BrokerKind::Embedded => false,
        }
    }

    /// Checks the settings of the management API.
    fn check_management(&self) -> Result<(), Problem> {
        match (&self.management, &self.management_user) {
            (Some(url), _) => {
                let login = "give the user as {broker.management-user}, and the password in \
                             BELLOWS_MANAGEMENT_PASSWORD";
                check_url(url, login)
                    .map_err(|problem| wrong("broker.management", format!(": {}", problem.value), problem.help))?;
            }
            (None, Some(_)) => {
                let help = "set {broker.management} = \"http://HOST:15672\", or leave it out";
                return Err(wrong("broker.management-user", " has no effect without {broker.management}", help));
            }
            (None, None) => {}
        }
        match &self.management_user {
            Some(user) if user.is_empty() || user.contains(':') => {
                let help = "give a name without a colon";
                Err(wrong("broker.management-user", ": basic authentication has no such users", help))
            }
            _ => Ok(()),
        }
    }

    /// Checks the settings of the Erlang node.
    fn check_node(&self) -> Result<(), Problem> {
        let alone =
            [("broker.node-port", self.node_port.is_some()), ("broker.cookie-file", self.cookie_file.is_some())];
        match (&self.node, alone.iter().find(|(_, set)| *set)) {
            (None, Some((key, _))) => {
                let help = "set broker.node = \"rabbit@localhost\", or leave it out";
                Err(wrong(*key, " has no effect without broker.node", help))
            }
            (None, None) => Ok(()),
            (Some(node), _) => {
                let parsed = node.parse::<erlang::NodeName>();
                parsed.map(|_| ()).map_err(|refused| wrong("broker.node", format!(": {}", refused.what), refused.help))
            }
        }
    }

    /// Checks for keys that another kind of broker would need, which would be silently without effect.
    fn check_kind(&self) -> Result<(), Problem> {
        use BrokerKind::{Artemis, Attach, Rabbitmq};
        const KEYS: [(BrokerKind, &str); 3] = [
            (Attach, "url further-urls user password pid node node-port cookie-file management management-user"),
            (Artemis, "java-args"),
            (
                Rabbitmq,
                "config nodes data data-dir definitions policy advanced plugins schedulers erlang-args patch env",
            ),
        ];
        if self.root.is_some() && ![Rabbitmq, Artemis].contains(&self.kind) {
            let help = "leave it out, or set broker.kind = \"rabbitmq\"";
            return Err(wrong("broker.root", format!(" has no effect on kind = {:?}", self.kind.name()), help));
        }
        let given = given(self);
        let others = KEYS.iter().filter(|(needed, _)| self.kind != *needed);
        let mut others = others.flat_map(|(needed, keys)| keys.split(' ').map(move |key| (needed, key)));
        match others.find(|(_, key)| given.contains_key(*key)) {
            None => Ok(()),
            Some((needed, key)) => {
                let help = format!("leave it out, or set broker.kind = {:?}", needed.name());
                Err(wrong(format!("broker.{key}"), format!(" has no effect on kind = {:?}", self.kind.name()), help))
            }
        }
    }

    /// Checks that there is a node whose memory can be read, and that it is left time for its work.
    fn check_memory(&self) -> Result<(), Problem> {
        const KEY: &str = "broker.memory-every";
        /// A node's memory changes by carriers, and reading costs it time.
        const SHORTEST: Length = Length(Nanos::from_millis(200));
        let Some(every) = self.memory_every else { return Ok(()) };
        if every < SHORTEST {
            let help = format!("give at least {SHORTEST}; 2s is usual");
            return Err(wrong(KEY, format!(" = {every} is too short"), help));
        }
        match self.kind {
            _ if self.has_erlang() => Ok(()),
            BrokerKind::Attach => {
                let help = "set broker.node = \"rabbit@localhost\" (--node), or leave it out";
                Err(wrong(KEY, " has no effect without broker.node", help))
            }
            _ => {
                let help = "leave it out: only Erlang nodes have allocators that can be asked";
                Err(wrong(KEY, format!(" has no effect on kind = {:?}", self.kind.name()), help))
            }
        }
    }

    /// Checks for names that can be no plugin's; whether the others are there is seen when RabbitMQ is found.
    fn check_plugins(&self) -> Result<(), Problem> {
        const KEY: &str = "broker.plugins";
        let is_name = |name: &str| {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part)
        };
        for (at, name) in self.plugins.iter().enumerate() {
            if !is_name(name) {
                let help = "write it as `rabbitmq-plugins list` does, such as \"rabbitmq_auth_backend_oauth2\"";
                return Err(wrong(KEY, format!(": {name:?} is not the name of a plugin"), help));
            }
            if self.plugins.iter().take(at).any(|it| it == name) {
                return Err(wrong(KEY, format!(" names {name:?} twice"), "leave one out"));
            }
        }
        Ok(())
    }
}
