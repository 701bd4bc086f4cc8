//! The functions that a JIT map names, by address, and lines of source code.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use stacks::{Frame, SourceLine};

/// Longer names are cut.
pub(super) const NAME_LIMIT: usize = 4096;
/// Ten times the largest maps seen: a compiler that never ends must not fill our memory. Later code has no name.
const RANGES_LIMIT: usize = 2_000_000;
const NAMES_LIMIT: usize = 256 << 20;

/// The functions of a JIT map by address; intervals do not overlap.
#[derive(Debug, Default)]
pub(in crate::symbols) struct JitTable {
    /// Start to (end, place and length of the name).
    ranges: BTreeMap<u64, (u64, u32, u32)>,
    names: String,
    /// Functions were left out, because there are too many.
    pub(super) full: bool,
    lines: LineTable,
}

impl JitTable {
    /// Adds one line; lines that are none are skipped.
    pub(super) fn add_line(&mut self, line: &str) {
        let mut fields = line.trim_end().splitn(3, ' ');
        let mut number = || {
            let text = fields.next()?;
            u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
        };
        let (Some(start), Some(size)) = (number(), number()) else { return };
        let Some(name) = fields.next().filter(|name| !name.is_empty()) else { return };
        if let Some(end) = start.checked_add(size) {
            self.add(start, end, name);
        }
    }

    /// Adds a function, in the place of what was there; nothing where it has no code.
    pub(super) fn add(&mut self, start: u64, end: u64, name: &str) {
        if end <= start {
            return;
        }
        let name = Frame::function_of(name);
        let cut = name.floor_char_boundary(NAME_LIMIT);
        let name = name.get(..cut).unwrap_or(name);
        self.full |= self.ranges.len() >= RANGES_LIMIT || self.names.len() >= NAMES_LIMIT;
        if self.full {
            // Whose memory is used again has no name rather than a wrong one.
            self.make_room(start, end);
            return;
        }
        let (Ok(at), Ok(len)) = (u32::try_from(self.names.len()), u32::try_from(name.len())) else { return };
        self.names.push_str(name);
        self.make_room(start, end);
        self.ranges.insert(start, (end, at, len));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Cuts `start..end` out of what is there.
    fn make_room(&mut self, start: u64, end: u64) {
        self.lines.make_room(start, end);
        if let Some((&before, &(before_end, at, len))) = self.ranges.range(..start).next_back()
            && before_end > start
        {
            self.ranges.insert(before, (start, at, len));
            if before_end > end && !self.full {
                self.ranges.insert(end, (before_end, at, len));
            }
        }
        while let Some((&inside, &(inside_end, at, len))) = self.ranges.range(start..end).next() {
            self.ranges.remove(&inside);
            if inside_end > end {
                self.ranges.insert(end, (inside_end, at, len));
            }
        }
    }

    /// From `start` on code is of this line, up to the next one, or the end of its function.
    pub(super) fn add_line_of_source(&mut self, start: u64, file: &str, number: u32) {
        if !self.full {
            self.lines.add(start, file, number);
        }
    }

    /// The line of the instruction at `ip`, or before it where `caller` says a return address, in the function there.
    pub(in crate::symbols) fn line(&self, ip: u64, caller: bool) -> Option<SourceLine> {
        let (&start, &(end, ..)) = self.ranges.range(..=ip).next_back()?;
        let address = ip - u64::from(caller && ip > start);
        (ip < end).then(|| self.lines.find(start, address))?
    }

    pub(in crate::symbols) fn find(&self, address: u64) -> Option<&str> {
        let (_, &(end, at, len)) = self.ranges.range(..=address).next_back()?;
        let at = at as usize;
        if address < end { self.names.get(at..at + len as usize) } else { None }
    }
}

/// Twenty times those of a large node; what comes later has no line.
const MOST_LINES: usize = 4_000_000;
/// Files that are told apart.
const MOST_FILES: usize = 1 << 14;
const LONGEST_FILE: usize = 4096;

#[derive(Debug, Default)]
struct LineTable {
    /// Start to file and number.
    lines: BTreeMap<u64, (u32, u32)>,
    files: Vec<Arc<str>>,
    of_file: HashMap<Arc<str>, u32>,
}

impl LineTable {
    /// From `start` on code is of this line; of several the last one is believed.
    pub(super) fn add(&mut self, start: u64, file: &str, number: u32) {
        if self.lines.len() < MOST_LINES
            && let Some(file) = self.file(file)
        {
            self.lines.insert(start, (file, number));
        }
    }

