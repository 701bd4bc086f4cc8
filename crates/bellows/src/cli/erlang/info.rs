//! `erlang info`: facts about a node, as a check of the connection.

use clap::Args;
use erlang::term::{Term, as_atom, as_int, as_list, as_text, as_tuple, atom};
use erlang::{Error, Node};
use measure::{Nanos, count};
use report::console::listed;
use report::text::bytes;
use serde::Serialize;

use super::connect::NodeArgs;
use crate::{Done, Failure, output};

const OURS: &str = "bellows_";
/// Modules of ours that are named at most.
const MOST_NAMED: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows erlang info rabbit@localhost
  bellows erlang info rabbit@localhost --json
  bellows erlang info rabbit@db1.example.org --tls --ca ca.pem --cookie-file cookie")]
pub(super) struct InfoArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Print it as a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Info {
    node: String,
    otp_release: u32,
    erts_version: String,
    schedulers: u64,
    up_ms: u64,
    processes: u64,
    process_limit: u64,
    memory_bytes: u64,
    run_queue: u64,
    /// RabbitMQ's version, where it runs there.
    rabbitmq: Option<String>,
    applications: Vec<Application>,
    /// Modules of bellows that are loaded: another one is at work, or has left them.
    bellows_modules: Vec<String>,
    /// Time from a request to its answer.
    round_trip_us: u64,
}

#[derive(Debug, Serialize)]
struct Application {
    name: String,
    version: String,
}

impl InfoArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let node = self.node.connect("erlang info")?;
        let info = ask(&node)?;
        output::print_result(self.json, &info, |style| listed(&rows(&info), style))
    }
}

fn ask(node: &Node) -> Result<Info, Error> {
    let number = |module: &str, function: &str, arguments: Vec<Term>| {
        let answer = node.call(module, function, arguments)?;
        Ok::<u64, Error>(unsigned(&answer))
    };
    let system = |key: &str| number("erlang", "system_info", vec![atom(key)]);
    let begun = std::time::Instant::now();
    let schedulers = system("schedulers_online")?;
    let round_trip = begun.elapsed();
    let clock = node.call("erlang", "statistics", vec![atom("wall_clock")])?;
    let applications = applications(&node.call("application", "which_applications", vec![])?);
    let rabbit = applications.iter().find(|it| it.name == "rabbit");
    let version = node.call("erlang", "system_info", vec![atom("version")])?;
    Ok(Info {
        node: node.name().to_string(),
        otp_release: node.release(),
        erts_version: as_text(&version).unwrap_or_default(),
        schedulers,
        up_ms: as_tuple(&clock).and_then(<[Term]>::first).map_or(0, unsigned),
        processes: system("process_count")?,
        process_limit: system("process_limit")?,
        memory_bytes: number("erlang", "memory", vec![atom("total")])?,
        run_queue: number("erlang", "statistics", vec![atom("total_run_queue_lengths")])?,
        rabbitmq: rabbit.map(|it| it.version.clone()),
        applications,
        bellows_modules: ours(&node.call("erlang", "loaded", vec![])?),
        round_trip_us: u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX),
    })
}

fn unsigned(term: &Term) -> u64 {
    as_int(term).and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
}

fn applications(answer: &Term) -> Vec<Application> {
    let application = |term: &Term| match as_tuple(term)? {
        [name, _, version] => Some(Application { name: as_text(name)?, version: as_text(version)? }),
        _ => None,
    };
    as_list(answer).unwrap_or_default().iter().filter_map(application).collect()
}

fn ours(loaded: &Term) -> Vec<String> {
    let list = as_list(loaded).unwrap_or_default();
    let ours = list.iter().filter_map(as_atom).filter(|name| name.starts_with(OURS));
    let mut ours: Vec<String> = ours.take(MOST_NAMED).map(str::to_owned).collect();
    ours.sort();
    ours
}

fn rows(info: &Info) -> Vec<(&'static str, String)> {
    let mut rows = vec![("node", info.node.clone())];
    if let Some(version) = &info.rabbitmq {
        rows.push(("RabbitMQ", version.clone()));
    }
    let names = info.applications.iter().map(|it| format!("{} {}", it.name, it.version));
    rows.extend([
        ("Erlang/OTP", format!("{} (ERTS {})", info.otp_release, info.erts_version)),
        ("up", age(info.up_ms)),
        ("schedulers", info.schedulers.to_string()),
        ("run queue", count(info.run_queue)),
        ("processes", format!("{} of at most {}", count(info.processes), count(info.process_limit))),
        ("memory", bytes(info.memory_bytes)),
        ("applications", names.collect::<Vec<_>>().join(", ")),
        (
            "bellows' modules",
            match info.bellows_modules.as_slice() {
                [] => "none".to_owned(),
                modules => format!("{} (of one that is at work, or left behind)", modules.join(", ")),
            },
        ),
        ("answers in", Nanos(info.round_trip_us.saturating_mul(1_000)).to_string()),
    ]);
    rows
}

/// A length of time by its two largest units: `3 d 4 h`.
fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_have_two_units() {
        let ages = [59_999, 61_000, 3_700_000, 90_000_000].map(age);
        assert_eq!(ages, ["59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }
}
