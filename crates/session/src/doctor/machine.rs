//! The machine: cores, permissions, symbols, clock.

use std::fs;
use std::io;

use measure::{Clock, wall_clock_unix_ns};
use profile::{Access, AccessPart};
use rustix::process::{Resource, getrlimit};
use stacks::{ProfileHeader, StacksWriter};

use super::{Check, Status};
use crate::hardware::trimmed;

/// Open files that a profile of a broker with many threads on many cores needs.
const WANTED_FILES: u64 = 8_192;

pub(super) fn cores(cores: u32) -> Check {
    let observed = format!("{cores} that this process may use");
    if cores >= 4 {
        return Check::new(
            "cores",
            Status::Ok,
            observed,
            "enough for a broker and a generator beside each other",
        );
    }
    Check::new(
        "cores",
        Status::Warn,
        observed,
        "broker and generator take CPU time from each other: unthrottled rates are too low and \
         latencies too high; compare such runs only with each other",
    )
    .fix("use a machine with 4 cores or more, or put the broker on another machine")
}

/// Whether this bellows is as quick as figures demand.
pub(super) fn build(is_debug: bool) -> Check {
    const NAME: &str = "build";
    if !is_debug {
        let meaning = "rates and CPU of the client are those of an optimised program";
        return Check::new(NAME, Status::Ok, "optimised", meaning);
    }
    Check::new(
        NAME,
        Status::Bad,
        "a debug build of bellows",
        "several times slower than a release build: rates and CPU of the client say nothing, and runs are invalid",
    )
    .fix(archive::RELEASE_BUILD)
}

