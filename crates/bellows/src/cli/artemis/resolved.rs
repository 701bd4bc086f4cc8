//! The options resolved to an experiment; an impossible request is an error with its remedy.

use experiment::{Experiment, LoadSpec, Origin, PhasesSpec, ProfileSpec, SizeSpec};
use load::{Consumers, Endpoint, Protocol};
use measure::Length;
use report::artemis::Sides;

use super::options::{ArtemisClientArgs, ArtemisConsumerArgs, ArtemisProducerArgs, Common, Sending};
use crate::Failure;
use crate::cli::args::given;
use crate::cli::clients::Consuming;
use crate::cli::command_line::{OPTION_NAMES, Url};

/// Artemis' consumers have a window of 1 MiB: a thousand messages of its default size.
const PREFETCH: u16 = 1_000;
/// Smaller messages have no room for the header that latency to the consumer comes from.
const SMALLEST_MEASURED: usize = 12;

#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) experiment: Experiment,
    pub(super) common: Common,
    pub(super) sides: Sides,
    /// Sentences for standard error.
    pub(super) notes: Vec<String>,
    /// Messages may be dropped on purpose.
    pub(super) may_expire: bool,
}

impl ArtemisClientArgs {
    pub(super) fn resolve(self) -> Result<Resolved, Failure> {
        let Self { mut common, sending, consuming, mut consumer_side, consumer_protocol } = self;
        common.on.take_address(&mut common.login.url)?;
        if consuming.durable && common.on.destinations == ["queue://TEST"] {
            // As Artemis does, since queues have no subscriptions.
            common.on.destinations = vec!["topic://TEST".into()];
        }
        check_protocol("--consumer-protocol", consumer_protocol.as_deref())?;
        // Destinations are judged by it.
        common.protocol = common.protocol.or(consumer_protocol);
        if let Some(url) = &consumer_side.consumer_url {
            common.take_protocol(&url.0);
        }
        let mut notes = common.check(true)?;
        if sending.message_size < SMALLEST_MEASURED {
            let size = sending.message_size;
            let cause = format!("--message-size {size} leaves no room for the time that the transfer is measured by");
            let help = format!("ask for {SMALLEST_MEASURED} bytes or more, or run producer and consumer apart");
            return Err(Failure::usage(cause, help).observed(size));
        }
        common.check_subscriptions(&consuming)?;
        if let Some(url) = &mut consumer_side.consumer_url {
            over_amqp(url);
            check_url("--consumer-url", &url.0)?;
        }
        let threads = sending.threads(common.on.count(), &mut notes);
        let connections = consumer_side.consumer_connections;
        let load = consumer_side.split(
            LoadSpec { consumers: common.consumers(&consuming, connections), ..sending.fill(&common, threads) },
            Vec::new(),
        );
        let sides = Sides { producers: true, paced: sending.producing.rate.is_some(), consumers: true };
        let may_expire = sending.producing.ttl > 0;
        let asked = Experiment { name: "artemis-perf-client".to_owned(), threads, load, ..Experiment::default() };
        Ok(Resolved { may_expire, ..common.resolve(asked, sides, notes)? })
    }
}

impl ArtemisProducerArgs {
    pub(super) fn resolve(self) -> Result<Resolved, Failure> {
        let Self { mut common, sending } = self;
        let mut notes = common.check(false)?;
        if common.client_id.is_some() {
            notes.push("ClientID configuration is not supported".into());
        }
        let ledger = sending.message_size >= SMALLEST_MEASURED;
        let threads = sending.threads(common.on.count(), &mut notes);
        let mut spec = sending.fill(&common, threads);
        spec.consumers.per_destination = 0;
        let sides = Sides { producers: true, paced: sending.producing.rate.is_some(), consumers: false };
        let asked = Experiment {
            name: "artemis-perf-producer".to_owned(),
            threads,
            ledger,
            load: vec![spec],
            ..Experiment::default()
        };
        common.resolve(asked, sides, notes)
    }
}

