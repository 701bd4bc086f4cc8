//! RabbitMQ's management API: who logs in where, and one request to it.

mod topology;

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use measure::{Problem, percent_encoded};
use serde_json::Value;
use ureq::http::{Method, StatusCode, Uri};
use ureq::{Agent, Body, Timeout};

use super::Secret;
use super::http::{Login, agent, told, trust};

/// The longest that a request may take where nobody says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The remedy where nobody answers.
const UNREACHED: &str = "check that the plugin rabbitmq_management is enabled, and host and port (15672 is usual)";
/// Bytes that are read of an answer that says what is wrong: as a list of numbers, a text takes four times its length.
const MOST_SAID: u64 = 16 << 10;
/// Requests at the same time that a connection is kept for.
pub const AT_ONCE: usize = 8;

/// Where the API is, and who logs in.
#[derive(Clone, Debug)]
pub struct ManagementOptions {
    /// `http://HOST:15672`, perhaps with a path before `/api`.
    pub url: String,
    /// Who logs in.
    pub user: String,
    /// By this password.
    pub password: Secret,
    /// A file of certificates of authorities; `None`: the machine's own.
    pub ca: Option<PathBuf>,
    /// Takes any certificate.
    pub insecure: bool,
    /// The remedy where the login is refused.
    pub remedy: LoginRemedy,
    /// The longest that a request may take: [`TIMEOUT`] is usual.
    pub timeout: Duration,
    /// The remedy where that is not enough.
    pub busy: &'static str,
}

/// How a user mends a login that the API refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRemedy {
    /// How user and password are given: `give --user, and the password in BELLOWS_PASSWORD`.
    pub login: &'static str,
    /// The tag that the user needs: `administrator`.
    pub tag: &'static str,
}

/// The API of a broker.
#[derive(Debug)]
pub struct Management {
    agent: Agent,
    base: String,
    login: Login,
    remedy: LoginRemedy,
    timeout: Duration,
    busy: &'static str,
}

/// Why the API gave no usable answer.
#[derive(Debug)]
pub struct RequestError {
    /// For people.
    pub problem: Problem,
    /// It gave none in time: another request would cost as much time.
    pub timed_out: bool,
    /// It says that nothing is at the path.
    pub not_found: bool,
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        error.problem
    }
}

/// Whether a text is the address of an API, without a login in it.
pub fn check_url(url: &str, login: &str) -> Result<(), Problem> {
    let refuse = |why: &str, help: &str| {
        let shown = crate::redact::url(url);
        Err(Problem::new(format!("{shown} is not the address of a management API"), why, help))
    };
    const EXAMPLE: &str = "write it as http://localhost:15672";
    let Ok(uri) = url.trim().parse::<Uri>() else { return refuse("it is not a URL", EXAMPLE) };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return refuse("it does not begin with http:// or https://", EXAMPLE);
    }
    if uri.query().is_some() {
        return refuse("it has a query", EXAMPLE);
    }
    match uri.authority() {
        None => refuse("it has no host", EXAMPLE),
        Some(it) if it.as_str().contains('@') => refuse("it contains a login", login),
        Some(_) => Ok(()),
    }
}

impl Management {
    /// The API at an address; nothing is asked yet. Errors: the address or the certificates make no sense.
    pub fn new(options: &ManagementOptions) -> Result<Self, Problem> {
        check_url(&options.url, options.remedy.login)?;
        let tls = trust(options.ca.as_deref(), options.insecure)?;
        let agent = agent(&options.url, options.timeout, tls)
            // Shorter than the whole: nobody who cannot be reached is busy.
            .timeout_connect(Some(CONNECT_TIMEOUT.min(options.timeout / 2)))
            .max_idle_connections_per_host(AT_ONCE)
            .build()
            .into();
        Ok(Self {
            agent,
            base: options.url.trim().trim_end_matches('/').to_owned(),
            login: Login { user: Some(options.user.clone()), secret: Some(options.password.clone()), scheme: "Basic" },
            remedy: options.remedy,
            timeout: options.timeout,
            busy: options.busy,
        })
    }

    /// The address of a path, for messages.
    pub fn address(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The body of an answer, up to `most` bytes.
    pub fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Option<&[u8]>,
        what: &str,
        most: u64,
    ) -> Result<Vec<u8>, RequestError> {
        let deadline = Instant::now() + self.timeout;
        let mut answer = self.send(method, path, body, what, deadline)?;
        let mut read = Vec::new();
        answer.as_reader().take(most).read_to_end(&mut read).map_err(|e| self.broken(what, &e, deadline))?;
        Ok(read)
    }

