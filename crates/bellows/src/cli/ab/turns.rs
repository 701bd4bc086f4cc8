//! Making the runs of two sides in turns, and telling what they say.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use archive::{ComparedSideName, Comparison, PairedRuns, RunRecord, RunState, Tag};
use measure::{Problem, counted};
use report::console::{self, Shape};
use report::view::ComparisonSource;
use session::{
    Experiment, FunctionCosts, NextRun, Observer, RunOptions, compare_functions, compare_pairs,
    counted_pairs, looks, next_run, paired_run,
};

use super::super::args::OutputArgs;
use super::super::compare::{Margins, ended};
use super::super::comparison_files::ComparisonFiles;
use super::super::perform::{Watched, carry_out, shape};
use super::super::{find, metrics};
use crate::failure::{Done, Failure};
use crate::output;

/// What is to be made.
pub(super) struct Plan {
    /// The folder of the runs.
    pub(super) dir: PathBuf,
    /// Those that were made before, and how many are to be made.
    pub(super) runs: PairedRuns,
    /// Side A.
    pub(super) a: Experiment,
    /// Side B.
    pub(super) b: Experiment,
    /// Both are the same, on purpose.
    pub(super) is_aa: bool,
    /// It may end before all pairs are made.
    pub(super) until_decided: bool,
    /// What difference matters.
    pub(super) margins: Margins,
    /// Where what is decided is written to, beside the runs' folder.
    pub(super) files: ComparisonFiles,
    /// How it is shown.
    pub(super) output: OutputArgs,
}

/// Makes the runs that are missing, and prints what all of them say.
pub(super) fn make(plan: Plan) -> Result<Done, Failure> {
    let mut turns = Turns::of(plan)?;
    let watched = Watched::start()?;
    let broken = turns.make_all(&watched);
    let told = turns.tell();
    watched.check()?;
    match (broken, told) {
        // What was measured is shown before what ended it.
        (Some(failure), Ok(_)) => Err(failure.already_printed()),
        (Some(failure), Err(_)) => Err(failure),
        (None, told) => told,
    }
}

struct Turns {
    plan: Plan,
    looks: Vec<u32>,
    /// One for each of the plan's runs.
    records: Vec<RunRecord>,
    /// What its functions cost, of each of them.
    costs: Vec<Option<FunctionCosts>>,
    /// How long the runs of this command took.
    took: Vec<Duration>,
}

impl Turns {
    fn of(plan: Plan) -> Result<Self, Failure> {
        let pairs = plan.runs.pairs;
        let looks = match plan.until_decided {
            true => looks(pairs),
            false => vec![pairs],
        };
        let mut costs = Vec::new();
        let records = plan.runs.runs.iter().map(|run| {
            let entry = archive::RunEntry::read(plan.dir.join(&run.id));
            costs.push(
                entry
                    .record
                    .as_ref()
                    .ok()
                    .and_then(|record| FunctionCosts::read(record, &entry.dir)),
            );
            entry.record.map_err(|why| {
                Failure::failed(
                    "a run that was made before cannot be read",
                    "begin anew without --resume",
                )
                .observed(format!("{}: {why}", run.id))
            })
        });
        let records = records.collect::<Result<Vec<_>, Failure>>()?;
        Ok(Self {
            plan,
            looks,
            records,
            costs,
            took: Vec::new(),
        })
    }

    /// Makes all that are missing; what ended it before, where anything did.
    fn make_all(&mut self, watched: &Watched) -> Option<Failure> {
        let title = self.plan.runs.name.clone();
        let started = self
            .plan
            .output
            .metrics
            .start(&title, self.plan.output.quiet);
        let mut exporter = match started {
            Ok(exporter) => exporter,
            Err(failure) => return Some(failure),
        };
        let mut broken = None;
        while let Some(next) = next_run(&self.plan.runs) {
            if self.is_decided() {
                break;
            }
            if let Err(failure) = self.make_one(next, watched, exporter.as_mut()) {
                broken = Some(match failure {
                    // Before it was ready: what was made before is kept all the same.
                    Failure::Stopped(_) => self.stopped(),
                    other => other,
                });
                break;
            }
            if watched.control().is_stopping() {
                broken = Some(self.stopped());
                break;
            }
        }
        metrics::finish(exporter);
        broken
    }

    fn make_one(
        &mut self,
        next: NextRun,
        watched: &Watched,
        exporter: Option<&mut session::Exporter>,
    ) -> Result<(), Failure> {
        let plan = &self.plan;
        let experiment = match next.side {
            ComparedSideName::A => &plan.a,
            ComparedSideName::B => &plan.b,
        };
        let about = self.about(next);
        let shape = Shape {
            title: format!("{}, {about}{}", plan.runs.name, self.time_left()),
            ..shape(experiment)
        };
        let tags = tags(next);
        let work = |options: &RunOptions, control: &load::Control, observer: &mut dyn Observer| {
            let mut options = options.clone();
            options.labels.tags.extend(tags);
            session::run(experiment, &options, control, observer)
        };
        let began = Instant::now();
        let dir = Some(plan.dir.clone());
        let carried = carry_out(&plan.output, dir, shape, watched, exporter, work)?;
        let (record, profiles) = (carried.outcome.record, carried.outcome.profiles);
        self.show(&about, &record)?;
        match record.state {
            RunState::Complete => {}
            // It is made anew when somebody goes on.
            RunState::Interrupted => return Ok(()),
            _ => return Err(Failure::of_run(record)),
        }
        self.took.push(began.elapsed());
        let run = paired_run(next, &record);
        let why = match &run.spoiled {
            Some(why) => Some(format!("does not count: {why}")),
            None => run
                .disturbed
                .then(|| "was disturbed by others on this machine".to_owned()),
        };
        if let Some(why) = why {
            output::line_aside(&format!("{about} {why}; the pair is made anew"));
        }
        self.plan.runs.runs.push(run);
        self.costs
            .push(FunctionCosts::of_profiles(&record, &profiles));
        self.records.push(record);
        self.plan
            .runs
            .write(&self.plan.dir)
            .map_err(|error| Failure::Failed(error.problem()))?;
        carried.report.map(|_| ())
    }

