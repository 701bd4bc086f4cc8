//! JIT maps: `/tmp/perf-PID.map`, where a runtime's compiler writes down what it compiled.
//!
//! One line per function, `START SIZE NAME`, numbers in hexadecimal. Some compilers append and never take back (the
//! BEAM, V8): the later line holds. Others rewrite all of it when they are told to (`jcmd PID Compiler.perfmap`), into
//! the same file or into one that takes its place. A map that was last written before the process started is of an
//! earlier one of its number. A BEAM of OTP 25 or later has the names in its memory, with lines (`unwritten`).

mod file;
mod table;
mod unwritten;

use std::path::PathBuf;

use linux::{ProcessId, Status, maps};
use measure::Time;
use stacks::SourceLine;

use self::file::{Change, MapFile, Wanted};
use self::table::JitTable;
use self::unwritten::Unwritten;
pub use self::unwritten::has_erlang_names;

/// The JIT map of a process, followed as it grows and as it is replaced.
#[derive(Debug)]
pub(crate) struct JitMap {
    /// Places to look at, the best first.
    candidates: Vec<PathBuf>,
    wanted: Wanted,
    /// The map that is believed; kept open, so that the end of it can be read after the process has gone.
    file: Option<MapFile>,
    /// Where names come from, in place of a file, as long as there are any.
    unwritten: Option<Unwritten>,
    table: JitTable,
    /// Map before it was replaced, and when that was.
    before: Option<(JitTable, Time)>,
    refused: Option<String>,
}

impl JitMap {
    pub(super) fn new(pid: u32, status: &Status) -> Self {
        let inner = maps::in_root_of(pid, &format!("/tmp/perf-{}.map", status.inner_pid));
        let outer = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let wanted = Wanted {
            pid,
            owners: [status.uid, 0, rustix::process::geteuid().as_raw()],
            started: ProcessId::of(pid).map(ProcessId::started),
        };
        Self { unwritten: Unwritten::of(pid), ..Self::from_candidates(vec![inner, outer], wanted) }
    }

    /// The map that a process left behind, which may have ended. As in `perf`, it has to be our own or root's.
    pub(super) fn left_behind(pid: u32) -> Self {
        let ourselves = rustix::process::geteuid().as_raw();
        let wanted = Wanted { pid, owners: [ourselves, 0, ourselves], started: None };
        Self::from_candidates(vec![format!("/tmp/perf-{pid}.map").into()], wanted)
    }

    fn from_candidates(candidates: Vec<PathBuf>, wanted: Wanted) -> Self {
        let table = JitTable::default();
        Self { candidates, wanted, file: None, unwritten: None, table, before: None, refused: None }
    }

    pub(super) fn find(&self, address: u64, at: Time) -> Option<&str> {
        self.tables(at).find_map(|table| table.find(address))
    }

    /// The line of source code of an address at the instant `at`, `caller` where it is a return address.
    pub(super) fn line(&self, ip: u64, caller: bool, at: Time) -> Option<SourceLine> {
        self.tables(at).find_map(|table| table.line(ip, caller))
    }

    /// The maps that hold at an instant: what the older one does not know was compiled before the newer was written.
    fn tables(&self, at: Time) -> impl Iterator<Item = &JitTable> {
        let before = self.before.iter().filter(move |(_, until)| at < *until);
        before.map(|(table, _)| table).chain([&self.table])
    }

    /// Whether the answer for a sample of the instant `at` may differ from that for later ones.
    pub(crate) fn is_before_change(&self, at: Time) -> bool {
        self.before.as_ref().is_some_and(|(_, until)| at < *until)
    }

    /// Whether there is a map, or names that stand for one.
    pub(super) fn is_present(&self) -> bool {
        self.file.is_some() || !self.table.is_empty()
    }

    /// Why there is none although a file has its name, or why not all of it was read.
    pub(crate) fn refused(&self) -> Option<&str> {
        const FULL: &str = "the JIT map is too long: code at its end has no name";
        let refused = self.refused.as_deref().filter(|_| !self.is_present());
        refused.or(self.table.full.then_some(FULL))
    }

    /// Forgets what the map said before it was replaced: all samples of that time are through.
    pub(crate) fn settle(&mut self) {
        self.before = None;
    }

    /// The map may have been replaced, however soon after the last look.
    pub(super) fn expect_change(&mut self) {
        if let Some(file) = &mut self.file {
            file.expect_change();
        }
    }

    /// Reads what has changed since last time; says whether answers may have changed.
    pub(crate) fn refresh(&mut self) -> bool {
        // A map is the same without lines.
        if let Some(unwritten) = self.unwritten.as_mut() {
            let found = unwritten.read_on(&mut self.table);
            if !self.table.is_empty() {
                return found;
            }
        }
        let found = self.look();
        let Some(file) = &mut self.file else { return false };
        // Of an emulator that tells its names in no other way.
        self.unwritten = None;
        let change = match found {
            Some(other) if other.id != file.id => {
                let when = other.took_over(file);
                *file = other;
                Change::Replaced(when)
            }
            _ => file.change(),
        };
        if change == Change::None {
            return false;
        }
        if let Change::Replaced(when) = change {
            let old = std::mem::take(&mut self.table);
            // Of two changes between two looks the first ends what was known before.
            if self.before.is_none() {
                self.before = Some((old, when));
            }
        }
        file.read_on(&mut self.table) || change != Change::Grown
    }

    /// The best file that there is now; the first becomes the map, so that all of it is new.
    fn look(&mut self) -> Option<MapFile> {
        let mut refused = None;
        let known = self.file.as_ref().map(|file| file.id);
        for path in &self.candidates {
            match file::find(path, &self.wanted) {
                Ok(None) => {}
                // Nothing to open: it is the file that is open already.
                Ok(id) if id == known => return None,
                Ok(_) => match MapFile::open(path, &self.wanted) {
                    Ok(file) if known.is_some() => return Some(file),
                    Ok(file) => {
                        self.file = Some(file);
                        return None;
                    }
                    Err(why) => refused = refused.or(Some(why)),
                },
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        if refused.is_some() {
            self.refused = refused;
        }
        None
    }
}

#[cfg(test)]
mod tests;
