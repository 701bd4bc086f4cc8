//! Asks a running node for its queues, exchanges and bindings, and for what its processes do.

use std::{
    fs::{self, File},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;

use super::super::BrokerError;
use super::{install::Installation, setup::Setup};
use crate::guardian::private_file;

/// An expression that the node evaluates, which writes the answer into a file of the node's directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    expression: &'static str,
    answer: &'static str,
    asks_for: &'static str,
    timeout: Duration,
}

impl Question {
    /// The error where there is no answer.
    fn unanswered(self, reason: impl Into<String>, timed_out: bool) -> BrokerError {
        BrokerError::Control {
            asked_for: self.asks_for,
            reason: reason.into(),
            timed_out,
        }
    }
}

/// Queues, exchanges and bindings: an [`archive::Topology`].
pub(super) const TOPOLOGY: Question = Question {
    expression: include_str!("topology.erl"),
    answer: "topology.json",
    asks_for: "its queues and bindings",
    timeout: TIMEOUT,
};
/// What the busiest processes do: a list of [`archive::profile::ErlangProcess`].
pub(super) const PROCESSES: Question = Question {
    expression: include_str!("processes.erl"),
    answer: "processes.json",
    asks_for: "what its processes do",
    timeout: TIMEOUT,
};
/// The nodes of its cluster that run, by name: a list of texts.
pub(super) const RUNNING: Question = Question {
    expression: include_str!("running.erl"),
    answer: "running.json",
    asks_for: "which nodes of its cluster run",
    timeout: TIMEOUT,
};
/// Imports the file of definitions in its directory: `ok`, or why not.
pub(super) const IMPORT: Question = Question {
    expression: include_str!("import.erl"),
    answer: "imported.json",
    asks_for: "to import its definitions",
    timeout: IMPORT_TIMEOUT,
};

/// A healthy node answers within milliseconds; `rabbitmqctl` itself takes a second or two to start,
/// more on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// 100,000 queues take minutes.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(1_800);

/// What carries the question to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Messenger {
    /// A small C program that comes with Erlang: milliseconds.
    ErlCall,
    /// Starts an Erlang of its own: 1.3 s of CPU time. For installations without the other.
    RabbitMqCtl,
}

impl Messenger {
    fn choose(installation: &Installation) -> Self {
        let erl_call = installation.erlang.emulator_directory.join("erl_call");
        if erl_call.is_file() {
            Self::ErlCall
        } else {
            Self::RabbitMqCtl
        }
    }
}

/// The node's answer to a question.
pub(super) fn ask<T: DeserializeOwned>(
    node: &Setup,
    installation: &Installation,
    question: Question,
    cancelled: &dyn Fn() -> bool,
) -> Result<T, BrokerError> {
    let answer = node.directory.join(question.answer);
    let _ = fs::remove_file(&answer);
    let said = evaluate(node, installation, question, cancelled)?;
    let text = fs::read(&answer);
    let text = text.map_err(|_| question.unanswered(format!("it says {said}"), false))?;
    serde_json::from_slice(&text).map_err(|error| question.unanswered(error.to_string(), false))
}

/// Has the node evaluate a question's expression, and returns what the messenger printed.
fn evaluate(
    node: &Setup,
    installation: &Installation,
    asked: Question,
    cancelled: &dyn Fn() -> bool,
) -> Result<String, BrokerError> {
    let messenger = Messenger::choose(installation);
    let question = node.directory.join("question.erl");
    private_file(&question, asked.expression.as_bytes())?;
    let output = node.directory.join("answer.txt");
    let answers = File::create(&output).map_err(BrokerError::io("create", &output))?;
    let complaints = answers
        .try_clone()
        .map_err(BrokerError::io("open", &output))?;
    let mut command = match messenger {
        Messenger::ErlCall => {
            let mut command = Command::new(installation.erlang.emulator_directory.join("erl_call"));
            command.args(["-address", &node.control_address.to_string(), "-e"]);
            command
        }
        Messenger::RabbitMqCtl => {
            let mut command = Command::new(installation.scripts.join("rabbitmqctl"));
            command.args(["eval", asked.expression]);
            command
        }
    };
    let mut child = command
        .env_clear()
        .envs(node.control_environment(installation))
        // The port of the node, without EPMD, and no port of its own.
        .env(
            "RABBITMQ_CTL_ERL_ARGS",
            format!(
                "-start_epmd false -erl_epmd_port {} -dist_listen false",
                node.control_address.port()
            ),
        )
        .stdin(File::open(&question).map_err(BrokerError::io("open", &question))?)
        .stdout(answers)
        .stderr(complaints)
        .spawn()
        .map_err(BrokerError::io("start", command.get_program()))?;
    wait(&mut child, asked, cancelled)?;
    let said = fs::read(&output).map_err(BrokerError::io("read", &output))?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Waits for the messenger, and ends it where the answer takes too long or nobody waits for it any more.
fn wait(
    child: &mut Child,
    asked: Question,
    cancelled: &dyn Fn() -> bool,
) -> Result<(), BrokerError> {
    let deadline = Instant::now() + asked.timeout;
    let error = loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(()),
            Ok(None) if cancelled() => {
                break asked.unanswered("the run was stopped before it answered", false);
            }
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                let reason = format!("no answer within {} s", asked.timeout.as_secs());
                break asked.unanswered(reason, true);
            }
            Err(error) => break asked.unanswered(error.to_string(), false),
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_answer_is_left_as_soon_as_the_run_is_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let begun = Instant::now();
        let error = wait(&mut child, PROCESSES, &|| true).unwrap_err();
        assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
        assert!(error.to_string().contains("stopped"), "{error}");
        // It says which question that was.
        let said = "the broker did not tell what its processes do: ";
        assert!(error.to_string().starts_with(said), "{error}");
        assert!(matches!(child.try_wait(), Ok(Some(_))), "it still runs");
    }
}
