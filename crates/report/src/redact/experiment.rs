//! Names in experiments and command lines: the rows and types of an experiment's keys say what a text names.

use std::collections::HashSet;

use experiment::{Experiment, Held, TextKind, Texts};
use serde_json::Value;

use super::names::{GIVEN, Names};
use super::text::decoded;
use super::words::{is_one_of, is_path, note_own_value, note_terms, note_words};

/// Arguments of queues and options of commands whose values are choices or conditions.
const CHOICES: &str = "x-queue-type x-overflow x-queue-mode x-dead-letter-strategy x-queue-leader-locator \
    x-queue-version x-stream-offset x-match shape slo require fail-if event delivery content-type content-encoding";
/// Keys of arguments that the protocol and RabbitMQ know, the same everywhere, and beginnings of others.
const PUBLIC_KEYS: &str = "x-match x-delay x-delayed-type alternate-exchange x-expires x-message-ttl x-max-length \
    x-max-length-bytes x-max-in-memory-length x-max-in-memory-bytes x-max-age x-stream-max-segment-size-bytes \
    x-stream-filter-size-bytes x-stream-filter x-stream-filter-value x-stream-match-unfiltered x-stream-offset \
    x-initial-cluster-size x-quorum-initial-group-size x-quorum-target-group-size x-single-active-consumer \
    x-max-priority x-priority x-delivery-limit x-overflow x-queue-type x-queue-mode x-queue-version \
    x-queue-leader-locator x-queue-master-locator x-dead-letter-exchange x-dead-letter-routing-key \
    x-dead-letter-strategy x-cancel-on-ha-failover x-credit x-consumer-timeout x-modulus x-hash-on";
const PUBLIC_BEGINNINGS: [&str; 3] = ["RABBITMQ_", "ERL_", "JAVA_"];

/// Kind of the texts behind a key or option that no table has.
fn known(key: &str) -> Option<TextKind> {
    Some(match key {
        "queue" | "queues" | "queue-pattern" | "u" => TextKind::Queue,
        _ if key == "e" || key.ends_with("exchange") => TextKind::Exchange,
        _ if key == "k" || key.ends_with("routing-key") => TextKind::RoutingKey,
        "vhost" => TextKind::VirtualHost,
        "user-id" | "clientID" | "username" => TextKind::User,
        "host" | "hostname" => TextKind::Host,
        "b-patch" | "output" | "o" | "runs" | "file" => TextKind::Path,
        "fleet-credentials" | "fleet-ca" | "fleet-cert" | "fleet-key" => TextKind::Path,
        "tag" => TextKind::Tag,
        "note" | "password" => TextKind::Text,
        "consumer-url" | "h" => TextKind::Address,
        _ => return is_one_of(CHOICES, key).then_some(TextKind::Nothing),
    })
}

/// Texts behind a key of this table, or of one within it.
fn within(of: Held, key: &str) -> Option<Held> {
    let Held::Table(keys) = of else { return None };
    let found = keys.iter().find(|(it, _)| *it == key).map(|(_, held)| *held);
    found.or_else(|| keys.iter().find_map(|(_, inner)| within(*inner, key)))
}

/// Texts behind a key of a value; words where nothing is known of it.
fn behind(of: Held, key: &str) -> Held {
    let found = match of {
        Held::Table(keys) => keys.iter().find(|(it, _)| *it == key).map(|(_, held)| *held),
        Held::Kind(TextKind::Arguments) if is_public_key(key) => None,
        Held::Kind(TextKind::Arguments | TextKind::Headers) => Some(Held::Kind(TextKind::Headers)),
        Held::Kind(kind) => Some(kind).filter(|it| *it == TextKind::Own).map(Held::Kind),
    };
    found.unwrap_or_else(|| Held::Kind(known(key).unwrap_or(TextKind::Words)))
}

/// Notes the names and descriptions in an experiment, but for those in the built-in one's own file.
pub(super) fn note_experiment(names: &mut Names, experiment: &Value) {
    let own = names.of_built_in(experiment);
    note_table(names, Experiment::HELD, "", &without_names(experiment, &own));
}

fn without_names(of: &Value, names: &HashSet<String>) -> Value {
    match of {
        Value::Object(fields) => {
            let is_one = |value: &Value| value.as_str().is_some_and(|it| names.contains(it));
            let fields = fields.iter().filter(|(key, value)| !GIVEN.contains(&key.as_str()) || !is_one(value));
            fields.map(|(key, value)| (key.clone(), without_names(value, names))).collect()
        }
        Value::Array(items) => items.iter().map(|it| without_names(it, names)).collect(),
        other => other.clone(),
    }
}

