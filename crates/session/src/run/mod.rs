//! One experiment, from broker to archive.

mod blocked;
mod blocks;
mod contention;
mod continuous;
mod facts;
mod faults;
mod filling;
mod finish;
mod memory;
mod named_process;
mod nodes;
mod observer_effect;
mod own_pages;
mod page_cpu;
mod preparing;
mod profiled_blocks;
mod profiling;
mod record;
mod recording;
mod requested;
mod returned;
mod scenarios;
mod scraping;
mod second_start;
mod served;
mod silences;
#[cfg(test)]
mod tests;
mod topology;
mod traced;
mod tracing;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::thread;

use archive::profile::{Profile, ProfileHeader};
use archive::{Labels, RunLock, RunRecord, RunWriter, Topology, Versions};
use measure::{Clock, Interval, Problem, Time, wall_clock_unix_ns};

use crate::brokers::{self, Broker, Identity, Processes};
use crate::experiment::{ProbedAddresses, ProfileSpec};
use crate::judge::Planned;
use crate::look::Looks;
use crate::scenarios::MakeScenario;
use crate::usage::ProcUsage;
use crate::{Error, Experiment, Observer, calibration, hardware, redact};
pub use continuous::{ContinuousOptions, PeriodEnd, Told, record_continuously};
use faults::{Beside, Timeline};
use finish::Ending;
use memory::{MemoryPlan, MemoryWatch};
pub use named_process::nodes_called;
use observer_effect::Blocks;
use own_pages::OwnPages;
use profiling::{Profiling, Sampling};
pub use record::{RecordOptions, Target, record};
use recording::Recording;
use recording::RunContext;
use returned::Reattach;
pub(crate) use scenarios::ScenarioContext;
use scraping::Scraping;
pub use second_start::run_again_if_not_ready;
use topology::TopologyReader;
use tracing::{Tracing, traced_broker};

/// Lines of the broker's log that a run keeps that broke off.
const LAST_LINES: usize = 5;

/// How to run, as opposed to what.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where run folders are made; `None` keeps no archive (and so takes no profile).
    pub runs_dir: Option<PathBuf>,
    /// What is said of the run beforehand, which is kept in its folder.
    pub labels: Labels,
    /// The command line that does it again. Who parsed it leaves secrets out; what looks like one in it is hidden
    /// once more before it is kept.
    pub command: Vec<String>,
    /// The `bellows` executable, which is started again for the embedded broker and for the
    /// guardian of a managed one.
    pub bellows_exe: PathBuf,
    /// The kinds of load that an experiment can ask for: [`crate::SCENARIOS`].
    pub scenarios: &'static [MakeScenario],
    /// Makes the sentences that the archive keeps beside the data.
    pub texts: Texts,
}

/// What makes sentences of a verdict and of warnings: `report` has it. By default none are made.
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
        Self {
            verdict: |_| {},
            warning: |_| String::new(),
            options: |_, _| {},
        }
    }
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The run folder, where one was kept.
    pub run_dir: Option<PathBuf>,
    /// What stands in `run.json`; `summary` is always present. Where the load broke off, `state`
    /// is `failed` and `error` says why; what was measured until then is there all the same.
    pub record: RunRecord,
    /// The measured phase as one interval with whole histograms, which also hold what was
    /// acknowledged and delivered in the drain.
    pub measured: Interval,
    /// What was sampled in the measured phase, as it stands in the run folder: a profile of each event.
    pub profiles: Vec<Profile>,
    /// Keeps others from removing the run folder while this lasts.
    pub lock: RunLock,
}

/// Refuses what is known to fail without a broker: an experiment that makes no sense, a requirement about what is not measured, an
/// installation that is not there.
///
/// # Errors
/// The first of them, with the remedy.
pub fn check(experiment: &Experiment, scenarios: &[MakeScenario]) -> Result<(), Error> {
    experiment.validate()?;
    check_requirements(experiment, scenarios)?;
    check_source_addresses(experiment)?;
    Ok(brokers::check_installed(&experiment.broker)?)
}

