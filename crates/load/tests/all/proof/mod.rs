//! Whatever happens to its connections, a load's counts are exact, or it says what is outstanding: random
//! loads whose connections are cut, held and refused, and whose loops, coordinator and broker do not run for
//! a while. `make prove` plays more of them.

mod scene;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use load::{Ack, Control, Outcome, Plan, RunEvent, Sink};
use measure::{Counters, Interval, Nanos, Phase, Time};

use self::scene::{Blow, Kind, Scene};
use crate::world::{self, World};

/// Scenes of an ordinary run; see [`testkit::seeds`].
const SCENES: u64 = 1_000;
/// Scenes that have contradicted themselves once are played every time.
const FAILED_ONCE: [u64; 5] = [431, 567, 656, 3_238, 5_670];

/// Does to the load what the scene says, and keeps what the load tells.
struct Watch<'a> {
    world: World,
    broker: SocketAddr,
    scene: &'a Scene,
    counted: Counters,
    /// Where the last interval ended.
    until: Option<Time>,
    /// Intervals that do not begin where the one before ended.
    gaps: usize,
    /// Why connections were lost.
    lost: Vec<String>,
}

impl Sink for Watch<'_> {
    fn interval(&mut self, interval: &Interval) {
        self.counted.add(&interval.counters);
        self.gaps += usize::from(self.until.is_some_and(|until| until != interval.start));
        self.until = Some(interval.end);
    }

    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::Started { at } => {
                for (after, blow) in &self.scene.blows {
                    let (broker, blow) = (self.broker, *blow);
                    let at = at + Nanos::from_millis(*after);
                    self.world.at(at, move |world| strike(world, broker, blow));
                }
            }
            RunEvent::Lost { at, detail } => self.lost.push(format!("{at:?}: {detail}")),
            _ => {}
        }
    }
}

struct Unheard;

impl Sink for Unheard {
    fn interval(&mut self, _: &Interval) {}
    fn event(&mut self, _: RunEvent) {}
}

/// Puts messages of another run into the queues.
fn fill(scene: &Scene, world: &World, port: u16) {
    let mut group = scene.group(port);
    group.producers.per_destination = 1;
    group.producers.message_count = Some(scene.earlier);
    group.producers.max_pending = 100;
    let plan = Plan { groups: vec![group], run_id: 0x00EA_0000, ..Plan::default() };
    let outcome = load::run_in(world, &plan, &Control::new(), &mut Unheard);
    assert_eq!(outcome.expect("a load").totals.sent, scene.earlier);
}

fn strike(world: &World, broker: SocketAddr, blow: Blow) {
    let in_ms = |ms: u64| world.time() + Nanos::from_millis(ms);
    match blow {
        Blow::Cut(later) => world.cut(Nanos::from_millis(later)),
        Blow::Outage(length) => {
            world.keep_away(broker, true);
            world.cut(Nanos::ZERO);
            world.at(in_ms(length), move |world| world.keep_away(broker, false));
        }
        Blow::Hold(length) => world.hold(in_ms(length), false),
        Blow::Break(length) => {
            world.hold(in_ms(length), true);
            world.at(in_ms(length), |world| world.cut(Nanos::ZERO));
        }
        Blow::StopBroker(length) => world.stop_host(broker, in_ms(length)),
        Blow::StopLoad(length) => world.stop_load(in_ms(length)),
        Blow::StopLoop(number, length) => world.stop_loop(number, in_ms(length)),
        Blow::StopCoordinator(length) => world.stop_coordinator(in_ms(length)),
    }
}

/// How a scene went.
struct Play {
    outcome: Outcome,
    counted: Counters,
    gaps: usize,
    /// Why connections were lost.
    lost: Vec<String>,
    /// Messages that it left in the queues.
    left: u64,
    trace: (u64, u64),
}

