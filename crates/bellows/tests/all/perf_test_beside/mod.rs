//! `bellows perf-test` beside PerfTest itself: both play the command lines of `tests/data/perf-test/beside.tsv`, each
//! on an embedded broker of its own behind a tap, and what the table names of each is compared.

mod compared;
mod tap;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use compared::{agree, compared};
use tap::{Seen, Tap};

use crate::common::{self, Broker, folder, free_port};
use crate::perf_test::as_now;

const FILES: [(&str, &str); 3] =
    [("a.json", "{\"order\": 1}"), ("b.txt", "a longer body"), ("names.txt", "first\nsecond\n")];

/// Words of the table that determine how a line is played.
const HOW: [&str; 3] = ["any-exit", "cut", "late"];

/// Command lines played at once; most of the time they wait.
const AT_ONCE: usize = 5;

#[derive(Debug)]
struct PlayedLine {
    line: String,
    compared: Vec<String>,
}

impl PlayedLine {
    fn has(&self, word: &str) -> bool {
        self.compared.iter().any(|compared| compared == word)
    }
}

#[derive(Debug)]
pub(crate) struct Played {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    csv: String,
    page: String,
    /// Socket buffers of its connections, from the kernel.
    buffers: Vec<String>,
    seen: Seen,
    /// When all connections were cut.
    cut: Option<Duration>,
}

fn jars() -> Option<PathBuf> {
    let jars = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/perf-test");
    jars.exists().then_some(jars)
}

/// PerfTest in a JVM that starts fast: speed is not compared.
fn perf_test(jars: &Path, dir: &Path) -> Command {
    let mut java = Command::new("java");
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m", "-cp"]);
    java.arg(jars.join("*")).arg("com.rabbitmq.perf.PerfTest");
    java.current_dir(dir);
    java
}

fn rows() -> Vec<PlayedLine> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf-test/beside.tsv");
    let text = fs::read_to_string(path).expect("the table");
    let only = std::env::var("BELLOWS_BESIDE").unwrap_or_default();
    let rows = text.lines().filter(|row| !row.starts_with('#') && row.contains(&only));
    let row = |row: &str| {
        let mut cells = row.split('\t').skip(1);
        let mut cell = || cells.next().unwrap_or_else(|| panic!("no cell: {row}"));
        PlayedLine { line: cell().to_owned(), compared: cell().split(' ').map(str::to_owned).collect() }
    };
    rows.map(row).collect()
}

