//! Servers for clients: an embedded broker, or a scripted peer.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use broker::{ConnectionId, InMemory, Wants};
use measure::Time;
use wire::amqp091::ServerConfig;

use super::State;
use super::link::{End, Link};
use super::peer::{PeerConnection, Serve};

pub(super) enum Kind {
    Broker(Box<InMemory>),
    Peer(ServerConfig, Box<dyn FnMut(usize) -> Box<dyn Serve> + Send>),
}

struct Accepted {
    id: ConnectionId,
    input: Vec<u8>,
    has_ended: bool,
}

pub(super) struct Host {
    pub(super) kind: Kind,
    pub(super) is_away: bool,
    pub(super) free_at: Time,
    /// An embedded broker's connections, by link, …
    accepted: BTreeMap<usize, Accepted>,
    /// … and a peer's.
    served: BTreeMap<usize, PeerConnection>,
    connections: usize,
    /// A fault lets it stand still until then.
    stands_until: Time,
}

impl Host {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            is_away: false,
            free_at: Time(0),
            accepted: BTreeMap::new(),
            served: BTreeMap::new(),
            connections: 0,
            stands_until: Time(0),
        }
    }

    /// When it has something to do; `links` is when it has something of its connections.
    pub(super) fn ready_at(&self, links: Time) -> Time {
        let own = match &self.kind {
            Kind::Broker(broker) if broker.has_work() => Time(0),
            Kind::Broker(broker) => broker.next_due(),
            Kind::Peer(..) => self.served.values().map(PeerConnection::due).min().unwrap_or(Time(u64::MAX)),
        };
        own.min(links).max(self.free_at).max(self.stands_until)
    }

    pub(super) fn link_ready_at(&self, at: usize, link: &Link) -> Time {
        let never = Time(u64::MAX);
        let end = link.to_host.end_at().map_or(never, |(end, _)| end);
        let bytes = link.to_host.bytes_at().unwrap_or(never);
        match &self.kind {
            Kind::Broker(broker) => match self.accepted.get(&at) {
                None => link.comes_at(),
                Some(accepted) if broker.wants(accepted.id) == Wants::Pause => end,
                Some(_) => end.min(bytes),
            },
            Kind::Peer(..) => match self.served.get(&at) {
                None => link.comes_at(),
                Some(peer) if peer.is_deaf() => end,
                Some(_) => end.min(bytes),
            },
        }
    }
}

impl State {
    pub(super) fn step_host(&mut self, number: usize, now: Time) {
        let mut host = std::mem::replace(
            &mut self.hosts[number],
            Host::new(Kind::Peer(ServerConfig::default(), Box::new(|_| unreachable!()))),
        );
        match &mut host.kind {
            Kind::Broker(_) => self.step_broker(&mut host, number, now),
            Kind::Peer(..) => self.step_peer(&mut host, number, now),
        }
        let (least, most) = self.pace.host_ns;
        let cost = self.draw(least, most);
        host.free_at = host.free_at.max(now + cost);
        self.hosts[number] = host;
    }

    fn links_of(&self, number: usize) -> Vec<usize> {
        let own = self.links.iter().enumerate().filter(|(_, link)| link.host == number && !link.is_over);
        own.map(|(at, _)| at).collect()
    }

    fn step_broker(&mut self, host: &mut Host, number: usize, now: Time) {
        let Kind::Broker(broker) = &mut host.kind else { return };
        let mut gone = Vec::new();
        if !broker.begin(now, |id| gone.push(id)) {
            host.stands_until = broker.next_due();
            return;
        }
        let links = self.links_of(number);
        for at in &links {
            let link = &mut self.links[*at];
            let lost = host.accepted.get(at).is_some_and(|it| gone.contains(&it.id));
            if lost {
                link.to_client.close(now, End::Reset);
                link.is_over = true;
                host.accepted.remove(at);
                continue;
            }
            if !host.accepted.contains_key(at) && link.comes_at() <= now {
                let accepted = Accepted { id: broker.connect(now), input: Vec::new(), has_ended: false };
                host.accepted.insert(*at, accepted);
            }
            let Some(accepted) = host.accepted.get_mut(at) else { continue };
            if broker.wants(accepted.id) != Wants::Pause && !link.to_host.has_reset(now) {
                link.to_host.take_all(now, &mut accepted.input);
                link.make_room(self.pace.buffer);
            }
            let used = broker.read(accepted.id, now, &accepted.input);
            accepted.input.drain(..used);
            let is_empty = link.to_host.bytes_at().is_none();
            let end = link.to_host.end_at().filter(|(end, _)| *end <= now);
            if end.is_some_and(|(_, end)| is_empty || end == End::Reset) {
                broker.disconnect(accepted.id);
                link.is_over = true;
                host.accepted.remove(at);
            }
        }
        broker.turn();
        for at in &links {
            if let Some(accepted) = host.accepted.get_mut(at) {
                self.write_output(*at, broker, accepted, now);
            }
        }
    }

