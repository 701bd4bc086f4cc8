//! State shared by the clients of a thread.

use std::sync::mpsc::SyncSender;

use measure::{Nanos, Phase, ThreadUsage, Time};

use super::ledger::ThreadLedger;
use super::series::Series;
use super::shared::{Activity, ProgressTotals, Report, Shared};
use super::silence::{SHORTEST, Silences};
use crate::protocol::Reply;
use crate::report::Silence;
use crate::{Environment, RunEvent};

/// State of a thread, lent to each of its clients.
pub(crate) struct Context<'a, E: Environment> {
    pub(crate) environment: &'a E,
    pub(crate) poll: &'a E::Poll,
    pub(crate) series: &'a mut Series,
    pub(crate) shared: &'a Shared,
    pub(crate) reports: &'a SyncSender<Report>,
    /// Where bytes are read to and decoded in; left-overs move to their client.
    pub(crate) buffer: &'a mut [u8],
    /// Where encrypted bytes are read to.
    pub(crate) cipher: &'a mut Vec<u8>,
    pub(crate) tally: &'a mut Tally,
    pub(crate) ledger: &'a mut Option<ThreadLedger>,
    pub(crate) reply: &'a mut Reply,
}

/// Counts of a thread so far, beside its intervals.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) progress: ProgressTotals,
    pub(crate) activity: Activity,
    /// Confirms and deliveries.
    pub(crate) handled: u64,
    /// When the last of them came, and the last long time before without any.
    heard: Time,
    quiet: (Time, Time),
    /// Of the last confirm or delivery.
    pub(crate) latency: Nanos,
    pub(crate) last_now: Time,
    /// Clients without a connection at present, and all that ever lost theirs.
    pub(crate) broken: u64,
    pub(crate) lost_connections: u64,
    /// How late the loop began the load, beyond its wait for a core.
    pub(crate) start_lateness: Nanos,
    /// Time in which the event loop had nothing to do.
    pub(crate) idle: Nanos,
    /// How the loop stood when the measured phase began, and what it used in it.
    measure_from: ThreadUsage,
    pub(crate) measured: ThreadUsage,
    pub(crate) silences: Silences,
}

impl Tally {
    /// Confirms or deliveries came.
    pub(crate) fn hears(&mut self, now: Time) {
        if now.since(self.heard) >= SHORTEST {
            self.quiet = (self.heard, now);
        }
        self.heard = now;
    }

    /// Whether others were answered for most of a client's silence, not only at its beginning or end.
    pub(crate) fn others_answered(&self, silence: &Silence) -> bool {
        let Silence { from, until, .. } = *silence;
        let (since, back) = if until.since(self.heard) >= SHORTEST { (self.heard, until) } else { self.quiet };
        let quiet = back.min(until).since(since.max(from));
        Nanos(quiet.0 * 2) < until.since(from)
    }

    /// Tells of the silences that are over, or of all at the end.
    pub(crate) fn tell_silences(&mut self, end: bool, reports: &SyncSender<Report>) {
        let over = self.silences.take(self.last_now, self.handled, end);
        for silence in over.into_iter().flatten() {
            // Only informs; what does not fit is dropped.
            let _ = reports.try_send(Report::Event(RunEvent::Silence(silence)));
        }
    }
}

impl<E: Environment> Context<'_, E> {
    /// Reads the clock and closes the intervals that have ended by then.
    #[inline]
    pub(crate) fn now(&mut self) -> Time {
        // The clock before the boundaries: a boundary is always announced ahead of its time.
        let now = self.environment.now();
        self.tally.last_now = now;
        if now >= self.shared.control.sends_until() {
            self.shared.expire();
        }
        let before = self.series.phase();
        if self.series.roll(now, self.shared.boundaries()) {
            self.phase_changed(before);
        }
        now
    }

    #[cold]
    fn phase_changed(&mut self, before: Phase) {
        let spent = self.spent();
        if before == Phase::Measure {
            self.tally.measured = spent.since(&self.tally.measure_from);
        } else if self.series.phase() == Phase::Measure {
            self.tally.measure_from = spent;
        }
    }

    /// Notes how things stand at the start of a run that begins with its measured phase.
    pub(crate) fn begin(&mut self) {
        self.tally.measure_from = self.spent();
    }

    #[cold]
    fn spent(&self) -> ThreadUsage {
        self.environment.thread_time().usage(self.tally.idle, self.tally.last_now)
    }

    pub(super) fn tell(&self, report: Report) {
        // What does not fit is dropped: reports of this kind only inform.
        let _ = self.reports.try_send(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_answered_in_a_silence_and_not_at_its_ends() {
        let ms = |at: u64| Time(at * 1_000_000);
        let silence = Silence { from: ms(2_000), until: ms(3_500), ..Silence::default() };
        let told = |heard: &[u64]| {
            let mut tally = Tally::default();
            heard.iter().for_each(|at| tally.hears(ms(*at)));
            tally.others_answered(&silence)
        };
        // All are silent: what was on its way comes a moment later, and another is the first to be answered again.
        assert!(!told(&[1_990, 2_001]));
        assert!(!told(&[1_990, 2_001, 3_500]));
        assert!(!told(&[1_990, 2_001, 3_499, 3_500]));
        assert!(!told(&[]));
        // Others are answered all the time, now and then, or for most of it.
        let all: Vec<u64> = (1_990..3_501).step_by(10).collect();
        assert!(told(&all));
        assert!(told(&[1_990, 2_500, 3_000, 3_499]));
        assert!(told(&[1_990, 2_090, 2_190, 2_290, 2_390, 2_490, 2_590, 2_690, 2_790, 2_889, 2_989, 3_500]));
    }
}
