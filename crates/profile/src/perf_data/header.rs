//! The header of `perf.data`: which events there are, and where their records stand.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::os::unix::fs::FileExt as _;

use perf_event_open_sys::bindings::{
    self as b, PERF_SAMPLE_ADDR as ADDR, PERF_SAMPLE_BRANCH_STACK as BRANCH_STACK, PERF_SAMPLE_CALLCHAIN as CALLCHAIN,
    PERF_SAMPLE_CPU as CPU, PERF_SAMPLE_ID as ID, PERF_SAMPLE_IDENTIFIER as IDENTIFIER, PERF_SAMPLE_IP as IP,
    PERF_SAMPLE_PERIOD as PERIOD, PERF_SAMPLE_RAW as RAW, PERF_SAMPLE_READ as READ, PERF_SAMPLE_REGS_USER as REGS_USER,
    PERF_SAMPLE_STACK_USER as STACK_USER, PERF_SAMPLE_STREAM_ID as STREAM_ID, PERF_SAMPLE_TID as TID,
    PERF_SAMPLE_TIME as TIME,
};

use super::SWAPPED;
use crate::record::{Chain, Fields};

const HEADER: u64 = 104;
/// Bytes of the header of a file that was written to a pipe.
const PIPE_HEADER: u64 = 16;
/// Bytes before the records: attributes and numbers of events.
const MOST_BEFORE: u64 = 64 << 20;
/// Bytes of a section behind the records.
const MOST_BEHIND: u64 = 64 << 20;
const MOST_EVENTS: usize = 4096;
/// Bytes of the pair of offset and size that stands for a section.
const SECTION: u64 = 16;

/// Sections behind the records, by their bit in the header.
const BUILD_ID: u32 = 2;
const EVENT_DESC: u32 = 12;

#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) events: Vec<Attribute>,
    /// The event of a number.
    ids: HashMap<u64, usize>,
    /// Bytes of the records; `None` where the recording was not ended, and nobody wrote it down.
    pub(super) length: Option<u64>,
    /// Name of each event, in the order of `events`.
    pub(super) names: Vec<String>,
    /// Numbers of the builds of files, by path.
    pub(super) builds: HashMap<String, Vec<u8>>,
}

