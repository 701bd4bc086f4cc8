//! HDR histogram logs of any tool: `HistogramLogWriter`'s lines, with tags or without, in whatever unit was recorded.
//!
//! ```text
//! #[Histogram log format version 1.3]
//! #[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:31:19 PDT 2015]
//! "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//! 0.127,1.007,2.769,HISTF…                       start and length in seconds, largest value, histogram
//! Tag=warmup delay send,1.134,0.999,0.442,HISTF…
//! ```
//!
//! C's `hdr_log_write` says `"EndTimestamp"` in its second column, and most of its users have it write that, by the
//! wall clock or by the machine's time since its start. Some write a length below that head, and so did Java's writer
//! once: the first lines tell which of the two can be. Where both can, it is an end where it is not before the first
//! start, and that is a time since 1970, or far larger than what lies between the two.

use std::io::{self, BufRead, ErrorKind, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use measure::{Metric, MetricKind, Problem};
use stacks::bounded::{self, Limited, Line};
use stacks::{read_problem, unpacked};

use crate::histogram_decode;
use crate::histogram_log::{MEASURED_FROM, MEASURED_UNTIL};
use crate::latency_slices::{LATEST, LatencySlices, counts};

/// Longer lines are no histograms: Java's widest shape takes less than 2 MB.
const LONGEST_LINE: u64 = 4 << 20;
/// Bytes of a log, unpacked; a packed one could go on for ever.
const LARGEST: u64 = 64 << 30;
/// Histograms are packed themselves, so that gzip gains little. Smaller logs are read, however small they were packed.
const MOST_PACKED: u64 = 25;
const UNPACKED_ANYWAY: u64 = 4 << 20;
/// Counters of all intervals of a tag together, eight bytes each.
const MOST_COUNTERS: u64 = 1 << 20;
/// Tags of a log; each takes memory.
const MOST_TAGS: usize = 16;
/// Lines that are noted one by one.
const MOST_NOTES: usize = 3;
/// Intervals of a tag that are so small a part of the time that they lie in leave most of it out.
const SPARSE: f64 = 0.5;
/// Values in flight at the end need no note up to one in so many.
const FEW_LATE: u64 = 100;
/// Characters of a quotation.
const LONGEST_QUOTE: usize = 60;
/// Metric of a log without tags.
const UNTAGGED: &str = "latency";
/// Tags of Artemis perf, with our metrics.
const ARTEMIS: [(&str, Metric); 3] =
    [("delay_send", Metric::SEND_DELAY), ("send", Metric::SEND_ACK), ("transfer", Metric::TRANSFER)];
/// End of every refusal.
const WHAT_IS_READ: &str = "name logs as HdrHistogram's HistogramLogWriter writes them: lines of start, length, \
                            largest value and histogram";
/// Intervals of a tag overlap if they are together so many times as long as their span.
const OVERLAPPING: f64 = 1.1;
/// Seconds that are no length, and no start of a log that counts from its own: they are of 1973.
const SINCE_1970: f64 = 1e8;
/// Start and length are clock times, not the log's own, if the start is so many lengths ago.
const LONG_AGO: f64 = 100.0;

/// The unit of the values in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogUnit {
    /// Written as `ns`.
    Nanoseconds = 1,
    /// Written as `us`.
    Microseconds = 1_000,
    /// Written as `ms`.
    Milliseconds = 1_000_000,
}

impl LogUnit {
    /// Its name in a sentence, and in comments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Microseconds => "microseconds",
            Self::Milliseconds => "milliseconds",
        }
    }

    /// Nanoseconds of one.
    pub const fn ns(self) -> u64 {
        self as u64
    }

    /// The unit that a comment names: `#[Latencies in nanoseconds, …]`.
    fn in_comment(comment: &str) -> Option<Self> {
        let comment = comment.to_lowercase();
        let at = |unit: Self| Some((comment.find(&format!("in {}", unit.name()))?, unit));
        let found = [Self::Nanoseconds, Self::Microseconds, Self::Milliseconds].into_iter().filter_map(at);
        found.min_by_key(|it| it.0).map(|it| it.1)
    }
}

