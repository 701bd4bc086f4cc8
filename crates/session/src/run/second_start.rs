//! A second start of the broker for one of many runs: a machine that is busy for a moment must not end hours of work.

use measure::Problem;

use super::{RunOptions, RunOutcome, run};
use crate::{Error, Observer};
use experiment::Experiment;

/// Like [`run`], with a second attempt where the broker did not start within its time; `observer` is told.
///
/// # Errors
/// As [`run`].
pub fn run_again_if_not_ready(
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    match run(experiment, options, control, observer) {
        Err(Error::NotReady(problem)) if !control.is_stopping() => {
            observer.ready(&once_more(&problem));
            run(experiment, options, control, observer)
        }
        ended => ended,
    }
}

fn once_more(problem: &Problem) -> String {
    format!("{problem}; the run is tried once more")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use brokers::BrokerError;

    #[test]
    fn a_broker_that_was_not_ready_is_told_from_one_that_cannot_start() {
        let slow = BrokerError::NotReady {
            product: "RabbitMQ",
            waited: Duration::from_secs(60),
            log: String::new(),
        };
        let Error::NotReady(problem) = Error::from(slow) else {
            panic!("another error");
        };
        let told = once_more(&problem);
        assert!(told.contains("in time"), "{told}");
        assert!(told.ends_with("; the run is tried once more"), "{told}");
        let gone = BrokerError::Exited {
            product: "RabbitMQ",
            status: "exit status: 1".to_owned(),
            log: String::new(),
        };
        assert!(matches!(Error::from(gone), Error::Failed(_)));
    }
}
