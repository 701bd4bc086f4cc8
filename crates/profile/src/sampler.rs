//! The sampler as its users see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use linux::{Status, threads};
use measure::{Clock, Problem, Time};
use rustix::event::EventfdFlags;
use stacks::{ProfileHeader, StacksWriter};

use crate::converter::{Converter, Outcome, Subject};
use crate::events::{KernelEvent, Options, Weight};
use crate::jvm::Jvm;
use crate::late_names::LateNames;
use crate::source::blocked::{BlockedTimes, Wakings};
use crate::source::perf::{self, Capabilities, PerfEvents, PerfRings, permission};
use crate::source::{SampleSource, SamplesInOrder};
use crate::stack_copy::WakeUps;
use crate::stack_table::StackTable;
use crate::symbols::Symbols;
use crate::threads::{Target, Threads, system};
use crate::unwind;
use crate::worker::{Signals, Turn, Worker};

const NO_FRAME_POINTERS: &str = "stacks of Java methods are cut or wrong, because the JVM keeps no frame \
    pointers: start it with -XX:+PreserveFramePointer";

/// Samples one process, all threads of it, those that start later included.
///
/// Dropping it without [`Sampler::stop`] ends sampling and the file in the same way.
pub struct Sampler {
    events: Arc<PerfEvents>,
    signals: Arc<Signals>,
    state: SamplerState,
    pid: u32,
    header: ProfileHeader,
    stays_in_the_way: bool,
}

