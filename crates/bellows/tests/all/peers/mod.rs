//! Others' clients of AMQP 1.0 at our broker, and scripted peers of our client and our broker. `make prove
//! PARTS=clients` runs them, with what `scripts/setup prove` has fetched into `.tools`. By hand:
//!
//! ```text
//! bellows broker --listen 127.0.0.1:5699 &
//! bellows client --url amqp://127.0.0.1:5699 --protocol amqp10 --consumers 0 \
//!     --message-count 3 --message-size 1000 queue://drained
//! echo drained 127.0.0.1:5699 | java -cp '.tools/test-driver/*:.tools/artemis/lib/*' \
//!     crates/bellows/tests/all/peers/Scripts.java
//! ```

use crate::common;
use crate::common::capture::Capture;

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use testkit::ChildGuard;

use common::{Broker, Ended, folder, words};

/// Debian's Python, for which `scripts/setup test` installs qpid-proton.
const PYTHON: &str = "/usr/bin/python3";

/// A file or folder that `scripts/setup prove` has put into `.tools`.
fn tool(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools").join(name);
    path.canonicalize().map_err(|_| format!("no .tools/{name}; scripts/setup prove"))
}

/// A program, where it can be started.
fn program(mut command: Command, probe: &[&str]) -> Result<Command, String> {
    let name = command.get_program().to_owned();
    let has_ended = Command::new(&name).args(probe).output().is_ok_and(|it| it.status.success());
    command.stdin(Stdio::null());
    has_ended.then_some(command).ok_or_else(|| format!("{} {probe:?} does not run", name.display()))
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all").join(name)
}

/// A client that takes messages off a queue and sends each there again. Its arguments: URL, queue, number, size.
type Relay = fn() -> Result<Command, String>;

const RELAYS: [(&str, Relay); 4] = [("rhea", rhea), ("go-amqp", go_amqp), ("Qpid JMS", qpid_jms), ("Proton", proton)];

fn rhea() -> Result<Command, String> {
    let mut node = program(Command::new("node"), &["--version"])?;
    node.env("NODE_PATH", tool("rhea/node_modules")?).arg(source("peers/relay.js"));
    Ok(node)
}

fn go_amqp() -> Result<Command, String> {
    let mut go = program(Command::new("go"), &["version"])?;
    go.env("GOMODCACHE", tool("go")?).env("GOPROXY", "off").current_dir(source("peers")).args(["run", "."]);
    Ok(go)
}

/// Artemis' own JMS client.
fn qpid_jms() -> Result<Command, String> {
    let mut java = program(testkit::java("java"), &["-version"])?;
    java.arg("-cp").arg(tool("artemis/lib")?.join("*")).arg(source("peers/Relay.java"));
    Ok(java)
}

fn proton() -> Result<Command, String> {
    let mut python = program(Command::new(PYTHON), &["-c", "import proton"])?;
    python.arg(source("commands/relay.py"));
    Ok(python)
}

/// Whether a relay can be started; says loudly where not.
fn is_here((name, relay): &(&str, Relay)) -> bool {
    let Err(reason) = relay() else { return true };
    assert!(std::env::var_os("CI").is_none(), "CI allows no skipped test: {reason}");
    eprintln!("SKIPPED {name}: {reason}");
    false
}

/// The words of `bellows client` over AMQP 1.0, without a run that is kept.
fn client(dir: &Path, url: &str, more: &str) -> Ended {
    let line = format!("client --url {url} --protocol amqp10 --no-archive --quiet --json {more}");
    common::run(dir, &words(&line))
}

