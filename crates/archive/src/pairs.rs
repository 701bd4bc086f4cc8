//! `pairs.json`: pairs of runs of two sides, made in turns. It stands in a folder of its own, beside its runs, and is
//! rewritten after each, so that a stopped experiment can resume.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use compare::ComparedSideName;
use serde::{Deserialize, Serialize};

use crate::files::{is_name, read_json, replace_json};
use crate::writer::new_folder;
use crate::{Error, file};

/// Bytes of a `pairs.json` that are read.
const LARGEST: u64 = 16 << 20;

/// Runs of two sides, made in turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairedRuns {
    /// Always [`PairedRuns::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// Seed of the order.
    pub seed: u64,
    /// Pairs that were requested.
    pub pairs: u32,
    /// The experiment of side A, resolved and without secrets.
    pub a: serde_json::Value,
    /// Likewise of side B.
    pub b: serde_json::Value,
    /// Whether the sides differ in values that `a` and `b` mask (`***`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// The runs that were made, in the order of time.
    pub runs: Vec<PairedRun>,
}

/// One of the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PairedRun {
    /// Its pair, from 0 on; repeated pairs are counted, too.
    pub pair: u32,
    /// The side that it is of.
    pub side: ComparedSideName,
    /// The run folder's name.
    pub id: String,
    /// Why it does not count, in a word or two; `None` where it does.
    pub spoiled: Option<String>,
    /// Its own side spoiled it, which is evidence, so that its pair is not repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub own: bool,
    /// Others had the machine's cores meanwhile: its pair counts only where there are too few better ones.
    pub disturbed: bool,
}

impl PairedRuns {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.pairs/1";
    /// Pairs of one experiment.
    pub const MOST_PAIRS: u32 = 500;

    /// The folders of its runs, by their names, where `dir` is its own.
    pub fn folders(&self, dir: &Path) -> HashMap<String, PathBuf> {
        self.runs.iter().map(|run| (run.id.clone(), dir.join(&run.id))).collect()
    }

    /// Makes the folder for runs in pairs below the folder of runs.
    pub fn create_folder(runs_dir: &Path, name: &str, unix_ns: u64) -> Result<PathBuf, Error> {
        new_folder(runs_dir, &format!("ab-{name}"), unix_ns)
    }

    /// Whether a folder holds runs in pairs.
    pub fn is_in(dir: &Path) -> bool {
        fs::symlink_metadata(dir.join(file::PAIRS)).is_ok_and(|it| it.is_file())
    }

    /// Reads the file of a folder.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(file::PAIRS);
        let damaged = |cause: String| Error::Damaged { path: path.clone(), cause };
        let read: Self = read_json(&path, LARGEST)?;
        if read.schema != Self::SCHEMA {
            return Err(damaged(format!("it is not a {}", Self::SCHEMA)));
        }
        if read.pairs > Self::MOST_PAIRS || read.runs.len() > 4 * Self::MOST_PAIRS as usize {
            return Err(damaged("it has too many runs".to_owned()));
        }
        // Spoiled pairs are made anew, half as many at most.
        if let Some(run) = read.runs.iter().find(|run| run.pair >= 2 * Self::MOST_PAIRS) {
            return Err(damaged(format!("{} is not a pair's number", run.pair)));
        }
        if let Some(run) = read.runs.iter().find(|run| !is_name(&run.id)) {
            return Err(damaged(format!("{:?} is not a run's name", run.id)));
        }
        Ok(read)
    }

    /// Whether both sides are the same.
    pub fn is_aa(&self) -> bool {
        self.a == self.b && !self.hidden
    }

    /// Whether something else than its own side spoiled or disturbed a run of a pair.
    pub fn is_hit(&self, pair: u32) -> bool {
        self.runs.iter().any(|run| run.pair == pair && run.is_hit())
    }

    /// Most pairs that are repeated: half as many as were requested.
    pub const fn most_anew(&self) -> u32 {
        self.pairs / 2
    }

    /// Numbers of repeated pairs: disturbed ones, up to the most. The first is repeated after the requested ones.
    pub fn made_anew(&self) -> Vec<u32> {
        let hit: BTreeSet<u32> = self.runs.iter().filter(|run| run.is_hit()).map(|run| run.pair).collect();
        let mut anew = Vec::new();
        for pair in hit {
            let number = anew.len() as u32;
            if number < self.most_anew() && pair < self.pairs + number {
                anew.push(pair);
            }
        }
        anew
    }

    /// Pairs that a side spoiled itself and nothing else hit: they are evidence and not repeated.
    pub fn own_pairs(&self) -> usize {
        let own: BTreeSet<u32> = self.runs.iter().filter(|run| run.own).map(|run| run.pair).collect();
        own.into_iter().filter(|pair| !self.is_hit(*pair)).count()
    }

    /// Writes the file, at once or not at all.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        replace_json(dir.join(file::PAIRS), self)
    }
}

impl PairedRun {
    /// Whether something else than its own side spoiled or disturbed it.
    pub const fn is_hit(&self) -> bool {
        self.disturbed || (self.spoiled.is_some() && !self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_written_and_read_and_no_other_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(PairedRuns::read(dir.path()).is_err());
        let mut pairs = PairedRuns {
            schema: PairedRuns::SCHEMA.to_owned(),
            name: "x".into(),
            pairs: 8,
            runs: vec![PairedRun {
                pair: 0,
                side: ComparedSideName::B,
                id: "2026-x".into(),
                spoiled: None,
                own: false,
                disturbed: false,
            }],
            ..PairedRuns::default()
        };
        pairs.write(dir.path()).unwrap();
        assert_eq!(PairedRuns::read(dir.path()).unwrap(), pairs);
        pairs.runs[0].id = "../../etc".into();
        pairs.write(dir.path()).unwrap();
        testkit::assert_has(PairedRuns::read(dir.path()).expect_err("a path").to_string(), ["etc"]);
        pairs.runs[0].id = "2026-x".into();
        pairs.runs[0].pair = u32::MAX;
        pairs.write(dir.path()).unwrap();
        let told = PairedRuns::read(dir.path()).expect_err("no such pair");
        assert!(told.to_string().contains("not a pair's number"), "{told}");
    }
}
