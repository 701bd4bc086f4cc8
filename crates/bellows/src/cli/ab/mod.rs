//! `ab`: runs of two sides in turns, and the difference between them.

mod over;
mod turns;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use archive::{FolderKind, MatrixCell, MatrixKey, PairedMatrix, PairedRuns};
use clap::{Args, value_parser};
use experiment::Experiment;
use session::Error;
use study::LEAST_PAIRS;

use super::args::OutputArgs;
use super::command_line::Assignment;
use super::compare::Margins;
use super::comparison_files::ComparisonFiles;
use super::paired::PairedFolder;
use super::run::{Changes, load};
use super::{complete, find};
use crate::failure::{Done, Failure};

const EXAMPLES: &str = "\
Examples:
  bellows ab stream-publish --b rabbitmq@/opt/rabbitmq-patched
  bellows ab mine.toml --b-set 'broker.advanced=\"[{rabbit,[{credit_flow_default_credit,{0,0}}]}].\"'
  bellows ab mine.toml --b-patch ebin/ --flame what-changed.svg
  bellows ab mine.toml --b-set load.0.queue-type=quorum --pairs 12 --until-decided
  bellows ab mine.toml --aa
  bellows ab mine.toml --b-patch ebin/ --over load.0.queue-type=classic,quorum
  bellows ab mine.toml --aa --over load.0.rate=1000,2000 --over load.0.producers=1,8
  bellows ab mine.toml --b rabbitmq@/opt/patched --resume 7k2q
  bellows ab mine.toml --b rabbitmq@/opt/patched --junit ab.xml --markdown ab.md -o ab.html

Runs of A and B are made in turns (ABBA or BAAB, drawn from --seed), each with a broker of its own where bellows starts it. \
With --over each combination of \
values is a comparison of its own, a cell; all of them are made in turns and decided together: where does it help, where does it hurt? Ctrl-C ends it; what is complete is shown, and the same command line with --resume goes on. Exit codes: 0 the same or better, \
3 worse, 4 cannot tell. `bellows help comparison` says how it is decided.";

/// Options of `bellows ab`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AbArgs {
    /// Built-in experiment, or a file (*.toml)
    #[arg(value_name = "NAME|FILE", add = complete::experiments())]
    experiment: String,
    /// Broker of side A, what is compared with: rabbitmq, rabbitmq@DIR, artemis@DIR, embedded; the experiment's own
    /// where absent
    #[arg(long, value_name = "BROKER")]
    a: Option<BrokerSpec>,
    /// Broker of side B
    #[arg(long, value_name = "BROKER")]
    b: Option<BrokerSpec>,
    /// Change a value of side A alone, as --set does for both. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    a_set: Vec<Assignment>,
    /// Change a value of side B alone. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    b_set: Vec<Assignment>,
    /// Folder with compiled modules (.beam) that come before side A's own
    #[arg(long, value_name = "DIR")]
    a_patch: Option<PathBuf>,
    /// Folder with compiled modules (.beam) that come before side B's own
    #[arg(long, value_name = "DIR")]
    b_patch: Option<PathBuf>,
    /// Compare A with itself: how far do runs differ on this machine where nothing does?
    #[arg(long, conflicts_with_all = ["b", "b_set", "b_patch"])]
    aa: bool,
    /// Compare for each of these values of a key; several keys: for each combination. May be repeated
    #[arg(long, value_name = "KEY=VALUE,VALUE")]
    over: Vec<Assignment>,
    /// Pairs of a run of A and one of B, of each cell where there are several [default: 8]. Fewer than 5 prove no
    /// change
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(2..=i64::from(PairedRuns::MOST_PAIRS)))]
    pairs: Option<u32>,
    /// End after half or three quarters of the pairs where all is decided then; each look is stricter
    #[arg(long)]
    until_decided: bool,
    /// Seed of the order of the runs; random where absent
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Go on with runs that were stopped: their folder, or a part at either end of its name
    #[arg(long, value_name = "FOLDER", conflicts_with = "seed")]
    resume: Option<String>,
    #[command(flatten)]
    margins: Margins,
    #[command(flatten)]
    files: ComparisonFiles,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    output: OutputArgs,
}

/// Pairs where nobody says how many.
const PAIRS: u32 = 8;

