//! What PerfTest's options mean: an experiment on a running broker, and how it is printed.

use std::path::PathBuf;

use measure::{Nanos, Rate};
use report::perf_test::{Columns, Lines, Unit};
use session::Experiment;
use session::experiment::{
    Acks, ArgumentValue, BrokerKind, BrokerSpec, Length, LengthRange, LoadSpec, Phases,
    ProfileSpec, QueueType, StreamOffset,
};

use super::exposition::Exposition;
use super::queues::{self, Kind, Names};
use super::text::key_values;
use super::values::{Values, bad};
use crate::failure::Failure;

/// PerfTest's smallest message.
const SMALLEST: u32 = 12;
/// The prefetch of streams, which need one.
const STREAM_PREFETCH: u16 = 200;

/// A test, ready to run.
#[derive(Debug)]
pub(super) struct Meaning {
    pub(super) experiment: Experiment,
    pub(super) lines: Lines,
    pub(super) format: Format,
    /// Between two lines.
    pub(super) interval: Nanos,
    pub(super) csv: Option<PathBuf>,
    pub(super) producers: usize,
    pub(super) consumers: usize,
    /// Seconds to wait for the broker to be up; 0 does not wait.
    pub(super) wait_s: u32,
    pub(super) exposition: Option<Exposition>,
    /// What the user should know of how it is done.
    pub(super) notes: Vec<String>,
}

/// The format of the console's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Default,
    Compact,
}

/// Finds out what was meant. `id` names a test that was given no name.
pub(super) fn meaning(values: &Values, id: String) -> Result<Meaning, Failure> {
    values.check()?;
    flags(values)?;
    threads(values)?;
    let kind = queues::kind(values)?;
    let lines = Lines {
        id: values.text("id").map_or(id, str::to_owned),
        columns: Columns {
            published: values.whole("producers", 1)? > 0,
            received: values.whole("consumers", 1)? > 0,
            returned: has_flag(values, "mandatory"),
            confirmed: confirm(values)?.is_some(),
        },
        unit: if values.has("use-millis") {
            Unit::Millis
        } else {
            Unit::Micros
        },
    };
    let format = match values.text("metrics-format") {
        None | Some("default") => Format::Default,
        Some("compact") => Format::Compact,
        Some(other) => return Err(bad("metrics-format", other, "default or compact")),
    };
    let mut notes = remarks(values);
    let load = loads(values, &kind, &lines.id, &mut notes)?;
    Ok(Meaning {
        experiment: Experiment {
            name: "perf-test".to_owned(),
            broker: BrokerSpec {
                kind: BrokerKind::Attach,
                url: Some(uri(values)?.to_owned()),
                ..BrokerSpec::default()
            },
            phases: Phases {
                warmup: Length::seconds(0),
                measure: Length::seconds(values.whole("time", 0)?.into()),
                drain: Length::seconds(values.whole("shutdown-timeout", 5)?.into()),
            },
            profile: ProfileSpec {
                events: Vec::new(),
                ..ProfileSpec::default()
            },
            load,
            ..Experiment::default()
        },
        exposition: exposition(values)?,
        lines,
        format,
        interval: interval(values)?,
        csv: values.text("output-file").map(PathBuf::from),
        producers: values.whole("producers", 1)? as usize,
        consumers: values.whole("consumers", 1)? as usize,
        wait_s: wait(values)?,
        notes,
    })
}

fn remarks(values: &Values) -> Vec<String> {
    let mut notes = Vec::new();
    if !values.from_environment.is_empty() {
        let names = values.from_environment.join(", ");
        notes.push(format!("from the environment: {names}"));
    }
    for name in &values.repeated {
        notes.push(format!("{name} is given more than once: the first counts"));
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
        notes.push(format!(
            "--{long} has no effect without -mpr/--metrics-prometheus"
        ));
    }
    notes
}

fn exposition(values: &Values) -> Result<Option<Exposition>, Failure> {
    let mut exposition = Exposition::asked(values)?;
    if let (Some(exposition), Some(rate)) = (&mut exposition, rate(values)?) {
        let producers = values.whole("producers", 1)?;
        exposition.expect("expected_published", rate * f64::from(producers));
    }
    Ok(exposition)
}

fn interval(values: &Values) -> Result<Nanos, Failure> {
    match values.whole("interval", 1)? {
        0 => Err(bad("interval", "0", "1 second or more")),
        seconds => Ok(Length::seconds(seconds.into()).0),
    }
}

fn wait(values: &Values) -> Result<u32, Failure> {
    // One broker is all there can be.
    if values.whole("servers-up-limit", 1)? != 1 {
        let text = values.text("servers-up-limit").unwrap_or_default();
        return Err(bad("servers-up-limit", text, "1, the number of brokers"));
    }
    values.whole("servers-startup-timeout", 0)
}

