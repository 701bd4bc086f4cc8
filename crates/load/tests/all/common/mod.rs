//! A throw-away authority, embedded brokers, and plans.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::{ClientCertificates, Identity, ServerTls, TlsListener};
use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{
    ArrivalProcess, ClientTls, Destination, Endpoint, Group, LatencyStep, Outcome, Phases, Plan, ReconnectPolicy,
    RunEvent, ServiceTime, Silence,
};
use measure::{Counts, Interval, LatencySummary, Nanos, Phase, Rate, Recorder, Waits};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority, whose files are gone with it.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
    /// Certificates so far. Threads that ask for the same name at the same time get files of their own.
    issued: AtomicUsize,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("authority");
        std::fs::write(folder.path().join(format!("{name}.pem")), issuer.pem()).expect("write");
        Self { issuer, folder, issued: AtomicUsize::new(0) }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    /// A certificate for these names; the files' names begin with the first.
    pub(crate) fn issue(&self, names: &[&str]) -> (PathBuf, PathBuf) {
        self.issue_long(names, 0)
    }

    /// Adds a remark that makes it this many bytes longer.
    pub(crate) fn issue_long(&self, names: &[&str], bytes: usize) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, &*names[0]);
        if bytes > 0 {
            let remark = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999], {
                // An octet string: tag, and a length of three bytes.
                let length = (bytes as u32).to_be_bytes();
                let head = [4, 0x83, length[1], length[2], length[3]];
                [head.as_slice(), &vec![7; bytes]].concat()
            });
            params.custom_extensions.push(remark);
        }
        let key = KeyPair::generate().expect("key");
        let certificate = params.signed_by(&key, &self.issuer).expect("certificate");
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let at = |kind: &str| self.file(&format!("{}-{number}-{kind}", names[0]));
        std::fs::write(at("cert"), certificate.pem()).expect("write");
        std::fs::write(at("key"), key.serialize_pem()).expect("write");
        (at("cert"), at("key"))
    }

    /// A TLS listener that shows a certificate for `names`, and may want one of its clients.
    pub(crate) fn listener(&self, names: &[&str], clients: Option<ClientCertificates>) -> TlsListener {
        let (certificate, key) = self.issue(names);
        let identity = Identity { certificate, key };
        TlsListener { listen: "127.0.0.1:0".parse().expect("address"), tls: ServerTls { identity, clients } }
    }

    pub(crate) fn clients(&self, required: bool) -> ClientCertificates {
        ClientCertificates { authorities: self.file("ca"), required }
    }

    /// Settings of a client that trusts this authority.
    pub(crate) fn trusted(&self) -> ClientTls {
        ClientTls { ca: Some(self.file("ca")), ..ClientTls::default() }
    }

    /// Settings of one that has a certificate and its key, too.
    pub(crate) fn identified(&self, files: (PathBuf, PathBuf)) -> ClientTls {
        let (certificate, key) = files;
        ClientTls { identity: Some(Identity { certificate, key }), ..self.trusted() }
    }
}

pub(crate) fn embedded() -> broker::Running {
    started(broker::Config::default())
}

/// An embedded broker with a TLS listener beside the plain one, and the listener's address.
pub(crate) fn secured(tls: TlsListener) -> (broker::Running, SocketAddr) {
    let broker = started(broker::Config { tls: Some(tls), ..broker::Config::default() });
    let address = broker.tls_addr().expect("a TLS listener");
    (broker, address)
}

pub(crate) fn started(config: broker::Config) -> broker::Running {
    broker::Broker::bind(config).expect("bind").spawn().expect("spawn")
}

pub(crate) struct Deaf;

impl load::Sink for Deaf {
    fn interval(&mut self, _: &Interval) {}
    fn event(&mut self, _: RunEvent) {}
}

impl load::SliceSink for Deaf {
    fn slice(&mut self, _: &measure::Slice) {}
    fn event(&mut self, _: RunEvent) {}
}

#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) measured: Interval,
    pub(crate) events: Vec<RunEvent>,
}

impl load::Sink for Kept {
    fn interval(&mut self, merged: &Interval) {
        if merged.phase == Phase::Measure {
            self.measured.merge(merged);
        }
    }

    fn event(&mut self, event: RunEvent) {
        self.events.push(event);
    }
}

/// Adds up what a scenario tells that is run by itself: slices, which nobody adds up to seconds.
#[derive(Default)]
pub(crate) struct Heard {
    /// Counts by time, warm-up excluded.
    pub(crate) counts: Counts,
    pub(crate) warmup: Counts,
    /// Of what was due in the measured phase.
    pub(crate) steps: Recorder,
    pub(crate) waits: Waits,
    pub(crate) phases: Vec<Phase>,
    pub(crate) notes: Vec<String>,
    pub(crate) silences: Vec<Silence>,
}

