//! Why an experiment could not run.

use brokers::BrokerError;
use experiment::ExperimentError;
use measure::Problem;

/// Why an experiment could not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The request itself makes no sense.
    Usage(Problem),
    /// A request could not be fulfilled.
    Failed(Problem),
    /// The broker did not start within its time: another try may be quicker.
    NotReady(Problem),
    /// The user stopped it before anything was measured.
    Stopped {
        /// The step: `start`, `warm-up`.
        during: &'static str,
    },
}

impl Error {
    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Usage(problem) | Self::Failed(problem) | Self::NotReady(problem) => problem.clone(),
            Self::Stopped { during } => {
                Problem::new(format!("stopped in {during}"), "nothing measured", "nothing was kept; run it again")
            }
        }
    }
}

measure::shown_as_problem!(Error);

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl From<load::Error> for Error {
    fn from(error: load::Error) -> Self {
        if error.is_usage() { Self::Usage(error.problem()) } else { Self::Failed(error.problem()) }
    }
}

impl From<archive::Error> for Error {
    fn from(error: archive::Error) -> Self {
        Self::Failed(error.problem())
    }
}

impl From<BrokerError> for Error {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Cancelled => Self::Stopped { during: "start" },
            BrokerError::Usage(problem) => Self::Usage(problem),
            BrokerError::NotReady(problem) => Self::NotReady(problem),
            other => Self::Failed(other.problem()),
        }
    }
}

impl From<ExperimentError> for Error {
    fn from(error: ExperimentError) -> Self {
        Self::Usage(error.problem())
    }
}
