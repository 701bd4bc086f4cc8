//! `doctor`: checks of this machine for measuring.

use clap::Args;
use report::console::{self, CheckRow, CheckStatus};
use serde::Serialize;
use session::doctor::{Check, Status};

use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows doctor
  bellows doctor --json";

/// Options of `bellows doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print the checks as a JSON array
    #[arg(long)]
    json: bool,
}

/// One check for machines.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    status: &'a str,
    observed: &'a str,
    meaning: &'a str,
    fix: Option<&'a str>,
}

impl DoctorArgs {
    /// Prints the checks. What is not in order is a finding, not a failure.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let checks = session::doctor::checks();
        if self.json {
            output::print_json(&checks.iter().map(json).collect::<Vec<_>>())?;
        } else {
            let rows: Vec<CheckRow> = checks.into_iter().map(row).collect();
            output::print(&console::doctor(&rows, output::style()))?;
        }
        Ok(Done::Fine)
    }
}

fn json(check: &Check) -> Row<'_> {
    Row {
        name: &check.name,
        status: match check.status {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Bad => "bad",
        },
        observed: &check.observed,
        meaning: &check.meaning,
        fix: check.fix.as_deref(),
    }
}

fn row(check: Check) -> CheckRow {
    CheckRow {
        name: check.name,
        status: match check.status {
            Status::Ok => CheckStatus::Ok,
            Status::Warn => CheckStatus::Warn,
            Status::Bad => CheckStatus::Bad,
        },
        observed: check.observed,
        meaning: check.meaning,
        fix: check.fix,
    }
}
