//! `latency.hlog`: HDR V2 logs, as Java's `HistogramLogProcessor` reads them.
//!
//! ```text
//! #[StartTime: 1795219953.000 (seconds since epoch), 2026-11-21T00:12:33Z]
//! Tag=warmup_send_ack,0.000000,1.000131,4.211,HISTFAAAA…
//! Tag=send_ack,5.000131,1.000090,2.117,HISTFAAAA…
//!     tag, start and length in seconds, largest value in ms, base64 of the deflated V2 form
//! ```
//!
//! Tags are the metrics' names with `_` for the blank: Java's reader takes a blank for the end of
//! a field (`HistogramLogScanner`, delimiter `[ ,\r\n]`) and then refuses the whole log.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use measure::{DueHistogram, Interval, Metric, MetricKind, Phase, Time};

use crate::error::where_present;
use crate::files::LineFile;
use crate::{Error, file, histogram_decode};
use stacks::{bounded, bounded::Line};

/// Tag prefix of histograms of the warm-up: operations due in it, whenever they were answered.
const WARMUP: &str = "warmup_";
/// HistogramLogProcessor's default `-outputValueUnitRatio`: nanoseconds in the histogram, milliseconds for people.
const NS_PER_MS: f64 = 1e6;
/// Longer lines are no histograms: the product's shape takes at most 300 kB.
const LONGEST_LINE: u64 = 4 << 20;

/// Tag of a metric in the phase in which its values were due; none are due in the drain.
pub(crate) fn tag(metric: Metric, due: Phase) -> String {
    let info = metric.info();
    let spelled = info.name.replace(' ', "_");
    let name = if spelled.replace('-', "_") == info.key { spelled.as_str() } else { info.key };
    if due == Phase::Warmup { format!("{WARMUP}{name}") } else { name.to_owned() }
}

/// Metric and phase of a tag; registers a new metric. `None` if the tag is no name of one.
fn metric_of(tag: &str) -> Option<(Metric, Phase)> {
    let (name, phase) = match tag.strip_prefix(WARMUP) {
        Some(name) => (name, Phase::Warmup),
        None => (tag, Phase::Measure),
    };
    let metric = Metric::named(&name.replace('-', "_"), MetricKind::Histogram)?;
    Some((metric, phase))
}

/// Appends histograms; opens the file with its header when the first arrives.
#[derive(Debug, Default)]
pub(crate) struct HistogramLogWriter {
    lines: Option<LineFile>,
    /// The last mark that was written.
    marked: Option<&'static str>,
}

/// Comment that holds the start of the measured phase, as an interval without values has no line.
pub(crate) const MEASURED_FROM: &str = "[MeasuredFrom: ";
/// Comment that holds its end; later values came late, or never, and have no part in rates.
pub(crate) const MEASURED_UNTIL: &str = "[MeasuredUntil: ";

impl HistogramLogWriter {
    /// Appends one line for each metric and each step of the interval that has values, and for those
    /// of the warm-up that were answered after it. `origin` is the start
    /// of the log by the monotonic and the wall clock (ns since 1970).
    pub(crate) fn append(&mut self, path: &Path, origin: (Time, u64), interval: &Interval) -> io::Result<()> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => self.lines.insert(begin(path, origin.1)?),
        };
        let mark = match interval.phase {
            Phase::Warmup => None,
            Phase::Measure => Some(MEASURED_FROM),
            Phase::Drain => Some(MEASURED_UNTIL),
        };
        if let Some(mark) = mark.filter(|it| self.marked.replace(*it) != Some(*it)) {
            let at = interval.start.since(origin.0).as_secs_f64();
            lines.append(format!("#{mark}{at:.6} (seconds since the start)]").as_bytes())?;
        }
        for DueHistogram { due, metric, histogram } in interval.histograms() {
            let line = format!(
                "Tag={},{:.6},{:.6},{:.3},{}",
                tag(metric, due),
                interval.start.since(origin.0).as_secs_f64(),
                interval.length().as_secs_f64(),
                histogram.max() as f64 / NS_PER_MS,
                encode_histogram(histogram)?,
            );
            lines.append(line.as_bytes())?;
        }
        Ok(())
    }
}

/// A histogram as the last field of a log's line has it: base64 of the deflated V2 form.
pub fn encode_histogram(histogram: &Histogram<u64>) -> io::Result<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(io::Error::other)?;
    Ok(STANDARD.encode(&bytes))
}

fn begin(path: &Path, origin_unix_ns: u64) -> io::Result<LineFile> {
    let mut lines = LineFile::new(path.to_path_buf());
    let start = jiff::Timestamp::from_nanosecond(i128::from(origin_unix_ns)).unwrap_or_default();
    let header = format!(
        "#[Latencies in nanoseconds, largest values in milliseconds, written by bellows {}]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {:.3} (seconds since epoch), {start:.0}]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"",
        env!("CARGO_PKG_VERSION"),
        origin_unix_ns as f64 / 1e9,
    );
    lines.append(header.as_bytes())?;
    Ok(lines)
}

