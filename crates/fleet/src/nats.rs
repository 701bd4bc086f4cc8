//! NATS, which carries the messages of a fleet. The client has a runtime of its own, on a thread of its own.
//!
//! ```text
//! bellows.workers             free workers call for a coordinator
//! bellows.workers.SESSION     to the worker with this session
//! bellows.RUN.coordinator     to the coordinator of this run
//! bellows.RUN.files           asks it for files of the experiment
//! bellows.folders             asks all free workers for their folders of a run,
//! bellows.folders.OWNER       and one of them for pieces of it
//! bellows.names.NAME          asks the worker of this name, in hexadecimal digits, whether it is there
//! bellows.pieces.ASKER        the answers
//! ```
//!
//! A server that is away for a while loses messages, which are repeated: see [`crate::Envelope`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerInfo, Subscriber};
use futures_util::StreamExt;
use measure::{Clock, Nanos, Problem, Secret, Time};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::host::Inputs;
use crate::message::{Envelope, MOST_BYTES, ToCoordinator, ToWorker};
use crate::pieces::{PIECE, Piece, PieceRequest};
use crate::{CoordinatorInput, WorkerInput};

/// The oldest server that bellows is tested with.
const OLDEST: (u32, u32) = (2, 9);
/// The longest that connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a message may take to the client's own buffer; it is dropped then.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// A server that does not answer for two of these is taken for lost: within the lease.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The longest between two attempts to reconnect.
const MOST_BACKOFF: Duration = Duration::from_millis(500);
/// Messages that wait to be sent, and of each subscription to be read, at most.
const MOST_WAITING: usize = 4_096;
/// Changes of the connection that are kept for whoever asks.
const MOST_NOTES: usize = 100;
/// The longest that the client's thread may take to end.
const END_TIMEOUT: Duration = Duration::from_millis(500);

const WORKERS: &str = "bellows.workers";
/// How long a worker may take to say that it has a name.
const NAME_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest wait for a piece of a file, and how often it is asked for.
const PIECE_TIMEOUT: Duration = Duration::from_secs(2);
const MOST_REQUESTS: usize = 5;
/// Pieces that wait to be read at most: more came twice.
const MOST_PIECES: usize = 64;
/// How long workers may take to say that they have a run's folder.
const FOLDERS_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Workers that are asked for their folders at most, files that one may have, and characters of names.
const MOST_OWNERS: usize = 10_000;
const MOST_FILES: usize = 16;
const LONGEST_NAME: usize = 256;

/// The subject of what is for a worker.
fn to_worker(session: u64) -> String {
    format!("{WORKERS}.{session:016x}")
}

/// The subject of what is for the coordinator of a run.
fn to_coordinator(epoch: u64) -> String {
    format!("bellows.{epoch:016x}.coordinator")
}

/// Who has files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// The coordinator of the run with this number.
    Coordinator(u64),
    /// Each worker that is free.
    AllWorkers,
    /// The worker with this number, which stands in its answers.
    Worker(u64),
}

impl FileOwner {
    /// The subject of requests.
    fn subject(self) -> String {
        match self {
            Self::Coordinator(epoch) => format!("bellows.{epoch:016x}.files"),
            Self::AllWorkers => "bellows.folders".to_owned(),
            Self::Worker(owner) => format!("bellows.folders.{owner:016x}"),
        }
    }

    /// The number that stands in its answers.
    const fn number(self) -> u64 {
        match self {
            Self::Worker(owner) => owner,
            Self::Coordinator(_) | Self::AllWorkers => 0,
        }
    }
}

/// The subject on which a worker answers that it has this name.
fn to_named(name: &str) -> String {
    name.bytes().fold("bellows.names.".to_owned(), |subject, byte| subject + &format!("{byte:02x}"))
}

/// The subject of what is for whoever asks for files.
fn to_asker(asker: u64) -> String {
    format!("bellows.pieces.{asker:016x}")
}

