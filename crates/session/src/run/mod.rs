//! One experiment, from broker to archive.

mod companion;
mod continuous;
mod facts;
mod faults;
mod finish;
mod fleet;
mod interruptions;
mod lasting;
mod memory;
mod named_process;
mod observer_effect;
mod own_pages;
mod preparing;
mod profiling;
mod record;
mod recording;
mod scenarios;
mod scraping;
mod served;
#[cfg(test)]
mod tests;
mod topology;
mod tracing;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use archive::{Labels, RunLock, RunRecord, RunWriter, Topology, Versions};
use brokers::{Broker, Identity, Processes, managed::Progress};
use experiment::{Experiment, ProbedAddresses, ProfileSpec};
use load::scenario::Scenario;
use measure::{Clock, Interval, Metric, Problem, Time, wall_clock_unix_ns};
use stacks::{Profile, ProfileHeader};

use crate::judge::{Planned, filled};
use crate::look::Inspections;
use crate::trace::TracedBroker;
use crate::usage::ProcUsage;
use crate::{Error, Observer, calibration, hardware};
pub use continuous::{ContinuousOptions, PeriodEnd, RecordingEvent, record_continuously};
use faults::{Faults, node_gone};
use finish::Ending;
pub use fleet::{Carrier, FleetRun, Membership, SharedFiles, WorkerLink, facts as worker_facts};
use memory::MemoryWatch;
pub use named_process::{Target, nodes_called};
use observer_effect::Blocks;
use own_pages::OwnPages;
use profiling::{Profiling, Reattach};
pub use record::{RecordOptions, busiest_descendant, record};
use recording::{Recording, RunContext};
use scenarios::ScenarioContext;
pub use scenarios::{MakeScenario, Occasion, SCENARIOS};
use scraping::Scraping;
use topology::BrokerState;
use tracing::{Tracing, traced_broker};
use web::redact;

/// Lines of the broker's log that a run keeps that broke off.
const LAST_LINES: usize = 5;

/// How to run, as opposed to what.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where run folders are made; `None` keeps no archive (and so takes no profile).
    pub runs_dir: Option<PathBuf>,
    /// Labels that are kept in the run's folder.
    pub labels: Labels,
    /// The command line that repeats the run, without secrets; apparent ones are hidden once more before it is kept.
    pub command: Vec<String>,
    /// The `bellows` executable, which is started again for the embedded broker and for the guardian of a managed one.
    pub bellows_exe: PathBuf,
    /// The kinds of load that an experiment can ask for: [`crate::SCENARIOS`].
    pub scenarios: &'static [MakeScenario],
    /// Who carries the load of messages.
    pub carrier: Carrier,
    /// Makes the sentences that the archive keeps beside the data.
    pub texts: Texts,
}

/// Makes sentences of verdicts and warnings: `report` implements it. By default none are made.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// Fills in the sentences of a verdict.
    pub verdict: fn(&mut archive::Verdict),
    /// The sentence of a warning.
    pub warning: fn(&archive::Warning) -> String,
    /// Names options as the command has them, in the sentences of a summary.
    pub options: fn(&mut archive::RunSummary, &[String]),
}

