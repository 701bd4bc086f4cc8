//! The scenarios of a run: the kinds that an experiment can ask for, facts and results of each.

use archive::{RequestedSummary, RequestedWindow, ScenarioStart};
use experiment::Experiment;
use load::scenario::{Operations, Scenario};
use load::{Endpoint, Error, Outcome, Silence};
use measure::{Counts, Interval, Metric, Nanos, Phase, ScenarioRole, Time};

use super::fleet::Carrier;
use crate::command::CommandPlan;
use crate::trace::{TracePlan, TracedBroker};

/// The inputs from which a scenario is built.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    /// The load and its length.
    pub experiment: &'a Experiment,
    /// The broker.
    pub endpoint: &'a Endpoint,
    /// The run's number, which its messages are marked with.
    pub run_id: u32,
    /// How to reach the broker's nodes for traces.
    pub traced: &'a TracedBroker,
    /// Who carries the load of messages.
    pub carrier: &'a Carrier,
}

/// Makes a scenario from the options that an experiment has for it; none where the experiment does not ask for it.
pub type MakeScenario = fn(&Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error>;

/// All scenarios, one line each; they run beside each other. Requested rate, verdict and phases are the first's.
pub const SCENARIOS: &[MakeScenario] = &[messages, churn, command, probes, traces];

fn messages(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    if of.experiment.load.is_empty() || of.experiment.has_commands() {
        return Ok(Vec::new());
    }
    Ok(vec![of.carrier.scenario(of.experiment, of.endpoint, of.run_id)?])
}

fn churn(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(of.experiment.churn_plan(of.endpoint)?.into_iter().map(boxed).collect())
}

fn command(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(CommandPlan::of(of.experiment, of.endpoint).into_iter().map(boxed).collect())
}

fn probes(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(of.experiment.probe_plans()?.into_iter().map(boxed).collect())
}

/// Traces come last: none is a load.
fn traces(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    let nodes = of.experiment.traced_nodes().map_err(Error::Invalid)?;
    let (warmup, measure) = (of.experiment.phases.warmup.0, of.experiment.phases.measure.0);
    Ok(nodes.into_iter().flat_map(|it| TracePlan::all_of(it, of.traced, warmup, measure)).map(boxed).collect())
}

fn boxed<S: Scenario + 'static>(scenario: S) -> Box<dyn Scenario> {
    Box::new(scenario)
}

/// The run's state of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioContext {
    pub(crate) name: &'static str,
    pub(crate) subject: String,
    /// `None` for messages.
    pub(crate) operations: Option<Operations>,
    /// The rate requested by its schedules; `None` where it is unthrottled or waits for answers.
    pub(crate) requested: Option<load::Requested>,
    pub(crate) in_flight_limit: Option<u64>,
    /// Work requested and achieved so far.
    pub(crate) achieved: Achieved,
}

impl ScenarioContext {
    pub(crate) fn of(scenario: &dyn Scenario) -> Result<Self, Error> {
        Ok(Self {
            name: scenario.name(),
            subject: scenario.subject().to_owned(),
            operations: scenario.operations(),
            requested: scenario.requested()?,
            in_flight_limit: scenario.in_flight_limit(),
            achieved: Achieved::default(),
        })
    }

    /// Its name, and what the record says of it as it begins.
    pub(crate) fn start(&self) -> (String, ScenarioStart) {
        let start = ScenarioStart { kind: self.subject.clone(), headline: self.operations.map(|of| of.latency) };
        (self.name.to_owned(), start)
    }

    /// Whether it loads the system; a trace only watches.
    pub(crate) fn is_load(&self) -> bool {
        self.operations.is_none_or(|of| of.role != ScenarioRole::Watcher)
    }

    /// Operations due in the measured phase that began, and how many over 1 ms late; of messages, those sent in it.
    pub(crate) fn begun_of_due(&self, outcome: &Outcome, measured: &Interval) -> (u64, u64) {
        let of = self.operations.as_ref().zip(outcome.tallies.get(self.name));
        of.map_or_else(|| self.begun(measured), |(of, tally)| counts_of(of, &tally.counts))
    }