/// Where the server is, and how to log in there. `Debug` shows no password.
#[derive(Clone, Default)]
pub struct NatsOptions {
    /// `nats://HOST:PORT`, or several parted by commas; `tls://` asks for TLS. It may hold a password.
    pub url: String,
    /// How to log in: NATS credentials as a `*.creds` file holds them, or one line `USER:PASSWORD`.
    pub login: Option<Secret>,
    /// A PEM file with the authorities to trust, in place of the machine's.
    pub ca: Option<PathBuf>,
    /// PEM files with the client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// This client, as the server's own reports call it.
    pub name: String,
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

impl NatsOptions {
    /// The addresses without users and passwords; of several with a login the last one, as a careless password may hold
    /// anything.
    pub fn place(&self) -> String {
        if let Some((login, address)) = self.url.rsplit_once('@') {
            let scheme = login.split_once("://").map(|(scheme, _)| scheme);
            let scheme = scheme.filter(|it| it.bytes().all(|it| it.is_ascii_alphabetic()));
            return format!("{}://{address}", scheme.unwrap_or("nats"));
        }
        let with_port = |url: &str| {
            let (scheme, address) = url.split_once("://").unwrap_or(("nats", url));
            match address.rsplit_once(':') {
                // A login without its host.
                Some((host, port)) if port.parse::<u16>().is_err() && !port.ends_with(']') => {
                    format!("{scheme}://{host}:***")
                }
                _ => format!("{scheme}://{address}"),
            }
        };
        self.url.split(',').map(with_port).collect::<Vec<_>>().join(",")
    }

    /// Whether the address holds a user or a password.
    pub fn has_login(&self) -> bool {
        self.url.contains('@')
    }

    fn failed(&self, why: impl fmt::Display, help: &str) -> Problem {
        Problem::new(format!("cannot use the NATS server at {}", self.place()), why, help)
    }

