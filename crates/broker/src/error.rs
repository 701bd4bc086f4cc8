//! Why a broker cannot run.

use std::net::SocketAddr;
use std::{fmt, io};

use measure::Problem;

/// Why a broker could not start or had to end. What a client does wrong is never one of these: it
/// closes that client's channel or connection only.
#[derive(Debug)]
pub enum Error {
    /// The address cannot be listened on.
    Listen {
        /// The address that was requested.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The certificates are not as TLS needs them.
    Tls(Problem),
    /// The system refused something the event loop cannot do without.
    EventLoop {
        /// The failed step.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The broker's thread ended by a panic: a defect of this program.
    Panicked,
}

impl Error {
    /// Cause, observed value and remedy.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::Listen { address, source } => Problem::new(
                format!("cannot listen on {address}"),
                source,
                "choose another address, or port 0 for a free one",
            ),
            Self::Tls(problem) => problem.clone(),
            Self::EventLoop { what, source } => Problem::new(
                format!("the broker's event loop cannot {what}"),
                source,
                "see ulimit -a and the kernel's limits on this user",
            ),
            Self::Panicked => Problem::new(
                "the broker's thread ended",
                "it panicked",
                "this is a defect of bellows, please report it",
            ),
        }
    }
}

/// Cause and observed value in one line.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for Error {}
