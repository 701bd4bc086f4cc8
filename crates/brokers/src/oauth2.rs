//! Access tokens by OAuth 2's client credentials grant (RFC 6749, 4.4), renewed on a thread before they expire.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use load::{Control, Endpoint, Token};
use measure::Problem;
use serde::Deserialize;
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::BrokerError;
use experiment::{BrokerSpec, OAuth2Spec};
use web::http::{agent, basic, told, trust};

/// The longest that the token endpoint may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a wait for the first token looks whether the user wants to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A token is renewed when this part of its life is over, so that one failure is no end.
const RENEW_AFTER: f64 = 0.6;
/// Between attempts to renew it, after one that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Where the endpoint does not say how long a token lives.
const ASSUMED_LIFE: Duration = Duration::from_secs(300);
/// A token endpoint's answer is a few kilobytes.
const MOST_BYTES: u64 = 256 << 10;

/// Keeps a token fresh until it is dropped.
#[derive(Debug)]
pub(crate) struct Renewal {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A token, and for how many seconds it is good where the endpoint says so.
#[derive(Debug, PartialEq)]
struct Granted {
    access_token: String,
    expires_in: Option<f64>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Gets the first token for an endpoint, where one is requested, and renews it from then on.
pub(crate) fn log_in(
    spec: &BrokerSpec,
    endpoint: &mut Endpoint,
    control: &Control,
) -> Result<Option<Renewal>, BrokerError> {
    let Some(oauth2) = &spec.oauth2 else { return Ok(None) };
    let (token, renewal) = start(oauth2, spec.ca.as_deref(), control)?;
    endpoint.token = Some(token);
    Ok(Some(renewal))
}

/// Gets the first token, unless somebody stops the run before, and renews it from then on.
fn start(spec: &OAuth2Spec, ca: Option<&Path>, control: &Control) -> Result<(Token, Renewal), BrokerError> {
    let client = Client::new(spec, ca)?;
    let (stop, stopped) = channel();
    let (tell, told) = channel();
    let keep = move || {
        let first = client.ask().map(|granted| {
            let wait = life_of(&granted);
            (Token::new(granted.access_token), wait)
        });
        let known = first.as_ref().ok().cloned();
        // Whoever asked may have had enough.
        let _ = tell.send(first.map(|(token, _)| token));
        if let Some((token, wait)) = known {
            renew(&client, &token, wait, &stopped);
        }
    };
    let thread = std::thread::Builder::new()
        .name("oauth2".into())
        .spawn(keep)
        .map_err(|error| Problem::new("cannot start a thread", error, "see ulimit -u"))?;
    let renewal = Renewal { stop: Some(stop), thread: Some(thread) };
    loop {
        match told.recv_timeout(POLL_INTERVAL) {
            Ok(token) => return token.map(|token| (token, renewal)),
            Err(_) if control.is_stopping() => return Err(BrokerError::Cancelled),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let problem = Problem::new("no token came", "its thread has ended (a bug)", "try again");
                return Err(problem.into());
            }
        }
    }
}

/// Renews a token before it expires, until the other side of the channel is dropped.
fn renew(client: &Client, token: &Token, mut wait: Duration, stopped: &Receiver<()>) {
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = match client.ask() {
            Ok(granted) => {
                let wait = life_of(&granted);
                token.renew(granted.access_token);
                wait
            }
            // The present one may still be good; the broker says when it is not.
            Err(_) => AGAIN_AFTER,
        };
    }
}

fn life_of(granted: &Granted) -> Duration {
    let life = granted.expires_in.filter(|life| life.is_finite() && *life > 0.0);
    let life = life.map_or(ASSUMED_LIFE, |life| Duration::from_secs_f64(life.min(1e9)));
    life.mul_f64(RENEW_AFTER).max(Duration::from_millis(500))
}