fn uri(values: &Values) -> Result<&str, Failure> {
    match (values.text("uri"), values.text("uris")) {
        (_, Some(uris)) if uris.contains(',') => Err(Failure::usage(
            "several brokers in -H/--uris are not supported yet",
            "give one",
        )),
        (_, Some(uri)) => Ok(uri.trim()),
        (Some(uri), None) => Ok(uri),
        (None, None) => Ok("amqp://localhost"),
    }
}

fn has_flag(values: &Values, flag: &str) -> bool {
    values.list("flag").iter().any(|given| given == flag)
}

fn flags(values: &Values) -> Result<(), Failure> {
    let known = |flag: &&String| matches!(flag.as_str(), "persistent" | "mandatory");
    match values.list("flag").iter().find(|flag| !known(flag)) {
        Some(flag) => Err(bad("flag", flag, "persistent or mandatory")),
        None if values.flag("tcp-no-delay", true)? => Ok(()),
        None => Err(bad(
            "tcp-no-delay",
            "false",
            "true: false would measure Nagle's algorithm",
        )),
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

/// One group for every queue.
fn loads(
    values: &Values,
    kind: &Kind,
    id: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<LoadSpec>, Failure> {
    let (producers, consumers) = (values.whole("producers", 1)?, values.whole("consumers", 1)?);
    let predeclared = values.has("predeclared");
    let named = queues::names(values)?;
    let own_queues = named == Names::Generated && consumers > 1;
    if own_queues && (kind.queue_type != QueueType::Classic || !kind.arguments.is_empty()) {
        return Err(Failure::usage(
            "queues with arguments of their own for each of several consumers are not supported yet",
            "name a queue that they share with -u/--queue, or a sequence with -qp, -qpf and -qpt",
        ));
    }
    let scheme = if own_queues { "topic" } else { "queue" };
    let declare = !predeclared && (named != Names::Generated || consumers > 0);
    let names = match named {
        Names::Generated => vec![format!("perf-test-{id}")],
        Names::One(name) => vec![name],
        Names::Sequence(names) => names,
    };
    let base = consuming(values, kind, producing(values, kind, LoadSpec::default())?)?;
    let count = names.len();
    let dealt =
        queues::dealt(producers as usize, count).zip(queues::dealt(consumers as usize, count));
    let each = Each::read(values)?;
    let loads = names
        .into_iter()
        .zip(dealt)
        .map(|(name, (producers, consumers))| LoadSpec {
            destination: format!("{scheme}://{name}"),
            durable: kind.persistent,
            arguments: kind.arguments.clone(),
            declare,
            delete: declare && kind.auto_delete && consumers > 0,
            producers,
            consumers,
            rate: each
                .rate
                .and_then(|rate| Rate::per_second(rate * producers as f64)),
            message_count: each.publish * producers as u64,
            consume_count: each.consume * consumers as u64,
            recover: each.recover,
            ..base.clone()
        });
    if producers > 0 {
        let exchange = if own_queues {
            "amq.topic"
        } else {
            "the default exchange"
        };
        notes.push(format!(
            "messages go over {exchange} straight to their queues: other exchanges are not supported yet"
        ));
    }
    Ok(loads.collect())
}

/// What is said of each client, and given to the engine for all of a group.
struct Each {
    rate: Option<f64>,
    publish: u64,
    consume: u64,
    recover: Option<LengthRange>,
}

impl Each {
    fn read(values: &Values) -> Result<Self, Failure> {
        Ok(Self {
            rate: rate(values)?,
            publish: values.whole("pmessages", 0)?.into(),
            consume: values.whole("cmessages", 0)?.into(),
            recover: recovery(values)?,
        })
    }
}

/// Messages a second of each producer; `None` for no limit.
fn rate(values: &Values) -> Result<Option<f64>, Failure> {
    let number = |long| values.parsed::<f64>(long, "a number");
    let rate = number("rate")?.filter(|rate| *rate > 0.0);
    match number("publishing-interval")? {
        None => Ok(rate),
        Some(seconds) if seconds >= 0.1 && seconds.is_finite() => Ok(Some(1.0 / seconds)),
        Some(seconds) => Err(bad(
            "publishing-interval",
            &seconds.to_string(),
            "0.1 seconds or more",
        )),
    }
}

fn recovery(values: &Values) -> Result<Option<LengthRange>, Failure> {
    let text = values
        .text("connection-recovery-interval")
        .unwrap_or("5")
        .trim();
    let seconds = |text: &str| text.parse::<u32>().ok().map(|s| Length::seconds(s.into()));
    let range = match text.split_once('-') {
        None => seconds(text).map(|wait| (wait, wait)),
        Some((min, max)) => seconds(min)
            .zip(seconds(max))
            .filter(|(min, max)| min < max),
    };
    let needed = "whole seconds such as 30, or a range such as 30-60";
    let (min, max) = range.ok_or_else(|| bad("connection-recovery-interval", text, needed))?;
    Ok((!values.has("disable-connection-recovery")).then_some(LengthRange { min, max }))
}

/// Messages in flight, where confirms are wanted; 0 for no limit.
fn confirm(values: &Values) -> Result<Option<u32>, Failure> {
    let limit = values.parsed::<i32>("confirm", "a whole number; -1 is without confirms")?;
    Ok(limit.and_then(|limit| u32::try_from(limit).ok()))
}

fn producing(values: &Values, kind: &Kind, spec: LoadSpec) -> Result<LoadSpec, Failure> {
    let confirm = confirm(values)?;
    Ok(LoadSpec {
        confirm: confirm.is_some(),
        max_pending: confirm.unwrap_or(0),
        message_size: values.whole("size", SMALLEST)?.max(SMALLEST) as usize,
        persistent: kind.persistent,
        mandatory: has_flag(values, "mandatory"),
        ..spec
    })
}

fn consuming(values: &Values, kind: &Kind, spec: LoadSpec) -> Result<LoadSpec, Failure> {
    let every = values.whole("multi-ack-every", 0)?;
    let qos = values.whole("qos", 0)?;
    if every > qos && qos > 0 {
        let text = every.to_string();
        return Err(bad("multi-ack-every", &text, "at most what -q/--qos says"));
    }
    let mut prefetch = u16::try_from(qos)
        .map_err(|_| bad("qos", &qos.to_string(), "at most 65535, AMQP's largest"))?;
    if values.has("stream-queue") && prefetch == 0 {
        prefetch = STREAM_PREFETCH;
    }
    let offset = stream_offset(values)?;
    // A consumer that says where in a stream it starts reads one, however it was declared.
    let queue_type = match offset {
        Some(_) if values.has("predeclared") => QueueType::Stream,
        _ => kind.queue_type,
    };
    Ok(LoadSpec {
        prefetch,
        ack: if values.has("autoack") {
            Acks::Auto
        } else {
            Acks::Every(every.max(1))
        },
        stream_offset: offset.unwrap_or_default(),
        queue_type,
        ..spec
    })
}

fn stream_offset(values: &Values) -> Result<Option<StreamOffset>, Failure> {
    let needed = "first, last, next or an offset; a time stamp is not supported yet";
    let mut offset = None;
    if let Some(text) = values.text("consumer-args") {
        for (key, value) in key_values("consumer-args", text)? {
            offset = match (key.as_str(), value) {
                ("x-stream-offset", ArgumentValue::Text(word)) => {
                    Some(named_offset(&word).ok_or_else(|| bad("consumer-args", &word, needed))?)
                }
                ("x-stream-offset", ArgumentValue::Integer(at)) => {
                    let at = u64::try_from(at);
                    Some(StreamOffset::At(
                        at.map_err(|_| bad("consumer-args", text, needed))?,
                    ))
                }
                _ => {
                    return Err(Failure::usage(
                        format!("the consumer argument {key} is not supported yet"),
                        "leave it out; x-stream-offset is taken",
                    ));
                }
            };
        }
    }
    if let Some(word) = values.text("stream-consumer-offset") {
        let read = named_offset(&word.to_lowercase());
        offset = Some(read.ok_or_else(|| bad("stream-consumer-offset", word, needed))?);
    }
    Ok(offset)
}

fn named_offset(word: &str) -> Option<StreamOffset> {
    match word {
        "first" => Some(StreamOffset::First),
        "last" => Some(StreamOffset::Last),
        "next" => Some(StreamOffset::Next),
        offset => offset.parse().ok().map(StreamOffset::At),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Meaning, Failure> {
        let args: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        meaning(&Values::read(&args, &|_| None)?, "id".into())
    }

    /// The first group, as far as the file of an experiment says it.
    fn load(line: &str) -> LoadSpec {
        let meaning = read(line).unwrap_or_else(|e| panic!("{line}: {e:?}"));
        meaning
            .experiment
            .validate()
            .unwrap_or_else(|e| panic!("{line}: {e}"));
        meaning.experiment.load.into_iter().next().expect("a load")
    }

    #[test]
    fn nothing_said_is_what_perf_test_does() {
        let spec = load("");
        assert_eq!(
            (spec.producers, spec.consumers, spec.message_size),
            (1, 1, 12)
        );
        assert_eq!(
            (spec.confirm, spec.max_pending, spec.rate),
            (false, 0, None)
        );
        assert_eq!((spec.prefetch, spec.ack), (0, Acks::Every(1)));
        assert!(!spec.durable && !spec.persistent && spec.declare && spec.delete);
        assert_eq!(spec.recover.map(|wait| wait.to_string()), Some("5s".into()));
        let meaning = read("").expect("read");
        assert!(meaning.experiment.phases.measure.is_zero());
        assert_eq!(meaning.experiment.phases.drain, Length::seconds(5));
        assert_eq!(
            meaning.experiment.broker.url.as_deref(),
            Some("amqp://localhost")
        );
    }

    #[test]
    fn queues_are_declared_as_perf_test_declares_them() {
        let spec = load("-u q -sq -ma PT1H -ll balanced");
        assert_eq!((spec.queue_type, spec.prefetch), (QueueType::Stream, 200));
        let text = |key: &str| format!("{:?}", spec.arguments.get(key));
        assert_eq!(text("x-max-length-bytes"), "Some(Integer(20000000000))");
        assert_eq!(
            text("x-stream-max-segment-size-bytes"),
            "Some(Integer(500000000))"
        );
        assert_eq!(text("x-max-age"), "Some(Text(\"3600s\"))");
        assert!(spec.persistent && !spec.delete);
        let spec = load("-sq -u q -mlb 0 -q 10");
        assert_eq!((spec.prefetch, spec.arguments.len()), (10, 1));
        let spec = load("-u q -qa x-queue-type=quorum,x-max-length=5 -ad false");
        assert_eq!(
            (spec.queue_type, spec.arguments.len()),
            (QueueType::Quorum, 1)
        );
        assert!(!load("-u q -p").declare && !load("-u q -p").delete);
        assert!(!load("-x 1 -y 0").declare && load("-x 1 -y 0 -u q").declare);
        assert!(load("-u q -f persistent").durable && load("-u q -qq").persistent);
        assert_eq!(load("-y 2").destination, "topic://perf-test-id");
        assert!(read("-y 2 -qq").is_err() && read("-sq -u q -mlb 100mb -smssb 200mb").is_err());
    }

    #[test]
    fn clients_are_dealt_out_and_counts_and_rates_are_each_clients() {
        let line = "-x 4 -y 2 -qp q%d -qpf 0 -qpt 2 -r 10 -C 7 -D 3";
        let loads = read(line).expect("read").experiment.load;
        let each = |of: fn(&LoadSpec) -> u64| loads.iter().map(of).collect::<Vec<_>>();
        assert_eq!(each(|l| l.producers as u64), [2, 1, 1]);
        assert_eq!(each(|l| l.consumers as u64), [1, 1, 0]);
        assert_eq!(each(|l| l.rate.map_or(0.0, Rate::get) as u64), [20, 10, 10]);
        assert_eq!(each(|l| l.message_count), [14, 7, 7]);
        assert_eq!(each(|l| l.consume_count), [3, 3, 0]);
        let rate = |line: &str| load(line).rate.map(Rate::get);
        assert_eq!(
            (rate("-P 0.5"), rate("-r 0"), rate("-r -1")),
            (Some(2.0), None, None)
        );
        assert!(read("-P 0.05").is_err());
    }

    #[test]
    fn clients_do_what_perf_test_s_do() {
        let spec = load("-u q -c 0 -s 5 -f mandatory -q 100 -A 10");
        assert_eq!(
            (spec.confirm, spec.max_pending, spec.message_size),
            (true, 0, 12)
        );
        assert_eq!(
            (spec.mandatory, spec.ack, spec.prefetch),
            (true, Acks::Every(10), 100)
        );
        assert_eq!(load("-u q -a -A 5").ack, Acks::Auto);
        assert_eq!(load("-u q -dcr").recover, None);
        let recover = load("-u q -cri 30-60").recover.map(|wait| wait.to_string());
        assert_eq!(recover.as_deref(), Some("30s-1m"));
        for (line, offset) in [
            ("-sco FIRST", StreamOffset::First),
            ("-ca x-stream-offset=last", StreamOffset::Last),
            ("-ca x-stream-offset=17", StreamOffset::At(17)),
            ("-ca x-stream-offset=5 -sco next", StreamOffset::Next),
        ] {
            assert_eq!(load(&format!("-u q -sq {line}")).stream_offset, offset);
        }
        for wrong in [
            "-cri 60-30",
            "-sco soon",
            "-ca x-priority=1",
            "-q 70000",
            "-H a,b",
            "-u a,b",
            "-mf json",
            "-tnd false",
            "-sul 2",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
