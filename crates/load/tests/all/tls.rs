//! Loads over TLS, and what people are told when it does not come about.

use crate::common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use broker::{Fault, FaultKind};
use common::{Authority, Deaf, secured, started};
use load::{Ack, Auth, ClientTls, Control, Destination, Endpoint, Error, Group, Outcome, Plan};
use measure::Nanos;

fn endpoint(address: SocketAddr, tls: ClientTls) -> Endpoint {
    let mut endpoint = Endpoint::new("127.0.0.1", address.port());
    endpoint.tls = Some(tls);
    endpoint
}

fn plan(endpoint: Endpoint, message_size: usize) -> Plan {
    let mut group = Group::new(endpoint, vec![Destination::queue("secured")]);
    (group.producers.per_destination, group.consumers.per_destination) = (2, 2);
    group.producers.max_pending = 100;
    group.producers.sizes = message_size.into();
    group.consumers.ack = Ack::Every(10);
    Plan { timeout: Nanos::from_millis(2_000), ..common::measured(group, 700) }
}

fn run(endpoint: Endpoint, message_size: usize) -> Result<Outcome, Error> {
    load::run(&plan(endpoint, message_size), &Control::new(), &mut Deaf)
}

#[track_caller]
fn assert_runs(endpoint: Endpoint) {
    let outcome = run(endpoint, 32).expect("the load starts");
    assert!(outcome.error.is_none() && outcome.measured.received > 0, "{outcome:?}");
}

fn trusting(file: PathBuf) -> ClientTls {
    ClientTls { ca: Some(file), ..ClientTls::default() }
}

#[test]
fn nothing_is_lost_over_tls_whatever_the_size() {
    let authority = Authority::new("ca");
    let (_broker, front) = secured(authority.listener(&["127.0.0.1"], None));
    // Many messages to a record; many records to a message, which is two frames as well.
    for (size, at_least) in [(32, 1_000), (200_000, 20)] {
        let outcome = run(endpoint(front, authority.trusted()), size).expect("the load starts");
        assert!(outcome.error.is_none(), "{outcome:?}");
        let received = outcome.measured.received;
        assert!(received > at_least, "{size} bytes: only {received}");
        let ledger = outcome.ledger.expect("ledger");
        assert_eq!(ledger.lost + ledger.corrupt + ledger.duplicated, 0, "{ledger:?}");
        assert_eq!(outcome.unconfirmed, 0);
        assert_eq!(outcome.totals.received, outcome.totals.sent);
    }
}

#[track_caller]
fn assert_refused(endpoint: Endpoint, parts: &[&str], help: &str) -> Error {
    let error = run(endpoint, 32).expect_err("it must not start");
    let text = error.to_string();
    parts.iter().for_each(|part| testkit::assert_has(&text, [*part]));
    assert!(error.problem().help.contains(help), "{help:?} is not in {:?}", error.problem().help);
    assert!(!text.contains(char::is_control), "{text:?}");
    error
}

#[test]
fn a_certificate_is_verified_by_default() {
    let authority = Authority::new("ca");
    let other = Authority::new("other");
    let (_broker, front) = secured(authority.listener(&["broker.example"], None));

    let untrusted = endpoint(front, trusting(other.file("other")));
    assert_refused(untrusted, &["cannot secure", "issued by nobody who is trusted"], "--ca");
    let misnamed = endpoint(front, authority.trusted());
    assert_refused(misnamed, &["not for \"127.0.0.1\" but for", "broker.example"], "--sni");

    let named = ClientTls { server_name: Some("broker.example".into()), ..authority.trusted() };
    let insecure = ClientTls { insecure: true, ..ClientTls::default() };
    for tls in [named, insecure] {
        assert_runs(endpoint(front, tls));
    }
}

#[test]
fn a_client_shows_its_certificate_where_the_broker_wants_one() {
    let authority = Authority::new("ca");
    let clients = Some(authority.clients(true));
    let (_broker, front) = secured(authority.listener(&["127.0.0.1"], clients));

    assert_refused(endpoint(front, authority.trusted()), &["CertificateRequired"], "--cert");

    let other = Authority::new("stranger");
    let stranger = authority.identified(other.issue(&["stranger"]));
    assert_refused(endpoint(front, stranger), &["the broker refused with the TLS alert"], "--cert");

    let (certificate, key) = authority.issue(&["guest"]);
    assert_runs(endpoint(front, authority.identified((certificate.clone(), key.clone()))));

    let swapped = authority.identified((key, certificate));
    let error = assert_refused(endpoint(front, swapped), &["-key.pem", "no certificate"], "BEGIN CERTIFICATE");
    assert!(error.is_usage());
}

