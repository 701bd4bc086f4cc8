//! Shell completion of options, experiments, runs, and PerfTest's options; its scripts, and manual pages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Error};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::{CompleteEnv, Shells};

use super::{Cli, find};
use crate::{Done, Failure, output, perf_test};

/// Names the shell that asks for completions.
const VARIABLE: &str = "BELLOWS_COMPLETE";
/// Runs that are offered, the newest ones.
const MOST_RUNS: usize = 50;

/// Completes the command line of a shell, where one asks for it.
pub(super) fn answer() -> Result<bool, Error> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).try_complete(std::env::args_os(), directory.as_deref())
}

/// The script that lets a shell ask this program.
pub(super) fn script(shell: Shell) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    if let Some(of) = Shells::builtins().completer(&shell.to_string()) {
        of.write_registration(VARIABLE, "bellows", "bellows", "bellows", &mut script)?;
    }
    if shell == Shell::Zsh {
        script.extend_from_slice(FIRST_OF_ZSH.as_bytes());
    }
    Ok(script)
}

/// Zsh loads an installed script at its first completion, which the script must then answer itself.
const FIRST_OF_ZSH: &str = "
if [[ $funcstack[1] == _bellows ]]; then
    _clap_dynamic_completer_bellows \"$@\"
fi
";

/// Ready-made experiments and files of one's own.
pub(super) fn experiments() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| experiment_names(typed).collect())
}

pub(super) fn experiments_and_runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| experiment_names(typed).chain(run_ids(typed)).collect())
}

fn experiment_names(typed: &OsStr) -> impl Iterator<Item = CompletionCandidate> {
    let named = experiment::built_ins();
    let named = named.into_iter().map(|it| (it.name.to_owned(), it.description()));
    let is_experiment = |path: &Path| path.extension().is_some_and(|it| it == "toml");
    let files = PathCompleter::file().filter(is_experiment);
    starting_with(typed, named).chain(words(files.complete(typed)))
}

pub(super) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| run_ids(typed).collect())
}

pub(super) fn profiles() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let files = words(PathCompleter::any().complete(typed));
        run_ids(typed).chain(files).collect()
    })
}

pub(super) fn perf_test_options() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let options = perf_test::options().map(|(name, help)| (name, help.to_owned()));
        starting_with(typed, options).collect()
    })
}

/// Whether a shell takes it for one word, without quotes.
fn is_word(text: &OsStr) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./+@%,:=".contains(byte);
    text.as_encoded_bytes().iter().all(plain)
}

/// Candidates that can be typed literally: shells insert them without quotes, and a file's name may hold a command.
fn words(files: Vec<CompletionCandidate>) -> impl Iterator<Item = CompletionCandidate> {
    files.into_iter().filter(|file| is_word(file.get_value()))
}

/// Ids, from either end as commands take them. A folder's name may hold anything.
fn run_ids(typed: &OsStr) -> impl Iterator<Item = CompletionCandidate> {
    let folder = std::env::var_os("BELLOWS_RUNS").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(archive::default_runs_dir, Into::into);
    let runs = find::list(&folder).unwrap_or_default().into_iter().take(MOST_RUNS);
    let ends = runs.filter(|run| is_word(OsStr::new(&run.id)));
    let ends = ends.flat_map(|run| {
        let rest = run.id.split_once("Z-").map(|(_, rest)| rest.to_owned());
        [Some(run.id), rest].into_iter().flatten()
    });
    let last = std::iter::once(find::LAST.to_owned());
    starting_with(typed, last.chain(ends).map(|id| (id, String::new())))
}

/// The candidates that begin with the typed text, each with its help.
pub(super) fn starting_with(
    typed: &OsStr,
    all: impl Iterator<Item = (String, String)>,
) -> impl Iterator<Item = CompletionCandidate> {
    let typed = typed.to_string_lossy().into_owned();
    let all = all.filter(move |(name, _)| name.starts_with(&typed));
    all.map(|(name, help)| {
        let help = (!help.is_empty()).then(|| help.into());
        CompletionCandidate::new(name).help(help)
    })
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows completions bash > /etc/bash_completion.d/bellows
  bellows completions zsh > ~/.zfunc/_bellows
  bellows completions fish > ~/.config/fish/completions/bellows.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows man | man -l -
  bellows man --out /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Folder to write a page for every command to
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl CompletionsArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let script = script(self.shell)?;
        output::print(&String::from_utf8_lossy(&script)).map(|()| Done::Fine)
    }
}

impl ManArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if let Some(dir) = &self.out {
            let failed = |e| Failure::io("write to", dir, &e);
            std::fs::create_dir_all(dir).map_err(failed)?;
            clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
            return Ok(Done::Fine);
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(Cli::command())
            .render(&mut text)
            .map_err(|e| Failure::io("draw", Path::new("the manual page"), &e))?;
        output::print(&String::from_utf8_lossy(&text)).map(|()| Done::Fine)
    }
}
