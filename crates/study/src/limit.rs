//! The highest rate that holds: which rate is tried next, how an experiment is run at it, and what the run says of it.

use archive::{
    Cause, FoundLimit, LimitOutcome, LimitPlan, LimitTrial, LimitTrials, LimitedBy, RequirementOutcome, RunRecord,
    RunSummary, Tier, Verdict, Warning, WarningCode,
};
use compare::{LimitStep, limit_step, most_trials_left, round_rate};
use measure::{LatencySummary, Problem, Rate};

use crate::spoiled::{disturbed_by, why_invalid};
use experiment::{Experiment, LoadSpec};
use session::ACHIEVED;

/// The rate that is tried first where the experiment has none, messages per second.
const FIRST: f64 = 10_000.0;

/// The rate of all producers together that the experiment asks for; `None` where they are unthrottled. Refused where
/// nobody sends, a group's rate is decided by something else, or only some of the groups have one.
pub fn requested_rate(experiment: &Experiment) -> Result<Option<f64>, Problem> {
    let mut rates = Vec::new();
    for (number, load) in groups(experiment) {
        if load.schedule.is_some() || load.think_time.is_some() {
            let what = if load.schedule.is_some() { "schedule" } else { "think-time" };
            let help = format!("give the group a rate instead: --set load.{number}.rate=10000");
            return Err(Problem::new("the rate is fixed", format!("load.{number}.{what}"), help));
        }
        rates.push((number, group_rate(load)));
    }
    let cause = "the experiment sends no messages, so there is no rate to search";
    Problem::new(cause, &experiment.name, "give it a load with producers").unless(!rates.is_empty())?;
    let known: Vec<f64> = rates.iter().filter_map(|it| it.1).collect();
    match rates.iter().find(|it| it.1.is_none()) {
        None => Ok(Some(known.iter().sum())),
        Some(_) if known.is_empty() => Ok(None),
        Some((number, _)) => Err(Problem::new(
            "only some groups of producers have a rate",
            format!("load.{number} has none"),
            "give each a rate: they are varied together, in proportion",
        )),
    }
}

/// The first rate of a search: the experiment's own, as [`requested_rate`], or a usual one.
pub fn first_rate(experiment: &Experiment) -> Result<f64, Problem> {
    Ok(requested_rate(experiment)?.unwrap_or(FIRST))
}

/// The experiment at a rate of all its producers; groups keep their proportions, and are alike where they had no rates.
pub fn at_rate(experiment: &Experiment, rate: f64) -> Experiment {
    let sum: f64 = groups(experiment).filter_map(|it| group_rate(it.1)).sum();
    let groups = groups(experiment).count() as f64;
    let mut tried = experiment.clone();
    for load in tried.load.iter_mut().filter(|it| it.has_producers()) {
        let share = group_rate(load).map_or(1.0 / groups, |own| own / sum);
        load.rate = Rate::per_second(rate * share);
        load.rate_per_producer = false;
    }
    tried
}

/// The options of a command line that give the experiment a rate: `load.0.rate=20000`, one for each group that sends.
pub fn rate_options(experiment: &Experiment, rate: f64) -> Vec<String> {
    let tried = at_rate(experiment, rate);
    let mut options = Vec::new();
    for (number, load) in groups(&tried) {
        let own = load.rate.map_or(0.0, Rate::get);
        // Small rates are none where their digits are cut off.
        let digits = match own {
            ..1.0 => 6,
            1.0..100.0 => 2,
            _ => 0,
        };
        options.push(format!("load.{number}.rate={own:.digits$}"));
        if experiment.load.get(number).is_some_and(|it| it.rate_per_producer) {
            options.push(format!("load.{number}.rate-per-producer=false"));
        }
    }
    options
}

fn groups(experiment: &Experiment) -> impl Iterator<Item = (usize, &LoadSpec)> {
    experiment.load.iter().enumerate().filter(|(_, load)| load.has_producers())
}