/// Why a log's values are taken for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitSource {
    /// A comment of the log names it.
    Stated,
    /// Named by the user.
    Given,
    /// Microseconds, by the tags of Artemis perf.
    Artemis,
    /// The default of `HistogramLogProcessor`.
    Assumed,
}

/// Values of a log without its warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyLog {
    /// The file, as it was named.
    pub name: String,
    /// The unit of its values; here they are nanoseconds.
    pub unit: LogUnit,
    /// Why it is that.
    pub unit_source: UnitSource,
    /// The measured time in seconds: by comments, else from the first interval's start to the last one's end.
    pub seconds: f64,
    /// Whether its intervals overlap, as those of several recordings in a file do: its length is not known then.
    pub overlaps: bool,
    /// Values by tag, in the order of the file; a tag whose intervals are all empty has none.
    pub tags: Vec<LogTag>,
    /// Omitted parts, a sentence each.
    pub notes: Vec<String>,
}

/// Values of one tag.
#[derive(Clone, Debug, PartialEq)]
pub struct LogTag {
    /// Metric: tags are compared by letters and digits, so that `send_ack` and `send ack` are one.
    pub metric: Metric,
    /// Values in it.
    pub count: u64,
    /// Values of the measured time, of which the rate is: those that came later, or never, are none.
    pub measured: u64,
    /// Percentiles as `HistogramLogProcessor` prints them, in the order of [`LogTag::PERCENTILES`]; nanoseconds.
    pub percentiles: [u64; 4],
    /// Every value with its count, the smallest first; nanoseconds.
    pub values: Vec<(u64, u64)>,
    /// The values over time.
    pub slices: LatencySlices,
}

impl LogTag {
    /// The percentiles that are kept.
    pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

    /// The largest value.
    pub fn max(&self) -> u64 {
        self.values.last().map_or(0, |it| it.0)
    }

    /// Whether at least ten values lie beyond a percentile, so that it is reliable.
    pub fn supports(&self, percentile: f64) -> bool {
        measure::LatencySummary { count: self.count, ..Default::default() }.supports(percentile)
    }
}

impl LatencyLog {
    /// Reads a log, also one in gzip. `unit` is for logs that do not name theirs. A cut-off last line is skipped and
    /// noted. An error where it is no such log, or holds nothing but warm-up.
    pub fn read(path: &Path, unit: Option<LogUnit>) -> Result<Self, Problem> {
        let failed = |source: io::Error| read_problem(path, &source);
        let file = bounded::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let (lines, is_packed) = unpacked(file).map_err(failed)?;
        let name = path.display().to_string();
        match is_packed {
            true => {
                let most = length.saturating_mul(MOST_PACKED).clamp(UNPACKED_ANYWAY, LARGEST);
                Self::parse(&name, &mut Limited::of(lines, most), unit)
            }
            false => Self::parse(&name, &mut lines.take(LARGEST), unit),
        }
    }

    /// Reads a log in memory.
    pub fn parse(name: &str, lines: &mut dyn BufRead, unit: Option<LogUnit>) -> Result<Self, Problem> {
        let mut reading = LogReading::default();
        reading.read(name, lines)?;
        reading.finish(name, unit)
    }
}

/// A log that is being read.
#[derive(Default)]
struct LogReading {
    line_number: u64,
    /// Lines with an interval, those of the warm-up among them.
    intervals: u64,
    /// First start and last end of the readable intervals beyond the warm-up, and of those in comments.
    span: Option<(f64, f64)>,
    part: LogPart,
    tags: Vec<ReadTag>,
    /// All tags so far are Artemis perf's.
    is_artemis: bool,
    has_times: bool,
    /// The second column is called an end.
    names_ends: bool,
    /// Whether the second column must be an end, by the first lines together; `None` where both can be.
    told_ends: Option<bool>,
    /// Whether the second column is an end; by the first interval if `told_ends` is `None`.
    has_ends: Option<bool>,
    stated: Option<LogUnit>,
    /// Lines that were passed over, and why the first were.
    passed_over: u64,
    notes: Vec<String>,
    /// The first line that should be an interval and is none: why, and its text.
    first_cause: Option<(String, String)>,
}

