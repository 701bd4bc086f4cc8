//! `perf-test`: PerfTest's own command line, which is not clap's.

use std::ffi::OsString;

use clap::Args;

use super::complete;
use crate::{Done, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows perf-test --help
  bellows perf-test -x 1 -y 2 -u throughput-test -a --id test-1 -z 30")]
pub(crate) struct PerfTestArgs {
    /// PerfTest's options; `bellows perf-test --help` lists them
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true,
          add = complete::perf_test_options())]
    args: Vec<OsString>,
}

impl PerfTestArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        crate::perf_test::execute(self.args)
    }
}
