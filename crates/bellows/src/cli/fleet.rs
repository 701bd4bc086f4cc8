//! `fleet`: a NATS server and workers on this machine, and the workers that there are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use std::{env, thread};

use archive::{CollectOptions, CollectedRun, RunEntry, RunState};
use brokers::BrokerError;
use brokers::guardian::{private_file, random_hex};
use brokers::managed::{Launch, Managed, Probe, Progress, Waiting, Workspace, accepts, free_ports};
use clap::{Args, Subcommand};
use experiment::Experiment;
use fleet::nats::{FileOwner, Link, NatsOptions, Subscription};
use fleet::{
    ClockEstimator, Envelope, PieceRequest, ProbeTimes, RecordedProcess, ToCoordinator, ToWorker, WorkerFacts,
    WorkerState,
};
use measure::{Clock, Nanos, Problem, Secret, Time, counted, wall_clock_unix_ns};
use report::console;
use serde::{Serialize, Serializer};
use session::{Carrier, Error, FleetRun, Observer, RunOptions, RunOutcome, WorkerLink};

use super::args::{RunsDir, is_typed};
use super::command_line::{self, Url};
use super::{collect, find};
use crate::{Done, Failure, output, signals};

/// Debian has it there, where the path of ordinary users does not lead.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
const SERVER: &str = "nats-server";
const SERVER_TIMEOUT: Duration = Duration::from_secs(20);
/// Room for its log, bytes.
const SERVER_SPACE: u64 = 10_000_000;
const CONFIGURATION: &str = "nats.conf";
/// Bytes of a file of credentials at most.
const LARGEST_LOGIN: u64 = 64 << 10;
/// The longest that workers may take to join, and to end.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);
const END_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Workers call four times a second, and are probed so often meanwhile.
const LISTENING: Duration = Duration::from_millis(1_500);
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
/// A worker says four times a second that it lives: one that did not for so long has left its run.
const SILENT: Duration = Duration::from_secs(1);
/// Messages of workers that wait to be looked at: the next ones come soon.
const MOST_OVERHEARD: usize = 8_192;
/// Workers that are listed at most.
const MOST_LISTED: usize = 10_000;

/// How to log in to the NATS server of a fleet.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ServerArgs {
    /// File of credentials for the NATS server: *.creds, or one line USER:PASSWORD
    #[arg(long, value_name = "FILE", env = "BELLOWS_FLEET_CREDENTIALS")]
    fleet_credentials: Option<PathBuf>,
    /// PEM file with the authorities to trust for it, instead of the machine's
    #[arg(long, value_name = "FILE", env = "BELLOWS_FLEET_CA")]
    fleet_ca: Option<PathBuf>,
    /// PEM file with the certificate to show it
    #[arg(long, value_name = "FILE", requires = "fleet_key", env = "BELLOWS_FLEET_CERT")]
    fleet_cert: Option<PathBuf>,
    /// PEM file with the key of --fleet-cert
    #[arg(long, value_name = "FILE", requires = "fleet_cert", env = "BELLOWS_FLEET_KEY")]
    fleet_key: Option<PathBuf>,
}

impl ServerArgs {
    /// Connects as `name`. Errors: a password that everybody sees, and those of [`Link::connect`].
    pub(super) fn connect(&self, url: &Url, name: &str) -> Result<Arc<Link>, Problem> {
        let empty = Problem::new("the address of the NATS server is empty", "", "write nats://HOST:4222");
        empty.unless(!url.0.trim().is_empty())?;
        let login = self.fleet_credentials.as_deref().map(read_login).transpose()?;
        let options = NatsOptions {
            url: url.0.clone(),
            login,
            ca: self.fleet_ca.clone(),
            identity: self.fleet_cert.clone().zip(self.fleet_key.clone()),
            name: format!("bellows {name}"),
        };
        if is_typed(options.has_login(), "BELLOWS_FLEET") {
            let cause = "a password on the command line is seen by all users of this machine";
            let help = "name a file with --fleet-credentials, or set BELLOWS_FLEET to the whole address";
            return Err(Problem::new(cause, options.place(), help));
        }
        Link::connect(&options).map(Arc::new)
    }

