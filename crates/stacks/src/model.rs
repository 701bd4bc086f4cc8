//! The tables of a profile.

use std::borrow::Cow;
use std::collections::BTreeMap;

use measure::Time;
use serde::{Deserialize, Serialize};

use super::frames::Frame;
use super::waits::Wait;

/// The event that is sampled, and shown, where nobody names another.
pub const USUAL_EVENT: &str = "cpu";

/// Kind of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Running threads.
    #[default]
    OnCpu,
    /// Waiting threads.
    OffCpu,
    /// Memory that is asked for, given back or touched.
    Memory,
    /// Anything else.
    Other,
}

/// Facts of the sampling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileHeader {
    /// Always [`ProfileHeader::SCHEMA`].
    pub schema: String,
    /// The event's short name, such as `cpu`; empty where unknown.
    pub event: String,
    /// The event as the kernel calls it, such as `cpu-clock`; empty where unknown.
    pub kernel_event: String,
    /// Unit of a sample's weight, such as `samples`, `calls`, `bytes` or `nanoseconds`.
    pub unit: String,
    /// Kind of the event.
    #[serde(default)]
    pub kind: EventKind,
    /// Nanoseconds of CPU time that a weight of 1 stands for; 0 where it stands for none.
    pub period_ns: u64,
    /// Samples per second of CPU time that were requested; 0 where unknown.
    pub frequency: u32,
    /// The process; 0 where unknown.
    pub pid: u32,
    /// The number of the node that the process is, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Its name.
    pub command: String,
    /// Whether the kernel's own frames could be had.
    pub kernel_frames: bool,
    /// The instant that a sample time of 0 stands for: the run's origin.
    pub origin: Time,
    /// Origin by the wall clock, nanoseconds since 1970-01-01 UTC; 0 where unknown.
    pub origin_unix_ns: u64,
}

impl ProfileHeader {
    /// Name and version of the `.stacks` format.
    pub const SCHEMA: &'static str = "bellows.stacks/1";
    /// The unit of weights of which nothing says what they count, as in folded text: samples, microseconds, bytes.
    pub const WEIGHT: &'static str = "weight";
    /// Its parts with fractional weights: powers of ten with their names. They are no numbers of samples.
    pub const PARTS_OF_WEIGHT: [(i32, &'static str); 6] = [
        (1, "tenths"),
        (2, "hundredths"),
        (3, "thousandths"),
        (6, "millionths"),
        (9, "billionths"),
        (12, "trillionths"),
    ];

    /// A header that knows only its time axis: the origin, and the same instant by the wall clock.
    pub fn new(origin: Time, origin_unix_ns: u64) -> Self {
        Self { schema: Self::SCHEMA.into(), kernel_frames: true, origin, origin_unix_ns, ..Self::default() }
    }

    /// Whether a unit says what weights count.
    pub(super) fn is_known(unit: &str) -> bool {
        let mut parts = Self::PARTS_OF_WEIGHT.iter();
        !unit.is_empty() && unit != Self::WEIGHT && parts.all(|it| it.1 != unit)
    }

    /// How many samples one stands for: where they were added up before, its weight says it.
    pub fn count(&self, sample: &Sample) -> u64 {
        if self.counts_samples() { sample.weight } else { 1 }
    }

    /// Whether weights are numbers of samples, or may be, as nothing says what they are.
    pub fn counts_samples(&self) -> bool {
        matches!(self.unit.as_str(), "samples" | "" | Self::WEIGHT)
    }

    /// Name of the profile and its files beside others of the run: `cpu`, and of a cluster's second node `cpu@1`.
    pub fn name(&self) -> String {
        match self.node {
            None | Some(0) => self.event.clone(),
            Some(node) => format!("{}{NODE}{node}", self.event),
        }
    }

    /// Takes event and node from a name that [`Self::name`] gave.
    pub(super) fn take_name(&mut self, name: &str) {
        let of_node = name.rsplit_once(NODE).and_then(|(event, node)| Some((event, node.parse().ok()?)));
        match of_node {
            Some((event, node)) => {
                event.clone_into(&mut self.event);
                self.node = Some(node);
            }
            None => name.clone_into(&mut self.event),
        }
    }
}

/// Stands between an event and the number of a node.
const NODE: char = '@';

/// A stack, as its leaf frame and the stack that called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The caller, an index into [`Profile::stacks`] that is smaller than this node's own; `None` for a root.
    pub parent: Option<u32>,
    /// Index into [`Profile::frames`].
    pub frame: u32,
}

