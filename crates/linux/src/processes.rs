//! Other processes of this machine, as `/proc` shows them: identity that survives the reuse of
//! numbers, who descends from whom, what a process is called.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{read_bytes, read_lossy};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// Clock ticks since boot at which it started.
    start: u64,
}

impl ProcessId {
    /// The process that had this number and started so many clock ticks after boot.
    pub const fn new(pid: u32, start: u64) -> Self {
        Self { pid, start }
    }

    /// Clock ticks since boot at which it started.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Self> {
        stat(pid).map(|stat| stat.id(pid))
    }

    /// `/proc/PID/stat` of this very process; `None` where it is gone.
    pub fn stat(self) -> Option<Stat> {
        stat(self.pid).filter(|stat| stat.start == self.start)
    }

    /// Whether it still runs; one that only waits to be collected does not.
    pub fn is_alive(self) -> bool {
        self.stat().is_some_and(|stat| !stat.ended())
    }

    /// Sends a signal to this very process. `false`: it is gone, or is not ours to signal.
    pub fn signal(self, signal: Signal) -> bool {
        let Some(number) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        match pidfd_open(number, PidfdFlags::empty()) {
            // The descriptor stays with the process that it was opened for. Which one that is, is
            // looked at afterwards: the number cannot have been somebody else's in between.
            Ok(process) => self.is_alive() && pidfd_send_signal(&process, signal).is_ok(),
            Err(Errno::SRCH) => false,
            // Linux before 5.3, or a sandbox that forbids it: as near as it can be had.
            Err(_) => self.is_alive() && kill_process(number, signal).is_ok(),
        }
    }

    /// Whether a signal holds all of its threads; each stops where it next would have run.
    pub fn is_stopped(self) -> bool {
        let folder = format!("/proc/{}/task", self.pid);
        let threads = numbers_in(&folder).into_iter();
        let mut stats = threads.filter_map(|tid| parse_stat(&read_bytes(format!("{folder}/{tid}/stat")).ok()?));
        self.is_alive() && stats.all(|it| matches!(it.state, 'T' | 't' | 'Z' | 'X'))
    }

    /// When it started, by the wall clock.
    pub fn started(self) -> SystemTime {
        let second = rustix::param::clock_ticks_per_second().max(1);
        let since_boot = Duration::from_secs(self.start / second)
            + Duration::from_secs_f64((self.start % second) as f64 / second as f64);
        booted().checked_add(since_boot).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// When the machine started, by the wall clock.
pub fn booted() -> SystemTime {
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(up.tv_sec.unsigned_abs(), u32::try_from(up.tv_nsec).unwrap_or(0));
    SystemTime::now().checked_sub(up).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// One line of `/proc/PID/stat`, as far as it is needed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name of the executable, at most 15 bytes; what is not UTF-8 is replaced.
    pub command: String,
    state: char,
    /// Number of the parent; 0 for one outside of our namespace.
    pub parent: u32,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// CPU time of children that have ended and were waited for, in ticks.
    pub children_ticks: u64,
    /// Number of threads.
    pub threads: u32,
    start: u64,
    /// Resident memory in pages.
    pub rss_pages: u64,
    /// 0 where it is not shown.
    stack_start: u64,
}

impl Stat {
    /// Whose line it is, where `pid` is the number that it was read by.
    pub const fn id(&self, pid: u32) -> ProcessId {
        ProcessId { pid, start: self.start }
    }

    /// A zombie: only its exit status is left.
    pub const fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Reads `/proc/PID/stat`; `None` where the process is gone.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&read_bytes(format!("/proc/{pid}/stat")).ok()?)
}

/// Where the stack of a process's first thread begins; `None` where it is gone or may not be looked into.
pub fn stack_start(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.stack_start).filter(|start| *start > 0)
}

/// The name may hold blanks, brackets and any other bytes: it ends at the last `)`. Field numbers as in proc(5).
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(line);
    let (head, tail) = text.rsplit_once(')')?;
    let (_, command) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let text = |number: usize| fields.get(number - 3).copied();
    let field = |number: usize| text(number)?.parse::<u64>().ok();
    Some(Stat {
        command: command.to_owned(),
        state: text(3)?.chars().next()?,
        parent: u32::try_from(field(4)?).ok()?,
        minor_faults: field(10)?,
        major_faults: field(12)?,
        children_ticks: field(16)?.saturating_add(field(17)?),
        threads: u32::try_from(field(20)?).unwrap_or(u32::MAX),
        start: field(22)?,
        rss_pages: field(24)?,
        stack_start: field(28).unwrap_or(0),
    })
}

/// All process numbers.
pub fn all() -> Vec<u32> {
    numbers_in("/proc")
}

