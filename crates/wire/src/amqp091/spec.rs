//! The facts of AMQP 0-9-1 and of RabbitMQ's extensions, once: structs, decoding, encoding and names are generated from
//! this table. Sources: the specification's sections 1.4 to 1.8 (classes) and 1.2 (constants), and RabbitMQ's
//! `amqp0-9-1.extended.xml`. `reserved_1` fields (`ticket` or the like in older versions) are sent as zero or empty.

use super::codec::{Bit, Field, Long, LongLong, LongStr, Octet, Reader, SecretStr, Short, ShortStr};
use super::codec::{Timestamp, Writer};
use super::error::{DecodeError, EncodeError};
use super::table::Table;

/// Client's first bytes (4.2.2): the name, then 0 and the version.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// Frame type of a method (4.2.3).
pub const FRAME_METHOD: u8 = 1;
/// Frame type of a content header.
pub const FRAME_HEADER: u8 = 2;
/// Frame type of a part of a content body.
pub const FRAME_BODY: u8 = 3;
/// Frame type of a heartbeat.
pub const FRAME_HEARTBEAT: u8 = 8;
/// The octet that ends every frame.
pub const FRAME_END: u8 = 0xCE;
/// Frames of this size are always allowed.
pub const FRAME_MIN_SIZE: u32 = 4096;
/// The class that stands on channel 0.
pub const CLASS_CONNECTION: u16 = 10;
/// The only class that carries content.
pub const CLASS_BASIC: u16 = 60;

macro_rules! reply_codes {
    ($($code:literal $name:ident)*) => {
        /// Reply codes (1.2), by name.
        pub mod reply {
            $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: u16 = $code;)*
        }

        /// The specification's name of a reply code, `UNKNOWN` for others.
        pub const fn reply_name(code: u16) -> &'static str {
            match code {
                $($code => stringify!($name),)*
                _ => "UNKNOWN",
            }
        }
    };
}

reply_codes! {
    200 REPLY_SUCCESS
    311 CONTENT_TOO_LARGE
    312 NO_ROUTE
    313 NO_CONSUMERS
    320 CONNECTION_FORCED
    402 INVALID_PATH
    403 ACCESS_REFUSED
    404 NOT_FOUND
    405 RESOURCE_LOCKED
    406 PRECONDITION_FAILED
    501 FRAME_ERROR
    502 SYNTAX_ERROR
    503 COMMAND_INVALID
    504 CHANNEL_ERROR
    505 UNEXPECTED_FRAME
    506 RESOURCE_ERROR
    530 NOT_ALLOWED
    540 NOT_IMPLEMENTED
    541 INTERNAL_ERROR
}

/// Class and method in one number, as they stand at the start of a method frame's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodId {
    /// Class, as in `basic`.
    pub class: u16,
    /// Method, as in `publish`.
    pub method: u16,
}

/// Kind of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The peer must answer (unless `no_wait` is set).
    Sync,
    /// An answer, or no answer is due.
    Async,
    /// A content header and body follow.
    Content,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// Its identifiers.
    pub id: MethodId,
    /// Its name, as in `queue.declare-ok`.
    pub name: &'static str,
    /// Kind of method.
    pub kind: Kind,
}

