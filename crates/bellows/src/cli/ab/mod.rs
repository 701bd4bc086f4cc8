//! `ab`: the difference between two sides, from runs in turns or from runs that exist.

mod turns;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use archive::{DeliveryPromise, FolderKind, MatrixCell, MatrixKey, PairedMatrix, PairedRuns};
use clap::{Args, value_parser};
use experiment::Experiment;
use report::console::RunsProgress;
use session::Error;
use study::LEAST_PAIRS;

use self::turns::Turns;
use super::args::{OutputArgs, given};
use super::command_line::Assignment;
use super::compare::{ExistingArgs, ExistingRuns, Margins, is_log_name};
use super::paired::{ComparisonFiles, PairedFolder};
use super::run::{Changes, is_experiment, load};
use super::{complete, find};
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows ab stream-publish --b rabbitmq@/opt/rabbitmq-patched
  bellows ab mine.toml --b-set broker.config.collect_statistics=fine
  bellows ab mine.toml --b-patch ebin/ --flame what-changed.svg
  bellows ab mine.toml --b-set load.0.queue-type=quorum --pairs 12 --until-decided
  bellows ab mine.toml --aa
  bellows ab mine.toml --b-patch ebin/ --over load.0.queue-type=classic,quorum
  bellows ab mine.toml --aa --over load.0.rate=1000,2000 --over load.0.producers=1,8
  bellows ab mine.toml --b rabbitmq@/opt/patched --resume 7k2q
  bellows ab mine.toml --b rabbitmq@/opt/patched --junit ab.xml --markdown ab.md -o ab.html
  bellows ab 7k2q --margin 2%             existing runs in turns, decided once more
  bellows ab 7k2q x3m4 --with 9d1f c8p0   existing runs
  bellows ab tag=before --with tag=after --flame what-changed.svg
  bellows ab baseline/ --with new/ -o comparison.html --junit comparison.xml
  bellows ab a1.hlog a2.hlog --with b1.hlog b2.hlog -o page.html   HDR logs of any tool
  bellows ab before.hlog --with after.hlog --unit us

Runs of A and B are made in turns (ABBA or BAAB, drawn from --seed), each with a broker of its own where bellows \
starts it. With --over each combination of values is a comparison of its own, a cell; all of them are made in turns \
and decided together: where does it help, where does it hurt? Ctrl-C ends it; what is complete is shown, and the same \
command line with --resume goes on. A folder of runs in turns, and runs named with --with, are compared as they are: \
another folder stands for all runs in it, and of a histogram log only latencies are known. Exit codes: 0 the same or \
better, 3 worse, 4 inconclusive. `bellows help ab` says how it is decided.")]
pub(crate) struct AbArgs {
    /// Experiment to run: built in, or a file (*.toml). Or existing runs of A: paths, ids, parts of ids, folders of
    /// runs, a filter as of `bellows runs --filter` (tag=before), or HDR histogram logs
    #[arg(value_name = "EXPERIMENT|RUN", required = true, add = complete::experiments_and_runs())]
    names: Vec<String>,
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
    existing: ExistingArgs,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    output: OutputArgs,
}

/// Pairs where nobody says how many.
const PAIRS: u32 = 8;

