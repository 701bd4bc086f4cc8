//! A program of the load, in a process group of its own.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use measure::{Clock, Nanos, Time};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::Program;
use crate::Error;

/// Of what a program prints, so much is kept of the beginning, and as much of the end.
const KEPT: usize = 256 * 1024;
/// Lines of it that an error shows.
const TOLD_LINES: usize = 5;
/// What is printed last is waited for so long: a descendant may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A program that runs. Dropping it kills its whole group.
#[derive(Debug)]
pub(super) struct Process {
    program: Program,
    child: Child,
    /// How it ended, once nothing of its group is left.
    status: Option<ExitStatus>,
    /// What it prints.
    output: Arc<Mutex<Output>>,
    reader: Option<thread::JoinHandle<()>>,
    began: Time,
    /// It was told to end, so that its exit code says nothing.
    told: bool,
}

impl Process {
    /// Starts it, with `folder` in front of `PATH`.
    pub(super) fn start(program: &Program, folder: Option<&Path>) -> Result<Self, Error> {
        let (name, arguments) = program
            .words
            .split_first()
            .ok_or_else(|| Error::invalid("the command has no words", "name a program"))?;
        let failed = |error: std::io::Error| Error::Command {
            command: name.clone(),
            detail: format!("it cannot be started ({error})"),
        };
        let path = search_path(folder);
        let (mut reader, writer) = std::io::pipe().map_err(failed)?;
        let mut command = Command::new(find(name, &path));
        command
            .args(arguments)
            .env("PATH", &path)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(failed)?)
            .stderr(writer)
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        // It holds the pipe's other end.
        drop(command);
        let output = Arc::new(Mutex::new(Output::default()));
        let kept = Arc::clone(&output);
        let reader = thread::Builder::new()
            .name("command output".to_owned())
            .spawn(move || {
                let mut chunk = [0; 8192];
                while let Ok(count @ 1..) = reader.read(&mut chunk) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.add(chunk.get(..count).unwrap_or_default());
                }
            });
        Ok(Self {
            program: program.clone(),
            child,
            status: None,
            output,
            reader: reader.ok(),
            began: Clock.now(),
            told: false,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that keeps what it prints.
    pub(super) fn log(&self) -> &str {
        &self.program.log
    }

    pub(super) fn has_ended(&self) -> bool {
        // Not waited for yet, so that its number stays its own.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let number = self.number().map(WaitId::Pid);
        self.status.is_some() || number.is_none_or(|it| !matches!(waitid(it, options), Ok(None)))
    }

    /// Asks its whole group to end (SIGTERM).
    pub(super) fn terminate(&mut self) {
        if !self.has_ended() {
            self.told = true;
            self.signal(Signal::TERM);
        }
    }

    /// Ends its whole group (SIGKILL), what it has left behind included.
    pub(super) fn kill(&mut self) {
        self.told |= !self.has_ended();
        if self.status.is_none() {
            self.signal(Signal::KILL);
            self.status = self.child.wait().ok();
        }
    }

    /// From its start until now.
    pub(super) fn ran(&self) -> Nanos {
        Clock.now().since(self.began)
    }

    /// Why it ended by itself other than in order; known when it was killed.
    pub(super) fn failure(&self) -> Option<Error> {
        let status = self.status.filter(|status| !status.success())?;
        if self.told {
            return None;
        }
        let last = String::from_utf8_lossy(&self.output()).into_owned();
        let lines: Vec<&str> = last
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let first = lines.len().saturating_sub(TOLD_LINES);
        let said = lines.get(first..).unwrap_or_default().join(" | ");
        Some(Error::Command {
            command: self.program.words.first().cloned().unwrap_or_default(),
            detail: format!("{}: {said}", described(status)),
        })
    }

    /// What it printed, without secrets.
    pub(super) fn output(&self) -> Vec<u8> {
        let asked = Instant::now();
        while self.reader.as_ref().is_some_and(|it| !it.is_finished())
            && asked.elapsed() < LAST_WORDS
        {
            thread::sleep(Duration::from_millis(5));
        }
        let kept = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let text = kept.text();
        match &self.program.secret {
            Some((secret, shown)) if !secret.is_empty() => {
                let text = String::from_utf8_lossy(&text);
                text.replace(secret, shown).into_bytes()
            }
            _ => text,
        }
    }

    /// Also that of its group.
    fn number(&self) -> Option<Pid> {
        i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.number() {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it ended".to_owned(),
    }
}

/// `PATH` with a folder in front.
fn search_path(folder: Option<&Path>) -> std::ffi::OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = folder.map(Path::to_owned).into_iter();
    let joined = env::join_paths(folders.chain(env::split_paths(&path)));
    joined.unwrap_or(path)
}

/// The file of a program's name: `Command` itself would look in our own `PATH`.
fn find(name: &str, path: &std::ffi::OsStr) -> std::path::PathBuf {
    if name.contains('/') {
        return name.into();
    }
    let mut candidates = env::split_paths(path).map(|folder| folder.join(name));
    candidates
        .find(|file| file.is_file())
        .unwrap_or_else(|| name.into())
}

/// The beginning and the end of what a program prints.
#[derive(Debug, Default)]
struct Output {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Bytes between them that were not kept.
    left_out: u64,
}

impl Output {
    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.first.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.first.extend_from_slice(first);
        self.last.extend_from_slice(rest);
        // Moved seldom, not for each line.
        if self.last.len() > 2 * KEPT {
            let over = self.last.len() - KEPT;
            self.last.drain(..over);
            self.left_out += over as u64;
        }
    }

    fn text(&self) -> Vec<u8> {
        let over = self.last.len().saturating_sub(KEPT);
        let left_out = self.left_out + over as u64;
        let mut text = self.first.clone();
        if left_out > 0 {
            text.extend_from_slice(format!("\n[{left_out} bytes are left out]\n").as_bytes());
        }
        text.extend_from_slice(self.last.get(over..).unwrap_or_default());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_beginning_and_end_are_kept() {
        let mut output = Output::default();
        output.add(b"begin\n");
        let line = [b'x'; 1000];
        (0..5000).for_each(|_| output.add(&line));
        output.add(b"\nend");
        let text = output.text();
        assert!(text.starts_with(b"begin\nxxx") && text.ends_with(b"xxx\nend"));
        assert!(text.len() < 2 * KEPT + 100, "{}", text.len());
        let note = String::from_utf8_lossy(&text).into_owned();
        let left_out = 5_000_010 - 2 * KEPT;
        assert!(note.contains(&format!("[{left_out} bytes are left out]")));
        let mut short = Output::default();
        short.add(b"all");
        assert_eq!(short.text(), b"all");
    }

    fn program(words: &[&str]) -> Program {
        Program {
            words: words.iter().map(|it| (*it).to_owned()).collect(),
            log: "load-0.log".to_owned(),
            secret: Some(("s3cret".to_owned(), "***".to_owned())),
        }
    }

    fn wait(process: &Process) {
        let begin = Instant::now();
        while !process.has_ended() && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn exit_codes_and_last_lines_are_told_without_secrets() {
        let script = "echo one; echo with s3cret >&2; exit 3";
        let mut process = Process::start(&program(&["sh", "-c", script]), None).unwrap();
        wait(&process);
        process.kill();
        assert_eq!(process.output(), b"one\nwith ***\n");
        let failure = process.failure().unwrap().to_string();
        assert!(
            failure.contains("exit code 3") && failure.contains("with ***"),
            "{failure}"
        );
        let missing = Process::start(&program(&["no-such-program"]), None);
        let missing = missing.unwrap_err().to_string();
        assert!(missing.contains("no-such-program"), "{missing}");
    }

    #[test]
    fn the_whole_group_ends_and_what_it_was_told_is_no_failure() {
        // A child that ignores the signal, in the same group.
        let script = "(trap '' TERM; echo child; exec sleep 60) & echo parent; wait";
        let mut process = Process::start(&program(&["sh", "-c", script]), None).unwrap();
        let group = process.pid();
        let said = |process: &Process| process.output.lock().unwrap().text().len();
        let begin = Instant::now();
        while said(&process) < 13 && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        process.terminate();
        wait(&process);
        process.kill();
        assert!(process.failure().is_none());
        let group = Pid::from_raw(group.cast_signed()).unwrap();
        let begin = Instant::now();
        while rustix::process::test_kill_process_group(group).is_ok() {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "somebody is left"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn programs_of_the_folder_come_first() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("true");
        std::fs::write(&file, "#!/bin/sh\necho ours\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let process = Process::start(&program(&["true"]), Some(dir.path())).unwrap();
        wait(&process);
        assert_eq!(process.output(), b"ours\n");
    }
}