/// Tries the calls of a profile on this process.
pub(super) fn profiling() -> Check {
    const NAME: &str = "perf permissions";
    let paranoid = trimmed("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "?".into());
    let observed = |what: &str| format!("{what} (kernel.perf_event_paranoid = {paranoid})");
    let access = Access::of_this_process();
    let has_copies = access.shows(AccessPart::WholeStacks);
    let remedy = access.remedy(&AccessPart::ALL).map(|it| it.to_string());
    match trial().map(|notes| lacking(notes, remedy.as_deref(), has_copies)) {
        Ok(notes) if notes.is_empty() => Check::new(
            NAME,
            Status::Ok,
            observed(&format!(
                "user and kernel stacks can be sampled {}",
                sampling_clock()
            )),
            "profiles show where the broker and the kernel below it spend their time",
        ),
        Ok(notes) => Check::new(
            NAME,
            Status::Warn,
            format!("{}; sampled {}", notes.join("; "), sampling_clock()),
            "profiles lack a part, most often the kernel's",
        )
        .fix(profiling_fix()),
        Err(error) => Check::new(
            NAME,
            Status::Bad,
            observed(&error.to_string()),
            "no profile can be taken; load and latency are measured all the same",
        )
        .fix(profiling_fix()),
    }
}

/// Gaps of a profile, each once, without the remedy, which is shown once for all of them.
fn lacking(notes: Vec<String>, remedy: Option<&str>, has_copies: bool) -> Vec<String> {
    let without = |note: String| {
        let found = remedy.and_then(|remedy| note.find(remedy));
        let cause = found.map_or(note.as_str(), |at| &note[..at]);
        cause.trim_end_matches([' ', ';', ':']).to_owned()
    };
    let mut notes: Vec<String> = notes.into_iter().map(without).collect();
    if !has_copies && !notes.iter().any(|note| note.contains("copying")) {
        notes.push(
            "stacks cannot be copied, so that callers of code without frame pointers are missing"
                .to_owned(),
        );
    }
    notes
}

/// The command that permits this user whole profiles.
fn profiling_fix() -> String {
    let remedy = Access::of_this_process().remedy(&AccessPart::ALL);
    remedy.map_or_else(
        || "allow perf_event_open and bpf in the container's seccomp profile".to_owned(),
        |it| it.to_string(),
    )
}

/// The default sampling clock: `by cpu-clock at 999 Hz`.
fn sampling_clock() -> String {
    let usual = profile::Options::default();
    format!("by {} at {} Hz", usual.event.kernel_name, usual.frequency)
}

fn trial() -> Result<Vec<String>, profile::Error> {
    let header = ProfileHeader::new(Clock.now(), wall_clock_unix_ns());
    let sink = StacksWriter::new(io::sink(), header);
    let mut sampler =
        profile::Sampler::attach(std::process::id(), &profile::Options::default(), sink)?;
    sampler.start()?;
    Ok(sampler.stop()?.notes)
}

pub(super) fn kernel_symbols() -> Check {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    judge_kernel_symbols(&symbols)
}

/// Addresses that are all zero are hidden ones.
fn judge_kernel_symbols(symbols: &str) -> Check {
    const NAME: &str = "kernel symbols";
    let named = symbols
        .lines()
        .filter(|line| !line.starts_with("0000000000000000"))
        .count();
    if named > 0 {
        return Check::new(
            NAME,
            Status::Ok,
            format!("{named} names"),
            "frames of the kernel have names",
        );
    }
    let observed = if symbols.is_empty() {
        "/proc/kallsyms cannot be read"
    } else {
        "hidden"
    };
    Check::new(
        NAME,
        Status::Warn,
        observed,
        "frames of the kernel have no names",
    )
    .fix(profiling_fix())
}

pub(super) fn tracefs() -> Check {
    const NAME: &str = "tracefs";
    match linux::tracefs::tracepoints() {
        Ok(found) => {
            let observed = match found.is_mounted {
                true => found.folder.display().to_string(),
                false => "not mounted; bellows opens it by itself".to_owned(),
            };
            Check::new(NAME, Status::Ok, observed, "tracepoints can be counted")
        }
        Err(_) => Check::new(
            NAME,
            Status::Warn,
            "not mounted, or not readable for this user",
            "CPU profiles need it not; events such as mmap() calls do",
        )
        .fix("run as root, or as root: mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

pub(super) fn clock(source: Option<&str>) -> Check {
    const NAME: &str = "clock source";
    match source {
        // Both are read in user space.
        Some(fast @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            Check::new(
                NAME,
                Status::Ok,
                fast,
                "steady, and read without a system call",
            )
        }
        Some(slow) => Check::new(
            NAME,
            Status::Warn,
            slow,
            "every reading of the clock is a system call: the generator needs more CPU",
        )
        .fix(
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource (as root)",
        ),
        None => Check::new(
            NAME,
            Status::Warn,
            "unknown",
            "it cannot be said whether it is steady",
        ),
    }
}

pub(super) fn open_files() -> Check {
    const NAME: &str = "open files";
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let observed = format!("at most {limit}");
    if limit >= WANTED_FILES {
        return Check::new(
            NAME,
            Status::Ok,
            observed,
            "enough for connections and profiles",
        );
    }
    Check::new(
        NAME,
        Status::Warn,
        observed,
        "each connection needs one, a profile one for every thread and core",
    )
    .fix(format!("ulimit -n {WANTED_FILES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_build_is_told_with_the_remedy_of_the_pages() {
        let told = build(true);
        assert_eq!(
            (told.status, &*told.fix.unwrap_or_default()),
            (Status::Bad, archive::RELEASE_BUILD)
        );
        assert_eq!(build(false).status, Status::Ok);
    }

    #[test]
    fn few_cores_are_told_with_a_remedy() {
        assert_eq!(cores(8).status, Status::Ok);
        let two = cores(2);
        assert_eq!(two.status, Status::Warn);
        assert!(two.fix.is_some() && two.observed.contains('2'));
    }

    #[test]
    fn what_samples_are_taken_by_is_named() {
        assert_eq!(sampling_clock(), "by cpu-clock at 999 Hz");
        let check = profiling();
        assert!(
            check.status == Status::Bad || check.observed.contains("by cpu-clock at 999 Hz"),
            "{}",
            check.observed
        );
    }

    #[test]
    fn what_profiles_lack_is_told_once_and_its_remedy_with_none() {
        const REMEDY: &str = "as root: setcap x /bin/bellows";
        let kernel = format!("user space only, because the level is 2; {REMEDY}");
        let copies = format!(
            "by frame pointers, because the kernel does not allow copying them (1): {REMEDY}, on Linux 5.15"
        );
        let told = lacking(vec![kernel.clone(), copies], Some(REMEDY), false);
        assert_eq!(
            told,
            [
                "user space only, because the level is 2",
                "by frame pointers, because the kernel does not allow copying them (1)"
            ]
        );
        let told = lacking(vec![kernel], Some(REMEDY), false);
        assert!(
            told.len() == 2 && told[1].starts_with("stacks cannot be copied"),
            "{told:?}"
        );
        assert_eq!(lacking(Vec::new(), None, true), Vec::<String>::new());
    }

    #[test]
    fn hidden_kernel_addresses_are_recognised() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t x\n";
        assert_eq!(judge_kernel_symbols(hidden).status, Status::Warn);
        assert_eq!(judge_kernel_symbols("").status, Status::Warn);
        assert_eq!(
            judge_kernel_symbols("ffffffff81000000 T _text\n").status,
            Status::Ok
        );
    }

    #[test]
    fn clocks_that_need_a_system_call_are_told() {
        assert_eq!(clock(Some("tsc")).status, Status::Ok);
        assert_eq!(clock(Some("hpet")).status, Status::Warn);
        assert_eq!(clock(None).status, Status::Warn);
    }
}
