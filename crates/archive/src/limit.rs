//! `limit.json`: rates at which an experiment was tried, outcome of each trial, and the range of the limit. It stands
//! in a folder of its own, beside its runs, and is rewritten after each, so that a stopped search can resume.
//! Runs with different numbers of clients are of it, too, with the law that their throughputs follow.

use std::path::{Path, PathBuf};

use compare::{FoundLimit, LimitPlan, ScaleLaw};
use measure::LatencySummary;
use serde::{Deserialize, Serialize};

use crate::files::{read_json, replace_json};
use crate::writer::new_folder;
use crate::{Error, LimitedBy, RequirementOutcome, Tier, Warning, file};

/// Bytes of a `limit.json` that are read.
const LARGEST: u64 = 16 << 20;

/// Trials of one experiment at different rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitTrials {
    /// Always [`LimitTrials::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// Objectives that a rate has to meet beside being kept up: `end-to-end p99 < 10ms`.
    pub slos: Vec<String>,
    /// How rates are chosen.
    pub plan: LimitPlan,
    /// The experiment, resolved and without secrets; its own rates are those of the first trial.
    pub experiment: serde_json::Value,
    /// The trials, in the order of time.
    pub trials: Vec<LimitTrial>,
    /// Result of the trials; `None` before the first has ended.
    pub found: Option<FoundLimit>,
    /// Rates that people want next.
    pub suggested: Vec<SuggestedRate>,
    /// Runs with different numbers of clients, where these are varied: then no rate is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<ScaleRuns>,
}

/// A rate that people want next, and how it is run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SuggestedRate {
    /// `calm`, or `busy`.
    pub name: String,
    /// Messages per second of all producers.
    pub rate: f64,
    /// The command line that runs the experiment at it.
    pub command: String,
}

/// Outcome of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LimitOutcome {
    /// The rate was kept up, and all that was asked for was met.
    Held,
    /// The rate was not kept up, or an objective was missed.
    Missed,
    /// The rate was missed because of the generator or the machine.
    #[default]
    Unclear,
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitTrial {
    /// The run folder's name.
    pub id: String,
    /// Messages per second that were requested.
    pub rate: f64,
    /// Outcome of the trial.
    pub outcome: LimitOutcome,
    /// Why the rate did not hold, a clause each; empty where it did.
    pub why: Vec<String>,
    /// Why it is unclear, where it is: `other programs had 1.2 cores`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<String>,
    /// Messages per second that were sent.
    pub sent: f64,
    /// Messages per second that were received.
    pub received: f64,
    /// Name of the latency: `end-to-end`, `confirm`; empty where none was measured.
    pub latency_name: String,
    /// The latency, of the measured phase; `None` where none was measured.
    pub latency: Option<LatencySummary>,
    /// CPU of the broker in cores, where it is known.
    pub broker_cores: Option<f64>,
    /// Who limited the run.
    pub limited_by: LimitedBy,
    /// The objectives with their observed values.
    pub slos: Vec<RequirementOutcome>,
    /// Warnings that put its numbers in doubt, but for those of any rate beyond the limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<Warning>,
}

impl LimitTrial {
    /// Whether it says something of the broker: an unclear trial does not.
    pub fn tells(&self) -> bool {
        self.outcome != LimitOutcome::Unclear
    }

    /// Whether its rate is known not to hold.
    pub fn is_missed(&self) -> bool {
        self.outcome == LimitOutcome::Missed && self.untold().is_none()
    }

    /// The objective that cannot be told, where only such ones speak against the rate.
    fn untold(&self) -> Option<&RequirementOutcome> {
        let mut untold = self.slos.iter().filter(|it| it.met.is_none());
        let is_all = untold.clone().count() == self.why.len();
        untold.next().filter(|_| is_all)
    }
}

