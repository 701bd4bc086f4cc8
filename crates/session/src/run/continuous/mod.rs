//! `bellows record --every`: one or several processes for days, a run folder for each period, in bounded space.

mod follow;
mod keep;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use linux::ProcessId;
use load::Control;
use measure::{Clock, Nanos, Problem, Time};

use super::{RunOptions, named_process};
use crate::Error;
use experiment::ProfileSpec;
use follow::{Follower, Shared};
use keep::Keep;
use web::push::{Push, PushNews, PushOptions, Pusher};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often new processes are looked for while none has the name, and while some have it.
const LOOK_EVERY: [Nanos; 2] = [Nanos::from_millis(500), Nanos::from_millis(2_000)];
const SHORTEST_PERIOD: Nanos = Nanos::SECOND;
const MOST_PROCESSES: usize = 64;
const MOST_REFUSED: usize = 10_000;

/// Options of a recording that lasts days.
#[derive(Clone, Debug)]
pub struct ContinuousOptions {
    /// The single process by its id; the recording ends with it.
    pub pid: Option<u32>,
    /// Names of processes: all that have one, now or later.
    pub names: Vec<String>,
    /// Profiling of each process.
    pub profile: ProfileSpec,
    /// Length of a period.
    pub every: Nanos,
    /// Periods that ended longer ago are removed; `None` keeps all.
    pub keep: Option<Nanos>,
    /// Most bytes of the periods that have ended.
    pub most_bytes: u64,
    /// The recording's name, which its periods carry; where it is empty, the processes' names.
    pub recording: String,
    /// Labels of each period.
    pub labels: BTreeMap<String, String>,
    /// Length; `None` until stopped.
    pub duration: Option<Nanos>,
    /// Where the periods' profiles are sent, too.
    pub push: Option<PushOptions>,
}

/// Events of a continuous recording.
#[derive(Debug)]
pub enum RecordingEvent {
    /// A process, by its name and id, was found and is sampled from now on.
    Following(String, u32),
    /// No process has any of the names in this list now.
    Waiting(String),
    /// A process, by its name and id, has ended.
    Ended(String, u32),
    /// A process, by its name and id, cannot be recorded for this reason; the others are.
    Refused(String, u32, Problem),
    /// A period has ended and was written.
    Period(Box<PeriodEnd>),
    /// The next period is not kept.
    Paused(Problem),
    /// A problem that does not stop the recording, or its end.
    News(PushNews),
    /// A profile to be sent.
    #[doc(hidden)]
    Push(Box<Push>),
}

/// A period that has ended.
#[derive(Clone, Debug)]
pub struct PeriodEnd {
    /// The run's id.
    pub id: String,
    /// The period's folder.
    pub run_dir: PathBuf,
    /// The process's name.
    pub process: String,
    /// The process's id.
    pub pid: u32,
    /// When it ended, nanoseconds since 1970.
    pub end_unix_ns: u64,
    /// Length of the period.
    pub length: Nanos,
    /// Samples in all profiles.
    pub samples: usize,
    /// Cores that the process used on average, where that is known.
    pub cores: Option<f64>,
    /// Bytes of the folder.
    pub bytes: u64,
    /// The process or the recording ended in it.
    pub is_short: bool,
    /// Warnings about the period.
    pub warnings: Vec<String>,
    /// Periods of the recording that are kept.
    pub kept: usize,
    /// Bytes of the kept periods.
    pub kept_bytes: u64,
}

