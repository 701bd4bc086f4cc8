//! One process of a continuous recording, from its discovery to its end: a run folder for each period, one sampler.

use std::sync::Mutex;
use std::sync::mpsc::Sender;
use std::time::Duration;

use archive::{Period, Removable, RunRecord, RunWriter};
use linux::ProcessId;
use load::Control;
use measure::{Clock, Nanos, Problem, Time, wall_clock_unix_ns};
use stacks::ProfileHeader;

use super::keep::{Keep, RESERVE};
use super::{ContinuousOptions, PeriodEnd, RecordingEvent};
use crate::doctor::free_bytes;
use crate::run::finish::Ending;
use crate::run::profiling::Profiling;
use crate::run::record::{Watch, context, experiment};
use crate::run::recording::Recording;
use crate::run::{RunOptions, Start};
use crate::usage::ProcUsage;
use crate::{Error, NoObserver, Observer};
use web::push::Push;

/// How long before its beginning the next period is prepared.
const LEAD: Nanos = Nanos::from_millis(400);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Difference in ns between wall clock and monotonic clock above which the wall clock was set.
const CLOCK_WAS_SET: u64 = 100_000_000;
const DAY: u64 = 86_400_000_000_000;

pub(super) struct Shared<'a> {
    pub(super) what: &'a ContinuousOptions,
    pub(super) run: &'a RunOptions,
    pub(super) control: &'a Control,
    pub(super) keep: &'a Mutex<Keep>,
}

pub(super) struct Follower<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) process: ProcessId,
    pub(super) name: String,
    pub(super) tell: Sender<RecordingEvent>,
}

/// A period that has a folder, unless there is no room for one.
struct Open {
    start: Start,
    end: Time,
    record: RunRecord,
    writer: Option<RunWriter>,
}

