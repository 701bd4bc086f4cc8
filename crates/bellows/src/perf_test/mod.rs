//! PerfTest (RabbitMQ's load generator) as a command: its options, its meaning, its output.
//!
//! [`table`] holds every option as data; [`parser`] reads a command line as PerfTest does;
//! [`values`] adds the environment and refuses what has no meaning here; [`resolved`] turns the rest
//! into an experiment; [`show`] prints PerfTest's lines, whose text is `report::perf_test`'s.

mod clients;
mod exposition;
mod help;
mod nodes;
mod parser;
mod resolved;
mod show;
mod table;
mod topology;
mod values;

use std::ffi::OsString;
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use archive::{Finding, Labels, RunRecord, RunState};
use load::StopCondition;
use measure::{Counters, Interval, Metric, Nanos, Phase, counted};
use report::console;
use report::perf_test::Sums;

use crate::run_options::{self, labels, run_options, tell_alone};
use crate::{Done, Failure, output, signals};
use exposition::Exposition;
use resolved::{Format, ResolvedRun};
use show::PerfTestObserver;
use values::Values;
pub(crate) use values::is_slip;

/// The names of all options that have a meaning here, each with a line of help.
pub(crate) fn options() -> impl Iterator<Item = (String, &'static str)> {
    let options = table::OPTIONS.iter();
    let options = options.filter(|option| option.status != table::Status::Refused);
    options.flat_map(|option| {
        let short = (!option.short.is_empty()).then(|| format!("-{}", option.short));
        let names = short.into_iter().chain([format!("--{}", option.long)]);
        names.map(|name| (name, option.help))
    })
}

pub(crate) fn usage() -> String {
    help::usage(output::style().columns)
}

pub(crate) fn execute(args: Vec<OsString>) -> Result<Done, Failure> {
    let words = args.into_iter().map(|arg| arg.into_string().map_err(not_text)).collect::<Result<Vec<_>, _>>()?;
    let values = Values::read(&words, &|name| std::env::var(name).ok())?;
    if let Some(text) = information(&values) {
        return output::print(&text).map(|()| Done::Fine);
    }
    let id = format!("test-{}", jiff::Zoned::now().strftime("%H%M%S-%3f"));
    let mut command = vec!["bellows".to_owned(), "perf-test".to_owned()];
    command.extend(values::archived(&words));
    run(resolved::resolve(&values, id).map_err(|failure| values.as_typed(failure))?, command)
}

/// The words of its command line as the archive keeps them, without secrets.
pub(crate) fn archived(args: &[OsString]) -> Vec<String> {
    let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    values::archived(&words)
}

fn not_text(arg: OsString) -> Failure {
    Failure::usage(format!("the argument {:?} is not UTF-8", arg.to_string_lossy()), "write it in UTF-8")
        .observed(arg.to_string_lossy())
}

/// The text of an option that only prints.
fn information(values: &Values) -> Option<String> {
    let columns = output::style().columns;
    type Text = fn(usize) -> String;
    let all: [(&str, Text); 4] = [
        ("metrics-help", help::metrics),
        ("environment-variables", help::variables),
        ("help", help::usage),
        ("version", |_| format!("bellows {}, with the command line of PerfTest 2.24\n", env!("CARGO_PKG_VERSION"))),
    ];
    all.into_iter().find(|(long, _)| values.has(long)).map(|(_, text)| text(columns))
}

fn run(mut resolved: ResolvedRun, command: Vec<String>) -> Result<Done, Failure> {
    resolved.experiment.validate().map_err(session::Error::from)?;
    for note in &resolved.notes {
        output::line_aside(&format!("note: {note}"));
    }
    wait_for_brokers(&mut resolved)?;
    let (control, at_once) = signals::stop_load()?;
    let served = resolved.exposition.take().map(Exposition::serve).transpose()?;
    if let Some(served) = &served {
        output::line_aside(&format!("metrics: {}", served.url));
    }
    let mut show = PerfTestObserver::new(&resolved, served, control.clone())?;
    output::print(&starting(&resolved))?;
    let labels = labels_of_environment()?;
    let options = run_options(Some(archive::default_runs_dir()), labels, command)?;
    tell_alone();
    let outcome = session::run(&resolved.experiment, &options, &control, &mut show);
    show.finish();
    let outcome = outcome?;
    let draw = |dir| run_options::draw(dir, &outcome.profiles);
    let report = outcome.run_dir.as_deref().map(draw);
    if let Some(failure) = show.failed.take() {
        return Err(failure);
    }
    let length = lasted(&outcome.record, Phase::Measure);
    let sums = sums(&resolved, &outcome.record, &outcome.measured, length);
    let summary = resolved.lines.summary(&outcome.measured, sums, resolved.format == Format::Default);
    output::print(&format!("test stopped{}\n{summary}", reason(&resolved, &outcome.record, length)))?;
    remarks(&outcome.record);
    if let Some(told) = missing(&resolved, &outcome.record, sums.length > length) {
        output::line_aside(&told);
    }
    at_once.check()?;
    if let Some(report) = report {
        output::line_aside(&format!("report: {}", report?.display()));
    }
    match outcome.record.state {
        RunState::Failed => Err(Failure::of_run(outcome.record)),
        _ => Ok(Done::Fine),
    }
}

