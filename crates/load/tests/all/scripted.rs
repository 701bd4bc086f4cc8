//! Consumers that share a connection, against a peer that plays one random script after the other: the
//! answers of a set-up in any order across channels, deliveries from the first subscription on, lost
//! connections, and steps that nobody asked for. Nothing that was delivered is dropped, and nothing
//! hangs. In virtual time.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use load::{Ack, Control, Destination, Error, Outcome, Plan, ReconnectPolicy};
use measure::{Length, Nanos, Time};
use testkit::Random;
use wire::amqp091::ChannelOpenOk;

use crate::common;
use crate::world::peer::{Asked, Peer, Serve, beating, polite};
use crate::world::{self, Pace, World};

const SCRIPTS: u64 = 1_000;
/// Nobody needs longer.
const LIMIT: Nanos = Nanos::from_millis(20_000);
/// How often a peer does something of itself, and the test looks whether all is done.
const TURN: Nanos = Nanos::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    None,
    /// It is cut, up to three times.
    Cut,
    /// The answer to this comes, which nobody asked for.
    Unsolicited(&'static str),
}

const UNSOLICITED: &str = "basic.cancel basic.consume basic.qos channel.open queue.declare queue.bind confirm.select \
                           tx.select tx.commit basic.get basic.publish";

#[derive(Clone, Debug)]
struct Script {
    seed: u64,
    channels: u16,
    messages: u64,
    prefetch: u16,
    ack: Ack,
    blow: Blow,
    /// Turns of the peer after which the blow falls.
    after: u64,
    /// Time between the consumers' beginnings, in milliseconds: the first begins with the load.
    apart: u64,
    /// Deliveries of a transaction; 0 without them.
    commit_every: u32,
    /// The peer writes in pieces of this many bytes; 0 for all at once.
    dribble: usize,
    pace: Pace,
}

impl Script {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let unsolicited: Vec<&str> = UNSOLICITED.split(' ').collect();
        let blow = match random.below(5) {
            0 => Blow::Unsolicited(random.of(&unsolicited)),
            1 | 2 => Blow::Cut,
            _ => Blow::None,
        };
        let acks = [Ack::Every(1), Ack::Every(3), Ack::Every(10), Ack::Auto];
        let ack = match blow {
            // What goes down with a connection is gone where nobody acknowledges.
            Blow::Cut => random.of(&acks[..3]),
            _ => random.of(&acks),
        };
        Self {
            seed,
            channels: 1 + random.below(16) as u16,
            messages: 1 + random.below(400),
            prefetch: random.of(&[0, 10, 50]),
            ack,
            blow,
            after: 1 + random.below(60),
            apart: random.of(&[0, 0, 0, 2]),
            commit_every: match ack {
                Ack::Auto => 0,
                Ack::Every(_) => random.of(&[0, 0, 5]),
            },
            dribble: random.of(&[0, 0, 0, 1, 7, 40]),
            pace: Pace::random(random),
        }
    }
}

/// The peer's queue, and what became of its messages.
#[derive(Debug, Default)]
struct Queue {
    /// Messages to be delivered, and whether they were before.
    ready: VecDeque<(u64, bool)>,
    delivered: u64,
    acked: HashSet<u64>,
    cuts: u64,
}

struct Scene {
    script: Script,
    random: Random,
    queue: Arc<Mutex<Queue>>,
    /// Requests of each channel that wait for their answer.
    asked: BTreeMap<u16, VecDeque<&'static str>>,
    subscribed: Vec<u16>,
    /// Of each channel: the last delivery's tag, and what is not acknowledged.
    tags: BTreeMap<u16, u64>,
    unacked: BTreeMap<u16, VecDeque<(u64, u64)>>,
    opened: bool,
    turns: u64,
}

