//! Checks of whether this machine allows good measurements, and the fix for each that fails.

use std::path::Path;
use std::{fs, io};

use brokers::{BROKERS, Registration};
use linux::{processes, sockets};
use measure::{Clock, Problem, wall_clock_unix_ns};
use profile::{Access, AccessPart};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use stacks::{ProfileHeader, StacksWriter};

use crate::hardware::trimmed;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No action is needed.
    Ok,
    /// Works, with less than could be had.
    Warn,
    /// Something does not work.
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name of the check: `perf permissions`.
    pub name: String,
    /// The check's result.
    pub status: Status,
    /// The value found.
    pub observed: String,
    /// Effect on a measurement.
    pub meaning: String,
    /// The command or setting that improves it.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &str, status: Status, observed: impl Into<String>, meaning: &str) -> Self {
        Self { name: name.to_owned(), status, observed: observed.into(), meaning: meaning.to_owned(), fix: None }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Looks at the machine. Takes well below a second and changes nothing.
pub fn checks() -> Vec<Check> {
    let mut checks = vec![
        build(cfg!(debug_assertions)),
        cores(linux::cpus::usable()),
        profiling(),
        kernel_symbols(&fs::read_to_string("/proc/kallsyms").unwrap_or_default()),
        tracefs(),
        clock(crate::hardware::clock_source().as_deref()),
        open_files(),
        installed_brokers(),
        kept_runs(),
    ];
    checks.extend(running_brokers());
    checks
}

/// Bytes of room below which a long run with a profile may fill the disk.
const LITTLE_ROOM: u64 = 1 << 30;

fn kept_runs() -> Check {
    const NAME: &str = "archive";
    const SETTING: &str = "set BELLOWS_RUNS, or give --runs, to keep runs elsewhere";
    let dir = archive::default_runs_dir();
    let shown = dir.display();
    let kept = match archive::list_runs(&dir) {
        Ok(kept) => kept,
        Err(e) => return Check::new(NAME, Status::Bad, e.to_string(), "no run can be kept").fix(SETTING),
    };
    let size = kept.iter().map(|run| run.bytes).sum::<u64>() as f64 / 1e6;
    let observed = format!("{}, {size:.0} MB in {shown}", measure::counted(kept.len() as u64, "run"));
    match free_bytes(&dir).filter(|free| *free < LITTLE_ROOM) {
        None => Check::new(NAME, Status::Ok, observed, "runs are kept in this folder"),
        Some(free_bytes) => {
            let meaning = format!("{:.0} MB are free: a long run may fill the disk", free_bytes as f64 / 1e6);
            Check::new(NAME, Status::Warn, observed, &meaning).fix("bellows runs prune --keep 20 --dry-run")
        }
    }
}

/// Bytes of the disk that are free for this user; `None` where unknown.
pub(crate) fn free_bytes(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|folder| folder.is_dir())?;
    let found = rustix::fs::statvfs(there).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

fn installed_brokers() -> Check {
    const NAME: &str = "brokers installed";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = BROKERS.into_iter().filter(|broker| !broker.program.is_empty()).filter_map(|broker| {
        let folders = broker.folders.iter().map(|folder| Path::new(folder).into());
        let mut files = std::env::split_paths(&path).chain(folders).map(|folder| folder.join(broker.program));
        let file = files.find(|file| file.is_file())?;
        Some((broker, format!("{} ({})", broker.product, file.display())))
    });
    let found: Vec<(&Registration, String)> = installed.collect();
    let startable = found.iter().find(|(broker, _)| broker.can_be_started());
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    let observed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    if let Some((broker, _)) = startable {
        let meaning = format!("bellows can start {} by itself: bellows run stream-publish", broker.product);
        return Check::new(NAME, Status::Ok, observed, &meaning);
    }
    let missing = BROKERS.into_iter().filter(|broker| broker.can_be_started());
    let products: Vec<&str> = missing.clone().map(|broker| broker.product).collect();
    let remedies: Vec<&str> = missing.map(|broker| broker.install).collect();
    let meaning =
        format!("bellows cannot start {} by itself; the embedded broker and running ones work", products.join(" or "));
    Check::new(NAME, Status::Warn, observed, &meaning).fix(remedies.join(", or "))
}

fn running_brokers() -> Vec<Check> {
    let check = |pid| {
        let (command, arguments) = (processes::stat(pid)?.command, processes::arguments(pid));
        let (broker, name) = recognised(&command, &arguments)?;
        Some(described_broker(broker, name, pid, &sockets::listening_ports(pid), &arguments))
    };
    processes::others().into_iter().filter_map(check).collect()
}

/// The broker that a process is, and the process's name.
fn recognised(command: &str, arguments: &[String]) -> Option<(&'static Registration, &'static str)> {
    BROKERS.into_iter().find_map(|broker| Some((broker, broker.recognises(command, arguments)?)))
}