    /// Forgets the lines that begin in `start..end`, whose memory is used again.
    fn make_room(&mut self, start: u64, end: u64) {
        while let Some((&line, _)) = self.lines.range(start..end).next() {
            self.lines.remove(&line);
        }
    }

    /// The line of an address in a function that begins at `start`.
    pub(super) fn find(&self, start: u64, address: u64) -> Option<SourceLine> {
        let mut before = self.lines.range(start..=address.max(start));
        let (_, &(file, number)) = before.next_back()?;
        let file = self.files.get(file as usize)?;
        // What a compiler has made up has no line.
        (number > 0).then(|| SourceLine { file: file.as_ref().to_owned(), number })
    }

    fn file(&mut self, name: &str) -> Option<u32> {
        let name = name.get(..name.floor_char_boundary(LONGEST_FILE))?;
        if let Some(&known) = self.of_file.get(name) {
            return Some(known);
        }
        if self.files.len() >= MOST_FILES {
            return None;
        }
        let next = u32::try_from(self.files.len()).ok()?;
        let name: Arc<str> = name.into();
        self.files.push(Arc::clone(&name));
        self.of_file.insert(name, next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> JitTable {
        let mut table = JitTable::default();
        text.lines().for_each(|line| table.add_line(line));
        table
    }

    #[test]
    fn lines_are_read_and_garbage_is_skipped() {
        // Code in front of a function is the function's.
        let of_both = table("1000 30 $lists:member/2-CodeInfoPrologue\n1030 70 $lists:member/2");
        assert_eq!([0x1000, 0x1030].map(|it| of_both.find(it)), [Some("$lists:member/2"); 2]);
        let table = table(
            "7f00 10 $rabbit_exchange:route/2\n\n0x8000 0x20 void a.b(int, long)\nxyz\n12\n\
             9000 10\n9100 0 empty\nffffffffffffffff 10 wraps\n-1 10 minus\na000 10 é",
        );
        assert_eq!(table.find(0x7eff), None);
        assert_eq!(table.find(0x7f00), Some("$rabbit_exchange:route/2"));
        assert_eq!(table.find(0x7f0f), Some("$rabbit_exchange:route/2"));
        assert_eq!(table.find(0x7f10), None);
        assert_eq!(table.find(0x8010), Some("void a.b(int, long)"));
        assert_eq!(table.find(0xa001), Some("é"));
        assert_eq!(table.ranges.len(), 3);
    }

    #[test]
    fn a_map_without_end_is_bounded() {
        let mut table = JitTable::default();
        let name = "n".repeat(2 * NAME_LIMIT);
        let lines = NAMES_LIMIT / NAME_LIMIT;
        for n in 0..lines + 10 {
            table.add_line(&format!("{:x} 10 {name}", n * 16));
        }
        assert_eq!((table.names.len(), table.ranges.len()), (NAMES_LIMIT, lines));
        assert!(table.full && table.find(0).is_some());
        table.add_line("0 10 later");
        assert_eq!(table.find(0), None, "what was there is gone");
    }

    #[test]
    fn overlaps_agree_with_a_plain_model() {
        let mut model = [0u32; 256];
        let mut table = JitTable::default();
        let mut random = testkit::Random::new(12_345);
        for n in 1..500u32 {
            let (start, size) = (random.below(256), random.below(40) + 1);
            table.add_line(&format!("{start:x} {size:x} {n}"));
            let end = (start + size).min(256);
            model[start as usize..end as usize].fill(n);
            for (address, &wanted) in (0u64..).zip(&model) {
                let found = table.find(address).map_or(0, |name| name.parse().unwrap());
                assert_eq!(found, wanted, "address {address} after line {n}");
            }
        }
    }
}
