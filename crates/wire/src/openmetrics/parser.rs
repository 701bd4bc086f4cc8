//! Pages in pieces: lines, their numbers and their limits.

use std::str;

use super::line::{
    self, Layout, LineCause, LineError, Span, line_end, name_end, read_labels, skip_blanks, tail, value_end,
};
use super::sample::{Exemplar, FamilyKind, Labels, Sample, SeriesRole};

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 1 << 20;
/// How much is checked to be UTF-8 before it is read, so that it is still in the processor's cache then.
const WINDOW: usize = 64 << 10;

/// Event of a line of a page.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum PageEvent<'a> {
    /// Help of a family; [`unescape`](super::unescape) makes it text.
    Help {
        /// The family.
        name: &'a str,
        /// The text with escapes.
        text: &'a str,
    },
    /// Type of a family.
    Type {
        /// The family.
        name: &'a str,
        /// Its type.
        kind: FamilyKind,
    },
    /// The unit of a family.
    Unit {
        /// The family.
        name: &'a str,
        /// Its unit: `seconds`, `bytes`.
        unit: &'a str,
    },
    /// A value of a series.
    Sample(Sample<'a>),
    /// The end of a whole OpenMetrics page.
    Eof,
    /// A line that was skipped.
    Error(LineError),
}

/// The two formats that a page may have; they differ in the unit of time stamps and in what ends a page.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PageFormat {
    /// Prometheus' text format 0.0.4: time stamps are milliseconds.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0: time stamps are seconds, and the page ends with `# EOF`.
    OpenMetrics,
}

impl PageFormat {
    /// The format that a response's `Content-Type` names.
    pub fn of_content_type(value: &str) -> Self {
        let kind = value.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }
}

/// Counts of what a page held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PageTotals {
    /// Bytes that were read.
    pub bytes: u64,
    /// Lines, wrong ones too.
    pub lines: u64,
    /// Lines with a value.
    pub samples: u64,
    /// Lines that were skipped because they are wrong.
    pub errors: u64,
}

/// Reads one page in pieces, then [`finish`](Self::finish). Keeps one unfinished line, of [`MAX_LINE`] at most.
#[derive(Debug, Default)]
pub struct Parser {
    format: PageFormat,
    totals: PageTotals,
    /// The beginning of a line whose end has not arrived.
    carried: Vec<u8>,
    /// The rest of a line that is too long is being skipped.
    skipping: bool,
    ended: bool,
    layout: Layout,
    exemplar: Vec<Span>,
    role: SeriesRole,
    family: String,
    kind: FamilyKind,
}

impl Parser {
    /// A parser of one page.
    pub fn new(format: PageFormat) -> Self {
        Self { format, ..Self::default() }
    }

    /// Totals of the page so far.
    pub fn totals(&self) -> PageTotals {
        self.totals
    }