fn described_broker(broker: &Registration, name: &str, pid: u32, ports: &[u16], arguments: &[String]) -> Check {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() { "no port".to_owned() } else { format!("port {}", ports.join(", ")) };
    let title = format!("running {name}");
    let observed = format!("pid {pid}, {ports}");
    match broker.names_functions.map(|named| named(pid, arguments)) {
        None => Check::new(&title, Status::Ok, observed, "can be loaded and profiled"),
        Some(Ok(flag)) => {
            Check::new(&title, Status::Ok, format!("{observed}, {flag}"), "its functions have names in profiles")
        }
        Some(Err(remedy)) => Check::new(
            &title,
            Status::Warn,
            format!("{observed}, perf support off, memory not readable"),
            "its functions have no names in profiles",
        )
        .fix(remedy),
    }
}

/// Open files that a profile of a broker with many threads on many cores needs.
const WANTED_FILES: u64 = 8_192;

fn cores(cores: u32) -> Check {
    let observed = format!("{cores} that this process may use");
    if cores >= 4 {
        return Check::new("cores", Status::Ok, observed, "enough for broker and generator together");
    }
    Check::new(
        "cores",
        Status::Warn,
        observed,
        "broker and generator take CPU time from each other: unthrottled rates are too low and \
         latencies too high; compare such runs only with each other",
    )
    .fix("use a machine with 4 cores or more, or run the broker on another machine")
}

fn build(is_debug: bool) -> Check {
    const NAME: &str = "build";
    if !is_debug {
        let meaning = "rates and client CPU are those of an optimised program";
        return Check::new(NAME, Status::Ok, "optimised", meaning);
    }
    Check::new(
        NAME,
        Status::Bad,
        "a debug build of bellows",
        "several times slower than a release build: rates and client CPU mean nothing, and runs are invalid",
    )
    .fix(archive::RELEASE_BUILD)
}