enum SamplerState {
    Attached(Box<Worker>),
    Running(JoinHandle<Outcome>),
    Done,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("signals", &self.signals).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Opens the event on every thread of `pid`, switched off, and reads all symbols ahead of sampling. Completes the
    /// sink's header, whose origin must be set. Errors: no such process, no permission, a limit.
    pub fn attach(pid: u32, options: &Options, mut sink: StacksWriter) -> Result<Self, Problem> {
        if options.frequency == 0 {
            return Err(Problem::new("the frequency is 0", "0 samples per second", "give at least 1"));
        }
        let target = Target::find(pid)?;
        let kernel_event = KernelEvent::of(&options.event, pid)?;
        let wake_ups = (options.event.weight == Weight::Blocked).then(|| WakeUps::load(pid).map(Arc::new));
        let loaded = wake_ups.as_ref().and_then(|it| it.as_ref().ok());
        let (mut unwinder, note) = unwind::choose(pid, options.stacks, &kernel_event, loaded.map(Arc::as_ref));
        let opened = perf::open(pid, options, &kernel_event, unwinder.as_ref(), loaded)?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|e| system("make an event descriptor", e))?;
        let granted = opened.granted;
        let (java_names, java_note) = java_names(pid, &target.status);
        let symbols = Symbols::new(pid, &target.status, granted.kernel);
        let header = header(&target, options, granted);
        complete(&mut sink, &header);
        let mut notes = first_notes(options, granted, &symbols);
        notes.extend(note.into_iter().chain(java_note));
        notes.extend(wake_ups.as_ref().and_then(|it| unknown_wakers(it, granted, &symbols)));
        let threads = Threads::new(pid, &target.status.name, opened.owners.values().copied());
        let stays_in_the_way = !granted.copies && matches!(kernel_event, KernelEvent::Tracepoint(_));
        let subject = Subject {
            pid,
            field: kernel_event.field(),
            event: options.event.clone(),
            owners: opened.owners,
            threads_only: granted.threads_only,
            period_ns: header.period_ns,
        };
        let wakings = Wakings { events: opened.wakings, numbering: loaded.map(|it| it.numbering) };
        let source = source(pid, options, opened.rings, wakings);
        if unwinder.copier().is_some() && !granted.copies {
            unwinder = unwind::by_frame_pointers();
        }
        let mut converter = Converter::new(subject, threads, unwinder, StackTable::new(symbols), sink);
        notes.iter().for_each(|note| converter.note(note));
        match java_names {
            Some(Ok(late)) => converter.wait_for_names(late),
            Some(Err(why)) => converter.note_unnamed(&why),
            None => {}
        }
        converter.begin();
        let worker = Worker { target, source, converter };
        Ok(Self {
            events: opened.events,
            signals: Arc::new(Signals::new(wake)),
            state: SamplerState::Attached(Box::new(worker)),
            pid,
            header,
            stays_in_the_way,
        })
    }

    /// Switches sampling on. A second call does nothing. Errors: the kernel refuses.
    pub fn start(&mut self) -> Result<(), Problem> {
        let state = std::mem::replace(&mut self.state, SamplerState::Done);
        let SamplerState::Attached(mut worker) = state else { return Ok(()) };
        worker.converter.look_at_memory();
        let from = Clock.now();
        let process_cpu = linux::cpu_time(self.pid);
        self.signals.pauses.begin(&self.events).map_err(|e| system("switch an event on", e))?;
        let signals = Arc::clone(&self.signals);
        let thread = std::thread::Builder::new().name("profiler".into());
        let thread = thread.spawn(move || worker.run(from, process_cpu, &signals));
        self.state = SamplerState::Running(thread.map_err(|e| system("start the profiler's thread", e))?);
        Ok(())
    }

    /// From the instant `at` on, samples go to another sink, whose origin must be set; the receiver hears what became
    /// of those before. A turn in the past comes with the next samples. Where sampling ends before `at`, or
    /// [`Sampler::stay`] comes before it, the sink is left alone and the receiver hears nothing.
    pub fn turn(&self, at: Time, mut sink: StacksWriter) -> Receiver<Outcome> {
        complete(&mut sink, &self.header);
        let (done, outcome) = channel();
        if let Ok(mut wanted) = self.signals.turn.lock() {
            *wanted = Some(Turn { at, sink, done });
        }
        outcome
    }

    /// Takes back what [`Sampler::turn`] asked for, unless it has come about.
    pub fn stay(&self) {
        drop(self.signals.take_turn());
    }

    /// Samples count from another instant than the sink's header says, where sampling has not begun.
    pub fn count_from(&mut self, origin: Time, unix_ns: u64) {
        if let SamplerState::Attached(worker) = &mut self.state {
            worker.converter.count_from(origin, unix_ns);
        }
    }

    /// Memory taken or given back from an instant on does not count as held. Tell it as soon as that has come.
    pub fn hold_until(&self, at: Time) {
        let before = &self.signals.held_until_ns;
        before.fetch_min(at.0, Ordering::AcqRel);
    }

    /// Switch that pauses sampling.
    pub fn switch(&self) -> SamplingSwitch {
        SamplingSwitch { events: Arc::clone(&self.events), signals: Arc::clone(&self.signals), pid: self.pid }
    }

    /// Whether a tracepoint stays open while sampling is off: all that passes it takes the kernel's longer way.
    pub const fn stays_in_the_way(&self) -> bool {
        self.stays_in_the_way
    }

    /// Switches sampling off, writes what is still in the rings, and ends the stacks file. Errors: the sampler's thread
    /// failed. A file that could not be written to its end is none: a note says so, and it is readable that far.
    pub fn stop(mut self) -> Result<Outcome, Problem> {
        self.end()
    }

    fn end(&mut self) -> Result<Outcome, Problem> {
        let used = linux::cpu_time(self.pid);
        self.signals.pauses.end(&self.events, used);
        if let Some(used) = used {
            self.signals.process_cpu_ns.store(used.0, Ordering::Release);
        }
        self.signals.stop.store(true, Ordering::Release);
        match std::mem::replace(&mut self.state, SamplerState::Done) {
            SamplerState::Attached(worker) => Ok(worker.run(Clock.now(), None, &self.signals)),
            SamplerState::Running(thread) => {
                // The thread looks at the flag ten times a second in any case.
                let _ = rustix::io::write(&self.signals.wake, &1u64.to_ne_bytes());
                let panicked = "the profiler's thread panicked; this is a bug";
                thread.join().map_err(|_| system("fetch samples", panicked))
            }
            SamplerState::Done => Ok(Outcome::default()),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // The outcome is of no interest to somebody who did not ask for it.
        let _ = self.end();
    }
}