impl AbArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let Some(name) = self.experiment()? else { return self.compare_existing() };
        if let Some(option) = self.existing.given() {
            let cause = format!("{option} is for runs that exist, and these are to be made");
            return Err(Failure::usage(cause, "leave it out, or name existing runs, and those of B by --with"));
        }
        let mut both = load(name)?;
        self.changes.apply(&mut both)?;
        let keys = varied_keys(&self.over, &self.set_by_sides())?;
        self.files.check(!keys.is_empty())?;
        let matrix = PairedMatrix::new(
            &both.name,
            self.seed.unwrap_or_else(measure::wall_clock_unix_ns),
            self.pairs.unwrap_or(PAIRS),
            keys,
        );
        let sides = matrix.cells.iter().map(|cell| self.sides(&both, &matrix.keys, cell));
        let sides = sides.collect::<Result<Vec<_>, Failure>>()?;
        self.check_promises(&sides)?;
        let folder = self.planned(matrix, &sides)?;
        let turns = Turns {
            looks: turns::looks(&folder, self.until_decided),
            folder,
            sides,
            until_decided: self.until_decided,
            margins: self.margins,
            files: self.files,
            output: self.output,
            progress: RunsProgress::new(Instant::now()),
        };
        turns.execute()
    }

    /// The experiment whose runs are to be made; `None` where they exist. A name of both is taken for the experiment.
    fn experiment(&self) -> Result<Option<&str>, Failure> {
        let [name] = self.names.as_slice() else { return Ok(None) };
        if !self.existing.with.is_empty() || is_log_name(name) {
            return Ok(None);
        }
        let runs = &self.output.runs.runs;
        let turns = find::paired_folder(name, runs)?;
        let is_run = || Path::new(name).is_dir() || name.contains('=') || find::run(name, runs).is_ok();
        match (is_experiment(name), turns) {
            (true, Some(dir)) => output::line_aside(&format!(
                "{name:?} is an experiment, which is run, and a folder of runs in turns: {} as an argument compares \
                 those",
                std::path::absolute(&dir).unwrap_or(dir).display()
            )),
            (false, Some(_)) => return Ok(None),
            (false, None) if is_run() => return Ok(None),
            (_, None) => {}
        }
        Ok(Some(name))
    }

    fn compare_existing(&self) -> Result<Done, Failure> {
        let of_experiments = [
            ("--a", self.a.is_some()),
            ("--b", self.b.is_some()),
            ("--a-set", !self.a_set.is_empty()),
            ("--b-set", !self.b_set.is_empty()),
            ("--a-patch", self.a_patch.is_some()),
            ("--b-patch", self.b_patch.is_some()),
            ("--aa", self.aa),
            ("--over", !self.over.is_empty()),
            ("--pairs", self.pairs.is_some()),
            ("--until-decided", self.until_decided),
            ("--seed", self.seed.is_some()),
            ("--resume", self.resume.is_some()),
        ];
        let given = given(of_experiments).chain(self.changes.given()).chain(self.output.labels.given());
        let given: Vec<&str> = given.collect();
        let (are, them) = match given.as_slice() {
            [_] => ("is", "it"),
            _ => ("are", "them"),
        };
        if !given.is_empty() {
            let cause = format!("{} {are} for runs to be made, and these exist", given.join(", "));
            return Err(Failure::usage(cause, format!("leave {them} out, or name an experiment")));
        }
        let runs = ExistingRuns {
            a: &self.names,
            args: &self.existing,
            margins: self.margins,
            files: &self.files,
            output: &self.output,
        };
        runs.compare()
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

    fn sides(&self, both: &Experiment, keys: &[MatrixKey], cell: &MatrixCell) -> Result<Sides, Failure> {
        let mut both = both.clone();
        for (key, value) in keys.iter().zip(&cell.values) {
            let set = both.set_by("--over", &format!("{}={value}", key.key));
            set.map_err(|error| Failure::Usage(error.problem()))?;
        }
        let a = changed(&both, self.a.as_ref(), "--a-set", &self.a_set, self.a_patch.as_deref())?;
        let mut b = match self.aa {
            true => a.clone(),
            false => changed(&both, self.b.as_ref(), "--b-set", &self.b_set, self.b_patch.as_deref())?,
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
                return Err(Failure::usage("runs in turns need an end", "give them one, such as --duration 30s"));
            }
        }
        let has_profile = |side: &Experiment| !side.profile.events.is_empty();
        if self.files.flame.is_some() && !(has_profile(a) && has_profile(b)) {
            let cause = "--flame draws what profiles differ in, and none are taken";
            return Err(Failure::usage(cause, "leave out --no-profile and an empty profile.events, or --flame"));
        }
        if a == b && !self.aa {
            let cause = "A and B are the same";
            let help = "say what differs (--b, --b-set, --b-patch), or compare A with itself: --aa";
            return Err(Failure::usage(cause, help));
        }
        Ok(())
    }

    /// Refuses sides whose acknowledgements mean different things, unless that is meant.
    fn check_promises(&self, sides: &[Sides]) -> Result<(), Failure> {
        let unlike = sides.iter().find_map(|it| {
            let [a, b] = [&it.a, &it.b].map(|side| DeliveryPromise::of(&side.to_json()));
            a.zip(b).filter(|(a, b)| a.is_unlike(b))
        });
        match (unlike, self.existing.force) {
            (None, false) | (Some(_), true) => Ok(()),
            (Some((a, b)), false) => {
                let cause = "the acknowledgements of A and B mean different things";
                let help = "let both sides promise the same, or compare anyway with --force";
                Err(Failure::usage(cause, help).observed(format!("A is {a}; B is {b}")))
            }
            (None, true) => {
                let cause = "--force has nothing to force: acknowledgements of A and B mean the same";
                Err(Failure::usage(cause, "leave it out, or name existing runs, and those of B by --with"))
            }
        }
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
            all.try_for_each(|side| session::check(side, session::SCENARIOS)).map_err(Failure::from)
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
            let help = "give the same command line as then, with --resume; or begin anew without it";
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
                "begin anew without --resume; `bellows ab FOLDER` says what the stopped runs decide",
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
        let (kind, root) = text.split_once('@').map_or((text, None), |(kind, root)| (kind, Some(root)));
        if kind.is_empty() || !kind.chars().all(|c| c.is_ascii_lowercase() || c == '-') || root == Some("") {
            return Err("it takes a kind of broker, and where it lies behind an @: rabbitmq@/opt/rabbitmq".to_owned());
        }
        Ok(Self { kind: kind.to_owned(), root: root.map(PathBuf::from) })
    }
}

