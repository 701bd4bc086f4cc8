//! Nodes of the broker that workers record. When the load is over their folders come here, and become parts of the run:
//! what they hold counts from the same start, and carries the number of its node as in a cluster on one machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use archive::{BrokerUse, Event, Facts, Finding, NodeFolder, NodeSummary, ProcessUsage, ProfileGap, Tier, Warning};
use experiment::Experiment;
use fleet::{CoordinatorInput, Member, WorkerState};
use measure::{Clock, Nanos, Time};
use stacks::{Profile, ProfileHeader, USUAL_EVENT};

use super::{FleetRun, POLL_INTERVAL, clean, lock, part};
use crate::Error;
use crate::judge::profile_incomplete;
use crate::run::companion::{Collected, LoadEnd, SeriesRow};

/// The longest that workers may take to write what they have recorded.
const RECORDINGS_TIMEOUT: Duration = Duration::from_secs(60);
/// Events, and warnings, of a node that are kept.
const MOST_TOLD: usize = 100;
/// Characters of a sentence of a worker that are kept.
const LONGEST_SENTENCE: usize = 500;

/// The way to the workers, beside their messages.
pub trait WorkerLink: Send + Sync {
    /// Changes of the connection since the last call: when, and which.
    fn notes(&self) -> Vec<(Time, String)>;

    /// Fetches the folders that these workers have of a run, and hands them to `take`, one after the other; those that
    /// could not be had, as sentences. Errors: there is no room for them.
    fn fetch(&self, run: &str, workers: &[String], take: &mut dyn FnMut(&Path)) -> Result<Vec<String>, Error>;
}

/// A worker that records a node of the broker.
#[derive(Clone, Debug)]
pub(super) struct NodeRecorder {
    /// Its number among all workers.
    index: usize,
    worker: String,
    /// The node's Erlang name, else its command.
    node: String,
    problem: Option<String>,
}

/// A node as its worker recorded it.
#[derive(Debug)]
pub(super) struct RecordedNode {
    used: ProcessUsage,
    /// Its threads.
    threads: Option<BrokerUse>,
    profiles: Vec<Profile>,
}

/// A worker's words, without what harms a terminal or fills a page.
pub(super) fn sentence(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(LONGEST_SENTENCE).collect()
}

impl NodeRecorder {
    /// For people, before the run.
    pub(super) fn sentence(&self) -> String {
        let (worker, node) = (clean(&self.worker), &self.node);
        match &self.problem {
            None => format!("worker {worker} records {node}"),
            Some(why) => format!("worker {worker} is to record {node}: {}", sentence(why)),
        }
    }

    /// Says in the run that something of the node is missing.
    fn lacks(&self, why: &str) -> Warning {
        profile_incomplete(&format!("node {}, recorded by worker {}: {why}", self.node, clean(&self.worker)))
    }
}

/// Series of a node, as rows of the run.
fn rows(folder: &NodeFolder, node: u32, origin: Time) -> Vec<SeriesRow> {
    let row = |((t, length), values)| SeriesRow { since: origin + t, length, values };
    folder.rows(node).into_iter().map(row).collect()
}

/// Warnings of a node's profiles, by the names that these have in the run.
fn warnings(folder: &NodeFolder, node: Option<u32>, by: &NodeRecorder) -> Vec<Warning> {
    let of_profile = |it: &&Warning| {
        let finding = &it.finding;
        matches!(finding, Finding::ProfileIncomplete { .. } | Finding::LostSamples { .. })
            || matches!(finding, Finding::ProfilerThrottled { .. })
    };
    let warning = move |of: &Warning| {
        let event = of.event.clone().unwrap_or_else(|| USUAL_EVENT.to_owned());
        let name = ProfileHeader { event, node, ..ProfileHeader::default() }.name();
        let mut warning = match &of.finding {
            Finding::ProfileIncomplete { gap: ProfileGap::Other { why } } => by.lacks(&sentence(why)),
            _ => of.clone(),
        };
        warning.event = Some(name).filter(|it| it != USUAL_EVENT);
        warning
    };
    folder.reader.record.warnings.iter().filter(of_profile).take(MOST_TOLD).map(warning).collect()
}

impl FleetRun {
    /// The workers that record, in the order of their names.
    pub(super) fn recorders(&self) -> Vec<NodeRecorder> {
        let recorder = |(index, it): (usize, &Member)| {
            let process = it.facts.records.as_ref()?;
            let (worker, node) = (it.facts.name.clone(), clean(&process.name));
            Some(NodeRecorder { index, worker, node, problem: process.problem.clone() })
        };
        self.host.with(|it| it.members().iter().enumerate().filter_map(recorder).collect())
    }

    /// Has them record from before the load begins until all of it has ended.
    pub(super) fn share_recordings(&self, experiment: &Experiment) -> Result<(), load::Error> {
        let plan = part::recording(experiment)?;
        for recorder in self.recorders() {
            let (worker, workers) = (recorder.index as u32, self.workers() as u32);
            let share = fleet::Share { worker, workers, plan: plan.clone(), run_id: 0, files: 0 };
            self.inputs().send(CoordinatorInput::Share(share));
        }
        Ok(())
    }