/// A method that can be sent: every struct of the table, and [`Method`] itself.
pub trait EncodeMethod {
    /// Its row of the table.
    fn info(&self) -> MethodInfo;
    /// Appends the fields. Errors: strings that are too long.
    fn encode_fields(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError>;
}

/// A method that can be read; all but [`Method`] itself.
pub trait DecodeMethod<'a>: EncodeMethod + Sized {
    /// Its row of the table.
    const INFO: MethodInfo;
    /// Takes the fields off a payload. Errors: a payload that ends early, or a string that is not UTF-8.
    fn decode_fields(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

macro_rules! methods {
    ($($class:literal $method:literal $wire_name:literal $kind:ident
        $name:ident $(<$lt:lifetime>)? { $($field:ident : $ty:ty),* $(,)? })*) => {
        $(
            #[doc = concat!("`", $wire_name, "`, class ", $class, " method ", $method, ".")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name $(<$lt>)? {
                $(
                    #[doc = concat!("`", stringify!($field), "`: ", stringify!($ty), ".")]
                    pub $field: $ty,
                )*
            }

            impl $(<$lt>)? EncodeMethod for $name $(<$lt>)? {
                #[inline]
                fn info(&self) -> MethodInfo {
                    <Self as DecodeMethod<'_>>::INFO
                }
                #[inline]
                fn encode_fields(&self, _writer: &mut Writer<'_>) -> Result<(), EncodeError> {
                    $(self.$field.write(_writer)?;)*
                    Ok(())
                }
            }

            impl<'a> DecodeMethod<'a> for $name $(<$lt>)? {
                const INFO: MethodInfo = MethodInfo {
                    id: MethodId { class: $class, method: $method },
                    name: $wire_name,
                    kind: Kind::$kind,
                };
                #[inline(always)]
                fn decode_fields(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                    Ok(Self { $($field: Field::read(_reader)?,)* })
                }
            }

            impl<'a> From<$name $(<$lt>)?> for Method<'a> {
                fn from(method: $name $(<$lt>)?) -> Self {
                    Self::$name(method)
                }
            }
        )*

        /// Any method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method<'a> {
            $(
                #[doc = concat!("`", $wire_name, "`")]
                $name($name $(<$lt>)?),
            )*
        }

        impl<'a> Method<'a> {
            /// Takes the fields of the method `id` off a payload; `None` where the table has no such method.
            pub fn decode_fields(
                id: MethodId,
                reader: &mut Reader<'a>,
            ) -> Result<Option<Self>, DecodeError> {
                Ok(Some(match (id.class, id.method) {
                    $(($class, $method) => Self::$name(DecodeMethod::decode_fields(reader)?),)*
                    _ => return Ok(None),
                }))
            }
        }

        impl MethodId {
            /// Kind of method; `None` where the table has no such method.
            pub const fn kind(self) -> Option<Kind> {
                match (self.class, self.method) {
                    $(($class, $method) => Some(Kind::$kind),)*
                    _ => None,
                }
            }
        }

        impl EncodeMethod for Method<'_> {
            fn info(&self) -> MethodInfo {
                match self {
                    $(Self::$name(method) => method.info(),)*
                }
            }
            fn encode_fields(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
                match self {
                    $(Self::$name(method) => method.encode_fields(writer),)*
                }
            }
        }

        /// All methods, in the order of the table.
        pub const METHODS: &[MethodInfo] = &[
            $(MethodInfo {
                id: MethodId { class: $class, method: $method },
                name: $wire_name,
                kind: Kind::$kind,
            },)*
        ];
    };
}

