//! A broker's process that bellows starts under a guardian: its directory and name, start, readiness,
//! signals, restart, log and end. What is peculiar to a broker is in its [`Launch`].

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use linux::ProcessId;
use measure::Time;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::BrokerError;
use super::guardian::{self, Guardian, Leftovers, MARKER, Message, private_file, random_hex};
use super::log::{self, LogFollower};

/// How often a broker that is starting is asked whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often a node is asked a question that costs it time.
const QUESTION_INTERVAL: Duration = Duration::from_millis(200);

/// How often somebody who waits for a start is told for how long by now.
pub(super) const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a killed process may take to be gone, with all its memory.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time in which a paused process's threads must stand still, and how often that is looked at.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// Time that a broker may take to write down all it has, and end.
const ORDERLY_EXIT_TIMEOUT: Duration = Duration::from_secs(600);
/// Time in which a broker that is ready takes a connection of this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Lines of the log that an error shows.
const TOLD_LINES: usize = 25;

/// Progress of a broker's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// This is being done from now on.
    Step(&'a str),
    /// The step still takes its time, this long by now; told every second.
    Waiting(&'a str, Duration),
    /// The broker logged this line.
    Logged(&'a str),
    /// It is ready, and this says where it listens.
    Ready(&'a str),
}

/// Callbacks while a broker starts.
pub struct Waiting<'a> {
    /// Told what is being done.
    pub progress: &'a mut dyn FnMut(Progress<'_>),
    /// Asked every few milliseconds whether nobody wants the broker any more.
    pub cancelled: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Waiting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

impl Waiting<'_> {
    /// Says what is being done from now on.
    pub fn step(&mut self, text: &str) {
        (self.progress)(Progress::Step(text));
    }

    /// Asks again and again, and tells each second for how long by now; `false` where it is not done in time.
    pub(super) fn poll(
        &mut self,
        what: &str,
        timeout: Duration,
        mut is_done: impl FnMut(&dyn Fn() -> bool) -> Result<bool, BrokerError>,
    ) -> Result<bool, BrokerError> {
        let began = Instant::now();
        let mut told = TELL_INTERVAL;
        while !is_done(self.cancelled)? {
            if (self.cancelled)() {
                return Err(BrokerError::Cancelled);
            }
            if began.elapsed() > timeout {
                return Ok(false);
            }
            if began.elapsed() >= told {
                (self.progress)(Progress::Waiting(what, told));
                told += TELL_INTERVAL;
            }
            thread::sleep(QUESTION_INTERVAL);
        }
        Ok(true)
    }
}

/// A port of a broker, and how one sees that it takes clients there.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// On the loopback interface.
    pub port: u16,
    /// Whether the broker takes clients on this port. It has a time-out of its own.
    pub answers: fn(u16) -> bool,
}

/// Whether the listener on this port seems to be of the broker `name`: after a kill it may be another.
fn is_ours(port: u16, name: &str) -> bool {
    let listeners = linux::sockets::listening_on(&[(Ipv4Addr::LOCALHOST, port).into()]);
    let is_member = |pid: &u32| guardian::members(name, None).iter().any(|member| member.pid == *pid);
    listeners.is_empty() || listeners.iter().any(is_member)
}

/// How a broker is started, and how one sees that it is ready.
#[derive(Clone, Debug)]
pub struct Launch {
    /// As the broker is called in messages.
    pub product: &'static str,
    /// The program that is, becomes or starts the broker.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment: nothing else comes through.
    pub environment: Vec<(OsString, OsString)>,
    /// The name of the broker's process, where the program may start it as a child; else empty.
    pub process_name: &'static str,
    /// Every port on which it must take clients before it is ready.
    pub probes: Vec<Probe>,
    /// At most this many lines of the log that say why the broker ended.
    pub reason: fn(&Path, usize) -> String,
    /// Time that it may take until it is ready.
    pub start_timeout: Duration,
    /// Command that runs [`guardian::main`] with the arguments appended to it. Empty: this
    /// executable with [`guardian::SUBCOMMAND`].
    pub guard: Vec<OsString>,
}

/// Directory and name of a broker to start. A state file has both first; dropping this removes all of it.
#[derive(Debug)]
pub struct Workspace {
    name: String,
    directory: PathBuf,
    /// `None` once they are removed.
    leftovers: Option<Leftovers>,
}

