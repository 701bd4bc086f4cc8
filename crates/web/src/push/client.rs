//! One request after another to a server that takes profiles or metrics.

use std::io::Read as _;
use std::time::Duration;

use measure::Problem;
use ureq::Agent;
use ureq::http::StatusCode;

use super::PushRequest;
use crate::http::{Login, agent, tls, told};

/// The longest that a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read: it says what is wrong, or nothing.
const MOST_BYTES: u64 = 300;

/// Why something was not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It would not be another time.
    Final(Problem),
    /// It may be later.
    ForNow(Problem),
}

/// A server, and how it knows us.
#[derive(Clone, Debug)]
pub struct PushServer {
    /// Its address, as people know it.
    pub url: String,
    /// User and secret.
    pub login: Login,
    /// The tenant, where the server has several.
    pub tenant: Option<String>,
    /// Its messages.
    pub texts: PushTexts,
}

/// Messages about a server that takes nothing.
#[derive(Clone, Copy, Debug)]
pub struct PushTexts {
    /// One of what is sent: `profile`.
    pub one: &'static str,
    /// Several of it.
    pub many: &'static str,
    /// The remedy where nobody answers.
    pub reach: &'static str,
    /// For a login that is refused.
    pub login: &'static str,
    /// For a path that it does not know.
    pub path: &'static str,
    /// For a body that is too large.
    pub size: &'static str,
    /// For one that leads elsewhere.
    pub redirected: &'static str,
    /// The fate of those that were not sent.
    pub lost: &'static str,
    /// Where it takes them again.
    pub recovered: &'static str,
}

pub(super) struct PushClient {
    agent: Agent,
    pub(super) server: PushServer,
}

impl PushClient {
    pub(super) fn new(server: PushServer) -> Result<Self, Problem> {
        let agent = agent(&server.url, TIMEOUT, tls(None)?).build().into();
        Ok(Self { agent, server })
    }

    /// Hands over what a request holds.
    pub(super) fn send(&self, request: &PushRequest) -> Result<(), Refusal> {
        let mut post = self
            .agent
            .post(&request.url)
            .content_type(request.content_type);
        for (name, value) in &request.query {
            post = post.query(*name, value);
        }
        if let Some(authorization) = self.server.login.authorization() {
            post = post.header("Authorization", authorization);
        }
        if let Some(tenant) = &self.server.tenant {
            post = post.header("X-Scope-OrgID", tenant);
        }
        let mut response = match post.send(&request.body[..]) {
            Ok(response) => response,
            Err(error) => {
                let why = told(&error);
                return Err(Refusal::ForNow(self.problem(&why, self.server.texts.reach)));
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
        let words = String::from_utf8_lossy(&said);
        let said = self.server.login.without_secrets(&words, &self.server.url);
        let said = said.replace(char::is_control, " ");
        let why = format!("{status} {said}");
        let why = why.trim_end();
        Err(match self.server.texts.remedy(status) {
            (remedy, true) => Refusal::ForNow(self.problem(why, remedy)),
            (remedy, false) => Refusal::Final(self.problem(why, remedy)),
        })
    }

    fn problem(&self, why: &str, remedy: &str) -> Problem {
        let url = crate::redact::url(&self.server.url);
        let many = self.server.texts.many;
        Problem::new(format!("{url} does not take {many}"), why, remedy)
    }
}

impl PushTexts {
    /// So many of what is sent.
    pub(super) fn counted(&self, count: u64) -> String {
        let word = if count == 1 { self.one } else { self.many };
        format!("{count} {word}")
    }

    /// The remedy for an answer, and whether to try again.
    fn remedy(&self, status: StatusCode) -> (&'static str, bool) {
        match status.as_u16() {
            401 | 403 => (self.login, false),
            404 | 405 => (self.path, false),
            413 => (self.size, false),
            300..=399 => (self.redirected, false),
            408 | 425 | 429 | 500..=599 => ("see the server's log; it is tried again", true),
            _ => ("see what the server says", false),
        }
    }
}
