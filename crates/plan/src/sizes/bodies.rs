//! Message bodies that are there before the load, such as those from files.

use std::path::{Path, PathBuf};

use measure::Problem;

use crate::Error;

/// Bodies are kept in memory.
pub(super) const MOST_BYTES: u64 = 1 << 30;
pub(super) const MOST_BODIES: usize = 100_000;

/// Message bodies that are there before the load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    bodies: Vec<Box<[u8]>>,
}

impl Bodies {
    /// Those that were made in memory.
    pub(super) const fn new(bodies: Vec<Box<[u8]>>) -> Self {
        Self { bodies }
    }

    /// Reads files in the order given; of a folder all of them, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the path, where something cannot be read, is no file, or is too
    /// large to be kept in memory (1 GiB in all).
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Error> {
        let mut files = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            if path.is_dir() {
                files.extend(files_in(path)?);
            } else {
                files.push(path.to_owned());
            }
        }
        Self::read_files(&files)
    }

    fn read_files(files: &[PathBuf]) -> Result<Self, Error> {
        if files.is_empty() || files.len() > MOST_BODIES {
            return Err(Error::invalid(
                format!("cannot take message bodies from {} files", files.len()),
                format!("name 1 to {MOST_BODIES} files, or a folder with as many"),
            )
            .observed(files.len()));
        }
        let mut left = MOST_BYTES;
        let mut bodies = Vec::with_capacity(files.len());
        for file in files {
            // Asked for before it is read, so that a device without an end is not.
            let facts = std::fs::metadata(file).map_err(|e| failed(file, &e))?;
            if !facts.is_file() {
                return Err(failed(file, &"it is no regular file"));
            }
            left = left.checked_sub(facts.len()).ok_or_else(|| {
                Error::invalid(
                    format!(
                        "the message bodies up to {} have more than {MOST_BYTES} bytes",
                        file.display()
                    ),
                    "take fewer or smaller files: they are kept in memory",
                )
                .observed(file.display())
            })?;
            let content = std::fs::read(file).map_err(|e| failed(file, &e))?;
            bodies.push(content.into_boxed_slice());
        }
        Ok(Self { bodies })
    }

    /// Number of bodies.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Never where it was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Bytes of each.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.bodies.iter().map(|body| body.len())
    }

    /// The body of a producer's `sequence`-th message.
    #[inline]
    #[must_use]
    pub fn content(&self, sequence: u64) -> &[u8] {
        let at = sequence % self.bodies.len().max(1) as u64;
        self.bodies.get(at as usize).map_or(&[], |body| body)
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| failed(folder, &e))? {
        let file = entry.map_err(|e| failed(folder, &e))?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(failed(folder, &"there are 0 files in it"));
    }
    files.sort();
    Ok(files)
}

fn failed(path: &Path, cause: &dyn std::fmt::Display) -> Error {
    Error::Invalid(Problem::new(
        format!("cannot read message bodies from {}", path.display()),
        cause,
        "name a file, or a folder of files, that may be read",
    ))
}