/// The experiment of a side with its own broker, changes (by which option) and modules.
fn changed(
    both: &Experiment,
    broker: Option<&BrokerSpec>,
    option: &str,
    changes: &[Assignment],
    patch: Option<&Path>,
) -> Result<Experiment, Failure> {
    let mut experiment = both.clone();
    if let Some(broker) = broker {
        let kind = format!("broker.kind=\"{}\"", broker.kind);
        experiment.set(&kind).map_err(Error::from)?;
        experiment.broker.root.clone_from(&broker.root);
    }
    for change in changes {
        let set = experiment.set_by(option, &change.0);
        set.map_err(|error| Failure::Usage(error.problem()))?;
    }
    if let Some(patch) = patch {
        experiment.broker.patch = Some(patch.to_owned());
    }
    Ok(experiment)
}

/// Help for a value of `--over` that cannot be read.
const OVER_EXAMPLE: &str = "write --over load.0.queue-type=classic,quorum,stream";

/// The keys that are varied, in the order in which they were given.
///
/// `by_sides` are keys that `--a-set`, `--b-set` and their like set: what one side sets cannot be varied for both.
fn varied_keys(given: &[Assignment], by_sides: &[String]) -> Result<Vec<MatrixKey>, Failure> {
    let mut keys: Vec<MatrixKey> = Vec::new();
    for over in given {
        let key = varied_key(&over.0)?;
        if keys.iter().any(|other| other.key == key.key) {
            let cause = format!("--over {}: the key is given twice", key.key);
            return Err(Failure::usage(cause, format!("give all its values at once: --over {}=A,B,C", key.key)));
        }
        if let Some(side) = by_sides.iter().find(|side| overlap(side, &key.key)) {
            let cause = format!("--over {}: one side sets {side} to a value of its own", key.key);
            let help = "vary it with --over, which is for both sides, or let the sides differ in it; not both";
            return Err(Failure::usage(cause, help));
        }
        keys.push(key);
    }
    let cells = keys.iter().map(|key| key.values.len());
    let cells = cells.fold(1_usize, usize::saturating_mul);
    if cells > PairedMatrix::MOST_CELLS {
        let cause = format!("--over asks for {cells} cells, {} are the most", PairedMatrix::MOST_CELLS);
        let help = "give fewer values, or fewer keys: each combination is a comparison with all its runs";
        return Err(Failure::usage(cause, help).observed(cells));
    }
    Ok(keys)
}

