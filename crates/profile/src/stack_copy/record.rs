//! Data that the program writes behind each sample: registers, and copies of stacks.
//!
//! ```text
//! ip sp bp r12 process frame_pointer stop  native length  Erlang start  Erlang length  identifier  value   12 words
//! released: start, length   taken: start, length   two replaced return addresses: where, which              8 words
//! native bytes, from sp on
//! Erlang bytes, from the Erlang start on
//! ```

use std::ops::Range;

/// Words in front of the bytes.
const WORDS: usize = 20;
/// Bytes of a trampoline to which functions return that the kernel probes; behind it are replaced instructions.
const TRAMPOLINE: u64 = 128;
/// Of memory on x86-64.
const PAGE: u64 = 4096;

/// Some memory of the process at the instant of the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryCopy<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
    pub(crate) replaced: [ReplacedWord; 2],
}

/// Value of a word before it was replaced; none at address 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplacedWord {
    pub(crate) address: u64,
    pub(crate) word: u64,
}

impl MemoryCopy<'_> {
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut replaced = self.replaced.iter().filter(|it| it.address != 0);
        replaced.find(|it| it.address == address).map_or_else(|| self.copied_word(address), |it| Some(it.word))
    }

    fn copied_word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
    }

    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// Memory that changes hands in a call, where the event tells it; elsewhere there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) call: u64,
    pub(crate) released: Extent,
    pub(crate) taken: Extent,
}

/// Some memory: a range of addresses, or a numbered block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// Registers and stacks at the instant of a sample, from a foreign process's memory: any value is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackCopy<'a> {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    /// Where the JIT keeps its stack pointer while C code runs that does not need it.
    pub(crate) r12: u64,
    /// The Erlang process that the scheduler was running; 0 where there was none.
    pub(crate) process: u64,
    /// That process's identifier as a term; 0 for none. It is known also while its heap moves, and its stack is not.
    pub(crate) identifier: u64,
    /// How many events the sample stands for, or the tracepoint's field that it weighs by.
    pub(crate) value: u64,
    pub(crate) released: Extent,
    pub(crate) taken: Extent,
    /// Return addresses that the kernel has replaced to hear of a function's return, and before it of its caller's.
    pub(crate) replaced_returns: [ReplacedWord; 2],
    /// The process's last frame, as it was when it last called the runtime.
    pub(crate) frame_pointer: u64,
    /// The top of the process's stack at that instant.
    pub(crate) stop: u64,
    /// The stack that the thread was running on, from `sp` on.
    pub(crate) native: MemoryCopy<'a>,
    /// The process's stack, up to its root.
    pub(crate) erlang: MemoryCopy<'a>,
}

impl<'a> StackCopy<'a> {
    /// Parses a record's raw part, which begins with its length in 32 bits; `None` where it is too short.
    pub(crate) fn parse(raw: &'a [u8]) -> Option<Self> {
        let (words, bytes) = raw.get(4..)?.split_first_chunk::<{ 8 * WORDS }>()?;
        let (words, _) = words.as_chunks::<8>();
        let words: [u64; WORDS] = std::array::from_fn(|at| words.get(at).map_or(0, |it| u64::from_ne_bytes(*it)));
        let [ip, sp, bp, r12, process, frame_pointer, stop, native_length, words @ ..] = words;
        let [erlang_start, erlang_length, identifier, value, extents @ ..] = words;
        let [released, released_length, taken, taken_length, replaced @ ..] = extents;
        let [address, word, address_before, word_before] = replaced;
        let (native, rest) = bytes.split_at_checked(usize::try_from(native_length).ok()?)?;
        let erlang = rest.get(..usize::try_from(erlang_length).ok()?)?;
        Some(Self {
            ip,
            sp,
            bp,
            r12,
            process,
            identifier,
            value,
            released: Extent { start: released, length: released_length },
            taken: Extent { start: taken, length: taken_length },
            replaced_returns: [
                ReplacedWord { address, word },
                ReplacedWord { address: address_before, word: word_before },
            ],
            frame_pointer,
            stop,
            native: MemoryCopy { start: sp, bytes: native, ..MemoryCopy::default() },
            erlang: MemoryCopy { start: erlang_start, bytes: erlang, ..MemoryCopy::default() },
        })
    }

    pub(crate) const fn transfer(&self) -> Transfer {
        Transfer { call: self.value, released: self.released, taken: self.taken }
    }

    /// Puts back what the kernel has changed in a thread that it looks at by probes, whose code is in `probes`.
    pub(crate) fn put_back(&mut self, probes: &Range<u64>) {
        let is_there = |word: Option<u64>| word.is_some_and(|it| probes.contains(&it));
        let replaced = self.replaced_returns;
        self.native.replaced =
            replaced.map(|it| if is_there(self.native.word(it.address)) { it } else { ReplacedWord::default() });
        if !probes.contains(&self.ip) {
            return;
        }
        if self.ip < probes.start.saturating_add(TRAMPOLINE) {
            // The function has returned.
            let [last, _] = replaced;
            if last.address != 0 {
                self.ip = last.word;
                self.sp = last.address.saturating_add(8);
            }
        } else if let Some(caller) = self.native.word(self.sp) {
            // A function's first instruction runs outside of it.
            self.ip = caller.saturating_sub(1);
            self.sp = self.sp.saturating_add(8);
        }
    }

