//! Events of a run in progress.

use std::time::Duration;

use archive::{Event, SeriesName, SeriesPoint};
use brokers::managed::Progress;
use measure::{Interval, Nanos, Phase};

/// Observes a run in progress, on the thread that called [`crate::run`]. Methods do nothing unless implemented.
pub trait Observer {
    /// Steps before and after the load, waits, and lines of the log of a broker that was started for the run.
    fn progress(&mut self, _progress: Progress<'_>) {}
    /// A step as one short sentence: `starting RabbitMQ`. Not to be implemented: [`Self::progress`] hears it.
    fn step(&mut self, text: &str) {
        self.progress(Progress::Step(text));
    }
    /// A wait goes on; called every second. Not to be implemented: [`Self::progress`] hears it.
    fn waiting(&mut self, text: &str, waited: Duration) {
        self.progress(Progress::Waiting(text, waited));
    }
    /// A wait for what the user may have to bring, of which a quiet run tells, too; called every second.
    fn missing(&mut self, text: &str, waited: Duration) {
        self.waiting(text, waited);
    }
    /// A phase begins; `length` is the planned one, `None` where it has no set end.
    fn phase(&mut self, _phase: Phase, _length: Option<Nanos>) {}
    /// An interval of about a second has ended. `cumulative` holds the measured phase so far.
    fn point(&mut self, _point: &SeriesPoint, _cumulative: &Interval) {}
    /// The interval with its whole histograms, before [`Self::point`].
    fn interval(&mut self, _interval: &Interval) {}
    /// Current values of named series: all of each source among them.
    fn values(&mut self, _values: &[(SeriesName, f64)]) {}
    /// A request for a page of metrics brought none.
    fn page_failed(&mut self, _page: &str) {}
    /// An event of the run, such as a blocked connection.
    fn event(&mut self, _event: &Event) {}
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