/// Labels of the run from `BELLOWS_NOTE` and `BELLOWS_TAGS`: PerfTest has no options for it.
fn labels_of_environment() -> Result<Labels, Failure> {
    let set = |name| std::env::var(name).unwrap_or_default();
    let tags: Vec<String> = set("BELLOWS_TAGS").split(',').map(str::to_owned).collect();
    labels(set("BELLOWS_NOTE"), tags.iter().filter(|tag| !tag.is_empty()))
}

fn starting(resolved: &ResolvedRun) -> String {
    let agents = resolved.agents;
    let sides = [
        ("consumer", agents.consumers, agents.consumer_channels),
        ("producer", agents.producers, agents.producer_channels),
    ];
    let lines = sides.into_iter().flat_map(|(what, count, channels)| {
        let all = (0..count).flat_map(move |client| (0..=channels).map(move |it| (client, it.checked_sub(1))));
        all.map(move |(client, channel)| resolved.lines.starting(what, client, channel) + "\n")
    });
    lines.collect()
}

/// Sums for the averages: messages sent and received in the measured phase. A test that counts its messages lasts until
/// the last is received: longer by the longest latency, at most by the drain, or by all of a drain that was cut off.
fn sums(resolved: &ResolvedRun, record: &RunRecord, of: &Interval, length: Nanos) -> Sums {
    let Counters { sent, received, .. } = of.counters;
    let measured = Sums { sent, received, length };
    let Some(summary) = &record.summary else { return measured };
    let is_warmed_up = record.phases.iter().any(|it| it.phase == Phase::Warmup);
    let later = summary.flow().received.total > received;
    let is_counted = resolved.experiment.load.iter().any(|it| it.message_count > 0);
    if !later || !is_counted || is_warmed_up || reached_time(resolved, length) {
        return measured;
    }
    let drained = lasted(record, Phase::Drain);
    let latencies = of.latencies.histogram(Metric::END_TO_END);
    let rest = match is_cut_off(resolved, drained) && not_received(record).is_some() {
        true => drained,
        false => Nanos(latencies.max()).min(drained),
    };
    Sums { sent, received: summary.flow().received.total, length: length + rest }
}

/// Length of a phase; that of the drain is the time for which messages in flight were awaited.
fn lasted(record: &RunRecord, phase: Phase) -> Nanos {
    let spans = record.phases.iter().filter(|it| it.phase == phase);
    Nanos::from_secs_f64(spans.map(|span| span.end - span.start).sum())
}

fn is_cut_off(resolved: &ResolvedRun, drained: Nanos) -> bool {
    drained + Nanos::from_millis(1) >= resolved.experiment.phases.drain.0
}

/// Deliveries that had not come at the end, and how many there should be, where that is known; `None` where none is
/// missing, or nobody knows. Without a ledger it is the fewest that can be.
fn not_received(record: &RunRecord) -> Option<(u64, Option<u64>)> {
    let summary = record.summary.as_ref()?;
    let missing = match &summary.flow().ledger {
        Some(it) => (it.lost + it.outstanding + it.unconfirmed_missing, Some(it.sent)),
        None => summary.warnings.iter().find_map(|it| match it.finding {
            Finding::MessagesNotReceived { missing, sent, .. } => Some((missing, sent)),
            _ => None,
        })?,
    };
    Some(missing).filter(|it| it.0 > 0)
}