impl Default for Texts {
    fn default() -> Self {
        Self { verdict: |_| {}, warning: |_| String::new(), options: |_, _| {} }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The run folder, where one was kept.
    pub run_dir: Option<PathBuf>,
    /// The content of `run.json`, with a `summary`; of a load that broke off with `error`, and what it had measured.
    pub record: RunRecord,
    /// The measured phase as one interval with whole histograms, which also hold the drain's answers and deliveries.
    pub measured: Interval,
    /// Profiles of the measured phase, one per event, as in the run folder.
    pub profiles: Vec<Profile>,
    /// Keeps others from removing the run folder while this lasts.
    pub lock: RunLock,
}

/// Refuses experiments that fail without a broker already: one that makes no sense, a requirement about something not
/// measured, a missing installation. The first of them is told, with the remedy.
pub fn check(experiment: &Experiment, scenarios: &[MakeScenario]) -> Result<(), Error> {
    experiment.validate()?;
    check_requirements(experiment, scenarios)?;
    check_source_addresses(experiment)?;
    Ok(brokers::check_installed(&experiment.broker)?)
}

/// Runs an experiment: starts or attaches the broker, applies load, samples and profiles, writes the archive as it
/// goes, stops the broker. Fails where the experiment makes no sense, the broker cannot be had, or the load cannot be
/// started; no run folder is left then. A load that breaks off later is in [`RunOutcome::record`].
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    check(experiment, options.scenarios)?;
    options.carrier.check(experiment)?;
    let prepared = preparing::prepare(experiment, options, control, observer)?;
    let data = prepared.as_ref().map(|it| &it.data);
    let exe = &options.bellows_exe;
    let mut broker = brokers::start(experiment, data, exe, control, &mut |it| observer.progress(it))?;
    let outcome = run_on(&mut *broker, experiment, options, control, observer);
    if broker.identity() != &Identity::default() {
        observer.step(&format!("stopping {}", broker.identity().product));
    }
    if let Err(error) = broker.stop() {
        observer.step(&error.to_string());
    }
    outcome
}

/// Refuses requirements about latencies that the experiment's scenarios do not measure, before anything is started.
fn check_requirements(experiment: &Experiment, scenarios: &[MakeScenario]) -> Result<(), Error> {
    if experiment.require.is_empty() {
        return Ok(());
    }
    // Which broker it will be does not matter to what is measured.
    let endpoint = load::Endpoint::new("localhost", 0);
    let experiment = experiment.with_addresses(&ProbedAddresses::default());
    let traced = TracedBroker::default();
    let carrier = &Carrier::Alone;
    let occasion = Occasion { experiment: &experiment, endpoint: &endpoint, run_id: 0, traced: &traced, carrier };
    let metrics: Vec<Metric> = all_made(scenarios, &occasion)?.iter().flat_map(|it| it.metrics()).collect();
    let mut required = experiment.require.iter();
    required.try_for_each(|spec| spec.that.check(&metrics)).map_err(Error::Usage)
}

