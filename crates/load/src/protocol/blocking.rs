//! A short conversation beside the load, on a connection of its own. Blocking, every wait bounded.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::{Nanos, Time};
use transport::{ConnectAttempt, ConnectOptions, Dial, Poller, Sleep};

use super::{Connection, ConnectionSpec, Driver, Event, Input, Progress, Server};
use crate::control::Interruption;
use crate::resolve::Addresses;
use crate::{Control, Endpoint, Environment, Error};

/// How often a wait looks whether the user wants to stop.
const POLL_INTERVAL: Nanos = Nanos::from_millis(20);
/// The connection's token in its poll.
const TOKEN: usize = 0;
/// Events at once: the connection's, and the timer's.
const EVENTS: usize = 4;
/// A wait lasts this much longer than its time-out, for the protocol's own time-out says it better.
const GRACE: Nanos = Nanos::from_millis(100);

/// How to connect to an endpoint, with its certificates read; the load comes from the `sources`.
pub(crate) fn connect_options(endpoint: &Endpoint, sources: &[IpAddr]) -> Result<ConnectOptions, Error> {
    Ok(ConnectOptions { tls: endpoint.connector()?, source: sources.first().copied() })
}

pub(crate) struct Blocking<'a, C, E: Environment> {
    driver: Driver<C, <E::Poll as Dial>::Stream>,
    environment: E,
    poll: E::Poll,
    buffer: Vec<u8>,
    cipher: Vec<u8>,
    control: &'a Control,
    timeout: Nanos,
    /// In the place of `control` while the connection is closed.
    leaving: Option<Control>,
    addresses: Arc<Addresses>,
    /// The address that answered, of those that the host's name has.
    address: SocketAddr,
    /// How long the broker's kernel took to answer.
    round_trip: Nanos,
    /// The shortest time that it took the broker itself to answer anything.
    answer: Nanos,
}

impl<'a, C: Connection, E: Environment> Blocking<'a, C, E> {
    /// Connects, and waits until the connection is set up.
    pub(crate) fn connect(
        environment: &E,
        spec: ConnectionSpec<C::ClientSpec>,
        options: ConnectOptions,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let timeout = spec.timeout;
        let addresses = Addresses::of(environment, &spec.endpoint, timeout, control)?;
        let poll = environment.poll(EVENTS).map_err(|error| Error::machine("set up an event loop", error))?;
        let now = environment.now();
        let untried = addresses.in_turn(0, options.source);
        let attempt = ConnectAttempt::new(untried, options, now + timeout);
        let driver = Driver::connect(C::new(spec, now), attempt, &poll, TOKEN, now)?;
        let mut blocking = Self {
            driver,
            environment: environment.clone(),
            poll,
            buffer: vec![0; C::BUFFER_BYTES],
            cipher: Vec::new(),
            control,
            timeout,
            leaving: None,
            addresses,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            round_trip: Nanos::ZERO,
            answer: Nanos(u64::MAX),
        };
        let deadline = now + timeout + GRACE;
        while !blocking.finish_connecting()? {
            blocking.sleep(deadline)?;
        }
        blocking.addresses.prefer(blocking.address);
        blocking.wait_for(|_, progress| (progress == Progress::Ready).then_some(()))?;
        Ok(blocking)
    }

    fn finish_connecting(&mut self) -> Result<bool, Error> {
        let now = self.environment.now();
        if !self.driver.finish_connecting(&self.poll, now)? {
            return Ok(false);
        }
        let failed = |error| crate::failure::of_connect(self.driver.connection.endpoint(), &error);
        let (address, tried_at) = self.driver.peer().map_err(failed)?;
        (self.address, self.round_trip) = (address, now.since(tried_at));
        Ok(true)
    }

    /// The server that answered; `names` are its product, version and cluster.
    pub(crate) fn server(&self, names: [String; 3], most_clients: usize) -> Server {
        let [product, version, cluster] = names;
        let (addresses, address) = (Arc::clone(&self.addresses), self.address);
        let (round_trip, answer) = (self.round_trip, self.answer);
        Server { product, version, cluster, addresses, address, round_trip, answer, most_clients }
    }

    /// The connection, to ask for something; [`Blocking::wait_for`] then has the answer.
    pub(crate) const fn connection(&mut self) -> &mut C {
        &mut self.driver.connection
    }

    /// Starts the orderly close, and waits for its end; a broker that does not answer is not waited
    /// for beyond the time-out, nor for long where the load was stopped.
    pub(crate) fn close(mut self) -> Result<(), Interruption> {
        self.leaving = Some(self.control.finishing(self.environment.now()));
        self.driver.connection.leave(self.environment.now())?;
        self.wait_for(|_, progress| (progress == Progress::Closed).then_some(()))
    }

    /// Exchanges bytes until `wanted` finds what it waits for.
    pub(crate) fn wait_for<T>(
        &mut self,
        mut wanted: impl FnMut(&mut C, Progress) -> Option<T>,
    ) -> Result<T, Interruption> {
        let asked = self.environment.now();
        let deadline = asked + self.timeout + GRACE;
        loop {
            self.driver.flush(true)?;
            while self.driver.is_readable() {
                let now = self.environment.now();
                let found = self.read(&mut wanted).map_err(|error| self.driver.part(error, now))?;
                if let Some(found) = found {
                    self.answer = self.answer.min(self.environment.now().since(asked));
                    return Ok(found);
                }
                self.driver.flush(true)?;
                // Who never pauses is not listened to without end either.
                if self.environment.now() > deadline {
                    return Err(self.driver.timed_out(self.timeout).into());
                }
            }
            self.sleep(deadline)?;
            self.driver.handle_timeout(self.environment.now())?;
        }
    }

    /// Waits for the socket, no longer than there is to wait.
    fn sleep(&mut self, deadline: Time) -> Result<(), Interruption> {
        let now = self.environment.now();
        if now > deadline {
            return Err(self.driver.timed_out(self.timeout).into());
        }
        if self.leaving.as_ref().unwrap_or(self.control).ends_waits(now) {
            return Err(Interruption::Stopped);
        }
        let sleep = Sleep { pause: None, until: Some(now + POLL_INTERVAL) };
        self.poll.wait(sleep).map_err(|error| Error::machine("wait for a socket", error))?;
        for (token, readiness) in self.poll.events() {
            if token == TOKEN {
                self.driver.notice(readiness);
            }
        }
        Ok(())
    }

    fn read<T>(&mut self, wanted: &mut impl FnMut(&mut C, Progress) -> Option<T>) -> Result<Option<T>, Error> {
        let now = self.environment.now();
        let filled = match self.driver.read(&mut self.buffer, &mut self.cipher, now)? {
            Input::Bytes(filled) => filled,
            Input::Nothing => return Ok(None),
            Input::End => return Err(self.driver.ended()),
        };
        let now = self.environment.now();
        let (mut input, mut found) = (&self.buffer[..filled], None);
        let connection = &mut self.driver.connection;
        while found.is_none()
            && let Some((_, event)) = connection.poll(now, &mut input)?
        {
            if matches!(event, Event::Answer) {
                let progress = connection.proceed(now)?;
                found = wanted(connection, progress);
            }
        }
        self.driver.undecoded = found.is_some() && !input.is_empty();
        self.driver.keep(input);
        Ok(found)
    }
}
