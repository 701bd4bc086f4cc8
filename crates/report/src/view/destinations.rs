//! The queues that a load names, read from the configuration of its run.

use std::collections::BTreeSet;

use serde_json::Value;

/// Destinations of a run that are distinguished; nobody has more in one.
const MOST: u64 = 1_000_000;
/// Prefix of a queue's name.
const QUEUE: &str = "queue://";

/// Queues of all loads; `None` without any, or with topics, whose queues the broker or the client names.
pub(super) fn queues(experiment: &Value) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for load in experiment.get("load")?.as_array()? {
        let is_program = load.get("kind").and_then(Value::as_str) == Some("command");
        if is_program {
            continue;
        }
        let numbered = load.get("num-destinations").and_then(Value::as_u64);
        let numbered = numbered.unwrap_or(1).min(MOST);
        for text in texts(load)? {
            let name = match text.split_once("://") {
                None => text,
                Some(_) => text.strip_prefix(QUEUE)?,
            };
            match numbered {
                1 => drop(all.insert(name.to_owned())),
                several => all.extend((0..several).map(|number| format!("{name}{number}"))),
            }
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Destinations of a load; one where no list names several.
fn texts(load: &Value) -> Option<Vec<&str>> {
    let several = load.get("destinations").and_then(Value::as_array);
    match several.filter(|several| !several.is_empty()) {
        Some(several) => several.iter().map(Value::as_str).collect(),
        None => load.get("destination")?.as_str().map(|one| vec![one]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(load: &Value) -> Option<Vec<String>> {
        queues(&json!({ "load": load })).map(|all| all.into_iter().collect())
    }

    #[test]
    fn names_are_those_of_the_plan() {
        let names = |all: &[&str]| Some(all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            named(&json!([{ "destination": "queue://a" }])),
            names(&["a"])
        );
        assert_eq!(
            named(&json!([
                { "destination": "queue://a", "num-destinations": 2 },
                { "destination": "queue://a1" },
                { "destination": "queue://x", "destinations": ["queue://b", "c"] },
                { "kind": "command", "command": ["true"] },
            ])),
            names(&["a0", "a1", "b", "c"])
        );
    }

    #[test]
    fn where_queues_are_not_named_there_are_none() {
        for load in [
            json!([{ "destination": "queue://a" }, { "destination": "topic://t" }]),
            json!([{ "kind": "command", "destination": "queue://a" }]),
            json!([{ "destination": 7 }]),
            json!([{ "destinations": ["queue://a", 7] }]),
            json!({}),
        ] {
            assert_eq!(named(&load), None, "{load}");
        }
        assert_eq!(queues(&Value::Null), None);
    }
}
