//! Pictures of a run: a flame graph of each event, and its report.

use std::path::{Path, PathBuf};

use archive::file;
use report::flame::{self, FlameOptions};
use stacks::Profile;

use crate::failure::Failure;

/// Leaves the flame graphs and the report in the run's folder; the report's path.
pub(crate) fn draw(run_dir: &Path, profiles: &[Profile]) -> Result<PathBuf, Failure> {
    for profile in profiles.iter().filter(|it| !it.samples.is_empty()) {
        let options = FlameOptions { title: heading(profile), ..FlameOptions::default() };
        let name = file::of_event(&profile.header.name(), file::FLAME);
        flame::write_svg(profile, &options, &run_dir.join(name))?;
    }
    Ok(report::html::write_report(run_dir)?)
}

/// The heading of a profile's flame graph.
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
