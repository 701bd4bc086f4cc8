//! The thread that fetches records from their source and hands them to the converter.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linux::threads;
use measure::{Clock, Nanos, Time};
use rustix::event::Timespec;
use rustix::time::ClockId;

use crate::converter::{Converter, Outcome};
use crate::record::Record;
use crate::source::{Damaged, SampleSource};
use crate::target::Target;

/// Records are fetched at least this often. Ten wake-ups a second cost little, and leave each ring
/// five times as much room as it needs.
const FETCH_TIMEOUT: Nanos = Nanos::from_millis(100);
/// The first records are fetched sooner, and each time-out after is twice as long: what the first stack of a thread
/// tells of it makes the next ones whole.
const FIRST_TIMEOUT: Nanos = Nanos::from_millis(5);
/// The file is flushed and new mappings are looked for this often.
const FLUSH_EVERY: Nanos = Nanos::SECOND;

/// What the sampler and its thread tell each other.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Wakes the thread.
    pub(crate) wake: OwnedFd,
    pub(crate) stop: AtomicBool,
    /// CPU time that the process used while it was sampled, known when `stop` is set; 0 where it is not known.
    pub(crate) process_cpu_ns: AtomicU64,
    /// The process has ended.
    pub(crate) ended: AtomicBool,
}

/// Samples on their way from a source into a profile.
pub(crate) struct Worker {
    pub(crate) target: Target,
    pub(crate) source: Box<dyn SampleSource>,
    pub(crate) converter: Converter,
}

impl Worker {
    /// Fetches records until told to stop or the process has ended, and ends the file.
    pub(crate) fn run(mut self, from: Time, signals: &Signals) -> Outcome {
        let cpu_before = thread_cpu();
        let mut flushed = from;
        let mut timeout = FIRST_TIMEOUT;
        loop {
            let ended = self.wait(signals, timeout);
            timeout = Nanos(timeout.0.saturating_mul(2)).min(FETCH_TIMEOUT);
            let stop = signals.stop.load(Ordering::Acquire);
            self.fetch();
            if Clock.now().since(flushed) >= FLUSH_EVERY {
                flushed = Clock.now();
                self.converter.every_second();
            }
            if ended && !stop {
                signals.ended.store(true, Ordering::Release);
                self.note_end();
            }
            if ended || stop {
                break;
            }
        }
        let converter = &mut self.converter;
        let take = &mut |record: &Record<'_>| converter.record(record);
        if let Some(left_out) = self.source.end(Clock.now(), take) {
            converter.remark(&left_out);
        }
        self.converter.lost_in_all(self.source.lost());
        self.converter.compare_count(self.source.counted());
        let own_cpu = thread_cpu().saturating_sub(cpu_before);
        let process_cpu = Nanos(signals.process_cpu_ns.load(Ordering::Acquire));
        self.converter
            .finish(from, Clock.now(), own_cpu, process_cpu)
    }

    /// Waits for records, for the time-out, or for a word from the sampler; says whether the process
    /// has ended.
    fn wait(&mut self, signals: &Signals, timeout: Nanos) -> bool {
        let timeout = Timespec {
            tv_sec: 0,
            // Less than a second.
            tv_nsec: i64::try_from(timeout.0).unwrap_or(0),
        };
        let wake = signals.wake.as_fd();
        match &self.target.pidfd {
            Some(process) => {
                let readable = self.source.wait(&[wake, process.as_fd()], &timeout);
                readable.get(1) == Some(&true)
            }
            None => {
                self.source.wait(&[wake], &timeout);
                threads::ids(self.target.pid).is_empty()
            }
        }
    }

    fn fetch(&mut self) {
        self.converter.before_fetch();
        let converter = &mut self.converter;
        if let Err(Damaged) = self.source.fetch(&mut |record| converter.record(record)) {
            converter.note("a ring held a damaged record; what followed in it was dropped");
        }
    }

    fn note_end(&mut self) {
        let at = self.converter.since_origin(Clock.now()).as_secs_f64();
        self.converter.note(&format!(
            "process {} ended at {at:.1} s; the profile covers it until then",
            self.target.pid
        ));
    }
}

/// CPU time of the calling thread.
fn thread_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
