//! The file of a JIT map: whether it is to be believed, and what has become of it since it was last read.

use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use measure::{Clock, Nanos, Time};

use super::table::{JitTable, NAME_LIMIT};

/// Longer maps are read up to here: a broken compiler must not fill our memory.
const FILE_LIMIT: u64 = 1 << 30;
const CHUNK: usize = 256 * 1024;
/// File systems stamp by the kernel's tick (10 ms at most), and a process's start is known to 10 ms.
const SLACK: Duration = Duration::from_millis(50);
/// Comparing a reading with the file rests so many times its duration: a twentieth of the profiler's thread at most.
const REST: u64 = 20;

/// Which file it is: device and inode.
pub(super) type Id = (u64, u64);

/// Conditions on a file to be the process's map. `/tmp` is anyone's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) pid: u32,
    /// The process's user, root and ourselves.
    pub(super) owners: [u32; 3],
    /// When the process started; none where that cannot be known.
    pub(super) started: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// It only got longer.
    Grown,
    /// Readings of it no longer hold, from this instant on.
    Replaced(Time),
}

#[derive(Debug)]
pub(super) struct MapFile {
    file: File,
    pub(super) id: Id,
    /// Length and time of the last change, as last seen.
    seen: Option<(u64, SystemTime)>,
    /// When it was last looked at: nothing had changed by then that is not known.
    looked: Time,
    /// Bytes that were read, and the hash of them.
    read: u64,
    digest: DefaultHasher,
    /// When what was read may be compared with the file again, and whether that is owed.
    compare_at: Time,
    owed: bool,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

/// The file at `path`, `None` where there is none; the error says why it is not to be believed.
pub(super) fn find(path: &Path, wanted: &Wanted) -> Result<Option<Id>, String> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(None) };
    check(path, &metadata, wanted)?;
    Ok(Some((metadata.dev(), metadata.ino())))
}

fn check(path: &Path, metadata: &Metadata, wanted: &Wanted) -> Result<(), String> {
    let (path, pid, uid) = (path.display(), wanted.pid, metadata.uid());
    if !metadata.is_file() {
        return Err(format!("{path} is not a plain file and was not read as a JIT map"));
    }
    if !wanted.owners.contains(&uid) {
        return Err(format!("{path} belongs to user {uid}, not to that of process {pid}, and was ignored"));
    }
    match (wanted.started, metadata.modified()) {
        (Some(started), Ok(written)) if started.checked_sub(SLACK).is_some_and(|it| written < it) => {
            let before = Nanos::from(started.duration_since(written).unwrap_or_default());
            Err(format!(
                "{path} was last written {before} before process {pid} started: it is the JIT \
                 map of an earlier process of this number and was ignored"
            ))
        }
        _ => Ok(()),
    }
}

impl MapFile {
    /// The map at `path`; the error says why it is not to be believed.
    pub(super) fn open(path: &Path, wanted: &Wanted) -> Result<Self, String> {
        // Without NONBLOCK a pipe would wait for a writer.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let missing = |_| format!("{} cannot be opened, so compiled code has no names", path.display());
        let (metadata, file) = opened.map_err(missing)?;
        check(path, &metadata, wanted)?;
        Ok(Self {
            file,
            id: (metadata.dev(), metadata.ino()),
            seen: None,
            looked: Time(0),
            read: 0,
            digest: DefaultHasher::new(),
            compare_at: Time(0),
            owed: false,
            partial: Vec::new(),
        })
    }

    /// Whether what was read must be compared with the file again before it is certain.
    #[cfg(test)]
    pub(super) const fn is_owed(&self) -> bool {
        self.owed
    }

    /// When a file that takes the place of `earlier` did so, on the samples' clock.
    pub(super) fn took_over(&self, earlier: &Self) -> Time {
        let written = self.file.metadata().and_then(|m| m.modified());
        monotonic(written.unwrap_or_else(|_| SystemTime::now())).clamp(earlier.looked, Clock.now())
    }

    /// Compares the reading with the file at the next look, however long that takes.
    pub(super) fn expect_change(&mut self) {
        self.compare_at = Time(0);
        self.owed = true;
    }

    pub(super) fn change(&mut self) -> Change {
        let Ok(metadata) = self.file.metadata() else { return Change::None };
        let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let now = (metadata.len(), written);
        let looked = std::mem::replace(&mut self.looked, Clock.now());
        if self.seen == Some(now) && !self.owed {
            return Change::None;
        }
        let replaced = metadata.len() < self.read || self.differs();
        self.seen = Some(now);
        // What is written within the same tick of the clock does not show in the time.
        let age = SystemTime::now().duration_since(written);
        self.owed |= age.is_ok_and(|age| age < SLACK);
        if !replaced {
            return Change::Grown;
        }
        self.read = 0;
        self.digest = DefaultHasher::new();
        self.partial.clear();
        Change::Replaced(monotonic(written).clamp(looked, self.looked))
    }

    /// Whether the file no longer begins with what was read of it; owed where it would take too much time now.
    fn differs(&mut self) -> bool {
        let begin = Clock.now();
        self.owed = begin < self.compare_at;
        if self.owed {
            return false;
        }
        let mut digest = DefaultHasher::new();
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        while at < self.read {
            let len = usize::try_from(self.read - at).map_or(CHUNK, |left| left.min(CHUNK));
            match self.file.read_at(&mut chunk[..len], at) {
                Ok(0) | Err(_) => return true,
                Ok(count) => {
                    digest.write(&chunk[..count]);
                    at += count as u64;
                }
            }
        }
        let end = Clock.now();
        self.compare_at = end + Nanos(end.since(begin).0.saturating_mul(REST));
        digest.finish() != self.digest.finish()
    }

    /// Reads what was not read yet into `table`; says whether there was a whole line.
    pub(super) fn read_on(&mut self, table: &mut JitTable) -> bool {
        let mut chunk = vec![0; CHUNK];
        let mut lines = false;
        while self.read < FILE_LIMIT {
            let count = match self.file.read_at(&mut chunk, self.read) {
                Ok(count @ 1..) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
            };
            let bytes = &chunk[..count];
            self.read += count as u64;
            self.digest.write(bytes);
            lines |= self.add(bytes, table);
        }
        lines
    }

    fn add(&mut self, mut bytes: &[u8], table: &mut JitTable) -> bool {
        let mut lines = false;
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&bytes[..end]);
            table.add_line(&String::from_utf8_lossy(&self.partial));
            self.partial.clear();
            bytes = &bytes[end + 1..];
            lines = true;
        }
        // A line that never ends is no line.
        let room = (2 * NAME_LIMIT).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        lines
    }
}

/// A moment of the wall clock on the samples' clock.
fn monotonic(moment: SystemTime) -> Time {
    let now = Clock.now();
    match SystemTime::now().duration_since(moment) {
        Ok(ago) => now - Nanos::from(ago),
        Err(ahead) => now + Nanos::from(ahead.duration()),
    }
}
