//! The ledger against what was really done: for 200 random scripts of faults, the engine's counts
//! equal those of the broker that played them, exactly; for every fourth of them over TLS.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::{Amount, Config, Fault, FaultKind, Injections, Origin, Who};
use common::{Authority, started};
use load::{
    Ack, Control, Destination, Endpoint, Group, Json, Outcome, Phases, Plan, ReconnectPolicy,
    RunEvent, Sink, Sizes,
};
use measure::ledger::LedgerSummary;
use measure::{Interval, Nanos, Rate};
use testkit::Random;

/// Scripts of an ordinary run; see [`testkit::seeds`].
const SCRIPTS: u64 = 200;
/// Scripts whose counts were not what was injected once are played every time. In all of them a message
/// that others had overtaken came again with the flag.
const FAILED_ONCE: [u64; 6] = [333, 454, 1_052, 1_126, 1_475, 2_397];
/// Runs at the same time; each of them mostly sleeps.
const AT_ONCE: usize = 6;
const MEASURE_MS: u64 = 260;
/// No fault begins or goes on later, so that nothing is in flight when the load ends.
const FAULTS_MS: u64 = 180;
/// An event loop that waited so long for a core leaves too little of the time between the last fault and the end.
const STARVED: Nanos = Nanos::from_millis(40);
/// A scene for which the machine had no time is played again, at most so many times.
const ATTEMPTS: usize = 8;

/// A load and what is done to it.
#[derive(Debug)]
struct Scene {
    script: Vec<Fault>,
    producers: usize,
    consumers: usize,
    threads: usize,
    size: usize,
    /// Bodies are JSON and stay as they are.
    has_trace_header: bool,
    rate: f64,
    ack: Ack,
    prefetch: u16,
}

impl Scene {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let size = random.of(&[17, 24, 33, 40, 300]);
        // Where the header is hit nobody knows which message it was. Delivered again, it is not
        // lost, so such damage and lost connections of consumers are not in one script.
        let hits_headers = random.below(3) == 0;
        let count = 1 + random.below(4);
        let script: Vec<Fault> = (0..count)
            .map(|_| fault(random, size, hits_headers))
            .collect();
        let reorders = script
            .iter()
            .any(|f| matches!(f.kind, FaultKind::Reorder { .. }));
        // A held message is overtaken by its own producer's only where there is one producer.
        let producers = if reorders {
            1
        } else {
            random.of(&[1, 1, 2, 3])
        };
        let acks = [Ack::Auto, Ack::Every(1), Ack::Every(7), Ack::Every(50)];
        Self {
            script,
            producers,
            consumers: random.of(&[1, 1, 2, 3]),
            threads: random.of(&[1, 2]),
            size,
            rate: random.of(&[2_000.0, 4_000.0, 8_000.0]),
            ack: random.of(&acks),
            prefetch: random.of(&[60, 200]),
            has_trace_header: random.below(3) == 0,
        }
    }

    /// Bytes of the body that are the header.
    fn header(&self) -> usize {
        if self.has_trace_header {
            0
        } else if self.size < 32 {
            16
        } else {
            32
        }
    }
}

fn fault(random: &mut Random, size: usize, hits_headers: bool) -> Fault {
    let header = if size < 32 { 16 } else { 32 };
    let byte = if hits_headers {
        random.below(header)
    } else {
        header + random.below(size as u64 - header)
    };
    let kinds = [
        FaultKind::Lose,
        FaultKind::Lose,
        FaultKind::Duplicate { redelivered: false },
        FaultKind::Duplicate { redelivered: true },
        FaultKind::Reorder {
            by: 1 + random.below(5) as u32,
        },
        FaultKind::Reorder { by: 1 },
        FaultKind::Corrupt {
            byte: Some(byte as usize),
        },
        FaultKind::Nack,
        FaultKind::SlowAck(Nanos::from_micros(100 + random.below(3_000))),
        FaultKind::Stall,
        FaultKind::Block,
        FaultKind::Drop { in_order: true },
    ];
    let amounts = [
        Amount::Every(1 + random.below(40)),
        Amount::Chance {
            probability: 0.001 * (1 + random.below(100)) as f64,
            seed: random.below(u64::MAX >> 1),
        },
        Amount::Every(11),
    ];
    let counts = [None, None, Some(1 + random.below(30))];
    let kind = random.of(&kinds);
    let begin = random.below(FAULTS_MS - 60);
    let short = 1 + random.below(30);
    let length = match kind {
        FaultKind::Stall | FaultKind::Block => short,
        _ => FAULTS_MS - begin,
    };
    let who = if hits_headers {
        Who::Producers
    } else {
        random.of(&[Who::All, Who::Producers, Who::Consumers])
    };
    Fault {
        at: Some(Nanos::from_millis(begin)),
        length: Some(Nanos::from_millis(length)),
        amount: random.of(&amounts),
        count: random.of(&counts),
        who,
        ..Fault::new(kind)
    }
}

