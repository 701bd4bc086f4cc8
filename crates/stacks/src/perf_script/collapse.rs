//! Folding the text of `perf script` exactly as `stackcollapse-perf.pl` does.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::ops::AddAssign;

use super::LONGEST_LINE;
use super::line::{self, Form, FrameLine, Header};
use crate::bounded::{self, Line};

const LARGEST_STACK: usize = 16 << 20;
/// Bytes of memory that all distinct stacks may take.
const MOST_BYTES: usize = 1 << 30;

/// Choices for folding: the flags of `stackcollapse-perf.pl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollapseOptions {
    /// Add the process's number to its name.
    pub pid: bool,
    /// Add the numbers of process and thread to the name.
    pub tid: bool,
    /// Mark functions of the kernel with `_[k]`.
    pub kernel: bool,
    /// Mark compiled functions with `_[j]`.
    pub jit: bool,
    /// Show the address of a function without a name.
    pub addresses: bool,
    /// The line behind each frame holds its place in the source.
    pub source_lines: bool,
    /// Fold the samples of this event; of the first one's where none is given.
    pub event: Option<String>,
}

/// Tells the functions at a file's address, joined by `;`: address, function with its offset, file.
pub type Inlined<'a> = dyn FnMut(&[u8], &[u8], &[u8]) -> Option<Vec<u8>> + 'a;

/// Distinct stacks, and how much each counts.
#[derive(Debug, Default)]
pub struct Collapse {
    options: CollapseOptions,
    /// The event whose samples count, once that is known.
    event: Option<Vec<u8>>,
    totals: HashMap<Vec<u8>, Total>,
    /// Bytes taken by `totals`, estimated.
    taken: usize,
    sample: Current,
    other_events: u64,
    mixed: MixedEvents,
    /// Samples without a stack, whose end no empty line marks.
    without_stacks: u64,
    /// Lines that were nothing known, and the first of them.
    unknown: (u64, String),
}

/// Samples whose event is followed by text, as a tracepoint's is: folded with the others, as the script does.
#[derive(Debug, Default)]
struct MixedEvents {
    samples: u64,
    first: Vec<u8>,
    differ: bool,
}

impl MixedEvents {
    fn add(&mut self, event: &[u8]) {
        self.samples += 1;
        if self.samples == 1 {
            self.first = event.to_vec();
        }
        self.differ |= self.first != event;
    }
}

/// The sample that is being read.
#[derive(Debug, Default)]
struct Current {
    /// The name that its stack begins with; `None` between samples, and in one that is left out.
    name: Option<Vec<u8>>,
    period: Option<Total>,
    /// Frames from the leaf up, one behind the other.
    frames: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Current {
    fn push(&mut self, frame: &[u8]) {
        self.frames.extend_from_slice(frame);
        self.ends.push(self.frames.len());
    }

    /// The stack as a line without its count, where the sample counts.
    fn end(&mut self) -> Option<(Vec<u8>, Total)> {
        let mut line = self.name.take()?;
        for at in (0..self.ends.len()).rev() {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            line.push(b';');
            line.extend_from_slice(&self.frames[start..self.ends[at]]);
        }
        self.frames.clear();
        self.ends.clear();
        Some((line, self.period.unwrap_or(Total::Exact(1))))
    }
}

impl Collapse {
    /// Nothing yet.
    pub fn new(options: CollapseOptions) -> Self {
        let event = options.event.as_ref().map(|it| it.as_bytes().to_vec());
        Self { event: event.filter(|event| !event.is_empty()), options, ..Self::default() }
    }

    /// Reads the text of `perf script` to its end. The inner error says why it is not read further.
    pub fn read(
        &mut self,
        input: &mut dyn BufRead,
        mut inlined: Option<&mut Inlined<'_>>,
    ) -> io::Result<Result<(), String>> {
        let (mut text, mut source) = (Vec::new(), Vec::new());
        let form = Form::of_text(input.fill_buf()?);
        loop {
            match bounded::next_line(input, LONGEST_LINE, &mut text)? {
                Line::Whole | Line::CutOff => {}
                Line::None => {
                    self.next_sample();
                    return Ok(Ok(()));
                }
                Line::TooLong => return Ok(Err(too_long())),
            }
            let text = text.as_slice();
            if text.first() == Some(&b'#') {
                continue;
            }
            if text.is_empty() {
                self.end_sample();
            } else if let Some(known) = form.header(text) {
                // The script takes names of one character for a part of what follows.
                if !known.is_sideband() {
                    self.next_sample();
                    match Header::parse(text) {
                        Some(header) => self.begin(&header),
                        None => self.without_stacks += 1,
                    }
                }
            } else if let Some(frame) = FrameLine::parse(text) {
                if self.sample.name.is_none() {
                    continue;
                }
                let known = inlined
                    .as_mut()
                    .filter(|_| line::is_plain_file(frame.module))
                    .and_then(|tell| tell(frame.address, frame.function, frame.module));
                if let Some(functions) = known {
                    self.sample.push(&functions);
                } else if !self.frame(&frame, input, &mut source)? {
                    return Ok(Err(too_long()));
                }
            } else {
                self.unknown.0 += 1;
                if self.unknown.0 == 1 {
                    let text = String::from_utf8_lossy(text);
                    self.unknown.1 = text.chars().take(60).collect();
                }
            }
            if self.sample.frames.len() > LARGEST_STACK || self.taken > MOST_BYTES {
                return Ok(Err(too_large()));
            }
        }
    }

