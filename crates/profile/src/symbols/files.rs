//! Where the files of a process can be read, and opening them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use linux::maps::{self, Mapping};

/// Where a mapped file can be read: through the process's own root directory; a deleted one through
/// the mapping itself.
pub(crate) fn files_of(pid: u32, mapping: &Mapping) -> Vec<PathBuf> {
    let by_name = maps::in_root_of(pid, &mapping.path);
    let (start, end) = (mapping.start, mapping.end);
    let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    if mapping.deleted {
        vec![by_mapping]
    } else {
        vec![by_name, by_mapping]
    }
}

/// Tables of symbols are read whole, and a file of holes may state any length: a longer one has to be on the disk.
const LONGEST: u64 = 256 << 20;
/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Only plain files: a path of another process may name a pipe or a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let on_disk = metadata.blocks().saturating_mul(BLOCK);
    match metadata.is_file() {
        true if metadata.len() <= LONGEST.max(on_disk) => Ok(file),
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The kernel maps the same image into every process, so ours serves.
pub(crate) fn vdso_image() -> Option<Vec<u8>> {
    let maps = maps::maps(std::process::id())?;
    let vdso = maps.iter().find(|mapping| &*mapping.path == "[vdso]")?;
    let len = usize::try_from(vdso.end.checked_sub(vdso.start)?).ok()?;
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(vdso.start)).ok()?;
    let mut image = vec![0; len];
    memory.read_exact(&mut image).ok()?;
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_that_are_on_the_disk_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        let file = File::create(&path).unwrap();
        for (length, opens) in [(0, true), (LONGEST, true), (LONGEST + 1, false)] {
            file.set_len(length).unwrap();
            assert_eq!(open(&path).is_ok(), opens, "{length}");
        }
        assert!(open(dir.path()).is_err());
        assert!(open(Path::new("/dev/null")).is_err());
    }
}