/// Part of the run that the next intervals are of, by a comment.
#[derive(Clone, Copy, Default, PartialEq)]
enum LogPart {
    /// No comment yet: all but the warm-up is of the measured time.
    #[default]
    Unmarked,
    /// The measured time, also of answers to operations of the warm-up.
    Measured,
    /// After the measured time: late values, and operations never answered.
    Late,
}

/// A tag while its intervals are read.
struct ReadTag {
    raw: String,
    key: String,
    sum: Histogram<u64>,
    /// Values of the measured time, and those that came later.
    measured: u64,
    late: u64,
    slices: LatencySlices,
    /// Seconds of all its intervals together.
    covered: f64,
}

struct LogInterval<'a> {
    /// Empty where there is none.
    tag: &'a str,
    start: f64,
    length: f64,
    histogram: Histogram<u64>,
}

impl LogReading {
    fn read(&mut self, name: &str, lines: &mut dyn BufRead) -> Result<(), Problem> {
        let mut bytes = Vec::new();
        // Errors appear when it is read.
        self.told_ends = lines.fill_buf().ok().and_then(holds_ends);
        loop {
            self.line_number += 1;
            let number = self.line_number;
            let is_last = match bounded::next_line(lines, LONGEST_LINE, &mut bytes) {
                Ok(Line::None) => return Ok(()),
                Ok(Line::Whole) => false,
                Ok(Line::CutOff) => true,
                Ok(Line::TooLong) => {
                    let cause = format!("line {number} has no end");
                    self.first_cause.get_or_insert((cause.clone(), quote(&bytes)));
                    self.notes.push(format!("{cause}: read up to there"));
                    return Ok(());
                }
                Err(e) if is_end(&e) => {
                    self.notes.push(format!("its compressed data is cut off or damaged: read up to line {number}"));
                    return Ok(());
                }
                Err(e) => return Err(read_problem(Path::new(name), &e)),
            };
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim();
            if let Some(comment) = text.strip_prefix('#') {
                self.comment(comment);
            } else if text.starts_with('"') {
                self.names_ends = text.contains("EndTimestamp");
            } else if !text.is_empty() {
                self.line(name, text, is_last)?;
            }
        }
    }

    fn comment(&mut self, text: &str) {
        self.stated = self.stated.or_else(|| LogUnit::in_comment(text));
        if text.contains("StartTime:") || text.contains("BaseTime:") {
            self.has_times = true;
            // Of several logs in one file each has a measured time.
            self.part = LogPart::Unmarked;
        } else if let Some(from) = seconds_after(MEASURED_FROM, text) {
            self.part = LogPart::Measured;
            self.extend(from, from);
        } else if let Some(until) = seconds_after(MEASURED_UNTIL, text)
            && self.span.is_some()
        {
            self.part = LogPart::Late;
            self.extend(until, until);
        }
    }

    fn extend(&mut self, start: f64, end: f64) {
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
    }

    fn line(&mut self, name: &str, text: &str, is_last: bool) -> Result<(), Problem> {
        let number = self.line_number;
        let refused = match interval(text) {
            Ok(mut interval) => {
                let is_end = self.told_ends.unwrap_or_else(|| ends_at(interval.start, interval.length));
                if *self.has_ends.get_or_insert(self.names_ends && is_end) {
                    interval.length = (interval.length - interval.start).max(0.0);
                }
                self.add(name, &interval)?
            }
            Err(cause) => Some(cause),
        };
        let Some(cause) = refused else { return Ok(()) };
        if is_last {
            let read = self.span.map_or(0.0, |(start, end)| end - start);
            self.notes.push(format!("its last line, {number}, is cut off: read up to there, {read:.0} s"));
        } else {
            self.passed_over += 1;
            if self.passed_over as usize <= MOST_NOTES {
                self.notes.push(format!("line {number} is passed over: {cause}"));
            }
        }
        self.first_cause.get_or_insert_with(|| (format!("line {number}: {cause}"), quote(text.as_bytes())));
        Ok(())
    }

