//! Files of definitions, in RabbitMQ's own form: made, exported from a broker, imported into one, and deleted again.

mod transfer;

use std::collections::BTreeMap;

use measure::Problem;
use serde_json::{Map, Value, json};

pub use transfer::Stage;

/// Sections in the order in which they can be imported: each names objects of earlier ones.
const SECTIONS: [&str; 10] = [
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "exchanges",
    "queues",
    "bindings",
];
/// Queues that are made at most: what RabbitMQ has a process each for.
pub const MOST_QUEUES: u32 = 2_000_000;

/// Objects of a broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    sections: BTreeMap<String, Vec<Value>>,
    /// Everything else that the file says, such as the broker's version.
    others: Map<String, Value>,
}

/// Options for queues to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// How many.
    pub queues: u32,
    /// Their type: `classic`, `quorum`, `stream`.
    pub queue_type: String,
    /// The beginning of their names; a number follows.
    pub prefix: String,
    /// Their virtual host.
    pub vhost: String,
    /// An exchange that is bound to each of them by its name; none where that is `None`.
    pub exchange: Option<String>,
    /// The type of that exchange.
    pub exchange_type: String,
    /// Bindings of each queue to that exchange.
    pub bindings: u32,
}

/// Whether a section's objects may hold passwords.
fn is_secret(section: &str) -> bool {
    section == "users" || section.ends_with("parameters")
}

/// The name within an object that is no text. RabbitMQ 4.0 takes a number for one, and can delete neither that queue
/// nor its virtual host again.
fn unnamed(object: &Value) -> Option<&'static str> {
    const NAMES: [&str; 5] = ["name", "vhost", "source", "destination", "routing_key"];
    let is_wrong = |name: &&&str| object.get(**name).is_some_and(|it| !it.is_string());
    NAMES.iter().find(is_wrong).copied()
}

impl Definitions {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no JSON, or no definitions.
    pub fn parse(text: &[u8], name: &str) -> Result<Self, Problem> {
        const HELP: &str = "make one with `bellows topology generate` or `export`, or rabbitmqctl export_definitions";
        let refuse = |why: String| {
            Problem::new(
                format!("{name} holds no definitions of RabbitMQ"),
                why,
                HELP,
            )
        };
        let value: Map<String, Value> =
            serde_json::from_slice(text).map_err(|e| refuse(e.to_string()))?;
        let mut found = Self::default();
        for (key, value) in value {
            match (SECTIONS.contains(&key.as_str()), value) {
                (true, Value::Array(objects)) => {
                    let unnamed = objects.iter().find_map(|it| Some((it, unnamed(it)?)));
                    if let Some((object, part)) = unnamed {
                        let seen = match is_secret(&key) {
                            true => crate::redact::BLOT.to_owned(),
                            false => brief(object),
                        };
                        return Err(refuse(format!(
                            "{part} of one of its {key} is no text: {seen}"
                        )));
                    }
                    found.sections.insert(key, objects);
                }
                (true, other) => {
                    let seen = if is_secret(&key) {
                        crate::redact::BLOT.to_owned()
                    } else {
                        brief(&other)
                    };
                    return Err(refuse(format!("{key} is no list: {seen}")));
                }
                (false, other) => {
                    found.others.insert(key, other);
                }
            }
        }
        if found.sections.is_empty() {
            return Err(refuse(format!("none of {} is there", SECTIONS.join(", "))));
        }
        Ok(found)
    }

    /// Makes queues, and bindings where an exchange is named.
    #[must_use]
    pub fn generate(options: &GenerateOptions) -> Self {
        let vhost = &options.vhost;
        // Called as a load calls its destinations.
        let names = || (0..options.queues).map(move |number| format!("{}{number}", options.prefix));
        let arguments = match options.queue_type.as_str() {
            "classic" => json!({}),
            other => json!({ "x-queue-type": other }),
        };
        let queues = names().map(|name| {
            json!({"name": name, "vhost": vhost, "durable": true, "auto_delete": false,
                "arguments": arguments})
        });
        let mut made = Self::default();
        made.sections.insert("queues".to_owned(), queues.collect());
        if let Some(exchange) = &options.exchange {
            let declared = json!({"name": exchange, "vhost": vhost, "type": options.exchange_type,
                "durable": true, "auto_delete": false, "internal": false, "arguments": {}});
            made.sections.insert("exchanges".to_owned(), vec![declared]);
            let bindings = names().flat_map(|name| {
                (0..options.bindings.max(1)).map(move |number| {
                    let key = match number {
                        0 => name.clone(),
                        number => format!("{name}.{number}"),
                    };
                    // Headers exchanges do not look at routing keys, and without a header all messages match.
                    let arguments = match options.exchange_type.as_str() {
                        "headers" => json!({"x-match": "all", "queue": key}),
                        _ => json!({}),
                    };
                    json!({"source": exchange, "vhost": vhost, "destination": name,
                        "destination_type": "queue", "routing_key": key, "arguments": arguments})
                })
            });
            made.sections
                .insert("bindings".to_owned(), bindings.collect());
        }
        made
    }

