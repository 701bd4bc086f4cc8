//! `compare` of HDR histogram logs, of any tool: each is a run of its side.

use std::path::Path;

use archive::{Comparison, LatencyLog, LogUnit};
use clap::ValueEnum;
use study::{ComparisonOptions, compare_logs, read_logs};

use crate::failure::Failure;

/// Ends of names that are logs, also where no such file exists.
const ENDS: [&str; 2] = [".hlog", ".hlog.gz"];

/// The unit that a log was recorded in.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RecordedUnit {
    /// Values are nanoseconds
    Ns,
    /// Values are microseconds
    Us,
    /// Values are milliseconds
    Ms,
}

impl From<RecordedUnit> for LogUnit {
    fn from(unit: RecordedUnit) -> Self {
        match unit {
            RecordedUnit::Ns => Self::Nanoseconds,
            RecordedUnit::Us => Self::Microseconds,
            RecordedUnit::Ms => Self::Milliseconds,
        }
    }
}

/// The logs of both sides, and the decision.
pub(super) struct ComparedLogs {
    pub(super) a: Vec<LatencyLog>,
    pub(super) b: Vec<LatencyLog>,
    pub(super) compared: Comparison,
}

/// Whether the sides are logs.
///
/// # Errors
/// Where some are and some are runs.
pub(super) fn are_logs(a: &[String], b: &[String]) -> Result<bool, Failure> {
    let is_log =
        |name: &&String| Path::new(name).is_file() || ENDS.iter().any(|end| name.ends_with(end));
    let all = || a.iter().chain(b);
    let Some(log) = all().find(is_log) else {
        return Ok(false);
    };
    match all().find(|name| !is_log(name)) {
        None => Ok(true),
        Some(run) => Err(Failure::usage(
            "histogram logs are mixed with runs, of which more is known",
            "compare logs with logs: that of a run is latency.hlog in its folder",
        )
        .observed(format!("{log} is a log, {run} is none"))),
    }
}

/// Reads and compares logs.
pub(super) fn compare(
    a: &[String],
    b: &[String],
    unit: Option<RecordedUnit>,
    options: ComparisonOptions,
) -> Result<ComparedLogs, Failure> {
    if b.is_empty() {
        let help = "--with names the logs of B";
        return Err(Failure::usage("there is nothing to compare with", help));
    }
    let real = |name: &String| Path::new(name).canonicalize().ok();
    let mut seen = Vec::new();
    for name in a.iter().chain(b) {
        let path = real(name);
        if path.is_some() && seen.contains(&path) {
            return Err(
                Failure::usage("a log is named twice", "each log is one run of one side")
                    .observed(name),
            );
        }
        seen.push(path);
    }
    let unit = unit.map(LogUnit::from);
    let read = |names: &[String]| read_logs(names, unit).map_err(Failure::Failed);
    let (a, b) = (read(a)?, read(b)?);
    let compared = compare_logs(&a, &b, options).map_err(Failure::Failed)?;
    Ok(ComparedLogs { a, b, compared })
}
