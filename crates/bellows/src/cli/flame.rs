//! `flame`: a profile, or a window of it, as a flame graph, or in the format of another tool.

use std::path::{Path, PathBuf};

use archive::profile::Heading;
use clap::Args;
use clap::builder::PossibleValuesParser;
use measure::Problem;

use super::profile_part::{ProfileArgs, ProfilePart};
use crate::failure::{Done, Failure};
use crate::profile_formats::Output;
use crate::{output, pictures};

/// Names of the standard output. A second opening of it would overwrite what the first one prints.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

const EXAMPLES: &str = "\
Examples:
  bellows flame last -o cpu.svg
  bellows flame last --from 10 --to 12 -o stall.svg --title 'ten to twelve'
  bellows flame last --where stall -o stall.svg
  bellows flame last --event mmap -o mmap.svg
  bellows flame last -o cpu.speedscope.json
  bellows flame profile.pb.gz --format firefox -o cpu.json.gz
  bellows flame cpu.folded -o - > cpu.svg

`bellows help profile-formats` says what can be read, and what each format loses.";

/// What `bellows flame` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// File to write, or - for standard output [default: cpu.svg]
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format to write [default: by the end of the file's name]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Output::values()))]
    format: Option<String>,
    /// Heading of the flame graph
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

impl FlameArgs {
    /// Draws it.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let named = self.format.as_deref().and_then(Output::named);
        let file = self.output.unwrap_or_else(|| match named {
            Some(format) => format.usual_name().into(),
            None => "cpu.svg".into(),
        });
        let is_stdout = STDOUT.iter().any(|name| file == Path::new(name));
        let format = match named {
            Some(format) => format,
            None => Output::of_file(&file)?,
        };
        let ProfilePart {
            profile,
            name,
            which,
            ..
        } = self.profile.open()?;
        let samples = report::text::amount(&profile);
        let heading = Heading {
            title: self.title.unwrap_or_else(|| pictures::heading(&profile)),
            subtitle: Some(match which {
                Some(which) => format!("{name}, {which}, {samples}"),
                None => format!("{name}, {samples}"),
            }),
        };
        let content = format.write(&profile, &heading)?;
        if is_stdout {
            output::data(&content)?;
        } else {
            let written = archive::write_output(&file, &content);
            written.map_err(|source| Problem::io("write", &file, &source))?;
            output::print(&format!("{}\n", file.display()))?;
        }
        Ok(Done::Fine)
    }
}
