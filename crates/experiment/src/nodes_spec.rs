//! The nodes of a cluster that a load begins on, and the policies of its queues, as they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nodes of a cluster on one machine, at most.
pub const MOST_NODES: u32 = 9;

/// A policy of a managed RabbitMQ: what its queues are like that are called so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicySpec {
    /// A regular expression: names of queues or exchanges.
    pub pattern: String,
    /// `queues`, `classic_queues`, `quorum_queues`, `streams`, `exchanges` or `all`. `queues` where absent.
    pub apply_to: Option<String>,
    /// The policy of several that counts: the largest. 0 where absent.
    pub priority: Option<i64>,
    /// The policy's definition as RabbitMQ takes it, such as `{ ha-mode = "all" }` or `{ max-length = 1000 }`.
    pub definition: BTreeMap<String, toml::Value>,
}

/// The nodes that connections begin on: `"all"`, one number, or several, from 0 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesSpec(Vec<u32>);

impl NodesSpec {
    /// Their numbers; empty: all.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenNodes {
    One(u32),
    Several(Vec<u32>),
    Word(String),
}

impl Serialize for NodesSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self.0.as_slice() {
            [] => WrittenNodes::Word("all".to_owned()),
            [one] => WrittenNodes::One(*one),
            several => WrittenNodes::Several(several.to_vec()),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodesSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "\"all\", the number of a node such as 0, or a list such as [0, 2]";
        let refuse = || serde::de::Error::custom(format!("expected {EXPECTED}"));
        match WrittenNodes::deserialize(deserializer).map_err(|_| refuse())? {
            WrittenNodes::One(node) => Ok(Self(vec![node])),
            WrittenNodes::Several(nodes) if !nodes.is_empty() => Ok(Self(nodes)),
            WrittenNodes::Word(word) if word == "all" => Ok(Self::default()),
            WrittenNodes::Several(_) | WrittenNodes::Word(_) => Err(refuse()),
        }
    }
}
