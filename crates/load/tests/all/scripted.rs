//! Consumers that share a connection, against a peer that plays one random script after the other: the
//! answers of a set-up in any order across channels, deliveries from the first subscription on, lost
//! connections, and steps that nobody asked for. Nothing that was delivered is dropped, and nothing
//! hangs.

use crate::common;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::peer::{Asked, Peer, beating, listen};
use load::{
    Ack, Control, Destination, Error, Group, Outcome, Phases, Plan, ReconnectPolicy, RunEvent, Sink,
};
use measure::{Interval, Length, Nanos};
use testkit::Random;
use wire::amqp091::{
    BasicCancelOk, BasicConsumeOk, BasicQosOk, ChannelOpenOk, ConfirmSelectOk, QueueBindOk,
    QueueDeclareOk, TxCommitOk, TxSelectOk,
};

/// This many scripts, unless BELLOWS_SCRIPTS says otherwise.
const SCRIPTS: u64 = 50;
/// Runs at the same time; each of them mostly sleeps.
const AT_ONCE: usize = 6;
/// Nobody needs longer, on the busiest machine.
const LIMIT: Duration = Duration::from_secs(20);

struct Nothing;

impl Sink for Nothing {
    fn interval(&mut self, _: &Interval) {}
    fn event(&mut self, _: RunEvent) {}
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    None,
    /// It is cut, up to three times.
    Cut,
    /// Something comes that nobody asked for.
    Unsolicited(Step),
}

/// What may come uninvited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Cancelled,
    Consuming,
    Qos,
    Opened,
    Declared,
    Bound,
    Confirms,
    Transactions,
    Committed,
    Empty,
    Confirm,
}

const STEPS: [Step; 11] = [
    Step::Cancelled,
    Step::Consuming,
    Step::Qos,
    Step::Opened,
    Step::Declared,
    Step::Bound,
    Step::Confirms,
    Step::Transactions,
    Step::Committed,
    Step::Empty,
    Step::Confirm,
];

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
}

impl Script {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let blow = match random.below(5) {
            0 => Blow::Unsolicited(random.of(&STEPS)),
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
        }
    }
}

/// The peer's queue, and what became of its messages.
#[derive(Debug, Default)]
struct Queue {
    /// What is to be delivered, and whether it was before.
    ready: VecDeque<(u64, bool)>,
    delivered: u64,
    acked: HashSet<u64>,
    cuts: u64,
}

/// One connection of a script.
struct Scene {
    script: Script,
    random: Random,
    peer: Peer,
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

impl Scene {
    /// Plays until the client goes or the connection is cut.
    fn play(mut self) {
        while self.turn() {}
        let mut queue = self.queue.lock().expect("queue");
        for (_, id) in self.unacked.values().flatten().rev() {
            queue.ready.push_front((*id, true));
        }
    }

    fn turn(&mut self) -> bool {
        for asked in self.peer.turn() {
            match asked {
                Asked::Method(channel, method) => {
                    self.asked.entry(channel).or_default().push_back(method);
                    self.opened = true;
                }
                Asked::Ack {
                    channel,
                    tag,
                    multiple,
                } => self.settle(channel, tag, multiple),
                Asked::Publish(_) => {}
                Asked::Gone => return false,
            }
        }
        for _ in 0..1 + self.random.below(8) {
            if self.random.below(3) == 0 {
                self.answer();
            } else {
                self.deliver();
            }
        }
        self.turns += u64::from(self.opened);
        self.turns != self.script.after || self.strike()
    }

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

    /// Answers the oldest request of some channel.
    fn answer(&mut self) {
        let waiting: Vec<u16> = self.asked.keys().copied().collect();
        if waiting.is_empty() {
            return;
        }
        let channel = self.random.of(&waiting);
        let Some(method) = self.asked.get_mut(&channel).and_then(VecDeque::pop_front) else {
            return;
        };
        if self.asked[&channel].is_empty() {
            self.asked.remove(&channel);
        }
        self.peer.answer(channel, method);
        match method {
            "basic.consume" => self.subscribed.push(channel),
            "basic.cancel" => self.subscribed.retain(|at| *at != channel),
            _ => {}
        }
    }

    fn deliver(&mut self) {
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
        let Some((id, redelivered)) = queue.ready.pop_front() else {
            return;
        };
        queue.delivered += 1;
        let tag = self.tags.entry(channel).or_default();
        *tag += 1;
        if !auto {
            unacked.push_back((*tag, id));
        }
        self.peer.deliver(channel, *tag, redelivered, b"not ours");
    }

    /// Tells whether the connection lives on.
    fn strike(&mut self) -> bool {
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
            Blow::Unsolicited(step) => {
                self.send_unsolicited(channel, step);
                true
            }
        }
    }

