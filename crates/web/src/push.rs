//! Profiles or metrics on their way to a server: a queue, and a thread that sends. Whatever it does, the run goes on.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use archive::RunRecord;
use measure::{Problem, Refused};
use serde_json::{Value, json};
use stacks::Profile;
use ureq::Agent;
use ureq::http::{StatusCode, Uri};

use super::Secret;
use super::http::{Login, agent, told, trust};

/// Requests that wait to be sent; further ones are not sent. An hour at one a minute.
const MOST_WAITING: usize = 60;
/// Between two attempts, at first; each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often one request is tried: for about five minutes.
const MOST_TRIES: u32 = 10;
/// At the end so much time is left for what still waits, in silence.
const GRACE: Duration = Duration::from_secs(2);
/// So much where the server took nothing the last time.
const SHORT_GRACE: Duration = Duration::from_millis(250);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Where profiles are sent.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// The server, and what it understands.
    pub target: PushTarget,
    /// Its user, where it asks for one; the secret is then a password.
    pub user: Option<String>,
    /// A password, or else a token.
    pub secret: Option<Secret>,
    /// The tenant, where the server has several.
    pub tenant: Option<String>,
}

/// Messages about a server for profiles.
const TEXTS: PushTexts = PushTexts {
    one: "profile",
    many: "profiles",
    reach: "check the address of --push, and that the server runs; recording goes on",
    login: "give --push-user, or --push-token-file or BELLOWS_PUSH_TOKEN, and --push-tenant where it has tenants",
    path: "check the path of --push: Pyroscope takes /ingest, Parca /profiles/writeraw",
    size: "give a shorter --every or a lower --freq, or raise the server's limit",
    redirected: "give --push the new address",
    lost: "all are in the folder for runs; `bellows flame RUN -o x.pb.gz` writes one to send by hand",
    recovered: "the server of --push accepts profiles again",
};

impl PushOptions {
    /// Who takes the profiles.
    pub fn server(&self) -> PushServer {
        PushServer {
            url: self.target.url().to_owned(),
            login: Login { user: self.user.clone(), secret: self.secret.clone(), scheme: "Bearer" },
            tenant: self.tenant.clone(),
            texts: TEXTS,
        }
    }
}

/// A request, but for who sends it.
#[derive(Debug)]
pub struct PushRequest {
    /// Where it goes.
    pub url: String,
    /// Names and values, not yet escaped.
    pub query: Vec<(&'static str, String)>,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Bytes as they are sent.
    pub body: Vec<u8>,
}

/// A profile of one process, period and event.
#[derive(Debug)]
pub struct Push {
    process: String,
    event: String,
    labels: BTreeMap<String, String>,
    from_unix_ns: u64,
    until_unix_ns: u64,
    frequency: u32,
    pprof: Vec<u8>,
}

impl Push {
    /// Those profiles of a period that have samples.
    pub fn all(profiles: &[Profile], record: &RunRecord, until_unix_ns: u64) -> Vec<Self> {
        let Some(period) = &record.period else { return Vec::new() };
        let sampled = profiles.iter().filter(|it| !it.samples.is_empty());
        let push = |profile: &Profile| {
            let mut labels = period.labels.clone();
            labels.entry("process".into()).or_insert_with(|| period.process.clone());
            labels.entry("recording".into()).or_insert_with(|| period.recording.clone());
            Some(Self {
                process: period.process.clone(),
                event: profile.header.event.clone(),
                labels,
                from_unix_ns: record.origin_unix_ns,
                until_unix_ns,
                frequency: profile.header.frequency,
                pprof: profile.to_pprof().ok()?,
            })
        };
        sampled.filter_map(push).collect()
    }
}

/// How sending goes, where that has changed.
#[derive(Debug)]
pub enum PushNews {
    /// It does not work.
    Failed(Problem),
    /// It works again; in words.
    Recovered(String),
}

/// The queue and its thread.
#[derive(Debug)]
pub struct Pusher {
    queue: SyncSender<PushRequest>,
    texts: PushTexts,
    news: Receiver<PushNews>,
    thread: JoinHandle<()>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    queued: AtomicU64,
    sent: AtomicU64,
    /// The server took nothing the last time.
    failing: AtomicBool,
    /// No more is to come: what waits is tried once more, without a pause.
    ending: AtomicBool,
}

impl Pusher {
    /// Starts the thread.
    pub fn start(server: PushServer) -> Result<Self, Problem> {
        let texts = server.texts;
        let client = PushClient::new(server)?;
        let (queue, waiting) = sync_channel::<PushRequest>(MOST_WAITING);
        let (tell, news) = channel();
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let work = move || {
            for push in waiting {
                send(&client, &push, &shared, &tell);
            }
        };
        let thread = thread::Builder::new().name("push".into()).spawn(work);
        let thread = thread.map_err(|e| Problem::new("cannot start a thread", e, "see ulimit -u"))?;
        Ok(Self { queue, texts, news, thread, counts })
    }