/// Reads `KEY=VALUE,VALUE`.
fn varied_key(given: &str) -> Result<MatrixKey, Failure> {
    let Some((key, values)) = given.split_once('=') else {
        let hidden = web::redact::text(given);
        return Err(Failure::usage(format!("--over {hidden}: it has no values"), OVER_EXAMPLE));
    };
    let key = key.trim();
    let wrong = |what: &str, help: &str| Failure::usage(format!("--over {key}: {what}"), help);
    if key.is_empty() {
        return Err(wrong("it names no key", OVER_EXAMPLE));
    }
    let values: Vec<String> = split(values).collect();
    let is_secret = |value: &String| {
        let assignment = format!("{key}={value}");
        web::redact::assignment(&assignment) != assignment
    };
    if values.iter().all(String::is_empty) {
        return Err(wrong("it has no values", OVER_EXAMPLE));
    }
    if values.iter().any(is_secret) {
        return Err(wrong(
            "its values may be secret, and would name the cells",
            "vary a key whose values anybody may read",
        ));
    }
    if values.iter().any(String::is_empty) {
        return Err(wrong(
            "a value between its commas is empty",
            "write \"\" for an empty text; a comma within quotes or brackets parts nothing",
        ));
    }
    if let Some((_, twice)) =
        (values.iter().enumerate()).find(|(at, value)| values.iter().take(*at).any(|before| before == *value))
    {
        return Err(wrong("a value is given twice", "each value makes cells of its own: give it once").observed(twice));
    }
    Ok(MatrixKey { key: key.to_owned(), values })
}

/// The values between commas; a comma within quotes or brackets is a part of a value.
fn split(values: &str) -> impl Iterator<Item = String> {
    let (mut depth, mut quote) = (0_usize, None);
    let parts = values.split(move |c: char| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && quote.is_none()
    });
    parts.map(|value| value.trim().to_owned())
}

