//! Records of the kernel: fields in the order of `perf_event_open(2)`, as far as [`SAMPLE_TYPE`] asks for them.

use perf_event_open_sys::bindings as b;

/// The fields of a sample that every source of stacks needs.
pub(crate) const SAMPLE_TYPE: u64 = (b::PERF_SAMPLE_TID
    | b::PERF_SAMPLE_TIME
    | b::PERF_SAMPLE_ID
    | b::PERF_SAMPLE_CPU
    | b::PERF_SAMPLE_PERIOD
    | b::PERF_SAMPLE_CALLCHAIN) as u64;

/// Marks inside a call chain are the highest 4,095 values.
const CONTEXT_FIRST: u64 = b::PERF_CONTEXT_MAX;
const CONTEXT_KERNEL: u64 = b::PERF_CONTEXT_KERNEL;
const CONTEXT_USER: u64 = b::PERF_CONTEXT_USER;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawRecord<'a> {
    /// `PERF_RECORD_*`, and bits of `PERF_RECORD_MISC_*`.
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    /// Everything after the header.
    pub(crate) body: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The event happened.
    Sample(SampleRecord<'a>),
    /// This many records did not fit into the ring.
    Lost(u64),
    /// The kernel stops sampling for a while.
    Throttle,
    /// A thread has a new name.
    Comm { pid: u32, tid: u32, name: &'a [u8] },
    /// A thread or process was started.
    Fork { pid: u32, tid: u32, parent_tid: u32 },
    /// A thread has ended.
    Exit { tid: u32 },
    /// Executable memory was mapped.
    Mmap { pid: u32 },
    /// A thread begins to run, or ends to: another takes its processor, and it may be that it would have run on.
    Switch { tid: u32, time: u64, runs: Runs },
    /// Anything else.
    Other,
}

/// Effect of a switch on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    Begins,
    /// It has nothing to do, or waits.
    Ends,
    /// It would run on.
    IsPreempted,
}

/// Why a time off CPU ended, as far as records tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended<'a> {
    Woken(WakeUp<'a>),
    /// It was awake, and got a processor.
    GotProcessor,
    /// It could have run all the time, and got a processor back.
    WasPreempted,
    NotYet,
    /// Nobody saw what woke it.
    Unseen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeUp<'a> {
    /// The process that runs, whoever it is that an interrupt stopped.
    pub(crate) pid: u32,
    pub(crate) waker: &'a [u8],
    pub(crate) chain: Chain<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleRecord<'a> {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) time: u64,
    /// Of the event that was opened, also where a thread inherited it.
    pub(crate) id: u64,
    pub(crate) cpu: u32,
    /// How many events it stands for; of the time off CPU how many nanoseconds.
    pub(crate) period: u64,
    pub(crate) chain: Chain<'a>,
    /// Of a time off CPU why it ended.
    pub(crate) ended: Option<Ended<'a>>,
    /// Further fields that the unwinder asked for, in the kernel's form.
    pub(crate) rest: &'a [u8],
}

/// A sample that is kept after its ring has taken back the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptSample {
    pub(crate) tid: u32,
    pub(crate) time: u64,
    pub(crate) id: u64,
    pid: u32,
    cpu: u32,
    period: u64,
    chain: Box<[u8]>,
    rest: Box<[u8]>,
}

impl SampleRecord<'_> {
    pub(crate) fn keep(&self) -> KeptSample {
        KeptSample {
            tid: self.tid,
            time: self.time,
            id: self.id,
            pid: self.pid,
            cpu: self.cpu,
            period: self.period,
            chain: self.chain.0.into(),
            rest: self.rest.into(),
        }
    }
}

/// A wake-up that is kept after its ring has taken back the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptWakeUp {
    pub(crate) time: u64,
    pid: u32,
    waker: Box<[u8]>,
    chain: Box<[u8]>,
}

impl KeptWakeUp {
    /// A wake-up by `waker`, which took this sample.
    pub(crate) fn of(sample: &SampleRecord<'_>, waker: &[u8]) -> Self {
        Self { time: sample.time, pid: sample.pid, waker: waker.into(), chain: sample.chain.0.into() }
    }