impl Header {
    /// Reads everything before the first record, and what stands behind the last where `file` can be read anywhere.
    pub(super) fn read(input: &mut dyn BufRead, file: Option<&File>) -> io::Result<Result<Self, String>> {
        let mut head = [0; HEADER as usize];
        match input.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Err("it is shorter than the header of perf.data".into()));
            }
            read => read?,
        }
        let word = |at| word_at(&head, at).unwrap_or(0);
        if head.starts_with(SWAPPED) {
            return Ok(Err("it was recorded on a machine of the other byte order".into()));
        }
        if word(8) == PIPE_HEADER {
            return Ok(Err("it was written to a pipe: record it to a file, or pipe it through `perf script`".into()));
        }
        let (attribute_size, attributes) = (word(16), (word(24), word(32)));
        let data = (word(40), word(48));
        let before = data.0.checked_sub(HEADER).filter(|it| *it <= MOST_BEFORE);
        let Some(before) = before else {
            return Ok(Err(format!("its records begin at byte {}, which is invalid", data.0)));
        };
        let mut front = Vec::new();
        let read = input.take(before).read_to_end(&mut front)?;
        if read as u64 != before {
            return Ok(Err("it ends before its first record".into()));
        }
        let section = |(start, size): (u64, u64)| {
            let start = usize::try_from(start.checked_sub(HEADER)?).ok()?;
            front.get(start..start.checked_add(usize::try_from(size).ok()?)?)
        };
        let mut header = Self { length: (data.1 > 0).then_some(data.1), ..Self::default() };
        let known = section(attributes).filter(|_| attribute_size >= 64 + SECTION);
        let entries = known.and_then(|all| Some(all.chunks_exact(usize::try_from(attribute_size).ok()?)));
        for entry in entries.into_iter().flatten().take(MOST_EVENTS) {
            let (attribute, ids) = entry.split_at(entry.len() - SECTION as usize);
            let Some(attribute) = Attribute::parse(attribute) else { continue };
            let mut place = Fields(ids);
            let place = place.u64().zip(place.u64());
            header.add(attribute, place.and_then(section).unwrap_or_default());
        }
        if let Some(why) = header.unreadable() {
            return Ok(Err(why.into()));
        }
        if let (Some(file), Some(length)) = (file, header.length) {
            let bits = [word(72), word(80), word(88), word(96)];
            header.read_behind(file, data.0.saturating_add(length), bits);
        }
        Ok(Ok(header))
    }

    /// Why its records cannot be read.
    fn unreadable(&self) -> Option<&'static str> {
        let Some((first, others)) = self.events.split_first() else { return Some("it names no event") };
        let is_alike = |it: &Attribute| (it.sample_type, it.sample_id_all) == (first.sample_type, first.sample_id_all);
        let alike = others.iter().all(is_alike);
        let identified = self.events.iter().all(Attribute::is_identified);
        (!alike && !identified).then_some("its events have no ids: record one at a time")
    }

    pub(super) fn event_of_sample(&self, body: &[u8]) -> usize {
        let id = self.events.first().and_then(|event| event.id_in_sample(body));
        id.and_then(|id| self.ids.get(&id)).copied().unwrap_or(0)
    }

    /// The event of a record that is no sample.
    pub(super) fn event_of_other(&self, body: &[u8]) -> usize {
        let identified = self.events.first().is_some_and(Attribute::is_identified);
        let last = body.len().checked_sub(8).filter(|_| identified);
        let id = last.and_then(|at| Fields(body.get(at..)?).u64());
        id.and_then(|id| self.ids.get(&id)).copied().unwrap_or(0)
    }

    /// Adds an event with the numbers by which records name it.
    fn add(&mut self, attribute: Attribute, ids: &[u8]) {
        let event = self.events.len();
        let ids = ids.chunks_exact(8).filter_map(|id| Fields(id).u64());
        self.ids.extend(ids.map(|id| (id, event)));
        self.names.push(name_of(attribute.kind, attribute.config));
        self.events.push(attribute);
    }

    /// Reads the sections behind the records; what is wrong with them is left out.
    fn read_behind(&mut self, file: &File, at: u64, bits: [u64; 4]) {
        let is_set = |bit: u32| bits[(bit / 64) as usize & 3] & (1 << (bit % 64)) != 0;
        let section = |bit: u32| {
            let place = (0..bit).filter(|&it| is_set(it)).count() as u64;
            let entry = read_at(file, at.checked_add(SECTION * place)?, SECTION)?;
            let mut entry = Fields(&entry);
            let (start, size) = (entry.u64()?, entry.u64()?);
            read_at(file, start, size).filter(|_| is_set(bit))
        };
        if let Some(section) = section(EVENT_DESC) {
            self.take_names(&section);
        }
        if let Some(section) = section(BUILD_ID) {
            self.take_builds(&section);
        }
    }

    fn take_names(&mut self, section: &[u8]) -> Option<()> {
        let mut fields = Fields(section);
        let (count, size) = (fields.u32()?, fields.u32()?);
        let count = self.events.len().min(count as usize);
        for event in 0..count {
            fields.take(size as usize)?;
            let ids = fields.u32()?;
            let length = fields.u32()?;
            let name = text(fields.take(length as usize)?);
            fields.take((ids as usize).checked_mul(8)?)?;
            if let Some(known) = self.names.get_mut(event).filter(|_| !name.is_empty()) {
                *known = name;
            }
        }
        Some(())
    }

    fn take_builds(&mut self, section: &[u8]) -> Option<()> {
        /// Whether the length of the number stands behind it.
        const HAS_SIZE: u16 = 1 << 15;
        let mut rest = Fields(section);
        while !rest.0.is_empty() {
            let start = rest.0;
            let (_kind, misc_and_size) = (rest.u32()?, rest.u32()?);
            let (misc, size) = ((misc_and_size & 0xffff) as u16, (misc_and_size >> 16) as usize);
            let mut entry = Fields(start.get(8..size)?);
            rest = Fields(start.get(size..)?);
            let _pid = entry.u32()?;
            let number = entry.take(24)?;
            let length = if misc & HAS_SIZE == 0 { 20 } else { usize::from(number[20]).min(20) };
            self.builds.insert(text(entry.0), number[..length].to_vec());
        }
        Some(())
    }
}