impl AbArgs {
    /// Makes the runs, compares them and prints the result.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut both = load(&self.experiment)?;
        self.changes.apply(&mut both)?;
        let keys = over::keys(&self.over, &self.set_by_sides())?;
        self.files.check(!keys.is_empty())?;
        let matrix = PairedMatrix::new(
            &both.name,
            self.seed.unwrap_or_else(measure::wall_clock_unix_ns),
            self.pairs.unwrap_or(PAIRS),
            keys,
        );
        let cells = matrix.cells.iter();
        let sides = cells.map(|cell| self.sides(&both, &matrix.keys, cell));
        let sides = sides.collect::<Result<Vec<_>, Failure>>()?;
        let folder = self.planned(matrix, &sides)?;
        turns::make(turns::Plan {
            folder,
            sides,
            until_decided: self.until_decided,
            margins: self.margins,
            files: self.files,
            output: self.output,
        })
    }

    /// Keys that a side sets for itself.
    fn set_by_sides(&self) -> Vec<String> {
        let set = self.a_set.iter().chain(&self.b_set);
        let key = |it: &Assignment| it.0.split('=').next().unwrap_or_default().trim().to_owned();
        let mut keys: Vec<String> = set.map(key).collect();
        if self.a_patch.is_some() || self.b_patch.is_some() {
            keys.push("broker.patch".to_owned());
        }
        if self.a.is_some() || self.b.is_some() {
            keys.extend(["broker.kind", "broker.root"].map(str::to_owned));
        }
        keys
    }

    /// The experiments of a cell.
    fn sides(
        &self,
        both: &Experiment,
        keys: &[MatrixKey],
        cell: &MatrixCell,
    ) -> Result<Sides, Failure> {
        let mut both = both.clone();
        for (key, value) in keys.iter().zip(&cell.values) {
            let set = both.set_by("--over", &format!("{}={value}", key.key));
            set.map_err(|error| Failure::Usage(error.problem()))?;
        }
        let a = Changed {
            broker: self.a.as_ref(),
            set: ("--a-set", &self.a_set),
            patch: self.a_patch.as_deref(),
        };
        let b = Changed {
            broker: self.b.as_ref(),
            set: ("--b-set", &self.b_set),
            patch: self.b_patch.as_deref(),
        };
        let a = a.side(&both)?;
        let mut b = match self.aa {
            true => a.clone(),
            false => b.side(&both)?,
        };
        self.check(&a, &b)?;
        // Both begin with copies of the same data, also where the second broker is another version.
        if a.prepares_the_same(&b) {
            b.prepared_by = Some(Box::new(a.broker.clone()));
        }
        Ok(Sides { a, b })
    }

    fn check(&self, a: &Experiment, b: &Experiment) -> Result<(), Failure> {
        for side in [a, b] {
            let valid = side.validate();
            valid.map_err(|error| Failure::Usage(error.problem()))?;
            if !side.ends_by_itself() {
                return Err(Failure::usage(
                    "runs in turns need an end",
                    "give them one, such as --set phases.measure=30s",
                ));
            }
        }
        let has_profile = |side: &Experiment| !side.profile.events.is_empty();
        if self.files.needs_profiles() && !(has_profile(a) && has_profile(b)) {
            return Err(Failure::usage(
                "--flame draws what profiles differ in, and none are taken",
                "leave out --no-profile and an empty profile.events, or --flame",
            ));
        }
        if a == b && !self.aa {
            return Err(Failure::usage(
                "A and B are the same",
                "say what differs (--b, --b-set, --b-patch), or compare A with itself: --aa",
            ));
        }
        Ok(())
    }

    /// The folder and the plan: a new one, or the one to resume.
    fn planned(&self, matrix: PairedMatrix, sides: &[Sides]) -> Result<PairedFolder, Failure> {
        let cells = (0..).zip(matrix.cells.iter().zip(sides));
        let fresh = cells.map(|(number, (cell, sides))| PairedRuns {
            schema: PairedRuns::SCHEMA.to_owned(),
            name: match PairedMatrix::label(&matrix.keys, &cell.values) {
                label if label.is_empty() => matrix.name.clone(),
                label => format!("{}, {label}", matrix.name),
            },
            seed: matrix.seed.wrapping_add(number),
            pairs: matrix.pairs,
            a: sides.a.to_json(),
            b: sides.b.to_json(),
            hidden: sides.a.differs_in_hidden(&sides.b),
            runs: Vec::new(),
        });
        let fresh: Vec<PairedRuns> = fresh.collect();
        let runs_dir = &self.output.runs.runs;
        // Where nothing is wrong with the command, it begins: no older result is left to be taken for this one's, also
        // where this machine cannot run it.
        let begin = || {
            self.files.begin(&matrix.name)?;
            let mut all = sides.iter().flat_map(|it| [&it.a, &it.b]);
            all.try_for_each(|side| session::check(side, session::SCENARIOS))
                .map_err(Failure::from)
        };
        let Some(named) = &self.resume else {
            begin()?;
            return PairedFolder::create(runs_dir, matrix, fresh);
        };
        let dir = find::stopped_folder(named, runs_dir, FolderKind::Pairs)?;
        let mut stopped = PairedFolder::go_on(&dir, self.until_decided)?;
        let pairs = stopped.matrix.pairs;
        // So few have decided nothing, whatever they showed.
        let asked = self.pairs.filter(|asked| *asked != pairs);
        let more = asked.filter(|asked| pairs < LEAST_PAIRS && *asked > pairs);
        if asked.is_some() && more.is_none() {
            return Err(Failure::usage(
                "the number of pairs was fixed at the beginning",
                "leave --pairs out: more of them after a look at the first ones would call noise a change more often",
            )
            .observed(format!("{pairs} then, {} now", matrix.pairs)));
        }
        let other = |cause| {
            let help =
                "give the same command line as then, with --resume; or begin anew without it";
            Err(Failure::usage(cause, help).observed(stopped.dir.display()))
        };
        if stopped.matrix.keys != matrix.keys || stopped.cells.len() != fresh.len() {
            return other("the stopped runs were of other cells");
        }
        let mut cells = stopped.cells.iter().zip(&fresh);
        if cells.any(|(then, now)| (&then.runs.a, &then.runs.b) != (&now.a, &now.b)) {
            return other("the stopped runs were of other sides");
        }
        let mut both = stopped.cells.iter().map(|it| &it.runs).chain(&fresh);
        if both.any(|it| it.hidden) {
            return Err(Failure::usage(
                "A and B differ in what the record hides (***), so that nobody knows whether it is the same as then",
                "begin anew without --resume; `bellows compare FOLDER` says what the stopped runs decide",
            )
            .observed(stopped.dir.display()));
        }
        if let Some(more) = more {
            stopped.plan_for(more)?;
        }
        begin()?;
        Ok(stopped)
    }
}

