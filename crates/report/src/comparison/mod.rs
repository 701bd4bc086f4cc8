//! Output formats of a comparison: each is a line of [`ComparisonFormat::write`].

mod go_bench;
mod markdown;

#[cfg(test)]
mod tests;

use archive::ComparedMatrix;

use crate::junit::comparison_junit;

/// A form for CI servers and other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonFormat {
    /// JUnit XML: a test for each figure, or for each cell of a matrix. Undecided ones are skipped, not passed.
    Junit,
    /// Markdown for a comment or the summary of a job.
    Markdown,
    /// Go's text of benchmarks, which `benchstat -col side` compares.
    GoBench,
}

impl ComparisonFormat {
    /// The comparison or matrix in this format; `None` where there is none yet, so that no older result is left.
    /// Errors: where no memory is left to write to.
    pub fn write(self, name: &str, of: Option<&ComparedMatrix>) -> std::io::Result<String> {
        Ok(match self {
            Self::Junit => comparison_junit(name, of)?,
            Self::Markdown => markdown::text(name, of),
            Self::GoBench => go_bench::text(name, of),
        })
    }
}