#[test]
fn a_certificate_is_a_login() {
    let authority = Authority::new("ca");
    let clients = Some(authority.clients(false));
    let (_broker, front) = secured(authority.listener(&["127.0.0.1"], clients));
    let by = |name: &str, auth: Auth| {
        let mut endpoint = endpoint(front, authority.identified(authority.issue(&[name])));
        endpoint.user = "nobody".into();
        endpoint.auth = auth;
        endpoint
    };
    assert_runs(by("guest", Auth::External));
    assert_refused(by("somebody", Auth::External), &["403", "EXTERNAL"], "");
    assert_refused(by("guest", Auth::Plain), &["403", "PLAIN"], "");
    // Without a certificate there is a password.
    assert_runs(endpoint(front, authority.trusted()));
}

#[test]
fn a_stream_cut_at_any_byte_is_a_lost_connection() {
    let authority = Authority::new("ca");
    let tls = authority.listener(&["127.0.0.1"], None);
    for after in [1, 7, 8, 50, 1_000, 16_384, 70_001] {
        let broker = started(broker::Config {
            tls: Some(tls.clone()),
            faults: vec![Fault {
                // While it measures, also where a handshake waits for a core.
                at: Some(Nanos::from_millis(500)),
                ..Fault::new(FaultKind::Cut { after: Some(after) })
            }],
            ..broker::Config::default()
        });
        let front = broker.tls_addr().expect("TLS");
        let outcome = run(endpoint(front, authority.trusted()), 32).expect("it starts");
        testkit::assert_has(outcome.error.expect("it breaks off").to_string(), ["lost the connection"]);
        let done = broker.fault_log().injections().faults[0].count;
        assert!((1..=4).contains(&done), "{after}: {done}");
    }
}

#[test]
fn openssl_can_talk_to_the_broker() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: openssl is not installed: apt-get install openssl");
        return;
    }
    let authority = Authority::new("ca");
    let clients = Some(authority.clients(true));
    let (_broker, front) = secured(authority.listener(&["127.0.0.1"], clients));
    let mut stranger = TcpStream::connect(front).expect("connect");
    stranger.write_all(b"AMQP\0\0\x09\x01").expect("write");
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).expect("an orderly end");
    assert_eq!(answer.first(), Some(&21), "an alert: {answer:?}");

    let (certificate, key) = authority.issue(&["guest"]);
    for version in ["-tls1_2", "-tls1_3"] {
        let line = format!("s_client -quiet -verify_return_error {version} -verify_ip 127.0.0.1 -connect {front}");
        let mut client = Command::new("openssl");
        client.args(line.split(' ')).arg("-CAfile").arg(authority.file("ca"));
        client.arg("-cert").arg(&certificate).arg("-key").arg(&key);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn().expect("openssl");
        let mut stdin = client.stdin.take().expect("stdin");
        stdin.write_all(b"AMQP\0\0\x09\x01").expect("write");
        let mut start = [0; 11];
        let mut stdout = client.stdout.take().expect("stdout");
        let read = stdout.read_exact(&mut start);
        if read.is_err() {
            let mut words = String::new();
            let stderr = client.stderr.take().map(|mut e| e.read_to_string(&mut words));
            panic!("{version}: {words} {stderr:?}");
        }
        // A method frame on channel 0: connection.start.
        assert_eq!((start[0], &start[7..]), (1, &[0, 10, 0, 10][..]), "{version}");
        drop(stdin);
        client.kill().expect("kill");
        client.wait().expect("wait");
    }
}

#[test]
fn the_wrong_port_is_recognised_in_both_directions() {
    let authority = Authority::new("ca");
    let (broker, front) = secured(authority.listener(&["127.0.0.1"], None));

    let plain = broker.local_addr();
    let help = format!("the port probably has no TLS: use amqp://guest@127.0.0.1:{}/, or", plain.port());
    assert_refused(endpoint(plain, authority.trusted()), &["AMQP without TLS"], &help);
    assert_refused(Endpoint::new("127.0.0.1", front.port()), &["it speaks TLS"], "amqps");
}

#[test]
fn a_port_that_says_nothing_is_not_waited_for_for_ever() {
    let (listener, address) = common::listener();
    let silent = thread::spawn(move || listener.accept().map(|(stream, _)| stream));
    let insecure = ClientTls { insecure: true, ..ClientTls::default() };
    assert_refused(endpoint(address, insecure), &["TLS was not agreed on"], "use amqp://guest@127.0.0.1:");
    drop(silent);
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "nothing of the kind").expect("write");
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let missing = folder.path().join("missing.pem");
    assert_refused(endpoint(address, trusting(file)), &["notes.txt holds no certificate"], "BEGIN CERTIFICATE");
    assert_refused(endpoint(address, trusting(missing)), &["missing.pem", "No such file"], "PEM");
}
