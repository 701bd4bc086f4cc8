//! This program's options for runs of `session`, and labels as people write them.

use std::path::{Path, PathBuf};

use archive::Labels;
use session::RunOptions;

use crate::failure::Failure;

/// Options for a run by this program, which the archive remembers as `command`.
pub(crate) fn run_options(
    runs_dir: Option<PathBuf>,
    labels: Labels,
    command: Vec<String>,
) -> Result<RunOptions, Failure> {
    Ok(RunOptions {
        runs_dir,
        labels,
        command,
        bellows_exe: std::env::current_exe()
            .map_err(|e| Failure::io("find", Path::new("the bellows executable"), &e))?,
        scenarios: session::SCENARIOS,
        texts: session::Texts {
            verdict: report::text::verdict,
            warning: report::text::warning,
            options: report::text::options,
        },
    })
}

/// Reads labels as people write them. An empty note is none.
pub(crate) fn labels<'a>(note: String, tags: impl Iterator<Item = &'a String>) -> Result<Labels, Failure> {
    let wrong = |what: &'static str| {
        move |why: String| Failure::usage(format!("{what} cannot be kept: {why}"), "change it").observed(why)
    };
    let read = |tag: &String| tag.parse().map_err(wrong("the tag")).map_err(|e| e.observed(tag));
    let labels = Labels {
        note: Some(note).filter(|note| !note.is_empty()),
        tags: tags.map(read).collect::<Result<_, Failure>>()?,
    };
    labels.check().map_err(wrong("the tags"))?;
    Ok(labels)
}