impl load::SliceSink for Heard {
    fn slice(&mut self, slice: &measure::Slice) {
        let mut interval = Interval::new();
        interval.reset(slice.start, slice.phase);
        interval.add_slice(slice);
        let sum = match interval.phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Measure | Phase::Drain => &mut self.counts,
        };
        sum.merge(&interval.counts);
        self.waits.add(&slice.waits);
        self.steps.add_due(Phase::Measure, interval.histograms()).expect("one shape");
        assert!(interval.length() < Nanos::from_millis(1_100), "a second each");
        // The two are read one after the other: a loop may lose its core in between.
        let late = Nanos::from_millis(500);
        assert!(interval.waits.loop_idle <= interval.waits.loop_time + late);
    }

    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::PhaseStarted { phase, .. } => self.phases.push(phase),
            RunEvent::Note(text) => self.notes.push(text),
            RunEvent::Silence(silence) => self.silences.push(silence),
            _ => {}
        }
    }
}

impl Heard {
    pub(crate) fn step(&self, step: &str) -> LatencySummary {
        LatencySummary::of(self.steps.histogram(metric(step)))
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let outcome = load::run(plan, &load::Control::new(), &mut Deaf).expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    outcome
}

/// Phases of these lengths, in milliseconds; see [`Phases::new`].
pub(crate) fn phases(warmup: u64, measure: u64, drain: u64) -> Phases {
    let ms = Nanos::from_millis;
    Phases::new(ms(warmup), ms(measure), ms(drain))
}

pub(crate) fn measured(group: Group, ms: u64) -> Plan {
    Plan { groups: vec![group], phases: phases(0, ms, 10_000), ..Plan::default() }
}

pub(crate) fn reconnect(ms: u64) -> Option<ReconnectPolicy> {
    let wait = Nanos::from_millis(ms);
    Some(ReconnectPolicy { min: wait, max: wait })
}

pub(crate) fn work(time: Nanos) -> ServiceTime {
    ServiceTime { latency: vec![LatencyStep::constant(time)], ..ServiceTime::default() }
}

pub(crate) fn lost_connections(outcome: &Outcome) -> u64 {
    outcome.threads.iter().map(|it| it.lost_connections).sum()
}

/// Churns alone, and tells what became of the cycles.
pub(crate) fn churned(plan: &ChurnPlan, sink: &mut dyn load::SliceSink) -> Result<(Tally, Outcome), load::Error> {
    use load::StartBarrier;
    use load::scenario::Scenario as _;
    let mut outcome = plan.run(&StartBarrier::alone(), &load::Control::new(), sink)?;
    let tally = outcome.tallies.remove("churn").expect("a tally");
    Ok((Tally(tally), outcome))
}

#[derive(Debug)]
pub(crate) struct Tally(pub(crate) load::OperationTally);

impl Tally {
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.0.counts.get(metric(key))
    }

    pub(crate) fn counts<const N: usize>(&self, keys: [&str; N]) -> [u64; N] {
        keys.map(|key| self.count(key))
    }
}

pub(crate) fn metric(key: &str) -> measure::Metric {
    measure::Metric::named(key, measure::MetricKind::Counter).expect("a key")
}

/// A churn of so many milliseconds in which one cycle follows the other.
pub(crate) fn churn(endpoint: Endpoint, kind: ChurnKind, measure_ms: u64) -> ChurnPlan {
    ChurnPlan {
        endpoint,
        protocol: load::Protocol::default(),
        kind,
        schedule: None,
        warmup: Nanos::ZERO,
        measure: Nanos::from_millis(measure_ms),
        messages: 1,
        message_size: 100,
        most_open: 4,
        source_addresses: Vec::new(),
        timeout: Nanos::from_millis(2_000),
    }
}

pub(crate) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    (listener, address)
}

pub(crate) fn after(ms: u64, act: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(ms));
        act();
    })
}

/// Shows each connection to a free port of the loopback, with its number.
pub(crate) fn serve(mut each: impl FnMut(usize, TcpStream) + Send + 'static) -> SocketAddr {
    let (listener, address) = listener();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            each(number, stream);
        }
    });
    address
}

/// Passes on what the two sides say, and their ends.
pub(crate) fn pass_on(client: TcpStream, server: TcpStream) {
    for (from, to) in [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))] {
        let (mut from, mut to) = (from.expect("clone"), to.expect("clone"));
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

pub(crate) fn group(broker: SocketAddr, destination: Destination, clients: (usize, usize)) -> Group {
    let mut group = Group::new(Endpoint::new("127.0.0.1", broker.port()), vec![destination]);
    (group.producers.per_destination, group.consumers.per_destination) = clients;
    group
}

pub(crate) fn rate(per_second: f64) -> ArrivalProcess {
    Rate::per_second(per_second).expect("a rate").into()
}

pub(crate) fn group_to(broker: &broker::Running, destinations: &[&str], clients: (usize, usize)) -> Group {
    let mut group = group(broker.local_addr(), Destination::queue("none"), clients);
    group.destinations = destinations.iter().map(|text| Destination::parse(text).expect("destination")).collect();
    group
}
