//! Clients: producers and consumers, and the messages that they send.

use experiment::{LoadSpec, SizeSpec};
use load::{
    Ack, AmqpConsumers, Argument, Consumers, LatencyStep, MessageProperties, QueueType, Refusal, ServiceTime,
    StreamOffset,
};
use measure::{Length, LengthRange, Nanos, Rate};

use super::topology::Agents;
use super::values::{Values, bad, key_values};
use crate::Failure;

const STREAM_OFFSET: &str = "x-stream-offset";
/// PerfTest's smallest message.
const SMALLEST: u32 = 12;
const STREAM_PREFETCH: u16 = 200;
const FOR_EVER_S: u64 = 100 * 365 * 86_400;
/// Numbers of fields and bodies of PerfTest's random JSON.
const FIELDS: u32 = 1_000;
const BODIES: u32 = 100;
const CONFIRM_TIMEOUT_S: u32 = 30;

/// Messages in flight, where confirms are wanted; 0 for no limit.
pub(super) fn confirm(values: &Values) -> Result<Option<u32>, Failure> {
    let limit = values.parsed::<i32>("confirm", "a whole number; -1 is without confirms")?;
    Ok(limit.and_then(|limit| u32::try_from(limit).ok()))
}

/// Messages a second of each producer; `None` for no limit or a changing one.
pub(super) fn rate(values: &Values) -> Result<Option<f64>, Failure> {
    let number = |long| values.parsed::<f64>(long, "a number");
    let rate = number("rate")?.filter(|rate| *rate > 0.0);
    match number("publishing-interval")? {
        Some(seconds) if seconds >= 0.1 && seconds.is_finite() => Ok(Some(1.0 / seconds)),
        Some(seconds) => Err(bad("publishing-interval", &seconds.to_string(), "0.1 seconds or more")),
        None if values.has("variable-rate") => Ok(None),
        None => Ok(rate),
    }
}

/// Whether producers connect and send nothing.
fn rate_is_zero(values: &Values) -> Result<bool, Failure> {
    let rate = values.parsed::<f64>("rate", "a number")?;
    let other = ["publishing-interval", "variable-rate"];
    Ok(rate == Some(0.0) && !other.iter().any(|long| values.has(long)))
}

pub(super) fn producing(values: &Values, agents: Agents, spec: LoadSpec) -> Result<LoadSpec, Failure> {
    let all = agents.all_producers();
    let confirm = confirm(values)?;
    let transaction = values.whole("ptxsize", 0)?;
    if transaction > 0 && confirm.is_some() {
        let cause = "a channel cannot have confirms and transactions";
        return Err(Failure::usage(cause, "give -c/--confirm or -m/--ptxsize"));
    }
    let rate = rate(values)?;
    let timeout = values.seconds("confirm-timeout", CONFIRM_TIMEOUT_S)?;
    let cached_keys = values.whole("routing-key-cache-size", 0)?;
    let random_keys = values.has("random-routing-key") || cached_keys > 0;
    let schedule = steps(values, "variable-rate")?.filter(|_| rate.is_none());
    let spec = LoadSpec {
        total_producers: Some(all),
        producer_connections: shared(agents.producers, agents.producer_channels),
        rate: rate.and_then(Rate::per_second),
        rate_per_producer: all > 0 && (rate.is_some() || schedule.is_some()),
        schedule,
        start_delay: Some(values.seconds("producer-random-start-delay", 0)?).filter(|d| !d.is_zero()),
        confirm: confirm.is_some(),
        max_pending: Some(confirm.unwrap_or(0)),
        confirm_timeout: confirm.filter(|limit| *limit > 0 && !timeout.is_zero()).map(|_| timeout),
        commit_every: transaction,
        random_routing_keys: random_keys.then_some(cached_keys),
        message_size: size(values)?,
        message_count: u64::from(values.whole("pmessages", 0)?) * all as u64,
        mandatory: values.has_flag("mandatory"),
        recover: recovery(values)?,
        ..spec
    };
    with_properties(values, spec)
}

/// Connections that clients with several channels share; with one channel each has its own.
fn shared(connections: usize, channels: usize) -> Option<usize> {
    (channels > 1 && connections > 0).then_some(connections)
}

fn size(values: &Values) -> Result<SizeSpec, Failure> {
    if let Some(files) = values.text("body") {
        let read = format!("files:{files}").parse();
        return read.map_err(|_| bad("body", files, "files, several divided by commas"));
    }
    let size = values.whole("size", SMALLEST)?.max(SMALLEST);
    if values.has("json-body") {
        let (fields, count) = (values.whole("body-field-count", FIELDS)?, values.whole("body-count", BODIES)?);
        let json = format!("json:{size},fields={fields},count={count}");
        let read = json.parse::<SizeSpec>();
        return read.map_err(|refused| Failure::usage(refused.what, "see bellows perf-test --help"));
    }
    Ok(steps(values, "variable-size")?.unwrap_or_else(|| SizeSpec::fixed(size as usize)))
}