/// Its rate, its counts, its queues, its messages: what the table says of each command line. Where one fails, that one
/// is played alone by BELLOWS_BESIDE with a part of its row.
#[test]
#[ignore = "PerfTest itself, from Maven Central: make prove"]
fn it_does_what_perf_test_does_beside_it() {
    let jars = testkit::or_skip!(jars().ok_or("no PerfTest in .tools/perf-test: scripts/setup prove brings it"));
    let rows = Mutex::new(rows());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = rows.lock().expect("rows").pop();
                    let Some(row) = next else { return };
                    if differences(&row, &jars).is_some() {
                        failed.lock().expect("failed").push(row);
                    }
                }
            });
        }
    });
    // A busy machine had no time for one of both: by itself it has.
    let failed = failed.into_inner().expect("failed");
    let wrong: Vec<_> = failed.iter().filter_map(|row| differences(row, &jars)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn differences(row: &PlayedLine, jars: &Path) -> Option<String> {
    let play_by = |program: &(dyn Fn(&Path) -> Command + Sync)| {
        let dir = &*folder();
        play(row, dir, program(dir))
    };
    let (ours, theirs) = thread::scope(|scope| {
        let ours = scope.spawn(|| play_by(&|dir: &Path| common::bellows(dir, &["perf-test"])));
        let mut theirs = play_by(&|dir: &Path| perf_test(jars, dir));
        theirs.stdout = as_now(&theirs.stdout);
        (ours.join().expect("ours"), theirs)
    });
    let exit = ["exit"].into_iter().filter(|_| !row.has("any-exit"));
    let words = exit.chain(row.compared.iter().map(String::as_str));
    let words = words.filter(|word| !HOW.contains(word));
    let differ = words.filter_map(|word| {
        let [ours, theirs] = [&ours, &theirs].map(|play| compared(word, play));
        (!agree(&ours, &theirs)).then(|| format!("  {word}: {ours:?}\n  PerfTest: {theirs:?}"))
    });
    let differ: Vec<_> = differ.collect();
    (!differ.is_empty()).then(|| {
        let [ours, theirs] = [&ours, &theirs].map(|play| format!("{}{}", play.stdout, play.stderr));
        format!("{}\n{}\nours:\n{ours}\nPerfTest:\n{theirs}", row.line, differ.join("\n"))
    })
}

fn play(row: &PlayedLine, dir: &Path, mut command: Command) -> Played {
    for (name, text) in FILES {
        fs::write(dir.join(name), text).expect("write");
    }
    let broker = Broker::start(dir);
    let (late, address) = match row.has("late") {
        true => (Some(free_port()), None),
        false => (None, Some(Tap::new(broker.address()))),
    };
    let tapped = address.as_ref().map(|tap| tap.address.port()).or(late);
    let (tapped, port) = (tapped.expect("a port"), free_port());
    let url = format!("amqp://127.0.0.1:{tapped}");
    let line = row.line.replace("{url}", &url);
    let line = line.replace("{port}", &port.to_string());
    if !line.split(' ').any(|word| word == "-H") {
        command.args(["-h", &url]);
    }
    command.args(line.split(' ').filter(|word| !word.is_empty()));
    let started = common::start(command);
    let tap = address.unwrap_or_else(|| {
        thread::sleep(Duration::from_millis(1_500));
        Tap::at(&format!("127.0.0.1:{tapped}"), broker.address())
    });
    let path = argument(&line, "-mpe").unwrap_or("/metrics");
    let page = row.has("page").then(|| scrape(port, path));
    let buffers = row.has("buffers").then(|| buffers(&tap));
    let cut = row.has("cut").then(|| cut(&tap));
    let ended = started.end_within(Duration::from_secs(40));
    let seen = std::mem::take(&mut *tap.seen());
    Played {
        code: ended.code(),
        stdout: ended.stdout,
        stderr: ended.stderr,
        csv: fs::read_to_string(dir.join("out.csv")).unwrap_or_default(),
        page: page.unwrap_or_default(),
        buffers: buffers.unwrap_or_default(),
        seen,
        cut,
    }
}

fn argument<'a>(line: &'a str, option: &str) -> Option<&'a str> {
    let mut words = line.split(' ').skip_while(|word| *word != option);
    words.nth(1)
}

/// The sizes of the receive and the send buffer, of each connection, when there was a message.
fn buffers(tap: &Tap) -> Vec<String> {
    common::wait_for("message", || tap.seen().of("basic.publish").next().is_some());
    let ss = Command::new("ss").args(["-tnmH", &format!("dport = :{}", tap.address.port())]).output();
    let text = String::from_utf8(ss.expect("ss").stdout).expect("text");
    let sizes = text.split(['(', ',', ')']).map(str::to_owned);
    sizes.filter(|size| size.starts_with("rb") || size.starts_with("tb")).collect()
}

/// Cuts all connections a second after the first message; returns when.
fn cut(tap: &Tap) -> Duration {
    common::wait_for("message", || tap.seen().of("basic.publish").next().is_some());
    thread::sleep(Duration::from_secs(1));
    let at = tap.seen().told.last().expect("a method").at;
    tap.cut();
    at
}

/// The page as it is when there was an interval or two.
fn scrape(port: u16, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1");
    let get = || common::ask_page(port, &request, "Connection: close\r\n");
    let since = Instant::now();
    while get().is_err() && since.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(Duration::from_millis(2_300));
    let text = get().unwrap_or_default();
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    body.to_owned()
}
