//! `erlang`: a look inside an Erlang node, of which nothing is left there.

mod connect;
mod info;

use clap::{Args, Subcommand};

use crate::failure::{Done, Failure};

const EXAMPLES: &str = "\
Examples:
  bellows erlang info rabbit@localhost

The cookie is read from --cookie-file, BELLOWS_ERLANG_COOKIE, ~/.erlang.cookie or RabbitMQ's own
file, or asked for. `bellows help erlang-nodes` tells more.";

/// What `bellows erlang` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ErlangArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show a node's release, age, memory and applications: whether it can be reached
    Info(info::InfoArgs),
}

impl ErlangArgs {
    /// Does what was asked for.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.action {
            Action::Info(args) => args.execute(),
        }
    }
}
