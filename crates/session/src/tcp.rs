//! What the kernel's TCP says of our own connections to the broker: how long each was held up because
//! the other side did not read, how much was sent again, how long a round trip takes. It tells a broker
//! that does not read from a network that is full, which the sockets' own back-pressure does not.
//!
//! Asked with `sock_diag` (netlink, `linux/inet_diag.h`), which needs no permission for one's own
//! sockets; `struct tcp_info` is that of `linux/tcp.h`, which only ever grows at its end.

use std::collections::BTreeMap;

use archive::ConnectionTime;
use measure::Nanos;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::sockets;

/// `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST | NLM_F_DUMP`, `NLMSG_ERROR`, `NLMSG_DONE`.
const BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const TCP: u8 = 6;
const ESTABLISHED: u32 = 1 << 1;
/// `INET_DIAG_INFO`, the attribute that holds a `tcp_info`.
const INFO: u16 = 2;
/// Lengths of `nlmsghdr`, `inet_diag_req_v2` and `inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// The kernel answers in parts of at most 32 KiB.
const PART: usize = 64 << 10;

/// What TCP had counted for each connection up to an instant, by its socket's inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(BTreeMap<u32, Counted>);

/// One connection's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Time with bytes on the way, and that with a full receive window, microseconds.
    busy_us: u64,
    peer_full_us: u64,
    resent: u32,
    segments: u32,
    shortest_round_trip_us: u32,
    /// At present: the smoothed round trip, and the bytes that wait in our socket.
    round_trip_us: u32,
    unsent: u32,
}

impl Counted {
    /// What was counted after `then`; what is not a count stays as it is.
    fn since(&self, then: Self) -> Self {
        Self {
            busy_us: self.busy_us.saturating_sub(then.busy_us),
            peer_full_us: self.peer_full_us.saturating_sub(then.peer_full_us),
            resent: self.resent.wrapping_sub(then.resent),
            segments: self.segments.wrapping_sub(then.segments),
            ..*self
        }
    }
}

impl Connections {
    /// This process's connections to a port; none where the kernel does not tell.
    pub(crate) fn read(port: u16) -> Self {
        let own = sockets::inodes_of(std::process::id());
        let mut found = BTreeMap::new();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            // Whatever is not told is no evidence.
            let _ = dump(family, port, |inode, counted| {
                if own.contains(&u64::from(inode)) {
                    found.insert(inode, counted);
                }
            });
        }
        Self(found)
    }

    /// What was counted since `before` in a time, over the connections that sent; `None` where nothing
    /// is known.
    pub(crate) fn since(&self, before: &Self, length: Nanos) -> Option<ConnectionTime> {
        let used: Vec<Counted> = self
            .0
            .iter()
            .map(|(inode, now)| now.since(before.0.get(inode).copied().unwrap_or_default()))
            .collect();
        // Those of consumers send hardly anything, and say nothing of those that do.
        let most = used.iter().map(|c| c.busy_us).max()?;
        let sending: Vec<&Counted> = used.iter().filter(|c| c.busy_us >= most / 2).collect();
        let count = sending.len() as u64;
        let all = count as f64 * length.as_secs_f64() * 1e6;
        if all <= 0.0 {
            return None;
        }
        let sum = |part: fn(&Counted) -> u64| sending.iter().map(|c| part(c)).sum::<u64>();
        Some(ConnectionTime {
            busy: (sum(|c| c.busy_us) as f64 / all).min(1.0),
            peer_full: (sum(|c| c.peer_full_us) as f64 / all).min(1.0),
            resent: sum(|c| c.resent.into()) as f64 / sum(|c| c.segments.into()).max(1) as f64,
            round_trip_ns: sum(|c| c.round_trip_us.into()) * 1_000 / count,
            unsent_bytes: sum(|c| c.unsent.into()) / count,
        })
    }

    /// The shortest round trip of any of them.
    pub(crate) fn round_trip(&self) -> Option<Nanos> {
        let trips = self.0.values().map(|c| c.shortest_round_trip_us);
        let shortest = trips.filter(|us| (1..u32::MAX).contains(us)).min()?;
        Some(Nanos(u64::from(shortest) * 1_000))
    }
}

