//! Reported waits of producers and event loops are their real waits.

use std::io::Read;
use std::net::SocketAddr;
use std::thread;

use broker::{Fault, FaultKind};
use load::{ArrivalProcess, Control, Destination, Group, Guarantee, Outcome, Plan, RunEvent, Sink, Sizes};
use measure::{Clock, Interval, Nanos, Phase, Waits};
use mio::{Events, Poll, Token};
use transport::{Timer, sleep_until};

use crate::common;

#[derive(Default)]
struct Sum {
    waits: Waits,
}

impl Sink for Sum {
    fn interval(&mut self, merged: &Interval) {
        if merged.phase == Phase::Measure {
            self.waits.add(&merged.waits);
        }
    }

    fn event(&mut self, _: RunEvent) {}
}

fn run(broker: SocketAddr, set: impl FnOnce(&mut Group)) -> (Outcome, Sum) {
    let mut group = common::group(broker, Destination::queue("waits"), (4, 0));
    group.producers.sizes = Sizes::Fixed(64);
    set(&mut group);
    let plan = Plan { groups: vec![group], phases: common::phases(200, 1_000, 200), ..Plan::default() };
    let mut sum = Sum::default();
    let outcome = load::run(&plan, &Control::new(), &mut sum).expect("load");
    (outcome, sum)
}

fn embedded(faults: Vec<Fault>) -> broker::Running {
    common::started(broker::Config { faults, ..broker::Config::default() })
}

/// All of four producers' time is accounted for, to a twentieth: their loop's, which may be late for a phase's end.
fn assert_whole(outcome: &Outcome, sum: &Sum) {
    let whole = sum.waits.producing().as_secs_f64();
    let time = outcome.threads[0].measured_time.as_secs_f64();
    assert!((whole / (time * 4.0) - 1.0).abs() < 0.05, "{:?} of {time} s", sum.waits);
}

#[test]
fn one_in_flight_waits_for_answers() {
    let broker = embedded(Vec::new());
    let (outcome, sum) = run(broker.local_addr(), |group| group.producers.max_pending = 1);
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_whole(&outcome, &sum);
    let share = sum.waits.budget.as_secs_f64() / sum.waits.producing().as_secs_f64();
    assert!(share > 0.8, "{:?}", sum.waits);
    let [thread] = outcome.threads[..] else { panic!("{outcome:?}") };
    let measured = thread.measured_time.as_secs_f64();
    assert!((0.9..1.3).contains(&measured), "{thread:?}");
    assert!(thread.measured_idle <= thread.measured_time, "{thread:?}");
}

/// The verdict gave these producers the broker's part of their time, and its reasons said that nothing was due.
#[test]
fn with_a_think_time_the_answer_is_waited_for_and_the_rest_is_the_schedule() {
    let broker = embedded(vec![Fault::new(FaultKind::SlowAck(Nanos::from_millis(60)))]);
    let (outcome, sum) = run(broker.local_addr(), |group| {
        group.producers.max_pending = 1;
        group.producers.arrivals = ArrivalProcess::ThinkTime(Nanos::from_millis(20));
    });
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_whole(&outcome, &sum);
    // 60 ms of 80.
    let share = sum.waits.budget.as_secs_f64() / sum.waits.producing().as_secs_f64();
    assert!((0.6..0.9).contains(&share), "{:?}", sum.waits);
    assert!(sum.waits.schedule > Nanos::ZERO, "{:?}", sum.waits);
}

#[test]
fn a_slow_schedule_leaves_the_loop_idle() {
    let broker = embedded(Vec::new());
    let (outcome, sum) = run(broker.local_addr(), |group| {
        group.producers.arrivals = common::rate(100.0);
        group.producers.max_pending = 1_000;
    });
    assert_whole(&outcome, &sum);
    let share = sum.waits.schedule.as_secs_f64() / sum.waits.producing().as_secs_f64();
    // Where others have the cores, what is due waits for the loop.
    let waited = outcome.threads[0].measured_run_queue_wait;
    let waited = waited.map_or(0.0, Nanos::as_secs_f64);
    assert!(share > 0.8 - waited, "{:?}, {waited} s", sum.waits);
    let idle = sum.waits.loop_idle.as_secs_f64() / sum.waits.loop_time.as_secs_f64();
    assert!(idle > 0.7, "{:?}", sum.waits);
    assert!(outcome.threads[0].measured_idle > Nanos::from_millis(700), "{outcome:?}");
}

#[test]
fn a_broker_that_does_not_read_fills_the_sockets() {
    let broker = embedded(Vec::new());
    let address = stalling_proxy(broker.local_addr());
    let (outcome, sum) = run(address, |group| {
        group.producers.guarantee = Guarantee::Unconfirmed;
        group.producers.sizes = Sizes::Fixed(16_384);
    });
    assert_whole(&outcome, &sum);
    let share = sum.waits.socket.as_secs_f64() / sum.waits.producing().as_secs_f64();
    assert!(share > 0.8, "{:?}", sum.waits);
}

/// Lets the log-in pass, and 64 KiB more of each connection; then it reads no further.
fn stalling_proxy(upstream: SocketAddr) -> SocketAddr {
    let (listener, address) = common::listener();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let broker = std::net::TcpStream::connect(upstream).expect("broker");
            let (mut from, mut to) = (client.try_clone().expect("clone"), broker.try_clone().expect("clone"));
            thread::spawn(move || std::io::copy(&mut (&mut from).take(65_536), &mut to));
            let (mut from, mut to) = (broker, client);
            thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    address
}

#[test]
fn a_timer_wakes_its_poll_at_its_time_and_not_before() {
    let mut poll = Poll::new().expect("a poll");
    let mut timer = Timer::register(poll.registry(), Token(7)).expect("a timer");
    let at = Clock.now() + Nanos::from_millis(3);
    timer.arm(at).expect("a time");
    let mut events = Events::with_capacity(1);
    poll.poll(&mut events, None).expect("an event");
    assert!(Clock.now() >= at);
    assert!(events.iter().all(|event| event.token() == Token(7)));
    let at = Clock.now() + Nanos::from_millis(2);
    sleep_until(at);
    assert!(Clock.now() >= at);
}