/// A note of missing messages, how long they were awaited, and which options wait longer.
fn missing(resolved: &ResolvedRun, record: &RunRecord, is_averaged: bool) -> Option<String> {
    let (missing, all) = not_received(record)?;
    let missing = match all {
        Some(all) => format!("{missing} of {}", counted(all, "message")),
        None => format!("at least {}", counted(missing, "message")),
    };
    let drained = lasted(record, Phase::Drain);
    let is_cut_off = is_cut_off(resolved, drained);
    // Only then do the averages last for as long as the end did.
    let averages = if is_averaged && is_cut_off { ", which the averages include" } else { "" };
    let ledger = record.summary.as_ref().and_then(|it| it.flow().ledger.as_ref());
    let may_come = ledger.is_none_or(|it| it.outstanding + it.unconfirmed_missing > 0);
    let waits_longer = ": -st waits longer, -D until consumers have had their number";
    let longer = if is_cut_off && may_come { waits_longer } else { "" };
    Some(format!("not received: {missing} in the {:.1} s that the end lasted{averages}{longer}", drained.as_secs_f64()))
}

fn reached_time(resolved: &ResolvedRun, length: Nanos) -> bool {
    let limit = resolved.experiment.phases.measure.0;
    limit > Nanos::ZERO && length + Nanos::from_millis(1) >= limit
}

fn reason(resolved: &ResolvedRun, record: &RunRecord, length: Nanos) -> String {
    let loads = &resolved.experiment.load;
    match record.state {
        RunState::Failed => return " (error)".to_owned(),
        RunState::Interrupted => return String::new(),
        _ if reached_time(resolved, length) => return " (Reached time limit)".to_owned(),
        _ => {}
    }
    let mut reasons = Vec::new();
    let counted = |name: &str, clients: usize| match clients {
        1 => name.to_owned(),
        clients => format!("{name} [{clients}]"),
    };
    if loads.iter().any(|load| load.message_count > 0) {
        reasons.push(counted("Producer reached message limit", resolved.agents.all_producers()));
    }
    let why = match resolved.experiment.until {
        _ if loads.iter().any(|load| load.consumers.message_count > Some(0)) => Some("Consumer reached message limit"),
        Some(StopCondition::Idle) => Some("Consumer is idle for more than 1 second"),
        Some(StopCondition::Empty) => Some("Consumer queue(s) empty"),
        None => None,
    };
    reasons.extend(why.map(|why| counted(why, resolved.agents.all_consumers())));
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}

/// Prints what PerfTest's lines have no place for: missing messages, and warnings.
fn remarks(record: &RunRecord) {
    let Some(summary) = &record.summary else { return };
    let style = output::style_aside();
    let mut told = summary.clone();
    // It has a line of its own, with the options that wait longer.
    told.warnings.retain(|it| !matches!(it.finding, Finding::MessagesNotReceived { .. }));
    let mut text = console::remarks(&told, style);
    if let Some(ledger) = &summary.flow().ledger
        && ledger.lost + ledger.outstanding + ledger.corrupt > 0
    {
        text.push_str(&format!(
            "ledger: {} lost, {} outstanding, {} damaged\n",
            ledger.lost, ledger.outstanding, ledger.corrupt
        ));
    }
    output::aside(&text);
}

/// Between two rounds, and the longest that one broker is waited for in a round.
const WAIT_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_DIAL: Duration = Duration::from_secs(1);

/// Waits until enough ports answer, where that was requested. The test then has the brokers that are up.
fn wait_for_brokers(resolved: &mut ResolvedRun) -> Result<(), Failure> {
    if resolved.wait.is_zero() {
        return Ok(());
    }
    let broker = &mut resolved.experiment.broker;
    let urls: Vec<String> = broker.url.iter().chain(&broker.further_urls).cloned().collect();
    let begun = Instant::now();
    let mut up: Vec<String> = Vec::new();
    loop {
        for url in &urls {
            if up.len() < resolved.enough && !up.contains(url) && is_up(url) {
                up.push(url.clone());
            }
        }
        if up.len() >= resolved.enough {
            let mut up = up.into_iter();
            broker.url = up.next();
            broker.further_urls = up.collect();
            return Ok(());
        }
        if begun.elapsed() >= resolved.wait {
            return Err(not_up(resolved, urls.iter().find(|url| !up.contains(url))));
        }
        thread::sleep(WAIT_PAUSE);
    }
}

/// Whether a server listens. Unreadable addresses are refused elsewhere.
fn is_up(url: &str) -> bool {
    let Ok(endpoint) = url.parse::<load::Endpoint>() else { return true };
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|a| TcpStream::connect_timeout(&a, LONGEST_DIAL).is_ok()))
}

