//! What is drawn of a run: its flame graph and its report.

use std::path::{Path, PathBuf};

use archive::file;
use archive::profile::Profile;
use report::flame::{self, FlameOptions};

use crate::failure::Failure;

/// Leaves the flame graph and the report in the run's folder; the report's path.
pub(crate) fn draw(run_dir: &Path, profile: Option<&Profile>) -> Result<PathBuf, Failure> {
    if let Some(profile) = profile.filter(|profile| !profile.samples.is_empty()) {
        let options = FlameOptions {
            title: heading(profile),
            ..FlameOptions::default()
        };
        let file = run_dir.join(&profile.header.event);
        flame::write_svg(profile, &options, &file.with_extension(file::FLAME))?;
    }
    Ok(report::html::write_report(run_dir, profile)?)
}

/// The heading of a profile's flame graph.
pub(crate) fn heading(profile: &Profile) -> String {
    let header = &profile.header;
    match (header.command.is_empty(), header.frequency) {
        (true, _) if header.event.is_empty() => "profile".to_owned(),
        (true, _) => header.event.clone(),
        (false, 0) => format!("{} of {}", header.event, header.command),
        (false, hertz) => format!("{} of {} at {hertz} Hz", header.event, header.command),
    }
}
