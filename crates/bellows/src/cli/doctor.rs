//! `doctor`: checks of this machine for measuring, and the generator's capacity on it.

use clap::Args;
use report::console::{self, CheckRow, CheckStatus};
use session::doctor::{Check, Status};

use super::calibrate;
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows doctor
  bellows doctor --json
  bellows doctor --calibrate           under a minute, on an otherwise idle machine
  bellows doctor --calibrate --show    the figures kept for this machine

--calibrate measures how much load this machine can generate, which verdicts of later runs compare with.")]
pub(crate) struct DoctorArgs {
    /// Measure the generator's capacity, for the verdicts of later runs
    #[arg(long)]
    calibrate: bool,
    /// With --calibrate: measure nothing, show what is kept for this machine
    #[arg(long, requires = "calibrate")]
    show: bool,
    /// With --calibrate: show no progress
    #[arg(long, env = "BELLOWS_QUIET")]
    quiet: bool,
    /// Print the checks as a JSON array, or the capacity as a JSON object
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    /// Prints the checks, or the capacity. A check that fails is a finding, and no failure of the command.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if self.calibrate {
            return calibrate::execute(self.show, self.quiet, self.json);
        }
        let checks = session::doctor::checks();
        let rows = || checks.iter().cloned().map(row).collect::<Vec<_>>();
        output::print_result(self.json, &checks, |style| console::doctor(&rows(), style))
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
