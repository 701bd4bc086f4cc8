//! What was typed, as an experiment; and what cannot be done, as errors with their remedy.

use std::path::PathBuf;

use load::Endpoint;
use measure::Nanos;
use report::artemis::Sides;
use session::Experiment;
use session::experiment::{
    Acks, BrokerKind, BrokerSpec, Length, LoadSpec, Phases, ProfileSpec, SizeSpec, SubscriptionSpec,
};

use super::Showing;
use super::options::{ClientArgs, Common, ConsumerArgs, Consuming, ProducerArgs, Producing};
use crate::cli::load::{apart, grouped, some, to};
use crate::failure::Failure;

/// Artemis' consumers have a window of 1 MiB: a thousand messages of its default size.
const PREFETCH: u16 = 1_000;
/// Smaller messages have no room for the header that latency to the consumer comes from.
const SMALLEST_MEASURED: usize = 12;

/// What a command line means.
#[derive(Debug)]
pub(super) struct Meaning {
    pub(super) experiment: Experiment,
    pub(super) showing: Showing,
    /// Without its password.
    pub(super) shown_url: String,
    /// Sentences for standard error.
    pub(super) notes: Vec<String>,
    /// Messages may be dropped on purpose.
    pub(super) may_expire: bool,
    pub(super) runs: Option<PathBuf>,
}

impl ClientArgs {
    pub(super) fn meaning(self) -> Result<Meaning, Failure> {
        let Self {
            mut common,
            producing,
            consuming,
            ..
        } = self;
        if consuming.durable && common.destinations == ["queue://TEST"] {
            // As Artemis does, since queues have no subscriptions.
            common.destinations = vec!["topic://TEST".into()];
        }
        let mut notes = common.check()?;
        check_protocol("--consumer-protocol", self.consumer_protocol.as_deref())?;
        if producing.message_size < SMALLEST_MEASURED {
            return Err(Failure::usage(
                format!(
                    "--message-size {} leaves no room for the time that the transfer is measured by",
                    producing.message_size
                ),
                format!(
                    "ask for {SMALLEST_MEASURED} bytes or more, or run producer and consumer apart"
                ),
            ));
        }
        consuming.check(&common)?;
        let producers = producing.fill(common.spec(), &common);
        let spec = consuming.fill(producers, &common, self.consumer_connections);
        let load = match &self.consumer_url {
            None => vec![spec],
            Some(url) => {
                check_url("--consumer-url", &url.0)?;
                apart(spec, url.0.clone())
            }
        };
        let threads = producing.threads(common.destination_count(), &mut notes);
        let sides = Sides {
            producers: true,
            paced: producing.rate.is_some(),
            consumers: true,
        };
        let may_expire = producing.ttl > 0;
        common.meaning("client", load, (threads, true), sides, (notes, may_expire))
    }
}

impl ProducerArgs {
    pub(super) fn meaning(self) -> Result<Meaning, Failure> {
        let Self { common, producing } = self;
        let mut notes = common.check()?;
        if common.client_id.is_some() {
            notes.push("ClientID configuration is not supported".into());
        }
        let ledger = producing.message_size >= SMALLEST_MEASURED;
        let spec = LoadSpec {
            consumers: 0,
            ..producing.fill(common.spec(), &common)
        };
        let threads = producing.threads(common.destination_count(), &mut notes);
        let sides = Sides {
            producers: true,
            paced: producing.rate.is_some(),
            consumers: false,
        };
        common.meaning(
            "producer",
            vec![spec],
            (threads, ledger),
            sides,
            (notes, false),
        )
    }
}

impl ConsumerArgs {
    pub(super) fn meaning(self) -> Result<Meaning, Failure> {
        let Self {
            common, consuming, ..
        } = self;
        let mut notes = common.check()?;
        consuming.check(&common)?;
        if common.commit_interval > 0 && !consuming.tx {
            notes.push("--commit-interval has no effect on a consumer without --tx".into());
        }
        let spec = LoadSpec {
            producers: 0,
            ..consuming.fill(common.spec(), &common, self.num_connections)
        };
        let sides = Sides {
            producers: false,
            paced: false,
            consumers: true,
        };
        common.meaning("consumer", vec![spec], (1, true), sides, (notes, false))
    }
}

