//! The name of a node.

use std::fmt;
use std::str::FromStr;

use measure::Refused;

/// The longest name of an atom, and so of a node, in characters.
const LONGEST: usize = 255;

/// The name of a node, such as `rabbit@localhost`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    text: String,
    at: usize,
}

impl NodeName {
    /// The part before the `@`: the name that EPMD knows.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// The host, as its name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.text.get(self.at + 1..).unwrap_or_default()
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for NodeName {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let refused = |why: &str| {
            Refused::new(
                format!("{text:?} is not a node's name: {why}"),
                "write it as NAME@HOST, such as rabbit@localhost",
            )
        };
        let at = text.find('@').ok_or_else(|| refused("it has no @"))?;
        if at == 0 || at + 1 == text.len() {
            return Err(refused("a part of it is missing"));
        }
        if text.chars().count() > LONGEST || text.len() > LONGEST {
            return Err(refused("it is longer than 255 bytes"));
        }
        if text
            .chars()
            .any(|it| it.is_control() || it.is_whitespace() || it == '/')
            || text.get(at + 1..).is_some_and(|host| host.contains('@'))
        {
            return Err(refused("it has characters that no node's name has"));
        }
        Ok(Self {
            text: text.to_owned(),
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::NodeName;

    #[test]
    fn names_have_two_parts() {
        let name: NodeName = "rabbit@localhost".parse().expect("a name");
        assert_eq!((name.name(), name.host()), ("rabbit", "localhost"));
        assert_eq!(name.to_string(), "rabbit@localhost");
        for wrong in [
            "", "rabbit", "@", "@host", "rabbit@", "a@b@c", "a b@c", "a\n@b",
        ] {
            assert!(wrong.parse::<NodeName>().is_err(), "{wrong:?}");
        }
        assert!(
            format!("a@{}", "b".repeat(300))
                .parse::<NodeName>()
                .is_err()
        );
    }
}