    async fn connect(&self, told: Told) -> Result<Client, Problem> {
        let parse = |url: &str| url.trim().parse::<ServerAddr>();
        let addresses = self.url.split(',').map(parse).collect::<Result<Vec<_>, _>>();
        let help = "write nats://HOST:PORT, or tls://HOST:PORT";
        let addresses = addresses.map_err(|_| self.failed("its address is not understood", help))?;
        let is_secured = self.ca.is_some() || self.identity.is_some();
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .max_reconnects(None)
            .reconnect_delay_callback(backoff)
            .client_capacity(MOST_WAITING)
            .subscription_capacity(MOST_WAITING)
            .event_callback(move |event| {
                told.take(&event);
                std::future::ready(())
            });
        if let Some(file) = &self.ca {
            options = options.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = &self.identity {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        if is_secured {
            options = options.require_tls(true);
        }
        if let Some(login) = &self.login {
            let help = "name a file of NATS credentials, or one with a line USER:PASSWORD";
            options = logged_in(options, login.expose()).map_err(|error| self.failed(error, help))?;
        }
        match timeout(CONNECT_TIMEOUT, options.connect(addresses)).await {
            Ok(Ok(client)) => Ok(client),
            // What a plain server says first is no TLS.
            Ok(Err(error)) if error.to_string().contains("InvalidContentType") => {
                Err(self.failed("it does not speak TLS", "write nats://, without --fleet-ca and --fleet-cert"))
            }
            Ok(Err(error)) => Err(self.failed(&error, remedy(error.kind()))),
            Err(_) => Err(self.failed(format!("no answer within {CONNECT_TIMEOUT:?}"), remedy(ConnectErrorKind::Io))),
        }
    }

    /// Refuses a server that lacks what is used.
    fn check(&self, server: &ServerInfo) -> Result<(), Problem> {
        let numbers = |part: Option<&str>| part.and_then(|it| it.parse::<u32>().ok());
        let mut parts = server.version.split('.');
        let version = numbers(parts.next()).zip(numbers(parts.next()));
        let (major, minor) = OLDEST;
        if version.is_none_or(|it| it < OLDEST) {
            let why = format!("its version is {}", server.version);
            return Err(self.failed(why, &format!("nats-server {major}.{minor} or newer is needed")));
        }
        if server.max_payload < MOST_BYTES {
            let why = format!("it takes messages of {} bytes at most", server.max_payload);
            return Err(self.failed(why, &format!("set its max_payload to {MOST_BYTES} or more")));
        }
        Ok(())
    }
}

fn logged_in(options: ConnectOptions, login: &str) -> io::Result<ConnectOptions> {
    let line = login.trim();
    match line.split_once(':').filter(|_| !line.contains('\n')) {
        Some((user, password)) => Ok(options.user_and_password(user.to_owned(), password.to_owned())),
        None if !line.contains("-----BEGIN") => Err(io::Error::other("the file holds no login")),
        None => options.credentials(login),
    }
}

fn backoff(attempts: usize) -> Duration {
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    Duration::from_millis(50).saturating_mul(attempts).min(MOST_BACKOFF)
}

const fn remedy(kind: ConnectErrorKind) -> &'static str {
    match kind {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            "give a file of credentials that it knows (--fleet-credentials)"
        }
        ConnectErrorKind::Tls => "check its certificate and the files of --fleet-ca, --fleet-cert and --fleet-key",
        _ => "start one with `bellows fleet start`, or check host and port",
    }
}

/// Changes of the connection that nobody has asked for yet, newest last.
#[derive(Debug, Default)]
struct Changes {
    is_away: bool,
    /// Who has to know at once that the server is away.
    coordinator: Option<Inputs<CoordinatorInput>>,
    notes: VecDeque<(Time, String)>,
}

#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Changes>>);

impl Told {
    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, event: &Event) {
        let mut changes = self.changes();
        let was_away = changes.is_away;
        if let (Event::Connected | Event::Disconnected, Some(inputs)) = (event, &changes.coordinator) {
            let is_away = matches!(event, Event::Disconnected);
            if is_away != was_away {
                inputs.arrived(Clock.now(), CoordinatorInput::ServerAway(is_away));
            }
        }
        let text = match event {
            Event::Connected => {
                changes.is_away = false;
                if !was_away {
                    return;
                }
                "the NATS server is back".to_owned()
            }
            Event::Disconnected => {
                changes.is_away = true;
                if was_away {
                    return;
                }
                "the NATS server is away".to_owned()
            }
            Event::LameDuckMode => "the NATS server is about to end".to_owned(),
            Event::ServerError(error) => format!("the NATS server says: {error}"),
            Event::SlowConsumer(_) => "messages of the NATS server were dropped: they came too fast".to_owned(),
            Event::ClientError(_) | Event::Draining | Event::Closed => return,
        };
        if changes.notes.len() < MOST_NOTES {
            changes.notes.push_back((Clock.now(), text));
        }
    }
}

/// Takes the messages of a subscription, with the instants at which they came.
type Deliver = Box<dyn Fn(Time, &[u8]) + Send>;

enum Order {
    Publish(String, Vec<u8>),
    /// Until the last is dropped.
    Subscribe(String, Deliver, oneshot::Receiver<()>),
}

/// A connection to a NATS server, which comes back by itself. Dropping this ends it.
#[derive(Debug)]
pub struct Link {
    orders: Sender<Order>,
    told: Told,
    /// Version of the server.
    pub server_version: String,
}

