//! Several listeners on one port, in every combination of addresses that the kernel allows.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use testkit::ChildGuard;

use super::*;

/// A process that holds a socket and nothing else, until dropped.
fn holder(socket: impl Into<OwnedFd>) -> ChildGuard {
    ChildGuard(Command::new("sleep").arg("60").stdin(socket.into()).spawn().unwrap())
}

/// Listens where others may listen too; on `::` for both families, as servers do.
fn listen(ip: IpAddr, port: u16) -> TcpListener {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(family, kind, flags, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    if ip.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false).unwrap();
    }
    rustix::net::bind(&socket, &SocketAddr::new(ip, port)).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    socket.into()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn addresses() -> Vec<IpAddr> {
    let mut all = vec!["127.0.0.1", "127.0.0.2", "0.0.0.0"];
    if TcpListener::bind("[::1]:0").is_ok() {
        all.extend(["::", "::1"]);
    }
    all.iter().map(|ip| ip.parse().unwrap()).collect()
}

/// Which of the listeners a connection to an address comes to.
fn reached(listeners: &[TcpListener], to: SocketAddr) -> Option<usize> {
    let stream = TcpStream::connect(to).ok()?;
    let ours = stream.local_addr().unwrap();
    let accepted = || {
        listeners.iter().position(|listener| {
            listener.set_nonblocking(true).unwrap();
            listener.accept().is_ok_and(|(_, from)| canonical(from) == canonical(ours))
        })
    };
    // On a busy machine the last word of the handshake comes after `connect` has returned.
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match accepted() {
            None if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            found => return Some(found.expect("one of them has it")),
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[test]
fn a_listener_is_found_by_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let me = std::process::id();
    assert_eq!(settled(|| listening_on(&[address]), &vec![me]), [me]);
    assert!(listening_ports(me).contains(&address.port()));
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], address.port()));
    assert_eq!(listening_on(&[elsewhere]), Vec::<u32>::new());
    assert_eq!(listening_on(&[elsewhere, address]), [me]);
    drop(listener);
    let nobody = Vec::<u32>::new();
    assert_eq!(settled(|| listening_on(&[address]), &nobody), nobody);
}

