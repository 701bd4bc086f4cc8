//! A program of the load, under a guardian: none of its processes outlives bellows, however that ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use linux::{ProcessId, processes};
use load::{Error, ProgramEnd};
use measure::{Problem, Time};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::Signal;

use super::Program;
use brokers::guardian::{Command as Guarded, Guardian, Message};
use brokers::managed::Workspace;

/// Time for a guardian to start a program, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time for reading the pipe after a program has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Lines of the output that an error shows, and letters of each.
const TOLD_LINES: usize = 2;
const TOLD_LETTERS: usize = 200;
/// The guardian's text for a program that succeeded.
const SUCCESS: &str = "exit status 0";
/// A program that ends its only child after a time, or passes signals on to it, and the guardian's text for the first.
const TIMEOUT: &str = "timeout";
const TIMED_OUT: &str = "exit status 124";

/// A program that runs. Dropping it ends all that it has started.
#[derive(Debug)]
pub(super) struct Process {
    program: Program,
    /// Ends before the workspace does.
    guardian: Option<Guardian>,
    workspace: Workspace,
    id: Option<ProcessId>,
    /// The program and its descendants that ran when last looked for.
    alive: Vec<ProcessId>,
    ending: EndRequests,
    /// The time for ending is nearly over: readers have it for the rest of their pipes.
    pub(super) is_last: bool,
    /// The program's exit; its descendants may run on.
    status: Option<String>,
    /// A descendant outlived the program.
    has_left: bool,
    /// One of its processes was killed for the sake of those that read from it.
    has_killed: bool,
    /// The program was told to end, so that its exit code says nothing.
    told: bool,
    output: Arc<Mutex<Output>>,
    reader: thread::JoinHandle<()>,
}

impl Process {
    /// Starts it, with `folder` in front of `PATH`.
    pub(super) fn start(program: &Program, folder: Option<&Path>) -> Result<Self, Error> {
        Self::try_start(program, folder).map_err(|detail| {
            let name = program.words.first().map_or("", String::as_str);
            Error::Program(Problem::new(
                format!("the load's program {name} cannot be started"),
                program.without_secrets(detail),
                "give a program that this user may run, by its path or in PATH",
            ))
        })
    }

    fn try_start(program: &Program, folder: Option<&Path>) -> Result<Self, String> {
        let path = search_path(folder);
        let (name, arguments) = program.words.split_first().ok_or("it has no name")?;
        let file = find(name, &path)?;
        let mut environment: Vec<(OsString, OsString)> = env::vars_os().collect();
        environment.push(("PATH".into(), path));
        let directory = env::current_dir().map_err(|error| error.to_string())?;
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let workspace = Workspace::new("a load", None, 0).map_err(|error| error.to_string())?;
        let output = Arc::new(Mutex::new(Output::default()));
        let (reader, writer) = follow(&workspace.log(), &output).map_err(|error| error.to_string())?;
        let mut process = Self {
            program: program.clone(),
            guardian: None,
            workspace,
            id: None,
            alive: Vec::new(),
            ending: EndRequests::default(),
            is_last: false,
            status: None,
            has_left: false,
            has_killed: false,
            told: false,
            output,
            reader,
        };
        let guardian = process
            .workspace
            .guard(&[], Guarded { program: file, arguments, environment, directory, ..Guarded::default() });
        let guardian = process.guardian.insert(guardian.map_err(|error| error.to_string())?);
        let said = guardian.listen(START_TIMEOUT);
        // The program holds the pipe open by now, or nobody does.
        drop(writer);
        match said.map_err(|error| error.to_string())? {
            Some(Message::Started(id)) => process.id = Some(id),
            Some(Message::Failed(reason) | Message::Exited(reason)) => return Err(reason),
            Some(Message::Gone) => return Err("its guardian process ended".to_owned()),
            None => return Err(format!("not within {} s", START_TIMEOUT.as_secs())),
        }
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.id.map_or(0, |id| id.pid)
    }

    /// Whether the program has ended; descendants may still print their last words.
    pub(super) const fn is_over(&self) -> bool {
        self.status.is_some()
    }

    /// Whether the program itself is running, according to the kernel: its guardian may report its end later.
    pub(super) fn runs(&self) -> bool {
        !self.is_over() && self.id.is_some_and(ProcessId::is_alive)
    }

