//! The formats of profiles: a row each.

use std::fs::File;
use std::io::{self, BufRead, Read};

use measure::Problem;

use crate::bounded::Limited;

use super::folded::FirstField;
use super::model::Profile;
use super::tree::MOST_BYTES;
use super::{folded, jfr, perf_script, pprof, stacks};

/// A format. What reads or writes one is in its row, so that the next format is a row.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// How names of its files end; the first is the usual one. Of several rows the longest end counts.
    pub ends: &'static [&'static str],
    /// Description in a few words.
    pub what: &'static str,
    /// Whether its files tell lines of source code.
    pub lines: bool,
    /// How it is read, where it is.
    pub read: Option<Reader>,
    /// How it is written, where it is.
    pub write: Option<Write>,
}

/// How a format is read.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Whether a file may be of the format.
    pub recognises: fn(&Beginning<'_>) -> bool,
    /// Reads it. The inner error says what is wrong with it.
    pub read: fn(&mut Input<'_>) -> io::Result<Result<Profile, String>>,
}

/// Input of a reader.
pub struct Input<'i> {
    /// The content, unpacked.
    pub bytes: &'i mut dyn BufRead,
    /// Bytes of the file, where gzip packed it.
    pub packed: Option<u64>,
    /// The file itself, where it is a plain one: what stands behind can be read before.
    pub file: Option<&'i File>,
    /// The event that is asked for, where the file may have several.
    pub event: Option<&'i str>,
    /// First field of folded text.
    pub first_field: FirstField,
}

/// Makes a file of a profile.
pub type Write = fn(&Profile, &Heading) -> Result<Vec<u8>, Problem>;

/// Facts of a file before it is read.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// Its first bytes, unpacked.
    pub bytes: &'a [u8],
    /// Its name.
    pub name: &'a str,
    /// Whether it was packed with gzip.
    pub packed: bool,
}

/// Title and notes above a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// The title.
    pub title: String,
    /// A line below it: window, samples.
    pub subtitle: Option<String>,
}

const LARGEST_TEXT: u64 = 256 << 20;
/// Bytes of the text of `perf script`, of which every sample repeats its stack.
const LARGEST_SCRIPT: u64 = 16 << 30;
/// Bytes of a `.stacks` file that are read: those of a day on some cores. They take about as much of memory.
const LARGEST_STACKS: u64 = 2 << 30;
const LARGEST_PPROF: u64 = 128 << 20;
/// Bytes of a recording of Java's flight recorder, which is kept in memory while it is read.
const LARGEST_JFR: u64 = 1 << 30;
/// Smaller ones are taken, however small they were packed.
const UNPACKED_ANYWAY: u64 = 4 << 20;
/// Limits on texts: those of `perf script` say the same things again and again.
const FOLDED_ANYWAY: u64 = 32 << 20;
const SCRIPT_ANYWAY: u64 = 512 << 20;
/// A few kilobytes of gzip can stand for a thousand times as much; profiles are packed to a tenth or so.
const MOST_PACKED: u64 = 100;

