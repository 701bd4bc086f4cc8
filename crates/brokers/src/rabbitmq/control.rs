//! Asks a running node for its queues, exchanges and bindings, and for what its processes do.

use std::time::{Duration, Instant};

use archive::Topology;
use erlang::term::{as_bytes, show};
use erlang::{ConnectOptions, Error, Node};
use serde::de::DeserializeOwned;

use super::super::BrokerError;
use super::super::answer::{NoAnswer, wait_for};
use web::broker_objects::BrokerObjects;

/// An expression that the node evaluates, whose value is JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    expression: &'static str,
    asks_for: &'static str,
    timeout: Duration,
    /// How long it may take when it is asked once more, because the first answer did not come in time.
    again: Option<Duration>,
}

impl Question {
    const fn once(expression: &'static str, asks_for: &'static str, timeout: Duration) -> Self {
        Self { expression, asks_for, timeout, again: None }
    }

    const fn twice(expression: &'static str, asks_for: &'static str) -> Self {
        Self { expression, asks_for, timeout: TIMEOUT, again: Some(AGAIN) }
    }
}

/// The topology as errors name it, however it is asked for.
pub(crate) const OBJECTS: &str = "its queues and bindings";
/// Queues, exchanges and bindings: a [`BrokerObjects`].
const TOPOLOGY: Question = Question::twice(include_str!("topology.erl"), OBJECTS);
/// The busiest processes: a list of [`stacks::ErlangProcess`].
pub(crate) const PROCESSES: Question = Question::twice(include_str!("processes.erl"), "its processes");
/// The nodes of its cluster that run, by name: a list of texts.
pub(super) const RUNNING: Question = Question::once(include_str!("running.erl"), "the nodes of its cluster", TIMEOUT);
/// Queues that do not serve yet: a list of some of their names.
pub(super) const AWAITED: Question =
    Question::once(include_str!("awaited.erl"), "the state of its queues", IMPORT_TIMEOUT);
/// The modules that were replaced and that it takes from elsewhere all the same: a list of texts.
pub(super) const PATCHED: Question = Question::once(include_str!("patched.erl"), "the paths of its modules", TIMEOUT);
/// Imports the file of definitions in its directory: `ok`, or why not.
pub(super) const IMPORT: Question =
    Question::once(include_str!("import.erl"), "the import of its definitions", IMPORT_TIMEOUT);

/// A healthy node answers within milliseconds, more on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// A node that lives and is too busy for that gets so long once more.
const AGAIN: Duration = Duration::from_secs(60);
/// 100,000 queues take minutes.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(1_800);

/// The node's queues, exchanges and bindings.
pub(crate) fn topology(options: ConnectOptions, cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
    let objects: BrokerObjects = ask(options, TOPOLOGY, cancelled)?;
    Ok(objects.into_topology())
}

/// The node's answer to a question. Whoever waits for it may give up.
pub(crate) fn ask<T: DeserializeOwned>(
    options: ConnectOptions,
    question: Question,
    cancelled: &dyn Fn() -> bool,
) -> Result<T, BrokerError> {
    let begun = Instant::now();
    let mut allowed = Duration::ZERO;
    let mut why = NoAnswer::TimedOut;
    for timeout in [question.timeout].into_iter().chain(question.again) {
        allowed += timeout;
        let (missed, is_late) = match ask_once(options.clone(), question, timeout, cancelled) {
            Ok(json) => match serde_json::from_slice(&json) {
                Ok(value) => return Ok(value),
                Err(error) => (NoAnswer::Failed(error.to_string()), false),
            },
            Err(missed) => missed,
        };
        why = missed;
        if !is_late {
            break;
        }
    }
    // A node that gives no sign of life is given up before all of the time is over.
    Err(BrokerError::unanswered(question.asks_for, begun.elapsed().min(allowed), &why))
}