impl Workspace {
    /// Makes a directory with this much free room in `parent`; without one in `TMPDIR`, else in `/var/tmp`, which is on
    /// a disk where `/tmp` may be memory. Errors: too little room, or what the operating system refused.
    pub fn new(product: &'static str, parent: Option<&Path>, needed_bytes: u64) -> Result<Self, BrokerError> {
        let parent = parent.map_or_else(parent_directory, Path::to_owned);
        check_space(product, &parent, needed_bytes)?;
        let name = format!("bellows-{}", random_hex(8)?);
        let directory = parent.join(&name);
        let leftovers = Leftovers::new(&name, &directory)?;
        leftovers.save()?;
        let workspace = Self { name, directory, leftovers: Some(leftovers) };
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&workspace.directory)
            .map_err(BrokerError::io("create", &workspace.directory))?;
        Ok(workspace)
    }

    /// `bellows-1f2e3d4c5b6a7988`, unique.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where all of the broker's files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All that the broker prints, from its first second on.
    pub fn log(&self) -> PathBuf {
        self.directory.join("broker.log")
    }

    /// Writes a file that only this user can read.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), BrokerError> {
        private_file(&self.directory.join(name), content)
    }

    /// Starts the broker and waits until it is ready.
    pub fn start(self, launch: Launch, what: &str, waiting: &mut Waiting<'_>) -> Result<Managed, BrokerError> {
        let order = guardian::Command {
            program: launch.program.clone(),
            arguments: launch.arguments.clone(),
            environment: launch.environment.clone(),
            directory: self.directory.clone(),
            ..guardian::Command::default()
        };
        let guardian = self.guard(&launch.guard, order)?;
        let mut broker = Managed {
            guardian: Some(guardian),
            log: LogFollower::new(self.log()),
            workspace: self,
            process: None,
            launch,
        };
        // From here on, dropping `broker` removes all of it.
        broker.wait_until_ready(what, waiting)?;
        Ok(broker)
    }

    /// Has a guardian start a program, whose output goes to [`Self::log`]; `command` runs the guardian.
    pub fn guard(&self, command: &[OsString], mut order: guardian::Command) -> Result<Guardian, BrokerError> {
        let name = self.name.clone();
        order.environment.push((MARKER.into(), name.into()));
        order.log = self.log();
        let leftovers = self.leftovers.as_ref();
        order.state_file = leftovers.map(Leftovers::state_file).unwrap_or_default();
        let text = serde_json::to_vec(&order);
        let text = text.map_err(|error| BrokerError::guard(format!("launch.json: {error}")))?;
        self.write("launch.json", &text)?;
        let file = self.directory.join("launch.json");
        Guardian::start(command, &self.name, &file)
    }

    /// Ends what was guarded, and removes all of it.
    pub fn end(&mut self, guardian: Option<Guardian>) -> Result<(), BrokerError> {
        match guardian.map(Guardian::end) {
            // It has removed everything.
            Some(Ok(())) => {
                self.leftovers = None;
                Ok(())
            }
            // A guardian that was killed leaves its work to us.
            Some(Err(_)) | None => self.remove(),
        }
    }

    fn remove(&mut self) -> Result<(), BrokerError> {
        self.leftovers.take().map_or(Ok(()), |leftovers| leftovers.latest().remove(None))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // The next start removes what could not be removed now.
        let _ = self.remove();
    }
}

/// A broker's process under a guardian. Dropping it ends it.
#[derive(Debug)]
pub struct Managed {
    /// Ends before the workspace does.
    guardian: Option<Guardian>,
    workspace: Workspace,
    launch: Launch,
    /// Behind what was told of the log while the broker started.
    log: LogFollower,
    /// `None` until it is ready.
    process: Option<ProcessId>,
}

impl Managed {
    /// The broker's name and directory.
    pub const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The broker's process; `None` while it is away.
    pub fn pid(&self) -> Option<u32> {
        self.process.map(|id| id.pid)
    }

    /// Whether the broker's process is there: it may have ended by itself.
    pub fn is_running(&self) -> bool {
        self.process.is_some_and(ProcessId::is_alive)
    }

    /// The process below which a killed broker starts again; `None` until it has ended, or when nobody counts its time.
    pub fn starter(&self) -> Option<u32> {
        let guardian = self.guardian.as_ref().map(Guardian::pid);
        guardian.filter(|_| self.process.is_none_or(|id| id.stat().is_none()))
    }

    /// The last `lines` lines that the broker logged.
    pub fn log_tail(&self, lines: usize) -> String {
        log::tail(&self.workspace.log(), lines)
    }

    /// Reads what the broker logs from now on.
    pub fn follow_log(&self) -> LogFollower {
        self.log.clone()
    }

    /// Stops the process (SIGSTOP): a broker that hangs. Returns once all threads stand still; `false`: gone.
    pub fn pause(&self) -> bool {
        let paused = self.signal(Signal::STOP);
        let until = Instant::now() + PAUSE_TIMEOUT;
        while paused && self.process.is_some_and(|id| id.is_alive() && !id.is_stopped()) && Instant::now() < until {
            thread::sleep(PAUSE_POLL);
        }
        paused
    }

