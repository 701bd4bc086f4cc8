//! Java virtual machines.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stacks::{FrameKind, Profile};

use crate::Options;

use crate::tests::sampling::child::Process;
use crate::tests::sampling::{
    NOBODY, assert_three_to_one, attach, burn, compile, not_root, profile_for, refused, sample_while, share,
};

const FRAME_POINTERS: &str = "-XX:+PreserveFramePointer";

/// A JVM that runs `Known.java`, killed when it goes out of scope.
struct Jvm {
    process: Process,
    /// The process of the JVM, which the other may have started.
    pid: u32,
    _dir: tempfile::TempDir,
}

impl Jvm {
    fn start(options: &[&str]) -> Result<Self, String> {
        Self::start_by(Command::new("java"), options, None)
    }

    /// By a command that ends in `java`, as this user or another; why not where there is no Java compiler.
    fn start_by(mut java: Command, options: &[&str], uid: Option<u32>) -> Result<Self, String> {
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
        let process = Process::run_as(java, uid)?;
        assert_eq!(process.printed, [""; 0]);
        Ok(Self { pid: process.pid(), process, _dir: dir })
    }

    fn map(&self) -> PathBuf {
        format!("/tmp/perf-{}.map", self.pid).into()
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
        let _ = std::fs::remove_file(self.map());
        let _ = std::fs::remove_file(format!("/tmp/.java_pid{}", self.pid));
    }
}

macro_rules! jvm {
    ($($option:expr),*) => {{
        testkit::skip_for!(refused());
        testkit::or_skip!(Jvm::start(&[$($option),*]))
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
        let mut jvm = testkit::or_skip!(Jvm::start(&options));
        let (profile, outcome) = profile_for(jvm.pid, Duration::from_millis(300));
        assert!(profile.samples.len() > 100);
        let mut notes = outcome.notes.iter();
        let note = notes.next().map_or("", String::as_str);
        assert!(notes.next().is_none(), "{outcome:?}");
        match told {
            Some(option) => assert!(note.contains(option), "{outcome:?}"),
            None => assert_eq!(note, ""),
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
fn a_map_that_was_there_stays() {
    let jvm = jvm!(FRAME_POINTERS);
    // Somebody else's tool had it written.
    let jcmd = Command::new("jcmd").arg(jvm.pid.to_string()).arg("Compiler.perfmap").output();
    assert!(jcmd.unwrap().status.success());
    let (profile, _) = profile_for(jvm.pid, Duration::from_millis(800));
    assert_known(&profile);
    assert!(jvm.map().exists());
}

#[test]
fn profiles_of_one_jvm_share_its_map() {
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
}

#[test]
fn a_jvm_of_another_user_is_asked_by_root() {
    testkit::skip_for!(refused());
    testkit::skip_for!(not_root("start a process of another user"));
    let jvm = testkit::or_skip!(Jvm::start_by(Command::new("java"), &[FRAME_POINTERS], Some(NOBODY)));
    let (profile, outcome) = profile_for(jvm.pid, Duration::from_millis(800));
    assert!(outcome.notes.is_empty(), "{outcome:?}");
    assert_known(&profile);
    assert!(!jvm.map().exists());
}

#[test]
fn a_jvm_in_a_container_has_names() {
    testkit::skip_for!(refused());
    let mut command = testkit::or_skip!(crate::tests::sampling::erlang::contained());
    // With a /tmp of its own.
    let script = "mount -t tmpfs none /tmp && exec java \"$@\"";
    command.args(["-m", "sh", "-c", script, "java"]);
    let mut jvm = testkit::or_skip!(Jvm::start_by(command, &[FRAME_POINTERS], None));
    jvm.pid = crate::tests::sampling::erlang::child_of(jvm.pid);
    let inner = linux::Status::of(jvm.pid).unwrap().inner_pid;
    assert_ne!(inner, jvm.pid);
    let (profile, outcome) = profile_for(jvm.pid, Duration::from_millis(800));
    assert!(outcome.notes.is_empty(), "{outcome:?}");
    assert_known(&profile);
    let inside = format!("/proc/{}/root/tmp/perf-{inner}.map", jvm.pid);
    assert!(!Path::new(&inside).exists());
}

#[test]
fn a_jvm_that_hangs_is_not_waited_for_without_end() {
    let jvm = jvm!(FRAME_POINTERS);
    let pid = rustix::process::Pid::from_raw(jvm.pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let sampler = attach(jvm.pid, &dir.path().join("cpu.stacks")).unwrap();
    let outcome = sampler.stop().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(outcome.notes.iter().any(|it| it.contains("hangs")), "{outcome:?}");
}
