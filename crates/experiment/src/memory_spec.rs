//! `broker.memory-every`: how often the memory of the broker's nodes is read from both sides.

use measure::{Length, Problem};

use super::validate::wrong;
use super::{BrokerKind, BrokerSpec};

/// Shortest interval: a node's memory changes by carriers, and reading costs it time.
const SHORTEST: Length = Length(measure::Nanos::from_millis(200));
const KEY: &str = "broker.memory-every";

impl BrokerSpec {
    /// Checks that there is a node whose memory can be read, and that it is left time for its work.
    pub(super) fn check_memory(&self) -> Result<(), Problem> {
        let Some(every) = self.memory_every else {
            return Ok(());
        };
        if every < SHORTEST {
            let help = format!("give at least {SHORTEST}; 2s is usual");
            return Err(wrong(KEY, format!(" = {every} is too short"), help));
        }
        match (self.kind, &self.node) {
            (BrokerKind::Rabbitmq, _) | (BrokerKind::Attach, Some(_)) => Ok(()),
            (BrokerKind::Attach, None) => Err(wrong(
                KEY,
                " has no effect without broker.node",
                "set broker.node = \"rabbit@localhost\" (--node), or leave it out",
            )),
            (BrokerKind::Artemis | BrokerKind::Embedded, _) => Err(wrong(
                KEY,
                format!(" has no effect on kind = {:?}", self.kind.name()),
                "leave it out: only Erlang nodes have allocators that can be asked",
            )),
        }
    }
}
