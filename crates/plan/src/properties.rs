//! Properties of messages, beside their body.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The properties of every message, as AMQP 0.9.1 names them, beside the delivery mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MessageProperties {
    /// The body's MIME type.
    pub content_type: Option<String>,
    /// The body's MIME encoding.
    pub content_encoding: Option<String>,
    /// Headers of the application.
    #[serde(skip)]
    pub headers: BTreeMap<String, Argument>,
    /// A priority from 0 on; queues need `x-max-priority` to heed it.
    pub priority: Option<u8>,
    /// Correlation id.
    pub correlation_id: Option<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// Milliseconds until the message expires, as text.
    #[serde(skip)]
    pub expiration: Option<String>,
    /// The message's identifier.
    pub message_id: Option<String>,
    /// The message's time in seconds since 1970.
    pub timestamp: Option<u64>,
    /// The message type's name.
    #[serde(rename = "type")]
    pub message_type: Option<String>,
    /// The publishing user; brokers compare it with the login.
    pub user_id: Option<String>,
    /// The publishing application.
    pub app_id: Option<String>,
    /// The cluster's identifier, a deprecated property.
    pub cluster_id: Option<String>,
}

impl MessageProperties {
    /// Whether none is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The value of a header, or of an argument of a declaration or subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// `true` or `false`.
    Flag(bool),
    /// A signed 64-bit integer.
    Integer(i64),
    /// A string.
    Text(String),
}

/// Reads a value as it is typed: a truth value or an integer where it looks like one, else text.
impl FromStr for Argument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text.parse(), text.parse()) {
            (Ok(flag), _) => Self::Flag(flag),
            (_, Ok(number)) => Self::Integer(number),
            _ => Self::Text(text.to_owned()),
        })
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