    /// Lets it go on (SIGCONT). `false`: it is gone.
    pub fn resume(&self) -> bool {
        self.signal(Signal::CONT)
    }

    /// Kills the process (SIGKILL): a broker that crashes. Its files stay until [`Self::stop`]. `false`: it is gone.
    pub fn kill(&self) -> bool {
        self.signal(Signal::KILL)
    }

    /// Pauses, resumes, kills or restarts the process; of other faults it knows nothing.
    /// Errors: [`BrokerError::Fault`] where the process is gone, and those of [`Self::restart`].
    pub fn inject(&mut self, fault: Fault) -> Result<(), BrokerError> {
        let done = match fault {
            Fault::Begin(_) => true,
            Fault::Pause => self.pause(),
            Fault::Resume => self.resume(),
            Fault::Kill => self.kill(),
            Fault::CutOff | Fault::Join => {
                return Err(BrokerError::Fault(format!("{} has no links to cut", self.launch.product)));
            }
            Fault::Restart => return self.restart(&mut Waiting { progress: &mut |_| {}, cancelled: &|| false }),
        };
        if done { Ok(()) } else { Err(BrokerError::Fault(format!("{} is gone", self.launch.product))) }
    }

    /// A fault of long ago may have killed it, and its number may be anybody's by now.
    fn signal(&self, signal: Signal) -> bool {
        self.process.is_some_and(|id| id.signal(signal))
    }

    /// Kills the process if it runs, and starts the broker once more with the same data, name and ports.
    pub fn restart(&mut self, waiting: &mut Waiting<'_>) -> Result<(), BrokerError> {
        self.kill();
        self.wait_for_exit(EXIT_TIMEOUT, &|| false)?;
        self.guardian()?.start_again()?;
        self.process = None;
        self.wait_until_ready(&format!("restarting {}", self.launch.product), waiting)
    }

    /// Has the broker end by itself (SIGTERM), with all its data on the disk. Its files stay until [`Self::stop`].
    /// Errors: where it does not end, or says that it failed, or was not waited for.
    pub fn end_in_order(&mut self, cancelled: &dyn Fn() -> bool) -> Result<(), BrokerError> {
        self.signal(Signal::TERM);
        let status = self.wait_for_exit(ORDERLY_EXIT_TIMEOUT, cancelled)?;
        self.process = None;
        match status.as_str() {
            "exit status 0" => Ok(()),
            _ => Err(BrokerError::exited(self.launch.product, status, self.log_tail(TOLD_LINES))),
        }
    }

    /// Waits until the process that is to end has ended; how it did.
    fn wait_for_exit(&mut self, timeout: Duration, cancelled: &dyn Fn() -> bool) -> Result<String, BrokerError> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.guardian()?.listen(POLL_INTERVAL)? {
                Some(Message::Exited(status)) => return Ok(status),
                Some(Message::Failed(reason)) => return Err(BrokerError::guard(reason)),
                Some(Message::Gone) => return Err(BrokerError::guard("it ended by itself")),
                Some(Message::Started(_)) | None => {}
            }
            if cancelled() {
                return Err(BrokerError::Cancelled);
            }
            if Instant::now() > deadline {
                return Err(BrokerError::guard("the broker does not end"));
            }
        }
    }

    fn guardian(&mut self) -> Result<&mut Guardian, BrokerError> {
        self.guardian.as_mut().ok_or_else(|| BrokerError::guard("it is gone"))
    }

    fn wait_until_ready(&mut self, what: &str, waiting: &mut Waiting<'_>) -> Result<(), BrokerError> {
        let began = Instant::now();
        waiting.step(what);
        let mut told = TELL_INTERVAL;
        let mut started = None;
        loop {
            match self.guardian()?.listen(POLL_INTERVAL)? {
                Some(Message::Started(id)) => started = Some(id),
                Some(Message::Exited(status)) => {
                    let log = (self.launch.reason)(&self.workspace.log(), TOLD_LINES);
                    return Err(BrokerError::exited(self.launch.product, status, log));
                }
                Some(Message::Failed(reason)) => return Err(BrokerError::guard(reason)),
                Some(Message::Gone) => return Err(BrokerError::guard("it ended by itself")),
                None => {}
            }
            let mut probes = self.launch.probes.iter();
            let name = &self.workspace.name;
            let is_ready = |probe: &Probe| (probe.answers)(probe.port) && is_ours(probe.port, name);
            if let Some(id) = started.filter(|_| probes.all(is_ready)) {
                self.process = Some(self.find_process(id));
                self.tell_logged(waiting);
                return Ok(());
            }
            if (waiting.cancelled)() {
                return Err(BrokerError::Cancelled);
            }
            let waited = began.elapsed();
            if waited > self.launch.start_timeout {
                let log = self.log_tail(TOLD_LINES);
                return Err(BrokerError::not_ready(self.launch.product, self.launch.start_timeout, log));
            }
            if waited >= told {
                (waiting.progress)(Progress::Waiting(what, told));
                self.tell_logged(waiting);
                told += TELL_INTERVAL;
            }
        }
    }

    fn tell_logged(&mut self, waiting: &mut Waiting<'_>) {
        for line in self.log.lines() {
            (waiting.progress)(Progress::Logged(&line));
        }
    }

    /// A start script becomes the broker; one that starts it as a child is searched for it.
    fn find_process(&self, started: ProcessId) -> ProcessId {
        let is_broker = |id: &ProcessId| {
            let stat = id.stat();
            stat.is_some_and(|stat| stat.command.starts_with(self.launch.process_name))
        };
        [started].into_iter().chain(guardian::members(&self.workspace.name, None)).find(is_broker).unwrap_or(started)
    }

    /// Stops the broker at once and removes all of it; nothing is flushed to data that is thrown away.
    pub fn stop(mut self) -> Result<(), BrokerError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), BrokerError> {
        self.workspace.end(self.guardian.take())
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // The next start removes what could not be removed now.
        let _ = self.end();
    }
}