impl Drop for Renewal {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It ends at once, unless it waits for the endpoint, and then within its time-out: nobody waits for that.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

struct Client {
    agent: Agent,
    uri: String,
    client_id: String,
    secret: String,
    form: Vec<(String, String)>,
    /// The endpoint takes the client's secret in the header alone.
    by_header: AtomicBool,
}

struct Failed {
    problem: Problem,
    /// The endpoint does not know the client by what it was sent.
    is_refusal: bool,
}

impl Client {
    fn new(spec: &OAuth2Spec, ca: Option<&Path>) -> Result<Self, BrokerError> {
        let secret = spec.secret().ok_or_else(|| {
            let cause = format!("the secret of OAuth 2 client {:?} is missing", spec.client_id);
            let help = format!("set {}", OAuth2Spec::SECRET_VARIABLE);
            Problem::new(cause, format!("{} is not set", OAuth2Spec::SECRET_VARIABLE), help)
        })?;
        let mut form = vec![("grant_type".to_owned(), "client_credentials".to_owned())];
        if !spec.scopes.is_empty() {
            form.push(("scope".to_owned(), spec.scopes.join(" ")));
        }
        form.extend(spec.parameters.clone());
        let agent = agent(&spec.uri, TIMEOUT, trust(ca, false)?).build().into();
        Ok(Self {
            agent,
            uri: spec.uri.clone(),
            client_id: spec.client_id.clone(),
            secret,
            form,
            by_header: AtomicBool::new(false),
        })
    }

    /// Sends the client's secret in the form, or to an endpoint that takes none there, in the header.
    fn ask(&self) -> Result<Granted, BrokerError> {
        let by_header = self.by_header.load(Relaxed);
        let first = self.request(by_header);
        if !by_header
            && first.as_ref().is_err_and(|it| it.is_refusal)
            && let Ok(granted) = self.request(true)
        {
            self.by_header.store(true, Relaxed);
            return Ok(granted);
        }
        first.map_err(|failed| failed.problem.into())
    }

    /// The header `Authorization` of RFC 6749, 2.3.1.
    fn authorization(&self) -> String {
        basic(&encoded(&self.client_id), &encoded(&self.secret))
    }

    fn send(&self, by_header: bool) -> Result<Response<Body>, ureq::Error> {
        let client = [("client_id", &self.client_id), ("client_secret", &self.secret)];
        let client = client.into_iter().filter(|_| !by_header);
        let form = self.form.iter().map(|(name, value)| (name.as_str(), value));
        let form = form.chain(client).map(|(name, value)| (name, value.as_str()));
        let mut post = self.agent.post(&self.uri);
        if by_header {
            post = post.header("Authorization", self.authorization());
        }
        post.send_form(form)
    }

    fn request(&self, by_header: bool) -> Result<Granted, Failed> {
        const NOT_AN_ENDPOINT: &str = "check that oauth2.uri is a token endpoint, and not the issuer or a login page";
        let told_as = |what: String, remedy: &str, is_refusal| {
            let cause = format!("no token from {}", web::redact::url(&self.uri));
            Err(Failed { problem: Problem::new(cause, what, remedy), is_refusal })
        };
        let mut response = match self.send(by_header) {
            Ok(response) => response,
            Err(error) => {
                let remedy = "check oauth2.uri (--oauth2-uri), and the authority of its certificate (--ca)";
                return told_as(told(&error), remedy, false);
            }
        };
        let status = response.status();
        let body = match response.body_mut().with_config().limit(MOST_BYTES).read_to_string() {
            Ok(body) => body,
            Err(error) => {
                let what = format!("{status}, and its answer cannot be read: {}", told(&error));
                return told_as(what, NOT_AN_ENDPOINT, false);
            }
        };
        let missing = match granted(&body) {
            Ok(granted) if status.is_success() => return Ok(granted),
            Ok(_) => "an access_token without success",
            Err(missing) => missing,
        };
        let is_refusal = [400, 401].contains(&status.as_u16());
        match serde_json::from_str::<Refused>(&body) {
            Ok(refused) => told_as(
                self.without_secrets(&format!("{status}, {} {}", refused.error, refused.error_description))
                    .replace(char::is_control, " ")
                    .trim_end()
                    .to_owned(),
                "check the client's id, secret and scopes",
                is_refusal,
            ),
            // What came may hold a token: it is not repeated.
            Err(_) => told_as(
                format!("{status}, and {}: {missing}", measure::counted(body.len() as u64, "byte")),
                NOT_AN_ENDPOINT,
                is_refusal,
            ),
        }
    }

