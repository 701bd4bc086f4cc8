//! All checks of an experiment that need no running broker.

use archive::Repeats;
use load::scenario::Scenario;
use load::{Endpoint, Protocol, QueueType};
use measure::{Length, Nanos, Problem};

use super::error::{ensure, wrong};
use super::flat_table::given;
use super::{BrokerKind, BrokerSpec, Experiment, ExperimentError, LoadSpec, ProbedAddresses, ProfileSpec};
use web::management::check_url;

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
        self.check_plans().map(drop).or_else(|error| self.refuse(self.with_key_of_rate(error.problem())))
    }

    /// Refuses more connections than this process may have, where it has all of them. Errors: also those of its plans.
    pub fn check_room(&self) -> Result<(), ExperimentError> {
        self.check_plans().and_then(load::make_room).or_else(|error| self.refuse(error.problem()))
    }

    /// The part of [`Experiment::validate`] that is about the broker.
    pub fn check_broker(&self) -> Result<(), ExperimentError> {
        self.broker.check().or_else(|problem| self.refuse(problem))
    }

    /// The archive refuses longer names where runs are repeated.
    fn check_name(&self) -> Result<(), Problem> {
        let (length, most) = (self.name.len(), Repeats::LONGEST_NAME);
        let help = format!("give it a name of {most} bytes at most");
        ensure(length <= most, "name", format!(" has {length} bytes"), help)
    }

    /// Blocks with profiling and without need a profile, time for some of each, and no other switching.
    fn check_blocks(&self) -> Result<(), Problem> {
        let Some(length) = self.profile.blocks else { return Ok(()) };
        self.profile.check_blocks(length)?;
        let (of, measure) = (format!(" = {length}"), self.phases.measure);
        let pairs = measure.0.0 / (2 * length.0.0);
        let why = format!("{of}: only {pairs} pairs of blocks fit into a measured phase of {measure}");
        let help = format!("measure for at least {LEAST_PAIRS} pairs, better 15: phases.measure = \"30s\"");
        ensure(measure.is_zero() || pairs >= LEAST_PAIRS, "profile.blocks", why, help)?;
        let why = format!("{of}: effects of a fault would count as cost of profiling");
        ensure(self.fault.is_empty(), "profile.blocks", why, "leave out the faults, or the blocks")
    }

    /// A problem of its plan with the place of the value, in the user's names of keys and options.
    pub fn explain(&self, problem: Problem) -> Problem {
        self.origin.explain(problem)
    }

    /// The problem with its place.
    pub(super) fn refuse(&self, problem: Problem) -> Result<(), ExperimentError> {
        Err(ExperimentError::new(self.origin.explain(problem)))
    }

    /// Plans the whole load, as if the broker were there: connections that are open at the same time at most.
    fn check_plans(&self) -> Result<u64, load::Error> {
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
        Ok(scenarios.into_iter().flatten().chain(probes).map(Scenario::connections).sum())
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
        let has_load = !self.load.is_empty() || self.churn.is_some() || !self.probe.is_empty();
        let help = "add a [[load]] with a destination, a [churn] or a [[probe]]";
        Problem::new("there is no load", "", help).unless(has_load)?;
        for (i, spec) in self.load.iter().enumerate() {
            self.check_load(&format!("load.{i}"), spec)?;
        }
        let elsewhere = self.load.iter().position(|spec| spec.url.is_some());
        elsewhere.filter(|_| self.broker.kind != BrokerKind::Attach).map_or(Ok(()), |i| {
            let why = format!(" has no effect on broker.kind = {:?}", self.broker.kind.name());
            Err(wrong(format!("load.{i}.url"), why, "leave it out, or set broker.kind = \"attach\""))
        })
    }

    pub(super) fn check_load(&self, place: &str, spec: &LoadSpec) -> Result<(), Problem> {
        let ensure =
            |is_fine: bool, key: &str, why: &str, help: &str| ensure(is_fine, format!("{place}.{key}"), why, help);
        let many = spec.destinations.len();
        let why = format!(" names {}", measure::count(many as u64));
        let help = format!("name at most {}", measure::count(MOST_DESTINATIONS as u64));
        ensure(many <= MOST_DESTINATIONS, "destinations", &why, &help)?;
        let numbered = spec.num_destinations;
        let why = format!(" = {numbered} is not between 1 and {MOST_DESTINATIONS}");
        ensure((1..=MOST_DESTINATIONS).contains(&numbered), "num-destinations", &why, "give a number that is")?;
        let is_embedded = self.broker.kind == BrokerKind::Embedded;
        self.check_protocol(place, spec)?;
        self.check_dialect(place, spec)?;
        let why = ": the embedded broker has no direct reply-to";
        ensure(!is_embedded || !spec.request_reply, "request-reply", why, "use broker.kind = \"rabbitmq\"")?;
        let is_fine = !is_embedded || spec.queue.queue_type == QueueType::Classic;
        let help = "use \"classic\", or broker.kind = \"rabbitmq\"";
        ensure(is_fine, "queue-type", ": the embedded broker has classic queues only", help)?;
        check_fill(place, spec)?;
        check_routing_key(place, spec)?;
        check_arrivals(place, spec)
    }

    /// Checks that broker and URL have the protocol, and that what is asked for belongs to it.
    fn check_protocol(&self, place: &str, spec: &LoadSpec) -> Result<(), Problem> {
        let key = format!("{place}.protocol");
        let by_url = self.protocol_by_url(spec);
        if let Some(protocol) = spec.protocol {
            self.broker.kind.check_speaks(&key, protocol)?;
            let named = by_url.unwrap_or(protocol);
            let why = format!(" = {:?}, and the broker's URL says {}://", protocol.name(), named.name());
            ensure(named == protocol, key, why, "leave it out, or write amqp:// in the URL")?;
        }
        let is_mqtt = self.protocol_of(spec) == Protocol::Mqtt;
        let keys = ["subscribe", "qos", "mqtt-version", "retain"];
        let given = given(spec);
        if let Some(key) = keys.into_iter().find(|key| !is_mqtt && given.contains_key(*key)) {
            let help = "leave it out, or load over MQTT: {protocol} mqtt, or mqtt:// in the URL";
            return Err(wrong(format!("{place}.{key}"), " has no effect without MQTT", help));
        }
        let is_fine = spec.subscribe.is_empty() || !spec.has_producers();
        let why = ": producers publish to a destination, and filters have none";
        let help = "give subscribers a [[load]] of their own with producers = 0 (`bellows client` does)";
        ensure(is_fine, format!("{place}.subscribe"), why, help)?;
        let is_fine = spec.confirm || spec.mqtt.qos.is_none_or(|qos| qos == 0);
        let why = " above 0 has acknowledgements, which {confirm} switches off";
        ensure(is_fine, format!("{place}.qos"), why, "leave out one of the two")
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
        let has_queues_only = matches!(self.broker.kind, BrokerKind::Rabbitmq | BrokerKind::Embedded);
        let is_over_1_0 = has_queues_only && self.protocol_of(spec) == Protocol::Amqp10;
        let consumes_none = !spec.has_consumers() || spec.consumers.subscription.is_some();
        let is_fine = !is_over_1_0 || consumes_none || !names.iter().any(|name| name.starts_with("topic://"));
        let key = if spec.destinations.is_empty() { "destination" } else { "destinations" };
        let why = ": over AMQP 1.0, only ActiveMQ Artemis has topics without {subscription}";
        ensure(is_fine, format!("{place}.{key}"), why, "give {subscription}, or leave {protocol} out")?;
        let is_stream = self.broker.kind == BrokerKind::Rabbitmq && spec.queue.queue_type == QueueType::Stream;
        let selects = is_over_1_0 && spec.has_consumers() && spec.consumers.selector.is_some();
        let why = ": only ActiveMQ Artemis has selectors of queues, and RabbitMQ of streams";
        let help = "set {queue-type} = \"stream\" and broker.kind = \"rabbitmq\", or broker.kind = \"artemis\"";
        ensure(!selects || is_stream, format!("{place}.selector"), why, help)?;
        let commits = [("commit-every", spec.commit_every), ("consumer-commit-every", spec.consumers.commit_every)];
        commits.into_iter().try_for_each(|(key, every)| {
            let help = format!("leave {{{key}}} out, or leave {{protocol}} out");
            let why = ": only ActiveMQ Artemis has transactions over AMQP 1.0";
            ensure(!is_over_1_0 || every == 0, format!("{place}.{key}"), why, help)
        })
    }

    fn check_requests(&self) -> Result<(), Problem> {
        let Some(first) = self.load.iter().position(|spec| spec.request_reply) else { return Ok(()) };
        let asking = || self.load.iter().filter(|spec| spec.request_reply);
        let has_both = asking().any(LoadSpec::has_producers) == asking().any(LoadSpec::has_consumers);
        let key = format!("load.{first}.request-reply");
        ensure(has_both, key, " needs producers and consumers", "set both above 0")?;
        let commits = |spec: &LoadSpec| spec.request_reply && spec.commit_every > 0;
        self.load.iter().position(commits).map_or(Ok(()), |i| {
            let why = " excludes {request-reply}: requests are answered by replies, and transactions by commits";
            Err(wrong(format!("load.{i}.commit-every"), why, "leave out one of the two"))
        })
    }

    /// Where an attached broker listens: by default the first load's URL, if every load has its own, or where the first
    /// probe goes, if there is no broker; else this machine's default port.
    pub fn endpoint(&self) -> Result<Endpoint, load::Error> {
        let only_own = self.churn.is_none() && self.load.iter().all(|spec| spec.url.is_some());
        let own = self.load.first().filter(|_| only_own).and_then(|spec| spec.url.as_deref());
        let mut endpoint = self.endpoint_at(self.broker.url.as_deref().or(own))?;
        if let Some(probed) = self.probed_server().filter(|_| self.broker.url.is_none()) {
            (endpoint.host, endpoint.port) = (probed.host, probed.port);
        }
        Ok(endpoint)
    }

    /// Where a group of its own broker connects.
    pub(super) fn own_endpoint(&self, spec: &LoadSpec) -> Result<Option<Endpoint>, load::Error> {
        spec.url.as_deref().map(|url| self.endpoint_at(Some(url))).transpose()
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
        let ensure =
            |is_fine: bool, why: &str, help: &str| ensure(is_fine, "profile.blocks", format!(" = {length}{why}"), help);
        ensure(!self.events.is_empty(), ": nothing is sampled", "name an event in profile.events")?;
        let why = " is too short: messages in flight pass in its first 200 ms";
        ensure(length.0 >= SHORTEST_BLOCK, why, "1s is usual")?;
        let why = " is not a number of tenths of a second, in which messages are counted";
        ensure(length.0.0.is_multiple_of(BLOCK_STEP.0), why, "1s is usual")?;
        let mut named = self.events.iter().filter_map(|it| profile::Event::named(it));
        named.find(profile::Event::is_held).map_or(Ok(()), |held| {
            let why = format!(": memory freed while {} is off would count as held", held.name);
            ensure(false, &why, "use malloc or mmap, or leave out the blocks")
        })
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
        let why = format!(" = {:?} is not a way to unwind stacks", self.stacks);
        let help = format!("use one of {:?}", profile::Stacks::ALL.map(|(name, _)| name));
        ensure(profile::Stacks::named(&self.stacks).is_some(), "profile.stacks", why, help)?;
        let why = format!(" = {} is not between 1 and 50000 samples per second", self.frequency);
        ensure((1..=50_000).contains(&self.frequency), "profile.frequency", why, "999 is usual")
    }
}

