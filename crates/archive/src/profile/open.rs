//! Opening a profile, whatever its form.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use measure::Problem;

use super::model::Profile;
use super::{folded, pprof, stacks};
use crate::{bounded, file};

/// Larger unpacked profiles are refused.
const UNPACKED_LIMIT: u64 = 128 << 20;
/// Smaller ones are taken, however small they were packed.
const UNPACKED_ANYWAY: u64 = 4 << 20;
/// A few kilobytes of gzip can stand for a thousand times as much; profiles are packed to a tenth or so.
const MOST_PACKED: u64 = 100;
/// Bytes of a `.stacks` file that are read: those of a day on some cores. They take a few times as much memory.
const LARGEST_STACKS: u64 = 2 << 30;
/// Bytes that folded text may have.
const LARGEST_FOLDED: u64 = 256 << 20;

/// Why a profile cannot be read.
#[derive(Debug)]
pub enum ProfileError {
    /// The operating system says no.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder without a profile in it.
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A file that is no profile, or a damaged one.
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl ProfileError {
    /// Cause, observed value and remedy.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::Io { path, source } => Problem::io("read", path, source),
            Self::NotARun { path } => Problem::new(
                format!("{} holds no profile", path.display()),
                "none of *.stacks, *.pb.gz, *.folded is there",
                "give a run folder or one of these files; profiles are made by \
                 `bellows run`, `bellows client --profile` and `bellows record`",
            ),
            Self::Format { path, reason } => Problem::new(
                format!("{} is not a profile that bellows can read", path.display()),
                reason,
                "give a run folder or a *.stacks, *.pb.gz or *.folded file",
            ),
        }
    }
}

/// Cause and observed value in one line.
impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Reads a profile: a run folder, or a file in one of the forms of this module, told apart by
    /// content. Files that were cut off are read as far as they go, with a note.
    ///
    /// # Errors
    /// The file cannot be read or is no profile.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ProfileError> {
        let path = path.as_ref();
        if path.is_dir() {
            let file = richest_in(path);
            let not_a_run = || ProfileError::NotARun {
                path: path.to_owned(),
            };
            let file = file.ok_or_else(not_a_run)?;
            return Self::read_file(&file, bounded::open(&file));
        }
        // What the shell has opened may be a pipe, as `<(...)` is; its other end is open, too.
        let is_open = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
        let file = if is_open.iter().any(|open| path.starts_with(open)) {
            File::open(path)
        } else {
            bounded::open(path)
        };
        Self::read_file(path, file)
    }

    fn read_file(path: &Path, file: io::Result<File>) -> Result<Self, ProfileError> {
        let io = |source| ProfileError::Io {
            path: path.to_owned(),
            source,
        };
        let format = |reason: String| ProfileError::Format {
            path: path.to_owned(),
            reason,
        };
        let file = file.map_err(io)?;
        let there = file.metadata().map_err(io)?;
        // Nobody knows how much a pipe will bring.
        let length = if there.is_file() {
            there.len()
        } else {
            u64::MAX
        };
        let mut input = BufReader::with_capacity(1 << 16, file);
        let start = input.fill_buf().map_err(io)?;
        if start.is_empty() {
            return Err(format("the file is empty".into()));
        }
        let as_pprof = |e: String| format(format!("as pprof: {e}"));
        if start.starts_with(&[0x1f, 0x8b]) {
            let most = length.saturating_mul(MOST_PACKED);
            let most = most.clamp(UNPACKED_ANYWAY, UNPACKED_LIMIT);
            let unpacked = limited(&mut MultiGzDecoder::new(input), most).map_err(io)?;
            return pprof::read(&unpacked).map_err(as_pprof);
        }
        if start.starts_with(b"{\"header\":") {
            let known = stacks::read(&mut input.take(LARGEST_STACKS)).map_err(io)?;
            return known.ok_or_else(|| format("its first line is not a known header".into()));
        }
        if path.extension().is_some_and(|e| e == "pb") {
            let bytes = limited(&mut input, UNPACKED_LIMIT).map_err(io)?;
            return pprof::read(&bytes).map_err(as_pprof);
        }
        let read = folded::read(&mut input.take(LARGEST_FOLDED)).map_err(io)?;
        read.map_err(format)
    }
}

/// The file of a run folder that holds most of its profile; of several events the first by name.
fn richest_in(folder: &Path) -> Option<PathBuf> {
    let pprof = folder.join(file::PPROF);
    let first = |extension| {
        let files = fs::read_dir(folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path());
        files
            .filter(|path| path.extension().is_some_and(|e| e == extension))
            .min()
    };
    first(file::STACKS)
        .or_else(|| pprof.exists().then_some(pprof))
        .or_else(|| first(file::FOLDED))
}

fn limited(input: &mut dyn Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("more than {most} bytes unpacked");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}
