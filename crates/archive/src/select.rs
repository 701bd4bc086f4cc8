//! Selection of runs in a folder: filters, orders, pruning, and periods of a recording: `beam.smp@10:00..11:00`.

use std::cmp::Ordering;
use std::str::FromStr;
use std::time::Duration;

use glob::{MatchOptions, Pattern};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use measure::{Length, Metric, Nanos, Refused};

use crate::list::newest_first;
use crate::{FolderKind, RunEntry};

const PERIOD_EXAMPLE: &str = "write NAME@FROM..TO, such as beam.smp@10:00..11:00, beam.smp@2026-11-22T10:00..11:00 or \
    beam.smp@-2h..-1h; times are UTC, as in the ids of runs";

/// A filter for runs: all of some `KEY=PATTERN`, where `*` and `?` stand for any characters.
#[derive(Clone, Debug)]
pub struct RunFilter(Vec<(Key, Pattern)>);

measure::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Key {
        Id = "id",
        Name = "name",
        Broker = "broker",
        State = "state",
        Requirements = "requirements",
        Tag = "tag",
        Note = "note",
        Recording = "recording",
        Label = "label",
    }
}

impl FromStr for RunFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let terms = text.split_whitespace().map(|term| {
            let keys = Key::ALL.map(Key::name).join(", ");
            let (key, pattern) =
                term.split_once('=').ok_or_else(|| format!("{term:?} is not KEY=PATTERN; keys are {keys}"))?;
            let known = Key::ALL.into_iter().find(|known| known.name() == key);
            let key = known.ok_or_else(|| format!("no key {key:?}; keys are {keys}"))?;
            let pattern = Pattern::new(pattern).map_err(|e| format!("{pattern:?}: {}", e.msg))?;
            Ok((key, pattern))
        });
        let terms = terms.collect::<Result<Vec<_>, String>>()?;
        if terms.is_empty() { Err("expected KEY=PATTERN, such as name=stream*".into()) } else { Ok(Self(terms)) }
    }
}

impl RunFilter {
    /// Whether a run matches all terms. One whose `run.json` cannot be read has an id only.
    pub fn matches(&self, entry: &RunEntry) -> bool {
        self.0.iter().all(|(key, pattern)| {
            let options = MatchOptions { case_sensitive: false, ..MatchOptions::new() };
            values(*key, entry).iter().any(|value| pattern.matches_with(value, options))
        })
    }
}

fn values(key: Key, entry: &RunEntry) -> Vec<String> {
    let (record, labels) = (entry.record.as_ref().ok(), entry.labels.as_ref().ok());
    let period = record.and_then(|r| r.period.as_ref());
    let broker = record.and_then(|r| r.summary.as_ref()).map(|s| &s.broker);
    match key {
        Key::Id => vec![entry.id.clone()],
        Key::Name => record.map(|r| r.name.clone()).into_iter().collect(),
        Key::Broker => broker.map_or_else(Vec::new, |broker| {
            let version = broker.version.clone().unwrap_or_default();
            vec![format!("{} {version}", broker.kind), version, broker.kind.clone()]
        }),
        Key::State => entry.state().map(str::to_owned).into_iter().collect(),
        Key::Requirements => entry.requirements().map(str::to_owned).into_iter().collect(),
        Key::Tag => labels.map_or_else(Vec::new, |labels| labels.tags.iter().map(ToString::to_string).collect()),
        Key::Recording => period.map(|it| it.recording.clone()).into_iter().collect(),
        Key::Label => {
            period.into_iter().flat_map(|it| &it.labels).map(|(name, value)| format!("{name}={value}")).collect()
        }
        Key::Note => labels.and_then(|l| l.note.clone()).into_iter().collect(),
    }
}

measure::named! {
    /// Sort order of a list of runs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum RunOrder {
        /// Newest first.
        #[default]
        Time = "time",
        /// By name; newest first within a name.
        Name = "name",
        /// Highest rate first.
        Rate = "rate",
        /// Highest 99th percentile of each latency first; that of acknowledgements before others.
        P99 = "p99",
        /// Longest first.
        Duration = "duration",
        /// Largest first.
        Size = "size",
    }
}

