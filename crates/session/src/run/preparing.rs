//! Prepares a broker's data once, and finds it again, for runs to begin with a copy; fills queues before a run begins.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use brokers::NodeData;
use linux::machine;
use load::payload::{FULL_LEN, PREFILL_RUN};
use load::{Control, Endpoint, Plan, RunEvent, Sink};
use measure::{Clock, Counters, Interval, Nanos, Problem, wall_clock_unix_ns};

use super::RunOptions;
use crate::prepared::{self, DATA, PreparedData, PreparedFolder};
use crate::{Error, Observer};
use experiment::{BrokerSpec, Experiment, LoadSpec};

/// Seconds in which the compact header's clock, which wraps after 78 hours, distinguishes older messages.
const COMPACT_CLOCK_S: u64 = 72 * 3_600;

/// Data that a run begins with a copy of.
#[derive(Debug)]
pub(super) struct PreparedInUse {
    pub(super) data: NodeData,
    /// Keeps others from removing it.
    _lock: File,
}

/// The data that an experiment's broker begins with, prepared earlier or now. `None` where none is requested.
pub(super) fn prepare(
    experiment: &Experiment,
    options: &RunOptions,
    control: &Control,
    observer: &mut dyn Observer,
) -> Result<Option<PreparedInUse>, Error> {
    if !experiment.broker.is_prepared() {
        return Ok(None);
    }
    let broker = experiment.preparing_broker();
    let described = brokers::rabbitmq::described(broker)?;
    let key = prepared::key_of(&experiment.filling(), broker, &described)?;
    let folder = PreparedFolder::of(experiment.broker.data_dir.as_deref())?;
    let usable = |observer: &mut dyn Observer| {
        let found = folder.find(&key)?;
        if let Some(why) = folder.damage(&found) {
            observer.step(&format!("prepared data {key} is incomplete: {why}"));
            return None;
        }
        is_usable(&found, experiment).then_some(found)
    };
    let shared = folder.lock(&key, true, control, observer)?;
    if let Some(found) = usable(observer) {
        return Ok(Some(PreparedInUse::of(&folder, &found, shared)));
    }
    drop(shared);
    let alone = folder.lock(&key, false, control, observer)?;
    // Another bellows may have made it meanwhile.
    if usable(observer).is_none() {
        let maker = Maker { experiment, broker, described: &described, folder: &folder, key: &key };
        maker.make(&options.bellows_exe, control, observer)?;
    }
    drop(alone);
    let shared = folder.lock(&key, true, control, observer)?;
    match folder.find(&key) {
        Some(found) => Ok(Some(PreparedInUse::of(&folder, &found, shared))),
        None => Err(Error::Failed(Problem::new(
            "the prepared data was removed before it could be used",
            folder.data(&key).display(),
            "run it again",
        ))),
    }
}

impl PreparedInUse {
    fn of(folder: &PreparedFolder, found: &PreparedData, lock: File) -> Self {
        Self {
            data: NodeData {
                node: found.node.clone(),
                original: Some(folder.data(&found.key)),
                parent: None,
                prepared_by: found.broker.clone(),
            },
            _lock: lock,
        }
    }
}

/// Whether its messages cannot be mistaken for a run's: the compact header has a time, and no run number.
fn is_usable(found: &PreparedData, experiment: &Experiment) -> bool {
    let sends = experiment.load.iter().any(|load| load.has_producers());
    let age = (Clock.now().0 / 1_000_000_000).checked_sub(found.clock_s);
    let is_of_boot = found.boot == machine::boot_id();
    !(sends && found.has_compact_headers) || (is_of_boot && age.is_some_and(|age| age < COMPACT_CLOCK_S))
}

/// The inputs from which data are prepared.
struct Maker<'a> {
    experiment: &'a Experiment,
    broker: &'a BrokerSpec,
    described: &'a str,
    folder: &'a PreparedFolder,
    key: &'a str,
}

impl Maker<'_> {
    /// Starts a broker, fills it, ends it in order, and keeps its data: all or nothing.
    fn make(&self, bellows_exe: &Path, control: &Control, observer: &mut dyn Observer) -> Result<(), Error> {
        observer.step(&format!("preparing the data of {} once; later runs start from copies", self.described));
        let filling = self.experiment.filling();
        let filler = Experiment {
            broker: BrokerSpec {
                data: None,
                data_dir: None,
                definitions: self.experiment.broker.definitions.clone(),
                policy: self.experiment.broker.policy.clone(),
                ..self.broker.clone()
            },
            ..filling
        };
        let data = NodeData {
            node: format!("bellows-{}@localhost", self.key),
            original: None,
            parent: Some(self.folder.dir().to_owned()),
            prepared_by: String::new(),
        };
        let broker = brokers::start(&filler, Some(&data), bellows_exe, control, &mut |it| observer.progress(it))?;
        let filled = fill(self.experiment, broker.endpoint(), control, observer)?;
        observer.step("stopping the broker");
        let part = self.folder.begin(self.key)?;
        let keep = || -> Result<PreparedData, Error> {
            broker.keep_data(&part.join(DATA), &|| control.is_stopping())?;
            let data = self.describe(&data, filled, &part, &filler)?;
            self.folder.finish(&data)?;
            Ok(data)
        };
        let data = keep().inspect_err(|_| {
            // What cannot be removed now is not used, either.
            let _ = self.folder.clear(self.key);
        })?;
        observer.step(&format!(
            "prepared data {} is kept in {}: {:.1} MB; `bellows runs data` lists and removes it",
            data.key,
            self.folder.dir().display(),
            data.bytes as f64 / 1e6
        ));
        Ok(())
    }

    /// Describes the data once all of them are on disk.
    fn describe(&self, data: &NodeData, what: String, part: &Path, filler: &Experiment) -> Result<PreparedData, Error> {
        let size = brokers::folder_size(&part.join(DATA), true)?;
        let created = jiff::Timestamp::from_nanosecond(i128::from(wall_clock_unix_ns()));
        let plan = || filler.plan(&Endpoint::new("localhost", 0), PREFILL_RUN);
        let plan = (!filler.load.is_empty()).then(plan).transpose()?;
        Ok(PreparedData {
            key: self.key.to_owned(),
            experiment: self.experiment.name.clone(),
            broker: self.described.to_owned(),
            created: format!("{:.0}", created.unwrap_or_default()),
            node: data.node.clone(),
            what,
            files: size.files,
            bytes: size.allocated,
            length: size.bytes,
            boot: machine::boot_id(),
            clock_s: Clock.now().0 / 1_000_000_000,
            has_compact_headers: plan.is_some_and(|plan| plan.least_header() < FULL_LEN),
        })
    }
}

