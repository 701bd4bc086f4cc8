//! Runs something through `session`: shows it, sums it up, draws it at the end.

use std::path::{Path, PathBuf};
use std::time::Instant;

use archive::{Repeats, RepeatsSummary, RunRecord, RunState, RunSummary, Tier};
use clap::Args;
use experiment::{Experiment, Origin, PhasesSpec};
use measure::{Length, Problem};
use report::console::{self, RunsProgress, Shape, Style};
use session::{Error, Exporter, Observer, RunOptions, RunOutcome};
use stacks::Profile;

use super::args::{EventArgs, OutputArgs, RequireArgs};
use super::carriers::FleetArgs;
use super::command_line::{self, OPTION_NAMES};
use super::connect::ConnectArgs;
use super::{find, metrics};
use crate::run_options::{self, run_options};
use crate::signals::{self, AtOnce};
use crate::{Done, Failure, output};

#[derive(Debug)]
pub(super) struct Performed {
    pub(super) run_dir: Option<PathBuf>,
    pub(super) done: Done,
}

/// Runs an experiment, by whoever carries its load, shows it, and leaves its report as `keep` requests.
pub(super) fn experiment(
    experiment: &Experiment,
    fleet: &FleetArgs,
    output: &OutputArgs,
    require: &RequireArgs,
    keep: bool,
    shape: Shape,
) -> Result<Performed, Failure> {
    let mut experiment = experiment.clone();
    experiment.require.extend(require.resolve());
    require.noted(&shape.title, output.strict, check(&experiment, output, require, keep))?;
    require.write(&shape.title, &[], output.strict, None)?;
    let runs = keep.then(|| output.runs.runs.clone());
    let work = |options: &RunOptions, control: &load::Control, observer: &mut dyn Observer| {
        fleet.run(&experiment, options, control, observer)
    };
    match require.repeat {
        0 | 1 => once(output, require, runs, shape, work),
        times => repeatedly(times, output, require, runs.as_deref(), &shape, work),
    }
}

/// Refuses options that do not go together, and experiments that make no sense.
fn check(experiment: &Experiment, output: &OutputArgs, require: &RequireArgs, keep: bool) -> Result<(), Failure> {
    if let Some(option) = output.labels.given().next().filter(|_| !keep) {
        let cause = format!("{option} is kept with the run, and --no-archive keeps none");
        return Err(Failure::usage(cause, "leave out one of the two").observed(option));
    }
    experiment.validate().map_err(Error::from)?;
    if require.repeat > 1 && !experiment.ends_by_itself() {
        let cause = format!("--repeat {} needs runs that end by themselves", require.repeat);
        return Err(Failure::usage(cause, "give them an end, such as --duration 30s").observed(require.repeat));
    }
    Ok(())
}

/// The parts of an experiment that are shown.
pub(super) fn shape(experiment: &Experiment) -> Shape {
    let any = |of: fn(&experiment::LoadSpec) -> bool| experiment.load.iter().any(of);
    let measure = experiment.phases.measure;
    Shape {
        title: experiment.name.clone(),
        about: String::new(),
        producers: any(experiment::LoadSpec::has_producers),
        consumers: any(experiment::LoadSpec::has_consumers),
        paced: any(experiment::LoadSpec::is_paced),
        latency: true,
        warmup: experiment.phases.warmup.0,
        measure: (!measure.is_zero()).then_some(measure.0),
        progress: None,
    }
}

/// Does the work, shows it, draws the report and prints the summary.
fn once(
    output: &OutputArgs,
    require: &RequireArgs,
    runs: Option<PathBuf>,
    shape: Shape,
    work: impl FnOnce(&RunOptions, &load::Control, &mut dyn Observer) -> Result<RunOutcome, Error>,
) -> Result<Performed, Failure> {
    let watched = Watched::start()?;
    let mut exporter = output.metrics.start(&shape.title, output.quiet)?;
    let carried = carry_out(output, runs, shape.clone(), &watched, exporter.as_mut(), work);
    let carried = require.noted(&shape.title, output.strict, carried)?;
    metrics::finish(exporter);
    let shown = tell(output, &carried);
    let judged = carried.judged(output);
    require.write(&shape.title, std::slice::from_ref(&carried.outcome.record), output.strict, None)?;
    carried.report?;
    shown?;
    watched.check()?;
    Ok(Performed { run_dir: carried.outcome.run_dir, done: judged? })
}

