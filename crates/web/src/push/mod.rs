//! Profiles or metrics on their way to a server that keeps them: a queue, and a thread that sends. Whatever the server
//! does, the run goes on.

mod client;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use archive::RunRecord;
use measure::Problem;
use stacks::Profile;

use crate::Secret;
use crate::http::Login;
use client::{PushClient, Refusal};
pub use client::{PushServer, PushTexts};
pub use target::PushTarget;

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
    redirected: "give --push the address that it redirects to",
    lost: "all are in the folder for runs; `bellows flame RUN -o x.pb.gz` writes one to send by hand",
    recovered: "profiles are taken again by the server of --push",
};

impl PushOptions {
    /// Who takes the profiles.
    pub fn server(&self) -> PushServer {
        PushServer {
            url: self.target.url().to_owned(),
            login: Login {
                user: self.user.clone(),
                secret: self.secret.clone(),
                scheme: "Bearer",
            },
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
        let Some(period) = &record.period else {
            return Vec::new();
        };
        let sampled = profiles.iter().filter(|it| !it.samples.is_empty());
        let push = |profile: &Profile| {
            let mut labels = period.labels.clone();
            labels
                .entry("process".into())
                .or_insert_with(|| period.process.clone());
            labels
                .entry("recording".into())
                .or_insert_with(|| period.recording.clone());
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
    ///
    /// # Errors
    /// The options make no sense.
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
        let thread =
            thread.map_err(|e| Problem::new("cannot start a thread", e, "see ulimit -u"))?;
        Ok(Self {
            queue,
            texts,
            news,
            thread,
            counts,
        })
    }

    /// Has a request sent, unless too many wait.
    pub fn queue(&self, request: PushRequest) {
        self.counts.queued.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(request) {
            // It is counted; why it does not work was told.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// News since the last call.
    pub fn news(&self) -> Vec<PushNews> {
        self.news.try_iter().collect()
    }

    /// Gives what waits a little time, and says what was not sent.
    pub fn finish(self) -> Vec<PushNews> {
        drop(self.queue);
        self.counts.ending.store(true, Ordering::Relaxed);
        let grace = match self.counts.failing.load(Ordering::Relaxed) {
            true => SHORT_GRACE,
            false => GRACE,
        };
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
                "the server had not taken them by the end",
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
        let (problem, again) = match client.send(push) {
            Ok(()) => {
                counts.sent.fetch_add(1, Ordering::Relaxed);
                if counts.failing.swap(false, Ordering::Relaxed) {
                    let told = client.server.texts.recovered;
                    let _ = tell.send(PushNews::Recovered(told.to_owned()));
                }
                return;
            }
            Err(Refusal::Final(problem)) => (problem, false),
            Err(Refusal::ForNow(problem)) => (problem, !is_last),
        };
        if !counts.failing.swap(true, Ordering::Relaxed) {
            let _ = tell.send(PushNews::Failed(problem));
        }
        if !again {
            return;
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !counts.ending.load(Ordering::Relaxed) {
            thread::sleep(POLL_INTERVAL);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
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
            login: Login {
                user: None,
                secret: None,
                scheme: "Bearer",
            },
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

    #[test]
    fn at_the_end_nobody_waits_for_a_server_that_is_not_there() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let pusher = pusher(port.expect("a free port"));
        let began = Instant::now();
        let news = format!("{:?}", pusher.finish());
        assert!(news.contains("3 of 3 profiles were not sent"), "{news}");
        assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    }

    #[test]
    fn at_the_end_nobody_waits_long_for_a_server_that_took_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let pusher = pusher(listener.local_addr().expect("an address"));
        let (mut first, _) = listener.accept().expect("a request");
        let mut head = [0; 4096];
        assert!(first.read(&mut head).expect("a request") > 0);
        let busy =
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        first.write_all(busy).expect("answered");
        while pusher.news().is_empty() {
            thread::sleep(POLL_INTERVAL);
        }
        // From here on it answers nobody: the system takes connections, and nobody reads what comes.
        let began = Instant::now();
        let news = format!("{:?}", pusher.finish());
        assert!(news.contains("3 of 3 profiles were not sent"), "{news}");
        assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    }
}