/// Messages of a subject, for as long as this lives.
#[derive(Debug)]
pub struct Subscription(#[expect(dead_code, reason = "the other end waits until it is dropped")] oneshot::Sender<()>);

impl Link {
    /// Connects, within 5 s. Errors: no server answers, it refuses the login, it is too old.
    pub fn connect(options: &NatsOptions) -> Result<Self, Problem> {
        let (orders, receive) = channel(MOST_WAITING);
        let (tell, told_version) = sync_channel(1);
        let told = Told::default();
        let (options, of_client) = (options.clone(), told.clone());
        let work = move || run(&options, receive, of_client, &tell);
        let failed = |error| Problem::new("cannot start a thread", error, "see ulimit -u");
        thread::Builder::new().name("nats".into()).spawn(work).map_err(failed)?;
        match told_version.recv() {
            Ok(Ok(server_version)) => Ok(Self { orders, told, server_version }),
            Ok(Err(problem)) => Err(problem),
            Err(error) => Err(Problem::new("the NATS client has ended", error, "run it again")),
        }
    }

    /// Changes of the connection since the last call: when, and which.
    pub fn notes(&self) -> Vec<(Time, String)> {
        self.told.changes().notes.drain(..).collect()
    }

    /// Sends a coordinator's message; one that is too large or cannot wait is dropped.
    pub fn tell_worker(&self, envelope: &Envelope<ToWorker>) {
        if let Ok(bytes) = envelope.encode() {
            self.publish(to_worker(envelope.session), bytes);
        }
    }

    /// Sends a worker's message; one that cannot wait is dropped.
    pub fn tell_coordinator(&self, envelope: &Envelope<ToCoordinator>) {
        let subject = if envelope.epoch == 0 { WORKERS.to_owned() } else { to_coordinator(envelope.epoch) };
        if let Ok(bytes) = envelope.encode() {
            self.publish(subject, bytes);
        }
    }

    fn publish(&self, subject: String, bytes: Vec<u8>) {
        let _ = self.orders.try_send(Order::Publish(subject, bytes));
    }

    /// Hands a coordinator what workers say to all and to it, and that the server is away.
    pub fn hear_workers(&self, epoch: u64, inputs: &Inputs<CoordinatorInput>) -> [Subscription; 2] {
        self.told.changes().coordinator = Some(inputs.clone());
        [WORKERS.to_owned(), to_coordinator(epoch)].map(|subject| {
            let inputs = inputs.clone();
            self.decode(subject, move |at, envelope| inputs.arrived(at, CoordinatorInput::Message(envelope)))
        })
    }

    /// Takes what all workers say, to whomever.
    pub fn overhear_workers(
        &self,
        take: impl Fn(Time, Envelope<ToCoordinator>) + Clone + Send + 'static,
    ) -> [Subscription; 2] {
        [WORKERS.to_owned(), "bellows.*.coordinator".to_owned()].map(|subject| self.decode(subject, take.clone()))
    }

    /// Hands a worker what coordinators say to it.
    pub fn hear_coordinators(&self, session: u64, inputs: &Inputs<WorkerInput>) -> Subscription {
        let inputs = inputs.clone();
        let take = move |at, bytes: &[u8]| {
            if let Ok(envelope) = Envelope::<ToWorker>::decode(bytes) {
                inputs.arrived(at, WorkerInput::Message(envelope));
            }
        };
        self.subscribe(to_worker(session), Box::new(take))
    }

    /// Hands on what is asked of an owner of files.
    pub fn hear_requests(&self, owner: FileOwner, take: impl Fn(PieceRequest) + Send + 'static) -> Subscription {
        let decoded = move |_, bytes: &[u8]| {
            if let Ok(request) = PieceRequest::decode(bytes) {
                take(request);
            }
        };
        self.subscribe(owner.subject(), Box::new(decoded))
    }

    /// Takes a name for a worker, until what this returns is dropped. `own` is another random number each time.
    /// Errors: a worker that has joined is called so.
    pub fn take_name(&self, name: &str, own: u64) -> Result<Subscription, Problem> {
        let (tell, answers) = sync_channel(1);
        let told = move |_: Time, _: &[u8]| {
            let _ = tell.try_send(());
        };
        let heard = self.subscribe(to_asker(own), Box::new(told));
        if let Ok(bytes) = PieceRequest::new(own, String::new(), String::new(), 0).encode() {
            self.publish(to_named(name), bytes);
        }
        let is_free = answers.recv_timeout(NAME_TIMEOUT).is_err();
        drop(heard);
        let help = "give this one another name with --name: workers are numbered by their names";
        Problem::new("another worker has this name", name, help).unless(is_free)?;
        let (orders, own_name) = (self.orders.clone(), name.to_owned());
        let answer = move |_: Time, bytes: &[u8]| {
            let Ok(request) = PieceRequest::decode(bytes) else { return };
            if let Ok(bytes) = Piece::answer(&request, own, own_name.clone()).encode() {
                let _ = orders.try_send(Order::Publish(to_asker(request.asker), bytes));
            }
        };
        Ok(self.subscribe(to_named(name), Box::new(answer)))
    }

    /// Sends a piece to whoever asked for it; one that cannot wait is dropped.
    pub fn answer(&self, asker: u64, piece: &Piece) {
        if let Ok(bytes) = piece.encode() {
            self.publish(to_asker(asker), bytes);
        }
    }

    fn request(&self, owner: FileOwner, request: &PieceRequest) {
        if let Ok(bytes) = request.encode() {
            self.publish(owner.subject(), bytes);
        }
    }

    fn decode(&self, subject: String, take: impl Fn(Time, Envelope<ToCoordinator>) + Send + 'static) -> Subscription {
        let decoded = move |at, bytes: &[u8]| {
            if let Ok(envelope) = Envelope::<ToCoordinator>::decode(bytes) {
                take(at, envelope);
            }
        };
        self.subscribe(subject, Box::new(decoded))
    }

    fn subscribe(&self, subject: String, deliver: Deliver) -> Subscription {
        let (keep, dropped) = oneshot::channel();
        let _ = self.orders.blocking_send(Order::Subscribe(subject, deliver, dropped));
        Subscription(keep)
    }
}

/// Asks others for files of a run.
#[derive(Debug)]
pub struct FileClient<'a> {
    link: &'a Link,
    asker: u64,
    run: &'a str,
    pieces: mpsc::Receiver<Piece>,
    _heard: Subscription,
}

