//! One line with a sample, read beside the line before it; its value, and what can be wrong with it.

use thiserror::Error;

/// Labels of one sample at most.
const MAX_LABELS: usize = 128;
/// Bytes of a label value that are looked at one by one before a vector search is worth its start.
const SHORT_VALUE: usize = 24;

/// Where a label stands, in bytes from the beginning of its line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) name: usize,
    pub(super) name_end: usize,
    pub(super) value: usize,
    pub(super) value_end: usize,
    pub(super) escaped: bool,
}

/// Where name and labels of the last sample stand: what the next line has in common with it is not parsed again.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) name: usize,
    pub(super) name_end: usize,
    pub(super) spans: Vec<Span>,
    /// The end of what can be in common: behind the labels, or where the value begins.
    pub(super) end: usize,
    /// The opening brace, where there is one.
    brace: Option<usize>,
}

/// How much of a line is known from the line before it.
struct Known {
    /// Labels that stand on both lines.
    labels: usize,
    /// The label whose value goes on at this byte, without an escape before it.
    inside: Option<usize>,
}

impl Layout {
    /// Reads name and labels of `line`, of which `previous` is the line that this layout describes (empty: of none).
    /// Answers where the value may begin, and whether the name is the same as before.
    #[inline]
    pub(super) fn read(&mut self, line: &[u8], previous: &[u8]) -> Result<(usize, bool), LineCause> {
        let before = previous.get(..self.end).unwrap_or_default();
        let common = common_prefix(line, before);
        match self.brace {
            Some(_) if common > 0 && common == self.end => Ok((self.end, true)),
            Some(brace) if common > brace => {
                let known = self.known(common);
                self.end = self.labels(line, previous, brace, &known)?;
                Ok((self.end, true))
            }
            _ => self.fresh(line).map(|end| (end, false)),
        }
    }

    /// Labels within `common` bytes.
    #[inline]
    fn known(&self, common: usize) -> Known {
        let labels = self.spans.iter().take_while(|span| span.value_end < common).count();
        let inside = self.spans.get(labels).filter(|span| span.value <= common && !span.escaped).map(|_| common);
        Known { labels, inside }
    }

    /// Reads a line that has nothing in common with the one before it.
    fn fresh(&mut self, line: &[u8]) -> Result<usize, LineCause> {
        self.spans.clear();
        self.end = 0;
        self.name = skip_blanks(line, 0);
        if line.get(self.name) == Some(&b'{') {
            self.brace = None;
            let at = skip_blanks(line, self.name + 1);
            return self.quoted(line, at);
        }
        self.name_end = name_end(line, self.name, true).ok_or(LineCause::MetricName)?;
        let next = skip_blanks(line, self.name_end);
        self.brace = (line.get(next) == Some(&b'{')).then_some(next);
        self.end = if let Some(brace) = self.brace {
            read_labels(&mut self.spans, line, &[], 0, brace + 1)?
        } else if next > self.name_end {
            next
        } else {
            return Err(match line.get(next) {
                Some(b'\n' | b'\r') | None => LineCause::Value,
                Some(_) => LineCause::MetricName,
            });
        };
        Ok(self.end)
    }

    /// Reads a line whose name is quoted, as other characters require: `{"http.requests",code="200"} 1`.
    #[cold]
    fn quoted(&mut self, line: &[u8], at: usize) -> Result<usize, LineCause> {
        if line.get(at) != Some(&b'"') {
            return Err(LineCause::MetricName);
        }
        let (end, _) = value_end(line, at + 1)?;
        if end == at + 1 {
            return Err(LineCause::MetricName);
        }
        (self.name, self.name_end) = (at + 1, end);
        self.end = match separator(line, end + 1)? {
            Separator::Next(next) => read_labels(&mut self.spans, line, &[], 0, next)?,
            Separator::End(end) => end,
        };
        Ok(self.end)
    }

    /// Reads the labels that the line before did not have.
    #[inline]
    fn labels(&mut self, line: &[u8], previous: &[u8], brace: usize, known: &Known) -> Result<usize, LineCause> {
        let index = known.labels;
        if let Some(at) = known.inside {
            let (end, escaped) = value_end(line, at)?;
            let Some(span) = self.spans.get_mut(index) else { return Err(LineCause::Separator) };
            span.value_end = end;
            span.escaped = escaped;
            return match line.get(end + 1) {
                Some(b'}') => {
                    self.spans.truncate(index + 1);
                    Ok(end + 2)
                }
                _ => self.rest(line, previous, index + 1, end + 1),
            };
        }
        match index.checked_sub(1).and_then(|last| self.spans.get(last)) {
            Some(span) => {
                let at = span.value_end + 1;
                self.rest(line, previous, index, at)
            }
            None => read_labels(&mut self.spans, line, previous, 0, brace + 1),
        }
    }