/// Tells the broker when the load begins, and notes what the load says of the machine.
struct Watch {
    log: broker::FaultLog,
    /// How late an event loop was at most.
    lag: Nanos,
    /// Somebody did not run for a tenth of a second: no script stops anybody for so long.
    stood_still: bool,
}

impl Sink for Watch {
    fn interval(&mut self, interval: &Interval) {
        self.lag = self.lag.max(interval.loop_lag_max);
    }

    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::Started { at } => self.log.begin(at),
            RunEvent::Silence(_) => self.stood_still = true,
            _ => {}
        }
    }
}

/// How a scene went.
struct Played {
    outcome: Result<Outcome, load::Error>,
    injections: Injections,
    lag: Nanos,
    stood_still: bool,
}

impl Played {
    /// Whether the machine had no time for it, by what the run itself says: faults then hit what was to be over, and
    /// the drain ends before everything has come.
    fn is_starved(&self) -> bool {
        let waited = match &self.outcome {
            Ok(outcome) => outcome.threads.iter(),
            Err(error) => return matches!(error, load::Error::TimedOut { .. }),
        };
        let waited = waited.filter_map(|thread| thread.measured_run_queue_wait);
        self.stood_still || self.lag.max(waited.max().unwrap_or_default()) >= STARVED
    }
}

fn play(scene: &Scene, tls: Option<&Authority>) -> Played {
    let config = Config {
        tls: tls.map(|authority| authority.listener(&["127.0.0.1"], None)),
        faults: scene.script.clone(),
        fault_origin: Origin::Declared,
        ..Config::default()
    };
    let broker = started(config);
    let log = broker.fault_log();
    let address = broker.tls_addr().unwrap_or(broker.local_addr());
    let mut endpoint = Endpoint::new("127.0.0.1", address.port());
    endpoint.tls = tls.map(Authority::trusted);
    let mut group = Group::new(endpoint, vec![Destination::queue("injected")]);
    group.producers.per_destination = scene.producers;
    group.producers.arrivals = Rate::per_second(scene.rate).expect("a rate").into();
    group.producers.max_pending = 1_000;
    group.producers.sizes = if scene.has_trace_header {
        Sizes::Bodies(Arc::new(Json::new(scene.size).bodies().expect("bodies")))
    } else {
        scene.size.into()
    };
    group.consumers.per_destination = scene.consumers;
    group.consumers.ack = scene.ack;
    group.consumers.prefetch = scene.prefetch;
    group.reconnect = Some(ReconnectPolicy {
        min: Nanos::from_millis(2),
        max: Nanos::from_millis(10),
    });
    let plan = Plan {
        groups: vec![group],
        threads: scene.threads,
        run_id: 77,
        phases: Phases {
            warmup: Nanos::ZERO,
            measure: Some(Nanos::from_millis(MEASURE_MS)),
            // What is lost is waited for in vain.
            drain: Nanos::from_millis(450),
        },
        ..Plan::default()
    };
    let mut watch = Watch {
        log,
        lag: Nanos::ZERO,
        stood_still: false,
    };
    let outcome = load::run(&plan, &Control::new(), &mut watch);
    drop(broker);
    Played {
        outcome,
        injections: watch.log.injections(),
        lag: watch.lag,
        stood_still: watch.stood_still,
    }
}

