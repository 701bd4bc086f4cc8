//! The `x-` arguments of a queue: what they mean, and whether two declarations mean the same.

use measure::Nanos;
use wire::amqp091::{Table, Value};

use crate::exchange::same_value;
use crate::refusal::Refusal;

measure::named! {
    /// Values of `x-queue-type`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum QueueType {
        #[default]
        Classic = "classic",
        Quorum = "quorum",
        Stream = "stream",
    }
}

/// `x-overflow`: what happens above a maximum length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overflow {
    #[default]
    DropHead,
    RejectPublish,
}

/// Arguments of a queue's declaration, parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) queue_type: QueueType,
    /// Ready messages at most.
    pub(crate) max_length: Option<u64>,
    /// Bytes of ready messages' bodies at most.
    pub(crate) max_length_bytes: Option<u64>,
    pub(crate) overflow: Overflow,
    /// How old messages become.
    pub(crate) message_ttl: Option<Nanos>,
}

/// Arguments that decide whether a declaration is equivalent to an earlier one; RabbitMQ compares
/// these and ignores what it does not know.
const COMPARED: [&str; 7] = [
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-queue-type",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
];

/// Arguments that change what happens to messages in a way this broker does not offer. Ignoring
/// them would make a measurement mean something else than its author thinks.
const REFUSED: [&str; 5] = ["x-expires", "x-max-priority", "x-single-active-consumer", "x-delivery-limit", "x-max-age"];

impl Arguments {
    /// Reads the arguments of a declaration of the queue `name`.
    pub(crate) fn read(name: &str, table: Table<'_>) -> Result<Self, Refusal> {
        if let Some(refused) = REFUSED.iter().find(|r| table.get(r).is_some()) {
            return Err(Refusal::not_implemented(format_args!(
                "the embedded broker does not offer '{refused}', which queue '{name}' wants, in \
                 vhost '/'; leave it out or use a managed broker"
            )));
        }
        let invalid = |argument: &str, why: &str| {
            Refusal::precondition(format_args!("invalid arg '{argument}' for queue '{name}' in vhost '/': {why}"))
        };
        let length = |argument| match table.get(argument).map(|v| (v, v.as_i64().map(u64::try_from))) {
            None => Ok(None),
            Some((_, Some(Ok(n)))) => Ok(Some(n)),
            Some((value, Some(Err(_)))) => Err(invalid(argument, &format!("{{value_negative,{}}}", show(value)))),
            Some((value, None)) => Err(invalid(argument, &not_an_integer(value))),
        };
        let queue_type = match table.get("x-queue-type").map(|v| (v, v.as_str())) {
            None => QueueType::Classic,
            Some((_, Some(name))) => QueueType::ALL
                .into_iter()
                .find(|it| it.name() == name)
                .ok_or_else(|| invalid("x-queue-type", &format!("\"unsupported queue type '{name}'\"")))?,
            Some((other, None)) => {
                return Err(invalid("x-queue-type", &format!("{{unacceptable_type,{}}}", type_name(other))));
            }
        };
        let overflow = match table.get("x-overflow").map(Value::as_str) {
            None | Some(Some("drop-head")) => Overflow::DropHead,
            Some(Some("reject-publish")) => Overflow::RejectPublish,
            Some(_) => return Err(invalid("x-overflow", "invalid_overflow")),
        };
        let max_length = length("x-max-length")?;
        let max_length_bytes = length("x-max-length-bytes")?;
        let message_ttl = length("x-message-ttl")?;
        if let Some(ms) = message_ttl.filter(|ms| *ms > LONGEST_TTL_MS) {
            return Err(invalid("x-message-ttl", &format!("{{value_too_large,{ms}}}")));
        }
        let is_stream = queue_type == QueueType::Stream;
        check_dead_letters(table, is_stream)
            .and_then(|()| match is_stream && message_ttl.is_some() {
                true => Err(("x-message-ttl", NOT_OF_STREAMS.to_owned())),
                false => Ok(()),
            })
            .map_err(|(argument, why)| invalid(argument, &why))?;
        Ok(Self {
            queue_type,
            max_length,
            max_length_bytes,
            overflow,
            message_ttl: message_ttl.map(|ms| Nanos(ms.saturating_mul(1_000_000))),
        })
    }
}

/// The longest time to live, ten years in milliseconds, as RabbitMQ has it.
pub(crate) const LONGEST_TTL_MS: u64 = 315_360_000_000;

/// RabbitMQ's words for arguments that streams do not have.
const NOT_OF_STREAMS: &str = "not supported by streams";

/// Checks where dead letters go; the argument that cannot be, and why.
fn check_dead_letters(table: Table<'_>, is_stream: bool) -> Result<(), (&'static str, String)> {
    let [exchange, key] = ["x-dead-letter-exchange", "x-dead-letter-routing-key"];
    for argument in [exchange, key] {
        if let Some(other) = table.get(argument).filter(|it| it.as_str().is_none()) {
            return Err((argument, format!("{{unacceptable_type,{}}}", type_name(other))));
        }
    }
    match (table.get(exchange), table.get(key)) {
        (None, Some(_)) => Err((key, "routing_key_but_no_dlx_defined".to_owned())),
        (Some(_), _) if is_stream => Err((exchange, NOT_OF_STREAMS.to_owned())),
        _ => Ok(()),
    }
}

