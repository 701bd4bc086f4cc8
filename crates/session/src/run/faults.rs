//! Faults at given times: those of a managed broker are done here, on a thread of their own; those of
//! the embedded broker it plays itself, and here its return is watched.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use archive::FaultOutcome;
use measure::{Clock, Interval, Time};
use serde::{Deserialize, Serialize};

use super::broker::FaultPipe;
use super::recording::Recording;
use super::work::Work;
use crate::brokers::rabbitmq::RabbitMq;
use crate::experiment::{FaultKind, FaultSpec};

/// What happened to the broker.
#[derive(Debug)]
pub(crate) enum News {
    /// A fault began.
    Began { at: Time, kind: FaultKind },
    /// The broker goes on, or is ready again; its process from now on.
    Back { at: Time, pid: Option<u32> },
    /// It could not be done.
    Failed { at: Time, reason: String },
}

/// What the embedded broker has done of its faults, in its own words: one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedFaults {
    /// One per fault, in the order of the script.
    pub faults: Vec<PlayedFault>,
    /// Messages taken from publishers and not refused.
    pub published: u64,
    /// Deliveries with the redelivered flag after the loss of a consumer.
    pub redelivered: u64,
}

/// What one fault did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedFault {
    /// As the script writes it.
    pub kind: String,
    /// Messages, confirms, logins or connections that were hit.
    pub count: u64,
    /// When it began, on the machine's monotonic clock; absent where it did not.
    pub start_ns: Option<u64>,
    /// When it was over; absent while it lasts.
    pub end_ns: Option<u64>,
}

/// Who is harmed, and how it is told when.
pub(crate) enum Victim<'env> {
    /// By this thread.
    Managed(&'env mut RabbitMq),
    /// By itself.
    Embedded(&'env mut FaultPipe),
}

/// The faults that take the broker or its connections away, in the order of time, with their
/// positions in the experiment.
fn outages(faults: &[FaultSpec]) -> Vec<(usize, &FaultSpec)> {
    let mut outages: Vec<_> = faults.iter().enumerate().collect();
    outages.retain(|(_, fault)| fault.kind.is_outage());
    outages.sort_by_key(|(_, fault)| fault.at);
    outages
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
        victim: Option<Victim<'env>>,
        control: &'env load::Control,
    ) -> Option<Self> {
        let victim = victim.filter(|_| !faults.is_empty())?;
        let (begin, begun) = channel();
        let (tell, news) = channel();
        let mut player = Player {
            victim,
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
    victim: Victim<'env>,
    control: &'env load::Control,
    begun: Receiver<Time>,
    tell: Sender<News>,
}

impl Player<'_> {
    fn play(&mut self, faults: &[FaultSpec]) {
        let Ok(begin) = self.begun.recv() else {
            return;
        };
        if let Victim::Embedded(pipe) = &mut self.victim
            && let Err(reason) = pipe.begin(begin)
        {
            return self.fail(reason);
        }
        for (_, fault) in outages(faults) {
            let at = begin + fault.at.unwrap_or_default().0;
            if !self.wait_until(at) {
                return;
            }
            if let Err(reason) = self.victim.harm(fault.kind) {
                return self.fail(reason);
            }
            self.say(News::Began {
                at: Clock.now(),
                kind: fault.kind,
            });
            // Also where the run ends meanwhile: the broker is needed for its end.
            let length = fault.length.unwrap_or_default();
            self.wait_until(at + length.0);
            self.control.watch_return();
            match self.victim.bring_back(fault.kind) {
                Ok(pid) if !length.is_zero() => self.say(News::Back {
                    at: Clock.now(),
                    pid,
                }),
                Ok(_) => {}
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

impl Victim<'_> {
    fn harm(&mut self, kind: FaultKind) -> Result<(), String> {
        let done = match (self, kind) {
            (Self::Managed(node), FaultKind::Stop) => node.process().pause(),
            (Self::Managed(node), _) => node.process().kill(),
            (Self::Embedded(_), _) => true,
        };
        done.then_some(())
            .ok_or_else(|| "the broker is gone".to_owned())
    }

    /// Its process from now on, where that may have changed.
    fn bring_back(&mut self, kind: FaultKind) -> Result<Option<u32>, String> {
        match (self, kind) {
            (Self::Managed(node), FaultKind::Stop) => {
                let goes_on = node.process().resume().then_some(Some(node.pid()));
                goes_on.ok_or_else(|| "the broker is gone".to_owned())
            }
            (Self::Managed(node), _) => {
                node.restart(&mut |_, _| {}, &|| false)
                    .map_err(|e| e.to_string())?;
                Ok(Some(node.pid()))
            }
            (Self::Embedded(_), _) => Ok(None),
        }
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

    fn event(&mut self, event: load::RunEvent) {
        if let load::RunEvent::Started { at } = event {
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
        work: &Work,
        control: &load::Control,
        timeline: Option<Timeline<'_>>,
    ) -> Result<load::Outcome, load::Error> {
        let Some(timeline) = timeline else {
            return work.run(control, self);
        };
        let mut played = Played {
            recording: self,
            timeline,
        };
        let outcome = work.run(control, &mut played);
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
                self.keep_event(at, label(kind).to_owned());
            }
            News::Back { at, pid } => {
                if let Some(pid) = pid {
                    self.usage.follow(pid);
                }
                self.since_fault(at, "the broker is back", |fault| &mut fault.back_s);
            }
            News::Failed { at, reason } => {
                self.keep_event(at, format!("the fault could not be played: {reason}"));
            }
        }
    }

    /// Takes the embedded broker's own word for what it did.
    pub(super) fn played(&mut self, specs: &[FaultSpec], played: &PlayedFaults) {
        let order: Vec<usize> = outages(specs).iter().map(|(at, _)| *at).collect();
        for (at, (spec, done)) in specs.iter().zip(&played.faults).enumerate() {
            let seconds = |ns: u64| self.seconds_since_origin(Time(ns));
            let t = done.start_ns.map(seconds);
            let end = done.end_ns.map(seconds);
            let Some(t) = t else { continue };
            let seen = order.iter().position(|it| *it == at);
            if let Some(outcome) = seen.and_then(|seen| self.faults.get_mut(seen)) {
                outcome.t = t;
                outcome.count = Some(done.count);
                if spec.length.is_some() {
                    outcome.back_s = end.map(|end| end - t);
                }
            } else {
                self.faults.push(FaultOutcome {
                    kind: spec.kind.name().to_owned(),
                    t,
                    count: Some(done.count),
                    ..FaultOutcome::default()
                });
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

const fn label(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Stop => "the broker was stopped",
        FaultKind::Kill => "the broker was killed",
        FaultKind::Stall => "the broker stood still",
        FaultKind::Block => "the broker blocked publishers",
        FaultKind::Drop => "the broker closed connections",
        FaultKind::Reset => "the broker reset connections",
        FaultKind::CloseChannel => "the broker closed channels",
        FaultKind::Cut => "the broker cut connections",
        // These are on for as long as they are, and counted.
        _ => "a fault began",
    }
}
