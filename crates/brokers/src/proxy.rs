//! Whether the process that listens on the broker's port is the broker, or one that only passes
//! connections on: a tunnel, a proxy, a container's port. Its CPU says nothing of the broker's, and how
//! soon its kernel answers says nothing of the way to the broker.

use linux::processes;

use super::{Listener, registry::BROKERS};

impl Listener {
    /// The number and the name of the process that passes connections on to a broker that calls itself `product`;
    /// `None` where none is seen.
    #[must_use]
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
#[must_use]
pub fn is_broker(pid: u32) -> bool {
    processes::stat(pid).is_some_and(|stat| {
        let mut names = BROKERS.iter().flat_map(|known| known.processes);
        names.any(|name| *name == stat.command)
    })
}

/// Whether a process of this name is not that of a broker which calls itself `product`. Of brokers
/// whose processes are not known nothing is concluded.
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
        assert_eq!(Listener::default().proxy("RabbitMQ"), None);
        for found in [std::process::id(), u32::MAX] {
            let own = Listener {
                found: Some(found),
                given: None,
            };
            assert_eq!(own.proxy("RabbitMQ"), None);
        }
    }
}
