//! A run's summary in JSON, without the parts of messages in runs without such load: a 0 reads as measured.

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::RunSummary;

/// The parts that are about messages.
const OF_MESSAGES: [&str; 6] = [
    "sent",
    "completed",
    "received",
    "blocked",
    "latency",
    "cpu_us_per_message",
];

impl Serialize for RunSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.has_message_load() {
            return Self::serialize(self, serializer);
        }
        let whole = Self::serialize(self, serde_json::value::Serializer);
        let mut whole = whole.map_err(S::Error::custom)?;
        if let Value::Object(parts) = &mut whole {
            parts.retain(|name, _| !OF_MESSAGES.contains(&name.as_str()));
            if let Some(Value::Object(broker)) = parts.get_mut("broker") {
                // Of a server that is no broker only its process is known.
                broker.retain(|_, value| !value.is_null() && value != "");
                if broker.is_empty() {
                    parts.remove("broker");
                }
            }
        }
        whole.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunSummary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use measure::{LatencySummary, Metric};

    use super::*;
    use crate::{BrokerSummary, ScenarioSummary};

    fn probed() -> RunSummary {
        let mut summary = RunSummary {
            schema: RunSummary::SCHEMA.to_owned(),
            broker: BrokerSummary {
                pid: Some(4711),
                ..BrokerSummary::default()
            },
            ..RunSummary::default()
        };
        let probe = ScenarioSummary {
            unit: "requests".into(),
            rate: 0.1 + 0.2,
            ..ScenarioSummary::default()
        };
        summary.insert("probe", probe);
        summary
    }

    #[test]
    fn a_run_without_messages_says_nothing_of_them_and_is_read_again() {
        let summary = probed();
        let object = serde_json::to_value(&summary).expect("an object");
        for part in OF_MESSAGES {
            assert!(object.get(part).is_none(), "{part}: {object:#}");
        }
        assert_eq!(object["broker"], serde_json::json!({"pid": 4711}));
        let text = object.to_string();
        let read: RunSummary = serde_json::from_str(&text).expect("a summary");
        assert_eq!(read, summary);
        let unknown = RunSummary {
            broker: BrokerSummary::default(),
            ..summary
        };
        let object = serde_json::to_value(&unknown).expect("an object");
        assert!(object.get("broker").is_none(), "{object:#}");
    }

    #[test]
    fn a_load_that_sent_nothing_says_so() {
        let mut summary = probed();
        let none = (Metric::ACK_RESPONSE, LatencySummary::default());
        summary.latency = std::iter::once(none).collect();
        let object = serde_json::to_value(&summary).expect("an object");
        assert_eq!(object["sent"]["total"], 0, "{object:#}");
        assert_eq!(object["broker"]["kind"], "");
        let read: RunSummary = serde_json::from_value(object).expect("a summary");
        assert_eq!(read, summary);
    }
}