    /// Messages that were sent or operations that began, and how many of them over 1 ms late.
    pub(crate) fn begun(&self, interval: &Interval) -> (u64, u64) {
        match &self.operations {
            None => (interval.counters.sent, interval.counters.late),
            Some(of) => counts_of(of, &interval.counts),
        }
    }

    /// Operations that ended in order, as the rate of the measured phase counts them: those due in it, whenever
    /// answered. Where a backlog grew, so that more were left at the end than half as many again as begin within a
    /// mean answer's time, or where some did not begin, those that ended in it: a backlog of the warm-up is work, too.
    pub(crate) fn completed(&self, outcome: &Outcome, measured: &Interval, length: Nanos) -> u64 {
        let Some(of) = &self.operations else { return 0 };
        let ended = measured.counts.get(of.completed);
        let usual = measured.latencies.histogram(of.latency).mean() / length.0.max(1) as f64;
        let most_left = |due: u64| 1 + (1.5 * usual * due as f64) as u64;
        let is_steady = |due: u64| due <= ended.saturating_add(most_left(due));
        let scheduled = of.scheduled.filter(|_| self.requested.is_some());
        let tally = outcome.tallies.get(self.name).zip(scheduled);
        let tally = tally.filter(|(tally, it)| tally.counts.get(it.not_begun) == 0);
        let due = tally.map(|(tally, _)| tally.counts.get(of.completed));
        due.map_or(ended, |due| if is_steady(due) { due } else { ended })
    }

    /// Mean time of operations from their beginning, nanoseconds. Those that never began have none, and only where some
    /// timed out, which have no steps, does it come from whole operations and their waits.
    pub(crate) fn operation_took(&self, outcome: &Outcome, measured: &Interval) -> Option<u64> {
        let of = self.operations.as_ref()?;
        let latencies = &measured.latencies;
        let whole = latencies.histogram(of.latency);
        if whole.is_empty() {
            return None;
        }
        let sum = |metric: Metric| {
            let all = latencies.histogram(metric);
            all.mean() * all.len() as f64
        };
        let (mut steps, mut answered) = (0.0, 0);
        for (metric, step) in latencies.filled().filter(|(it, _)| self.is_step(*it)) {
            steps += sum(metric);
            answered = answered.max(step.len());
        }
        let took = steps / answered.max(1) as f64;
        let tally = outcome.tallies.get(self.name);
        if answered > 0 && tally.is_none_or(|it| it.timed_out == 0) {
            return Some(took as u64);
        }
        let waited = of.scheduled.map_or(0.0, |it| sum(it.wait));
        let not_begun = of.scheduled.zip(tally).map_or(0, |(it, tally)| tally.counts.get(it.not_begun));
        let begun = whole.len().saturating_sub(not_begun);
        Some(took.max((sum(of.latency) - waited) / begun.max(1) as f64) as u64)
    }

    /// Whether a latency is of a step of its operations, which begin after their wait for room.
    fn is_step(&self, metric: Metric) -> bool {
        let (info, scheduled) = (metric.info(), self.operations.and_then(|of| of.scheduled));
        let is_wait = scheduled.is_some_and(|it| it.wait == metric);
        self.operations.is_some() && info.part && info.scenario == self.name && !is_wait
    }

    /// Median answer time since the request. Each silence of the measured phase counts as one answer, however many
    /// requests waited through it: a standstill must not hide itself.
    pub(crate) fn typical_answer<'a>(&self, measured: &Interval, silences: impl Iterator<Item = &'a Silence>) -> Nanos {
        let latencies = &measured.latencies;
        let whole = latencies.histogram(self.operations.map_or(Metric::SEND_ACK, |of| of.latency));
        let quantile = quantile_beside(whole.len(), silences);
        // Without the wait for room. Time-outs have no parts.
        let rank = quantile * whole.len() as f64;
        let steps = latencies.filled().filter(|(metric, _)| self.is_step(*metric)).map(|(_, part)| {
            let quantile = rank / part.len() as f64;
            (quantile <= 1.0).then(|| part.value_at_quantile(quantile))
        });
        let took = steps.sum::<Option<u64>>().filter(|took| *took > 0);
        Nanos(took.unwrap_or_else(|| whole.value_at_quantile(quantile)))
    }
}

