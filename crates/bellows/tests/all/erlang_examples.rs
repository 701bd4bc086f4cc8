//! Every example in the help of `bellows erlang`'s commands works on a real RabbitMQ.

use crate::common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{bellows, managed};

/// Commands that follow or count calls, of which a node before OTP 27 allows one at a time, and others to run beside
/// them.
const COMMANDS: [[&str; 3]; 2] = [["trace", "calls", "memory"], ["info", "top", "queues"]];

/// Parts of examples and their replacements, which take less time.
const INSTEAD: [(&str, &str); 9] = [
    ("--duration 30s", "--duration 4s"),
    ("--duration 5s", "--duration 1s"),
    ("--duration 60", "--duration 1"),
    ("--every 10s", "--every 1s"),
    ("--every 5s", "--every 1s"),
    ("--every 2s", "--every 1s"),
    ("--count 10", "--count 2"),
    ("--count 6", "--count 2"),
    ("127.0.0.1:9420", "127.0.0.1:0"),
];

/// The commands that the help of one command shows.
fn examples(command: &str) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_bellows")).args(["erlang", command, "--help"]).output();
    let help = String::from_utf8(help.expect("help").stdout).expect("text");
    let (_, shown) = help.split_once("\nExamples:\n").expect("examples");
    let mut examples: Vec<String> = Vec::new();
    for line in shown.lines().take_while(|line| line.starts_with("  ")) {
        let line = line.trim();
        match examples.last_mut().filter(|_| !line.starts_with("bellows ")) {
            // The screen was too narrow for it.
            Some(last) => *last = format!("{last} {line}"),
            None => examples.push(line.to_owned()),
        }
    }
    examples
}

fn for_node(example: &str, node: &str) -> String {
    let mut line = example.replace("rabbit@localhost", node);
    for (long, short) in INSTEAD {
        line = line.replace(long, short);
    }
    // What goes on until somebody ends it: reading on, a page, a trace that nobody's calls end.
    let ends = ["--once", "--count"].iter().any(|it| line.contains(it));
    let goes_on = ["--every", "--listen", " top "].iter().any(|it| line.contains(it)) && !ends
        || (line.contains(" trace ") && !line.contains("--duration "));
    if goes_on {
        // The signal is what a person's Ctrl-C sends; without the option it comes twice, which ends it at once.
        line = format!("timeout --foreground --preserve-status --signal INT 3 {line}");
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
    shell.stdin(Stdio::null()).env("PATH", format!("{folder}:{path}"));
    let ended = common::start(shell).end();
    // One profile needs a younger node than Debian's, and says so.
    let is_too_old = ended.stderr.contains("OTP 26") || ended.stderr.contains("OTP/26");
    // Where others have the cores, nobody asks for queues in the quarter of a second of a short trace.
    let saw_nothing = ended.stderr.contains("there are no stacks to draw");
    let is_excused = (example.contains(" memory ") && is_too_old) || (example.contains(" -o ") && saw_nothing);
    if ended.code() == Some(0) || is_excused {
        return Ok(());
    }
    Err(format!("{line}\n  ended with {:?}\n{}{}", ended.code(), ended.stdout, ended.stderr))
}

#[test]
fn every_example_of_help_works() {
    let (dir, rabbit) = &managed::shared!();
    let management = rabbit.management();
    let node = rabbit.erlang().node;
    // Somebody works with the node, and looks at it.
    let load = ["client", "queue://work", "--rate", "100", "--quiet", "--url"];
    let url = rabbit.url();
    let load = common::start(bellows(dir.path(), &[&load[..], &[&url]].concat()));
    let asked = AtomicBool::new(true);
    let failed = thread::scope(|scope| {
        scope.spawn(|| {
            while asked.load(Ordering::Relaxed) {
                // What it answers is not what this is about.
                common::ask_for_queues(management);
                thread::sleep(Duration::from_millis(200));
            }
        });
        let try_all = |commands| {
            let (dir, node) = (dir.path(), node.name());
            scope.spawn(move || try_all(dir, node, commands))
        };
        let failed = COMMANDS.map(try_all).map(|it| it.join().expect("ends"));
        asked.store(false, Ordering::Relaxed);
        failed.concat()
    });
    load.signal("INT");
    load.end_of_long();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Examples that fail, with their output.
fn try_all(dir: &Path, node: &str, commands: [&str; 3]) -> Vec<String> {
    let mut failed = Vec::new();
    let mut tried = 0;
    for command in commands {
        for example in examples(command) {
            // A node elsewhere, over TLS, which `tls.rs` has.
            if example.contains("example.org") {
                continue;
            }
            tried += 1;
            failed.extend(works(dir, &example, node).err());
        }
    }
    assert!(tried > 10, "only {tried} examples were found");
    failed
}
