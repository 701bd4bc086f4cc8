//! `erlang queues`: counts of queues from the node's own tables, printed or served.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use erlang::Helper;
use erlang::queues::{CountSource, MOST_QUEUES, QueueCount, QueueCounts, QueueRequest, QueueSort, read_queues};
use measure::{Length, Nanos, count, counted};
use report::console::{grid, sentence};
use session::{QueuePage, serve_queues};

use super::connect::{NodeArgs, left, look, started};
use super::progress::Repetition;
use crate::cli::args::named;
use crate::{Done, Failure, output, signals};

/// Rows in a terminal where nothing else is requested.
const SHOWN: u32 = 20;
/// Lines around the rows in a terminal: those before, heads, and notes.
const AROUND: u32 = 12;
/// Pages that are served read the node no more often than this where nothing else is requested.
const SHORTEST: Duration = Duration::from_secs(1);
/// How often a server's end is checked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows erlang queues rabbit@localhost
  bellows erlang queues rabbit@localhost --vhost / --sort name --limit 100
  bellows erlang queues rabbit@localhost --every 2s
  bellows erlang queues rabbit@localhost --json > queues.json
  bellows erlang queues rabbit@localhost --fresh 200ms --limit 50
  bellows erlang queues rabbit@localhost --listen 127.0.0.1:9420")]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Queues of this virtual host only
    #[arg(long, value_name = "NAME")]
    vhost: Option<String>,
    /// Which queues come first
    #[arg(long, default_value = "ready", value_parser = named::<QueueSort>())]
    sort: QueueSort,
    /// Queues at most; 20 in a table (with --every in a terminal, as many as it has rows for), 100,000 in JSON and
    /// pages if absent
    #[arg(long, short = 'n', value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_QUEUES)))]
    limit: Option<u32>,
    /// Time from one reading to the next, at least with --listen; one reading if absent
    #[arg(long, value_name = "DURATION")]
    every: Option<Length>,
    /// Readings at most
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Ask every classic and quorum queue, which may take this long, instead of the node's tables: exact counts, and
    /// work for each queue
    #[arg(long, value_name = "DURATION")]
    fresh: Option<Length>,
    /// Serve the counts at HOST:PORT: JSON at /queues, OpenMetrics at /metrics
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["json", "count"])]
    listen: Option<String>,
    /// Let --listen serve other machines, too
    #[arg(long, requires = "listen")]
    allow_remote: bool,
    /// Print the counts as JSON; with --every, one object a line
    #[arg(long)]
    json: bool,
}

impl QueuesArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if let Some(address) = &self.listen
            && !self.allow_remote
            && !is_loopback(address)
        {
            let help = "write HOST:PORT, such as 127.0.0.1:9422, or say --allow-remote: whoever reaches the port reads \
                        the names of all queues";
            return Err(Failure::usage("--listen is not at this machine's own address", help).observed(address));
        }
        if let Some(address) = &self.listen {
            return self.serve(address);
        }
        let node = self.node.connect_started("erlang queues")?;
        let helper = Helper::load(&node)?;
        let repetition = Repetition { every: self.every, count: self.count };
        let is_live = !self.json && self.every.is_some() && self.count.is_none() && output::style().terminal;
        let done = repetition.run(|number, _| {
            let counts = read_queues(&helper, &self.request(is_live))?;
            if self.json {
                return repetition.print_json(&counts);
            }
            let text = shown(&counts, node.name().as_str(), is_live);
            match (is_live, number) {
                (true, _) => output::print_in_place(&text, number == 1),
                (false, 1) => output::print(&text),
                (false, _) => output::print(&format!("\n{text}")),
            }
        });
        left(helper, done)
    }

    /// The queues to read; where the table is redrawn in place, by default as many as the terminal has rows.
    fn request(&self, is_live: bool) -> QueueRequest {
        let all = self.json || self.listen.is_some();
        let room = (output::rows() as u32).saturating_sub(AROUND).max(1);
        let usual = if all { MOST_QUEUES } else { SHOWN };
        let limit = match is_live {
            true => self.limit.map_or(room, |limit| limit.min(room)),
            false => self.limit.unwrap_or(usual),
        };
        let fresh = self.fresh.map(|it| it.0.into());
        QueueRequest { vhost: self.vhost.clone(), sort: self.sort, limit, fresh }
    }

    fn serve(&self, address: &str) -> Result<Done, Failure> {
        let (control, at_once) = signals::stop_load()?;
        let shortest = self.every.map_or(SHORTEST, |it| it.0.into());
        let options = self.node.options()?;
        started(&options)?;
        let _look = look(&options, "erlang queues --listen");
        let page = QueuePage::open(options, self.request(false), shortest)?;
        let at = serve_queues(address, &page).map_err(|error| {
            Failure::failed("cannot serve counts of queues", "choose another HOST:PORT for --listen")
                .observed(format_args!("{address}: {error}"))
        })?;
        output::line_aside(&format!("JSON at http://{at}/queues, OpenMetrics at http://{at}/metrics; Ctrl-C ends it"));
        while !control.is_stopping() {
            std::thread::sleep(LOOK_EVERY);
        }
        at_once.check()?;
        let cost = page.cost();
        output::line_aside(&format!(
            "{}; the node was read {}, and took {} for it",
            counted(cost.requests, "request"),
            counted(cost.reads, "time"),
            Nanos(cost.node_us * 1_000),
        ));
        page.close()?;
        Ok(Done::Fine)
    }
}

