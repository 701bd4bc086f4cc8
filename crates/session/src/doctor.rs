//! What this machine lets us measure, and the fix for what it does not.

/// How a check turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Fine.
    Ok,
    /// Works, with less than could be had.
    Warn,
    /// Something does not work.
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at: `perf permissions`.
    pub name: String,
    /// How it turned out.
    pub status: Status,
    /// What was found.
    pub observed: String,
    /// What that means for a measurement.
    pub meaning: String,
    /// The command or setting that improves it.
    pub fix: Option<String>,
}

/// Looks at the machine. Takes well below a second and changes nothing.
#[must_use]
pub fn checks() -> Vec<Check> {
    Vec::new()
}