impl<'a> FileClient<'a> {
    /// Asks over this connection; `asker` is another random number each time.
    pub fn new(link: &'a Link, asker: u64, run: &'a str) -> Self {
        let (tell, pieces) = sync_channel(MOST_PIECES);
        let take = move |_, bytes: &[u8]| {
            if let Ok(piece) = Piece::decode(bytes) {
                let _ = tell.try_send(piece);
            }
        };
        let heard = link.subscribe(to_asker(asker), Box::new(take));
        Self { link, asker, run, pieces, _heard: heard }
    }

    fn request(&self, file: &str, from: u64) -> PieceRequest {
        PieceRequest::new(self.asker, self.run.to_owned(), file.to_owned(), from)
    }

    /// The workers that have a folder of the run: their names and the sizes of its files, by their numbers.
    pub fn folders(&self) -> BTreeMap<u64, Piece> {
        let mut folders = BTreeMap::new();
        let until = Clock.now() + Nanos::from(FOLDERS_TIMEOUT);
        self.link.request(FileOwner::AllWorkers, &self.request("", 0));
        while let Some(mut piece) = self.next_piece(until) {
            if is_folder(&piece) && folders.len() < MOST_OWNERS {
                piece.bytes = Vec::new();
                folders.insert(piece.owner, piece);
            }
        }
        folders
    }

    /// The next piece that comes until then, however many come.
    fn next_piece(&self, until: Time) -> Option<Piece> {
        let left = Some(until.since(Clock.now())).filter(|left| *left > Nanos::ZERO)?;
        self.pieces.recv_timeout(Duration::from_nanos(left.0)).ok()
    }

    /// Reads a file of this size; `take` gets its pieces in their order. Errors: an owner that does not answer, another
    /// size, and those of `take`.
    pub fn read(
        &self,
        owner: FileOwner,
        file: &str,
        size: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut from = 0;
        while from < size {
            let piece = self.piece(owner, file, from)?;
            let wanted = (size - from).min(PIECE as u64);
            if piece.bytes.len() as u64 != wanted {
                let value = format!("{} bytes at {from} of {size}", piece.bytes.len());
                return Err(Problem::new(format!("{file} is not as large as was said"), value, "try it again"));
            }
            take(&piece.bytes)?;
            from += wanted;
        }
        Ok(())
    }

