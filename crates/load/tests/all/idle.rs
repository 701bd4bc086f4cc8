//! Connections that churn keeps: idle for longer than a heartbeat, behind a line that is never
//! quiet, and with a login that is renewed.

use crate::common::{self, Deaf};

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{ArrivalSchedule, Endpoint, Error, Outcome, Token};
use measure::Rate;
use testkit::Random;

fn plan(broker: SocketAddr, kind: ChurnKind, rate: f64, measure_ms: u64) -> ChurnPlan {
    let schedule = Rate::per_second(rate).map(ArrivalSchedule::constant);
    ChurnPlan { schedule, ..common::churn(Endpoint::new("127.0.0.1", broker.port()), kind, measure_ms) }
}

fn churned(plan: &ChurnPlan) -> Result<(common::Tally, Outcome), Error> {
    common::churned(plan, &mut Deaf)
}

/// The broker gives up who is silent for two heartbeats, as RabbitMQ does.
#[test]
fn connections_that_stay_live_longer_than_their_heartbeat() {
    let runs = (1..=8_u64).map(|seed| {
        thread::spawn(move || {
            let mut random = Random::new(seed);
            let heartbeat_s = 1 + (seed % 3) as u16;
            // One proposes it, or both do.
            let broker = common::started(broker::Config {
                heartbeat_s: if random.one_in(2) { heartbeat_s } else { 60 },
                ..broker::Config::default()
            });
            let kind = random.of(&[ChurnKind::Channels, ChurnKind::Queues]);
            let rate = 1.0 + random.below(40) as f64 / 10.0;
            let lifetime_ms = u64::from(heartbeat_s) * 2_000 + 2_000;
            let mut plan = plan(broker.local_addr(), kind, rate, lifetime_ms);
            plan.most_open = 2 + random.below(9) as usize;
            plan.endpoint.connection.heartbeat_s = heartbeat_s;
            let what = format!("seed {seed}: {kind:?}, heartbeat {heartbeat_s} s, {rate}/s");
            let (tally, outcome) = churned(&plan).expect("it starts");
            assert_eq!(outcome.error, None, "{what}");
            assert!(tally.count("begun") > 0, "{what}: {tally:?}");
            assert_eq!(tally.count("begun"), tally.count("completed"), "{what}: {tally:?}");
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.join().expect("no connection is lost");
    }
}

/// Passes on what the client says, and never stops saying something itself: heartbeats, as fast as
/// the line takes them, from the login on.
fn never_quiet(broker: SocketAddr) -> SocketAddr {
    // The first connection only asks whether the broker is there.
    common::serve(move |number, client| {
        let server = TcpStream::connect(broker).expect("the broker");
        let (mut from, mut to) = (client.try_clone().expect("clone"), server);
        let mut back = to.try_clone().expect("clone");
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        thread::spawn(move || flood(&mut back, client, number > 0));
    })
}

/// Whole frames from the broker, and heartbeats in between.
fn flood(from: &mut TcpStream, mut to: TcpStream, floods: bool) {
    let beats = [8, 0, 0, 0, 0, 0, 0, 0xCE].repeat(8_192);
    let mut held = Vec::new();
    let mut is_open = false;
    let mut bytes = [0; 4_096];
    loop {
        match from.read(&mut bytes) {
            Ok(read @ 1..) => held.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => return,
        }
        while held.len() >= 7 {
            let size = u32::from_be_bytes([held[3], held[4], held[5], held[6]]) as usize;
            let Some(frame) = held.get(..size + 8) else { break };
            // Class 10, method 41: connection.open-ok.
            is_open |= frame[0] == 1 && frame[7..11] == [0, 10, 0, 41];
            if to.write_all(frame).is_err() {
                return;
            }
            held.drain(..size + 8);
        }
        if is_open && floods {
            from.set_nonblocking(true).expect("non-blocking");
            if to.write_all(&beats).is_err() {
                return;
            }
        }
    }
}

/// A loop that reads one connection for as long as it says something has no time for its clock.
#[test]
fn a_line_that_is_never_quiet_keeps_nobody_from_ending() {
    let broker = common::embedded();
    let address = never_quiet(broker.local_addr());
    let plan = plan(address, ChurnKind::Channels, 20.0, 1_000);
    let since = Instant::now();
    let (tally, outcome) = churned(&plan).expect("it starts");
    let took = since.elapsed();
    assert_eq!(outcome.error, None);
    assert!(took.as_millis() < 4_000, "{took:?}");
    assert_eq!(tally.count("begun") + tally.count("not_begun"), 20, "{tally:?}");
    assert!(tally.count("begun") > 0, "{tally:?}");
    assert_eq!(tally.count("begun"), tally.count("completed"), "{tally:?}");
}

/// The broker closes connections whose token it has not been told is renewed.
#[test]
fn connections_that_stay_tell_of_a_renewed_token() {
    let broker = common::embedded();
    let mut plan = plan(broker.local_addr(), ChurnKind::Channels, 20.0, 1_500);
    let token = Token::new("guest");
    plan.endpoint.token = Some(token.clone());
    // What the broker refuses shows that it was told.
    let renewal = common::after(700, move || token.renew("another"));
    let (_, outcome) = churned(&plan).expect("it starts");
    renewal.join().expect("renewed");
    let error = outcome.error.expect("the broker was told").to_string();
    assert!(error.contains("530") || error.contains("403"), "{error}");
}
