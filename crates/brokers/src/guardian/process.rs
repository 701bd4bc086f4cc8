//! The guardian process itself. It has a session of its own, so that the terminal's Ctrl-C reaches neither it nor the
//! broker, and adopts whatever the broker's processes abandon. Its standard input is a pipe from bellows: end of file
//! means that the broker is to go; the byte [`AGAIN`], that one which was killed is to start once more. It says, a line
//! each, `started PROCESS` (as [`ProcessId`]'s JSON), `exited STATUS`, `failed REASON`.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{self, Stdio},
    time::SystemTime,
};

use linux::{ProcessId, processes};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, Resource, Rlimit, WaitOptions, WaitStatus, getpgid, getpid, getrlimit, getsid, set_child_subreaper,
        setrlimit, setsid, wait,
    },
};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{leftovers::Leftovers, members::Started};
use crate::BrokerError;

/// The hidden subcommand of the executable that leads to [`main`].
pub const SUBCOMMAND: &str = "__guard";

/// Asks for another start.
pub(super) const AGAIN: u8 = b'r';

/// Sockets and files that a broker under load needs at least; Debian's service sets the same.
const OPEN_FILES: u64 = 65_536;

/// Where it leads a process group, it has a child go on in its place, and ends at once (setsid(1)).
const FORKS: &str = "setsid";

/// The process to start, by a private file, since an environment may hold secrets and arguments are public.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Command {
    /// The file of the program.
    pub program: PathBuf,
    /// Its arguments, without its name.
    pub arguments: Vec<OsString>,
    /// All of it: nothing else comes through.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it works.
    pub directory: PathBuf,
    /// The file that gets standard output and standard error.
    pub log: PathBuf,
    /// Where it is written down what is to be removed once bellows is gone.
    pub state_file: PathBuf,
}

/// Runs the guardian until bellows lets go of it; `args` follow [`SUBCOMMAND`]: the file from bellows. The exit code.
pub fn main(args: &[OsString]) -> u8 {
    let [command] = args else {
        tell("failed", &format!("`{SUBCOMMAND}` is bellows' own, and takes one argument"));
        return 2;
    };
    match run(Path::new(command)) {
        Ok(()) => 0,
        Err(error) => {
            tell("failed", &error.to_string());
            1
        }
    }
}

fn run(command: &Path) -> Result<(), BrokerError> {
    // Fails only where this already is a session of its own.
    let _ = setsid();
    let failed = |what: &str, error: io::Error| BrokerError::guard(format!("{what}: {error}"));
    set_child_subreaper(Some(getpid())).map_err(|error| failed("prctl", error.into()))?;
    let signals = Signals::new().map_err(|error| failed("signal handler", error))?;
    raise_open_files();

    let text = fs::read(command).map_err(BrokerError::io("read", command))?;
    let read = serde_json::from_slice::<Command>(&text);
    let command = read.map_err(|error| BrokerError::guard(format!("{}: {error}", command.display())))?;
    let mut leftovers = Leftovers::read(&command.state_file)?;
    leftovers.guard = ProcessId::of(process::id());
    leftovers.save()?;

    let outcome = start(&command, &mut leftovers)
        .and_then(|broker| watch(broker, &command, &mut leftovers, &signals).map_err(|error| failed("poll", error)));
    leftovers.remove(Some(process::id()))?;
    outcome
}

/// Starts the broker in a process group of its own. A start script that becomes the broker by `exec` hands it its pid.
fn start(command: &Command, leftovers: &mut Leftovers) -> Result<Pid, BrokerError> {
    let log = File::options().create(true).append(true).open(&command.log);
    let log = log.map_err(BrokerError::io("open", &command.log))?;
    let errors = log.try_clone().map_err(BrokerError::io("open", &command.log))?;
    let child = process::Command::new(&command.program)
        .args(&command.arguments)
        .env_clear()
        .envs(command.environment.iter().map(|(key, value)| (key, value)))
        .current_dir(&command.directory)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(BrokerError::io("start", &command.program))?;
    // A child that has not been waited for keeps its number.
    let id = ProcessId::of(child.id());
    let id = id.ok_or_else(|| BrokerError::guard("cannot read /proc/PID/stat; mount /proc"))?;
    note_start(id, leftovers)?;
    Ok(Pid::from_child(&child))
}

/// Notes and tells which process the broker is.
fn note_start(id: ProcessId, leftovers: &mut Leftovers) -> Result<(), BrokerError> {
    leftovers.started.push(Started::new(id));
    leftovers.save()?;
    tell("started", &serde_json::to_string(&id).map_err(BrokerError::guard)?);
    Ok(())
}

