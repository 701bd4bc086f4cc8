//! A broker's name: the addresses that it has, and those that it has later.

use crate::common::{self, Deaf};

use std::io::{Error as IoError, Result as IoResult};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use broker::{Fault, FaultKind};
use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{Control, Destination, Endpoint, Group, Outcome, Plan, ReconnectPolicy, Resolver};
use measure::Nanos;

/// A name that these addresses stand for.
fn name(look_up: impl Fn() -> IoResult<Vec<SocketAddr>> + Send + Sync + 'static) -> Endpoint {
    let mut endpoint = Endpoint::new("broker.test", 5_672);
    endpoint.resolver = Resolver::new(move |host, port| {
        assert_eq!((host, port), ("broker.test", 5_672));
        look_up()
    });
    endpoint
}

fn plan(endpoint: Endpoint, ms: u64) -> Plan {
    let mut group = Group::new(endpoint, vec![Destination::queue("names")]);
    (group.producers.per_destination, group.consumers.per_destination) = (4, 4);
    group.producers.arrivals = common::rate(500.0);
    group.producers.max_pending = 100;
    group.reconnect = Some(ReconnectPolicy { min: Nanos::from_millis(20), max: Nanos::from_millis(60) });
    Plan { timeout: Nanos::from_millis(4_000), ..common::measured(group, ms) }
}

fn churned(endpoint: Endpoint, kind: ChurnKind) -> (common::Tally, Outcome) {
    let plan = ChurnPlan { message_size: 32, ..common::churn(endpoint, kind, 500) };
    common::churned(&plan, &mut Deaf).expect("it starts")
}

fn loaded(plan: &Plan) -> (Outcome, u64) {
    let outcome = load::run(plan, &Control::new(), &mut Deaf).expect("it starts");
    let received = outcome.totals.received;
    (outcome, received)
}

fn front(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let address = common::serve(move |_, client| {
        counted.fetch_add(1, Ordering::Relaxed);
        common::pass_on(client, TcpStream::connect(to).expect("the broker"));
    });
    (address, count)
}

fn refuses() -> SocketAddr {
    common::listener().1
}

/// An address that never answers, as long as what comes with it lives: its queue is full.
fn silent() -> (SocketAddr, impl Sized) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("socket");
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("bind");
    listen(&listener, 0).expect("listen");
    let address: SocketAddr = getsockname(&listener).expect("name").try_into().expect("an internet address");
    let mut held = Vec::new();
    let short = Duration::from_millis(100);
    while let Ok(stream) = TcpStream::connect_timeout(&address, short) {
        held.push(stream);
        assert!(held.len() < 20, "its queue fills up");
    }
    (address, (listener, held))
}

#[test]
fn a_reconnect_follows_the_name_to_another_machine() {
    let (before, after) = (common::embedded(), common::embedded());
    let now_at = Arc::new(Mutex::new(before.local_addr()));
    let asked_by = Arc::new(Mutex::new(Vec::new()));
    let (moved, asked) = (Arc::clone(&now_at), Arc::clone(&asked_by));
    let endpoint = name(move || {
        let thread = thread::current().name().map(str::to_owned);
        asked.lock().expect("lock").push(thread.unwrap_or_default());
        Ok(vec![*moved.lock().expect("lock")])
    });
    let (there, calls) = front(after.local_addr());
    // The new machine has what the old one had.
    let mut prepared = plan(Endpoint::new("127.0.0.1", after.local_addr().port()), 50);
    prepared.groups[0].queues.delete = false;
    loaded(&prepared);
    let outage = common::after(800, move || {
        *now_at.lock().expect("lock") = there;
        drop(before);
    });
    let (outcome, received) = loaded(&plan(endpoint, 3_000));
    outage.join().expect("outage");
    assert_eq!(outcome.error, None, "{outcome:?}");
    assert!(received > 700, "{received} of 1500");
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls >= 8, "{calls} connections of 8 have moved");
    let asked_by = asked_by.lock().expect("lock");
    assert!(asked_by.len() >= 2, "{asked_by:?}");
    assert!(asked_by.iter().all(|by| by == "resolve"), "{asked_by:?}");
}