/// Runs an experiment: starts or attaches the broker, applies load, samples and profiles, writes
/// the archive as it goes, stops the broker. The report is drawn afterwards by the caller.
///
/// # Errors
/// Where the experiment makes no sense, the broker cannot be had, or the load cannot be started;
/// no run folder is left then. A load that breaks off later is in [`RunOutcome::record`].
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    check(experiment, options.scenarios)?;
    let prepared = preparing::prepare(experiment, options, control, observer)?;
    let data = prepared.as_ref().map(|it| &it.data);
    let exe = &options.bellows_exe;
    let mut broker = brokers::start_with(experiment, data, exe, control, observer)?;
    let outcome = apply_load(&mut *broker, experiment, options, control, observer);
    if broker.identity() != &Identity::default() {
        observer.step(&format!("stopping {}", broker.identity().product));
    }
    if let Err(error) = broker.stop() {
        observer.step(&error.to_string());
    }
    outcome
}

/// Refuses requirements about latencies that the experiment's scenarios do not measure, before anything is
/// started.
fn check_requirements(experiment: &Experiment, scenarios: &[MakeScenario]) -> Result<(), Error> {
    if experiment.require.is_empty() {
        return Ok(());
    }
    // Which broker it will be does not matter to what is measured.
    let endpoint = load::Endpoint::new("localhost", 0);
    let mut metrics = Vec::new();
    let experiment = experiment.with_addresses(&ProbedAddresses::default());
    for make in scenarios {
        let made = make(&experiment, &endpoint, 0)?;
        metrics.extend(made.iter().flat_map(|scenario| scenario.metrics()));
    }
    let mut required = experiment.require.iter();
    required
        .try_for_each(|spec| spec.that.check(&metrics))
        .map_err(Error::Usage)
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
/// on it. What the experiment says of how the broker is started has no effect.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    broker: &mut dyn Broker,
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    experiment.validate()?;
    check_requirements(experiment, options.scenarios)?;
    apply_load(broker, experiment, options, control, observer)
}

