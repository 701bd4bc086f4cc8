//! The formats that profiles are read from and written in: the rows of all crates in one table.

use std::path::Path;

use clap::builder::PossibleValue;
use measure::Problem;
use stacks::{FORMATS, Format, Heading, Profile, USUAL_EVENT, format_of_name};

use crate::Failure;

pub(crate) fn all() -> Vec<Format> {
    let own = [report::flame::SVG, profile::PERF_DATA];
    own.into_iter().chain(FORMATS).collect()
}

/// A format that profiles are written in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output(Format);

impl Output {
    /// A flame graph.
    pub(crate) const SVG: Self = Self(report::flame::SVG);

    /// Every format that is written, by its name, for the command line.
    pub(crate) fn values() -> Vec<PossibleValue> {
        let written = all().into_iter().filter(|it| it.write.is_some());
        let help = |format: &Format| format!("{}: *{}", format.what, format.ends.join(", *"));
        written.map(|format| PossibleValue::new(format.name).help(help(&format))).collect()
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        all().into_iter().find(|format| format.name == name && format.write.is_some()).map(Self)
    }

    /// The format for a file's extension; a flame graph without one.
    pub(crate) fn of_file(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let formats = all();
        match format_of_name(&formats, &name) {
            Some(format) if format.write.is_some() => Ok(Self(*format)),
            None if path.extension().is_none() => Ok(Self(report::flame::SVG)),
            known => {
                let ends = formats.iter().filter(|format| format.write.is_some());
                let ends: Vec<_> = ends.filter_map(|it| it.ends.first().copied()).collect();
                let why = known.map_or_else(
                    || "tells no format by its end".to_owned(),
                    |format| format!("would be {}, which is read and not written", format.what),
                );
                let cause = format!("{name} {why}");
                let help = format!("end the name in {}, or give --format", ends.join(", "));
                Err(Failure::usage(cause, help).observed(path.display()))
            }
        }
    }

    /// A file of this format with a profile of an event, which is written where none is named: `cpu.svg`.
    pub(crate) fn usual_name(self, event: &str) -> String {
        let end = self.0.ends.first().copied().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        match event {
            "" => format!("{USUAL_EVENT}{end}"),
            event => event.chars().map(plain).collect::<String>() + end,
        }
    }

    pub(crate) fn write(self, profile: Profile, heading: &Heading) -> Result<Vec<u8>, Problem> {
        let profile = if self.0.lines { profile } else { profile.without_lines() };
        self.0.write.map_or(Ok(Vec::new()), |write| write(&profile, heading))
    }
}
