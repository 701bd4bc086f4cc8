//! Connections that are lost while the load runs, and re-established.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use load::{
    Ack, Control, Destination, Error, Group, Outcome, Phases, Plan, ReconnectPolicy, RunEvent, Sink,
};
use measure::{Interval, Metric, Nanos, Phase, Rate};
use testkit::Proxy;

#[derive(Default)]
struct Kept {
    measured: Interval,
    events: Vec<RunEvent>,
}

impl Sink for Kept {
    fn interval(&mut self, merged: &Interval) {
        if merged.phase != Phase::Warmup {
            self.measured.merge(merged);
        }
    }

    fn event(&mut self, event: RunEvent) {
        self.events.push(event);
    }
}

fn embedded(listen: SocketAddr) -> broker::Running {
    let config = broker::Config {
        listen,
        ..broker::Config::default()
    };
    broker::Broker::bind(config)
        .expect("bind")
        .spawn()
        .expect("spawn")
}

fn plan(address: SocketAddr, reconnect: Option<ReconnectPolicy>) -> Plan {
    let url = format!("amqp://{address}");
    let queue = Destination::parse("queue://reconnect").expect("destination");
    let mut group = Group::new(url.parse().expect("url"), vec![queue]);
    group.producers.per_destination = 2;
    group.producers.arrivals = Rate::per_second(1_000.0).expect("a rate").into();
    group.producers.max_pending = 100;
    group.producers.sizes = 32.into();
    group.consumers.per_destination = 2;
    group.consumers.ack = Ack::Every(10);
    group.reconnect = reconnect;
    Plan {
        groups: vec![group],
        phases: Phases {
            measure: Some(Nanos::from_millis(3_000)),
            ..Phases::default()
        },
        ..Plan::default()
    }
}

/// Runs the load while the broker is away from the first second on, for 500 ms.
fn with_an_outage(reconnect: Option<ReconnectPolicy>) -> (Outcome, Kept) {
    let broker = embedded("127.0.0.1:0".parse().expect("address"));
    let address = broker.local_addr();
    let outage = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1_000));
        drop(broker);
        thread::sleep(Duration::from_millis(500));
        embedded(address)
    });
    let mut kept = Kept::default();
    let outcome = load::run(&plan(address, reconnect), &Control::new(), &mut kept).expect("load");
    drop(outage.join().expect("outage"));
    (outcome, kept)
}

#[test]
fn a_load_outlives_its_broker_and_keeps_its_schedule() {
    let (outcome, kept) = with_an_outage(Some(ReconnectPolicy {
        min: Nanos::from_millis(20),
        max: Nanos::from_millis(60),
    }));
    assert!(outcome.error.is_none(), "{outcome:?}");
    let lost: u64 = outcome.threads.iter().map(|t| t.lost_connections).sum();
    assert_eq!(lost, 4, "two producers and two consumers");
    // Every message of the schedule was sent, once: the overdue ones late.
    assert_eq!(outcome.totals.sent, 3_000, "{outcome:?}");
    let answered = outcome.totals.completed + outcome.unconfirmed;
    assert_eq!(answered, 3_000, "{outcome:?}");
    assert!(outcome.unconfirmed <= 200, "{outcome:?}");
    // What its users felt: somebody waited all the time that the broker was away.
    let response = kept.measured.latencies.histogram(Metric::ACK_RESPONSE);
    assert!(response.max() >= 480_000_000, "{} ns", response.max());
    assert!(response.max() <= 1_500_000_000, "{} ns", response.max());
    // So did what was in flight when the connections were lost: no message is missing.
    assert_eq!(response.len(), 3_000, "{outcome:?}");
    let away = kept.events.iter().filter_map(|event| match event {
        RunEvent::Silence(silence) if silence.is_away => Some(silence),
        _ => None,
    });
    let away: Vec<_> = away.collect();
    assert_eq!(away.len(), 1, "{:?}", kept.events);
    let length = away[0].until.since(away[0].from);
    assert!(
        (450..1_400).contains(&(length.0 / 1_000_000)) && away[0].connections == 4,
        "{away:?}"
    );
    let at = |what: fn(&RunEvent) -> bool| kept.events.iter().position(what).expect("event");
    let lost = at(|event| matches!(event, RunEvent::Lost { .. }));
    let back = at(|event| matches!(event, RunEvent::Recovered { .. }));
    assert!(lost < back, "{:?}", kept.events);
}

#[test]
fn without_recovery_the_loss_ends_the_load() {
    let (outcome, _) = with_an_outage(None);
    assert!(
        matches!(
            outcome.error,
            Some(Error::Lost { .. } | Error::Connect { .. })
        ),
        "{outcome:?}"
    );
}

#[test]
fn a_broker_that_never_comes_back_does_not_hang_the_end() {
    let broker = embedded("127.0.0.1:0".parse().expect("address"));
    let address = broker.local_addr();
    let reconnect = ReconnectPolicy {
        min: Nanos::from_millis(50),
        max: Nanos::from_millis(50),
    };
    let end = thread::spawn(move || {
        thread::sleep(Duration::from_millis(800));
        drop(broker);
    });
    let mut plan = plan(address, Some(reconnect));
    plan.phases.measure = Some(Nanos::from_millis(1_500));
    plan.phases.drain = Nanos::from_millis(1_000);
    let begin = std::time::Instant::now();
    let outcome = load::run(&plan, &Control::new(), &mut Kept::default()).expect("load");
    end.join().expect("end");
    assert!(
        begin.elapsed() < Duration::from_secs(6),
        "{:?}",
        begin.elapsed()
    );
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(outcome.totals.sent < 1_500, "{outcome:?}");
}

/// Cuts all connections as soon as the start is announced, which is before it comes.
struct CutAtStart(Proxy);

impl Sink for CutAtStart {
    fn interval(&mut self, _: &Interval) {}

    fn event(&mut self, event: RunEvent) {
        if matches!(event, RunEvent::Started { .. }) {
            self.0.cut(Duration::ZERO);
        }
    }
}

#[test]
fn a_connection_lost_between_the_announcement_and_the_start_comes_back() {
    let broker = embedded("127.0.0.1:0".parse().expect("address"));
    for round in 0..5 {
        let proxy = Proxy::new(broker.local_addr()).expect("a proxy");
        let recovery = ReconnectPolicy {
            // Some are back before the start, some after it.
            min: Nanos::from_millis(round),
            max: Nanos::from_millis(2 * round),
        };
        let mut plan = plan(proxy.address(), Some(recovery));
        plan.phases.measure = Some(Nanos::from_millis(500));
        let sink = &mut CutAtStart(proxy);
        let outcome = load::run(&plan, &Control::new(), sink).expect("a load");
        assert!(outcome.error.is_none(), "round {round}: {outcome:?}");
        assert_eq!(outcome.totals.sent, 500, "round {round}: {outcome:?}");
        assert_eq!(outcome.totals.received, 500, "round {round}: {outcome:?}");
    }
}
