//! Queues, their kind, and the clients of each.

use std::collections::BTreeMap;
use std::path::Path;

use load::{Argument, QueueType};

use super::text::{self, byte_capacity, key_values, seconds_of_duration};
use super::values::{Values, bad};
use crate::failure::Failure;

/// PerfTest's limits of a stream: 20 GB, in segments of 500 MB.
const STREAM_BYTES: i64 = 20_000_000_000;
const SEGMENT_BYTES: i64 = 500_000_000;
const LARGEST_SEGMENT: i64 = 3_000_000_000;
/// More queues are a slip of the keyboard.
const MOST_QUEUES: u32 = 60_000;

/// The queues and how clients are assigned to them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// None was named.
    Generated,
    /// All clients use all of them.
    Listed(Vec<String>),
    /// Clients take them in turn.
    Sequence(Vec<String>),
}

/// Properties of declared queues.
#[derive(Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) queue_type: QueueType,
    pub(super) auto_delete: bool,
    /// Messages and classic queues survive a restart.
    pub(super) persistent: bool,
    pub(super) arguments: BTreeMap<String, Argument>,
}

/// Reads -u, -qf, -qp, -qpf and -qpt.
pub(super) fn names(values: &Values) -> Result<Names, Failure> {
    let pattern = pattern(values)?;
    let (file, listed) = (values.text("queue-file"), values.text("queue"));
    if let Some(file) = file {
        if pattern.is_some() || listed.is_some() {
            return Err(Failure::usage(
                "queues are named in more than one way",
                "give -qf/--queue-file alone",
            ));
        }
        return from_file(Path::new(file)).map(Names::Sequence);
    }
    if let Some(names) = pattern {
        return Ok(Names::Sequence(names));
    }
    let split = |names: &str| {
        names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect()
    };
    match listed {
        None | Some("") => Ok(Names::Generated),
        Some(names) if names.split(',').any(|name| name.trim().is_empty()) => {
            Err(bad("queue", names, "names, several divided by commas"))
        }
        Some(names) => Ok(Names::Listed(split(names))),
    }
}

fn pattern(values: &Values) -> Result<Option<Vec<String>>, Failure> {
    let pattern = values.text("queue-pattern");
    let number = |long| values.parsed::<u32>(long, "a whole number, 0 or more");
    let range = (number("queue-pattern-from")?, number("queue-pattern-to")?);
    let (pattern, from, to) = match (pattern, range) {
        (None, (None, None)) => return Ok(None),
        (Some(pattern), (Some(from), Some(to))) => (pattern, from, to),
        _ => {
            return Err(Failure::usage(
                "a sequence of queues is not whole",
                "give all of -qp/--queue-pattern, -qpf and -qpt, or none",
            ));
        }
    };
    if from > to || to - from >= MOST_QUEUES {
        let text = format!("the sequence of queues from {from} to {to} has no sense");
        let help = format!("let -qpf be at most -qpt, and take at most {MOST_QUEUES} queues");
        return Err(Failure::usage(text, help).observed(format_args!("from {from} to {to}")));
    }
    let name = |n| {
        text::formatted(pattern, n).ok_or_else(|| {
            bad(
                "queue-pattern",
                pattern,
                "one %d, such as perf-test-%d or %03d",
            )
        })
    };
    (from..=to).map(name).collect::<Result<_, _>>().map(Some)
}

fn from_file(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))?;
    let names: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) || names.is_empty() {
        return Err(Failure::usage(
            format!("{} has a line without a queue's name", path.display()),
            "write one name on each line",
        )
        .observed(path.display()));
    }
    Ok(names)
}

/// Reads -qq, -sq, -qa, -ad, -f, -mlb, -smssb, -ma and -ll.
pub(super) fn kind(values: &Values) -> Result<Kind, Failure> {
    let (quorum, stream) = (values.has("quorum-queue"), values.has("stream-queue"));
    if quorum && stream {
        return Err(Failure::usage(
            "queues cannot be quorum queues and streams",
            "give -qq or -sq, not both",
        ));
    }
    let mut arguments = BTreeMap::new();
    for text in values.list("queue-args") {
        arguments.extend(key_values("queue-args", text)?);
    }
    let mut queue_type = take_type(&mut arguments)?;
    if quorum {
        queue_type = QueueType::Quorum;
    }
    if stream {
        queue_type = QueueType::Stream;
        let mut add = |key: &str, bytes| arguments.insert(key.into(), Argument::Integer(bytes));
        add("x-max-length-bytes", STREAM_BYTES);
        add("x-stream-max-segment-size-bytes", SEGMENT_BYTES);
    }
    limits(values, &mut arguments)?;
    let persistent = values.list("flag").iter().any(|flag| flag == "persistent");
    Ok(Kind {
        queue_type,
        auto_delete: values.flag("auto-delete", true)? && !quorum && !stream,
        persistent: persistent || quorum || stream,
        arguments,
    })
}

fn take_type(arguments: &mut BTreeMap<String, Argument>) -> Result<QueueType, Failure> {
    match arguments.remove("x-queue-type") {
        None => Ok(QueueType::default()),
        Some(value) => {
            let needed = "x-queue-type=classic, quorum or stream";
            let text = value.to_string();
            text.parse().map_err(|_| bad("queue-args", &text, needed))
        }
    }
}

fn limits(values: &Values, arguments: &mut BTreeMap<String, Argument>) -> Result<(), Failure> {
    let stream = values.has("stream-queue");
    let mut largest = stream.then_some(STREAM_BYTES);
    if let Some(text) = values.text("max-length-bytes") {
        let bytes = byte_capacity("max-length-bytes", text)?;
        largest = (bytes > 0).then_some(bytes);
        arguments.remove("x-max-length-bytes");
        if bytes > 0 {
            arguments.insert("x-max-length-bytes".into(), Argument::Integer(bytes));
        }
    }
    if let Some(text) = values.text("stream-max-segment-size-bytes") {
        let bytes = byte_capacity("stream-max-segment-size-bytes", text)?;
        if bytes > LARGEST_SEGMENT || largest.is_some_and(|largest| largest <= bytes) {
            let needed = "at most 3gb, and less than -mlb/--max-length-bytes";
            return Err(bad("stream-max-segment-size-bytes", text, needed));
        }
        let key = "x-stream-max-segment-size-bytes";
        arguments.insert(key.into(), Argument::Integer(bytes));
    }
    if let Some(text) = values.text("max-age") {
        let seconds = seconds_of_duration("max-age", text)?;
        arguments.insert("x-max-age".into(), Argument::Text(format!("{seconds}s")));
    }
    match values.text("leader-locator") {
        None => {}
        Some(text @ ("client-local" | "balanced")) => {
            let value = Argument::Text(text.to_owned());
            arguments.insert("x-queue-leader-locator".into(), value);
        }
        Some(text) => return Err(bad("leader-locator", text, "client-local or balanced")),
    }
    Ok(())
}