/// Tries the calls of a profile on this process.
fn profiling() -> Check {
    const NAME: &str = "perf permissions";
    let paranoid = trimmed("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "?".into());
    let observed = |what: &str| format!("{what} (kernel.perf_event_paranoid = {paranoid})");
    let access = Access::of_this_process();
    let has_copies = access.shows(AccessPart::WholeStacks);
    let remedy = access.remedy(&AccessPart::ALL);
    match trial().map(|notes| lacking(notes, remedy.as_deref(), has_copies)) {
        Ok(notes) if notes.is_empty() => Check::new(
            NAME,
            Status::Ok,
            observed(&format!("user and kernel stacks can be sampled {}", sampling_clock())),
            "profiles show where the broker and the kernel spend their time",
        ),
        Ok(notes) => Check::new(
            NAME,
            Status::Warn,
            format!("{}; sampled {}", notes.join("; "), sampling_clock()),
            "profiles lack a part, usually the kernel's",
        )
        .fix(profiling_fix()),
        Err(error) => Check::new(
            NAME,
            Status::Bad,
            observed(&error.to_string()),
            "no profile can be recorded; load and latency are measured",
        )
        .fix(profiling_fix()),
    }
}

/// Gaps of a profile, each once, without the remedy, which is shown once for all of them.
fn lacking(notes: Vec<String>, remedy: Option<&str>, has_copies: bool) -> Vec<String> {
    let without = |note: String| {
        let cause = remedy.and_then(|remedy| note.split_once(remedy)).map_or(note.as_str(), |(cause, _)| cause);
        cause.trim_end_matches([' ', ';', ':']).to_owned()
    };
    let mut notes: Vec<String> = notes.into_iter().map(without).collect();
    if !has_copies && !notes.iter().any(|note| note.contains("copying")) {
        notes.push("stacks cannot be copied, so callers of code without frame pointers are missing".to_owned());
    }
    notes
}

/// The command that permits this user whole profiles.
fn profiling_fix() -> String {
    let remedy = Access::of_this_process().remedy(&AccessPart::ALL);
    remedy.unwrap_or_else(|| "allow perf_event_open and bpf in the container's seccomp profile".to_owned())
}

/// The default sampling clock: `by cpu-clock at 999 Hz`.
fn sampling_clock() -> String {
    let usual = profile::Options::default();
    format!("by {} at {} Hz", usual.event.kernel_name, usual.frequency)
}

fn trial() -> Result<Vec<String>, Problem> {
    let header = ProfileHeader::new(Clock.now(), wall_clock_unix_ns());
    let sink = StacksWriter::new(io::sink(), header);
    let mut sampler = profile::Sampler::attach(std::process::id(), &profile::Options::default(), sink)?;
    sampler.start()?;
    Ok(sampler.stop()?.notes)
}

/// Addresses that are all zero are hidden ones.
fn kernel_symbols(symbols: &str) -> Check {
    const NAME: &str = "kernel symbols";
    let named = symbols.lines().filter(|line| !line.starts_with("0000000000000000")).count();
    if named > 0 {
        return Check::new(NAME, Status::Ok, format!("{named} names"), "frames of the kernel have names");
    }
    let observed = if symbols.is_empty() { "/proc/kallsyms cannot be read" } else { "hidden" };
    Check::new(NAME, Status::Warn, observed, "frames of the kernel have no names").fix(profiling_fix())
}

fn tracefs() -> Check {
    const NAME: &str = "tracefs";
    const COUNTED: &str = "tracepoints can be counted";
    match linux::tracefs::tracepoints() {
        Ok(found) if found.is_mounted => Check::new(NAME, Status::Ok, found.folder.display().to_string(), COUNTED),
        Ok(_) => Check::new(NAME, Status::Ok, "not mounted; bellows opens it by itself", COUNTED),
        Err(_) => Check::new(
            NAME,
            Status::Warn,
            "not mounted, or not readable for this user",
            "CPU profiles work without it; events such as mmap() calls need it",
        )
        .fix("run as root, or as root: mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

fn clock(source: Option<&str>) -> Check {
    const NAME: &str = "clock source";
    match source {
        // Both are read in user space.
        Some(fast @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            Check::new(NAME, Status::Ok, fast, "steady, and read without a system call")
        }
        Some(slow) => {
            let meaning = "every reading of the clock is a system call: the generator needs more CPU";
            Check::new(NAME, Status::Warn, slow, meaning)
                .fix("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource (as root)")
        }
        None => Check::new(NAME, Status::Warn, "unknown", "its quality is unknown"),
    }
}

fn open_files() -> Check {
    const NAME: &str = "open files";
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let observed = format!("at most {limit}");
    if limit >= WANTED_FILES {
        return Check::new(NAME, Status::Ok, observed, "enough for connections and profiles");
    }
    Check::new(NAME, Status::Warn, observed, "each connection needs one, a profile one per thread and core")
        .fix(format!("ulimit -n {WANTED_FILES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = u32::MAX;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn check(program: &str, ports: &[u16], line: &str) -> Check {
        let broker = BROKERS.into_iter().find(|it| it.program == program);
        let words = words(line);
        described_broker(broker.unwrap(), &words[0], NOBODY, ports, &words)
    }

    #[test]
    fn a_node_with_and_without_perf_support_is_told_apart() {
        let on = check("rabbitmq-server", &[5672, 25672], "beam.smp -JPperf true");
        assert_eq!(on.status, Status::Ok);
        assert_eq!(on.observed, format!("pid {NOBODY}, port 5672, 25672, +JPperf true"));
        let off = check("rabbitmq-server", &[], "beam.smp -W w");
        assert_eq!(off.status, Status::Warn);
        assert!(off.fix.is_some_and(|fix| fix.contains("+JPperf true")));
        let other = check("mosquitto", &[1883], "mosquitto -p 1883");
        assert_eq!((other.status, other.observed), (Status::Ok, format!("pid {NOBODY}, port 1883")));
    }

    #[test]
    fn the_embedded_broker_is_one_and_other_commands_of_bellows_are_none() {
        let of = |line: &str| recognised("bellows", &words(line)).map(|(broker, _)| broker.product);
        assert_eq!(of("bellows broker --listen 127.0.0.1:0"), Some("bellows broker"));
        assert_eq!(of("bellows run stream-publish"), None);
        assert_eq!(of("bellows"), None);
    }

    #[test]
    fn a_debug_build_few_cores_slow_clocks_hidden_kernel_addresses_and_the_sampling_clock_are_told() {
        for (check, status) in [
            (build(true), Status::Bad),
            (build(false), Status::Ok),
            (cores(8), Status::Ok),
            (cores(2), Status::Warn),
            (clock(Some("tsc")), Status::Ok),
            (clock(Some("hpet")), Status::Warn),
            (clock(None), Status::Warn),
            (kernel_symbols("0000000000000000 T _text\n0000000000000000 t x\n"), Status::Warn),
            (kernel_symbols(""), Status::Warn),
            (kernel_symbols("ffffffff81000000 T _text\n"), Status::Ok),
        ] {
            assert_eq!(check.status, status, "{}", check.observed);
        }
        assert_eq!(build(true).fix.as_deref(), Some(archive::RELEASE_BUILD));
        let two = cores(2);
        assert!(two.fix.is_some() && two.observed.contains('2'));
        assert_eq!(sampling_clock(), "by cpu-clock at 999 Hz");
        let check = profiling();
        assert!(check.status == Status::Bad || check.observed.contains("by cpu-clock at 999 Hz"), "{}", check.observed);
    }

    #[test]
    fn what_profiles_lack_is_told_once_and_its_remedy_with_none() {
        const REMEDY: &str = "as root: setcap x /bin/bellows";
        let kernel = format!("user space only, because the level is 2; {REMEDY}");
        let copies =
            format!("by frame pointers, because the kernel does not allow copying them (1): {REMEDY}, on Linux 5.15");
        let told = lacking(vec![kernel.clone(), copies], Some(REMEDY), false);
        let expected = [
            "user space only, because the level is 2",
            "by frame pointers, because the kernel does not allow copying them (1)",
        ];
        assert_eq!(told, expected);
        let told = lacking(vec![kernel], Some(REMEDY), false);
        assert!(told.len() == 2 && told[1].starts_with("stacks cannot be copied"), "{told:?}");
        assert_eq!(lacking(Vec::new(), None, true), Vec::<String>::new());
    }
}