    /// The file, with one object on each line, so that it can be looked at and compared.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let mut first = true;
        out.write_all(b"{")?;
        let mut separate = |out: &mut dyn std::io::Write, key: &str| {
            let comma = if std::mem::take(&mut first) {
                "\n"
            } else {
                ",\n"
            };
            write!(out, "{comma}{}: ", Value::from(key))
        };
        for (key, value) in &self.others {
            separate(out, key)?;
            write!(out, "{value}")?;
        }
        // Empty ones too: a virtual host without anything in it has definitions.
        let sections = SECTIONS.into_iter();
        let sections = sections.filter_map(|key| Some((key, self.sections.get(key)?)));
        for (key, objects) in sections {
            separate(out, key)?;
            out.write_all(b"[")?;
            for (number, object) in objects.iter().enumerate() {
                let comma = if number == 0 { "\n" } else { ",\n" };
                write!(out, "{comma}  {object}")?;
            }
            out.write_all(b"\n]")?;
        }
        out.write_all(b"\n}\n")
    }

    /// Sections that have objects, in the order in which they can be imported.
    pub fn in_order(&self) -> impl Iterator<Item = (&'static str, &[Value])> {
        SECTIONS.into_iter().filter_map(|section| {
            let objects = self.sections.get(section)?;
            (!objects.is_empty()).then_some((section, objects.as_slice()))
        })
    }

    /// How many objects there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.in_order()
            .map(|(_, objects)| objects.len() as u64)
            .sum()
    }
}

/// The beginning of a value, for a message.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(queues: u32) -> GenerateOptions {
        GenerateOptions {
            queues,
            queue_type: "quorum".to_owned(),
            prefix: "q-".to_owned(),
            vhost: "/".to_owned(),
            exchange: Some("in".to_owned()),
            exchange_type: "topic".to_owned(),
            bindings: 2,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let made = Definitions::generate(&options(11));
        let mut text = Vec::new();
        made.write(&mut text).unwrap();
        assert_eq!(Definitions::parse(&text, "x").unwrap(), made);
        assert_eq!(made.count(), 11 + 1 + 22);
        let sections: Vec<_> = made.in_order().map(|(section, _)| section).collect();
        assert_eq!(sections, ["exchanges", "queues", "bindings"]);
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("\"name\":\"q-0\"") && text.contains("\"name\":\"q-10\""),
            "{text}"
        );
        assert!(text.contains("\"routing_key\":\"q-3.1\""), "{text}");
        assert_eq!(text.lines().count(), 2 + 3 * 2 + 34, "an object a line");
        // A binding without a header takes every message of a headers exchange.
        let by_header = Definitions::generate(&GenerateOptions {
            exchange_type: "headers".to_owned(),
            ..options(2)
        });
        let bindings = &by_header.sections["bindings"];
        let header = |binding: &Value| binding["arguments"]["queue"].as_str().map(str::to_owned);
        let headers: Vec<_> = bindings.iter().filter_map(header).collect();
        assert_eq!(headers, ["q-0", "q-0.1", "q-1", "q-1.1"]);
    }

    #[test]
    fn what_is_no_definitions_is_refused_with_a_remedy() {
        for (text, why) in [
            ("[1]", "invalid type"),
            ("{", "EOF"),
            ("{\"a\": 1}", "none of users"),
            ("{\"queues\": {\"a\": 1}}", "queues is no list: {\"a\":1}"),
        ] {
            let problem = Definitions::parse(text.as_bytes(), "f.json").unwrap_err();
            assert!(problem.value.contains(why), "{problem:?}");
            assert!(problem.cause.contains("f.json"), "{problem:?}");
        }
        let secret = Definitions::parse(b"{\"users\": {\"password\": \"s3cret\"}}", "f.json");
        let told = format!("{:?}", secret.unwrap_err());
        assert!(!told.contains("s3cret"), "{told}");
        let kept =
            Definitions::parse(b"{\"queues\": [], \"rabbit_version\": \"4.0\"}", "x").unwrap();
        assert_eq!((kept.count(), kept.others.len()), (0, 1));
        let mut text = Vec::new();
        kept.write(&mut text).unwrap();
        assert_eq!(
            Definitions::parse(&text, "x").unwrap(),
            kept,
            "nothing in it"
        );
    }
}
