//! Headers of requests, whose values may be secrets.

use std::fmt;
use std::str::FromStr;

use web::Secret;

/// A header `NAME: VALUE`, whose value `Debug` does not show.
#[derive(Clone)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) value: Secret,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What was typed may be a secret, and is not repeated.
        let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
        Ok(Self {
            name: name.trim().to_owned(),
            value: Secret::new(value.trim()),
        })
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

impl Header {
    /// A header as the archive keeps it.
    pub(super) fn shown(text: &str) -> String {
        text.parse::<Self>()
            .map_or_else(|_| "***".to_owned(), |header| format!("{header:?}"))
    }
}