/// Notes that the broker's process has ended: from now on its number may be anybody's.
fn note_end(leftovers: &mut Leftovers) {
    if let Some(process) = leftovers.started.last_mut() {
        process.ended = Some(SystemTime::now());
        // What is not written down is only unknown to a later clean-up.
        let _ = leftovers.save();
    }
}

/// Waits until bellows lets go or a signal asks to end. Tells when the broker ends by itself, and then goes on waiting:
/// its log is still of use, and it may be started once more. Collects all that has ended, of what was abandoned, too.
fn watch(mut broker: Pid, command: &Command, leftovers: &mut Leftovers, signals: &Signals) -> io::Result<()> {
    let mut running = true;
    loop {
        match next_event(signals)? {
            Event::End => return Ok(()),
            Event::Again if !running => match start(command, leftovers) {
                Ok(pid) => (broker, running) = (pid, true),
                Err(error) => tell("failed", &error.to_string()),
            },
            Event::Again | Event::Other => {}
        }
        let mut forks = running && is_called(broker, FORKS);
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if !running || pid != broker {
                continue;
            }
            note_end(leftovers);
            let next = (forks && status.exit_status() == Some(0)).then(|| successor(broker));
            if let Some((pid, id)) = next.flatten() {
                (broker, forks) = (pid, false);
                if let Err(error) = note_start(id, leftovers) {
                    tell("failed", &error.to_string());
                }
            } else {
                running = false;
                tell("exited", &told_status(status));
            }
        }
    }
}

/// Whether a process that was not waited for has this command.
fn is_called(pid: Pid, command: &str) -> bool {
    let stat = processes::stat(pid.as_raw_nonzero().get().cast_unsigned());
    stat.is_some_and(|stat| stat.command == command)
}

/// The child that goes on in place of one that ended: it is in its group, or leads a session by now.
fn successor(ended: Pid) -> Option<(Pid, ProcessId)> {
    let own = process::id();
    let child = |number: u32| {
        let stat = processes::stat(number).filter(|stat| stat.parent == own)?;
        let pid = Pid::from_raw(number.cast_signed())?;
        let is_next = getpgid(Some(pid)) == Ok(ended) || getsid(Some(pid)) == Ok(pid);
        is_next.then(|| (pid, stat.id(number)))
    };
    processes::all().into_iter().find_map(child)
}

fn told_status(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "unknown status".to_owned(),
    }
}

/// A reason why the guardian woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// It is time to end.
    End,
    /// The owner wrote [`AGAIN`].
    Again,
    /// A process may have ended, or nothing.
    Other,
}

/// Sleeps until something happens.
fn next_event(signals: &Signals) -> io::Result<Event> {
    let stdin = io::stdin();
    let mut fds = [
        PollFd::new(&stdin, PollFlags::IN),
        PollFd::new(&signals.end, PollFlags::IN),
        PollFd::new(&signals.child, PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Err(Errno::INTR) => return Ok(Event::Other),
        result => result?,
    };
    let [asked, ends, ended] = fds.map(|fd| !fd.revents().is_empty());
    if ends {
        return Ok(Event::End);
    }
    if ended {
        // What is more than that wakes it once more.
        let _ = rustix::io::read(&signals.child, &mut [0_u8; 64]);
    }
    if asked {
        let mut byte = [0];
        return Ok(match stdin.lock().read(&mut byte) {
            Ok(1) if byte == [AGAIN] => Event::Again,
            Ok(1) => Event::Other,
            _ => Event::End,
        });
    }
    Ok(Event::Other)
}

/// Streams that become readable when a signal comes.
#[derive(Debug)]
struct Signals {
    /// One that asks this process to end.
    end: UnixStream,
    /// One that says of a child that it may have ended.
    child: UnixStream,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let stream = |signals: &[i32]| -> io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            for signal in signals {
                signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        Ok(Self { end: stream(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM])?, child: stream(&[SIGCHLD])? })
    }
}

/// A login shell usually allows 1,024 open files; the broker would refuse the 950th client.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < OPEN_FILES) {
        let allowed = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
        // Whatever it is, the broker works with it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: limit.maximum });
    }
}

/// Says something to bellows. It may be dead; that is what this process is for.
fn tell(what: &str, detail: &str) {
    let line = format!("{what} {}\n", detail.replace('\n', " "));
    let mut stdout = io::stdout();
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}
