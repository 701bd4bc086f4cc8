//! Foreign input: passwords that no output repeats, text that no terminal obeys, and archives that nobody waits for.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Broker, Ended, bellows, folder, run, start};

/// All output of a command: both streams, and each file below its folder.
fn left(dir: &Path, ended: &Ended) -> String {
    fn below(dir: &Path, text: &mut String) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            text.push_str(&format!("\n=== {}\n", path.display()));
            if path.is_dir() {
                below(&path, text);
            } else if path.extension().is_none_or(|e| e != "toml") {
                text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()));
            }
        }
    }
    let mut text = format!("{}\n{}", ended.stdout, ended.stderr);
    below(dir, &mut text);
    text
}

/// A password of all characters that a URL, a terminal or a file gives a meaning to.
fn passwords() -> Vec<String> {
    let marks = ["/", "#", "?", ":", "@", "%", " ", ",", "=", "&", "日", "\u{1b}[", "\n", "\u{202e}"];
    let one = |mark: &&str| format!("s3cret{mark}s3cret");
    let mut all: Vec<String> = marks.iter().map(one).collect();
    all.push(marks.map(|mark| format!("{mark}s3cret")).concat());
    all
}

fn encoded(password: &str) -> String {
    password.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn assert_hidden(password: &str, dir: &Path, ended: &Ended, line: &[&str]) {
    let left = left(dir, ended);
    for secret in ["s3cret", password, encoded(password).as_str()] {
        assert!(!left.contains(secret), "{secret:?} of {line:?} is in {left}");
    }
    assert!(!left.contains("panicked"), "{left}");
}

#[test]
fn no_command_repeats_a_password_that_it_cannot_use() {
    let all = passwords();
    for password in &all {
        // Behind percent signs all characters look alike: one password has them all.
        let is_last = all.last() == Some(password);
        let behind = is_last.then(|| encoded(password));
        for written in [password.clone()].into_iter().chain(behind) {
            let url = format!("amqp://me:{written}@127.0.0.1:1/v");
            let dir = &*folder();
            let quoted = toml_text(&url);
            let file = format!("[broker]\nkind = 'attach'\nurl = {quoted}\n[[load]]\ndestination = 'queue://x'\n");
            fs::write(dir.join("x.toml"), file).expect("file");
            let set = format!("broker.url={quoted}");
            let hostless = format!("amqp://me:{written}");
            let oauth2 = format!("http://me:{written}@127.0.0.1:1/token");
            let lines: [&[&str]; 11] = [
                &["client", &url],
                &["artemis", "perf", "client", &url],
                &["client", "queue://x", "--url", &url],
                &["client", "queue://x", "--url", &hostless],
                &["client", "queue://x", "--url", &format!("me:{written}@127.0.0.1")],
                &["churn", "connections", "--url", &url],
                &["perf-test", "-h", &url, "-z", "1"],
                &["perf-test", "-H", &format!("{url},{url}"), "-z", "1", "stray"],
                &["artemis", "perf", "client", "--url", &url],
                &["run", "x.toml"],
                &["run", "embedded", "--set", "broker.kind=attach", "--set", &set],
            ];
            for line in lines {
                // Without a host, what follows an @ cannot be told from one.
                if line.last() == Some(&hostless.as_str()) && written.contains('@') {
                    continue;
                }
                let ended = run(dir, line);
                assert_ne!(ended.code(), Some(0), "{line:?}");
                assert_hidden(password, dir, &ended, line);
            }
            let args = ["client", "--oauth2-uri", &oauth2, "--oauth2-client-id", "x", "--url", "amqp://h"];
            let ended = start(bellows(dir, &args).env("BELLOWS_OAUTH2_CLIENT_SECRET", password)).end();
            assert_ne!(ended.code(), Some(0));
            assert_hidden(password, dir, &ended, &[&oauth2]);
        }
    }
}

/// A text in TOML's quotes.
fn toml_text(text: &str) -> String {
    let escaped: String = text.chars().map(|c| format!("\\U{:08X}", c as u32)).collect();
    format!("\"{escaped}\"")
}

#[test]
fn no_file_of_a_run_holds_a_secret() {
    let dir = folder();
    let broker = Broker::start(dir.path());
    // The embedded broker knows one user; what else is secret stands where it is not used.
    let url = format!("amqp://guest:guest@{}", broker.address());
    let consumers = format!("{url}?x=s3cret#s3cret");
    let other = format!("amqp://guest:s3cret@{}", broker.address());
    for line in [
        format!(
            "client queue://x --url {url} --password guest --consumer-url {consumers} --rate 100 --duration 1 --quiet"
        ),
        format!("client --url {other} --password guest --message-count 10"),
        format!("perf-test -h {url} -z 1 -u y -r 100"),
        format!("artemis perf client --url {url} --password=guest --rate 100 --duration 1"),
    ] {
        let dir = &*folder();
        let left = left(dir, &run(dir, &common::words(&line)).ok());
        // A password stands in the command, too.
        assert!(!["s3cret", "guest:guest", "\"guest\""].iter().any(|it| left.contains(it)), "{line}");
    }
    let with_env = |more: &str| {
        let line = format!("client --url {} {more}", broker.url);
        start(bellows(&dir, &common::words(&line)).env("BELLOWS_PASSWORD", "s3cret-in-env")).end()
    };
    let refused = with_env("--duration 1");
    refused.assert_error(1, &["cannot log in to amqp://guest@", "403"]);
    for ended in [refused, with_env("--help")] {
        testkit::assert_lacks(left(&dir, &ended), ["s3cret"]);
    }
}

#[test]
fn a_foreign_archive_neither_hangs_nor_moves_the_cursor() {
    let dir = &*folder();
    let runs = dir.join("runs");
    for name in ["a-pipe", "a-device", "escapes"] {
        fs::create_dir_all(runs.join(name)).expect("folder");
    }
    assert!(Command::new("mkfifo").arg(runs.join("a-pipe/run.json")).status().is_ok_and(|made| made.success()));
    std::os::unix::fs::symlink("/dev/zero", runs.join("a-device/run.json")).expect("link");
    let broker = Broker::start(dir);
    let made = folder();
    let args = ["client", "queue://x", "--url", &broker.url, "--rate", "100", "--duration", "1", "--quiet"];
    run(made.path(), &args).assert_ok();
    let mut record = common::record(&made);
    let bad = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\nfake";
    for key in ["created", "id", "name"] {
        record[key] = bad.into();
    }
    record["summary"]["broker"]["version"] = bad.into();
    fs::write(runs.join("escapes/run.json"), record.to_string()).expect("record");
    for args in [&["runs"][..], &["runs", "--json"], &["runs", "report", "a-pipe"], &["top", "escapes"]] {
        let ended = run(dir, args);
        assert!(ended.took.as_secs() < 20, "{args:?}: {ended:?}");
        let told = ended.stdout + &ended.stderr;
        let obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!told.contains(obeyed), "{args:?}: {told:?}");
        assert!(!told.lines().any(|line| line.starts_with("fake")), "{told:?}");
        assert!(args != ["runs"] || told.contains("no regular file"), "{told}");
    }
}