fn apply_load(
    broker: &mut dyn Broker,
    experiment: &Experiment,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    if control.is_stopping() {
        return Err(Error::Stopped { during: "start" });
    }
    let plans = experiment
        .with_metrics_servers(broker.metrics_servers())
        .scrape_plans()
        .map_err(Error::Usage)?;
    let memory_plan = MemoryPlan::of(experiment, broker)?;
    let endpoint = broker.endpoint().clone();
    let copied = broker.copied();
    if copied.is_none() {
        filling::fill(experiment, &endpoint, Start::now().seed, control, observer)?;
    }
    let start = Start::now();
    let processes = broker.processes();
    let found = processes.further.iter();
    let further: Vec<Option<u32>> = found
        .map(|pid| pid.filter(|pid| brokers::is_broker(*pid)))
        .collect();
    let identity = broker.identity().clone();
    let mut scenarios = Vec::new();
    let mut own_pages = OwnPages::start(experiment, broker)?;
    let resolved = experiment.with_addresses(&own_pages.addresses(broker));
    let traced = traced_broker(experiment, &*broker)?;
    let tracing = Tracing::of(traced.log.clone());
    let resolved = resolved
        .with_nodes(broker.nodes())
        .with_traced(traced)
        .on_prepared(copied.is_some());
    for make in options.scenarios {
        scenarios.extend(make(&resolved, &endpoint, start.seed)?);
    }
    let first = scenarios.first().ok_or_else(nothing_to_do)?;
    let mut record = start.record(&experiment.name, options);
    record.experiment = experiment.to_json();
    record.versions.broker = identity.name();
    record.versions.runtime.clone_from(&identity.runtime);
    record.metrics = scenarios.iter().flat_map(|it| it.metrics()).collect();
    let writer = start.writer(options, &mut record)?;

    let profiling = match &writer {
        Some(writer) => attach(
            &experiment.profile,
            &sampled(&processes, broker.nodes().len()),
            &start,
            writer,
            observer,
        ),
        None => Profiling::off(),
    };
    let contexts = scenarios.iter().map(|it| ScenarioContext::of(&**it));
    let context = RunContext {
        origin: start.origin,
        phases: first.phases(),
        scenarios: contexts.collect::<Result<_, _>>()?,
        broker: identity.summary(processes.main),
        shared_machine: processes.on_this_machine,
        sees_all_brokers: further.iter().all(Option::is_some),
        listener: processes.listener,
        profile: experiment.profile.options(),
        insecure: endpoint.tls.as_ref().is_some_and(|tls| tls.insecure),
        planned: Planned {
            capacity: first
                .plan()
                .and_then(|plan| calibration::kept()?.capacity(plan)),
            ..Planned::of(&**first)
        },
        requirements: experiment
            .require
            .iter()
            .map(|spec| spec.that.clone())
            .collect(),
        texts: options.texts,
    };
    let nodes = broker.nodes();
    let mut ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
    if ports.is_empty() {
        ports.push(endpoint.port);
    }
    let usage = || {
        let usage = ProcUsage::new(processes.main)
            .with_further(further.iter().copied().flatten())
            .connected_to(ports.iter().copied())
            .returning_at(processes.returns_at(&endpoint));
        Box::new(match nodes.is_empty() {
            true => usage,
            false => usage.of_nodes(),
        })
    };
    let length = experiment.profile.blocks;
    let blocks = length.map(|length| Blocks::wanted(length.0, start.seed.into(), usage()));
    observer.step("connecting");
    let profiled = profiling.is_on();
    let reattach = (writer.as_ref().filter(|_| profiled))
        .map(|writer| Reattach::new(start, experiment.profile.options(), writer.dir()));
    let mut recording = Recording::new(context, record, writer, profiling, usage(), observer);
    recording.blocks = blocks.unwrap_or_default();
    recording.logs = broker.follow_logs();
    recording.tracing = tracing;
    recording.looks = Looks::of(broker.directories());
    let own = [processes.main].into_iter().chain(further.iter().copied());
    let own: Vec<u32> = own.flatten().collect();
    recording.scraping = Scraping::of(plans).served_by(&own, start.seed.into());
    recording.memory = MemoryWatch::of(memory_plan);
    if let Some(cost) = copied {
        recording.note(&format!(
            "the broker began with a copy of prepared data: {cost}"
        ));
    }
    let (result, during) = thread::scope(|scope| {
        if !experiment.fault.is_empty() {
            let beside = Beside { profiled, reattach };
            let (faults, broker) = (&experiment.fault, &mut *broker);
            let timeline = Timeline::start(scope, faults, broker, control, beside);
            return recording.run(&scenarios, control, timeline);
        }
        let (reader, sending_ended) = TopologyReader::start(scope, &mut *broker, control, profiled);
        recording.sending_ended = Some(sending_ended);
        let (result, _) = recording.run(&scenarios, control, None);
        recording.sending_ended = None;
        (result, reader.finish())
    });
    let mut warnings = recording.finish_scraping();
    warnings.extend(recording.finish_tracing());
    for note in own_pages.close() {
        recording.note(&note);
    }
    match result {
        Ok(outcome) if outcome.error.is_none() && recording.is_stopped_early(control) => {
            let during = match recording.started {
                Some(_) => "warm-up",
                None => "start",
            };
            recording.discard();
            Err(Error::Stopped { during })
        }
        Ok(outcome) => {
            let interrupted = outcome.interrupted || outcome.error.is_some();
            warnings.extend(recording.of_faults(&experiment.fault, interrupted));
            warnings.extend(Recording::of_nodes(broker));
            if !experiment.fault.is_empty() {
                match broker.played_faults() {
                    Ok(Some(played)) => recording.played(&experiment.fault, &played),
                    Ok(None) => {}
                    Err(error) => recording.note(&error.to_string()),
                }
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
            let state = topology::at_end(during, left, &*broker, profiled, control);
            let topology = state.topology.unwrap_or_else(|error| {
                recording.note(&error.to_string());
                Topology::default()
            });
            let named =
                (state.processes.into_iter())
                    .enumerate()
                    .map(|(node, named)| match named {
                        // A node that was restarted gives its processes the identifiers of others.
                        Ok(_) if !recording.profiling.is_of(node, now.of_node(node)) => Vec::new(),
                        Ok(named) => named,
                        Err(error) => {
                            recording
                                .note(&format!("Erlang processes stay without names: {error}"));
                            Vec::new()
                        }
                    });
            let processes = named.collect();
            recording.tell_logged();
            Ok(recording.finish(Ending {
                outcome,
                topology,
                processes,
                warnings,
            }))
        }
        Err(e) => {
            recording.discard();
            Err(e.into())
        }
    }
}

/// The problem of an experiment of which no scenario takes anything; validation finds that first.
fn nothing_to_do() -> Error {
    Error::Usage(Problem::new(
        "the experiment has no load",
        "",
        "add [[load]], [churn] or [[probe]]",
    ))
}

/// The process of each node that a profile is taken of, with the node's number in a cluster.
type Sampled = (Option<u32>, Option<u32>);

fn sampled(processes: &Processes, nodes: usize) -> Vec<Sampled> {
    match nodes {
        0 | 1 => vec![(None, processes.main)],
        several => (0..several)
            .map(|node| (u32::try_from(node).ok(), processes.of_node(node)))
            .collect(),
    }
}

fn attach(
    spec: &ProfileSpec,
    sampled: &[Sampled],
    start: &Start,
    writer: &RunWriter,
    observer: &mut dyn Observer,
) -> Profiling {
    let options = spec.options();
    if options.is_empty() {
        return Profiling::off();
    }
    observer.step("preparing the profiler");
    let of_each = sampled.iter().map(|(node, process)| match process {
        // A run without a profile is worth having: the warning says what to do.
        Some(pid) => start
            .profiling(&options, *pid, *node, writer)
            .unwrap_or_else(|e| Profiling::unavailable(&e.problem().sentence())),
        None => Profiling::unavailable(
            "the broker's process is not known: it runs on another machine or for another user; \
             give its number with --set broker.pid=N, or set profile.events = []",
        ),
    });
    of_each.reduce(Profiling::and).unwrap_or_default()
}

/// The moment that a run's time counts from.
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
        Self {
            origin: Clock.now(),
            unix_ns: wall_clock_unix_ns(),
            seed,
        }
    }

    /// A record of what is known when a run begins.
    pub(crate) fn record(&self, name: &str, options: &RunOptions) -> RunRecord {
        let created =
            jiff::Timestamp::from_nanosecond(i128::from(self.unix_ns)).unwrap_or_default();
        RunRecord {
            schema: RunRecord::SCHEMA.to_owned(),
            name: name.to_owned(),
            created: format!("{created:.0}"),
            command: redact::words(&options.command),
            versions: Versions {
                bellows: env!("CARGO_PKG_VERSION").to_owned(),
                ..Versions::default()
            },
            hardware: hardware::read(),
            seed: self.seed.into(),
            origin: self.origin,
            origin_unix_ns: self.unix_ns,
            ..RunRecord::default()
        }
    }

    /// Makes the run folder, where one is wanted, and writes the record into it.
    pub(crate) fn writer(
        &self,
        options: &RunOptions,
        record: &mut RunRecord,
    ) -> Result<Option<RunWriter>, Error> {
        let Some(runs_dir) = &options.runs_dir else {
            return Ok(None);
        };
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
    ) -> Result<Profiling, profile::Error> {
        let header = ProfileHeader {
            node,
            ..ProfileHeader::new(self.origin, self.unix_ns)
        };
        let sampling = Sampling {
            options,
            dir: writer.dir(),
            part: 0,
        };
        Profiling::attach(&sampling, pid, &header)
    }
}