    /// An endpoint's words, which may repeat what it was sent.
    fn without_secrets(&self, words: &str) -> String {
        let public = ["grant_type", "scope"];
        let parameters = self.form.iter();
        let parameters = parameters.filter(|(name, _)| !public.contains(&name.as_str()));
        let parameters = parameters.map(|(_, value)| value.clone());
        let secrets = [self.secret.clone(), encoded(&self.secret)].into_iter().chain(parameters);
        web::redact::repeated(words, secrets.chain(web::redact::credentials(Some(&self.authorization()))))
    }
}

/// Text as forms have it (`application/x-www-form-urlencoded`).
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        _ if byte.is_ascii_alphanumeric() || b"*-._".contains(&byte) => char::from(byte).into(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Reads a token endpoint's grant (RFC 6749, 5.1), or says what is missing. Seconds may be written as text.
fn granted(body: &str) -> Result<Granted, &'static str> {
    let Ok(Value::Object(answer)) = serde_json::from_str(body) else {
        return Err("no JSON object with an access_token");
    };
    let access_token = match answer.get("access_token") {
        None | Some(Value::Null) => return Err("no access_token"),
        Some(Value::String(text)) if text.is_empty() => return Err("the access_token is empty"),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err("the access_token is not text"),
    };
    let expires_in = match answer.get("expires_in") {
        None | Some(Value::Null) => None,
        Some(Value::Number(seconds)) => seconds.as_f64(),
        Some(Value::String(text)) if text.trim().is_empty() => None,
        Some(Value::String(text)) => match text.trim().parse() {
            Ok(seconds) => Some(seconds),
            Err(_) => return Err("expires_in is not a number of seconds"),
        },
        Some(_) => return Err("expires_in is not a number of seconds"),
    };
    Ok(Granted { access_token, expires_in })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Instant;

    use testkit::assert_has;

    use super::*;

    /// Answers each request in turn with a status and a body; tells what was sent.
    fn endpoint(answers: Vec<(u16, String)>) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/token", listener.local_addr().unwrap());
        let (tell, told) = channel();
        thread::spawn(move || {
            for (status, body) in answers {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                let lines = reader.by_ref().lines().map(Result::unwrap);
                let head = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
                let lower = head.to_lowercase();
                let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
                let mut form = vec![0; length.unwrap_or_default()];
                reader.read_exact(&mut form).unwrap();
                let _ = tell.send(format!("{head}\n{}", String::from_utf8(form).unwrap()));
                let text =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
                reader.get_mut().write_all(text.as_bytes()).unwrap();
            }
        });
        (uri, told)
    }

    fn spec(uri: String) -> OAuth2Spec {
        let scopes = ["a", "b"].map(str::to_owned).into();
        let parameters = [("orgId".to_owned(), "12 34".to_owned())].into();
        let client_secret = Some(web::Secret::new("s3cret"));
        OAuth2Spec { uri, client_id: "perf".into(), scopes, parameters, client_secret }
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let grant = |text: &str| (200, format!("{{\"access_token\":\"{text}\",\"expires_in\":\"1\"}}"));
        let (uri, told) = endpoint(vec![grant("one"), grant("two")]);
        let (token, renewal) = start(&spec(uri), None, &Control::new()).unwrap();
        let form = told.recv().unwrap();
        assert_has(&form, ["grant_type=client_credentials", "client_id=perf", "client_secret=s3cret", "orgId=12"]);
        assert!(form.contains("scope=a+b") || form.contains("scope=a%20b"), "{form}");
        told.recv_timeout(Duration::from_secs(5)).expect("renewed");
        drop(renewal);
        assert!(!format!("{token:?}").contains("two"));
    }

