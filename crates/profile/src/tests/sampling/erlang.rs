//! Erlang nodes of the system's own build, which is stripped and keeps no frame pointers.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::tests::sampling::child::{Process, Program, contained};
use crate::tests::sampling::events::{needs_tracepoints, while_doing};
use crate::tests::sampling::{
    NOBODY, assert_three_to_one, burn, compile, for_everybody, not_root, profile_for, refused, share,
};
use stacks::{Profile, WorkBy};

/// Makes the JIT write its map, and chain frames.
const MAP: &str = "+JPperf map";

/// Starts a node that runs a function of `known.erl`, by a command that ends in `erl`, with more flags, as this user or
/// another; says why not where Erlang is missing.
fn start(mut command: Command, function: &str, flags: &str, uid: Option<u32>) -> Result<Program, String> {
    let dir = tempfile::tempdir().unwrap();
    compile("known.erl", Command::new("erlc").arg("-o"), dir.path())
        .map_err(|error| format!("erlc (package erlang-base): {error}"))?;
    if let Some(uid) = uid {
        std::os::unix::fs::chown(dir.path(), Some(uid), Some(uid)).unwrap();
    }
    command.args(flags.split_whitespace());
    command.args(["+S", "1:1", "-noshell", "-s", "known", function, "-pa"]);
    command.arg(dir.path()).env("HOME", dir.path());
    Program::run(command, uid, dir)
}

pub(crate) fn cannot_copy() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("stacks are copied on x86-64 alone".into());
    }
    refused().or_else(|| not_root("load programs into the kernel"))
}

macro_rules! node {
    ($function:expr, $flags:expr) => {{
        testkit::skip_for!(cannot_copy());
        testkit::or_skip!(start(Command::new("erl"), $function, $flags, None))
    }};
}

/// Samples that may lack their root: those of the first hundredths of a second, before anybody knows where a
/// thread's stack begins, and those in the instants in which a process has let go of one heap and not taken the
/// next. A busy machine makes both longer, and neither comes near this share.
const MOST_INCOMPLETE: f64 = 0.01;

fn assert_whole(profile: &Profile, outcome: &Outcome) {
    let summary = profile.summary(3);
    let incomplete = 1.0 - summary.complete_share;
    assert!(incomplete <= MOST_INCOMPLETE, "{summary:?} {outcome:?}");
    assert!(summary.copied_share > 0.99, "{summary:?}");
    let bytes = summary.copied_bytes;
    assert!((100..16_000).contains(&bytes), "{bytes} bytes a sample");
}

/// Its stacks are whole, its functions have names, and shares are those that the work is made of.
fn assert_known(node: &Program) {
    let (profile, outcome) = profile_for(node.pid, Duration::from_secs(2));
    assert_whole(&profile, &outcome);
    let summary = profile.summary(3);
    assert!(summary.unknown_share < 0.01, "{summary:?}");
    let below = share(&profile, "$known:loop/3");
    assert!(below > 0.95, "{below} below the loop");
    for (three, one) in [
        ("$known:three_selects/1", "$known:one_select/1"),
        ("$known:three_matches/1", "$known:one_match/1"),
        ("$known:three_packs/1", "$known:one_pack/1"),
    ] {
        let (three, one) = (share(&profile, three), share(&profile, one));
        let both = (three + one) * outcome.samples as f64;
        assert!(both > 20.0, "{three} and {one}");
        assert_three_to_one(three / (three + one), one / (three + one), both);
    }
    // Each caller stands at the line of its call.
    let lines = profile.by_line();
    for (line, called) in [(101, "$known:three_selects/1"), (104, "$known:one_match/1"), (105, "$known:three_packs/1")]
    {
        let at = share(&lines, &format!("$known:loop/3 known.erl:{line}"));
        let of = share(&profile, called);
        assert!((at - of).abs() < 0.01, "line {line}: {at}, {called}: {of}");
    }
    // Nearly all of it is native code, at the leaf, and none of it is Erlang's root.
    let native = |name: &str| share(&profile, name);
    assert!(native("db_match_dbterm_uncompressed") > 0.02);
    let strays = profile.samples.iter().filter(|sample| {
        let stack = profile.stack(sample.stack);
        let calls = |name: &str| stack.iter().any(|frame| frame.name.ends_with(name));
        calls("db_match_dbterm_uncompressed") && !calls("$known:selects/2")
    });
    let strays = strays.count() as f64 / profile.samples.len() as f64;
    assert!(strays < 0.01, "{strays} of the matches have no caller");
}