    /// Adds an interval; an error where it does not fit.
    fn add(&mut self, name: &str, of: &LogInterval<'_>) -> Result<Option<String>, Problem> {
        let (raw, is_warmup) = without_warmup(of.tag);
        let key = key_of(raw);
        self.is_artemis = (self.intervals == 0 || self.is_artemis) && ARTEMIS.iter().any(|it| it.0 == key);
        self.intervals += 1;
        if is_warmup && self.part != LogPart::Measured {
            return Ok(None);
        }
        let digits = of.histogram.sigfig();
        let part = self.part;
        let tag = match self.tag(raw, key, digits) {
            Ok(tag) => tag,
            Err(cause) => return Ok(Some(cause)),
        };
        if tag.raw != raw {
            return Err(Problem::new(
                format!("{name} has two tags that read alike"),
                format!("{:?} and {:?}", tag.raw, raw),
                "tags differ by letters and digits only: leave one of them out of the log",
            ));
        }
        if is_warmup {
            tag.measured = tag.measured.saturating_add(of.histogram.len());
            return Ok(None);
        }
        let (digits, most) = (tag.sum.sigfig(), of.histogram.max());
        let counters = histogram_decode::counters(digits.into(), 1, most.max(2));
        if counters.is_none_or(|it| it > MOST_COUNTERS) {
            return Ok(Some("its values span too wide a range".to_owned()));
        }
        if tag.sum.add(&of.histogram).is_err() {
            return Ok(Some("its histogram does not fit those before it".to_owned()));
        }
        tag.slices.add(of.start, of.length, &of.histogram);
        let values = if part == LogPart::Late { &mut tag.late } else { &mut tag.measured };
        *values = values.saturating_add(of.histogram.len());
        if part != LogPart::Late {
            tag.covered += of.length;
            self.extend(of.start, of.start + of.length);
        }
        Ok(None)
    }

    /// Entry of a tag, new or known; an error where it is one too many.
    fn tag(&mut self, raw: &str, key: String, digits: u8) -> Result<&mut ReadTag, String> {
        let known = self.tags.iter().position(|tag| tag.key == key);
        if known.is_none() {
            if self.tags.len() >= MOST_TAGS {
                return Err(format!("it has more than {MOST_TAGS} tags"));
            }
            self.tags.push(ReadTag {
                raw: raw.to_owned(),
                key,
                sum: Histogram::new(digits).map_err(|_| "its digits are invalid")?,
                measured: 0,
                late: 0,
                slices: LatencySlices::default(),
                covered: 0.0,
            });
        }
        let at = known.unwrap_or(self.tags.len() - 1);
        self.tags.get_mut(at).ok_or_else(String::new)
    }

