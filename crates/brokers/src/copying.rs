//! Data of a node that outlives it, and a copy of its folder: in shared blocks, or plain with its holes.

use std::fs::{self, File, FileTimes, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::{Problem, counted};
use rustix::fs::SeekFrom as SeekTo;
use rustix::io::Errno;

use super::BrokerError;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;
/// The unit that file systems count blocks in.
const BLOCK: u64 = 512;

/// Size and duration of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    pub(crate) files: u64,
    /// Bytes on the disk.
    pub(crate) allocated: u64,
    pub(crate) took: Duration,
    /// Whether all files share their blocks with the originals.
    pub(crate) is_shared: bool,
}

impl Copied {
    /// In words: `4 files, 12.3 MB in 0.2 s, a plain copy`.
    pub(crate) fn told(&self) -> String {
        let way = match self.is_shared {
            true => "blocks shared with the original (reflink)",
            false => "a plain copy: this file system shares no blocks",
        };
        format!(
            "{}, {:.1} MB in {:.1} s, {way}",
            counted(self.files, "file"),
            self.allocated as f64 / 1e6,
            self.took.as_secs_f64()
        )
    }
}

/// Size of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderSize {
    /// Regular files.
    pub files: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// Bytes on the disk.
    pub allocated: u64,
}

/// Counts what a folder holds, and has all of it written to the disk where `sync` says so.
pub fn folder_size(folder: &Path, sync: bool) -> Result<FolderSize, BrokerError> {
    let mut size = FolderSize::default();
    for entry in fs::read_dir(folder).map_err(BrokerError::io("read", folder))? {
        let path = entry.map_err(BrokerError::io("read", folder))?.path();
        let metadata = fs::symlink_metadata(&path).map_err(BrokerError::io("look at", &path))?;
        if metadata.is_dir() {
            let below = folder_size(&path, sync)?;
            size.files += below.files;
            size.bytes += below.bytes;
            size.allocated += below.allocated;
        } else if metadata.is_file() {
            size.files += 1;
            size.bytes += metadata.len();
            size.allocated += metadata.blocks() * BLOCK;
            if sync {
                File::open(&path).and_then(|file| file.sync_all()).map_err(BrokerError::io("write", &path))?;
            }
        }
    }
    if sync {
        File::open(folder).and_then(|file| file.sync_all()).map_err(BrokerError::io("write", folder))?;
    }
    Ok(size)
}

/// Copies a folder to a new one. `reserve` bytes stay free where blocks are not shared. Errors: [`BrokerError::Config`]
/// before the copy where there is no room, [`BrokerError::Cancelled`], or what the operating system refused.
pub(crate) fn copy_folder(
    from: &Path,
    to: &Path,
    reserve: u64,
    cancelled: &dyn Fn() -> bool,
) -> Result<Copied, BrokerError> {
    let began = Instant::now();
    let size = folder_size(from, false)?;
    let mut copy = Copy { to, needed: size.allocated + reserve, is_shared: true, cancelled };
    copy.folder(from, to)?;
    Ok(Copied { files: size.files, allocated: size.allocated, took: began.elapsed(), is_shared: copy.is_shared })
}

struct Copy<'a> {
    to: &'a Path,
    /// Bytes that must be free where blocks are not shared.
    needed: u64,
    /// Whether all files shared their blocks until now.
    is_shared: bool,
    cancelled: &'a dyn Fn() -> bool,
}