/// Bytes of a file, where it has them and they are not too many.
fn read_at(file: &File, at: u64, size: u64) -> Option<Vec<u8>> {
    let there = file.metadata().ok()?.len().checked_sub(at)?;
    if size > there || size > MOST_BEHIND {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// A text up to its first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

const HARDWARE: &str = "cycles instructions cache-references cache-misses branches branch-misses bus-cycles \
                        stalled-cycles-frontend stalled-cycles-backend ref-cycles";
const SOFTWARE: &str = "cpu-clock task-clock page-faults context-switches cpu-migrations minor-faults major-faults \
                        alignment-faults emulation-faults dummy";

/// The event of a `perf_event_attr`'s type and config.
fn name_of(kind: u32, config: u64) -> String {
    let names = match kind {
        b::PERF_TYPE_HARDWARE => HARDWARE,
        b::PERF_TYPE_SOFTWARE => SOFTWARE,
        _ => "",
    };
    let place = usize::try_from(config).ok();
    let known = place.and_then(|at| names.split_whitespace().nth(at));
    known.map_or_else(|| format!("event {kind}/{config:#x}"), str::to_owned)
}

/// Flags of `perf_event_attr`, by their bit.
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Registers of x86-64 by the kernel's numbers (`arch/x86/include/uapi/asm/perf_regs.h`).
const BP: u32 = 6;
const SP: u32 = 7;
const INSTRUCTION: u32 = 8;
/// The registers are those of a 64-bit program (`PERF_SAMPLE_REGS_ABI_64`).
const ABI_64: u64 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) kind: u32,
    pub(super) config: u64,
    /// Of one sample; where `is_frequency`, samples per second.
    pub(super) period: u64,
    pub(super) is_frequency: bool,
    sample_type: u64,
    read_format: u64,
    branch_sample_type: u64,
    registers: u64,
    sample_id_all: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordedSample<'a> {
    pub(super) ip: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time: u64,
    pub(super) cpu: Option<u32>,
    pub(super) period: Option<u64>,
    pub(super) chain: Option<Chain<'a>>,
    /// Instruction pointer, stack pointer and frame pointer.
    pub(super) registers: Option<[u64; 3]>,
    /// The copy of the stack, from the stack pointer on.
    pub(super) stack: &'a [u8],
}

