//! Whether the process that listens on the broker's port is the broker, or one that only passes
//! connections on: a tunnel, a proxy, a container's port. Its CPU says nothing of the broker's, and how
//! soon its kernel answers says nothing of the way to the broker.

use crate::processes;

/// What brokers call themselves in `connection.start`, and what their processes are called
/// (`/proc/PID/stat` keeps 15 bytes). Of others nothing is concluded.
const PROCESSES: [(&str, &[&str]); 3] = [
    ("RabbitMQ", &["beam.smp", "beam", "erl"]),
    ("LavinMQ", &["lavinmq", "lavinmq-debug"]),
    ("bellows broker", &["bellows", "bellows-broker"]),
];

/// Who listens on the broker's port, and which process is said to be the broker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Listener {
    /// Found by the port.
    pub(crate) found: Option<u32>,
    /// Given by the user.
    pub(crate) given: Option<u32>,
}

impl Listener {
    /// The name of the process that passes connections on to a broker that calls itself `product`;
    /// `None` where none is seen.
    pub(crate) fn proxy(&self, product: &str) -> Option<String> {
        let listener = self.found?;
        if listener == std::process::id() {
            return None;
        }
        let name = processes::stat(listener)?.command;
        match self.given {
            Some(given) => {
                let own = given == listener
                    || processes::descendants(given).contains(&listener)
                    || processes::descendants(listener).contains(&given);
                (!own).then_some(name)
            }
            None => is_another(product, &name).then_some(name),
        }
    }
}

/// Whether a process of this name is not that of a broker which calls itself `product`.
fn is_another(product: &str, process: &str) -> bool {
    PROCESSES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(product))
        .is_some_and(|(_, names)| !names.contains(&process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_known_by_its_process() {
        for (product, process, another) in [
            ("RabbitMQ", "beam.smp", false),
            ("RabbitMQ", "docker-proxy", true),
            ("bellows broker", "bellows-broker", false),
            ("bellows broker", "ssh", true),
            ("Some other broker", "java", false),
            ("", "haproxy", false),
        ] {
            assert_eq!(is_another(product, process), another, "{product} {process}");
        }
    }

    #[test]
    fn what_is_not_known_is_no_proxy() {
        assert_eq!(Listener::default().proxy("RabbitMQ"), None);
        let own = Listener {
            found: Some(std::process::id()),
            given: None,
        };
        assert_eq!(own.proxy("RabbitMQ"), None);
        let gone = Listener {
            found: Some(u32::MAX),
            given: None,
        };
        assert_eq!(gone.proxy("RabbitMQ"), None);
    }
}