    /// Where the kernel's probe code is, by a replaced return address: it begins with that, at the beginning of a page.
    pub(crate) fn probe_code(&self) -> Option<Range<u64>> {
        let replaced = self.replaced_returns.iter().filter(|it| it.address != 0);
        let mut words = replaced.filter_map(|it| Some((self.native.word(it.address)?, it.word)));
        let is_start = |&(now, before): &(u64, u64)| now != before && now != 0 && now % PAGE == 0;
        let (start, _) = words.find(is_start)?;
        Some(start..start.saturating_add(PAGE))
    }

    pub(crate) const fn has_replaced_returns(&self) -> bool {
        self.replaced_returns[0].address != 0
    }

    /// Bytes that were copied of both stacks.
    pub(crate) fn len(&self) -> u64 {
        (self.native.bytes.len() + self.erlang.bytes.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(native: u64, erlang: u64, bytes: usize) -> Vec<u8> {
        let words = [1, 2, 3, 4, 5, 6, 7, native, 9, erlang, 10, 11, 12, 13, 14, 15, 0, 0, 0, 0];
        let mut raw = 192u32.to_ne_bytes().to_vec();
        raw.extend(words.iter().flat_map(|w: &u64| w.to_ne_bytes()));
        raw.extend((0..bytes).map(|i| i as u8));
        raw
    }

    #[test]
    fn registers_and_both_stacks_are_read() {
        // The kernel pads records to whole words.
        let raw = raw(16, 8, 28);
        let copy = StackCopy::parse(&raw).unwrap();
        assert_eq!((copy.ip, copy.sp, copy.bp, copy.r12), (1, 2, 3, 4));
        assert_eq!((copy.process, copy.frame_pointer, copy.stop), (5, 6, 7));
        assert_eq!((copy.identifier, copy.value), (10, 11));
        let [released, taken] = [(12, 13), (14, 15)].map(|(start, length)| Extent { start, length });
        assert_eq!(copy.transfer(), Transfer { call: 11, released, taken });
        assert_eq!((copy.native.start, copy.native.bytes.len()), (2, 16));
        assert_eq!((copy.erlang.start, copy.erlang.end()), (9, 17));
        let word = u64::from_ne_bytes([8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(copy.native.word(10), Some(word));
        for outside in [0, 1, 11, 18, u64::MAX] {
            assert_eq!(copy.native.word(outside), None);
        }
        assert_eq!(copy.len(), 24);
    }

    #[test]
    fn a_replaced_return_address_is_put_back() {
        let mut raw = raw(24, 0, 24);
        // The words of the trampoline and of the caller, and where on the stack, which begins at 2.
        raw[4 + 160 + 8..][..8].copy_from_slice(&0x7000u64.to_ne_bytes());
        for (at, word) in [(128, 10u64), (136, 0x400)] {
            raw[4 + at..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        let put_back = |trampoline, ip| {
            let mut copy = StackCopy::parse(&raw).unwrap();
            copy.ip = ip;
            copy.put_back(&trampoline);
            (copy.ip, copy.sp, copy.native.word(10))
        };
        assert_eq!(put_back(0x7000..0x8000, 1), (1, 2, Some(0x400)));
        assert_eq!(put_back(0x7000..0x8000, 0x7004).0, 0x400);
        assert_eq!(put_back(0x7000..0x8000, 0x7004).1, 18);
        // The first instruction of a function that was called from 9, as the copy says.
        assert_eq!(put_back(0x7000..0x8000, 0x7080).0, 0x0706_0504_0302_00ff);
        // It is stale: something else stands there.
        assert_eq!(put_back(0x9000..0xa000, 1), (1, 2, Some(0x7000)));
        // What stands there tells where that code is, unless it is no beginning of a page.
        let code = |raw: &[u8]| StackCopy::parse(raw).unwrap().probe_code();
        assert_eq!(code(&raw), Some(0x7000..0x8000));
        raw[4 + 160 + 8] = 8;
        assert_eq!(code(&raw), None);
        raw[4 + 160 + 8..][..8].copy_from_slice(&0x400u64.to_ne_bytes());
        assert_eq!(code(&raw), None);
        raw[4 + 128..][..8].fill(0);
        assert_eq!(code(&raw), None);
    }

    #[test]
    fn impossible_lengths_are_no_copy() {
        for (native, erlang) in [(u64::MAX, 0), (0, u64::MAX), (20, 20), (u64::MAX, u64::MAX)] {
            assert_eq!(StackCopy::parse(&raw(native, erlang, 32)), None);
        }
        let whole = raw(0, 0, 0);
        for len in 0..whole.len() {
            assert_eq!(StackCopy::parse(&whole[..len]), None);
        }
    }
}