    /// Runs an experiment whose load workers at this address carry.
    /// Errors: as [`session::run`], and where there are no workers.
    pub(super) fn run(
        &self,
        url: &Url,
        crew: Crew,
        experiment: &Experiment,
        options: &RunOptions,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome, Error> {
        FleetRun::check(experiment)?;
        observer.step("connecting to the fleet");
        let link = self.connect(url, "coordinator")?;
        let (to_workers, beside) = (Arc::clone(&link), Box::new(NatsWorkers(Arc::clone(&link))));
        let fleet = FleetRun::start(&experiment.name, crew.tolerated, move |it| to_workers.tell_worker(it), beside)?;
        let _heard = link.hear_workers(fleet.epoch(), &fleet.inputs());
        let (files, answers) = (fleet.files(), Arc::clone(&link));
        let answer = move |it: PieceRequest| answers.answer(it.asker, &files.piece(&it));
        let _asked = link.hear_requests(FileOwner::Coordinator(fleet.epoch()), answer);
        let mut others = OtherRuns::hear(&link, fleet.epoch());
        let gathered = fleet.gather(crew.wanted, &mut || others.busy(), control, observer);
        // What all workers say is much, once they carry load.
        drop(others);
        if let Err(error) = gathered {
            // While workers are still heard: whoever has joined is free again.
            drop(fleet);
            return Err(error);
        }
        // It goes first, and waits until the workers have left.
        let options = RunOptions { carrier: Carrier::Fleet(fleet), ..options.clone() };
        session::run(experiment, &options, control, observer)
    }
}

/// Workers that other runs have, as long as it listens.
struct OtherRuns<'a> {
    link: &'a Link,
    /// The run that is to be started, and whoever asks.
    own: [u64; 2],
    told: Receiver<Envelope<ToCoordinator>>,
    workers: BTreeMap<u64, BusyWorker>,
    _heard: [Subscription; 2],
}

/// A worker of another run.
struct BusyWorker {
    heard_at: Instant,
    /// Its run; empty until it has said that.
    run: String,
    /// It carries no load.
    records: bool,
}

impl<'a> OtherRuns<'a> {
    fn hear(link: &'a Link, run: u64) -> Self {
        let (tell, told) = sync_channel(MOST_OVERHEARD);
        let is_told =
            |body: &ToCoordinator| matches!(body, ToCoordinator::Status { .. } | ToCoordinator::Heartbeat { .. });
        let hear = move |_: Time, envelope: Envelope<ToCoordinator>| {
            if is_told(&envelope.body) {
                let _ = tell.try_send(envelope);
            }
        };
        let own = [run, wall_clock_unix_ns()];
        Self { link, own, told, workers: BTreeMap::new(), _heard: link.overhear_workers(hear) }
    }

    /// How many workers for a load each run has, by its name.
    fn busy(&mut self) -> BTreeMap<String, usize> {
        let [own, asking] = self.own;
        for Envelope { epoch, session, body, .. } in self.told.try_iter().take(MOST_OVERHEARD) {
            match body {
                ToCoordinator::Status { facts, run, .. } => {
                    if let Some(known) = self.workers.get_mut(&session) {
                        (known.run, known.records) = (run, facts.records.is_some());
                    }
                }
                ToCoordinator::Heartbeat { state: WorkerState::Fenced } => drop(self.workers.remove(&session)),
                ToCoordinator::Heartbeat { .. } if epoch != own && self.workers.len() < MOST_LISTED => {
                    let heard_at = Instant::now();
                    let new = || BusyWorker { heard_at, run: String::new(), records: false };
                    let known = self.workers.entry(session).or_insert_with(new);
                    known.heard_at = heard_at;
                    if known.run.is_empty() {
                        let (stamp, body) = (Time(0), ToWorker::Ask);
                        let ask = Envelope { epoch: asking, session, number: 0, received: 0, stamp, body };
                        self.link.tell_worker(&ask);
                    }
                }
                _ => {}
            }
        }
        self.workers.retain(|_, it| it.heard_at.elapsed() < SILENT);
        let mut busy = BTreeMap::new();
        for worker in self.workers.values().filter(|it| !it.run.is_empty() && !it.records) {
            *busy.entry(worker.run.clone()).or_default() += 1;
        }
        busy
    }
}

/// The workers of a run, over NATS.
#[derive(Debug)]
struct NatsWorkers(Arc<Link>);

impl WorkerLink for NatsWorkers {
    fn notes(&self) -> Vec<(Time, String)> {
        self.0.notes()
    }