    /// Goes on behind a label's closing quote with label number `index`.
    #[inline]
    fn rest(&mut self, line: &[u8], previous: &[u8], index: usize, at: usize) -> Result<usize, LineCause> {
        match separator(line, at)? {
            Separator::Next(at) => read_labels(&mut self.spans, line, previous, index, at),
            Separator::End(at) => {
                self.spans.truncate(index);
                Ok(at)
            }
        }
    }
}

enum Separator {
    Next(usize),
    End(usize),
}

/// Separator behind a label's value.
#[inline]
fn separator(line: &[u8], at: usize) -> Result<Separator, LineCause> {
    let at = skip_blanks(line, at);
    match line.get(at) {
        Some(b',') => Ok(Separator::Next(at + 1)),
        Some(b'}') => Ok(Separator::End(at + 1)),
        _ => Err(LineCause::Separator),
    }
}

/// Reads labels from number `index` on into `spans`, up to the closing brace; answers what is behind it. Spans from
/// there on are those of `previous`, whose label names are probably the same.
pub(super) fn read_labels(
    spans: &mut Vec<Span>,
    line: &[u8],
    previous: &[u8],
    mut index: usize,
    mut at: usize,
) -> Result<usize, LineCause> {
    loop {
        at = skip_blanks(line, at);
        if line.get(at) == Some(&b'}') {
            spans.truncate(index);
            return Ok(at + 1);
        }
        let expected = spans.get(index).copied();
        let span = match expected.and_then(|old| same_name(line, previous, &old, at)) {
            Some(span) => span,
            None => {
                spans.truncate(index);
                let span = label_name(line, at)?;
                if index >= MAX_LABELS {
                    return Err(LineCause::TooManyLabels);
                }
                span
            }
        };
        let (value_end, escaped) = value_end(line, span.value)?;
        let span = Span { value_end, escaped, ..span };
        if is_duplicate(spans.get(..index).unwrap_or_default(), line, &span) {
            return Err(LineCause::DuplicateLabel);
        }
        match spans.get_mut(index) {
            Some(old) => *old = span,
            None => spans.push(span),
        }
        index += 1;
        match separator(line, value_end + 1)? {
            Separator::Next(next) => at = next,
            Separator::End(end) => {
                spans.truncate(index);
                return Ok(end);
            }
        }
    }
}

/// The label at `at` where it has the name of `old`, a label of the line before, and nothing but `="` behind it.
#[inline]
fn same_name(line: &[u8], previous: &[u8], old: &Span, at: usize) -> Option<Span> {
    if old.value != old.name_end + 2 {
        return None;
    }
    let text = previous.get(old.name..old.value)?;
    let end = at + text.len();
    (line.get(at..end)? == text).then_some(Span { name: at, name_end: end - 2, value: end, ..Span::default() })
}

/// The label name at `at`, which may be in quotes, with `=` and the opening quote behind it.
fn label_name(line: &[u8], at: usize) -> Result<Span, LineCause> {
    let (name, name_end, behind) = match line.get(at) {
        Some(b'"') => {
            let (end, _) = value_end(line, at + 1)?;
            (at + 1, end, end + 1)
        }
        _ => {
            let end = name_end(line, at, false).ok_or(LineCause::LabelName)?;
            (at, end, end)
        }
    };
    if name == name_end {
        return Err(LineCause::LabelName);
    }
    let equals = skip_blanks(line, behind);
    if line.get(equals) != Some(&b'=') {
        return Err(LineCause::LabelName);
    }
    let quote = skip_blanks(line, equals + 1);
    if line.get(quote) != Some(&b'"') {
        return Err(LineCause::Unquoted);
    }
    Ok(Span { name, name_end, value: quote + 1, ..Span::default() })
}

/// Whether a label of `spans` has the name of `span`.
#[inline]
fn is_duplicate(spans: &[Span], line: &[u8], span: &Span) -> bool {
    let name = line.get(span.name..span.name_end);
    spans.iter().any(|other| line.get(other.name..other.name_end) == name)
}

/// The closing quote of a value that goes on at `at`, and whether an escape stands before it.
#[inline]
pub(super) fn value_end(line: &[u8], at: usize) -> Result<(usize, bool), LineCause> {
    let text = line.get(at..).unwrap_or_default();
    for (index, &byte) in text.iter().take(SHORT_VALUE).enumerate() {
        match byte {
            b'"' => return Ok((at + index, false)),
            b'\n' => return Err(LineCause::Unterminated),
            b'\\' => return long_value_end(line, at + index),
            _ => {}
        }
    }
    long_value_end(line, at + SHORT_VALUE.min(text.len()))
}

