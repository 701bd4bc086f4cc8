//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Names that are tried before somebody must be in the way on purpose.
const TRIES: u32 = 100;

/// Writes a file so that readers and power losses leave all of it or nothing; a failure keeps what was there.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut replacement = Replacement::begin(path)?;
    replacement.file().write_all(content)?;
    replacement.finish()
}

/// Writes a file that a user named as [`replace_file`] does, but writes to a device, a pipe or a link.
pub fn write_output(path: &Path, content: &[u8]) -> io::Result<()> {
    if is_special(path) { fs::write(path, content) } else { replace_file(path, content) }
}

/// Writes a file with secrets as [`write_output`] does, readable for its owner alone; others keep their permissions.
pub fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    if is_special(path) {
        return fs::write(path, content);
    }
    let mut replacement = Replacement::begin(path)?;
    let owner_only = fs::Permissions::from_mode(0o600);
    replacement.file().set_permissions(owner_only)?;
    replacement.file().write_all(content)?;
    replacement.finish()
}

/// Whether something is there that is no plain file: a device, a pipe, a link.
fn is_special(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| !there.is_file())
}

/// New content of a file, made beside it by this process under an unforeseeable name: safe in a folder that others may
/// write to, also for root, as no link is ever followed. Without [`Replacement::finish`] it is removed.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    beside: PathBuf,
    file: File,
    finished: bool,
}

impl Replacement {
    /// Makes the file beside `path`. An error where that is no file: a device, a pipe, a folder, or a link to one.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let what = "it is no plain file, and is not replaced by one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut tries = 0;
        loop {
            let random = RandomState::new().build_hasher().finish();
            let mut draft = std::ffi::OsString::from(".");
            draft.push(name);
            draft.push(format!(".{random:016x}.tmp"));
            let beside = path.with_file_name(draft);
            // `create_new` fails where anything has the name, a link included.
            match File::options().write(true).create_new(true).open(&beside) {
                Ok(file) => return Ok(Self { path: path.to_owned(), beside, file, finished: false }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// The file to write to.
    pub const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in its place. Where that fails, what was there before stays.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        self.finished = true;
        // The file is in place; that its name reaches the disk is a matter of power cuts only.
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.finished {
            // The error at hand says more than a failure to tidy up would.
            let _ = fs::remove_file(&self.beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.svg");
        replace_file(&path, b"old").unwrap();
        let mut half = Replacement::begin(&path).unwrap();
        half.file().write_all(b"ha").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(half);
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["cpu.svg"]);
    }

    /// Any user may write to `/tmp`, and lays links under the names that root is about to write to.
    #[test]
    fn links_that_wait_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, b"precious").unwrap();
        let path = dir.path().join("cpu.svg");
        let known = format!("cpu.svg.{}.partial", std::process::id());
        for trap in [".cpu.svg.tmp", "cpu.svg.tmp", &known, "cpu.svg"] {
            symlink(&victim, dir.path().join(trap)).unwrap();
        }
        replace_file(&path, b"drawn").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read(&path).unwrap(), b"drawn");
    }

    #[test]
    fn drafts_have_names_that_differ() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let drafts: Vec<_> = (0..20).map(|_| Replacement::begin(&path).unwrap()).collect();
        assert_eq!(names(dir.path()).len(), 20);
        let inodes: std::collections::BTreeSet<_> = drafts.iter().map(|d| d.file.metadata().unwrap().ino()).collect();
        assert_eq!(inodes.len(), 20);
    }

    #[test]
    fn devices_and_folders_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/dev/null", &link).unwrap();
        for path in [link.as_path(), dir.path(), Path::new("/dev/null")] {
            testkit::assert_has(replace_file(path, b"x").unwrap_err().to_string(), ["no plain file"]);
        }
        assert!(fs::symlink_metadata("/dev/null").is_ok_and(|null| !null.is_file()));
        assert_eq!(names(dir.path()), ["link"]);
    }
}
