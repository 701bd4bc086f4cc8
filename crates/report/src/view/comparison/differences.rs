//! In which keys two experiments differ.

use serde::Serialize;
use serde_json::{Map, Value};

/// Keys for people, without effect on the run.
const OF_PEOPLE: [&str; 3] = ["description", "note", "require"];
/// Keys that are named at most.
const MOST: usize = 20;
/// Characters of a value that are shown.
const MOST_SHOWN: usize = 120;

/// A key whose values differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ExperimentDifference {
    /// The key, as `--set` writes it: `broker.schedulers`.
    pub key: String,
    /// Its value on side A; `None` where it has none.
    pub a: Option<String>,
    /// Its value on side B.
    pub b: Option<String>,
}

/// All keys in which two experiments differ, in their order.
pub(super) fn between(a: &Value, b: &Value) -> Vec<ExperimentDifference> {
    let mut found = Vec::new();
    collect(Some(a), Some(b), "", &mut found);
    found
}

fn collect(
    a: Option<&Value>,
    b: Option<&Value>,
    path: &str,
    found: &mut Vec<ExperimentDifference>,
) {
    if a == b || found.len() >= MOST {
        return;
    }
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    let none = Map::new();
    let object = |it: Option<&'_ Value>| it.and_then(Value::as_object).cloned();
    match (object(a), object(b)) {
        (None, None) => {}
        // A part that one side lacks is told key by key.
        (of_a, of_b) if a.is_none_or(Value::is_object) && b.is_none_or(Value::is_object) => {
            let (of_a, of_b) = (of_a.unwrap_or(none.clone()), of_b.unwrap_or(none));
            let only_b = of_b.keys().filter(|key| !of_a.contains_key(*key));
            for key in of_a.keys().chain(only_b) {
                if path.is_empty() && OF_PEOPLE.contains(&key.as_str()) {
                    continue;
                }
                collect(of_a.get(key), of_b.get(key), &below(key), found);
            }
            return;
        }
        _ => {}
    }
    if let (Some(Value::Array(of_a)), Some(Value::Array(of_b))) = (a, b) {
        for index in 0..of_a.len().max(of_b.len()) {
            let key = below(&index.to_string());
            collect(of_a.get(index), of_b.get(index), &key, found);
        }
        return;
    }
    let shown = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(cut(text)),
        // 10000.0 is how a rate of 10000 is archived.
        Value::Number(number) if number.is_f64() => {
            Some(number.as_f64().unwrap_or_default().to_string())
        }
        other => Some(cut(&other.to_string())),
    };
    found.push(ExperimentDifference {
        key: path.to_owned(),
        a: a.and_then(shown),
        b: b.and_then(shown),
    });
}

fn cut(text: &str) -> String {
    match text.chars().count() > MOST_SHOWN {
        true => text.chars().take(MOST_SHOWN - 1).collect::<String>() + "…",
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_key_that_differs_is_named_once() {
        let a = json!({"name": "x", "note": "a", "broker": {"kind": "rabbitmq", "schedulers": 2},
            "load": [{"message-size": 12, "rate": 10_000.0}, {"rate": 0.5}]});
        let b = json!({"name": "x", "note": "b", "broker": {"kind": "rabbitmq", "schedulers": 1, "config": {"k": "v"}},
            "load": [{"message-size": 2000, "rate": 4_000.0}]});
        let found = between(&a, &b);
        let told: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|it| (it.key.as_str(), it.a.as_deref(), it.b.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("broker.schedulers", Some("2"), Some("1")),
                ("broker.config.k", None, Some("v")),
                ("load.0.message-size", Some("12"), Some("2000")),
                ("load.0.rate", Some("10000"), Some("4000")),
                ("load.1.rate", Some("0.5"), None),
            ]
        );
        assert!(between(&a, &a).is_empty());
        let long = between(&json!({"k": "x".repeat(1_000)}), &json!({}));
        let shown = long.first().and_then(|it| it.a.clone()).expect("a value");
        assert_eq!(shown.chars().count(), MOST_SHOWN);
    }
}