impl Serve for Scene {
    fn turn(&mut self, peer: &mut Peer, asked: Vec<Asked>, _: Time) -> Option<Nanos> {
        peer.dribble = self.script.dribble;
        for asked in asked {
            match asked {
                Asked::Method(channel, method) => {
                    self.asked.entry(channel).or_default().push_back(method);
                    self.opened = true;
                }
                Asked::Ack { channel, tag, multiple } => self.settle(channel, tag, multiple),
                Asked::Gone | Asked::Publish(_) => {}
            }
        }
        for _ in 0..1 + self.random.below(8) {
            if self.random.below(3) == 0 {
                self.answer(peer);
            } else {
                self.deliver(peer);
            }
        }
        self.turns += u64::from(self.opened);
        (self.turns != self.script.after || self.strike(peer)).then_some(TURN)
    }
}

impl Drop for Scene {
    /// Unacknowledged messages go back to the queue.
    fn drop(&mut self) {
        let mut queue = self.queue.lock().expect("queue");
        for (_, id) in self.unacked.values().flatten().rev() {
            queue.ready.push_front((*id, true));
        }
    }
}

impl Scene {
    fn settle(&mut self, channel: u16, tag: u64, multiple: bool) {
        let unacked = self.unacked.entry(channel).or_default();
        let mut queue = self.queue.lock().expect("queue");
        unacked.retain(|(at, id)| {
            let meant = *at == tag || (multiple && *at < tag);
            if meant {
                assert!(queue.acked.insert(*id), "acknowledged twice");
            }
            !meant
        });
    }

    fn answer(&mut self, peer: &mut Peer) {
        let waiting: Vec<u16> = self.asked.keys().copied().collect();
        if waiting.is_empty() {
            return;
        }
        let channel = self.random.of(&waiting);
        let Some(method) = self.asked.get_mut(&channel).and_then(VecDeque::pop_front) else { return };
        if self.asked[&channel].is_empty() {
            self.asked.remove(&channel);
        }
        peer.answer(channel, method);
        match method {
            "basic.consume" => self.subscribed.push(channel),
            "basic.cancel" => self.subscribed.retain(|at| *at != channel),
            _ => {}
        }
    }

    fn deliver(&mut self, peer: &mut Peer) {
        if self.subscribed.is_empty() {
            return;
        }
        let channel = self.random.of(&self.subscribed);
        let unacked = self.unacked.entry(channel).or_default();
        let (prefetch, auto) = (self.script.prefetch, self.script.ack == Ack::Auto);
        if !auto && prefetch > 0 && unacked.len() >= usize::from(prefetch) {
            return;
        }
        let mut queue = self.queue.lock().expect("queue");
        let Some((id, redelivered)) = queue.ready.pop_front() else { return };
        queue.delivered += 1;
        let tag = self.tags.entry(channel).or_default();
        *tag += 1;
        if !auto {
            unacked.push_back((*tag, id));
        }
        peer.deliver(channel, *tag, redelivered, b"not ours");
    }

    /// Tells whether the connection lives on.
    fn strike(&mut self, peer: &mut Peer) -> bool {
        let channel = 1 + self.random.below(u64::from(self.script.channels)) as u16;
        match self.script.blow {
            Blow::None => true,
            Blow::Cut => {
                let mut queue = self.queue.lock().expect("queue");
                // Before the load has begun a lost connection is final, and acknowledgements are
                // the only sign that it has.
                if queue.acked.is_empty() {
                    self.script.after += 1 + self.random.below(20);
                    return true;
                }
                queue.cuts += 1;
                queue.cuts > 3
            }
            Blow::Unsolicited(method) => {
                // Where it comes in place of the same that was requested, one too many comes in the end.
                match method {
                    "channel.open" => peer.send(channel, &ChannelOpenOk::default()),
                    "basic.publish" => peer.server.confirm(channel, 0, true),
                    method => peer.answer(channel, method),
                }
                true
            }
        }
    }
}