    /// Whether descendants were running when the program had ended by itself.
    pub(super) const fn has_left(&self) -> bool {
        self.has_left && !self.told
    }

    /// Whether it and all that it has started have ended; what runs on after it is asked to end, too.
    pub(super) fn has_ended(&mut self) -> bool {
        if !self.is_over() {
            let guardian = self.guardian.as_mut();
            self.status = match guardian.map(|it| it.listen(Duration::ZERO)) {
                Some(Ok(Some(Message::Exited(status) | Message::Failed(status)))) => Some(status),
                // Another one goes on in its place.
                Some(Ok(Some(Message::Started(id)))) => {
                    self.id = Some(id);
                    None
                }
                Some(Ok(None)) => None,
                Some(Ok(Some(Message::Gone)) | Err(_)) | None => Some("its guardian process ended".to_owned()),
            };
            self.has_left = self.is_over() && !self.running().is_empty();
        }
        if self.is_over() || self.told {
            self.ask_to_end();
        }
        self.is_over() && self.alive.is_empty()
    }

    /// Whether the program ended by itself with a failure.
    pub(super) fn has_failed(&self) -> bool {
        !self.told && self.status.as_ref().is_some_and(|it| it != SUCCESS)
    }

    /// Asks it and all that it has started to end (SIGTERM).
    pub(super) fn terminate(&mut self) {
        if !self.has_ended() && !self.is_over() {
            self.told = true;
            self.ask_to_end();
        }
    }

    fn running(&self) -> Vec<LoadProcess> {
        self.guardian.as_ref().map(Guardian::pid).map(LoadProcess::below).unwrap_or_default()
    }

    /// Asks processes whose turn it is to end, when time or an end has changed turns: finding all takes milliseconds.
    fn ask_to_end(&mut self) {
        let Some(guardian) = self.guardian.as_ref().map(Guardian::pid) else { return };
        let is_same = !self.alive.is_empty() && self.alive.iter().all(|id| id.is_alive());
        if is_same && self.is_last == self.ending.is_last {
            return;
        }
        // It adopts what others have left.
        let running = self.running();
        let (ask, kill) = self.ending.turn(&running, guardian, self.is_last);
        for id in ask {
            id.signal(Signal::TERM);
        }
        for id in kill {
            self.has_killed |= id.signal(Signal::KILL);
        }
        self.alive = running.into_iter().map(|it| it.id).collect();
    }

    /// How it ended, at this instant where by itself, and why it failed, where it did; kills all that is left of it.
    pub(super) fn end(mut self, ended_at: Option<Time>) -> (ProgramEnd, Option<Problem>) {
        let stayed = (!self.has_ended() || self.has_killed) && self.is_over();
        self.told |= !self.is_over();
        let has_failed = self.has_failed();
        let has_left = self.has_left() && !has_failed;
        let status = self.status.take();
        self.kill();
        let output = self.output();
        let told = if self.told { "asked to end: " } else { "" };
        let timed_out = match status.as_deref() {
            Some(TIMED_OUT) if self.program.names(TIMEOUT) => " (timeout ended it)",
            _ => "",
        };
        let left = match (stayed, has_left) {
            (true, _) => "; its child processes did not end and were killed",
            (false, true) => "; its child processes still ran and were terminated",
            (false, false) => "",
        };
        let status = status.map_or_else(
            || "killed: it did not end when asked".to_owned(),
            |status| format!("{told}{status}{timed_out}{left}"),
        );
        let problem = has_failed.then(|| self.failure(&status, &output));
        let end = ProgramEnd {
            load: self.program.load,
            command: self.program.shown.clone(),
            status,
            ended_at,
            log: self.program.log.clone(),
            output,
        };
        (end, problem)
    }

    fn failure(&self, status: &str, output: &str) -> Problem {
        let name = self.program.words.first().map_or("", String::as_str);
        let help =
            format!("see what it printed ({} in the run folder), and try its command line by itself", self.program.log);
        let mut problem = Problem::new(format!("the load's program {name} failed"), status, help);
        problem.log = web::redact::urls(&last_lines(output));
        problem
    }

    fn kill(&mut self) {
        // The next start removes what could not be removed now.
        let _ = self.workspace.end(self.guardian.take());
    }

