//! Brokers on this machine: installed ones, running ones, and how their runtimes were started.

use std::path::Path;

use super::{Check, Status};
use crate::{processes, sockets};

/// What is called how, and where it lies when it is not on the path.
const KNOWN: [(&str, &str, &[&str]); 4] = [
    (
        "RabbitMQ",
        "rabbitmq-server",
        &["/usr/lib/rabbitmq/bin", "/usr/sbin"],
    ),
    (
        "ActiveMQ Artemis",
        "artemis",
        &["/opt/artemis/bin", "/opt/activemq-artemis/bin"],
    ),
    ("Mosquitto", "mosquitto", &["/usr/sbin"]),
    ("NATS", "nats-server", &["/usr/sbin"]),
];

/// Executables of brokers, as the kernel names their processes.
const PROCESSES: [&str; 3] = ["beam.smp", "mosquitto", "nats-server"];

pub(super) fn installed() -> Check {
    const NAME: &str = "brokers installed";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let found: Vec<String> = KNOWN
        .iter()
        .filter_map(|(name, program, usual)| {
            let usual = usual.iter().map(|folder| Path::new(folder).to_path_buf());
            let file = folders
                .iter()
                .cloned()
                .chain(usual)
                .map(|f| f.join(program));
            file.into_iter()
                .find(|file| file.is_file())
                .map(|f| format!("{name} ({})", f.display()))
        })
        .collect();
    if found.iter().any(|found| found.starts_with("RabbitMQ")) {
        return Check::new(
            NAME,
            Status::Ok,
            found.join(", "),
            "bellows can start RabbitMQ by itself: bellows run stream-publish",
        );
    }
    let observed = if found.is_empty() {
        "none".to_owned()
    } else {
        found.join(", ")
    };
    Check::new(
        NAME,
        Status::Warn,
        observed,
        "bellows cannot start RabbitMQ by itself; the embedded broker and running ones work",
    )
    .fix("apt-get install rabbitmq-server (as root)")
}

/// One check for every running broker.
pub(super) fn running() -> Vec<Check> {
    let pids = PROCESSES
        .iter()
        .flat_map(|name| processes::named(name).into_iter().map(move |p| (name, p)));
    pids.filter(|(name, pid)| processes::stat(*pid).is_some_and(|s| s.command == **name))
        .map(|(name, pid)| {
            describe(
                name,
                pid,
                &sockets::listening_ports(pid),
                &processes::arguments(pid),
            )
        })
        .collect()
}

fn describe(name: &str, pid: u32, ports: &[u16], arguments: &[String]) -> Check {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() {
        "no port".to_owned()
    } else {
        format!("port {}", ports.join(", "))
    };
    let title = format!("running {name}");
    if name != "beam.smp" {
        let observed = format!("pid {pid}, {ports}");
        return Check::new(&title, Status::Ok, observed, "can be loaded and profiled");
    }
    match perf_support(arguments) {
        Some(flag) => Check::new(
            &title,
            Status::Ok,
            format!("pid {pid}, {ports}, {flag}"),
            "Erlang functions have names in profiles",
        ),
        None => Check::new(
            &title,
            Status::Warn,
            format!("pid {pid}, {ports}, perf support off"),
            "Erlang functions have no names in its profiles",
        )
        .fix("start it with RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+JPperf true' (OTP 25 or later)"),
    }
}

/// The flag that makes the JIT tell its symbols, as `+JPperf true`; the emulator shows its own
/// flags with `-` in place of `+`.
fn perf_support(arguments: &[String]) -> Option<String> {
    arguments.windows(2).find_map(|pair| match pair {
        [flag, value] if flag.ends_with("JPperf") && value != "false" && value != "no" => {
            Some(format!("+JPperf {value}"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_node_with_and_without_perf_support_is_told_apart() {
        let on =
            words("/usr/lib/erlang/bin/beam.smp -W w -JPperf true -B i -- -root /usr/lib/erlang");
        let check = describe("beam.smp", 4711, &[5672, 25672], &on);
        assert_eq!(check.status, Status::Ok);
        assert_eq!(check.observed, "pid 4711, port 5672, 25672, +JPperf true");
        for off in [
            "beam.smp -W w -B i",
            "beam.smp -JPperf false -B i",
            "beam.smp -JPperf",
        ] {
            let check = describe("beam.smp", 4711, &[], &words(off));
            assert_eq!(check.status, Status::Warn, "{off}");
            assert!(check.fix.is_some_and(|fix| fix.contains("+JPperf true")));
        }
    }

    #[test]
    fn other_brokers_need_no_flag() {
        let check = describe("mosquitto", 1, &[1883], &words("mosquitto -p 1883"));
        assert_eq!(
            (check.status, check.observed.as_str()),
            (Status::Ok, "pid 1, port 1883")
        );
    }
}