impl Common {
    /// Refuses what cannot be done; sentences about what is done differently.
    fn check(&self) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        check_url("--url", &self.url.0)?;
        if check_protocol("--protocol", self.protocol.as_deref())? {
            notes.push(
                "--protocol AMQP: this version speaks AMQP 0.9.1, not Artemis' AMQP 1.0".to_owned(),
            );
        }
        if let Some(name) = &self.acceptor {
            return Err(Failure::usage(
                format!("--acceptor {name} names an entry of an Artemis broker's configuration"),
                "leave it out, and give the address with --url amqp://HOST:PORT",
            ));
        }
        if self.tx_size > 0 {
            notes.push("--tx-size is deprecated, please use --commit-interval".to_owned());
        }
        if let Some(name) = self.destinations.iter().find(|name| is_fqqn(name)) {
            return Err(Failure::usage(
                format!("{name:?} names a queue of an Artemis address, which AMQP 0.9.1 has not"),
                "give the queue's own name: queue://QUEUE",
            ));
        }
        Ok(notes)
    }

    fn destination_count(&self) -> usize {
        self.destinations.len() * self.num_destinations
    }

    fn spec(&self) -> LoadSpec {
        LoadSpec {
            num_destinations: self.num_destinations,
            message_count: self.message_count,
            prefetch: PREFETCH,
            ..to(&self.destinations)
        }
    }

    fn meaning(
        self,
        command: &str,
        load: Vec<LoadSpec>,
        (threads, ledger): (usize, bool),
        sides: Sides,
        (notes, may_expire): (Vec<String>, bool),
    ) -> Result<Meaning, Failure> {
        let experiment = Experiment {
            name: format!("artemis-perf-{command}"),
            threads,
            ledger,
            broker: BrokerSpec {
                kind: BrokerKind::Attach,
                url: Some(self.url.0.clone()),
                user: self.user,
                password: self.password.map(|password| password.expose().to_owned()),
                ..BrokerSpec::default()
            },
            phases: Phases {
                warmup: Length::seconds(self.warmup.into()),
                measure: Length::seconds(self.duration.into()),
                ..Phases::default()
            },
            profile: ProfileSpec {
                events: Vec::new(),
                ..ProfileSpec::default()
            },
            load,
            ..Experiment::default()
        };
        // It parses, or the check above would have said so.
        let endpoint = self
            .url
            .0
            .parse::<Endpoint>()
            .map_err(session::Error::from)?;
        Ok(Meaning {
            experiment,
            showing: Showing {
                sides,
                latencies: self.show_latency,
                silent: self.silent,
                verbose: self.verbose,
                json: self.json,
                hdr: self.hdr,
            },
            shown_url: endpoint.to_string(),
            notes,
            may_expire,
            runs: self.runs,
        })
    }
}

/// `ADDRESS::QUEUE`.
fn is_fqqn(name: &str) -> bool {
    let plain = name.split_once("://").map_or(name, |(_, rest)| rest);
    plain.contains("::")
}

impl Producing {
    /// As many as asked for, and no more than producers.
    fn threads(&self, destinations: usize, notes: &mut Vec<String>) -> usize {
        let producers = self.producers.saturating_mul(destinations).max(1);
        if self.threads > producers {
            notes.push(
                "Doesn't make sense to set workers > producers: auto-adjusting it to be the same as \
                 the producer count"
                    .into(),
            );
        }
        self.threads.min(producers)
    }

