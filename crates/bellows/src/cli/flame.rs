//! `flame`: a profile, or a window of it, as a flame graph.

use std::path::{Path, PathBuf};

use clap::Args;
use report::flame::{self, FlameOptions};

use super::profile_part::{ProfileArgs, ProfilePart};
use crate::failure::{Done, Failure};
use crate::{output, pictures};

/// Names of the standard output. A second opening of it would overwrite what the first one prints.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

const EXAMPLES: &str = "\
Examples:
  bellows flame last -o cpu.svg
  bellows flame last --from 10 --to 12 -o stall.svg --title 'ten to twelve'
  bellows flame last --where stall -o stall.svg
  bellows flame cpu.folded -o - > cpu.svg";

/// What `bellows flame` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// File to write, or - for standard output
    #[arg(long, short = 'o', value_name = "FILE", default_value = "cpu.svg")]
    output: PathBuf,
    /// Heading of the flame graph
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

impl FlameArgs {
    /// Draws it.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let ProfilePart {
            profile,
            name,
            which,
            ..
        } = self.profile.open()?;
        let samples = format!("{} {}", profile.total_weight(), profile.header.unit);
        let options = FlameOptions {
            title: self.title.unwrap_or_else(|| pictures::heading(&profile)),
            subtitle: Some(match which {
                Some(which) => format!("{name}, {which}, {samples}"),
                None => format!("{name}, {samples}"),
            }),
            ..FlameOptions::default()
        };
        if STDOUT.iter().any(|name| self.output == Path::new(name)) {
            let svg = flame::svg(&profile, &options)?;
            output::data(&svg)?;
        } else {
            flame::write_svg(&profile, &options, &self.output)?;
            output::print(&format!("{}\n", self.output.display()))?;
        }
        Ok(Done::Fine)
    }
}
