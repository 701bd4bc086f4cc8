//! From the records of `perf.data` to a profile.

use std::collections::{BTreeMap, HashMap};
use std::io;

use measure::Time;
use perf_event_open_sys::bindings as b;
use stacks::{Builder, Input, Profile, ProfileHeader, Sample, USUAL_EVENT, Unwinding, is_root_function};

use super::header::{Header, RecordedSample};
use super::processes::Processes;
use super::records::{self, Ending};
use crate::record::{Address, Fields, RawRecord};

/// Bits of `misc` that say where a sample was taken, and the value for the kernel.
const MODE: u16 = 7;
const IN_KERNEL: u16 = 1;

/// Reads a recording. The inner error says why it is no profile. The samples of one event are read: the one that the
/// input asks for, or the first in the recording that has any; a note names the others.
pub(super) fn read(input: &mut Input<'_>) -> io::Result<Result<Profile, String>> {
    let mut header = match Header::read(input.bytes, input.file)? {
        Ok(header) => header,
        Err(why) => return Ok(Err(why)),
    };
    let builds = std::mem::take(&mut header.builds);
    let mut reader = Reader::new(&header, Processes::new(builds), input.event);
    let read = records::for_each(input.bytes, &header, |record, event, time| {
        reader.record(record, event, time);
        reader.builder.room()
    })?;
    Ok(read.and_then(|ending| reader.profile(ending)))
}

/// Whether an event of the recording is the one that is asked for, by its name or by what bellows calls it.
fn is_called(name: &str, wanted: &str) -> bool {
    name == wanted || (wanted == USUAL_EVENT && counts_time(name))
}

fn counts_time(name: &str) -> bool {
    ["cpu-clock", "task-clock"].iter().any(|it| name.starts_with(it))
}

struct Reader<'h> {
    header: &'h Header,
    processes: Processes,
    builder: Builder,
    wanted: Option<&'h str>,
    event: Option<usize>,
    other_events: BTreeMap<usize, u64>,
    broken: u64,
    origin: Option<u64>,
    last: u64,
    first_pid: u32,
    frames: FrameCache,
    addresses: Vec<Address>,
}

impl<'h> Reader<'h> {
    fn new(header: &'h Header, processes: Processes, wanted: Option<&'h str>) -> Self {
        Self {
            header,
            processes,
            builder: Builder::default(),
            wanted,
            event: None,
            other_events: BTreeMap::new(),
            broken: 0,
            origin: None,
            last: 0,
            first_pid: 0,
            frames: FrameCache::default(),
            addresses: Vec::new(),
        }
    }

    fn record(&mut self, record: &RawRecord<'_>, event: usize, time: u64) {
        let mut fields = Fields(record.body);
        let profile = &mut self.builder.profile;
        match record.kind {
            b::PERF_RECORD_SAMPLE => self.sample(record, event, time),
            b::PERF_RECORD_LOST => {
                let count = fields.u64().and_then(|_id| fields.u64());
                profile.lost = profile.lost.saturating_add(count.unwrap_or(0));
            }
            b::PERF_RECORD_LOST_SAMPLES => {
                profile.lost = profile.lost.saturating_add(fields.u64().unwrap_or(0));
            }
            b::PERF_RECORD_THROTTLE => profile.throttled = profile.throttled.saturating_add(1),
            _ => self.processes.record(record),
        }
    }

    /// Whether samples of an event are read. What was read of a later one is left out, where no event is asked for.
    fn takes(&mut self, event: usize) -> bool {
        let mut wanted = self.wanted.iter();
        let is_wanted = wanted.all(|wanted| is_called(self.name(event), wanted));
        let is_taken = is_wanted && self.event.is_none_or(|first| event <= first);
        if !is_taken {
            *self.other_events.entry(event).or_default() += 1;
            return false;
        }
        if let Some(later) = self.event.replace(event).filter(|it| *it != event) {
            let read = std::mem::take(&mut self.builder).profile;
            *self.other_events.entry(later).or_default() += read.samples.len() as u64;
            self.builder.profile.lost = read.lost;
            self.builder.profile.throttled = read.throttled;
            (self.frames, self.origin, self.last) = (FrameCache::default(), None, 0);
        }
        true
    }

