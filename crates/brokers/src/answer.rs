//! Waits for what somebody else takes long to answer, no longer than anybody wants it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether anybody still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Nobody waits for it any more.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// It failed, and why.
    Failed(String),
}

/// Asks on a thread of its own, which is left alone once it takes too long or nobody waits; it ends with its time-out.
pub(super) fn wait_for<T: Send + 'static>(
    timeout: Duration,
    cancelled: &dyn Fn() -> bool,
    question: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let (sender, receiver) = mpsc::channel();
    let deadline = Instant::now() + timeout;
    thread::Builder::new()
        .name("bellows-question".into())
        .spawn(move || {
            // Nobody may wait any more.
            let _ = sender.send(question());
        })
        .map_err(|error| NoAnswer::Failed(error.to_string()))?;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(NoAnswer::Failed("the thread that asks has ended".into()));
            }
            Err(RecvTimeoutError::Timeout) if cancelled() => return Err(NoAnswer::Cancelled),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Err(NoAnswer::TimedOut),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_until_it_comes_or_nobody_wants_it() {
        let slow = || {
            thread::sleep(Duration::from_millis(200));
            7
        };
        let long = Duration::from_secs(60);
        assert_eq!(wait_for(long, &|| false, slow), Ok(7));
        let begun = Instant::now();
        let cancelled = wait_for(long, &|| true, slow);
        assert_eq!(cancelled, Err(NoAnswer::Cancelled));
        let late = wait_for(Duration::from_millis(20), &|| false, slow);
        assert_eq!(late, Err(NoAnswer::TimedOut));
        assert!(begun.elapsed() < Duration::from_millis(200));
        let ended = wait_for(long, &|| false, || -> u8 { std::panic::panic_any("x") });
        assert!(matches!(ended, Err(NoAnswer::Failed(_))), "{ended:?}");
    }
}
