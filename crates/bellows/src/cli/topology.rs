//! `topology`: files of definitions are made, exported, imported and deleted again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};
use measure::{Length, Nanos, Problem, count, counted, whole_number};
use report::console::Steps;
use web::Secret;
use web::definitions::{Definitions, GenerateOptions, MOST_QUEUES, Stage};
use web::management::{LoginRemedy, Management, ManagementOptions};

use super::command_line::Url;
use crate::{Done, Failure, output, prompt, signals};

const BUSY_IMPORT: &str = "the node is busy: what was imported stays; run it again, or allow more with --timeout";
const BUSY_DELETION: &str = "the node is busy: what was deleted is gone; run it again, or allow more with --timeout";
const BUSY_EXPORT: &str = "the node is busy: allow more with --timeout";

const SHORTEST_TIMEOUT: Length = Length(Nanos::from_millis(10));
const MOST_BINDINGS: u32 = 1_000;
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// Hold the password: the first that is set.
const PASSWORDS: [&str; 2] = ["BELLOWS_MANAGEMENT_PASSWORD", "BELLOWS_PASSWORD"];
const REMEDY: LoginRemedy = LoginRemedy {
    login: "give --user, and the password in BELLOWS_MANAGEMENT_PASSWORD or BELLOWS_PASSWORD",
    tag: "administrator",
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows topology generate --queues 10000 -o queues.json
  bellows topology apply queues.json
  bellows topology export -o all.json
  bellows topology delete queues.json

`bellows help topology` tells more.")]
pub(crate) struct TopologyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a file of definitions: queues, and an exchange with bindings to them
    #[command(after_help = "\
Examples:
  bellows topology generate --queues 10000 -o queues.json
  bellows topology generate --queues 1000 --exchange orders --bindings 2 -o orders.json
  bellows topology generate --queues 100 --type quorum --prefix orders. --vhost test -o quorum.json
  bellows topology generate --queues 5 --exchange orders --exchange-type topic")]
    Generate(GenerateArgs),
    /// Import a file of definitions into RabbitMQ
    #[command(after_help = "\
What exists already stays as it is. The password is in BELLOWS_MANAGEMENT_PASSWORD,
else in BELLOWS_PASSWORD.

Examples:
  bellows topology apply queues.json
  bellows topology apply queues.json --management http://broker:15672 --user admin
  bellows topology apply queues.json --vhost test
  bellows topology apply queues.json --timeout 10m")]
    Apply(ApplyArgs),
    /// Write RabbitMQ's definitions to a file
    #[command(after_help = "\
The file holds the hashes of passwords: treat it as a secret. The password is in BELLOWS_MANAGEMENT_PASSWORD,
else in BELLOWS_PASSWORD.

Examples:
  bellows topology export -o all.json
  bellows topology export --vhost test -o test.json
  bellows topology export --management https://broker:15671 --ca ca.pem --user admin -o all.json")]
    Export(ExportArgs),
    /// Delete the queues, exchanges and policies of a file from RabbitMQ
    #[command(after_help = "\
Messages and bindings of the queues are deleted with them, without a question. The password is in \
BELLOWS_MANAGEMENT_PASSWORD,
else in BELLOWS_PASSWORD.

Examples:
  bellows topology delete queues.json
  bellows topology delete queues.json --management http://broker:15672 --user admin")]
    Delete(ApplyArgs),
}

