//! Why a broker cannot run.

use std::io;
use std::net::SocketAddr;

/// Why a broker could not start or had to end. What a client does wrong is never one of these: it
/// closes that client's channel or connection only.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; choose another address, or port 0 for a free one"
    )]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificates are not as TLS needs them.
    #[error(
        "{what}; give PEM files: the broker's certificate, its unencrypted key, and the authority of its clients"
    )]
    Tls {
        /// What is wrong with which file.
        what: String,
    },
    /// The system refused something the event loop cannot do without.
    #[error("the broker's event loop cannot {what}: {source}")]
    EventLoop {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The broker's thread ended by a panic: a defect of this program.
    #[error("the broker's thread panicked: this is a defect of bellows, please report it")]
    Panicked,
}