#[test]
fn connections_spread_over_the_addresses_of_a_name() {
    let broker = common::embedded();
    let fronts: Vec<_> = (0..3).map(|_| front(broker.local_addr())).collect();
    let addresses: Vec<_> = fronts.iter().map(|(address, _)| *address).collect();
    let endpoint = name(move || Ok(addresses.clone()));
    let counts = || -> Vec<_> { fronts.iter().map(|(_, count)| count.swap(0, Ordering::Relaxed)).collect() };
    let (outcome, _) = loaded(&plan(endpoint.clone(), 300));
    assert_eq!(outcome.error, None);
    let spread = counts();
    assert!(spread.iter().all(|count| *count >= 2), "{spread:?}");
    for kind in [ChurnKind::Connections, ChurnKind::Channels] {
        let (_, outcome) = churned(endpoint.clone(), kind);
        assert_eq!(outcome.error, None);
        let spread = counts();
        let (least, most) = (spread.iter().min(), spread.iter().max());
        let (least, most) = (*least.expect("three"), *most.expect("three"));
        assert!(least >= 1 && most <= least + 2, "{kind:?}: {spread:?}");
    }
}

#[test]
fn an_address_that_refuses_or_is_silent_is_passed_over() {
    let broker = common::embedded();
    let good = broker.local_addr();
    let (silent, _full) = silent();
    let ipv6 = SocketAddr::from((Ipv6Addr::LOCALHOST, refuses().port()));
    for bad in [refuses(), ipv6, silent] {
        for addresses in [vec![bad, good], vec![good, bad]] {
            let what = format!("{addresses:?}");
            let endpoint = name(move || Ok(addresses.clone()));
            let mut plan = plan(endpoint.clone(), 300);
            plan.timeout = Nanos::from_millis(2_000);
            let (outcome, received) = loaded(&plan);
            assert_eq!(outcome.error, None, "{what}");
            assert!(received > 50, "{what}: {received}");
            let (tally, outcome) = churned(endpoint, ChurnKind::Channels);
            assert_eq!(outcome.error, None, "{what}");
            assert!(tally.count("completed") > 0, "{what}: {tally:?}");
        }
    }
    let nowhere = name(|| Ok(vec![refuses(), refuses()]));
    let error = load::run(&plan(nowhere, 300), &Control::new(), &mut Deaf).expect_err("nobody is there").to_string();
    assert!(error.contains("refused"), "{error}");
}

/// The addresses known before have to do, and nobody stands still for the answer.
#[test]
fn a_name_server_that_fails_or_hangs_costs_no_connection() {
    for hangs in [false, true] {
        let broker = common::started(broker::Config {
            faults: vec![Fault { at: Some(Nanos::from_millis(700)), ..Fault::new(FaultKind::Reset) }],
            ..broker::Config::default()
        });
        let address = broker.local_addr();
        let asked = AtomicUsize::new(0);
        let endpoint = name(move || {
            if asked.fetch_add(1, Ordering::Relaxed) == 0 {
                return Ok(vec![address]);
            }
            if hangs {
                thread::sleep(Duration::from_secs(20));
            }
            Err(IoError::other("the name server is away"))
        });
        let since = Instant::now();
        let mut plan = plan(endpoint, 3_000);
        plan.groups[0].queues.delete = false;
        let (outcome, received) = loaded(&plan);
        assert_eq!(outcome.error, None, "hangs: {hangs}");
        let lost = common::lost_connections(&outcome);
        assert!(lost > 0, "hangs: {hangs}");
        assert!(received > 1_000, "hangs: {hangs}: {received} of 1500");
        assert!(since.elapsed() < Duration::from_secs(15), "hangs: {hangs}");
    }
}