/// Whether two keys are equal, or one lies in the other's table.
fn overlap(a: &str, b: &str) -> bool {
    let below = |outer: &str, inner: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    below(a, b) || below(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: AbArgs,
    }

    /// They were silently ignored.
    #[test]
    fn options_that_mean_nothing_to_runs_that_exist_are_refused() {
        for (options, cause) in [
            (&["--tag", "x", "--note", "y"][..], "--tag, --note are for runs to be made, and these exist"),
            (&["--strict"], "--strict asks for all planned pairs, and these runs have no plan"),
        ] {
            let line = ["ab", "a", "--with", "b"].iter().chain(options);
            match <Line as clap::Parser>::parse_from(line).args.execute() {
                Err(Failure::Usage(problem)) => assert_eq!(problem.cause, cause),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn sides_that_promise_different_things_are_made_by_force_alone() {
        let both = Experiment::from_toml("phases.measure = '1s'\n[[load]]\nrate = 5", "x.toml").unwrap();
        let checked = |options: &[&str]| {
            let line = ["ab", "x.toml", "--b-set"].iter().chain(options);
            let args = <Line as clap::Parser>::parse_from(line).args;
            let matrix = PairedMatrix::new(&both.name, 1, PAIRS, Vec::new());
            let sides = args.sides(&both, &[], &matrix.cells[0]).unwrap();
            args.check_promises(&[sides]).map_err(|failure| format!("{failure:?}")).err().unwrap_or_default()
        };
        let (unlike, alike) = ("load.0.confirm=false", "load.0.queue-type=quorum");
        assert!(checked(&[unlike]).contains("B is at-most-once: producers get no acknowledgement"));
        assert_eq!(checked(&[unlike, "--force"]) + &checked(&[alike]), "");
        assert!(checked(&[alike, "--force"]).contains("nothing to force"));
    }

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
    fn an_experiment_with_terms_of_erlang_is_gone_on_with() {
        let set = "broker.advanced=\"[{rabbit,[{credit_flow_default_credit,{0,0}}]}].\"";
        let text = "name = 'x'\nphases.measure = '1s'\n[broker]\nkind = 'rabbitmq'\n[[load]]\nrate = 5";
        let both = Experiment::from_toml(text, "x.toml").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().to_str().unwrap();
        let planned = |more: &[&str]| {
            let line = ["ab", "x.toml", "--runs", runs, "--b-set", set];
            let line = line.iter().chain(more);
            let args = <Line as clap::Parser>::parse_from(line).args;
            let matrix = PairedMatrix::new(&both.name, 1, PAIRS, Vec::new());
            let sides = args.sides(&both, &[], &matrix.cells[0]).unwrap();
            assert_eq!(sides.b.to_json()["broker"]["advanced"], sides.b.broker.advanced.clone().unwrap());
            let is_installed = session::check(&sides.b, session::SCENARIOS).is_ok();
            is_installed.then(|| args.planned(matrix, &[sides]).unwrap().dir)
        };
        let Some(stopped) = planned(&[]) else {
            testkit::skip!("no RabbitMQ");
        };
        let again = planned(&["--resume", stopped.to_str().unwrap()]);
        assert_eq!(again, Some(stopped));
    }

    fn read(given: &[&str], by_sides: &[&str]) -> Result<Vec<MatrixKey>, String> {
        let given: Vec<Assignment> = given.iter().map(|it| Assignment((*it).to_owned())).collect();
        let by_sides: Vec<String> = by_sides.iter().map(|it| (*it).to_owned()).collect();
        varied_keys(&given, &by_sides).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn values_stand_between_commas_but_for_those_in_quotes_and_brackets() {
        let found = read(
            &[
                "load.0.queue-type=classic, quorum",
                "load.0.destinations=[\"a\", \"b\"],[]",
                "load.0.schedule=\"ramp:from=1,to=2\",'x,y'",
            ],
            &["load.0.rate"],
        )
        .unwrap();
        let values: Vec<_> = found.iter().map(|it| it.values.join("|")).collect();
        assert_eq!(values, ["classic|quorum", "[\"a\", \"b\"]|[]", "\"ramp:from=1,to=2\"|'x,y'"]);
    }

    #[test]
    fn what_makes_no_matrix_says_why() {
        let many = format!("load.0.rate={}", (0..51).map(|n| n.to_string() + ",").collect::<String>() + "51");
        for (given, by_sides, why) in [
            (vec!["load.0.rate="], vec![], "no values"),
            (vec!["=1,2"], vec![], "names no key"),
            (vec!["load.0.rate=1,2,1"], vec![], "value is given twice"),
            (vec!["load.0.rate=1"], vec!["load"], "one side sets"),
            (vec!["broker.password=a,b"], vec![], "secret"),
            (vec!["probe.0.headers.X-Auth=a,b"], vec![], "secret"),
            (vec![many.as_str(), "load.0.x=1,2"], vec![], "104 cells"),
        ] {
            let told = read(&given, &by_sides).expect_err(why);
            assert!(told.contains(why), "{why}: {told}");
            assert!(!told.contains("a,b"), "{told}");
        }
        assert!(read(&["load.1.rate=1"], &["load.0.rate", "load.1.rated"]).is_ok());
    }
}
