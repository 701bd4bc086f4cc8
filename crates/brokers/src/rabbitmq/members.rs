//! How the nodes of a cluster find each other on one machine, without an EPMD: each has an address of its own on the
//! loopback interface, which is the host in its name, and all listen on the same port there.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;

use crate::BrokerError;
use crate::guardian::random_hex;

/// Where the addresses of nodes behind a relay begin: the relay has those that their names lead to.
const BEHIND_RELAY: u8 = 100;

/// Tries with other addresses, where somebody listens there.
const ATTEMPTS: u32 = 20;

/// The addresses and the secret of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// The first two numbers behind 127.
    network: [u8; 2],
    port: u16,
    cookie: String,
    /// Whether the addresses in the names are a relay's.
    is_relayed: bool,
}

impl Network {
    /// Looks for addresses and a port that nobody uses.
    pub(super) fn find(size: u32, is_relayed: bool) -> Result<Self, BrokerError> {
        let cookie = random_hex(20)?;
        let mut attempt = 0;
        loop {
            let random = random_hex(2)?;
            let number = |from: usize| u8::from_str_radix(random.get(from..from + 2)?, 16).ok();
            let network = [64 + number(0).unwrap_or_default() % 128, number(2).unwrap_or_default()];
            let mut found = Self { network, port: 0, cookie: cookie.clone(), is_relayed };
            attempt += 1;
            match found.free_port(size) {
                Ok(port) => {
                    found.port = port;
                    return Ok(found);
                }
                Err(error) if attempt == ATTEMPTS => {
                    let address = found.address(0).to_string();
                    return Err(BrokerError::io("find a free port on", address)(error));
                }
                Err(_) => {}
            }
        }
    }

    fn free_port(&self, size: u32) -> io::Result<u16> {
        let listener = TcpListener::bind((self.address(0), 0))?;
        let port = listener.local_addr()?.port();
        let named = (1..size).map(|number| self.address(number));
        let behind = (0..size).map(|number| self.listening(number));
        let others = named.chain(behind.filter(|_| self.is_relayed));
        let taken: Result<Vec<_>, _> = others.map(|address| TcpListener::bind((address, port))).collect();
        taken.map(|_| port)
    }

    /// The host in a node's name.
    fn address(&self, number: u32) -> Ipv4Addr {
        let [second, third] = self.network;
        Ipv4Addr::new(127, second, third, number as u8 + 1)
    }

    /// Where the node itself listens.
    fn listening(&self, number: u32) -> Ipv4Addr {
        let [first, second, third, fourth] = self.address(number).octets();
        Ipv4Addr::new(first, second, third, fourth + if self.is_relayed { BEHIND_RELAY } else { 0 })
    }

    /// Where a relay listens for a node, and where that node listens itself; both in the order of the nodes.
    pub(super) fn relayed(&self, size: u32) -> Vec<[SocketAddrV4; 2]> {
        let pair = |number| [self.address(number), self.listening(number)].map(|ip| SocketAddrV4::new(ip, self.port));
        (0..size).map(pair).collect()
    }

    /// The places in it of nodes with these names.
    pub(super) fn members(&self, names: &[&str]) -> Vec<Membership> {
        let number = |index: usize| u32::try_from(index).unwrap_or_default();
        let all = names.iter().enumerate();
        let full: Vec<String> = all.map(|(index, name)| format!("{name}@{}", self.address(number(index)))).collect();
        (0..full.len())
            .map(|index| Membership {
                names: full.clone(),
                index,
                listens_on: SocketAddrV4::new(self.listening(number(index)), self.port),
                cookie: self.cookie.clone(),
                is_relayed: self.is_relayed,
            })
            .collect()
    }
}

/// A node's place in a cluster.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    names: Vec<String>,
    index: usize,
    pub(super) listens_on: SocketAddrV4,
    pub(super) cookie: String,
    is_relayed: bool,
}

impl Membership {
    pub(super) fn name(&self) -> String {
        self.names.get(self.index).cloned().unwrap_or_default()
    }

    /// Settings of Erlang's kernel. Behind a relay a node is known by the address that it connects from.
    pub(super) fn kernel_settings(&self) -> String {
        let address = self.listens_on.ip().to_string().replace('.', ",");
        let mut text = format!("{{inet_dist_use_interface, {{{address}}}}}");
        if self.is_relayed {
            text += &format!(", {{inet_dist_connect_options, [{{ip, {{{address}}}}}]}}");
        }
        text
    }

    /// Settings of RabbitMQ: all nodes, so that each finds the others while it starts.
    pub(super) fn rabbit_settings(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("'{name}'")).collect();
        format!("{{cluster_nodes, {{[{}], disc}}}},\n           ", names.join(", "))
    }
}

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
    listening: Vec<SocketAddrV4>,
    is_over: AtomicBool,
    links: AtomicUsize,
}

impl RelayedNodes {
    fn is_cut(&self, ends: [Option<usize>; 2]) -> bool {
        ends.into_iter().flatten().any(|node| self.cut_off.get(node).is_some_and(|cut| cut.load(SeqCst)))
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

/// Stands between the nodes of a cluster on one machine, so that one of them can be cut off: its links stay open and
/// carry nothing, as when a cable is pulled. Dropping it ends that.
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
        let relay = Self { nodes: Arc::clone(&nodes) };
        for (node, [named, _]) in places.iter().enumerate() {
            let listener = TcpListener::bind(named)?;
            listener.set_nonblocking(true)?;
            let nodes = Arc::clone(&nodes);
            thread::Builder::new().name("bellows-relay".to_owned()).spawn(move || accept(&listener, node, &nodes))?;
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
        let ends = [Some(node), nodes.listening.iter().position(|own| *own.ip() == from.ip())];
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

/// Carries a link in both directions until it ends.
fn relay(stream: &TcpStream, ends: [Option<usize>; 2], nodes: &Arc<RelayedNodes>) -> io::Result<()> {
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
        if !nodes.wait_until_whole(ends) || !send(to, buffer.get(..read).unwrap_or_default(), nodes) {
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
    use super::*;

    #[test]
    fn nodes_have_addresses_of_their_own_and_a_relay_has_those_of_their_names() {
        let network = Network::find(3, true).unwrap();
        let members = network.members(&["a", "b", "c"]);
        let relayed = network.relayed(3);
        for (member, [named, listening]) in members.iter().zip(&relayed) {
            assert!(member.name().ends_with(&format!("@{}", named.ip())));
            assert_eq!(member.listens_on, *listening);
            assert_ne!(named, listening);
            assert!(named.ip().is_loopback() && listening.ip().is_loopback());
            assert!(member.rabbit_settings().contains(&members[2].name()));
            assert!(member.kernel_settings().contains("inet_dist_connect_options"));
        }
        let alone = Network::find(2, false).unwrap();
        assert!(alone.relayed(2).iter().all(|[named, own]| named == own));
    }

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
        there.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(is_idle(&there.read_exact(&mut bytes).unwrap_err()));
        relay.cut_off(1, false);
        there.set_read_timeout(None).unwrap();
        there.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"two");
        drop(link);
        assert_eq!(there.read(&mut bytes).unwrap(), 0, "the end is passed on");
    }
}