/// What the ledger should say, from what the broker did.
fn expected(scene: &Scene, sent: u64, injections: &Injections) -> LedgerSummary {
    let sum = |of: &dyn Fn(&FaultKind) -> bool| -> u64 {
        let faults = scene.script.iter().zip(&injections.faults);
        faults
            .filter(|(fault, _)| of(&fault.kind))
            .map(|(_, done)| done.count)
            .sum()
    };
    let header = scene.header();
    let lost = sum(&|kind| *kind == FaultKind::Lose);
    let unreadable =
        sum(&|kind| matches!(kind, FaultKind::Corrupt { byte: Some(byte) } if *byte < header));
    LedgerSummary {
        sent,
        delivered: injections.published - lost - unreadable,
        lost: lost + unreadable,
        outstanding: 0,
        unconfirmed_missing: sent - injections.published,
        unconfirmed_delivered: 0,
        duplicated: sum(&|kind| *kind == FaultKind::Duplicate { redelivered: false }),
        duplicated_redelivered: injections.redelivered
            + sum(&|kind| *kind == FaultKind::Duplicate { redelivered: true }),
        // What comes again with the flag is not reordered, whatever came before.
        reordered: sum(&|kind| matches!(kind, FaultKind::Reorder { .. }))
            - injections.reordered_redelivered,
        corrupt: sum(&|kind| matches!(kind, FaultKind::Corrupt { .. })),
        foreign: 0,
        returned: 0,
        exact: true,
    }
}

/// What was done in all scenes.
#[derive(Debug, Default)]
struct Totals {
    /// Lost, duplicated, redelivered, reordered, corrupt, never confirmed.
    done: [AtomicU64; 6],
    /// Runs that were repeated, because the machine had no time for them.
    starved: AtomicU64,
}

/// What is wrong with one scene.
fn problem(seed: u64, authority: &Authority, totals: &Totals) -> Option<String> {
    let scene = Scene::random(seed);
    let tls = seed.is_multiple_of(4).then_some(authority);
    let mut wrong = None;
    for _ in 0..ATTEMPTS {
        let played = play(&scene, tls);
        wrong = contradiction(&scene, &played, &totals.done);
        if wrong.is_none() || !played.is_starved() {
            break;
        }
        totals.starved.fetch_add(1, Ordering::Relaxed);
    }
    wrong.map(|wrong| format!("script {seed}: {scene:#?}\n{wrong}"))
}

/// What the ledger says that was not done.
fn contradiction(scene: &Scene, played: &Played, totals: &[AtomicU64; 6]) -> Option<String> {
    let Played {
        outcome,
        injections,
        ..
    } = played;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Some(error.to_string()),
    };
    let Some(ledger) = outcome.ledger else {
        return Some("there is no ledger".to_owned());
    };
    let expected = expected(scene, outcome.totals.sent, injections);
    let counts = [
        ledger.lost,
        ledger.duplicated,
        ledger.duplicated_redelivered,
        ledger.reordered,
        ledger.corrupt,
        ledger.unconfirmed_missing,
    ];
    for (total, count) in totals.iter().zip(counts) {
        total.fetch_add(count, Ordering::Relaxed);
    }
    let refused = |it: &&(&Fault, u64)| it.0.kind == FaultKind::Nack;
    let done = injections.faults.iter().map(|done| done.count);
    let nacked = scene.script.iter().zip(done).filter(|it| refused(&it));
    let nacked: u64 = nacked.map(|(_, count)| count).sum();
    let same = ledger == expected
        && outcome.totals.nacked == nacked
        && outcome.error.is_none()
        && ledger.sent > 100;
    (!same).then(|| {
        format!(
            "the ledger says {ledger:#?}\ninstead of {expected:#?}\n{injections:#?}\n\
             nacked {} of {nacked}, error {:?}",
            outcome.totals.nacked, outcome.error
        )
    })
}

#[test]
fn for_200_random_scripts_the_ledger_counts_what_was_injected() {
    let folder = tempfile::tempdir().expect("folder");
    let authority = Authority::new(folder.path(), "ca");
    let seeds = testkit::seeds_and(SCRIPTS, &FAILED_ONCE);
    let totals = Totals::default();
    let played = testkit::play(&seeds, AT_ONCE, |seed| problem(seed, &authority, &totals));
    eprintln!("{totals:?}");
    played.assert_right("--test injected");
    if seeds.len() as u64 >= SCRIPTS {
        let done = totals.done.iter().map(|it| it.load(Ordering::Relaxed));
        assert!(done.min() > Some(500), "too little was done: {totals:?}");
    }
}