/// Refuses arguments that do not mean the same as those the queue was declared with.
pub(crate) fn check_equivalent(name: &str, received: Table<'_>, current: Table<'_>) -> Result<(), Refusal> {
    for argument in COMPARED {
        let (new, old) = (received.get(argument), current.get(argument));
        let (received, current) = match (new, old) {
            (Some(new), Some(old)) if same_value(new, old) => continue,
            (Some(new), Some(old)) => (format!("'{}'", show(new)), format!("'{}'", show(old))),
            (None, None) => continue,
            // A queue without a type is a classic one.
            (Some(Value::Str(b"classic")), None) | (None, Some(Value::Str(b"classic")))
                if argument == "x-queue-type" =>
            {
                continue;
            }
            _ => (described(new), described(old)),
        };
        return Err(Refusal::inequivalent(argument, "queue", name, &received, &current));
    }
    Ok(())
}

/// A value that only one side has, as RabbitMQ describes it in a refusal.
fn described(value: Option<Value<'_>>) -> String {
    value.map_or_else(|| "none".to_owned(), |v| format!("the value '{}' of type '{}'", show(v), type_name(v)))
}

/// RabbitMQ's words for a value that should be an integer.
pub(crate) fn not_an_integer(value: Value<'_>) -> String {
    format!("\"expected integer, got {}\"", type_name(value))
}

/// A value as people write it.
pub(crate) fn show(value: Value<'_>) -> String {
    match (value.as_str(), value.as_i64(), value.as_bool()) {
        (Some(text), _, _) => text.to_owned(),
        (_, Some(number), _) => number.to_string(),
        (_, _, Some(yes)) => yes.to_string(),
        _ => format!("{value:?}"),
    }
}

/// The names RabbitMQ's AMQP codec gives to field types.
const fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::I8(_) => "byte",
        Value::U8(_) => "unsignedbyte",
        Value::I16(_) => "short",
        Value::U16(_) => "unsignedshort",
        Value::I32(_) => "signedint",
        Value::U32(_) => "unsignedint",
        Value::I64(_) => "long",
        Value::F32(_) => "float",
        Value::F64(_) => "double",
        Value::Decimal { .. } => "decimal",
        Value::Str(_) => "longstr",
        Value::Array(_) => "array",
        Value::Timestamp(_) => "timestamp",
        Value::Table(_) => "table",
        Value::Void => "void",
        Value::Bytes(_) => "binary",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::table;

    #[test]
    fn arguments_are_read_and_bad_ones_refused_by_name() {
        let good = table(&[
            ("x-queue-type", Value::from("stream")),
            ("x-max-length", Value::I32(10)),
            ("x-max-length-bytes", Value::I64(1 << 40)),
            ("x-overflow", Value::from("reject-publish")),
            ("x-queue-leader-locator", Value::from("ignored")),
        ]);
        let (max_length, max_length_bytes) = (Some(10), Some(1 << 40));
        let (queue_type, overflow) = (QueueType::Stream, Overflow::RejectPublish);
        let expected = Arguments { queue_type, max_length, max_length_bytes, overflow, ..Arguments::default() };
        assert_eq!(Arguments::read("q", good.view()), Ok(expected));
        for (name, value, text) in [
            ("x-max-length", Value::I32(-1), "'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}"),
            ("x-max-length", Value::from("many"), "\"expected integer, got longstr\""),
            ("x-queue-type", Value::from("fast"), "\"unsupported queue type 'fast'\""),
            ("x-queue-type", Value::I32(1), "{unacceptable_type,signedint}"),
            ("x-overflow", Value::Bool(true), ": invalid_overflow"),
            ("x-expires", Value::I32(5), "does not offer 'x-expires'"),
            ("x-message-ttl", Value::I32(-1), "{value_negative,-1}"),
            ("x-message-ttl", Value::I64(315_360_000_001), "{value_too_large,315360000001}"),
            ("x-dead-letter-exchange", Value::I32(1), "{unacceptable_type,signedint}"),
            ("x-dead-letter-routing-key", Value::from("k"), "routing_key_but_no_dlx_defined"),
        ] {
            let refusal = Arguments::read("q", table(&[(name, value)]).view()).unwrap_err();
            assert!(refusal.text.contains(text), "{}", refusal.text);
        }
    }

    #[test]
    fn equivalence_is_by_value_and_texts_are_rabbitmqs() {
        let check = |received: &[(&str, Value<'_>)], current: &[(&str, Value<'_>)]| {
            check_equivalent("q", table(received).view(), table(current).view()).map_err(|refusal| refusal.text)
        };
        assert_eq!(check(&[("x-max-length", Value::I32(5))], &[("x-max-length", Value::I64(5))]), Ok(()));
        assert_eq!(check(&[("x-queue-type", Value::from("classic"))], &[]), Ok(()));
        assert_eq!(check(&[("x-unknown", Value::I32(5))], &[]), Ok(()));
        assert_eq!(
            check(&[], &[("x-max-length", Value::I32(5))]),
            Err("PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': \
                 received none but current is the value '5' of type 'signedint'"
                .to_owned())
        );
        assert!(check(&[("x-queue-type", Value::from("quorum"))], &[]).is_err());
        let other = check(&[("x-max-length", Value::I32(6))], &[("x-max-length", Value::I32(5))]);
        assert!(other.unwrap_err().ends_with("received '6' but current is '5'"));
    }
}
