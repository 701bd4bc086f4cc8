//! Inputs that gzip may have packed: every reader unpacks them here.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;
use measure::Problem;
use thiserror::Error;

/// Bytes of an input that tell its format.
const BEGINNING: usize = 1 << 16;
/// The first bytes of what gzip packs.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Mark of byte order, as some programs of other systems write before a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Why something packed is not read.
#[derive(Debug, Error)]
enum Unreadable {
    #[error("its gzip is cut off or damaged: {0}")]
    Damaged(io::Error),
    #[error("it is gzip within gzip")]
    Twice,
}

/// A decoder of one or more packed parts that tells what is wrong with its input from what the operating system
/// refuses. `None` at the end. Zeros behind a part fill up a tape or a block, as gzip has it.
struct Unpacking<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Unpacking<R> {
    fn read_part(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let length = decoder.read(bytes)?;
            if length > 0 || bytes.is_empty() {
                return Ok(length);
            }
            self.0 = self.0.take().map_or(Ok(None), |part| next_part(part.into_inner()))?;
        }
        Ok(0)
    }
}

/// The next part of what is packed; `None` where nothing but zeros is left.
fn next_part<R: BufRead>(mut rest: R) -> io::Result<Option<GzDecoder<R>>> {
    loop {
        let bytes = rest.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        match (bytes.is_empty(), zeros) {
            (true, _) => return Ok(None),
            (false, 0) => return Ok(Some(GzDecoder::new(rest))),
            (false, zeros) => rest.consume(zeros),
        }
    }
}

impl<R: BufRead> Read for Unpacking<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_part(bytes).map_err(|source| {
            let of_system = source.raw_os_error().is_some()
                || matches!(source.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock);
            if of_system { source } else { io::Error::new(ErrorKind::InvalidData, Unreadable::Damaged(source)) }
        })
    }
}

/// An input's content without a byte order mark, and whether gzip had packed it. The first buffer tells the format,
/// however slow a pipe is. An error where gzip is damaged or nested: [`read_problem`] says what to do.
pub fn unpacked<'i>(mut input: impl Read + 'i) -> io::Result<(Box<dyn BufRead + 'i>, bool)> {
    let mut beginning = Vec::new();
    let most = BEGINNING as u64;
    input.by_ref().take(most).read_to_end(&mut beginning)?;
    let input = Cursor::new(beginning).chain(input);
    let mut input = BufReader::with_capacity(BEGINNING, input);
    if !input.fill_buf()?.starts_with(&GZIP) {
        skip_mark(&mut input)?;
        return Ok((Box::new(input), false));
    }
    let unpacking = Unpacking(Some(GzDecoder::new(input)));
    let mut unpacked = BufReader::with_capacity(BEGINNING, unpacking);
    if unpacked.fill_buf()?.starts_with(&GZIP) {
        return Err(io::Error::new(ErrorKind::InvalidData, Unreadable::Twice));
    }
    skip_mark(&mut unpacked)?;
    Ok((Box::new(unpacked), true))
}

fn skip_mark(input: &mut impl BufRead) -> io::Result<()> {
    if input.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        input.consume(BYTE_ORDER_MARK.len());
    }
    Ok(())
}

/// A file that may be packed could not be read: cause, what was observed, and remedy.
pub fn read_problem(path: &Path, source: &io::Error) -> Problem {
    let problem = Problem::io("read", path, source);
    let packed = source.get_ref().and_then(|it| it.downcast_ref());
    let help = match packed {
        Some(Unreadable::Damaged(_)) => "copy or download it again, and check it: `gzip -t FILE`",
        Some(Unreadable::Twice) => "unpack it once: `gzip -dc FILE > UNPACKED`",
        None => return problem,
    };
    Problem { help: help.into(), ..problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::packed;

    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let length = bytes.len().min(1);
            self.0.read(&mut bytes[..length])
        }
    }

    #[test]
    fn a_slow_pipe_tells_what_it_brings_as_a_file_does() {
        let text = b"Warning:\nlost 3 chunks!\n\napp 700 1.5: 1 cycles: \n\t4011aa f+0x1 (/opt/app)\n\n";
        for bytes in [text.to_vec(), packed(text), vec![b'x'; 3 * BEGINNING]] {
            let (mut slow, slow_packed) = unpacked(Slow(&bytes)).expect("memory");
            let (mut whole, whole_packed) = unpacked(&bytes[..]).expect("memory");
            assert_eq!(slow_packed, whole_packed);
            assert_eq!(slow.fill_buf().expect("memory"), whole.fill_buf().expect("memory"));
            let mut rest = [Vec::new(), Vec::new()];
            slow.read_to_end(&mut rest[0]).expect("memory");
            whole.read_to_end(&mut rest[1]).expect("memory");
            assert_eq!(rest[0], rest[1]);
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        for text in ["main;a 3\nmain;b 4\n", "{\"a\": 1}", ""] {
            let marked = format!("\u{feff}{text}").into_bytes();
            for bytes in [packed(&marked), marked] {
                let mut found = String::new();
                let mut input = unpacked(Slow(&bytes)).expect("memory").0;
                input.read_to_string(&mut found).expect("memory");
                assert_eq!(found, text);
            }
        }
    }

    /// As `gzip -t` has it.
    #[test]
    fn parts_are_read_one_after_the_other_and_zeros_behind_them_are_none() {
        let part = packed(b"t;main;a 3\n");
        let all = |bytes: &[u8]| {
            let mut text = String::new();
            unpacked(bytes)?.0.read_to_string(&mut text).map(|_| text)
        };
        let zeros = vec![0; 2 * BEGINNING];
        for (bytes, times) in [
            (part.clone(), 1),
            ([&part[..], &part].concat(), 2),
            ([&part[..], &zeros].concat(), 1),
            ([&part[..], &[0; 7], &part, &[0]].concat(), 2),
            ([&packed(b"")[..], &part].concat(), 1),
        ] {
            let text = all(&bytes).expect("gzip");
            assert_eq!(text, "t;main;a 3\n".repeat(times));
        }
        for behind in [&b"more"[..], &[0x1f, 0x8b], &part[..part.len() - 1]] {
            let error = all(&[&part[..], behind].concat()).expect_err("damaged");
            assert!(error.to_string().contains("cut off or damaged"), "{error}");
        }
    }
}
