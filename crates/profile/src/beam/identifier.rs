//! The identifier of an Erlang process, from the term that the process itself begins with.
//!
//! ```text
//! 63         32 31          4 3  0
//! | place      |serial,number|0011|   up to OTP 25: the place in the table, 13 bits of serial, 15 of number
//! | serial     | scattered   |0011|   OTP 26 and later: as many low bits as the table has places say the place
//! ```
//!
//! Processes that are started one after the other are scattered over the table's cache lines, so that a number is the
//! place turned by the bits of a place in its line (`erts_ptab_pixdata2data` of `erl_ptab.h`).

use std::fmt;

/// The lowest bits of a term that is the identifier of a local process, and which of them say it.
const IDENTIFIER_TAG: u64 = 3;
const IDENTIFIER_MASK: u64 = 15;

/// Bits of a number that no process has: what a stand-in for a process has in its place.
const NOBODY: u64 = (1 << 28) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IdentifierLayout {
    /// With the process's place in the table of processes.
    WithPlace,
    /// With a longer serial in its place, and a number that is turned.
    Scattered(Places),
    /// Neither holds for all processes.
    Unknown,
}

/// How many places a table of processes has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Places {
    bits: u32,
    /// Bits of a place in its cache line.
    line: u32,
}

impl Places {
    /// Places of a table of OTP 26 and later, from its size on: size, mask of a place, masks of a line and of a place
    /// in it, and their two shifts. `None` where these do not belong together.
    pub(super) fn noted(words: &[u64]) -> Option<Self> {
        let &[size, mask, lines, in_line, shifts] = words else { return None };
        let (size, line, rest) = (size & 0xffff_ffff, shifts & 0xffff_ffff, shifts >> 32);
        let places = Self { bits: size.checked_ilog2()?, line: u32::try_from(line).ok()? };
        let agree = size.is_power_of_two()
            && mask == size - 1
            && line < u64::from(places.bits)
            && in_line == (1 << line) - 1
            && lines == mask >> line
            && rest == u64::from(places.bits) - line;
        agree.then_some(places)
    }

    /// The place of a process with this number, and as many higher bits.
    const fn of(self, low: u64) -> u64 {
        low & ((1 << self.bits) - 1)
    }

    /// The number of the process of that place.
    const fn number(self, low: u64) -> u64 {
        let place = self.of(low);
        let turned = place >> self.line | (place & ((1 << self.line) - 1)) << (self.bits - self.line);
        low & !((1 << self.bits) - 1) | turned
    }
}

impl IdentifierLayout {
    /// Rule that holds for processes, by place in the table and identifier; `places` are the table's, from OTP 26 on.
    pub(super) fn of(processes: impl Iterator<Item = (usize, u64)>, places: Option<Places>) -> Self {
        // The first place is 0, as the first serial is.
        let placed: Vec<(u64, u64)> =
            processes.filter(|(place, _)| *place > 0).map(|(place, identifier)| (place as u64, identifier)).collect();
        let all = |holds: &dyn Fn(u64, u64) -> bool| {
            !placed.is_empty() && placed.iter().all(|&(place, identifier)| holds(place, identifier))
        };
        match places {
            _ if all(&|place, identifier| identifier >> 32 == place) => Self::WithPlace,
            Some(places) if all(&|place, identifier| places.of(identifier >> 4) == place) => Self::Scattered(places),
            _ => Self::Unknown,
        }
    }
}

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
            IdentifierLayout::Scattered(places) => (places.number(low), self.term >> 32),
            IdentifierLayout::Unknown => return write!(f, "process {:#x}", self.term),
        };
        write!(f, "<0.{number}.{serial}>")
    }
}

pub(crate) fn is_identifier(word: u64) -> bool {
    word & IDENTIFIER_MASK == IDENTIFIER_TAG
}

#[cfg(test)]
mod tests {
    use super::IdentifierLayout::{Scattered, Unknown, WithPlace};
    use super::*;

    /// Places noted by Debian's OTP 27.3.4, 1,048,576 in lines of eight.
    const NOTED: [u64; 5] = [1 << 20, (1 << 20) - 1, (1 << 17) - 1, 7, 17 << 32 | 3];

    #[test]
    fn identifiers_are_printed_as_the_release_does() {
        let places = Places::noted(&NOTED).unwrap();
        for (layout, term, wanted) in [
            (WithPlace, 3, "<0.0.0>"),
            // Debian's OTP 25.2.3.
            (WithPlace, 0x278_0000_04f3, "<0.79.0>"),
            (WithPlace, 0x278_0000_0000 | (32_768 + 5) << 4 | 3, "<0.5.1>"),
            (Scattered(places), (615 << 3) << 4 | 3, "<0.615.0>"),
            (Scattered(places), (5 << 3 | 2) << 4 | 3, "<0.262149.0>"),
            (Scattered(places), 3 << 32 | (1 << 20 | 5 << 3) << 4 | 3, "<0.1048581.3>"),
            (Unknown, 0x73, "process 0x73"),
        ] {
            assert_eq!(ProcessId::of_term(term, layout).unwrap().to_string(), wanted, "{term:x}");
        }
    }

    #[test]
    fn what_is_nobodys_is_no_process() {
        for term in [0, 1, 0x13 << 4, 0xffff_ffff, 0xffff_fff3, u64::MAX, u64::MAX << 4 | 3] {
            assert_eq!(ProcessId::of_term(term, WithPlace), None, "{term:x}");
        }
    }

    #[test]
    fn the_layout_is_what_holds_for_all_processes() {
        let places = Places::noted(&NOTED);
        let layout = |processes: &[(usize, u64)], places| IdentifierLayout::of(processes.iter().copied(), places);
        let (first, second) = (8 << 32 | 0x13, 16 << 32 | 0x23);
        let both = [(0, 3), (8, first), (16, second)];
        assert_eq!(layout(&both, places), WithPlace);
        assert_eq!(layout(&both, None), WithPlace);
        let scattered = [(0, 3), (8, 8 << 4 | 3), (16, 1 << 32 | 16 << 4 | 3)];
        assert_eq!(layout(&scattered, places), Scattered(places.unwrap()));
        assert_eq!(layout(&scattered, None), Unknown);
        assert_eq!(layout(&[(0, 3), (8, first), (16, 0x23)], places), Unknown);
        assert_eq!(layout(&[(0, 3)], places), Unknown);
    }

    #[test]
    fn a_table_of_another_kind_has_noted_no_places() {
        for (at, other) in NOTED.iter().enumerate() {
            let mut noted = NOTED;
            noted[at] = other + 1;
            assert_eq!(Places::noted(&noted), None, "{at}");
            noted[at] = u64::MAX;
            assert_eq!(Places::noted(&noted), None, "{at}");
        }
        assert_eq!(Places::noted(&[0; 5]), None);
        assert_eq!(Places::noted(&[]), None);
    }
}
