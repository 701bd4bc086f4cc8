//! bellows: put a message broker under load, measure end-user latency, profile the broker's CPU.
//!
//! The command line becomes a resolved configuration ([`cli`]); `session` runs it, `archive`
//! keeps it, `report` shows it. What goes wrong becomes one line, one remedy and an exit code
//! ([`exit`]).

mod cli;
mod exit;
mod failure;
mod output;
mod perf_test;
mod profile_formats;
mod prompt;
mod run_options;
mod signals;

use std::process::ExitCode;

use self::failure::{Done, Failure};

fn main() -> ExitCode {
    if let Some(code) = cli::answer_machines() {
        return code;
    }
    match cli::parse() {
        Ok(parsed) => exit::exit_code(parsed.command.execute(), parsed.json),
        Err(usage) => exit::usage(&usage, cli::wants_json(std::env::args_os())),
    }
}