/// The default exchange takes each message to the queue of its key's name: with another key all would be lost.
fn check_routing_key(place: &str, spec: &LoadSpec) -> Result<(), Problem> {
    let Some(key) = spec.queue.routing_key.as_deref().filter(|_| spec.has_producers()) else { return Ok(()) };
    let alone = std::slice::from_ref(&spec.destination);
    let names = if spec.destinations.is_empty() { alone } else { &spec.destinations };
    let is_queue = |name: &String| !name.starts_with("topic://");
    let is_key = |name: &String| spec.num_destinations == 1 && name.strip_prefix("queue://").unwrap_or(name) == key;
    let is_fine = spec.queue.exchange.is_some() || names.iter().all(|name| !is_queue(name) || is_key(name));
    let why = " needs an exchange: the default exchange routes by the queue's name";
    ensure(is_fine, format!("{place}.routing-key"), why, "name one in {exchange}, or leave {routing-key} out")
}

/// Messages of before the run need a queue that stays where it is.
fn check_fill(place: &str, spec: &LoadSpec) -> Result<(), Problem> {
    let ensure = |is_fine: bool, key: &str, why: &str, help: &str| {
        ensure(spec.fill == 0 || is_fine, format!("{place}.{key}"), why, help)
    };
    let mut names = spec.destinations.iter().chain([&spec.destination]);
    let why = ": messages to a topic are lost before its consumers exist";
    ensure(!names.any(|name| name.starts_with("topic://")), "fill", why, "use a destination queue://NAME")?;
    let why = ": an exclusive queue belongs to the connection of its consumers";
    ensure(!spec.exclusive, "fill", why, "leave out {exclusive}")?;
    let many = spec.destinations.len() > 1 || spec.num_destinations > 1;
    let is_one = spec.random_routing_keys.is_none() && !(many && spec.queue.exchange.is_some());
    let why = " is impossible where an exchange chooses between several queues";
    ensure(is_one, "fill", why, "leave out {exchange} and {random-routing-keys}, or use one queue")?;
    let why = " = true would remove the messages of {fill}";
    ensure(!spec.handling.purge, "purge", why, "leave out one of the two")
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

impl BrokerKind {
    /// Checks that a broker of this kind, as bellows starts it, speaks a protocol.
    pub(super) fn check_speaks(self, key: &str, protocol: Protocol) -> Result<(), Problem> {
        let (speaks, help) = match self {
            Self::Artemis => (protocol != Protocol::Amqp091, "leave it out, or give \"amqp10\" or \"mqtt\""),
            Self::Mosquitto => (protocol == Protocol::Mqtt, "leave it out, or choose another broker.kind"),
            Self::Rabbitmq | Self::Embedded => {
                (protocol != Protocol::Mqtt, "leave it out, or set broker.kind = \"mosquitto\"")
            }
            Self::Attach => (true, ""),
        };
        let why = format!(" = {:?}: a managed {} does not speak it", protocol.name(), self.name());
        ensure(speaks, key, why, help)
    }
}

impl BrokerSpec {
    fn check(&self) -> Result<(), Problem> {
        self.check_kind()?;
        self.check_plugins()?;
        self.check_cluster()?;
        self.check_security()?;
        let help = "use 1 or more, or leave it out for one per core";
        ensure(self.schedulers != Some(0), "broker.schedulers", " = 0 is too few", help)?;
        let bytes = self.frame_max.unwrap_or(131_072);
        let why = format!(" = {bytes} is not between 4096 and 131072 bytes");
        ensure((4_096..=131_072).contains(&bytes), "broker.frame-max", why, "131072 is usual")?;
        let help = "give its number, or leave it out to find it by its port";
        ensure(self.pid != Some(0), "broker.pid", " = 0 is not a process", help)?;
        self.check_management()?;
        self.check_memory()?;
        self.check_node()
    }

    /// Whether it has a management API that bellows knows.
    pub(super) const fn has_management(&self) -> bool {
        match self.kind {
            BrokerKind::Rabbitmq => true,
            BrokerKind::Attach => self.management.is_some(),
            BrokerKind::Artemis | BrokerKind::Embedded | BrokerKind::Mosquitto => false,
        }
    }

    /// Whether it has an Erlang node that bellows knows.
    pub(super) const fn has_erlang(&self) -> bool {
        match self.kind {
            BrokerKind::Rabbitmq => true,
            BrokerKind::Attach => self.node.is_some(),
            BrokerKind::Artemis | BrokerKind::Embedded | BrokerKind::Mosquitto => false,
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
        let is_name = |user: &String| !user.is_empty() && !user.contains(':');
        let why = ": basic authentication has no such users";
        let is_fine = self.management_user.as_ref().is_none_or(is_name);
        ensure(is_fine, "broker.management-user", why, "give a name without a colon")
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
        use BrokerKind::{Artemis, Attach, Mosquitto, Rabbitmq};
        const KEYS: [(&[BrokerKind], &str); 4] = [
            (&[Attach], "url further-urls user password pid node node-port cookie-file management management-user"),
            (&[Artemis], "java-args"),
            (&[Rabbitmq, Mosquitto], "config"),
            (&[Rabbitmq], "nodes data data-dir definitions policy advanced plugins schedulers erlang-args patch env"),
        ];
        let why = format!(" has no effect on kind = {:?}", self.kind.name());
        let has_root = self.root.is_none() || [Rabbitmq, Artemis, Mosquitto].contains(&self.kind);
        ensure(has_root, "broker.root", &why, "leave it out, or set broker.kind = \"rabbitmq\"")?;
        let given = given(self);
        let others = KEYS.iter().filter(|(needed, _)| !needed.contains(&self.kind));
        let mut others = others.flat_map(|(needed, keys)| keys.split(' ').map(move |key| (needed[0], key)));
        others.find(|(_, key)| given.contains_key(*key)).map_or(Ok(()), |(needed, key)| {
            let help = format!("leave it out, or set broker.kind = {:?}", needed.name());
            Err(wrong(format!("broker.{key}"), why, help))
        })
    }

    /// Checks that there is a node whose memory can be read, and that it is left time for its work.
    fn check_memory(&self) -> Result<(), Problem> {
        const KEY: &str = "broker.memory-every";
        /// A node's memory changes by carriers, and reading costs it time.
        const SHORTEST: Length = Length(Nanos::from_millis(200));
        let Some(every) = self.memory_every else { return Ok(()) };
        let help = format!("give at least {SHORTEST}; 2s is usual");
        ensure(every >= SHORTEST, KEY, format!(" = {every} is too short"), help)?;
        if self.kind == BrokerKind::Attach {
            let help = "set broker.node = \"rabbit@localhost\" (--node), or leave it out";
            return ensure(self.has_erlang(), KEY, " has no effect without broker.node", help);
        }
        let help = "leave it out: only Erlang nodes have allocators that can be asked";
        ensure(self.has_erlang(), KEY, format!(" has no effect on kind = {:?}", self.kind.name()), help)
    }

    /// Checks for names that can be no plugin's; whether the others are there is seen when RabbitMQ is found.
    fn check_plugins(&self) -> Result<(), Problem> {
        const KEY: &str = "broker.plugins";
        let is_name = |name: &str| {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part)
        };
        for (at, name) in self.plugins.iter().enumerate() {
            let help = "write it as `rabbitmq-plugins list` does, such as \"rabbitmq_auth_backend_oauth2\"";
            ensure(is_name(name), KEY, format!(": {name:?} is not the name of a plugin"), help)?;
            let is_first = !self.plugins.iter().take(at).any(|it| it == name);
            ensure(is_first, KEY, format!(" names {name:?} twice"), "leave one out")?;
        }
        Ok(())
    }
}
