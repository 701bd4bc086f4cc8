//! The files that a comparison is written to: the same of runs in turns and of runs that were made before.

use std::path::{Path, PathBuf};

use archive::ComparedMatrix;
use clap::Args;
use measure::Problem;
use report::ComparisonFormat;

use crate::failure::Failure;
use crate::output;

/// Placeholders of the page and the picture.
const NO_PAGE: &str = "<!doctype html><title>bellows</title><p>Nothing is decided yet: this page is made when the runs are.</p>\n";
const NO_PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"480\" height=\"40\"><text x=\"8\" y=\"24\">Nothing is \
                          decided yet: this is drawn when the runs are made.</text></svg>\n";

/// Where a comparison is written to, beside the terminal.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Files")]
pub(super) struct ComparisonFiles {
    /// Write the comparison as a page: one HTML file
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write what is decided as JUnit XML: a test for each figure, or for each cell of a matrix. Worse is failed,
    /// "cannot tell" is skipped
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write it as Markdown, for a comment or the summary of a CI job
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the figures of every run as Go's text of benchmarks: `benchstat -col side FILE` compares them
    #[arg(long, value_name = "FILE")]
    go_bench: Option<PathBuf>,
    /// Draw the differential flame graph (.svg): CPU per message of every call path, coloured where a change is proven
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
}

impl ComparisonFiles {
    /// A file that has room for one comparison is none for a matrix.
    pub(super) fn check(&self, is_matrix: bool) -> Result<(), Failure> {
        let Some(path) = self.flame.as_ref().filter(|_| is_matrix) else {
            return Ok(());
        };
        let cause = "--flame draws one comparison, and a matrix has one for each cell";
        let help = "the page of each cell has its own, and `bellows compare FOLDER/CELL --flame FILE` draws it";
        Err(Failure::usage(cause, help).observed(path.display()))
    }

    /// Refuses to draw histogram logs, which hold no profiles.
    pub(super) fn check_logs(&self) -> Result<(), Failure> {
        let Some(path) = &self.flame else {
            return Ok(());
        };
        let cause = "--flame draws profiles, and a histogram log holds none";
        let help = "leave it out, or compare runs that were profiled";
        Err(Failure::usage(cause, help).observed(path.display()))
    }

    /// Writes that nothing is known yet, so that a job which is stopped leaves no older result, and that a file which
    /// cannot be written is known before the first run.
    pub(super) fn begin(&self, name: &str) -> Result<(), Failure> {
        for (path, text) in [(&self.output, NO_PAGE), (&self.flame, NO_PICTURE)] {
            if let Some(path) = path {
                let written = stacks::write_output(path, text.as_bytes());
                written.map_err(|e| Failure::io("write", path, &e))?;
            }
        }
        self.formats()
            .try_for_each(|(format, path)| write(format, path, name, None))
    }

    /// Whether a picture of the profiles is requested.
    pub(super) const fn needs_profiles(&self) -> bool {
        self.flame.is_some()
    }

    /// Writes the decision; `page` makes the page for its future folder.
    pub(super) fn write(
        &self,
        of: &ComparedMatrix,
        page: impl FnOnce(&Path) -> Result<String, Problem>,
    ) -> Result<(), Failure> {
        for (format, path) in self.formats() {
            write(format, path, &of.name, Some(of))?;
        }
        if let Some(path) = &self.output {
            let beside = path.parent().filter(|it| !it.as_os_str().is_empty());
            let page = page(beside.unwrap_or(Path::new(".")))?;
            let written = stacks::write_output(path, page.as_bytes());
            written.map_err(|e| Failure::io("write", path, &e))?;
            output::line_aside(&format!("page: {}", path.display()));
        }
        // The one that may have nothing to draw comes last.
        let Some(path) = &self.flame else {
            return Ok(());
        };
        draw(path, of).inspect_err(|_| {
            // It would say that the picture is still to come.
            let _ = std::fs::remove_file(path);
        })
    }

    fn formats(&self) -> impl Iterator<Item = (ComparisonFormat, &Path)> {
        let all = [
            (ComparisonFormat::Junit, &self.junit),
            (ComparisonFormat::Markdown, &self.markdown),
            (ComparisonFormat::GoBench, &self.go_bench),
        ];
        let given = all.into_iter();
        given.filter_map(|(format, path)| Some((format, path.as_deref()?)))
    }
}

fn write(
    format: ComparisonFormat,
    path: &Path,
    name: &str,
    of: Option<&ComparedMatrix>,
) -> Result<(), Failure> {
    let write = |text: String| stacks::write_output(path, text.as_bytes());
    let written = format.write(name, of).and_then(write);
    written.map_err(|e| Failure::io("write", path, &e))
}

/// Draws the costs of call paths on both sides.
fn draw(path: &Path, of: &ComparedMatrix) -> Result<(), Failure> {
    let one = of.alone();
    let Some(stacks) = one.and_then(|it| it.stacks.as_ref()) else {
        let why = one.and_then(|it| it.no_functions.clone());
        return Err(Failure::failed(
            "there is no flame graph to draw",
            "every run of both sides needs a CPU profile: leave out --no-profile, and see `bellows doctor`",
        )
        .observed(why.unwrap_or_else(|| "the runs were not sampled".to_owned())));
    };
    let picture = report::flame::comparison_svg(stacks, &format!("{}: B beside A", of.name))?;
    let written = stacks::write_output(path, &picture);
    written.map_err(|e| Failure::io("write", path, &e))?;
    output::line_aside(&format!("flame graph: {}", path.display()));
    Ok(())
}
