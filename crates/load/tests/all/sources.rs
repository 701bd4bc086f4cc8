//! Connections from several addresses of this machine.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use load::{Control, Destination, Endpoint, Group, Plan};

use crate::common::{self, Deaf};

fn plan(port: u16, sources: &[&str]) -> Plan {
    let endpoint = Endpoint::new("localhost", port);
    let mut group = Group::new(endpoint, vec![Destination::queue("sources")]);
    group.producers.per_destination = 3;
    group.consumers.per_destination = 3;
    group.source_addresses = sources.iter().map(|text: &&str| text.parse::<IpAddr>().expect("address")).collect();
    common::measured(group, 1_000)
}

/// Established connections from `source` (as the kernel writes it) to a port.
fn established(source: &str, port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("table");
    let remote = format!("0100007F:{port:04X}");
    let of_it = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, other, state) = (words.next(), words.next(), words.next());
        local.is_some_and(|local| local.starts_with(source)) && other == Some(remote.as_str()) && state == Some("01")
    };
    table.lines().filter(of_it).count()
}

#[test]
fn connections_come_from_the_addresses_in_turn() {
    let broker = common::embedded();
    let port = broker.local_addr().port();
    let plan = plan(port, &["127.0.0.2", "127.0.0.3"]);
    let load = thread::spawn(move || load::run(&plan, &Control::new(), &mut Deaf));
    thread::sleep(Duration::from_millis(600));
    let seen = (established("0200007F", port), established("0300007F", port));
    let outcome = load.join().expect("joined").expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    // Two of three consumers and one of three producers, and the other way round.
    assert_eq!(seen, (4, 2));
}

#[test]
fn an_address_of_another_machine_is_refused_with_the_remedy() {
    let broker = common::embedded();
    let plan = plan(broker.local_addr().port(), &["192.0.2.1"]);
    let error = load::run(&plan, &Control::new(), &mut Deaf).expect_err("refused");
    testkit::assert_has(error.to_string(), ["source address 192.0.2.1"]);
    assert!(error.problem().help.contains("--source-addresses"), "{}", error.problem().help);
}
