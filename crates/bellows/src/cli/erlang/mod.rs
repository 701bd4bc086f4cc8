//! `erlang`: inspects a running Erlang node, and leaves nothing there.

mod alloc;
mod calls;
mod connect;
mod info;
mod options;
mod paths;
mod progress;
mod queues;
mod root;
mod stacks;
mod time;
mod top;
mod trace;

use clap::{Args, Subcommand};

use crate::{Done, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows erlang info rabbit@localhost
  bellows erlang top rabbit@localhost
  bellows erlang memory rabbit@localhost --allocators
  bellows erlang queues rabbit@localhost --every 2s
  bellows erlang trace rabbit@localhost rabbit_mgmt_wm_queues:to_json/2 --max-calls 1 --duration 60
  bellows erlang calls rabbit@localhost exometer_slide rabbit_mgmt_db --duration 5s
  bellows erlang calls rabbit@localhost --root rabbit_mgmt_wm_queues:to_json/2 --duration 30s
  bellows erlang calls rabbit@localhost --time 'rabbit_amqqueue:list(<<\"/\">>)'

The cookie is read from --cookie-file, BELLOWS_ERLANG_COOKIE, ~/.erlang.cookie or RabbitMQ's own file \
(/var/lib/rabbitmq/.erlang.cookie), or asked for. `bellows help erlang` tells more.")]
pub(crate) struct ErlangArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show a node's release, age, memory and applications: whether it can be reached
    Info(info::InfoArgs),
    /// Show processes, schedulers, memory and flow control, live or for scripts
    Top(top::ErlangTopArgs),
    /// Show counts of queues from the node's own tables, or serve them
    Queues(queues::QueuesArgs),
    /// Show calls of functions as they come: who calls, with what, and how long they take
    Trace(trace::TraceArgs),
    /// Count calls and time of functions; --root follows one through processes, --time calls one again and again
    Calls(calls::CallsArgs),
    /// Count the words that functions allocate; --allocators: where memory is, and what threads do
    Memory(calls::MemoryArgs),
}

impl ErlangArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        execute!(self.action, Action: Info Top Queues Trace Calls Memory)
    }
}
