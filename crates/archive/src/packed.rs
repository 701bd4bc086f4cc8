//! Inputs that gzip may have packed: every reader unpacks them here.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::{error, fmt};

use flate2::bufread::MultiGzDecoder;
use measure::Problem;

/// Bytes of an input that tell its format, and that are there at once.
const BEGINNING: usize = 1 << 16;
/// The first bytes of what gzip packs.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why something packed is not read.
#[derive(Debug)]
enum Unreadable {
    /// Cut off or damaged, as the unpacker says.
    Damaged(io::Error),
    /// What was packed is gzip, too.
    Twice,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(source) => write!(f, "its gzip is cut off or damaged: {source}"),
            Self::Twice => f.write_str("it is gzip within gzip"),
        }
    }
}

impl error::Error for Unreadable {}

/// A decoder that tells what is wrong with its input from what the operating system refuses.
struct Unpacking<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Unpacking<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes).map_err(|source| {
            let of_system = source.raw_os_error().is_some()
                || matches!(
                    source.kind(),
                    ErrorKind::Interrupted | ErrorKind::WouldBlock
                );
            match of_system {
                true => source,
                false => io::Error::new(ErrorKind::InvalidData, Unreadable::Damaged(source)),
            }
        })
    }
}

/// The content of an input, and whether gzip had packed it.
///
/// # Errors
/// The input cannot be read, its gzip is damaged, or there is gzip within gzip; [`read_problem`] says what to do.
pub fn unpacked<'i>(input: impl Read + 'i) -> io::Result<(Box<dyn BufRead + 'i>, bool)> {
    let mut input = BufReader::with_capacity(BEGINNING, input);
    if !input.fill_buf()?.starts_with(&GZIP) {
        return Ok((Box::new(input), false));
    }
    let unpacking = Unpacking(MultiGzDecoder::new(input));
    let mut unpacked = BufReader::with_capacity(BEGINNING, unpacking);
    if unpacked.fill_buf()?.starts_with(&GZIP) {
        return Err(io::Error::new(ErrorKind::InvalidData, Unreadable::Twice));
    }
    Ok((Box::new(unpacked), true))
}

/// A file that may be packed could not be read: cause, what was observed, and remedy.
#[must_use]
pub fn read_problem(path: &Path, source: &io::Error) -> Problem {
    let problem = Problem::io("read", path, source);
    let packed = source.get_ref().and_then(|it| it.downcast_ref());
    let help = match packed {
        Some(Unreadable::Damaged(_)) => "copy or download it again, and check it: `gzip -t FILE`",
        Some(Unreadable::Twice) => "unpack it once: `gzip -dc FILE > UNPACKED`",
        None => return problem,
    };
    Problem {
        help: help.into(),
        ..problem
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::LatencyLog;
    use crate::profile::Profile;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(bytes).expect("memory");
        gzip.finish().expect("memory")
    }

    /// What profiles and logs of latencies say of a file of these bytes, whatever it is called.
    fn said(bytes: &[u8]) -> Vec<Problem> {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            path
        };
        let names = ["x.pb.gz", "x.folded.gz", "x.jfr.gz", "x.script.gz"];
        let profiles = names.map(|name| Profile::open(at(name)).expect_err(name).problem());
        let log = LatencyLog::read(&at("x.hlog.gz"), None).expect_err("no log");
        profiles.into_iter().chain([log]).collect()
    }

    #[test]
    fn gzip_within_gzip_is_to_be_unpacked_once() {
        for problem in said(&packed(&packed(b"t;main;a 3\n"))) {
            assert_eq!(problem.value, "it is gzip within gzip");
            assert!(problem.help.starts_with("unpack it once"), "{problem:?}");
        }
    }

    #[test]
    fn gzip_that_is_cut_off_or_damaged_is_to_be_copied_again() {
        let text: String = (0..40_000_u32)
            .map(|i| format!("t;main;f{} {}\n", i.wrapping_mul(2_654_435_761), 1 + i % 7))
            .collect();
        let whole = packed(text.as_bytes());
        let mut damaged = whole.clone();
        let end = damaged.len() - 6;
        damaged[end] ^= 0xff;
        // A log of latencies is refused for its first line.
        for bytes in [&whole[..40], &whole[..4], &damaged] {
            for problem in &said(bytes)[..if bytes.len() > 40 { 2 } else { 5 }] {
                assert!(
                    problem.value.starts_with("its gzip is cut off or damaged"),
                    "{problem:?}"
                );
                assert!(
                    problem.help.starts_with("copy or download it again"),
                    "{problem:?}"
                );
            }
        }
        assert!(unpacked(&whole[..]).is_ok_and(|(_, packed)| packed));
    }
}