    fn output(&self) -> String {
        let asked = Instant::now();
        while !self.reader.is_finished() && asked.elapsed() < LAST_WORDS {
            thread::sleep(Duration::from_millis(2));
        }
        let kept = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        self.program.without_secrets(kept.text())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn last_lines(output: &str) -> String {
    let lines = output.lines().rev().filter(|line| !line.trim().is_empty());
    let shortened = |line: &str| line.chars().take(TOLD_LETTERS).collect::<String>();
    let mut lines: Vec<String> = lines.take(TOLD_LINES).map(shortened).collect();
    lines.reverse();
    if lines.is_empty() { "it printed nothing".to_owned() } else { lines.join("\n") }
}

/// Makes a pipe, and a thread that keeps its output; our writing end is to be closed once the program has one.
fn follow(pipe: &Path, output: &Arc<Mutex<Output>>) -> io::Result<(thread::JoinHandle<()>, File)> {
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, pipe, FileType::Fifo, mode, 0)?;
    // Without waiting for the other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(pipe, flags, Mode::empty())?;
    let writer = File::options().write(true).open(pipe)?;
    rustix::fs::fcntl_setfl(&reader, OFlags::empty())?;
    let mut reader = File::from(reader);
    let kept = Arc::clone(output);
    let thread = thread::Builder::new().name("command output".to_owned());
    let thread = thread.spawn(move || {
        let mut chunk = [0; 8192];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.add(chunk.get(..count).unwrap_or_default());
        }
    })?;
    Ok((thread, writer))
}

fn search_path(folder: Option<&Path>) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(folder.map(Path::to_owned).into_iter().chain(env::split_paths(&path))).unwrap_or(path)
}

/// The guardian works elsewhere, with another `PATH`.
fn find(name: &str, path: &OsStr) -> Result<PathBuf, String> {
    let mut candidates: Vec<PathBuf> =
        if name.contains('/') { vec![name.into()] } else { env::split_paths(path).map(|it| it.join(name)).collect() };
    candidates.retain(|file| file.is_file());
    match candidates.first() {
        Some(file) => std::path::absolute(file).map_err(|error| error.to_string()),
        None if name.contains('/') => Err("there is no such file".to_owned()),
        None => Err(format!("it is not in PATH ({})", path.display())),
    }
}

/// Bytes that are kept of the beginning of a program's output, and as many of its end.
const KEPT: usize = 256 * 1024;

/// The beginning and the end of a program's output.
#[derive(Debug, Default)]
struct Output {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Bytes between them that were not kept.
    left_out: usize,
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
            self.left_out += over;
        }
    }

    /// The kept output. Left out are whole lines where there are any: half a line may hold half a secret.
    fn text(&self) -> String {
        let over = self.last.len().saturating_sub(KEPT);
        if self.left_out + over == 0 {
            let all = [self.first.as_slice(), &self.last].concat();
            return String::from_utf8_lossy(&all).into_owned();
        }
        let is_end = |byte: &u8| *byte == b'\n';
        let first = self.first.iter().rposition(is_end);
        let first = first.map_or(self.first.as_slice(), |end| self.first.split_at(end + 1).0);
        let last = self.last.split_at(over).1;
        let last = last.iter().position(is_end).map_or(last, |end| last.split_at(end + 1).1);
        let kept = first.len() + last.len();
        let left_out = self.first.len() + self.left_out + self.last.len() - kept;
        format!(
            "{}\n[{} bytes are left out]\n{}",
            String::from_utf8_lossy(first),
            measure::count(left_out as u64),
            String::from_utf8_lossy(last)
        )
    }
}

#[derive(Clone, Debug)]
struct LoadProcess {
    id: ProcessId,
    parent: u32,
    command: String,
    reads: Option<processes::PipeId>,
    writes: Vec<processes::PipeId>,
}

impl LoadProcess {
    fn below(ancestor: u32) -> Vec<Self> {
        processes::descendants(ancestor).into_iter().filter_map(Self::of).collect()
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = processes::stat(pid).filter(|stat| !stat.ended())?;
        Some(Self {
            id: stat.id(pid),
            parent: stat.parent,
            command: stat.command,
            reads: processes::pipe_read(pid),
            writes: processes::pipes_written(pid),
        })
    }

    /// Whether it ends by itself once this other one has.
    fn ends_after(&self, other: &Self) -> bool {
        let is_fed = self.reads.is_some_and(|it| other.writes.contains(&it));
        let has_started = self.command == TIMEOUT && other.parent == self.id.pid;
        self.id != other.id && (is_fed || has_started)
    }
}