/// One stack at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since the run's origin; 0 in formats without time.
    pub t: u64,
    /// Its weight in [`ProfileHeader::unit`]: 1 for a tick of a clock, more of other events or summed-up files.
    pub weight: u64,
    /// The leaf, an index into [`Profile::stacks`].
    pub stack: u32,
    /// Index into [`Profile::threads`].
    pub thread: u32,
    /// Processor; `u16::MAX` where unknown.
    pub cpu: u16,
    /// Whether the stack reaches the root of its thread or of its Erlang process.
    pub complete: bool,
    /// How its stack was found.
    pub unwinding: Unwinding,
    /// The Erlang process that ran, an index into [`Profile::processes`]; `None` where none did, or it is not known.
    pub process: Option<u32>,
    /// Of a time off CPU why it ended, an index into [`Profile::waits`]; `None` where that was not asked.
    pub wait: Option<u32>,
}

impl Sample {
    /// A complete stack of which nothing else is known.
    pub const fn new(stack: u32, thread: u32, weight: u64) -> Self {
        let (cpu, unwinding) = (u16::MAX, Unwinding::Unknown);
        Self { t: 0, weight, stack, thread, cpu, complete: true, unwinding, process: None, wait: None }
    }
}

/// How a stack was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unwinding {
    /// In formats that do not say it.
    #[default]
    Unknown,
    /// Not at all: only the function that ran was recorded, and none of its callers.
    Missing,
    /// By frame pointers, which code must keep.
    FramePointers,
    /// By unwind tables and the Erlang stack, from copies that a program in the kernel took at the sample.
    StackCopy,
}

impl Profile {
    /// Takes its samples for ones without stacks.
    pub(super) fn without_stacks(&mut self) {
        for sample in &mut self.samples {
            (sample.complete, sample.unwinding) = (false, Unwinding::Missing);
        }
    }

    /// Notes how many samples have no stack.
    pub(super) fn note_missing_stacks(&mut self) {
        let without = |it: &&Sample| it.unwinding == Unwinding::Missing;
        let what = match self.samples.iter().filter(without).count() {
            0 => return,
            all if all == self.samples.len() => "recorded without call graphs: no stacks".to_owned(),
            some => format!("{} recorded without call graphs: no stacks", measure::counted(some as u64, "sample")),
        };
        self.notes.push(format!("{what}; `perf record -g` records them"));
    }
}

/// A profile. Every index in it is valid and every node comes after its parent: the readers of
/// this module see to it, and [`Profile::is_consistent`] checks one that was put together by hand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Facts of the sampling.
    pub header: ProfileHeader,
    /// Functions that occur in stacks, each once.
    pub frames: Vec<Frame>,
    /// Stacks, parents first.
    pub stacks: Vec<StackNode>,
    /// Names as the kernel has them (`1_scheduler`); [`Profile::thread_groups`] merges them.
    pub threads: Vec<String>,
    /// Erlang processes that samples were taken in, each once.
    pub processes: Vec<ErlangProcess>,
    /// Why times off CPU ended, and by whom, each once.
    pub waits: Vec<Wait>,
    /// Samples in the order of the file, which is nearly the order of time.
    pub samples: Vec<Sample>,
    /// Samples that the kernel had to drop because nobody fetched them in time.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while because it took too much time.
    pub throttled: u64,
    /// CPU time that the profiler itself used, nanoseconds; 0 where unknown.
    pub own_cpu_ns: u64,
    /// Bytes of the process's stacks that were copied for its samples; 0 where unknown.
    pub copied_bytes: u64,
    /// Share of the process's CPU time that the samples stand for (0 to 1), from the first moment of sampling to the
    /// last; where a process was in the place of another, of what both used in the window. `None` where not known.
    pub cpu_share: Option<f64>,
    /// First and last moment of sampling, nanoseconds since the origin, where known.
    pub span: Option<(u64, u64)>,
    /// Which build each file is of, as far as that is known.
    pub builds: Builds,
    /// Notes for the reader of this profile: missing permissions, a file cut off.
    pub notes: Vec<String>,
}

impl Profile {
    /// Sum of all weights.
    pub fn total_weight(&self) -> u64 {
        self.samples.iter().fold(0, |sum, s| sum.saturating_add(s.weight))
    }

