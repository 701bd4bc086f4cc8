//! TCP sockets of this machine, as `/proc` shows them, and the processes that they belong to; and TCP's counters for
//! connections (`struct tcp_info` of `linux/tcp.h`, which only ever grows at its end), from socket diagnostics
//! (netlink's `sock_diag`), which need no permission for one's own sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::processes;

/// States in `/proc/net/tcp` (`TCP_ESTABLISHED`, `TCP_LISTEN`; include/net/tcp_states.h).
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// One line of `/proc/net/tcp` or `tcp6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    /// IPv4 addresses that are mapped into IPv6 are as they were.
    local: SocketAddr,
    remote: SocketAddr,
    listens: bool,
    inode: u64,
}

/// Who is at the other end of our connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// Nobody knows: there is no connection, or it may not be seen.
    #[default]
    Unknown,
    /// No process that shares a network with this one: a container's, or another machine's.
    Elsewhere,
    /// These; several share a port, or inherited the connection.
    Processes(Vec<u32>),
}

/// The processes that a connection to one of these addresses would reach, the first that anybody
/// listens on; several where they share the port. None where they may not be seen.
pub fn listening_on(addresses: &[SocketAddr]) -> Vec<u32> {
    let table = tables("self/net");
    let listeners = |address: &SocketAddr| {
        let rank = |socket: &Socket| serves(socket, *address).map(|rank| (rank, socket.inode));
        let ranked: Vec<(u8, u64)> = table.iter().filter_map(rank).collect();
        let best = ranked.iter().map(|(rank, _)| *rank).max()?;
        let inodes = ranked.into_iter().filter(|(rank, _)| *rank == best);
        Some(inodes.map(|(_, inode)| inode).collect::<BTreeSet<u64>>())
    };
    let sockets = addresses.iter().find_map(listeners);
    sockets.map_or_else(Vec::new, |sockets| owners(&sockets))
}

/// Whether a socket takes connections to an address, and how readily: the kernel prefers one that is
/// bound to the very address to one for all of them, and one of the same family to one for both.
fn serves(socket: &Socket, to: SocketAddr) -> Option<u8> {
    if !socket.listens || socket.local.port() != to.port() {
        return None;
    }
    let to = to.ip().to_canonical();
    match socket.local.ip() {
        ip if ip == to => Some(2),
        ip if ip.is_unspecified() && ip.is_ipv4() == to.is_ipv4() => Some(1),
        ip if ip.is_unspecified() && ip.is_ipv6() => Some(0),
        _ => None,
    }
}

/// Who is at the other end of this process's connections to a port.
pub fn server_of_our_connections(port: u16) -> Server {
    let table = tables("self/net");
    let own = inodes_of(std::process::id());
    let connected = |socket: &&Socket| !socket.listens && socket.remote.port() == port && own.contains(&socket.inode);
    let ours: Vec<Socket> = table.iter().filter(connected).copied().collect();
    if ours.is_empty() {
        return Server::Unknown;
    }
    let is_other_end =
        |socket: &&Socket| ours.iter().any(|our| socket.local == our.remote && socket.remote == our.local);
    let others: BTreeSet<u64> = table.iter().filter(is_other_end).map(|socket| socket.inode).collect();
    let inodes = if others.is_empty() { in_other_networks(&ours) } else { others };
    if inodes.is_empty() {
        return Server::Elsewhere;
    }
    // Of another user, or not accepted yet, where there are none.
    let pids = owners(&inodes);
    if pids.is_empty() { Server::Unknown } else { Server::Processes(pids) }
}

/// The other ends in network namespaces that we may see: of a port that is forwarded into one, our own address is left.
fn in_other_networks(ours: &[Socket]) -> BTreeSet<u64> {
    let network = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let mut seen: BTreeSet<_> = network(std::process::id()).into_iter().collect();
    let mut found = BTreeSet::new();
    for pid in processes::all() {
        if network(pid).is_none_or(|network| !seen.insert(network)) {
            continue;
        }
        // Every namespace has the loopback addresses for itself.
        let is_other_end = |it: &Socket| ours.iter().any(|our| it.remote == our.local && !our.local.ip().is_loopback());
        let sockets = tables(&format!("{pid}/net")).into_iter();
        found.extend(sockets.filter(is_other_end).map(|socket| socket.inode));
    }
    found
}

/// The processes that hold one of these sockets, without children that inherited it.
fn owners(sockets: &BTreeSet<u64>) -> Vec<u32> {
    if sockets.is_empty() {
        return Vec::new();
    }
    let holds = |pid: &u32| inodes_of(*pid).iter().any(|inode| sockets.contains(inode));
    let mut pids: Vec<u32> = processes::all().into_iter().filter(holds).collect();
    let parents = pids.clone();
    pids.retain(|pid| processes::stat(*pid).is_none_or(|stat| !parents.contains(&stat.parent)));
    pids
}

/// The ports that a process listens on.
pub fn listening_ports(pid: u32) -> Vec<u16> {
    let own = inodes_of(pid);
    let listening = tables(&format!("{pid}/net")).into_iter();
    let ports: BTreeSet<u16> = listening
        .filter(|socket| socket.listens && own.contains(&socket.inode))
        .map(|socket| socket.local.port())
        .collect();
    ports.into_iter().collect()
}

/// The sockets that a process holds.
pub fn inodes_of(pid: u32) -> BTreeSet<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    files.into_iter().flatten().flatten().filter_map(|file| socket_inode(&file.path())).collect()
}