/// A process that has not been asked.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: ProcessId,
    /// The process waits for others now.
    waits: bool,
    /// The process had to wait, and has the rest of the time to end by itself.
    has_waited: bool,
}

#[derive(Debug, Default)]
struct EndRequests {
    has_begun: bool,
    is_last: bool,
    waiting: Vec<Waiting>,
    asked: Vec<ProcessId>,
}

impl EndRequests {
    /// The processes to ask now, and to kill: at first those that were running, later also orphans that `adopter` has
    /// inherited. Children of one that was asked may print its last words, and readers end after those that they read
    /// from. In the `last` turn all are asked, and those that others read from are killed: their readers get the rest.
    fn turn(&mut self, all: &[LoadProcess], adopter: u32, last: bool) -> (Vec<ProcessId>, Vec<ProcessId>) {
        for one in all {
            let is_known = self.asked.contains(&one.id) || self.waiting.iter().any(|it| it.id == one.id);
            if !is_known && (!self.has_begun || one.parent == adopter) {
                self.waiting.push(Waiting { id: one.id, waits: false, has_waited: false });
            }
        }
        self.has_begun = true;
        let find = |id: ProcessId| all.iter().find(|it| it.id == id);
        self.waiting.retain(|it| find(it.id).is_some());
        for one in &mut self.waiting {
            one.waits = find(one.id).is_some_and(|it| all.iter().any(|other| it.ends_after(other)));
            one.has_waited |= one.waits;
        }
        // Those whose writers are killed have their time after it.
        let begins_last = last && !self.is_last;
        self.is_last |= last;
        let is_ready = |it: &Waiting| !it.waits && (!it.has_waited || begins_last);
        let has_asked = self.asked.iter().any(|id| find(*id).is_some());
        // Where all wait for each other, or for one that nobody asks, none would end.
        let is_stuck = !has_asked && self.waiting.iter().all(|it| it.waits);
        let ready = self.waiting.extract_if(.., |it| is_stuck || is_ready(it));
        let ask: Vec<ProcessId> = ready.map(|it| it.id).collect();
        self.asked.extend(&ask);
        let mut kill = if begins_last { self.waited_for(all) } else { Vec::new() };
        kill.retain(|id| !ask.contains(id));
        (ask, kill)
    }

