//! Cost per message of every call path of the broker on both sides: the data of a differential flame graph.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::json_file::{read_json, replace_json};
use crate::{CostChange, Error, file};

/// Bytes of the file that are read.
const LARGEST: u64 = 16 << 20;
/// Frames that are read.
const MOST: usize = 20_000;

/// Call paths of two sides as one tree, in nanoseconds of CPU time per message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedStacks {
    /// Always [`ComparedStacks::SCHEMA`].
    pub schema: String,
    /// The whole broker.
    pub broker: CostChange,
    /// Functions and groups of threads, each once.
    pub names: Vec<ComparedName>,
    /// Frames, callers first.
    pub frames: Vec<ComparedFrame>,
    /// The level at which all frames together were decided.
    pub level: f64,
    /// Frames below this share of both sides' CPU were left out; their callers keep what they cost.
    pub least_share: f64,
}

/// Name of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedName {
    /// The function, or the group of threads.
    pub function: String,
    /// The library, program, or `[jit]` and `[kernel]`, that it is of; empty of a group of threads.
    pub module: String,
}

/// A frame below its callers, with its cost and that of its calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedFrame {
    /// The caller, an index that is smaller than its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub parent: Option<u32>,
    /// Index into [`ComparedStacks::names`].
    pub name: u32,
    /// Mean of A's runs.
    pub a: f64,
    /// Mean of B's runs.
    pub b: f64,
    /// Interval of B less A, as strict as the decision.
    pub interval: (f64, f64),
    /// Whether something changed in it or below. Only then its calls were tested.
    pub asked: bool,
    /// Whether the change of the whole of it is none of chance.
    pub proven: bool,
    /// Smallest change that so many runs show in four of five experiments; `None` where they are too few.
    pub visible: Option<f64>,
}

impl ComparedFrame {
    /// B less A.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}

impl ComparedStacks {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.compared-stacks/1";

    /// The name of a frame.
    #[must_use]
    pub fn name(&self, frame: &ComparedFrame) -> Option<&ComparedName> {
        self.names.get(frame.name as usize)
    }

    /// Reads those of a folder of runs in pairs; `None` where it has none.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(file::COMPARED_STACKS);
        if !path.exists() {
            return Ok(None);
        }
        let read: Self = read_json(&path, LARGEST)?;
        if read.schema != Self::SCHEMA || !read.is_consistent() {
            return Err(Error::Damaged {
                path,
                cause: format!("it is no {} with callers before callees", Self::SCHEMA),
            });
        }
        Ok(Some(read))
    }

    /// Writes them into a folder of runs in pairs; none takes those away that were there.
    pub(crate) fn write(of: Option<&Self>, dir: &Path) -> Result<(), Error> {
        let path = dir.join(file::COMPARED_STACKS);
        if let Some(stacks) = of {
            return replace_json(path, stacks);
        }
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::Io {
                action: "remove",
                path,
                source,
            }),
            _ => Ok(()),
        }
    }

    fn is_consistent(&self) -> bool {
        let is_right = |(at, frame): (usize, &ComparedFrame)| {
            (frame.name as usize) < self.names.len()
                && frame.parent.is_none_or(|parent| (parent as usize) < at)
        };
        self.frames.len() <= MOST && self.frames.iter().enumerate().all(is_right)
    }
}
