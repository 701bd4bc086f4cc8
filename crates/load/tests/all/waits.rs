//! Reported waits of producers and event loops are their real waits.

use std::io::Read;
use std::net::SocketAddr;
use std::thread;

use broker::{Fault, FaultKind};
use load::{ArrivalProcess, Control, Destination, Group, Guarantee, Outcome, Plan, Sizes};
use measure::{Clock, Nanos, Waits};
use mio::{Events, Poll, Token};
use transport::{Timer, sleep_until};

use crate::common::{self, Kept};

fn run(broker: SocketAddr, set: impl FnOnce(&mut Group)) -> (Outcome, Waits) {
    let mut group = common::group(broker, Destination::queue("waits"), (4, 0));
    group.producers.sizes = Sizes::Fixed(64);
    set(&mut group);
    let plan = Plan { groups: vec![group], phases: common::phases(200, 1_000, 200), ..Plan::default() };
    let mut kept = Kept::default();
    let outcome = load::run(&plan, &Control::new(), &mut kept).expect("load");
    assert_whole(&outcome, &kept.measured.waits);
    (outcome, kept.measured.waits)
}

/// All of four producers' time is accounted for, to a twentieth: their loop's, which may be late for a phase's end.
fn assert_whole(outcome: &Outcome, waits: &Waits) {
    let time = outcome.threads[0].measured_time.as_secs_f64();
    assert!((waits.producing().as_secs_f64() / (time * 4.0) - 1.0).abs() < 0.05, "{waits:?} of {time} s");
}

fn share(part: Nanos, waits: &Waits) -> f64 {
    part.as_secs_f64() / waits.producing().as_secs_f64()
}

#[test]
fn one_in_flight_waits_for_answers() {
    let broker = common::embedded();
    let (outcome, waits) = run(broker.local_addr(), |group| group.producers.max_pending = 1);
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(share(waits.budget, &waits) > 0.8, "{waits:?}");
    let [thread] = outcome.threads[..] else { panic!("{outcome:?}") };
    let measured = thread.measured_time.as_secs_f64();
    assert!((0.9..1.3).contains(&measured), "{thread:?}");
    assert!(thread.measured_idle <= thread.measured_time, "{thread:?}");
}

/// The verdict gave these producers the broker's part of their time, and its reasons said that nothing was due.
#[test]
fn with_a_think_time_the_answer_is_waited_for_and_the_rest_is_the_schedule() {
    let faults = vec![Fault::new(FaultKind::SlowAck(Nanos::from_millis(60)))];
    let broker = common::started(broker::Config { faults, ..broker::Config::default() });
    let (outcome, waits) = run(broker.local_addr(), |group| {
        group.producers.max_pending = 1;
        group.producers.arrivals = ArrivalProcess::ThinkTime(Nanos::from_millis(20));
    });
    assert!(outcome.error.is_none(), "{outcome:?}");
    // 60 ms of 80.
    assert!((0.6..0.9).contains(&share(waits.budget, &waits)), "{waits:?}");
    assert!(waits.schedule > Nanos::ZERO, "{waits:?}");
}

#[test]
fn a_slow_schedule_leaves_the_loop_idle() {
    let broker = common::embedded();
    let (outcome, waits) = run(broker.local_addr(), |group| {
        group.producers.arrivals = common::rate(100.0);
        group.producers.max_pending = 1_000;
    });
    // Where others have the cores, what is due waits for the loop.
    let waited = outcome.threads[0].measured_run_queue_wait.map_or(0.0, Nanos::as_secs_f64);
    assert!(share(waits.schedule, &waits) > 0.8 - waited, "{waits:?}, {waited} s");
    let idle = waits.loop_idle.as_secs_f64() / waits.loop_time.as_secs_f64();
    assert!(idle > 0.7, "{waits:?}");
    assert!(outcome.threads[0].measured_idle > Nanos::from_millis(700), "{outcome:?}");
}

#[test]
fn a_broker_that_does_not_read_fills_the_sockets() {
    let broker = common::embedded();
    let address = stalling_proxy(broker.local_addr());
    let (_, waits) = run(address, |group| {
        group.producers.guarantee = Guarantee::Unconfirmed;
        group.producers.sizes = Sizes::Fixed(16_384);
    });
    assert!(share(waits.socket, &waits) > 0.8, "{waits:?}");
}

/// Lets the log-in pass, and 64 KiB more of each connection; then it reads no further.
fn stalling_proxy(upstream: SocketAddr) -> SocketAddr {
    common::serve(move |_, client| {
        let broker = std::net::TcpStream::connect(upstream).expect("broker");
        let (mut from, mut to) = (client.try_clone().expect("clone"), broker.try_clone().expect("clone"));
        thread::spawn(move || std::io::copy(&mut (&mut from).take(65_536), &mut to));
        let (mut from, mut to) = (broker, client);
        thread::spawn(move || std::io::copy(&mut from, &mut to));
    })
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