#[test]
fn native_code_stands_below_the_erlang_functions_that_called_it() {
    assert_known(&node!("start", MAP));
}

#[test]
fn a_node_that_writes_no_map_has_names_and_whole_stacks_too() {
    let node = node!("start", "");
    assert_known(&node);
    assert!(!node.map().exists());
}

/// A module that is loaded again and again gets the memory of one that was purged.
#[test]
fn functions_of_modules_that_are_loaded_meanwhile_have_their_own_names() {
    for flags in [MAP, ""] {
        let node = node!("rounds", flags);
        let (profile, outcome) = profile_for(node.pid, Duration::from_secs(1));
        assert_whole(&profile, &outcome);
        let summary = profile.summary(3);
        assert!(summary.unknown_share < 0.01, "{summary:?}");
        let round = |sample: &stacks::Sample| {
            profile
                .stack(sample.stack)
                .into_iter()
                .find_map(|it| it.name.strip_prefix("$late:round_")?.split('/').next()?.parse::<u32>().ok())
        };
        let mut samples: Vec<_> = profile.samples.iter().collect();
        samples.sort_by_key(|sample| sample.t);
        let rounds: Vec<u32> = samples.into_iter().filter_map(round).collect();
        let share = rounds.len() as f64 / profile.samples.len() as f64;
        // A node on a full machine has few rounds in a second.
        let (first, last) = (rounds[0], *rounds.last().unwrap());
        assert!(share > 0.5 && last > first + 1, "{flags}: {share}: {first} to {last}");
        // Those of the instant in which names are looked up may have the name of what was there before.
        let early = rounds.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(early <= 2, "{flags}: {early} go back: {rounds:?}");
    }
}

#[test]
fn the_work_of_two_processes_of_the_same_code_is_told_apart() {
    // With frame pointers and without: who runs does not depend on how stacks are walked.
    for flags in [MAP, ""] {
        let node = node!("turns", flags);
        let [three, one] = node.process.printed.as_slice() else {
            panic!("{:?}", node.process.printed);
        };
        let (profile, outcome) = profile_for(node.pid, Duration::from_secs(1));
        let work = profile.work_shares(WorkBy::Process, usize::MAX);
        let share = |id: &str| work.iter().find(|it| it.of == id).map_or(0.0, |it| it.share);
        let (three, one) = (share(three), share(one));
        assert!(three + one > 0.97, "{three} and {one} of all: {work:?}");
        assert_three_to_one(three / (three + one), one / (three + one), outcome.samples as f64);
        // Nobody else works, and nobody who is not there.
        assert!(work.len() < 40, "{work:?}");
    }
}

/// Of each of these events, what must be true of a node that asks for memory.
#[test]
fn events_other_than_the_clock_have_whole_stacks_too() {
    needs_tracepoints!();
    let node = node!("pages", &format!("{MAP} +MMmcs 0"));
    let events = ["mmap", "mmap-bytes", "page-faults", "off-cpu"];
    let [mmap, bytes, faults, off_cpu] = while_doing(node.pid, events, || burn(node.pid, Duration::from_secs(2)));
    for (profile, outcome) in [&mmap, &bytes, &faults] {
        let summary = profile.summary(3);
        // How often a node asks for memory in two seconds is the machine's matter: 20 times where it is busy.
        assert!(summary.samples > 10, "{summary:?} {outcome:?}");
        assert!(summary.copied_share > 0.95, "{summary:?}");
        assert!(summary.complete_share > 0.95, "{summary:?}");
        let below = share(profile, "$known:copies/1");
        assert!(below > 0.9, "{below} of {}", profile.header.event);
        assert!(!profile.processes.is_empty());
    }
    let each = bytes.0.total_weight() / bytes.0.samples.len() as u64;
    assert!((1 << 20..512 << 20).contains(&each), "{each} bytes a call");
    // The thread that reads files waits up to a hundred times a second.
    let summary = off_cpu.0.summary(3);
    assert!(summary.samples > 20 && summary.copied_share > 0.95, "{summary:?}");
}

