//! The end of a run: its sums, its warnings, and the last writing of its record.

use archive::{
    ACROSS, Facts, FailedBy, FailureCount, Finding, MESSAGES, MessageFlow, PerMessage, PhaseSpan, ProgramSummary,
    RequirementOutcome, Rss, RunLock, RunRecord, RunState, RunSummary, RunWriter, ScenarioSummary, SlicePoint,
    Throughput, Tier, Topology, Warning,
};
use load::OperationTally;
use load::scenario::Operations;
use measure::{Counters, Metric, Nanos, Phase, Problem, ScenarioRole, Time};
use stacks::ErlangProcess;

use super::lasting::{ended_by_itself, per_second};
use super::profiling::Profiled;
use super::recording::Recording;
use super::scenarios::ScenarioContext;
use super::tracing::counted_length;
use super::{RunOutcome, Texts};
use crate::judge::judge_shares;
use crate::usage::{Usage, between};
use experiment::Requirement;

#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: load::Outcome,
    pub(crate) topology: Topology,
    /// The Erlang processes of each of the broker's nodes, as far as the nodes answered.
    pub(crate) processes: Vec<Vec<ErlangProcess>>,
    /// Warnings that do not follow from measurements.
    pub(crate) warnings: Vec<Warning>,
}

const TOP_FUNCTIONS: usize = 20;
/// A program that ends so shortly before the load does ends with it.
const TOGETHER: Nanos = Nanos::from_millis(500);
/// Why a latency between two machines cannot be judged.
const CLOCKS: &str = "the clocks of the machines are not known well enough";

