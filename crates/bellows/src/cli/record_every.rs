//! `record --every`: a profile for each period, for days.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use experiment::ProfileSpec;
use measure::{Bytes, Length, Problem, Refused, counted};
use report::console::{Live, Shape, sanitise};
use report::text::bytes;
use session::{ContinuousOptions, PeriodEnd, RecordingEvent};
use web::push::{PushNews, PushOptions, PushTarget};

use super::args::{OutputArgs, given};
use super::command_line::{self, Url};
use super::perform::Watched;
use crate::run_options::run_options;
use crate::{Done, Failure, output, prompt};

/// Holds the password or token for the server of `--push`.
const TOKEN_VARIABLE: &str = "BELLOWS_PUSH_TOKEN";

#[derive(Debug, Args)]
#[command(next_help_heading = "Continuous recording")]
pub(super) struct EveryArgs {
    /// Record until stopped, a run for each period; time from one to the next (60s, 10m, 1h). Processes that end are
    /// found again by --name
    #[arg(long, value_name = "DURATION")]
    pub(super) every: Option<Length>,
    /// Remove periods that ended longer ago (24h, 7d)
    #[arg(long, value_name = "DURATION", requires = "every")]
    keep: Option<Length>,
    /// Remove the oldest periods where all together have more bytes
    #[arg(long, value_name = "SIZE", default_value = "2GB", hide_default_value = false)]
    max_space: Bytes,
    /// Say this of each period; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, requires = "every")]
    labels: Vec<(String, String)>,
    /// Name of the recording, by which its periods are found and removed [default: the processes' names]
    #[arg(long, value_name = "NAME", requires = "every")]
    recording: Option<String>,
    /// Send each profile, too: http://HOST:4040 (Pyroscope), http://HOST:7070/profiles/writeraw (Parca), or a path that
    /// ends in /push.v1.PusherService/Push
    #[arg(long, value_name = "URL", requires = "every")]
    push: Option<Url>,
    /// User for that server, whose password is in BELLOWS_PUSH_TOKEN or a file
    #[arg(long, value_name = "USER", requires = "push")]
    push_user: Option<String>,
    /// File that holds the password or token for that server [default: the variable BELLOWS_PUSH_TOKEN]
    #[arg(long, value_name = "FILE", requires = "push")]
    push_token_file: Option<PathBuf>,
    /// Tenant of that server (X-Scope-OrgID)
    #[arg(long, value_name = "ID", requires = "push")]
    push_tenant: Option<String>,
}

pub(super) struct Subjects {
    pub(super) pid: Option<u32>,
    pub(super) names: Vec<String>,
    pub(super) profile: ProfileSpec,
    pub(super) duration: Option<Length>,
}