#[test]
fn calls_of_a_node_in_a_container_are_its_own() {
    needs_tracepoints!();
    testkit::skip_for!(cannot_copy());
    let mut command = testkit::or_skip!(contained());
    command.arg("erl");
    let flags = format!("{MAP} +MMmcs 0");
    let node = testkit::or_skip!(start(command, "pages", &flags, None));
    let inner = linux::Status::of(node.pid).unwrap().inner_pid;
    assert_ne!(inner, node.pid);
    // Another process outside that asks for memory, too.
    let other = node!("pages", &flags);
    let [(profile, _)] = while_doing(node.pid, ["mmap"], || burn(node.pid, Duration::from_secs(1)));
    drop(other);
    let _ = std::fs::remove_file(format!("/tmp/perf-{inner}.map"));
    let summary = profile.summary(3);
    assert!(summary.samples > 10, "{summary:?}");
    assert!(summary.complete_share > 0.95, "{summary:?}");
    let below = share(&profile, "$known:copies/1");
    assert!(below > 0.9, "{below}");
}

#[test]
fn in_a_container_with_its_node_the_profiler_gets_whole_stacks() {
    testkit::skip_for!(cannot_copy());
    // Two of the tests above, in a namespace of their own.
    for test in [
        "tests::sampling::erlang::native_code_stands_below_the_erlang_functions_that_called_it",
        "tests::sampling::erlang::events_other_than_the_clock_have_whole_stacks_too",
    ] {
        assert_passes_in(testkit::or_skip!(contained()), test);
    }
}

pub(crate) fn assert_passes_in(mut command: Command, test: &str) {
    command.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success() && text[0].contains("1 passed"), "{}", text.join("\n"));
}

#[test]
fn a_user_who_may_not_copy_gets_frame_pointers_and_is_told() {
    testkit::skip_for!(refused());
    testkit::skip_for!(not_root("start a process of another user"));
    let node = testkit::or_skip!(start(Command::new("erl"), "start", MAP, Some(NOBODY)));
    let (dir, exe) = for_everybody(NOBODY);
    let file = dir.path().join("out/cpu.stacks");
    let role = format!("profiler {} 999 {}", node.pid, file.display());
    let mut profiler = Process::start_as(&exe, &role, Some(NOBODY));
    profiler.expect("started");
    std::thread::sleep(Duration::from_millis(500));
    let outcome = profiler.tell("stop", "outcome");
    assert!(outcome.contains("frame pointers alone"), "{outcome}");
    let summary = Profile::open(&file).unwrap().summary(0);
    assert!(summary.samples > 0);
    assert_eq!((summary.frame_pointer_share, summary.copied_bytes), (1.0, 0));
}

#[test]
fn a_profiler_that_is_killed_leaves_no_program_in_the_kernel() {
    needs_tracepoints!();
    let node = node!("start", MAP);
    for event in ["cpu", "syscalls:sys_enter_futex", "off-cpu"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stacks");
        let role = format!("profiler {} 999 {} - {event}", node.pid, file.display());
        let mut profiler = Process::start(&role);
        profiler.expect("started");
        let programs = programs_of(profiler.pid());
        let least = if event == "off-cpu" { 2 } else { 1 };
        assert!(programs.len() >= least, "{programs:?}");
        assert!(programs.iter().all(|it| is_loaded(*it)));
        profiler.kill();
        let started = Instant::now();
        while programs.iter().any(|it| is_loaded(*it)) {
            assert!(started.elapsed() < Duration::from_secs(30), "it stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn programs_of(pid: u32) -> BTreeSet<u32> {
    let programs = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten().filter_map(|file| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    });
    programs.collect()
}

#[allow(unsafe_code)]
fn is_loaded(program: u32) -> bool {
    use std::os::fd::FromRawFd as _;
    /// The number of `BPF_PROG_GET_FD_BY_ID`.
    const BY_NUMBER: libc::c_long = 13;
    let attributes = [program, 0, 0];
    // SAFETY: the attributes are as long as is said, hold no pointer, and are only read.
    let fd = unsafe {
        let size = size_of_val(&attributes);
        libc::syscall(libc::SYS_bpf, BY_NUMBER, attributes.as_ptr(), size)
    };
    let Ok(fd) = i32::try_from(fd) else { return false };
    if fd >= 0 {
        // SAFETY: the kernel has just made it, and it is closed at once.
        drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) });
    }
    fd >= 0
}
