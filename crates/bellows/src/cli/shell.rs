//! Completions and manual pages.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, complete};
use crate::failure::{Done, Failure};
use crate::output;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  bellows completions bash > /etc/bash_completion.d/bellows
  bellows completions zsh > ~/.zfunc/_bellows
  bellows completions fish > ~/.config/fish/completions/bellows.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  bellows man | man -l -
  bellows man --out /usr/local/share/man/man1";

/// Options of `bellows completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

/// Options of `bellows man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Folder to write a page for every command to
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl CompletionsArgs {
    /// Prints them.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let script = complete::script(self.shell)?;
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(Done::Fine)
    }
}

impl ManArgs {
    /// Prints the main page, or writes them all.
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
        output::print(&String::from_utf8_lossy(&text))?;
        Ok(Done::Fine)
    }
}
