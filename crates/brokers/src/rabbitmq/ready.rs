//! Waits until the queues of data that a node began with serve.

use std::thread;
use std::time::{Duration, Instant};

use super::super::{BrokerError, managed::Progress, managed::Waiting};
use super::RabbitMq;

/// How often the node is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often somebody who waits is told for how long by now.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a queue that does not serve is the run's matter.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Waits until all queues serve: a stream whose leader is not found yet refuses its clients.
pub(super) fn wait_for_queues(
    node: &RabbitMq,
    waiting: &mut Waiting<'_>,
) -> Result<(), BrokerError> {
    const WHAT: &str = "waiting until its queues serve";
    let began = Instant::now();
    let mut told = TELL_INTERVAL;
    loop {
        let awaited = node.awaited(waiting.cancelled)?;
        if awaited.is_empty() {
            return Ok(());
        }
        if (waiting.cancelled)() {
            return Err(BrokerError::Cancelled);
        }
        if began.elapsed() > TIMEOUT {
            let seconds = TIMEOUT.as_secs();
            waiting.step(&format!(
                "queues that do not serve after {seconds} s: {}",
                awaited.join(", ")
            ));
            return Ok(());
        }
        if began.elapsed() >= told {
            (waiting.progress)(Progress::Waiting(WHAT, told));
            told += TELL_INTERVAL;
        }
        thread::sleep(POLL_INTERVAL);
    }
}
