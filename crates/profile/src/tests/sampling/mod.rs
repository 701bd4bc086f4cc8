//! Profiles of real processes: this test program, started again as a child whose work is known.

// All of it is test code; the children end themselves when their parent has gone.
#![allow(clippy::unwrap_used, clippy::exit)]

mod allocations;
mod allocators;
mod binaries;
mod child;
mod erlang;
mod events;
mod held;
mod java;
mod native;
mod peer;
mod wake_ups;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Options, Outcome, Sampler, Stacks};
use child::Process;
use measure::{Clock, Problem};
use rustix::process::Signal;
use stacks::{FORMATS, FrameKind, Profile, ProfileHeader, StacksWriter};

const FREQUENCY: u32 = 999;

/// Program of the children; a test without content in this process.
#[test]
fn child() {
    child::run();
}

fn attach(pid: u32, path: &Path) -> Result<Sampler, Problem> {
    attach_with(pid, path, &Options::default())
}

fn attach_with(pid: u32, path: &Path, options: &Options) -> Result<Sampler, Problem> {
    let sink = StacksWriter::create(path, ProfileHeader::new(Clock.now(), 0)).unwrap();
    Sampler::attach(pid, options, sink)
}

fn sample_while<T>(pid: u32, options: &Options, act: impl FnOnce() -> T) -> (Profile, Outcome) {
    let (_dir, path) = place();
    let mut sampler = attach_with(pid, &path, options).unwrap();
    sampler.start().unwrap();
    act();
    let outcome = sampler.stop().unwrap();
    (Profile::open_with_lines(&FORMATS, &path, None).unwrap(), outcome)
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpu.stacks");
    (dir, path)
}

fn refused() -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    attach(std::process::id(), &dir.path().join("x")).err().map(|e| e.to_string())
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/sampling").join(name)
}

/// Has `compiler` make a program of a source of this folder, in `dir`. It does so once: what it made is kept beside
/// this program, by what the source is.
fn compile(name: &str, compiler: &mut Command, dir: &Path) -> std::io::Result<()> {
    let source = source(name);
    let mut hasher = DefaultHasher::new();
    (&source, std::fs::read(&source)?).hash(&mut hasher);
    let program = std::env::current_exe()?;
    let kept = program.with_file_name(format!("compiled-{:x}", hasher.finish()));
    if !kept.exists() {
        let made = tempfile::tempdir_in(program.parent().unwrap())?;
        assert!(compiler.arg(made.path()).arg(source).status()?.success());
        // Another test may have been quicker.
        let _ = std::fs::rename(made.path(), &kept);
    }
    for file in std::fs::read_dir(kept)?.flatten() {
        std::fs::copy(file.path(), dir.join(file.file_name()))?;
    }
    Ok(())
}

/// The C compiler's output for a source of this folder, in `folder`, with these arguments.
fn compiled(name: &str, folder: &Path, arguments: &[&str]) -> PathBuf {
    let made = folder.join(name.trim_end_matches(".c"));
    let mut cc = Command::new("cc");
    cc.arg(source(name)).args(arguments).arg("-o").arg(&made);
    assert!(cc.status().unwrap().success());
    made
}

fn profile_for(pid: u32, cpu: Duration) -> (Profile, Outcome) {
    profile_by(pid, cpu, Stacks::Whole)
}

fn profile_by(pid: u32, cpu: Duration, stacks: Stacks) -> (Profile, Outcome) {
    sample_while(pid, &Options { stacks, ..Options::default() }, || burn(pid, cpu))
}