    fn fetch(&self, run: &str, workers: &[String], take: &mut dyn FnMut(&Path)) -> Result<Vec<String>, Error> {
        let fetched = collect::fetch(&self.0, run, Some(workers))?;
        fetched.dirs.iter().for_each(|it| take(it));
        Ok(fetched.failed)
    }
}

/// The workers of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crew {
    /// How many; all that are free where absent.
    pub(super) wanted: Option<usize>,
    /// How many may be lost.
    pub(super) tolerated: usize,
}

fn read_login(file: &Path) -> Result<Secret, Problem> {
    let read = stacks::bounded::read(file, LARGEST_LOGIN);
    let text = read.map_err(|error| Problem::io("read the credentials", file, &error))?;
    Ok(Secret::new(String::from_utf8_lossy(&text)))
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows fleet start --workers 3
  bellows fleet status --fleet nats://127.0.0.1:4222")]
pub(crate) struct FleetCommandArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Start a NATS server and workers on this machine, until Ctrl-C
    Start(StartArgs),
    /// List the workers: what they do, their clocks, their limits
    Status(StatusArgs),
    /// Make one run folder of the workers' own, where the coordinator of a run died
    Collect(CollectArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows fleet start --workers 3
  bellows fleet start --workers 2 --port 4333 --login fleet.login")]
struct StartArgs {
    /// Workers to start
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    workers: u32,
    /// Port of the NATS server on 127.0.0.1; a free one if absent
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// File with user and password of the NATS server, made if missing; a file that goes with the server if absent
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
    #[command(flatten)]
    runs: RunsDir,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows fleet status --fleet nats://127.0.0.1:4222
  bellows fleet status --fleet nats://127.0.0.1:4222 --json")]
struct StatusArgs {
    /// The NATS server that the workers have joined, nats://HOST:4222
    #[arg(long, value_name = "URL", env = "BELLOWS_FLEET", hide_env_values = true)]
    fleet: Url,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl FleetCommandArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        execute!(self.command, FleetCommand: Start Status Collect)
    }
}

/// A worker's process. Its standard input is closed to end it; by the kernel, where this process dies.
struct WorkerProcess {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl StartArgs {
    fn execute(self) -> Result<Done, Failure> {
        let stop = signals::stop_flag()?;
        let (server, url, login) = self.start_server(&stop).map_err(Error::from)?;
        let options = ServerArgs { fleet_credentials: Some(login.clone()), ..ServerArgs::default() };
        let link = options.connect(&Url(url.clone()), "fleet start")?;
        let (tell, told) = sync_channel(MOST_OVERHEARD);
        let heard = link.overhear_workers(move |_, envelope| drop(tell.try_send(envelope)));
        let mut workers =
            (1..=self.workers).map(|number| self.start_worker(number, &url, &login)).collect::<Result<_, _>>()?;
        if wait_until_joined(&told, self.workers as usize, &stop)? {
            let workers = counted(u64::from(self.workers), "worker");
            let there = format!("{url} --fleet-credentials {}", login.display());
            output::print(&format!("ready {url}, {workers}; to use them: bellows run demo --fleet {there}\n"))?;
            output::print(&format!("more workers: bellows worker --join {there}\n"))?;
        }
        drop((heard, told, link));
        let ended = watch(&server, &mut workers, &stop);
        end_all(workers);
        server.stop().map_err(Error::from)?;
        ended.map(|()| Done::Fine)
    }

    /// Starts the server, which a guardian ends where this process is killed.
    fn start_server(&self, stop: &AtomicBool) -> Result<(Managed, String, PathBuf), BrokerError> {
        let port = match self.port {
            Some(port) => port,
            None => {
                let [port] = free_ports()?;
                port
            }
        };
        let program = find_server().ok_or_else(|| {
            let help = "install it (Debian: apt-get install nats-server), or join workers to one that runs elsewhere";
            Problem::new("there is no nats-server", "not in PATH", help)
        })?;
        let workspace = Workspace::new(SERVER, None, SERVER_SPACE)?;
        let login = match &self.login {
            Some(file) => file.clone(),
            None => workspace.directory().join("login"),
        };
        workspace.write(CONFIGURATION, configuration(port, &make_login(&login)?)?.as_bytes())?;
        let launch = Launch {
            product: SERVER,
            program,
            arguments: vec!["--config".into(), workspace.directory().join(CONFIGURATION).into()],
            environment: vec![("HOME".into(), workspace.directory().into())],
            process_name: SERVER,
            probes: vec![Probe { port, answers: accepts }],
            reason: |log, lines| {
                let tail = brokers::log::tail(log, lines);
                last_error(&tail).map_or_else(|| tail.clone(), str::to_owned)
            },
            start_timeout: SERVER_TIMEOUT,
            guard: Vec::new(),
        };
        let mut progress = |progress: Progress<'_>| {
            if let Progress::Step(text) | Progress::Ready(text) = progress {
                output::line_aside(text);
            }
        };
        let cancelled = || stop.load(Ordering::Relaxed);
        let mut waiting = Waiting { progress: &mut progress, cancelled: &cancelled };
        let server = workspace.start(launch, "starting nats-server", &mut waiting)?;
        Ok((server, format!("nats://127.0.0.1:{port}"), login))
    }

    fn start_worker(&self, number: u32, url: &str, login: &Path) -> Result<WorkerProcess, Failure> {
        let name = format!("w{number}");
        let exe = env::current_exe().map_err(|e| Failure::io("find", Path::new("the bellows executable"), &e))?;
        let mut command = Command::new(&exe);
        command.args(["worker", "--exit-with-stdin", "--join", url, "--name", &name]);
        command.arg("--runs").arg(&self.runs.runs).arg("--fleet-credentials").arg(login);
        // Ctrl-C at the terminal is for this process, which ends them in order.
        let spawned = command.stdin(Stdio::piped()).process_group(0).spawn();
        let mut child = spawned.map_err(|e| Failure::io("start", &exe, &e))?;
        let stdin = child.stdin.take();
        Ok(WorkerProcess { name, child, stdin })
    }
}

/// User and password in this file, which is made where it is missing. Errors: others could read it, or it holds none.
fn make_login(file: &Path) -> Result<Secret, BrokerError> {
    match fs::metadata(file) {
        Ok(found) if found.mode() & 0o077 == 0 => Ok(read_login(file)?),
        Ok(_) => {
            let cause = format!("others may read {}", file.display());
            Err(Problem::new(cause, "it holds a password", format!("chmod 600 {}", file.display())).into())
        }
        Err(_) => {
            let login = format!("bellows:{}", random_hex(16)?);
            private_file(file, format!("{login}\n").as_bytes())?;
            Ok(Secret::new(login))
        }
    }
}

/// The server's configuration, which holds the password. Errors: a login that is no line of plain letters.
fn configuration(port: u16, login: &Secret) -> Result<String, Problem> {
    let is_plain =
        |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it));
    let pair = login.expose().trim().split_once(':').filter(|(user, password)| is_plain(user) && is_plain(password));
    let help = "write a line USER:PASSWORD of letters and digits, or name a file that is not there yet";
    let (user, password) = pair.ok_or_else(|| Problem::new("the file of --login holds no login", "", help))?;
    Ok(format!("listen: \"127.0.0.1:{port}\"\nauthorization {{ user: \"{user}\", password: \"{password}\" }}\n"))
}

