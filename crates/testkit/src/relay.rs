//! A TCP relay that delays what passes through it, and lets only so much pass: a network between two
//! processes of one machine, without privileges.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

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

/// Listens on a free port of the loopback and passes every connection on to `to`, until the process
/// ends. The address to connect to is returned.
///
/// # Errors
/// Where no port or no thread is to be had.
pub fn relay(to: SocketAddr, link: Link) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let serve = move || {
        for near in listener.incoming().flatten() {
            // Whoever cannot be connected sees its connection end.
            let _ = join(near, to, link);
        }
    };
    thread::Builder::new().name("relay".into()).spawn(serve)?;
    Ok(address)
}

fn join(near: TcpStream, to: SocketAddr, link: Link) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    one_way(near.try_clone()?, far.try_clone()?, link);
    one_way(far, near, link);
    Ok(())
}

fn one_way(mut from: TcpStream, to: TcpStream, link: Link) {
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