/// Header of the files, but for what their sinks know.
fn header(target: &Target, options: &Options, granted: Capabilities) -> ProfileHeader {
    let event = &options.event;
    let frequency = event.frequency(options.frequency);
    ProfileHeader {
        event: event.name.clone().into_owned(),
        kernel_event: event.kernel_name.clone().into_owned(),
        unit: event.unit.into(),
        kind: event.kind,
        period_ns: event.period_ns(frequency),
        frequency,
        pid: target.pid,
        command: target.status.name.clone(),
        kernel_frames: granted.kernel,
        ..ProfileHeader::new(Time(0), 0)
    }
}

/// Samples as they are read; of blocked threads made of their steps, of what is held in the order of their times.
fn source(pid: u32, options: &Options, rings: PerfRings, wakings: Wakings) -> Box<dyn SampleSource> {
    match options.event.weight {
        Weight::Blocked => {
            let alive = move || threads::ids(pid).into_iter().collect();
            Box::new(BlockedTimes::new(rings, options.min_block, wakings, alive))
        }
        Weight::Held => Box::new(SamplesInOrder::of(rings)),
        Weight::One | Weight::Events | Weight::Field(_) | Weight::Calls | Weight::Requested => Box::new(rings),
    }
}

/// Completes the header of a sink with what only the sampler knows: all but the time axis and the node.
fn complete(sink: &mut StacksWriter, known: &ProfileHeader) {
    if let Some(header) = sink.header_mut() {
        let ProfileHeader { node, origin, origin_unix_ns, .. } = *header;
        *header = ProfileHeader { node, origin, origin_unix_ns, ..known.clone() };
    }
}

/// Note where nobody knows what wakes threads.
fn unknown_wakers(
    wake_ups: &Result<Arc<WakeUps>, Problem>,
    granted: Capabilities,
    symbols: &Symbols,
) -> Option<String> {
    let why = match wake_ups {
        Err(error) => error.sentence(),
        Ok(_) if !granted.wake_ups => "the kernel refuses the events for it".to_owned(),
        Ok(_) if symbols.kernel.is_empty() => "the kernel hides the names of its functions".to_owned(),
        Ok(_) => return None,
    };
    Some(format!("wakers of threads are unknown: {why}"))
}

/// How names of a Java virtual machine come, or why none do, and a note; nothing where it is no such machine.
fn java_names(pid: u32, status: &Status) -> (Option<Result<LateNames, String>>, Option<String>) {
    let Some(jvm) = Jvm::of(pid, status) else { return (None, None) };
    let note = (jvm.keeps_frame_pointers() == Some(false)).then(|| NO_FRAME_POINTERS.to_owned());
    (Some(jvm.write_map().map(|_| LateNames::new(jvm))), note)
}

fn first_notes(options: &Options, granted: Capabilities, symbols: &Symbols) -> Vec<String> {
    let mut notes = Vec::new();
    if options.kernel && !granted.kernel {
        notes.push(permission::user_space_only());
    }
    if granted.kernel && symbols.kernel.is_empty() {
        notes.push(permission::kernel_names_hidden());
    }
    notes
}

/// Switches a sampler off and on again, so that what it costs can be seen. While it is off, nothing of it is in the
/// process's way but its switched off events, which the kernel passes over when threads take turns;
/// [`Sampler::stays_in_the_way`] says where more stays. It outlives its sampler, and then does nothing.
#[derive(Clone, Debug)]
pub struct SamplingSwitch {
    events: Arc<PerfEvents>,
    signals: Arc<Signals>,
    pid: u32,
}

impl SamplingSwitch {
    /// Takes no samples from now on. What memory does meanwhile is not seen: do not pause what tells how much is held.
    pub fn pause(&self) {
        self.signals.pauses.pause(&self.events, linux::cpu_time(self.pid));
        // What was sampled until now is fetched at once, so that this costs nothing later.
        let _ = rustix::io::write(&self.signals.wake, &1u64.to_ne_bytes());
    }

    /// Takes samples again. Errors: the kernel refuses.
    pub fn resume(&self) -> Result<(), Problem> {
        let resumed = self.signals.pauses.resume(&self.events, linux::cpu_time(self.pid));
        resumed.map_err(|e| system("switch an event on", e))
    }
}

#[cfg(test)]
impl Sampler {
    pub(crate) fn target_ended(&self) -> bool {
        self.signals.ended.load(Ordering::Acquire)
    }
}
