//! Messages that stand in queues before a run begins.

use std::time::Instant;

use load::{Control, Endpoint, Plan, RunEvent, Sink};
use measure::{Counters, Interval, Problem};

use crate::experiment::{LoadSpec, PhasesSpec};
use crate::{Error, Experiment, Observer};

/// Messages in flight of each queue's producer: more are no faster.
const IN_FLIGHT: u32 = 2_000;
/// The longest wait for the last confirms.
const LAST_CONFIRMS: measure::Length = measure::Length::seconds(30);

/// Puts into each queue what it is to hold before the load begins. The messages are marked with a number of their own,
/// so that the run does not take them for its own.
pub(super) fn fill(
    experiment: &Experiment,
    endpoint: &Endpoint,
    run_id: u32,
    control: &Control,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let filling = filling(experiment);
    if filling.load.is_empty() {
        return Ok(());
    }
    let mut plan = filling.plan(endpoint, run_id)?;
    let wanted = limit(&mut plan, &filling.load);
    let text = format!(
        "filling {} with {} messages",
        queues(&plan),
        measure::count(wanted)
    );
    observer.step(&text);
    let mut progress = Progress {
        text,
        wanted,
        sums: Counters::default(),
        began: Instant::now(),
        observer,
    };
    let outcome = load::run(&plan, control, &mut progress)?;
    if control.is_stopping() {
        return Err(Error::Stopped { during: "filling" });
    }
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    let returned = outcome.totals.returned;
    if returned > 0 {
        return Err(Error::Failed(Problem::new(
            format!(
                "{} of the messages that were to stand in queues reached none",
                measure::count(returned)
            ),
            format!("queue {}", queues(&plan)),
            "bind the queue to the exchange with the routing key that messages have, or leave out `exchange` and `declare`",
        )));
    }
    let completed = outcome.totals.completed;
    if completed == wanted {
        return Ok(());
    }
    Err(Error::Failed(Problem::new(
        format!(
            "the broker took {completed} of the {wanted} messages that were to stand in its queues"
        ),
        format!(
            "{} refused, {} without an answer",
            outcome.totals.nacked, outcome.unconfirmed
        ),
        "look at the queue's limits (x-max-length, x-overflow) and the broker's alarms, or take a smaller `fill`",
    )))
}

/// The part of an experiment that fills: a producer for each queue, as fast as it can.
fn filling(experiment: &Experiment) -> Experiment {
    let filled = experiment.load.iter().filter(|load| load.fill > 0);
    Experiment {
        load: filled.map(producer).collect(),
        churn: None,
        fault: Vec::new(),
        until: None,
        ledger: false,
        phases: PhasesSpec {
            warmup: measure::Length::seconds(0),
            measure: measure::Length::seconds(0),
            drain: LAST_CONFIRMS,
        },
        ..experiment.clone()
    }
}

fn producer(load: &LoadSpec) -> LoadSpec {
    let mut consumers = load.consumers.clone();
    consumers.per_destination = 0;
    consumers.total = None;
    let mut handling = load.handling;
    handling.delete = false;
    LoadSpec {
        producers: 1,
        total_producers: None,
        producer_connections: None,
        rate: None,
        schedule: None,
        rate_per_producer: false,
        think_time: None,
        start_delay: None,
        start_after: None,
        max_pending: Some(IN_FLIGHT),
        confirm: true,
        commit_every: 0,
        request_reply: false,
        recover: None,
        // A backlog stays until it is consumed, and what reaches no queue is none.
        ttl: None,
        mandatory: true,
        consumers,
        handling,
        ..load.clone()
    }
}

/// Ends each group when its queues are full, and tells how many messages that are.
fn limit(plan: &mut Plan, loads: &[LoadSpec]) -> u64 {
    let mut all = 0_u64;
    for (group, load) in plan.groups.iter_mut().zip(loads) {
        let messages = load.fill.saturating_mul(group.destinations.len() as u64);
        group.producers.message_count = Some(messages);
        all = all.saturating_add(messages);
    }
    all
}

/// The queues that are filled, in words.
fn queues(plan: &Plan) -> String {
    let mut all = plan.groups.iter().flat_map(|group| &group.destinations);
    match (all.next(), all.count()) {
        (Some(first), 0) => first.name.clone(),
        (_, others) => format!("{} queues", others + 1),
    }
}

/// Says how far it is.
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
        let text = format!("{}, {percent} %", self.text);
        self.observer.waiting(&text, self.began.elapsed());
    }

    fn event(&mut self, event: RunEvent) {
        if let RunEvent::Blocked { reason, .. } = event {
            self.observer
                .step(&format!("the broker blocks the connection: {reason}"));
        }
    }
}