    /// Processes that others wait for, were not asked, and do not wait themselves.
    fn waited_for(&self, all: &[LoadProcess]) -> Vec<ProcessId> {
        let is_waiting = |one: &LoadProcess| self.waiting.iter().any(|it| it.id == one.id);
        let keeps_one = |one: &LoadProcess| all.iter().any(|other| is_waiting(other) && other.ends_after(one));
        all.iter().filter(|one| !is_waiting(one) && keeps_one(one)).map(|it| it.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_last_two_lines() {
        assert_eq!(last_lines("one\ntwo\n\n three\n \n"), "two\n three");
        assert_eq!(last_lines(" \n"), "it printed nothing");
    }

    #[test]
    fn programs_of_the_folder_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("sh");
        std::fs::write(&own, "").unwrap();
        let path = search_path(Some(dir.path()));
        assert_eq!(find("sh", &path), Ok(own));
        let elsewhere = find("sh", &search_path(None)).unwrap();
        assert!(elsewhere.is_absolute() && !elsewhere.starts_with(dir.path()));
        testkit::assert_has(find("no-such-program", &path).unwrap_err(), ["PATH"]);
        assert!(find("./no-such-program", &path).is_err());
    }

    #[test]
    fn of_a_long_output_beginning_and_end_are_kept_and_a_short_one_as_a_whole() {
        let mut output = Output::default();
        output.add(b"begin\n");
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        (0..5000).for_each(|_| output.add(&line));
        output.add(b"end");
        let text = output.text();
        assert!(text.starts_with("begin\nxxx") && text.ends_with("xxx\nend"));
        assert!(text.len() < 2 * KEPT + 100, "{}", text.len());
        assert!(output.last.len() <= 2 * KEPT);
        let (before, rest) = text.split_once("\n[").unwrap();
        let (left_out, after) = rest.split_once(" bytes are left out]\n").unwrap();
        let left_out: usize = left_out.replace(',', "").parse().unwrap();
        assert_eq!(before.len() + left_out + after.len(), 5_000_009);
        // Whole lines.
        assert!(before.ends_with("x\n") && after.starts_with(&"x".repeat(999)));
        let text = |bytes: &[u8]| {
            let mut output = Output::default();
            output.add(bytes);
            output.text()
        };
        assert_eq!(text(b"all of \xff it"), "all of \u{fffd} it");
        let kept = measure::count(KEPT as u64);
        assert!(text(&vec![b'y'; 3 * KEPT]).contains(&format!("[{kept} bytes are left out]")));
    }

    /// Number, parent, command, the pipe that it reads and the one that it writes.
    type Row = (u32, u32, &'static str, Option<u64>, Option<u64>);

    fn turn(ending: &mut EndRequests, all: &[Row], last: bool) -> (Vec<u32>, Vec<u32>) {
        let pipe = |inode| processes::PipeId { device: 1, inode };
        let running = |&(pid, parent, command, reads, writes): &Row| LoadProcess {
            id: ProcessId::new(pid, 5),
            parent,
            command: command.to_owned(),
            reads: reads.map(pipe),
            writes: writes.map(pipe).into_iter().collect(),
        };
        let all: Vec<LoadProcess> = all.iter().map(running).collect();
        let (ask, kill) = ending.turn(&all, 1, last);
        let numbers = |ids: Vec<ProcessId>| ids.into_iter().map(|id| id.pid).collect();
        (numbers(ask), numbers(kill))
    }

    fn asked(ending: &mut EndRequests, all: &[Row]) -> Vec<u32> {
        let (ask, kill) = turn(ending, all, false);
        assert_eq!(kill, [0; 0]);
        ask
    }

    #[test]
    fn what_reads_from_others_is_asked_after_them() {
        let mut ending = EndRequests::default();
        let (sh, load) = ((2, 1, "sh", None, None), (3, 2, "load", None, Some(7)));
        let sed = (4, 2, "sed", Some(7), Some(8));
        let tee = (5, 2, "tee", Some(8), None);
        assert_eq!(asked(&mut ending, &[sh, load, sed, tee]), [2, 3]);
        // The shell has ended. What the load starts at its end is its own affair.
        let (orphan, last) = ((3, 1, "load", None, Some(7)), (6, 3, "curl", None, None));
        assert_eq!(asked(&mut ending, &[orphan, last, sed, tee]), [0; 0]);
        // The load has ended and left it; who reads from it has the rest of the time.
        let last = (6, 1, "curl", None, None);
        assert_eq!(asked(&mut ending, &[last, sed, tee]), [6]);
        assert_eq!(asked(&mut ending, &[sed, tee]), [0; 0]);
        assert_eq!(turn(&mut ending, &[sed, tee], true), (vec![4], vec![]), "it has not ended by itself");
        assert_eq!(turn(&mut ending, &[tee], true), (vec![], vec![]));
    }

    #[test]
    fn what_does_not_end_is_killed_before_its_readers_and_what_hands_its_end_on_is_not_asked_too() {
        let mut ending = EndRequests::default();
        let load = (3, 1, "load", None, Some(7));
        let (sed, tee) = ((4, 1, "sed", Some(7), Some(8)), (5, 1, "tee", Some(8), None));
        assert_eq!(asked(&mut ending, &[load, sed, tee]), [3]);
        assert_eq!(asked(&mut ending, &[load, sed, tee]), [0; 0]);
        assert!(!ending.is_last);
        assert_eq!(turn(&mut ending, &[load, sed, tee], true), (vec![], vec![3]));
        assert!(ending.is_last);
        // These have what is left of the time.
        assert_eq!(turn(&mut ending, &[sed, tee], true), (vec![], vec![]));
        assert_eq!(turn(&mut ending, &[tee], true), (vec![], vec![]));
        let mut ending = EndRequests::default();
        let timeout = (2, 1, "timeout", None, None);
        let load = (3, 2, "load", None, None);
        assert_eq!(asked(&mut ending, &[timeout, load]), [3]);
        assert_eq!(asked(&mut ending, &[timeout]), [0; 0]);
        assert_eq!(turn(&mut ending, &[timeout], true).0, [2]);
        // Those that wait for each other are all asked.
        let (one, other) = ((2, 1, "a", Some(7), Some(8)), (3, 1, "b", Some(8), Some(7)));
        assert_eq!(asked(&mut EndRequests::default(), &[one, other]), [2, 3]);
    }
}