    fn name(&self, event: usize) -> &str {
        self.header.names.get(event).map_or("", String::as_str)
    }

    fn others(&self) -> String {
        let others = self.other_events.iter();
        others.map(|(event, count)| format!("{} ({count})", self.name(*event))).collect::<Vec<_>>().join(", ")
    }

    fn sample(&mut self, record: &RawRecord<'_>, event: usize, time: u64) {
        if !self.takes(event) {
            return;
        }
        let attribute = self.header.events.get(event).copied().unwrap_or_default();
        let Some(sample) = attribute.sample(record.body) else {
            self.broken += 1;
            return;
        };
        if self.origin.is_none() {
            self.first_pid = sample.pid;
        }
        let t = time.saturating_sub(*self.origin.get_or_insert(time));
        self.last = self.last.max(t);
        let (rooted, unwinding) = self.take_addresses(&sample, record.misc & MODE == IN_KERNEL);
        let (stack, reaches_root) = self.stack(sample.pid, rooted);
        let thread = self.processes.name(sample.tid);
        let thread = self.builder.thread(&thread);
        let of_event = (!attribute.is_frequency).then_some(attribute.period);
        // `perf script` shows a period of 0 as that, and a sample counts for something.
        let weight = sample.period.or(of_event).filter(|it| *it > 0).unwrap_or(1);
        let cpu = sample.cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(u16::MAX);
        let complete = reaches_root && unwinding != Unwinding::Missing;
        self.builder.sample(Sample { t, cpu, complete, unwinding, ..Sample::new(stack, thread, weight) });
    }

    /// Finds the addresses of a sample, leaf first; whether they reach the root, and how they were found.
    fn take_addresses(&mut self, sample: &RecordedSample<'_>, in_kernel: bool) -> (bool, Unwinding) {
        let addresses = &mut self.addresses;
        addresses.clear();
        match sample.chain {
            Some(chain) => addresses.extend(chain.addresses()),
            None if in_kernel => addresses.push(Address::Kernel(sample.ip)),
            None => addresses.push(Address::User(sample.ip)),
        }
        let Some(registers) = sample.registers.filter(|_| !sample.stack.is_empty()) else {
            return (false, if sample.chain.is_some() { Unwinding::FramePointers } else { Unwinding::Missing });
        };
        addresses.retain(|address| !address.is_user());
        (self.processes.unwind(sample.pid, registers, sample.stack, addresses), Unwinding::StackCopy)
    }

    /// The node of the addresses, and whether it reaches a root.
    fn stack(&mut self, pid: u32, rooted: bool) -> (u32, bool) {
        let (mut in_kernel, mut in_user) = (false, false);
        let mut path = Vec::with_capacity(self.addresses.len());
        if self.addresses.iter().any(Address::is_user) {
            self.frames.enter(pid, self.processes.version(pid));
        }
        for &address in &self.addresses {
            let is_caller = match address {
                Address::Kernel(_) => std::mem::replace(&mut in_kernel, true),
                Address::User(_) => std::mem::replace(&mut in_user, true),
            };
            let frames = self.frames.frames(address, is_caller, || {
                self.processes.frames(pid, address, is_caller).iter().map(|it| self.builder.frame(it)).collect()
            });
            path.extend_from_slice(frames);
        }
        if path.is_empty() {
            path.push(self.builder.frame(&stacks::Frame::unknown("")));
        }
        let frames = &self.builder.profile.frames;
        let is_root = |frame: &u32| frames.get(*frame as usize).is_some_and(|it| is_root_function(&it.name));
        let complete = rooted || path.iter().any(is_root);
        let mut node = None;
        for &frame in path.iter().rev() {
            node = Some(self.builder.node(node, frame));
        }
        (node.unwrap_or(0), complete)
    }

