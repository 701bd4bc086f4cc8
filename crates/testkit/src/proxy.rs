//! TCP between two programs of a test: a proxy whose connections can be cut, held up and kept away, and a relay that
//! delays what passes through it, and lets only so much pass.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
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
    /// Listens on a free port of the loopback. Errors: where no port or no thread is to be had.
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
    pub fn silent(&self, least: Duration) -> usize {
        let silences = self.state.silences.lock().unwrap_or_else(PoisonError::into_inner);
        silences.iter().map(|it| it.load(Ordering::Relaxed)).filter(|ms| u128::from(*ms) >= least.as_millis()).count()
    }

    fn pairs(&self) -> std::sync::MutexGuard<'_, Vec<Pair>> {
        self.state.pairs.lock().unwrap_or_else(PoisonError::into_inner)
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
    let pair = Pair { client: near.try_clone()?, server: far.try_clone()?, lingers: Arc::clone(&lingers) };
    state.pairs.lock().unwrap_or_else(PoisonError::into_inner).push(pair);
    one_way(near.try_clone()?, far.try_clone()?, is_even, Arc::clone(state), lingers, Arc::default());
    let silence = Arc::default();
    state.silences.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&silence));
    one_way(far, near, is_even, Arc::clone(state), Arc::default(), silence);
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

/// Bytes that are read at once.
const PIECE: usize = 16 << 10;
/// Pieces that may be in flight in each direction: as much as a long, fat link holds.
const UNDER_WAY: usize = 256;

/// Conditions of both directions of each connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// How long each byte takes.
    pub delay: Duration,
    /// Bytes per second that pass; all of them where absent.
    pub bandwidth: Option<u64>,
}

/// Listens on a free port of the loopback and passes every connection on to `to`, until the process ends. The address
/// to connect to is returned. Errors: where no port or no thread is to be had.
pub fn relay(to: SocketAddr, link: Link) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let serve = move || {
        for near in listener.incoming().flatten() {
            // Whoever cannot be connected sees its connection end.
            let _ = join_by_link(near, to, link);
        }
    };
    thread::Builder::new().name("relay".into()).spawn(serve)?;
    Ok(address)
}

fn join_by_link(near: TcpStream, to: SocketAddr, link: Link) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    one_way_by_link(near.try_clone()?, far.try_clone()?, link);
    one_way_by_link(far, near, link);
    Ok(())
}

fn one_way_by_link(mut from: TcpStream, to: TcpStream, link: Link) {
    let (sender, receiver) = sync_channel(UNDER_WAY);
    thread::spawn(move || take(&mut from, &sender, link.delay));
    thread::spawn(move || give(to, &receiver, link.bandwidth));
}

/// Reads, and says when each piece is due at the other end.
fn take(from: &mut TcpStream, pieces: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let bytes = piece.get(..length).unwrap_or_default().to_vec();
        if pieces.send((Instant::now() + delay, bytes)).is_err() {
            return;
        }
    }
}

/// Writes each piece when it is due and the link is free.
fn give(mut to: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>, bandwidth: Option<u64>) {
    let mut free = Instant::now();
    for (due, bytes) in pieces {
        let at = due.max(free);
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
        if let Some(per_second) = bandwidth {
            let seconds = bytes.len() as f64 / per_second.max(1) as f64;
            free = at + Duration::from_secs_f64(seconds);
        }
    }
    // An end on one side is an end on the other.
    let _ = to.shutdown(Shutdown::Write);
}
