//! Every example in the help of `bellows erlang`'s commands works on a real RabbitMQ.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{folder, managed};

const COMMANDS: [&str; 8] = [
    "info", "top", "alloc", "queues", "trace", "calls", "memory", "time",
];

/// What stands in an example, and what is run instead: the same with less time.
const INSTEAD: [(&str, &str); 9] = [
    ("--for 30s", "--for 4s"),
    ("--for 5s", "--for 1s"),
    ("--for 60", "--for 1"),
    ("--every 10s", "--every 1s"),
    ("--every 5s", "--every 1s"),
    ("--every 2s", "--every 1s"),
    ("--count 10", "--count 2"),
    ("--count 6", "--count 2"),
    ("127.0.0.1:9420", "127.0.0.1:0"),
];

/// The commands that the help of one command shows.
fn examples(command: &str) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_bellows"))
        .args(["erlang", command, "--help"])
        .env("COLUMNS", "400")
        .output();
    let help = String::from_utf8(help.expect("help").stdout).expect("text");
    let (_, shown) = help.split_once("\nExamples:\n").expect("examples");
    shown
        .lines()
        .take_while(|line| line.starts_with("  "))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// The same example for a node of that name.
fn for_node(example: &str, node: &str) -> String {
    let mut line = example.replace("rabbit@localhost", node);
    for (long, short) in INSTEAD {
        line = line.replace(long, short);
    }
    // What goes on until somebody ends it: reading on, a page, a trace that nobody's calls end.
    let ends = ["--once", "--count"].iter().any(|it| line.contains(it));
    let goes_on = ["--every", "--listen", " top "]
        .iter()
        .any(|it| line.contains(it))
        && !ends
        || (line.contains(" trace ") && !line.contains("--for"));
    if goes_on {
        // The signal is what a person's Ctrl-C sends.
        line = format!("timeout --preserve-status --signal INT 3 {line}");
    }
    line
}

fn works(dir: &Path, example: &str, node: &str) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let program = Path::new(env!("CARGO_BIN_EXE_bellows"));
    let folder = program.parent().expect("a folder").display();
    let line = for_node(example, node);
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(dir);
    shell
        .stdin(Stdio::null())
        .env("PATH", format!("{folder}:{path}"));
    let ended = common::start(shell).end();
    // One profile needs a younger node than Debian's, and says so.
    let is_too_old = ended.stderr.contains("OTP 26") || ended.stderr.contains("OTP/26");
    if ended.code() == Some(0) || (example.contains(" memory ") && is_too_old) {
        return Ok(());
    }
    Err(format!(
        "{line}\n  ended with {:?}\n{}{}",
        ended.code(),
        ended.stdout,
        ended.stderr
    ))
}

#[test]
fn every_example_of_help_works() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let dir = folder();
    let (rabbit, _) = managed::with_management();
    let node = rabbit.erlang().expect("access").node;
    let mut failed = Vec::new();
    let mut tried = 0;
    for command in COMMANDS {
        for example in examples(command) {
            // A node elsewhere, over TLS, which `tls.rs` has.
            if example.contains("example.org") {
                continue;
            }
            tried += 1;
            failed.extend(works(dir.path(), &example, node.name()).err());
        }
    }
    rabbit.stop().expect("an end");
    assert!(tried > 25, "only {tried} examples were found");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