const STEPS: &str = "VALUE:SECONDS, the seconds above 0, such as 100:60";

/// `VALUE:SECONDS` over and over, as schedules and sizes are written.
fn steps<T: std::str::FromStr>(values: &Values, long: &str) -> Result<Option<T>, Failure> {
    if !values.has(long) {
        return Ok(None);
    }
    let mut steps = Vec::new();
    for text in values.list(long) {
        let (value, seconds) = pair(long, text)?;
        let value = if long == "variable-size" { value.max(SMALLEST.into()) } else { value };
        steps.push(format!("{value}@{seconds}s"));
    }
    let written = format!("steps:{},repeat=true", steps.join(","));
    written.parse::<T>().map(Some).map_err(|_| bad(long, &values.list(long).join(" "), STEPS))
}

fn pair(long: &str, text: &str) -> Result<(u64, u64), Failure> {
    let read = |text: &str| text.parse::<u64>().ok();
    let parts = text.split_once(':');
    parts
        .and_then(|(value, seconds)| read(value).zip(read(seconds).filter(|s| *s > 0)))
        .ok_or_else(|| bad(long, text, STEPS))
}

fn recovery(values: &Values) -> Result<Option<LengthRange>, Failure> {
    let text = values.text("connection-recovery-interval").unwrap_or("5").trim();
    let seconds = |text: &str| text.parse::<u32>().ok().map(|s| Length::seconds(s.into()));
    let range = match text.split_once('-') {
        None => seconds(text).map(|wait| (wait, wait)),
        Some((min, max)) => seconds(min).zip(seconds(max)).filter(|(min, max)| min < max),
    };
    let needed = "whole seconds such as 30, or a range such as 30-60";
    let (min, max) = range.ok_or_else(|| bad("connection-recovery-interval", text, needed))?;
    Ok((!values.has("disable-connection-recovery")).then_some(LengthRange { min, max }))
}

pub(super) fn consuming(values: &Values, agents: Agents, mut spec: LoadSpec) -> Result<LoadSpec, Failure> {
    let every = values.whole("multi-ack-every", 0)?;
    let (prefetch, channel_prefetch) = (limit(values, "qos")?, limit(values, "global-qos")?);
    if every > prefetch.into() && prefetch > 0 {
        return Err(bad("multi-ack-every", &every.to_string(), "at most what -q/--qos says"));
    }
    let stream = values.has("stream-queue");
    let (arguments, stream_offset) = arguments(values)?;
    // A consumer that says where in a stream it starts reads one, however it was declared.
    let reads_stream = stream_offset.is_some() || arguments.contains_key(STREAM_OFFSET);
    if reads_stream && values.has("predeclared") {
        spec.queue.queue_type = QueueType::Stream;
    }
    let refusing = if values.flag("requeue", true)? { Refusal::Requeue } else { Refusal::Discard };
    let acknowledges = !values.has("autoack");
    let all = agents.all_consumers();
    let consumers = Consumers {
        total: Some(all),
        connections: shared(agents.consumers, agents.consumer_channels),
        prefetch: if prefetch == 0 && stream { STREAM_PREFETCH } else { prefetch },
        message_count: Some(u64::from(values.whole("cmessages", 0)?) * all as u64),
        ack: if acknowledges { Ack::Every(every.max(1)) } else { Ack::Auto },
        // What the broker takes as acknowledged is neither refused nor committed.
        refuse: (values.has("nack") && acknowledges).then_some(refusing),
        commit_every: if acknowledges { values.whole("ctxsize", 0)? } else { 0 },
        poll: values.has("polling").then_some(Length(Nanos::from_millis(values.whole("polling-interval", 0)?.into()))),
        service: ServiceTime {
            rate: values
                .parsed::<f64>("consumer-rate", "a number")?
                .filter(|rate| *rate > 0.0)
                .and_then(Rate::per_second),
            latency: latency(values)?,
        },
        start_after: values.seconds("consumer-start-delay", 0)?,
        apart: Length::seconds(values.has("slow-start").into()),
        amqp091: AmqpConsumers { channel_prefetch, arguments, stream_offset: stream_offset.unwrap_or_default() },
        ..spec.consumers
    };
    Ok(LoadSpec {
        // Producers wait for consumers that are started before them; with a rate of 0, for ever.
        start_after: match rate_is_zero(values)? {
            true => Some(Length::seconds(FOR_EVER_S)),
            false => slow_start(values, agents)?,
        },
        consumers,
        ..spec
    })
}