    /// How many samples there were, also where they were added up before.
    pub(super) fn sample_count(&self) -> u64 {
        self.samples.iter().map(|it| self.header.count(it)).fold(0, u64::saturating_add)
    }

    pub(super) fn in_time_order(&self) -> Vec<&Sample> {
        let mut samples: Vec<&Sample> = self.samples.iter().collect();
        samples.sort_by_key(|sample| sample.t);
        samples
    }

    /// The frames of a stack, root first. Empty for an index out of range.
    pub fn stack(&self, leaf: u32) -> Vec<&Frame> {
        let mut path = Vec::new();
        self.path_into(leaf, &mut path);
        let frames = path.iter().rev();
        frames.filter_map(|&frame| self.frames.get(frame as usize)).collect()
    }

    /// A value for each stack, from that of its caller and its leaf.
    pub(super) fn per_stack<T: Copy>(&self, mut of: impl FnMut(Option<T>, &StackNode) -> T) -> Vec<T> {
        let mut all: Vec<T> = Vec::with_capacity(self.stacks.len());
        for node in &self.stacks {
            let caller = node.parent.and_then(|it| all.get(it as usize).copied());
            all.push(of(caller, node));
        }
        all
    }

    /// The frame indices of a stack, leaf first.
    pub(super) fn path_into(&self, leaf: u32, path: &mut Vec<u32>) {
        path.clear();
        let mut next = Some(leaf);
        while let Some((this, node)) = next.and_then(|i| Some((i, self.stacks.get(i as usize)?))) {
            path.push(node.frame);
            // A parent that does not come first would be a loop.
            next = node.parent.filter(|&parent| parent < this);
        }
    }

    /// Whether every index is in range and every parent comes before its children.
    pub fn is_consistent(&self) -> bool {
        let (frames, stacks, threads) = (self.frames.len(), self.stacks.len(), self.threads.len());
        self.stacks
            .iter()
            .enumerate()
            .all(|(i, node)| (node.frame as usize) < frames && node.parent.is_none_or(|p| (p as usize) < i))
            && self.samples.iter().all(|s| {
                let known = s.process.is_none_or(|it| (it as usize) < self.processes.len());
                let known = known && s.wait.is_none_or(|it| (it as usize) < self.waits.len());
                known && (s.stack as usize) < stacks && (s.thread as usize) < threads
            })
    }
}

/// Which build files are of, where that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Builds(BTreeMap<String, String>);

impl Builds {
    /// Notes a file's build. One that is of several builds is of none that could be compared.
    pub fn add(&mut self, file: &str, build: &str) {
        let known = self.0.entry(file.to_owned());
        let known = known.or_insert_with(|| build.to_owned());
        if known != build {
            known.clear();
        }
    }

    /// Notes those of another profile.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(file, build)| self.add(file, build));
    }

    /// The build of a file.
    pub fn of(&self, file: &str) -> Option<&str> {
        self.0.get(file).map(String::as_str).filter(|it| !it.is_empty())
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Builds by names without versions.
    pub fn without_versions(&self) -> Self {
        let mut all = Self::default();
        self.0.iter().for_each(|(file, build)| all.add(without_version(file), build));
        all
    }
}

/// A library's name without its version: `libcrypto.so` of `libcrypto.so.3`.
pub(super) fn without_version(module: &str) -> &str {
    let end = module.find(".so.").map_or(module.len(), |at| at + ".so".len());
    module.get(..end).unwrap_or(module)
}

/// Placeholder for processes beyond [`MOST_PROCESSES`].
pub(super) const OTHER_PROCESSES: &str = "other processes";
/// Distinct processes of a profile. A node that starts one for each request has any number.
pub(super) const MOST_PROCESSES: usize = 1 << 16;

/// Name of bellows' own looks into the node.
const LOOKING: &str = "bellows, looking";

/// Whether this is the module that bellows loads into a node for a while: `bellows_1a2b3c4d`.
fn is_helper(module: &str) -> bool {
    let hash = module.strip_prefix("bellows_").unwrap_or_default();
    hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// An Erlang process, and what it does where the node has said it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErlangProcess {
    /// Its identifier as Erlang prints it: `<0.123.0>`.
    pub id: String,
    /// Role: `queue`, `channel`, `connection`, or the module that it runs; empty where not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The name of that queue, channel or connection, or the registered name; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The virtual host that it works for; empty where it works for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    /// The connection that it works for; empty where it works for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connection: String,
    /// The node did not say what it is: its role is taken from its stacks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_stacks: bool,
}

