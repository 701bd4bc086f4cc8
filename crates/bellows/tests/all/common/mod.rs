//! Child processes with a deadline, an embedded broker, and peers that misbehave.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod capture;
pub(crate) mod managed;
pub(crate) mod pages;
pub(crate) mod schema;

use std::borrow::BorrowMut;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::ChildGuard;
pub(crate) use testkit::signal;

/// Longer than anything here takes on a busy machine; whoever reaches it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Time limit of a whole command; some start a broker several times beside three other programs' brokers.
const LONGEST: Duration = Duration::from_secs(120);

/// Where the commands keep their runs, below the folder that they run in.
pub(crate) const RUNS: &str = "runs";

/// A `bellows` command in `dir`, deaf to the environment that the tests run in.
pub(crate) fn bellows<S: AsRef<std::ffi::OsStr>>(dir: &Path, args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellows"));
    command.current_dir(dir).args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BELLOWS_") {
            command.env_remove(name);
        }
    }
    // Artemis' commands keep a run only where a folder is named.
    if args.first().is_none_or(|first| first.as_ref() != "artemis") {
        command.env("BELLOWS_RUNS", RUNS);
    }
    command
}

/// Output and end of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The one clear line, its remedy, the exit code, and no panic.
    #[track_caller]
    pub(crate) fn assert_error(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code(), Some(code), "{self:#?}");
        let errors: Vec<_> = self.stderr.lines().filter(|l| l.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "not one error: {self:#?}");
        let all = format!("\n{}", self.stderr);
        let text = all.split_once("\nerror: ").map_or("", |(_, text)| text);
        let error = text.split("\nhelp: ").next().unwrap_or(text);
        for part in parts {
            assert!(has(error, part), "{part:?} is not in {error:?}");
        }
        assert!(self.stderr.contains("\nhelp: "), "no remedy: {self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    /// Standard error has all of these parts.
    #[track_caller]
    pub(crate) fn says<const N: usize>(&self, parts: [&str; N]) -> &Self {
        self.all(parts, |part| has(&self.stderr, part))
    }

    #[track_caller]
    pub(crate) fn says_not<const N: usize>(&self, parts: [&str; N]) -> &Self {
        self.all(parts, |part| !self.stderr.contains(part))
    }

    /// Standard output has all of these parts.
    #[track_caller]
    pub(crate) fn prints<const N: usize>(&self, parts: [&str; N]) -> &Self {
        self.all(parts, |part| has(&self.stdout, part))
    }

    #[track_caller]
    pub(crate) fn prints_not<const N: usize>(&self, parts: [&str; N]) -> &Self {
        self.all(parts, |part| !self.stdout.contains(part))
    }

    #[track_caller]
    fn all<const N: usize>(&self, parts: [&str; N], holds: impl Fn(&str) -> bool) -> &Self {
        for part in parts {
            assert!(holds(part), "{part:?}: {self:#?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn assert_ok(&self) {
        assert_eq!(self.code(), Some(0), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
    }

    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.assert_ok();
        self
    }

    /// The JSON that a command which succeeded has printed.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        self.assert_ok();
        self.printed()
    }

    /// The JSON that a command has printed, however it ended.
    #[track_caller]
    pub(crate) fn printed(&self) -> serde_json::Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(why) => panic!("{why}: {self:#?}"),
        }
    }

    /// Why nothing was profiled, where this user may not.
    pub(crate) fn may_not_profile(&self) -> Option<String> {
        self.stderr.contains("perf_event").then(|| format!("this user may not profile: {}", self.stderr))
    }

    /// The folder, below that of the command, of the run whose report the end of standard output names.
    pub(crate) fn run_dir(&self, dir: &Path) -> PathBuf {
        dir.join(self.report()).parent().expect("a folder").to_owned()
    }

    /// The path that the end of standard output names.
    pub(crate) fn report(&self) -> PathBuf {
        // Other tools' outputs have a line of the form `report: PATH`.
        let is_report = |line: &&str| line.starts_with("report ") || line.starts_with("report: ");
        let path = self.stdout.lines().rfind(is_report).and_then(|line| line.strip_prefix("report"));
        let path = path.unwrap_or_else(|| panic!("no report: {self:#?}"));
        // The next command may stand beside it.
        let path = path.split("  next: ").next().unwrap_or(path);
        PathBuf::from(path.trim_start_matches(':').trim())
    }
}