/// One try; its error says why there is no answer, and whether the node lives and may answer later.
fn ask_once(
    mut options: ConnectOptions,
    question: Question,
    timeout: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<u8>, (NoAnswer, bool)> {
    // What hangs is to be told from what is busy before the answer is given up.
    options.timeout = timeout / 2;
    let answer = wait_for(timeout, cancelled, move || evaluate(&options, question, timeout));
    match answer {
        Ok(Ok(json)) => Ok(json),
        Ok(Err(Error::Timeout { .. })) | Err(NoAnswer::TimedOut) => Err((NoAnswer::TimedOut, true)),
        Ok(Err(Error::Silent(_))) => Err((NoAnswer::TimedOut, false)),
        Ok(Err(error)) => Err((NoAnswer::Failed(error.to_string()), false)),
        Err(why) => Err((why, false)),
    }
}

fn evaluate(options: &ConnectOptions, question: Question, timeout: Duration) -> Result<Vec<u8>, Error> {
    let node = Node::connect(options)?;
    let value = node.evaluate(timeout, question.expression)?;
    match as_bytes(&value) {
        Some(json) => Ok(json.to_vec()),
        None => {
            Err(Error::Exception { node: node.name().clone(), call: "the question".into(), reason: show(&value, 200) })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::Path;
    use std::process::Command;

    use erlang::Cookie;
    use testkit::ChildGuard;

    use super::*;

    const COOKIE: &str = "cookie";

    fn options(name: &str, port: u16) -> ConnectOptions {
        let mut options = ConnectOptions::new(name.parse().unwrap(), Cookie::new(COOKIE).unwrap());
        options.address = Some(("127.0.0.1".into(), port));
        options
    }

    struct Beam {
        _child: ChildGuard,
        options: ConnectOptions,
    }

    impl Beam {
        fn start(home: &Path) -> Self {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let name = format!("late{}@127.0.0.1", std::process::id());
            let child = Command::new("erl")
                .args(["-noinput", "-name", &name, "-setcookie", COOKIE])
                .args(["-start_epmd", "false", "-erl_epmd_port", &port.to_string()])
                .args(["-kernel", "inet_dist_use_interface", "{127,0,0,1}"])
                .env("HOME", home)
                .spawn()
                .unwrap();
            let beam = Self { _child: ChildGuard(child), options: options(&name, port) };
            let until = Instant::now() + Duration::from_secs(60);
            while Node::connect(&beam.options).is_err() {
                assert!(Instant::now() < until, "the node did not come up");
                std::thread::sleep(Duration::from_millis(50));
            }
            beam
        }
    }

    #[test]
    fn a_node_that_answers_late_is_asked_once_more_and_longer() {
        testkit::needs_rabbitmq!();
        let home = tempfile::tempdir().unwrap();
        let beam = Beam::start(home.path());
        let first = Duration::from_secs(5);
        // The first question is never answered, the second after more than the first time-out.
        let question = Question {
            expression: "N = persistent_term:get(asked, 0), persistent_term:put(asked, N + 1), \
                timer:sleep(case N of 0 -> 600000; _ -> 6000 end), integer_to_binary(N + 1).",
            asks_for: "how often it was asked",
            timeout: first,
            again: Some(Duration::from_secs(30)),
        };
        let begun = Instant::now();
        let asked: u32 = ask(beam.options.clone(), question, &|| false).unwrap();
        assert_eq!(asked, 2);
        assert!(begun.elapsed() >= first * 2, "{:?}", begun.elapsed());

        // One that never answers is given up after both, and nobody waits for the second once the run is stopped.
        let never = Question {
            expression: "timer:sleep(600000).",
            timeout: Duration::from_secs(3),
            again: Some(Duration::from_secs(4)),
            ..question
        };
        let begun = Instant::now();
        let error = ask::<u32>(beam.options.clone(), never, &|| false).unwrap_err();
        let (took, text) = (begun.elapsed(), error.to_string());
        assert!(took >= Duration::from_secs(7) && took < first * 5, "{took:?}");
        assert!(matches!(error, BrokerError::Control { timed_out: true, .. }), "{error:?}");
        assert!(text.contains("no answer within 7 s"), "{text}");
        let begun = Instant::now();
        let is_over = || begun.elapsed() > Duration::from_millis(1_000);
        let error = ask::<u32>(beam.options, never, &is_over).unwrap_err();
        assert!(begun.elapsed() < Duration::from_millis(2_900), "{:?}", begun.elapsed());
        assert!(error.to_string().contains("stopped"), "{error}");
    }

    #[test]
    fn a_node_that_hangs_is_asked_once() {
        testkit::needs_rabbitmq!();
        let home = tempfile::tempdir().unwrap();
        let beam = Beam::start(home.path());
        // It stops itself once it was asked.
        let question = Question {
            expression: "os:cmd(\"kill -STOP \" ++ os:getpid()), timer:sleep(600000).",
            asks_for: "anything",
            timeout: Duration::from_secs(4),
            again: Some(Duration::from_secs(60)),
        };
        let begun = Instant::now();
        let error = ask::<u32>(beam.options, question, &|| false).unwrap_err();
        let (took, text) = (begun.elapsed(), error.to_string());
        assert!(took < Duration::from_secs(20), "{took:?}");
        let is_said = |seconds: u64| text.contains(&format!("no answer within {seconds} s"));
        assert!((0..=took.as_secs()).any(is_said), "{took:?}: {text}");
        assert!(matches!(error, BrokerError::Control { timed_out: true, .. }), "{error:?}");
    }

    #[test]
    fn a_node_that_does_not_answer_is_left_as_soon_as_the_run_is_stopped() {
        // It accepts, by the system, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = options("silent@localhost", silent.local_addr().unwrap().port());
        let begun = Instant::now();
        let answer = ask::<Topology>(options, PROCESSES, &|| true);
        let error = answer.unwrap_err();
        assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
        assert!(error.to_string().contains("stopped"), "{error}");
        // It says which question that was.
        assert!(error.to_string().starts_with("the broker did not answer about its processes: "), "{error}");
    }
}