/// Messages go from `bellows client` through the broker to a relay, and the same way back.
fn relay(broker: &Broker, dir: &Path, relay: Relay, count: u64, size: u64) {
    let more = format!("--consumers 0 --max-pending 10 --message-count {count} --message-size {size} queue://relay");
    client(dir, &broker.url, &more).assert_ok();
    let mut command = relay().expect("it was here");
    command.arg(format!("amqp://guest:guest@{}", broker.address())).arg("relay");
    command.args([count, size].map(|it| format!("{it}")));
    common::start(command).end().assert_ok();
    let summary = client(dir, &broker.url, &format!("--producers 0 --message-count {count} queue://relay")).json();
    let messages = &summary["scenarios"]["messages"];
    // Those with the header that fits their length have a latency.
    let counts = [&messages["received"]["total"], &messages["latency"]["end_to_end"]["count"]];
    assert_eq!(counts.map(Value::as_u64), [Some(count); 2], "{messages:#}");
}

#[test]
#[ignore = "needs what scripts/setup prove fetches: make prove"]
fn clients_of_others_take_and_send_again_what_our_client_sends_and_takes() {
    let (broker, dir) = &common::broker_in_folder();
    let relays: Vec<_> = RELAYS.into_iter().filter(is_here).collect();
    let play = |count, size| {
        for (name, it) in &relays {
            eprintln!("{name}: {count} messages of {size} bytes");
            relay(broker, dir, *it, count, size);
        }
    };
    // In many frames, which Wireshark does not join.
    play(20, 300_000);
    let capture = Capture::start(dir);
    play(500, 1_000);
    let sent = testkit::or_skip!(capture).end("port");
    // Each message goes four ways.
    assert!(sent.errors.is_empty() && sent.transfers > 1_900 * relays.len(), "{sent:#?}");
}

