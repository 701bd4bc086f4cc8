//! Credentials that cannot be printed by accident.

use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize, Serializer};

/// A password or token. `Debug` and `Display` print `***`, `{:+?}` with a fingerprint, and `***` is what is serialized;
/// the text comes out only through [`Secret::expose`].
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// Stands on both sides of a fingerprint: `Debug` of a text escapes it.
const MARK: char = '\0';

impl Secret {
    /// Fingerprints of all secrets within a value, in the order of its `Debug`: equal ones within this process.
    pub fn fingerprints(within: &impl fmt::Debug) -> Vec<String> {
        let text = format!("{within:+?}");
        let parts = text.split(MARK).skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    }

    /// Takes the text over.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that puts it on the wire.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Nobody knows it, so that a fingerprint tells nothing of the text.
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        f.write_str("***")?;
        if f.sign_plus() { write!(f, "{MARK}{:016x}{MARK}", KEY.hash_one(&self.0)) } else { Ok(()) }
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_stars_only() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(serde_json::to_value(&secret).unwrap(), "***");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn secrets_within_a_value_are_told_apart_and_shown_nowhere() {
        let of = |secret: &str| ("\0", [Some(Secret::new(secret)), None, Some(Secret::new("x"))]);
        let found = Secret::fingerprints(&of("hunter2"));
        assert_eq!(found.len(), 2);
        assert_eq!(found, Secret::fingerprints(&of("hunter2")));
        let others = Secret::fingerprints(&of("hunter3"));
        assert!(found[0] != others[0] && found[1] == others[1]);
        assert!(!format!("{:+?}", of("hunter2")).contains("hunter"));
    }
}
