//! Every broker that bellows knows, a line each in [`BROKERS`]: how it is started, and how it is found on a
//! machine.

use std::path::Path;

use super::{Broker, attach, embedded, rabbitmq};
use crate::experiment::BrokerKind;
use crate::{Error, Experiment, Observer};

/// The brokers that an experiment can ask for, and those that are only recognised.
pub(crate) const BROKERS: [&Registration; 7] = [
    &rabbitmq::REGISTRATION,
    &embedded::REGISTRATION,
    &attach::REGISTRATION,
    &Registration {
        product: "ActiveMQ Artemis",
        program: "artemis",
        folders: &["/opt/artemis/bin", "/opt/activemq-artemis/bin"],
        ..Registration::NONE
    },
    &Registration {
        product: "LavinMQ",
        processes: &["lavinmq", "lavinmq-debug"],
        ..Registration::NONE
    },
    &Registration {
        product: "Mosquitto",
        program: "mosquitto",
        folders: &["/usr/sbin"],
        processes: &["mosquitto"],
        ..Registration::NONE
    },
    &Registration {
        product: "NATS",
        program: "nats-server",
        folders: &["/usr/sbin"],
        processes: &["nats-server"],
        ..Registration::NONE
    },
];

/// A broker that bellows knows.
#[derive(Debug)]
pub(crate) struct Registration {
    /// `broker.kind`, and what starts or finds it; `None` where it can only be attached to.
    pub(super) start: Option<(BrokerKind, Start)>,
    /// As it is called, and calls itself in AMQP's `connection.start`.
    pub(crate) product: &'static str,
    /// The program that starts it; empty where it is part of bellows, or unknown.
    pub(crate) program: &'static str,
    /// Where the program is when it is not on the path.
    pub(crate) folders: &'static [&'static str],
    /// How it is installed; empty where bellows cannot start it.
    pub(crate) install: &'static str,
    /// What its processes are called (`/proc/PID/stat` keeps 15 bytes).
    pub(crate) processes: &'static [&'static str],
    /// Whether profiles name its functions. `None` where they always do.
    pub(crate) names_functions: Option<NamesFunctions>,
}

impl Registration {
    /// A broker of which nothing is known.
    pub(super) const NONE: Self = Self {
        start: None,
        product: "",
        program: "",
        folders: &[],
        install: "",
        processes: &[],
        names_functions: None,
    };

    /// Whether bellows can start it from an installation.
    pub(crate) const fn can_be_started(&self) -> bool {
        self.start.is_some() && !self.program.is_empty()
    }
}

/// By the arguments of a broker's process: the option that makes profiles name its functions, or the
/// remedy.
pub(crate) type NamesFunctions = fn(&[String]) -> Result<String, &'static str>;

/// Starts a broker, or finds it.
pub(super) type Start = fn(Request<'_>) -> Result<Box<dyn Broker>, Error>;

/// What a broker is started with.
pub(super) struct Request<'a> {
    pub(super) experiment: &'a Experiment,
    /// The `bellows` executable, for the guardian and the embedded broker.
    pub(super) bellows_exe: &'a Path,
    pub(super) control: &'a load::Control,
    pub(super) observer: &'a mut dyn Observer,
}

/// Starts the broker that an experiment asks for, or finds it. It serves until it is stopped or dropped,
/// also several runs, one after the other.
///
/// # Errors
/// Where it cannot be had; nothing is left behind.
pub fn start(
    experiment: &Experiment,
    bellows_exe: &Path,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<Box<dyn Broker>, Error> {
    experiment.check_broker()?;
    let kind = experiment.broker.kind;
    let starts = BROKERS.iter().filter_map(|broker| broker.start);
    match starts.into_iter().find(|(of, _)| *of == kind) {
        Some((_, start)) => start(Request {
            experiment,
            bellows_exe,
            control,
            observer,
        }),
        None => Err(super::Error::config(
            "broker.kind is not registered",
            kind.name(),
            "take \"rabbitmq\", \"embedded\" or \"attach\"",
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_an_experiment_is_registered_once() {
        for kind in [
            BrokerKind::Rabbitmq,
            BrokerKind::Embedded,
            BrokerKind::Attach,
        ] {
            let registered = BROKERS.iter().filter_map(|broker| broker.start);
            let count = registered.filter(|(of, _)| *of == kind).count();
            assert_eq!(count, 1, "{}", kind.name());
        }
    }
}
