//! One experiment, from broker to archive.

use std::path::PathBuf;

use archive::RunRecord;
use measure::Interval;

use crate::{Error, Experiment, Observer};

/// How to run, as opposed to what.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where run folders are made; `None` keeps no archive (and so takes no profile).
    pub runs_dir: Option<PathBuf>,
    /// The command line that does it again; passwords in it are blotted out before it is kept.
    pub command: Vec<String>,
    /// The `bellows` executable, which is started anew for the embedded broker.
    pub bellows_exe: PathBuf,
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The run folder, where one was kept.
    pub run_dir: Option<PathBuf>,
    /// What stands in `run.json`; `summary` is always present.
    pub record: RunRecord,
    /// The measured phase as one interval, with whole histograms.
    pub measured: Interval,
}

/// Runs an experiment: starts or attaches the broker, applies load, samples and profiles, writes
/// the archive as it goes, stops the broker. The report is drawn afterwards by the caller.
///
/// # Errors
/// Where the experiment makes no sense, the broker cannot be had, or the load breaks off. What
/// was measured until then is in the archive, whose record has the state `failed`.
pub fn run(
    _experiment: &Experiment,
    _options: &RunOptions,
    _control: &load::Control,
    _observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    Err(Error::Load(String::new()))
}
