//! `limit`: trials of one experiment at different rates, which bracket its limit, or (`--scale`) with different numbers
//! of clients, and the law that their throughputs follow.

use std::path::{Path, PathBuf};
use std::time::Instant;

use archive::{
    FolderKind, FolderLock, LimitOutcome, LimitPlan, LimitTrial, LimitTrials, RunState, ScaleRuns, SuggestedRate,
};
use clap::{Args, value_parser};
use experiment::{Experiment, RequireSpec, Requirement};
use measure::{Rate, counted, shell_word};
use report::console::{self, RunsProgress, Shape};
use session::{Error, Observer, RunOptions};
use study::{
    at_rate, at_scale, check_one_group, first_rate, found_limit, limit_trial, next_rate, next_scale, rate_options,
    scale_law, scale_plan, scale_run, suggested_rates, trials_left,
};

use super::args::OutputArgs;
use super::compare::percent;
use super::perform::{Watched, after, carry_out, shape, tell_kept, tell_one};
use super::run::{Changes, load};
use super::{complete, find, metrics};
use crate::{Done, Failure, output};

/// The folder of a search, its trials so far, and the lock that keeps others from adding trials.
type OpenSearch = (PathBuf, LimitTrials, FolderLock);

const MOST_TRIALS: u32 = 60;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows limit mine.toml --require 'end-to-end p99 < 10ms' --require 'lost = 0'
  bellows limit stream-publish --duration 30s --precision 2%
  bellows limit mine.toml --require 'ack response p99.9 < 50ms' --from 20k --most 200k --json
  bellows limit mine.toml --require 'end-to-end p99 < 10ms' --resume 7k2q
  bellows limit mine.toml --scale load.0.producers=1,2,4,8,16

A rate holds where at least 99.5 % of it is sent and received, and every --require is met. Rates are doubled until one \
does not hold, then bisected; each end of the interval is tried several times, with a broker of its own where bellows \
starts it. Most searches take 10 to 25 trials, each as long as a run: 5 to 10 minutes at 20 s; --trials bounds their \
number, and --duration shortens each. Nothing is profiled unless --event says so. Ctrl-C ends it; the same command \
line with --resume goes on. \
Exit codes: 0 both ends found and confirmed (with --scale: the throughputs follow a law of the broker), 4 one is open \
or not confirmed (they follow none), 5 under --strict in place of 4, or where a trial that held (with --scale: any \
run) is invalid, 130 stopped.", mut_arg("rate", |arg| arg.hide(true)))]
pub(crate) struct LimitArgs {
    /// Built-in experiment, or a file (*.toml)
    #[arg(value_name = "NAME|FILE", add = complete::experiments())]
    experiment: String,
    /// Condition that has to hold at a rate: 'end-to-end p99 < 10ms', 'lost = 0'. May be repeated; the experiment's
    /// requirements count, too
    #[arg(long, alias = "slo", value_name = "CONDITION")]
    require: Vec<Requirement>,
    /// Vary a number of clients instead, unthrottled: load.0.producers=1,2,4,8. Fits the Universal Scalability Law to
    /// the throughputs
    #[arg(long, value_name = "KEY=N,N,N,N",
          conflicts_with_all = ["require", "from", "least", "most", "precision", "trials"])]
    scale: Option<String>,
    /// First rate, in messages per second of all producers; the experiment's own where absent, else 10000
    #[arg(long, value_name = "RATE")]
    from: Option<Rate>,
    /// Try no lower rate
    #[arg(long, value_name = "RATE", default_value = "1")]
    least: Rate,
    /// Try no higher rate
    #[arg(long, value_name = "RATE", default_value = "10M")]
    most: Rate,
    /// How far apart the two ends may be, as a part of the lower one
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = precision)]
    precision: f64,
    /// Trials that each end has to agree in; with --scale, runs of each number of clients
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=20))]
    confirm: u32,
    /// Trials in all, at most
    #[arg(long, value_name = "N", default_value_t = MOST_TRIALS,
          value_parser = value_parser!(u32).range(1..=i64::from(LimitTrials::MOST_TRIALS)))]
    trials: u32,
    /// Go on with a search that was stopped: its folder, or a part at either end of its name
    #[arg(long, value_name = "FOLDER")]
    resume: Option<String>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    output: OutputArgs,
}

fn precision(text: &str) -> Result<f64, String> {
    let share = percent(text)?;
    match (0.01..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("it takes 1% to 100%: rates are rounded to three digits".to_owned()),
    }
}