    fn send_unsolicited(&mut self, channel: u16, step: Step) {
        let (peer, consumer_tag) = (&mut self.peer, "c");
        match step {
            Step::Cancelled => peer.send(channel, &BasicCancelOk { consumer_tag }),
            Step::Consuming => peer.send(channel, &BasicConsumeOk { consumer_tag }),
            Step::Qos => peer.send(channel, &BasicQosOk {}),
            Step::Opened => peer.send(channel, &ChannelOpenOk::default()),
            Step::Declared => peer.send(channel, &QueueDeclareOk::default()),
            Step::Bound => peer.send(channel, &QueueBindOk {}),
            Step::Confirms => peer.send(channel, &ConfirmSelectOk {}),
            Step::Transactions => peer.send(channel, &TxSelectOk {}),
            Step::Committed => peer.send(channel, &TxCommitOk {}),
            Step::Empty => peer.answer(channel, "basic.get"),
            Step::Confirm => peer.server.confirm(channel, 0, true),
        }
        // Where it comes in place of the same that was requested, one too many comes in the end.
    }
}

fn plan(script: &Script, address: std::net::SocketAddr) -> Plan {
    let url = format!("amqp://{address}");
    let mut group = Group::new(url.parse().expect("url"), vec![Destination::queue("q")]);
    group.producers.per_destination = 0;
    group.consumers.per_destination = script.channels.into();
    group.consumers.connections = Some(1);
    group.consumers.prefetch = script.prefetch;
    group.consumers.ack = script.ack;
    group.consumers.apart = Length(Nanos::from_millis(script.apart));
    group.consumers.commit_every = script.commit_every;
    group.reconnect = (script.blow == Blow::Cut).then_some(ReconnectPolicy {
        min: Nanos::from_millis(1),
        max: Nanos::from_millis(5),
    });
    Plan {
        groups: vec![group],
        phases: Phases {
            measure: Some(Nanos::from_millis(60_000)),
            ..Phases::default()
        },
        timeout: Nanos::from_millis(10_000),
        ..Plan::default()
    }
}

fn run(script: &Script) -> (Result<Outcome, Error>, Queue) {
    let queue = Arc::new(Mutex::new(Queue {
        ready: (0..script.messages).map(|id| (id, false)).collect(),
        ..Queue::default()
    }));
    let (shared, played) = (Arc::clone(&queue), script.clone());
    let address = listen(beating(0), move |number, mut peer| {
        peer.dribble = played.dribble;
        if number == 0 {
            // The connection beside the load.
            peer.serve_politely();
            return;
        }
        Scene {
            script: played.clone(),
            random: Random::new(played.seed ^ (number as u64) << 32),
            peer,
            queue: Arc::clone(&shared),
            asked: BTreeMap::new(),
            subscribed: Vec::new(),
            tags: BTreeMap::new(),
            unacked: BTreeMap::new(),
            opened: false,
            turns: 0,
        }
        .play();
    });
    let control = Control::new();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watched = (Arc::clone(&queue), control.clone(), script.clone());
    let watch = thread::spawn(move || {
        let (queue, control, script) = watched;
        let begin = Instant::now();
        while ended.recv_timeout(Duration::from_millis(2))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let has_all = {
                let queue = queue.lock().expect("queue");
                match script.ack {
                    Ack::Auto => queue.ready.is_empty(),
                    Ack::Every(_) => queue.acked.len() as u64 == script.messages,
                }
            };
            let hostile = matches!(script.blow, Blow::Unsolicited(_));
            if (has_all && !hostile) || begin.elapsed() > LIMIT {
                // What is on its way still comes.
                thread::sleep(Duration::from_millis(150));
                control.stop();
                return;
            }
        }
    });
    let outcome = load::run(&plan(script, address), &control, &mut Nothing);
    drop(done);
    watch.join().expect("watch");
    let queue = std::mem::take(&mut *queue.lock().expect("queue"));
    (outcome, queue)
}

fn check(script: &Script) {
    let begin = Instant::now();
    let (outcome, queue) = run(script);
    assert!(begin.elapsed() < LIMIT, "{script:?} hung: {outcome:?}");
    if matches!(script.blow, Blow::Unsolicited(_)) {
        let error = match outcome {
            Ok(outcome) => outcome.error,
            Err(error) => Some(error),
        };
        assert!(
            matches!(error, Some(Error::Protocol { .. })),
            "{script:?}: {error:?}"
        );
        return;
    }
    let outcome = outcome.unwrap_or_else(|error| panic!("{script:?}: {error}"));
    assert!(outcome.error.is_none(), "{script:?}: {outcome:?}");
    let received = outcome.totals.received;
    if script.ack != Ack::Auto {
        assert_eq!(queue.acked.len() as u64, script.messages, "{script:?}");
    }
    if queue.cuts == 0 {
        assert_eq!(received, script.messages, "{script:?}");
    } else {
        let span = script.messages..=queue.delivered;
        assert!(span.contains(&received), "{script:?}: {received}");
    }
}

#[test]
fn whatever_the_order_of_set_up_and_deliveries_nothing_is_dropped() {
    let scripts = std::env::var("BELLOWS_SCRIPTS").ok();
    let scripts = scripts.map_or(SCRIPTS, |n| n.parse().expect("a number of scripts"));
    thread::scope(|scope| {
        for worker in 0..AT_ONCE as u64 {
            scope.spawn(move || {
                for seed in (worker..scripts).step_by(AT_ONCE) {
                    check(&Script::random(seed));
                }
            });
        }
    });
}
