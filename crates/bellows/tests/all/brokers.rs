//! Brokers as a run sees them: any process that bellows guards can be loaded, harmed and removed, and a broker that is
//! started once serves several runs.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brokers::managed::{Launch, Managed, Probe, Progress, Waiting, Workspace, accepts, free_ports};
use brokers::{Broker, BrokerError, Fault, Identity, Processes, RabbitMqNodes, guardian, log};
use common::folder;
use experiment::Experiment;
use session::{NoObserver, RunOptions, RunOutcome};

/// A second managed broker: the embedded one, as a process like any other.
#[derive(Debug)]
struct Toy {
    process: Managed,
    /// A cluster that loses its majority with a node, and stalls from then on.
    is_cluster: bool,
    identity: Identity,
    endpoint: load::Endpoint,
}

const BELLOWS: &str = env!("CARGO_BIN_EXE_bellows");

impl Toy {
    fn start(parent: &Path) -> Result<Self, BrokerError> {
        let workspace = Workspace::new("Toy", Some(parent), 1_000_000)?;
        let [port] = free_ports()?;
        let launch = Launch {
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            process_name: "bellows",
            probes: vec![Probe { port, answers: accepts }],
            ..launch(BELLOWS, &["broker", "--listen", &format!("127.0.0.1:{port}")])
        };
        let mut waiting = Waiting { progress: &mut |_| {}, cancelled: &|| false };
        Ok(Self {
            process: workspace.start(launch, "starting a toy", &mut waiting)?,
            is_cluster: false,
            identity: Identity { kind: "toy", product: "Toy", version: Some("1.2.3".to_owned()), runtime: None },
            endpoint: load::Endpoint::new("127.0.0.1", port),
        })
    }

    fn pid(&self) -> u32 {
        self.process.pid().expect("it runs")
    }
}

/// A program as a toy, which never answers.
fn launch(program: &str, arguments: &[&str]) -> Launch {
    Launch {
        product: "Toy",
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: Vec::new(),
        process_name: "",
        probes: vec![Probe { port: 1, answers: |_| false }],
        reason: log::tail,
        start_timeout: Duration::from_secs(30),
        guard: vec![BELLOWS.into(), guardian::SUBCOMMAND.into()],
    }
}

impl RabbitMqNodes for Toy {}

impl Broker for Toy {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &load::Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        let further = self.is_cluster.then_some(None).into_iter().collect();
        Processes { further, ..Processes::started(self.process.pid()) }
    }

    fn inject(&mut self, _node: usize, fault: Fault) -> Result<(), BrokerError> {
        self.process.inject(match fault {
            Fault::Kill if self.is_cluster => Fault::Pause,
            other => other,
        })
    }

    fn logs(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        self.process.stop()
    }
}

fn run_on(broker: &mut dyn Broker, experiment: &Experiment, runs: &Path) -> RunOutcome {
    let options = RunOptions {
        scenarios: session::SCENARIOS,
        carrier: session::Carrier::Alone,
        runs_dir: Some(runs.to_owned()),
        labels: archive::Labels::default(),
        command: Vec::new(),
        bellows_exe: BELLOWS.into(),
        texts: session::Texts {
            verdict: report::text::verdict,
            warning: report::text::warning,
            options: report::text::options,
        },
    };
    let control = load::Control::new();
    let outcome = session::run_on(broker, experiment, &options, &control, &mut NoObserver);
    outcome.unwrap_or_else(|error| panic!("{error}: {}", broker.logs(20)))
}

fn state_file(process: &Managed) -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    PathBuf::from(format!("/tmp/bellows-{uid}/{}.json", process.workspace().name()))
}

/// Whether a process runs; a zombie does not.
fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn experiment(faults: &str, head: &str) -> Experiment {
    let text = format!(
        "{head}profile.events = []\n{faults}[[load]]\ndestination = \"queue://toy\"\nrate = 500\nmax-pending = 100\n\
         recover = \"5ms-10ms\"\n"
    );
    Experiment::from_toml(&text, "test").expect("an experiment")
}

