//! Erlang processes, in which the samples of a node were taken.

use serde::{Deserialize, Serialize};

/// Placeholder for processes beyond [`MOST_PROCESSES`].
pub(super) const OTHER_PROCESSES: &str = "other processes";
/// Distinct processes of a profile. A node that starts one for each request has any number.
pub(super) const MOST_PROCESSES: usize = 1 << 16;

/// Name of bellows' own looks into the node.
const LOOKING: &str = "bellows, looking";

/// Whether this is the module that bellows loads into a node for a while: `bellows_1a2b3c4d`.
fn is_helper(module: &str) -> bool {
    let hash = module.strip_prefix("bellows_").unwrap_or_default();
    hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// An Erlang process, and what it does where the node has said it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErlangProcess {
    /// Its identifier as Erlang prints it: `<0.123.0>`.
    pub id: String,
    /// Role: `queue`, `channel`, `connection`, or the module that it runs; empty where not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The name of that queue, channel or connection, or the registered name; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The virtual host that it works for; empty where it works for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    /// The connection that it works for; empty where it works for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connection: String,
    /// The node did not say what it is: its role is taken from its stacks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_stacks: bool,
}

impl ErlangProcess {
    /// A process of which nothing is known but its identifier.
    pub fn unnamed(id: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            id,
            ..Self::default()
        }
    }

    /// Whether nothing is known of it but its identifier.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let Self {
            id: _,
            role,
            name,
            vhost,
            connection,
            from_stacks: _,
        } = self;
        [role, name, vhost, connection]
            .iter()
            .all(|it| it.is_empty())
    }

    /// Whether the node did not say what it is.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        self.from_stacks || self.is_unknown()
    }

    /// Label of processes of its role that the node did not name: `unnamed: connection`.
    #[must_use]
    pub fn unnamed_label(&self) -> String {
        match self.role.as_str() {
            "" => "unnamed: processes".to_owned(),
            role if is_helper(role) => LOOKING.to_owned(),
            role => format!("unnamed: {role}"),
        }
    }

    /// Label: `queue orders-7`, `rabbit_event <0.321.0>`, `<0.123.0>`.
    #[must_use]
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() {
            &self.id
        } else {
            &self.name
        };
        let of = match self.vhost.as_str() {
            "" | "/" => String::new(),
            vhost => format!(" in {vhost}"),
        };
        match self.role.as_str() {
            "" => format!("{name}{of}"),
            role => format!("{role} {name}{of}"),
        }
    }
}