/// Plays a scene.
fn play(scene: &Scene) -> Result<Play, load::Error> {
    let world = World::new(scene.seed, scene.pace);
    let broker = world.broker(broker::Config::default());
    if scene.earlier > 0 {
        fill(scene, &world, broker.port());
    }
    if scene.held_before > 0 {
        let begins = world.time() + Nanos::from_micros(300);
        let held = scene.held_before;
        world.at(begins, move |world| strike(world, broker, Blow::Hold(held)));
    }
    let mut watch = Watch {
        world: world.clone(),
        broker,
        scene,
        counted: Counters::default(),
        until: None,
        gaps: 0,
        lost: Vec::new(),
    };
    let plan = scene.plan(broker.port());
    let outcome = load::run_in(&world, &plan, &Control::new(), &mut watch)?;
    // Until the broker has noticed that all connections are gone.
    world.pass(Nanos::from_millis(2_000));
    let left = match scene.kind {
        Kind::Queue => world.with_broker(broker, |broker| {
            let names = (0..scene.destinations).map(|n| scene.name(n));
            names.filter_map(|name| broker.depth(&name)).sum()
        }),
        // They went with their connections, or stay for ever.
        Kind::Topic | Kind::Exclusive | Kind::Stream => 0,
    };
    Ok(Play { outcome, counted: watch.counted, gaps: watch.gaps, lost: watch.lost, left, trace: world.trace() })
}

/// A count of the scene that cannot be.
fn contradiction(scene: &Scene, play: &Play) -> Option<&'static str> {
    let (outcome, left) = (&play.outcome, play.left);
    let Some(ledger) = outcome.ledger else {
        return Some("there is no ledger");
    };
    let totals = &outcome.totals;
    let fates = ledger.delivered + ledger.lost + ledger.outstanding + ledger.returned + ledger.unconfirmed_missing;
    let deliveries = ledger.delivered + ledger.duplicated + ledger.duplicated_redelivered + ledger.foreign;
    let drain = outcome.phases.iter().find(|it| it.phase == Phase::Drain);
    let drained = drain.map_or(Nanos::ZERO, |it| it.end.since(it.start));
    let ended_early = drained < Nanos::from_millis(scene.phases.2);
    let acknowledges = scene.ack != Ack::Auto;
    let lost_connections: u64 = outcome.threads.iter().map(|t| t.lost_connections).sum();
    // A stream keeps everything; what is a connection's own goes with it.
    let may_lose = scene.is_cut()
        && match scene.kind {
            Kind::Queue => !acknowledges,
            Kind::Stream => false,
            Kind::Topic | Kind::Exclusive => true,
        };
    // What comes again to a queue may come late for those that have it now.
    let may_reorder = scene.is_cut() && scene.kind == Kind::Queue || scene.may_overtake();
    // A stream is read by each consumer, and once.
    let earlier = scene.earlier * scene.receivers();
    let reads_once = scene.kind == Kind::Stream;
    // Of the earlier run's messages, those that nobody got may still be there.
    let left_of_this = left.saturating_sub(earlier.saturating_sub(ledger.foreign));
    let missing = ledger.outstanding + ledger.unconfirmed_missing;
    let scheduled = scene.scheduled();
    let checks = [
        (outcome.error.is_some(), "the load failed"),
        (!ledger.exact, "memory sufficed"),
        (ledger.sent != totals.sent * scene.receivers(), "all sent messages have their receivers"),
        (fates != ledger.sent, "every message has one fate"),
        (deliveries != totals.received, "every delivery counts once"),
        (play.counted != *totals, "intervals add up to the totals"),
        (play.gaps > 0, "an interval begins where the last one ended"),
        (totals.sent > scheduled, "no more is sent than the schedule has"),
        (!scene.is_hindered() && totals.sent != scheduled, "the whole schedule is sent"),
        (
            totals.completed + outcome.unconfirmed < totals.sent * u64::from(scene.confirm) && !scene.is_cut(),
            "every message is answered or not",
        ),
        (ledger.corrupt > 0, "nobody damages anything"),
        (ledger.duplicated > 0, "what comes twice is flagged"),
        (ledger.reordered > 0 && !may_reorder, "nobody reorders anything"),
        (ledger.lost > 0 && !may_lose, "what is acknowledged, or kept, is not lost"),
        (lost_connections > 0 && !scene.is_cut(), "nobody cuts anything"),
        (
            reads_once && (ledger.duplicated_redelivered > 0 || ledger.foreign > earlier),
            "a stream is gone on with where it was left",
        ),
        (!acknowledges && left_of_this > missing, "what the queues still hold is not lost"),
        (ended_early && ledger.outstanding > 0, "a drain ends early only when nothing more can come"),
        (
            ended_early && earlier > ledger.foreign && (reads_once || !scene.is_cut()),
            "what was there before is received too",
        ),
        (
            scene.blows.is_empty() && ended_early && ledger.delivered != ledger.sent,
            "without a blow everything is delivered",
        ),
    ];
    checks.iter().find(|(is, _)| *is).map(|(_, what)| *what)
}