    fn finish(mut self, name: &str, given: Option<LogUnit>) -> Result<LatencyLog, Problem> {
        let more = self.passed_over.saturating_sub(MOST_NOTES as u64);
        if more > 0 {
            self.notes.push(format!("{} passed over, too", measure::counted(more, "more line")));
        }
        if self.has_ends == Some(true) {
            self.notes
                .push("its second column holds the ends of intervals, as C's hdr_log_write writes them".to_owned());
        }
        let Some((start, end)) = self.span.filter(|_| !self.tags.is_empty()) else { return Err(self.refused(name)) };
        self.note_late();
        let overlaps = self.covers(end - start);
        let is_artemis = self.is_artemis && !self.has_times;
        let (unit, unit_source) = match (self.stated, given) {
            (Some(unit), _) => (unit, UnitSource::Stated),
            (None, Some(unit)) => (unit, UnitSource::Given),
            (None, None) if is_artemis => (LogUnit::Microseconds, UnitSource::Artemis),
            (None, None) => (LogUnit::Nanoseconds, UnitSource::Assumed),
        };
        let mut tags = Vec::new();
        for tag in self.tags {
            let metric = ARTEMIS.iter().find(|it| is_artemis && it.0 == tag.key).map(|it| it.1);
            match metric.or_else(|| Metric::named(&tag.key, MetricKind::Histogram)) {
                Some(metric) => tags.push(tag.told(metric, unit.ns())),
                None => self.notes.push(format!("the tag {} is left out: there are too many different ones", tag.key)),
            }
        }
        if tags.iter().all(|it: &LogTag| it.count == 0) {
            return Err(Problem::new(
                format!("{name} holds no value"),
                measure::counted(self.intervals, "empty interval"),
                "record for longer, or name another log",
            ));
        }
        Ok(LatencyLog {
            name: name.to_owned(),
            unit,
            unit_source,
            seconds: end - start,
            overlaps,
            tags,
            notes: self.notes,
        })
    }

    /// Notes the values that the rates leave out, of the tag with the most.
    fn note_late(&mut self) {
        let most = self.tags.iter().max_by_key(|it| it.late);
        if let Some(tag) = most.filter(|it| it.late > it.sum.len() / FEW_LATE) {
            self.notes.push(format!(
                "{} of {} of {} came after the measured time, or never: rates leave them out",
                tag.late,
                measure::counted(tag.sum.len(), "value"),
                tag.raw
            ));
        }
    }

    /// Whether intervals overlap between the first and the last; notes that, and where they leave most of it out.
    fn covers(&mut self, seconds: f64) -> bool {
        let covered = self.tags.iter().map(|it| it.covered).fold(0.0, f64::max);
        let overlaps = covered > seconds * OVERLAPPING;
        if overlaps {
            self.notes.push(format!(
                "its intervals overlap, {covered:.0} s of them in {seconds:.0} s: it holds several recordings of \
                 unknown length"
            ));
        } else if covered < seconds * SPARSE {
            self.notes.push(format!("its intervals are {covered:.0} s of {seconds:.0} s: rates are of the whole time"));
        }
        overlaps
    }

    /// Why a log without any measured interval is none.
    fn refused(self, name: &str) -> Problem {
        match (self.intervals, self.first_cause) {
            (0, Some((cause, text))) => {
                Problem::new(format!("{name} is not an HDR histogram log ({cause})"), text, WHAT_IS_READ)
            }
            (0, None) => Problem::new(
                format!("{name} holds no interval"),
                measure::counted(self.line_number - 1, "comment line"),
                WHAT_IS_READ,
            ),
            (warmup, _) => Problem::new(
                format!("{name} holds nothing but warm-up"),
                measure::counted(warmup, "interval"),
                "record for longer: intervals whose tag begins with `warmup` do not count",
            ),
        }
    }
}

impl ReadTag {
    fn told(mut self, metric: Metric, ns: u64) -> LogTag {
        self.slices.scale(ns);
        // A little less, so that rounding in the product with the count takes no rank more, as Java does.
        let at = |percentile: f64| self.sum.value_at_percentile(percentile.next_down()).saturating_mul(ns);
        LogTag {
            metric,
            count: self.sum.len(),
            measured: self.measured,
            percentiles: LogTag::PERCENTILES.map(at),
            values: counts(&self.sum).map(|(value, count)| (value.saturating_mul(ns), count)).collect(),
            slices: self.slices,
        }
    }
}

fn seconds_after(mark: &str, comment: &str) -> Option<f64> {
    let text = comment.strip_prefix(mark)?.split_whitespace().next()?;
    text.parse().ok().filter(|it: &f64| it.abs() < LATEST)
}

