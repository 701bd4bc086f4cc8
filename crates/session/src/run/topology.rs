//! The broker's topology and its processes, read when sending has ended and clients are still connected: a second later
//! its consumers are gone, and a second earlier reading would disturb the measurement.

use std::time::{Duration, Instant};

use archive::Topology;
use measure::{Clock, Time};
use stacks::ErlangProcess;

use brokers::{Broker, BrokerError};

/// Time-out of a broker's answer after the run was stopped; a healthy one takes milliseconds.
const AFTER_A_STOP: Duration = Duration::from_secs(2);

/// Whether an answer is no longer waited for: once the run is stopped, or soon where it was stopped before.
pub(crate) fn is_cancelled(control: &load::Control) -> impl Fn() -> bool {
    let (asked, was_stopping) = (Instant::now(), control.is_stopping());
    move || if was_stopping { asked.elapsed() > AFTER_A_STOP } else { control.is_stopping() }
}

pub(crate) type NodeProcesses = Result<Vec<ErlangProcess>, BrokerError>;

#[derive(Debug)]
pub(crate) struct BrokerState {
    pub(crate) at: Time,
    pub(crate) topology: Result<Topology, BrokerError>,
    /// Erlang processes of each node; empty without a profile whose processes need names.
    pub(crate) processes: Vec<NodeProcesses>,
}

impl BrokerState {
    /// Asks a broker; for its processes only where a profile is taken.
    pub(crate) fn read(broker: &dyn Broker, profiled: bool, control: &load::Control) -> Self {
        let topology = broker.topology(&is_cancelled(control));
        let at = Clock.now();
        let processes = if profiled { processes(broker, &topology, control) } else { Vec::new() };
        Self { at, topology, processes }
    }
}

/// The broker's state at the end of a run: that of when sending had ended (`during`), with the messages that its queues
/// hold now, else the present one. The run's clients left at `left`.
pub(crate) fn at_end(
    during: Option<BrokerState>,
    left: Option<Time>,
    broker: &dyn Broker,
    profiled: bool,
    control: &load::Control,
) -> BrokerState {
    let now = Clock.now();
    let Some(BrokerState { at, topology, processes }) = during else {
        let state = BrokerState::read(broker, profiled, control);
        return BrokerState { at: now, topology: with_left(state.topology, now, left), ..state };
    };
    let (at, topology) = match topology {
        // Whoever stops the run does not wait twice, and nobody does for a broker that hangs.
        during if is_hopeless(&during, control) => (at, during),
        Ok(mut during) => {
            // In the drain queues shrink; some may be gone.
            if let Ok(later) = broker.topology(&is_cancelled(control)) {
                for queue in &mut during.queues {
                    let mut others = later.queues.iter();
                    let found = others.find(|it| (&it.vhost, &it.name) == (&queue.vhost, &queue.name));
                    queue.messages = found.map_or(queue.messages, |found| found.messages);
                }
            }
            (at, Ok(during))
        }
        Err(_) => (now, broker.topology(&is_cancelled(control))),
    };
    BrokerState { at, topology: with_left(topology, at, left), processes }
}

/// A topology that was read at an instant, with whether the run's clients had left then.
fn with_left(topology: Result<Topology, BrokerError>, at: Time, left: Option<Time>) -> Result<Topology, BrokerError> {
    topology.map(|topology| Topology { consumers_left: left.is_some_and(|left| at > left), ..topology })
}

/// Reads the processes of each node, unless the previous request had no answer in time, or none before a stop.
pub(crate) fn processes(
    broker: &dyn Broker,
    topology: &Result<Topology, BrokerError>,
    control: &load::Control,
) -> Vec<NodeProcesses> {
    if is_hopeless(topology, control) {
        let reason = "it was not asked, since it did not list its queues and bindings in time";
        return vec![Err(BrokerError::control("its processes", reason, true))];
    }
    let cancelled = is_cancelled(control);
    (0..broker.nodes().len().max(1)).map(|node| broker.erlang_processes(node, &cancelled)).collect()
}

/// Whether the broker gave no answer in time, or none before the run was stopped: it would not to another question.
fn is_hopeless(answer: &Result<Topology, BrokerError>, control: &load::Control) -> bool {
    is_timed_out(answer) || (answer.is_err() && control.is_stopping())
}

const fn is_timed_out(answer: &Result<Topology, BrokerError>) -> bool {
    matches!(answer, Err(BrokerError::Control { timed_out: true, .. }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::run::faults::tests::nodes;

    #[test]
    fn a_broker_that_gives_no_answer_in_time_or_before_a_stop_is_asked_once() {
        let stopped = load::Control::new();
        stopped.stop();
        for (timed_out, control) in [(true, load::Control::new()), (false, stopped)] {
            let mut broker = nodes();
            broker.timed_out = timed_out;
            let state = BrokerState::read(&broker, true, &control);
            assert_eq!(broker.asked.load(Ordering::Relaxed), 1);
            assert_eq!(is_timed_out(&state.topology), timed_out);
            let error = state.processes[0].as_ref().unwrap_err().to_string();
            assert!(error.starts_with("the broker did not answer about its processes: it was not asked"), "{error}");
        }
    }

    #[test]
    fn a_stop_ends_a_question_at_once_and_leaves_a_later_one_two_seconds() {
        let control = load::Control::new();
        let asked_before = is_cancelled(&control);
        assert!(!asked_before(), "nobody stopped it");
        control.stop();
        assert!(asked_before(), "the stop came while it waited");
        let asked_after = is_cancelled(&control);
        assert!(!asked_after(), "a stopped run has a topology too");
        std::thread::sleep(AFTER_A_STOP + Duration::from_millis(10));
        assert!(asked_after());
    }
}