/// Waits until a process has used so much more CPU time.
fn burn(pid: u32, cpu: Duration) {
    let used = || Duration::from(linux::cpu_time(pid).expect("the process lives"));
    let (before, started) = (used(), Instant::now());
    while used() - before < cpu {
        assert!(started.elapsed() < Duration::from_secs(60), "the child gets no CPU time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sum of the total shares of the functions whose name ends so.
fn share(profile: &Profile, name: &str) -> f64 {
    let functions = profile.clone().without_lines().functions().into_iter();
    functions.filter(|f| f.share.function.ends_with(name)).map(|f| f.share.total).sum()
}

/// Asserts shares of 3 and 1 parts, within four standard deviations of counts of so many independent samples.
fn assert_three_to_one(three: f64, one: f64, samples: f64) {
    let error = 4.0 * (0.75f64 * 0.25 / samples).sqrt();
    assert!((three - 0.75).abs() < error && (one - 0.25).abs() < error, "{three} {one} +-{error}");
}

fn not_root(what: &str) -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| format!("only root can {what}"))
}

#[test]
fn functions_have_the_shares_that_they_burn() {
    testkit::skip_for!(refused());
    let child = Process::start("ratio");
    let before = linux::cpu_time(child.pid()).unwrap();
    let started = Instant::now();
    let (profile, outcome) = profile_for(child.pid(), Duration::from_millis(1500));
    let elapsed = started.elapsed().as_secs_f64();
    let burnt = linux::cpu_time(child.pid()).unwrap().saturating_sub(before);
    let samples = outcome.samples as f64;
    assert_three_to_one(share(&profile, "::three_parts"), share(&profile, "::one_part"), samples);
    assert!(share(&profile, "::work") > 0.97);
    // One sample per tick of CPU time; attaching takes some of it.
    let expected = burnt.as_secs_f64() * f64::from(FREQUENCY);
    // The timer goes on where a hypervisor takes the core, the account of CPU time does not: no more than one
    // thread can burn.
    let most = expected.max(elapsed * f64::from(FREQUENCY));
    assert!(samples < most * 1.05 && samples > expected * 0.6, "{samples} of {expected}, {most} at most");
    assert_eq!((outcome.lost, profile.samples.len() as u64), (0, outcome.samples));
    assert_eq!(profile.own_cpu_ns, outcome.own_cpu.0);
    let own = outcome.own_cpu.as_secs_f64() / elapsed;
    assert!(own < 0.03, "the profiler uses {own} of a core");
    // Everything here is built with frame pointers.
    let summary = profile.summary(5);
    assert!(summary.complete_share > 0.95, "{}", summary.complete_share);
    let (from, to) = profile.span.unwrap();
    assert!(profile.samples.iter().all(|s| s.t >= from && s.t <= to && s.weight == 1));
    assert!(profile.window(from, (from + to) / 2).samples.len() > profile.samples.len() / 4);
}

#[test]
fn kernel_frames_stand_on_top_of_the_users() {
    testkit::skip_for!(refused());
    let child = Process::start("parts");
    let (profile, _) = profile_for(child.pid(), Duration::from_millis(700));
    if !profile.header.kernel_frames {
        testkit::skip!("this user gets no kernel frames: {:?}", profile.notes);
    }
    let mut both = 0;
    for sample in &profile.samples {
        let kinds: Vec<_> = profile.stack(sample.stack).iter().map(|f| f.kind).collect();
        let first = kinds.iter().position(|&kind| kind == FrameKind::Kernel);
        let first = first.unwrap_or(kinds.len());
        assert!(kinds[first..].iter().all(|&k| k == FrameKind::Kernel || k == FrameKind::Unknown));
        both += usize::from(first > 0 && first < kinds.len());
    }
    assert!(both > 0, "reading /dev/zero was never seen");
}

#[test]
fn threads_are_seen_whenever_they_start() {
    testkit::skip_for!(refused());
    let (_dir, path) = place();
    let mut child = Process::start("threads");
    child.tell("before-attach", "started");
    let mut sampler = attach(child.pid(), &path).unwrap();
    child.tell("before-start", "started");
    sampler.start().unwrap();
    child.tell("after-start", "started");
    child.tell("short-lived", "started");
    burn(child.pid(), Duration::from_millis(900));
    let outcome = sampler.stop().unwrap();
    let profile = Profile::open(&path).unwrap();
    let count = |name: &str| {
        let is = |s: &&stacks::Sample| profile.threads[s.thread as usize] == name;
        profile.samples.iter().filter(is).count()
    };
    let names = ["before-attach", "before-start", "after-start", "short-lived"];
    for name in names {
        assert!(count(name) > 20, "{name}: {} of {}", count(name), outcome.samples);
    }
    // Three that burn for good get the same: none is counted twice.
    let (low, high) = (count(names[0]).min(count(names[1])), count(names[0]).max(count(names[1])));
    assert!(high as f64 <= low as f64 * 1.5 + 50.0, "{low} and {high}");
}

#[test]
fn a_process_that_dies_leaves_the_profile_up_to_then() {
    testkit::skip_for!(refused());
    let (_dir, path) = place();
    let mut child = Process::start("ratio");
    let mut sampler = attach(child.pid(), &path).unwrap();
    sampler.start().unwrap();
    burn(child.pid(), Duration::from_millis(300));
    assert!(!sampler.target_ended());
    child.kill();
    let killed = Instant::now();
    while !sampler.target_ended() {
        assert!(killed.elapsed() < Duration::from_secs(5), "its end is not noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
    let outcome = sampler.stop().unwrap();
    assert!(outcome.samples > 100, "{outcome:?}");
    let profile = Profile::open(&path).unwrap();
    for notes in [&outcome.notes, &profile.notes] {
        assert!(notes.iter().any(|note| note.contains("ended")), "{notes:?}");
    }
    assert!(share(&profile, "::work") > 0.9, "named although the process has gone");
    // Not waited for yet: a zombie.
    let error = attach(child.pid(), &path.with_file_name("y")).unwrap_err();
    assert_eq!(error, crate::no_such_process(child.pid()));
}

#[test]
fn a_sampler_that_was_never_started_or_stopped_leaves_a_readable_file() {
    testkit::skip_for!(refused());
    let dir = tempfile::tempdir().unwrap();
    let child = Process::start("ratio");
    let path = dir.path().join("never-started");
    let outcome = attach(child.pid(), &path).unwrap().stop().unwrap();
    assert_eq!(outcome.samples, 0);
    assert!(Profile::open(&path).unwrap().samples.is_empty());
    let path = dir.path().join("dropped");
    let mut sampler = attach(child.pid(), &path).unwrap();
    sampler.start().unwrap();
    burn(child.pid(), Duration::from_millis(100));
    drop(sampler);
    assert!(!Profile::open(&path).unwrap().samples.is_empty());
}

#[test]
fn a_full_disk_is_noted_and_does_not_end_the_sampling() {
    testkit::skip_for!(refused());
    let child = Process::start("ratio");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let sink = StacksWriter::new(full, ProfileHeader::new(Clock.now(), 0));
    let mut sampler = Sampler::attach(child.pid(), &Options::default(), sink).unwrap();
    sampler.start().unwrap();
    burn(child.pid(), Duration::from_millis(200));
    let outcome = sampler.stop().unwrap();
    assert!(outcome.samples > 50, "{outcome:?}");
    let note = outcome.notes.last().unwrap();
    assert!(note.contains("No space left"), "{note}");
}

fn refusal(pid: u32, frequency: u32) -> Problem {
    let sink = StacksWriter::new(Vec::new(), ProfileHeader::default());
    Sampler::attach(pid, &Options { frequency, ..Options::default() }, sink).unwrap_err()
}

#[test]
fn what_cannot_be_profiled_is_refused_with_the_reason() {
    for pid in [0, u32::MAX, (1 << 22) + 1] {
        assert_eq!(refusal(pid, FREQUENCY), crate::no_such_process(pid));
    }
    let error = refusal(std::process::id(), 0);
    assert!(error.to_string().contains("frequency"), "{error}");
    let kernel_thread = std::fs::read_to_string("/proc/2/status").unwrap_or_default();
    if kernel_thread.contains("kthreadd") {
        let error = refusal(2, FREQUENCY);
        assert!(error.value.ends_with("is a thread of the kernel"), "{error}");
    }
    testkit::skip_for!(refused());
    let error = refusal(std::process::id(), u32::MAX);
    assert!(error.to_string().contains("kernel.perf_event_max_sample_rate is"), "{error}");
}

fn kept_and_lost(outcome: &str) -> (u64, u64) {
    let mut numbers = outcome.split(' ').map_while(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Deep stacks fill the rings of a profiler that is held up.
#[test]
fn samples_that_nobody_fetched_are_counted_as_lost() {
    testkit::skip_for!(refused());
    let (_dir, path) = place();
    let burner = Process::start("deep");
    let role = format!("profiler {} 4000 {}", burner.pid(), path.display());
    let mut profiler = Process::start(&role);
    profiler.expect("started");
    let before = linux::cpu_time(burner.pid()).unwrap();
    profiler.signal(Signal::STOP);
    burn(burner.pid(), Duration::from_millis(2500));
    profiler.signal(Signal::CONT);
    burn(burner.pid(), Duration::from_millis(300));
    let burnt = linux::cpu_time(burner.pid()).unwrap().saturating_sub(before);
    let outcome = profiler.tell("stop", "outcome");
    let (kept, lost) = kept_and_lost(&outcome);
    let profile = Profile::open(&path).unwrap();
    assert!(lost > 100, "{outcome}");
    assert_eq!((profile.lost, profile.samples.len() as u64), (lost, kept));
    // Kept and lost together are all ticks of the time.
    let expected = burnt.as_secs_f64() * 4000.0;
    let all = (kept + lost) as f64;
    assert!((all - expected).abs() < 0.15 * expected, "{kept} + {lost}, but {expected} expected");
}

/// A copy of this program where every user can run it, and a folder where `uid` can write.
fn for_everybody(uid: u32) -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let exe = dir.path().join("profiler");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::os::unix::fs::chown(&out, Some(uid), Some(uid)).unwrap();
    (dir, exe)
}

/// `nobody` of every distribution.
const NOBODY: u32 = 65_534;

#[test]
fn a_user_without_rights_gets_what_the_kernel_allows_and_the_reason() {
    testkit::skip_for!(refused());
    testkit::skip_for!(not_root("become a user without rights"));
    let (dir, exe) = for_everybody(NOBODY);
    let path = dir.path().join("out/cpu.stacks");
    let role = format!("profiler 0 {FREQUENCY} {}", path.display());
    let mut profiler = Process::start_as(&exe, &role, Some(NOBODY));
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = paranoid.trim().parse().unwrap();
    if paranoid > 2 {
        let error = profiler.expect("error");
        assert!(error.contains("setcap cap_bpf,cap_perfmon"), "{error}");
        return;
    }
    let outcome = profiler.expect("outcome");
    let profile = Profile::open(&path).unwrap();
    assert!(profile.samples.len() > 20, "{outcome}");
    assert!(share(&profile, "::work") > 0.8);
    assert_eq!(profile.header.kernel_frames, paranoid < 2);
    if paranoid == 2 {
        let note = &profile.notes[0];
        assert!(note.contains("user space only") && note.contains("as root: setcap cap_bpf,cap_perfmon"), "{note}");
        assert!(profile.frames.iter().all(|frame| frame.kind != FrameKind::Kernel));
    }
    // A process of somebody else.
    let path = dir.path().join("out/other.stacks");
    let role = format!("profiler {} {FREQUENCY} {}", std::process::id(), path.display());
    let error = Process::start_as(&exe, &role, Some(NOBODY)).expect("error");
    assert!(error.contains("belongs to user 0") && error.contains("as root"), "{error}");
}

#[test]
fn too_few_file_descriptors_are_named_with_their_limit() {
    testkit::skip_for!(refused());
    let dir = tempfile::tempdir().unwrap();
    let role = format!("profiler 0 {FREQUENCY} {} 8", dir.path().join("x").display());
    let error = Process::start(&role).expect("error");
    assert!(error.contains("limit is 8") && error.contains("ulimit -n"), "{error}");
}

#[test]
fn samples_lost_just_before_the_stop_are_counted() {
    testkit::skip_for!(refused());
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let major = release.split('.').next().and_then(|it| it.parse::<u32>().ok());
    if major.is_some_and(|it| it < 6) {
        testkit::skip!("kernels before 6.0 do not count what an event has lost");
    }
    let (_dir, path) = place();
    let target = Process::start("deep");
    let frequency = 10_000;
    let role = format!("profiler {} {frequency} {}", target.pid(), path.display());
    let mut profiler = Process::start(&role);
    let before = Duration::from(linux::cpu_time(target.pid()).unwrap());
    let began = Instant::now();
    profiler.expect("started");
    // Nobody fetches samples, so that the rings run over; then the target stands still, so that the
    // kernel has no record to tell it with.
    profiler.signal(Signal::STOP);
    burn(target.pid(), Duration::from_secs(3));
    target.signal(Signal::STOP);
    let took = began.elapsed();
    std::thread::sleep(Duration::from_millis(50));
    let burnt = Duration::from(linux::cpu_time(target.pid()).unwrap()) - before;
    profiler.signal(Signal::CONT);
    let outcome = profiler.tell("stop", "outcome");
    let (samples, lost) = kept_and_lost(&outcome);
    let expected = burnt.as_secs_f64() * f64::from(frequency);
    assert!(samples > 0 && (samples as f64) < 0.6 * expected, "{outcome} of {expected}");
    let all = (samples + lost) as f64;
    // The clock that samples goes on while the machine below takes the core away, and CPU time does not.
    let most = 1.05 * took.as_secs_f64() * f64::from(frequency);
    assert!(all > 0.8 * expected && all < most, "{outcome} of {expected}, at most {most}");
    assert_eq!(Profile::open(&path).unwrap().lost, lost);
}
