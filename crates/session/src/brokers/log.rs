//! The end of a broker's log.

use std::{fs, path::Path};

/// The last `lines` lines of a log that have something in them.
#[must_use]
pub fn tail(log: &Path, lines: usize) -> String {
    let text = read(log);
    let told: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    told.get(told.len().saturating_sub(lines)..)
        .unwrap_or_default()
        .join("\n")
}

/// A whole log; what is not UTF-8 in it is replaced.
pub(super) fn read(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}