/// The server's program.
fn find_server() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SERVER_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(SERVER)).find(|program| program.is_file())
}

/// Waits until so many workers have called; `false` where the user stops that.
fn wait_until_joined(
    told: &Receiver<Envelope<ToCoordinator>>,
    wanted: usize,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    let began = Instant::now();
    let mut joined = Vec::new();
    while joined.len() < wanted {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if began.elapsed() > JOIN_TIMEOUT {
            let cause = format!("{} of {wanted} workers joined within {} s", joined.len(), JOIN_TIMEOUT.as_secs());
            return Err(Failure::failed(cause, "see what they printed"));
        }
        if let Ok(Envelope { session, body: ToCoordinator::Join(_), .. }) = told.recv_timeout(POLL_INTERVAL)
            && !joined.contains(&session)
        {
            joined.push(session);
        }
    }
    Ok(true)
}

/// The last error that the server has logged, without number and time.
fn last_error(log: &str) -> Option<&str> {
    let marks = ["[FTL] ", "[ERR] "];
    log.lines().rev().find_map(|line| marks.iter().find_map(|it| line.split_once(*it)).map(|of| of.1))
}

/// Waits for the user. Errors: the server has ended, or the last worker.
fn watch(server: &Managed, workers: &mut Vec<WorkerProcess>, stop: &AtomicBool) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
        if !server.is_running() {
            let log = server.log_tail(20);
            let why = last_error(&log).unwrap_or("it was killed, or did not say why");
            return Err(Failure::failed("nats-server has ended", "run `bellows fleet start` again").observed(why));
        }
        workers.retain_mut(|it| match it.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                let instead = "runs have one fewer until `bellows worker` starts another";
                output::line_aside(&format!("worker {} has ended: {status}; {instead}", it.name));
                false
            }
            Err(_) => false,
        });
        if workers.is_empty() {
            return Err(Failure::failed("all workers have ended", "see what they printed"));
        }
    }
    Ok(())
}