/// The closing quote of a long value, or of one with escapes.
fn long_value_end(line: &[u8], mut at: usize) -> Result<(usize, bool), LineCause> {
    let mut escaped = false;
    loop {
        let text = line.get(at..).unwrap_or_default();
        let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', text) else { return Err(LineCause::Unterminated) };
        match text.get(found) {
            Some(b'"') => return Ok((at + found, escaped)),
            Some(b'\\') if text.get(found + 1) != Some(&b'\n') => {
                escaped = true;
                at += found + 2;
            }
            _ => return Err(LineCause::Unterminated),
        }
    }
}

/// How many bytes two lines have in common at their beginning.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return common + difference.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let rest = |text: &'_ [u8]| text.get(common..).map(<[u8]>::len).unwrap_or_default();
    let most = rest(a).min(rest(b));
    (0..most).find(|&index| a.get(common + index) != b.get(common + index)).unwrap_or(most) + common
}

/// The first byte from `at` on that is no blank.
#[inline]
pub(super) fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// The end of the metric name (`colons`) or label name at `start`; `None` where there is none.
pub(super) fn name_end(line: &[u8], start: usize, colons: bool) -> Option<usize> {
    let text = line.get(start..)?;
    let length = text
        .iter()
        .position(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_' || (colons && byte == b':')))
        .unwrap_or(text.len());
    let first = text.first()?;
    (length > 0 && !first.is_ascii_digit()).then_some(start + length)
}

/// Behind the labels: value, time stamp, and where an exemplar begins.
pub(super) struct Tail {
    pub(super) value: f64,
    pub(super) timestamp: Option<f64>,
    pub(super) exemplar: Option<usize>,
    /// Behind the line's end.
    pub(super) next: usize,
}

/// Reads value and time stamp of the line that begins `text` from `at` on.
#[inline]
pub(super) fn tail(text: &str, at: usize) -> Result<Tail, LineCause> {
    let bytes = text.as_bytes();
    let at = skip_blanks(bytes, at);
    let (value, length) = text.get(at..).and_then(read).ok_or(LineCause::Value)?;
    let end = at + length;
    if bytes.get(end) == Some(&b'\n') {
        return Ok(Tail { value, timestamp: None, exemplar: None, next: end + 1 });
    }
    long_tail(text, value, end)
}

/// Reads what follows a value.
#[cold]
fn long_tail(text: &str, value: f64, at: usize) -> Result<Tail, LineCause> {
    let bytes = text.as_bytes();
    let mut at = skip_blanks(bytes, at);
    let mut timestamp = None;
    if !matches!(bytes.get(at), Some(b'#' | b'\n' | b'\r') | None) {
        let (seconds, length) = text.get(at..).and_then(read).ok_or(LineCause::Timestamp)?;
        timestamp = Some(seconds);
        at = skip_blanks(bytes, at + length);
    }
    let mut exemplar = None;
    if bytes.get(at) == Some(&b'#') {
        exemplar = Some(at + 1);
        at += memchr::memchr(b'\n', bytes.get(at..).unwrap_or_default()).ok_or(LineCause::Exemplar)?;
    }
    Ok(Tail { value, timestamp, exemplar, next: line_end(bytes, at).ok_or(LineCause::Trailing)? })
}

/// Behind the newline at `at`, which a carriage return may precede; `None` where something else stands there.
pub(super) fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    let at = at + usize::from(bytes.get(at) == Some(&b'\r'));
    (bytes.get(at) == Some(&b'\n')).then_some(at + 1)
}

/// A line that was skipped: which one, and why.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("line {line}: {cause}")]
pub struct LineError {
    /// The line's number, from 1 on.
    pub line: u64,
    /// The cause.
    pub cause: LineCause,
}