#[derive(Debug, Default)]
struct Totals {
    delivered: AtomicU64,
    lost: AtomicU64,
    outstanding: AtomicU64,
    redelivered: AtomicU64,
    reconnected: AtomicU64,
    /// Deliveries of each kind of scene that was cut, …
    kinds: [AtomicU64; Kind::ALL.len()],
    /// … and scenes that were played with idle connections, and with consumers that fell behind.
    idle: AtomicU64,
    slow: AtomicU64,
}

fn problem(seed: u64, totals: &Totals) -> Option<String> {
    let scene = Scene::random(seed);
    let play = match play(&scene) {
        Ok(play) => play,
        Err(error) => return Some(format!("{scene:#?}\n{error}")),
    };
    let outcome = &play.outcome;
    let ledger = outcome.ledger.unwrap_or_default();
    let lost: u64 = outcome.threads.iter().map(|t| t.lost_connections).sum();
    let of_kind = &totals.kinds[scene.kind as usize];
    let is_slow = scene.service_us >= 500 && ledger.delivered > 0;
    for (total, count) in [
        (of_kind, ledger.delivered * u64::from(scene.is_cut())),
        (&totals.idle, u64::from(scene.idle > 0)),
        (&totals.slow, u64::from(is_slow)),
        (&totals.delivered, ledger.delivered),
        (&totals.lost, ledger.lost),
        (&totals.outstanding, ledger.outstanding),
        (&totals.redelivered, ledger.duplicated_redelivered),
        (&totals.reconnected, lost),
    ] {
        total.fetch_add(count, Ordering::Relaxed);
    }
    contradiction(&scene, &play).map(|rule| {
        let (left, lost) = (play.left, &play.lost);
        format!("not so: {rule}\n{scene:#?}\n{left} left in the queues, lost {lost:#?}, {outcome:#?}")
    })
}

#[test]
fn whatever_happens_counts_are_exact_or_outstanding() {
    let all = testkit::seeds_and(SCENES, &FAILED_ONCE);
    let totals = Totals::default();
    let played = world::play(&all, |seed| problem(seed, &totals));
    eprintln!("{} scenes: {totals:?}", all.len());
    played.assert_right("--test all whatever_happens_counts");
    if all.len() >= 50 {
        let done = [
            (&totals.delivered, 5_000),
            (&totals.lost, 1),
            (&totals.outstanding, 1),
            (&totals.redelivered, 100),
            (&totals.reconnected, 100),
            (&totals.idle, 2),
            (&totals.slow, 5),
        ];
        let enough = |(total, least): &(&AtomicU64, u64)| total.load(Ordering::Relaxed) >= *least;
        let every_kind = totals.kinds.iter().all(|it| enough(&(it, 100)));
        assert!(done.iter().all(enough) && every_kind, "too little happened: {totals:?}");
    }
}

/// A seed that failed can be looked into: nothing but the seed decides what happens.
#[test]
fn a_scene_goes_the_same_way_every_time() {
    for seed in testkit::seeds(20) {
        let scene = Scene::random(seed);
        let [first, second] = [(); 2].map(|()| play(&scene).expect("a load"));
        assert_eq!(first.trace, second.trace, "seed {seed}: {scene:#?}");
        assert_eq!(first.outcome.ledger, second.outcome.ledger, "seed {seed}");
    }
}