/// Ends workers in order, and those that do not end.
fn end_all(mut workers: Vec<WorkerProcess>) {
    workers.iter_mut().for_each(|it| drop(it.stdin.take()));
    let until = Instant::now() + END_TIMEOUT;
    while Instant::now() < until && workers.iter_mut().any(|it| matches!(it.child.try_wait(), Ok(None))) {
        thread::sleep(POLL_INTERVAL);
    }
    for mut worker in workers {
        // Both fail only where it has ended by itself at last.
        let _ = worker.child.kill();
        let _ = worker.child.wait();
    }
}

/// A worker, as `fleet status` lists it.
#[derive(Debug, Default, Serialize)]
struct WorkerRow {
    name: String,
    #[serde(serialize_with = "by_name")]
    state: WorkerState,
    /// Its run; empty where it is free.
    run: String,
    labels: BTreeMap<String, String>,
    version: String,
    cores: u32,
    limits: BTreeMap<String, String>,
    /// The broker's process that it records, and why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Box<RecordedProcess>>,
    /// Its clock less this machine's, and the most that this can be off, in seconds.
    clock_offset_s: Option<f64>,
    clock_bound_s: Option<f64>,
    #[serde(skip)]
    clock: ClockEstimator,
}

fn by_name<S: Serializer>(state: &WorkerState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word_of(*state))
}

/// A worker that waits for a share is free.
const fn word_of(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Joined => "free",
        other => other.name(),
    }
}

impl WorkerRow {
    fn take(&mut self, facts: WorkerFacts) {
        (self.name, self.labels, self.version) = (facts.name, facts.labels, facts.version);
        (self.cores, self.limits, self.records) = (facts.cores, facts.limits, facts.records);
    }

    /// Why it cannot record what it is to record.
    fn problem(&self) -> Option<String> {
        let RecordedProcess { name, problem } = self.records.as_deref()?;
        let clean = |text: &str| text.replace(char::is_control, " ");
        Some(format!("worker {} is to record {}: {}\n", clean(&self.name), clean(name), clean(problem.as_ref()?)))
    }
}

#[derive(Serialize)]
struct FleetStatus {
    server: String,
    server_version: String,
    workers: Vec<WorkerRow>,
}

impl StatusArgs {
    fn execute(self) -> Result<Done, Failure> {
        let link = self.server.connect(&self.fleet, "fleet status")?;
        let (tell, told) = sync_channel(MOST_OVERHEARD);
        let _heard = link.overhear_workers(move |at, envelope| {
            if matches!(
                envelope.body,
                ToCoordinator::Join(_) | ToCoordinator::Status { .. } | ToCoordinator::Echo { .. }
            ) {
                let _ = tell.try_send((at, envelope));
            }
        });
        let status = FleetStatus {
            server: web::redact::url(&self.fleet.0),
            server_version: link.server_version.clone(),
            workers: survey(&link, &told),
        };
        output::print_result(self.json, &status, |style| {
            let workers = counted(status.workers.len() as u64, "worker");
            let problems: String = status.workers.iter().filter_map(WorkerRow::problem).collect();
            let head = format!("nats-server {} at {}, {workers}\n{problems}", status.server_version, status.server);
            let rows = status.workers.iter().map(cells);
            let grid = || console::grid("worker<|state<|labels<|bellows<|cores|clock<|limits<", Some(6), rows, style);
            if status.workers.is_empty() { head } else { format!("{head}\n{}", grid()) }
        })
    }
}

