//! Scenarios beside each other: what one of them lacks or loses ends the others, too.

use crate::common::{self, Deaf};

use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::scenario::{Operations, Scenario, run};
use load::{
    ArrivalSchedule, Control, Destination, Endpoint, Error, Outcome, Phases, Plan, Requested, SliceSink, StartBarrier,
};
use measure::{Metric, Nanos, Problem, Rate};

/// Needs connections, and cannot start once it has heard of a reason.
#[derive(Debug)]
struct Toy {
    name: &'static str,
    metrics: Vec<Metric>,
    connections: u64,
    reason: Mutex<Receiver<()>>,
}

impl Toy {
    fn new(connections: u64) -> Self {
        Self { name: "toy", metrics: Vec::new(), connections, reason: Mutex::new(channel().1) }
    }
}

impl Scenario for Toy {
    fn name(&self) -> &'static str {
        self.name
    }
    fn subject(&self) -> &str {
        "toys"
    }
    fn metrics(&self) -> Vec<Metric> {
        self.metrics.clone()
    }
    fn operations(&self) -> Option<Operations> {
        None
    }
    fn requested(&self) -> Result<Option<Requested>, Error> {
        Ok(None)
    }
    fn in_flight_limit(&self) -> Option<u64> {
        None
    }
    fn connections(&self) -> u64 {
        self.connections
    }
    fn phases(&self) -> Phases {
        Phases::default()
    }
    fn run(&self, _: &StartBarrier, _: &Control, _: &mut dyn SliceSink) -> Result<Outcome, Error> {
        let _ = self.reason.lock().expect("one thread").recv_timeout(Duration::from_secs(20));
        Err(Error::Invalid(Problem::new("a toy cannot start", "it is broken", "repair it")))
    }
}

fn messages(broker: SocketAddr) -> Plan {
    let mut group = common::group(broker, Destination::queue("beside"), (1, 1));
    group.producers.arrivals = common::rate(200.0);
    group.producers.sizes = 40.into();
    Plan { groups: vec![group], run_id: 9, phases: common::phases(0, 20_000, 1_000), ..Plan::default() }
}

fn churn(broker: SocketAddr) -> ChurnPlan {
    let endpoint = Endpoint::new("127.0.0.1", broker.port());
    ChurnPlan {
        schedule: Rate::per_second(50.0).map(ArrivalSchedule::constant),
        messages: 0,
        most_open: 10,
        ..common::churn(endpoint, ChurnKind::Connections, 20_000)
    }
}

/// Passes the first connection on, and tells of the others, which hear nothing.
fn serves_the_first(broker: SocketAddr) -> (SocketAddr, Receiver<()>) {
    let (tell, told) = channel();
    let mut silent = Vec::new();
    let address = common::serve(move |number, near| {
        if number > 0 {
            silent.push(near);
            let _ = tell.send(());
        } else {
            common::pass_on(near, TcpStream::connect(broker).expect("the broker"));
        }
    });
    (address, told)
}

#[test]
fn one_that_cannot_start_ends_the_others_while_they_connect() {
    let broker = common::embedded();
    let (address, reason) = serves_the_first(broker.local_addr());
    let toy = Toy { reason: Mutex::new(reason), ..Toy::new(0) };
    let scenarios: [Box<dyn Scenario>; 2] = [Box::new(messages(address)), Box::new(toy)];
    let since = Instant::now();
    let error = run(&scenarios, &Control::new(), &mut Deaf).expect_err("it cannot start");
    assert!(error.to_string().contains("a toy cannot start"), "{error}");
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn open_files_are_needed_for_all_scenarios() {
    let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum else {
        testkit::skip!("open files are not limited here");
    };
    let half = most / 2 + 1;
    let other = Toy { name: "other", ..Toy::new(half) };
    let scenarios: [Box<dyn Scenario>; 2] = [Box::new(Toy::new(half)), Box::new(other)];
    let error = run(&scenarios, &Control::new(), &mut Deaf).expect_err("too many");
    assert!(matches!(error, Error::Limit(_)), "{error}");
    let all = measure::counted(2 * half, "connection");
    assert!(error.to_string().contains(&all), "{error}");
}

/// Without `recover` a connection that is lost ends the messages, and so the churn beside them.
#[test]
fn a_broker_that_goes_away_ends_all_scenarios_and_what_was_counted_stays() {
    let broker = common::embedded();
    let address = broker.local_addr();
    let killer = common::after(1_500, move || drop(broker));
    let scenarios: [Box<dyn Scenario>; 2] = [Box::new(messages(address)), Box::new(churn(address))];
    let since = Instant::now();
    let outcome = run(&scenarios, &Control::new(), &mut Deaf).expect("both start");
    killer.join().expect("killer");
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    assert!(outcome.error.is_some(), "{outcome:?}");
    assert!(outcome.totals.sent > 100, "{outcome:?}");
    let begun = outcome.tallies["churn"].counts.get(common::metric("begun"));
    assert!(begun > 25, "{begun}: {outcome:?}");
}

#[test]
fn what_a_scenario_counts_is_its_own() {
    let refused = |scenarios: [Box<dyn Scenario>; 2], part: &str| {
        testkit::assert_has(run(&scenarios, &Control::new(), &mut Deaf).expect_err("refused").to_string(), [part]);
    };
    let toy = || Box::new(Toy::new(0));
    refused([toy(), toy()], "two scenarios called toy");
    let borrows = Toy { name: "other", metrics: vec![Metric::END_TO_END], ..Toy::new(0) };
    refused([toy(), Box::new(borrows)], "metrics of scenario messages");
}

#[test]
fn churn_without_a_length_ends_with_the_message_count_beside_it() {
    let broker = common::embedded();
    let address = broker.local_addr();
    let mut counted = messages(address);
    counted.phases.measure = None;
    counted.groups[0].producers.message_count = Some(200);
    let churn = ChurnPlan { measure: Nanos::ZERO, ..churn(address) };
    let alone: [Box<dyn Scenario>; 1] = [Box::new(churn.clone())];
    let error = run(&alone, &Control::new(), &mut Deaf).expect_err("it has no end");
    assert!(error.to_string().contains("would not end"), "{error}");
    let scenarios: [Box<dyn Scenario>; 2] = [Box::new(counted), Box::new(churn)];
    let outcome = run(&scenarios, &Control::new(), &mut Deaf).expect("both start");
    assert_eq!((outcome.error, outcome.totals.sent), (None, 200));
    // A second at 50 a second, whatever the machine is busy with.
    let counts = &outcome.tallies["churn"].counts;
    let of = |key| counts.get(common::metric(key));
    let due = of("begun") + of("not_begun");
    assert!((40..100).contains(&due), "{due}");
}