/// The scenarios that an experiment asks for, in the order of their kinds.
fn all_made(kinds: &[MakeScenario], occasion: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, load::Error> {
    Ok(kinds.iter().map(|make| make(occasion)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Refuses source addresses that are not this machine's, before anything is started.
fn check_source_addresses(experiment: &Experiment) -> Result<(), Error> {
    let loads = experiment.load.iter().map(|load| &load.source_addresses);
    let churn = experiment.churn.iter().map(|churn| &churn.source_addresses);
    for address in loads.chain(churn).flatten() {
        if let Err(error) = std::net::UdpSocket::bind((*address, 0)) {
            return Err(Error::Usage(Problem::new(
                format!("cannot use the source address {address}"),
                error,
                "give addresses of this machine (`ip addr` shows them)",
            )));
        }
    }
    Ok(())
}

/// Runs an experiment against a broker that is there already and stays: several runs may follow each other
/// on it. What the experiment says of how the broker is started has no effect; whether it makes sense was checked.
pub fn run_on(
    broker: &mut dyn Broker,
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    if control.is_stopping() {
        return Err(Error::Stopped { during: "start" });
    }
    options.carrier.check(experiment)?;
    let plans = experiment.with_metrics_servers(broker.metrics_servers()).scrape_plans().map_err(Error::Usage)?;
    let recorders = options.carrier.recorders();
    let memory = if recorders == 0 { MemoryWatch::of(experiment, broker)? } else { MemoryWatch::default() };
    let copied = broker.copied();
    if copied.is_none() {
        preparing::fill(experiment, broker.endpoint(), control, observer)?;
    }
    let start = Start::now();
    let loaded = Loaded::of(broker).recorded_by(recorders);
    let own_pages = OwnPages::start(experiment, broker)?;
    let traced = traced_broker(experiment, broker)?;
    let tracing = Tracing::of(&traced, start.origin);
    let resolved = experiment
        .with_addresses(&own_pages.addresses(broker))
        .with_nodes(broker.nodes())
        .on_prepared(copied.is_some());
    let (endpoint, run_id, carrier) = (broker.endpoint(), start.seed, &options.carrier);
    let occasion = Occasion { experiment: &resolved, endpoint, run_id, traced: &traced, carrier };
    let scenarios = all_made(options.scenarios, &occasion)?;
    let context = loaded.context(&scenarios, start.origin, experiment, options)?;
    let mut record = start.record(&experiment.name, options);
    record.experiment = experiment.to_json();
    record.changed_keys = experiment.changed_keys();
    record.versions.broker = loaded.identity.name();
    record.versions.runtime.clone_from(&loaded.identity.runtime);
    record.metrics = scenarios.iter().flat_map(|it| it.metrics()).collect();
    record.scenarios = context.starts();
    record.fleet = carrier.part();
    let writer = start.writer(options, &mut record)?;
    let profiling = loaded.profiling(&context.profile, &start, writer.as_ref(), observer);
    observer.step("connecting");
    let (seed, profiled) = (u64::from(start.seed), profiling.is_on());
    let attached = writer.as_ref().filter(|_| profiled);
    let reattach = attached.map(|it| Reattach::new(start, context.profile.clone(), it.dir()));
    let (logs, looks) = (broker.follow_logs(), Inspections::of(broker.directories()));
    let (faults, player) = Faults::of(&experiment.fault, &context, &mut *broker, control, profiled, reattach);
    let mut recording = Recording::new(context, record, writer, profiling, loaded.usage(), observer);
    recording.companions = vec![
        Box::new(faults),
        Box::new(Scraping::of(plans).served_by(&loaded.pids(), seed)),
        Box::new(tracing),
        Box::new(looks),
        Box::new(memory),
        Box::new(own_pages),
    ];
    recording.companions.extend(carrier.companion());
    recording.blocks = loaded.blocks(&experiment.profile, seed);
    recording.logs = logs;
    if let Some(cost) = copied {
        recording.note(&format!("the broker began with a copy of prepared data: {cost}"));
    }
    let (recording, result, during) = recording.run(&scenarios, control, || player.run());
    let result = result.map_err(|error| explained(experiment, error));
    end_load(recording, result, during, &*broker, profiled, control)
}

/// The error with the place of the value where only the broker could find that it cannot be served.
fn explained(experiment: &Experiment, error: load::Error) -> load::Error {
    match error {
        load::Error::Invalid(problem) if problem.about.starts_with("load.") => {
            load::Error::Invalid(experiment.explain(problem))
        }
        other => other,
    }
}

/// The end of a run whose load has ended; `during` is the broker's state when sending had ended.
fn end_load(
    mut recording: Recording<'_>,
    result: Result<load::Outcome, load::Error>,
    during: Option<BrokerState>,
    broker: &dyn Broker,
    profiled: bool,
    control: &load::Control,
) -> Result<RunOutcome, Error> {
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            recording.discard();
            return Err(error.into());
        }
    };
    recording.finish_companions(&outcome);
    if outcome.error.is_none() && control.is_stopping() && recording.measured_length == measure::Nanos::ZERO {
        let during = if recording.started.is_some() { "warm-up" } else { "start" };
        recording.discard();
        return Err(Error::Stopped { during });
    }
    if outcome.error.is_some() {
        for line in broker.logs(LAST_LINES).lines() {
            recording.note(&format!("the broker's log: {line}"));
        }
    }
    if broker.has_topology() {
        recording.observer.step("reading the broker's topology");
    }
    let now = broker.processes();
    let left = outcome.phases.last().map(|span| span.end);
    let state = topology::at_end(during, left, broker, profiled, control);
    let topology = state.topology.unwrap_or_else(|error| {
        recording.unread_at_end(0, &error.problem().cause, error.to_string());
        Topology::default()
    });
    let named = state.processes.into_iter().enumerate().map(|(node, named)| match named {
        // A node that was restarted gives its processes the identifiers of others.
        Ok(_) if !recording.profiling.is_of(node, now.of_node(node)) => Vec::new(),
        Ok(named) => named,
        Err(error) => {
            let what = "Erlang processes stay without names";
            recording.unread_at_end(node, what, format!("{what}: {error}"));
            Vec::new()
        }
    });
    let processes = named.collect();
    let warnings = Vec::from_iter(node_gone(broker, &recording.summary.faults));
    recording.tell_logged();
    Ok(recording.finish(Ending { outcome, topology, processes, warnings }))
}

/// The moment at which a run begins. Its time counts from there until its load begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) origin: Time,
    pub(crate) unix_ns: u64,
    /// Marks the run's messages.
    pub(crate) seed: u32,
}

impl Start {
    pub(crate) fn now() -> Self {
        let seed = RandomState::new().build_hasher().finish() as u32;
        Self { origin: Clock.now(), unix_ns: wall_clock_unix_ns(), seed }
    }

    pub(crate) fn record(&self, name: &str, options: &RunOptions) -> RunRecord {
        let created = jiff::Timestamp::from_nanosecond(i128::from(self.unix_ns)).unwrap_or_default();
        RunRecord {
            schema: RunRecord::SCHEMA.to_owned(),
            name: name.to_owned(),
            created: format!("{created:.0}"),
            command: redact::own_command(&options.command),
            versions: Versions { bellows: env!("CARGO_PKG_VERSION").to_owned(), ..Versions::default() },
            hardware: hardware::read(),
            seed: self.seed.into(),
            origin: self.origin,
            origin_unix_ns: self.unix_ns,
            ..RunRecord::default()
        }
    }

    /// Makes the run folder, where one is wanted, and writes the record into it.
    pub(crate) fn writer(&self, options: &RunOptions, record: &mut RunRecord) -> Result<Option<RunWriter>, Error> {
        let Some(runs_dir) = &options.runs_dir else { return Ok(None) };
        let mut writer = RunWriter::create(runs_dir, &record.name, self.unix_ns)?;
        record.id = writer.id().to_owned();
        writer.set_origin(self.origin, self.unix_ns);
        writer.write_record(record);
        writer.write_labels(&options.labels);
        Ok(Some(writer))
    }

    /// Prepares the profile of a process, which may be a node of a cluster.
    pub(crate) fn profiling(
        &self,
        options: &[profile::Options],
        pid: u32,
        node: Option<u32>,
        writer: &RunWriter,
    ) -> Result<Profiling, Problem> {
        let header = ProfileHeader { node, ..ProfileHeader::new(self.origin, self.unix_ns) };
        Profiling::attach(options, pid, &header, writer.dir(), 0)
    }
}

/// Like [`run`], with a second attempt where the broker did not start within its time; `observer` is told.
pub fn run_again_if_not_ready(
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    match run(experiment, options, control, observer) {
        Err(Error::NotReady(problem)) if !control.is_stopping() => {
            observer.progress(Progress::Ready(&format!("{problem}; the run is tried once more")));
            run(experiment, options, control, observer)
        }
        ended => ended,
    }
}

/// The broker that is loaded, as it was when the run began.
struct Loaded {
    identity: Identity,
    endpoint: load::Endpoint,
    nodes: Vec<load::Endpoint>,
    /// Further processes only where they are brokers.
    processes: Processes,
    /// Whether others record it.
    is_recorded: bool,
}

impl Loaded {
    fn of(broker: &dyn Broker) -> Self {
        let mut processes = broker.processes();
        for pid in &mut processes.further {
            *pid = pid.filter(|pid| brokers::is_broker(*pid));
        }
        Self {
            identity: broker.identity().clone(),
            endpoint: broker.endpoint().clone(),
            nodes: broker.nodes(),
            processes,
            is_recorded: false,
        }
    }

    /// Where workers record so many of its nodes, this process records none.
    fn recorded_by(self, recorders: usize) -> Self {
        if recorders == 0 {
            return self;
        }
        let unseen = (self.processes.further.len() + 1).saturating_sub(recorders);
        let on_this_machine = self.processes.on_this_machine;
        let processes = Processes { further: vec![None; unseen], on_this_machine, ..Processes::default() };
        Self { nodes: Vec::new(), processes, is_recorded: true, ..self }
    }

    fn pids(&self) -> Vec<u32> {
        let Processes { main, further, .. } = &self.processes;
        main.iter().chain(further.iter().flatten()).copied().collect()
    }

    fn usage(&self) -> Box<ProcUsage> {
        let Processes { main, further, .. } = &self.processes;
        let of_nodes = self.nodes.iter().map(|node| node.port);
        let one = self.nodes.is_empty().then_some(self.endpoint.port);
        let mut usage = ProcUsage::new(*main).with_further(further.iter().copied().flatten());
        usage.ports = of_nodes.chain(one).collect();
        usage.returns_at.0 = self.processes.returns_at(&self.endpoint);
        Box::new(if self.nodes.is_empty() { usage } else { usage.of_nodes() })
    }

    fn context(
        &self,
        scenarios: &[Box<dyn Scenario>],
        origin: Time,
        experiment: &Experiment,
        options: &RunOptions,
    ) -> Result<RunContext, Error> {
        // Validation finds that first.
        let nothing = || Problem::new("the experiment has no load", "", "add [[load]], [churn] or [[probe]]");
        let first = scenarios.first().ok_or_else(nothing).map_err(Error::Usage)?;
        let plan = first.plan();
        let processes = &self.processes;
        Ok(RunContext {
            origin,
            phases: first.phases(),
            scenarios: scenarios.iter().map(|it| ScenarioContext::of(&**it)).collect::<Result<_, _>>()?,
            broker: self.identity.summary(processes.main),
            shared_machine: processes.on_this_machine,
            sees_all_brokers: processes.further.iter().all(Option::is_some),
            listener: processes.listener,
            profile: experiment.profile.options(),
            insecure: self.endpoint.tls.as_ref().is_some_and(|tls| tls.insecure),
            planned: Planned {
                capacity: plan.and_then(|plan| calibration::kept()?.capacity(plan)),
                filled: plan.map_or(0, |plan| filled(plan, experiment, &self.endpoint)),
                ..Planned::of(&**first)
            },
            requirements: (experiment.require.iter()).map(|spec| spec.that.clone()).collect(),
            fleet: options.carrier.fleet(),
            texts: options.texts,
        })
    }

    /// Prepares the profiles of a run that is archived: of each node of a cluster one, with its number.
    fn profiling(
        &self,
        options: &[profile::Options],
        start: &Start,
        writer: Option<&RunWriter>,
        observer: &mut dyn Observer,
    ) -> Profiling {
        let Some(writer) = writer.filter(|_| !options.is_empty() && !self.is_recorded) else {
            return Profiling::off();
        };
        observer.step("preparing the profiler");
        let nodes = 0..self.nodes.len().max(1);
        let of_each = nodes.map(|node| match self.processes.of_node(node) {
            // A run without a profile is worth having: the warning says what to do.
            Some(pid) => start
                .profiling(options, pid, self.number(node), writer)
                .unwrap_or_else(|e| Profiling::unavailable(&e.sentence())),
            None => Profiling::unavailable(
                "the broker's process is not known: it runs on another machine or for another user; \
                 give its number with --set broker.pid=N, or set profile.events = []",
            ),
        });
        of_each.reduce(Profiling::and).unwrap_or_default()
    }

    fn number(&self, node: usize) -> Option<u32> {
        u32::try_from(node).ok().filter(|_| self.nodes.len() > 1)
    }

    fn blocks(&self, spec: &ProfileSpec, seed: u64) -> Blocks {
        spec.blocks.map_or_else(Blocks::default, |length| Blocks::wanted(length.0, seed, self.usage()))
    }
}
