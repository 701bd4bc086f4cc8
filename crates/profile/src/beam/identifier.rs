//! The identifier of an Erlang process, from the term that the process itself begins with.
//!
//! ```text
//! 63         32 31          4 3  0
//! | place      |serial,number|0011|   up to OTP 25: the place in the table, 13 bits of serial, 15 of number
//! | serial     | number      |0011|   OTP 26 and later
//! ```

use std::fmt;

/// The lowest bits of a term that is the identifier of a local process, and which of them say it.
pub(crate) const IDENTIFIER_TAG: i32 = 3;
pub(crate) const IDENTIFIER_MASK: i32 = 15;

/// Bits of a number that no process has: what a stand-in for a process has in its place.
const NOBODY: u64 = (1 << 28) - 1;

/// How an identifier is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IdentifierLayout {
    /// With the process's place in the table of processes.
    WithPlace,
    /// With a longer serial in its place.
    WithLongSerial,
    /// Neither holds for all processes.
    Unknown,
}

impl IdentifierLayout {
    /// What holds for the processes of a node, each with its place in the table and its identifier.
    pub(super) fn of(processes: impl Iterator<Item = (usize, u64)>) -> Self {
        // The first place is 0, as the first serial is.
        let placed = processes.filter(|(place, _)| *place > 0);
        let (with, without): (Vec<_>, Vec<_>) =
            placed.partition(|(place, identifier)| identifier >> 32 == *place as u64);
        match (with.is_empty(), without.is_empty()) {
            (false, true) => Self::WithPlace,
            (true, false) => Self::WithLongSerial,
            _ => Self::Unknown,
        }
    }
}

/// A process of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId {
    term: u64,
    layout: IdentifierLayout,
}

impl ProcessId {
    /// The process whose identifier is this term; `None` where it is nobody's.
    pub(crate) fn of_term(term: u64, layout: IdentifierLayout) -> Option<Self> {
        let is_pid = is_identifier(term) && (term >> 4) & NOBODY != NOBODY;
        is_pid.then_some(Self { term, layout })
    }
}

/// As Erlang prints it, `<0.123.4>`; where the layout is not known, the term itself.
impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let low = (self.term >> 4) & NOBODY;
        let (number, serial) = match self.layout {
            IdentifierLayout::WithPlace => (low & 0x7fff, low >> 15),
            IdentifierLayout::WithLongSerial => (low, self.term >> 32),
            IdentifierLayout::Unknown => return write!(f, "process {:#x}", self.term),
        };
        write!(f, "<0.{number}.{serial}>")
    }
}

/// Whether a word is the identifier of a local process.
pub(crate) fn is_identifier(word: u64) -> bool {
    word & (IDENTIFIER_MASK as u64) == IDENTIFIER_TAG as u64
}

#[cfg(test)]
mod tests {
    use super::IdentifierLayout::{Unknown, WithLongSerial, WithPlace};
    use super::*;

    #[test]
    fn identifiers_are_printed_as_the_release_does() {
        for (layout, term, wanted) in [
            (WithPlace, 3, "<0.0.0>"),
            // Debian's OTP 25.2.3.
            (WithPlace, 0x278_0000_04f3, "<0.79.0>"),
            (
                WithPlace,
                0x278_0000_0000 | (32_768 + 5) << 4 | 3,
                "<0.5.1>",
            ),
            (WithLongSerial, 0x4f3, "<0.79.0>"),
            (WithLongSerial, (32_768 + 5) << 4 | 3, "<0.32773.0>"),
            (WithLongSerial, 2 << 32 | 7 << 4 | 3, "<0.7.2>"),
            (Unknown, 0x73, "process 0x73"),
        ] {
            let process = ProcessId::of_term(term, layout).unwrap();
            assert_eq!(process.to_string(), wanted, "{term:x}");
        }
    }

    #[test]
    fn what_is_nobodys_is_no_process() {
        for term in [
            0,
            1,
            0x13 << 4,
            0xffff_ffff,
            0xffff_fff3,
            u64::MAX,
            u64::MAX << 4 | 3,
        ] {
            assert_eq!(ProcessId::of_term(term, WithPlace), None, "{term:x}");
        }
    }

    #[test]
    fn the_layout_is_what_holds_for_all_processes() {
        let layout = |processes: &[(usize, u64)]| IdentifierLayout::of(processes.iter().copied());
        let (first, second) = (8 << 32 | 0x13, 16 << 32 | 0x23);
        assert_eq!(layout(&[(0, 3), (8, first), (16, second)]), WithPlace);
        assert_eq!(layout(&[(0, 3), (8, 0x13), (16, 0x23)]), WithLongSerial);
        assert_eq!(layout(&[(0, 3), (8, first), (16, 0x23)]), Unknown);
        assert_eq!(layout(&[(0, 3)]), Unknown);
    }
}
