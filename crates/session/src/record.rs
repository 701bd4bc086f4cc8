//! `bellows record`: a profile without load.

use measure::Nanos;

use crate::{Error, Observer, RunOptions, RunOutcome};

/// Which process to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By number.
    Pid(u32),
    /// By the name of its executable or its node name; must be only one.
    Name(String),
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Which process.
    pub target: Target,
    /// Samples per second and thread on CPU.
    pub frequency: u32,
    /// How long; `None` until stopped.
    pub duration: Option<Nanos>,
    /// Names the run.
    pub name: String,
}

/// Profiles a process that is already running and leaves a run folder that holds the profile and
/// the CPU and memory of every second.
///
/// # Errors
/// Where the process is not there, or profiling it is not permitted.
pub fn record(
    _record: &RecordOptions,
    _options: &RunOptions,
    _control: &load::Control,
    _observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    Err(Error::Profile(String::new()))
}
