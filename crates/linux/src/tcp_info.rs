//! TCP counters of connections (`struct tcp_info` of `linux/tcp.h`, which only ever grows at its end), from socket
//! diagnostics (netlink's `sock_diag`), which need no permission for one's own sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::sockets;

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
    /// This process's established connections to a port, by their sockets' inodes; none where the
    /// kernel does not tell.
    #[must_use]
    pub fn of_own_connections_to(port: u16) -> BTreeMap<u32, Self> {
        let own = sockets::inodes_of(std::process::id());
        Self::established(port, &own, |_| true)
    }

    /// The established connections of a process that listens on a port, without those that it has taken
    /// there: what a proxy has opened itself. None where they may not be seen.
    #[must_use]
    pub fn of_connections_behind(pid: u32, port: u16) -> BTreeMap<u32, Self> {
        Self::established(0, &sockets::inodes_of(pid), |local| local != port)
    }

    /// Connections to a port (0: to any) among these sockets, from local ports that `is_from` names.
    fn established(
        port: u16,
        sockets: &BTreeSet<u64>,
        is_from: impl Fn(u16) -> bool,
    ) -> BTreeMap<u32, Self> {
        let mut found = BTreeMap::new();
        for (family, socket_id) in [
            (AF_INET, SocketId::new_v4()),
            (AF_INET6, SocketId::new_v6()),
        ] {
            let request = InetRequest {
                family,
                protocol: IPPROTO_TCP,
                extensions: ExtensionFlags::INFO,
                states: StateFlags::ESTABLISHED,
                socket_id: SocketId {
                    destination_port: port,
                    ..socket_id
                },
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
        let small = |at: usize| {
            let bytes = info.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let large = |at: usize| {
            let bytes = info.get(at..at + 8).and_then(|b| b.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
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
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        flags,
        Some(SOCK_DIAG),
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut buffer = vec![0; PART];
    message.serialize(&mut buffer);
    let bytes = buffer.get(..message.buffer_len()).unwrap_or_default();
    sendto(
        &socket,
        bytes,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
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
        let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(part) else {
            return false;
        };
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
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

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
        std::thread::sleep(Duration::from_millis(300));
        let after = TcpInfo::of_own_connections_to(port);
        let (inode, then) = before.first_key_value().unwrap();
        let now = after[inode];
        let full = now.peer_full_us - then.peer_full_us;
        let busy = now.busy_us - then.busy_us;
        assert!(full > 150_000 && busy > 150_000, "{now:?}");
        assert!((1..1_000_000).contains(&now.shortest_round_trip_us));
        assert_eq!(
            now.acknowledged,
            now.acknowledged.max(then.acknowledged + 1)
        );
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
}