/// The entries of a folder that are called by a number.
pub(crate) fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The number of the machine's newest process or thread: none has come while it stays. `None`: the kernel hides it.
pub fn newest() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// A pipe, with a name or without, by the device and the number of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeId {
    /// Where its file is.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// Descriptors of a process that are looked at for the pipes that it writes to.
const LOOKED_AT: usize = 256;

/// The pipe that a process reads as its standard input; `None` where that is something else, or may not be seen.
pub fn pipe_read(pid: u32) -> Option<PipeId> {
    pipe(&Path::new("/proc").join(format!("{pid}/fd/0")), Mode::RUSR)
}

/// The pipes that a process may write to, by any of its first descriptors.
pub fn pipes_written(pid: u32) -> Vec<PipeId> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    descriptors.take(LOOKED_AT).flatten().filter_map(|it| pipe(&it.path(), Mode::WUSR)).collect()
}

/// The pipe that a descriptor is an end of, where it permits this: the kernel shows that as the mode of its link.
fn pipe(descriptor: &Path, permits: Mode) -> Option<PipeId> {
    if !Mode::from_raw_mode(fs::symlink_metadata(descriptor).ok()?.mode()).contains(permits) {
        return None;
    }
    let file = fs::metadata(descriptor).ok()?;
    file.file_type().is_fifo().then(|| PipeId { device: file.dev(), inode: file.ino() })
}

/// The processes that descend from `root`, without itself.
pub fn descendants(root: u32) -> Vec<u32> {
    descendants_of(ProcessId::of(root).into_iter().collect()).into_iter().map(|(id, _)| id.pid).collect()
}

/// All that descend from these processes, with the numbers of their parents.
pub(crate) fn descendants_of(mut tree: Vec<ProcessId>) -> Vec<(ProcessId, u32)> {
    let parent_of = |pid| stat(pid).map(|stat| (stat.id(pid), stat.parent));
    let all: Vec<(ProcessId, u32)> = all().into_iter().filter_map(parent_of).collect();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(parent) = tree.get(next).map(|id| id.pid) {
        next += 1;
        for &(id, _) in all.iter().filter(|(_, of)| *of == parent) {
            if !tree.contains(&id) {
                tree.push(id);
                found.push((id, parent));
            }
        }
    }
    found
}

/// The arguments a process was started with; empty where they cannot be read.
pub fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    words.pop();
    words
}

/// Every process but ourselves and what started us.
pub fn others() -> Vec<u32> {
    let ancestors = ancestors(std::process::id());
    let mut others = all();
    others.retain(|pid| !ancestors.contains(pid));
    others
}

/// Whether a process is called like this: as a command, which the kernel keeps 15 bytes of, or by its executable.
/// Other words of its command line do not count: those of `timeout 60 bellows record --name NAME` hold the name too.
pub fn is_called(pid: u32, name: &str) -> bool {
    let bytes = name.as_bytes();
    let short = String::from_utf8_lossy(bytes.get(..15).unwrap_or(bytes));
    let file_name = |path: &Path| path.file_name().is_some_and(|file| file == name);
    let Some(stat) = stat(pid).filter(|stat| !stat.ended()) else { return false };
    stat.command == short
        || arguments(pid).first().is_some_and(|path| file_name(Path::new(path)))
        || fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| file_name(&path))
}

/// The value of a variable that a process was started with; `None` also where it may not be seen.
pub fn environment_variable(pid: u32, name: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    bytes.split(|byte| *byte == 0).find_map(|variable| {
        Some(String::from_utf8_lossy(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?).into_owned())
    })
}

/// The name of the user that a process runs as, or the user's number.
pub fn user(pid: u32) -> Option<String> {
    let uid = Status::of(pid).ok()?.uid;
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    Some(user.map_or_else(|| uid.to_string(), |user| user.name))
}

/// A process, and all that it descends from.
fn ancestors(pid: u32) -> Vec<u32> {
    let mut line = vec![pid];
    while let Some(parent) = line.last().and_then(|pid| stat(*pid)).map(|stat| stat.parent) {
        // Outside of our namespace there is nobody (0).
        if parent == 0 || line.contains(&parent) {
            break;
        }
        line.push(parent);
    }
    line
}

/// Fields of `/proc/PID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Name of the executable, at most 15 bytes; what is not UTF-8 is replaced.
    pub name: String,
    /// `R`, `S`, …, `Z` for a process that has ended but was not waited for.
    pub state: char,
    /// The thread group: the process that a thread belongs to.
    pub tgid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective capabilities, a bit each.
    pub capabilities: u64,
    /// The process's number in its own pid namespace.
    pub inner_pid: u32,
    /// Threads of the kernel have no memory of their own.
    pub has_memory: bool,
    /// Signals that it has a handler for, a bit each, that of signal 1 the lowest.
    pub caught: u64,
}

