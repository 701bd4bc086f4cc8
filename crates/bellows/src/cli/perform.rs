//! Running something through `session`: shown while it goes on, summed up, drawn at the end.

use std::path::{Path, PathBuf};

use archive::{RunState, RunSummary, Tier};
use report::console::{self, Shape, Style};
use session::{Error, Experiment, Observer, RunOptions, RunOutcome};

use super::args::{OutputArgs, RequireArgs};
use super::command_line;
use crate::failure::{Done, Failure};
use crate::run_options::run_options;
use crate::signals::AtOnce;
use crate::{output, pictures, signals};

/// A run that has ended and was shown.
#[derive(Debug)]
pub(super) struct Performed {
    /// Where it was kept.
    pub(super) run_dir: Option<PathBuf>,
    /// How it ended.
    pub(super) done: Done,
}

/// Runs an experiment, shows it, and leaves its report where `keep` says so.
pub(super) fn experiment(
    experiment: &Experiment,
    output: &OutputArgs,
    require: &RequireArgs,
    keep: bool,
    shape: Shape,
) -> Result<Performed, Failure> {
    let mut experiment = experiment.clone();
    experiment.require.extend(require.resolve());
    experiment.validate().map_err(Error::from)?;
    require.write(&shape.title, None)?;
    perform(
        output,
        require,
        keep,
        shape,
        |options, control, observer| session::run(&experiment, options, control, observer),
    )
}

/// What is shown of an experiment.
pub(super) fn shape(experiment: &Experiment) -> Shape {
    let any = |of: fn(&session::experiment::LoadSpec) -> bool| experiment.load.iter().any(of);
    let measure = experiment.phases.measure;
    Shape {
        title: experiment.name.clone(),
        producers: any(session::experiment::LoadSpec::has_producers),
        consumers: any(session::experiment::LoadSpec::has_consumers),
        paced: any(session::experiment::LoadSpec::is_paced),
        latency: true,
        warmup: experiment.phases.warmup.0,
        measure: (!measure.is_zero()).then_some(measure.0),
        next: None,
    }
}

/// Does the work, shows it, draws the report and prints the summary.
fn perform(
    output: &OutputArgs,
    require: &RequireArgs,
    keep: bool,
    shape: Shape,
    work: impl FnOnce(&RunOptions, &load::Control, &mut dyn Observer) -> Result<RunOutcome, Error>,
) -> Result<Performed, Failure> {
    let runs = keep.then(|| output.runs.runs.clone());
    let carried = carry_out(output, runs, shape.clone(), work)?;
    let shown = tell(output, &shape, &carried.outcome, carried.place());
    require.write(&shape.title, Some(&carried.outcome.record))?;
    carried.report?;
    shown?;
    carried.at_once.check()?;
    judge(output, carried.outcome)
}

/// Work that was done, and what was drawn of it.
pub(super) struct CarriedOut {
    /// What `session` says of it.
    pub(super) outcome: RunOutcome,
    /// The report's path; `None` where nothing was kept.
    pub(super) report: Result<Option<PathBuf>, Failure>,
    /// Whether it was cut short.
    pub(super) at_once: AtOnce,
}

impl CarriedOut {
    /// The report, else the run folder.
    pub(super) fn place(&self) -> Option<&Path> {
        let report = self.report.as_ref().ok().and_then(Option::as_deref);
        report.or(self.outcome.run_dir.as_deref())
    }
}

/// Does the work under signals and a live view, and draws its report.
pub(super) fn carry_out(
    output: &OutputArgs,
    runs_dir: Option<PathBuf>,
    shape: Shape,
    work: impl FnOnce(&RunOptions, &load::Control, &mut dyn Observer) -> Result<RunOutcome, Error>,
) -> Result<CarriedOut, Failure> {
    let control = load::Control::new();
    let at_once = signals::stop_load(&control)?;
    let command = command_line::archived(std::env::args_os());
    let options = run_options(runs_dir, output.labels.resolve()?, command)?;
    let live = output::live(shape, output.json, output.quiet);
    let mut show = output::Show::new(live, control.clone());
    let outcome = work(&options, &control, &mut show);
    let kept = outcome.as_ref().ok().and_then(|outcome| {
        let dir = outcome.run_dir.as_deref()?;
        Some((dir, outcome.profile.as_ref()))
    });
    let report = match kept {
        Some((dir, profile)) => {
            show.step("writing the report");
            pictures::draw(dir, profile).map(Some)
        }
        None => Ok(None),
    };
    if show.close() {
        return Err(Failure::Closed);
    }
    Ok(CarriedOut {
        outcome: outcome?,
        report,
        at_once,
    })
}

/// Prints the summary: for people, or for machines and people.
fn tell(
    output: &OutputArgs,
    shape: &Shape,
    outcome: &RunOutcome,
    place: Option<&Path>,
) -> Result<(), Failure> {
    let Some(summary) = &outcome.record.summary else {
        return Ok(());
    };
    let place = place.map(|path| path.display().to_string());
    let text = |summary: &RunSummary, style: Style| {
        console::summary(shape, &outcome.record, summary, place.as_deref(), style)
    };
    if !output.json {
        return output::print(&text(summary, output::style()));
    }
    if !output.quiet {
        // Progress and summary are a courtesy here; the object is the result.
        output::aside(&text(summary, output::style_aside()));
    }
    output::print_json(summary)
}

/// Turns the run's state and warnings into an end.
pub(super) fn judge(output: &OutputArgs, outcome: RunOutcome) -> Result<Performed, Failure> {
    let record = outcome.record;
    if record.state == RunState::Failed {
        return Err(Failure::of_run(record));
    }
    let required = record.summary.iter().flat_map(|s| &s.requirements);
    let met: Vec<Option<bool>> = required.map(|it| it.met).collect();
    let invalid = record
        .summary
        .is_some_and(|summary| summary.warnings.iter().any(|w| w.tier == Tier::Invalid));
    let done = if output.strict && invalid {
        Done::Invalid
    } else if met.contains(&Some(false)) {
        Done::Missed
    } else if met.contains(&None) {
        Done::Unknown
    } else {
        Done::Fine
    };
    Ok(Performed {
        run_dir: outcome.run_dir,
        done,
    })
}
