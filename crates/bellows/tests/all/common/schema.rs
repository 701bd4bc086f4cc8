//! A validator for the part of JSON Schema (draft 2020-12) that `docs/run.schema.json` uses. A
//! keyword that it does not know fails the test, so that nothing is silently unchecked.

use std::path::Path;

use serde_json::Value;

/// All violations of `schema` by `value`, with their place.
pub(crate) fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "$", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let keywords = schema.as_object().unwrap_or_else(|| panic!("no schema: {schema}"));
    for (keyword, rule) in keywords {
        let wrong = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => false,
            "$ref" => {
                let pointer = rule.as_str().and_then(|r| r.strip_prefix('#')).expect("local $ref");
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
                check(root, target, value, place, found);
                false
            }
            "type" => !types(rule).any(|name| is(name, value)),
            "const" => rule != value,
            "enum" => !rule.as_array().expect("enum").contains(value),
            "minimum" => value.as_f64().is_some_and(|n| n < rule.as_f64().expect("minimum")),
            "maximum" => value.as_f64().is_some_and(|n| n > rule.as_f64().expect("maximum")),
            "minLength" => value.as_str().is_some_and(|s| (s.len() as u64) < number(rule)),
            "maxItems" => value.as_array().is_some_and(|a| a.len() as u64 > number(rule)),
            // Says nothing of what is no object, such as null.
            "required" => value.is_object() && names(rule).any(|name| value.get(name).is_none()),
            "properties" => {
                for (name, part) in rule.as_object().expect("properties") {
                    if let Some(value) = value.get(name) {
                        check(root, part, value, &format!("{place}.{name}"), found);
                    }
                }
                false
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false), "only `false` is known");
                let known = &schema["properties"];
                value.as_object().is_some_and(|o| o.keys().any(|k| known.get(k).is_none()))
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{place}[{i}]"), found);
                }
                false
            }
            other => panic!("the validator does not know {other:?}"),
        };
        if wrong {
            found.push(format!("{place}: {keyword} {rule} does not hold for {value}"));
        }
    }
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let many = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
    rule.as_str().into_iter().chain(many)
}

fn names(rule: &Value) -> impl Iterator<Item = &str> {
    rule.as_array().expect("names").iter().map(|name| name.as_str().expect("name"))
}

fn number(rule: &Value) -> u64 {
    rule.as_u64().expect("whole number")
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("unknown type {other:?}"),
    }
}

/// A summary is what `docs/run.schema.json` says.
pub(crate) fn assert_valid(summary: &Value) {
    assert_eq!(problems(&of_runs(), summary), Vec::<String>::new(), "{summary:#}");
}

/// The schema of summaries.
pub(crate) fn of_runs() -> Value {
    super::read_json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run.schema.json"))
}
