//! Checks of whether this machine allows good measurements, and the fix for each that fails.

mod archive;
mod brokers;
mod machine;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// No action is needed.
    Ok,
    /// Works, with less than could be had.
    Warn,
    /// Something does not work.
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the check: `perf permissions`.
    pub name: String,
    /// The check's result.
    pub status: Status,
    /// The value found.
    pub observed: String,
    /// Effect on a measurement.
    pub meaning: String,
    /// The command or setting that improves it.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &str, status: Status, observed: impl Into<String>, meaning: &str) -> Self {
        Self {
            name: name.to_owned(),
            status,
            observed: observed.into(),
            meaning: meaning.to_owned(),
            fix: None,
        }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Looks at the machine. Takes well below a second and changes nothing.
#[must_use]
pub fn checks() -> Vec<Check> {
    let mut checks = vec![
        machine::build(cfg!(debug_assertions)),
        machine::cores(linux::cpus::usable()),
        machine::profiling(),
        machine::kernel_symbols(),
        machine::tracefs(),
        machine::clock(crate::hardware::clock_source().as_deref()),
        machine::open_files(),
        brokers::installed(),
        archive::runs(),
    ];
    checks.extend(brokers::running());
    checks
}