    /// Writes a line for each stack, in the order of their bytes.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut lines: Vec<_> = self.totals.iter().collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        for (line, total) in lines {
            out.write_all(line)?;
            writeln!(out, " {total}")?;
        }
        Ok(())
    }

    /// How many stacks there are.
    pub fn stacks(&self) -> usize {
        self.totals.len()
    }

    /// How many samples are left out because they have no stacks, as the script leaves them out.
    pub const fn without_stacks(&self) -> u64 {
        self.without_stacks
    }

    /// Notes of samples left out.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.other_events > 0 && self.options.event.is_none() {
            let event = String::from_utf8_lossy(self.event.as_deref().unwrap_or_default());
            notes.push(format!(
                "only the samples of the first event, {event}, are folded; {} of other events are left out \
                 (--event-filter chooses)",
                self.other_events
            ));
        }
        if self.mixed.samples > 0 && (self.mixed.differ || self.event.is_some()) {
            notes.push(format!(
                "{} samples of {} and the like are folded with the others, because stackcollapse-perf.pl does not see \
                 their event (`perf script -F -trace` shows it)",
                self.mixed.samples,
                String::from_utf8_lossy(&self.mixed.first)
            ));
        }
        let (count, first) = &self.unknown;
        if *count > 0 {
            notes.push(if *count == 1 {
                format!("one line is neither a sample nor a frame: `{first}`")
            } else {
                format!("{count} lines are neither a sample nor a frame; the first is `{first}`")
            });
        }
        notes
    }

    /// The first line of a sample.
    fn begin(&mut self, header: &Header<'_>) {
        let mut period = None;
        if let Some(event) = header.event {
            let wanted = self.event.get_or_insert_with(|| event.name.to_vec());
            if wanted != event.name {
                self.other_events += 1;
                return;
            }
            period = event.period;
        } else if let Some(event) = header.sampled_event() {
            self.mixed.add(event.name);
        }
        self.sample.period = period.map(Total::of);
        let mut name = header.comm.to_vec();
        let pid = header.pid.unwrap_or(b"?");
        if self.options.tid {
            name = [name.as_slice(), b"-", pid, b"/", header.tid].concat();
        } else if self.options.pid {
            name = [name.as_slice(), b"-", pid].concat();
        }
        for byte in name.iter_mut().filter(|byte| **byte == b' ') {
            *byte = b'_';
        }
        self.sample.name = Some(name);
    }

    /// No empty line was behind the last sample.
    fn next_sample(&mut self) {
        let is_bare = self.sample.name.is_some() && self.sample.ends.is_empty();
        self.without_stacks += u64::from(is_bare);
    }

    /// The empty line behind a sample.
    fn end_sample(&mut self) {
        let Some((line, period)) = self.sample.end() else { return };
        if let Some(total) = self.totals.get_mut(&line) {
            *total += period;
            return;
        }
        self.taken += line.len() + 96;
        self.totals.insert(line, period);
    }

    /// Adds a frame; inlined ones stand below it. `false` where the line of its source has no end.
    fn frame(&mut self, frame: &FrameLine<'_>, input: &mut dyn BufRead, source: &mut Vec<u8>) -> io::Result<bool> {
        let function = line::without_offset(frame.function);
        // The name of a process, as some versions print it.
        if function.first() == Some(&b'(') {
            return Ok(true);
        }
        let java = self.sample.name.as_deref();
        let java = java.is_some_and(|name| name.starts_with(b"java"));
        let mut joined = Vec::new();
        let mut pieces = 0u32;
        // What is inlined into code of no file has no line either.
        let mut without_module = false;
        for piece in line::with_inlined(function) {
            let is_unknown = piece == b"[unknown]";
            let named = if is_unknown { self.unnamed(frame) } else { piece.to_vec() };
            let mut named = line::tidied(&named, java);
            self.mark(&mut named, frame.module, pieces > 0);
            without_module |= is_unknown && frame.module == b"[unknown]";
            if self.options.source_lines && !without_module {
                match bounded::next_line(input, LONGEST_LINE, source)? {
                    Line::TooLong => return Ok(false),
                    Line::None => source.clear(),
                    Line::Whole | Line::CutOff => {}
                }
                let place = without_brackets(source);
                let start = place.iter().position(|&byte| !line::is_blank(byte));
                let place = line::trim_end(start.map_or(&[], |start| &place[start..]));
                if !place.is_empty() {
                    named.push(b':');
                    named.extend_from_slice(place);
                }
            }
            if pieces > 0 {
                joined.push(b';');
            }
            joined.extend_from_slice(&named);
            pieces += 1;
        }
        if pieces > 0 {
            self.sample.push(&joined);
        }
        Ok(true)
    }

    /// Name for a function without one: after its module.
    fn unnamed(&self, frame: &FrameLine<'_>) -> Vec<u8> {
        let module = match frame.module {
            b"[unknown]" => b"unknown".as_slice(),
            module => line::file_name(module),
        };
        match self.options.addresses {
            true => [b"[".as_slice(), module, b" <", frame.address, b">]"].concat(),
            false => [b"[".as_slice(), module, b"]"].concat(),
        }
    }

    /// Adds what kind of code it is to a function's name.
    fn mark(&self, name: &mut Vec<u8>, module: &[u8], inlined: bool) {
        let has = |name: &[u8], mark: &[u8]| name.windows(mark.len()).any(|it| it == mark);
        if inlined {
            if !has(name, b"_[i]") {
                name.extend_from_slice(b"_[i]");
            }
        } else if self.options.kernel && line::is_kernel(module) {
            name.extend_from_slice(b"_[k]");
        } else if self.options.jit && line::is_jit_map(module) && !has(name, b"_[j]") {
            name.extend_from_slice(b"_[j]");
        }
    }
}