/// Sorts runs that are newest first; runs that have no such value come last.
pub fn sort_runs(entries: &mut [RunEntry], order: RunOrder) {
    let descending = |of: fn(&RunEntry) -> Option<f64>| {
        move |a: &RunEntry, b: &RunEntry| match (of(a), of(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    };
    match order {
        RunOrder::Time => entries.sort_by(newest_first),
        RunOrder::Name => entries.sort_by(by_name),
        RunOrder::Rate => entries.sort_by(descending(|run| Some(run.rate()?.0))),
        RunOrder::P99 => entries.sort_by(by_p99),
        RunOrder::Duration => entries.sort_by(descending(RunEntry::seconds)),
        RunOrder::Size => entries.sort_by_key(|run| std::cmp::Reverse(run.bytes)),
    }
}

/// Compares within a latency alone: another one's percentile is no more or less.
fn by_p99(a: &RunEntry, b: &RunEntry) -> Ordering {
    let of = |metric: Metric| (metric != Metric::END_TO_END, metric.name());
    match (a.latency(), b.latency()) {
        (Some((metric, a)), Some((other, b))) => of(metric).cmp(&of(other)).then(b.p99_ns.cmp(&a.p99_ns)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn by_name(a: &RunEntry, b: &RunEntry) -> Ordering {
    match (&a.record, &b.record) {
        (Ok(a), Ok(b)) => a.name.cmp(&b.name),
        (a, b) => b.is_ok().cmp(&a.is_ok()),
    }
}

/// Runs that pruning keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// Number of newest runs to keep.
    pub keep: usize,
    /// Runs that are not older stay; `None` is no matter of age.
    pub older_than: Option<Duration>,
}

/// The runs that pruning removes, of runs newest first: those that are neither among the newest nor young, have no tag,
/// have ended, and can be read. Those in a folder of several runs do not count: a part of them is no use.
pub fn prunable(entries: &[RunEntry], retention: Retention, now: Timestamp) -> Vec<&RunEntry> {
    let is_over = |entry: &RunEntry, limit: Duration| age(entry, now).is_some_and(|age| age > limit);
    let old = |entry: &RunEntry| retention.older_than.is_none_or(|limit| is_over(entry, limit));
    let untagged = |entry: &RunEntry| entry.labels.as_ref().is_ok_and(|l| l.tags.is_empty());
    let is_alone = |entry: &RunEntry| entry.dir.parent().and_then(FolderKind::of).is_none();
    let runs = entries.iter().filter(|entry| entry.record.is_ok() && is_alone(entry));
    runs.skip(retention.keep).filter(|entry| !entry.active && untagged(entry) && old(entry)).collect()
}

/// How long ago the run began; `None` where that is not known, or lies ahead.
fn age(entry: &RunEntry, now: Timestamp) -> Option<Duration> {
    let created: Timestamp = entry.record.as_ref().ok()?.created.parse().ok()?;
    now.duration_since(created).try_into().ok()
}

/// Periods of a recording, or of a process, between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodRange {
    /// The recording's name or a process's; empty for all.
    name: String,
    /// Nanoseconds since 1970.
    from: u64,
    to: u64,
}

impl PeriodRange {
    /// The range that a text means; `None` of any other text. An error says why one that looks like it is none.
    pub fn parse(text: &str, now_unix_ns: u64) -> Option<Result<Self, Refused>> {
        let (name, range) = text.rsplit_once('@')?;
        let (from, to) = range.split_once("..")?;
        Some(Self::between(name, from.trim(), to.trim(), now_unix_ns))
    }

    fn between(name: &str, from: &str, to: &str, now: u64) -> Result<Self, Refused> {
        let today = date_of(now);
        let (from_ns, day) = match from {
            "" => (0, today),
            text => instant(text, today, now)?,
        };
        let is_time = time_alone(to).is_some();
        let mut to_ns = match to {
            "" => now,
            text => instant(text, day, now)?.0,
        };
        if is_time && to_ns <= from_ns {
            // After midnight.
            to_ns = to_ns.saturating_add(DAY);
        }
        if to_ns <= from_ns {
            return Err(Refused::new(format!("{to:?} is not after {from:?}"), PERIOD_EXAMPLE));
        }
        Ok(Self { name: name.to_owned(), from: from_ns, to: to_ns })
    }

    /// Whether a run is one of its periods, at least partly within the range.
    pub fn has(&self, entry: &RunEntry) -> bool {
        let Ok(record) = &entry.record else { return false };
        let Some(period) = &record.period else { return false };
        let length = entry.seconds().unwrap_or(period.every_s);
        let begin = record.origin_unix_ns;
        let end = begin.saturating_add(Nanos::from_secs_f64(length).0);
        let names = [&period.recording, &period.process, &record.name];
        (self.name.is_empty() || names.contains(&&self.name)) && begin < self.to && end > self.from
    }

    /// The range on the time axis of a profile, nanoseconds since its origin.
    pub const fn on_axis(&self, origin_unix_ns: u64) -> (u64, u64) {
        let from = self.from.saturating_sub(origin_unix_ns);
        (from, self.to.saturating_sub(origin_unix_ns))
    }

    /// The name that was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

const DAY: u64 = 86_400_000_000_000;

/// The moment that a text means, and its day. A time alone is on `day`, or the day before if that is yet to come.
fn instant(text: &str, day: Date, now: u64) -> Result<(u64, Date), Refused> {
    let refused = || Refused::new(format!("{text:?} is not a time"), PERIOD_EXAMPLE);
    if text == "now" {
        return Ok((now, date_of(now)));
    }
    if let Some(ago) = text.strip_prefix('-') {
        let Length(ago) = ago.parse().map_err(|_| refused())?;
        let at = now.saturating_sub(ago.0);
        return Ok((at, date_of(at)));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        let at = unix_ns(at).ok_or_else(refused)?;
        return Ok((at, date_of(at)));
    }
    let of = |at: DateTime| unix_ns(TimeZone::UTC.to_timestamp(at).ok()?);
    if let Some(time) = time_alone(text) {
        let at = of(day.to_datetime(time)).ok_or_else(refused)?;
        let at = if at > now { at.saturating_sub(DAY) } else { at };
        return Ok((at, date_of(at)));
    }
    let at: DateTime = text.parse().map_err(|_| refused())?;
    Ok((of(at).ok_or_else(refused)?, at.date()))
}

/// A time without a day; a text with both would be read as one, too.
fn time_alone(text: &str) -> Option<Time> {
    let alone = !text.contains(['-', 'T', 't', ' ']);
    text.parse().ok().filter(|_| alone)
}

fn unix_ns(at: Timestamp) -> Option<u64> {
    u64::try_from(at.as_nanosecond()).ok()
}

fn date_of(unix_ns: u64) -> Date {
    let at = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    TimeZone::UTC.to_datetime(at).date()
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