fn group_rate(load: &LoadSpec) -> Option<f64> {
    let rate = load.rate?.get();
    if !load.rate_per_producer {
        return Some(rate);
    }
    let destinations = load.destinations.len().max(1) * load.num_destinations;
    let producers = load.total_producers.unwrap_or(destinations * load.producers);
    Some(rate * producers as f64)
}

/// The rate that is to be tried next; `None` where the search has ended.
pub fn next_rate(of: &LimitTrials) -> Option<f64> {
    match step(of, of.plan) {
        LimitStep::Try(rate) if of.untold().is_none() => Some(rate),
        LimitStep::Try(_) | LimitStep::Found(_) => None,
    }
}

/// The limit by the trials so far.
pub fn found_limit(of: &LimitTrials) -> FoundLimit {
    match step(of, LimitPlan { most_trials: 0, ..of.plan }) {
        LimitStep::Try(_) => FoundLimit::default(),
        LimitStep::Found(found) => found,
    }
}

/// A third of the limit, and four fifths, which still holds; none where no rate was too high.
pub fn suggested_rates(found: &FoundLimit) -> Option<[(&'static str, f64); 2]> {
    let low = found.low.filter(|_| found.high.is_some());
    low.map(|low| [("calm", round_rate(low / 3.0)), ("busy", round_rate(low * 0.8))])
}

/// The most trials that the search still makes where all further ones agree.
pub fn trials_left(of: &LimitTrials) -> usize {
    most_trials_left(&of.plan, &outcomes(of))
}

fn step(of: &LimitTrials, plan: LimitPlan) -> LimitStep {
    limit_step(&plan, &outcomes(of))
}

fn outcomes(of: &LimitTrials) -> Vec<(f64, Option<bool>)> {
    let held = |it: &LimitTrial| (it.outcome != LimitOutcome::Unclear).then_some(it.outcome == LimitOutcome::Held);
    of.trials.iter().map(|it| (it.rate, held(it))).collect()
}

/// A complete run at a rate, as a trial.
pub fn limit_trial(rate: f64, record: &RunRecord) -> LimitTrial {
    let trial = LimitTrial { id: record.id.clone(), rate, ..LimitTrial::default() };
    let Some(summary) = &record.summary else {
        return LimitTrial { unclear: Some("the run has no summary".to_owned()), ..trial };
    };
    let (latency_name, latency) = shown_latency(summary);
    let verdict = summary.verdict.clone().unwrap_or_default();
    let limited_by = verdict.limited_by;
    let why = shortcomings(summary, limited_by);
    let unclear = beside_the_broker(summary, &verdict).filter(|_| !why.is_empty());
    LimitTrial {
        outcome: match unclear {
            _ if why.is_empty() => LimitOutcome::Held,
            Some(_) => LimitOutcome::Unclear,
            None => LimitOutcome::Missed,
        },
        why,
        unclear,
        sent: summary.flow().sent.rate,
        received: summary.flow().received.rate,
        latency_name,
        latency,
        broker_cores: summary.cpu_cores.broker,
        limited_by,
        slos: summary.requirements.clone(),
        // Beyond its limit a broker falls behind ever more.
        cautions: cautions(summary, |it| is_of_limit(it) || it == WarningCode::NotSteadyState),
        ..trial
    }
}

/// Warnings of any load at the broker's limit.
pub(crate) const fn is_of_limit(code: WarningCode) -> bool {
    use WarningCode::{ConnectionBlocked, GeneratorLate, MessagesNotReceived, MessagesOutstanding, RateNotAchieved};
    matches!(code, RateNotAchieved | GeneratorLate | MessagesOutstanding | MessagesNotReceived | ConnectionBlocked)
}

/// The warnings that put a run's numbers in doubt, but for those that are `expected` of it.
pub(crate) fn cautions(summary: &RunSummary, expected: impl Fn(WarningCode) -> bool) -> Vec<Warning> {
    summary.warnings.iter().filter(|it| it.tier != Tier::Note && !expected(it.code())).cloned().collect()
}

/// Why what a run missed is unclear: faults, others on the machine, or the generator; `None` where it is the broker's.
fn beside_the_broker(summary: &RunSummary, verdict: &Verdict) -> Option<String> {
    let is_other_run = |it: &Warning| it.code() == WarningCode::FaultsMissed && it.tier == Tier::Invalid;
    if summary.warnings.iter().any(is_other_run) {
        return Some("faults were not made as planned".to_owned());
    }
    // Consumers at a pace that was asked for are slow on any machine.
    let is_paced = verdict.cause == Some(Cause::ConsumersSlow);
    let generator = || match verdict.cause {
        _ if verdict.limited_by != LimitedBy::Generator => None,
        Some(Cause::GeneratorBusy) => Some("the generator was saturated"),
        Some(Cause::GeneratorLacksCores { .. }) => Some("the generator waited for cores"),
        _ => Some("the generator was the limit"),
    };
    let others = disturbed_by(summary).filter(|_| !is_paced);
    others.or_else(|| generator().map(str::to_owned))
}

/// Why a rate did not hold. Random arrivals are fewer by chance: whether the rate was met, the verdict says.
fn shortcomings(summary: &RunSummary, limited_by: LimitedBy) -> Vec<String> {
    let mut why = Vec::new();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let achieved = summary.requested().and_then(|it| it.achieved);
    let is_met = limited_by == LimitedBy::Schedule;
    if let Some(achieved) = achieved.filter(|it| *it < ACHIEVED && !is_met) {
        why.push(format!("only {} of the messages due were sent", percent(achieved)));
    }
    let expected = expected_rate(summary).filter(|it| *it > 0.0);
    let received = expected.map(|expected| summary.flow().received.rate / expected);
    if let Some(received) = received.filter(|it| *it < ACHIEVED) {
        why.push(format!("the backlog grew: only {} of the deliveries arrived", percent(received)));
    }
    // A saturated generator says nothing of the rate.
    let broken = summary.warnings.iter().filter(|it| it.code() != WarningCode::GeneratorSaturated);
    why.extend(broken.filter_map(why_invalid).map(str::to_owned));
    let missed = |it: &&RequirementOutcome| it.met != Some(true);
    for slo in summary.requirements.iter().filter(missed) {
        why.push(match (&slo.why, slo.met) {
            (Some(why), None) => format!("{} is inconclusive: {why}", slo.that),
            _ => format!("missed {}", slo.that),
        });
    }
    why
}

/// Deliveries per second that what was sent should lead to; `None` where nobody receives. Where an exchange decides how
/// many a message has, the whole run tells: it ends when all is delivered, or says what is not.
fn expected_rate(summary: &RunSummary) -> Option<f64> {
    let known = summary.verdict.as_ref().map(|it| &it.facts).and_then(|it| it.expected_rate);
    let flow = summary.flow();
    let (sent, received) = (flow.sent.total, flow.received.total);
    let outstanding = flow.ledger.as_ref().map_or(0, |it| it.outstanding);
    let each = (received.saturating_add(outstanding)) as f64 / sent.max(1) as f64;
    known.or_else(|| (received > 0).then_some(each * flow.sent.rate))
}

/// The latency that stands for the run: the first required one, else that of deliveries, else that of answers.
fn shown_latency(summary: &RunSummary) -> (String, Option<LatencySummary>) {
    // Also one without a value: in the next trial it has some, and trials are compared.
    let all = summary.messages().latency.iter().map(|(metric, it)| (metric.name(), it));
    let filled: Vec<(&str, &LatencySummary)> = all.collect();
    let asked = |name: &str| {
        let name = archive::plain_name(name);
        let that = |it: &RequirementOutcome| archive::plain_name(&it.that).starts_with(&name);
        summary.requirements.iter().any(that)
    };
    let first = filled.iter().find(|(name, _)| asked(name));
    let received = summary.flow().received.total > 0;
    let end_to_end = || filled.iter().find(|it| received && it.0 == "end-to-end");
    match first.or_else(end_to_end).or_else(|| filled.first()) {
        Some((name, latency)) => {
            let latency = Some((*latency).clone()).filter(|it| it.count > 0);
            ((*name).to_owned(), latency)
        }
        None => (String::new(), None),
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