impl LimitTrials {
    /// The only, untold objective against the lowest tried rate. Lower rates tell less, so that none is tried.
    pub fn untold(&self) -> Option<&RequirementOutcome> {
        let lowest = self.trials.iter().map(|it| it.rate).fold(f64::INFINITY, f64::min);
        let mut at = self.trials.iter().filter(|it| it.rate == lowest);
        let has_held = at.clone().any(|it| it.outcome == LimitOutcome::Held);
        at.find_map(LimitTrial::untold).filter(|_| !has_held)
    }

    /// Whether the question is answered: confirmed ends, or throughputs that follow a law of the broker.
    pub fn is_answered(&self) -> bool {
        match &self.scale {
            Some(scale) => scale.law.as_ref().is_some_and(ScaleLaw::is_followed),
            None => self.found.is_some_and(|it| it.confirmed),
        }
    }

    /// Warnings that put each trial, or each run with a number of clients, in doubt, in the order of time.
    pub fn cautions(&self) -> impl Iterator<Item = &[Warning]> {
        let scaled = self.scale.iter().flat_map(|it| &it.runs);
        self.trials.iter().map(|it| it.cautions.as_slice()).chain(scaled.map(|it| it.cautions.as_slice()))
    }

    /// Whether a number that the answer rests on must not be used: of a trial that held, or of any run with a number of
    /// clients. That messages are lost at rates that do not hold is an answer.
    pub fn is_invalid(&self) -> bool {
        let held = |it: &&LimitTrial| it.outcome == LimitOutcome::Held;
        let held = self.trials.iter().filter(held).map(|it| &it.cautions);
        let scaled = self.scale.iter().flat_map(|it| &it.runs);
        held.chain(scaled.map(|it| &it.cautions)).flatten().any(|it| it.tier == Tier::Invalid)
    }

    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.limit/1";
    /// Trials of one search.
    pub const MOST_TRIALS: u32 = 500;

    /// Makes the folder for the trials below the folder of runs.
    pub fn create_folder(runs_dir: &Path, name: &str, unix_ns: u64) -> Result<PathBuf, Error> {
        new_folder(runs_dir, &format!("limit-{name}"), unix_ns)
    }

    /// Whether a folder holds such trials.
    pub fn is_in(dir: &Path) -> bool {
        std::fs::symlink_metadata(dir.join(file::LIMIT)).is_ok_and(|it| it.is_file())
    }

    /// Reads the file of a folder.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(file::LIMIT);
        let damaged = |cause: &str| Error::Damaged { path: path.clone(), cause: cause.to_owned() };
        let read: Self = read_json(&path, LARGEST)?;
        if read.schema != Self::SCHEMA {
            return Err(damaged("it is not a bellows.limit/1"));
        }
        let runs = read.scale.as_ref().map_or(0, |it| it.runs.len().max(it.values.len()));
        let most = Self::MOST_TRIALS as usize;
        if read.trials.len() > most || runs > 20 * ScaleRuns::MOST_VALUES {
            return Err(damaged("it has too many trials"));
        }
        let scaled = read.scale.iter().flat_map(|it| &it.runs).map(|it| &it.id);
        let mut ids = read.trials.iter().map(|it| &it.id).chain(scaled);
        if ids.any(|id| id.contains('/') || id.starts_with('.')) {
            return Err(damaged("a trial's name is not that of a run"));
        }
        Ok(read)
    }

    /// Writes the file, at once or not at all.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        replace_json(dir.join(file::LIMIT), self)
    }
}

/// Runs with different numbers of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleRuns {
    /// The key that is varied: `load.0.producers`.
    pub key: String,
    /// Its values, the lowest first.
    pub values: Vec<u32>,
    /// Runs of each value.
    pub repeats: u32,
    /// The runs that were made, in the order of time.
    pub runs: Vec<ScaleRun>,
    /// The law that they follow; `None` while there are too few numbers of clients.
    pub law: Option<ScaleLaw>,
}

impl ScaleRuns {
    /// Numbers of clients of one experiment.
    pub const MOST_VALUES: usize = 50;