impl LimitArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut experiment = load(&self.experiment)?;
        // A profile costs the broker some of the rate that is looked for.
        experiment.profile.events.clear();
        experiment.profile.blocks = None;
        self.changes.apply(&mut experiment)?;
        if let Some(that) = self.require.iter().find(|it| it.wants_latency_above()) {
            let cause = format!("{that} has no limit: the higher the rate, the higher the latency");
            return Err(Failure::usage(cause, "write what it has to stay below, such as 'end-to-end p99 < 10ms'"));
        }
        let required = self.require.iter().cloned();
        experiment.require.extend(required.map(|that| RequireSpec { that }));
        let fresh = match &self.scale {
            Some(scale) => {
                let scale = scale_plan(scale, self.confirm).map_err(Failure::Usage)?;
                let first = check_scale(&experiment, &scale)?;
                LimitTrials { scale: Some(scale), ..self.fresh(&experiment, LimitPlan::default(), &first) }
            }
            None => self.planned(&experiment)?,
        };
        let (dir, trials, _lock) = self.begun(&experiment, fresh)?;
        let mut search = Search { args: &self, dir, experiment, trials, progress: RunsProgress::new(Instant::now()) };
        let watched = Watched::start()?;
        let broken = search.make_all(&watched).err();
        search.decide();
        let told = tell_trials(&self.output, &search);
        watched.check()?;
        after(broken, told)
    }

    /// A search for a rate, of which nothing has been made.
    fn planned(&self, experiment: &Experiment) -> Result<LimitTrials, Failure> {
        let own = first_rate(experiment).map_err(Failure::Usage)?;
        let first = self.from.map_or(own, Rate::get);
        let (least, most) = (self.least.get(), self.most.get());
        if !(least..=most).contains(&first) {
            let cause = "the first rate lies outside of what may be tried";
            let help = "choose --from, --least and --most so that it lies between";
            return Err(Failure::usage(cause, help).observed(format!("{first} of {least} to {most}")));
        }
        let at_first = at_rate(experiment, first);
        session::check(&at_first, session::SCENARIOS)?;
        if !at_first.ends_by_itself() {
            return Err(Failure::usage("a trial needs an end", "give it one, such as --duration 30s"));
        }
        let plan = LimitPlan {
            first,
            least,
            most,
            precision: self.precision,
            confirmations: self.confirm,
            most_trials: self.trials,
        };
        Ok(self.fresh(experiment, plan, &at_first))
    }

    /// A search of which nothing has been made; its experiment is the one of the first run.
    fn fresh(&self, experiment: &Experiment, plan: LimitPlan, first: &Experiment) -> LimitTrials {
        let required = experiment.require.iter();
        LimitTrials {
            schema: LimitTrials::SCHEMA.to_owned(),
            name: experiment.name.clone(),
            slos: required.map(|it| it.that.to_string()).collect(),
            plan,
            experiment: first.to_json(),
            ..LimitTrials::default()
        }
    }

    /// The folder of a search: a new one, or the one to resume.
    fn begun(&self, experiment: &Experiment, fresh: LimitTrials) -> Result<OpenSearch, Failure> {
        let runs_dir = &self.output.runs.runs;
        let Some(named) = &self.resume else {
            let dir = LimitTrials::create_folder(runs_dir, &fresh.name, measure::wall_clock_unix_ns())?;
            let lock = find::kept(&dir)?;
            fresh.write(&dir)?;
            return Ok((dir, fresh, lock));
        };
        let dir = find::stopped_folder(named, runs_dir, FolderKind::Limit)?;
        // Before it is read: what another command has just added is seen.
        let lock = find::kept(&dir)?;
        let stopped = LimitTrials::read(&dir)?;
        let what = |it: &LimitTrials| (it.plan.first, it.scale.as_ref().map(|it| it.key.clone()));
        if stopped.experiment != scale_as_then(experiment, &stopped, &fresh)? || what(&stopped) != what(&fresh) {
            let cause = "the stopped search was of another experiment";
            let help = "give the same command line as then, with --resume; or begin anew without it";
            return Err(Failure::usage(cause, help).observed(dir.display()));
        }
        // More trials, closer ends or further numbers are the same search gone on with.
        let runs = stopped.scale.clone().map(|it| it.runs);
        let scale = fresh.scale.map(|planned| {
            let mut scale = ScaleRuns { runs: runs.unwrap_or_default(), ..planned };
            scale.law = scale_law(&scale);
            scale
        });
        let trials = LimitTrials { plan: fresh.plan, experiment: fresh.experiment, scale, ..stopped };
        Ok((dir, trials, lock))
    }
}

