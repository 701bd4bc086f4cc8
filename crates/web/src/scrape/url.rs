//! Where a page of metrics is.

use std::fmt;
use std::str::FromStr;

use measure::Refused;
use ureq::http::Uri;

const EXAMPLE: &str = "write it as http://localhost:15692/metrics/per-object";

/// The address of a page, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeUrl(String);

impl ScrapeUrl {
    /// The address as a request has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Host, port and path: what tells it from other pages.
    #[must_use]
    pub fn short(&self) -> &str {
        let text = self
            .0
            .split_once("://")
            .map_or(self.0.as_str(), |(_, rest)| rest);
        text.split(['?', '#']).next().unwrap_or_default()
    }
}

impl fmt::Display for ScrapeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::redact::url(&self.0))
    }
}

impl FromStr for ScrapeUrl {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let text = text.trim();
        let uri: Uri = text
            .parse()
            .map_err(|_| Refused::new("the page's address is no URL", EXAMPLE))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            return Err(Refused::new(
                "the page's address does not begin with http:// or https://",
                EXAMPLE,
            ));
        };
        if authority.as_str().contains('@') {
            return Err(Refused::new(
                "the page's address holds a password, which others see in the list of processes",
                "give the user with --user and the password in BELLOWS_SCRAPE_PASSWORD or --password-file \
                 (in a file: user and password)",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}
