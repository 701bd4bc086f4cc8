//! Fields of an event's samples and other records, by its attributes.

use perf_event_open_sys::bindings as b;

use crate::record::{Chain, Fields};

/// `PERF_SAMPLE_*` of a sample in the order in which its fields stand.
const IDENTIFIER: u64 = b::PERF_SAMPLE_IDENTIFIER as u64;
const IP: u64 = b::PERF_SAMPLE_IP as u64;
const TID: u64 = b::PERF_SAMPLE_TID as u64;
const TIME: u64 = b::PERF_SAMPLE_TIME as u64;
const ADDR: u64 = b::PERF_SAMPLE_ADDR as u64;
const ID: u64 = b::PERF_SAMPLE_ID as u64;
const STREAM_ID: u64 = b::PERF_SAMPLE_STREAM_ID as u64;
const CPU: u64 = b::PERF_SAMPLE_CPU as u64;
const PERIOD: u64 = b::PERF_SAMPLE_PERIOD as u64;
const READ: u64 = b::PERF_SAMPLE_READ as u64;
const CALLCHAIN: u64 = b::PERF_SAMPLE_CALLCHAIN as u64;
const RAW: u64 = b::PERF_SAMPLE_RAW as u64;
const BRANCH_STACK: u64 = b::PERF_SAMPLE_BRANCH_STACK as u64;
const REGS_USER: u64 = b::PERF_SAMPLE_REGS_USER as u64;
const STACK_USER: u64 = b::PERF_SAMPLE_STACK_USER as u64;

/// Flags of `perf_event_attr`, by their bit.
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Registers of x86-64 by the kernel's numbers (`arch/x86/include/uapi/asm/perf_regs.h`).
const BP: u32 = 6;
const SP: u32 = 7;
const INSTRUCTION: u32 = 8;
/// The registers are those of a 64-bit program (`PERF_SAMPLE_REGS_ABI_64`).
const ABI_64: u64 = 2;

/// The attributes of an event.
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

/// A sample.
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
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|it| it.try_into().ok());
            word.map(u64::from_le_bytes)
        };
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

    fn has(&self, what: u64) -> bool {
        self.sample_type & what != 0
    }

    /// Whether records of both can be told apart, or need not be.
    pub(super) fn is_read_as(&self, other: &Self) -> bool {
        (self.sample_type, self.sample_id_all) == (other.sample_type, other.sample_id_all)
    }

    /// Whether each record says which event it is of.
    pub(super) fn is_identified(&self) -> bool {
        self.has(IDENTIFIER)
    }

    /// The event's number in a sample.
    pub(super) fn id_in_sample(&self, body: &[u8]) -> Option<u64> {
        if self.has(IDENTIFIER) {
            return Fields(body).u64();
        }
        let before = [IP, TID, TIME, ADDR]
            .iter()
            .filter(|what| self.has(**what))
            .count();
        self.has(ID)
            .then(|| Fields(body.get(8 * before..)?).u64())?
    }

    /// When a record that is no sample was written; 0 where it does not say so.
    pub(super) fn time_of_other(&self, body: &[u8]) -> u64 {
        let fields = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let held = |what: &[u64]| 8 * what.iter().filter(|what| self.has(**what)).count();
        let at = body
            .len()
            .checked_sub(held(&fields))
            .map(|at| at + held(&fields[..1]));
        let known = at.filter(|_| self.sample_id_all && self.has(TIME));
        let time = known.and_then(|at| Fields(body.get(at..)?).u64());
        time.unwrap_or(0)
    }

    /// When a sample was taken.
    pub(super) fn time_of_sample(&self, body: &[u8]) -> u64 {
        let before = [IDENTIFIER, IP, TID];
        let before = 8 * before.iter().filter(|what| self.has(**what)).count();
        let time = self.has(TIME).then(|| Fields(body.get(before..)?).u64());
        time.flatten().unwrap_or(0)
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
    fn word(&self, what: u64, fields: &mut Fields<'_>) -> Option<Option<u64>> {
        match self.has(what) {
            true => fields.u64().map(Some),
            false => Some(None),
        }
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