impl Follower<'_> {
    /// Records periods until the process or the recording ends.
    pub(super) fn run(self) -> Result<(), Error> {
        let mut open = self.open(Start::now())?;
        let sampling = self.shared.what.profile.options();
        let mut profiling = match self.attach(&sampling, &open) {
            Ok(profiling) => profiling,
            Err(error) => {
                open.writer.into_iter().for_each(RunWriter::discard);
                return Err(error);
            }
        };
        profiling.is_brief = true;
        profiling.start();
        if open.end < Clock.now() + LEAD {
            // Preparing the profiler took the rest of it.
            let next = open.start.unix_ns.saturating_add(open.end.since(open.start.origin).0);
            open.end = open.end + until_next(next, self.shared.what.every);
        }
        let mut following = Some((open, profiling));
        while let Some((open, profiling)) = following {
            following = self.period(open, profiling);
        }
        Ok(())
    }

    fn attach(&self, sampling: &[profile::Options], open: &Open) -> Result<Profiling, Error> {
        match &open.writer {
            Some(writer) => Ok(open.start.profiling(sampling, self.process.pid, None, writer)?),
            None => Err(no_room(&self.shared.what.recording).into()),
        }
    }

    /// Records one period; the next one, where there is one.
    fn period(&self, open: Open, mut profiling: Profiling) -> Option<(Open, Profiling)> {
        let control = self.shared.control;
        let mut recording = self.recording(open.start, open.record, open.writer);
        let mut watch = Watch::begin(self.process, open.start.origin, POLL_INTERVAL, &mut recording);
        watch.until(Some(open.end - LEAD), control, &mut recording);
        let goes_on = |watch: &Watch| !watch.ended && !control.is_stopping();
        if !goes_on(&watch) {
            self.end(recording, &watch, profiling, open.end);
            return None;
        }
        let next = self.open_next(open.start, open.end);
        let header = ProfileHeader::new(next.start.origin, next.start.unix_ns);
        let mut part = profiling.turn(&header, next.writer.as_ref().map(RunWriter::dir));
        watch.until(Some(open.end), control, &mut recording);
        if goes_on(&watch) || profiling.settle(&mut part) {
            self.end(recording, &watch, part, open.end);
            return Some((next, profiling));
        }
        next.writer.into_iter().for_each(RunWriter::discard);
        self.end(recording, &watch, part, open.end);
        None
    }

    fn recording(&self, start: Start, record: RunRecord, writer: Option<RunWriter>) -> Recording<'static> {
        let what = self.shared.what;
        let context =
            context(self.process, start.origin, Some(what.every), what.profile.options(), self.shared.run.texts);
        let usage = Box::new(ProcUsage::new(Some(self.process.pid)));
        // It has no size, so that nothing leaks.
        let observer: &'static mut dyn Observer = Box::leak(Box::new(NoObserver));
        Recording::new(context, record, writer, Profiling::off(), usage, observer)
    }

    fn end(&self, mut recording: Recording<'_>, watch: &Watch, profiling: Profiling, end: Time) {
        let is_short = watch.ended || self.shared.control.is_stopping();
        recording.profiling = profiling;
        let start = recording.context.origin;
        let mut outcome = watch.outcome(false);
        for phase in &mut outcome.phases {
            phase.end = phase.end.min(end);
        }
        let length = outcome.phases.first().map_or(end, |phase| phase.end).since(start);
        // That the process ended is in the profile's own note.
        let (topology, processes, warnings) = Default::default();
        let outcome = recording.finish(Ending { outcome, topology, processes, warnings });
        let Some(run_dir) = outcome.run_dir else { return };
        let record = outcome.record;
        let until = record.origin_unix_ns.saturating_add(length.0);
        let push = self.shared.what.push.as_ref();
        let pushes = push.map_or_else(Vec::new, |_| Push::all(&outcome.profiles, &record, until));
        drop(outcome.lock);
        let samples = outcome.profiles.iter().map(|it| it.samples.len()).sum();
        // Where it cannot be removed, it is kept as all others.
        if is_nothing(length, samples) && Removable::find(&run_dir, false).and_then(Removable::remove).is_ok() {
            return;
        }
        let entry = archive::RunEntry::read(run_dir.clone());
        let cores = record.summary.as_ref().and_then(|it| it.cpu_cores.broker);
        let period = PeriodEnd {
            id: record.id,
            run_dir,
            process: self.name.clone(),
            pid: self.process.pid,
            end_unix_ns: until,
            length,
            samples,
            cores,
            bytes: entry.bytes,
            is_short,
            warnings: record.warnings.into_iter().map(|it| it.text).collect(),
            kept: 0,
            kept_bytes: 0,
        };
        // Nobody hears it where the recording has broken off.
        let _ = self.tell.send(RecordingEvent::Period(Box::new(period)));
        for push in pushes {
            let _ = self.tell.send(RecordingEvent::Push(Box::new(push)));
        }
    }

    fn open(&self, start: Start) -> Result<Open, Error> {
        let what = self.shared.what;
        let has_room = self.shared.keep.lock().is_ok_and(|mut keep| keep.make_room(free_bytes));
        let mut record = start.record(&self.name, self.shared.run);
        record.experiment = experiment(&what.profile, self.process.pid);
        record.period = Some(Period {
            recording: what.recording.clone(),
            every_s: what.every.as_secs_f64(),
            process: self.name.clone(),
            pid: self.process.pid,
            labels: what.labels.clone(),
        });
        let writer = if has_room { start.writer(self.shared.run, &mut record)? } else { None };
        Ok(Open { end: start.origin + until_next(start.unix_ns, what.every), start, record, writer })
    }

    /// Makes the folder of the period that begins then; where that is not possible it has none, which is told.
    fn open_next(&self, before: Start, at: Time) -> Open {
        let nominal = before.unix_ns.saturating_add(at.since(before.origin).0);
        let (now, wall) = (Clock.now(), wall_clock_unix_ns());
        // One of the two differences is none.
        let by_now = wall.saturating_add(at.since(now).0).saturating_sub(now.since(at).0);
        let unix_ns = if nominal.abs_diff(by_now) > CLOCK_WAS_SET { by_now } else { nominal };
        let start = Start { origin: at, unix_ns, ..Start::now() };
        let opened = self.open(start);
        let why = match &opened {
            Ok(open) if open.writer.is_some() => None,
            Ok(_) => Some(no_room(&self.shared.what.recording)),
            Err(error) => Some(error.problem()),
        };
        if let Some(problem) = why {
            let _ = self.tell.send(RecordingEvent::Paused(problem));
        }
        opened.unwrap_or_else(|_| Open {
            start,
            end: at + until_next(start.unix_ns, self.shared.what.every),
            record: RunRecord::default(),
            writer: None,
        })
    }
}

/// Time to the next period: where the length divides a day, periods begin at its multiples.
fn until_next(unix_ns: u64, every: Nanos) -> Nanos {
    let every = every.0.max(1);
    Nanos(if DAY.is_multiple_of(every) { every - unix_ns % every } else { every })
}

/// Whether a period ended as soon as it began: the recording was over by then.
fn is_nothing(length: Nanos, samples: usize) -> bool {
    samples == 0 && u128::from(length.0) < POLL_INTERVAL.as_nanos()
}

fn no_room(recording: &str) -> Problem {
    Problem::new(
        format!(
            "the disk has no room for another period: twice the largest one, and at least {} MB, must be \
             free",
            RESERVE >> 20
        ),
        format!("removing older periods of {recording:?} is not enough"),
        "make room, or name another folder with --runs; recording goes on when there is room",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that sleeps has no samples, and its period is kept all the same.
    #[test]
    fn a_period_that_never_was_is_left_out() {
        assert!(is_nothing(Nanos(3_000_000), 0) && is_nothing(Nanos::ZERO, 0));
        assert!(!is_nothing(Nanos(3_000_000), 1));
        assert!(!is_nothing(Nanos::SECOND, 0));
    }

    #[test]
    fn periods_that_divide_a_day_begin_at_multiples() {
        let second = 1_000_000_000;
        let noon = 1_795_262_400 * second;
        let minute = Nanos(60 * second);
        assert_eq!(until_next(noon, minute), minute);
        assert_eq!(until_next(noon + 59 * second, minute), Nanos::SECOND);
        assert_eq!(until_next(noon + 1, minute), Nanos(60 * second - 1));
        let odd = Nanos(7 * second);
        assert_eq!(until_next(noon + 3, odd), odd);
    }
}