    fn fill(&self, spec: LoadSpec, common: &Common) -> LoadSpec {
        let ttl = (self.ttl > 0).then(|| Length(Nanos::from_millis(self.ttl)));
        let producers = self.producers.saturating_mul(common.destination_count());
        LoadSpec {
            producers: self.producers,
            producer_connections: self.shared_connections.then(|| self.threads.min(producers)),
            persistent: self.persistent,
            message_size: SizeSpec::fixed(self.message_size),
            rate: self.rate,
            ttl,
            headers: grouped(self.group.as_deref()),
            message_ids: self.enable_msg_id,
            timestamps: self.enable_timestamp,
            max_pending: self.max_pending,
            commit_every: common.commit_interval.max(common.tx_size),
            ..spec
        }
    }
}

impl Consuming {
    /// Refuses what cannot be done.
    fn check(&self, common: &Common) -> Result<(), Failure> {
        let topics = common
            .destinations
            .iter()
            .all(|d| d.starts_with("topic://"));
        for (option, set) in [("--durable", self.durable), ("--shared", self.shared > 0)] {
            if set && !topics {
                return Err(Failure::usage(
                    format!("{option} is about subscriptions, and queues have none"),
                    "write topic://NAME, or leave it out: this command's queues are durable",
                ));
            }
        }
        if self.durable && common.client_id.is_none() {
            return Err(Failure::usage(
                "The clientID must be set on durable subscriptions",
                "add --clientID NAME: the subscriptions' queues are called NAME.TOPIC.0, …",
            ));
        }
        Ok(())
    }

    fn fill(&self, spec: LoadSpec, common: &Common, connections: usize) -> LoadSpec {
        let named = self.durable || self.shared > 0;
        // Artemis commits for every message; but for `--commit-interval`, which only its producers
        // heed.
        let commit_every = common.commit_interval.max(common.tx_size).max(1);
        LoadSpec {
            consumers: self.consumers,
            consumer_connections: some(connections),
            consumer_commit_every: if self.tx { commit_every } else { 0 },
            ack: Acks::Every(1),
            subscription: named.then(|| SubscriptionSpec {
                name: common.client_id.clone(),
                durable: self.durable,
                shared: self.shared,
            }),
            ..spec
        }
    }
}

/// URLs of Artemis' own clients cannot work: they lead to a port that speaks CORE. Of what follows the
/// scheme nothing is repeated: it may hold a password.
fn check_url(option: &str, url: &str) -> Result<(), Failure> {
    const ITS_OWN: [&str; 5] = ["tcp", "ssl", "vm", "udp", "jgroups"];
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let core = scheme.and_then(|scheme| ITS_OWN.iter().find(|known| **known == scheme));
    let refuse = |what: &str| {
        Failure::usage(
            format!("{option} {what} leads to Artemis' CORE protocol, which is not spoken here"),
            "give the address of a broker that speaks AMQP 0.9.1: amqp://HOST:5672",
        )
    };
    if let Some(scheme) = core {
        return Err(refuse(&format!("{scheme}://…")));
    }
    if url.starts_with('(') {
        return Err(refuse("with a list of addresses in brackets"));
    }
    if Endpoint::has_options(url) {
        return Err(Failure::usage(
            format!("{option} has options after its ?, which are for Artemis' own clients"),
            "leave out what follows the ?; acknowledgements are always asked for here",
        ));
    }
    url.parse::<Endpoint>()
        .map(drop)
        .map_err(|error| session::Error::from(error).into())
}

/// Whether a protocol was asked for that is spoken here, if another version of it.
fn check_protocol(option: &str, protocol: Option<&str>) -> Result<bool, Failure> {
    let refuse = |what: &str| {
        Err(Failure::usage(
            format!("{option} {what}"),
            "leave it out: AMQP 0.9.1 is spoken, to RabbitMQ and others that have it",
        ))
    };
    match protocol {
        None => Ok(false),
        Some(name) if name.eq_ignore_ascii_case("AMQP") => Ok(true),
        Some(name) if name.eq_ignore_ascii_case("CORE") => {
            refuse("CORE: Artemis' own protocol is not spoken here")
        }
        Some(name) => refuse(&format!("{name:?} is unknown")),
    }
}