impl Status {
    /// Whether it has a handler for a signal.
    pub const fn catches(&self, signal: Signal) -> bool {
        self.caught >> (signal.as_raw() - 1) & 1 == 1
    }

    /// Of a process or thread.
    pub fn of(pid: u32) -> io::Result<Self> {
        read_lossy(format!("/proc/{pid}/status")).map(|text| Self::parse(&text, pid))
    }

    fn parse(text: &str, pid: u32) -> Self {
        let mut status = Self { state: '?', tgid: pid, inner_pid: pid, ..Self::default() };
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key {
                "Name" => status.name = value.to_owned(),
                "State" => status.state = value.chars().next().unwrap_or('?'),
                "Tgid" => status.tgid = value.parse().unwrap_or(pid),
                // real, effective, saved, file system
                "Uid" => status.uid = number(value.split_whitespace().nth(1)).unwrap_or(0),
                "CapEff" => status.capabilities = u64::from_str_radix(value, 16).unwrap_or(0),
                // One per namespace, the innermost last.
                "NSpid" => status.inner_pid = number(value.split_whitespace().last()).unwrap_or(pid),
                "SigCgt" => status.caught = u64::from_str_radix(value, 16).unwrap_or(0),
                "VmSize" => status.has_memory = true,
                _ => {}
            }
        }
        status
    }
}