/// `socket:[12345]`, what a file descriptor's link reads.
fn socket_inode(link: &Path) -> Option<u64> {
    fs::read_link(link).ok()?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The TCP sockets of a process's network: `PID/net`.
fn tables(place: &str) -> Vec<Socket> {
    let read = |name| fs::read_to_string(format!("/proc/{place}/{name}")).ok();
    ["tcp", "tcp6"].into_iter().filter_map(read).flat_map(|table| sockets(&table).collect::<Vec<_>>()).collect()
}

/// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …`: those that listen or are connected.
fn sockets(table: &str) -> impl Iterator<Item = Socket> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let state = *fields.get(3)?;
        if ![ESTABLISHED, LISTEN].contains(&state) {
            return None;
        }
        Some(Socket {
            local: address(fields.get(1)?)?,
            remote: address(fields.get(2)?)?,
            listens: state == LISTEN,
            inode: fields.get(9)?.parse().ok()?,
        })
    })
}

/// `0100007F:1628`: the address in words of 32 bits as they lie in memory.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let word = |at: usize| {
        let word = u32::from_str_radix(ip.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// The addresses of a host, where all of them are this machine's; else none.
pub fn addresses_here(host: &str, port: u16) -> Vec<SocketAddr> {
    let addresses = (host, port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses.map(Vec::from_iter).unwrap_or_default();
    if addresses.iter().all(|address| is_own_address(address.ip())) { addresses } else { Vec::new() }
}

/// An address is ours where a socket can be bound to it.
fn is_own_address(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// The kernel answers in parts of at most 32 KiB.
const PART: usize = 64 << 10;
/// The kernel answers at once; nothing may make a run wait for it.
const TIMEOUT: Duration = Duration::from_millis(200);

/// TCP counters of one connection; 0 where an older kernel lacks them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Time with bytes on the way, microseconds.
    pub busy_us: u64,
    /// Time with a full receive window at the peer, microseconds.
    pub peer_full_us: u64,
    /// Bytes that the peer has acknowledged, since the connection began.
    pub acknowledged: u64,
    /// Segments that were sent again.
    pub resent: u32,
    /// Segments that were sent.
    pub segments: u32,
    /// The shortest round trip so far, microseconds.
    pub shortest_round_trip_us: u32,
    /// The smoothed round trip at present, microseconds.
    pub round_trip_us: u32,
    /// Bytes that wait in our socket at present.
    pub unsent: u32,
}

impl TcpInfo {
    /// This process's established connections to a port, by their sockets' inodes; none where the kernel does not tell.
    pub fn of_own_connections_to(port: u16) -> BTreeMap<u32, Self> {
        Self::established(port, &inodes_of(std::process::id()), |_| true)
    }

    /// The established connections of a process that listens on a port, without those that it has taken
    /// there: what a proxy has opened itself. None where they may not be seen.
    pub fn of_connections_behind(pid: u32, port: u16) -> BTreeMap<u32, Self> {
        Self::established(0, &inodes_of(pid), |local| local != port)
    }

    /// Connections to a port (0: to any) among these sockets, from local ports that `is_from` names.
    fn established(port: u16, sockets: &BTreeSet<u64>, is_from: impl Fn(u16) -> bool) -> BTreeMap<u32, Self> {
        let mut found = BTreeMap::new();
        for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            let request = InetRequest {
                family,
                protocol: IPPROTO_TCP,
                extensions: ExtensionFlags::INFO,
                states: StateFlags::ESTABLISHED,
                socket_id: SocketId { destination_port: port, ..socket_id },
            };
            // Whatever is not told is no evidence.
            let _ = dump(request, |inode, local, info| {
                if sockets.contains(&u64::from(inode)) && is_from(local) {
                    found.insert(inode, info);
                }
            });
        }
        found
    }

    /// Offsets in `struct tcp_info`.
    fn parse(info: &[u8]) -> Self {
        let small = |at: usize| info.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u32::from_ne_bytes(*it));
        let large = |at: usize| info.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u64::from_ne_bytes(*it));
        Self {
            acknowledged: large(120),
            resent: small(100),
            segments: small(136),
            round_trip_us: small(68),
            unsent: small(144),
            shortest_round_trip_us: small(148),
            busy_us: large(168),
            peer_full_us: large(176),
        }
    }
}

fn dump(request: InetRequest, mut found: impl FnMut(u32, u16, TcpInfo)) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut buffer = vec![0; PART];
    message.serialize(&mut buffer);
    let bytes = buffer.get(..message.buffer_len()).unwrap_or_default();
    sendto(&socket, bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if length == 0 || !parse(buffer.get(..length).unwrap_or_default(), &mut found) {
            return Ok(());
        }
    }
}

/// Takes one part of the answer apart; `false` at its end, and where it cannot be read.
fn parse(mut part: &[u8], found: &mut impl FnMut(u32, u16, TcpInfo)) -> bool {
    while !part.is_empty() {
        let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(part) else { return false };
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                let info = response.nlas.iter().find_map(|attribute| match attribute {
                    Nla::TcpInfo(info) => Some(TcpInfo::parse(info)),
                    _ => None,
                });
                if let Some(info) = info {
                    let header = &response.header;
                    found(header.inode, header.socket_id.source_port, info);
                }
            }
            NetlinkPayload::Noop => {}
            _ => return false,
        }
        let length = (message.header.length as usize).next_multiple_of(4);
        part = part.get(length..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests;
