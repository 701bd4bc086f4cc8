//! `metrics.jsonl`: series with names and labels, of the machine, the broker's processes or scraped pages. A line
//! defines a series or holds values of one time, so a file that was cut off is readable up to its last line.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::each_line;
use crate::{Error, file};

/// Series of a run; further ones are left out.
pub const MOST_SERIES: usize = 10_000;
/// The source of the series of the memory of the broker's Erlang nodes.
pub const ERLANG_MEMORY: &str = "erlang memory";
/// Values that are read of a file: those of 1,000 series over four hours.
const MOST_VALUES: usize = 15_000_000;
/// Bytes that a line may have: the values of all series.
const LONGEST_LINE: u64 = 1 << 20;

measure::named! {
    /// Unit of a value, spelled alike in JSON and in texts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum SeriesUnit {
        /// A number of things.
        #[default]
        Count = "",
        /// Things per second.
        PerSecond = "1/s",
        /// Bytes, as they are now.
        Bytes = "B",
        /// Bytes per second.
        BytesPerSecond = "B/s",
        /// Cores that were busy: CPU time divided by elapsed time.
        Cores = "cores",
        /// A share of time or of a whole, 0 to 1.
        Share = "share",
        /// Seconds, as they are now.
        Seconds = "s",
    }
}

impl SeriesUnit {
    /// Whether values are of a time, and not as something is at one.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::PerSecond | Self::BytesPerSecond | Self::Cores | Self::Share)
    }
}

impl fmt::Display for SeriesUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Identity of a series: source, name and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeriesName {
    /// Source of the values: `machine`, `broker`, or the name of a scrape.
    pub source: String,
    /// Quantity: `memory`, `rabbitmq_queue_messages`. Series of one source and name are drawn together.
    pub name: String,
    /// Labels that distinguish it from others of its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Unit of its values.
    #[serde(default)]
    pub unit: SeriesUnit,
}

impl SeriesName {
    /// A series without labels.
    pub fn new(source: &str, name: &str, unit: SeriesUnit) -> Self {
        Self { source: source.to_owned(), name: name.to_owned(), labels: BTreeMap::new(), unit }
    }

    /// Adds a label.
    pub fn with(mut self, label: &str, value: &str) -> Self {
        self.labels.insert(label.to_owned(), value.to_owned());
        self
    }
}

/// The series of a node's CPU and of its memory.
pub fn series_of_node(node: usize) -> [SeriesName; 2] {
    let all = [("CPU of nodes", SeriesUnit::Cores), ("memory of nodes", SeriesUnit::Bytes)];
    all.map(|(name, unit)| SeriesName::new("broker", name, unit).with("node", &node.to_string()))
}

/// A value of a series, by its place among those of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesValue(pub u32, pub f64);

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum SeriesLine {
    Definition {
        series: u32,
        #[serde(flatten)]
        name: SeriesName,
    },
    Values {
        /// Seconds since the run's origin: start of a rate's interval, or time of a value.
        t: f64,
        /// Seconds that rates are of.
        dt: f64,
        values: Vec<SeriesValue>,
    },
}

/// Series defined so far, with their numbers.
#[derive(Clone, Debug, Default)]
pub struct SeriesNames {
    numbers: HashMap<SeriesName, u32>,
}

impl SeriesNames {
    /// Lines for values at `t` seconds after the origin, of rates for `dt` seconds from then on: definitions of new
    /// series, then the values. Non-finite values are left out, as JSON has none.
    pub(crate) fn lines(
        &mut self,
        t: f64,
        dt: f64,
        values: impl IntoIterator<Item = (SeriesName, f64)>,
    ) -> Vec<Vec<u8>> {
        let (mut lines, mut kept) = (Vec::new(), Vec::new());
        for (name, value) in values.into_iter().filter(|(_, value)| value.is_finite()) {
            let number = match self.numbers.get(&name) {
                Some(number) => *number,
                None if self.numbers.len() >= MOST_SERIES => continue,
                None => {
                    let series = self.numbers.len() as u32;
                    self.numbers.insert(name.clone(), series);
                    lines.extend(encoded(&SeriesLine::Definition { series, name }));
                    series
                }
            };
            kept.push(SeriesValue(number, value));
        }
        if !kept.is_empty() {
            lines.extend(encoded(&SeriesLine::Values { t, dt, values: kept }));
        }
        lines
    }
}