#[derive(Debug, Args)]
struct GenerateArgs {
    /// Number of queues, such as 500, 10k or 1M
    #[arg(long, value_name = "N", value_parser = |text: &str| number(text, MOST_QUEUES))]
    queues: u32,
    /// Their type
    #[arg(long = "type", value_name = "TYPE", default_value = "classic",
          value_parser = ["classic", "quorum", "stream"])]
    queue_type: String,
    /// Prefix of their names; a number follows, from 0 on
    #[arg(long, value_name = "TEXT", default_value = "q-")]
    prefix: String,
    /// Their virtual host
    #[arg(long, value_name = "NAME", default_value = "/")]
    vhost: String,
    /// An exchange to bind each queue to, by the queue's name as routing key, or as value of the header `queue`
    #[arg(long, value_name = "NAME")]
    exchange: Option<String>,
    /// Type of that exchange
    #[arg(long, value_name = "TYPE", default_value = "direct", requires = "exchange",
          value_parser = ["direct", "topic", "fanout", "headers"])]
    exchange_type: String,
    /// Bindings of each queue to that exchange
    #[arg(long, value_name = "N", default_value_t = 1, requires = "exchange",
          value_parser = |text: &str| number(text, MOST_BINDINGS))]
    bindings: u32,
    /// File to write; standard output where none is named
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ManagementArgs {
    /// RabbitMQ's management API
    #[arg(
        long,
        value_name = "URL",
        env = "BELLOWS_MANAGEMENT_URL",
        hide_env_values = true,
        default_value = "http://localhost:15672"
    )]
    management: Url,
    /// User, with the tag administrator; the password is in BELLOWS_MANAGEMENT_PASSWORD, else in
    /// BELLOWS_PASSWORD, or asked for
    #[arg(long, value_name = "USER", env = "BELLOWS_USER", default_value = "guest")]
    user: String,
    /// File of certificates of authorities, for https://
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The longest that a request may take, in seconds (or 500ms, 10m)
    #[arg(long, value_name = "DURATION", default_value = "120")]
    timeout: Length,
    /// Only this virtual host
    #[arg(long, value_name = "NAME")]
    vhost: Option<String>,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    management: ManagementArgs,
    /// File to write; standard output where none is named
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ApplyArgs {
    /// File of definitions
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    management: ManagementArgs,
    /// Show no progress
    #[arg(long, env = "BELLOWS_QUIET", value_parser = FalseyValueParser::new())]
    quiet: bool,
}

/// A number of things from 1 on. The text is not repeated in the error, like that of a rate.
fn number(text: &str, most: u32) -> Result<u32, String> {
    let number = whole_number(text).and_then(|it| u32::try_from(it).ok());
    number.filter(|it| (1..=most).contains(it)).ok_or_else(|| {
        let most = count(u64::from(most));
        format!("it must be a whole number from 1 to {most}, such as 500 or 1k")
    })
}

impl TopologyArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.action {
            Action::Generate(args) => args.execute(),
            Action::Export(args) => {
                let api = args.management.connect(BUSY_EXPORT)?;
                let found = api.export(args.management.vhost.as_deref())?;
                // It holds the hashes of passwords.
                write(&found, args.output.as_deref(), stacks::write_secret)
            }
            Action::Apply(args) => args.execute(&IMPORT),
            Action::Delete(args) => args.execute(&DELETION),
        }
    }
}

impl GenerateArgs {
    fn execute(self) -> Result<Done, Failure> {
        let made = Definitions::generate(&GenerateOptions {
            queues: self.queues,
            queue_type: self.queue_type,
            prefix: self.prefix,
            vhost: self.vhost,
            exchange: self.exchange,
            exchange_type: self.exchange_type,
            bindings: self.bindings,
        });
        write(&made, self.output.as_deref(), stacks::write_output)
    }
}

fn write(
    definitions: &Definitions,
    path: Option<&Path>,
    to_file: fn(&Path, &[u8]) -> std::io::Result<()>,
) -> Result<Done, Failure> {
    let mut text = Vec::new();
    let failed = |e: std::io::Error| Failure::io("write", path.unwrap_or(Path::new("-")), &e);
    definitions.write(&mut text).map_err(failed)?;
    match path {
        None => output::data(&text)?,
        Some(path) => {
            to_file(path, &text).map_err(failed)?;
            let objects = counted(definitions.count(), "object");
            output::line_aside(&format!("{objects} written to {}", path.display()));
        }
    }
    Ok(Done::Fine)
}