    /// Name of the varied clients: `producers`.
    pub fn noun(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// One run with a number of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleRun {
    /// The run folder's name.
    pub id: String,
    /// The number of clients.
    pub clients: u32,
    /// Messages per second received, or sent where nobody receives.
    pub throughput: f64,
    /// CPU of the broker in cores, where it is known.
    pub broker_cores: Option<f64>,
    /// Who limited the run.
    pub limited_by: LimitedBy,
    /// Warnings that put its numbers in doubt, but for those of any load without a rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use compare::ScaleDoubt;

    use super::*;
    use crate::Finding;

    /// Runs with numbers of clients had an answer whenever a law was fitted, however badly, and no warnings.
    #[test]
    fn every_kind_of_search_has_an_answer_and_warnings() {
        let law = |no_peak| LimitTrials {
            scale: Some(ScaleRuns {
                runs: vec![ScaleRun::default()],
                law: Some(ScaleLaw { no_peak, ..ScaleLaw::default() }),
                ..ScaleRuns::default()
            }),
            ..LimitTrials::default()
        };
        for (no_peak, is_answered) in [
            (None, true),
            (Some(ScaleDoubt::NeverFalls), true),
            (Some(ScaleDoubt::NotProven), true),
            (Some(ScaleDoubt::FarBeyond), true),
            (Some(ScaleDoubt::PoorFit), false),
            (Some(ScaleDoubt::Generator(4)), false),
        ] {
            assert_eq!(law(no_peak).is_answered(), is_answered, "{no_peak:?}");
        }
        let mut none = law(None);
        none.scale.as_mut().expect("runs").law = None;
        assert!(!none.is_answered() && !LimitTrials::default().is_answered());
        let warning = |tier| Warning::new(tier, Finding::DebugBuild {});
        let trial = |outcome, tier| LimitTrials {
            trials: vec![
                LimitTrial { outcome: LimitOutcome::Held, ..LimitTrial::default() },
                LimitTrial { outcome, cautions: vec![warning(tier)], ..LimitTrial::default() },
            ],
            ..LimitTrials::default()
        };
        assert!(trial(LimitOutcome::Held, Tier::Invalid).is_invalid());
        assert!(!trial(LimitOutcome::Held, Tier::Caution).is_invalid());
        assert!(!trial(LimitOutcome::Missed, Tier::Invalid).is_invalid());
        assert!(!trial(LimitOutcome::Unclear, Tier::Invalid).is_invalid());
        let mut scaled = law(None);
        assert!(!scaled.is_invalid());
        let run = &mut scaled.scale.as_mut().expect("runs").runs[0];
        run.cautions = vec![warning(Tier::Invalid)];
        assert!(scaled.is_invalid() && scaled.cautions().count() == 1);
    }

    #[test]
    fn trials_are_written_and_read_and_nothing_else_is_taken_for_them() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!LimitTrials::is_in(dir.path()));
        let trials = LimitTrials {
            schema: LimitTrials::SCHEMA.to_owned(),
            trials: vec![LimitTrial::default()],
            ..LimitTrials::default()
        };
        trials.write(dir.path()).unwrap();
        assert!(LimitTrials::is_in(dir.path()));
        assert_eq!(LimitTrials::read(dir.path()).unwrap(), trials);
        let mut elsewhere = trials.clone();
        elsewhere.trials[0].id = "../../etc".to_owned();
        elsewhere.write(dir.path()).unwrap();
        assert!(LimitTrials::read(dir.path()).is_err());
        let path = dir.path().join(file::LIMIT);
        let other = serde_json::to_string(&trials).unwrap().replace("limit/1", "pairs/1");
        for text in [other.as_str(), "", "[]", "{\"schema\": 1}"] {
            std::fs::write(&path, text).unwrap();
            assert!(LimitTrials::read(dir.path()).is_err(), "{text}");
        }
    }
}