    fn piece(&self, owner: FileOwner, file: &str, from: u64) -> Result<Piece, Problem> {
        for _ in 0..MOST_REQUESTS {
            self.link.request(owner, &self.request(file, from));
            let until = Clock.now() + Nanos::from(PIECE_TIMEOUT);
            // Another owner's, which was asked before and twice, may come now.
            while let Some(piece) = self.next_piece(until) {
                if (piece.owner, piece.from) == (owner.number(), from) && piece.file == file {
                    return Ok(piece);
                }
            }
        }
        let help = "see whether it still runs (`bellows fleet status`), and try it again";
        Err(Problem::new(format!("nobody sends {file}"), format!("asked {MOST_REQUESTS} times"), help))
    }
}

/// Whether this says which files a worker has, in so many words as one does.
fn is_folder(piece: &Piece) -> bool {
    let are_short = piece.files.keys().chain([&piece.name]).all(|name| name.len() <= LONGEST_NAME);
    piece.file.is_empty() && piece.files.len() <= MOST_FILES && are_short
}

/// The client's thread; tells the version of the server once.
fn run(options: &NatsOptions, orders: Receiver<Order>, told: Told, tell: &SyncSender<Result<String, Problem>>) {
    let started = Builder::new_current_thread().enable_all().build();
    let failed = |error| Problem::new("cannot start the NATS client", error, "see ulimit -n");
    let result = started.map_err(failed).and_then(|runtime| connected(&runtime, options, told).map(|it| (runtime, it)));
    match result {
        Ok((runtime, (client, version))) => {
            let _ = tell.send(Ok(version));
            runtime.block_on(serve(client, orders));
            runtime.shutdown_timeout(END_TIMEOUT);
        }
        Err(problem) => {
            let _ = tell.send(Err(problem));
        }
    }
}

fn connected(runtime: &Runtime, options: &NatsOptions, told: Told) -> Result<(Client, String), Problem> {
    let client = runtime.block_on(options.connect(told))?;
    let server = client.server_info();
    options.check(&server)?;
    Ok((client, server.version))
}

/// Does what is ordered until nobody can order any more.
async fn serve(client: Client, mut orders: Receiver<Order>) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Publish(subject, bytes) => {
                let _ = timeout(SEND_TIMEOUT, client.publish(subject, bytes.into())).await;
            }
            Order::Subscribe(subject, deliver, dropped) => {
                if let Ok(Ok(subscriber)) = timeout(SEND_TIMEOUT, client.subscribe(subject)).await {
                    tokio::spawn(forward(subscriber, deliver, dropped));
                }
            }
        }
    }
    let _ = timeout(END_TIMEOUT, client.flush()).await;
}

async fn forward(mut subscriber: Subscriber, deliver: Deliver, mut dropped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            message = subscriber.next() => match message {
                Some(message) => deliver(Clock.now(), &message.payload),
                None => return,
            },
            _ = &mut dropped => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_password_is_shown() {
        for (url, shown) in [
            ("nats://h:4222", "nats://h:4222"),
            ("h:4222,tls://g", "nats://h:4222,tls://g"),
            ("nats://me:s3cret@h:1", "nats://h:1"),
            ("nats://me:s3,cret@h:1", "nats://h:1"),
            ("nats://me:s3cret@h,nats://you:s3cret@g", "nats://g"),
            ("me:s3cret@h:1,nats://me:s3cret@g:2,tls://f", "nats://g:2,tls://f"),
            ("tls://[::1]", "tls://[::1]"),
            ("nats://me:s3cret", "nats://me:***"),
        ] {
            let options = NatsOptions { url: url.to_owned(), ..NatsOptions::default() };
            assert_eq!((options.place(), options.has_login()), (shown.to_owned(), url.contains('@')));
        }
    }

    #[test]
    fn a_piece_that_names_more_than_a_folder_holds_is_none() {
        let mut piece = Piece::answer(&PieceRequest::new(1, "run".to_owned(), String::new(), 0), 2, "w1".to_owned());
        let mut add = |name: String| {
            piece.files.insert(name, 1);
            is_folder(&piece)
        };
        assert!((0..MOST_FILES).all(|at| add(at.to_string())) && !add("another".to_owned()));
        piece.files = BTreeMap::from([("x".repeat(LONGEST_NAME + 1), 1)]);
        assert!(!is_folder(&piece));
    }
}
