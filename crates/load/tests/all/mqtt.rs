//! Loads over MQTT against Debian's mosquitto, in real time: its ledger for each quality of service, and sessions that
//! outlast their connections.

use std::io::Read as _;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use load::scenario::churn::ChurnKind;
use load::{Ack, Control, Destination, Group, Guarantee, MqttVersion, Outcome, Plan, Protocol, RunEvent, Subscription};
use measure::ledger::LedgerSummary;
use testkit::ChildGuard;

use crate::common::{self, Kept};

/// A mosquitto, and what it serves from.
struct Mosquitto {
    _process: ChildGuard,
    _folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Mosquitto {
    fn start() -> Result<Self, String> {
        let program = Path::new("/usr/sbin/mosquitto");
        if !program.exists() {
            return Err("no mosquitto (scripts/setup test installs it)".to_owned());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, address) = common::listener();
        drop(listener);
        let file = folder.path().join("mosquitto.conf");
        let limits = "max_queued_messages 0\nmax_inflight_messages 1000\n";
        let text = format!("user root\nallow_anonymous true\n{limits}listener {} 127.0.0.1\n", address.port());
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(program);
        command.arg("-c").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        let process = ChildGuard(command.spawn().expect("it starts"));
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { _process: process, _folder: folder, address })
    }
}

fn group(at: SocketAddr, topic: &str, clients: (usize, usize), qos: u8) -> Group {
    let mut group = common::group(at, Destination::topic(topic), clients);
    (group.protocol, group.endpoint.protocol) = (Protocol::Mqtt, Protocol::Mqtt);
    group.mqtt.qos = Some(qos);
    group.producers.guarantee = if qos == 0 { Guarantee::Unconfirmed } else { Guarantee::Confirms };
    (group.producers.max_pending, group.producers.sizes) = (50, 64.into());
    group.producers.arrivals = common::rate(2_000.0);
    group.producers.message_count = Some(300);
    group
}

/// Runs producers and their subscribers, of whom nothing is noted.
fn run(groups: Vec<Group>) -> Outcome {
    let plan = Plan { groups, run_id: 77, phases: common::phases(0, 0, 10_000), ..Plan::default() };
    let mut kept = Kept::default();
    let outcome = load::run(&plan, &Control::new(), &mut kept).expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(!kept.events.iter().any(|it| matches!(it, RunEvent::Note(_))), "{:?}", kept.events);
    let named = |it: &RunEvent| matches!(it, RunEvent::Connected { product, .. } if product == "Mosquitto");
    assert!(kept.events.iter().any(named), "{:?}", kept.events);
    outcome
}

/// Everything has come. Without answers none of it is confirmed.
fn all(deliveries: u64, qos: u8) -> Option<LedgerSummary> {
    let unconfirmed_delivered = if qos == 0 { deliveries } else { 0 };
    let (sent, delivered) = (deliveries, deliveries);
    Some(LedgerSummary { sent, delivered, unconfirmed_delivered, exact: true, ..LedgerSummary::default() })
}

#[test]
fn the_ledger_is_exact_for_each_quality_of_service_and_version() {
    let broker = testkit::or_skip!(Mosquitto::start());
    for (version, qos) in [(MqttVersion::V5, 0), (MqttVersion::V311, 1), (MqttVersion::V5, 1), (MqttVersion::V5, 2)] {
        let mut producers = group(broker.address, "sensors/%i/state", (3, 0), qos);
        let mut everyone = group(broker.address, "sensors/+/state", (0, 2), qos);
        let mut shared = group(broker.address, "$share/g/sensors/#", (0, 3), qos);
        let mut one = group(broker.address, "sensors/%i/state", (0, 1), qos);
        everyone.consumers.ack = if qos == 0 { Ack::Auto } else { Ack::Every(1) };
        for group in [&mut producers, &mut everyone, &mut shared, &mut one] {
            group.endpoint.connection.mqtt_version = version;
        }
        let outcome = run(vec![everyone, shared, one, producers]);
        // Two of everybody, one of the group that shares, and sensor 0's own.
        assert_eq!(outcome.ledger, all(300 * 3 + 100, qos), "{version:?} {qos}");
        assert_eq!(outcome.totals.completed, if qos == 0 { 0 } else { 300 });
    }
}

#[test]
fn messages_that_match_no_subscription_are_told() {
    let broker = testkit::or_skip!(Mosquitto::start());
    let outcome = run(vec![group(broker.address, "nobody/%i", (2, 0), 1)]);
    assert_eq!((outcome.totals.completed, outcome.totals.returned), (300, 300));
}

/// Connections of a session that are cut, …
const CUTS: u64 = 4;
/// … each once the broker has sent so many bytes.
const CUT_AFTER: u64 = 3_000;

/// Passes connections on, and cuts some of those whose first bytes name the session.
fn cutting(broker: SocketAddr, session: &'static str) -> SocketAddr {
    let mut named = 0;
    common::serve(move |_, stream| {
        let mut first = [0; 256];
        let len = stream.peek(&mut first).unwrap_or_default();
        let is_named = first[..len].windows(session.len()).any(|it| it == session.as_bytes());
        named += u64::from(is_named);
        // The first of them empties the session before the load.
        let is_cut = is_named && (2..2 + CUTS).contains(&named);
        let most = if is_cut { CUT_AFTER } else { u64::MAX };
        let server = TcpStream::connect(broker).expect("the broker");
        let (mut from_client, mut to_server) = (stream.try_clone().expect("clone"), server.try_clone().expect("clone"));
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Write);
        });
        let mut to_client = stream;
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut (&server).take(most), &mut to_client);
            let _ = (to_client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        });
    })
}

#[test]
fn a_session_that_lasts_gets_everything_across_lost_connections() {
    let broker = testkit::or_skip!(Mosquitto::start());
    for (version, qos) in [(MqttVersion::V5, 1), (MqttVersion::V311, 2), (MqttVersion::V5, 2)] {
        let at = cutting(broker.address, "lasting.sensors/0.0");
        let mut both = group(at, "sensors/%i", (1, 1), qos);
        both.endpoint.connection.mqtt_version = version;
        both.consumers.subscription = Some(Subscription { name: "lasting".into(), durable: true, shared: 0 });
        both.reconnect = common::reconnect(20);
        let outcome = run(vec![both]);
        assert_eq!(common::lost_connections(&outcome), CUTS, "{outcome:?}");
        let ledger = outcome.ledger.expect("a ledger");
        assert_eq!((ledger.lost, ledger.outstanding, ledger.delivered), (0, 0, 300), "{version:?} {qos}: {ledger:?}");
        let twice = ledger.duplicated + if qos == 2 { ledger.duplicated_redelivered } else { 0 };
        assert_eq!(twice, 0, "{version:?} {qos}: {ledger:?}");
    }
}

#[test]
fn connections_come_and_go() {
    let broker = testkit::or_skip!(Mosquitto::start());
    let endpoint = group(broker.address, "t", (1, 0), 1).endpoint;
    let mut plan = common::churn(endpoint, ChurnKind::Connections, 100);
    (plan.protocol, plan.messages) = (Protocol::Mqtt, 0);
    let (tally, _) = common::churned(&plan, &mut common::Deaf).expect("churn");
    let [begun, completed, failed] = tally.counts(["begun", "completed", "failed"]);
    assert!(completed > 0 && failed == 0, "{begun} begun, {completed} completed, {failed} failed");
}