fn number(text: Option<&str>) -> Option<u32> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::{Command, Stdio};

    use testkit::ChildGuard;

    use super::*;

    /// Whether something comes about within five seconds.
    fn soon(is: impl Fn() -> bool) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is()
        })
    }

    #[test]
    fn names_of_any_bytes_do_not_shift_fields() {
        let line = b"42 (a) b\xff (c) S 7 1 1 0 -1 4194560 1 2 3 4 100 200 30 40 20 0 11 0 99 1000 555 \
                     18446744073709551615 1";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat.command, "a) b\u{fffd} (c");
        assert_eq!((stat.parent, stat.children_ticks, stat.threads, stat.rss_pages), (7, 70, 11, 555));
        assert!(!stat.ended());
        assert_eq!(stat.id(42), ProcessId { pid: 42, start: 99 });
        assert_eq!(parse_stat(b"42 (cut"), None);
        assert_eq!(parse_stat(b"42 (cut) S 7"), None);
    }

    /// Crate `procfs` refuses the whole file for one such name.
    #[test]
    fn a_name_that_is_no_text_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (file, name) in [
            (&b"sl\xffeep\n"[..], "sl\u{fffd}eep"),
            // Cut by the kernel in the middle of the last letter.
            ("fourteen bytes\u{e4}".as_bytes(), "fourteen bytes"),
        ] {
            let program = dir.path().join(std::ffi::OsStr::from_bytes(file));
            fs::copy("/bin/sleep", &program).unwrap();
            let child = ChildGuard(Command::new(&program).arg("60").spawn().unwrap());
            let (me, pid) = (std::process::id(), child.id());
            assert!(descendants(me).contains(&pid));
            assert_eq!(stat(pid).unwrap().parent, me);
            let is_mapped = || {
                let maps = crate::maps::maps(pid).unwrap_or_default();
                let has = |end: &str| maps.iter().any(|it| it.path.contains(end));
                has(&String::from_utf8_lossy(file)) && has("libc")
            };
            assert!(soon(is_mapped), "its loader maps the library once it runs");
            let status = Status::of(pid).expect("a status");
            assert!(status.name.starts_with(name), "{}", status.name);
            if let Ok(name) = std::str::from_utf8(file) {
                let found = others().into_iter().filter(|pid| is_called(*pid, name));
                assert_eq!(found.collect::<Vec<_>>(), [pid]);
            }
        }
    }

    #[test]
    fn another_process_with_the_same_number_is_not_alive_and_gets_no_signal() {
        let me = ProcessId::of(std::process::id()).unwrap();
        let earlier = ProcessId::new(me.pid, me.start - 1);
        assert!(me.is_alive() && me.stat().is_some());
        // Signal 0 would do; this one asks for nothing, and would be ignored.
        assert!(me.signal(Signal::CONT));
        assert!(!earlier.is_alive() && !earlier.signal(Signal::CONT));
        let age = SystemTime::now().duration_since(me.started()).unwrap();
        assert!(age < Duration::from_secs(3_600), "{age:?}");
    }

    #[test]
    fn a_child_is_found_until_it_ends_and_paused_where_its_threads_all_stand_still() {
        let child = ChildGuard::idle();
        let (me, pid) = (std::process::id(), child.id());
        let id = ProcessId::of(pid).unwrap();
        assert!(descendants(me).contains(&pid) && !id.is_stopped());
        // The kernel shows no arguments while the new program is being loaded.
        assert!(soon(|| arguments(pid).last().is_some_and(|it| it == "60")));
        assert!(id.signal(Signal::STOP) && soon(|| id.is_stopped()), "paused");
        assert!(id.signal(Signal::CONT) && soon(|| !id.is_stopped()), "resumed");
        drop(child);
        assert!(!id.is_stopped() && !descendants(me).contains(&pid), "it is gone");
        assert_eq!(stat(pid), None);
    }

    /// The kernel gives the number of a process that was killed to another one at once.
    #[test]
    fn a_number_that_is_used_again_protects_its_new_owner() {
        let spawn = || Command::new("sleep").arg("60").spawn().unwrap();
        let mut victim = spawn();
        let number = victim.id();
        let id = ProcessId::of(number).unwrap();
        // The start of a process is known to 10 ms.
        std::thread::sleep(Duration::from_millis(30));
        assert!(id.signal(Signal::KILL));
        victim.wait().unwrap();
        assert!(!id.signal(Signal::KILL), "nobody has the number");
        let Some(mut stranger) = testkit::process_with_number(number, spawn) else {
            testkit::skip!("the kernel does not let us choose a process's number");
        };
        assert!(!id.is_alive() && id.stat().is_none());
        for signal in [Signal::KILL, Signal::STOP] {
            assert!(!id.signal(signal));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(stranger.try_wait().unwrap(), None, "it lives");
        assert!(ProcessId::of(number).unwrap().signal(Signal::KILL));
        stranger.wait().unwrap();
    }

    #[test]
    fn what_only_started_us_is_nobody_else() {
        let me = std::process::id();
        let line = ancestors(me);
        assert_eq!(line.first(), Some(&me));
        assert!(line.contains(&std::os::unix::process::parent_id()));
        assert!(others().iter().all(|pid| !line.contains(pid)));
    }

    #[test]
    fn a_process_is_called_like_its_file_and_not_like_its_words() {
        let me = std::process::id();
        let word = format!("word-of-{me}-that-is-longer-than-a-command");
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(&word);
        fs::copy("/bin/sleep", &program).unwrap();
        let start = |program: &Path, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).env("BELLOWS_WORD", "a=b").stdin(Stdio::piped());
            ChildGuard(command.spawn().unwrap())
        };
        let mut meant = start(&program, &["60"]);
        let mut wrapper = start(Path::new("/bin/sh"), &["-c", "read line; exit", &word]);
        let called = |pid| is_called(pid, &word);
        assert!(soon(|| called(meant.id())));
        assert!(!called(wrapper.id()));
        assert!(!is_called(meant.id(), "word"));
        assert_eq!(environment_variable(meant.id(), "BELLOWS_WORD").as_deref(), Some("a=b"));
        assert_eq!(environment_variable(meant.id(), "BELLOWS_WOR"), None);
        assert_eq!(user(meant.id()), user(me));
        assert!(user(me).is_some() && user(u32::MAX).is_none());
        for child in [&mut meant, &mut wrapper] {
            child.kill().unwrap();
        }
        // Until somebody waits for it, a process that has ended keeps its name.
        assert!(soon(|| !called(meant.id())));
    }

    #[test]
    fn pipes_are_known_at_both_ends_with_a_name_and_without() {
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &named, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let end = fs::File::options().read(true).write(true).open(&named).unwrap();
        let me = std::process::id();
        for input in [Stdio::piped(), end.try_clone().unwrap().into()] {
            let child = ChildGuard(Command::new("sleep").arg("60").stdin(input).spawn().unwrap());
            let pid = child.id();
            assert!(pipes_written(me).contains(&pipe_read(pid).unwrap()));
            drop(child);
            assert_eq!(pipe_read(pid), None);
        }
    }

    #[test]
    fn status_tells_the_inner_pid_and_kernel_threads_apart() {
        let text = "Name:\tbeam.smp\nState:\tS (sleeping)\nTgid:\t40\nPid:\t41\n\
                    Uid:\t1\t102\t3\t4\nNSpid:\t41\t7\nSigCgt:\t0000000000000004\nVmSize:\t   12 kB\n";
        let status = Status::parse(text, 41);
        assert_eq!((status.name.as_str(), status.state), ("beam.smp", 'S'));
        assert_eq!((status.tgid, status.uid, status.inner_pid), (40, 102, 7));
        assert!(status.has_memory);
        assert!(status.catches(Signal::QUIT) && !status.catches(Signal::INT));
        let status = Status::parse("Name:\tkthreadd\nUid:\tx\ngarbage", 2);
        assert_eq!((status.uid, status.inner_pid, status.has_memory), (0, 2, false));
        let pid = std::process::id();
        let status = Status::of(pid).expect("status");
        assert!(status.has_memory && status.tgid == pid);
        assert!(Status::of(u32::MAX).is_err());
    }
}