impl ArtemisConsumerArgs {
    pub(super) fn resolve(self) -> Result<Resolved, Failure> {
        let Self { mut common, consuming, num_connections } = self;
        let mut notes = common.check(true)?;
        common.check_subscriptions(&consuming)?;
        if common.on.commit_interval > 0 && !consuming.tx {
            notes.push("--commit-interval has no effect on a consumer without --tx".into());
        }
        let spec =
            LoadSpec { producers: 0, consumers: common.consumers(&consuming, num_connections), ..common.on.spec() };
        let sides = Sides { producers: false, paced: false, consumers: true };
        let asked = Experiment { name: "artemis-perf-consumer".to_owned(), load: vec![spec], ..Experiment::default() };
        common.resolve(asked, sides, notes)
    }
}

impl Common {
    /// Refuses the impossible; returns sentences about differences, also of consumers where it `consumes`.
    fn check(&mut self, consumes: bool) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        self.on.take_address(&mut self.login.url)?;
        self.take_protocol(&self.login.url.0.clone());
        let without = self.login.url.0.contains('?').then(|| "without options after a ?".to_owned());
        let is_asked = self.protocol.is_some();
        // A careless password may hold the mark of options.
        let shown = web::redact::urls(&self.login.url.0);
        self.shown_url = shown.split('?').next().unwrap_or_default().to_owned();
        if over_amqp(&mut self.login.url) {
            self.protocol.get_or_insert_with(|| "AMQP".to_owned());
            let window = || {
                let window = measure::count(PREFETCH.into());
                format!("with a window of {window} messages per consumer, not of 1 MiB")
            };
            let unlike: Vec<String> = without.into_iter().chain(consumes.then(window)).collect();
            let unlike = unlike.join(", and ");
            let comma = if unlike.is_empty() { "" } else { ", " };
            match is_asked {
                false => notes.push(format!(
                    "tcp:// leads to Artemis' own protocol, CORE: AMQP 1.0 is used instead{comma}{unlike}"
                )),
                true if !unlike.is_empty() => notes.push(format!("AMQP 1.0 is used {unlike}")),
                true => {}
            }
        }
        check_url("--url", &self.login.url.0)?;
        check_protocol("--protocol", self.protocol.as_deref())?;
        if let Some(name) = &self.acceptor {
            let cause = format!("--acceptor {name} names an entry of an Artemis broker's configuration");
            let help = "leave it out, and give the address with --url amqp://HOST:PORT";
            return Err(Failure::usage(cause, help).observed(name));
        }
        if self.tx_size > 0 {
            notes.push("--tx-size is deprecated, please use --commit-interval".to_owned());
        }
        let has_addresses = self.protocol.is_some();
        let is_refused = |name: &&String| is_fqqn(name) && !has_addresses;
        if let Some(name) = self.on.destinations.iter().find(is_refused) {
            let cause = format!("{name:?} names a queue of an Artemis address, which AMQP 0.9.1 does not have");
            let help = "give the queue's own name: queue://QUEUE, or use AMQP 1.0: --protocol AMQP";
            return Err(Failure::usage(cause, help).observed(name));
        }
        Ok(notes)
    }

    /// Takes AMQP 1.0 from a URL that asks for it.
    fn take_protocol(&mut self, url: &str) {
        if Endpoint::protocol_of(url).is_some() {
            self.protocol.get_or_insert_with(|| "AMQP".to_owned());
        }
    }

    fn commit_interval(&self) -> u32 {
        self.on.commit_interval.max(self.tx_size)
    }

    /// The consumers of a group. Artemis commits every message; only its producers heed `--commit-interval`.
    fn consumers(&self, consuming: &Consuming, connections: usize) -> Consumers {
        let given = Consumers { prefetch: PREFETCH, ..Consumers::default() };
        consuming.fill(given, self.client_id.as_ref(), connections, self.commit_interval())
    }

    fn check_subscriptions(&self, consuming: &Consuming) -> Result<(), Failure> {
        let topics = self.on.destinations.iter().all(|d| d.starts_with("topic://"));
        let mut subscribing = given([("--durable", consuming.durable), ("--shared", consuming.shared > 0)]);
        if let Some(option) = subscribing.next().filter(|_| !topics) {
            let cause = format!("{option} is about subscriptions, and queues have none");
            let help = "write topic://NAME, or leave it out: this command's queues are durable";
            return Err(Failure::usage(cause, help).observed(option));
        }
        if consuming.durable && self.client_id.is_none() {
            let cause = "--durable needs --clientID, by which a broker knows subscriptions again";
            let help = "add --clientID NAME: the subscriptions' queues are called NAME.TOPIC.0, …";
            return Err(Failure::usage(cause, help));
        }
        Ok(())
    }

    fn resolve(self, mut asked: Experiment, sides: Sides, notes: Vec<String>) -> Result<Resolved, Failure> {
        for load in &mut asked.load {
            // Of Artemis' names, AMQP means 1.0.
            load.protocol = self.protocol.as_ref().map(|_| Protocol::Amqp10);
        }
        let experiment = Experiment {
            broker: self.login.clone().spec(),
            phases: PhasesSpec {
                warmup: Length::seconds(self.warmup.into()),
                measure: Length::seconds(self.duration.into()),
                ..PhasesSpec::default()
            },
            profile: ProfileSpec { events: Vec::new(), ..ProfileSpec::default() },
            origin: Origin::options(OPTION_NAMES),
            ..asked
        };
        Ok(Resolved { experiment, common: self, sides, notes, may_expire: false })
    }
}