/// Sockets found once children that other tests start have let go of ours: between fork and exec they hold them all.
fn settled<T: PartialEq>(find: impl Fn() -> T, expected: &T) -> T {
    for _ in 0..50 {
        let found = find();
        if found == *expected {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    find()
}

/// Every set of listeners on one port, each of a process of its own: the one that is told is the one
/// that a connection comes to.
#[test]
fn of_several_listeners_on_one_port_the_right_one_is_told() {
    let all = addresses();
    for set in 1..1u32 << all.len() {
        let port = free_port();
        let chosen = all.iter().enumerate();
        let chosen = chosen.filter(|(bit, _)| set & 1 << bit != 0);
        let listeners: Vec<TcpListener> = chosen.map(|(_, ip)| listen(*ip, port)).collect();
        let to = all.iter().filter(|ip| !ip.is_unspecified());
        let to: Vec<SocketAddr> = to.map(|ip| SocketAddr::new(*ip, port)).collect();
        let reached: Vec<_> = to.iter().map(|to| reached(&listeners, *to)).collect();
        let holders: Vec<_> = listeners.into_iter().map(holder).collect();
        for (to, reached) in to.iter().zip(reached) {
            let expected: Vec<u32> = reached.map(|at| holders[at].id()).into_iter().collect();
            assert_eq!(settled(|| listening_on(&[*to]), &expected), expected, "{to} of set {set:05b}");
        }
    }
}

/// `SO_REUSEPORT`: nobody knows whom a connection comes to before it is there.
#[test]
fn of_several_owners_of_one_address_the_one_that_serves_us_is_told() {
    for ip in addresses() {
        let port = free_port();
        let listeners: Vec<TcpListener> = (0..3).map(|_| listen(ip, port)).collect();
        let to = SocketAddr::new(if ip.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { ip }, port);
        assert_eq!(server_of_our_connections(port), Server::Unknown, "no connection");
        let stream = TcpStream::connect(to).unwrap();
        let accepted = listeners.iter().find_map(|listener| {
            listener.set_nonblocking(true).unwrap();
            listener.accept().ok()
        });
        let mut holders: Vec<_> = listeners.into_iter().map(holder).collect();
        assert_eq!(settled(|| listening_on(&[to]).len(), &3), 3, "{to}");
        holders.push(holder(accepted.unwrap().0));
        let server = Server::Processes(vec![holders[3].id()]);
        assert_eq!(settled(|| server_of_our_connections(port), &server), server, "{to}");
        drop(stream);
    }
}

#[test]
fn addresses_are_read_as_the_kernel_writes_them() {
    let table = include_str!("../../tests/data/tcp.txt");
    if cfg!(target_endian = "big") {
        return;
    }
    let read: Vec<_> =
        sockets(table).map(|s| (s.local.to_string(), s.remote.to_string(), s.listens, s.inode)).collect();
    let expected = [
        ("127.0.0.1:5672", "0.0.0.0:0", true, 77),
        ("127.0.0.2:5672", "127.0.0.1:49152", false, 78),
        ("[::]:5672", "[::]:0", true, 79),
        ("127.0.0.1:5672", "127.0.0.1:49154", false, 80),
    ];
    let expected = expected.map(|(l, r, listens, inode)| (l.to_owned(), r.to_owned(), listens, inode));
    assert_eq!(read, expected);
}

#[test]
fn this_machine_is_told_from_others() {
    assert_eq!(addresses_here("127.0.0.1", 5672).len(), 1);
    assert_eq!(addresses_here("::1", 5672).len(), 1);
    // TEST-NET-1 (RFC 5737) belongs to nobody.
    assert!(addresses_here("192.0.2.1", 5672).is_empty());
}

#[test]
fn a_peer_that_does_not_read_is_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (peer, _) = listener.accept().unwrap();
    let before = TcpInfo::of_own_connections_to(port);
    if before.is_empty() {
        // No sock_diag here, as in some sandboxes: no evidence, and nothing else is wrong.
        return;
    }
    assert_eq!(before.len(), 1, "the peer's own side has another port");
    stream.set_nonblocking(true).unwrap();
    // More than both sockets' buffers take.
    let filled = stream.write_all(&vec![0; 64 << 20]).map_err(|e| e.kind());
    assert_eq!(filled, Err(ErrorKind::WouldBlock));
    thread::sleep(Duration::from_millis(300));
    let after = TcpInfo::of_own_connections_to(port);
    let (inode, then) = before.first_key_value().unwrap();
    let now = after[inode];
    let full = now.peer_full_us - then.peer_full_us;
    let busy = now.busy_us - then.busy_us;
    assert!(full > 150_000 && busy > 150_000, "{now:?}");
    assert!((1..1_000_000).contains(&now.shortest_round_trip_us));
    assert_eq!(now.acknowledged, now.acknowledged.max(then.acknowledged + 1));
    // Ours are behind whoever listens elsewhere, and not behind the one that has taken them.
    let ours = TcpInfo::of_connections_behind(std::process::id(), port);
    assert!(ours.contains_key(inode));
    drop(peer);
}

#[test]
fn answers_that_are_cut_or_strange_are_no_evidence() {
    let mut seen = 0;
    let mut count = |_, _, _| seen += 1;
    assert!(parse(&[], &mut count));
    for header in [[8, 0, 0, 0, 20, 0, 0, 0], [255, 0, 0, 0, 20, 0, 0, 0]] {
        assert!(!parse(&header, &mut count), "no length of what there is");
    }
    // A response to IPv4 with an attribute of length 0, which would never end.
    let mut message = vec![0; 16 + 72 + 4];
    message[0] = 16 + 72 + 4;
    message[4] = 20;
    message[16] = AF_INET;
    parse(&message, &mut count);
    for cut in 0..message.len() {
        parse(&message[..cut], &mut count);
    }
    assert_eq!(seen, 0);
    assert_eq!(TcpInfo::parse(&[0; 8]), TcpInfo::default());
}
