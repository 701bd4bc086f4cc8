//! bellows' end of the guardian; `process` is the other.

use std::{
    env,
    ffi::OsString,
    io::{Read, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use linux::ProcessId;
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

use super::{
    members::MARKER,
    process::{AGAIN, SUBCOMMAND},
};
use crate::BrokerError;

/// Time for the guardian to kill the broker and remove its data, which may be many gigabytes.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// A running guardian.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    stdout: ChildStdout,
    heard: Vec<u8>,
}

/// A message from a guardian.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// The broker's process was started.
    Started(ProcessId),
    /// It ended, with this status or signal.
    Exited(String),
    /// Something could not be done.
    Failed(String),
    /// The guardian is gone.
    Gone,
}

impl Guardian {
    /// Starts one for the broker `name`; the file `order` holds the broker's [`super::Command`].
    pub(crate) fn start(command: &[OsString], name: &str, order: &Path) -> Result<Self, BrokerError> {
        let own = [
            env::current_exe().map_err(BrokerError::io("find", "/proc/self/exe"))?.into_os_string(),
            SUBCOMMAND.into(),
        ];
        let command = if command.is_empty() { &own[..] } else { command };
        let (program, arguments) = command.split_first().ok_or_else(|| BrokerError::guard("it has no command"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(order)
            .env(MARKER, name)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(BrokerError::io("start", program))?;
        match child.stdout.take() {
            Some(stdout) => Ok(Self { child, stdout, heard: Vec::new() }),
            None => Err(BrokerError::guard("it has no standard output")),
        }
    }

    /// Its process, of which the broker and all that starts it descend, and which adopts what those abandon.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing it says, if it says any within `timeout`.
    pub fn listen(&mut self, timeout: Duration) -> Result<Option<Message>, BrokerError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(Some(Message::parse(String::from_utf8_lossy(&line).trim_end())));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(BrokerError::guard(std::io::Error::from(error))),
                Ok(_) => {}
            }
            let mut buffer = [0; 512];
            match self.stdout.read(&mut buffer) {
                Ok(0) | Err(_) => return Ok(Some(Message::Gone)),
                Ok(length) => self.heard.extend(buffer.iter().take(length)),
            }
        }
    }

    /// Asks it to start the broker once more, after it has said that it exited.
    pub(crate) fn start_again(&mut self) -> Result<(), BrokerError> {
        let asked = match &mut self.child.stdin {
            Some(stdin) => stdin.write_all(&[AGAIN]).and_then(|()| stdin.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        asked.map_err(|error| BrokerError::guard(format!("it does not take commands: {error}")))
    }

    /// Lets go of it and waits until it has removed everything.
    /// Errors: its own error, or that it was killed: then the broker is still there.
    pub(crate) fn end(mut self) -> Result<(), BrokerError> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_TIMEOUT;
        let mut reason = "it was killed".to_owned();
        loop {
            match self.listen(deadline.saturating_duration_since(Instant::now()))? {
                Some(Message::Gone) => break,
                Some(Message::Failed(error)) => reason = error,
                Some(_) => {}
                None => {
                    let _ = self.child.kill();
                    reason = format!("it did not end within {} s", END_TIMEOUT.as_secs());
                    break;
                }
            }
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(BrokerError::guard(reason)),
        }
    }
}

impl Message {
    fn parse(line: &str) -> Self {
        let (what, detail) = line.split_once(' ').unwrap_or((line, ""));
        match (what, serde_json::from_str(detail)) {
            ("started", Ok(id)) => Self::Started(id),
            ("exited", _) => Self::Exited(detail.to_owned()),
            ("failed", _) => Self::Failed(detail.to_owned()),
            _ => Self::Failed(format!("it says {line:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guardian_says_is_understood() {
        let me = ProcessId::of(std::process::id()).unwrap();
        assert_eq!(Message::parse(&format!("started {}", serde_json::to_string(&me).unwrap())), Message::Started(me));
        assert_eq!(Message::parse("exited signal 9"), Message::Exited("signal 9".into()));
        assert_eq!(Message::parse("failed no room"), Message::Failed("no room".into()));
        assert_eq!(Message::parse("Usage: x"), Message::Failed("it says \"Usage: x\"".into()));
    }

    #[test]
    fn a_guardian_that_is_something_else_is_an_error_and_no_hang() {
        let command = ["sh", "-c", "echo hello", "x"].map(OsString::from);
        let mut guardian = Guardian::start(&command, "test", Path::new("/nowhere")).unwrap();
        let said = guardian.listen(Duration::from_secs(10)).unwrap();
        assert_eq!(said, Some(Message::Failed("it says \"hello\"".into())));
        assert_eq!(guardian.listen(Duration::from_secs(10)).unwrap(), Some(Message::Gone));
    }
}