/// Trials at different rates, or runs with different numbers of clients, as far as they were made.
struct Search<'a> {
    args: &'a LimitArgs,
    dir: PathBuf,
    experiment: Experiment,
    trials: LimitTrials,
    /// Time of this command's trials.
    progress: RunsProgress,
}

impl Search<'_> {
    /// The rate, or number of clients, of the next trial.
    fn next(&self) -> Option<f64> {
        match &self.trials.scale {
            Some(scale) => next_scale(scale).map(f64::from),
            None => next_rate(&self.trials),
        }
    }

    /// Makes all missing trials; the error is what ended this early.
    fn make_all(&mut self, watched: &Watched) -> Result<(), Failure> {
        let output = &self.args.output;
        let mut exporter = match self.trials.scale {
            Some(_) => None,
            None => output.metrics.start(&self.trials.name, output.quiet)?,
        };
        let mut made = Ok(());
        while made.is_ok()
            && let Some(next) = self.next()
        {
            let about = self.about(next);
            made = self.make_one(next, watched, exporter.as_mut());
            if self.trials.scale.is_none() {
                made = made.map_err(|failure| failure.of_one(&about));
            }
            made = watched.unless_stopped(made, || self.stopped());
        }
        metrics::finish(exporter);
        made
    }

    fn about(&self, next: f64) -> String {
        if let Some(scale) = &self.trials.scale {
            let clients = counted(next as u64, scale.noun().trim_end_matches('s'));
            return format!("run {} of {}, {clients}", scale.runs.len() + 1, runs_of(scale));
        }
        let (number, most) = (self.trials.trials.len() + 1, self.trials.plan.most_trials);
        format!("trial {number} of at most {most}, {} msg/s", report::text::rate(next))
    }

    fn make_one(
        &mut self,
        next: f64,
        watched: &Watched,
        exporter: Option<&mut session::Exporter>,
    ) -> Result<(), Failure> {
        let about = self.about(next);
        let (tried, progress) = match &self.trials.scale {
            Some(scale) => {
                let left = runs_of(scale).saturating_sub(scale.runs.len());
                let tried = at_scale(&self.experiment, &scale.key, next as u32).map_err(Error::from)?;
                (tried, self.progress.begin(left, Instant::now()))
            }
            None => {
                let progress = self.progress.begin_of_at_most(trials_left(&self.trials), Instant::now());
                (at_rate(&self.experiment, next), progress)
            }
        };
        let shape =
            Shape { title: format!("{}, {about}", self.trials.name), progress: Some(progress), ..shape(&tried) };
        let work = |options: &RunOptions, control: &load::Control, observer: &mut dyn Observer| {
            session::run_again_if_not_ready(&tried, options, control, observer)
        };
        let output = &self.args.output;
        let carried = carry_out(output, Some(self.dir.clone()), shape, watched, exporter, work)?;
        let record = carried.outcome.record;
        match record.state {
            RunState::Complete => {}
            // It is made anew when somebody goes on.
            RunState::Interrupted => return Ok(()),
            _ => return Err(Failure::of_run(record)),
        }
        self.progress.end(Instant::now());
        if let Some(scale) = &mut self.trials.scale {
            scale.runs.push(scale_run(next as u32, &record));
            scale.law = scale_law(scale);
            self.trials.write(&self.dir)?;
            tell_one(output, &about, &record)?;
        } else {
            let trial = limit_trial(next, &record);
            tell_one(output, &format!("{about}: {}", outcome_text(&trial)), &record)?;
            self.trials.trials.push(trial);
            self.decide();
            self.trials.write(&self.dir)?;
        }
        carried.report.map(drop)
    }

    /// Decides from the trials of rates.
    fn decide(&mut self) {
        if self.trials.scale.is_none() {
            self.trials.found = Some(found_limit(&self.trials));
            self.trials.suggested = self.suggested();
        }
    }

    /// The command lines that run the experiment at a calm and at a busy rate.
    fn suggested(&self) -> Vec<SuggestedRate> {
        let found = self.trials.found.as_ref().and_then(suggested_rates);
        let of = |(name, rate): (&str, f64)| {
            // What was changed for the trials is changed for the run, too.
            let changed = self.args.changes.shown();
            let all: Vec<String> = changed.chain(rate_options(&self.experiment, rate)).collect();
            let key = |it: &str| it.split('=').next().map(str::to_owned);
            let is_last = |at: usize| !all.iter().skip(at + 1).any(|later| key(later) == key(&all[at]));
            let options = (0..all.len()).filter(|at| is_last(*at)).map(|at| format!(" --set {}", shell_word(&all[at])));
            let options: String = options.collect();
            let runs = find::runs_option(&self.args.output.runs.runs);
            let experiment = shell_word(&self.args.experiment);
            SuggestedRate { name: name.to_owned(), rate, command: format!("bellows run {experiment}{options}{runs}") }
        };
        found.into_iter().flatten().map(of).collect()
    }

    fn stopped(&self) -> Failure {
        let made = match &self.trials.scale {
            Some(scale) => counted(scale.runs.len() as u64, "run"),
            None => counted(self.trials.trials.len() as u64, "trial"),
        };
        find::stopped(&format!("stopped after {made}"), &self.dir)
    }
}