#[test]
fn another_managed_broker_is_loaded_harmed_and_removed_like_the_first() {
    let (parent, runs) = (folder(), folder());
    let mut toy = Toy::start(parent.path()).expect("a toy");
    let first = toy.pid();
    let faults = "[[fault]]\nat = \"500ms\"\nkind = \"stop\"\nfor = \"400ms\"\n\
                  [[fault]]\nat = \"2s\"\nkind = \"kill\"\nfor = \"300ms\"\n";
    let head = "phases = { warmup = \"300ms\", measure = \"5s\", drain = \"2s\" }\n";
    let outcome = run_on(&mut toy, &experiment(faults, head), runs.path());
    let events = &outcome.record.events;
    let summary = outcome.record.summary.expect("a summary");
    assert_eq!(summary.broker.kind, "toy");
    assert_eq!(summary.broker.pid, Some(first));
    assert_eq!(outcome.record.versions.broker.as_deref(), Some("Toy 1.2.3"));
    let back = |kind: &str| {
        let fault = summary.faults.iter().find(|fault| fault.kind == kind);
        let back = fault.and_then(|fault| fault.back_s);
        back.unwrap_or_else(|| panic!("{kind}: {:?} {events:?}", summary.faults))
    };
    assert!((0.39..1.0).contains(&back("stop")), "{}", back("stop"));
    assert!((0.29..5.0).contains(&back("kill")), "{}", back("kill"));
    assert_ne!(toy.pid(), first, "another process serves by now");
    let ready = toy.logs(20).matches("ready amqp://").count();
    assert_eq!(ready, 2, "it was started twice: {}", toy.logs(20));
    assert!(summary.faults.iter().all(|it| it.first_confirm_s.is_some()), "{:?}", summary.faults);

    let directory = toy.process.workspace().directory().to_owned();
    let (state, pid) = (state_file(&toy.process), toy.pid());
    assert!(directory.starts_with(parent.path()) && state.exists());
    Box::new(toy).stop().expect("its end");
    assert!(!directory.exists() && !state.exists());
    assert!(!is_running(pid));
}

fn said(outcome: &RunOutcome) -> String {
    let (record, shape) = (&outcome.record, report::console::Shape::default());
    let summary = record.summary.as_ref().expect("a summary");
    report::console::summary(&shape, record, summary, None, report::console::Style::PLAIN)
}

const FOR_GOOD: &str = "phases = { warmup = \"300ms\", measure = \"3s\", drain = \"1s\" }\n";

#[test]
fn a_broker_that_is_killed_for_good_ends_the_run_in_words_and_not_as_an_error() {
    let (parent, runs) = (folder(), folder());
    let mut toy = Toy::start(parent.path()).expect("a toy");
    let faults = "[[fault]]\nat = \"500ms\"\nkind = \"kill\"\n";
    let outcome = run_on(&mut toy, &experiment(faults, FOR_GOOD), runs.path());
    let summary = outcome.record.summary.as_ref().expect("a summary");
    assert_eq!(outcome.record.state, archive::RunState::Complete);
    assert!(summary.error.is_none() && summary.faults[0].for_good);
    assert_eq!(summary.faults[0].back_s, None, "it was not started again");
    let is_own = |it: &&archive::Warning| match &it.finding {
        archive::Finding::BrokerGone { fault, .. } => fault.as_deref() == Some("kill"),
        _ => false,
    };
    let gone = summary.warnings.iter().find(is_own).expect("connections are down");
    assert_eq!(gone.tier, archive::Tier::Caution);
    testkit::assert_has(said(&outcome), ["broker stayed down, as requested"]);
    Box::new(toy).stop().expect("its end");
}

#[test]
fn a_cluster_that_never_confirms_after_a_fault_is_told_so_in_summary_and_verdict() {
    let (parent, runs) = (folder(), folder());
    let mut cluster = Toy { is_cluster: true, ..Toy::start(parent.path()).expect("a toy") };
    let faults = "[[fault]]\nat = \"500ms\"\nkind = \"kill\"\nnode = 1\n";
    let head = format!("broker = {{ kind = \"rabbitmq\", nodes = 2 }}\n{FOR_GOOD}");
    let outcome = run_on(&mut cluster, &experiment(faults, &head), runs.path());
    let summary = outcome.record.summary.as_ref().expect("a summary");
    let fault = &summary.faults[0];
    assert!(fault.watched && fault.first_confirm_s.is_none(), "{fault:?}");
    testkit::assert_has(said(&outcome), ["no confirm since"]);
    let verdict = summary.verdict.as_ref().expect("a verdict");
    testkit::assert_has(&verdict.sentence, ["this run's own kill of node 1"]);
    Box::new(cluster).stop().expect("its end");
}

#[test]
fn a_broker_whose_guardian_was_killed_is_removed_all_the_same() {
    let parent = folder();
    let toy = Toy::start(parent.path()).expect("a toy");
    let (state, pid) = (state_file(&toy.process), toy.pid());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    let guardian = rest.split(' ').nth(1).expect("a parent").parse().expect("pid");
    common::signal(guardian, "KILL");
    drop(toy);
    assert!(!state.exists() && !is_running(pid));
    assert_eq!(fs::read_dir(parent.path()).expect("folder").count(), 0);
}

#[test]
fn a_broker_that_ends_instead_of_starting_says_why_and_leaves_nothing() {
    let parent = folder();
    let workspace = Workspace::new("Toy", Some(parent.path()), 1_000_000).expect("room");
    let launch = launch("/bin/sh", &["-c", "echo no licence; exit 7"]);
    let mut told = Vec::new();
    let mut waiting = Waiting {
        progress: &mut |progress| match progress {
            Progress::Step(text) => told.push(text.to_owned()),
            Progress::Waiting(..) | Progress::Logged(_) | Progress::Ready(_) => {}
        },
        cancelled: &|| false,
    };
    let error = workspace.start(launch, "starting a toy", &mut waiting);
    let problem = error.expect_err("no toy").problem();
    let said = [&problem.cause, &problem.value, &problem.log, &told[0]];
    assert_eq!(said, ["Toy ended while it started", "exit status 7", "no licence", "starting a toy"]);
    assert_eq!(fs::read_dir(parent.path()).expect("folder").count(), 0);
}

