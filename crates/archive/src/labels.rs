//! `labels.json`: tags and notes. They may change after the run, so they have a file of their own.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::files::{RunLock, read_json_if_present};
use crate::{Error, file};
use stacks::replace_file;

/// Bytes of a `labels.json` that are read.
const LARGEST: u64 = 256 << 10;
/// Characters of a note.
const LONGEST_NOTE: usize = 2_000;
/// Characters of a tag.
const LONGEST_TAG: usize = 40;
/// Tags of one run.
const MOST_TAGS: usize = 100;

/// Tags and a note that people give a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// One remark in free text.
    pub note: Option<String>,
    /// Words to find it by. A run that has any is never pruned.
    pub tags: BTreeSet<Tag>,
}

impl Labels {
    /// Whether there is neither a note nor a tag.
    pub fn is_empty(&self) -> bool {
        self.note.is_none() && self.tags.is_empty()
    }

    /// A note, without the blanks around it. An error where it is longer than a note may be.
    pub fn note_of(text: &str) -> Result<String, String> {
        if text.chars().count() > LONGEST_NOTE {
            return Err(format!("a note has at most {LONGEST_NOTE} characters"));
        }
        Ok(text.trim().to_owned())
    }

    /// Whether a run can have them.
    pub fn check(&self) -> Result<(), String> {
        if self.tags.len() > MOST_TAGS {
            return Err(format!("a run has at most {MOST_TAGS} tags"));
        }
        Ok(())
    }

    /// The labels of a run folder; empty where it has none.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        Ok(read_json_if_present(&dir.join(file::LABELS), LARGEST)?.unwrap_or_default())
    }

    /// Puts these labels in the place of a run folder's. Where they cannot be written, those that were there stay.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(file::LABELS);
        let failed = |source| Error::Io { action: "write", path: path.clone(), source };
        if let Err(most) = self.check() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, most)));
        }
        let mut text = serde_json::to_vec_pretty(self).map_err(|e| failed(e.into()))?;
        text.push(b'\n');
        // Whoever removes the run now has seen these labels, or has removed it.
        let _lock = RunLock::take(dir);
        replace_file(&path, &text).map_err(failed)
    }
}

/// One word that a run is found by: letters, digits and `. _ - / : =` of any script, at most 40.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Tag(String);

impl FromStr for Tag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_alphanumeric() || "._-/:=".contains(c);
        if text.is_empty() || text.chars().count() > LONGEST_TAG || !text.chars().all(fits) {
            return Err(format!("expected a word of 1 to {LONGEST_TAG} letters, digits and . _ - / : ="));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Tag {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_and_read_and_what_is_no_tag_is_refused_also_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Labels::read(dir.path()).unwrap().is_empty());
        let labels = Labels {
            note: Some("before the patch".into()),
            tags: ["base", "env=prod", "größer"].map(|t| t.parse().unwrap()).into(),
        };
        labels.write(dir.path()).unwrap();
        assert_eq!(Labels::read(dir.path()).unwrap(), labels);
        for wrong in ["", "two words", "a,b", "\u{1b}[31m", &"x".repeat(41)] {
            assert!(wrong.parse::<Tag>().is_err(), "{wrong:?}");
        }
        for wrong in [r#"{"tags": ["a b"]}"#, "{"] {
            std::fs::write(dir.path().join(file::LABELS), wrong).unwrap();
            assert!(Labels::read(dir.path()).is_err());
        }
    }
}