/// One histogram of the log.
#[derive(Clone, Debug)]
pub struct HistogramRecord {
    /// Metric of its values.
    pub metric: Metric,
    /// The phase in which it was due: [`Phase::Warmup`], or [`Phase::Measure`], also of answers in the drain.
    pub due: Phase,
    /// Start in seconds since the run's origin.
    pub t: f64,
    /// Length in seconds.
    pub dt: f64,
    /// The values, in nanoseconds.
    pub histogram: Histogram<u64>,
}

impl HistogramRecord {
    /// The record for [`measure::Recorder::add_due`].
    pub const fn as_due(&self) -> DueHistogram<'_> {
        DueHistogram { due: self.due, metric: self.metric, histogram: &self.histogram }
    }
}

/// Reads the histograms of a log one by one, in memory that does not grow. Senseless lines are passed over.
#[derive(Debug)]
pub struct HistogramLog {
    lines: Option<BufReader<File>>,
    left_out: Vec<Metric>,
}

impl HistogramLog {
    /// Opens the log of a run folder, to read all but these latencies; a missing one is empty.
    pub(crate) fn open(dir: &Path, left_out: Vec<Metric>) -> Result<Self, Error> {
        let path = dir.join(file::HISTOGRAMS);
        Ok(Self { lines: where_present(bounded::open(&path), &path)?.map(BufReader::new), left_out })
    }

    fn parse(line: &str) -> Option<HistogramRecord> {
        let mut fields = line.splitn(5, ',');
        let tag = fields.next()?.strip_prefix("Tag=")?;
        let mut number = || fields.next()?.parse::<f64>().ok().filter(|value| value.is_finite());
        let (t, dt) = (number()?, number()?);
        // Behind the largest value, which the histogram has, too.
        let encoded = fields.nth(1)?;
        let (metric, due) = metric_of(tag)?;
        let histogram = histogram_decode::decode(&STANDARD.decode(encoded).ok()?).ok()?;
        Some(HistogramRecord { metric, due, t, dt, histogram })
    }
}

impl Iterator for HistogramLog {
    type Item = HistogramRecord;

    fn next(&mut self) -> Option<HistogramRecord> {
        let mut line = Vec::new();
        while let Ok(Line::Whole | Line::CutOff) = bounded::next_line(self.lines.as_mut()?, LONGEST_LINE, &mut line) {
            let record = Self::parse(String::from_utf8_lossy(&line).trim_end());
            if let Some(record) = record.filter(|it| !self.left_out.contains(&it.metric)) {
                return Some(record);
            }
        }
        self.lines = None;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_hold_no_blank_and_are_found_again() {
        for metric in Metric::MESSAGES {
            for phase in [Phase::Warmup, Phase::Measure] {
                let tag = tag(metric, phase);
                assert!(!tag.contains([' ', ',']), "{tag}");
                assert_eq!(metric_of(&tag), Some((metric, phase)));
            }
            assert_eq!(tag(metric, Phase::Drain), tag(metric, Phase::Measure));
        }
    }

    #[test]
    fn rates_are_of_what_the_measured_phase_answered_and_of_all_its_time() {
        use Phase::{Drain, Measure, Warmup};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file::HISTOGRAMS);
        let mut log = HistogramLogWriter::default();
        let origin = (Time(1_000), 0);
        // It hangs at first, answers, and hangs until the end; then what was never answered stands in an instant.
        let mut intervals = vec![(0, Warmup, 50, 0), (1, Measure, 0, 0), (2, Measure, 95, 5)];
        intervals.extend([(3, Measure, 0, 0), (4, Measure, 0, 0), (5, Drain, 7, 0), (6, Drain, 293, 0)]);
        for (second, phase, values, of_warmup) in intervals {
            let mut interval = Interval::new();
            let start = origin.0 + measure::Nanos::from_millis(1_000 * second);
            interval.reset(start, phase);
            interval.end = start + measure::Nanos::from_millis(if second < 6 { 1_000 } else { 0 });
            let took = measure::Nanos(5_000);
            interval.latencies.record_n(Metric::SEND_ACK, took, values);
            let carried = interval.carried.get_or_insert_default();
            carried.record_n(Metric::SEND_ACK, took, of_warmup);
            log.append(&path, origin, &interval).unwrap();
        }
        let read = crate::LatencyLog::read(&path, None).unwrap();
        let tag = &read.tags[0];
        assert_eq!((tag.count, tag.measured, read.seconds), (395, 100, 4.0));
        testkit::assert_has(read.notes.join("; "), ["300 of 395 values of send_ack came after"]);
        let lines = std::fs::read_to_string(&path).unwrap();
        for mark in [MEASURED_FROM, MEASURED_UNTIL] {
            assert_eq!(lines.matches(mark).count(), 1, "{lines}");
        }
        // A log without these marks is measured from its first line to its last.
        let plain: Vec<&str> = lines.lines().filter(|it| !it.starts_with("#[Meas")).collect();
        let read = crate::LatencyLog::parse("x", &mut plain.join("\n").as_bytes(), None).unwrap();
        assert_eq!((read.tags[0].measured, read.seconds), (395, 4.0));
    }
}
