//! TCP's view of our connections to the broker: time held up because the other side did not read, bytes sent again,
//! round trip. It tells a broker that does not read from a full network, which the sockets' own back-pressure does not.

use std::collections::BTreeMap;

use archive::ConnectionTime;
use linux::sockets::TcpInfo;
use measure::Nanos;

/// TCP's counts for each connection up to an instant, by its socket's inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCounts(BTreeMap<u32, TcpInfo>);

/// Counts since `then`; fields that are no counts keep their value.
fn counted_since(now: &TcpInfo, then: TcpInfo) -> TcpInfo {
    TcpInfo {
        busy_us: now.busy_us.saturating_sub(then.busy_us),
        peer_full_us: now.peer_full_us.saturating_sub(then.peer_full_us),
        resent: now.resent.wrapping_sub(then.resent),
        segments: now.segments.wrapping_sub(then.segments),
        ..*now
    }
}

impl ConnectionCounts {
    /// This process's connections to these ports; none where the kernel does not tell.
    pub(crate) fn read(ports: &[u16]) -> Self {
        Self(ports.iter().copied().flat_map(TcpInfo::of_own_connections_to).collect())
    }

    /// The connections that a proxy, which listens on a port, has opened itself.
    pub(crate) fn behind(proxy: u32, port: u16) -> Self {
        Self(TcpInfo::of_connections_behind(proxy, port))
    }

    /// Time that bytes spend in a proxy between these connections to it and its own, `behind`: bytes taken and not
    /// passed on, divided by the rate of passing on since `before`. `None` where the two do not belong together.
    pub(crate) fn held_by_proxy(&self, behind: &Self, before: &Self, length: Nanos) -> Option<Nanos> {
        let taken = |counts: &Self| counts.0.values().map(|c| c.acknowledged).sum::<u64>();
        let passed = taken(behind).saturating_sub(taken(before));
        if self.0.len() != behind.0.len() || passed == 0 {
            return None;
        }
        let held = taken(self).saturating_sub(taken(behind)) as f64;
        let per_second = passed as f64 / length.as_secs_f64();
        Some(Nanos::from_secs_f64(held / per_second))
    }

    /// Totals since `before` over the connections that sent, in a span of `length`; `None` where nothing is known.
    pub(crate) fn since(&self, before: &Self, length: Nanos) -> Option<ConnectionTime> {
        let then = |inode: &u32| before.0.get(inode).copied().unwrap_or_default();
        let used: Vec<TcpInfo> = self.0.iter().map(|(inode, now)| counted_since(now, then(inode))).collect();
        // Those of consumers send hardly anything, and say nothing of those that do.
        let most = used.iter().map(|c| c.busy_us).max()?;
        let sending: Vec<&TcpInfo> = used.iter().filter(|c| c.busy_us >= most / 2).collect();
        let count = sending.len() as u64;
        let all = count as f64 * length.as_secs_f64() * 1e6;
        if all <= 0.0 {
            return None;
        }
        let sum = |part: fn(&TcpInfo) -> u64| sending.iter().map(|c| part(c)).sum::<u64>();
        Some(ConnectionTime {
            busy: (sum(|c| c.busy_us) as f64 / all).min(1.0),
            peer_full: (sum(|c| c.peer_full_us) as f64 / all).min(1.0),
            resent: sum(|c| c.resent.into()) as f64 / sum(|c| c.segments.into()).max(1) as f64,
            round_trip_ns: sum(|c| c.round_trip_us.into()) * 1_000 / count,
            unsent_bytes: sum(|c| c.unsent.into()) / count,
        })
    }

    pub(crate) fn round_trip(&self) -> Option<Nanos> {
        let trips = self.0.values().map(|c| c.shortest_round_trip_us);
        trips.filter(|us| (1..u32::MAX).contains(us)).min().map(|shortest| Nanos(u64::from(shortest) * 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_that_send_are_judged() {
        let counts = |busy_us, peer_full_us| TcpInfo {
            busy_us,
            peer_full_us,
            segments: 10,
            shortest_round_trip_us: 50,
            ..TcpInfo::default()
        };
        let before = ConnectionCounts([(1, counts(1_000, 0)), (2, counts(0, 0))].into());
        let after = ConnectionCounts([(1, counts(901_000, 600_000)), (2, counts(9, 9))].into());
        let time = after.since(&before, Nanos::SECOND).unwrap();
        assert!((time.busy - 0.9).abs() < 1e-9 && (time.peer_full - 0.6).abs() < 1e-9);
        assert_eq!(after.round_trip(), Some(Nanos(50_000)));
        let nothing = ConnectionCounts::default();
        assert_eq!(nothing.since(&nothing, Nanos::SECOND), None);
        assert_eq!(nothing.round_trip(), None);
    }

    #[test]
    fn what_a_proxy_has_taken_and_not_passed_on_is_in_it() {
        let acknowledged = |bytes: &[u64]| {
            let info = |acknowledged: &u64| TcpInfo { acknowledged: *acknowledged, ..TcpInfo::default() };
            ConnectionCounts((0..).zip(bytes.iter().map(info)).collect())
        };
        let (near, far) = (acknowledged(&[3_000_000]), acknowledged(&[2_500_000]));
        let held = |near: &ConnectionCounts, before: &[u64]| {
            near.held_by_proxy(&far, &acknowledged(before), Nanos(2 * Nanos::SECOND.0))
        };
        assert_eq!(held(&near, &[500_000]), Some(Nanos(500_000_000)));
        assert_eq!(held(&near, &[2_500_000]), None, "nothing passed");
        assert_eq!(held(&acknowledged(&[1, 2]), &[0]), None, "others share it");
        assert_eq!(held(&acknowledged(&[1]), &[0]), Some(Nanos::ZERO));
    }
}
