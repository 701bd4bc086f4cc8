//! Loads over TLS, and what people are told when it does not come about.

mod common;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;

use common::{Authority, embedded, in_front_of};
use load::{
    Ack, Control, Destination, Endpoint, Error, Event, Group, Identity, Outcome, Phases, Plan,
    Sink, Tls,
};
use measure::{Interval, Nanos, Phase};

#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn interval(&mut self, merged: &Interval) {
        if merged.phase == Phase::Measure {
            self.0 += merged.counters.received;
        }
    }

    fn event(&mut self, _: Event) {}
}

fn endpoint(address: SocketAddr, tls: Tls) -> Endpoint {
    let mut endpoint = Endpoint::new("127.0.0.1", address.port());
    endpoint.tls = Some(tls);
    endpoint
}

fn plan(endpoint: Endpoint, message_size: usize) -> Plan {
    let mut group = Group::new(endpoint, vec![Destination::queue("secured")]);
    group.producers.per_destination = 2;
    group.producers.max_pending = 100;
    group.producers.sizes = message_size.into();
    group.consumers.per_destination = 2;
    group.consumers.ack = Ack::Every(10);
    Plan {
        groups: vec![group],
        phases: Phases {
            measure: Some(Nanos::from_millis(700)),
            ..Phases::default()
        },
        patience: Nanos::from_millis(2_000),
        ..Plan::default()
    }
}

fn run(endpoint: Endpoint, message_size: usize) -> Result<(Outcome, u64), Error> {
    let mut count = Count::default();
    load::run(&plan(endpoint, message_size), &Control::new(), &mut count)
        .map(|outcome| (outcome, count.0))
}

fn trusting(file: PathBuf) -> Tls {
    Tls {
        ca: Some(file),
        ..Tls::default()
    }
}

#[test]
fn nothing_is_lost_over_tls_whatever_the_size() {
    let folder = tempfile::tempdir().expect("folder");
    let authority = Authority::new(folder.path(), "ca");
    let broker = embedded();
    let front = in_front_of(broker.local_addr(), authority.server(&["127.0.0.1"], false));
    // Many messages to a record; many records to a message, which is two frames as well.
    let (o, _) = run(
        Endpoint::new("127.0.0.1", broker.local_addr().port()),
        200_000,
    )
    .unwrap();
    eprintln!("{:?}", o.ledger);
    for (size, at_least) in [(32, 1_000), (200_000, 20)] {
        let tls = trusting(authority.file("ca"));
        let (outcome, received) = run(endpoint(front, tls), size).expect("the load starts");
        assert!(outcome.error.is_none(), "{outcome:?}");
        assert!(received > at_least, "{size} bytes: only {received}");
        let ledger = outcome.ledger.expect("ledger");
        assert_eq!(
            ledger.lost + ledger.corrupt + ledger.duplicated,
            0,
            "{ledger:?}"
        );
        assert_eq!(outcome.unconfirmed, 0);
        assert_eq!(outcome.totals.received, outcome.totals.sent);
    }
}

fn refused(endpoint: Endpoint) -> Error {
    run(endpoint, 32).expect_err("it must not start")
}

fn assert_says(error: &Error, parts: &[&str], help: &str) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert!(
        error.help().contains(help),
        "{help:?} is not in {:?}",
        error.help()
    );
    assert!(!text.contains(char::is_control), "{text:?}");
}

#[test]
fn a_certificate_is_verified_by_default() {
    let folder = tempfile::tempdir().expect("folder");
    let authority = Authority::new(folder.path(), "ca");
    let other = Authority::new(folder.path(), "other");
    let broker = embedded();
    let config = authority.server(&["broker.example"], false);
    let front = in_front_of(broker.local_addr(), config);

    let error = refused(endpoint(front, trusting(other.file("other"))));
    assert_says(
        &error,
        &["cannot secure", "issued by nobody who is trusted"],
        "--ca",
    );

    let error = refused(endpoint(front, trusting(authority.file("ca"))));
    assert_says(
        &error,
        &["not for \"127.0.0.1\" but for", "broker.example"],
        "--sni",
    );

    let named = Tls {
        server_name: Some("broker.example".into()),
        ..trusting(authority.file("ca"))
    };
    let insecure = Tls {
        insecure: true,
        ..Tls::default()
    };
    for tls in [named, insecure] {
        let (outcome, received) = run(endpoint(front, tls), 32).expect("the load starts");
        assert!(outcome.error.is_none() && received > 0, "{outcome:?}");
    }
}

#[test]
fn a_client_shows_its_certificate_where_the_broker_wants_one() {
    let folder = tempfile::tempdir().expect("folder");
    let authority = Authority::new(folder.path(), "ca");
    let broker = embedded();
    let front = in_front_of(broker.local_addr(), authority.server(&["127.0.0.1"], true));

    let error = refused(endpoint(front, trusting(authority.file("ca"))));
    assert_says(&error, &["CertificateRequired"], "--cert");

    let (certificate, key) = authority.issue(&["guest"]);
    let tls = Tls {
        identity: Some(Identity {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        ..trusting(authority.file("ca"))
    };
    let (outcome, received) = run(endpoint(front, tls), 32).expect("the load starts");
    assert!(outcome.error.is_none() && received > 0, "{outcome:?}");

    let swapped = Tls {
        identity: Some(Identity {
            certificate: key,
            key: certificate,
        }),
        ..trusting(authority.file("ca"))
    };
    let error = refused(endpoint(front, swapped));
    assert_says(
        &error,
        &["guest-key.pem", "no certificate"],
        "BEGIN CERTIFICATE",
    );
    assert!(error.is_usage());
}

#[test]
fn the_wrong_port_is_recognised_in_both_directions() {
    let folder = tempfile::tempdir().expect("folder");
    let authority = Authority::new(folder.path(), "ca");
    let broker = embedded();
    let front = in_front_of(broker.local_addr(), authority.server(&["127.0.0.1"], false));

    let error = refused(endpoint(
        broker.local_addr(),
        trusting(authority.file("ca")),
    ));
    assert_says(&error, &["AMQP without TLS"], "5671");

    let error = refused(Endpoint::new("127.0.0.1", front.port()));
    assert_says(&error, &["it speaks TLS"], "amqps");
}

#[test]
fn a_port_that_says_nothing_is_not_waited_for_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let silent = thread::spawn(move || listener.accept().map(|(stream, _)| stream));
    let insecure = Tls {
        insecure: true,
        ..Tls::default()
    };
    let error = refused(endpoint(address, insecure));
    assert_says(&error, &["TLS was not agreed on"], "5671");
    drop(silent);
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "nothing of the kind").expect("write");
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let error = refused(endpoint(address, trusting(file)));
    assert_says(
        &error,
        &["notes.txt holds no certificate"],
        "BEGIN CERTIFICATE",
    );
    let error = refused(endpoint(
        address,
        trusting(folder.path().join("missing.pem")),
    ));
    assert_says(&error, &["missing.pem", "No such file"], "PEM");
}
