//! Checks of whether this machine allows good measurements, and the fix for each that fails.

mod machine;

use std::path::Path;

use brokers::{BROKERS, Registration};
use linux::{processes, sockets};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// No action is needed.
    Ok,
    /// Works, with less than could be had.
    Warn,
    /// Something does not work.
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        Self {
            name: name.to_owned(),
            status,
            observed: observed.into(),
            meaning: meaning.to_owned(),
            fix: None,
        }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Looks at the machine. Takes well below a second and changes nothing.
#[must_use]
pub fn checks() -> Vec<Check> {
    let mut checks = vec![
        machine::build(cfg!(debug_assertions)),
        machine::cores(linux::cpus::usable()),
        machine::profiling(),
        machine::kernel_symbols(),
        machine::tracefs(),
        machine::clock(crate::hardware::clock_source().as_deref()),
        machine::open_files(),
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
        Err(e) => {
            return Check::new(NAME, Status::Bad, e.to_string(), "no run can be kept").fix(SETTING);
        }
    };
    let size = kept.iter().map(|run| run.bytes).sum::<u64>() as f64 / 1e6;
    let observed = format!(
        "{}, {size:.0} MB in {shown}",
        measure::counted(kept.len() as u64, "run")
    );
    match free_bytes(&dir) {
        None => Check::new(NAME, Status::Ok, observed, "runs are kept in this folder"),
        Some(free_bytes) if free_bytes >= LITTLE_ROOM => {
            Check::new(NAME, Status::Ok, observed, "runs are kept in this folder")
        }
        Some(free_bytes) => {
            let meaning = format!(
                "{:.0} MB are free: a long run may fill the disk",
                free_bytes as f64 / 1e6
            );
            Check::new(NAME, Status::Warn, observed, &meaning)
                .fix("bellows runs prune --keep 20 --dry-run")
        }
    }
}

/// Bytes that are free where the folder is, or will be.
fn free_bytes(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|folder| folder.is_dir())?;
    let found = rustix::fs::statvfs(there).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

fn installed_brokers() -> Check {
    const NAME: &str = "brokers installed";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Vec<(&Registration, String)> = BROKERS
        .into_iter()
        .filter(|broker| !broker.program.is_empty())
        .filter_map(|broker| {
            let folders = broker.folders.iter().map(|folder| Path::new(folder).into());
            std::env::split_paths(&path)
                .chain(folders)
                .map(|folder| folder.join(broker.program))
                .find(|file| file.is_file())
                .map(|file| (broker, format!("{} ({})", broker.product, file.display())))
        })
        .collect();
    let startable = found.iter().find(|(broker, _)| broker.can_be_started());
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    let observed = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    if let Some((broker, _)) = startable {
        let meaning = format!(
            "bellows can start {} by itself: bellows run stream-publish",
            broker.product
        );
        return Check::new(NAME, Status::Ok, observed, &meaning);
    }
    let missing = BROKERS.into_iter().filter(|broker| broker.can_be_started());
    let products: Vec<&str> = missing.clone().map(|broker| broker.product).collect();
    let remedies: Vec<&str> = missing.map(|broker| broker.install).collect();
    let meaning = format!(
        "bellows cannot start {} by itself; the embedded broker and running ones work",
        products.join(" or ")
    );
    Check::new(NAME, Status::Warn, observed, &meaning).fix(remedies.join(", or "))
}

/// One check for every running broker.
fn running_brokers() -> Vec<Check> {
    let others = processes::others().into_iter();
    let brokers = others.filter_map(|pid| {
        let command = processes::stat(pid)?.command;
        let (broker, name) = recognised(&command, &processes::arguments(pid))?;
        Some((broker, name, pid))
    });
    brokers
        .map(|(broker, name, pid)| {
            let ports = sockets::listening_ports(pid);
            described_broker(broker, name, pid, &ports, &processes::arguments(pid))
        })
        .collect()
}

/// The broker that a process is, and the process's name.
fn recognised(
    command: &str,
    arguments: &[String],
) -> Option<(&'static Registration, &'static str)> {
    let mut all = BROKERS.into_iter();
    all.find_map(|broker| Some((broker, broker.recognises(command, arguments)?)))
}

fn described_broker(
    broker: &Registration,
    name: &str,
    pid: u32,
    ports: &[u16],
    arguments: &[String],
) -> Check {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() {
        "no port".to_owned()
    } else {
        format!("port {}", ports.join(", "))
    };
    let title = format!("running {name}");
    let observed = format!("pid {pid}, {ports}");
    match broker.names_functions.map(|named| named(pid, arguments)) {
        None => Check::new(&title, Status::Ok, observed, "can be loaded and profiled"),
        Some(Ok(flag)) => Check::new(
            &title,
            Status::Ok,
            format!("{observed}, {flag}"),
            "its functions have names in profiles",
        ),
        Some(Err(remedy)) => Check::new(
            &title,
            Status::Warn,
            format!("{observed}, perf support off, memory not readable"),
            "its functions have no names in profiles",
        )
        .fix(remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has this number.
    const NOBODY: u32 = u32::MAX;

    fn check(program: &str, ports: &[u16], line: &str) -> Check {
        let broker = BROKERS.into_iter().find(|it| it.program == program);
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        described_broker(broker.unwrap(), &words[0], NOBODY, ports, &words)
    }

    #[test]
    fn a_node_with_and_without_perf_support_is_told_apart() {
        let on = check("rabbitmq-server", &[5672, 25672], "beam.smp -JPperf true");
        assert_eq!(on.status, Status::Ok);
        assert_eq!(
            on.observed,
            format!("pid {NOBODY}, port 5672, 25672, +JPperf true")
        );
        let off = check("rabbitmq-server", &[], "beam.smp -W w");
        assert_eq!(off.status, Status::Warn);
        assert!(off.fix.is_some_and(|fix| fix.contains("+JPperf true")));
    }

    #[test]
    fn the_embedded_broker_is_one_and_other_commands_of_bellows_are_none() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            recognised("bellows", &words).map(|(broker, _)| broker.product)
        };
        assert_eq!(
            of("bellows broker --listen 127.0.0.1:0"),
            Some("bellows broker")
        );
        assert_eq!(of("bellows run stream-publish"), None);
        assert_eq!(of("bellows"), None);
    }

    #[test]
    fn other_brokers_need_no_flag() {
        let check = check("mosquitto", &[1883], "mosquitto -p 1883");
        assert_eq!(
            (check.status, check.observed),
            (Status::Ok, format!("pid {NOBODY}, port 1883"))
        );
    }
}