/// The measured phase of a plan that only declares queues: nothing else would end it.
const AT_ONCE: Nanos = Nanos(1_000_000);

/// Makes the queues of `[[prepare]]`, and fills each queue before the load begins. The messages carry a number of their
/// own, so that the ledger leaves them out. Returns a text of what was made.
pub(super) fn fill(
    experiment: &Experiment,
    endpoint: &Endpoint,
    control: &Control,
    observer: &mut dyn Observer,
) -> Result<String, Error> {
    let filling = experiment.filling();
    if filling.load.is_empty() {
        return Ok(String::new());
    }
    let mut plan = filling.plan(endpoint, PREFILL_RUN)?;
    let wanted = limit(&mut plan, &filling.load);
    let all = queues(&plan);
    let text = match wanted {
        0 => format!("declaring {all}"),
        _ => format!("filling {all} with {} messages", measure::count(wanted)),
    };
    if wanted == 0 {
        (plan.phases.measure, plan.phases.drain) = (Some(AT_ONCE), AT_ONCE);
    }
    observer.step(&text);
    let made = format!("{all}: {}", measure::counted(wanted, "message"));
    let mut progress = Progress { text, wanted, sums: Counters::default(), began: Instant::now(), observer };
    let outcome = load::run(&plan, control, &mut progress).map_err(|error| match error {
        // These groups are numbered otherwise than the experiment's.
        load::Error::Invalid(problem) => load::Error::Invalid(experiment.explain(problem.about(""))),
        other => other,
    })?;
    if control.is_stopping() {
        return Err(Error::Stopped { during: "filling" });
    }
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    let returned = outcome.totals.returned;
    if returned > 0 {
        return Err(Error::Failed(Problem::new(
            format!("{} of the prepared messages reached no queue", measure::count(returned)),
            format!("queue {}", queues(&plan)),
            "bind the queue to the exchange with the routing key of the messages, or leave out `exchange` and \
             `declare`",
        )));
    }
    let completed = outcome.totals.completed;
    if completed == wanted {
        return Ok(made);
    }
    Err(Error::Failed(Problem::new(
        format!("the broker accepted {} of {} prepared messages", measure::count(completed), measure::count(wanted)),
        format!(
            "{} refused, {} without an answer",
            measure::count(outcome.totals.nacked),
            measure::count(outcome.unconfirmed)
        ),
        "look at the queue's limits (x-max-length, x-overflow) and the broker's alarms, or use a smaller `fill`",
    )))
}

/// Ends each group when its queues are full; returns the number of messages for that.
fn limit(plan: &mut Plan, loads: &[LoadSpec]) -> u64 {
    let mut all = 0_u64;
    for (group, load) in plan.groups.iter_mut().zip(loads) {
        let messages = load.fill.saturating_mul(group.destinations.len() as u64);
        group.producers.message_count = (messages > 0).then_some(messages);
        all = all.saturating_add(messages);
    }
    all
}

fn queues(plan: &Plan) -> String {
    let mut all = plan.groups.iter().flat_map(|group| &group.destinations);
    match (all.next(), all.count()) {
        (Some(first), 0) => first.name.clone(),
        (_, others) => measure::counted(others as u64 + 1, "queue"),
    }
}

/// Reports its progress.
struct Progress<'o> {
    text: String,
    wanted: u64,
    sums: Counters,
    began: Instant,
    observer: &'o mut dyn Observer,
}

impl Sink for Progress<'_> {
    fn interval(&mut self, merged: &Interval) {
        self.sums.add(&merged.counters);
        let percent = 100 * u128::from(self.sums.completed) / u128::from(self.wanted.max(1));
        self.observer.waiting(&format!("{}, {percent} %", self.text), self.began.elapsed());
    }

    fn event(&mut self, event: RunEvent) {
        if let RunEvent::Blocked { reason, .. } = event {
            self.observer.step(&format!("the broker blocks the connection: {reason}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_of_another_boot_are_not_mixed_with_those_of_a_run() {
        let read = |text: &str| Experiment::from_toml(text, "test").unwrap();
        let sends = read("[[load]]\ndestination = \"queue://a\"\n");
        let receives = read("[[load]]\ndestination = \"queue://a\"\nproducers = 0\n");
        let now = Clock.now().0 / 1_000_000_000;
        let fresh = PreparedData {
            boot: machine::boot_id(),
            clock_s: now,
            has_compact_headers: true,
            ..PreparedData::default()
        };
        assert!(is_usable(&fresh, &sends));
        let other_boot = PreparedData { boot: "before".to_owned(), ..fresh };
        assert!(!is_usable(&other_boot, &sends) && is_usable(&other_boot, &receives));
        let long = PreparedData { has_compact_headers: false, ..other_boot };
        assert!(is_usable(&long, &sends), "the run's number is in each message");
    }
}
