//! What a group's messages, exchanges and consumers are like, beyond the usual.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Length;

/// Whether queues and exchanges are declared before the load: `true`, `false` (they must exist), or
/// `"if-missing"` (those that exist are taken as they are).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Declaring {
    /// All of them: those that exist must have the same properties.
    #[default]
    Always,
    /// Those that do not exist.
    IfMissing,
    /// None.
    Never,
}

impl Serialize for Declaring {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always => serializer.serialize_bool(true),
            Self::IfMissing => serializer.serialize_str("if-missing"),
            Self::Never => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Declaring {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Flag(bool),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Flag(true) => Ok(Self::Always),
            Written::Flag(false) => Ok(Self::Never),
            Written::Text(text) if text == "if-missing" => Ok(Self::IfMissing),
            Written::Text(text) => Err(serde::de::Error::custom(format!(
                "declare = {text:?} is none of true, false and \"if-missing\""
            ))),
        }
    }
}

/// Where producers publish, and what their queues are bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ExchangeSpec {
    /// Its name.
    pub name: String,
    /// `direct`, `fanout`, `topic`, `headers`, or what a plugin adds.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it survives a restart of the broker.
    pub durable: bool,
    /// Whether it goes away with its last binding.
    pub auto_delete: bool,
}

impl Default for ExchangeSpec {
    fn default() -> Self {
        Self {
            name: "bellows".to_owned(),
            kind: "direct".to_owned(),
            durable: false,
            auto_delete: false,
        }
    }
}

/// Properties of every message, as AMQP 0.9.1 names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PropertiesSpec {
    /// MIME type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// MIME encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// From 0 on; queues need `x-max-priority` to heed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// What the message belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Where answers go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The message's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<u64>,
    /// The type's name.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// The publishing user; brokers compare it with the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The publishing application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Of old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
}

impl PropertiesSpec {
    /// Whether none is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What consumers do in place of acknowledging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusing {
    /// Deliveries go back into their queue.
    Requeue,
    /// Deliveries are dead-lettered or dropped.
    Discard,
}

/// When a run ends, beside its length and consumers' message counts. Producers with a message count
/// send all of it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Nothing was received for a second.
    Idle,
    /// The same, and all queues are empty.
    Empty,
}

/// How long a delivery takes, for a part of the time: `"2ms"` for ever, or `"2ms@10s"`, the next
/// one after that, and all again from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStep {
    /// Work on one delivery.
    pub latency: Length,
    /// For so long; zero is for ever.
    pub length: Length,
}

impl std::str::FromStr for LatencyStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (latency, length) = text.split_once('@').unwrap_or((text, "0s"));
        Ok(Self {
            latency: latency.parse()?,
            length: length.parse()?,
        })
    }
}

impl std::fmt::Display for LatencyStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.length.is_zero() {
            self.latency.fmt(f)
        } else {
            write!(f, "{}@{}", self.latency, self.length)
        }
    }
}

impl Serialize for LatencyStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LatencyStep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    /// The keys that a table takes, as its own error lists them.
    fn keys<T: serde::de::DeserializeOwned>() -> Vec<String> {
        let error = toml::from_str::<T>("no-such-key = 1")
            .err()
            .expect("refused");
        let text = error.message();
        let names = text.split('`').skip(3).step_by(2);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn the_docs_name_every_key() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiments.md");
        let text = std::fs::read_to_string(page).expect("docs/experiments.md");
        let sections: Vec<&str> = text.split("\n## ").skip(1).collect();
        let expected = [
            keys::<Experiment>(),
            keys::<crate::experiment::BrokerSpec>(),
            keys::<crate::experiment::OAuth2Spec>(),
            keys::<crate::experiment::Phases>(),
            keys::<crate::experiment::ProfileSpec>(),
            keys::<crate::experiment::FaultSpec>(),
            keys::<crate::experiment::ChurnSpec>(),
            keys::<crate::experiment::LoadSpec>(),
            keys::<ExchangeSpec>(),
            keys::<PropertiesSpec>(),
            keys::<crate::experiment::SubscriptionSpec>(),
        ];
        assert_eq!(sections.len(), expected.len());
        for (section, keys) in sections.iter().zip(expected) {
            let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
            let named: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
            assert!(!keys.is_empty());
            assert_eq!(named, keys, "in docs/experiments.md");
        }
    }

    #[test]
    fn what_is_beyond_the_usual_reads_back() {
        let text = r#"
            [[load]]
            destinations = ["queue://a", "queue://b"]
            total-producers = 3
            producer-connections = 1
            declare = "if-missing"
            routing-key = "k"
            auto-delete = true
            commit-every = 10
            ttl = "2s"
            refuse = "requeue"
            poll = "5ms"
            consumer-latency = ["1ms@10s", "2ms@5s"]
            random-routing-keys = 100
            [load.exchange]
            name = "x"
            type = "topic"
            [load.properties]
            priority = 3
            type = "order"
            [load.headers]
            tenant = "blue"
        "#;
        let read = Experiment::from_toml(text, "test").unwrap();
        let again = Experiment::from_toml(&read.to_toml(), "test").unwrap();
        assert_eq!(read, again);
        let load = &read.load[0];
        assert_eq!(load.declare, Declaring::IfMissing);
        assert_eq!(load.consumer_latency[1].to_string(), "2ms@5s");
        assert_eq!(load.properties.message_type.as_deref(), Some("order"));
        let bad = Experiment::from_toml("[[load]]\ndeclare = \"perhaps\"", "test");
        assert!(bad.unwrap_err().to_string().contains("if-missing"));
    }
}