/// `script` gives the command a terminal of its own; `stty` then shows its settings.
#[test]
fn ctrl_c_at_the_question_for_a_secret_leaves_a_terminal_that_echoes() {
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;
    if Command::new("script").arg("--version").output().is_err() {
        testkit::skip!("script (util-linux) is not installed");
    }
    let dir = &*folder();
    let line = format!(
        "trap : INT; {} client --oauth2-uri http://127.0.0.1:1/ --oauth2-client-id x; stty -a",
        env!("CARGO_BIN_EXE_bellows")
    );
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(dir).env("SHELL", "/bin/sh");
    script.env_remove("BELLOWS_OAUTH2_CLIENT_SECRET").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("script");
    let mut stdout = script.stdout.take().expect("piped");
    let mut told = Vec::new();
    let asked = |told: &[u8]| String::from_utf8_lossy(told).contains("secret of OAuth 2 client x");
    let mut bytes = [0; 1_000];
    while !asked(&told) {
        let read = stdout.read(&mut bytes).expect("read");
        assert!(read > 0, "no question: {}", String::from_utf8_lossy(&told));
        told.extend_from_slice(&bytes[..read]);
    }
    // The question is written just before the echo goes.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut stdin = script.stdin.take().expect("piped");
    stdin.write_all(b"\x03").expect("Ctrl-C");
    stdin.flush().expect("Ctrl-C");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("read");
    drop(stdin);
    script.wait().expect("wait");
    let words: Vec<_> = rest.split_whitespace().collect();
    assert!(words.contains(&"echo") && !words.contains(&"-echo"), "{rest}");
}