    pub(crate) fn get(&self) -> WakeUp<'_> {
        WakeUp { pid: self.pid, waker: &self.waker, chain: Chain(&self.chain) }
    }
}

impl KeptSample {
    pub(crate) fn get(&self) -> SampleRecord<'_> {
        SampleRecord {
            pid: self.pid,
            tid: self.tid,
            time: self.time,
            id: self.id,
            cpu: self.cpu,
            period: self.period,
            chain: Chain(&self.chain),
            ended: None,
            rest: &self.rest,
        }
    }

    /// The sample as a time off CPU.
    pub(crate) fn at<'s>(&'s self, time: u64, period: u64, ended: Ended<'s>) -> SampleRecord<'s> {
        SampleRecord { time, period, ended: Some(ended), ..self.get() }
    }
}

/// A call chain as the kernel wrote it: addresses from the leaf up, with marks between the kernel's and the user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain<'a>(&'a [u8]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Kernel(u64),
    User(u64),
}

impl Address {
    pub(crate) const fn is_user(&self) -> bool {
        matches!(self, Self::User(_))
    }
}

impl<'a> Chain<'a> {
    /// The chain whose words these are.
    pub(crate) const fn of(words: &'a [u8]) -> Self {
        Self(words)
    }

    /// The addresses without the marks, leaf first.
    pub(crate) fn addresses(self) -> impl Iterator<Item = Address> + use<'a> {
        let mut user = true;
        let words = self.0.chunks_exact(8).filter_map(|word| word.try_into().ok());
        words.map(u64::from_ne_bytes).filter_map(move |word| {
            if word < CONTEXT_FIRST {
                return Some(if user { Address::User(word) } else { Address::Kernel(word) });
            }
            match word {
                CONTEXT_KERNEL => user = false,
                CONTEXT_USER => user = true,
                _ => {}
            }
            None
        })
    }
}

/// Reads a record; `None` where it is shorter than its kind requires.
pub(crate) fn parse<'a>(raw: &RawRecord<'a>) -> Option<Record<'a>> {
    let mut fields = Fields(raw.body);
    Some(match raw.kind {
        b::PERF_RECORD_SAMPLE => Record::Sample(sample(&mut fields)?),
        b::PERF_RECORD_LOST => {
            let _id = fields.u64()?;
            Record::Lost(fields.u64()?)
        }
        b::PERF_RECORD_LOST_SAMPLES => Record::Lost(fields.u64()?),
        b::PERF_RECORD_THROTTLE => Record::Throttle,
        b::PERF_RECORD_COMM => {
            let (pid, tid) = (fields.u32()?, fields.u32()?);
            let name = fields.0.split(|&byte| byte == 0).next().unwrap_or_default();
            Record::Comm { pid, tid, name }
        }
        b::PERF_RECORD_FORK => {
            let (pid, _parent_pid) = (fields.u32()?, fields.u32()?);
            Record::Fork { pid, tid: fields.u32()?, parent_tid: fields.u32()? }
        }
        b::PERF_RECORD_EXIT => {
            let (_pid, _parent_pid) = (fields.u32()?, fields.u32()?);
            Record::Exit { tid: fields.u32()? }
        }
        b::PERF_RECORD_MMAP | b::PERF_RECORD_MMAP2 => Record::Mmap { pid: fields.u32()? },
        // All of it is what `sample_id_all` puts behind a record.
        b::PERF_RECORD_SWITCH => {
            let (_pid, tid) = (fields.u32()?, fields.u32()?);
            Record::Switch { tid, time: fields.u64()?, runs: runs(raw.misc.into()) }
        }
        _ => Record::Other,
    })
}

const fn runs(misc: u32) -> Runs {
    if misc & b::PERF_RECORD_MISC_SWITCH_OUT == 0 {
        Runs::Begins
    } else if misc & b::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT == 0 {
        Runs::Ends
    } else {
        Runs::IsPreempted
    }
}

fn sample<'a>(fields: &mut Fields<'a>) -> Option<SampleRecord<'a>> {
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let (time, id) = (fields.u64()?, fields.u64()?);
    let (cpu, _reserved) = (fields.u32()?, fields.u32()?);
    let period = fields.u64()?;
    let count = usize::try_from(fields.u64()?).ok()?;
    let chain = Chain(fields.take(count.checked_mul(8)?)?);
    Some(SampleRecord { pid, tid, time, id, cpu, period, chain, ended: None, rest: fields.0 })
}

