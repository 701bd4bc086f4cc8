//! Events of a run in progress.

use std::time::Duration;

use archive::{Event, SeriesName, SeriesPoint};
use brokers::managed::Progress;
use measure::{Interval, Nanos, Phase};

/// Observes a run in progress, on the thread that called [`crate::run`]. Methods do nothing unless implemented.
pub trait Observer {
    /// A step before or after the load, as one short sentence: `starting RabbitMQ`.
    fn step(&mut self, _text: &str) {}
    /// A wait goes on; called every second.
    fn waiting(&mut self, _text: &str, _waited: Duration) {}
    /// A broker was started for the run, and where it listens: a line that stays on the screen.
    fn ready(&mut self, _text: &str) {}
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
    /// A broker that was started for the run logged this line.
    fn logged(&mut self, _line: &str) {}
    /// An event of the run, such as a blocked connection.
    fn event(&mut self, _event: &Event) {}
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Reports the start of a broker to an observer.
pub(crate) fn starting(observer: &mut dyn Observer) -> impl FnMut(Progress<'_>) {
    move |progress: Progress<'_>| match progress {
        Progress::Step(text) => observer.step(text),
        Progress::Waiting(text, waited) => observer.waiting(text, waited),
        Progress::Logged(line) => observer.logged(line),
        Progress::Ready(text) => observer.ready(text),
    }
}
