//! One request after another to the server that takes profiles.

use std::io::Read as _;
use std::time::Duration;

use measure::Problem;
use ureq::Agent;
use ureq::http::StatusCode;

use super::{Push, PushOptions};
use crate::http::{tls, told};

/// The longest that a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read: it says what is wrong, or nothing.
const MOST_BYTES: u64 = 300;

/// Why a profile was not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It would not be another time.
    Final(Problem),
    /// It may be later.
    ForNow(Problem),
}

pub(super) struct Client {
    agent: Agent,
    options: PushOptions,
}

impl Client {
    pub(super) fn new(options: &PushOptions) -> Result<Self, crate::Error> {
        let agent = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // A redirection would send the token to somebody else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(tls(None)?)
            .user_agent(concat!("bellows/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Self {
            agent,
            options: options.clone(),
        })
    }

    /// Hands over one profile.
    pub(super) fn send(&self, push: &Push) -> Result<(), Refusal> {
        let request = self.options.target.request(push);
        let mut post = self
            .agent
            .post(&request.url)
            .content_type(request.content_type);
        for (name, value) in &request.query {
            post = post.query(*name, value);
        }
        if let Some(authorization) = self.authorization() {
            post = post.header("Authorization", authorization);
        }
        if let Some(tenant) = &self.options.tenant {
            post = post.header("X-Scope-OrgID", tenant);
        }
        let mut response = match post.send(&request.body[..]) {
            Ok(response) => response,
            Err(error) => {
                let why = told(&error);
                return Err(Refusal::ForNow(self.problem(&why, REACH)));
            }
        };
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let mut said = Vec::new();
        let answer = response.body_mut().as_reader();
        // What cannot be read says nothing.
        let _ = answer.take(MOST_BYTES).read_to_end(&mut said);
        let said = self.without_secrets(&String::from_utf8_lossy(&said));
        let why = format!("{status} {said}");
        let why = why.trim_end();
        Err(match remedy(status) {
            (remedy, true) => Refusal::ForNow(self.problem(why, remedy)),
            (remedy, false) => Refusal::Final(self.problem(why, remedy)),
        })
    }

    fn authorization(&self) -> Option<String> {
        use base64::Engine as _;
        let secret = self.options.secret.as_ref().map(|it| it.expose());
        match (&self.options.user, secret) {
            (Some(user), secret) => {
                let pair = format!("{user}:{}", secret.unwrap_or_default());
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                Some(format!("Basic {pair}"))
            }
            (None, Some(token)) => Some(format!("Bearer {token}")),
            (None, None) => None,
        }
    }

    fn problem(&self, why: &str, remedy: &str) -> Problem {
        let url = crate::redact::url(self.options.target.url());
        Problem::new(format!("{url} does not take profiles"), why, remedy)
    }

    /// A server's words on one line, which may repeat what it was sent.
    fn without_secrets(&self, words: &str) -> String {
        let words = words.replace(char::is_control, " ");
        match &self.options.secret {
            Some(secret) if !secret.expose().is_empty() => {
                words.replace(secret.expose(), crate::redact::BLOT)
            }
            _ => words,
        }
    }
}

const REACH: &str = "check the address of --push, and that the server runs; recording goes on";

/// What may help against an answer, and whether to try again.
fn remedy(status: StatusCode) -> (&'static str, bool) {
    match status.as_u16() {
        401 | 403 => (
            "give --push-user, or --push-token-file or BELLOWS_PUSH_TOKEN, and --push-tenant where it has tenants",
            false,
        ),
        404 | 405 => (
            "check the path of --push: Pyroscope takes /ingest, Parca /profiles/writeraw",
            false,
        ),
        413 => (
            "give a shorter --every or a lower --freq, or raise the server's limit",
            false,
        ),
        300..=399 => ("give --push the address that it redirects to", false),
        408 | 425 | 429 | 500..=599 => ("see the server's log; it is tried again", true),
        _ => ("see what the server says", false),
    }
}
