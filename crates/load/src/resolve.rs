//! Which addresses a broker's name has. Names are looked up on threads of their own, because the
//! system's resolver has no time-out of ours; whoever waits for an answer says for how long.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use measure::{Nanos, Time};
use transport::tls::Connector;

use crate::control::Interruption;
use crate::{Control, Endpoint, Environment, Error, Resolver};

/// How often a wait looks whether the user wants to stop.
const SLICE: Duration = Duration::from_millis(20);
/// A connection that is lost waits for an answer for this long; then the addresses known before have to do.
const WAIT: Nanos = Nanos::SECOND;
/// How often a waiting connection looks whether the answer has come.
const POLL_INTERVAL: Nanos = Nanos::from_millis(10);
/// A name is looked up no more often than this.
const APART: Nanos = Nanos::from_millis(500);

/// The addresses of a broker's node, shared by all who connect to it.
#[derive(Debug)]
pub(crate) struct Addresses {
    host: String,
    port: u16,
    resolver: Resolver,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    known: Vec<SocketAddr>,
    /// Of the family that answered first: connections spread over its addresses; the others are a fallback.
    prefers_ipv6: bool,
    /// When the look-up in progress began.
    asked: Option<Time>,
    /// When the last one began.
    last: Time,
}

impl Addresses {
    /// Looks the host up, and waits for it as long as for anything.
    pub(crate) fn of<E: Environment>(
        environment: &E,
        endpoint: &Endpoint,
        timeout: Nanos,
        control: &Control,
    ) -> Result<Arc<Self>, Interruption> {
        let last = environment.now();
        let receiver = look_up(endpoint)?;
        let known = wait_for(environment, endpoint, &receiver, timeout, control)?;
        Ok(Arc::new(Self {
            host: endpoint.host.clone(),
            port: endpoint.port,
            resolver: endpoint.resolver.clone(),
            state: Mutex::new(State {
                prefers_ipv6: known.first().is_some_and(SocketAddr::is_ipv6),
                known,
                asked: None,
                last,
            }),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This address has answered: connections go to its like first.
    pub(crate) fn prefer(&self, address: SocketAddr) {
        self.state().prefers_ipv6 = address.is_ipv6();
    }

    /// The addresses in the order in which the `turn`-th connection tries them: those of the family
    /// that answered, beginning with another one for each, then the others. From `source`, only
    /// addresses of its family can be reached.
    pub(crate) fn in_turn(&self, turn: usize, source: Option<IpAddr>) -> VecDeque<SocketAddr> {
        let state = self.state();
        let fits = |address: &&SocketAddr| source.is_none_or(|source| source.is_ipv6() == address.is_ipv6());
        let (mut first, mut others) = (VecDeque::new(), Vec::new());
        for address in state.known.iter().filter(fits) {
            if address.is_ipv6() == state.prefers_ipv6 {
                first.push_back(*address);
            } else {
                others.push(*address);
            }
        }
        let by = turn % first.len().max(1);
        first.rotate_left(by);
        first.extend(others);
        first
    }

    /// Asks again, where there is a name and nobody has asked just now. The answer comes later.
    pub(crate) fn refresh(self: &Arc<Self>, now: Time) {
        self.refresh_after(APART, now);
    }

    /// Asks again, where the last time was this long ago.
    pub(crate) fn refresh_after(self: &Arc<Self>, age: Nanos, now: Time) {
        // An address is its own answer.
        if self.host.parse::<IpAddr>().is_ok() {
            return;
        }
        let mut state = self.state();
        if state.asked.is_some() || now.since(state.last) < age {
            return;
        }
        state.last = now;
        let addresses = Arc::clone(self);
        let ask = move || {
            let found = addresses.resolver.look_up(&addresses.host, addresses.port);
            let mut state = addresses.state();
            state.asked = None;
            // A name server that fails, or knows nothing just now, takes away no address.
            if let Ok(found) = found
                && !found.is_empty()
            {
                state.known = found;
            }
        };
        let thread = std::thread::Builder::new().name("resolve".into());
        // Without a thread, the addresses known before have to do.
        if thread.spawn(ask).is_ok() {
            state.asked = Some(now);
        }
    }

    /// When to look again whether the answer has come, where it is worth waiting for.
    pub(crate) fn wait(&self, now: Time) -> Option<Time> {
        let asked = self.state().asked?;
        (now < asked + WAIT).then_some(now + POLL_INTERVAL)
    }
}

type Answer = io::Result<Vec<SocketAddr>>;

fn look_up(endpoint: &Endpoint) -> Result<Receiver<Answer>, Error> {
    let (sender, receiver) = sync_channel(1);
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    if let Ok(address) = host.parse::<IpAddr>() {
        // Somebody receives it: the other end is in our hands.
        let _ = sender.send(Ok(vec![SocketAddr::new(address, port)]));
        return Ok(receiver);
    }
    let resolver = endpoint.resolver.clone();
    let ask = move || {
        // Nobody may be waiting any more.
        let _ = sender.send(resolver.look_up(&host, port));
    };
    let thread = std::thread::Builder::new().name("resolve".into());
    thread.spawn(ask).map_err(|error| Error::machine("start a thread", error))?;
    Ok(receiver)
}

fn wait_for<E: Environment>(
    environment: &E,
    endpoint: &Endpoint,
    receiver: &Receiver<Answer>,
    timeout: Nanos,
    control: &Control,
) -> Result<Vec<SocketAddr>, Interruption> {
    let deadline = environment.now() + timeout;
    loop {
        match environment.receive(receiver, SLICE) {
            Ok(Ok(addresses)) => return Ok(addresses),
            Ok(Err(error)) => {
                let detail = format!("the host name does not resolve: {error}");
                let help = "check the host name, or write the address".into();
                return Err(Error::Connect { endpoint: endpoint.to_string(), detail, help }.into());
            }
            Err(RecvTimeoutError::Timeout) if control.ends_waits(environment.now()) => {
                return Err(Interruption::Stopped);
            }
            Err(RecvTimeoutError::Timeout) if environment.now() < deadline => {}
            Err(_) => {
                let detail = format!("the host name did not resolve within {timeout}");
                return Err(Error::TimedOut { endpoint: endpoint.to_string(), detail }.into());
            }
        }
    }
}

/// A broker's node, its addresses, and how connections to it are secured.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) tls: Option<Arc<Connector>>,
    /// The most clients that may share a connection to it.
    pub(crate) most_clients: usize,
}

/// The nodes of a group's broker; at least one.
pub(crate) type Nodes = Arc<[Node]>;
