//! Reading files that anybody may have written: regular ones alone, and no more of them than a limit.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file, or a link to one. A pipe would keep its reader waiting, and a device may never end.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at before, since opening a device can have an effect, and after, since it may have been exchanged.
    only_regular(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    only_regular(&file.metadata()?)?;
    Ok(file)
}

fn only_regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let text = "it is no regular file, and only those are read";
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}

/// The whole of a file that has at most this many bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_large = || {
        let text = format!("it is larger than {most} bytes, which no run's is");
        io::Error::new(ErrorKind::FileTooLarge, text)
    };
    if file.metadata()?.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// An input of which no more is read than is believed of it: then it fails, so that nobody takes a part for the whole.
pub struct Limited<R> {
    input: R,
    left: u64,
    most: u64,
}

impl<R: BufRead> Limited<R> {
    /// No more than `most` bytes of an input.
    pub fn of(input: R, most: u64) -> Self {
        Self { input, left: most, most }
    }
}

impl<R: BufRead> Read for Limited<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(bytes)?;
        self.consume(length);
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let found = self.input.fill_buf()?;
        if self.left == 0 && !found.is_empty() {
            let text = format!("more than {} bytes unpacked", self.most);
            return Err(io::Error::new(ErrorKind::FileTooLarge, text));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(found.get(..most).unwrap_or(found))
    }

    fn consume(&mut self, length: usize) {
        self.left = self.left.saturating_sub(length as u64);
        self.input.consume(length);
    }
}

/// Outcome of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// All of it; its end is left out.
    Whole,
    /// The last one, which has no end.
    CutOff,
    /// Nothing is left.
    None,
    /// It is longer than allowed, and is not to be believed.
    TooLong,
}

/// Reads the next line of at most this many bytes into `line`.
pub fn next_line(input: &mut dyn BufRead, most: u64, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let read = input.take(most + 1).read_until(b'\n', line)?;
    Ok(if line.last() == Some(&b'\n') {
        line.pop();
        Line::Whole
    } else if read == 0 {
        Line::None
    } else if read as u64 > most {
        Line::TooLong
    } else {
        Line::CutOff
    })
}
