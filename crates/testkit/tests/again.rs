//! `scripts/test` before a cargo of our own making: what is run again, and what fails at once.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    sync::Mutex,
};

/// Prints `first` when it runs all tests, and `second` when it runs one; writes down what it was asked.
const CARGO: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >> "$here/asked"
case "$*" in
*--exact*) cat "$here/second"; exit "$(cat "$here/second-code")" ;;
*) cat "$here/first"; exit 101 ;;
esac
"#;

/// What cargo prints of programs that failed with these tests; a program without one crashed.
fn printed(programs: &[(&str, &str, &[&str])]) -> String {
    let mut text = String::new();
    for (running, _, tests) in programs {
        text += &format!("     Running {running} (target/debug/deps/x-0)\n\ntest fine ... ok\n");
        for test in *tests {
            text += &format!("test {test} ... FAILED\n");
        }
    }
    text += &format!("error: {} targets failed:\n", programs.len());
    for (_, target, _) in programs {
        text += &format!("    `-p x {target}`\n");
    }
    text
}

/// Runs the script in a folder of its own; what it was asked for a second time, and how it ended.
fn run(name: &str, first: &str, second: &str, code: &str) -> (String, Output) {
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
    for (file, text) in [
        ("cargo", CARGO),
        ("first", first),
        ("second", second),
        ("second-code", code),
    ] {
        fs::write(programs.join(file), text).unwrap();
    }
    let cargo = programs.join("cargo");
    fs::set_permissions(cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let output = Command::new(scripts.join("test"))
        .env("PATH", path)
        .output()
        .unwrap();
    let asked = fs::read_to_string(programs.join("asked")).unwrap();
    let again = asked.lines().skip(1).collect::<Vec<_>>().join("\n");
    (again, output)
}

#[test]
fn what_fails_is_run_once_more_by_itself_and_named() {
    let first = printed(&[
        ("unittests src/lib.rs", "--lib", &["a::b"]),
        ("tests/rates.rs", "--test rates", &["a_rate_is_kept"]),
        ("tests/proof/main.rs", "--test proof", &["exact"]),
    ]);
    let ok = "test a::b ... ok\ntest a_rate_is_kept ... ok\ntest exact ... ok\n";
    let (again, output) = run("again-passes", &first, ok, "0");
    assert!(output.status.success());
    assert_eq!(
        again,
        "test --workspace --lib -- --exact a::b\n\
         test --workspace --test=rates -- --exact a_rate_is_kept\n\
         test --workspace --test=proof -- --exact exact"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("passed by itself: a_rate_is_kept"), "{said}");

    // One that fails again, and one that is not there any more.
    for (second, code) in [
        ("test a::b ... FAILED\n", "101"),
        ("running 0 tests\n", "0"),
    ] {
        let (_, output) = run("again-fails", &first, second, code);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("failed twice: exact"), "{said}");
    }
}

#[test]
fn crashes_many_failures_and_errors_of_the_compiler_fail_at_once() {
    let tests: &[&str] = &["a", "b", "c", "d", "e", "f"];
    for first in [
        printed(&[("tests/rates.rs", "--test rates", tests)]),
        printed(&[
            ("tests/rates.rs", "--test rates", &["a"]),
            ("tests/proof/main.rs", "--test proof", &[]),
        ]),
        "error: could not compile `x`\n".to_owned(),
    ] {
        let (again, output) = run("at-once", &first, "test a ... ok\n", "0");
        assert_eq!(
            (output.status.code(), again.as_str()),
            (Some(1), ""),
            "{first}"
        );
    }
}
