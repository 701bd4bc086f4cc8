//! A TCP proxy whose connections a test can cut, hold up and keep away.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a held direction looks whether it may go on.
const LOOK: Duration = Duration::from_millis(2);

/// Passes connections on to one address, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    pairs: Mutex<Vec<Pair>>,
    /// New connections end at once.
    away: AtomicBool,
    /// Nothing passes: on no connection, or on every other one.
    held: AtomicBool,
    half_held: AtomicBool,
    over: AtomicBool,
    /// The longest time in which the server sent nothing, of each connection, in milliseconds.
    silences: Mutex<Vec<Arc<AtomicU64>>>,
}

impl State {
    fn is_held(&self, is_even: bool) -> bool {
        let half = is_even && self.half_held.load(Ordering::Relaxed);
        (half || self.held.load(Ordering::Relaxed)) && !self.over.load(Ordering::Relaxed)
    }
}

/// Both ends of a connection.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// The server does not learn yet that the client's end is gone.
    lingers: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a free port of the loopback.
    ///
    /// # Errors
    /// Where no port or no thread is to be had.
    pub fn new(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let serve = move || {
            for (number, near) in listener.incoming().flatten().enumerate() {
                if shared.over.load(Ordering::Relaxed) {
                    return;
                }
                if !shared.away.load(Ordering::Relaxed) {
                    // Whoever cannot be connected sees its connection end.
                    let _ = join(near, to, number % 2 == 0, &shared);
                }
            }
        };
        thread::Builder::new().name("proxy".into()).spawn(serve)?;
        Ok(Self { address, state })
    }

    /// Where clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections. The server learns of it so much later.
    pub fn cut(&self, later: Duration) {
        let pairs = std::mem::take(&mut *self.pairs());
        for pair in pairs {
            pair.lingers.store(!later.is_zero(), Ordering::Relaxed);
            let _ = pair.client.shutdown(Shutdown::Both);
            let end = move || {
                thread::sleep(later);
                pair.server.shutdown(Shutdown::Both)
            };
            if later.is_zero() {
                let _ = end();
            } else {
                thread::spawn(end);
            }
        }
    }

    /// Whether new connections are kept away.
    pub fn keep_away(&self, away: bool) {
        self.state.away.store(away, Ordering::Relaxed);
    }

    /// Whether nothing passes on every other connection, though all stay.
    pub fn hold_half(&self, held: bool) {
        self.state.half_held.store(held, Ordering::Relaxed);
    }

    /// Whether nothing passes, though all connections stay.
    pub fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::Relaxed);
    }

    /// Connections on which the server has sent nothing for at least this long, once or more.
    #[must_use]
    pub fn silent(&self, least: Duration) -> usize {
        let silences = self.state.silences.lock();
        let silences = silences.unwrap_or_else(PoisonError::into_inner);
        let times = silences.iter().map(|it| it.load(Ordering::Relaxed));
        times
            .filter(|ms| u128::from(*ms) >= least.as_millis())
            .count()
    }

    fn pairs(&self) -> std::sync::MutexGuard<'_, Vec<Pair>> {
        self.state
            .pairs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        self.cut(Duration::ZERO);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn join(near: TcpStream, to: SocketAddr, is_even: bool, state: &Arc<State>) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    let lingers = Arc::new(AtomicBool::new(false));
    let pair = Pair {
        client: near.try_clone()?,
        server: far.try_clone()?,
        lingers: Arc::clone(&lingers),
    };
    state
        .pairs
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(pair);
    one_way(
        near.try_clone()?,
        far.try_clone()?,
        is_even,
        Arc::clone(state),
        lingers,
        Arc::default(),
    );
    let silence = Arc::default();
    state
        .silences
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(Arc::clone(&silence));
    one_way(
        far,
        near,
        is_even,
        Arc::clone(state),
        Arc::default(),
        silence,
    );
    Ok(())
}

fn one_way(
    mut from: TcpStream,
    mut to: TcpStream,
    is_even: bool,
    state: Arc<State>,
    lingers: Arc<AtomicBool>,
    silence: Arc<AtomicU64>,
) {
    thread::spawn(move || {
        let mut piece = vec![0; 16 << 10];
        let mut heard = Instant::now();
        loop {
            // What was read just before it was held waits here.
            let read = from.read(&mut piece);
            silence.fetch_max(heard.elapsed().as_millis() as u64, Ordering::Relaxed);
            heard = Instant::now();
            while state.is_held(is_even) {
                thread::sleep(LOOK);
            }
            match read {
                Ok(n @ 1..) if to.write_all(piece.get(..n).unwrap_or_default()).is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        // An end on one side is an end on the other.
        if !lingers.load(Ordering::Relaxed) {
            let _ = to.shutdown(Shutdown::Write);
        }
    });
}
