//! Faults of a managed broker at given times, on a thread of their own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use archive::FaultOutcome;
use measure::{Clock, Interval, Time};

use super::recording::Recording;
use crate::experiment::{FaultKind, FaultSpec};
use crate::managed::RabbitMq;

/// What happened to the broker.
#[derive(Debug)]
pub(crate) enum News {
    /// A fault began.
    Began { at: Time, kind: FaultKind },
    /// The broker goes on, or is ready again; its process from now on.
    Back { at: Time, pid: u32 },
    /// It could not be done.
    Failed { at: Time, reason: String },
}

/// The faults of a run, from the outside.
pub(crate) struct Timeline<'scope> {
    begin: Option<Sender<Time>>,
    news: Receiver<News>,
    thread: Option<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Timeline<'scope> {
    /// Waits for [`Self::begin`] on a thread; nothing where there are no faults.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        faults: &'env [FaultSpec],
        node: Option<&'env mut RabbitMq>,
        control: &'env load::Control,
    ) -> Option<Self> {
        let node = node.filter(|_| !faults.is_empty())?;
        let (begin, begun) = channel();
        let (tell, news) = channel();
        let mut player = Player {
            node,
            control,
            begun,
            tell,
        };
        let thread = scope.spawn(move || player.play(faults));
        Some(Self {
            begin: Some(begin),
            news,
            thread: Some(thread),
        })
    }

    /// The measured phase begins then.
    pub(crate) fn begin(&self, at: Time) {
        if let Some(begin) = &self.begin {
            // A thread that has ended has no more faults.
            let _ = begin.send(at);
        }
    }

    /// What has happened since the last call.
    pub(crate) fn news(&self) -> impl Iterator<Item = News> {
        self.news.try_iter()
    }

    /// Ends it; a broker that is away is brought back first.
    pub(crate) fn end(&mut self) {
        drop(self.begin.take());
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug, and shows on standard error.
            let _ = thread.join();
        }
    }
}

struct Player<'env> {
    node: &'env mut RabbitMq,
    control: &'env load::Control,
    begun: Receiver<Time>,
    tell: Sender<News>,
}

impl Player<'_> {
    fn play(&mut self, faults: &[FaultSpec]) {
        let Ok(begin) = self.begun.recv() else {
            return;
        };
        for fault in faults {
            let at = begin + fault.at.0;
            if !self.wait_until(at) {
                return;
            }
            let done = match fault.kind {
                FaultKind::Stop => self.node.pause(),
                FaultKind::Kill => self.node.kill(),
            };
            let kind = fault.kind;
            if !done {
                return self.fail("the broker is gone".to_owned());
            }
            self.say(News::Began {
                at: Clock.now(),
                kind,
            });
            // Also where the run ends meanwhile: the broker is needed for its end.
            self.wait_until(at + fault.length.0);
            self.control.watch_return();
            let back = match fault.kind {
                FaultKind::Stop if self.node.resume() => Ok(()),
                FaultKind::Stop => Err("the broker is gone".to_owned()),
                FaultKind::Kill => {
                    let aborted = || false;
                    self.node.restart(&aborted).map_err(|e| e.to_string())
                }
            };
            match back {
                Ok(()) => self.say(News::Back {
                    at: Clock.now(),
                    pid: self.node.pid(),
                }),
                Err(reason) => return self.fail(reason),
            }
        }
    }

    /// `false`: the run ends.
    fn wait_until(&self, at: Time) -> bool {
        let left = Duration::from(at.since(Clock.now()));
        matches!(
            self.begun.recv_timeout(left),
            Err(RecvTimeoutError::Timeout)
        )
    }

    fn say(&self, news: News) {
        // Nobody listens where the run has failed.
        let _ = self.tell.send(news);
    }

    fn fail(&self, reason: String) {
        self.say(News::Failed {
            at: Clock.now(),
            reason,
        });
    }
}

/// A recording together with the faults of its broker.
struct Played<'r, 'a, 'scope> {
    recording: &'r mut Recording<'a>,
    timeline: Timeline<'scope>,
}

impl Played<'_, '_, '_> {
    fn take_news(&mut self) {
        for news in self.timeline.news() {
            self.recording.fault_news(news);
        }
    }
}

impl load::Sink for Played<'_, '_, '_> {
    fn interval(&mut self, interval: &Interval) {
        self.take_news();
        self.recording.interval(interval);
    }

    fn event(&mut self, event: load::Event) {
        if let load::Event::Started { at } = event {
            self.timeline
                .begin(at + self.recording.setting.phases.warmup);
        }
        self.take_news();
        self.recording.event(event);
    }
}

impl Recording<'_> {
    /// Runs the load, and meanwhile the faults.
    pub(crate) fn run(
        &mut self,
        plan: &load::Plan,
        control: &load::Control,
        timeline: Option<Timeline<'_>>,
    ) -> Result<load::Outcome, load::Error> {
        let Some(timeline) = timeline else {
            return load::run(plan, control, self);
        };
        let mut played = Played {
            recording: self,
            timeline,
        };
        let outcome = load::run(plan, control, &mut played);
        played.timeline.end();
        played.take_news();
        outcome
    }

    fn fault_news(&mut self, news: News) {
        match news {
            News::Began { at, kind } => {
                let t = self.seconds_since_origin(at);
                self.faults.push(FaultOutcome {
                    kind: kind.name().to_owned(),
                    t,
                    ..FaultOutcome::default()
                });
                let label = match kind {
                    FaultKind::Stop => "the broker was stopped",
                    FaultKind::Kill => "the broker was killed",
                };
                self.keep_event(at, label.to_owned());
            }
            News::Back { at, pid } => {
                self.usage.follow(pid);
                self.since_fault(at, "the broker is back", |fault| &mut fault.back_s);
            }
            News::Failed { at, reason } => {
                self.keep_event(at, format!("the fault could not be played: {reason}"));
            }
        }
    }

    /// Notes how long after the last fault's beginning something came.
    pub(super) fn since_fault(
        &mut self,
        at: Time,
        what: &str,
        place: fn(&mut FaultOutcome) -> &mut Option<f64>,
    ) {
        let t = self.seconds_since_origin(at);
        let Some(fault) = self.faults.last_mut() else {
            return;
        };
        let after = t - fault.t;
        *place(fault) = Some(after);
        self.keep_event(at, format!("{what}, {after:.2} s after the fault began"));
    }
}
