//! Calibrates the generator on this machine.

use load::{Ack, Argument, Consumers};
use measure::{LatencySummary, Length, Problem, Rate, counted};

use crate::calibration::{BUSY, Calibration, Lateness, Point, Workload};
use crate::{Error, NoObserver, RunOptions};
use experiment::{BrokerKind, BrokerSpec, Experiment, LoadSpec, PhasesSpec, ProfileSpec, SizeSpec};

const SIZES: [usize; 3] = [12, 1_024, 16_384];
/// Connections; where messages also come out again, twice as many.
const CONNECTIONS: [usize; 2] = [1, 100];
/// Lengths of one load; all of them together stay below a minute.
const WARMUP: Length = Length(measure::Nanos::from_millis(200));
const MEASURE: Length = Length(measure::Nanos::from_millis(550));
/// Messages in flight per connection: together so many that no load waits for answers.
const IN_FLIGHT: usize = 2_000;
/// Message rates at which it is looked how late the event loop wakes: at rest, and under load.
const RATES: [f64; 2] = [1_000.0, 50_000.0];

/// The loads without results: all with one event loop, those with many connections with one for each core, too.
fn loads(cores: usize) -> Vec<Point> {
    let plain = one_loop();
    // What encryption costs grows evenly with the size: the smallest and the largest tell.
    let secured = plain.iter().filter(|job| job.size != SIZES[1]).map(|job| Point { tls: true, ..*job });
    let mut all: Vec<Point> = plain.iter().copied().chain(secured).collect();
    if cores > 1 {
        let many = |job: &&Point| job.connections >= cores && job.workload != Workload::OneByOne;
        let many: Vec<Point> = all.iter().filter(many).map(|job| Point { threads: cores, ..*job }).collect();
        all.extend(many);
    }
    all
}

fn one_loop() -> Vec<Point> {
    let job = |workload, size, connections| Point { workload, size, connections, threads: 1, ..Point::default() };
    let mut all = Vec::new();
    for workload in [Workload::Publish, Workload::Confirm, Workload::InOut] {
        for connections in CONNECTIONS {
            all.extend(SIZES.map(|size| job(workload, size, connections)));
        }
    }
    // The size of a message hardly counts where each waits for an answer.
    all.extend(CONNECTIONS.map(|connections| job(Workload::OneByOne, SIZES[0], connections)));
    // Without confirms nothing is gained from many connections that sizes do not show.
    all.retain(|it| !matches!((it.workload, it.size, it.connections), (Workload::Publish, 1_024.., 100..)));
    all
}

/// Measures this machine, unless stopped. `progress` gets the number of loads done, their total, and the next one.
pub fn calibrate(
    options: &RunOptions,
    control: &load::Control,
    mut progress: impl FnMut(usize, usize, &str),
) -> Result<Calibration, Error> {
    let mut calibration = Calibration::here();
    let loads = loads(usize::try_from(calibration.cores).unwrap_or(1));
    let all = loads.len() + RATES.len();
    for (done, rate) in RATES.into_iter().enumerate() {
        progress(done, all, &format!("waking at {} msg/s", measure::count(rate as u64)));
        let (late, others) = lateness(rate, options, control)?;
        calibration.lateness.push(late);
        calibration.others_cores += others / all as f64;
    }
    for (at, job) in loads.into_iter().enumerate() {
        let text = format!(
            "{}, {} B, {}, {}",
            job.workload_text(),
            job.size,
            counted(job.connections as u64, "connection"),
            counted(job.threads as u64, "loop")
        );
        progress(RATES.len() + at, all, &text);
        let point = point(job, options, control)?;
        calibration.others_cores += point.others_cores / all as f64;
        calibration.points.push(point);
    }
    progress(all, all, "done");
    Ok(calibration)
}

fn experiment(load: LoadSpec, threads: usize, tls: bool) -> Experiment {
    Experiment {
        name: "calibrate".to_owned(),
        broker: BrokerSpec { kind: BrokerKind::Embedded, tls, ..BrokerSpec::default() },
        phases: PhasesSpec { warmup: WARMUP, measure: MEASURE, drain: Length::seconds(3) },
        profile: ProfileSpec { events: Vec::new(), ..ProfileSpec::default() },
        ledger: false,
        threads,
        load: vec![load],
        ..Experiment::default()
    }
}