impl Recording<'_> {
    pub(super) fn keep_program(&mut self, program: load::ProgramEnd) {
        if let Some(writer) = &mut self.writer {
            writer.write_file(&program.log, program.output.as_bytes());
        }
        if let Some(at) = program.ended_at {
            self.programs.ended.insert(program.load, at);
        }
        let summary = ProgramSummary { command: program.command, status: program.status, log: program.log };
        self.programs.summaries.insert(program.load, summary);
    }

    /// Tells of a feature that the broker no longer permits, at once and in the summary.
    pub(super) fn tell_not_permitted(&mut self, feature: &str, instead: &str) {
        self.note(&format!("{feature} is no longer permitted: {instead}"));
        let not_permitted = Finding::NotPermitted { feature: feature.to_owned(), instead: instead.to_owned() };
        self.seen.not_permitted.push(Warning::new(Tier::Note, not_permitted));
    }

    /// Sums up and writes the record for the last time.
    pub(crate) fn finish(mut self, ending: Ending) -> RunOutcome {
        let (outcome, processes) = (ending.outcome, ending.processes);
        self.tell_events(f64::INFINITY);
        // A companion may hear of something when the second of that was told.
        self.record.events.sort_by(|one, other| one.t.total_cmp(&other.t));
        self.record.topology = ending.topology;
        let phases = outcome.phases.iter().map(|span| PhaseSpan {
            phase: span.phase,
            start: self.seconds_since_origin(span.start),
            end: self.seconds_since_origin(span.end),
        });
        self.record.phases = phases.collect();
        let effect = self.observer_effect();
        let profiled = self.finish_profile(&outcome, &processes);
        let usage = self.measured_usage();
        self.add_censored(&outcome);
        let share =
            |run: &Facts, worker| self.context.fleet.as_ref().map_or_else(Facts::default, |it| it.share(run, worker));
        let mut judgement = judge_shares(self.facts(&outcome, &usage), share);
        let mut others = std::mem::take(&mut self.summary.warnings);
        others.append(&mut self.seen.not_permitted);
        others.extend(self.load_ended(&outcome));
        others.extend(profiled.warnings.iter().cloned());
        others.extend(ending.warnings);
        // In an order that does not depend on who told first.
        others.sort_by_cached_key(|it| (it.tier, it.code(), format!("{:?}", it.finding)));
        let mut found = judgement.findings;
        found.append(&mut others);
        self.record.state = match (&outcome.error, outcome.was_stopped()) {
            (Some(_), _) => RunState::Failed,
            (None, true) => RunState::Interrupted,
            (None, false) => RunState::Complete,
        };
        let problem = outcome.error.as_ref().map(load::Error::problem);
        self.record.error = problem.as_ref().map(Problem::sentence);
        self.record.problem.clone_from(&problem);
        self.record.failed_by = outcome.error.as_ref().map(failed_by);
        let mut summary = self.summary(&outcome, &usage, &profiled);
        let planned = self.context.phases.measure;
        let facts = &mut judgement.verdict.facts;
        self.seen.lasting.tell(&outcome, planned, &mut summary, facts);
        if let Some(fleet) = &self.context.fleet {
            found.extend(fleet.judge_latencies(summary.messages_mut()));
        }
        summary.error = problem;
        summary.observer_effect = effect;
        summary.warnings = found;
        summary.stalls.clone_from(&facts.ended.stalls);
        summary.workers.clone_from(&facts.workers);
        summary.verdict = self.context.loaded().then_some(judgement.verdict);
        summary.requirements = self.required(&summary, &outcome);
        let texts = &self.context.texts;
        // One that was stopped before is told as that.
        let drain_cut = outcome.drain_cut && !outcome.interrupted;
        let record = close(self.writer.as_mut(), self.record, summary, texts, drain_cut);
        RunOutcome {
            run_dir: self.writer.as_ref().map(|writer| writer.dir().to_path_buf()),
            lock: self.writer.as_ref().map_or_else(RunLock::default, RunWriter::lock),
            record,
            measured: self.measured,
            profiles: profiled.profiles,
        }
    }

    /// Usage in the measured phase; the broker's is what workers recorded, where they did.
    fn measured_usage(&mut self) -> Usage {
        let usage = self.used.between.map(|(begin, end)| between(&begin, &end)).unwrap_or_default();
        let recorded = self.context.fleet.as_ref().and_then(|it| it.recorded_use());
        let Some(recorded) = recorded else { return usage };
        self.used.peak_rss.0 = recorded.rss_bytes;
        Usage { broker: Some(recorded), ..usage }
    }

    /// Warns of programs that ended before the measured phase was over: only the user knows whether they should.
    fn load_ended(&self, outcome: &load::Outcome) -> Vec<Warning> {
        let measured = outcome.phases.iter().find(|it| it.phase == Phase::Measure);
        let Some((measured, planned)) = measured.zip(self.context.phases.measure) else { return Vec::new() };
        let note = |at: Time, load| {
            let ended = Finding::LoadEnded {
                seconds: at.since(measured.start).as_secs_f64(),
                planned_s: planned.as_secs_f64(),
                load,
            };
            Warning::new(Tier::Note, ended)
        };
        let early = self.programs.ended.iter().filter(|(_, at)| **at + TOGETHER < measured.end);
        let early = early.map(|(load, at)| note(*at, Some(*load as u64)));
        let all = ended_by_itself(outcome, Some(planned)).filter(|_| !self.programs.summaries.is_empty());
        early.chain(all.map(|it| note(it.end, None))).collect()
    }

    fn required(&self, summary: &RunSummary, outcome: &load::Outcome) -> Vec<RequirementOutcome> {
        let unfinished = self.unfinished(outcome);
        let clocks = self.context.fleet.as_ref().map_or(Nanos::ZERO, |fleet| fleet.clocks_bound());
        let judge = |it: &Requirement| {
            if self.measured_length == Nanos::ZERO {
                return it.unknown("nothing was measured");
            }
            let is_refused = |metric: Metric| it.is_about(metric) && summary.messages().latency.get(metric).count == 0;
            if clocks > Nanos::ZERO && ACROSS.into_iter().any(is_refused) {
                return it.unknown(CLOCKS);
            }
            let unfinished = unfinished.or_else(|| self.cut_off(it));
            let judged = it.judge(summary, &self.measured.latencies, unfinished);
            let is_across = ACROSS.into_iter().any(|metric| it.is_about(metric));
            let judged = if is_across { it.give_or_take(judged, clocks, CLOCKS) } else { judged };
            // The rest of the drain might have met it.
            let is_of_drain = judged.met == Some(false) && judged.that.starts_with("outstanding ");
            unfinished.filter(|_| outcome.drain_cut && is_of_drain).map_or(judged, |why| it.unknown(why))
        };
        self.context.requirements.iter().map(judge).collect()
    }

    /// Why a requirement that was met until the end of the run need not be met by a whole one.
    fn unfinished(&self, outcome: &load::Outcome) -> Option<&'static str> {
        if outcome.error.is_some() {
            return Some("the run failed");
        }
        // Where no length was planned, whoever stops the run ends it.
        let stopped = outcome.interrupted && self.context.phases.measure.is_some();
        (stopped || outcome.drain_cut).then_some("the run was stopped before its end")
    }

    /// Why a requirement of calls is undecided: their trace ended before the load did.
    fn cut_off(&self, requirement: &Requirement) -> Option<&'static str> {
        let mut scenarios = self.context.scenarios.iter();
        let about = scenarios.find(|it| it.operations.is_some_and(|of| requirement.is_about(of.latency)))?;
        self.trace_ended(about.name).map(|_| "its trace ended before the load did")
    }

    /// When a trace of this scenario ended before the load did; `None` where it did not.
    fn trace_ended(&self, scenario: &str) -> Option<Time> {
        let mut its = (self.summary.traces.iter()).filter(|it| it.scenario == scenario);
        let seconds = its.find(|it| it.ended.is_some())?.ended_s?;
        Some(self.context.origin + Nanos((seconds * 1e9).round() as u64))
    }

    fn finish_profile(&mut self, outcome: &load::Outcome, processes: &[Vec<ErlangProcess>]) -> Profiled {
        let mut profiling = std::mem::take(&mut self.profiling);
        profiling.keep_used(self.cpu_of_nodes());
        let Some(writer) = &mut self.writer else { return Profiled::default() };
        if profiling.is_on() {
            self.observer.step("writing the profile");
        }
        let since_origin = |at: Time| at.since(self.context.origin).0;
        let measured = outcome.phases.iter().find(|span| span.phase == Phase::Measure);
        if let Some(span) = measured {
            profiling.hold_until(span.end);
        }
        // A run that was stopped in the warm-up has measured nothing.
        let window = measured.map_or((0, 0), |span| (since_origin(span.start), since_origin(span.end)));
        let mut profiled = profiling.finish(Some(window), processes, writer);
        let recorded = self.context.fleet.as_ref().map(|it| it.take_profiles());
        profiled.add(recorded.unwrap_or_default(), writer);
        profiled
    }

    fn summary(&self, outcome: &load::Outcome, usage: &Usage, profiled: &Profiled) -> RunSummary {
        let mb = |bytes: u64| (bytes > 0).then(|| bytes as f64 / 1e6);
        // The profiler is no part of what an operation costs.
        let own = |used: f64| (used - profiled.own_cores).max(0.0);
        let broker = usage.broker.filter(|_| self.context.sees_all_brokers);
        let cpu_cores = PerMessage {
            broker: broker.map(|used| used.cpu_cores),
            client: usage.client.map(|used| own(used.cpu_cores)),
        };
        let mut summary = RunSummary {
            schema: RunSummary::SCHEMA.to_owned(),
            run_dir: self.writer.as_ref().map_or_else(String::new, |w| w.dir().display().to_string()),
            broker: self.context.broker.clone(),
            programs: self.programs.summaries.values().cloned().collect(),
            cpu_cores,
            rss_mb: Rss { broker: mb(self.used.peak_rss.0), client: mb(self.used.peak_rss.1) },
            profiles: (profiled.profiles.iter()).map(|profile| profile.summary(TOP_FUNCTIONS)).collect(),
            ..self.summary.clone()
        };
        for scenario in &self.context.scenarios {
            if let Some(of) = self.scenario_summary(scenario, outcome, cpu_cores) {
                summary.insert(scenario.name, of);
            }
        }
        summary
    }

    /// Results of a scenario's operations; `None` of programs, which print their own.
    fn scenario_summary(
        &self,
        scenario: &ScenarioContext,
        outcome: &load::Outcome,
        cores: PerMessage,
    ) -> Option<ScenarioSummary> {
        let (ended, of) = match &scenario.operations {
            Some(operations) => self.of_operations(scenario, operations, outcome),
            None if scenario.name == MESSAGES => self.of_messages(outcome),
            None => return None,
        };
        let (begun, late) = scenario.begun_of_due(outcome, &self.measured);
        // Operations are counted by when they were due; messages by when they were sent.
        let censored = outcome.censored.as_deref().filter(|_| scenario.operations.is_none());
        let unsent = censored.map_or(0, |censored| censored.unsent);
        let requested = scenario.requested.as_ref();
        let loads = self.context.scenarios.iter().filter(|it| it.is_load());
        let is_known = ended > 0 && scenario.is_load() && loads.count() == 1;
        let us = self.measured_length.as_secs_f64() * 1e6;
        let us_each = |cores: Option<f64>| Some(cores.filter(|_| is_known)? * us / ended as f64);
        Some(ScenarioSummary {
            kind: scenario.subject.clone(),
            requested: requested.map(|_| scenario.achieved.summary(begun, late, unsent)),
            cpu_us_each: PerMessage { broker: us_each(cores.broker), client: us_each(cores.client) },
            ..of
        })
    }

    /// Number of messages in the measured phase, and their results.
    fn of_messages(&self, outcome: &load::Outcome) -> (u64, ScenarioSummary) {
        let throughput = |count: fn(&Counters) -> u64| Throughput {
            total: count(&outcome.totals),
            rate: per_second(count(&self.measured.counters), self.measured_length),
        };
        let counters = &self.measured.counters;
        let flow = MessageFlow {
            sent: throughput(|counters| counters.sent),
            completed: throughput(|counters| counters.completed),
            received: throughput(|counters| counters.received),
            blocked: throughput(|counters| counters.blocked),
            resent: Some(outcome.totals.resent).filter(|resent| *resent > 0),
            lasted: None,
            closed_loop: self.context.planned.closed_loop,
            without_consumers: self.context.planned.without_consumers,
            ledger: outcome.ledger,
        };
        let of = ScenarioSummary {
            unit: MESSAGES.to_owned(),
            rate: flow.sent.rate.max(flow.received.rate),
            flow: Some(flow),
            latency: self.measured.latencies.messages(),
            ..ScenarioSummary::default()
        };
        (counters.sent.max(counters.received), of)
    }

    /// Number of operations that ended in the measured phase, and the results of those that were due in it.
    fn of_operations(
        &self,
        scenario: &ScenarioContext,
        operations: &Operations,
        outcome: &load::Outcome,
    ) -> (u64, ScenarioSummary) {
        let none = OperationTally::default();
        let tally = outcome.tallies.get(scenario.name).unwrap_or(&none);
        let count = |metric| self.measured.counts.get(metric);
        let completed = count(operations.completed);
        // Where none came to its end in order, what was used is what it took to refuse them, or other work.
        let ended = if completed == 0 { 0 } else { completed + operations.failed.map_or(0, count) };
        let failure = |(why, count): (&String, &u64)| FailureCount { reason: web::redact::text(why), count: *count };
        let mut failures: Vec<FailureCount> = tally.failures.iter().map(failure).collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        let measured = outcome.phases.iter().find(|it| it.phase == Phase::Measure);
        let counted =
            counted_length(self.measured_length, measured.map(|it| it.start), self.trace_ended(scenario.name));
        let of = ScenarioSummary {
            unit: operations.many.to_owned(),
            role: operations.role,
            rate: per_second(scenario.completed(outcome, &self.measured, self.measured_length), counted),
            counts: tally.counts.iter().collect(),
            failures,
            headline: Some(operations.latency),
            latency: self.measured.latencies.of_scenario(scenario.name),
            ..ScenarioSummary::default()
        };
        (ended, of)
    }

    /// Adds operations without an answer, with the time they have waited.
    fn add_censored(&mut self, outcome: &load::Outcome) {
        let Some(censored) = &outcome.censored else { return };
        let added = self.measured.latencies.add_due(Phase::Measure, censored.interval.histograms());
        // Equal shapes always add.
        debug_assert!(added.is_ok());
        let slice = censored.interval.to_slice();
        let t = self.seconds_since_origin(slice.start);
        if let Some(writer) = &mut self.writer {
            writer.append_histograms(&censored.interval);
            writer.append_slice(&SlicePoint::of(&slice, t, None));
        }
    }
}