    /// The body of an answer that says yes.
    pub fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&[u8]>,
        what: &str,
        deadline: Instant,
    ) -> Result<Body, RequestError> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(self.address(path))
            .header("Authorization", self.login.authorization().unwrap_or_default())
            .header("Content-Type", "application/json")
            .body(body.unwrap_or_default());
        let request = request.map_err(|e| self.problem(what, &e.to_string(), "check the address"))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let request = self
            .agent
            .configure_request(request)
            // No time at all would mean no limit.
            .timeout_global(Some(left.max(Duration::from_millis(1))))
            .build();
        let answer = self.agent.run(request).map_err(|e| RequestError {
            timed_out: Instant::now() >= deadline,
            ..self.problem(what, &told(&e), self.remedy_of_failure(&e))
        })?;
        let status = answer.status();
        let mut body = answer.into_body();
        if status.is_success() {
            return Ok(body);
        }
        let mut said = Vec::new();
        // What was read until it broke says enough.
        let _ = body.as_reader().take(MOST_SAID).read_to_end(&mut said);
        let said = reason(&said);
        let said = self.login.without_secrets(&said, &self.base);
        let why = format!("{status} {said}");
        Err(RequestError {
            not_found: status == StatusCode::NOT_FOUND,
            ..self.problem(what, why.trim_end(), &self.remedy_of(status))
        })
    }

    /// Deletes what is at a path; whether it was there.
    pub fn delete_one(&self, path: &str) -> Result<bool, RequestError> {
        const MOST_ANSWERED: u64 = 1 << 20;
        match self.ask(&Method::DELETE, path, None, "delete an object", MOST_ANSWERED) {
            Ok(_) => Ok(true),
            Err(error) if error.not_found => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The error where an answer breaks off.
    pub fn broken(&self, what: &str, error: &std::io::Error, deadline: Instant) -> RequestError {
        let timed_out = Instant::now() >= deadline;
        let help = if timed_out { self.busy } else { "try again" };
        RequestError { timed_out, ..self.problem(what, &crate::redact::text(&error.to_string()), help) }
    }

    /// The error where something could not be done.
    pub fn problem(&self, what: &str, why: &str, help: &str) -> RequestError {
        let url = crate::redact::url(&self.base);
        RequestError {
            problem: Problem::new(format!("cannot {what} at {url}"), why, help),
            timed_out: false,
            not_found: false,
        }
    }

    /// The remedy where there was no answer: whoever took the request is there, and only slow.
    const fn remedy_of_failure(&self, error: &ureq::Error) -> &'static str {
        match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => UNREACHED,
            ureq::Error::Timeout(_) => self.busy,
            _ => UNREACHED,
        }
    }

    fn remedy_of(&self, status: StatusCode) -> String {
        let LoginRemedy { login, tag } = self.remedy;
        let help = match status.as_u16() {
            401 => return format!("{login}; the user needs the tag {tag}"),
            403 => return format!("the user needs the tag {tag}"),
            404 => "check that this is the port of RabbitMQ's management API, and that the virtual host exists",
            405 => "give the address without a path, such as http://localhost:15672",
            300..=399 => "give the new address",
            400 => "correct what RabbitMQ names; an import keeps the parts before this one",
            _ => "see the broker's log",
        };
        help.to_owned()
    }
}

/// A name as a part of a path.
pub fn escaped(name: &str) -> String {
    // A part that is `.` or `..` would be taken for another folder.
    percent_encoded(name).replace('.', "%2E")
}

/// Characters of it that are shown.
const MOST_SHOWN: usize = 500;

/// The reason in an answer's body: the field `reason`, in which texts may be lists of numbers, else the body itself.
fn reason(body: &[u8]) -> String {
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let reason = parsed.as_ref().and_then(|it| it.get("reason"));
    let text = reason.map_or_else(|| String::from_utf8_lossy(body).into_owned(), text_of);
    let text = unescaped(&text).replace(char::is_control, " ");
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(MOST_SHOWN).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// RabbitMQ writes some reasons for a page.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// A value as a person writes it.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            charlist(items).unwrap_or_else(|| items.iter().map(text_of).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}: {}", text_of(value)));
            fields.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// The text whose characters Erlang has written as numbers, perhaps with texts between; `None` for other lists.
fn charlist(items: &[Value]) -> Option<String> {
    if !items.iter().any(Value::is_number) {
        return None;
    }
    let mut written = String::new();
    for item in items {
        match item {
            Value::Number(number) => {
                let code = u32::try_from(number.as_u64()?).ok()?;
                let character = char::from_u32(code)?;
                let is_text = !character.is_control() || character.is_ascii_whitespace();
                written.push(is_text.then_some(character)?);
            }
            Value::String(text) => written.push_str(text),
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => written.push_str(&charlist(items)?),
            _ => return None,
        }
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_login_in_it_is_one_of_an_api() {
        for good in ["http://h:1", "https://h/rabbit/", " http://[::1]:15672 "] {
            check_url(good, "x").unwrap();
        }
        for (bad, why) in [
            ("h:1", "does not begin"),
            ("amqp://h:1", "does not begin"),
            ("http://me:s3cret@h:1", "a login"),
            ("http://h:1/?a=s3cret", "a query"),
            ("http://", "not a URL"),
            ("", "not a URL"),
        ] {
            let problem = check_url(bad, "set the user").unwrap_err();
            assert!(problem.value.contains(why), "{bad}: {problem:?}");
            assert!(!format!("{problem:?}").contains("s3cret"), "{problem:?}");
        }
    }

    #[test]
    fn a_list_of_characters_is_text() {
        let said = |body: &str| reason(body.as_bytes());
        assert_eq!(said(r#"{"error":"bad_request","reason":[110,111,32,[34,"v",34],10,"x"]}"#), "no \"v\" x");
        let refused = r#"{"reason":["amqp_error","command_invalid",[110,111,39],"none"]}"#;
        assert_eq!(said(refused), "amqp_error, command_invalid, no', none");
        assert_eq!(said(r#"{"reason":"[{&lt;&lt;\"a\"&gt;&gt;,1}]"}"#), "[{<<\"a\">>,1}]");
        assert_eq!(said(r#"{"reason":"not found"}"#), "not found");
        assert_eq!(said(r#"{"reason":[[110,111],-1]}"#), "no, -1");
        assert_eq!(said(r#"{"reason":{"a":[111,107]}}"#), "a: ok");
        // No numbers of characters, and no answer of RabbitMQ.
        assert_eq!(said(r#"{"reason":[1,2]}"#), "1, 2");
        assert_eq!(said("<html>\n404</html>"), "<html> 404</html>");
        assert_eq!(said(""), "");
        assert_eq!(said(&format!(r#"{{"reason":"{}"}}"#, "x".repeat(2_000))).chars().count(), MOST_SHOWN + 1);
    }
}
