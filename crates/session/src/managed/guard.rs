//! The guardian: a process between bellows and the node, so that nothing stays behind whatever
//! happens to bellows.
//!
//! It lives in a session of its own, so that the terminal's Ctrl-C reaches neither it nor the node,
//! and it adopts whatever the node's processes abandon. Its standard input is a pipe from bellows:
//! end of file means that bellows wants the node gone, or is gone itself; the byte [`AGAIN`] asks it
//! to start a broker that was killed once more, with the same data. On its standard output it says, a
//! line each, `started PROCESS` (as [`ProcessId`]'s JSON), `exited STATUS`, `failed REASON`.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Resource, Rlimit, WaitOptions, getpid, getrlimit, pidfd_open,
        set_child_subreaper, setrlimit, setsid, waitpid,
    },
    time::Timespec,
};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{Error, process::Emulator, remains::Remains};
use crate::processes::ProcessId;

/// The hidden subcommand of the executable that leads to [`main`].
pub const SUBCOMMAND: &str = "__guard";

/// Asks for another start.
pub(super) const AGAIN: u8 = b'r';

/// Sockets and files that a broker under load needs at least; Debian's service sets the same.
const OPEN_FILES: u64 = 65_536;

/// What the guardian starts. It is handed over in a file that only the user can read, because an
/// environment may hold secrets and an argument list is public.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: PathBuf,
    /// Gets standard output and standard error.
    pub(super) log: PathBuf,
    pub(super) state_file: PathBuf,
}

/// Runs the guardian until bellows lets go of it; `args` is what follows [`SUBCOMMAND`]: the path
/// of the file that bellows wrote for it. Returns the exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    let [launch] = args else {
        tell(
            "failed",
            &format!("`{SUBCOMMAND}` is bellows' own, and takes one argument"),
        );
        return 2;
    };
    match run(Path::new(launch)) {
        Ok(()) => 0,
        Err(error) => {
            tell("failed", &error.to_string());
            1
        }
    }
}

fn run(launch: &Path) -> Result<(), Error> {
    // Fails only where this already is a session of its own.
    let _ = setsid();
    let failed = |what: &str, error: io::Error| Error::Guard(format!("{what}: {error}"));
    set_child_subreaper(Some(getpid())).map_err(|error| failed("prctl", error.into()))?;
    let signals = signal_pipe().map_err(|error| failed("signal handler", error))?;
    raise_open_files();

    let text = fs::read(launch).map_err(Error::io("read", launch))?;
    let launch: Launch = serde_json::from_slice(&text)
        .map_err(|error| Error::Guard(format!("{}: {error}", launch.display())))?;
    let mut remains = Remains::read(&launch.state_file)?;
    remains.guard = ProcessId::of(std::process::id());
    remains.save()?;

    let outcome = start(&launch, &mut remains).and_then(|broker| {
        watch(broker, &launch, &mut remains, &signals).map_err(|error| failed("poll", error))
    });
    remains.remove(Some(std::process::id()))?;
    outcome
}

/// Starts the broker in a process group of its own. The start script becomes the emulator by
/// `exec`, so that the pid is the emulator's.
fn start(launch: &Launch, remains: &mut Remains) -> Result<Pid, Error> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(&launch.log)
        .map_err(Error::io("open", &launch.log))?;
    let errors = log.try_clone().map_err(Error::io("open", &launch.log))?;
    let child = Command::new(&launch.program)
        .env_clear()
        .envs(launch.environment.iter().map(|(key, value)| (key, value)))
        .current_dir(&launch.directory)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(Error::io("start", &launch.program))?;
    // A child that has not been waited for keeps its number.
    let id = ProcessId::of(child.id())
        .ok_or_else(|| Error::Guard("cannot read /proc/PID/stat; mount /proc".into()))?;
    remains.emulators.push(Emulator::new(id));
    remains.save()?;
    let told = serde_json::to_string(&id).map_err(|error| Error::Guard(error.to_string()))?;
    tell("started", &told);
    Ok(Pid::from_child(&child))
}

/// Notes that the emulator has ended: from now on its number may be anybody's.
fn note_end(remains: &mut Remains) {
    if let Some(emulator) = remains.emulators.last_mut() {
        emulator.ended = Some(SystemTime::now());
        // What is not written down is only unknown to a later clean-up.
        let _ = remains.save();
    }
}

/// Waits until bellows lets go or a signal asks to end. Tells when the broker ends by itself, and
/// then goes on waiting: its log is still of use, and it may be started once more.
fn watch(
    mut broker: Pid,
    launch: &Launch,
    remains: &mut Remains,
    signals: &UnixStream,
) -> io::Result<()> {
    // Without pidfd (Linux before 5.3) look twice a second.
    let mut ended = pidfd_open(broker, PidfdFlags::empty()).ok();
    let nap = Timespec {
        tv_sec: 0,
        tv_nsec: 500_000_000,
    };
    let mut running = true;
    loop {
        let timeout = (running && ended.is_none()).then_some(nap);
        match wait_for_news(signals, ended.as_ref(), timeout.as_ref())? {
            News::End => return Ok(()),
            News::Again if !running => match start(launch, remains) {
                Ok(pid) => {
                    broker = pid;
                    ended = pidfd_open(broker, PidfdFlags::empty()).ok();
                    running = true;
                }
                Err(error) => tell("failed", &error.to_string()),
            },
            News::Again | News::Other => {}
        }
        if !running {
            continue;
        }
        if let Ok(Some((_, status))) = waitpid(Some(broker), WaitOptions::NOHANG) {
            running = false;
            ended = None;
            note_end(remains);
            let status = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (_, Some(signal)) => format!("signal {signal}"),
                _ => "unknown status".to_owned(),
            };
            tell("exited", &status);
        }
    }
}

/// What woke the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// It is time to end.
    End,
    /// [`AGAIN`].
    Again,
    /// The broker may have ended, or nothing.
    Other,
}

/// Sleeps until something happened.
fn wait_for_news(
    signals: &UnixStream,
    ended: Option<&OwnedFd>,
    timeout: Option<&Timespec>,
) -> io::Result<News> {
    let stdin = io::stdin();
    let mut fds = vec![
        PollFd::new(&stdin, PollFlags::IN),
        PollFd::new(signals, PollFlags::IN),
    ];
    fds.extend(ended.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
    match poll(&mut fds, timeout) {
        Err(Errno::INTR) => return Ok(News::Other),
        result => result?,
    };
    let happened = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
    if happened(1) {
        return Ok(News::End);
    }
    if happened(0) {
        let mut byte = [0];
        return Ok(match stdin.lock().read(&mut byte) {
            Ok(1) if byte == [AGAIN] => News::Again,
            Ok(1) => News::Other,
            _ => News::End,
        });
    }
    Ok(News::Other)
}

/// A stream that becomes readable when a signal asks this process to end.
fn signal_pipe() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// A login shell usually allows 1,024 open files; the broker would refuse the 950th client.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < OPEN_FILES) {
        let allowed = limit
            .maximum
            .map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
        // Whatever it is, the broker works with it.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(allowed),
                maximum: limit.maximum,
            },
        );
    }
}

/// Says something to bellows. It may be dead; that is what this process is for.
fn tell(what: &str, detail: &str) {
    let line = format!("{what} {}\n", detail.replace('\n', " "));
    let mut stdout = io::stdout();
    let _ = stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush());
}