methods! {
    10 10 "connection.start" Sync ConnectionStart<'a> {
        version_major: Octet, version_minor: Octet, server_properties: Table<'a>,
        mechanisms: LongStr<'a>, locales: LongStr<'a>,
    }
    10 11 "connection.start-ok" Async ConnectionStartOk<'a> {
        client_properties: Table<'a>, mechanism: ShortStr<'a>, response: SecretStr<'a>,
        locale: ShortStr<'a>,
    }
    10 20 "connection.secure" Sync ConnectionSecure<'a> { challenge: LongStr<'a> }
    10 21 "connection.secure-ok" Async ConnectionSecureOk<'a> { response: SecretStr<'a> }
    10 30 "connection.tune" Sync ConnectionTune {
        channel_max: Short, frame_max: Long, heartbeat: Short,
    }
    10 31 "connection.tune-ok" Async ConnectionTuneOk {
        channel_max: Short, frame_max: Long, heartbeat: Short,
    }
    10 40 "connection.open" Sync ConnectionOpen<'a> {
        virtual_host: ShortStr<'a>, reserved_1: ShortStr<'a>, reserved_2: Bit,
    }
    10 41 "connection.open-ok" Async ConnectionOpenOk<'a> { reserved_1: ShortStr<'a> }
    10 50 "connection.close" Sync ConnectionClose<'a> {
        reply_code: Short, reply_text: ShortStr<'a>, class_id: Short, method_id: Short,
    }
    10 51 "connection.close-ok" Async ConnectionCloseOk {}
    // RabbitMQ: blocked connections, credential refresh.
    10 60 "connection.blocked" Async ConnectionBlocked<'a> { reason: ShortStr<'a> }
    10 61 "connection.unblocked" Async ConnectionUnblocked {}
    10 70 "connection.update-secret" Sync ConnectionUpdateSecret<'a> {
        new_secret: SecretStr<'a>, reason: ShortStr<'a>,
    }
    10 71 "connection.update-secret-ok" Async ConnectionUpdateSecretOk {}

    20 10 "channel.open" Sync ChannelOpen<'a> { reserved_1: ShortStr<'a> }
    20 11 "channel.open-ok" Async ChannelOpenOk<'a> { reserved_1: LongStr<'a> }
    20 20 "channel.flow" Sync ChannelFlow { active: Bit }
    20 21 "channel.flow-ok" Async ChannelFlowOk { active: Bit }
    20 40 "channel.close" Sync ChannelClose<'a> {
        reply_code: Short, reply_text: ShortStr<'a>, class_id: Short, method_id: Short,
    }
    20 41 "channel.close-ok" Async ChannelCloseOk {}

    // `auto_delete` and `internal` are reserved in the specification; RabbitMQ has them back.
    40 10 "exchange.declare" Sync ExchangeDeclare<'a> {
        reserved_1: Short, exchange: ShortStr<'a>, kind: ShortStr<'a>, passive: Bit, durable: Bit,
        auto_delete: Bit, internal: Bit, no_wait: Bit, arguments: Table<'a>,
    }
    40 11 "exchange.declare-ok" Async ExchangeDeclareOk {}
    40 20 "exchange.delete" Sync ExchangeDelete<'a> {
        reserved_1: Short, exchange: ShortStr<'a>, if_unused: Bit, no_wait: Bit,
    }
    40 21 "exchange.delete-ok" Async ExchangeDeleteOk {}
    // RabbitMQ: exchange to exchange bindings.
    40 30 "exchange.bind" Sync ExchangeBind<'a> {
        reserved_1: Short, destination: ShortStr<'a>, source: ShortStr<'a>,
        routing_key: ShortStr<'a>, no_wait: Bit, arguments: Table<'a>,
    }
    40 31 "exchange.bind-ok" Async ExchangeBindOk {}
    40 40 "exchange.unbind" Sync ExchangeUnbind<'a> {
        reserved_1: Short, destination: ShortStr<'a>, source: ShortStr<'a>,
        routing_key: ShortStr<'a>, no_wait: Bit, arguments: Table<'a>,
    }
    40 51 "exchange.unbind-ok" Async ExchangeUnbindOk {}

    50 10 "queue.declare" Sync QueueDeclare<'a> {
        reserved_1: Short, queue: ShortStr<'a>, passive: Bit, durable: Bit, exclusive: Bit,
        auto_delete: Bit, no_wait: Bit, arguments: Table<'a>,
    }
    50 11 "queue.declare-ok" Async QueueDeclareOk<'a> {
        queue: ShortStr<'a>, message_count: Long, consumer_count: Long,
    }
    50 20 "queue.bind" Sync QueueBind<'a> {
        reserved_1: Short, queue: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>,
        no_wait: Bit, arguments: Table<'a>,
    }
    50 21 "queue.bind-ok" Async QueueBindOk {}
    50 30 "queue.purge" Sync QueuePurge<'a> {
        reserved_1: Short, queue: ShortStr<'a>, no_wait: Bit,
    }
    50 31 "queue.purge-ok" Async QueuePurgeOk { message_count: Long }
    50 40 "queue.delete" Sync QueueDelete<'a> {
        reserved_1: Short, queue: ShortStr<'a>, if_unused: Bit, if_empty: Bit, no_wait: Bit,
    }
    50 41 "queue.delete-ok" Async QueueDeleteOk { message_count: Long }
    50 50 "queue.unbind" Sync QueueUnbind<'a> {
        reserved_1: Short, queue: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>,
        arguments: Table<'a>,
    }
    50 51 "queue.unbind-ok" Async QueueUnbindOk {}

    60 10 "basic.qos" Sync BasicQos {
        prefetch_size: Long, prefetch_count: Short, global: Bit,
    }
    60 11 "basic.qos-ok" Async BasicQosOk {}
    60 20 "basic.consume" Sync BasicConsume<'a> {
        reserved_1: Short, queue: ShortStr<'a>, consumer_tag: ShortStr<'a>, no_local: Bit,
        no_ack: Bit, exclusive: Bit, no_wait: Bit, arguments: Table<'a>,
    }
    60 21 "basic.consume-ok" Async BasicConsumeOk<'a> { consumer_tag: ShortStr<'a> }
    // RabbitMQ: sent by the server too, when a queue that is consumed from goes away.
    60 30 "basic.cancel" Sync BasicCancel<'a> { consumer_tag: ShortStr<'a>, no_wait: Bit }
    60 31 "basic.cancel-ok" Async BasicCancelOk<'a> { consumer_tag: ShortStr<'a> }
    60 40 "basic.publish" Content BasicPublish<'a> {
        reserved_1: Short, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, mandatory: Bit,
        immediate: Bit,
    }
    60 50 "basic.return" Content BasicReturn<'a> {
        reply_code: Short, reply_text: ShortStr<'a>, exchange: ShortStr<'a>,
        routing_key: ShortStr<'a>,
    }
    60 60 "basic.deliver" Content BasicDeliver<'a> {
        consumer_tag: ShortStr<'a>, delivery_tag: LongLong, redelivered: Bit,
        exchange: ShortStr<'a>, routing_key: ShortStr<'a>,
    }
    60 70 "basic.get" Sync BasicGet<'a> { reserved_1: Short, queue: ShortStr<'a>, no_ack: Bit }
    60 71 "basic.get-ok" Content BasicGetOk<'a> {
        delivery_tag: LongLong, redelivered: Bit, exchange: ShortStr<'a>,
        routing_key: ShortStr<'a>, message_count: Long,
    }
    60 72 "basic.get-empty" Async BasicGetEmpty<'a> { reserved_1: ShortStr<'a> }
    60 80 "basic.ack" Async BasicAck { delivery_tag: LongLong, multiple: Bit }
    60 90 "basic.reject" Async BasicReject { delivery_tag: LongLong, requeue: Bit }
    60 100 "basic.recover-async" Async BasicRecoverAsync { requeue: Bit }
    60 110 "basic.recover" Sync BasicRecover { requeue: Bit }
    60 111 "basic.recover-ok" Async BasicRecoverOk {}
    // RabbitMQ: negative acknowledgements, from either side.
    60 120 "basic.nack" Async BasicNack { delivery_tag: LongLong, multiple: Bit, requeue: Bit }

    // RabbitMQ: publisher confirms.
    85 10 "confirm.select" Sync ConfirmSelect { no_wait: Bit }
    85 11 "confirm.select-ok" Async ConfirmSelectOk {}

    90 10 "tx.select" Sync TxSelect {}
    90 11 "tx.select-ok" Async TxSelectOk {}
    90 20 "tx.commit" Sync TxCommit {}
    90 21 "tx.commit-ok" Async TxCommitOk {}
    90 30 "tx.rollback" Sync TxRollback {}
    90 31 "tx.rollback-ok" Async TxRollbackOk {}
}