/// Repeats a piece of work, each shown in a line, and prints the common result. One that ends unplanned is the last.
fn repeatedly(
    times: u32,
    output: &OutputArgs,
    require: &RequireArgs,
    runs: Option<&Path>,
    shape: &Shape,
    work: impl Fn(&RunOptions, &load::Control, &mut dyn Observer) -> Result<RunOutcome, Error>,
) -> Result<Performed, Failure> {
    let watched = Watched::start()?;
    let mut exporter = output.metrics.start(&shape.title, output.quiet)?;
    let (mut records, mut last, mut broken) = (Vec::new(), None, None);
    for number in 1..=times {
        let mut shape = shape.clone();
        shape.title = format!("{}, run {number} of {times}", shape.title);
        let runs = runs.map(Path::to_owned);
        let carried = match carry_out(output, runs, shape, &watched, exporter.as_mut(), &work) {
            Ok(carried) => carried,
            // What the earlier ones measured is told before this one's failure.
            Err(failure) => {
                broken = Some(failure.in_run(number, times));
                break;
            }
        };
        let about = format!("run {} of {times}", records.len() + 1);
        tell_one(output, &about, &carried.outcome.record)?;
        let complete = carried.outcome.record.state == RunState::Complete;
        records.push(carried.outcome.record);
        if let Err(failure) = carried.report {
            broken = Some(failure);
            break;
        }
        last = carried.outcome.run_dir.map(|dir| (dir, carried.outcome.profiles));
        if !complete || watched.control.is_stopping() {
            break;
        }
    }
    metrics::finish(exporter);
    require.write(&shape.title, &records, output.strict, broken.as_ref())?;
    if records.is_empty() {
        watched.check()?;
        return Err(broken.unwrap_or(Failure::Closed));
    }
    let is_complete = |record: &RunRecord| record.state == RunState::Complete;
    if watched.control.is_stopping() && !records.iter().any(is_complete) {
        watched.check()?;
        let kept = last.as_ref().map(|(dir, _)| dir.as_path());
        return Err(nothing_completed(records.len(), times, kept));
    }
    let repeats = study::repeats(&shape.title, times, &records);
    // In the last run's folder, whose report shows it.
    let draw = |(dir, profiles): &(PathBuf, Vec<Profile>)| {
        repeats.write(dir)?;
        run_options::draw(dir, profiles)
    };
    let drawn = last.as_ref().map(draw).transpose();
    let report = drawn.as_ref().ok().and_then(Option::as_deref);
    tell_repeats(output, &repeats, &records, report)?;
    watched.check()?;
    let mut judged = records.iter().map(|record| judge(output, record));
    let done = judged.try_fold(Done::Fine, |done, next| next.map(|next| done.max(next)))?;
    match broken.or(drawn.err()) {
        None => {}
        // The runs before it are what the user has.
        Some(Failure::Stopped(problem)) => output::line_aside(&problem.to_string()),
        Some(failure) => return Err(failure.already_printed()),
    }
    Ok(Performed { run_dir: last.map(|(dir, _)| dir), done })
}

/// The failure of repeated runs that were stopped before one of them was complete.
fn nothing_completed(number: usize, times: u32, kept: Option<&Path>) -> Failure {
    let kept = kept.map(|dir| format!("; what it measured until then is in {}", dir.display()));
    let cause = format!("stopped in run {number} of {times}");
    Failure::Stopped(Problem::new(cause, format!("no run was completed{}", kept.unwrap_or_default()), "run it again"))
}

/// Reports one of a command's runs in one line, unless the summary alone is wanted.
pub(super) fn tell_one(output: &OutputArgs, about: &str, record: &RunRecord) -> Result<(), Failure> {
    match (output.json, output.quiet) {
        (_, true) => {}
        (true, false) => output::aside(&console::repeated(about, record, output::style_aside())),
        (false, false) => output::print(&console::repeated(about, record, output::style()))?,
    }
    Ok(())
}

fn tell_repeats(
    output: &OutputArgs,
    repeats: &Repeats,
    records: &[RunRecord],
    report: Option<&Path>,
) -> Result<(), Failure> {
    let place = report.map(|path| path.display().to_string());
    let summaries = records.iter().filter_map(|record| record.summary.as_ref()).collect();
    tell_result(output, &RepeatsSummary { repeats, summaries }, |style| {
        console::repeats(repeats, records, place.as_deref(), style)
    })
}