/// Whether a text has a part, also over a line's end: long lines are broken at words.
fn has(text: &str, part: &str) -> bool {
    let flowing = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.contains(part) || flowing(text).contains(part)
}

/// A started command whose output is collected.
pub(crate) struct Started {
    pub(crate) child: Child,
    stdout: thread::JoinHandle<String>,
    stderr: thread::JoinHandle<String>,
    since: Instant,
}

pub(crate) fn start(mut command: impl BorrowMut<Command>) -> Started {
    let command: &mut Command = command.borrow_mut();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    Started {
        stdout: collect(child.stdout.take().expect("piped")),
        stderr: collect(child.stderr.take().expect("piped")),
        child,
        since: Instant::now(),
    }
}

impl Started {
    /// Sends a signal by name: `INT`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// The end of a command, however long it takes.
    #[track_caller]
    pub(crate) fn end_of_long(self) -> Ended {
        self.end_within(Duration::MAX)
    }

    /// Waits for the end; a command that outlives the deadline is killed and fails the test.
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        self.end_within(LONGEST)
    }

    #[track_caller]
    pub(crate) fn end_within(mut self, deadline: Duration) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if self.since.elapsed() > deadline {
                self.child.kill().expect("kill");
                let text = (self.stdout.join(), self.stderr.join());
                panic!("it hangs after {deadline:?}: {text:#?}");
            }
            thread::sleep(Duration::from_millis(10));
        };
        Ended {
            status,
            took: self.since.elapsed(),
            stdout: self.stdout.join().expect("reader"),
            stderr: self.stderr.join().expect("reader"),
        }
    }
}

/// Runs a `bellows` command to its end.
#[track_caller]
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(dir: &Path, args: &[S]) -> Ended {
    start(bellows(dir, args)).end()
}

/// All figures of the last run, as `runs show -v` prints them.
pub(crate) fn figures(dir: &Path) -> String {
    run(dir, &["runs", "show", "-v", "last"]).ok().stdout
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `bellows broker` on a free port, gone when dropped.
pub(crate) struct Broker {
    pub(crate) child: ChildGuard,
    pub(crate) url: String,
}

impl Broker {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_at(dir, "127.0.0.1:0")
    }

    pub(crate) fn start_at(dir: &Path, listen: &str) -> Self {
        Self::with(dir, &["--listen", listen])
    }

    /// With further arguments; without `--listen` on a free port.
    pub(crate) fn with(dir: &Path, more: &[&str]) -> Self {
        let listen: &[&str] = if more.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        Self::by(bellows(dir, &[&["broker", "--exit-with-stdin"], listen, more].concat()))
    }

    /// Starts a copy of the program.
    pub(crate) fn of(dir: &Path, program: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(["broker", "--exit-with-stdin", "--listen", "127.0.0.1:0"]).current_dir(dir);
        Self::by(command)
    }

    fn by(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the broker");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
        let url = line.trim().strip_prefix("ready ").expect("the ready line").to_owned();
        Self { child: ChildGuard(child), url }
    }

    /// Host and port: `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("amqp://").expect("scheme")
    }
}

/// A server that greets each client, and then keeps the connection open.
pub(crate) fn server_that_says(greeting: &'static [u8]) -> SocketAddr {
    let (listener, address) = listener();
    thread::spawn(move || {
        let mut kept: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("accept");
            // Like a real server: it speaks after it was spoken to.
            let _ = stream.read(&mut [0; 8]);
            let _ = stream.write_all(greeting);
            kept.push(stream);
        }
    });
    address
}

pub(crate) fn stop_for(pid: u32, length: Duration) {
    signal(pid, "STOP");
    thread::sleep(length);
    signal(pid, "CONT");
}

#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "no {what} within {DEADLINE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
pub(crate) fn file_has<const N: usize>(file: impl AsRef<Path>, parts: [&str; N]) {
    testkit::assert_has(std::fs::read_to_string(file).expect("a text"), parts);
}

