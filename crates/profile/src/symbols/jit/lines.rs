//! Lines of source code, by the address that the code of each begins at.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use stacks::SourceLine;

/// Twenty times those of a large node; what comes later has no line.
const MOST_LINES: usize = 4_000_000;
/// Files that are told apart.
const MOST_FILES: usize = 1 << 14;
/// Longer names of files are cut.
const LONGEST_FILE: usize = 4096;

/// The lines of compiled code.
#[derive(Debug, Default)]
pub(super) struct LineTable {
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
    pub(super) fn make_room(&mut self, start: u64, end: u64) {
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
        (number > 0).then(|| SourceLine {
            file: file.as_ref().to_owned(),
            number,
        })
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