    /// Which run it is, for people.
    fn about(&self, next: NextRun) -> String {
        let (pair, pairs) = (next.pair + 1, self.plan.runs.pairs);
        match pair > pairs {
            true => format!("pair {pair} ({pairs} are to count), {}", next.side),
            false => format!("pair {pair} of {pairs}, {}", next.side),
        }
    }

    /// How long it will take, as far as the runs of this command tell.
    fn time_left(&self) -> String {
        if self.took.is_empty() {
            return String::new();
        }
        let each = self.took.iter().sum::<Duration>() / self.took.len() as u32;
        let pairs = self.plan.runs.pairs as usize;
        let whole = counted_pairs(&self.plan.runs).len();
        let half = usize::from(self.records.len() % 2 == 1);
        let runs = (pairs.saturating_sub(whole) * 2).saturating_sub(half);
        let seconds = each.as_secs_f64() * runs as f64;
        match seconds {
            ..90.0 => format!("; {seconds:.0} s left"),
            _ => format!("; {:.0} min left", seconds / 60.0),
        }
    }

    fn show(&self, about: &str, record: &RunRecord) -> Result<(), Failure> {
        let output = &self.plan.output;
        if !output.json {
            return output::print(&console::repeated(about, record, output::style()));
        }
        if !output.quiet {
            output::aside(&console::repeated(about, record, output::style_aside()));
        }
        Ok(())
    }

    /// Whether this is a look that was fixed beforehand, and leaves nothing open.
    fn is_decided(&self) -> bool {
        let whole = counted_pairs(&self.plan.runs).len();
        let is_look = self.looks.iter().any(|look| *look as usize == whole);
        // Of a pair that is half made nothing is known yet.
        is_look && self.compared().is_ok_and(|it| !it.is_undecided())
    }

    fn compared(&self) -> Result<Comparison, Problem> {
        let options = self.plan.margins.options();
        let mut compared = compare_pairs(&self.plan.runs, &self.records, &self.looks, options)?;
        compared.is_aa = self.plan.is_aa;
        let pairs = counted_pairs(&self.plan.runs);
        let of = |place: fn(&(usize, usize)) -> usize| -> Vec<_> {
            let places = pairs.iter().map(place);
            places
                .map(|at| self.costs.get(at).cloned().flatten())
                .collect()
        };
        compare_functions(&mut compared, &of(|it| it.0), &of(|it| it.1));
        Ok(compared)
    }

    /// Prints what the runs say, and keeps it.
    fn tell(&self) -> Result<Done, Failure> {
        let compared = self.compared().map_err(Failure::Failed)?;
        let output = &self.plan.output;
        compared
            .write(&self.plan.dir)
            .map_err(|error| Failure::Failed(error.problem()))?;
        match output.json {
            true => output::print_json(&compared)?,
            false => output::print(&console::comparison(&compared, output::style()))?,
        }
        self.write_files(&compared)?;
        let page = report::html::write_comparison(&self.plan.dir)?;
        let kept = format!("page: {}", page.display());
        match output.json {
            true if output.quiet => {}
            true => output::line_aside(&kept),
            false => output::print(&format!("{kept}\n"))?,
        }
        let is_whole = counted_pairs(&self.plan.runs).len() >= self.plan.runs.pairs as usize;
        if output.strict && !is_whole && !self.is_decided() {
            return Ok(Done::Invalid);
        }
        Ok(ended(&compared))
    }

    fn write_files(&self, compared: &Comparison) -> Result<(), Failure> {
        let plan = &self.plan;
        let folder = |id: &String| (id.clone(), plan.dir.join(id));
        let runs: HashMap<String, PathBuf> =
            plan.runs.runs.iter().map(|run| folder(&run.id)).collect();
        plan.files.write(&ComparisonSource {
            comparison: compared,
            name: &plan.runs.name,
            runs: &runs,
            pairs: Some(&plan.runs),
            folder: None,
        })
    }

    /// How it goes on after a signal.
    fn stopped(&self) -> Failure {
        let pairs = self.plan.runs.pairs;
        let made = counted(self.records.len() as u64, "run");
        find::stopped(
            &format!("stopped after {made} of {}", pairs * 2),
            &self.plan.dir,
        )
    }
}

/// What its run is found by: `side-a`, `pair-3`.
fn tags(next: NextRun) -> Vec<Tag> {
    let tags = [
        format!("side-{}", next.side.tag()),
        format!("pair-{}", next.pair + 1),
    ];
    tags.iter().filter_map(|tag| tag.parse().ok()).collect()
}