impl ErlangProcess {
    /// A process of which nothing is known but its identifier.
    pub fn unnamed(id: impl Into<String>) -> Self {
        let id = id.into();
        Self { id, ..Self::default() }
    }

    /// Whether nothing is known of it but its identifier.
    pub fn is_unknown(&self) -> bool {
        let Self { id: _, role, name, vhost, connection, from_stacks: _ } = self;
        [role, name, vhost, connection].iter().all(|it| it.is_empty())
    }

    /// Whether the node did not say what it is.
    pub fn is_unnamed(&self) -> bool {
        self.from_stacks || self.is_unknown()
    }

    /// Label of processes of its role that the node did not name: `unnamed: connection`.
    pub fn unnamed_label(&self) -> String {
        match self.role.as_str() {
            "" => "unnamed: processes".to_owned(),
            role if is_helper(role) => LOOKING.to_owned(),
            role => format!("unnamed: {role}"),
        }
    }

    /// Label: `queue orders-7`, `rabbit_event <0.321.0>`, `<0.123.0>`.
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { &self.id } else { &self.name };
        let of = match self.vhost.as_str() {
            "" | "/" => String::new(),
            vhost => format!(" in {vhost}"),
        };
        match self.role.as_str() {
            "" => format!("{name}{of}"),
            role => format!("{role} {name}{of}"),
        }
    }
}

/// A profile with the square of each sample's weight in the place of the weight, so that whatever adds weights up adds
/// up squares. Where weights count samples that were added up before, each of them counts 1, and so does its square.
#[derive(Clone, Debug)]
pub struct Squares<'p> {
    /// The profile with squares for weights, in units of `scale`.
    pub profile: Cow<'p, Profile>,
    /// Factor for weights: squares of nanoseconds have no place in an integer.
    pub scale: f64,
}

impl Profile {
    /// The squares of its weights.
    pub fn squares(&self) -> Squares<'_> {
        if self.header.counts_samples() {
            return Squares { profile: Cow::Borrowed(self), scale: 1.0 };
        }
        let square = |weight: u64| u128::from(weight) * u128::from(weight);
        let sum = self.samples.iter().fold(0u128, |sum, sample| sum.saturating_add(square(sample.weight)));
        let scale = (sum >> 62).max(1);
        let mut profile = self.clone();
        for sample in &mut profile.samples {
            sample.weight = u64::try_from(square(sample.weight) / scale).unwrap_or(u64::MAX);
        }
        Squares { profile: Cow::Owned(profile), scale: scale as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;
    use super::*;

    #[test]
    fn names_part_the_nodes_of_a_cluster() {
        for event in ["cpu", "off-cpu", "sched:sched_process_fork", "a@b"] {
            for node in [None, Some(1), Some(12)] {
                let mut header = ProfileHeader::new(Time::default(), 0);
                (header.event, header.node) = (event.to_owned(), node);
                let mut read = ProfileHeader::new(Time::default(), 0);
                read.take_name(&header.name());
                assert_eq!((read.event.as_str(), read.node), (event, node));
            }
        }
        // The first node's are found where those of a single broker are.
        let first = ProfileHeader { event: "cpu".into(), node: Some(0), ..ProfileHeader::default() };
        assert_eq!(first.name(), "cpu");
    }

    #[test]
    fn times_and_bytes_are_squared_and_fit_and_samples_that_were_added_up_are_their_own_squares() {
        let added_up = profile(&[("t;f", 7), ("t;g", 3)]);
        let squares = added_up.squares();
        assert_eq!((squares.profile.total_weight(), squares.scale), (10, 1.0));
        let mut profile = profile(&[("t;f", 3_000_000_000), ("t;g", 4_000_000_000)]);
        profile.header.unit = "nanoseconds".into();
        let squares = profile.squares();
        let sum = squares.profile.total_weight() as f64 * squares.scale;
        assert!((sum / 25e18 - 1.0).abs() < 1e-9, "{sum}");
        profile.samples[0].weight = u64::MAX;
        let squares = profile.squares();
        let sum = squares.profile.total_weight() as f64 * squares.scale;
        assert!((sum / (u64::MAX as f64).powi(2) - 1.0).abs() < 1e-9, "{sum}");
    }
}
