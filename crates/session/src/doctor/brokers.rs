//! Brokers on this machine: installed ones, running ones, and how their runtimes were started.

use std::path::Path;

use brokers::{BROKERS, Registration};
use linux::{processes, sockets};

use super::{Check, Status};

pub(super) fn installed() -> Check {
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
pub(super) fn running() -> Vec<Check> {
    let others = processes::others().into_iter();
    let brokers = others.filter_map(|pid| {
        let command = processes::stat(pid)?.command;
        let (broker, name) = recognised(&command, &processes::arguments(pid))?;
        Some((broker, name, pid))
    });
    brokers
        .map(|(broker, name, pid)| {
            let ports = sockets::listening_ports(pid);
            describe(broker, name, pid, &ports, &processes::arguments(pid))
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

fn describe(
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
        describe(broker.unwrap(), &words[0], NOBODY, ports, &words)
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