/// Reads a line with an interval; an error where it is none.
fn interval(line: &str) -> Result<LogInterval<'_>, String> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => tagged.split_once(',').ok_or("nothing follows its tag")?,
        None => ("", line),
    };
    let fields: Vec<&str> = rest.split(',').map(str::trim).collect();
    let [start, length, _largest, encoded] = fields.as_slice() else {
        return Err(format!(
            "it has {} instead of start, length, largest value and histogram",
            measure::counted(fields.len() as u64, "field")
        ));
    };
    let number = |text: &str, what: &str| {
        let value = text.parse::<f64>().ok().filter(|it| it.is_finite());
        value.ok_or_else(|| format!("{what} {:?} is not a number", quote(text.as_bytes())))
    };
    let (start, length) = (number(start, "the start")?, number(length, "the length")?);
    if start.abs() >= LATEST || !(0.0..LATEST).contains(&length) {
        return Err(format!("an interval of {length:?} s from {start:?} is invalid"));
    }
    let bytes = STANDARD.decode(encoded).map_err(|e| format!("base64: {e}"))?;
    Ok(LogInterval { tag: tag.trim(), start, length, histogram: histogram_decode::decode(&bytes)? })
}

/// A tag without its mark of the warm-up, and whether it had one.
fn without_warmup(tag: &str) -> (&str, bool) {
    const WARMUP: usize = "warmup".len();
    let is_warmup = tag.get(..WARMUP).is_some_and(|begin| begin.eq_ignore_ascii_case("warmup"));
    let rest = tag.get(WARMUP..).unwrap_or_default();
    match is_warmup && !rest.starts_with(char::is_alphanumeric) {
        true => (rest.trim_start_matches([' ', '_', '-']), true),
        false => (tag, false),
    }
}

/// The key of the metric that a tag names.
fn key_of(tag: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    let key: String = tag.chars().map(plain).take(LONGEST_QUOTE).collect();
    let key = key.trim_matches('_');
    if key.is_empty() { UNTAGGED } else { key }.to_owned()
}

/// Whether an error says that packed bytes end too early or make no sense.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData)
}

fn quote(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(LONGEST_QUOTE).collect()
}

/// Whether the second column of an interval is its end, where it may be its length, too.
fn ends_at(start: f64, second: f64) -> bool {
    let between = second - start;
    let is_of_a_clock = start >= SINCE_1970 || between > 0.0 && start >= LONG_AGO * between;
    between >= 0.0 && is_of_a_clock
}

/// Whether the second column of these first lines holds ends, and not lengths; `None` where both can be.
fn holds_ends(start: &[u8]) -> Option<bool> {
    let whole = start.iter().rposition(|&byte| byte == b'\n')?;
    let text = String::from_utf8_lossy(start.get(..whole)?);
    let times = text.lines().filter_map(|line| {
        let tagged = line.strip_prefix("Tag=").map(|it| it.split_once(','));
        let (_, line) = tagged.unwrap_or(Some(("", line)))?;
        let mut numbers = line.split(',').map(|it| it.trim().parse::<f64>().ok());
        let times = (numbers.next()??, numbers.next()??);
        (times.0.is_finite() && times.1.is_finite()).then_some(times)
    });
    let mut times: Vec<(f64, f64)> = times.collect();
    // Tags of one interval.
    times.dedup();
    let ((first, _), (last, second)) = (*times.first()?, *times.last()?);
    if times.len() < 2 {
        return None;
    }
    if times.iter().any(|(start, second)| second < start) {
        return Some(false);
    }
    let sum: f64 = times.iter().map(|it| it.1).sum();
    let starts: f64 = times.iter().map(|it| it.0).sum();
    let can_be_ends = sum - starts <= OVERLAPPING * (second - first);
    let can_be_lengths = sum <= OVERLAPPING * (last + second - first);
    (can_be_ends != can_be_lengths).then_some(can_be_ends)
}
