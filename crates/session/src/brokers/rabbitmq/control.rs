//! Asks a running node for its queues, exchanges and bindings, and for what its processes do.

use std::time::Duration;

use archive::Topology;
use erlang::term::{as_bytes, show};
use erlang::{ConnectOptions, Error, Node};
use serde::de::DeserializeOwned;

use super::super::BrokerError;
use super::super::answer::{NoAnswer, wait_for};
use crate::broker_objects::BrokerObjects;

/// An expression that the node evaluates, whose value is JSON.
#[derive(Clone, Copy, Debug)]
pub(in crate::brokers) struct Question {
    expression: &'static str,
    asks_for: &'static str,
    timeout: Duration,
}

/// What a broker is asked for that tells its topology, by whichever way.
pub(in crate::brokers) const OBJECTS: &str = "its queues and bindings";
/// Queues, exchanges and bindings: a [`BrokerObjects`].
const TOPOLOGY: Question = Question {
    expression: include_str!("topology.erl"),
    asks_for: OBJECTS,
    timeout: TIMEOUT,
};
/// What the busiest processes do: a list of [`archive::profile::ErlangProcess`].
pub(in crate::brokers) const PROCESSES: Question = Question {
    expression: include_str!("processes.erl"),
    asks_for: "what its processes do",
    timeout: TIMEOUT,
};
/// The nodes of its cluster that run, by name: a list of texts.
pub(super) const RUNNING: Question = Question {
    expression: include_str!("running.erl"),
    asks_for: "which nodes of its cluster run",
    timeout: TIMEOUT,
};
/// Queues that do not serve yet: a list of some of their names.
pub(super) const AWAITED: Question = Question {
    expression: include_str!("awaited.erl"),
    asks_for: "which of its queues serve",
    timeout: IMPORT_TIMEOUT,
};
/// The modules that were replaced and that it takes from elsewhere all the same: a list of texts.
pub(super) const PATCHED: Question = Question {
    expression: include_str!("patched.erl"),
    asks_for: "where it takes its modules from",
    timeout: TIMEOUT,
};
/// Imports the file of definitions in its directory: `ok`, or why not.
pub(super) const IMPORT: Question = Question {
    expression: include_str!("import.erl"),
    asks_for: "to import its definitions",
    timeout: IMPORT_TIMEOUT,
};

/// A healthy node answers within milliseconds, more on a busy machine.
pub(in crate::brokers) const TIMEOUT: Duration = Duration::from_secs(20);
/// 100,000 queues take minutes.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(1_800);

/// The node's queues, exchanges and bindings.
pub(in crate::brokers) fn topology(
    options: ConnectOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<Topology, BrokerError> {
    let objects: BrokerObjects = ask(options, TOPOLOGY, cancelled)?;
    Ok(objects.into_topology())
}

/// The node's answer to a question. Whoever waits for it may give up.
pub(in crate::brokers) fn ask<T: DeserializeOwned>(
    mut options: ConnectOptions,
    question: Question,
    cancelled: &dyn Fn() -> bool,
) -> Result<T, BrokerError> {
    options.timeout = question.timeout;
    let answer = wait_for(question.timeout, cancelled, move || {
        evaluate(&options, question)
    });
    let why = match answer {
        Ok(Ok(json)) => match serde_json::from_slice(&json) {
            Ok(value) => return Ok(value),
            Err(error) => NoAnswer::Failed(error.to_string()),
        },
        Ok(Err(Error::Timeout { .. } | Error::Unsettled { .. } | Error::Silent { .. })) => {
            NoAnswer::TimedOut
        }
        Ok(Err(error)) => NoAnswer::Failed(error.to_string()),
        Err(why) => why,
    };
    Err(BrokerError::unanswered(
        question.asks_for,
        question.timeout,
        &why,
    ))
}

fn evaluate(options: &ConnectOptions, question: Question) -> Result<Vec<u8>, Error> {
    let node = Node::connect(options)?;
    let value = node.evaluate(options.timeout, question.expression)?;
    match as_bytes(&value) {
        Some(json) => Ok(json.to_vec()),
        None => Err(Error::Exception {
            node: node.name().clone(),
            call: "the question".into(),
            reason: show(&value, 200),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use erlang::Cookie;

    use super::*;

    #[test]
    fn a_node_that_does_not_answer_is_left_as_soon_as_the_run_is_stopped() {
        // It accepts, by the system, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = "silent@localhost".parse().unwrap();
        let mut options = ConnectOptions::new(name, Cookie::new("cookie").unwrap());
        options.address = Some(("127.0.0.1".into(), silent.local_addr().unwrap().port()));
        options.timeout = TIMEOUT;
        let begun = Instant::now();
        let answer = ask::<Topology>(options, PROCESSES, &|| true);
        let error = answer.unwrap_err();
        assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
        assert!(error.to_string().contains("stopped"), "{error}");
        // It says which question that was.
        let said = "the broker did not tell what its processes do: ";
        assert!(error.to_string().starts_with(said), "{error}");
    }
}