    /// Waits for the recordings, and adds them to the run.
    pub(super) fn collect_nodes(&self, run: &mut LoadEnd<'_>, collected: &mut Collected) {
        let recorders = self.recorders();
        if recorders.is_empty() {
            return;
        }
        let is_busy = |it: &Member| it.records() && it.lost.is_none() && it.state != WorkerState::Done;
        let until = Instant::now() + RECORDINGS_TIMEOUT;
        while self.host.with(|it| it.members().iter().any(is_busy)) && Instant::now() < until {
            thread::sleep(POLL_INTERVAL);
        }
        let (mut folders, mut failed) = (BTreeMap::new(), Vec::new());
        let mut take = |dir: &Path| match NodeFolder::read(dir) {
            Ok(folder) => {
                let worker = folder.reader.record.fleet.as_ref().map(|it| it.name.clone());
                folders.insert(worker.unwrap_or_default(), folder);
            }
            Err(problem) => failed.push(problem.sentence()),
        };
        let is_there = |it: &&NodeRecorder| self.worker(it.index, |it| it.lost.is_none()) == Some(true);
        let names: Vec<String> = recorders.iter().filter(is_there).map(|it| it.worker.clone()).collect();
        match self.link.fetch(&self.name, &names, &mut take) {
            Ok(lacking) => failed.extend(lacking),
            Err(error) => failed.push(error.problem().sentence()),
        }
        collected.notes.extend(failed.iter().map(|it| sentence(it)));
        for (node, recorder) in (0..).zip(&recorders) {
            match folders.remove(&recorder.worker) {
                Some(folder) => {
                    let number = (recorders.len() > 1).then_some(node);
                    collected.warnings.extend(warnings(&folder, number, recorder));
                    self.add_node(node, number, recorder, folder, run, collected);
                }
                None => {
                    let lost = self.worker(recorder.index, |it| it.lost.clone()).flatten();
                    let why = lost.unwrap_or_else(|| "its recording did not come".to_owned());
                    collected.warnings.push(recorder.lacks(&sentence(&why)));
                }
            }
        }
    }

    /// Adds a node to the run; `number` tells it apart from others.
    fn add_node(
        &self,
        node: u32,
        number: Option<u32>,
        recorder: &NodeRecorder,
        mut folder: NodeFolder,
        run: &mut LoadEnd<'_>,
        collected: &mut Collected,
    ) {
        let (origin, unix_ns) = (run.record.origin, run.record.origin_unix_ns);
        collected.rows.extend(rows(&folder, node, origin));
        let events = folder.reader.record.events.iter().take(MOST_TOLD);
        let event = |it: &Event| {
            let at = origin + Nanos::from_secs_f64(it.t);
            (at, format!("{}: {}", recorder.node, sentence(&it.label)))
        };
        collected.events.extend(events.map(event));
        if let Some(why) = &folder.reader.record.error {
            collected.warnings.push(recorder.lacks(&sentence(why)));
        }
        let clock = |it: &Member| (it.clock.to_worker(Clock.now()).map(|it| it.1), it.clock.has_moved());
        let (bound, has_moved) = self.worker(recorder.index, clock).unwrap_or_default();
        if has_moved {
            let moved = Finding::WorkerClock { worker: clean(&recorder.worker) };
            collected.warnings.push(Warning::new(Tier::Caution, moved));
        }
        for profile in &mut folder.profiles {
            let header = &mut profile.header;
            (header.node, header.origin, header.origin_unix_ns) = (number, origin, unix_ns);
        }
        let cpu_cores = folder.summary.cpu_cores.broker.unwrap_or_default();
        let rss_mb = folder.summary.rss_mb.broker.unwrap_or_default();
        run.summary.nodes.push(NodeSummary {
            node,
            cpu_cores,
            ran_s: None,
            rss_mb,
            name: Some(recorder.node.clone()),
            clock_bound_s: bound.map(Nanos::as_secs_f64),
        });
        lock(&self.nodes).push(RecordedNode {
            used: ProcessUsage { cpu_cores, rss_bytes: (rss_mb * 1e6) as u64, threads: 0 },
            threads: folder.summary.verdict.and_then(|it| it.facts.broker),
            profiles: folder.profiles,
        });
    }

    /// Usage of the broker in the measured phase, and its largest memory: the sums of all nodes that are recorded;
    /// `None` where none is, or one is missing.
    pub(crate) fn recorded_use(&self) -> Option<ProcessUsage> {
        let nodes = lock(&self.nodes);
        let is_whole = !nodes.is_empty() && nodes.len() == self.recorders().len();
        let sum = |all: ProcessUsage, it: &RecordedNode| ProcessUsage {
            cpu_cores: all.cpu_cores + it.used.cpu_cores,
            rss_bytes: all.rss_bytes + it.used.rss_bytes,
            threads: 0,
        };
        is_whole.then(|| nodes.iter().fold(ProcessUsage::default(), sum))
    }

    /// Profiles of nodes, once.
    pub(crate) fn take_profiles(&self) -> Vec<Profile> {
        lock(&self.nodes).iter_mut().flat_map(|it| std::mem::take(&mut it.profiles)).collect()
    }

    /// The broker's threads are those of the node whose threads are the busiest.
    pub(super) fn amend_broker(&self, facts: &mut Facts) {
        let nodes = lock(&self.nodes);
        let busiest = nodes.iter().filter_map(|it| it.threads.as_ref());
        let busiest = busiest.max_by(|one, other| {
            let share = |it: &BrokerUse| it.busiest_thread.unwrap_or_default();
            share(one).total_cmp(&share(other))
        });
        if let (Some(broker), Some(busiest)) = (&mut facts.broker, busiest) {
            *broker = BrokerUse { cores: broker.cores, ..busiest.clone() };
        }
    }
}
