//! The content header's property list.

use measure::Problem;
use wire::amqp091::{BasicProperties, EncodeError, Properties, Value};

use super::arguments::table_of;
use crate::{Error, MessageProperties};
use plan::payload::{FULL_LEN, TRACE_HEADER};

/// The properties of messages as the content header carries them, delivery mode included. With room for
/// a trace header as the last header, where messages carry one.
pub(crate) fn encode(
    properties: &MessageProperties,
    persistent: Option<bool>,
    trace_header: bool,
) -> Result<Vec<u8>, Error> {
    let mut headers = table_of(&properties.headers)?;
    if trace_header {
        headers
            .insert(TRACE_HEADER, Value::Bytes(&[0; FULL_LEN]))
            .map_err(unfit)?;
    }
    let properties = BasicProperties {
        content_type: properties.content_type.as_deref(),
        content_encoding: properties.content_encoding.as_deref(),
        headers: (!headers.is_empty()).then(|| headers.view()),
        // 1 is transient, 2 persistent.
        delivery_mode: persistent.map(|persistent| if persistent { 2 } else { 1 }),
        priority: properties.priority,
        correlation_id: properties.correlation_id.as_deref(),
        reply_to: properties.reply_to.as_deref(),
        expiration: properties.expiration.as_deref(),
        message_id: properties.message_id.as_deref(),
        timestamp: properties.timestamp,
        message_type: properties.message_type.as_deref(),
        user_id: properties.user_id.as_deref(),
        app_id: properties.app_id.as_deref(),
        cluster_id: properties.cluster_id.as_deref(),
    };
    properties.to_bytes().map_err(unfit)
}

/// The properties of a reply with a trace header. `bytes` are those of the last one, so that they are encoded once.
pub(super) fn of_reply<'a>(
    bytes: &'a mut Vec<u8>,
    header: &[u8; FULL_LEN],
) -> Result<Properties<'a>, Error> {
    if bytes.is_empty() {
        *bytes = encode(&MessageProperties::default(), None, true)?;
    }
    if let Some(place) = bytes.last_chunk_mut() {
        *place = *header;
    }
    Ok(Properties::from_bytes(bytes))
}

fn unfit(error: EncodeError) -> Error {
    Error::Invalid(Problem::new(
        "the message properties cannot be sent",
        error,
        "shorten them: AMQP 0.9.1 allows 255 bytes each",
    ))
}