/// Whether a name is `ADDRESS::QUEUE`, the queue of an address.
fn is_fqqn(name: &str) -> bool {
    let plain = name.split_once("://").map_or(name, |(_, rest)| rest);
    plain.contains("::")
}

impl Sending {
    fn threads(&self, destinations: usize, notes: &mut Vec<String>) -> usize {
        let producers = self.producing.producers.saturating_mul(destinations).max(1);
        if self.threads > producers {
            notes.push(
                "Doesn't make sense to set workers > producers: auto-adjusting it to be the same as \
                 the producer count"
                    .into(),
            );
        }
        self.threads.min(producers)
    }

    fn fill(&self, common: &Common, threads: usize) -> LoadSpec {
        let producing = &self.producing;
        LoadSpec {
            max_pending: Some(self.max_pending),
            message_size: SizeSpec::fixed(self.message_size),
            ..producing.fill(common.on.spec(), threads, common.commit_interval())
        }
    }
}

const ARTEMIS_PORT: u16 = 61_616;

/// Turns an address of Artemis' own clients into that of AMQP on the same port; tells whether it was one.
fn over_amqp(url: &mut Url) -> bool {
    let Some(rest) = url.0.strip_prefix("tcp://") else { return false };
    let host = rest.split(['?', '/']).next().unwrap_or_default();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    url.0 = if has_port { format!("amqp://{host}") } else { format!("amqp://{host}:{ARTEMIS_PORT}") };
    true
}

/// URLs of Artemis' own clients cannot work: they lead to a port that speaks CORE. Nothing behind the scheme is
/// repeated: it may hold a password.
fn check_url(option: &str, url: &str) -> Result<(), Failure> {
    const ITS_OWN: [&str; 4] = ["ssl", "vm", "udp", "jgroups"];
    let core = url.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| ITS_OWN.contains(scheme));
    let refuse = |what: &str| {
        let cause = format!("{option} {what} leads to Artemis' CORE protocol, which is not spoken here");
        let help = "give the address with amqp://: Artemis takes AMQP 1.0 on the same port (--protocol AMQP)";
        Failure::usage(cause, help).observed(what)
    };
    if let Some(scheme) = core {
        return Err(refuse(&format!("{scheme}://…")));
    }
    if url.starts_with('(') {
        return Err(refuse("with a list of addresses in brackets"));
    }
    if Endpoint::has_options(url) {
        let cause = format!("{option} has options after its ?, which are for Artemis' own clients");
        let help = "leave out what follows the ?; acknowledgements are always requested here";
        return Err(Failure::usage(cause, help).observed(option));
    }
    let refused = url.parse::<Endpoint>().map(drop);
    refused.map_err(|error| Failure::from(session::Error::from(error)).of_one(option))
}

