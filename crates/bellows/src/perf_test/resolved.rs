//! PerfTest's options resolved: an experiment on a running broker, and its output.

use std::path::PathBuf;
use std::time::Duration;

use experiment::{Experiment, Origin, PhasesSpec, ProfileSpec};
use load::StopCondition;
use measure::{Length, Nanos};
use report::perf_test::{Columns, Lines, Unit};

use super::exposition::Exposition;
use super::table::OPTION_NAMES;
use super::topology::{self, Agents};
use super::values::{Values, bad};
use super::{clients, nodes};
use crate::Failure;

#[derive(Debug)]
pub(super) struct ResolvedRun {
    pub(super) experiment: Experiment,
    pub(super) lines: Lines,
    pub(super) format: Format,
    /// Between two lines.
    pub(super) interval: Nanos,
    pub(super) csv: Option<PathBuf>,
    pub(super) agents: Agents,
    /// Time-out of brokers to be up; zero does not wait.
    pub(super) wait: Duration,
    /// Number of them that suffices.
    pub(super) enough: usize,
    pub(super) exposition: Option<Exposition>,
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Default,
    Compact,
}

/// Resolves the options. `id` names a test without a given name.
pub(super) fn resolve(values: &Values, id: String) -> Result<ResolvedRun, Failure> {
    values.check()?;
    flags(values)?;
    threads(values)?;
    let kind = topology::kind(values)?;
    let lines = Lines {
        id: values.text("id").map_or(id, str::to_owned),
        columns: Columns {
            published: values.whole("producers", 1)? > 0,
            received: values.whole("consumers", 1)? > 0,
            returned: values.has_flag("mandatory"),
            confirmed: clients::confirm(values)?.is_some(),
        },
        unit: if values.has("use-millis") { Unit::Millis } else { Unit::Micros },
    };
    let format = values.choice("metrics-format", &[("default", Format::Default), ("compact", Format::Compact)])?;
    let agents = Agents::read(values)?;
    let spec = clients::producing(values, agents, kind)?;
    let spec = clients::consuming(values, agents, spec)?;
    let (load, ledger) = topology::topology(values, agents, &lines.id, spec)?;
    Ok(ResolvedRun {
        experiment: Experiment {
            name: "perf-test".to_owned(),
            broker: nodes::broker(values)?,
            phases: PhasesSpec {
                warmup: clients::slow_start(values, agents)?.unwrap_or_default(),
                measure: values.seconds("time", 0)?,
                drain: drain(values.whole("shutdown-timeout", 5)?),
            },
            profile: ProfileSpec { events: Vec::new(), ..ProfileSpec::default() },
            ledger,
            until: values.choice("exit-when", &[("empty", StopCondition::Empty), ("idle", StopCondition::Idle)])?,
            load: vec![load],
            origin: Origin::options(OPTION_NAMES),
            ..Experiment::default()
        },
        exposition: exposition(values)?,
        lines,
        format: format.unwrap_or(Format::Default),
        interval: interval(values)?,
        csv: values.text("output-file").map(PathBuf::from),
        agents,
        wait: values.seconds("servers-startup-timeout", 0)?.0.into(),
        enough: enough(values)?,
        notes: remarks(values),
    })
}

fn remarks(values: &Values) -> Vec<String> {
    let mut notes = Vec::new();
    if !values.from_environment.is_empty() {
        notes.push(format!("from the environment: {}", values.from_environment.join(", ")));
    }
    for name in &values.repeated {
        notes.push(format!("{name} is given more than once: the first counts"));
    }
    for (idle, other) in [
        ("body-field-count", "json-body"),
        ("body-count", "json-body"),
        ("servers-up-limit", "servers-startup-timeout"),
    ] {
        if values.has(idle) && !values.has(other) {
            notes.push(format!("--{idle} has no effect without --{other}"));
        }
    }
    for idle in ["nack", "ctxsize", "multi-ack-every"] {
        if values.has(idle) && values.has("autoack") {
            notes.push(format!("--{idle} has no effect with -a/--autoack"));
        }
    }
    let for_prometheus = [
        "exposed-metrics",
        "metrics-prometheus-endpoint",
        "metrics-prometheus-port",
        "metrics-prefix",
        "metrics-tags",
        "metrics-command-line-arguments",
    ];
    let idle = for_prometheus.iter().find(|long| values.has(long));
    if let Some(long) = idle.filter(|_| !values.has("metrics-prometheus")) {
        notes.push(format!("--{long} has no effect without -mpr/--metrics-prometheus"));
    }
    notes
}

/// Time-out of messages in flight for an end of this many seconds: half of a single one is for asking the broker.
fn drain(seconds: u32) -> Length {
    let whole = Length::seconds(seconds.into()).0;
    Length(Nanos(whole.0 - (whole.0 / 2).min(Nanos::SECOND.0)))
}

fn exposition(values: &Values) -> Result<Option<Exposition>, Failure> {
    let mut exposition = Exposition::asked(values)?;
    if let (Some(exposition), Some(rate)) = (&mut exposition, clients::rate(values)?) {
        let producers = Agents::read(values)?.all_producers();
        exposition.expect("expected_published", rate * producers as f64);
    }
    Ok(exposition)
}

fn interval(values: &Values) -> Result<Nanos, Failure> {
    match values.whole("interval", 1)? {
        0 => Err(bad("interval", "0", "1 second or more")),
        seconds => Ok(Length::seconds(seconds.into()).0),
    }
}

fn enough(values: &Values) -> Result<usize, Failure> {
    let nodes = nodes::urls(values).len();
    match values.whole("servers-up-limit", nodes as u32)? as usize {
        limit if (1..=nodes).contains(&limit) => Ok(limit),
        limit => {
            let needed = format!("1 to {nodes}, the number of brokers");
            Err(bad("servers-up-limit", &limit.to_string(), &needed))
        }
    }
}

fn flags(values: &Values) -> Result<(), Failure> {
    let known = |flag: &&String| matches!(flag.as_str(), "persistent" | "mandatory");
    match values.list("flag").iter().find(|flag| !known(flag)) {
        Some(flag) => Err(bad("flag", flag, "persistent or mandatory")),
        None => Ok(()),
    }
}

/// Numbers of threads have no effect, but must be numbers.
fn threads(values: &Values) -> Result<(), Failure> {
    for long in [
        "producer-scheduler-threads",
        "heartbeat-sender-threads",
        "consumers-thread-pools",
        "nio-threads",
        "nio-thread-pool",
        "netty-threads",
    ] {
        values.parsed::<i32>(long, "a whole number")?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "resolved_tests.rs"]
mod tests;