fn run(
    load: LoadSpec,
    threads: usize,
    tls: bool,
    options: &RunOptions,
    control: &load::Control,
) -> Result<archive::RunSummary, Error> {
    let options = RunOptions { runs_dir: None, ..options.clone() };
    let outcome = crate::run(&experiment(load, threads, tls), &options, control, &mut NoObserver)?;
    if control.is_stopping() {
        return Err(Error::Stopped { during: "calibration" });
    }
    match (outcome.record.error, outcome.record.summary) {
        (None, Some(summary)) => Ok(summary),
        (error, _) => {
            let (cause, help) = ("a load against the embedded broker failed", "run it again on an idle machine");
            Err(Problem::new(cause, error.unwrap_or_default(), help).into())
        }
    }
}

fn lateness(rate: f64, options: &RunOptions, control: &load::Control) -> Result<(Lateness, f64), Error> {
    let load = LoadSpec {
        rate: Rate::per_second(rate),
        message_size: SizeSpec::fixed(64),
        max_pending: Some(0),
        consumers: Consumers { prefetch: 0, ack: Ack::Every(100), ..Consumers::default() },
        ..LoadSpec::default()
    };
    let summary = run(load, 1, false, options, control)?;
    let delay: &LatencySummary = summary.messages().latency.get(measure::Metric::SEND_DELAY);
    let late = Lateness { rate, p50_ns: delay.p50_ns, p99_ns: delay.p99_ns, max_ns: delay.max_ns };
    Ok((late, others_cores(&summary)))
}

fn point(job: Point, options: &RunOptions, control: &load::Control) -> Result<Point, Error> {
    let Point { workload, size, connections, threads, tls, .. } = job;
    let in_flight = if workload == Workload::OneByOne { 1 } else { (IN_FLIGHT / connections).max(20) };
    // What nobody consumes must not fill the broker's memory.
    let kept = (20_000_000 / size).clamp(500, 100_000);
    let in_out = workload == Workload::InOut;
    let mut load = LoadSpec {
        message_size: SizeSpec::fixed(size),
        producers: connections,
        confirm: workload != Workload::Publish,
        max_pending: Some(u32::try_from(in_flight).unwrap_or(u32::MAX)),
        consumers: Consumers {
            per_destination: if in_out { connections } else { 0 },
            prefetch: u16::try_from(in_flight).unwrap_or(u16::MAX),
            ack: Ack::Every(u32::try_from((in_flight / 10).max(1)).unwrap_or(1)),
            ..Consumers::default()
        },
        ..LoadSpec::default()
    };
    if !in_out {
        let kept = Argument::Integer(i64::try_from(kept).unwrap_or(i64::MAX));
        load.queue.arguments.insert("x-max-length".to_owned(), kept);
    }
    let summary = run(load, threads, tls, options, control)?;
    let ns = |us: Option<f64>| us.unwrap_or(0.0) * 1e3;
    let others_cores = others_cores(&summary);
    let (flow, cpu_us) = (*summary.flow(), summary.messages().cpu_us_each);
    let verdict = summary.verdict.unwrap_or_default();
    Ok(Point {
        rate: flow.sent.rate.min(if in_out { flow.received.rate } else { f64::INFINITY }),
        client_ns: ns(cpu_us.client),
        broker_ns: ns(cpu_us.broker),
        loop_lag_max_ns: verdict.facts.loop_lag_max_ns,
        others_cores,
        at_least: others_cores >= BUSY || verdict.limited_by != archive::LimitedBy::Generator,
        ..job
    })
}

/// CPU that neither bellows nor its broker used.
fn others_cores(summary: &archive::RunSummary) -> f64 {
    summary.verdict.as_ref().map(|verdict| &verdict.facts).and_then(archive::Facts::other_cores).unwrap_or(0.0)
}