/// Work that the first SIGINT or SIGTERM stops in order, and the second at once.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) control: load::Control,
    at_once: AtOnce,
}

impl Watched {
    /// Lets signals end the run from now on.
    pub(super) fn start() -> Result<Self, Failure> {
        let (control, at_once) = signals::stop_load()?;
        Ok(Self { control, at_once })
    }

    /// Fails where a second signal came.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.at_once.check()
    }

    /// The end of one of several runs: `stopped` where a signal ended it, also before it was ready. Earlier ones are
    /// kept all the same.
    pub(super) fn unless_stopped(
        &self,
        made: Result<(), Failure>,
        stopped: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        match made {
            Err(Failure::Stopped(_)) => Err(stopped()),
            Ok(()) if self.control.is_stopping() => Err(stopped()),
            made => made,
        }
    }
}

pub(super) struct CarriedOut {
    pub(super) outcome: RunOutcome,
    /// The report's path; `None` where nothing was kept.
    pub(super) report: Result<Option<PathBuf>, Failure>,
}

impl CarriedOut {
    /// The report, else the run folder.
    pub(super) fn place(&self) -> Option<&Path> {
        let report = self.report.as_ref().ok().and_then(Option::as_deref);
        report.or(self.outcome.run_dir.as_deref())
    }

    /// The end of the run. Off a terminal, where it may be with standard error, that alone says why a run failed.
    pub(super) fn brief(&self, output: &OutputArgs, summary: &RunSummary, style: Style) -> String {
        let place = self.place().map(|path| path.display().to_string());
        let run = self.outcome.run_dir.as_deref().and_then(find::next_name);
        let is_on_screen = !output.json && output::style().terminal;
        // An error of the report is reported in place of the run's.
        let has_cause = is_on_screen || self.report.is_err();
        console::brief(&self.outcome.record, summary, place.as_deref(), run.as_deref(), has_cause, style)
    }

    /// The outcome for the exit code, and the error where the end of the run does not say it on the same screen.
    pub(super) fn judged(&self, output: &OutputArgs) -> Result<Done, Failure> {
        let judged = judge(output, &self.outcome.record);
        let are_together = output::style().terminal && output::style_aside().terminal;
        if are_together && self.tells_problem(output) { judged.map_err(Failure::into_told) } else { judged }
    }

    /// Whether the end on the screen has all of why the run failed: it cuts long causes.
    fn tells_problem(&self, output: &OutputArgs) -> bool {
        let record = &self.outcome.record;
        let Some((summary, problem)) = record.summary.as_ref().zip(record.problem.as_ref()) else { return false };
        let end = self.brief(output, summary, Style { colour: false, ..output::style() });
        tells(&end, problem)
    }
}

/// Whether a text has cause and value of a problem as a whole, over however many lines.
fn tells(text: &str, problem: &Problem) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    words(text).contains(&words(&console::sanitise(&problem.to_string())))
}

/// Does the work under signals and a live view, and draws its report.
pub(super) fn carry_out(
    output: &OutputArgs,
    runs_dir: Option<PathBuf>,
    shape: Shape,
    watched: &Watched,
    exporter: Option<&mut Exporter>,
    work: impl FnOnce(&RunOptions, &load::Control, &mut dyn Observer) -> Result<RunOutcome, Error>,
) -> Result<CarriedOut, Failure> {
    let control = &watched.control;
    let command = command_line::archived(std::env::args_os());
    let options = run_options(runs_dir, output.labels.resolve()?, command)?;
    let live = output::live(shape, output.json, output.quiet);
    let mut show = output::Show::new(live, control.clone(), output.verbose);
    let outcome = match exporter {
        Some(exporter) => work(&options, control, &mut exporter.observer(&mut show)),
        None => work(&options, control, &mut show),
    };
    let report = match &outcome {
        Ok(RunOutcome { run_dir: Some(dir), profiles, .. }) => {
            show.step("writing the report");
            run_options::draw(dir, profiles).map(Some)
        }
        _ => Ok(None),
    };
    if show.close() { Err(Failure::Closed) } else { Ok(CarriedOut { outcome: outcome?, report }) }
}

fn tell(output: &OutputArgs, carried: &CarriedOut) -> Result<(), Failure> {
    match &carried.outcome.record.summary {
        Some(summary) => tell_result(output, summary, |style| carried.brief(output, summary, style)),
        None => Ok(()),
    }
}