/// The formats that need nothing but the archive, in the order in which a file is tried.
pub const FORMATS: [Format; 7] = [
    Format {
        name: "stacks",
        ends: &[".stacks"],
        what: "every sample with its time, as runs keep them",
        lines: true,
        read: Some(Reader {
            recognises: |it| it.bytes.starts_with(b"{\"header\":"),
            read: |input| {
                // Long recordings are plain files, and take at most twice their length; what is packed, or comes
                // through a pipe, can stand for any amount.
                let length = match input.file {
                    Some(file) => usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX),
                    None => 0,
                };
                let most = length.saturating_mul(2).max(MOST_BYTES);
                stacks::read(&mut Read::take(&mut *input.bytes, LARGEST_STACKS), most)
            },
        }),
        write: None,
    },
    Format {
        name: "jfr",
        ends: &[".jfr"],
        what: "Java's flight recorder, and async-profiler",
        lines: true,
        read: Some(Reader {
            recognises: |it| jfr::looks_like(it.bytes),
            read: |input| {
                let bytes = limited(input.bytes, unpacked(input.packed, UNPACKED_ANYWAY, LARGEST_JFR))?;
                Ok(jfr::read(&bytes).map_err(|why| format!("as a recording of Java's flight recorder: {why}")))
            },
        }),
        write: None,
    },
    Format {
        name: "pprof",
        ends: &[".pb.gz", ".pb", ".pprof"],
        what: "Go's format, which Pyroscope and Parca read, too",
        lines: true,
        read: Some(Reader {
            recognises: |it| {
                let named = [".pb", ".pb.gz", ".pprof"].iter().any(|end| it.name.ends_with(end));
                named || (it.packed && is_binary(it.bytes))
            },
            read: |input| {
                let bytes = limited(input.bytes, unpacked(input.packed, UNPACKED_ANYWAY, LARGEST_PPROF))?;
                Ok(pprof::read(&bytes).map_err(|why| format!("as pprof: {why}")))
            },
        }),
        write: Some(|profile, _| profile.to_pprof().map_err(|e| in_memory(&e))),
    },
    Format {
        name: "perf-script",
        ends: &[".perf", ".script"],
        what: "the text of `perf script`",
        lines: false,
        read: Some(Reader {
            recognises: |it| perf_script::looks_like(it.bytes),
            read: |input| {
                let most = unpacked(input.packed, SCRIPT_ANYWAY, LARGEST_SCRIPT);
                perf_script::read(&mut Limited::of(&mut *input.bytes, most), input.event)
            },
        }),
        write: None,
    },
    Format {
        name: "speedscope",
        ends: &[".speedscope.json"],
        what: "for https://www.speedscope.app",
        lines: false,
        read: None,
        write: Some(|it, heading| it.with_reasons().to_speedscope(&heading.title).map_err(|e| in_memory(&e))),
    },
    Format {
        name: "firefox",
        ends: &[".profile.json.gz", ".json.gz"],
        what: "for https://profiler.firefox.com",
        lines: false,
        read: None,
        write: Some(|it, heading| it.with_reasons().to_firefox(&heading.title).map_err(|e| in_memory(&e))),
    },
    // The last one: nearly any text may be one.
    Format {
        name: "folded",
        ends: &[".folded", ".collapsed", ".txt"],
        what: "a line per stack, as FlameGraph and async-profiler write them",
        lines: false,
        read: Some(Reader {
            recognises: |it| !it.bytes.contains(&0),
            read: |input| {
                let most = unpacked(input.packed, FOLDED_ANYWAY, LARGEST_TEXT);
                folded::read(&mut Limited::of(&mut *input.bytes, most), input.first_field)
            },
        }),
        write: Some(|profile, _| Ok(profile.folded().into_bytes())),
    },
];

/// The format that a file's name means, by the longest end.
pub fn format_of_name<'f>(formats: &'f [Format], name: &str) -> Option<&'f Format> {
    let end = |format: &Format| format.ends.iter().filter(|end| name.ends_with(**end)).map(|end| end.len()).max();
    formats.iter().filter(|format| end(format).is_some()).max_by_key(|format| end(format))
}

/// Likely format of bytes that no reader knows.
pub(super) fn looks_like(bytes: &[u8]) -> &'static str {
    let start = bytes.trim_ascii_start();
    let starts = |with: &[u8]| start.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    match () {
        () if starts(b"{") || starts(b"[") => "JSON",
        () if starts(b"\x7fELF") => "a program",
        () if starts(b"PERFILE2") || starts(b"2ELIFREP") => "what `perf record` writes",
        () if starts(b"<") => "HTML or an image",
        () if is_binary(bytes) => "binary data",
        () => "text",
    }
}

/// Format of a file that is no text, and whether a reader among these formats knows it; `None` for texts.
pub fn other_than_text(formats: &[Format], start: &Beginning<'_>) -> Option<(&'static str, bool)> {
    let is_known = |format: &&Format| format.read.is_some_and(|it| (it.recognises)(start));
    match formats.iter().find(is_known) {
        Some(format) if format.name == "perf-script" => None,
        Some(format) if format.name != "folded" => Some((format.what, true)),
        _ => is_binary(start.bytes).then(|| (looks_like(start.bytes), false)),
    }
}

/// Whether there is a control character that no text has.
fn is_binary(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1b);
    bytes.iter().any(is_control)
}

/// Most bytes of a file; `anyway` of them however small it was packed.
fn unpacked(packed: Option<u64>, anyway: u64, largest: u64) -> u64 {
    packed.map_or(largest, |length| length.saturating_mul(MOST_PACKED).clamp(anyway, largest))
}

fn limited(input: &mut dyn BufRead, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Limited::of(input, most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn in_memory(source: &io::Error) -> Problem {
    Problem::new("the profile could not be written", source, "give it more memory")
}