fn dump(
    family: AddressFamily,
    port: u16,
    mut found: impl FnMut(u32, Counted),
) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        flags,
        Some(SOCK_DIAG),
    )?;
    // The kernel answers at once; nothing may make a run wait for it.
    set_socket_timeout(
        &socket,
        Timeout::Recv,
        Some(std::time::Duration::from_millis(200)),
    )?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(family, port), SendFlags::empty(), &kernel)?;
    let mut buffer = vec![0; PART];
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if length == 0 || !parse(buffer.get(..length).unwrap_or_default(), &mut found) {
            return Ok(());
        }
    }
}

/// A request for all established connections to a port, with their `tcp_info`.
fn request(family: AddressFamily, port: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + REQUEST);
    out.extend_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    out.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&DUMP.to_ne_bytes());
    // Sequence and port number.
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[family.as_raw() as u8, TCP, 1 << (INFO - 1), 0]);
    out.extend_from_slice(&ESTABLISHED.to_ne_bytes());
    // The socket: any source port, this destination port, any address.
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&port.to_be_bytes());
    out.resize(HEADER + REQUEST, 0);
    out
}

/// Takes one part of the answer apart; `false` at its end.
fn parse(mut part: &[u8], found: &mut impl FnMut(u32, Counted)) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(part, 0), u16_at(part, 4)) {
        let length = length as usize;
        let Some(message) = part.get(..length).filter(|_| length >= HEADER) else {
            return false;
        };
        if matches!(kind, DONE | ERROR) {
            return false;
        }
        if let (Some(inode), Some(info)) = (u32_at(message, HEADER + 68), info(message)) {
            found(inode, counted(info));
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// The `tcp_info` among the attributes of a message.
fn info(message: &[u8]) -> Option<&[u8]> {
    let mut attributes = message.get(HEADER + MESSAGE..)?;
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let attribute = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == INFO {
            return Some(attribute);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Offsets in `struct tcp_info`; an older kernel's is shorter, and lacks what it does not count.
fn counted(info: &[u8]) -> Counted {
    let small = |at| u32_at(info, at).unwrap_or(0);
    let large = |at: usize| {
        let bytes = info.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    Counted {
        resent: small(100),
        segments: small(136),
        round_trip_us: small(68),
        unsent: small(144),
        shortest_round_trip_us: small(148),
        busy_us: large(168),
        peer_full_us: large(176),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
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
        let before = Connections::read(port);
        if before.0.is_empty() {
            // No sock_diag here, as in some sandboxes: no evidence, and nothing else is wrong.
            return;
        }
        assert_eq!(before.0.len(), 1, "the peer's own side has another port");
        stream.set_nonblocking(true).unwrap();
        // More than both sockets' buffers take.
        let filled = stream.write_all(&vec![0; 64 << 20]).map_err(|e| e.kind());
        assert_eq!(filled, Err(ErrorKind::WouldBlock));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let after = Connections::read(port);
        let time = after.since(&before, Nanos::from_millis(300)).unwrap();
        assert!(time.peer_full > 0.5 && time.busy > 0.5, "{time:?}");
        assert!(after.round_trip().is_some_and(|t| t < Nanos::SECOND));
        drop(peer);
    }

    #[test]
    fn answers_that_are_cut_or_strange_are_no_evidence() {
        let mut seen = 0;
        let mut count = |_, _| seen += 1;
        assert!(parse(&[], &mut count));
        assert!(
            !parse(&[8, 0, 0, 0, 20, 0, 0, 0], &mut count),
            "shorter than itself"
        );
        assert!(
            !parse(&[255, 0, 0, 0, 20, 0, 0, 0], &mut count),
            "longer than there is"
        );
        let mut message = vec![0; HEADER + MESSAGE + 4];
        message[0] = (HEADER + MESSAGE + 4) as u8;
        message[4] = BY_FAMILY as u8;
        // An attribute of length 0 would never end.
        assert!(parse(&message, &mut count));
        assert_eq!(seen, 0);
        assert_eq!(counted(&[0; 8]), Counted::default());
        assert_eq!(
            Connections::default().since(&Connections::default(), Nanos::SECOND),
            None
        );
    }
}