/// Prints a result: its text for people, or its object, which the text goes beside.
fn tell_result(
    output: &OutputArgs,
    value: &impl serde::Serialize,
    text: impl Fn(Style) -> String,
) -> Result<(), Failure> {
    if !output.json {
        return output::print(&text(output::style()));
    }
    if !output.quiet {
        output::aside(&text(output::style_aside()));
    }
    output::print_json(value)
}

/// How long the runs of a command took, and where their page is.
pub(super) fn tell_kept(output: &OutputArgs, runs: &RunsProgress, page: &Path) -> Result<(), Failure> {
    if let Some(took) = runs.so_far(Instant::now()).filter(|_| !output.json) {
        output::print(&format!("{took}\n"))?;
    }
    let kept = format!("report: {}", page.display());
    match output.json {
        true if output.quiet => {}
        true => output::line_aside(&kept),
        false => output::print(&format!("{kept}\n"))?,
    }
    Ok(())
}

/// The end of a command that made several runs: what was measured is shown before what ended it.
pub(super) fn after(broken: Option<Failure>, told: Result<Done, Failure>) -> Result<Done, Failure> {
    match (broken, told) {
        (Some(failure), Ok(_)) => Err(failure.already_printed()),
        (Some(failure), Err(_)) => Err(failure),
        (None, told) => told,
    }
}

pub(super) fn judge(output: &OutputArgs, record: &RunRecord) -> Result<Done, Failure> {
    if record.state == RunState::Failed {
        return Err(Failure::of_run(record.clone()));
    }
    let met: Vec<Option<bool>> = record.summary.iter().flat_map(|s| &s.requirements).map(|it| it.met).collect();
    let is_invalid = record.summary.iter().flat_map(|s| &s.warnings).any(|it| it.tier == Tier::Invalid);
    Ok(if output.strict && is_invalid {
        Done::Invalid
    } else if met.contains(&Some(false)) {
        Done::Missed
    } else if met.contains(&None) {
        Done::Unknown
    } else {
        Done::Fine
    })
}

/// The broker, what is kept and shown of a run on it, and what is required of the run.
#[derive(Debug, Args)]
pub(super) struct RunningBrokerArgs {
    /// Warm-up before the measured phase, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "DURATION", default_value = "0")]
    warmup: Length,
    /// Profile the broker, which must run on this machine
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    event: EventArgs,
    /// Keep no run folder and write no report
    #[arg(long, conflicts_with_all = ["profile", "events"])]
    no_archive: bool,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl RunningBrokerArgs {
    /// An experiment on this broker that has no load yet. Errors: as [`ConnectArgs::spec`] and [`EventArgs::check`].
    pub(super) fn experiment(&self, name: String, measure: Length) -> Result<Experiment, Failure> {
        let profile = self.event.profile(self.profile);
        self.event.check(&profile)?;
        Ok(Experiment {
            name,
            broker: self.connect.clone().spec()?,
            phases: PhasesSpec { warmup: self.warmup, measure, ..PhasesSpec::default() },
            profile,
            origin: Origin::options(OPTION_NAMES),
            ..Experiment::default()
        })
    }

    /// Runs the experiment and shows it. Errors: as [`experiment()`].
    pub(super) fn perform(&self, experiment: &Experiment, shape: Shape) -> Result<Performed, Failure> {
        self.perform_by(&FleetArgs::default(), experiment, shape)
    }

    /// As [`Self::perform`], by whoever carries the load.
    pub(super) fn perform_by(
        &self,
        fleet: &FleetArgs,
        experiment: &Experiment,
        shape: Shape,
    ) -> Result<Performed, Failure> {
        let keep = !self.no_archive;
        self::experiment(experiment, fleet, &self.output, &self.require, keep, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the end of a run had cut the cause, it was nowhere on the screen.
    #[test]
    fn a_cause_is_said_again_where_the_end_of_a_run_cuts_it() {
        let problem = Problem::new("the broker closed the connection", "no queue 'orders' in vhost '/'", "see its log");
        let end =
            |rest: &str| format!("failed       the broker closed the connection: no queue\n             {rest}\n");
        assert!(tells(&end("'orders' in vhost '/'"), &problem));
        assert!(!tells(&end("'orders' in […]"), &problem));
    }
}