/// Qpid's test driver, which plays the scripts of `Scripts.java`.
struct Driver {
    _java: ChildGuard,
    scripts: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    fn start() -> Result<Self, String> {
        let mut java = program(testkit::java("java"), &["-version"])?;
        let classes = format!("{}/*:{}/*", tool("test-driver")?.display(), tool("artemis/lib")?.display());
        java.args(["-cp", &classes]).arg(source("peers/Scripts.java")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut java = ChildGuard(java.spawn().expect("it starts"));
        let (scripts, stdout) = (java.stdin.take().expect("piped"), java.stdout.take().expect("piped"));
        Ok(Self { _java: java, scripts, lines: BufReader::new(stdout).lines() })
    }

    /// The next line that is an answer.
    fn answer(&mut self) -> String {
        let is_one = |line: &String| ["port ", "passed", "FAILED"].iter().any(|it| line.starts_with(it));
        self.lines.by_ref().map_while(Result::ok).find(is_one).expect("an answer of Scripts.java")
    }

    fn play(&mut self, script: &str) -> String {
        writeln!(self.scripts, "{script}").expect("it listens");
        self.answer()
    }
}

/// How a load ends on a scripted server.
enum End {
    /// Well, with so many messages sent, confirmed and received.
    Counts([u64; 3]),
    /// In an error that says this.
    Error(&'static str),
}

use End::{Counts, Error};

/// A server's script, options of `bellows client` there, and the end.
type Case = (&'static str, &'static str, End);

const SENDS: &str = "--consumers 0 --message-count 10 --max-pending 10";
const TAKES: &str = "--producers 0 --message-count 3 --prefetch 10";
const SERVERS: [Case; 28] = [
    ("accepted", SENDS, Counts([10, 10, 0])),
    ("second", SENDS, Counts([10, 10, 0])),
    ("ranges", SENDS, Counts([10, 10, 0])),
    ("rejected", SENDS, Counts([10, 0, 0])),
    // All but the two that are refused.
    ("outcomes", SENDS, Counts([10, 8, 0])),
    ("credit_of_one", "--consumers 0 --message-count 4 --max-pending 1 --message-size 2000", Counts([4, 4, 0])),
    ("revoked", SENDS, Counts([10, 10, 0])),
    ("drained", "--consumers 0 --message-count 10 --no-confirm", Counts([10, 0, 0])),
    ("idle", SENDS, Counts([10, 10, 0])),
    ("echoes", SENDS, Counts([10, 10, 0])),
    ("detached", SENDS, Error("detached the link: cannot send to q any more: amqp:resource-deleted (gone)")),
    ("suspended", SENDS, Error("detached the link: cannot send to q any more: the broker gave no reason")),
    ("ended", SENDS, Error("detached the link: cannot send to q any more: amqp:internal-error (why not)")),
    ("closed", SENDS, Error("amqp:connection:forced (maintenance)")),
    ("refused", SENDS, Error("amqp:not-found (no such queue)")),
    ("never_sent", SENDS, Error("deliveries 0 to 1000000, not all of which were sent")),
    ("begun_early", SENDS, Error("amqp:begin:list came instead of the answer to opening the connection")),
    ("closed_early", SENDS, Error("amqp:not-allowed (no such host)")),
    ("stranger", SENDS, Error("wrong user or password, SASL outcome 1")),
    ("busy", SENDS, Error("the server asks to try again later, SASL outcome 4")),
    ("other_mechanism", SENDS, Error("offers the login mechanisms \"SCRAM-SHA-256\", not PLAIN")),
    ("parts", TAKES, Counts([0, 0, 3])),
    ("settled", "--producers 0 --message-count 6 --prefetch 4", Counts([0, 0, 6])),
    ("odd", TAKES, Counts([0, 0, 3])),
    ("halfway", TAKES, Error("cannot receive from q any more: amqp:resource-deleted (gone)")),
    ("gap", TAKES, Error("unexpected delivery")),
    ("unattached", TAKES, Error("unexpected transfer on link 9")),
    ("silent", "", Error("nothing heard from the peer for ")),
];

/// The load of the script `silent`, since no option of `client` sets heartbeats.
const SILENT: &str = "
broker = { kind = 'attach', heartbeat = 1 }
phases = { warmup = 0, measure = '20s', drain = '1s' }
profile.events = []
[[load]]
protocol = 'amqp10'
destination = 'queue://q'
declare = false
consumers = 0
";

#[test]
#[ignore = "needs what scripts/setup prove fetches: make prove"]
fn scripted_servers_are_loaded_by_the_rules() {
    let mut driver = testkit::or_skip!(Driver::start());
    let dir = &*folder();
    fs::write(dir.join("silent.toml"), SILENT).expect("write");
    for (script, options, end) in SERVERS {
        eprintln!("{script}");
        let answer = driver.play(script);
        let port = answer.strip_prefix("port ").expect("a port");
        let url = format!("amqp://u:p@127.0.0.1:{port}");
        let ended = if script == "silent" {
            common::run(dir, &words(&format!("run silent.toml --quiet --json --set broker.url={url}")))
        } else {
            client(dir, &url, &format!("--no-declare {options} queue://q"))
        };
        assert_eq!(driver.answer(), "passed", "{script}: {ended:#?}");
        match end {
            Error(part) => {
                ended.assert_error(1, &[part]);
            }
            Counts(counts) => {
                let messages = &ended.json()["scenarios"]["messages"];
                let totals = ["sent", "completed", "received"].map(|key| messages[key]["total"].as_u64());
                assert_eq!(totals, counts.map(Some), "{script}: {messages:#}");
            }
        }
    }
}

const CLIENTS: [&str; 14] = [
    "accepted",
    "parts",
    "window",
    "credit_of_one",
    "drained",
    "outcomes",
    "returned",
    "refused",
    "transactions",
    "idle",
    "stranger",
    "begun_early",
    "unattached",
    "attached_twice",
];

#[test]
#[ignore = "needs what scripts/setup prove fetches: make prove"]
fn scripted_clients_are_served_by_the_rules() {
    let mut driver = testkit::or_skip!(Driver::start());
    let (broker, dir) = &common::broker_in_folder();
    for script in CLIENTS {
        eprintln!("{script}");
        let filling = format!("--consumers 0 --message-count 3 --message-size 1000 queue://{script}");
        client(dir, &broker.url, &filling).assert_ok();
        assert_eq!(driver.play(&format!("{script} {}", broker.address())), "passed", "{script}");
    }
}