fn check_protocol(option: &str, protocol: Option<&str>) -> Result<(), Failure> {
    let refuse = |what: &str| {
        let cause = format!("{option} {what}");
        let help = "give AMQP, which is AMQP 1.0, or leave it out for AMQP 0.9.1, as RabbitMQ has it";
        Err(Failure::usage(cause, help).observed(what))
    };
    match protocol {
        None => Ok(()),
        Some(name) if name.eq_ignore_ascii_case("AMQP") => Ok(()),
        Some(name) if name.eq_ignore_ascii_case("CORE") => refuse("CORE: Artemis' own protocol is not spoken here"),
        Some(name) => refuse(&format!("{name:?} is unknown")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn resolved(line: &str) -> Result<Resolved, Failure> {
        let command = ArtemisClientArgs::augment_args(clap::Command::new("client"));
        let found = command.get_matches_from(line.split(' '));
        ArtemisClientArgs::from_arg_matches(&found).unwrap().resolve()
    }

    #[test]
    fn options_of_a_url_are_told_to_be_left_out_where_there_are_some() {
        let told = |url: &str| resolved(&format!("client q --url {url}")).unwrap().notes.join("; ");
        assert!(told("tcp://h?x=1").contains("is used instead, without options after a ?, and with a window of 1,000"));
        assert!(told("tcp://h").contains("is used instead, with a window of 1,000"));
        // The URL of another address stood there.
        for (url, shown) in [("tcp://h?x=1", "tcp://h"), ("tcp://h:9", "tcp://h:9"), ("amqp://u:p@h", "amqp://u:***@h")]
        {
            assert_eq!(resolved(&format!("client q --url {url}")).unwrap().common.shown_url, shown);
        }
        // Nothing is used instead of what was asked for, and producers have no window of consumers.
        assert!(told("tcp://h --protocol AMQP").starts_with("AMQP 1.0 is used with a window of 1,000"));
        let command = ArtemisProducerArgs::augment_args(clap::Command::new("producer"));
        let found = command.get_matches_from(["producer", "q", "--url", "tcp://h"]);
        let notes = ArtemisProducerArgs::from_arg_matches(&found).unwrap().resolve().unwrap().notes;
        assert!(notes.iter().all(|it| !it.contains("window") && !it.contains("1.0 is used instead,")), "{notes:?}");
    }

    #[test]
    fn queues_of_addresses_are_for_amqp_1_0_whichever_option_asks_for_it() {
        let is_taken = |line: &str| resolved(line).is_ok();
        assert!(!is_taken("client A::Q"));
        for option in [
            "--protocol AMQP",
            "--consumer-protocol AMQP",
            "--url tcp://localhost",
            "--url amqp10://localhost",
            "--consumer-url amqp10://localhost",
        ] {
            assert!(is_taken(&format!("client A::Q {option}")), "{option}");
        }
    }

    #[test]
    fn addresses_of_artemis_own_clients_become_those_of_amqp() {
        for (given, taken) in [
            ("tcp://localhost", "amqp://localhost:61616"),
            ("tcp://h:1234?confirmationWindowSize=20000", "amqp://h:1234"),
            ("tcp://[::1]", "amqp://[::1]:61616"),
            ("tcp://[::1]:5/", "amqp://[::1]:5"),
            ("amqp://u:p@h:1", "amqp://u:p@h:1"),
        ] {
            let mut url = Url(given.to_owned());
            assert_eq!((over_amqp(&mut url), url.0.as_str()), (given.starts_with("tcp"), taken), "{given}");
        }
    }
}
