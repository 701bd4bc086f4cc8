//! The connection to a node: the handshake, the frames, and the thread that owns the socket.

mod epmd;
mod frame;
mod handshake;
mod io_thread;
mod shared;
mod wire;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::Problem;
use transport::SocketError;
use transport::tls::{Connector, TlsError};

pub use epmd::registered_nodes;
pub use frame::Frame;
pub(crate) use shared::{LinkShared, MailboxId, deadline};

use crate::error::Error;
use crate::options::ConnectOptions;
use handshake::Outcome;
use wire::{Wire, resolve};

/// Names that are tried before somebody else's are believed to be all there is.
const ATTEMPTS: usize = 8;
/// Terms are decoded and dropped by recursion, as deep as the check allows.
const STACK_BYTES: usize = 8 << 20;
/// A node is not taken for silent sooner, however short the time-out is: schedulers of busy machines pause.
const LEAST_SILENCE: Duration = Duration::from_secs(1);

/// The connection, and the thread that serves it. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) shared: Arc<LinkShared>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Connects, and starts the thread.
    pub(crate) fn open(options: &ConnectOptions) -> Result<Self, Error> {
        let deadline = deadline(options.timeout);
        let (host, port) = match &options.address {
            Some((host, port)) => (host.clone(), *port),
            None => (options.node.host().to_owned(), epmd::port(options, deadline)?),
        };
        let addresses = resolve(&host, port, deadline).map_err(|source| Error::resolve(&host, &source))?;
        let connector = options.tls.as_ref().map(|tls| Connector::new(tls, options.node.host()));
        let connector = connector.transpose().map_err(Error::Other)?;
        for _ in 0..ATTEMPTS {
            let wire = Wire::connect(&addresses, connector.as_ref(), deadline)
                .map_err(|error| unconnected(options, &host, port, error))?;
            let local = handshake::local(options);
            if let Outcome::Done(wire) = handshake::shake(wire, &local, options)? {
                return Self::start(*wire, local, options);
            }
        }
        Err(Error::handshake(&options.node, format_args!("{ATTEMPTS} names are in use")))
    }

    fn start(wire: Wire, local: handshake::Local, options: &ConnectOptions) -> Result<Self, Error> {
        let lost = |error: std::io::Error| Error::lost(&options.node, error);
        let waker = mio::Waker::new(wire.poll.registry(), wire::WAKE).map_err(lost)?;
        let shared = Arc::new(LinkShared::new(options.node.clone(), local, waker));
        let served = Arc::clone(&shared);
        let silence = options.timeout.max(LEAST_SILENCE);
        let thread = thread::Builder::new()
            .name("bellows-erlang".into())
            .stack_size(STACK_BYTES)
            .spawn(move || io_thread::serve(wire, &served, silence))
            .map_err(lost)?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

fn unconnected(options: &ConnectOptions, host: &str, port: u16, error: SocketError) -> Error {
    let node = &options.node;
    match error {
        SocketError::Io(source) if source.kind() == std::io::ErrorKind::TimedOut => Error::Timeout {
            node: node.clone(),
            what: format!("nothing answers at {host}:{port}"),
            after: options.timeout,
            is_fixed: false,
        },
        SocketError::Io(source) => Error::unreachable(node, &format!("{host}:{port}"), &source),
        SocketError::Tls(error) => {
            let help = match error {
                TlsError::OtherProtocol(_) | TlsError::Unfinished(_) => {
                    "check that the node's distribution uses TLS (-proto_dist inet_tls), or leave out --tls"
                }
                _ => error.help(),
            };
            Error::Other(Problem::new(format!("the connection to {node} cannot be secured"), error, help))
        }
    }
}
