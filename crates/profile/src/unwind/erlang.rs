//! Walking an Erlang stack: the part of a process's memory that holds its return addresses, its
//! variables, and, where the emulator was told so, a chain of frame pointers.
//!
//! ```text
//! top ->  variables    tagged terms: their two lowest bits are never both 0
//! fp  ->  caller's fp  only where frames are chained
//!         return address, with its two lowest bits 0
//!         variables of the caller
//!         ...
//!         return address: normal_exit          the root
//! ```
//!
//! A chain of frames is better all the same: what lies below the last one may be left over from earlier calls.

use crate::stack_copy::MemoryCopy;

/// The lowest bits that tell terms from addresses.
const TAG: u64 = 3;

/// The root of an Erlang stack, and what is compiled code.
#[derive(Clone, Copy)]
pub(super) struct Code<'a> {
    pub(super) normal_exit: u64,
    pub(super) is_compiled: &'a dyn Fn(u64) -> bool,
}

impl Code<'_> {
    fn is_return_address(&self, word: u64) -> bool {
        word & TAG == 0 && (self.is_compiled)(word)
    }

    /// Follows the chain of frame pointers from `frame` on, and takes return addresses; whether it reached the root.
    pub(super) fn follow(&self, stack: &MemoryCopy<'_>, mut frame: u64, take: &mut dyn FnMut(u64)) -> bool {
        // Frames go up by two words at least, so that the copy's length bounds their number.
        while let (Some(caller), Some(address)) =
            (stack.word(frame), frame.checked_add(8).and_then(|at| stack.word(at)))
        {
            if !self.is_return_address(address) {
                return false;
            }
            take(address);
            if address == self.normal_exit {
                return true;
            }
            if caller < frame.saturating_add(16) {
                return false;
            }
            frame = caller;
        }
        false
    }

    /// Takes all return addresses from `top` on; whether the root was among them.
    pub(super) fn scan(&self, stack: &MemoryCopy<'_>, top: u64, take: &mut dyn FnMut(u64)) -> bool {
        let mut next = top.max(stack.start).checked_next_multiple_of(8);
        while let Some(at) = next
            && let Some(word) = stack.word(at)
        {
            if self.is_return_address(word) {
                take(word);
                if word == self.normal_exit {
                    return true;
                }
            }
            next = at.checked_add(8);
        }
        false
    }

    /// The caller of a function that was just called, and is not in the chain yet: `sp` points at the
    /// return address, or at the caller's frame pointer that was pushed in front of it.
    pub(super) fn caller_without_frame(&self, stack: &MemoryCopy<'_>, sp: u64, frame: u64) -> Option<u64> {
        if sp >= frame {
            return None;
        }
        let mut address = stack.word(sp)?;
        if address == frame {
            address = stack.word(sp.checked_add(8)?)?;
        }
        self.is_return_address(address).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXIT: u64 = 0x9000;
    const CODE: Code<'static> = Code { normal_exit: EXIT, is_compiled: &|address| (0x8000..0xa000).contains(&address) };

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    /// Two frames with variables and the root, at 0x1000.
    const WORDS: [u64; 9] = [
        0x8ff1, // a variable that is nearly an address
        0x1020, // fp 0x1008
        0x8110, 0x3b,   // variable
        0x1038, // fp 0x1020
        0x8220, 0x8003, // variable
        0,      // fp 0x1038
        EXIT,
    ];

    fn walk(words: &[u64], walk: impl Fn(&MemoryCopy<'_>, &mut dyn FnMut(u64)) -> bool) -> (Vec<u64>, bool) {
        let bytes = bytes(words);
        let stack = MemoryCopy { start: 0x1000, bytes: &bytes, ..MemoryCopy::default() };
        let mut found = Vec::new();
        let whole = walk(&stack, &mut |address| found.push(address));
        (found, whole)
    }

    #[test]
    fn chained_frames_are_followed_to_the_root() {
        let wanted = (vec![0x8110, 0x8220, EXIT], true);
        assert_eq!(walk(&WORDS, |s, take| CODE.follow(s, 0x1008, take)), wanted);
        assert_eq!(walk(&WORDS, |s, take| CODE.scan(s, 0x1000, take)), wanted);
        let inner = (vec![0x8220, EXIT], true);
        assert_eq!(walk(&WORDS, |s, take| CODE.follow(s, 0x1020, take)), inner);
        assert_eq!(walk(&WORDS, |s, take| CODE.scan(s, 0x1018, take)), inner);
    }

    #[test]
    fn a_chain_that_breaks_is_not_whole() {
        for frame in [0, 0xff8, 0x1000, 0x1009, 0x1040, 0x1048, u64::MAX, u64::MAX - 7] {
            let (_, whole) = walk(&WORDS, |s, take| CODE.follow(s, frame, take));
            assert!(!whole, "{frame:x}");
        }
        // Downwards, and to itself.
        for caller in [0x1008, 0x1000, 0] {
            let mut words = WORDS;
            words[4] = caller;
            let (found, whole) = walk(&words, |s, take| CODE.follow(s, 0x1008, take));
            assert_eq!((found, whole), (vec![0x8110, 0x8220], false));
        }
        for len in 0..WORDS.len() {
            assert!(!walk(&WORDS[..len], |s, take| CODE.follow(s, 0x1008, take)).1);
            assert!(!walk(&WORDS[..len], |s, take| CODE.scan(s, 0x1000, take)).1);
        }
    }

    #[test]
    fn any_memory_is_walked_without_panic() {
        let mut random = testkit::Random::new(7);
        let mut word = || match random.below(4) {
            0 => 0x1000 + random.below(0x110),
            1 => 0x8000 + random.below(0x1800),
            2 => u64::MAX - random.below(16),
            _ => random.below(u64::MAX) << 33 | random.below(u64::MAX),
        };
        for _ in 0..2000 {
            let words: Vec<u64> = (0..32).map(|_| word()).collect();
            for start in [0x1000, u64::MAX - 64, u64::MAX] {
                let bytes = bytes(&words);
                let stack = MemoryCopy { start, bytes: &bytes, ..MemoryCopy::default() };
                for from in [0, start, words[0], words[1], u64::MAX] {
                    let mut count = 0;
                    CODE.follow(&stack, from, &mut |_| count += 1);
                    CODE.scan(&stack, from, &mut |_| count += 1);
                    CODE.caller_without_frame(&stack, from, words[2]);
                    assert!(count <= 64);
                }
            }
        }
    }

    #[test]
    fn the_caller_of_a_function_without_a_frame_is_found() {
        let called = [0x8330, 0x3b, 0x1028, 0x8110, 0x3b, 0, EXIT];
        let pushed = [0x1018, 0x8330, 0x3b, 0x1028, 0x8110, 0, EXIT];
        let framed = [0x3b, 0x1028, 0x8110, 0x3b, 0, 0, EXIT];
        for (words, frame, caller) in
            [(called, 0x1010, Some(0x8330)), (pushed, 0x1018, Some(0x8330)), (framed, 0x1008, None)]
        {
            let bytes = bytes(&words);
            let stack = MemoryCopy { start: 0x1000, bytes: &bytes, ..MemoryCopy::default() };
            assert_eq!(CODE.caller_without_frame(&stack, 0x1000, frame), caller);
            assert_eq!(CODE.caller_without_frame(&stack, frame, frame), None);
        }
    }
}