fn label(text: &str) -> Result<(String, String), Refused> {
    let refused = |why: &str| Refused::new(why, "write it as env=prod");
    let (name, value) = text.split_once('=').ok_or_else(|| refused("it has no ="))?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(refused("a name holds letters, digits and _"));
    }
    if value.chars().count() > 200 || value.chars().any(char::is_control) {
        return Err(refused("a value has at most 200 characters on one line"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl EveryArgs {
    pub(super) fn execute(&self, every: Length, subjects: Subjects, output: &OutputArgs) -> Result<Done, Failure> {
        if let Some(option) = given([("--json", output.json), ("--strict", output.strict)]).next() {
            let cause = format!("{option} has no effect on a recording that has no end");
            return Err(Failure::usage(cause, "leave it out; `bellows runs --json` lists the periods"));
        }
        let labels = output.labels.resolve()?;
        if !labels.tags.is_empty() {
            let cause = "--tag would keep every period for ever";
            return Err(Failure::usage(cause, "give --label NAME=VALUE; `bellows runs tag` keeps single periods"));
        }
        let what = ContinuousOptions {
            pid: subjects.pid,
            names: subjects.names,
            profile: subjects.profile,
            every: every.0,
            keep: self.keep.map(|keep| keep.0),
            most_bytes: self.max_space.0,
            recording: self.recording.clone().unwrap_or_default(),
            labels: self.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            duration: subjects.duration.filter(|it| !it.is_zero()).map(|it| it.0),
            push: self.push()?,
        };
        let watched = Watched::start()?;
        let command = command_line::archived(std::env::args_os());
        let options = run_options(Some(output.runs.runs.clone()), labels, command)?;
        let mut screen = Screen {
            live: output::live(Shape::default(), false, output.quiet),
            quiet: output.quiet,
            is_terminal: output::style().terminal && output::style_aside().terminal,
            said: BTreeSet::new(),
            paused: false,
        };
        let control = &watched.control;
        let recorded = session::record_continuously(&what, &options, control, &mut |told| {
            if screen.show(told).is_err() {
                // Nobody reads it any more.
                control.stop();
            }
        });
        screen.live.clear();
        let periods = recorded?;
        output::print(&format!("{} recorded in {}\n", counted(periods as u64, "period"), output.runs.runs.display()))?;
        watched.check()?;
        Ok(Done::Fine)
    }

    fn push(&self) -> Result<Option<PushOptions>, Failure> {
        let Some(url) = &self.push else { return Ok(None) };
        let target: PushTarget = url.0.parse().map_err(|refused: Refused| {
            let cause = format!("--push {url:?} is no server for profiles: {}", refused.what);
            Failure::usage(cause, refused.help).observed(format_args!("{url:?}"))
        })?;
        let secret = prompt::given_secret(self.push_token_file.as_deref(), TOKEN_VARIABLE)?;
        if self.push_user.is_some() && secret.is_none() {
            let cause = "--push-user needs a password";
            return Err(Failure::usage(cause, format!("set {TOKEN_VARIABLE}, or name a file with --push-token-file")));
        }
        Ok(Some(PushOptions { target, user: self.push_user.clone(), secret, tenant: self.push_tenant.clone() }))
    }
}

/// Output: on a terminal a line that changes, in a pipe one for each period.
struct Screen {
    live: Live,
    quiet: bool,
    is_terminal: bool,
    /// Warnings that were shown, without their figures: each once.
    said: BTreeSet<String>,
    /// It was reported that periods are not kept.
    paused: bool,
}

/// Most warnings that are remembered as shown.
const MOST_SAID: usize = 1_000;

impl Screen {
    fn show(&mut self, told: RecordingEvent) -> Result<(), Failure> {
        match told {
            RecordingEvent::Period(period) => self.period(&period)?,
            RecordingEvent::Following(process, pid) => {
                self.say(&format!("recording {process} ({pid})"));
                if self.is_terminal {
                    self.live.step("recording");
                }
            }
            RecordingEvent::Waiting(names) => {
                self.say(&format!("no process is called {names} now; it is waited for"));
            }
            RecordingEvent::Ended(process, pid) => self.say(&format!("{process} ({pid}) has ended")),
            RecordingEvent::Refused(process, pid, problem) => {
                self.say(&format!("{process} ({pid}) is not recorded: {}", problem.sentence()));
            }
            RecordingEvent::Paused(_) if self.paused => {}
            RecordingEvent::Paused(problem) => {
                self.paused = true;
                self.say(&format!("the next period is not kept: {}", problem.sentence()));
            }
            RecordingEvent::News(PushNews::Failed(problem)) => self.say(&problem.sentence()),
            RecordingEvent::News(PushNews::Recovered(text)) => self.say(&text),
            RecordingEvent::Push(_) => {}
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        if self.is_terminal {
            self.live.say(text);
        } else if !self.quiet {
            output::line_aside(text);
        }
    }

    fn period(&mut self, period: &PeriodEnd) -> Result<(), Failure> {
        self.paused = false;
        for warning in &period.warnings {
            let words: String = warning.chars().filter(|c| !c.is_ascii_digit()).collect();
            if self.said.len() < MOST_SAID && self.said.insert(words) {
                self.say(&format!("{}: {warning}", period.id));
            }
        }
        if self.quiet {
            return Ok(());
        }
        let kept = format!("{} kept, {}", counted(period.kept as u64, "period"), bytes(period.kept_bytes));
        if self.is_terminal {
            self.live.step(&format!("recording; {kept}"));
            return Ok(());
        }
        let cores = period.cores.map_or_else(String::new, |it| format!(", {it:.2} cores"));
        output::print(&format!(
            "{}  {} ({}): {:.1} s, {}{cores}, {}; {kept}\n",
            period.id,
            sanitise(&period.process),
            period.pid,
            period.length.as_secs_f64(),
            counted(period.samples as u64, "sample"),
            bytes(period.bytes),
        ))
    }
}

/// The one process of a recording that is no continuous one.
pub(super) fn one_name(names: &[String]) -> Result<String, Failure> {
    match names {
        [name] => Ok(name.clone()),
        several => Err(Failure::Usage(Problem::new(
            "only a continuous recording is of several processes",
            several.join(", "),
            "give --every, or record one after the other",
        ))),
    }
}
