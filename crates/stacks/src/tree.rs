//! Interning: turns frames, stacks and thread names into the indices of a [`Profile`].

use std::collections::HashMap;

use super::frames::Frame;
use super::model::{ErlangProcess, MOST_PROCESSES, OTHER_PROCESSES, Profile, Sample, StackNode};
use super::waits::{MOST_WAITS, OTHER_WAKERS, Wait, WaitReason};

/// Finds what a profile already contains. Grows with the number of distinct entries only.
#[derive(Debug, Default)]
pub(super) struct Interner {
    frames: HashMap<Frame, u32>,
    nodes: HashMap<(Option<u32>, u32), u32>,
    threads: HashMap<String, u32>,
    processes: HashMap<String, u32>,
    waits: HashMap<Wait, u32>,
}

/// An index, and whether it was new.
pub(super) type Interned = (u32, bool);

impl Interner {
    pub(super) fn frame(&mut self, frame: &Frame) -> Interned {
        if let Some(&id) = self.frames.get(frame) {
            return (id, false);
        }
        let id = index(self.frames.len());
        self.frames.insert(frame.clone(), id);
        (id, true)
    }

    pub(super) fn node(&mut self, parent: Option<u32>, frame: u32) -> Interned {
        let next = index(self.nodes.len());
        let id = *self.nodes.entry((parent, frame)).or_insert(next);
        (id, id == next)
    }

    pub(super) fn thread(&mut self, name: &str) -> Interned {
        if let Some(&id) = self.threads.get(name) {
            return (id, false);
        }
        let id = index(self.threads.len());
        self.threads.insert(name.to_owned(), id);
        (id, true)
    }

    /// The last of [`MOST_PROCESSES`] stands for all that there is no room for.
    pub(super) fn process<'n>(&mut self, name: &'n str) -> (Interned, &'n str) {
        if let Some(&id) = self.processes.get(name) {
            return ((id, false), name);
        }
        let len = self.processes.len();
        if len >= MOST_PROCESSES {
            return ((index(MOST_PROCESSES - 1), false), OTHER_PROCESSES);
        }
        let last = len + 1 == MOST_PROCESSES;
        let name = if last { OTHER_PROCESSES } else { name };
        self.processes.insert(name.to_owned(), index(len));
        ((index(len), true), name)
    }

    /// Where there are too many, wakers of one reason become one.
    pub(super) fn wait(&mut self, wait: &Wait) -> (Interned, Wait) {
        // Each reason has a place without a waker, and one for all wakers that there is no room for.
        let room = MOST_WAITS - 2 * WaitReason::ALL.len();
        let fits = self.waits.len() < room || wait.waker.is_empty();
        let wait = if fits || self.waits.contains_key(wait) {
            wait.clone()
        } else {
            Wait { waker: OTHER_WAKERS.to_owned(), ..*wait }
        };
        let next = index(self.waits.len());
        let id = *self.waits.entry(wait.clone()).or_insert(next);
        ((id, id == next), wait)
    }
}

/// Tables are indexed by `u32`: more distinct frames do not fit any memory here, so the conversion saturates.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Names, each once, and for each text which of them it is.
pub(super) fn numbered(texts: impl Iterator<Item = String>) -> (Vec<String>, Vec<u32>) {
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let of_text = texts.map(|text| {
        *known.entry(text).or_insert_with_key(|name| {
            names.push(name.clone());
            index(names.len() - 1)
        })
    });
    let of_text: Vec<u32> = of_text.collect();
    (names, of_text)
}

/// Limit on a foreign profile's memory: tables in which few bytes repeat one long text would take any amount.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// Whether a profile that has taken so many bytes of memory may take more. The error says why it may not.
pub(super) fn room(taken: usize, most: usize) -> Result<(), String> {
    let why = || format!("its functions, stacks and samples would take more than {} MiB of memory", most >> 20);
    (taken <= most).then_some(()).ok_or_else(why)
}

/// Puts a profile together from named frames: what the readers of other formats use.
#[derive(Debug, Default)]
pub struct Builder {
    /// Profile so far.
    pub profile: Profile,
    interner: Interner,
    /// Bytes taken so far, estimated to the upper side.
    taken: usize,
}

impl Builder {
    /// Counts what the reader itself keeps beside the profile.
    pub fn take(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Whether there is room for more. Asked for each line or message of a bounded length; the error says why not.
    pub fn room(&self) -> Result<(), String> {
        room(self.taken, MOST_BYTES)
    }

    /// The index of a frame.
    pub fn frame(&mut self, frame: &Frame) -> u32 {
        let (id, new) = self.interner.frame(frame);
        if new {
            let file = frame.line.as_ref().map_or(0, |line| line.file.len());
            let texts = frame.name.len() + frame.module.len() + file;
            self.take(2 * (size_of::<Frame>() + texts) + 64);
            self.profile.frames.push(frame.clone());
        }
        id
    }

    /// The index of the stack that has `frame` as its leaf, called from `parent`.
    pub fn node(&mut self, parent: Option<u32>, frame: u32) -> u32 {
        let (id, new) = self.interner.node(parent, frame);
        if new {
            self.take(96);
            self.profile.stacks.push(StackNode { parent, frame });
        }
        id
    }

    /// The index of a thread's name.
    pub fn thread(&mut self, name: &str) -> u32 {
        let (id, new) = self.interner.thread(name);
        if new {
            self.take(2 * name.len() + 160);
            self.profile.threads.push(name.to_owned());
        }
        id
    }

    /// The index of an Erlang process.
    pub fn process(&mut self, id: &str) -> u32 {
        let ((index, new), id) = self.interner.process(id);
        if new {
            self.take(2 * id.len() + 256);
            self.profile.processes.push(ErlangProcess::unnamed(id));
        }
        index
    }

    /// The index of why a time off CPU ended.
    pub fn wait(&mut self, wait: &Wait) -> u32 {
        let ((index, new), wait) = self.interner.wait(wait);
        if new {
            self.take(2 * wait.waker.len() + 160);
            self.profile.waits.push(wait);
        }
        index
    }

    /// Adds a sample whose indices came from this builder.
    pub fn sample(&mut self, sample: Sample) {
        self.take(2 * size_of::<Sample>());
        self.profile.samples.push(sample);
    }
}
