//! `worker`: carries its part of the loads of a fleet, one run after another, each with a run folder of its own.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use fleet::WorkerInput;
use fleet::nats::{FileClient, FileOwner, Link};
use session::{Carrier, Error, Membership, NoObserver, RunOptions, RunOutcome, SharedFiles, Target};

use super::args::RunsDir;
use super::collect::FolderServer;
use super::command_line::{self, Url};
use super::fleet::{ServerArgs, stop_with_stdin};
use crate::run_options::run_options;
use crate::{Done, Failure, output, signals};

/// Characters of a name or a label at most.
const LONGEST: usize = 64;
/// How often a free worker looks for a process that it could not record.
const LOOK_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows worker --join nats://127.0.0.1:4222
  bellows worker --join nats://127.0.0.1:4222 --label zone=a --label rack=7
  bellows worker --join nats://127.0.0.1:4222 --records rabbit")]
pub(crate) struct WorkerArgs {
    /// The NATS server of the fleet, nats://HOST:4222; better set as BELLOWS_FLEET where it holds a password
    #[arg(long, value_name = "URL", env = "BELLOWS_FLEET", hide_env_values = true)]
    join: Url,
    /// Name among the workers, which are numbered in the order of their names [default: the machine's, with the number
    /// of this process]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Label that tells the worker apart, such as zone=a; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Record a broker's process on this machine in each run, instead of carrying load: its number, or the name of its
    /// command, executable or Erlang node
    #[arg(long, value_name = "PROCESS", value_parser = target)]
    records: Option<Target>,
    /// For `fleet start`.
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    runs: RunsDir,
}

fn name(text: &str) -> Result<String, String> {
    let is_fine = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    let fits = (1..=LONGEST).contains(&text.len()) && text.chars().all(is_fine);
    if fits { Ok(text.to_owned()) } else { Err(format!("expected 1 to {LONGEST} letters, digits and . _ -")) }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((name(key)?, name(value)?))
}

fn target(text: &str) -> Result<Target, String> {
    let target = text.parse().map_or_else(|_| Target::Name(text.to_owned()), Target::Pid);
    if text.is_empty() { Err("expected a number or a name".to_owned()) } else { Ok(target) }
}

/// The machine's name, and the number of this process: several workers may run on one machine.
fn default_name() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().unwrap_or_default().chars().take(LONGEST / 2).collect::<String>();
    format!("{host}-{}", std::process::id())
}

impl WorkerArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let (control, at_once) = signals::stop_load()?;
        if self.exit_with_stdin {
            stop_with_stdin(&control)?;
        }
        let name = self.name.clone().unwrap_or_else(default_name);
        let link = self.server.connect(&self.join, &format!("worker {name}"))?;
        let _name = link.take_name(&name, RandomState::new().build_hasher().finish())?;
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        let facts = || session::worker_facts(name.clone(), labels.clone(), self.records.as_ref());
        brokers::guardian::clean_leftovers().iter().for_each(|it| output::line_aside(it));
        let mut folders = FolderServer::start(&link, &name, &self.runs.runs);
        say(&name, &format!("joined {}", web::redact::url(&self.join.0)))?;
        while !control.is_stopping() {
            let to_coordinator = Arc::clone(&link);
            let session = RandomState::new().build_hasher().finish();
            let send = move |it: &_| to_coordinator.tell_coordinator(it);
            let mut current = facts();
            let member = Membership::start(session, current.clone(), send, &control)?;
            let _heard = link.hear_coordinators(session, &member.inputs());
            let mut looked = Instant::now();
            let meanwhile = || {
                tell_changes(&link, &name);
                folders.answer(&link);
                // The broker may be started later, or this user be allowed to record it.
                let is_lacking = current.records.as_ref().is_some_and(|it| it.problem.is_some());
                if is_lacking && looked.elapsed() >= LOOK_EVERY {
                    (current, looked) = (facts(), Instant::now());
                    member.inputs().send(WorkerInput::Facts(current.clone()));
                }
            };
            let Some(share) = member.wait(meanwhile) else { continue };
            let part = match self.records {
                Some(_) => "records the broker in".to_owned(),
                None => format!("takes part {} of {} of", share.worker + 1, share.workers),
            };
            say(&name, &format!("{part} {}", member.run().0))?;
            self.carry(&name, &link, &member)?;
        }
        at_once.check()?;
        Ok(Done::Fine)
    }

    /// Runs a share, and waits until the others have ended theirs.
    fn carry(&self, name: &str, link: &Link, member: &Arc<Membership>) -> Result<(), Failure> {
        let command = command_line::archived(std::env::args_os());
        let options = run_options(Some(self.runs.runs.clone()), archive::Labels::default(), command)?;
        let outcome = match &self.records {
            Some(target) => member.record(target, &options),
            None => run_share(link, member, options),
        };
        match outcome {
            Ok(RunOutcome { run_dir, record, .. }) => {
                let place = run_dir.map_or_else(String::new, |it| format!(", in {}", it.display()));
                let how = if record.error.is_none() { "has ended its part" } else { "has a part that ended early" };
                say(name, &format!("{how}{place}"))?;
            }
            Err(error) => {
                let why = error.problem().sentence();
                member.refuse(&why);
                say(name, &format!("could not run its part: {why}"))?;
            }
        }
        match member.leave() {
            Some(why) => say(name, &format!("has left before its time: {why}")),
            None => Ok(()),
        }
    }
}

fn run_share(link: &Link, member: &Arc<Membership>, options: RunOptions) -> Result<RunOutcome, Error> {
    fetch_files(link, member)?;
    let experiment = member.experiment()?;
    let options = RunOptions { carrier: Carrier::Member(Arc::clone(member)), ..options };
    session::run(&experiment, &options, &load::Control::new(), &mut NoObserver)
}

/// Fetches the files of the share from its coordinator.
fn fetch_files(link: &Link, member: &Membership) -> Result<(), Error> {
    let size = member.files()?;
    if size == 0 {
        return Ok(());
    }
    let (run, epoch) = member.run();
    let client = FileClient::new(link, RandomState::new().build_hasher().finish(), &run);
    let mut packed = Vec::new();
    client.read(FileOwner::Coordinator(epoch), SharedFiles::NAME, size, |piece| {
        packed.extend_from_slice(piece);
        Ok(())
    })?;
    member.keep_files(&packed)
}

/// Tells that the server went away, and that it came back.
fn tell_changes(link: &Link, name: &str) {
    for (_, change) in link.notes() {
        output::line_aside(&format!("worker {name}: {change}"));
    }
}

fn say(name: &str, text: &str) -> Result<(), Failure> {
    output::print(&format!("worker {name} {text}\n"))
}
