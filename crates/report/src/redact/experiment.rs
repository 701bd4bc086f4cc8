//! Names in experiments and command lines: keys that hold names, keys that hold numbers and choices, and unknown keys.

use std::collections::HashSet;

use serde_json::Value;

use super::names::{GIVEN, NameKind, Names};
use super::text::decoded;
use super::words::{is_one_of, is_path, note_own_value, note_terms, note_words};

/// Kind of a key's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    /// One of a few words, a number, or a condition.
    Choice,
    Name(NameKind),
    /// An address, found by its form.
    Address,
    /// Erlang terms, whose texts and atoms are somebody's.
    Terms,
    /// Words, of which those that are no numbers are somebody's.
    Words,
}

/// Keys that hold choices, or values that bellows itself reads; numbers with units are known by their form. A test
/// compares an experiment's with their types (`session/tests/all/keys`).
const CHOICES: &str = "kind queue-type ack refuse who until auth allocation method page type stacks events plugins \
    schedule stream-offset nodes apply-to delivery that slo message-size declare content-type content-encoding event \
    require fail-if x-queue-type x-overflow x-queue-mode x-dead-letter-strategy x-queue-leader-locator x-queue-version \
    x-stream-offset x-match protocol select call data shape alpn place mqtt-version";
/// Tables whose keys are somebody's own.
const OWN_KEYS: &str = "headers arguments consumer-arguments parameters labels env";
/// Tables whose values are somebody's own, whatever their keys are called elsewhere.
const OWN_VALUES: [&str; 2] = ["headers", "properties"];
/// Keys in such tables that the protocol and RabbitMQ know, the same everywhere, and beginnings of others.
const PUBLIC_KEYS: &str = "x-match x-delay x-delayed-type alternate-exchange x-expires x-message-ttl x-max-length \
    x-max-length-bytes x-max-in-memory-length x-max-in-memory-bytes x-max-age x-stream-max-segment-size-bytes \
    x-stream-filter-size-bytes x-stream-filter x-stream-filter-value x-stream-match-unfiltered x-stream-offset \
    x-initial-cluster-size x-quorum-initial-group-size x-quorum-target-group-size x-single-active-consumer \
    x-max-priority x-priority x-delivery-limit x-overflow x-queue-type x-queue-mode x-queue-version \
    x-queue-leader-locator x-queue-master-locator x-dead-letter-exchange x-dead-letter-routing-key \
    x-dead-letter-strategy x-cancel-on-ha-failover x-credit x-consumer-timeout x-modulus x-hash-on";
const PUBLIC_BEGINNINGS: [&str; 3] = ["RABBITMQ_", "ERL_", "JAVA_"];

/// Kind of a key's text; unknown keys hold words.
fn held(key: &str) -> KeyKind {
    let key = key.trim_start_matches('-');
    if is_one_of(CHOICES, key) {
        return KeyKind::Choice;
    }
    KeyKind::Name(match key {
        "destination" | "destinations" | "subscribe" | "queue" | "queues" | "queue-pattern" | "pattern" | "u" => {
            NameKind::Queue
        }
        "exchange" | "x-dead-letter-exchange" | "alternate-exchange" | "dead-letter-exchange" | "e" => {
            NameKind::Exchange
        }
        "routing-key" | "x-dead-letter-routing-key" | "dead-letter-routing-key" | "k" => NameKind::RoutingKey,
        "vhost" => NameKind::VirtualHost,
        "user" | "management-user" | "client-id" | "user-id" | "clientID" | "username" => NameKind::User,
        "node" => NameKind::Node,
        "sni" | "host" | "hostname" | "source-addresses" => NameKind::Host,
        "root" | "definitions" | "patch" | "b-patch" | "ca" | "cert" | "key" | "cookie-file" | "bearer-file"
        | "output" | "o" | "runs" | "file" => NameKind::Path,
        "url" | "further-urls" | "management" | "uri" | "consumer-url" | "h" => return KeyKind::Address,
        "tag" => NameKind::Tag,
        "description" | "note" | "advanced" | "password" => NameKind::Text,
        "match" => return KeyKind::Terms,
        _ => return KeyKind::Words,
    })
}

