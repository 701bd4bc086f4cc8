//! `flame`: a profile, or a window of it, as a flame graph, or in the format of another tool.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use measure::Problem;
use stacks::Heading;

use super::fold::CollapseArgs;
use super::profile_part::{ProfileArgs, ProfilePart};
use crate::profile_formats::Output;
use crate::{Done, Failure, output, run_options};

/// Names of standard output. Opening it a second time would overwrite the first one's output.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
/// The format for which `perf script`'s text is not read as a profile.
const STACKCOLLAPSE: &str = "stackcollapse";
/// File with folded text where none is named.
const COLLAPSED: &str = "cpu.folded";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows flame -o cpu.svg
  bellows flame last --from 10 --to 12 -o stall.svg --title 'ten to twelve'
  bellows flame last --where stall -o stall.svg
  bellows flame last --event mmap -o mmap.svg
  bellows flame last -o cpu.speedscope.json
  bellows flame profile.pb.gz --format firefox -o cpu.json.gz
  bellows flame cpu.folded -o - > cpu.svg
  perf script | bellows flame - --format stackcollapse -o - > cpu.folded
  bellows flame script.txt --format stackcollapse --all --tid -o - | grep beam.smp

`bellows help profile-formats` says what can be read, and what each format loses. --format stackcollapse writes a line \
per stack, `comm;root;…;leaf count`, sorted; byte for byte as FlameGraph's stackcollapse-perf.pl.",
    mut_arg("event", |arg| arg.alias("event-filter"))
)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// File to write, or - for standard output [default: by event and format, such as cpu.svg; it
    /// replaces neither what is read nor files of a recording]
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format to write [default: by the end of the file's name]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(formats()))]
    format: Option<String>,
    /// Heading of the flame graph
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    collapse: CollapseArgs,
}

fn formats() -> Vec<PossibleValue> {
    let mut formats = Output::values();
    let help = "stacks of the text of `perf script`, as stackcollapse-perf.pl folds them";
    formats.push(PossibleValue::new(STACKCOLLAPSE).help(help));
    formats
}

impl FlameArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if self.format.as_deref() == Some(STACKCOLLAPSE) {
            return self.fold();
        }
        if self.collapse != CollapseArgs::default() {
            let cause = "several files, and stackcollapse-perf.pl's options, are for --format stackcollapse";
            return Err(Failure::usage(cause, "leave them out, or give --format stackcollapse"));
        }
        let named = self.format.as_deref().and_then(Output::named);
        let format = match (named, &self.output) {
            (Some(format), _) => format,
            (None, Some(file)) => Output::of_file(file)?,
            (None, None) => Output::SVG,
        };
        let ProfilePart { profile, name, which, source, .. } = self.profile.open()?;
        let samples = report::text::amount(&profile);
        let event = profile.header.name();
        let heading = Heading {
            title: self.title.unwrap_or_else(|| run_options::heading(&profile)),
            subtitle: Some(match which {
                Some(which) => format!("{name}, {which}, {samples}"),
                None => format!("{name}, {samples}"),
            }),
        };
        let content = format.write(profile, &heading)?;
        write(self.output, format.usual_name(&event), &[source], &content)
    }

    fn fold(self) -> Result<Done, Failure> {
        if self.title.is_some() {
            return Err(Failure::usage("folded text has no heading", "leave out --title"));
        }
        let (first, event) = self.profile.text()?;
        let files = self.collapse.files(first);
        let content = self.collapse.fold(&files, event)?;
        write(self.output, COLLAPSED.to_owned(), &files, &content)
    }
}

/// Writes a file: the one that was named, or one of the usual name in the current folder.
fn write(named: Option<PathBuf>, usual: String, sources: &[PathBuf], content: &[u8]) -> Result<Done, Failure> {
    let is_named = named.is_some();
    let file = named.unwrap_or_else(|| usual.into());
    if is_named && is_stdout(&file) {
        output::data(content)?;
        return Ok(Done::Fine);
    }
    if file.exists() && sources.iter().any(|it| it.canonicalize().ok() == file.canonicalize().ok()) {
        return Err(would_replace(&file, "the profile that it is drawn of"));
    }
    if !is_named && Path::new(archive::file::RECORD).exists() {
        return Err(would_replace(&file, "a file of the recording in this folder"));
    }
    let written = match is_named {
        true => stacks::write_output(&file, content),
        // Nobody named it, so a link of this name, too, is replaced and not followed.
        false => stacks::replace_file(&file, content),
    };
    tell(&file, written)?;
    Ok(Done::Fine)
}

pub(super) fn is_stdout(file: &Path) -> bool {
    STDOUT.iter().any(|name| file == Path::new(name))
}

fn would_replace(file: &Path, what: &str) -> Failure {
    let cause = format!("{} would replace {what}", file.display());
    Failure::usage(cause, "name another file with -o, or - for standard output").observed(file.display())
}

pub(super) fn tell(file: &Path, written: std::io::Result<()>) -> Result<(), Failure> {
    written.map_err(|source| Problem::io("write", file, &source))?;
    output::print(&format!("{}\n", file.display()))?;
    Ok(())
}