/// The quantile of these answers that is their median when each silence counts as one more. Where hardly any answers
/// are left beside the silences, the answers are slow, and their median is that of all.
fn quantile_beside<'a>(answers: u64, silences: impl Iterator<Item = &'a Silence>) -> f64 {
    let (mut count, mut waited) = (0, 0);
    for silence in silences.filter(|it| !it.is_own && !it.is_away) {
        count += 1;
        waited += silence.in_flight;
    }
    let prompt = answers.saturating_sub(waited);
    if prompt <= count { 0.5 } else { (prompt + count) as f64 / (2 * answers) as f64 }
}

/// Operations that began, and how many of them over 1 ms late.
fn counts_of(operations: &Operations, counts: &Counts) -> (u64, u64) {
    let late = operations.scheduled.map_or(0, |it| counts.get(it.late));
    (counts.get(operations.begun), late)
}

const MOST_WINDOWS: usize = 600;

/// Sums over a run of what schedules requested and what was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Achieved {
    /// Warm-up and measured phase.
    total: f64,
    /// Messages of the measured phase, and the variance of their number.
    measured: f64,
    variance: f64,
    /// The measured phase as long as messages were due.
    seconds: f64,
    /// Requested of workers that were lost, in warm-up and measured phase, and in the latter.
    missing: (f64, f64),
    windows: Vec<Window>,
    /// Intervals per window is 2 to this power.
    doubled: u32,
    /// Intervals in the last window.
    filled: u64,
}

/// Counts, where the archive has rates.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: f64,
    seconds: f64,
    requested: f64,
    sent: u64,
}

impl Window {
    fn take(&mut self, next: &Self) {
        self.seconds += next.seconds;
        self.requested += next.requested;
        self.sent += next.sent;
    }
}

impl Achieved {
    /// Adds an interval of the run with this origin, in which this many messages or operations began;
    /// requested was the amount, with its standard deviation, in this share of the interval.
    pub(super) fn add(
        &mut self,
        interval: &Interval,
        origin: Time,
        begun: u64,
        amount: f64,
        deviation: f64,
        share_due: f64,
    ) {
        self.total += amount;
        if interval.phase != Phase::Measure {
            return;
        }
        self.measured += amount;
        self.variance += deviation * deviation;
        let (start, seconds) = (interval.start.since(origin).as_secs_f64(), interval.length().as_secs_f64());
        self.seconds += seconds * share_due;
        self.keep(Window { start, seconds, requested: amount, sent: begun });
    }

    /// Adds what was requested in an interval of workers that are lost: the run did without.
    pub(super) fn miss(&mut self, interval: &Interval, amount: f64) {
        self.missing.0 += amount;
        if interval.phase == Phase::Measure {
            self.missing.1 += amount;
        }
    }

    fn keep(&mut self, window: Window) {
        if self.filled > 0
            && self.filled < 1 << self.doubled
            && let Some(last) = self.windows.last_mut()
        {
            last.take(&window);
            self.filled += 1;
            return;
        }
        if self.windows.len() == MOST_WINDOWS {
            self.halve();
        }
        self.windows.push(window);
        self.filled = 1;
    }

    /// Makes one window of every two.
    fn halve(&mut self) {
        let pairs = self.windows.chunks(2).filter_map(|pair| {
            let (first, rest) = pair.split_first()?;
            let mut sum = *first;
            rest.iter().for_each(|next| sum.take(next));
            Some(sum)
        });
        self.windows = pairs.collect();
        self.doubled += 1;
    }

