//! Java virtual machines.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stacks::{FrameKind, Profile};

use crate::Options;
use crate::tests::sampling::child::{Program, contained};
use crate::tests::sampling::{
    NOBODY, assert_three_to_one, attach, burn, compile, not_root, profile_for, refused, sample_while, share,
};

const FRAME_POINTERS: &str = "-XX:+PreserveFramePointer";

/// Starts a JVM that runs `Known.java`, by a command that ends in `java`, as this user or another; says why not where
/// there is no Java compiler.
fn start(mut java: Command, options: &[&str], uid: Option<u32>) -> Result<Program, String> {
    use std::os::unix::fs::PermissionsExt as _;
    // Not in /tmp, which a container has of its own.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut javac = testkit::java("javac");
    compile("Known.java", javac.arg("-d"), dir.path())
        .map_err(|error| format!("javac: {error} (scripts/setup test installs default-jdk-headless)"))?;
    java.args(options);
    java.args(["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Known::*"]);
    java.arg("-cp").arg(dir.path()).arg("Known");
    let jvm = Program::run(java, uid, dir)?;
    assert_eq!(jvm.process.printed, [""; 0]);
    Ok(jvm)
}

macro_rules! jvm {
    ($($option:expr),*) => {{
        testkit::skip_for!(refused());
        testkit::or_skip!(start(Command::new("java"), &[$($option),*], None))
    }};
}

/// Stacks reach their roots, functions have names, and shares are those that the work is made of.
fn assert_known(profile: &Profile) {
    let summary = profile.summary(5);
    assert!(summary.complete_share >= 0.95, "{summary:?}");
    assert!(summary.unknown_share < 0.01, "{summary:?}");
    // The JIT's own threads work beside those of the program.
    let all = share(profile, "Known.work");
    let (three, one) = (share(profile, "Known.threeParts") / all, share(profile, "Known.onePart") / all);
    assert_three_to_one(three, one, profile.samples.len() as f64 * all);
    assert!(all > 0.9, "{all}");
    let known = profile.frames.iter().find(|it| it.name == "Known.spin");
    assert_eq!(known.unwrap().kind, FrameKind::Java);
}

fn assert_is_named(jvm: &Program) {
    let (profile, outcome) = profile_for(jvm.pid, Duration::from_millis(800));
    assert!(outcome.notes.is_empty(), "{outcome:?}");
    assert_known(&profile);
}

#[test]
fn methods_compiled_while_sampling_have_names_too() {
    let mut jvm = jvm!(FRAME_POINTERS);
    let pid = jvm.pid;
    let (profile, outcome) = sample_while(pid, &Options::default(), || {
        burn(pid, Duration::from_millis(300));
        // It turns to methods that it has never run.
        jvm.process.say("");
        burn(pid, Duration::from_millis(1500));
    });
    assert_eq!(profile.samples.len() as u64, outcome.samples);
    let summary = profile.summary(5);
    assert!(summary.unknown_share < 0.01, "{summary:?} {outcome:?}");
    let late = share(&profile, "Known.late");
    assert!(late > 0.6, "{late} {summary:?}");
    assert!(share(&profile, "Known.work") > 0.05, "what ran before is still named");
    assert!(!jvm.map().exists());
}

#[test]
fn a_jvm_without_frame_pointers_is_named_with_the_remedy() {
    let jvm = jvm!();
    let (_, outcome) = profile_for(jvm.pid, Duration::from_millis(300));
    let told: Vec<_> = outcome.notes.iter().filter(|it| it.contains(FRAME_POINTERS)).collect();
    assert_eq!(told.len(), 1, "{outcome:?}");
}

/// The signal that asks a JVM for its socket would end it, or have it print its stacks.
#[test]
fn a_jvm_that_takes_no_orders_is_left_alone() {
    const DISABLED: &str = "-XX:+DisableAttachMechanism";
    for (options, told) in [
        (vec![FRAME_POINTERS, DISABLED], Some(DISABLED)),
        (vec![FRAME_POINTERS, "-Xrs", DISABLED], Some("-Xrs")),
        // Without the signal it opens its socket from the start.
        (vec![FRAME_POINTERS, "-Xrs"], None),
    ] {
        testkit::skip_for!(refused());
        let mut jvm = testkit::or_skip!(start(Command::new("java"), &options, None));
        let (profile, outcome) = profile_for(jvm.pid, Duration::from_millis(300));
        assert!(profile.samples.len() > 100);
        match (told, outcome.notes.as_slice()) {
            (None, []) => {}
            (Some(option), [note]) if note.contains(option) => {}
            _ => panic!("{outcome:?}"),
        }
        assert!(jvm.process.child.try_wait().unwrap().is_none(), "{options:?}");
        assert!(!jvm.map().exists());
        jvm.process.kill();
        let mut rest = String::new();
        jvm.process.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{options:?}");
    }
}

#[test]
fn profiles_of_one_jvm_share_its_map_and_one_that_was_there_stays() {
    let jvm = jvm!(FRAME_POINTERS);
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| dir.path().join(name));
    let mut samplers = paths.each_ref().map(|path| attach(jvm.pid, path).unwrap());
    samplers.iter_mut().for_each(|it| it.start().unwrap());
    burn(jvm.pid, Duration::from_millis(800));
    let [first, second] = samplers;
    let outcome = first.stop().unwrap();
    assert!(outcome.notes.is_empty(), "{outcome:?}");
    assert!(jvm.map().exists(), "the second still needs it");
    second.stop().unwrap();
    assert!(!jvm.map().exists());
    paths.iter().for_each(|path| assert_known(&Profile::open(path).unwrap()));
    // Somebody else's tool has it written.
    let jcmd = Command::new("jcmd").arg(jvm.pid.to_string()).arg("Compiler.perfmap").output();
    assert!(jcmd.unwrap().status.success());
    let (profile, _) = profile_for(jvm.pid, Duration::from_millis(800));
    assert_known(&profile);
    assert!(jvm.map().exists());
}

#[test]
fn a_jvm_of_another_user_is_asked_by_root() {
    testkit::skip_for!(refused());
    testkit::skip_for!(not_root("start a process of another user"));
    let jvm = testkit::or_skip!(start(Command::new("java"), &[FRAME_POINTERS], Some(NOBODY)));
    assert_is_named(&jvm);
    assert!(!jvm.map().exists());
}

#[test]
fn a_jvm_in_a_container_has_names() {
    testkit::skip_for!(refused());
    let mut command = testkit::or_skip!(contained());
    // With a /tmp of its own.
    let script = "mount -t tmpfs none /tmp && exec java \"$@\"";
    command.args(["-m", "sh", "-c", script, "java"]);
    let jvm = testkit::or_skip!(start(command, &[FRAME_POINTERS], None));
    let inner = linux::Status::of(jvm.pid).unwrap().inner_pid;
    assert_ne!(inner, jvm.pid);
    assert_is_named(&jvm);
    let inside = format!("/proc/{}/root/tmp/perf-{inner}.map", jvm.pid);
    assert!(!Path::new(&inside).exists());
}

#[test]
fn a_jvm_that_hangs_is_not_waited_for_without_end() {
    let jvm = jvm!(FRAME_POINTERS);
    testkit::signal(jvm.pid, "STOP");
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let sampler = attach(jvm.pid, &dir.path().join("cpu.stacks")).unwrap();
    let outcome = sampler.stop().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(outcome.notes.iter().any(|it| it.contains("hangs")), "{outcome:?}");
}