    /// Reads the next piece and calls `on` with what its lines say.
    pub fn feed(&mut self, piece: &[u8], mut on: impl FnMut(PageEvent<'_>)) {
        self.totals.bytes += piece.len() as u64;
        let mut rest = piece;
        if self.skipping || !self.carried.is_empty() {
            let Some(end) = memchr::memchr(b'\n', rest) else {
                self.carry(rest, &mut on);
                return;
            };
            let (line, behind) = rest.split_at(end + 1);
            rest = behind;
            self.complete(line, &mut on);
        }
        while let Some(length) = lines_within(rest) {
            let (lines, behind) = rest.split_at(length);
            self.lines(lines, &mut on);
            rest = behind;
        }
        if !rest.is_empty() {
            self.carry(rest, &mut on);
        }
    }

    /// Reads a last line without a newline, and notices that a page was cut off.
    pub fn finish(&mut self, mut on: impl FnMut(PageEvent<'_>)) {
        if self.skipping || !self.carried.is_empty() {
            self.complete(b"\n", &mut on);
        }
        if self.format == PageFormat::OpenMetrics && !self.ended {
            self.totals.lines += 1;
            self.refuse(LineCause::NoEof, &mut on);
        }
    }

    /// Keeps the beginning of a line, unless the line is too long.
    fn carry(&mut self, part: &[u8], on: &mut impl FnMut(PageEvent<'_>)) {
        if self.skipping {
            return;
        }
        if self.carried.len() + part.len() > MAX_LINE {
            self.carried = Vec::new();
            self.skipping = true;
            self.totals.lines += 1;
            self.refuse(LineCause::TooLong, on);
        } else {
            self.carried.extend_from_slice(part);
        }
    }

    /// Reads a line whose beginning was carried; `end` is its end with the newline.
    fn complete(&mut self, end: &[u8], on: &mut impl FnMut(PageEvent<'_>)) {
        let without_newline = end.len().saturating_sub(1);
        self.carry(end.get(..without_newline).unwrap_or_default(), on);
        if self.skipping {
            self.skipping = false;
            return;
        }
        let mut line = std::mem::take(&mut self.carried);
        line.push(b'\n');
        self.lines(&line, on);
        line.clear();
        self.carried = line;
    }

    /// Reads whole lines, some of which may not be UTF-8.
    fn lines(&mut self, mut lines: &[u8], on: &mut impl FnMut(PageEvent<'_>)) {
        loop {
            let error = match str::from_utf8(lines) {
                Ok(text) => return self.text(text, on),
                Err(error) => error.valid_up_to(),
            };
            let (valid, _) = lines.split_at(error);
            let start = memchr::memrchr(b'\n', valid).map_or(0, |newline| newline + 1);
            if let Ok(text) = str::from_utf8(valid.get(..start).unwrap_or_default()) {
                self.text(text, on);
            }
            let line = lines.get(start..).unwrap_or_default();
            let length = memchr::memchr(b'\n', line).map_or(line.len(), |newline| newline + 1);
            self.totals.lines += 1;
            let cause = if length > MAX_LINE + 1 { LineCause::TooLong } else { LineCause::NotUtf8 };
            self.refuse(cause, on);
            lines = line.get(length..).unwrap_or_default();
        }
    }

    /// Reads whole lines of text, each with its newline.
    fn text(&mut self, text: &str, on: &mut impl FnMut(PageEvent<'_>)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut previous: &[u8] = &[];
        while let Some(&first) = bytes.get(at) {
            self.totals.lines += 1;
            let rest = text.get(at..).unwrap_or_default();
            let read = if self.ended {
                Err(LineCause::AfterEof)
            } else if is_comment(first, rest) {
                previous = &[];
                self.comment(rest, on)
            } else {
                let read = self.sample(rest, previous, on);
                previous = if read.is_ok() { rest.as_bytes() } else { &[] };
                read
            };
            at += match read {
                Ok(length) => length,
                Err(cause) => {
                    let length = memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
                    self.skip(rest.get(..length).unwrap_or_default(), cause, on);
                    length
                }
            };
        }
    }

    /// Notes a wrong line, which may be blank and then is not wrong.
    #[cold]
    fn skip(&mut self, line: &str, cause: LineCause, on: &mut impl FnMut(PageEvent<'_>)) {
        let is_blank = line.bytes().all(|byte| byte.is_ascii_whitespace());
        let cause = match cause {
            _ if line.len() > MAX_LINE + 1 => LineCause::TooLong,
            LineCause::AfterEof => cause,
            _ if is_blank => return,
            _ => cause,
        };
        self.refuse(cause, on);
    }

    /// Reads the sample that begins `text`; answers the length of its line.
    #[inline]
    fn sample(&mut self, text: &str, previous: &[u8], on: &mut impl FnMut(PageEvent<'_>)) -> Result<usize, LineCause> {
        let (labels_end, same_name) = self.layout.read(text.as_bytes(), previous)?;
        let found = tail(text, labels_end)?;
        if found.next > MAX_LINE + 1 {
            return Err(LineCause::TooLong);
        }
        let line = text.get(..found.next).unwrap_or_default();
        let name = line.get(self.layout.name..self.layout.name_end).unwrap_or_default();
        if !same_name {
            self.role = SeriesRole::of(name, &self.family, self.kind);
        }
        let per_second = match self.format {
            PageFormat::Prometheus => 1_000.0,
            PageFormat::OpenMetrics => 1.0,
        };
        let exemplar = match found.exemplar {
            Some(at) => Some(read_exemplar(&mut self.exemplar, line, at)?),
            None => None,
        };
        self.totals.samples += 1;
        on(PageEvent::Sample(Sample {
            name,
            labels: Labels { line, spans: &self.layout.spans },
            value: found.value,
            timestamp: found.timestamp.map(|stamp| stamp / per_second),
            exemplar,
            role: self.role,
        }));
        Ok(found.next)
    }

    /// Reads the comment or the empty line that begins `text`; answers the length of its line.
    fn comment(&mut self, text: &str, on: &mut impl FnMut(PageEvent<'_>)) -> Result<usize, LineCause> {
        let length = memchr::memchr(b'\n', text.as_bytes()).map_or(text.len(), |end| end + 1);
        if length > MAX_LINE + 1 {
            return Err(LineCause::TooLong);
        }
        let line = text.get(..length).unwrap_or_default();
        let line = line.trim_end_matches(['\n', '\r']);
        let Some(comment) = line.trim_start_matches([' ', '\t']).strip_prefix('#') else { return Ok(length) };
        let comment = comment.trim_start_matches([' ', '\t']);
        let (word, rest) = word(comment);
        match word {
            "EOF" if rest.is_empty() && self.format == PageFormat::OpenMetrics => {
                self.ended = true;
                on(PageEvent::Eof);
            }
            "HELP" | "TYPE" | "UNIT" => self.metadata(word, rest, on)?,
            _ => {}
        }
        Ok(length)
    }

    fn metadata(&mut self, what: &str, rest: &str, on: &mut impl FnMut(PageEvent<'_>)) -> Result<(), LineCause> {
        let (name, text) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (end, _) = value_end(rest.as_bytes(), 1).map_err(|_| LineCause::Metadata)?;
                let (name, behind) = quoted.split_at(end - 1);
                (name, behind.get(1..).unwrap_or_default().trim_start_matches([' ', '\t']))
            }
            None => {
                let (name, text) = word(rest);
                if name_end(name.as_bytes(), 0, true) != Some(name.len()) {
                    return Err(LineCause::Metadata);
                }
                (name, text)
            }
        };
        if name.is_empty() {
            return Err(LineCause::Metadata);
        }
        match what {
            "HELP" => on(PageEvent::Help { name, text }),
            "UNIT" => on(PageEvent::Unit { name, unit: text.trim_end() }),
            _ => {
                let kind = FamilyKind::named(text.trim_end()).ok_or(LineCause::Metadata)?;
                self.family.clear();
                self.family.push_str(name);
                self.kind = kind;
                on(PageEvent::Type { name, kind });
            }
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, cause: LineCause, on: &mut impl FnMut(PageEvent<'_>)) {
        self.totals.errors += 1;
        on(PageEvent::Error(LineError { line: self.totals.lines, cause }));
    }
}

/// The length of the whole lines at the beginning of `bytes`, a window at most or one line; `None` without one.
fn lines_within(bytes: &[u8]) -> Option<usize> {
    let window = bytes.get(..WINDOW).unwrap_or(bytes);
    if let Some(end) = memchr::memrchr(b'\n', window) {
        return Some(end + 1);
    }
    let behind = bytes.get(window.len()..)?;
    memchr::memchr(b'\n', behind).map(|end| window.len() + end + 1)
}

/// Whether the line that begins `rest` is a comment or empty.
#[inline]
fn is_comment(first: u8, rest: &str) -> bool {
    match first {
        b'#' | b'\n' => true,
        b'\r' => rest.starts_with("\r\n"),
        b' ' | b'\t' => rest.trim_start_matches([' ', '\t']).starts_with('#'),
        _ => false,
    }
}

/// The first word of a comment, and what is behind the blanks after it.
fn word(text: &str) -> (&str, &str) {
    text.split_once([' ', '\t']).map_or((text, ""), |(word, rest)| (word, rest.trim_start_matches([' ', '\t'])))
}

/// Reads the exemplar at `at`, behind its `#`, of a line with its newline.
#[cold]
fn read_exemplar<'a>(spans: &'a mut Vec<Span>, line: &'a str, at: usize) -> Result<Exemplar<'a>, LineCause> {
    let malformed = |_| LineCause::Exemplar;
    let bytes = line.as_bytes();
    let at = skip_blanks(bytes, at);
    if bytes.get(at) != Some(&b'{') {
        return Err(LineCause::Exemplar);
    }
    spans.clear();
    let end = read_labels(spans, bytes, &[], 0, at + 1).map_err(malformed)?;
    let at = skip_blanks(bytes, end);
    let read = |at: usize| line.get(at..).and_then(line::read);
    let (value, length) = read(at).ok_or(LineCause::Exemplar)?;
    let mut at = skip_blanks(bytes, at + length);
    let mut timestamp = None;
    if let Some((seconds, length)) = read(at) {
        timestamp = Some(seconds);
        at = skip_blanks(bytes, at + length);
    }
    line_end(bytes, at).ok_or(LineCause::Exemplar)?;
    Ok(Exemplar { labels: Labels { line, spans }, value, timestamp })
}
