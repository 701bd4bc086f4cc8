//! Queues, and messages in them, that are there before a run begins.

use std::time::Instant;

use load::{Control, Endpoint, Plan, RunEvent, Sink};
use measure::{Counters, Interval, Nanos, Problem};

use crate::{Error, Observer};
use experiment::{Experiment, LoadSpec};

/// The measured phase of a plan that only declares queues: nothing else would end it.
const AT_ONCE: Nanos = Nanos(1_000_000);

/// Makes the queues of `[[prepare]]`, and fills each queue before the load begins. The messages carry a number of their
/// own, so that the run does not take them for its own. Returns a text of what was made.
pub(super) fn fill(
    experiment: &Experiment,
    endpoint: &Endpoint,
    run_id: u32,
    control: &Control,
    observer: &mut dyn Observer,
) -> Result<String, Error> {
    let filling = experiment.filling();
    if filling.load.is_empty() {
        return Ok(String::new());
    }
    let mut plan = filling.plan(endpoint, run_id)?;
    let wanted = limit(&mut plan, &filling.load);
    let text = match wanted {
        0 => format!("declaring {}", queues(&plan)),
        _ => format!(
            "filling {} with {} messages",
            queues(&plan),
            measure::count(wanted)
        ),
    };
    if wanted == 0 {
        plan.phases.measure = Some(AT_ONCE);
        plan.phases.drain = AT_ONCE;
    }
    observer.step(&text);
    let made = format!("{}: {}", queues(&plan), measure::counted(wanted, "message"));
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
        return Ok(made);
    }
    Err(Error::Failed(Problem::new(
        format!(
            "the broker took {} of the {} messages that were to stand in its queues",
            measure::count(completed),
            measure::count(wanted)
        ),
        format!(
            "{} refused, {} without an answer",
            measure::count(outcome.totals.nacked),
            measure::count(outcome.unconfirmed)
        ),
        "look at the queue's limits (x-max-length, x-overflow) and the broker's alarms, or take a smaller `fill`",
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

/// The filled queues, as text.
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