/// The only run in `dir/runs`.
#[track_caller]
pub(crate) fn only_run(dir: &Path) -> PathBuf {
    let runs = std::fs::read_dir(dir.join(RUNS)).expect("runs").map(|entry| entry.expect("entry").path());
    testkit::only(&runs.filter(|path| path.is_dir()).collect::<Vec<_>>()).clone()
}

/// The record of the only run in `dir/runs`.
#[track_caller]
pub(crate) fn record(dir: &Path) -> serde_json::Value {
    read_json(&only_run(dir).join("run.json"))
}

pub(crate) fn read_json(path: &Path) -> serde_json::Value {
    let text = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Lines of a run's series so far.
pub(crate) fn seconds_recorded(dir: &Path) -> usize {
    let Ok(runs) = std::fs::read_dir(dir.join(RUNS)) else { return 0 };
    let series = runs.flatten().map(|e| e.path().join("series.jsonl"));
    series.filter_map(|p| std::fs::read_to_string(p).ok()).map(|t| t.lines().count()).sum()
}

/// A folder of the test's own; it ends with this.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl<T: ?Sized> AsRef<T> for Folder
where
    Path: AsRef<T>,
{
    fn as_ref(&self) -> &T {
        self.path().as_ref()
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn folder() -> Folder {
    Folder(tempfile::tempdir().expect("temporary folder"))
}

/// An embedded broker, and the folder that it and the test work in.
pub(crate) fn broker_in_folder() -> (Broker, Folder) {
    let dir = folder();
    (Broker::start(&dir), dir)
}

/// The data of a page.
pub(crate) fn page(path: &Path) -> serde_json::Value {
    page_parts(path).0
}

/// The data of a page, and the numbers behind it.
pub(crate) fn page_parts(path: &Path) -> (serde_json::Value, Vec<u8>) {
    use base64::Engine as _;
    let text = std::fs::read_to_string(path).expect("a report");
    let (_, rest) = text.split_once("<div id=\"data\" data-page=").expect("data");
    let (_, rest) = rest.split_once(" hidden><!--").expect("data");
    let (packed, _) = rest.split_once("-->").expect("its end");
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).expect("base64");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip");
    let (length, rest) = bytes.split_at(4);
    let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
    let (json, numbers) = rest.split_at(length);
    (serde_json::from_slice(json).expect("JSON"), numbers.to_vec())
}

/// The first of a list of objects that has this value.
pub(crate) fn named<'a>(
    list: &'a serde_json::Value,
    key: &str,
    value: impl Into<serde_json::Value>,
) -> &'a serde_json::Value {
    let value = value.into();
    let found = list.as_array().and_then(|all| all.iter().find(|it| it[key] == value));
    found.unwrap_or_else(|| panic!("no {key} {value} in {list:#}"))
}

/// A figure of a comparison.
pub(crate) fn figure<'a>(compared: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    named(&compared["figures"], "name", name)
}

pub(crate) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

pub(crate) fn free_port() -> u16 {
    listener().1.port()
}

/// Lines of a request's head by which RabbitMQ's management API knows its guest.
pub(crate) const AS_GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// The answer, head and body, to a request of this first line and these further lines.
pub(crate) fn ask_page(port: u16, request: &str, more: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    write!(stream, "{request}\r\nHost: localhost\r\n{more}\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Whether the management API tells its queues.
pub(crate) fn ask_for_queues(port: u16) -> bool {
    ask_page(port, "GET /api/queues HTTP/1.0", AS_GUEST).is_ok_and(|answer| answer.contains(" 200 "))
}

/// The folder of runs in `dir/runs` that holds this file, and the end of its name, which names it, too.
pub(crate) fn kept_with(dir: &Path, file: &str) -> (PathBuf, String) {
    let folder = folder_with(dir, file).expect("a folder");
    let end = folder.to_str().and_then(|it| it.rsplit('-').next()).expect("a name").to_owned();
    (folder, end)
}

/// The folder of runs in `dir/runs` that holds this file.
pub(crate) fn folder_with(dir: &Path, file: &str) -> Option<PathBuf> {
    let mut found = std::fs::read_dir(dir.join(RUNS)).ok()?.flatten().map(|it| it.path());
    found.find(|path| path.join(file).is_file())
}
