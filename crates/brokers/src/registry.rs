//! Every broker that bellows knows, a line each in [`BROKERS`]: how it is started, and how it is found on a machine.

use std::path::{Path, PathBuf};

use experiment::{BrokerKind, BrokerSpec, Experiment};
use linux::processes;

use super::broker::{Registration, Request};
use super::managed::Progress;
use super::{Broker, BrokerError, Listener, NodeData, artemis, attach, embedded, mosquitto, rabbitmq};

/// The brokers that an experiment can ask for, and those that are only recognised.
pub const BROKERS: [&Registration; 7] = [
    &rabbitmq::REGISTRATION,
    &embedded::REGISTRATION,
    &attach::REGISTRATION,
    &artemis::REGISTRATION,
    &Registration { product: "LavinMQ", processes: &["lavinmq", "lavinmq-debug"], ..Registration::NONE },
    &mosquitto::REGISTRATION,
    &Registration {
        product: "NATS",
        program: "nats-server",
        folders: &["/usr/sbin"],
        processes: &["nats-server"],
        ..Registration::NONE
    },
];

/// Starts the broker that an experiment asks for, or finds it. It serves until it is stopped or dropped, also several
/// runs, one after the other. `data` outlives it: to begin with, or to leave.
pub fn start(
    experiment: &Experiment,
    data: Option<&NodeData>,
    bellows_exe: &Path,
    control: &load::Control,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Box<dyn Broker>, BrokerError> {
    experiment.check_broker()?;
    let kind = experiment.broker.kind;
    match of_kind(kind).and_then(|broker| broker.start) {
        Some((_, start)) => start(Request { experiment, data, bellows_exe, control, progress }),
        None => {
            let help = "take \"rabbitmq\", \"artemis\", \"mosquitto\", \"embedded\" or \"attach\"";
            Err(BrokerError::config("broker.kind is not registered", kind.name(), help))
        }
    }
}

/// Whether the installation that a broker would be started from is there, with what is replaced in it.
/// Errors: it is not, or what is to be replaced in it is none of that.
pub fn check_installed(spec: &BrokerSpec) -> Result<(), BrokerError> {
    of_kind(spec.kind).map_or(Ok(()), |broker| (broker.installed)(spec))
}

/// The folder with the programs of the installation that a broker is started from, where they need not be in `PATH`.
pub fn programs(spec: &BrokerSpec) -> Option<PathBuf> {
    (of_kind(spec.kind)?.programs)(spec)
}

fn of_kind(kind: BrokerKind) -> Option<&'static Registration> {
    BROKERS.into_iter().find(|broker| broker.start.is_some_and(|(of, _)| of == kind))
}

impl Listener {
    /// The number and the name of the process that passes connections on to a broker that calls itself `product`;
    /// `None` where none is seen. A proxy's CPU and its kernel's answers say nothing of the broker's.
    pub fn proxy(&self, product: &str) -> Option<(u32, String)> {
        let found = self.found?;
        if found == std::process::id() {
            return None;
        }
        let name = processes::stat(found)?.command;
        match self.given {
            Some(given) => {
                let own = given == found
                    || processes::descendants(given).contains(&found)
                    || processes::descendants(found).contains(&given);
                (!own).then_some((found, name))
            }
            None => is_another(product, &name).then_some((found, name)),
        }
    }
}

/// Whether a process is called like one of a broker that bellows knows, so that it does not only pass connections on.
pub fn is_broker(pid: u32) -> bool {
    processes::stat(pid)
        .is_some_and(|stat| BROKERS.iter().flat_map(|known| known.processes).any(|name| *name == stat.command))
}

/// Whether a process of this name is none of `product`'s; `false` of brokers whose processes are not known.
fn is_another(product: &str, process: &str) -> bool {
    BROKERS
        .iter()
        .filter(|known| !known.processes.is_empty())
        .find(|known| known.product.eq_ignore_ascii_case(product))
        .is_some_and(|known| !known.processes.contains(&process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_an_experiment_is_registered_once() {
        for kind in BrokerKind::ALL {
            let registered = BROKERS.iter().filter_map(|broker| broker.start);
            let count = registered.filter(|(of, _)| *of == kind).count();
            assert_eq!(count, 1, "{}", kind.name());
        }
    }

    #[test]
    fn a_broker_is_known_by_its_process() {
        for (product, process, another) in [
            ("RabbitMQ", "beam.smp", false),
            ("RabbitMQ", "docker-proxy", true),
            ("bellows broker", "bellows-broker", false),
            ("bellows broker", "ssh", true),
            ("ActiveMQ Artemis", "java", false),
            ("Some other broker", "java", false),
            ("", "haproxy", false),
        ] {
            assert_eq!(is_another(product, process), another, "{product} {process}");
        }
    }

    #[test]
    fn what_is_not_known_is_no_proxy() {
        for found in [None, Some(std::process::id()), Some(u32::MAX)] {
            assert_eq!(Listener { found, given: None }.proxy("RabbitMQ"), None, "{found:?}");
        }
    }
}