/// Records until stopped, or until the process given by its id ends; returns the number of kept periods. Fails where
/// the options make no sense, no archive is kept, the process is not there, or profiling is not permitted.
pub fn record_continuously(
    what: &ContinuousOptions,
    options: &RunOptions,
    control: &Control,
    watcher: &mut dyn FnMut(RecordingEvent),
) -> Result<usize, Error> {
    check(what)?;
    let Some(runs_dir) = &options.runs_dir else {
        return Err(
            Problem::new("a recording is its archive", "no folder for runs is given", "name one with --runs").into()
        );
    };
    std::fs::create_dir_all(runs_dir).map_err(|e| Problem::io("make", runs_dir, &e))?;
    let what = &ContinuousOptions { recording: name_of(what), ..what.clone() };
    let keep = Keep::load(runs_dir, &what.recording, what.keep, what.most_bytes)?;
    let keep = Mutex::new(keep);
    let shared = Shared { what, run: options, control, keep: &keep };
    let pusher = what.push.as_ref().map(|it| Pusher::start(it.server())).transpose()?;
    let (tell, told) = channel();
    thread::scope(|scope| {
        let supervisor = Supervisor {
            shared: &shared,
            scope,
            tell,
            watcher,
            pusher,
            followed: BTreeMap::new(),
            refused: BTreeSet::new(),
            waiting: false,
            periods: 0,
            first_error: None,
        };
        supervisor.run(&told)
    })
}

fn check(what: &ContinuousOptions) -> Result<(), Error> {
    what.profile.check().map_err(Error::Usage)?;
    if what.every < SHORTEST_PERIOD {
        return Err(Error::Usage(Problem::new(
            format!("a period of {} is too short", what.every),
            what.every,
            format!("give --every at least {SHORTEST_PERIOD}"),
        )));
    }
    if what.keep.is_some_and(|keep| keep < what.every) {
        return Err(Error::Usage(Problem::new(
            "--keep is shorter than a period: none would be kept",
            format!("a period is {}", what.every),
            "give --keep as much as --every, or more",
        )));
    }
    Ok(())
}

/// The recording's name: the given one, else those of its processes.
fn name_of(what: &ContinuousOptions) -> String {
    match (what.recording.as_str(), what.pid) {
        ("", Some(pid)) => named_process::name_of(pid).unwrap_or_else(|| format!("pid-{pid}")),
        ("", None) => keep::joined(&what.names),
        (given, _) => given.to_owned(),
    }
}

/// Finds processes, has each followed by a thread of its own, and keeps the space bounded.
struct Supervisor<'s, 'e, 'w> {
    shared: &'e Shared<'e>,
    scope: &'s Scope<'s, 'e>,
    tell: Sender<RecordingEvent>,
    watcher: &'w mut dyn FnMut(RecordingEvent),
    pusher: Option<Pusher>,
    followed: BTreeMap<ProcessId, Followed<'s>>,
    refused: BTreeSet<ProcessId>,
    /// It was reported that no process has the name.
    waiting: bool,
    periods: usize,
    first_error: Option<Error>,
}

struct Followed<'s> {
    name: String,
    thread: ScopedJoinHandle<'s, Result<(), Error>>,
}

