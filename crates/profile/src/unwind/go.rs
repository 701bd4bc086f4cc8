//! Unwinding of Go by frame pointers, which all functions but leaves keep, and by the stack's top in a leaf.

use perf_event_open_sys::bindings::{self as b, perf_event_attr};

use super::{FramePointers, Stack, Unwinder};
use crate::record::{Address, Fields, SampleRecord};
use crate::symbols::GoCode;

/// Bytes of the stack that are copied: a frame that is larger has its pointer.
const COPIED: u32 = 256;
/// The bits of `rbp` and `rsp`, in the order in which they are written (`asm/perf_regs.h`).
const REGISTERS: u64 = 1 << 6 | 1 << 7;
/// `rbp` points to the caller's, and above that stands where to return to.
const WORD: u64 = 8;

/// Adds the caller of the leaf that frame pointers leave out.
pub(super) struct GoStacks {
    plain: FramePointers,
    code: Option<GoCode>,
    /// The kernel writes the event's own fields before the registers.
    has_fields: bool,
}

impl GoStacks {
    /// For a process, whose samples have a tracepoint's fields where `has_fields`.
    pub(super) fn new(pid: u32, has_fields: bool) -> Self {
        Self { plain: FramePointers::new(), code: GoCode::of_process(pid), has_fields }
    }

    /// Where the function at `ip` returns to, while it has no frame in the chain: at its beginning, its end, or always.
    fn caller_without_frame(&self, ip: u64, rest: &[u8]) -> Option<u64> {
        let code = self.code.as_ref()?;
        let top = StackTop::parse(rest, self.has_fields)?;
        let size = code.stack_size(ip)?;
        if top.sp.checked_add(size)? == top.bp.wrapping_add(WORD) {
            return None;
        }
        top.word(size).filter(|caller| code.contains(*caller))
    }
}

impl Unwinder for GoStacks {
    fn configure(&self, attr: &mut perf_event_attr) {
        self.plain.configure(attr);
        attr.sample_type |= u64::from(b::PERF_SAMPLE_REGS_USER | b::PERF_SAMPLE_STACK_USER);
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = COPIED;
    }

    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack) {
        self.plain.unwind(sample, stack);
        let addresses = &mut stack.addresses;
        if let Some(leaf) = addresses.iter().position(Address::is_user)
            && let Address::User(ip) = addresses[leaf]
            && let Some(caller) = self.caller_without_frame(ip, sample.rest)
        {
            addresses.insert(leaf + 1, Address::User(caller));
        }
    }
}

/// The registers of a sample, and the top of its stack.
#[derive(Debug, PartialEq, Eq)]
struct StackTop<'a> {
    bp: u64,
    sp: u64,
    bytes: &'a [u8],
}

impl<'a> StackTop<'a> {
    /// From what follows the call chain; none where the thread had no code of the user's.
    fn parse(rest: &'a [u8], has_fields: bool) -> Option<Self> {
        let mut rest = Fields(rest);
        if has_fields {
            let length = rest.u32()?;
            rest.take(length as usize)?;
        }
        // The registers' width; without any there are none.
        if rest.u64()? == 0 {
            return None;
        }
        let (bp, sp) = (rest.u64()?, rest.u64()?);
        let size = usize::try_from(rest.u64()?).ok()?;
        let bytes = rest.take(size)?;
        let copied = rest.u64().unwrap_or(0);
        let bytes = &bytes[..size.min(usize::try_from(copied).ok()?)];
        Some(Self { bp, sp, bytes })
    }

    fn word(&self, at: u64) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record's end: registers, two words of stack, and six that the kernel could not read.
    fn record(fields: &[u8]) -> Vec<u8> {
        let words = [2, 0x7000, 0x6000, 64, 11, 22, 0, 0, 0, 0, 0, 0, 16];
        let words = words.iter().flat_map(|word: &u64| word.to_le_bytes());
        fields.iter().copied().chain(words).collect()
    }

    #[test]
    fn registers_and_what_was_copied_are_read_unless_they_are_cut_off() {
        for (fields, has_fields) in [(&[][..], false), (&[4, 0, 0, 0, 1, 2, 3, 4], true)] {
            let record = record(fields);
            let top = StackTop::parse(&record, has_fields).unwrap();
            assert_eq!((top.bp, top.sp), (0x7000, 0x6000));
            assert_eq!([0, 8, 16].map(|at| top.word(at)), [Some(11), Some(22), None]);
            assert_eq!(top.word(9), None);
        }
        let record = record(&[]);
        for length in 0..record.len() - 8 {
            assert_eq!(StackTop::parse(&record[..length], false), None, "{length}");
        }
        assert_eq!(StackTop::parse(&[0; 8], false), None);
        assert_eq!(StackTop::parse(&[255; 64], false), None);
        assert_eq!(StackTop::parse(&[255; 64], true), None);
    }
}
