//! Stands between the nodes of a cluster on one machine, so that one of them can be cut off: its links stay open and
//! carry nothing, as when a cable is pulled.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// How often a link that is cut looks whether it is whole again.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Links that are relayed at once at most: three nodes have three, and those of control commands pass by.
const MOST_LINKS: usize = 100;
/// Time in which a node of this machine takes a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Which nodes are cut off, by their numbers.
#[derive(Debug)]
struct RelayedNodes {
    cut_off: Vec<AtomicBool>,
    /// Where each listens.
    listening: Vec<SocketAddrV4>,
    is_over: AtomicBool,
    links: AtomicUsize,
}

impl RelayedNodes {
    fn is_cut(&self, ends: [Option<usize>; 2]) -> bool {
        let mut ends = ends.into_iter().flatten();
        ends.any(|node| self.cut_off.get(node).is_some_and(|cut| cut.load(SeqCst)))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Waits until the link carries again; `false` where nobody needs it any more.
    fn wait_until_whole(&self, ends: [Option<usize>; 2]) -> bool {
        while self.is_cut(ends) && !self.is_over() {
            thread::sleep(POLL_INTERVAL);
        }
        !self.is_over()
    }
}

/// Relays what nodes send each other. Dropping it ends that.
#[derive(Debug)]
pub(super) struct Relay {
    nodes: Arc<RelayedNodes>,
}

impl Relay {
    /// Begins to listen: for each node where its name leads to, and where it listens itself.
    pub(super) fn start(places: &[[SocketAddrV4; 2]]) -> io::Result<Self> {
        let nodes = Arc::new(RelayedNodes {
            cut_off: places.iter().map(|_| AtomicBool::new(false)).collect(),
            listening: places.iter().map(|[_, own]| *own).collect(),
            is_over: AtomicBool::new(false),
            links: AtomicUsize::new(0),
        });
        let relay = Self {
            nodes: Arc::clone(&nodes),
        };
        for (node, [named, _]) in places.iter().enumerate() {
            let listener = TcpListener::bind(named)?;
            listener.set_nonblocking(true)?;
            let nodes = Arc::clone(&nodes);
            thread::Builder::new()
                .name("bellows-relay".to_owned())
                .spawn(move || accept(&listener, node, &nodes))?;
        }
        Ok(relay)
    }

    /// Cuts a node off from all others, or joins it again.
    pub(super) fn cut_off(&self, node: usize, is_cut: bool) {
        if let Some(cut) = self.nodes.cut_off.get(node) {
            cut.store(is_cut, SeqCst);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.nodes.is_over.store(true, SeqCst);
    }
}

/// Takes links to a node, until the relay is over.
fn accept(listener: &TcpListener, node: usize, nodes: &Arc<RelayedNodes>) {
    while !nodes.is_over() {
        let Ok((stream, from)) = listener.accept() else {
            thread::sleep(POLL_INTERVAL);
            continue;
        };
        if nodes.links.fetch_add(1, SeqCst) >= MOST_LINKS {
            nodes.links.fetch_sub(1, SeqCst);
            continue;
        }
        let ends = [Some(node), sender(nodes, from)];
        let of_link = Arc::clone(nodes);
        let link = move || {
            // A link that ends is a matter of the two nodes.
            let _ = relay(&stream, ends, &of_link);
            of_link.links.fetch_sub(1, SeqCst);
        };
        let thread = thread::Builder::new().name("bellows-relay".to_owned());
        if thread.spawn(link).is_err() {
            nodes.links.fetch_sub(1, SeqCst);
        }
    }
}

/// The node that connects from this address.
fn sender(nodes: &RelayedNodes, from: SocketAddr) -> Option<usize> {
    let from = from.ip();
    let mut listening = nodes.listening.iter();
    listening.position(|own| IpAddr::V4(*own.ip()) == from)
}

/// Carries a link in both directions until it ends.
fn relay(
    stream: &TcpStream,
    ends: [Option<usize>; 2],
    nodes: &Arc<RelayedNodes>,
) -> io::Result<()> {
    let [node, _] = ends;
    let own = node.and_then(|node| nodes.listening.get(node));
    let own = own.ok_or(io::ErrorKind::NotFound)?;
    stream.set_nonblocking(false)?;
    if !nodes.wait_until_whole(ends) {
        return Ok(());
    }
    let other = TcpStream::connect_timeout(&(*own).into(), CONNECT_TIMEOUT)?;
    for side in [stream, &other] {
        side.set_nodelay(true)?;
        side.set_read_timeout(Some(Duration::from_millis(200)))?;
        side.set_write_timeout(Some(Duration::from_millis(200)))?;
    }
    thread::scope(|scope| {
        scope.spawn(|| carry(stream, &other, ends, nodes));
        carry(&other, stream, ends, nodes);
    });
    Ok(())
}

/// Carries one direction until one side closes, which is passed on when the link is whole.
fn carry(from: &TcpStream, to: &TcpStream, ends: [Option<usize>; 2], nodes: &RelayedNodes) {
    let (mut reader, mut buffer) = (from, vec![0; 64 << 10]);
    while nodes.wait_until_whole(ends) {
        let read = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if is_idle(&error) => continue,
            Err(_) => break,
        };
        // What was read in the instant of a cut waits for its end.
        if !nodes.wait_until_whole(ends) || !send(to, buffer.get(..read).unwrap_or_default(), nodes)
        {
            break;
        }
    }
    let _ = nodes.wait_until_whole(ends);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Whether all was sent: a node that is paused takes its time.
fn send(mut to: &TcpStream, mut bytes: &[u8], nodes: &RelayedNodes) -> bool {
    while !bytes.is_empty() && !nodes.is_over() {
        match to.write(bytes) {
            Ok(0) => return false,
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(error) if is_idle(&error) => {}
            Err(_) => return false,
        }
    }
    bytes.is_empty()
}

fn is_idle(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    [Interrupted, TimedOut, WouldBlock].contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::super::members::Network;
    use super::*;

    #[test]
    fn a_node_that_is_cut_off_hears_nothing_and_then_everything() {
        let places = Network::find(2, true).unwrap().relayed(2);
        let node = TcpListener::bind(places[1][1]).unwrap();
        let relay = Relay::start(&places).unwrap();
        let mut link = TcpStream::connect(places[1][0]).unwrap();
        link.write_all(b"one").unwrap();
        let (mut there, _) = node.accept().unwrap();
        let mut bytes = [0; 3];
        there.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"one");
        relay.cut_off(1, true);
        link.write_all(b"two").unwrap();
        there
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        assert!(is_idle(&there.read_exact(&mut bytes).unwrap_err()));
        relay.cut_off(1, false);
        there.set_read_timeout(None).unwrap();
        there.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"two");
        drop(link);
        assert_eq!(there.read(&mut bytes).unwrap(), 0, "the end is passed on");
    }
}