    /// Messages requested in the measured phase, and their standard deviation.
    pub(crate) fn measured(&self) -> (f64, f64) {
        (self.measured, self.variance.sqrt())
    }

    /// Compares it with the messages sent in the measured phase, those of them over 1 ms late, and those that were due
    /// and `unsent` at its end, in whose place a backlog of the warm-up may have been sent. What was requested of lost
    /// workers was requested, too.
    pub(super) fn summary(&self, sent: u64, late: u64, unsent: u64) -> RequestedSummary {
        let per = |count: f64, seconds: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let window = |of: &Window| RequestedWindow {
            t: of.start,
            dt: of.seconds,
            requested: per(of.requested, of.seconds),
            sent: per(of.sent as f64, of.seconds),
        };
        let measured = self.measured + self.missing.1;
        RequestedSummary {
            total: self.total + self.missing.0,
            rate: per(measured, self.seconds),
            achieved: (measured > 0.0).then(|| achieved(sent, unsent, measured)),
            late_share: late as f64 / sent.max(1) as f64,
            over_time: self.windows.iter().map(window).collect(),
        }
    }
}

/// Share of the requested messages that were sent. Messages are whole: less than one too many is no more than all.
fn achieved(sent: u64, unsent: u64, requested: f64) -> f64 {
    let excess = sent as f64 - requested;
    match unsent {
        0 | 1 if (0.0..1.0).contains(&excess) => 1.0,
        0 | 1 => sent as f64 / requested,
        _ => (sent as f64).min((requested - unsent as f64).max(0.0)) / requested,
    }
}

#[cfg(test)]
mod tests {
    use experiment::{Experiment, ProbedAddresses};
    use load::OperationTally;
    use measure::{Counters, MetricKind};

    use super::*;

    fn probe_of(url: &str) -> ScenarioContext {
        let text = format!("name = \"x\"\n[[probe]]\nurl = \"{url}\"\nevery = \"2s\"\n");
        let experiment = Experiment::from_toml(&text, "x.toml").expect("an experiment");
        let plans = experiment.with_addresses(&ProbedAddresses::default()).probe_plans();
        ScenarioContext::of(&plans.expect("a probe")[0]).expect("a scenario")
    }

    fn probe() -> ScenarioContext {
        probe_of("http://localhost:1/x")
    }

    /// A run that is killed has no summary: its record knows what a path belongs to, and which latency stands for all.
    #[test]
    fn what_a_scenario_is_stands_in_the_record_as_it_begins() {
        let (name, start) = probe_of("/api/queues").start();
        assert_eq!(name, "probe");
        assert_eq!(start.kind, "/api/queues of the management API");
        assert_eq!(start.headline.map(Metric::key), Some("probe_response"));
    }

    fn record(measured: &mut Interval, key: &str, ms: u64) {
        let metric = Metric::named(key, MetricKind::Histogram).expect("a latency");
        measured.latencies.record(metric, Nanos::from_millis(ms));
    }

    /// Requests due each 50 ms find room one after the other, 400 ms each: most never begin, and have only their waits.
    #[test]
    fn what_never_began_makes_no_answer_faster() {
        let scenario = probe();
        let of = scenario.operations.expect("requests");
        let took = |timed_out: u64| {
            let mut measured = Interval::new();
            for at in 0..50 {
                record(&mut measured, "probe_wait", at * 350);
                record(&mut measured, "probe_response", at * 350 + 400);
                if at >= timed_out {
                    record(&mut measured, "probe_first_byte", 400);
                }
            }
            let mut tally = OperationTally { timed_out, ..OperationTally::default() };
            tally.counts.add(of.scheduled.expect("a schedule").not_begun, 350);
            for at in 0..350 {
                record(&mut measured, "probe_wait", at * 50);
                record(&mut measured, "probe_response", at * 50);
            }
            let mut outcome = Outcome::started(Time(0));
            outcome.tallies.insert(scenario.name, tally);
            scenario.operation_took(&outcome, &measured).expect("answers").abs_diff(400_000_000)
        };
        for timed_out in [0, 20, 50] {
            let off = took(timed_out);
            assert!(off < 20_000_000, "{timed_out} timed out: {off} ns off");
        }
    }