    fn profile(mut self, ending: Ending) -> Result<Profile, String> {
        let mut profile = std::mem::take(&mut self.builder).profile;
        let others = self.others();
        if profile.samples.is_empty() {
            return Err(match others.is_empty() {
                true => "as perf.data: it holds no sample".into(),
                false => format!("as perf.data: it holds samples of {others}"),
            });
        }
        let event = self.event.unwrap_or(0);
        let attribute = self.header.events.get(event).copied().unwrap_or_default();
        let name = self.name(event).to_owned();
        let counts_time = counts_time(&name);
        let frequency = attribute.is_frequency.then_some(attribute.period);
        profile.header = ProfileHeader {
            event: if counts_time { "cpu".into() } else { name.clone() },
            unit: if counts_time { "nanoseconds".into() } else { name.clone() },
            kernel_event: name,
            frequency: frequency.and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            pid: self.first_pid,
            command: self.processes.name(self.first_pid).to_string(),
            ..ProfileHeader::new(Time(0), 0)
        };
        profile.span = (self.last > 0).then_some((0, self.last + 1));
        let mut notes = Vec::new();
        if !others.is_empty() {
            notes.push(format!("samples of other events were left out: {others} (--event chooses)"));
        }
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        note(self.broken, "samples are shorter than their event says, and were left out");
        note(
            self.processes.left_out,
            "mappings of memory were left out, because there are too many: their functions have no names",
        );
        let changed = self.processes.changed_files() as u64;
        note(changed, "files differ from the recorded ones: their functions have no names");
        if self.processes.knows_kernel() == Some(false) {
            notes.push("the kernel's functions have no names: it was another kernel, or it hides its addresses".into());
        }
        if ending == Ending::CutOff || self.header.length.is_none() {
            notes.push("the recording is incomplete".into());
        }
        profile.notes = notes;
        Ok(profile)
    }
}

/// Addresses whose frames are kept.
const MOST_ADDRESSES: usize = 1 << 20;

/// Frames by address, and whether it is a return address.
type Frames = HashMap<(u64, bool), Box<[u32]>>;

/// Frames of the kernel, and of each process as long as its memory is the same.
#[derive(Default)]
struct FrameCache {
    kernel: Frames,
    /// Each with the version of the memory that its frames hold for.
    by_pid: HashMap<u32, (u64, Frames)>,
    /// The process that the next addresses are of, and the version of its memory.
    pid: u32,
    version: u64,
    /// Frames of all.
    len: usize,
}

impl FrameCache {
    /// The next addresses are of this process, with this version of its memory.
    fn enter(&mut self, pid: u32, version: u64) {
        (self.pid, self.version) = (pid, version);
        // A table that is emptied stays as large as it was, and is gone through each time: it is replaced.
        if self.by_pid.get(&pid).is_some_and(|(known, _)| *known != version)
            && let Some(gone) = self.by_pid.remove(&pid)
        {
            self.len = self.len.saturating_sub(gone.1.len());
        }
    }

    /// The frames of an address of the kernel or of the process, looked up where it is new.
    pub(super) fn frames(&mut self, address: Address, is_caller: bool, look_up: impl FnOnce() -> Box<[u32]>) -> &[u32] {
        if self.len > MOST_ADDRESSES {
            *self = Self { pid: self.pid, version: self.version, ..Self::default() };
        }
        let version = self.version;
        let (frames, ip) = match address {
            Address::Kernel(ip) => (&mut self.kernel, ip),
            Address::User(ip) => {
                let (_, frames) = self.by_pid.entry(self.pid).or_insert_with(|| (version, Frames::new()));
                (frames, ip)
            }
        };
        frames.entry((ip, is_caller)).or_insert_with(|| {
            self.len += 1;
            look_up()
        })
    }
}
