//! JIT maps: `/tmp/perf-PID.map`, where a runtime's compiler writes down what it compiled.
//!
//! One line per function, `START SIZE NAME`, numbers in hexadecimal. Compilers append and never
//! take back: where code is thrown away and its memory used again, the later line holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::procfs::{self, Status};

/// Longer maps are read up to here: a broken compiler must not fill our memory.
const FILE_LIMIT: u64 = 1 << 30;
/// Longer names are cut.
const NAME_LIMIT: usize = 4096;

/// The functions of a JIT map by address; intervals do not overlap.
#[derive(Debug, Default)]
pub(crate) struct JitTable {
    /// Start to (end, place and length of the name).
    ranges: BTreeMap<u64, (u64, u32, u32)>,
    names: String,
}

impl JitTable {
    /// Adds one line; lines that are none are skipped.
    fn add_line(&mut self, line: &str) {
        let mut fields = line.trim_end().splitn(3, ' ');
        let mut number = || {
            let text = fields.next()?;
            u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
        };
        let (Some(start), Some(size)) = (number(), number()) else {
            return;
        };
        let Some(name) = fields.next().filter(|name| !name.is_empty()) else {
            return;
        };
        let Some(end) = start.checked_add(size).filter(|&end| end > start) else {
            return;
        };
        let cut = name.floor_char_boundary(NAME_LIMIT);
        let name = name.get(..cut).unwrap_or(name);
        let (Ok(at), Ok(len)) = (u32::try_from(self.names.len()), u32::try_from(name.len())) else {
            return;
        };
        self.names.push_str(name);
        self.make_room(start, end);
        self.ranges.insert(start, (end, at, len));
    }

    /// Cuts `start..end` out of what is there.
    fn make_room(&mut self, start: u64, end: u64) {
        if let Some((&before, &(before_end, at, len))) = self.ranges.range(..start).next_back()
            && before_end > start
        {
            self.ranges.insert(before, (start, at, len));
            if before_end > end {
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

    /// The name that covers `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let (_, &(end, at, len)) = self.ranges.range(..=address).next_back()?;
        let at = at as usize;
        if address < end {
            self.names.get(at..at + len as usize)
        } else {
            None
        }
    }
}

/// The JIT map of a process, read as it grows.
#[derive(Debug)]
pub(crate) struct JitMap {
    /// Places to look at, until one is found.
    candidates: Vec<PathBuf>,
    /// Owners whose file is believed: the process's user, root and ourselves. `/tmp` is anyone's.
    owners: [u32; 3],
    /// Kept open, so that the end of it can be read after the process has gone.
    file: Option<File>,
    read: u64,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
    table: JitTable,
}

impl JitMap {
    pub(crate) fn new(pid: u32, status: &Status) -> Self {
        let inner = procfs::in_root_of(pid, &format!("/tmp/perf-{}.map", status.inner_pid));
        let outer = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        Self::from_candidates(vec![inner, outer], status.uid)
    }

    fn from_candidates(candidates: Vec<PathBuf>, uid: u32) -> Self {
        let owners = [uid, 0, rustix::process::geteuid().as_raw()];
        let table = JitTable::default();
        Self {
            candidates,
            owners,
            file: None,
            read: 0,
            partial: Vec::new(),
            table,
        }
    }

    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        self.table.find(address)
    }

    /// Whether there is a map at all.
    pub(crate) fn is_present(&self) -> bool {
        self.file.is_some()
    }

    /// Reads what was appended since last time; says whether there was anything.
    pub(crate) fn refresh(&mut self) -> bool {
        if self.file.is_none() {
            self.file = self
                .candidates
                .iter()
                .find_map(|path| open(path, &self.owners));
        }
        let Some(file) = &mut self.file else {
            return false;
        };
        let len = file.metadata().map_or(0, |m| m.len()).min(FILE_LIMIT);
        if len <= self.read || file.seek(SeekFrom::Start(self.read)).is_err() {
            return false;
        }
        let mut bytes = std::mem::take(&mut self.partial);
        match file.take(len - self.read).read_to_end(&mut bytes) {
            Ok(count) => self.read += count as u64,
            Err(_) => return false,
        }
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |i| i + 1);
        let (lines, partial) = bytes.split_at(whole);
        for line in lines.split(|&byte| byte == b'\n') {
            self.table.add_line(&String::from_utf8_lossy(line));
        }
        // A line that never ends is no line.
        self.partial = if partial.len() <= 2 * NAME_LIMIT {
            partial.to_vec()
        } else {
            Vec::new()
        };
        whole > 0
    }
}

/// Opens a map that is a plain file of an owner that is believed.
fn open(path: &Path, owners: &[u32]) -> Option<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).ok()?;
    // Without NONBLOCK a pipe would wait for a writer.
    let file = File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && owners.contains(&metadata.uid())).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn table(text: &str) -> JitTable {
        let mut table = JitTable::default();
        text.lines().for_each(|line| table.add_line(line));
        table
    }

    #[test]
    fn lines_are_read_and_garbage_is_skipped() {
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
    fn the_later_line_holds_where_ranges_overlap() {
        let table = table(
            "1000 100 old\n1040 20 middle\n2000 10 a\n2010 10 b\n2020 10 c\n2008 20 over\n\
             3000 10 first\n3000 10 again",
        );
        for (address, name) in [
            (0x1000, Some("old")),
            (0x103f, Some("old")),
            (0x1040, Some("middle")),
            (0x1060, Some("old")),
            (0x1100, None),
            (0x2007, Some("a")),
            (0x2008, Some("over")),
            (0x2010, Some("over")),
            (0x2027, Some("over")),
            (0x2028, Some("c")),
            (0x3001, Some("again")),
        ] {
            assert_eq!(table.find(address), name, "{address:x}");
        }
    }

    #[test]
    fn overlaps_agree_with_a_plain_model() {
        let mut model = [0u32; 256];
        let mut table = JitTable::default();
        let mut random = 12_345u64;
        for n in 1..500u32 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (start, size) = ((random >> 33) % 256, (random >> 50) % 40 + 1);
            table.add_line(&format!("{start:x} {size:x} {n}"));
            let end = (start + size).min(256);
            model[start as usize..end as usize].fill(n);
            for (address, &wanted) in (0u64..).zip(&model) {
                let found = table.find(address).map_or(0, |name| name.parse().unwrap());
                assert_eq!(found, wanted, "address {address} after line {n}");
            }
        }
    }

    #[test]
    fn a_growing_map_is_read_on_from_where_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf-1.map");
        let uid = rustix::process::geteuid().as_raw();
        let mut map = JitMap::from_candidates(vec![dir.path().join("none"), path.clone()], uid);
        assert!(!map.refresh() && !map.is_present());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"1000 10 a\n2000 10 b").unwrap();
        assert!(map.refresh());
        assert_eq!((map.find(0x1000), map.find(0x2000)), (Some("a"), None));
        assert!(!map.refresh());
        file.write_all(b"c\n").unwrap();
        assert!(map.refresh());
        assert_eq!(map.find(0x2000), Some("bc"));
    }

    #[test]
    fn pipes_links_and_folders_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let owners = [rustix::process::geteuid().as_raw()];
        let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        std::os::unix::fs::symlink("/proc/self/status", &link).unwrap();
        assert!(open(&pipe, &owners).is_none());
        assert!(open(&link, &owners).is_none());
        assert!(open(dir.path(), &owners).is_none());
    }
}