impl Attribute {
    /// Reads a `perf_event_attr`, of which older versions are shorter.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at| word_at(bytes, at);
        let flags = word(40)?;
        Some(Self {
            kind: (word(0)? & u64::from(u32::MAX)) as u32,
            config: word(8)?,
            period: word(16)?,
            is_frequency: flags & FREQUENCY != 0,
            sample_type: word(24)?,
            read_format: word(32)?,
            branch_sample_type: word(72).unwrap_or(0),
            registers: word(80).unwrap_or(0),
            sample_id_all: flags & SAMPLE_ID_ALL != 0,
        })
    }

    fn has(&self, what: u32) -> bool {
        self.sample_type & u64::from(what) != 0
    }

    /// Whether each record says which event it is of.
    fn is_identified(&self) -> bool {
        self.has(IDENTIFIER)
    }

    fn id_in_sample(&self, body: &[u8]) -> Option<u64> {
        if self.has(IDENTIFIER) {
            return Fields(body).u64();
        }
        let before = [IP, TID, TIME, ADDR].iter().filter(|what| self.has(**what)).count();
        self.has(ID).then(|| Fields(body.get(8 * before..)?).u64())?
    }

    /// When a record that is no sample was written; 0 where it does not say so.
    pub(super) fn time_of_other(&self, body: &[u8]) -> u64 {
        let fields = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let held = |what: &[u32]| 8 * what.iter().filter(|what| self.has(**what)).count();
        let at = body.len().checked_sub(held(&fields)).map(|at| at + held(&fields[..1]));
        let known = at.filter(|_| self.sample_id_all && self.has(TIME));
        known.and_then(|at| Fields(body.get(at..)?).u64()).unwrap_or(0)
    }

    pub(super) fn time_of_sample(&self, body: &[u8]) -> u64 {
        let before = [IDENTIFIER, IP, TID];
        let before = 8 * before.iter().filter(|what| self.has(**what)).count();
        self.has(TIME).then(|| Fields(body.get(before..)?).u64()).flatten().unwrap_or(0)
    }

    /// Reads a sample; `None` where it is shorter than it has to be.
    pub(super) fn sample<'a>(&self, body: &'a [u8]) -> Option<RecordedSample<'a>> {
        let mut fields = Fields(body);
        let mut sample = RecordedSample::default();
        self.word(IDENTIFIER, &mut fields)?;
        sample.ip = self.word(IP, &mut fields)?.unwrap_or(0);
        if self.has(TID) {
            (sample.pid, sample.tid) = (fields.u32()?, fields.u32()?);
        }
        sample.time = self.word(TIME, &mut fields)?.unwrap_or(0);
        for what in [ADDR, ID, STREAM_ID] {
            self.word(what, &mut fields)?;
        }
        sample.cpu = self.word(CPU, &mut fields)?.map(|word| word as u32);
        sample.period = self.word(PERIOD, &mut fields)?;
        if self.has(READ) {
            self.skip_read(&mut fields)?;
        }
        if self.has(CALLCHAIN) {
            let count = usize::try_from(fields.u64()?).ok()?;
            sample.chain = Some(Chain::of(fields.take(count.checked_mul(8)?)?));
        }
        if self.has(RAW) {
            let length = fields.u32()?;
            fields.take(length as usize)?;
        }
        if self.has(BRANCH_STACK) {
            let count = usize::try_from(fields.u64()?).ok()?;
            if self.branch_sample_type & u64::from(b::PERF_SAMPLE_BRANCH_HW_INDEX) != 0 {
                fields.u64()?;
            }
            fields.take(count.checked_mul(24)?)?;
        }
        if self.has(REGS_USER) {
            sample.registers = self.user_registers(&mut fields)?;
        }
        if self.has(STACK_USER) {
            let size = usize::try_from(fields.u64()?).ok()?;
            if size > 0 {
                let bytes = fields.take(size)?;
                let filled = usize::try_from(fields.u64()?).ok()?;
                sample.stack = bytes.get(..filled.min(size))?;
            }
        }
        Some(sample)
    }

    /// A field of eight bytes, where the sample has it.
    fn word(&self, what: u32, fields: &mut Fields<'_>) -> Option<Option<u64>> {
        if self.has(what) { fields.u64().map(Some) } else { Some(None) }
    }

    /// Counters that were read with the sample.
    fn skip_read(&self, fields: &mut Fields<'_>) -> Option<()> {
        let has = |bit: u32| usize::from(self.read_format & u64::from(bit) != 0);
        let times = has(b::PERF_FORMAT_TOTAL_TIME_ENABLED) + has(b::PERF_FORMAT_TOTAL_TIME_RUNNING);
        let each = 1 + has(b::PERF_FORMAT_ID) + has(b::PERF_FORMAT_LOST);
        let words = if has(b::PERF_FORMAT_GROUP) == 1 {
            let count = usize::try_from(fields.u64()?).ok()?;
            count.checked_mul(each)?.checked_add(times)?
        } else {
            each + times
        };
        fields.take(words.checked_mul(8)?).map(drop)
    }

    fn user_registers(&self, fields: &mut Fields<'_>) -> Option<Option<[u64; 3]>> {
        let abi = fields.u64()?;
        if abi == 0 {
            return Some(None);
        }
        let values = fields.take(8 * self.registers.count_ones() as usize)?;
        let value = |number: u32| {
            let place = (self.registers & ((1 << number) - 1)).count_ones() as usize;
            let known = self.registers & (1 << number) != 0;
            known.then(|| Fields(values.get(8 * place..)?).u64())?
        };
        let three = || Some([value(INSTRUCTION)?, value(SP)?, value(BP)?]);
        Some(three().filter(|_| abi == ABI_64))
    }
}
