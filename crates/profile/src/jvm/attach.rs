//! Orders to a HotSpot virtual machine, over the socket that it opens for `jcmd`.
//!
//! The socket is `/tmp/.java_pidPID`. A JVM opens it when SIGQUIT comes while a file `.attach_pidPID` is there
//! (`AttachListener::is_init_trigger`, `src/hotspot/os/posix/attachListener_posix.cpp`). A request is five texts, each
//! ended by a 0: the protocol's version `1`, the command, three arguments. The answer is a line with a number, 0 where
//! it was done, and text until the end.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::{ProcessId, Status, maps};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

/// A JVM answers when its threads have come to a safepoint, which takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longer answers are cut.
const MOST_ANSWER: u64 = 1 << 20;
/// Option of the JVM that forbids orders.
const DISABLED: &str = "-XX:+DisableAttachMechanism";

/// Why a JVM did not do what it was told.
#[derive(Debug)]
pub(super) enum AttachError {
    /// It has no socket, and none appeared.
    NoSocket,
    /// It refused, in its own words.
    Refused(String),
    /// Anything else, in a sentence.
    Other(String),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket => f.write_str("the JVM did not open its socket in /tmp: it hangs, or has another /tmp"),
            Self::Refused(why) => write!(f, "the JVM refused ({why})"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl From<Errno> for AttachError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// The socket failed, or its time was over.
impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        Self::Other(match error.kind() {
            io::ErrorKind::WouldBlock => "the JVM did not answer within 5 s".to_owned(),
            _ => format!("the JVM's socket failed ({error})"),
        })
    }
}

fn impostor() -> AttachError {
    AttachError::Other("another process answers at the JVM's socket in /tmp".to_owned())
}

/// Gives an order to the JVM `process`, opening its socket where it has none yet; its answer.
pub(super) fn order(process: ProcessId, words: [&str; 2]) -> Result<String, AttachError> {
    let status = Status::of(process.pid)?;
    let ours = rustix::process::geteuid();
    if !ours.is_root() && ours.as_raw() != status.uid {
        let uid = status.uid;
        return Err(AttachError::Other(format!(
            "the JVM takes commands from its user ({uid}) and root only: run bellows as one of them"
        )));
    }
    let path = in_tmp(process, &format!(".java_pid{}", status.inner_pid));
    let stream = match connect(&path, process, &status) {
        Err(AttachError::NoSocket) => {
            open_socket(process, &status, &path)?;
            connect(&path, process, &status)?
        }
        other => other?,
    };
    ask(stream, words)
}

/// A file of the JVM's own `/tmp`.
pub(super) fn in_tmp(process: ProcessId, name: &str) -> PathBuf {
    maps::in_root_of(process.pid, "/tmp").join(name)
}

fn connect(path: &Path, process: ProcessId, status: &Status) -> Result<UnixStream, AttachError> {
    let metadata = fs::symlink_metadata(path).map_err(|_| AttachError::NoSocket)?;
    if !metadata.file_type().is_socket() || ![status.uid, 0].contains(&metadata.uid()) {
        return Err(impostor());
    }
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Connecting waits while too many others do.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_TIMEOUT))?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {}
        // Left behind by an earlier process of this number.
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Err(AttachError::NoSocket),
        Err(error) => return Err(error.into()),
    }
    let peer = sockopt::socket_peercred(&socket)?;
    if u32::try_from(peer.pid.as_raw_nonzero().get()) != Ok(process.pid) {
        return Err(impostor());
    }
    Ok(UnixStream::from(socket))
}

fn open_socket(process: ProcessId, status: &Status, socket: &Path) -> Result<(), AttachError> {
    let disabled = if status.catches(Signal::QUIT) {
        // It would print all its stacks.
        linux::processes::arguments(process.pid).iter().any(|word| word == DISABLED).then_some(DISABLED)
    } else {
        // Without a handler the signal ends the process.
        Some("-Xrs")
    };
    if let Some(option) = disabled {
        let why = format!("the JVM was started with {option}, which disables commands: leave that out");
        return Err(AttachError::Other(why));
    }
    let _trigger = Trigger::create(process, status)?;
    if !process.signal(Signal::QUIT) {
        return Err(AttachError::NoSocket);
    }
    let asked = Instant::now();
    // One that was left behind is there already, and replaced.
    while connect(socket, process, status).is_err() {
        if asked.elapsed() > OPEN_TIMEOUT || !process.is_alive() {
            return Err(AttachError::NoSocket);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// The file that tells a JVM what the signal means.
struct Trigger(PathBuf);

impl Trigger {
    fn create(process: ProcessId, status: &Status) -> Result<Self, AttachError> {
        let path = in_tmp(process, &format!(".attach_pid{}", status.inner_pid));
        let created = File::options().write(true).create_new(true).mode(0o600).open(&path);
        match created {
            // Somebody else attaches at this moment.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(Self(path)),
        }
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn ask(mut stream: UnixStream, [command, argument]: [&str; 2]) -> Result<String, AttachError> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    stream.write_all(format!("1\0{command}\0{argument}\0\0\0").as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::WouldBlock).into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) if answer.len() as u64 + count as u64 > MOST_ANSWER => break,
            Ok(count) => answer.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    read_answer(&String::from_utf8_lossy(&answer))
}

/// `0`, a line feed and the answer; another number and what is wrong.
fn read_answer(answer: &str) -> Result<String, AttachError> {
    let (code, text) = answer.split_once('\n').unwrap_or((answer, ""));
    if code.trim() == "0" {
        return Ok(text.trim().to_owned());
    }
    let why = text.lines().find(|line| !line.trim().is_empty());
    Err(AttachError::Refused(why.map_or_else(|| format!("it answered {code:?}"), |it| it.trim().to_owned())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn answers_say_whether_it_was_done() {
        assert_eq!(read_answer("0\nCommand executed\n").unwrap(), "Command executed");
        assert_eq!(read_answer("0").unwrap(), "");
        let refused = read_answer("1\njava.lang.IllegalArgumentException: Unknown\n\tat x").unwrap_err();
        assert!(refused.to_string().contains("Exception: Unknown)"), "{refused}");
        assert!(read_answer("").is_err() && read_answer("garbage\n\n").is_err());
    }

    #[test]
    fn a_jvm_that_is_silent_is_not_waited_for_without_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let begin = Instant::now();
        let error = ask(ours, ["jcmd", "x"]).unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        assert!(begin.elapsed() < ANSWER_TIMEOUT + Duration::from_secs(2));
        drop(theirs);
    }

    #[test]
    fn whoever_else_listens_at_the_socket_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let status = Status::of(std::process::id()).unwrap();
        let ourselves = ProcessId::of(std::process::id()).unwrap();
        assert!(connect(&path, ourselves, &status).is_ok());
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (path, process) in [(&path, ProcessId::new(1, 0)), (&file, ourselves)] {
            let error = connect(path, process, &status).unwrap_err();
            assert!(error.to_string().contains("another process answers"), "{error}");
        }
        let error = connect(&dir.path().join("none"), ourselves, &status).unwrap_err();
        assert!(matches!(error, AttachError::NoSocket), "{error}");
    }

    #[test]
    fn a_process_without_a_handler_gets_no_signal() {
        let child = testkit::ChildGuard::idle();
        let process = ProcessId::of(child.id()).unwrap();
        let error = order(process, ["jcmd", "help"]).unwrap_err();
        assert!(error.to_string().contains("-Xrs"), "{error}");
        assert!(process.is_alive());
    }
}
