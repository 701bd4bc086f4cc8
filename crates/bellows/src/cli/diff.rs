//! `diff`: how two profiles differ, or a part of one from the rest of its run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use measure::Problem;
use regex::Regex;
use report::console::{self, DifferenceSort, DifferenceTable, FunctionRowOf};
use report::difference::DifferenceSide;
use report::flame::{DifferenceOptions, difference_svg};
use stacks::incomparable;

use super::args::named;
use super::profile_part::{PartArgs, ProfilePart};
use super::top::{identifiers_only, no_waits, rows_by};
use super::{complete, find, flame};
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows diff 7k2q last
  bellows diff tag=before tag=after
  bellows diff before.pb.gz after.pb.gz -o difference.svg
  bellows diff --from 12 --to 15
  bellows diff --where 'end-to-end p99 > 50ms' -o slow.svg
  bellows diff 7k2q last --by class
  bellows diff 7k2q last -o difference.folded

A is what is compared with, B what is compared. With one profile, B is the part that --from and --to or \
--where choose, and A the rest of the measured phase. `bellows help diff` says what is proven.")]
pub(crate) struct DiffArgs {
    /// The baseline: a run or a file, as `bellows top` takes it; the last run if absent
    #[arg(value_name = "A", default_value = find::LAST, hide_default_value = true, add = complete::profiles())]
    a: String,
    /// The profile to compare with A [default: a part of A, compared with the rest]
    #[arg(value_name = "B", add = complete::profiles())]
    b: Option<String>,
    #[command(flatten)]
    part: PartArgs,
    /// Rows to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Order, largest first
    #[arg(long, default_value = "change", value_parser = named::<DifferenceSort>())]
    sort: DifferenceSort,
    /// Show only functions, or what stands in their place, whose name matches
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Rows in place of functions
    #[arg(long, value_name = "WHAT", value_parser = rows_by())]
    by: Option<FunctionRowOf>,
    /// All functions by name, native ones too, as --json has them; without, programs in Erlang, Java or Go have a table
    /// of the functions of that language, each with the native code below it, unless the order is that of totals
    #[arg(long, conflicts_with = "by")]
    raw: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// File to write in place of the table: a differential flame graph (.svg), or a line for each stack with
    /// its weight in A and in B, as difffolded.pl writes it (.folded); - for a flame graph on standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Whose shares the widths of the flame graph are
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = Side::B, requires = "output")]
    widths: Side,
    /// Heading of the flame graph
    #[arg(long, value_name = "TEXT", requires = "output")]
    title: Option<String>,
    /// Compare also what differs in event, frequency or wholeness of stacks; the result says so
    #[arg(long)]
    force: bool,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// The baseline
    A,
    /// The profile compared with it
    B,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Svg,
    Folded,
}

struct Sides {
    a: ProfilePart,
    b: ProfilePart,
    /// Why it should not be.
    forced: Vec<Problem>,
    /// Files that are another build on either side.
    other_builds: Vec<String>,
    /// Virtual machines whose classes are not told alike.
    machines_without_symbols: Vec<String>,
}