    /// Has a request sent, unless too many wait.
    pub fn queue(&self, request: PushRequest) {
        self.counts.queued.fetch_add(1, Ordering::Relaxed);
        // It is counted; why it does not work was told.
        let _ = self.queue.try_send(request);
    }

    /// News since the last call.
    pub fn news(&self) -> Vec<PushNews> {
        self.news.try_iter().collect()
    }

    /// Gives what waits a little time, and says what was not sent.
    pub fn finish(self) -> Vec<PushNews> {
        drop(self.queue);
        self.counts.ending.store(true, Ordering::Relaxed);
        let grace = if self.counts.failing.load(Ordering::Relaxed) { SHORT_GRACE } else { GRACE };
        let deadline = Instant::now() + grace;
        // A request that goes on ends when its time-out does; nobody waits for that.
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
        let mut news: Vec<PushNews> = self.news.try_iter().collect();
        let queued = self.counts.queued.load(Ordering::Relaxed);
        let lost = queued.saturating_sub(self.counts.sent.load(Ordering::Relaxed));
        if lost > 0 {
            news.push(PushNews::Failed(Problem::new(
                format!("{lost} of {} were not sent", self.texts.counted(queued)),
                "the server did not accept them in time",
                self.texts.lost,
            )));
        }
        news
    }
}

/// Sends one request, again and again where that may help.
fn send(client: &PushClient, push: &PushRequest, counts: &Counts, tell: &Sender<PushNews>) {
    let mut pause = FIRST_PAUSE;
    for attempt in 1..=MOST_TRIES {
        let is_last = attempt == MOST_TRIES || counts.ending.load(Ordering::Relaxed);
        let Err(Refusal { problem, is_final }) = client.send(push) else {
            counts.sent.fetch_add(1, Ordering::Relaxed);
            if counts.failing.swap(false, Ordering::Relaxed) {
                let _ = tell.send(PushNews::Recovered(client.server.texts.recovered.to_owned()));
            }
            return;
        };
        if !counts.failing.swap(true, Ordering::Relaxed) {
            let _ = tell.send(PushNews::Failed(problem));
        }
        if is_final || is_last {
            return;
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !counts.ending.load(Ordering::Relaxed) {
            thread::sleep(POLL_INTERVAL);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The longest that a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read: it says what is wrong, or nothing.
const MOST_BYTES: u64 = 300;

/// Why something was not taken, and whether it would not be another time.
#[derive(Debug)]
struct Refusal {
    problem: Problem,
    is_final: bool,
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

struct PushClient {
    agent: Agent,
    server: PushServer,
}

impl PushClient {
    fn new(server: PushServer) -> Result<Self, Problem> {
        let agent = agent(&server.url, TIMEOUT, trust(None, false)?).build().into();
        Ok(Self { agent, server })
    }

    /// Hands over what a request holds.
    fn send(&self, request: &PushRequest) -> Result<(), Refusal> {
        let mut post = self.agent.post(&request.url).content_type(request.content_type);
        for (name, value) in &request.query {
            post = post.query(*name, value);
        }
        if let Some(authorization) = self.server.login.authorization() {
            post = post.header("Authorization", authorization);
        }
        if let Some(tenant) = &self.server.tenant {
            post = post.header("X-Scope-OrgID", tenant);
        }
        let sent = post.send(&request.body[..]);
        let mut response = sent.map_err(|error| self.refusal(&told(&error), self.server.texts.reach, false))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let mut said = Vec::new();
        // What cannot be read says nothing.
        let _ = response.body_mut().as_reader().take(MOST_BYTES).read_to_end(&mut said);
        let words = String::from_utf8_lossy(&said);
        let said = self.server.login.without_secrets(&words, &self.server.url);
        let said = said.replace(char::is_control, " ");
        let why = format!("{status} {said}");
        let (remedy, may_be_taken_later) = self.server.texts.remedy(status);
        Err(self.refusal(why.trim_end(), remedy, !may_be_taken_later))
    }

    fn refusal(&self, why: &str, remedy: &str, is_final: bool) -> Refusal {
        let (url, many) = (crate::redact::url(&self.server.url), self.server.texts.many);
        Refusal { problem: Problem::new(format!("{url} does not accept {many}"), why, remedy), is_final }
    }
}

impl PushTexts {
    /// So many of what is sent.
    fn counted(&self, count: u64) -> String {
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
            408 | 425 | 429 | 500..=599 => ("see the server's log; bellows tries again", true),
            _ => ("see the answer of the server", false),
        }
    }
}

/// Where Pyroscope takes profiles by its first protocol, in which one is a body and the rest a query.
const INGEST: &str = "/ingest";
/// Where Pyroscope and those that pass on to it take them by its second one, which here is JSON.
const PUSHER: &str = "/push.v1.PusherService/Push";
/// Where Parca takes them, as JSON.
const WRITE_RAW: &str = "/profiles/writeraw";

/// A server that takes profiles; the end of its address says by which protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    url: String,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Ingest,
    Pusher,
    Parca,
}

impl FromStr for PushTarget {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        const EXAMPLE: &str = "write it as http://127.0.0.1:4040";
        let uri: Uri = text.trim().parse().map_err(|_| Refused::new("it is not an address", EXAMPLE))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            return Err(Refused::new("it does not begin with http:// or https://", EXAMPLE));
        };
        if authority.as_str().contains('@') {
            let help = "give the user with --push-user, and the password in BELLOWS_PUSH_TOKEN or --push-token-file";
            return Err(Refused::new("it contains a password, which other users see in the list of processes", help));
        }
        if uri.query().is_some() {
            return Err(Refused::new("it has a query", EXAMPLE));
        }
        let url = text.trim().trim_end_matches('/').to_owned();
        let (url, protocol) = if url.ends_with(PUSHER) {
            (url, Protocol::Pusher)
        } else if url.ends_with(WRITE_RAW) {
            (url, Protocol::Parca)
        } else if url.ends_with(INGEST) {
            (url, Protocol::Ingest)
        } else {
            (url + INGEST, Protocol::Ingest)
        };
        Ok(Self { url, protocol })
    }
}

impl PushTarget {
    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The request that hands over a profile.
    pub fn request(&self, push: &Push) -> PushRequest {
        let (query, content_type, body) = match self.protocol {
            Protocol::Ingest => (query(push), "application/octet-stream", push.pprof.clone()),
            Protocol::Pusher => (Vec::new(), "application/json", series_of(push, &pairs(&series(push)))),
            Protocol::Parca => {
                let labels = json!({ "labels": pairs(&series(push)) });
                (Vec::new(), "application/json", series_of(push, &labels))
            }
        };
        PushRequest { url: self.url.clone(), query, content_type, body }
    }
}

/// The query of `/ingest`: https://grafana.com/docs/pyroscope/latest/reference-server-api
fn query(push: &Push) -> Vec<(&'static str, String)> {
    let labels = push.labels.iter();
    let labels: Vec<String> =
        labels.map(|(name, value)| format!("{}={}", label_name(name), label_value(value))).collect();
    let seconds = |ns: u64| (ns / 1_000_000_000).to_string();
    vec![
        ("name", format!("{}{{{}}}", service(push), labels.join(","))),
        ("from", seconds(push.from_unix_ns)),
        ("until", seconds(push.until_unix_ns)),
        ("sampleRate", push.frequency.to_string()),
        ("spyName", "bellows".to_owned()),
        ("format", "pprof".to_owned()),
    ]
}

/// The labels of a series, as Prometheus has them.
fn series(push: &Push) -> BTreeMap<String, String> {
    let labels = push.labels.iter();
    let mut series: BTreeMap<String, String> = labels.map(|(name, value)| (label_name(name), value.clone())).collect();
    let kind = match push.event.as_str() {
        "cpu" => "process_cpu".to_owned(),
        event => label_name(event),
    };
    series.insert("__name__".into(), kind);
    series.insert("service_name".into(), service(push));
    series
}

fn pairs(labels: &BTreeMap<String, String>) -> Value {
    labels.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// The one series of a request in JSON, whose bytes are in base64.
fn series_of(push: &Push, labels: &Value) -> Vec<u8> {
    use base64::Engine as _;
    let raw = base64::engine::general_purpose::STANDARD.encode(&push.pprof);
    let request = json!({"series": [{"labels": labels, "samples": [{"rawProfile": raw}]}]});
    request.to_string().into_bytes()
}

/// The process's name as names of services may be.
fn service(push: &Push) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    replaced(&push.process, fits)
}

fn label_name(name: &str) -> String {
    replaced(name, |c| c.is_ascii_alphanumeric() || c == '_')
}

/// A value, without what ends one in the `name` of `/ingest`.
fn label_value(value: &str) -> String {
    replaced(value, |c| !c.is_control() && !matches!(c, ',' | '{' | '}' | '=' | '"'))
}

fn replaced(text: &str, fits: impl Fn(char) -> bool) -> String {
    let text: String = text.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if text.is_empty() { "_".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// Who has three requests for the server at an address.
    fn pusher(address: SocketAddr) -> Pusher {
        let url = format!("http://{address}/");
        let server = PushServer {
            url: url.clone(),
            login: Login { user: None, secret: None, scheme: "Bearer" },
            tenant: None,
            texts: TEXTS,
        };
        let pusher = Pusher::start(server).expect("a thread");
        for _ in 0..3 {
            pusher.queue(PushRequest {
                url: url.clone(),
                query: Vec::new(),
                content_type: "text/plain",
                body: Vec::new(),
            });
        }
        pusher
    }

    fn assert_ends_soon(pusher: Pusher) {
        let began = Instant::now();
        testkit::assert_has(format!("{:?}", pusher.finish()), ["3 of 3 profiles were not sent"]);
        assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    }

    #[test]
    fn at_the_end_nobody_waits_for_a_server_that_is_not_there() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        assert_ends_soon(pusher(port.expect("a free port")));
    }

    #[test]
    fn at_the_end_nobody_waits_long_for_a_server_that_took_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let pusher = pusher(listener.local_addr().expect("an address"));
        let (mut first, _) = listener.accept().expect("a request");
        let mut head = [0; 4096];
        assert!(first.read(&mut head).expect("a request") > 0);
        let busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        first.write_all(busy).expect("answered");
        while pusher.news().is_empty() {
            thread::sleep(POLL_INTERVAL);
        }
        // From here on it answers nobody: the system takes connections, and nobody reads what comes.
        assert_ends_soon(pusher);
    }

    fn push() -> Push {
        Push {
            process: "rabbit@host".into(),
            event: "cpu".into(),
            labels: [("env".to_owned(), "a,b}".to_owned())].into(),
            from_unix_ns: 60_500_000_000,
            until_unix_ns: 120_000_000_000,
            frequency: 49,
            pprof: vec![0x1f, 0x8b, 1],
        }
    }

    #[test]
    fn the_address_says_the_protocol() {
        let of = |text: &str| text.parse::<PushTarget>().map(|it| (it.url, it.protocol));
        let ingest = |url: &str| Ok((url.to_owned(), Protocol::Ingest));
        assert_eq!(of("http://h:4040"), ingest("http://h:4040/ingest"));
        assert_eq!(of("https://h/pyro/"), ingest("https://h/pyro/ingest"));
        assert_eq!(of("http://h/ingest"), ingest("http://h/ingest"));
        let pusher = "http://h:4040/push.v1.PusherService/Push";
        assert_eq!(of(pusher), Ok((pusher.to_owned(), Protocol::Pusher)));
        let parca = "http://h:7070/profiles/writeraw";
        assert_eq!(of(parca), Ok((parca.to_owned(), Protocol::Parca)));
        for wrong in ["", "h:4040", "ftp://h", "http://", "http://u:p@h", "http://h?x=1", "\n"] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_and_labels_fit_the_protocols() {
        let target: PushTarget = "http://h".parse().unwrap();
        let request = target.request(&push());
        let query: BTreeMap<_, _> = request.query.into_iter().collect();
        assert_eq!(query["name"], "rabbit_host{env=a_b_}");
        assert_eq!((&*query["from"], &*query["until"]), ("60", "120"));
        assert_eq!((&*query["format"], &*query["sampleRate"]), ("pprof", "49"));
        assert_eq!(request.body, push().pprof);

        let target: PushTarget = format!("http://h{PUSHER}").parse().unwrap();
        let body: Value = serde_json::from_slice(&target.request(&push()).body).unwrap();
        let series = &body["series"][0];
        assert_eq!(series["samples"][0]["rawProfile"], "H4sB");
        let labels = series["labels"].as_array().unwrap();
        assert!(labels.contains(&json!({"name": "__name__", "value": "process_cpu"})));
        assert!(labels.contains(&json!({"name": "env", "value": "a,b}"})));
        let target: PushTarget = format!("http://h{WRITE_RAW}").parse().unwrap();
        let body: Value = serde_json::from_slice(&target.request(&push()).body).unwrap();
        assert!(body["series"][0]["labels"]["labels"].is_array());
    }
}