    /// RFC 6749 has every endpoint take the header, and leaves the form to it.
    #[test]
    fn an_endpoint_that_takes_no_secret_in_the_form_gets_it_in_the_header() {
        let grant = r#"{"access_token":"t","expires_in":"0.1"}"#;
        let refusal = r#"{"error":"invalid_client"}"#;
        for (status, refusal) in [(401, refusal), (400, refusal), (401, "<html>")] {
            let answers = [(status, refusal), (200, grant), (200, grant)];
            let answers = answers.map(|(status, body)| (status, body.to_owned()));
            let (uri, told) = endpoint(answers.into());
            let mut spec = spec(uri);
            spec.client_secret = Some(experiment::Secret::new("a+b c"));
            let (_token, renewal) = start(&spec, None, &Control::new()).unwrap();
            let first = told.recv().unwrap();
            assert!(first.contains("client_id=perf") && !first.contains("Basic"), "{first}");
            // And at once where it is known.
            for _ in 0..2 {
                let again = told.recv_timeout(Duration::from_secs(5)).expect("asked again");
                let header = format!("authorization: {}", basic("perf", "a%2Bb+c"));
                assert!(again.contains(&header) && again.contains("orgId"), "{again}");
                assert!(!again.contains("client_id"), "{again}");
            }
            drop(renewal);
        }
    }

    #[test]
    fn a_stop_does_not_wait_for_the_endpoint() {
        // It takes connections, and says nothing.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        let control = Control::new();
        control.stop();
        let began = Instant::now();
        let stopped = start(&spec(uri), None, &control).unwrap_err();
        assert!(matches!(stopped, BrokerError::Cancelled), "{stopped}");
        assert!(began.elapsed() < TIMEOUT / 2, "{:?}", began.elapsed());
    }

    /// Numbers by the RFC, as text by Azure AD's first version and others.
    #[test]
    fn a_life_is_a_number_or_a_number_in_quotes() {
        for (expires_in, seconds) in
            [("3599", 3_599.0), ("3599.5", 3_599.5), ("1e3", 1_000.0), ("\"3599\"", 3_599.0), ("\" 3599.5 \"", 3_599.5)]
        {
            let body = format!("{{\"expires_in\":{expires_in},\"access_token\":\"t\"}}");
            let granted = granted(&body).unwrap();
            assert_eq!(granted.expires_in, Some(seconds), "{body}");
            assert_eq!(life_of(&granted), Duration::from_secs_f64(seconds * 0.6));
        }
        for expires_in in ["null", "\"\"", "-1", "0", "\"nan\"", "\"inf\""] {
            let body = format!("{{\"expires_in\":{expires_in},\"access_token\":\"t\"}}");
            let life = life_of(&granted(&body).unwrap());
            assert_eq!(life, ASSUMED_LIFE.mul_f64(RENEW_AFTER), "{body}");
        }
    }

    #[test]
    fn refusals_say_why_and_never_what_came() {
        let described = r#"{"error":"invalid_client","error_description":"no such\nclient"}"#;
        for (status, body, part) in [
            (401, described, "invalid_client no such client"),
            (401, r#"{"error":"invalid_client","error_description":"s3cret is wrong"}"#, "*** is wrong"),
            (200, "<html>hidden-words</html>", "no JSON object with an access_token"),
            (200, r#"{"id_token":"hidden","expires_in":60}"#, "no access_token"),
            (200, r#"{"access_token":["hidden"]}"#, "access_token is not text"),
            (200, r#"{"access_token":"hidden","expires_in":"soon"}"#, "expires_in is not a number of seconds"),
            (500, r#"{"access_token":"hidden"}"#, "without success"),
        ] {
            let (uri, _told) = endpoint(vec![(status, body.to_owned())]);
            let text = start(&spec(uri), None, &Control::new()).unwrap_err().problem().sentence();
            assert!(text.contains(part), "{text}");
            assert!(!text.contains("s3cret") && !text.contains("hidden"), "{text}");
        }
        for uri in ["http://me:s3cret/x@127.0.0.1:1/", "http://me:s3cret", "https://a b:s3cret@h"] {
            let text = start(&spec(uri.into()), None, &Control::new()).unwrap_err().problem().sentence();
            assert!(!text.contains("s3cret"), "{text}");
        }
        let text = start(&spec("http://127.0.0.1:1/".into()), None, &Control::new()).unwrap_err().problem().sentence();
        assert!(text.contains("refused") && text.contains("--oauth2-uri"), "{text}");
    }
}
