//! `erlang top`: processes, schedulers and memory of a node, live in a terminal, or for scripts.

mod plain;
mod screen;

use std::io::IsTerminal as _;

use clap::Args;
use erlang::Helper;
use erlang::top::{TopRequest, TopSort, TopWindow, top};
use measure::{Length, Nanos};
use serde::Serialize;

use super::connect::{NodeArgs, left};
use super::progress::Repetition;
use crate::cli::args::named;
use crate::{Done, Failure, output};

/// The window where nothing else is requested.
const WINDOW: Length = Length(Nanos::from_millis(2_000));
const SHORTEST: Length = Length(Nanos::from_millis(50));
/// Processes that are printed where nothing else is requested.
const ROWS: u32 = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows erlang top rabbit@localhost
  bellows erlang top rabbit@localhost --sort memory --limit 50
  bellows erlang top rabbit@localhost --once --every 5s
  bellows erlang top rabbit@localhost --json --every 2s --count 10

Keys: r reductions, m memory, l message queue, b binaries; + and - the window; p pause; ? all keys; q or Esc ends.")]
pub(crate) struct ErlangTopArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Which processes come first
    #[arg(long, default_value = "reductions", value_parser = named::<TopSort>())]
    sort: TopSort,
    /// Processes to show at most; by default 20, on a screen that is drawn again as many as it has rows for (up to 100)
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: Option<u32>,
    /// Time from one reading to the next, in which reductions and scheduler use are counted
    #[arg(long, value_name = "DURATION", default_value_t = WINDOW)]
    every: Length,
    /// Readings at most [default: in a terminal and with --json until it is ended, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// One reading, as text
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Do not look for connections, channels and queues in flow control, which reads the node's metrics of each
    #[arg(long)]
    no_flow: bool,
    /// Print each reading as a JSON object: one as a whole, several one a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct TopRow<'a> {
    node: &'a str,
    time: String,
    #[serde(flatten)]
    window: TopWindow,
}

impl ErlangTopArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if self.every < SHORTEST {
            let cause = format!("--every {} is too short for a window", self.every);
            return Err(Failure::usage(cause, format!("give at least {SHORTEST}")));
        }
        let node = self.node.connect("erlang top")?;
        let helper = Helper::load(&node)?;
        let is_live = !self.json && !self.once && self.count.is_none() && output::style().terminal;
        let done = match is_live && std::io::stdin().is_terminal() {
            true => screen::show(&helper, self.request(), self.sort, self.limit),
            false => self.print(&helper),
        };
        left(helper, done)
    }

    fn request(&self) -> TopRequest {
        TopRequest {
            window: self.every.0.into(),
            sort: self.sort,
            limit: self.limit.unwrap_or(ROWS),
            flow: !self.no_flow,
        }
    }

    fn print(&self, helper: &Helper) -> Result<Done, Failure> {
        // For a script, a table without end is of no use; objects, one a line, are.
        let several = self.count.map_or(self.json && !self.once, |count| count > 1);
        let repetition = Repetition {
            // A window is as long as the time between two.
            every: several.then_some(Length(Nanos::ZERO)),
            count: self.count,
        };
        let request = self.request();
        repetition.run(|number, stop| {
            let mut window = top(helper, &request, stop)?;
            if self.json {
                return repetition.print_json(&TopRow {
                    node: helper.node().name().as_str(),
                    time: jiff::Timestamp::now().to_string(),
                    window,
                });
            }
            window.processes.retain(|it| !plain::is_own(it));
            let node = helper.node().name().as_str();
            let gap = if number > 1 { "\n" } else { "" };
            output::print(&format!("{gap}{}", plain::text(&window, node, self.sort, output::style())))
        })
    }
}

#[cfg(test)]
mod tests {
    use erlang::top::{SchedulerUse, TopProcess, TopWindow};

    /// A window with processes whose names are as long as RabbitMQ's are.
    pub(super) fn window() -> TopWindow {
        let process = |role: &str, name: &str| TopProcess {
            pid: "<11829.1234.0>".to_owned(),
            role: role.to_owned(),
            name: name.to_owned(),
            reductions_per_s: 12_345_678.0,
            memory: 123_456_789,
            messages: 1_234_567,
            binaries: 987_654_321,
            flow: false,
            status: "waiting".to_owned(),
            function: "gen_server2:process_next_msg/1".to_owned(),
        };
        TopWindow {
            seconds: 2.0,
            processes: vec![
                process("connection", "127.0.0.1:45678 -> 127.0.0.1:5672"),
                process("queue", "orders"),
                process("channel", "127.0.0.1:45678 -> 127.0.0.1:5672 (1)"),
                process("channel", "127.0.0.1:45678 -> 127.0.0.1:5672 (2)"),
            ],
            schedulers: SchedulerUse { normal: vec![0.5; 16], ..SchedulerUse::default() },
            run_queue: 1,
            rates: [].into(),
            memory: [("total".to_owned(), 123_456_789_012), ("atom".to_owned(), 12_345_678)].into(),
            counts: [].into(),
            flow: Vec::new(),
            flow_count: 0,
            flow_whole: true,
            alarms: Vec::new(),
            rabbitmq: "ready".to_owned(),
            tables: Vec::new(),
            uptime_ms: 1,
            node_us: 1,
            answer_us: 1,
        }
    }
}