fn note_table(names: &mut Names, of: Held, key: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (inner, value) in fields {
                if matches!(of, Held::Kind(TextKind::Arguments | TextKind::Headers)) && !is_public_key(inner) {
                    names.add_key(inner);
                }
                // A trace that has no name is called as its function.
                if inner != "name" || fields.get("call") != Some(value) {
                    note_table(names, behind(of, inner), inner, value);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|it| note_table(names, of, key, it)),
        Value::String(text) => note_text(names, of, key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_public_key(key: &str) -> bool {
    is_one_of(PUBLIC_KEYS, key) || PUBLIC_BEGINNINGS.iter().any(|it| key.starts_with(it))
}

/// Notes the names in the value of an option, or of a key, which may be the path of one: `load.0.routing-key`.
pub(super) fn note_value(names: &mut Names, key: &str, value: &str) {
    let value = value.trim_matches(['"', '\'']);
    let option = key.trim_start_matches('-');
    if option != key {
        // An option may be called as a key of any table.
        let held = known(option).map(Held::Kind).or_else(|| within(Experiment::HELD, option));
        return note_text(names, held.unwrap_or(Held::Table(&[])), option, value);
    }
    let mut path = key.split('.').filter(|it| it.parse::<u32>().is_err());
    let held = path.clone().fold(Experiment::HELD, behind);
    note_text(names, held, path.next_back().unwrap_or_default(), value);
}

fn note_text(names: &mut Names, of: Held, key: &str, text: &str) {
    let Held::Kind(kind) = of else { return note_words(names, text) };
    match kind {
        TextKind::Nothing => {}
        TextKind::Words | TextKind::Arguments => note_words(names, text),
        TextKind::Address => note_address(names, text),
        TextKind::Terms => note_terms(names, text),
        TextKind::Headers | TextKind::Own => note_own_value(names, key, text),
        _ if key == "name" => names.give(kind, text),
        _ => note_known(names, kind, text),
    }
}

fn note_known(names: &mut Names, kind: TextKind, value: &str) {
    match value.split_once("://") {
        Some(("queue" | "topic", name)) => names.add(kind, name),
        Some(_) => {}
        None if value.contains(',') && kind == TextKind::Host => value.split(',').for_each(|it| names.add(kind, it)),
        None => names.add(kind, value),
    }
}

/// An address without a scheme: a path, or a host and a port. Others are found by their form.
fn note_address(names: &mut Names, value: &str) {
    if value.contains("://") || value.starts_with('/') {
        return;
    }
    let host = value.split(['/', ':']).next().unwrap_or_default();
    names.add(TextKind::Host, &decoded(host));
}

pub(super) fn note_command(names: &mut Names, command: &[String]) {
    let mut option = String::new();
    for (place, argument) in command.iter().enumerate() {
        if place == 0 {
            if argument.contains('/') {
                names.add(TextKind::Path, argument);
            }
            continue;
        }
        if argument.starts_with('-') && argument.len() > 1 {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            name.clone_into(&mut option);
            if !value.is_empty() {
                note_argument(names, &option, value);
                option.clear();
            }
            continue;
        }
        // The first word is the command itself.
        if place > 1 || is_path(argument) {
            note_argument(names, &option, argument);
        }
        option.clear();
    }
}

fn note_argument(names: &mut Names, option: &str, value: &str) {
    let of_key = ["--set", "--a-set", "--b-set", "--over", "--scale"].contains(&option);
    match value.split_once('=').filter(|_| of_key) {
        Some((key, values)) => {
            note_value(names, key, values);
            if values.contains(',') {
                values.split(',').for_each(|it| note_value(names, key, it));
            }
        }
        None if option.is_empty() => match value.split_once("://") {
            Some(("queue" | "topic", name)) => names.add(TextKind::Queue, name),
            _ => note_words(names, value),
        },
        None => note_value(names, option, value),
    }
}

/// Notes the names in arguments of queues and bindings, `key=value` each.
pub(super) fn note_arguments(names: &mut Names, arguments: &[String]) {
    for argument in arguments {
        let Some((key, value)) = argument.split_once('=') else { continue };
        if is_public_key(key) {
            note_value(names, key, value);
        } else {
            names.add_key(key);
            note_own_value(names, key, value);
        }
    }
}