    /// Typical answer of requests with these waits for room and for answers, and of silences by how many waited; in ms.
    fn typical_ms(requests: &[(u64, u64)], silences: &[u64]) -> u64 {
        let scenario = probe();
        let mut measured = Interval::new();
        for (room, answer) in requests {
            record(&mut measured, "probe_wait", *room);
            record(&mut measured, "probe_first_byte", *answer);
            record(&mut measured, "probe_response", room + answer);
        }
        let silences: Vec<Silence> =
            silences.iter().map(|waited| Silence { in_flight: *waited, ..Silence::default() }).collect();
        (scenario.typical_answer(&measured, silences.iter()).0 + 500_000) / 1_000_000
    }

    /// A server that stands still for 2 of 3.2 s, asked 20 times a second.
    #[test]
    fn slow_answers_are_typical_and_standstills_make_none_slow() {
        let round = || (0..24).map(|_| (0, 2)).chain((0..40).map(|at| (0, 2_000 - at * 50)));
        let all: Vec<(u64, u64)> = (0..3).flat_map(|_| round()).collect();
        assert_eq!(typical_ms(&all, &[40; 3]), 2);
        // One at a time: the others wait for room.
        let one = |at: u64| {
            if at == 0 { (0, 2_000) } else { (2_000 - at * 50, 2) }
        };
        let round = || (0..24).map(|_| (0, 2)).chain((0..40).map(one));
        let all: Vec<(u64, u64)> = (0..3).flat_map(|_| round()).collect();
        assert_eq!(typical_ms(&all, &[1; 3]), 2);
        // One at a time, and many that are answered together.
        assert_eq!(typical_ms(&[(0, 150); 30], &[1; 30]), 150);
        let together: Vec<(u64, u64)> = (0..300).map(|at| (0, 1 + at % 150)).collect();
        assert_eq!(typical_ms(&together, &[150; 2]), 75);
        // Most are slow, and each is a silence of its own.
        let most: Vec<(u64, u64)> = (0..100).map(|at| (0, if at < 30 { 1 } else { 150 })).collect();
        assert_eq!(typical_ms(&most, &[1; 70]), 150);
        assert_eq!(typical_ms(&[], &[5]), 0);
    }

    /// A request each two seconds: one of the warm-up is answered in the measured phase, one of that in the drain.
    #[test]
    fn the_rate_counts_what_was_due_in_the_measured_phase() {
        let scenario = probe();
        let of = scenario.operations.expect("requests");
        let mut measured = Interval::new();
        measured.counts.add(of.completed, 6);
        let counted = |measured: &Interval, completed, not_begun| {
            let mut tally = OperationTally::default();
            tally.counts.add(of.completed, completed);
            tally.counts.add(of.scheduled.expect("a schedule").not_begun, not_begun);
            let mut outcome = Outcome::started(Time(0));
            outcome.tallies.insert(scenario.name, tally);
            scenario.completed(&outcome, measured, Nanos(12 * SECOND))
        };
        assert_eq!(counted(&measured, 5, 0), 5);
        // All began, and waited ever longer for their answers.
        assert_eq!(counted(&measured, 12, 0), 6);
        // It could not keep up: what it did in that time is its rate.
        assert_eq!(counted(&measured, 2, 3), 6);
        // Each took as long, and some of what was due was answered just after the phase: 9 of 10 requests/s.
        measured.latencies.record(of.latency, Nanos(6 * SECOND));
        assert_eq!(counted(&measured, 12, 0), 12);
        // Every other one took 300 ms: nine of 50 requests/s were answered just after the phase.
        let mut mixed = Interval::new();
        mixed.counts.add(of.completed, 591);
        mixed.latencies.record_n(of.latency, Nanos(SECOND / 1_000), 300);
        mixed.latencies.record_n(of.latency, Nanos(3 * SECOND / 10), 300);
        assert_eq!(counted(&mixed, 600, 0), 600);
    }