impl ManagementArgs {
    /// Connects to the API; `busy` is the help where an answer takes longer than `--timeout`.
    fn connect(&self, busy: &'static str) -> Result<Management, Failure> {
        let password = self.password()?;
        if self.timeout < SHORTEST_TIMEOUT {
            let cause = format!("--timeout {} is too short", self.timeout);
            return Err(Failure::usage(cause, format!("give at least {SHORTEST_TIMEOUT}")));
        }
        Ok(Management::new(&ManagementOptions {
            url: self.management.0.clone(),
            user: self.user.clone(),
            password,
            ca: self.ca.clone(),
            insecure: false,
            remedy: REMEDY,
            timeout: Duration::from_nanos(self.timeout.0.0),
            busy,
        })?)
    }

    /// The password from the environment, else the default of the default user, else from the terminal.
    fn password(&self) -> Result<Secret, Failure> {
        let set = |name: &&str| std::env::var(name).ok().filter(|it| !it.is_empty());
        if let Some(set) = PASSWORDS.iter().find_map(set) {
            return Ok(Secret::new(set));
        }
        if self.user == "guest" {
            return Ok(Secret::new("guest"));
        }
        let question = format!("BELLOWS_MANAGEMENT_PASSWORD is not set; password of {}: ", self.user);
        prompt::secret(&question, None)?.map(Secret::new).ok_or_else(|| {
            let cause = format!("there is no password for {}", self.user);
            Failure::usage(cause, "set BELLOWS_MANAGEMENT_PASSWORD")
        })
    }
}

/// Changes a broker by definitions, and reports its progress.
type Apply = fn(&Management, &Definitions, Option<&str>, &mut dyn FnMut(Stage) -> bool) -> Result<Stage, Problem>;

struct Change {
    /// Past participle of the change, for messages.
    done: &'static str,
    apply: Apply,
    /// Help where an answer takes too long.
    busy: &'static str,
}

const IMPORT: Change = Change { done: "imported", apply: Management::import, busy: BUSY_IMPORT };
const DELETION: Change = Change { done: "deleted", apply: Management::delete, busy: BUSY_DELETION };

impl ApplyArgs {
    fn execute(self, change: &Change) -> Result<Done, Failure> {
        let done = change.done;
        let text = fs::read(&self.file).map_err(|e| Failure::io("read", &self.file, &e))?;
        let definitions = Definitions::parse(&text, &self.file.display().to_string()).map_err(Failure::Failed)?;
        let api = self.management.connect(change.busy)?;
        let (control, at_once) = signals::stop_load()?;
        let steps = if self.quiet { Steps::Quiet } else { Steps::new(output::style_aside()) };
        let (begun, mut last) = (Instant::now(), None::<Instant>);
        let mut progress = |stage: Stage| {
            let is_bar = matches!(steps, Steps::Bar(_));
            if is_bar || last.is_none_or(|last| last.elapsed() >= BETWEEN_LINES) {
                steps.at(stage.done as usize, stage.of as usize, stage.section);
                last = Some(Instant::now());
            }
            !control.is_stopping()
        };
        let vhost = self.management.vhost.as_deref();
        let changed = (change.apply)(&api, &definitions, vhost, &mut progress);
        steps.clear();
        at_once.check()?;
        let stage = changed?;
        if stage.done < stage.of {
            let cause = format!("stopped after {} of {} objects", stage.done, stage.of);
            let value = format!("those are {done}");
            return Err(Failure::Stopped(Problem::new(cause, value, "run it again for the rest")));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let objects = counted(stage.done - stage.absent, "object");
        let absent = match stage.absent {
            0 => String::new(),
            1 => "; 1 was not there".to_owned(),
            many => format!("; {} were not there", count(many)),
        };
        output::print(&format!("{objects} {done} in {seconds:.1} s{absent}\n")).map(|()| Done::Fine)
    }
}