impl MethodId {
    /// The two numbers as one.
    pub const fn as_u32(self) -> u32 {
        (self.class as u32) << 16 | self.method as u32
    }

    /// The row of the table, where there is one.
    pub fn info(self) -> Option<&'static MethodInfo> {
        METHODS.iter().find(|info| info.id == self)
    }

    /// The name, or an unknown method's numbers; empty for 0.0, "no method" in close methods.
    pub fn name(self) -> String {
        match self.info() {
            Some(info) => info.name.to_owned(),
            None if self == Self::default() => String::new(),
            None => format!("{}.{}", self.class, self.method),
        }
    }
}

macro_rules! basic_properties {
    ($($bit:literal $field:ident : $ty:ty = $wire_name:literal),* $(,)?) => {
        /// The properties of a message (1.8, class `basic`); absent ones take no space.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct BasicProperties<'a> {
            $(
                #[doc = concat!("`", $wire_name, "`: ", stringify!($ty), ".")]
                pub $field: Option<$ty>,
            )*
        }

        impl<'a> BasicProperties<'a> {
            /// All flags that the class has.
            pub(super) const FLAGS: u16 = $(1 << $bit |)* 0;

            pub(super) fn flags(&self) -> u16 {
                $((u16::from(self.$field.is_some()) << $bit) |)* 0
            }

            pub(super) fn decode_list(
                flags: u16,
                reader: &mut Reader<'a>,
            ) -> Result<Self, DecodeError> {
                Ok(Self {
                    $($field: if flags & (1 << $bit) != 0 {
                        Some(Field::read(reader)?)
                    } else {
                        None
                    },)*
                })
            }

            pub(super) fn encode_list(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
                $(if let Some(value) = &self.$field {
                    value.write(writer)?;
                })*
                Ok(())
            }
        }
    };
}

// The first property has the highest bit; bit 0 says that another word of flags follows.
basic_properties! {
    15 content_type: ShortStr<'a> = "content-type",
    14 content_encoding: ShortStr<'a> = "content-encoding",
    13 headers: Table<'a> = "headers",
    12 delivery_mode: Octet = "delivery-mode",
    11 priority: Octet = "priority",
    10 correlation_id: ShortStr<'a> = "correlation-id",
    9 reply_to: ShortStr<'a> = "reply-to",
    8 expiration: ShortStr<'a> = "expiration",
    7 message_id: ShortStr<'a> = "message-id",
    6 timestamp: Timestamp = "timestamp",
    5 message_type: ShortStr<'a> = "type",
    4 user_id: ShortStr<'a> = "user-id",
    3 app_id: ShortStr<'a> = "app-id",
    2 cluster_id: ShortStr<'a> = "cluster-id",
}