    const SECOND: u64 = 1_000_000_000;

    fn after(seconds: u64) -> (Achieved, Counters) {
        let (mut achieved, mut counters) = (Achieved::default(), Counters::default());
        for second in 0..seconds {
            let mut interval = Interval::new();
            let phase = if second < 2 { Phase::Warmup } else { Phase::Measure };
            interval.reset(Time((5 + second) * SECOND), phase);
            interval.end = Time((6 + second) * SECOND);
            interval.counters.sent = 90;
            if phase == Phase::Measure {
                counters.sent += 90;
                counters.late += 9;
            }
            achieved.add(&interval, Time(5 * SECOND), 90, 100.0, 3.0, 1.0);
        }
        (achieved, counters)
    }

    #[test]
    fn the_measured_phase_stands_against_what_was_asked_for_in_the_time_in_which_messages_were_due() {
        let mut achieved = Achieved::default();
        let mut interval = Interval::new();
        interval.reset(Time(5 * SECOND), Phase::Measure);
        interval.end = Time(6 * SECOND);
        achieved.add(&interval, Time(5 * SECOND), 400, 400.0, 0.0, 0.8);
        let summary = achieved.summary(400, 0, 0);
        assert_eq!((summary.rate, summary.achieved), (500.0, Some(1.0)));
        let (achieved, counters) = after(12);
        let summary = achieved.summary(counters.sent, counters.late, 0);
        assert_eq!((summary.total, summary.rate, summary.late_share), (1_200.0, 100.0, 0.1));
        assert_eq!(summary.achieved, Some(0.9));
        assert_eq!(summary.over_time.len(), 10);
        assert_eq!(summary.over_time[0], RequestedWindow { t: 2.0, dt: 1.0, requested: 100.0, sent: 90.0 });
        assert_eq!(achieved.measured(), (1_000.0, 90f64.sqrt()));
        // A lost worker's part was requested, too, and is not judged.
        let mut interval = Interval::new();
        interval.reset(Time(5 * SECOND), Phase::Measure);
        let mut achieved = achieved;
        achieved.miss(&interval, 1_000.0);
        let summary = achieved.summary(counters.sent, counters.late, 0);
        assert_eq!((summary.rate, summary.achieved), (200.0, Some(0.45)));
        assert_eq!(achieved.measured().0, 1_000.0);
    }

    #[test]
    fn a_long_run_has_longer_windows_and_not_more() {
        for seconds in [602, 603, 5_002, 40_000] {
            let (achieved, counters) = after(seconds);
            let windows = achieved.summary(counters.sent, counters.late, 0).over_time;
            assert!((300..=MOST_WINDOWS).contains(&windows.len()), "{seconds}");
            let length: f64 = windows.iter().map(|w| w.dt).sum();
            assert_eq!(length, (seconds - 2) as f64);
            for pair in windows.windows(2) {
                assert_eq!(pair[0].t + pair[0].dt, pair[1].t, "no gap");
                assert_eq!((pair[0].requested, pair[0].sent), (100.0, 90.0));
            }
        }
    }

    #[test]
    fn a_whole_message_of_a_part_that_was_requested_is_all_of_it() {
        let all = [(1, 0.17), (0, 0.17), (2, 1.5), (3, 1.5), (90, 100.0)];
        assert_eq!(all.map(|(sent, requested)| achieved(sent, 0, requested)), [1.0, 0.0, 1.0, 2.0, 0.9]);
        // A backlog of the warm-up that was sent in place of what was due is no part of it.
        assert_eq!(achieved(20_517, 8_000, 20_000.0), 0.6);
        let nothing = Achieved::default().summary(0, 0, 0);
        assert_eq!((nothing.rate, nothing.achieved), (0.0, None));
    }
}