/// The experiments of both sides.
struct Sides {
    a: Experiment,
    b: Experiment,
}

/// A broker as `--a` and `--b` name it: its kind and directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BrokerSpec {
    kind: String,
    root: Option<PathBuf>,
}

impl FromStr for BrokerSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, root) = match text.split_once('@') {
            Some((kind, root)) => (kind, Some(root)),
            None => (text, None),
        };
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        };
        match (is_word(kind), root) {
            (true, Some("")) | (false, _) => Err(
                "it takes a kind of broker, and where it lies behind an @: rabbitmq@/opt/rabbitmq"
                    .to_owned(),
            ),
            (true, root) => Ok(Self {
                kind: kind.to_owned(),
                root: root.map(PathBuf::from),
            }),
        }
    }
}

/// The differences of one side.
struct Changed<'a> {
    broker: Option<&'a BrokerSpec>,
    /// The option and its value.
    set: (&'static str, &'a [Assignment]),
    patch: Option<&'a Path>,
}

impl Changed<'_> {
    /// The experiment of the side.
    fn side(&self, both: &Experiment) -> Result<Experiment, Failure> {
        let mut experiment = both.clone();
        if let Some(broker) = self.broker {
            let kind = format!("broker.kind=\"{}\"", broker.kind);
            experiment.set(&kind).map_err(Error::from)?;
            experiment.broker.root.clone_from(&broker.root);
        }
        let (option, changes) = self.set;
        for change in changes {
            let set = experiment.set_by(option, &change.0);
            set.map_err(|error| Failure::Usage(error.problem()))?;
        }
        if let Some(patch) = self.patch {
            experiment.broker.patch = Some(patch.to_owned());
        }
        Ok(experiment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_a_kind_and_a_place() {
        let read = |text: &str| text.parse::<BrokerSpec>();
        let plain = read("rabbitmq").unwrap();
        assert_eq!((plain.kind.as_str(), plain.root), ("rabbitmq", None));
        let placed = read("rabbitmq@/opt/a@b").unwrap();
        assert_eq!(placed.root.as_deref(), Some(Path::new("/opt/a@b")));
        for wrong in ["", "@", "rabbitmq@", "/opt/rabbitmq", "a\"b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    /// Terms without secrets were hidden, too, and an experiment with hidden values cannot be resumed.
    #[test]
    fn the_example_with_terms_of_erlang_is_gone_on_with() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: AbArgs,
        }
        let mut examples = EXAMPLES.lines();
        let example = examples.find(|it| it.contains("broker.advanced")).unwrap();
        let set = example.split('\'').nth(1).unwrap();
        let text =
            "name = 'x'\nphases.measure = '1s'\n[broker]\nkind = 'rabbitmq'\n[[load]]\nrate = 5";
        let both = Experiment::from_toml(text, "x.toml").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().to_str().unwrap();
        let planned = |more: &[&str]| {
            let line = ["ab", "x.toml", "--runs", runs, "--b-set", set];
            let line = line.iter().chain(more);
            let args = <Line as clap::Parser>::parse_from(line).args;
            let matrix = PairedMatrix::new(&both.name, 1, PAIRS, Vec::new());
            let sides = args.sides(&both, &[], &matrix.cells[0]).unwrap();
            assert_eq!(
                sides.b.to_json()["broker"]["advanced"],
                sides.b.broker.advanced.clone().unwrap()
            );
            let is_installed = session::check(&sides.b, session::SCENARIOS).is_ok();
            is_installed.then(|| args.planned(matrix, &[sides]).unwrap().dir)
        };
        let Some(stopped) = planned(&[]) else {
            testkit::skip!("no RabbitMQ");
        };
        let again = planned(&["--resume", stopped.to_str().unwrap()]);
        assert_eq!(again, Some(stopped));
    }
}