fn limit(values: &Values, long: &str) -> Result<u16, Failure> {
    let limit = values.whole(long, 0)?;
    u16::try_from(limit).map_err(|_| bad(long, &limit.to_string(), "at most 65535, AMQP's largest"))
}

fn latency(values: &Values) -> Result<Vec<LatencyStep>, Failure> {
    let fixed = values.whole("consumer-latency", 0)?;
    if !values.has("variable-latency") {
        let step = LatencyStep::constant(Nanos::from_micros(fixed.into()));
        return Ok(Some(step).filter(|_| fixed > 0).into_iter().collect());
    }
    let step = |text: &String| {
        let (latency, seconds) = pair("variable-latency", text)?;
        Ok(LatencyStep { latency: Length(Nanos::from_micros(latency)), length: Length::seconds(seconds) })
    };
    values.list("variable-latency").iter().map(step).collect()
}

/// Time until all consumers have started: a second for each, unless a delay lets the producers go first.
pub(super) fn slow_start(values: &Values, agents: Agents) -> Result<Option<Length>, Failure> {
    let waits = values.has("slow-start") && values.whole("consumer-start-delay", 0)? == 0;
    let length = Length::seconds(agents.all_consumers() as u64);
    Ok(Some(length).filter(|length| waits && !length.is_zero()))
}

type Arguments = std::collections::BTreeMap<String, Argument>;

/// The subscription's arguments, and its start in a stream. A start in `-ca` goes to the broker unchanged, as it has
/// more forms than `-sco`: intervals such as `1h`.
fn arguments(values: &Values) -> Result<(Arguments, Option<StreamOffset>), Failure> {
    let given = values.text("consumer-args").unwrap_or_default();
    let mut arguments: Arguments = key_values("consumer-args", given)?.into_iter().collect();
    let Some(word) = values.text("stream-consumer-offset") else { return Ok((arguments, None)) };
    arguments.remove(STREAM_OFFSET);
    let read = [word, &word.to_lowercase()].map(|word| word.parse().ok());
    let needed = "first, last, next, an offset, or a time such as 2026-11-21T12:00:00Z";
    let offset = read.into_iter().flatten().next();
    let offset = offset.ok_or_else(|| bad("stream-consumer-offset", word, needed))?;
    Ok((arguments, Some(offset)))
}

/// Adds `-mp` and `-T` to a load: properties and headers of every message.
fn with_properties(values: &Values, mut spec: LoadSpec) -> Result<LoadSpec, Failure> {
    let mut properties = MessageProperties {
        content_type: values.text("body-content-type").map(str::to_owned),
        ..MessageProperties::default()
    };
    let given = values.text("message-properties").unwrap_or_default();
    for (key, value) in key_values("message-properties", given)? {
        let text = || Some(value.to_string());
        match key.as_str() {
            "contentType" => properties.content_type = text(),
            "contentEncoding" => properties.content_encoding = text(),
            "correlationId" => properties.correlation_id = text(),
            "replyTo" => properties.reply_to = text(),
            "messageId" => properties.message_id = text(),
            "type" => properties.message_type = text(),
            "userId" => properties.user_id = text(),
            "appId" => properties.app_id = text(),
            "clusterId" => properties.cluster_id = text(),
            "priority" => properties.priority = Some(number(&key, &value)?),
            "timestamp" => properties.timestamp = Some(timestamp(&value)?),
            "expiration" => {
                let ms: u32 = number(&key, &value)?;
                spec.ttl = Some(Length(Nanos::from_millis(ms.into())));
            }
            "deliveryMode" => spec.persistent = number::<u8>(&key, &value)? == 2,
            _ => {
                spec.headers.insert(key, value);
            }
        }
    }
    spec.properties = properties;
    Ok(spec)
}

fn number<T: TryFrom<i64>>(key: &str, value: &Argument) -> Result<T, Failure> {
    let read = match value {
        Argument::Integer(number) => T::try_from(*number).ok(),
        _ => None,
    };
    read.ok_or_else(|| bad("message-properties", &format!("{key}={value}"), "a whole number that fits"))
}

/// `2024-05-01T12:00:00Z` in seconds since 1970.
fn timestamp(value: &Argument) -> Result<u64, Failure> {
    let text = value.to_string();
    let read = text.parse::<jiff::Timestamp>().ok();
    read.and_then(|at| u64::try_from(at.as_second()).ok())
        .ok_or_else(|| bad("message-properties", &text, "a time such as 2024-05-01T12:00:00Z"))
}