/// Whether somebody listens on this port.
pub fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT_TIMEOUT).is_ok()
}

/// Different ports that nobody listens on. If one is taken before the broker starts, others are tried.
pub fn free_ports<const N: usize>() -> Result<[u16; N], BrokerError> {
    let failed = || BrokerError::io("find a free port on", "127.0.0.1");
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        *port = listener.local_addr().map_err(failed())?.port();
        // Kept, so that the next one differs.
        listeners.push(listener);
    }
    Ok(ports)
}

fn parent_directory() -> PathBuf {
    let usable = |path: &PathBuf| path.is_absolute() && path.is_dir();
    env::var_os("TMPDIR")
        .map(PathBuf::from)
        .filter(usable)
        .or_else(|| Some(PathBuf::from("/var/tmp")).filter(usable))
        .unwrap_or_else(|| PathBuf::from("/tmp"))
}

pub(super) fn check_space(product: &'static str, directory: &Path, needed: u64) -> Result<(), BrokerError> {
    let space = rustix::fs::statvfs(directory).map_err(|error| BrokerError::io("look at", directory)(error.into()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free >= needed { Ok(()) } else { Err(BrokerError::no_space(product, directory, free, needed)) }
}

/// A fault of a broker under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The measured phase begins: faults that the broker plays by itself count from this moment.
    Begin(Time),
    /// The broker hangs.
    Pause,
    /// It goes on where it was.
    Resume,
    /// It crashes.
    Kill,
    /// It is started again, with the same data.
    Restart,
    /// A node's links to the other nodes of its cluster carry nothing any more.
    CutOff,
    /// They carry again.
    Join,
}

/// Outcomes of the embedded broker's own faults, which it reports as one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedFaults {
    /// One per fault, in the order of the script.
    pub faults: Vec<PlayedFault>,
    /// Messages taken from publishers and not refused.
    pub published: u64,
    /// Deliveries with the redelivered flag after the loss of a consumer.
    pub redelivered: u64,
}

/// Outcome of one fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedFault {
    /// As the script writes it.
    pub kind: String,
    /// Messages, confirms, logins or connections that were hit.
    pub count: u64,
    /// When it began, on the machine's monotonic clock; absent where it did not.
    pub start_ns: Option<u64>,
    /// When it was over; absent while it lasts.
    pub end_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_before_anything_is_made() {
        // The only file system of every Linux machine that never has room.
        let error = check_space("RabbitMQ", Path::new("/proc"), 1_000_000).unwrap_err().problem().sentence();
        assert!(error.contains("/proc has 0 MB free") && error.contains("TMPDIR"), "{error}");
    }

    #[test]
    fn a_stranger_on_the_brokers_port_is_not_the_broker() {
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = stranger.local_addr().unwrap().port();
        let name = format!("test-port-{port}");
        assert!(!is_ours(port, &name));
        // Where nobody is seen, nothing is said against it.
        drop(stranger);
        assert!(is_ours(port, &name));
    }

    #[test]
    fn ports_and_names_differ() {
        let [first, second, third] = free_ports().unwrap();
        assert!(first != second && second != third && first != third);
        assert_ne!(random_hex(8).unwrap(), random_hex(8).unwrap());
        assert_eq!(random_hex(8).unwrap().len(), 16);
    }
}
