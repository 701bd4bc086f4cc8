//! `-mp` and `-T`: properties and headers of every message.

use experiment::LoadSpec;
use load::{Argument, MessageProperties};
use measure::{Length, Nanos};

use super::text::key_values;
use super::values::{Values, bad};
use crate::failure::Failure;

/// Adds them to a load.
pub(super) fn fill(values: &Values, mut spec: LoadSpec) -> Result<LoadSpec, Failure> {
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
    let given = || format!("{key}={value}");
    read.ok_or_else(|| bad("message-properties", &given(), "a whole number that fits"))
}

/// `2024-05-01T12:00:00Z` in seconds since 1970.
fn timestamp(value: &Argument) -> Result<u64, Failure> {
    let text = value.to_string();
    let read = text.parse::<jiff::Timestamp>().ok();
    read.and_then(|at| u64::try_from(at.as_second()).ok())
        .ok_or_else(|| {
            bad(
                "message-properties",
                &text,
                "a time such as 2024-05-01T12:00:00Z",
            )
        })
}