    fn write_output(&mut self, at: usize, broker: &mut InMemory, accepted: &mut Accepted, now: Time) {
        loop {
            let room = self.links[at].to_client.room(self.pace.buffer);
            let waits = broker.output(accepted.id).len();
            self.links[at].host_wants_room = waits > 0 && room == 0;
            let count = waits.min(room);
            if count == 0 {
                break;
            }
            let count = self.draw_piece(count);
            let (least, most) = self.pace.travel_ns;
            let arrives = now + self.draw(least, most);
            let output = &broker.output(accepted.id)[..count];
            self.links[at].to_client.send(arrives, output);
            broker.written(accepted.id, count);
        }
        let ends = broker.wants(accepted.id) == Wants::End
            && broker.output(accepted.id).is_empty()
            && !std::mem::replace(&mut accepted.has_ended, true);
        if ends {
            self.links[at].to_client.close(now, End::Orderly);
        }
    }

    fn step_peer(&mut self, host: &mut Host, number: usize, now: Time) {
        let Kind::Peer(config, script) = &mut host.kind else { return };
        for at in self.links_of(number) {
            if !host.served.contains_key(&at) {
                if self.links[at].comes_at() > now {
                    continue;
                }
                let serve = script(host.connections);
                host.connections += 1;
                let connection = PeerConnection::new(config.clone(), serve, now);
                host.served.insert(at, connection);
            }
            let Some(peer) = host.served.get_mut(&at) else { continue };
            let link = &mut self.links[at];
            if !peer.is_deaf() && !link.to_host.has_reset(now) {
                link.to_host.take_all(now, &mut peer.input);
                link.make_room(self.pace.buffer);
            }
            let ended = link.to_host.end_at().is_some_and(|(end, _)| end <= now);
            let lives = !ended && peer.turn(now);
            let (least, most) = self.pace.travel_ns;
            loop {
                let link = &mut self.links[at];
                let room = link.to_client.room(self.pace.buffer);
                let waits = peer.output();
                link.host_wants_room = waits > 0 && room == 0;
                let count = waits.min(room);
                if count == 0 {
                    break;
                }
                let piece = self.draw_piece(peer.piece(count));
                let arrives = now + self.draw(least, most);
                peer.write(piece, |bytes| self.links[at].to_client.send(arrives, bytes));
            }
            if !lives {
                let link = &mut self.links[at];
                let end = if peer.resets() { End::Reset } else { End::Orderly };
                link.to_client.close(now, end);
                link.is_over = true;
                host.served.remove(&at);
            }
        }
    }

    /// Bytes of so many that move at once.
    pub(super) fn draw_piece(&mut self, most: usize) -> usize {
        match self.pace.piece {
            0 => most,
            piece => most.min(1 + self.random.below(piece as u64) as usize),
        }
    }

    /// A client has no more use for a connection.
    pub(super) fn hang_up(&mut self, link: usize, now: Time) {
        let (least, most) = self.pace.travel_ns;
        let arrives = now + self.draw(least, most);
        let link = &mut self.links[link];
        if !std::mem::replace(&mut link.is_hung_up, true) {
            link.to_host.close(arrives, End::Orderly);
            link.to_client.close(now, End::Orderly);
        }
    }
}

pub(super) fn host_of(address: SocketAddr) -> Option<usize> {
    usize::from(address.port()).checked_sub(10_000).map(|port| port % 10_000)
}
