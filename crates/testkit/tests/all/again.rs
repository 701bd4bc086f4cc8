//! `scripts/test` before a cargo of our own making: what is run again, what fails at once, and what runs beside the
//! tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
};

/// Writes down what it was asked, and leaves the report of the first or the second run.
const CARGO: &str = include_str!("../data/cargo.sh");

/// A run of the script in a checkout of its own.
struct Run {
    place: PathBuf,
    arguments: Vec<&'static str>,
    /// Whether what is built compiles.
    compiles: bool,
    /// Tests of the first run and of the second, and whether they pass.
    first: Vec<(&'static str, bool)>,
    second: Vec<(&'static str, bool)>,
    /// Tests that never began in the first run, and how they end when they run.
    late: Vec<(&'static str, bool)>,
}

/// How it ended.
struct Ended {
    /// Its calls of cargo, in this order.
    asked: Vec<String>,
    output: Output,
    /// The file that names tests which needed a second run.
    twice: Option<String>,
}

impl Ended {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    #[track_caller]
    fn assert_code(&self, code: i32) {
        assert_eq!(self.output.status.code(), Some(code), "{}", self.said());
    }
}

/// The report of a run, and its code.
fn report(tests: &[(&str, bool)]) -> (String, &'static str) {
    let case = |(name, passes): &(&str, bool)| {
        let failure = if *passes { "" } else { "<failure/>" };
        format!("<testcase name='{name}' time='1.5'>{failure}</testcase>")
    };
    let cases: String = tests.iter().map(case).collect();
    let passes = tests.iter().all(|(_, passes)| *passes);
    let text = format!("<testsuites><testsuite name='x::all'>{cases}</testsuite></testsuites>");
    (text, if passes { "0" } else { "100" })
}

impl Run {
    fn new(name: &str, first: &[(&'static str, bool)]) -> Self {
        Self {
            place: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
            arguments: Vec::new(),
            compiles: true,
            first: first.to_vec(),
            second: Vec::new(),
            late: Vec::new(),
        }
    }

    fn end(&self) -> Ended {
        // A program that another thread starts meanwhile would hold the script open for writing, so that it cannot be
        // run.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock();
        let place = &self.place;
        let _ = fs::remove_dir_all(place);
        let (programs, scripts) = (place.join("programs"), place.join("scripts"));
        fs::create_dir_all(&programs).unwrap();
        fs::create_dir_all(&scripts).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        fs::copy(root.join("scripts/test"), scripts.join("test")).unwrap();
        let [first, second, late] = [&self.first, &self.second, &self.late].map(|it| report(it));
        let built = if self.compiles { "0" } else { "101" };
        let listed = (self.first.iter().chain(&self.late))
            .map(|(name, _)| format!(r#""{name}": {{"filter-match": {{"status": "matches"}}}}"#))
            .collect::<Vec<_>>()
            .join(", ");
        let suite = format!(r#"{{"binary-id": "x::all", "testcases": {{{listed}}}}}"#);
        let listed = format!(r#"{{"rust-suites": {{"x::all": {suite}}}}}"#);
        for (file, text) in [
            ("cargo", CARGO),
            ("built-code", built),
            ("listed", &listed),
            ("first.xml", &first.0),
            ("first-code", first.1),
            ("second.xml", &second.0),
            ("second-code", second.1),
            ("late.xml", &late.0),
            ("late-code", late.1),
        ] {
            fs::write(programs.join(file), text).unwrap();
        }
        let cargo = programs.join("cargo");
        fs::set_permissions(cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.display());
        let mut command = Command::new(scripts.join("test"));
        let command = command.args(&self.arguments).env("PATH", path);
        let output = command.env_remove("CARGO_TARGET_DIR").output().unwrap();
        let asked = fs::read_to_string(programs.join("asked")).unwrap_or_default();
        Ended {
            asked: asked.lines().map(str::to_owned).collect(),
            output,
            twice: fs::read_to_string(place.join("tests-run-twice.txt")).ok(),
        }
    }
}

#[test]
fn all_tests_run_once_and_the_slowest_are_named() {
    let mut run = Run::new("again-once", &[("a::rate", true), ("b::stall", true)]);
    run.arguments = vec!["-E", "all()"];
    let ended = run.end();
    ended.assert_code(0);
    assert_eq!(ended.asked[0], "test --workspace --no-run");
    assert_eq!(ended.asked.len(), 2, "{:?}", ended.asked);
    assert!(ended.asked[1].ends_with(" -E all()"), "{:?}", ended.asked);
    assert!(ended.said().contains("1.5 s  x::all b::stall"));
    assert_eq!(ended.twice, None);
}

#[test]
fn what_passes_by_itself_is_named_and_what_fails_twice_fails() {
    let tests = [("a::rate", false), ("b::stall", true), ("c::proof", false)];
    let mut run = Run::new("again-twice", &tests);
    run.second = vec![("a::rate", true), ("c::proof", true)];
    let ended = run.end();
    ended.assert_code(0);
    let again = "nextest run --workspace -j 1 --run-ignored all -E (binary_id(=x::all) & test(=a::rate)) \
                 + (binary_id(=x::all) & test(=c::proof))";
    assert_eq!(ended.asked[3], again);
    assert_eq!(ended.twice.as_deref(), Some("x::all a::rate\nx::all c::proof\n"));
    let said = "passed when run once more: x::all a::rate";
    assert!(ended.said().contains(said), "{}", ended.said());

    run.second = vec![("a::rate", true), ("c::proof", false)];
    let ended = run.end();
    ended.assert_code(100);
    assert_eq!(ended.twice.as_deref(), Some("x::all a::rate\n"));
    assert!(ended.said().contains("failed twice: x::all c::proof"));
}

/// A signal to nextest ends its run before all tests began.
#[test]
fn tests_that_never_began_run_and_what_fails_of_all_runs_again() {
    let mut run = Run::new("again-early", &[("a", true), ("b", false)]);
    run.late = vec![("c", true), ("d", false)];
    run.second = vec![("b", true), ("d", true)];
    let ended = run.end();
    ended.assert_code(0);
    let said = ended.said();
    assert!(said.contains("before 2 tests began: they run now"), "{said}");
    let late = "-E (binary_id(=x::all) & test(=c)) + (binary_id(=x::all) & test(=d))";
    assert!(ended.asked[3].ends_with(late), "{:?}", ended.asked);
    assert_eq!(ended.twice.as_deref(), Some("x::all b\nx::all d\n"));

    run.second[1].1 = false;
    run.end().assert_code(100);
    // Whoever wants it to end at the first failure gets that.
    run.arguments = vec!["--fail-fast"];
    run.second.pop();
    let ended = run.end();
    ended.assert_code(100);
    assert_eq!(ended.asked.len(), 2, "{:?}", ended.asked);
}

#[test]
fn many_failures_and_what_does_not_compile_fail_at_once() {
    let names = std::array::from_fn::<_, 21, _>(|at| &"abcdefghijklmnopqrstu"[at..=at]);
    let run = Run::new("again-many", &names.map(|name| (name, false)));
    let ended = run.end();
    ended.assert_code(100);
    assert_eq!(ended.asked.len(), 3, "{:?}", ended.asked);
    let mut run = Run::new("again-built", &[]);
    run.compiles = false;
    let ended = run.end();
    ended.assert_code(1);
    assert_eq!(ended.asked.len(), 1, "{:?}", ended.asked);
}

#[test]
fn what_runs_beside_the_tests_is_shown_behind_them_and_fails_them() {
    let mut run = Run::new("again-beside", &[("a", true)]);
    run.arguments = vec!["--beside", "echo of the lint", "--beside", "exit 3"];
    let ended = run.end();
    ended.assert_code(1);
    let said = ended.said();
    let (before, behind) = said.split_once("of the lint\n").unwrap();
    assert!(before.contains("the slowest"), "{said}");
    assert!(behind.contains("failed: exit 3"), "{said}");
    run.arguments.truncate(2);
    run.end().assert_code(0);
}