fn plan(script: &Script, address: SocketAddr) -> Plan {
    let mut group = common::group(address, Destination::queue("q"), (0, script.channels.into()));
    group.consumers.connections = Some(1);
    group.consumers.prefetch = script.prefetch;
    group.consumers.ack = script.ack;
    group.consumers.apart = Length(Nanos::from_millis(script.apart));
    group.consumers.commit_every = script.commit_every;
    group.reconnect = (script.blow == Blow::Cut)
        .then_some(ReconnectPolicy { min: Nanos::from_millis(1), max: Nanos::from_millis(5) });
    Plan { timeout: Nanos::from_millis(10_000), ..common::measured(group, 60_000) }
}

/// Stops the load when it has everything, or has had its time.
fn watch(world: &World, script: &Script, queue: Arc<Mutex<Queue>>, control: Control, limit: Time) {
    let (script, at) = (script.clone(), world.time() + TURN);
    world.at(at, move |world| {
        let has_all = {
            let queue = queue.lock().expect("queue");
            match script.ack {
                Ack::Auto => queue.ready.is_empty(),
                Ack::Every(_) => queue.acked.len() as u64 == script.messages,
            }
        };
        let hostile = matches!(script.blow, Blow::Unsolicited(_));
        if (has_all && !hostile) || world.time() > limit {
            // What is on its way still comes.
            let end = world.time() + Nanos::from_millis(150);
            world.at(end, move |_| control.stop());
        } else {
            watch(world, &script, queue, control, limit);
        }
    });
}

fn run(script: &Script) -> (Result<Outcome, Error>, Queue, Nanos) {
    let world = World::new(script.seed, script.pace);
    let queue =
        Arc::new(Mutex::new(Queue { ready: (0..script.messages).map(|id| (id, false)).collect(), ..Queue::default() }));
    let (shared, played) = (Arc::clone(&queue), script.clone());
    let address = world.peer(beating(0), move |number| {
        if number == 0 {
            // The connection beside the load.
            return polite();
        }
        Box::new(Scene {
            script: played.clone(),
            random: Random::new(played.seed ^ (number as u64) << 32),
            queue: Arc::clone(&shared),
            asked: BTreeMap::new(),
            subscribed: Vec::new(),
            tags: BTreeMap::new(),
            unacked: BTreeMap::new(),
            opened: false,
            turns: 0,
        })
    });
    let (control, begin) = (Control::new(), world.time());
    watch(&world, script, Arc::clone(&queue), control.clone(), begin + LIMIT);
    let (outcome, _) = world.run_until(&plan(script, address), &control, |_, _| ());
    let took = world.time().since(begin);
    let queue = std::mem::take(&mut *queue.lock().expect("queue"));
    (outcome, queue, took)
}

fn problem(script: &Script) -> Option<String> {
    let (outcome, queue, took) = run(script);
    if took >= LIMIT {
        return Some(format!("it hung: {outcome:?}"));
    }
    if matches!(script.blow, Blow::Unsolicited(_)) {
        let error = match outcome {
            Ok(outcome) => outcome.error,
            Err(error) => Some(error),
        };
        let is_refused = matches!(error, Some(Error::Protocol { .. }));
        return (!is_refused).then(|| format!("what nobody asked for is no error: {error:?}"));
    }
    let outcome = match outcome {
        Ok(outcome) if outcome.error.is_none() => outcome,
        failed => return Some(format!("it failed: {failed:?}")),
    };
    let received = outcome.totals.received;
    let acked = queue.acked.len() as u64;
    if script.ack != Ack::Auto && acked != script.messages {
        return Some(format!("acknowledged {acked}"));
    }
    let most = match queue.cuts {
        0 => script.messages,
        _ => queue.delivered,
    };
    let is_right = (script.messages..=most).contains(&received);
    (!is_right).then(|| format!("received {received} of {}: {outcome:?}", script.messages))
}

#[test]
fn whatever_the_order_of_set_up_and_deliveries_nothing_is_dropped() {
    world::prove(SCRIPTS, "--test all scripted::", |seed| {
        let script = Script::random(seed);
        problem(&script).map(|wrong| format!("{script:?}: {wrong}"))
    });
}