/// Why a line is no event.
#[derive(Clone, Copy, Debug, Eq, Error, Hash, Ord, PartialEq, PartialOrd)]
pub enum LineCause {
    /// Bytes that are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A line of more than [`MAX_LINE`](super::MAX_LINE) bytes.
    #[error("longer than 1 MiB")]
    TooLong,
    /// The line begins with something that is no metric name.
    #[error("no metric name at its beginning")]
    MetricName,
    /// The text before `=` is no label name.
    #[error("a label's name is empty or has a character that names cannot have")]
    LabelName,
    /// A label value without quotes.
    #[error("a label's value is not in quotes")]
    Unquoted,
    /// A label value whose closing quote is missing.
    #[error("a label's value has no closing quote")]
    Unterminated,
    /// Neither `,` nor `}` behind a label.
    #[error("neither a comma nor a closing brace behind a label")]
    Separator,
    /// A label name twice in one sample.
    #[error("a label is repeated")]
    DuplicateLabel,
    /// More labels than any real series has.
    #[error("more than 128 labels")]
    TooManyLabels,
    /// No value, or none that is a number.
    #[error("its value is missing or not a number")]
    Value,
    /// A time stamp that is no number.
    #[error("its time stamp is not a number")]
    Timestamp,
    /// The text after `#` behind a value is no exemplar.
    #[error("its exemplar is malformed")]
    Exemplar,
    /// Something behind value and time stamp.
    #[error("text follows the value and the time stamp")]
    Trailing,
    /// A `TYPE`, `HELP` or `UNIT` line without a name, or of a type that does not exist.
    #[error("a TYPE, HELP or UNIT line without a metric name or with an unknown type")]
    Metadata,
    /// A line behind `# EOF`.
    #[error("a line behind # EOF")]
    AfterEof,
    /// An OpenMetrics page without `# EOF`: it was cut off.
    #[error("the page ends without # EOF: it was cut off")]
    NoEof,
}

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// The largest integer up to which a double holds all of them.
const EXACT_INTEGERS: u64 = 1 << 53;
/// Digits that always fit into 64 bits.
const MAX_DIGITS: usize = 19;

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b' ' | b'\t' | b'\r')
}

/// The number at the beginning of `text` and its length; `None` unless it ends at a blank or the line's end.
#[inline]
pub(super) fn read(text: &str) -> Option<(f64, usize)> {
    short(text.as_bytes()).or_else(|| any(text))
}

/// An integer or a decimal of a few digits, exactly as the slow way reads it: both integers that are divided are exact
/// as doubles, so that only the quotient is rounded.
#[inline]
fn short(text: &[u8]) -> Option<(f64, usize)> {
    let negative = *text.first()? == b'-';
    let first = usize::from(negative);
    let (whole, mut at) = digits(text, first, 0)?;
    let mut digit_count = at - first;
    let mut value = whole as f64;
    let mut byte = *text.get(at)?;
    if byte == b'.' {
        let (all, end) = digits(text, at + 1, whole)?;
        let fraction = end - at - 1;
        digit_count += fraction;
        if all > EXACT_INTEGERS || fraction == 0 {
            return None;
        }
        value = all as f64 / EXACT_POWERS.get(fraction)?;
        at = end;
        byte = *text.get(at)?;
    }
    (at > first && digit_count <= MAX_DIGITS && is_end(byte)).then_some((if negative { -value } else { value }, at))
}

/// The digits from `at` on behind the ones that make `value`, and where they end.
#[inline]
fn digits(text: &[u8], mut at: usize, mut value: u64) -> Option<(u64, usize)> {
    loop {
        let digit = text.get(at)?.wrapping_sub(b'0');
        if digit > 9 {
            return Some((value, at));
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
}

/// Any number: exponents, infinities, `NaN`, many digits.
#[cold]
fn any(text: &str) -> Option<(f64, usize)> {
    let length = text.bytes().position(is_end).unwrap_or(text.len());
    let value = text.get(..length)?.parse().ok()?;
    Some((value, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_read_as_the_standard_library_reads_them() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let whole = state >> (state % 60);
            let text = match state % 4 {
                0 => format!("{whole}"),
                1 => format!("-{}.{}", whole % 1_000_000, state % 100_000),
                2 => format!("{}.{:09}", whole % 1_000, state % 1_000_000_000),
                _ => format!("{whole}.{}", state % 10),
            };
            let (value, length) = read(&format!("{text}\n")).unwrap();
            let expected: f64 = text.parse().unwrap();
            assert_eq!(value.to_bits(), expected.to_bits(), "{text}");
            assert_eq!(length, text.len());
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["\n", "-\n", ".\n", "1.2.3\n", "1x\n", "0x10\n", "1_000\n", "--1\n", " \n", "é\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read("1e3 7\n"), Some((1000.0, 3)));
        assert_eq!(read("+Inf\n"), Some((f64::INFINITY, 4)));
        assert_eq!(read("-Inf\r\n"), Some((f64::NEG_INFINITY, 4)));
        assert!(read("NaN\n").unwrap().0.is_nan());
        assert_eq!(read("-0\n").unwrap().0.to_bits(), (-0.0_f64).to_bits());
        assert_eq!(read("5.\n"), Some((5.0, 2)));
        assert_eq!(read("18446744073709551616\n"), Some((18_446_744_073_709_551_616.0, 20)));
    }
}
