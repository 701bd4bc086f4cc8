//! `scripts/test` before a cargo of our own making: what is run again, and what fails at once.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    sync::Mutex,
};

/// Prints what stands in the file of the program that it is asked for, and `second` when it runs one test; writes down
/// what it was asked.
const CARGO: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >> "$here/asked"
for last; do :; done
case "$*" in
*--no-run*) cat "$here/built"; exit "$(cat "$here/built-code")" ;;
*--exact*) cat "$here/second"; exit "$(cat "$here/second-code")" ;;
*) [ ! -e "$here/$last" ] || { cat "$here/$last"; exit 101; } ;;
esac
"#;

/// What cargo names when it has built, and its option for each.
const BUILT: [(&str, &str); 5] = [
    ("unittests src/lib.rs", "--lib"),
    ("tests/rates.rs", "--test=rates"),
    ("tests/stalls.rs", "--test=stalls"),
    ("tests/proof/main.rs", "--test=proof"),
    ("tests/docs/main.rs", "--test=docs"),
];

/// A program that fails with these tests; one without any crashes.
type Failing<'a> = (&'a str, &'a [&'a str]);

/// What cargo prints of it.
fn printed((option, tests): &Failing<'_>) -> String {
    let name = |it: &&(&str, &str)| it.1 == *option;
    let (running, _) = BUILT.iter().find(name).unwrap();
    let mut text = format!("     Running {running} (target/debug/deps/x-0)\n\ntest fine ... ok\n");
    for test in *tests {
        text += &format!("test {test} ... FAILED\n");
    }
    text + &format!("error: 1 target failed:\n    `-p x {option}`\n")
}

/// How a run of the script ended.
struct Ended {
    /// What it asked of cargo, in this order.
    asked: Vec<String>,
    output: Output,
}

impl Ended {
    /// What was run once more.
    fn again(&self) -> String {
        let again = self.asked.iter().filter(|it| it.contains("--exact"));
        again.cloned().collect::<Vec<_>>().join("\n")
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// Runs the script in a folder of its own, where building ends with a code, and so does what is run a second time.
fn run(name: &str, failing: &[Failing<'_>], built: &str, (second, code): (&str, &str)) -> Ended {
    // A program that another thread starts meanwhile would hold the script open for writing, so that it cannot be run.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&place);
    let (programs, scripts) = (place.join("programs"), place.join("scripts"));
    fs::create_dir_all(&programs).unwrap();
    fs::create_dir_all(&scripts).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test");
    fs::copy(script, scripts.join("test")).unwrap();
    let executable = |it: &(&str, &str)| format!("  Executable {} (target/debug/deps/x-0)\n", it.0);
    // Crates share names of programs.
    let all: String = BUILT.iter().chain(&BUILT[..2]).map(executable).collect();
    let of_programs = failing.iter().map(|it| (it.0, printed(it)));
    let files = [
        ("cargo", CARGO.to_owned()),
        ("built", all),
        ("built-code", built.to_owned()),
        ("second", second.to_owned()),
        ("second-code", code.to_owned()),
    ];
    for (file, text) in files.into_iter().chain(of_programs) {
        fs::write(programs.join(file), text).unwrap();
    }
    let cargo = programs.join("cargo");
    fs::set_permissions(cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let mut command = Command::new(scripts.join("test"));
    let output = command.env("PATH", path).output().unwrap();
    let asked = fs::read_to_string(programs.join("asked")).unwrap();
    let asked = asked.lines().map(str::to_owned).collect();
    Ended { asked, output }
}

#[test]
fn every_program_runs_once_and_those_that_measure_come_last_one_by_one() {
    let ended = run("again-lanes", &[], "0", ("", "0"));
    assert!(ended.output.status.success(), "{}", ended.said());
    assert_eq!(ended.asked[0], "test --workspace --no-run");
    let ran: Vec<&str> = ended.asked[1..]
        .iter()
        .map(|it| it.strip_prefix("test --workspace --no-fail-fast ").unwrap())
        .collect();
    let mut sorted = ran.clone();
    sorted.sort_unstable();
    let mut expected: Vec<&str> = BUILT.iter().map(|it| it.1).chain(["--doc"]).collect();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    let (beside, alone) = ran.split_at(ran.len() - 3);
    assert_eq!(
        alone,
        ["--test=stalls", "--test=proof", "--test=docs"],
        "they measure, {beside:?} does not"
    );
}

#[test]
fn what_fails_is_run_once_more_by_itself_and_named() {
    let failing: &[Failing<'_>] = &[
        ("--lib", &["a::b"]),
        ("--test=rates", &["a_rate_is_kept"]),
        ("--test=stalls", &["exact"]),
    ];
    let ok = "test a::b ... ok\ntest a_rate_is_kept ... ok\ntest exact ... ok\n";
    let ended = run("again-passes", failing, "0", (ok, "0"));
    assert!(ended.output.status.success(), "{}", ended.said());
    let mut again: Vec<String> = ended.again().lines().map(str::to_owned).collect();
    // Programs that run side by side end in any order.
    again.sort();
    assert_eq!(
        again,
        [
            "test --workspace --lib -- --exact a::b",
            "test --workspace --test=rates -- --exact a_rate_is_kept",
            "test --workspace --test=stalls -- --exact exact"
        ]
    );
    let said = ended.said();
    assert!(said.contains("passed by itself: a_rate_is_kept"), "{said}");
    let shown = String::from_utf8_lossy(&ended.output.stdout).into_owned();
    assert!(shown.contains("test a::b ... FAILED"), "{shown}");

    // One that fails again, and one that is not there any more.
    for second in [
        ("test a::b ... FAILED\n", "101"),
        ("running 0 tests\n", "0"),
    ] {
        let ended = run("again-fails", failing, "0", second);
        let said = ended.said();
        assert_eq!(ended.output.status.code(), Some(1), "{said}");
        assert!(said.contains("failed twice: exact"), "{said}");
    }
}

#[test]
fn crashes_many_failures_and_errors_of_the_compiler_fail_at_once() {
    let tests: &[&str] = &["a", "b", "c", "d", "e", "f"];
    let cases: [(&[Failing<'_>], &str); 3] = [
        (&[("--test=rates", tests)], "0"),
        (&[("--test=rates", &["a"]), ("--test=proof", &[])], "0"),
        (&[], "101"),
    ];
    for (failing, built) in cases {
        let ended = run("at-once", failing, built, ("test a ... ok\n", "0"));
        let code = ended.output.status.code();
        assert_eq!((code, ended.again().as_str()), (Some(1), ""), "{failing:?}");
    }
}
