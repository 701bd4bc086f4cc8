//! This program's options for runs of `session`, labels as people write them, and a run's pictures.

use std::path::{Path, PathBuf};
use std::sync::Once;

use archive::{Labels, file};
use report::flame::{self, FlameOptions};
use session::RunOptions;
use stacks::Profile;

use crate::{Failure, output};

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
        carrier: session::Carrier::Alone,
        texts: session::Texts {
            verdict: report::text::verdict,
            warning: report::text::warning,
            options: report::text::options,
        },
    })
}

/// Says, once, that the variable which names a fleet does not apply to what this process runs.
pub(crate) fn tell_alone() {
    const VARIABLE: &str = "BELLOWS_FLEET";
    static TOLD: Once = Once::new();
    let why = match cfg!(feature = "fleet") {
        true => "is for `run` and `client`, of one experiment each",
        false => "is for builds with fleets",
    };
    if std::env::var_os(VARIABLE).is_some_and(|it| !it.is_empty()) {
        TOLD.call_once(|| output::line_aside(&format!("{VARIABLE} {why}: this process carries the load")));
    }
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

/// Leaves the flame graphs and the report in the run's folder; the report's path.
pub(crate) fn draw(run_dir: &Path, profiles: &[Profile]) -> Result<PathBuf, Failure> {
    for profile in profiles.iter().filter(|it| !it.samples.is_empty()) {
        let options = FlameOptions { title: heading(profile), ..FlameOptions::default() };
        let name = file::of_event(&profile.header.name(), file::FLAME);
        flame::write_svg(profile, &options, &run_dir.join(name))?;
    }
    Ok(report::html::write_report(run_dir)?)
}

pub(crate) fn heading(profile: &Profile) -> String {
    let header = &profile.header;
    let of = match header.node {
        Some(node) => format!("{}, node {node}", header.command),
        None => header.command.clone(),
    };
    match (header.command.is_empty(), header.frequency) {
        (true, _) if header.event.is_empty() => "profile".to_owned(),
        (true, _) => header.name(),
        (false, 0) => format!("{} of {of}", header.event),
        (false, hertz) => format!("{} of {of} at {hertz} Hz", header.event),
    }
}