fn cells(of: &WorkerRow) -> Vec<String> {
    let pairs = |all: &BTreeMap<String, String>| {
        all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let records = of.records.as_ref().map_or_else(String::new, |it| format!(", records {}", it.name));
    let state = match of.run.as_str() {
        "" => word_of(of.state).to_owned(),
        // It has no share of that yet.
        run if of.state == WorkerState::Joined => format!("waits in {run}"),
        run => format!("{} in {run}", of.state.name()),
    };
    let clock = of.clock_offset_s.zip(of.clock_bound_s).map_or_else(String::new, |(offset, bound)| {
        let sign = if offset < 0.0 { "-" } else { "" };
        let [offset, bound] = [offset.abs(), bound].map(Nanos::from_secs_f64);
        format!("{sign}{offset} ± {bound}")
    });
    let cores = of.cores.to_string();
    vec![of.name.clone(), state + &records, pairs(&of.labels), of.version.clone(), cores, clock, pairs(&of.limits)]
}

/// Listens to workers, asks and probes those that there are.
fn survey(link: &Link, told: &Receiver<(Time, Envelope<ToCoordinator>)>) -> Vec<WorkerRow> {
    // Newer than every run: a worker answers in any state, and is nobody's by that.
    let epoch = wall_clock_unix_ns();
    let mut workers: BTreeMap<u64, WorkerRow> = BTreeMap::new();
    let until = Instant::now() + LISTENING;
    while Instant::now() < until {
        for session in workers.keys() {
            let tell = |body| {
                let (session, stamp) = (*session, Time(0));
                link.tell_worker(&Envelope { epoch, session, number: 0, received: 0, stamp, body });
            };
            tell(ToWorker::Ask);
            tell(ToWorker::Probe { sent: Clock.now() });
        }
        // However many come.
        let round = Instant::now() + PROBE_INTERVAL;
        while Instant::now() < round
            && let Ok((at, envelope)) = told.recv_timeout(round.saturating_duration_since(Instant::now()))
        {
            let Envelope { epoch: answered, session, body, .. } = envelope;
            if workers.len() >= MOST_LISTED && !workers.contains_key(&session) {
                continue;
            }
            let row = workers.entry(session).or_default();
            match body {
                ToCoordinator::Join(facts) => row.take(facts),
                ToCoordinator::Status { facts, state, run } => {
                    row.take(facts);
                    (row.state, row.run) = (state, run);
                }
                ToCoordinator::Echo { sent, received, replied } if answered == epoch => {
                    row.clock.probe(ProbeTimes { sent, received, replied, returned: at });
                }
                _ => {}
            }
        }
    }
    let now = Clock.now();
    let mut rows: Vec<WorkerRow> = workers.into_values().filter(|it| !it.name.is_empty()).collect();
    for row in &mut rows {
        let theirs = row.clock.to_worker(now);
        row.clock_offset_s = theirs.map(|(at, _)| (at.0 as f64 - now.0 as f64) / 1e9);
        row.clock_bound_s = theirs.map(|(_, bound)| bound.as_secs_f64());
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows fleet collect demo-18a5f0c2b3d4e5f6 --fleet nats://127.0.0.1:4222
  bellows fleet collect demo-18a5f0c2b3d4e5f6 --from of-w1 of-w2")]
struct CollectArgs {
    /// The run: its fleet's name, as coordinator and workers print it, a unique start or end of that, or a run as of
    /// `bellows runs`: its coordinator's or a worker's part of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The NATS server that the workers have joined, nats://HOST:4222
    #[arg(long, value_name = "URL", env = "BELLOWS_FLEET", hide_env_values = true, required_unless_present = "from")]
    fleet: Option<Url>,
    /// Take these run folders of workers, instead of those of the workers that have joined
    #[arg(long, value_name = "DIR", num_args = 1..)]
    from: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    runs: RunsDir,
}

/// Names of an error at most.
const MOST_NAMED: usize = 5;

/// Names of the fleets' runs of which there are folders here, the newest first.
fn known_runs(entries: &[RunEntry]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for of in entries.iter().filter_map(RunEntry::fleet) {
        if !names.contains(&of.run.as_str()) {
            names.push(&of.run);
        }
    }
    names
}

impl CollectArgs {
    /// The name of the run that is meant; one of which nothing is known here is taken as it stands. Errors: `last`
    /// where there is no run, and one that no fleet carried.
    fn name(&self, entries: &[RunEntry]) -> Result<String, Failure> {
        let meant = find::entry(&self.run, &self.runs.runs);
        let of_fleet = |it: &RunEntry| it.fleet().map(|of| of.run.clone());
        if let Some(name) = meant.as_ref().ok().and_then(of_fleet) {
            return Ok(name);
        }
        let mut known = known_runs(entries);
        known.retain(|it| it.starts_with(&self.run) || it.ends_with(&self.run));
        match (known.as_slice(), meant) {
            ([one], _) => Ok((*one).to_owned()),
            (_, Ok(entry)) => {
                let help = "name a fleet's run, as its coordinator and its workers print it";
                Err(Failure::failed(format!("no fleet carried {}", entry.id), help).observed(&self.run))
            }
            (_, Err(failure)) if self.run == find::LAST => Err(failure),
            _ => Ok(self.run.clone()),
        }
    }

    /// The failure where no worker has a folder of this run.
    fn none_of(name: &str, entries: &[RunEntry]) -> Failure {
        let known = known_runs(entries);
        let known = known.get(..MOST_NAMED).unwrap_or(&known);
        let help = "workers give folders while they are free (`bellows fleet status`); or name folders with --from";
        let known = match known {
            [] => help.to_owned(),
            some => format!("runs of fleets that are known here: {}; {help}", some.join(", ")),
        };
        Failure::failed(format!("there is nothing to collect of run {name:?}: no worker has a folder of it"), known)
    }

    fn execute(self) -> Result<Done, Failure> {
        let command = command_line::archived(env::args_os());
        let mut entries = find::list(&self.runs.runs)?;
        entries.extend(self.from.iter().cloned().map(RunEntry::read));
        let name = self.name(&entries)?;
        let is_whole = |it: &&RunEntry| it.fleet().is_some_and(|of| !of.is_part() && of.run == name);
        // A run that was collected before is complete or failed.
        let coordinator = entries.iter().filter(is_whole).find(|it| it.state() == Some(RunState::Running.name()));
        let options = CollectOptions {
            run: &name,
            runs_dir: &self.runs.runs,
            command: &command,
            coordinator: coordinator.and_then(|it| it.record.as_ref().ok()),
            text: report::text::warning,
        };
        let run = match self.fleet.as_ref().filter(|_| self.from.is_empty()) {
            None => CollectedRun::of(&self.from, &options)?,
            Some(url) => {
                let link = self.server.connect(url, "fleet collect")?;
                let fetched = collect::fetch(&link, &name, None)?;
                fetched.failed.iter().for_each(|it| output::line_aside(it));
                if fetched.dirs.is_empty() {
                    return Err(Self::none_of(&name, &entries));
                }
                CollectedRun::of(&fetched.dirs, &options)?
            }
        };
        if let Some(left) = coordinator {
            output::line_aside(&format!("the coordinator's own folder is left as it was: {}", left.dir.display()));
        }
        run.record.warnings.iter().for_each(|it| output::line_aside(&it.text));
        let page = report::html::write_report(&run.dir)?;
        let workers = run.record.summary.as_ref().map_or(0, |it| it.workers.len());
        let (workers, state) = (counted(workers as u64, "worker"), run.record.state.name());
        output::print(&format!("collected {name} of {workers}, {state}: {}\n", page.display()))?;
        Ok(Done::Fine)
    }
}

/// Ends the process in order at the end of standard input, which is its parent's end too.
pub(super) fn stop_with_stdin(control: &load::Control) -> Result<(), Failure> {
    let control = control.clone();
    let wait = move || {
        // An error is an end as well.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        control.stop();
    };
    let failed = |e| Failure::Failed(Problem::new("cannot start a thread", e, "see ulimit -u"));
    thread::Builder::new().name("stdin".into()).spawn(wait).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole log stood there, its cause last.
    #[test]
    fn the_server_is_told_to_have_ended_by_its_last_error() {
        let log = "[1] 2026/12/01 [INF] ready\n[1] 2026/12/01 [FTL] port 1 is in use\n[1] 2026/12/01 [INF] bye\n";
        assert_eq!((last_error(log), last_error("[1] [INF] ready")), (Some("port 1 is in use"), None));
    }

    #[test]
    fn a_worker_that_waits_for_work_has_one_word_for_that() {
        let row = WorkerRow { name: "w1".to_owned(), ..WorkerRow::default() };
        let state = serde_json::to_value(&row).expect("JSON")["state"].clone();
        assert_eq!((state.as_str(), cells(&row)[1].as_str()), (Some("free"), "free"));
    }
}