/// Number of runs of all numbers of clients.
fn runs_of(scale: &ScaleRuns) -> usize {
    scale.values.len() * scale.repeats as usize
}

/// The outcome of a trial, and why it did not hold: a missed requirement first, which may be about another latency.
fn outcome_text(trial: &LimitTrial) -> String {
    let (mut why, others): (Vec<&str>, Vec<&str>) =
        trial.why.iter().map(String::as_str).partition(|it| it.starts_with("missed "));
    let names_one = !why.is_empty();
    why.extend(others);
    let why = why.join("; ");
    match trial.outcome {
        LimitOutcome::Held => "held".to_owned(),
        LimitOutcome::Missed if names_one => why,
        LimitOutcome::Missed if why.is_empty() => "missed".to_owned(),
        LimitOutcome::Missed => format!("missed ({why})"),
        LimitOutcome::Unclear => {
            let reason = trial.unclear.as_deref().unwrap_or("the generator or others were the limit");
            if why.is_empty() { format!("unclear, {reason}") } else { format!("unclear, {reason} ({why})") }
        }
    }
}

/// Prints the result of trials; `is_whole`: with all of them.
pub(super) fn print(trials: &LimitTrials, json: bool, is_whole: bool) -> Result<(), Failure> {
    match json {
        true => output::print_json(trials),
        false if is_whole => output::print(&console::limit(trials, output::style())),
        false => output::print(&console::limit_brief(trials, output::style())),
    }
}

/// Prints and stores the trials' result with its page, and returns the command's exit.
fn tell_trials(output: &OutputArgs, search: &Search<'_>) -> Result<Done, Failure> {
    let (dir, trials) = (search.dir.as_path(), &search.trials);
    print(trials, output.json, output.verbose)?;
    // What was measured for hours is shown, whatever becomes of the files.
    trials.write(dir)?;
    tell_kept(output, &search.progress, &report::html::write_limit(dir)?)?;
    if let Some(next) = next_trials(dir, trials).filter(|_| !output.quiet) {
        if output.json { output::line_aside(&next) } else { output::print(&format!("{next}\n"))? }
    }
    Ok(done_after(trials, output.strict))
}

/// How to go on with a search that ended for want of trials; `None` where more trials would tell nothing more.
fn next_trials(dir: &Path, trials: &LimitTrials) -> Option<String> {
    let made = u32::try_from(trials.trials.len()).ok()?;
    let most = made.saturating_mul(2).min(LimitTrials::MOST_TRIALS);
    // A search that was stopped has trials left, and its end says how to go on.
    let is_used_up = trials.scale.is_none() && made >= trials.plan.most_trials && made < most;
    let plan = LimitPlan { most_trials: most, ..trials.plan };
    let more = LimitTrials { plan, ..trials.clone() };
    (is_used_up && next_rate(&more).is_some()).then(|| {
        let resume = find::resume_word(dir);
        format!("next: the same command line with --resume {resume} --trials {most} adds trials")
    })
}

fn done_after(trials: &LimitTrials, is_strict: bool) -> Done {
    let is_answered = trials.is_answered();
    match is_strict && (trials.is_invalid() || !is_answered) {
        true => Done::Invalid,
        false if is_answered => Done::Fine,
        false => Done::Unknown,
    }
}

/// Refuses numbers of clients that the experiment cannot have, before anything is started.
fn check_scale(experiment: &Experiment, scale: &ScaleRuns) -> Result<Experiment, Failure> {
    let mut first = None;
    check_one_group(experiment, &scale.key).map_err(Failure::Usage)?;
    for clients in &scale.values {
        let scaled = at_scale(experiment, &scale.key, *clients).map_err(Error::from)?;
        scaled.validate().map_err(Error::from)?;
        if !scaled.ends_by_itself() {
            return Err(Failure::usage("a run needs an end", "give it one, such as --duration 30s"));
        }
        first.get_or_insert(scaled);
    }
    first.ok_or_else(|| Failure::usage("there are no numbers of clients", "give --scale some"))
}

