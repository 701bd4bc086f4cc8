//! AMQP 1.0, client and server side: bytes in, events out. `types` knows the type system, `composite` is the table of
//! what frames and messages consist of, `message` knows messages, `basic` what becomes of them in AMQP 0.9.1 and back,
//! `template` what is encoded once and copied per message, `usual` the forms that nearly all of it has, `scram` a login
//! that tells no password. Section numbers are those of the "OASIS AMQP Version 1.0" specification of October 2012.

mod basic;
mod client;
mod composite;
mod connection;
mod event;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod message;
mod scram;
mod server;
mod template;
mod types;
mod usual;

pub use basic::{MessageMapping, simple_field, simple_value};
pub use client::{Amqp10Client, LinkInitiator};
pub use composite::*;
pub use connection::{Amqp10Config, Amqp10Connection, SaslMechanism};
pub use event::{Amqp10Error, Amqp10Event, Amqp10Request, Terminus, UsualEvent};
pub use message::{MessageBody, MessageHead, MessageParts, Sections};
pub use scram::{SCRAM_SHA_256, ScramKeys, scram_name, scram_nonce};
pub use server::{Amqp10Server, LinkResponder};
pub use template::TransferTemplate;
pub use types::{Described, Descriptor, Elements, Items, MAX_DESCRIBED, Symbol, TypedValue, put_descriptor, put_map};

/// Client's first bytes for a login (5.3.2).
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";
/// First bytes of both sides before frames that are not about the login (2.2).
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// Frames of this size are always allowed.
pub const MIN_FRAME_MAX: u32 = 512;