impl Supervisor<'_, '_, '_> {
    fn run(mut self, told: &Receiver<RecordingEvent>) -> Result<usize, Error> {
        let control = self.shared.control;
        let end = self.shared.what.duration.map(|length| Clock.now() + length);
        let mut next_look = Time(0);
        loop {
            let now = Clock.now();
            if end.is_some_and(|end| now >= end) {
                control.stop();
            }
            if now >= next_look && !control.is_stopping() {
                self.look()?;
                let [alone, beside] = LOOK_EVERY;
                next_look = now + if self.followed.is_empty() { alone } else { beside };
            }
            match told.recv_timeout(POLL_INTERVAL) {
                Ok(told) => self.hear(told),
                Err(RecvTimeoutError::Timeout) => {
                    if self.collect() {
                        next_look = Time(0);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let alone = self.shared.what.pid.is_some();
            if self.followed.is_empty() && (control.is_stopping() || alone) {
                break;
            }
        }
        // What the last followers told before they ended.
        told.try_iter().for_each(|told| self.hear(told));
        if let Some(pusher) = self.pusher.take() {
            pusher.finish().into_iter().map(RecordingEvent::News).for_each(&mut *self.watcher);
        }
        match self.first_error {
            Some(error) if self.periods == 0 => Err(error),
            _ => Ok(self.periods),
        }
    }

    fn look(&mut self) -> Result<(), Error> {
        let what = self.shared.what;
        let found = match what.pid {
            Some(_) if !self.followed.is_empty() || !self.refused.is_empty() => return Ok(()),
            Some(pid) => {
                let process = ProcessId::of(pid).ok_or_else(|| profile::no_such_process(pid))?;
                let name = named_process::name_of(pid).unwrap_or_default();
                vec![(process, name)]
            }
            None => named_process::all(&what.names),
        };
        let is_new = |process: &ProcessId| !self.followed.contains_key(process) && !self.refused.contains(process);
        let new: Vec<_> = found.into_iter().filter(|(it, _)| is_new(it)).collect();
        for (process, name) in new {
            if self.followed.len() < MOST_PROCESSES {
                self.follow(process, name)?;
            }
        }
        let nobody = self.followed.is_empty();
        if nobody && !std::mem::replace(&mut self.waiting, nobody) {
            (self.watcher)(RecordingEvent::Waiting(what.names.join(", ")));
        }
        self.waiting = nobody;
        Ok(())
    }

    fn follow(&mut self, process: ProcessId, name: String) -> Result<(), Error> {
        let follower = Follower { shared: self.shared, process, name: name.clone(), tell: self.tell.clone() };
        let thread = thread::Builder::new().name("recorder".into());
        let thread = thread.spawn_scoped(self.scope, move || follower.run());
        let thread = thread.map_err(|e| Problem::new("cannot start a thread", e, "see ulimit -u"))?;
        let pid = process.pid;
        self.followed.insert(process, Followed { name: name.clone(), thread });
        (self.watcher)(RecordingEvent::Following(name, pid));
        Ok(())
    }

    /// Takes leave of processes whose followers have ended; whether any has.
    fn collect(&mut self) -> bool {
        let ended: Vec<_> = self.followed.extract_if(.., |_, followed| followed.thread.is_finished()).collect();
        let any = !ended.is_empty();
        for (id, Followed { name: process, thread }) in ended {
            let pid = id.pid;
            let panicked = |_| Err(Problem::new("a recorder panicked", pid, "this is a bug").into());
            match thread.join().unwrap_or_else(panicked) {
                Err(error) => {
                    if self.refused.len() < MOST_REFUSED {
                        self.refused.insert(id);
                    }
                    let problem = error.problem();
                    self.first_error.get_or_insert(error);
                    (self.watcher)(RecordingEvent::Refused(process, pid, problem));
                }
                Ok(()) if !id.is_alive() => (self.watcher)(RecordingEvent::Ended(process, pid)),
                Ok(()) => {}
            }
        }
        any
    }

    fn hear(&mut self, told: RecordingEvent) {
        match told {
            RecordingEvent::Push(push) => {
                let target = self.shared.what.push.as_ref().map(|it| &it.target);
                if let Some((pusher, target)) = self.pusher.as_ref().zip(target) {
                    pusher.queue(target.request(&push));
                }
            }
            RecordingEvent::Period(mut period) => {
                self.periods += 1;
                if let Ok(mut keep) = self.shared.keep.lock() {
                    keep.add(period.run_dir.clone(), period.end_unix_ns, period.bytes);
                    keep.prune();
                    (period.kept, period.kept_bytes) = keep.sum();
                    let troubles = keep.take_troubles().into_iter().map(PushNews::Failed);
                    troubles.map(RecordingEvent::News).for_each(&mut *self.watcher);
                }
                (self.watcher)(RecordingEvent::Period(period));
            }
            other => (self.watcher)(other),
        }
        if let Some(pusher) = &self.pusher {
            pusher.news().into_iter().map(RecordingEvent::News).for_each(&mut *self.watcher);
        }
    }
}