/// Whether an address can be reached from this machine alone.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    address.parse::<SocketAddr>().is_ok_and(|it| it.ip().is_loopback())
        || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
        || host == "localhost"
}

/// The counts as a table with a line before and after it.
fn shown(counts: &QueueCounts, node: &str, is_live: bool) -> String {
    let mut out = heading(counts, node);
    if !counts.rows.is_empty() {
        out.push('\n');
        let heads = "queue<|vhost<|type<|ready|unacked|consumers|age up to";
        out += &grid(heads, Some(0), counts.rows.iter().map(cells), output::style());
    }
    if counts.left_out() > 0 {
        // In place there are as many as the terminal has rows for.
        let once = if is_live { "without --every, " } else { "" };
        out += &format!("and {} more: {once}--limit N shows more, --json all\n", count(counts.left_out()));
    }
    out.push('\n');
    for note in notes(counts) {
        out += &sentence(&note, output::style());
    }
    out
}

/// Number of queues, and their contents as far as known.
fn heading(counts: &QueueCounts, node: &str) -> String {
    let queues = counted(counts.queues, "queue");
    let (Some(ready), Some(unacked)) = (counts.ready, counts.unacked) else {
        return format!("{queues} of {node}: how many messages they hold is not known\n");
    };
    let of_known = match counts.unknown {
        0 => String::new(),
        unknown => format!(" in the {} whose numbers are known", count(counts.queues - unknown.min(counts.queues))),
    };
    format!("{queues} of {node}: {} ready, {} unacknowledged{of_known}\n", count(ready), count(unacked))
}

fn cells(row: &QueueCount) -> Vec<String> {
    let known = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), count);
    let age = match (row.source, row.age_limit_ms) {
        (CountSource::Asked, _) => "asked".to_owned(),
        (CountSource::Silent, _) => "no answer".to_owned(),
        (CountSource::NeverAsked, _) => "never asked".to_owned(),
        (_, Some(ms)) => Nanos::from_millis(ms).to_string(),
        (_, None) => "-".to_owned(),
    };
    vec![
        row.name.clone(),
        row.vhost.clone(),
        row.kind.clone(),
        known(row.ready),
        known(row.unacked),
        count(row.consumers.into()),
        age,
    ]
}

fn notes(counts: &QueueCounts) -> Vec<String> {
    let mut notes = vec![format!(
        "read in {}, of which the node took {}",
        Nanos(counts.answer_us * 1_000),
        Nanos(counts.node_us * 1_000)
    )];
    let were_asked = counts.asked + counts.silent + counts.never_asked > 0;
    if counts.collects_nothing() && !were_asked {
        notes.push(
            "RabbitMQ collects no statistics (collect_statistics): numbers of classic queues can be missing or of any \
             age; --fresh 200ms asks each queue"
                .to_owned(),
        );
    } else if counts.asked == 0 {
        notes.push(
            "age: a queue that works writes its numbers into the node's tables at this interval, and once more when it \
             goes idle; consumers are those of now"
                .to_owned(),
        );
    }
    for (queues, before, behind) in [
        (counts.unknown, "the node holds no numbers of ", ""),
        (counts.silent, "", " did not answer in time: the numbers are the tables'"),
        (
            counts.never_asked,
            "",
            " cannot be asked (streams, and types of plugins): the numbers are the tables', which hold them up to the \
             interval late",
        ),
    ] {
        notes.extend((queues > 0).then(|| format!("{before}{}{behind}", counted(queues, "queue"))));
    }
    if !counts.silent_nodes.is_empty() {
        notes.push(format!(
            "no answer from {}: numbers of queues that lead there, and consumers that are connected there, can be \
             missing",
            counts.silent_nodes.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_numbers_that_are_unknown_is_not_told_as_zero() {
        let of = |unknown, sum| QueueCounts {
            queues: 3,
            ready: sum,
            unacked: sum,
            unknown,
            asked: 0,
            silent: 0,
            never_asked: 0,
            silent_nodes: Vec::new(),
            collects: "none".to_owned(),
            node_us: 1,
            answer_us: 1,
            rows: Vec::new(),
        };
        for (unknown, sum, told) in [
            (0, Some(5), "3 queues of n: 5 ready, 5 unacknowledged\n"),
            (1, Some(5), "3 queues of n: 5 ready, 5 unacknowledged in the 2 whose numbers are known\n"),
            (3, None, "3 queues of n: how many messages they hold is not known\n"),
        ] {
            assert_eq!(heading(&of(unknown, sum), "n"), told);
        }
    }

    #[test]
    fn only_loopback_is_served_unless_more_is_allowed() {
        for address in ["127.0.0.1:9420", "localhost:0", "[::1]:80", "127.8.0.1:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0:9420", ":80", "[::]:80", "example.org:1", "192.168.0.1:1", "localhost.evil:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