/// A record's body, read from the front in the machine's byte order.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// Bytes of a record's header: its type (u32), flags (u16) and length (u16, with this header).
const HEADER: usize = 8;

/// A ring of the kernel's.
pub(crate) trait RingBytes {
    fn len(&self) -> usize;
    /// Copies from offset `at < len()` on, going round at the end; `out` is never longer than the ring.
    fn copy(&self, at: usize, out: &mut [u8]);
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A record, and the tail after it.
    Record(RawRecord<'a>, u64),
    Empty,
    /// No record: its length is impossible. What waits must be given up.
    Damaged,
}

/// The record between `tail` and `head`, copied into `scratch`. The kernel writes records one after another into a ring
/// whose length is a power of two; a record may wrap around. Positions count all bytes since the ring exists.
pub(crate) fn next_in_ring<'a>(ring: &impl RingBytes, head: u64, tail: u64, scratch: &'a mut Vec<u8>) -> Next<'a> {
    let waiting = head.wrapping_sub(tail);
    if waiting == 0 {
        return Next::Empty;
    }
    let len = ring.len() as u64;
    if waiting < HEADER as u64 || waiting > len {
        return Next::Damaged;
    }
    let offset = |position: u64| (position % len) as usize;
    let mut header = [0u8; HEADER];
    ring.copy(offset(tail), &mut header);
    let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
    let size = u16::from_ne_bytes([s0, s1]);
    if usize::from(size) < HEADER || u64::from(size) > waiting {
        return Next::Damaged;
    }
    scratch.clear();
    scratch.resize(usize::from(size) - HEADER, 0);
    if !scratch.is_empty() {
        ring.copy(offset(tail.wrapping_add(HEADER as u64)), scratch);
    }
    let record =
        RawRecord { kind: u32::from_ne_bytes([k0, k1, k2, k3]), misc: u16::from_ne_bytes([m0, m1]), body: scratch };
    Next::Record(record, tail.wrapping_add(u64::from(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[test]
    fn a_sample_gives_its_fields_and_both_parts_of_its_chain() {
        let head = [pair(10, 11), 12_345, 77, pair(3, 0), 9, 5];
        let addresses = [CONTEXT_KERNEL, 0xffff_ffff_8100_0010, CONTEXT_USER, 0x5000, 0x6000];
        let body = words(&[&head[..], &addresses].concat());
        let raw = RawRecord { kind: b::PERF_RECORD_SAMPLE, misc: 1, body: &body };
        let Some(Record::Sample(sample)) = parse(&raw) else { panic!("no sample") };
        assert_eq!((sample.pid, sample.tid, sample.time), (10, 11, 12_345));
        assert_eq!((sample.id, sample.cpu, sample.period), (77, 3, 9));
        let chain: Vec<_> = sample.chain.addresses().collect();
        let wanted = [Address::Kernel(0xffff_ffff_8100_0010), Address::User(0x5000), Address::User(0x6000)];
        assert_eq!(chain, wanted);
    }

    #[test]
    fn truncated_and_garbled_records_never_panic() {
        let mut body = words(&[pair(1, 2), 3, 4, pair(5, 6), 1, 2, 7, 8]);
        for kind in 0..25 {
            for len in 0..=body.len() {
                let _ = parse(&RawRecord { kind, misc: 0, body: &body[..len] });
            }
        }
        // A chain that claims more entries than memory has.
        body[40..48].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(parse(&RawRecord { kind: b::PERF_RECORD_SAMPLE, misc: 0, body: &body }), None);
    }

    #[test]
    fn side_records_are_read() {
        let parsed = |kind, body: &[u8]| format!("{:?}", parse(&RawRecord { kind, misc: 0, body }));
        assert_eq!(parsed(b::PERF_RECORD_LOST, &words(&[1, 42])), "Some(Lost(42))");
        assert_eq!(parsed(b::PERF_RECORD_LOST_SAMPLES, &words(&[3])), "Some(Lost(3))");
        assert_eq!(parsed(b::PERF_RECORD_THROTTLE, &words(&[1, 2, 3])), "Some(Throttle)");
        let expected = "Some(Fork { pid: 1, tid: 3, parent_tid: 4 })";
        assert_eq!(parsed(b::PERF_RECORD_FORK, &words(&[pair(1, 2), pair(3, 4), 9])), expected);
        assert_eq!(parsed(b::PERF_RECORD_EXIT, &words(&[pair(1, 2), pair(3, 4), 9])), "Some(Exit { tid: 3 })");
        assert_eq!(parsed(b::PERF_RECORD_MMAP2, &words(&[pair(7, 8), 0])), "Some(Mmap { pid: 7 })");
        let switch = |misc| {
            let body = words(&[pair(1, 2), 77, 5]);
            let kind = b::PERF_RECORD_SWITCH;
            let raw = RawRecord { kind, misc, body: &body };
            format!("{:?}", parse(&raw))
        };
        for (misc, runs) in [(0, Runs::Begins), (1 << 13, Runs::Ends), (1 << 13 | 1 << 14, Runs::IsPreempted)] {
            let wanted = format!("Some(Switch {{ tid: 2, time: 77, runs: {runs:?} }})");
            assert_eq!(switch(misc), wanted);
        }
        let comm = [words(&[pair(1, 2)]), b"worker\0\0".to_vec()].concat();
        let raw = RawRecord { kind: b::PERF_RECORD_COMM, misc: 0, body: &comm };
        assert_eq!(parse(&raw), Some(Record::Comm { pid: 1, tid: 2, name: b"worker" }));
    }
    struct Memory(Vec<u8>);

    impl RingBytes for Memory {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn copy(&self, at: usize, out: &mut [u8]) {
            for (i, byte) in out.iter_mut().enumerate() {
                *byte = self.0[(at + i) % self.0.len()];
            }
        }
    }

    /// A ring of 64 bytes with the given records written from `tail` on; returns it and the head.
    fn ring(tail: u64, records: &[(u32, u16, &[u8])]) -> (Memory, u64) {
        let mut memory = Memory(vec![0xee; 64]);
        let mut at = tail;
        for (kind, misc, body) in records {
            let size = u16::try_from(HEADER + body.len()).unwrap();
            let parts: [&[u8]; 4] = [&kind.to_ne_bytes(), &misc.to_ne_bytes(), &size.to_ne_bytes(), body];
            for byte in parts.concat() {
                memory.0[(at % 64) as usize] = byte;
                at = at.wrapping_add(1);
            }
        }
        (memory, at)
    }

    #[test]
    fn records_come_out_in_order_wherever_the_ring_and_positions_wrap() {
        for tail in (0..200).chain([u64::MAX - 11]) {
            let (memory, head) = ring(tail, &[(9, 2, &[1, 2, 3, 4, 5, 6, 7, 8]), (2, 0, &[])]);
            let mut scratch = Vec::new();
            let Next::Record(record, tail) = next_in_ring(&memory, head, tail, &mut scratch) else {
                panic!("no record")
            };
            let wanted = RawRecord { kind: 9, misc: 2, body: &[1, 2, 3, 4, 5, 6, 7, 8] };
            assert_eq!(record, wanted);
            let Next::Record(record, tail) = next_in_ring(&memory, head, tail, &mut scratch) else {
                panic!("no second record")
            };
            assert_eq!((record.kind, record.body.len()), (2, 0));
            assert_eq!(next_in_ring(&memory, head, tail, &mut scratch), Next::Empty);
        }
    }

    #[test]
    fn impossible_lengths_are_damage_not_panics() {
        let mut scratch = Vec::new();
        for size in [0u16, 1, 7, 100, u16::MAX] {
            let (mut memory, head) = ring(0, &[(9, 0, &[0; 16])]);
            memory.0[6..8].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(next_in_ring(&memory, head, 0, &mut scratch), Next::Damaged, "size {size}");
        }
        let (memory, _) = ring(0, &[]);
        for (head, tail) in [(3, 0), (65, 0), (0, 1), (u64::MAX, 0)] {
            assert_eq!(next_in_ring(&memory, head, tail, &mut scratch), Next::Damaged, "{head} {tail}");
        }
    }
}