fn encoded(line: &SeriesLine) -> Option<Vec<u8>> {
    // Strings and finite numbers can always be written.
    serde_json::to_vec(line).ok()
}

/// A series that was read: its values in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedSeries {
    /// Name of the series.
    pub name: SeriesName,
    /// Times and values.
    pub points: Vec<NamedPoint>,
}

/// A value and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NamedPoint {
    /// Seconds since the run's origin.
    pub t: f64,
    /// Seconds that a rate is of.
    pub dt: f64,
    /// The value.
    pub value: f64,
}

/// Reads the named series of a run folder, in the order of definition; none where it has none. Bad lines are skipped.
pub fn read_named_series(dir: &Path) -> Result<Vec<NamedSeries>, Error> {
    let mut read = Reading::default();
    each_line(&dir.join(file::METRICS), LONGEST_LINE, |line| {
        read.add(line);
        read.values < MOST_VALUES
    })?;
    Ok(read.finish())
}

/// Series read so far, by number.
#[derive(Debug, Default)]
struct Reading {
    series: BTreeMap<u32, NamedSeries>,
    values: usize,
}

impl Reading {
    fn add(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(SeriesLine::Definition { series, name }) if self.series.len() < MOST_SERIES => {
                self.series.entry(series).or_default().name = name;
            }
            Ok(SeriesLine::Values { t, dt, values }) => {
                self.values += values.len();
                for SeriesValue(number, value) in values {
                    if let Some(of) = self.series.get_mut(&number) {
                        of.points.push(NamedPoint { t, dt, value });
                    }
                }
            }
            Ok(SeriesLine::Definition { .. }) | Err(_) => {}
        }
    }

    fn finish(self) -> Vec<NamedSeries> {
        let mut all: Vec<_> = self.series.into_values().collect();
        for series in &mut all {
            series.points.sort_by(|a, b| a.t.total_cmp(&b.t));
        }
        all.retain(|series| !series.points.is_empty());
        all
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn cpu(state: &str) -> SeriesName {
        SeriesName::new("machine", "CPU", SeriesUnit::Cores).with("state", state)
    }

    fn write(dir: &Path, lines: &[Vec<u8>]) {
        let mut text = lines.join(&b'\n');
        text.push(b'\n');
        fs::write(dir.join(file::METRICS), text).unwrap();
    }

    #[test]
    fn series_are_defined_once_and_read_in_the_order_of_time() {
        let mut names = SeriesNames::default();
        let mut lines = names.lines(1.0, 1.0, [(cpu("user"), 0.5), (cpu("system"), 0.25)]);
        assert_eq!(lines.len(), 3, "two definitions, one row");
        let next = names.lines(0.0, 1.0, [(cpu("user"), 0.75), (cpu("idle"), f64::NAN)]);
        assert_eq!(next.len(), 1, "nothing new, and NaN is no value");
        lines.extend(next);
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &lines);
        let read = read_named_series(dir.path()).unwrap();
        let [user, system] = read.as_slice() else {
            panic!("{read:?}");
        };
        assert_eq!(user.name, cpu("user"));
        assert_eq!(user.points.iter().map(|it| (it.t, it.value)).collect::<Vec<_>>(), [(0.0, 0.75), (1.0, 0.5)]);
        assert_eq!(system.points.len(), 1);
    }

    #[test]
    fn too_many_series_are_left_out_and_what_is_damaged_is_passed_over() {
        let mut names = SeriesNames::default();
        let many = (0..MOST_SERIES + 7).map(|i| (cpu(&i.to_string()), 1.0));
        let mut lines = names.lines(0.0, 1.0, many);
        assert_eq!(lines.len(), MOST_SERIES + 1);
        let longest = lines.iter().map(Vec::len).max().unwrap() as u64;
        assert!(longest < LONGEST_LINE, "all series fit into a line");
        lines.insert(3, b"{\"t\": 1, \"dt\"".to_vec());
        lines.insert(0, b"{\"t\":0,\"dt\":1,\"values\":[[99999999,1.0]]}".to_vec());
        lines.push(b"{\"t\":2,\"dt\":1,\"values\":[[0,3.0],[1,".to_vec());
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &lines);
        let read = read_named_series(dir.path()).unwrap();
        assert_eq!(read.len(), MOST_SERIES);
        assert!(read.iter().all(|series| series.points.len() == 1));
        assert!(read_named_series(&dir.path().join("none")).unwrap().is_empty());
    }
}