/// A text without what stands in brackets, from each `[` to the next `]`.
fn without_brackets(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.iter().position(|&byte| byte == b'[') {
        let Some(length) = rest[open..].iter().position(|&byte| byte == b']') else { break };
        out.extend_from_slice(&rest[..open]);
        rest = &rest[open + length + 1..];
    }
    out.extend_from_slice(rest);
    out
}

fn too_long() -> String {
    format!("one of its lines has more than {LONGEST_LINE} bytes, and none of `perf script` has")
}

fn too_large() -> String {
    format!(
        "its stacks would take too much memory (more than {} MiB for one, or {} MiB for all that differ)",
        LARGEST_STACK >> 20,
        MOST_BYTES >> 20
    )
}

/// A sum of periods: exact as far as 64 bits go, then as floating point, as Perl adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Total {
    Exact(u64),
    Rounded(f64),
}

impl Total {
    /// A period in digits.
    pub(super) fn of(digits: &[u8]) -> Self {
        let text = std::str::from_utf8(digits).unwrap_or_default();
        text.parse().map(Self::Exact).unwrap_or_else(|_| Self::Rounded(text.parse().unwrap_or(0.0)))
    }

    fn rounded(self) -> f64 {
        match self {
            Self::Exact(value) => value as f64,
            Self::Rounded(value) => value,
        }
    }

    /// The sum as a whole number, the largest one where it is larger.
    pub(super) fn saturated(self) -> u64 {
        match self {
            Self::Exact(value) => value,
            Self::Rounded(value) => value as u64,
        }
    }
}

impl AddAssign for Total {
    fn add_assign(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Exact(a), Self::Exact(b)) if a.checked_add(b).is_some() => Self::Exact(a + b),
            (a, b) => Self::Rounded(a.rounded() + b.rounded()),
        };
    }
}

/// Fifteen digits, without zeros at their end: C's `%.15g` for what is too large for 64 bits.
impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exact(value) => value.fmt(f),
            Self::Rounded(value) if value.is_infinite() => f.write_str("Inf"),
            Self::Rounded(value) => {
                let text = format!("{value:.14e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let digits = digits.trim_end_matches('0').trim_end_matches('.');
                write!(f, "{digits}e+{exponent:0>2}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_64_bits_are_rounded_and_not_wrapped() {
        let mut total = Total::of(b"18446744073709551615");
        assert_eq!(total.to_string(), "18446744073709551615");
        total += Total::Exact(1);
        assert_eq!(total.to_string(), "1.84467440737096e+19");
        assert_eq!(Total::of(b"20000000000000000000").to_string(), "2e+19", "zeros at the end are left out");
        assert_eq!(total.saturated(), u64::MAX);
        assert_eq!(Total::of("9".repeat(400).as_bytes()).to_string(), "Inf");
        assert_eq!(Total::of(b"007").to_string(), "7");
    }
}
