//! A recorded trace: when messages were sent, and how large they were.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use measure::Problem;

use super::constant::seconds;
use crate::Error;

/// Messages of a recording, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Nanoseconds after the start, ascending.
    times: Vec<u64>,
    /// Bytes of each body, or empty.
    sizes: Vec<u32>,
}

impl Trace {
    /// The most messages that are read: they are kept in memory, 12 bytes each.
    pub const MOST_MESSAGES: usize = 10_000_000;
    /// A line that is longer is no time and size.
    const LONGEST_LINE: u64 = 256;

    /// Reads a file of lines `seconds` or `seconds,bytes`. Times count from the start of the load; a first line without
    /// digits, empty lines and lines that begin with `#` are passed over. Errors: [`Error::Invalid`] where the file
    /// cannot be read, or with the first line that makes no sense: its number, its text, and what would do.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| {
            let help = "name a file with one message per line: seconds,bytes";
            Error::Invalid(Problem::new(format!("cannot read the trace {name}"), error, help))
        })?;
        Self::parse(BufReader::with_capacity(1 << 18, file), &name)
    }

    /// See [`Self::read`]; `name` stands in errors.
    pub fn parse(mut lines: impl BufRead, name: &str) -> Result<Self, Error> {
        let mut trace = Self::default();
        let mut line = Vec::new();
        for number in 1.. {
            let place = || format!("{name}:{number}");
            line.clear();
            let read = lines.by_ref().take(Self::LONGEST_LINE).read_until(b'\n', &mut line);
            let read = read.map_err(|error| {
                let help = "name a file with one message per line: seconds,bytes";
                Error::Invalid(Problem::new(format!("cannot read the trace {}", place()), error, help))
            })?;
            if read == 0 {
                break;
            }
            if read as u64 == Self::LONGEST_LINE && line.last() != Some(&b'\n') {
                let value = format!("the line is longer than {} bytes", Self::LONGEST_LINE - 1);
                return Err(Error::Invalid(Problem::new(place(), value, "write one message per line: seconds,bytes")));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            let is_head = number == 1 && !text.bytes().any(|byte| byte.is_ascii_digit());
            if text.is_empty() || text.starts_with('#') || is_head {
                continue;
            }
            trace.add(text).map_err(|(what, help)| Error::Invalid(Problem::new(place(), what, help)))?;
        }
        if trace.times.is_empty() {
            let help = "write one message per line: seconds,bytes";
            return Err(Error::invalid(format!("the trace {name} has no message"), help).observed(name));
        }
        trace.times.shrink_to_fit();
        trace.sizes.shrink_to_fit();
        Ok(trace)
    }

    fn add(&mut self, text: &str) -> Result<(), (String, &'static str)> {
        let (time, size) = text.split_once(',').map_or((text, None), |(time, size)| (time.trim(), Some(size.trim())));
        let at = seconds(time).ok_or_else(|| {
            let time: String = time.chars().take(60).collect();
            (format!("{time:?} is no time"), "write seconds since the start of the load as digits, such as 12.345")
        })?;
        if let Some(last) = self.times.last().filter(|last| **last > at) {
            return Err((
                format!("{time} lies before {} in the line above", *last as f64 / 1e9),
                "sort the lines by time: sort -n",
            ));
        }
        if at > 1_000_000_000_000_000_000 {
            return Err((
                format!("{time} s is over 30 years after the start"),
                "times count from the start of the load: subtract the first one from all",
            ));
        }
        if self.times.len() >= Self::MOST_MESSAGES {
            return Err((
                format!("there are more than {} messages", Self::MOST_MESSAGES),
                "split the trace, or repeat a part of it",
            ));
        }
        if !self.times.is_empty() && size.is_some() == self.sizes.is_empty() {
            let (this, others) = if size.is_some() { ("a", "no") } else { ("no", "a") };
            return Err((
                format!("{text:?} has {this} size, and the lines above have {others} size"),
                "give all lines a size in bytes after a comma, or none",
            ));
        }
        if let Some(size) = size {
            let bytes = size.parse().map_err(|_| {
                let size: String = size.chars().take(60).collect();
                (format!("{size:?} is not a size"), "write a whole number of bytes, such as 1024")
            })?;
            self.sizes.push(bytes);
        }
        self.times.push(at);
        Ok(())
    }

    /// Whether it says how large messages were.
    pub const fn has_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// The smallest and the largest size.
    pub(crate) fn size_range(&self) -> Option<(usize, usize)> {
        let (least, most) = (self.sizes.iter().min()?, self.sizes.iter().max()?);
        Some((*least as usize, *most as usize))
    }

    /// The size of message `index`, counted over all rounds.
    #[inline]
    pub(crate) fn size(&self, index: u64) -> usize {
        let at = index % self.sizes.len().max(1) as u64;
        self.sizes.get(at as usize).map_or(0, |size| *size as usize)
    }

    /// Nanoseconds from the start to the last message.
    pub(crate) fn last(&self) -> u64 {
        self.times.last().copied().unwrap_or(0)
    }

    /// When message `index` is due; with `every`, the trace starts over after this many nanoseconds.
    pub(super) fn instant(&self, index: u64, every: Option<u64>) -> Option<u64> {
        let count = self.times.len() as u64;
        let (round, at) = match every {
            Some(every) => (index.checked_div(count)?.checked_mul(every)?, index % count),
            None => (0, index),
        };
        let time = self.times.get(usize::try_from(at).ok()?)?;
        round.checked_add(*time)
    }

    /// Messages until `t` ns after the start.
    pub(super) fn until(&self, t: u64, every: Option<u64>) -> f64 {
        let (rounds, rest) = every.map_or((0, t), |every| (t / every.max(1), t % every.max(1)));
        let within = self.times.partition_point(|time| *time < rest);
        rounds as f64 * self.times.len() as f64 + within as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, Error> {
        Trace::parse(text.as_bytes(), "t.csv")
    }

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().problem().sentence()
    }

    #[test]
    fn times_and_sizes_are_read() {
        let trace = parse("seconds,bytes\n# a comment\n0,100\n\n0.25, 2000\r\n1.5,12").unwrap();
        assert_eq!(trace.times, [0, 250_000_000, 1_500_000_000]);
        assert_eq!(trace.sizes, [100, 2_000, 12]);
        assert_eq!(trace.size_range(), Some((12, 2_000)));
        assert_eq!((trace.size(1), trace.size(4)), (2_000, 2_000));
        let times = parse("0\n0\n2").unwrap();
        assert_eq!((times.times.len(), times.has_sizes()), (3, false));
    }

    #[test]
    fn a_bad_line_is_named_with_its_value_and_a_remedy() {
        for line in include_str!("../../tests/data/no-traces.txt").lines() {
            let (text, parts) = line.split_once(" ⇒ ").unwrap();
            let text = text.replace('↵', "\n");
            let said = refused(&text);
            for part in parts.split(" ⇒ ") {
                assert!(said.contains(part), "{text:?}: {part:?} is not in {said:?}");
            }
        }
        let long = "0".repeat(1_000_000);
        assert!(refused(&long).contains("t.csv:1"));
        assert!(refused(&long).len() < 300, "a long line is cut");
    }

    #[test]
    fn a_trace_may_begin_anew() {
        let trace = parse("0\n0.5\n0.75").unwrap();
        let second = Some(1_000_000_000);
        assert_eq!(trace.instant(2, second), Some(750_000_000));
        assert_eq!(trace.instant(7, second), Some(2_500_000_000));
        assert_eq!(trace.instant(3, None), None);
        assert_eq!(trace.until(2_600_000_000, second), 8.0);
        assert_eq!(trace.until(2_600_000_000, None), 3.0);
    }
}
