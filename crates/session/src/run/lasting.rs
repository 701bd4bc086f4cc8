//! Time over which messages moved, where their number ends a load: its measured phase ends with the last one sent.

use archive::{Facts, Lasted, MESSAGES, PerMessage, RunSummary, Throughput};
use load::{Outcome, PhaseTimes};
use measure::{Nanos, Phase, Slice, Time};

/// Multiple of the measured phase up to which its CPU stands for messages that moved for longer.
const MOST: f64 = 1.1;
/// A measured phase that ends this much before its planned length was ended by the load.
const EARLY: Nanos = Nanos::from_millis(1);

/// Messages since the measured phase began, and the end of the slice with the last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    count: u64,
    until: Time,
}

/// Messages sent, acknowledged and received since the measured phase began, and until when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lasting {
    sent: Moved,
    completed: Moved,
    received: Moved,
}

impl Lasting {
    pub(super) fn add(&mut self, slice: &Slice) {
        let counters = &slice.counters;
        for (moved, count) in [
            (&mut self.sent, counters.sent),
            (&mut self.completed, counters.completed),
            (&mut self.received, counters.received),
        ] {
            if count > 0 && slice.phase != Phase::Warmup {
                moved.count += count;
                moved.until = slice.end;
            }
        }
    }

    /// Sets the rates of a load that ended by itself, each over the time in which it was; others stay those of the
    /// measured phase. What is said of the facts says the same, whose decisions are of the measured phase alone.
    pub(super) fn tell(&self, outcome: &Outcome, planned: Option<Nanos>, summary: &mut RunSummary, facts: &mut Facts) {
        let Some(measured) = ended_by_itself(outcome, planned) else { return };
        let Some(messages) = summary.scenarios.get_mut(MESSAGES) else { return };
        let flow = messages.flow.get_or_insert_default();
        let length = measured.end.since(measured.start);
        let seconds = |moved: Moved, throughput: &mut Throughput| {
            if moved.count == 0 {
                return 0.0;
            }
            let length = moved.until.since(measured.start);
            throughput.rate = per_second(moved.count, length);
            length.as_secs_f64()
        };
        let lasted = Lasted {
            sent_s: seconds(self.sent, &mut flow.sent),
            completed_s: seconds(self.completed, &mut flow.completed),
            received_s: seconds(self.received, &mut flow.received),
        };
        // What was used is known of the measured phase, in which hardly anything of that happened.
        if lasted.completed_s.max(lasted.received_s) > length.as_secs_f64() * MOST {
            messages.cpu_us_each = PerMessage::default();
            summary.cpu_cores = PerMessage::default();
        }
        (facts.ended.received_s, facts.ended.completed_s) = (lasted.received_s, lasted.completed_s);
        flow.lasted = Some(lasted).filter(|it| *it != Lasted::default());
        if self.received.count > 0 {
            facts.received_rate = flow.received.rate;
        }
        // Both without the time that the phase took to end.
        let requested = messages.requested.as_ref().filter(|_| !facts.is_churn());
        if let Some(requested) = requested.filter(|_| self.sent.count > 0) {
            (facts.requested_rate, facts.sent_rate) = (Some(requested.rate), flow.sent.rate);
        }
        messages.rate = flow.sent.rate.max(flow.received.rate);
    }
}

/// The measured phase of a load that ended by itself before its `planned` length was over.
pub(super) fn ended_by_itself(outcome: &Outcome, planned: Option<Nanos>) -> Option<&PhaseTimes> {
    let mut phases = outcome.phases.iter();
    let measured = phases.find(|it| it.phase == Phase::Measure)?;
    let length = measured.end.since(measured.start);
    let is_whole = planned.is_some_and(|planned| length + EARLY >= planned);
    (!is_whole && !outcome.interrupted && outcome.error.is_none()).then_some(measured)
}

pub(super) fn per_second(count: u64, length: Nanos) -> f64 {
    if length == Nanos::ZERO { 0.0 } else { count as f64 / length.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use archive::RequestedSummary;

    use super::*;

    const MS: u64 = 1_000_000;

    fn used() -> RunSummary {
        let each = PerMessage { broker: Some(1.0), client: Some(1.0) };
        let mut summary = RunSummary { cpu_cores: each, ..RunSummary::default() };
        summary.messages_mut().cpu_us_each = each;
        summary.messages_mut().requested = Some(RequestedSummary { rate: 50_000.0, ..RequestedSummary::default() });
        summary
    }

    /// A load that sends 500 messages in 10 ms, and whose consumers need 2 s for them.
    fn told(planned: Option<Nanos>, interrupted: bool) -> (RunSummary, Facts) {
        let at = |ms: u64| Time(5_000 * MS + ms * MS);
        let span = |phase, start, end| PhaseTimes { phase, start: at(start), end: at(end) };
        let outcome = Outcome {
            phases: vec![span(Phase::Measure, 0, 10), span(Phase::Drain, 10, 2_100)],
            interrupted,
            ..Outcome::started(at(0))
        };
        let mut lasting = Lasting::default();
        let mut slice = Slice::default();
        for (phase, from, to, sent, received) in [
            (Phase::Measure, 0, 10, 500, 3),
            (Phase::Drain, 10, 1_000, 0, 247),
            (Phase::Drain, 1_000, 2_000, 0, 250),
            (Phase::Drain, 2_000, 2_100, 0, 0),
        ] {
            slice.reset(at(from), phase);
            slice.end = at(to);
            slice.counters.sent = sent;
            slice.counters.received = received;
            lasting.add(&slice);
        }
        let (mut summary, mut facts) = (used(), Facts::default());
        (facts.requested_rate, facts.sent_rate) = (Some(45_000.0), 45_000.0);
        facts.received_rate = 300.0;
        lasting.tell(&outcome, planned, &mut summary, &mut facts);
        (summary, facts)
    }

    #[test]
    fn the_rates_of_a_load_that_ends_by_itself_are_over_their_own_times() {
        for planned in [None, Some(Nanos::from_millis(60_000))] {
            let (summary, facts) = told(planned, false);
            let flow = summary.flow();
            assert_eq!((flow.sent.rate, flow.received.rate), (50_000.0, 250.0));
            let lasted = Lasted { sent_s: 0.01, completed_s: 0.0, received_s: 2.0 };
            assert_eq!(flow.lasted, Some(lasted));
            assert_eq!((facts.received_rate, facts.ended.received_s), (250.0, 2.0));
            assert_eq!((facts.requested_rate, facts.sent_rate), (Some(50_000.0), 50_000.0));
            assert_eq!(summary.messages().cpu_us_each, PerMessage::default());
        }
        // The time was over, or somebody stopped it: the measured phase is what was asked for.
        for (summary, facts) in [told(Some(Nanos::from_millis(10)), false), told(None, true)] {
            assert_eq!(summary, used());
            assert_eq!((facts.received_rate, facts.ended.received_s), (300.0, 0.0));
        }
    }
}