impl DiffArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let form = self.output.as_deref().map(Form::of_file).transpose()?;
        let sides = self.sides()?;
        if sides.a.profile == sides.b.profile {
            output::line_aside("A and B are the same profile, so that nothing differs");
            if form.is_none() && !self.json {
                return Ok(Done::Fine);
            }
        }
        match (form, &self.output) {
            (Some(form), Some(file)) => self.write(form, file, &sides)?,
            _ => self.print(&sides)?,
        }
        Ok(Done::Fine)
    }

    /// The kind of the table's rows; a file is always of functions.
    fn rows_of(&self) -> FunctionRowOf {
        self.by.filter(|_| self.output.is_none()).unwrap_or_default()
    }

    /// The kind of rows of the printed table: functions of the language where both sides have some.
    fn shown_rows(&self, sides: &Sides) -> FunctionRowOf {
        let of = self.rows_of();
        let is_usual =
            of == FunctionRowOf::Function && matches!(self.sort, DifferenceSort::Change | DifferenceSort::SelfShare);
        let has_language = |part: &ProfilePart| !part.profile.language_functions().is_empty();
        match is_usual && !self.raw && !self.json && has_language(&sides.a) && has_language(&sides.b) {
            true => FunctionRowOf::Language,
            false => of,
        }
    }

    fn sides(&self) -> Result<Sides, Failure> {
        let of = self.rows_of();
        let Some(b) = &self.b else {
            let (b, rest) = self.part.beside_the_rest(&self.a)?;
            let a = ProfilePart {
                name: b.name.clone(),
                source: b.source.clone(),
                profile: rest,
                rest: None,
                which: Some("the rest".to_owned()),
            };
            return Ok(Sides {
                a: a.for_rows(of)?,
                b: b.for_rows(of)?,
                forced: Vec::new(),
                other_builds: Vec::new(),
                machines_without_symbols: Vec::new(),
            });
        };
        let mut a = self.part.open(&self.a)?.for_rows(of)?;
        let mut b = self.part.open(b)?.for_rows(of)?;
        let mut forced = incomparable(&a.profile, &b.profile);
        if !self.force && !forced.is_empty() {
            return Err(Failure::Failed(forced.remove(0)));
        }
        let machines_without_symbols = match of {
            FunctionRowOf::Function | FunctionRowOf::Class => a.profile.machines_without_symbols(&b.profile),
            _ => Vec::new(),
        };
        // A line, a class or whose work it is has a name in every build.
        let other_builds = match of {
            FunctionRowOf::Function => a.profile.other_builds(&b.profile),
            _ => Vec::new(),
        };
        if !other_builds.is_empty() {
            for side in [&mut a, &mut b] {
                side.profile = side.profile.with_one_unnamed(&other_builds);
            }
        }
        Ok(Sides { a, b, forced, other_builds, machines_without_symbols })
    }

    fn print(&self, sides: &Sides) -> Result<(), Failure> {
        let of = self.shown_rows(sides);
        for part in [&sides.a, &sides.b] {
            match of {
                FunctionRowOf::Work(by) if !part.profile.tells_work(by) => return Err(identifiers_only(&part.name)),
                FunctionRowOf::Wait(_) if part.profile.waits.is_empty() => return Err(no_waits(&part.name)),
                _ => {}
            }
        }
        let [a, b] = [&sides.a, &sides.b].map(ProfilePart::heading);
        let table = DifferenceTable {
            of,
            limit: self.limit,
            sort: self.sort,
            only: &|name| self.grep.as_ref().is_none_or(|regex| regex.is_match(name)),
            a: side(&sides.a, &a),
            b: side(&sides.b, &b),
            forced: &sides.forced,
            other_builds: &sides.other_builds,
            machines_without_symbols: &sides.machines_without_symbols,
        };
        if self.json {
            return output::print_json(&console::difference_as_json(&table));
        }
        output::print(&console::difference(&table, output::style()))
    }

    fn write(&self, form: Form, file: &Path, sides: &Sides) -> Result<(), Failure> {
        let [a, b] = [&sides.a, &sides.b].map(ProfilePart::heading);
        let content = match form {
            Form::Folded => stacks::folded_beside(&sides.a.profile, &sides.b.profile).into_bytes(),
            Form::Svg => {
                let options = DifferenceOptions {
                    title: (self.title.clone()).unwrap_or_else(|| "B compared with A".to_owned()),
                    widths_of_a: self.widths == Side::A,
                    forced: sides.forced.iter().map(|it| it.value.clone()).collect(),
                    ..DifferenceOptions::default()
                };
                difference_svg(&side(&sides.a, &a), &side(&sides.b, &b), &options)?
            }
        };
        if flame::is_stdout(file) {
            return output::data(&content);
        }
        flame::tell(file, stacks::write_output(file, &content))
    }
}

fn side<'p>(part: &'p ProfilePart, name: &'p str) -> DifferenceSide<'p> {
    DifferenceSide { profile: &part.profile, name }
}

impl Form {
    /// The form for a file's extension; a flame graph without one.
    fn of_file(file: &Path) -> Result<Self, Failure> {
        match file.extension().and_then(|it| it.to_str()) {
            Some("svg") => Ok(Self::Svg),
            Some("folded" | "collapsed" | "txt") => Ok(Self::Folded),
            None if file.extension().is_none() => Ok(Self::Svg),
            _ => Err(Failure::usage(
                format!("{} tells no form of a difference by its end", file.display()),
                "end the name in .svg or .folded, or give --json",
            )
            .observed(file.display())),
        }
    }
}