/// The side that an error belongs to. A limit of this machine, or a resource that it refused, may speak for either.
const fn failed_by(error: &load::Error) -> FailedBy {
    match error {
        load::Error::Limit(_) | load::Error::Machine { .. } => FailedBy::Generator,
        _ => FailedBy::Side,
    }
}

fn tell(summary: &mut RunSummary, drain_cut: bool, texts: &Texts) {
    let of_server = summary.loaded() == ScenarioRole::Server;
    for warning in &mut summary.warnings {
        (warning.of_server, warning.drain_cut) = (of_server, drain_cut);
        warning.text = (texts.warning)(warning);
    }
}

/// Makes the sentences and writes the record for the last time.
fn close(
    writer: Option<&mut RunWriter>,
    mut record: RunRecord,
    mut summary: RunSummary,
    texts: &Texts,
    drain_cut: bool,
) -> RunRecord {
    tell(&mut summary, drain_cut, texts);
    if let Some(verdict) = &mut summary.verdict {
        (texts.verdict)(verdict);
    }
    (texts.options)(&mut summary, &record.command);
    let finish = |record: &mut RunRecord, summary: &RunSummary| {
        record.warnings.clone_from(&summary.warnings);
        record.summary = Some(summary.clone());
    };
    finish(&mut record, &summary);
    if let Some(writer) = writer {
        // The first attempt shows whether the disk takes it; its warning belongs into the second.
        writer.write_record(&record);
        if !writer.warnings().is_empty() {
            summary.warnings.extend_from_slice(writer.warnings());
            tell(&mut summary, drain_cut, texts);
            finish(&mut record, &summary);
            writer.write_record(&record);
        }
    }
    record
}