fn not_up(resolved: &ResolvedRun, missing: Option<&String>) -> Failure {
    let endpoint = missing.and_then(|url| url.parse::<load::Endpoint>().ok());
    let endpoint = endpoint.map_or_else(String::new, |endpoint| endpoint.to_string());
    let seconds = resolved.wait.as_secs();
    let cause = format!("the broker at {endpoint} was not up within {seconds} s");
    let help = "start it, or wait longer with -sst/--servers-startup-timeout";
    Failure::failed(cause, help).observed(format_args!("{seconds} s"))
}

#[cfg(test)]
mod tests {
    use archive::{MessageFlow, PhaseSpan, RunSummary, Throughput, Tier, Warning};
    use measure::ledger::LedgerSummary;

    use super::*;

    fn resolved(line: &str) -> ResolvedRun {
        let values = values::tests::read(line).expect("options");
        resolved::resolve(&values, "test-1".to_owned()).expect("a test")
    }

    /// 500 messages sent in a second, of which some were received in it and the rest in the drain.
    fn record(received: u64, drained: f64, ledger: Option<LedgerSummary>) -> RunRecord {
        let span = |phase, start, end| PhaseSpan { phase, start, end };
        let all = |total| Throughput { total, rate: total as f64 };
        // Two queues have each message.
        let without_ledger = Finding::MessagesNotReceived { missing: 1_000 - received, sent: None, drained_s: drained };
        let mut summary =
            RunSummary { warnings: vec![Warning::new(Tier::Caution, without_ledger)], ..RunSummary::default() };
        *summary.flow_mut() = MessageFlow { sent: all(500), received: all(received), ledger, ..MessageFlow::default() };
        RunRecord {
            state: RunState::Complete,
            phases: vec![span(Phase::Measure, 0.0, 1.0), span(Phase::Drain, 1.0, 1.0 + drained)],
            summary: Some(summary),
            ..RunRecord::default()
        }
    }

    /// The averages cover the time in which their messages were received, and missing ones have a line.
    #[test]
    fn an_end_that_was_cut_off_says_what_was_not_received() {
        let ledger = |unconfirmed_missing, outstanding| LedgerSummary {
            sent: 500,
            unconfirmed_missing,
            outstanding,
            ..LedgerSummary::default()
        };
        let averages = |line: &str, record: &RunRecord| {
            let resolved = resolved(line);
            let (mut of, length) = (Interval::new(), lasted(record, Phase::Measure));
            (of.counters.sent, of.counters.received) = (500, 100);
            let sums = sums(&resolved, record, &of, length);
            let told = missing(&resolved, record, sums.length > length);
            (sums.length.as_secs_f64(), told.unwrap_or_default())
        };
        let longer = ": -st waits longer, -D until consumers have had their number";
        for missing in [ledger(300, 0), ledger(0, 300)] {
            let cut = record(200, 4.0, Some(missing));
            let (length, told) = averages("-u q -C 500", &cut);
            let of = "not received: 300 of 500 messages in the 4.0 s that the end lasted";
            assert_eq!((length, told), (5.0, format!("{of}, which the averages include{longer}")));
            // A test with a time has its averages of that.
            let (length, told) = averages("-u q -z 1", &cut);
            assert_eq!((length, told), (1.0, format!("{of}{longer}")));
            // What the broker says that it does not hold is not waited for.
            let ended = record(200, 2.5, Some(missing));
            let (_, told) = averages("-u q -C 500", &ended);
            assert!(told.ends_with("2.5 s that the end lasted"), "{told}");
        }
        // What is lost comes no more, however long one waits.
        let lost = LedgerSummary { lost: 300, ..ledger(0, 0) };
        for (drained, end) in [(4.0, ", which the averages include"), (2.5, "2.5 s that the end lasted")] {
            let (_, told) = averages("-u q -C 500", &record(200, drained, Some(lost)));
            assert!(told.ends_with(end), "{told}");
        }
        let (_, told) = averages("-u a,b -C 500", &record(200, 4.0, None));
        assert!(told.starts_with("not received: at least 800 messages in the 4.0 s"), "{told}");
        for (line, received, ledger) in [("-u q -C 500", 500, Some(ledger(0, 0))), ("-u a,b -C 500", 1_000, None)] {
            let (_, told) = averages(line, &record(received, 4.0, ledger));
            assert_eq!(told, "", "{line}");
        }
    }
}