#[test]
#[ignore = "a start of its own: make prove"]
fn a_rabbitmq_that_is_started_once_serves_two_runs() {
    testkit::needs_rabbitmq!();
    let runs = folder();
    let experiment = experiment("", "phases = { warmup = \"200ms\", measure = \"1s\" }\n");
    let control = load::Control::new();
    let broker = brokers::start(&experiment, None, Path::new(BELLOWS), &control, &mut |_| {});
    let mut broker = broker.expect("a managed RabbitMQ");
    let pid = broker.processes().main;
    let outcomes = [1, 2].map(|_| run_on(&mut *broker, &experiment, runs.path()));
    assert_eq!(broker.processes().main, pid);
    broker.stop().expect("its end");
    let folders = outcomes.each_ref().map(|it| it.run_dir.clone().expect("kept"));
    assert_ne!(folders[0], folders[1]);
    for outcome in outcomes {
        let summary = outcome.record.summary.expect("a summary");
        assert_eq!((summary.broker.kind.as_str(), summary.broker.pid), ("rabbitmq", pid));
        let flow = summary.flow();
        assert_eq!(flow.ledger.map(|ledger| ledger.lost), Some(0));
        assert!(flow.received.total >= 500, "{}", flow.received.total);
        assert!(summary.messages().cpu_us_each.broker > Some(0.0));
        assert_eq!(outcome.record.topology.queues.len(), 1);
    }
}

const SECURED: &str = "phases = { warmup = \"200ms\", measure = \"1s\" }\nprofile.events = []\n\
    broker = { kind = \"embedded\", tls = true, auth = \"external\" }\n\
    [[load]]\ndestination = \"queue://secured\"\nrate = 500\n";

/// Only a client with a certificate, over TLS, can log in so.
#[test]
fn an_experiment_loads_the_embedded_broker_over_tls_and_its_keys_are_gone_then() {
    let (dir, keys) = (folder(), folder());
    fs::write(dir.path().join("secured.toml"), SECURED).expect("file");
    let arguments = ["run", "secured.toml", "--json", "--quiet"];
    let ended = common::start(common::bellows(dir.path(), &arguments).env("TMPDIR", keys.path())).end();
    let summary = ended.json();
    let messages = &summary["scenarios"]["messages"];
    assert!(messages["received"]["total"].as_u64() > Some(400), "{summary:#}");
    assert_eq!(messages["ledger"]["lost"], 0);
    assert!(!ended.stdout.contains("certificate_not_checked"));
    assert_eq!(fs::read_dir(keys.path()).expect("folder").count(), 0);
}

/// The built-in experiments over MQTT, each on a mosquitto of its own, to the last message.
#[test]
fn mosquitto_gives_every_reader_its_messages() {
    if !Path::new("/usr/sbin/mosquitto").exists() {
        testkit::skip!("no mosquitto (scripts/setup test installs it)");
    }
    let dir = &*folder();
    for (name, load, count, deliveries) in
        [("mqtt-fan-in", 1, 400, 400), ("mqtt-fan-out", 0, 20, 2_000), ("mqtt-shared", 1, 300, 300)]
    {
        let line = format!(
            "run {name} --json --quiet --set phases.warmup=0s --set phases.measure=0s --set profile.events=[] \
             --set load.{load}.message-count={count}"
        );
        let ended = common::run(dir, &common::words(&line)).ok();
        let summary = ended.json();
        let ledger = &summary["scenarios"]["messages"]["ledger"];
        let found = ["sent", "delivered", "lost", "outstanding", "duplicated", "duplicated_redelivered", "foreign"];
        assert_eq!(found.map(|key| ledger[key].as_u64()), [deliveries, deliveries, 0, 0, 0, 0, 0].map(Some), "{name}");
        let record = common::read_json(&ended.run_dir(dir).join("run.json"));
        let broker = record["versions"]["broker"].as_str().unwrap_or_default();
        assert!(broker.starts_with("Mosquitto 2."), "{name}: {broker}");
    }
}

#[test]
fn wildcards_and_other_protocols_options_are_refused_with_their_remedy() {
    let dir = &*folder();
    for (line, parts) in [
        ("topic://a/# --url mqtt://127.0.0.1:1", ["wildcard", "--subscribe"]),
        ("queue://a --url mqtt://127.0.0.1:1", ["topics alone", "topic://NAME"]),
        ("topic://a --qos 1", ["no effect without MQTT", "--protocol mqtt"]),
        ("topic://a --url mqtt://127.0.0.1:1 --delete", ["not over MQTT", "--delete"]),
        ("topic://a --url mqtt://127.0.0.1:1 --no-confirm --qos 2", ["--qos", "--no-confirm"]),
    ] {
        let line = format!("client {line} --duration 1 --no-archive");
        common::run(dir, &common::words(&line)).assert_error(2, &parts);
    }
}
