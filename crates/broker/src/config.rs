//! Settings of a broker, fixed before it starts, and why one cannot run.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;

use measure::{Nanos, Problem};
use ring::rand::{SecureRandom as _, SystemRandom};
use transport::tls::ServerTls;
use wire::amqp10::ScramKeys;

use crate::faults::{Fault, Origin};

/// The settings of one embedded broker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one; [`crate::Broker::local_addr`] tells which.
    pub listen: SocketAddr,
    /// A second listener, for encrypted connections.
    pub tls: Option<TlsListener>,
    /// Messages that may be held, in bytes of memory with their bookkeeping. Above it publishers
    /// get `connection.blocked` and are read no more until [`Config::resume_bytes`] is reached.
    pub memory_limit_bytes: u64,
    /// The heartbeat interval proposed to clients, in seconds; 0 turns heartbeats off.
    pub heartbeat_s: u16,
    /// The highest channel of a connection; 0 counts as 65535.
    pub channel_max: u16,
    /// Who may log in.
    pub users: Vec<User>,
    /// How long a client may take from the connection to `connection.open`.
    pub handshake_timeout: Nanos,
    /// Bytes waiting to be written to one connection above which none of its consumers gets another message; less for
    /// each where connections are many. Several times the largest message keeps consumers busy.
    pub unsent_limit_bytes: usize,
    /// The largest message accepted, in bytes of its body; a larger one closes its channel.
    pub max_message_bytes: u64,
    /// Faults to inject into clients' connections and messages; [`crate::FaultLog`] counts them.
    pub faults: Vec<Fault>,
    /// Origin of their times.
    pub fault_origin: Origin,
}

/// A listener for encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsListener {
    /// Where to listen. Port 0 takes a free one; [`crate::Broker::tls_addr`] tells which.
    pub listen: SocketAddr,
    /// The certificates.
    pub tls: ServerTls,
}

impl Default for Config {
    /// Loopback on a free port, 512 MiB, RabbitMQ's heartbeat, channels, user `guest` and message limit.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
            memory_limit_bytes: 512 << 20,
            heartbeat_s: 60,
            channel_max: 2_047,
            users: vec![User::new("guest", "guest")],
            handshake_timeout: Nanos::from_millis(10_000),
            unsent_limit_bytes: 512 << 10,
            max_message_bytes: 128 << 20,
            faults: Vec::new(),
            fault_origin: Origin::default(),
        }
    }
}

impl Config {
    /// The memory below which blocked publishers are read again: three quarters of the limit, so
    /// that a broker at its limit does not block and unblock with every message.
    pub const fn resume_bytes(&self) -> u64 {
        self.memory_limit_bytes / 4 * 3
    }
}

/// A user who may log in with SASL `PLAIN`, over AMQP 1.0 with `SCRAM-SHA-256`, or with `EXTERNAL` by a certificate of
/// this common name.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    password: String,
    /// The password as SCRAM needs it, once somebody has used that: it takes a millisecond to derive.
    scram: OnceLock<ScramKeys>,
}

impl User {
    /// A user of this name and password.
    pub fn new(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self { name: name.into(), password: password.into(), scram: OnceLock::new() }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the one as whom everybody may log in, as in RabbitMQ.
    pub(crate) fn is_guest(&self) -> bool {
        self.matches("guest", "guest")
    }

    /// The password as SCRAM needs it; `None` where the system has nothing random.
    pub(crate) fn scram_keys(&self) -> Option<ScramKeys> {
        let known = self.scram.get().cloned();
        known
            .or_else(|| random().map(|salt| self.scram.get_or_init(|| ScramKeys::derive(&self.password, salt)).clone()))
    }

    /// Whether these are this user's name and password.
    pub(crate) fn matches(&self, name: &str, password: &str) -> bool {
        self.name == name && self.password == password
    }
}

/// Bytes that nobody can guess; `None` where the system has none.
pub(crate) fn random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}

/// Shows the name only.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

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
}

impl Error {
    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Listen { address, source } => {
                let help = "choose another address, or port 0 for a free one";
                Problem::new(format!("cannot listen on {address}"), source, help)
            }
            Self::Tls(problem) => problem.clone(),
            Self::EventLoop { what, source } => {
                let help = "see ulimit -a and the kernel's limits on this user";
                Problem::new(format!("the broker's event loop cannot {what}"), source, help)
            }
        }
    }
}

measure::shown_as_problem!(Error);