impl Copy<'_> {
    fn folder(&mut self, from: &Path, to: &Path) -> Result<(), BrokerError> {
        fs::DirBuilder::new().mode(0o700).create(to).map_err(BrokerError::io("create", to))?;
        for entry in fs::read_dir(from).map_err(BrokerError::io("read", from))? {
            let entry = entry.map_err(BrokerError::io("read", from))?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let metadata = fs::symlink_metadata(&source).map_err(BrokerError::io("look at", &source))?;
            if (self.cancelled)() {
                return Err(BrokerError::Cancelled);
            }
            if metadata.is_dir() {
                self.folder(&source, &target)?;
            } else if metadata.is_symlink() {
                let link = fs::read_link(&source).map_err(BrokerError::io("read", &source))?;
                symlink(link, &target).map_err(BrokerError::io("create", &target))?;
            } else if metadata.is_file() {
                self.file(&source, &target, &metadata)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path, metadata: &Metadata) -> Result<(), BrokerError> {
        let source = File::open(from).map_err(BrokerError::io("read", from))?;
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(metadata.mode() & 0o777).open(to);
        let target = made.map_err(BrokerError::io("create", to))?;
        if self.is_shared && rustix::fs::ioctl_ficlone(&target, &source).is_err() {
            self.is_shared = false;
            // From here on the copy takes room.
            super::managed::check_space("the copy of prepared data", self.to, self.needed)?;
        }
        if !self.is_shared
            && !copy_data(&source, &target, metadata.len(), self.cancelled).map_err(BrokerError::io("write", to))?
        {
            return Err(BrokerError::Cancelled);
        }
        if let Ok(modified) = metadata.modified() {
            // Its age may matter to whoever removes old data.
            let _ = target.set_times(FileTimes::new().set_modified(modified));
        }
        Ok(())
    }
}

/// Copies what a file holds between its holes; `false`: nobody waits for it any more.
fn copy_data(mut source: &File, mut target: &File, length: u64, cancelled: &dyn Fn() -> bool) -> io::Result<bool> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < length {
        let data = match rustix::fs::seek(source, SeekTo::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole up to its end.
            Err(Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(_) => at,
        };
        let end = rustix::fs::seek(source, SeekTo::Hole(data)).unwrap_or(length);
        source.seek(SeekFrom::Start(data))?;
        target.seek(SeekFrom::Start(data))?;
        let mut left = end.saturating_sub(data);
        while left > 0 {
            if cancelled() {
                return Ok(false);
            }
            let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let wanted = piece.get_mut(..most).unwrap_or_default();
            let read = source.read(wanted)?;
            if read == 0 {
                left = 0;
                continue;
            }
            target.write_all(wanted.get(..read).unwrap_or_default())?;
            left -= read as u64;
        }
        at = end.max(data + 1);
    }
    target.set_len(length)?;
    Ok(true)
}

/// Data of a node that outlives it. It is bound to the node's name.
#[derive(Clone, Debug)]
pub struct NodeData {
    /// The Erlang name of the node, which every node on a copy has.
    pub node: String,
    /// The data that the node begins with a copy of; `None`: it begins empty, and its data is kept when it has ended.
    pub original: Option<PathBuf>,
    /// The folder in which the directory of a node is made whose data is kept, so that it can be moved at once.
    pub parent: Option<PathBuf>,
    /// The broker that prepared it, in words.
    pub prepared_by: String,
}

impl NodeData {
    /// The failure of a broker that ended instead of starting on a copy.
    pub(super) fn refused(&self, error: BrokerError, product: &str, version: &str) -> BrokerError {
        match error {
            BrokerError::Exited(exited) if self.original.is_some() => {
                let help = format!(
                    "its log below says why; an upgrade that {product} cannot make in one step needs data of a \
                     release between both: prepare it with that one, or begin without broker.data"
                );
                let by = &self.prepared_by;
                let cause = format!("{product} {version} does not start on a copy of the data that {by} prepared");
                BrokerError::Config(Problem { cause, help, ..exited })
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: &dyn Fn() -> bool = &|| false;

    #[test]
    fn a_copy_holds_the_same_bytes_and_keeps_its_holes() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("below/empty")).unwrap();
        fs::write(from.join("small"), b"hello").unwrap();
        let mut sparse = File::create(from.join("below/sparse")).unwrap();
        sparse.write_all(b"front").unwrap();
        sparse.seek(SeekFrom::Start(64 << 20)).unwrap();
        sparse.write_all(b"middle").unwrap();
        sparse.set_len(100 << 20).unwrap();
        sparse.sync_all().unwrap();
        symlink("small", from.join("link")).unwrap();
        let copied = copy_folder(&from, &to, 0, NEVER).unwrap();
        let size = folder_size(&to, true).unwrap();
        assert_eq!((size.files, size.bytes), (2, (100 << 20) + 5));
        assert_eq!(copied.files, 2);
        assert_eq!(fs::read(to.join("small")).unwrap(), b"hello");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("small"));
        assert!(to.join("below/empty").is_dir());
        let [one, other] = [&from, &to].map(|it| fs::read(it.join("below/sparse")).unwrap());
        assert!(one == other, "the bytes differ");
        let blocks = fs::metadata(to.join("below/sparse")).unwrap().blocks();
        assert!(blocks * BLOCK < 1 << 20, "{blocks} blocks");
        assert!(copied.told().contains("2 files"), "{}", copied.told());
        // What is there is not written over.
        assert!(copy_folder(&from, &to, 0, NEVER).is_err());
    }

    #[test]
    fn a_copy_ends_when_nobody_waits_and_begins_only_where_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("file"), vec![7; 5000]).unwrap();
        let stopped = copy_folder(&from, &folder.path().join("one"), 0, &|| true);
        assert!(matches!(stopped, Err(BrokerError::Cancelled)), "{stopped:?}");
        let full = copy_folder(&from, &folder.path().join("two"), u64::MAX / 2, NEVER);
        match full {
            Err(BrokerError::Config(full)) => assert!(full.cause.contains(" needs at least 9223372"), "{full}"),
            // Shared blocks take no room.
            Ok(copied) => assert!(copied.is_shared),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_broker_that_refuses_data_is_told_from_one_that_does_not_start() {
        let data = NodeData {
            node: "bellows-1@localhost".to_owned(),
            original: Some(PathBuf::from("/kept/1/data")),
            parent: None,
            prepared_by: "RabbitMQ 3.10.8 on Erlang/OTP 25".to_owned(),
        };
        let exited = || BrokerError::exited("RabbitMQ", "exit status 1", "required feature flag not enabled");
        let problem = data.refused(exited(), "RabbitMQ", "4.0.5").problem();
        testkit::assert_has(&problem.cause, ["RabbitMQ 4.0.5 does not start on a copy", "RabbitMQ 3.10.8"]);
        assert!(problem.log.contains("feature flag"), "{problem:?}");
        let fresh = NodeData { original: None, ..data };
        let other = fresh.refused(exited(), "RabbitMQ", "4.0.5");
        assert!(matches!(other, BrokerError::Exited(_)), "{other:?}");
    }
}
