//! Options on destinations, producers and consumers that `client` shares with `artemis perf`, by Artemis' names.

use std::collections::BTreeMap;

use clap::Args;
use experiment::LoadSpec;
use load::{Argument, Consumers, Endpoint, Subscription};
use measure::{Length, Nanos, Rate};

use super::args::from_one;
use super::command_line::{Url, described};
use super::connect::DEFAULT_URL;
use crate::Failure;

const DEFAULT_DESTINATION: &str = "queue://TEST";

#[derive(Debug, Args)]
#[command(mut_args(described([LoadSpec::MEANINGS])))]
pub(super) struct DestinationArgs {
    /// queue://NAME or topic://NAME; any number of them. The broker's address may be one, and for AMQP 1.0 and MQTT
    /// hold one: amqp10://HOST:PORT/queue://NAME. Over MQTT %i in a topic stands for the client's number
    #[arg(value_name = "DESTINATION", default_value = DEFAULT_DESTINATION)]
    pub(super) destinations: Vec<String>,
    #[arg(long, value_name = "N", default_value_t = LoadSpec::default().num_destinations, value_parser = from_one)]
    pub(super) num_destinations: usize,
    #[arg(long, value_name = "N", default_value_t = LoadSpec::default().message_count)]
    pub(super) message_count: u64,
    #[arg(long, value_name = "N", default_value_t = LoadSpec::default().commit_every)]
    pub(super) commit_interval: u32,
    /// Show latencies every second, not only in the summary
    #[arg(long)]
    pub(super) show_latency: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Producing", mut_args(described([LoadSpec::MEANINGS])))]
pub(super) struct Producing {
    #[arg(long)]
    persistent: bool,
    #[arg(long, value_name = "MSG/S")]
    pub(super) rate: Option<Rate>,
    /// Milliseconds after which the broker may drop a message; 0 = never
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(super) ttl: u64,
    /// Message group, as the header JMSXGroupID
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Producers share as many connections as there are --threads, with a channel each
    #[arg(long)]
    shared_connections: bool,
    #[arg(long, value_name = "N", default_value_t = LoadSpec::default().producers, value_parser = from_one)]
    pub(super) producers: usize,
    #[arg(long)]
    enable_msg_id: bool,
    #[arg(long)]
    enable_timestamp: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Consuming")]
pub(super) struct Consuming {
    /// Consumers per destination, or per shared subscription
    #[arg(long, value_name = "N", default_value_t = Consumers::default().per_destination, value_parser = from_one)]
    pub(super) consumers: usize,
    /// Acknowledge in transactions of --commit-interval deliveries, or of one
    #[arg(long)]
    pub(super) tx: bool,
    /// Subscribe to topics by durable queues, which are deleted at the end
    #[arg(long)]
    pub(super) durable: bool,
    /// Shared subscriptions per topic, each with all --consumers; 0 gives each consumer its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) shared: usize,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Consuming")]
pub(super) struct ConsumerSide {
    /// Where consumers connect; --url if absent
    #[arg(long, value_name = "URL")]
    pub(super) consumer_url: Option<Url>,
    /// Connections that all consumers share, with a channel each; 0 = one connection each
    #[arg(long, alias = "num-connections", value_name = "N", default_value_t = 0)]
    pub(super) consumer_connections: usize,
}

impl DestinationArgs {
    /// Moves the broker's address from a destination such as `amqp10://HOST:PORT/DESTINATION` or
    /// `amqp://HOST:PORT/VHOST` to `url`, and the destination of such a `url` here.
    pub(super) fn take_address(&mut self, url: &mut Url) -> Result<(), Failure> {
        let split = |text: &str| {
            let parts = Endpoint::split_destination(text);
            parts.map_err(|error| -> Failure { session::Error::from(error).into() })
        };
        let mut given = (0..).zip(&self.destinations).filter(|(_, text)| Endpoint::is_url(text));
        if let Some((place, given_url)) = given.next() {
            if given.next().is_some() || url.0 != DEFAULT_URL {
                let help = "give it once: as amqp10://HOST:PORT/DESTINATION, or by --url (BELLOWS_URL)";
                return Err(Failure::usage("the broker's address is given twice", help));
            }
            let (address, named) = split(given_url.as_str())?;
            url.0 = address;
            // Beside others it names none of its own.
            let alone = self.destinations.len() == 1;
            let named = named.or_else(|| alone.then(|| DEFAULT_DESTINATION.to_owned()));
            self.destinations.splice(place..=place, named);
            return Ok(());
        }
        if Endpoint::protocol_of(&url.0).is_none() {
            return Ok(());
        }
        let (address, named) = split(url.0.as_str())?;
        url.0 = address;
        match named {
            Some(named) if self.destinations == [DEFAULT_DESTINATION] => self.destinations = vec![named],
            Some(_) => {
                let help = "leave one of the two out; a virtual host stands in amqp://HOST:PORT/VHOST, beside \
                            --protocol amqp10";
                return Err(Failure::usage("the URL names a destination, and so does DESTINATION", help));
            }
            None => {}
        }
        Ok(())
    }