/// Notes the names and descriptions in an experiment, but for those in the built-in one's own file.
pub(super) fn note_experiment(names: &mut Names, experiment: &Value) {
    let own = names.of_built_in(experiment);
    note_table(names, "", &without_names(experiment, &own), false);
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

fn note_table(names: &mut Names, key: &str, value: &Value, own_keys: bool) {
    if OWN_VALUES.contains(&key) {
        note_own_values(names, "", value);
    }
    match value {
        Value::Object(fields) => {
            for (inner, value) in fields {
                if own_keys && !is_public_key(inner) {
                    names.add_key(inner);
                }
                match inner.as_str() {
                    // A trace that has no name is called as its function.
                    "name" if fields.get("call") == Some(value) => {}
                    "name" => note_name(names, key, value),
                    _ => note_table(names, inner, value, own_keys || is_one_of(OWN_KEYS, inner)),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|it| note_table(names, key, it, own_keys)),
        Value::String(text) => {
            note_value(names, key, text);
            if own_keys && !is_public_key(key) {
                note_own_value(names, key, text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_public_key(key: &str) -> bool {
    is_one_of(PUBLIC_KEYS, key) || PUBLIC_BEGINNINGS.iter().any(|it| key.starts_with(it))
}

/// Notes every text of a table that is no number.
fn note_own_values(names: &mut Names, key: &str, value: &Value) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, it)| note_own_values(names, key, it)),
        Value::Array(items) => items.iter().for_each(|it| note_own_values(names, key, it)),
        Value::String(text) => note_own_value(names, key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn note_name(names: &mut Names, key: &str, value: &Value) {
    let kind = match key {
        "exchange" => NameKind::Exchange,
        "subscription" | "load" => NameKind::Queue,
        "" => NameKind::Experiment,
        _ => NameKind::Label,
    };
    if let Some(text) = value.as_str() {
        names.give(kind, text);
    }
}

/// Notes the names in the value of a key, which may be the path of one: `load.0.routing-key`.
pub(super) fn note_value(names: &mut Names, key: &str, value: &str) {
    let value = value.trim_matches(['"', '\'']);
    let mut path = key.rsplit('.');
    let last = path.next().unwrap_or_default();
    if last == "name" {
        let of = path.find(|it| it.parse::<u32>().is_err()).unwrap_or_default();
        return note_name(names, of, &Value::String(value.to_owned()));
    }
    let is_own = |it: &str| is_one_of(OWN_KEYS, it) && !is_public_key(last);
    if path.any(|it| OWN_VALUES.contains(&it) || is_own(it)) {
        note_own_value(names, last, value);
    }
    match held(last) {
        KeyKind::Choice => {}
        KeyKind::Name(kind) => note_known(names, kind, value),
        KeyKind::Address => note_address(names, value),
        KeyKind::Terms => note_terms(names, value),
        KeyKind::Words => note_words(names, value),
    }
}

fn note_known(names: &mut Names, kind: NameKind, value: &str) {
    match value.split_once("://") {
        Some(("queue" | "topic", name)) => names.add(kind, name),
        Some(_) => {}
        None if value.contains(',') && kind == NameKind::Host => value.split(',').for_each(|it| names.add(kind, it)),
        None => names.add(kind, value),
    }
}

/// An address without a scheme: a path, or a host and a port. Others are found by their form.
fn note_address(names: &mut Names, value: &str) {
    if value.contains("://") || value.starts_with('/') {
        return;
    }
    let host = value.split(['/', ':']).next().unwrap_or_default();
    names.add(NameKind::Host, &decoded(host));
}

pub(super) fn note_command(names: &mut Names, command: &[String]) {
    let mut option = String::new();
    for (place, argument) in command.iter().enumerate() {
        if place == 0 {
            if argument.contains('/') {
                names.add(NameKind::Path, argument);
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
        None if option.is_empty() => note_words_or_destination(names, value),
        None => note_value(names, option, value),
    }
}

fn note_words_or_destination(names: &mut Names, value: &str) {
    match value.split_once("://") {
        Some(("queue" | "topic", name)) => names.add(NameKind::Queue, name),
        _ => note_words(names, value),
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
