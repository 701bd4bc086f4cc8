//! The public face: bind, run, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use transport::tls::Acceptor;

use crate::reactor::{LISTENER, Listener, Reactor, TLS_LISTENER, WAKER};
use crate::{Config, Error, FaultLog, Stop};

/// The name of the broker's thread, as profiles show it.
pub const THREAD_NAME: &str = "bellows-broker";

/// An embedded broker that listens and has not started serving, or serves on the caller's thread.
#[derive(Debug)]
pub struct Broker {
    config: Config,
    poll: Poll,
    waker: Arc<Waker>,
    listeners: Vec<Listener>,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    faults: FaultLog,
}

impl Broker {
    /// Starts listening. Clients that connect before [`Broker::run`] wait in the system's queue. Raises this process's
    /// limit on open descriptors as far as it may, because every connection takes one. Errors: when an address cannot
    /// be listened on, certificates cannot be used, or the system has no event queue to give.
    pub fn bind(config: Config) -> Result<Self, Error> {
        raise_descriptor_limit();
        let failed = |what| move |source| Error::EventLoop { what, source };
        let poll = Poll::new().map_err(failed("create an event queue"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(failed("create a waker"))?;
        let (mut listener, address) = listen(config.listen)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(failed("watch its listener"))?;
        let mut listeners = vec![Listener { socket: listener, tls: None, by_certificate: false }];
        let mut tls_address = None;
        if let Some(tls) = &config.tls {
            let acceptor = Acceptor::new(&tls.tls).map_err(Error::Tls)?;
            let (mut listener, address) = listen(tls.listen)?;
            poll.registry()
                .register(&mut listener, TLS_LISTENER, Interest::READABLE)
                .map_err(failed("watch its TLS listener"))?;
            tls_address = Some(address);
            listeners.push(Listener {
                socket: listener,
                tls: Some(acceptor),
                by_certificate: tls.tls.clients.is_some(),
            });
        }
        Ok(Self { config, poll, waker: Arc::new(waker), listeners, address, tls_address, faults: FaultLog::default() })
    }

    /// Counts of the faults of [`Config::faults`]; it is up to date while the broker runs, and stays readable
    /// afterwards.
    pub fn fault_log(&self) -> FaultLog {
        self.faults.clone()
    }

    /// The address clients connect to.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address that clients connect to with TLS, where there is one.
    pub const fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Serves on this thread, naming it [`THREAD_NAME`], until `stop` is used. What was held in memory is gone
    /// afterwards. Errors: when the event queue fails; clients' mistakes are never errors of the broker.
    pub fn run(&mut self, stop: &Stop) -> Result<(), Error> {
        // A thread without its name serves as well.
        let _ = rustix::thread::set_name(c"bellows-broker");
        stop.attach(Arc::clone(&self.waker));
        self.faults.attach(Arc::clone(&self.waker));
        let config = self.config.clone();
        let log = self.faults.clone();
        Reactor::new(config, log, &mut self.poll, &self.listeners)?.run(stop)
    }

    /// Serves on a thread of its own, named [`THREAD_NAME`]. Errors: when the system has no thread to give.
    pub fn spawn(mut self) -> Result<Running, Error> {
        let stop = Stop::new();
        let (address, tls_address) = (self.address, self.tls_address);
        let faults = self.faults.clone();
        let handle = stop.clone();
        let thread = std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || self.run(&handle))
            .map_err(|source| Error::EventLoop { what: "start its thread", source })?;
        Ok(Running { stop, address, tls_address, faults, thread: Some(thread) })
    }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Raises the soft limit on open descriptors to the hard one.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, newcomers above the limit wait until others leave.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A broker on its own thread. Dropping it stops the broker.
#[derive(Debug)]
pub struct Running {
    stop: Stop,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    faults: FaultLog,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    /// The address clients connect to.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address that clients connect to with TLS, where there is one.
    pub const fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// See [`Broker::fault_log`].
    pub fn fault_log(&self) -> FaultLog {
        self.faults.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        // Whoever wants the outcome calls `Broker::run`.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
