//! Exchange, queues, and the clients of each.

use std::hash::{BuildHasher, Hasher, RandomState};

use experiment::LoadSpec;
use load::{AmqpDestination, Consumers, Declare, Exchange, QueueHandling, QueueType};

use super::clients::Agents;
use super::queues::{self, Kind, Names};
use super::values::Values;
use crate::failure::Failure;

/// The load with its addresses, and whether every message can be accounted for: only where each
/// goes to one queue that is known.
pub(super) fn topology(
    values: &Values,
    kind: &Kind,
    agents: Agents,
    id: &str,
    spec: LoadSpec,
) -> Result<(LoadSpec, bool), Failure> {
    let named = queues::names(values)?;
    refuse(values, agents, &named)?;
    let exclusive = values.has("exclusive");
    let exchange = exchange(values);
    let direct = exchange.kind == "direct";
    let bind = !values.has("skip-binding-queues");
    let key = values.text("routing-key").map(str::to_owned);
    let fixed = spec.random_routing_keys.is_none() && bind;
    let mut spec = LoadSpec {
        exclusive,
        queue: AmqpDestination {
            queue_type: spec.queue.queue_type,
            durable: kind.persistent,
            arguments: kind.arguments.clone(),
            auto_delete: kind.auto_delete,
            routing_key: key.clone().or_else(|| Some(generated_key())),
            exchange: Some(exchange),
            bind,
        },
        handling: QueueHandling {
            // A queue that was only polled never lost a last consumer.
            delete: kind.auto_delete && spec.consumers.poll.is_some(),
            declare: if values.has("predeclared") {
                Declare::IfMissing
            } else {
                Declare::Always
            },
            ..spec.handling
        },
        ..spec
    };
    Ok(match named {
        // A sequence's messages find their queues by name unless a key says otherwise.
        Names::Sequence(names) => {
            let alone = names.len() == 1 || direct && key.is_none();
            // An exclusive queue's consumers share its connection.
            let queues = names.len().min(agents.all_consumers());
            let shared = exclusive.then_some(queues).filter(|queues| *queues > 0);
            spec.queue.routing_key = key;
            spec.consumers.connections = shared.or(spec.consumers.connections);
            (with_queues(spec, names), fixed && alone)
        }
        // All have the same key, so that each gets every message; each consumer reads all.
        Names::Listed(names) => {
            let alone = names.len() == 1;
            (listed(spec, agents, names, exclusive), fixed && alone)
        }
        Names::Generated => {
            let alone = agents.all_consumers() <= 1;
            let own = own_queues(kind, &spec);
            let spec = generated(spec, agents, id, own);
            (spec, fixed && (alone || own))
        }
    })
}

/// Refuses options that make no sense together.
fn refuse(values: &Values, agents: Agents, named: &Names) -> Result<(), Failure> {
    if values.has("predeclared") && *named == Names::Generated && agents.consumers > 0 {
        return Err(Failure::usage(
            "consumers of queues that exist already have no queue",
            "name it with -u/--queue",
        ));
    }
    Ok(())
}

fn exchange(values: &Values) -> Exchange {
    let kind = values.text("type").unwrap_or("direct");
    let name = match values.text("exchange") {
        None => kind,
        Some("amq.default") => "",
        Some(name) => name,
    };
    Exchange {
        name: name.to_owned(),
        kind: kind.to_owned(),
        durable: true,
        auto_delete: false,
    }
}

fn with_queues(spec: LoadSpec, names: Vec<String>) -> LoadSpec {
    let destinations = names.iter().map(|name| format!("queue://{name}"));
    LoadSpec {
        destinations: destinations.collect(),
        ..spec
    }
}

fn listed(spec: LoadSpec, agents: Agents, names: Vec<String>, exclusive: bool) -> LoadSpec {
    let several = names.len() > 1;
    let mut spec = with_queues(spec, names);
    if agents.consumers > 0 && (exclusive || several) {
        spec.consumers = Consumers {
            total: None,
            per_destination: agents.all_consumers(),
            // Exclusive queues belong to one connection, which all share.
            connections: Some(if exclusive { 1 } else { agents.consumers }),
            ..spec.consumers
        };
    }
    spec
}

/// Whether each consumer can bind a queue of its own, which is removed with it.
fn own_queues(kind: &Kind, spec: &LoadSpec) -> bool {
    let plain = kind.queue_type == QueueType::Classic && !kind.persistent && kind.auto_delete;
    spec.queue.bind && spec.consumers.poll.is_none() && plain
}

/// Every consumer has a queue, and every message goes to each.
fn generated(spec: LoadSpec, agents: Agents, id: &str, own: bool) -> LoadSpec {
    let all = agents.all_consumers();
    if own || all == 0 {
        return LoadSpec {
            destination: format!("topic://perf-test-{id}"),
            ..spec
        };
    }
    let random = format!("{:016x}", random());
    let names = (0..all).map(|n| format!("perf-test-{random}-{n}"));
    with_queues(spec, names.collect())
}

/// A key that no other test has, written as PerfTest writes it.
fn generated_key() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
