//! AMQP 0-9-1 with RabbitMQ's extensions, client and server side: bytes in, events out. Everything follows from the
//! table of facts in `spec`; `codec` and `table` know the types, `frame` and `receive` the frames, `template` what is
//! encoded once and copied per message. Section numbers are those of the "AMQP 0-9-1 specification" of November 2008.

mod client;
mod codec;
mod common;
mod config;
mod connection;
mod error;
mod event;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod properties;
mod receive;
mod server;
mod spec;
mod table;
mod template;

use measure::Nanos;

pub use client::{Client, ClientSide};
pub use codec::*;
pub use config::{BodyAllowance, ClientConfig, Mechanism, ServerConfig};
pub use connection::Connection;
pub(crate) use connection::guess;
pub use error::{DecodeError, EncodeError, Error, Snippet};
pub use event::{Closing, Event, ServerEvent};
pub use properties::Properties;
pub(crate) use server::plain_credentials;
pub use server::{Server, ServerSide};
pub use spec::*;
pub use table::{Array, FieldArray, FieldTable, Fields, MAX_NESTING, Table, Value, Values};
pub use template::{DeliverTemplate, Encoded, HeadTemplate, PublishTemplate};
pub(crate) use template::{Slot, fill};

/// The largest body that a configuration may allow, in bytes: RabbitMQ's own limit.
pub const MAX_BODY: u64 = 512 << 20;
/// The largest body by default, in bytes.
pub const DEFAULT_MAX_BODY: u64 = 128 << 20;
/// The largest frame by default, in bytes; RabbitMQ's.
pub const DEFAULT_FRAME_MAX: u32 = 131_072;
/// The highest channel by default; RabbitMQ's.
pub const DEFAULT_CHANNEL_MAX: u16 = 2_047;
/// How long a handshake or an orderly close may take by default.
pub const DEFAULT_TIMEOUT: Nanos = Nanos(10_000_000_000);

/// Reply code and explanation of what a peer did wrong.
type Violation = (u16, String);

/// Decodes all fields of a method whose type is known.
#[inline(always)]
fn decode_as<'a, M: DecodeMethod<'a>>(fields: &'a [u8]) -> Result<M, Violation> {
    let mut reader = Reader::new(fields);
    match M::decode_fields(&mut reader) {
        Ok(method) if reader.rest().is_empty() => Ok(method),
        Ok(_) => Err(surplus(M::INFO.id, &reader)),
        Err(error) => Err(unreadable(M::INFO.id, &error)),
    }
}

/// Decodes all fields of a method.
#[inline]
fn decode_method(id: MethodId, fields: &[u8]) -> Result<Method<'_>, Violation> {
    let mut reader = Reader::new(fields);
    match Method::decode_fields(id, &mut reader) {
        Ok(Some(method)) if reader.rest().is_empty() => Ok(method),
        Ok(Some(_)) => Err(surplus(id, &reader)),
        Ok(None) => Err((reply::NOT_IMPLEMENTED, format!("AMQP 0-9-1 has no method {}", id.name()))),
        Err(error) => Err(unreadable(id, &error)),
    }
}

#[cold]
fn surplus(id: MethodId, reader: &Reader<'_>) -> Violation {
    (reply::SYNTAX_ERROR, format!("{} is {} bytes too long", id.name(), reader.rest().len()))
}

#[cold]
fn unreadable(id: MethodId, error: &DecodeError) -> Violation {
    (reply::SYNTAX_ERROR, format!("{} cannot be read: {error}", id.name()))
}
