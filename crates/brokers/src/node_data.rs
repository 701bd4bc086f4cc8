//! Data of a node that outlives it: what a node begins with, or is to leave.

use std::path::PathBuf;

use measure::Problem;

use super::BrokerError;

/// Data of a node that outlives it. It is bound to the node's name.
#[derive(Clone, Debug)]
pub struct NodeData {
    /// The Erlang name of the node, which every node on a copy has.
    pub node: String,
    /// The data that the node begins with a copy of; `None`: it begins empty, and its data is kept when it has ended.
    pub original: Option<PathBuf>,
    /// The folder in which the directory of a node is made whose data is kept, so that it can be moved at once.
    pub parent: Option<PathBuf>,
    /// The broker that prepared it, in words.
    pub prepared_by: String,
}

impl NodeData {
    /// The failure of a broker that ended instead of starting on a copy.
    pub(super) fn refused(&self, error: BrokerError, version: &str) -> BrokerError {
        match error {
            BrokerError::Exited {
                product,
                status,
                log,
            } if self.original.is_some() => {
                let help = format!(
                    "its log below says why; an upgrade that {product} does not make in one step needs data of a release \
                     between both: prepare it with that one, or begin without broker.data"
                );
                let problem = Problem::new(
                    format!(
                        "{product} {version} does not start on a copy of the data that {} prepared",
                        self.prepared_by
                    ),
                    status,
                    help,
                );
                BrokerError::Config(Problem { log, ..problem })
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_refuses_data_is_told_from_one_that_does_not_start() {
        let data = NodeData {
            node: "bellows-1@localhost".to_owned(),
            original: Some(PathBuf::from("/kept/1/data")),
            parent: None,
            prepared_by: "RabbitMQ 3.10.8 on Erlang/OTP 25".to_owned(),
        };
        let exited = || BrokerError::Exited {
            product: "RabbitMQ",
            status: "exit status 1".to_owned(),
            log: "required feature flag not enabled".to_owned(),
        };
        let problem = data.refused(exited(), "4.0.5").problem();
        assert!(
            problem
                .cause
                .contains("RabbitMQ 4.0.5 does not start on a copy"),
            "{problem:?}"
        );
        assert!(problem.cause.contains("RabbitMQ 3.10.8"), "{problem:?}");
        assert!(problem.log.contains("feature flag"), "{problem:?}");
        let fresh = NodeData {
            original: None,
            ..data
        };
        let other = fresh.refused(exited(), "4.0.5");
        assert!(matches!(other, BrokerError::Exited { .. }), "{other:?}");
    }
}