/// The experiment of a resumed folder: with the least number of clients of then. Further numbers may be smaller.
fn scale_as_then(
    experiment: &Experiment,
    stopped: &LimitTrials,
    fresh: &LimitTrials,
) -> Result<serde_json::Value, Failure> {
    let least = |of: &LimitTrials| of.scale.as_ref()?.values.first().copied();
    match (&fresh.scale, least(stopped)) {
        (Some(scale), Some(least)) => Ok(at_scale(experiment, &scale.key, least).map_err(Error::from)?.to_json()),
        _ => Ok(fresh.experiment.clone()),
    }
}

#[cfg(test)]
mod tests {
    use archive::{Finding, FoundLimit, ScaleDoubt, ScaleLaw, ScaleRun, Tier, Warning};

    use super::*;

    /// `missed (the backlog grew: …; end-to-end p99 < 500ms)` did not say what was required.
    #[test]
    fn a_trial_names_the_requirement_that_it_missed() {
        let text = |outcome, why: &[&str]| {
            let why = why.iter().map(|it| (*it).to_owned()).collect();
            outcome_text(&LimitTrial { outcome, why, ..LimitTrial::default() })
        };
        let grew = "the backlog grew: only 75.0 % of the deliveries arrived";
        let missed = "missed end-to-end p99 < 500ms";
        assert_eq!(text(LimitOutcome::Held, &[]), "held");
        assert_eq!(text(LimitOutcome::Missed, &[grew, missed]), format!("{missed}; {grew}"));
        assert_eq!(text(LimitOutcome::Missed, &[grew]), format!("missed ({grew})"));
        let unclear = format!("unclear, the generator or others were the limit ({missed})");
        assert_eq!(text(LimitOutcome::Unclear, &[missed]), unclear);
    }

    /// A search that ran out of trials ended without a next step.
    #[test]
    fn a_search_that_is_out_of_trials_says_how_to_go_on() {
        let held = LimitTrial { rate: 1_000.0, outcome: LimitOutcome::Held, ..LimitTrial::default() };
        let plan =
            LimitPlan { first: 1_000.0, least: 1.0, most: 1e7, precision: 0.05, confirmations: 3, most_trials: 1 };
        let mut trials = LimitTrials { trials: vec![held], plan, ..LimitTrials::default() };
        let next = |trials: &LimitTrials| next_trials(Path::new("runs/limit-demo-y8ki"), trials);
        assert!(next(&trials).is_some_and(|it| it.contains("--resume y8ki --trials 2 ")));
        trials.plan.most_trials = 60;
        assert_eq!(next(&trials), None);
    }

    /// With numbers of clients, --strict did nothing where a law was fitted, and a law that the throughputs do not
    /// follow was fine.
    #[test]
    fn every_kind_of_search_ends_by_one_rule() {
        let warned = |is_invalid: bool| {
            let warning = Warning::new(Tier::Invalid, Finding::DebugBuild {});
            is_invalid.then_some(warning).into_iter().collect()
        };
        let rates = |confirmed, cautions| {
            let trials = vec![LimitTrial { outcome: LimitOutcome::Held, cautions, ..LimitTrial::default() }];
            let found = Some(FoundLimit { confirmed, ..FoundLimit::default() });
            LimitTrials { trials, found, ..LimitTrials::default() }
        };
        let clients = |is_followed: bool, cautions| {
            let runs = vec![ScaleRun { cautions, ..ScaleRun::default() }];
            let no_peak = (!is_followed).then_some(ScaleDoubt::PoorFit);
            let law = Some(ScaleLaw { no_peak, ..ScaleLaw::default() });
            LimitTrials { scale: Some(ScaleRuns { runs, law, ..ScaleRuns::default() }), ..LimitTrials::default() }
        };
        for (is_answered, is_invalid, ends, ends_strictly) in [
            (true, false, Done::Fine, Done::Fine),
            (false, false, Done::Unknown, Done::Invalid),
            (true, true, Done::Fine, Done::Invalid),
            (false, true, Done::Unknown, Done::Invalid),
        ] {
            for of in [rates(is_answered, warned(is_invalid)), clients(is_answered, warned(is_invalid))] {
                assert_eq!(done_after(&of, false), ends, "{of:?}");
                assert_eq!(done_after(&of, true), ends_strictly, "{of:?}");
            }
        }
    }
}