    /// A group of clients on these destinations.
    pub(super) fn spec(&self) -> LoadSpec {
        let mut spec = LoadSpec {
            num_destinations: self.num_destinations,
            message_count: self.message_count,
            ..LoadSpec::default()
        };
        match self.destinations.as_slice() {
            [destination] => spec.destination.clone_from(destination),
            destinations => spec.destinations = destinations.to_vec(),
        }
        spec
    }

    pub(super) fn count(&self) -> usize {
        self.destinations.len() * self.num_destinations
    }
}

impl Producing {
    /// Adds the producers to a group; `threads` is how many connections they may share.
    pub(super) fn fill(&self, spec: LoadSpec, threads: usize, commit_interval: u32) -> LoadSpec {
        LoadSpec {
            producers: self.producers,
            producer_connections: self.shared_connections.then_some(threads),
            persistent: self.persistent,
            rate: self.rate,
            ttl: (self.ttl > 0).then(|| Length(Nanos::from_millis(self.ttl))),
            headers: self.headers(),
            message_ids: self.enable_msg_id,
            timestamps: self.enable_timestamp,
            commit_every: commit_interval,
            ..spec
        }
    }

    fn headers(&self) -> BTreeMap<String, Argument> {
        let header = |id: &String| ("JMSXGroupID".to_owned(), Argument::Text(id.clone()));
        self.group.iter().map(header).collect()
    }
}

impl Consuming {
    /// Adds the options of every consumer; with 0 `connections` each has its own.
    pub(super) fn fill(
        &self,
        consumers: Consumers,
        client_id: Option<&String>,
        connections: usize,
        commit_interval: u32,
    ) -> Consumers {
        let named = self.durable || self.shared > 0;
        Consumers {
            per_destination: self.consumers,
            connections: (connections > 0).then_some(connections),
            commit_every: if self.tx { commit_interval.max(1) } else { 0 },
            subscription: named.then(|| Subscription {
                name: client_id.cloned().unwrap_or_default(),
                durable: self.durable,
                shared: self.shared,
            }),
            ..consumers
        }
    }
}

impl ConsumerSide {
    /// Splits a group in two where its consumers connect elsewhere, or subscribe to filters.
    pub(super) fn split(self, spec: LoadSpec, subscribe: Vec<String>) -> Vec<LoadSpec> {
        if self.consumer_url.is_none() && subscribe.is_empty() {
            return vec![spec];
        }
        let url = self.consumer_url.map(|Url(url)| url);
        if spec.producers == 0 {
            return vec![LoadSpec { url, subscribe, ..spec }];
        }
        let consumers = LoadSpec { producers: 0, rate: None, message_count: 0, url, subscribe, ..spec.clone() };
        let producers =
            LoadSpec { consumers: Consumers { per_destination: 0, subscription: None, ..spec.consumers }, ..spec };
        vec![consumers, producers]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_amqp_1_0_may_stand_before_a_destination() {
        let taken = |destinations: &[&str], url: &str| {
            let destinations = destinations.iter().map(|it| (*it).to_owned()).collect();
            let mut on = DestinationArgs {
                destinations,
                num_destinations: 1,
                message_count: 0,
                commit_interval: 0,
                show_latency: false,
            };
            let mut url = Url(url.to_owned());
            on.take_address(&mut url).map(|()| (on.destinations.join(" "), url.0)).ok()
        };
        let found = |names: &str, url: &str| Some((names.to_owned(), url.to_owned()));
        let (named, address) = ("amqp10://h:1/queue://orders", "amqp10://h:1");
        assert_eq!(taken(&[named, "q"], DEFAULT_URL), found("queue://orders q", address));
        assert_eq!(taken(&[DEFAULT_DESTINATION], named), found("queue://orders", address));
        assert_eq!(taken(&["topic://t"], address), found("topic://t", address));
        // A URL without a destination added queue://TEST to those that were named, and amqp:// was refused.
        assert_eq!(taken(&[address, "queue://orders"], DEFAULT_URL), found("queue://orders", address));
        assert_eq!(taken(&["a", "amqp://h/v", "b"], DEFAULT_URL), found("a b", "amqp://h/v"));
        assert_eq!(taken(&[address], DEFAULT_URL), found(DEFAULT_DESTINATION, address));
        assert_eq!(taken(&["q"], "amqp://h/v"), found("q", "amqp://h/v"));
        for (destinations, url) in [(&[named, named][..], DEFAULT_URL), (&[named], address), (&["q"], named)] {
            assert_eq!(taken(destinations, url), None, "{destinations:?} {url}");
        }
    }

    #[test]
    fn consumers_alone_connect_where_consumers_do() {
        let side = ConsumerSide { consumer_url: Some(Url("amqp://other".to_owned())), consumer_connections: 0 };
        let load = side.split(LoadSpec { producers: 0, message_count: 7, ..LoadSpec::default() }, Vec::new());
        let found: Vec<_> = load.iter().map(|it| (it.url.as_deref(), it.message_count)).collect();
        assert_eq!(found, [(Some("amqp://other"), 7)]);
        let side = ConsumerSide { consumer_url: None, consumer_connections: 0 };
        let load = side.split(LoadSpec { producers: 3, ..LoadSpec::default() }, vec!["a/#".to_owned()]);
        let found: Vec<_> = load.iter().map(|it| (it.producers, it.has_consumers(), it.subscribe.len())).collect();
        assert_eq!(found, [(0, true, 1), (3, false, 0)]);
    }
}
