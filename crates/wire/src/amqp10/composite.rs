//! The composite types of the protocol, once: code, name, fields and their types. Structs, decoding
//! and encoding are generated from this table.
//!
//! Sources: parts 2 ("Transport") to 5 ("Security") of the specification of October
//! 2012. A field that may be left out is an `Option`; its default is the reader's.

use super::types::{Descriptor, Items, Symbol, TypedValue, put_descriptor, put_list};
use crate::amqp091::{DecodeError, Reader, SecretStr};

/// A described list with a struct of its own.
pub trait Composite<'a>: Sized {
    /// The number that describes it.
    const CODE: u64;
    /// The name that describes it, too.
    const NAME: &'static str;

    /// Takes the fields off a list.
    /// Errors: fields of other types, those that must be there and are not, and more than there may be.
    fn read_fields(items: Items<'a>) -> Result<Self, DecodeError>;

    /// Appends the fields up to the last that is not null; tells how many.
    fn write_fields(&self, out: &mut Vec<u8>) -> u32;

    /// Takes it off whole, with its descriptor.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Self::of(TypedValue::read(reader)?)
    }

    /// A value as this type.
    fn of(value: TypedValue<'a>) -> Result<Self, DecodeError> {
        match value {
            TypedValue::Described(it) if is(it.descriptor, Self::CODE, Self::NAME) => match it.value()? {
                TypedValue::List(items) => Self::read_fields(items),
                _ => Err(wrong(Self::NAME)),
            },
            _ => Err(wrong(Self::NAME)),
        }
    }

    /// Appends it whole.
    fn write(&self, out: &mut Vec<u8>) {
        put_descriptor(out, Descriptor::Code(Self::CODE));
        put_list(out, |out| self.write_fields(out));
    }
}

const fn wrong(what: &'static str) -> DecodeError {
    DecodeError { what, at: 0 }
}

/// Whether a descriptor is this one, in either form.
pub(super) fn is(descriptor: Descriptor<'_>, code: u64, name: &str) -> bool {
    match descriptor {
        Descriptor::Code(it) => it == code,
        Descriptor::Name(Symbol(it)) => it == name,
    }
}

/// A type that stands in the table.
pub trait TypedField<'a>: Sized {
    /// `None` where the field is null, or not there at all.
    /// Errors: a value of another type; nothing, where something must be.
    fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError>;

    /// Appends it; `false` where that is null.
    fn put(&self, out: &mut Vec<u8>) -> bool;
}

macro_rules! typed_fields {
    ($($ty:ty = $variant:ident),*) => {$(
        impl<'a> TypedField<'a> for $ty {
            #[inline]
            fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError> {
                match value {
                    Some(TypedValue::$variant(value)) => Ok(value),
                    Some(_) => Err(wrong(concat!("a field is no ", stringify!($variant)))),
                    None => Err(wrong(concat!("a field of type ", stringify!($variant), " is missing"))),
                }
            }
            #[inline]
            fn put(&self, out: &mut Vec<u8>) -> bool {
                TypedValue::$variant(*self).write(out);
                true
            }
        }
    )*};
}

typed_fields!(bool = Bool, u8 = Ubyte, u16 = Ushort, u32 = Uint, u64 = Ulong, i64 = Timestamp);
typed_fields!(&'a str = Str, Symbol<'a> = Symbol, &'a [u8] = Binary);

impl<'a> TypedField<'a> for SecretStr<'a> {
    fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError> {
        TypedField::of_value(value).map(Self)
    }
    fn put(&self, out: &mut Vec<u8>) -> bool {
        self.0.put(out)
    }
}

impl<'a, T: TypedField<'a>> TypedField<'a> for Option<T> {
    #[inline]
    fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError> {
        value.map(|value| T::of_value(Some(value))).transpose()
    }
    #[inline]
    fn put(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Some(value) => value.put(out),
            None => TypedValue::Null.put(out),
        }
    }
}

impl<'a> TypedField<'a> for TypedValue<'a> {
    fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError> {
        Ok(value.unwrap_or_default())
    }
    fn put(&self, out: &mut Vec<u8>) -> bool {
        self.write(out);
        *self != Self::Null
    }
}

/// The next field of a list.
#[inline]
fn next<'a, T: TypedField<'a>>(items: &mut Items<'a>) -> Result<T, DecodeError> {
    let value = items.next().transpose()?;
    T::of_value(value.filter(|value| *value != TypedValue::Null))
}

macro_rules! composites {
    ($($code:literal $wire_name:literal $name:ident $(<$lt:lifetime>)? { $($field:ident : $ty:ty),* $(,)? })*) => {$(
        #[doc = concat!("`", $wire_name, "`.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name $(<$lt>)? {
            $(
                #[doc = concat!("The field `", stringify!($field), "`: ", stringify!($ty), ".")]
                pub $field: $ty,
            )*
        }

        impl<'a> Composite<'a> for $name $(<$lt>)? {
            const CODE: u64 = $code;
            const NAME: &'static str = $wire_name;
            #[inline]
            #[allow(unused_mut, reason = "some have no fields")]
            fn read_fields(mut items: Items<'a>) -> Result<Self, DecodeError> {
                let read = Self { $($field: next(&mut items)?,)* };
                if items.is_empty() { Ok(read) } else { Err(wrong(concat!($wire_name, " has too many fields"))) }
            }
            #[inline]
            #[allow(unused_mut, reason = "some have no fields")]
            fn write_fields(&self, out: &mut Vec<u8>) -> u32 {
                // Fields so far, and how many and how long they are up to the last that is not null.
                let (mut _count, mut used) = (0, (0, out.len()));
                $(
                    _count += 1;
                    if self.$field.put(out) {
                        used = (_count, out.len());
                    }
                )*
                out.truncate(used.1);
                used.0
            }
        }

        impl<'a> TypedField<'a> for $name $(<$lt>)? {
            fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError> {
                Self::of(value.unwrap_or_default())
            }
            fn put(&self, out: &mut Vec<u8>) -> bool {
                self.write(out);
                true
            }
        }
    )*};
}

composites! {
    0x10 "amqp:open:list" Open<'a> {
        container_id: &'a str, hostname: Option<&'a str>, max_frame_size: Option<u32>,
        channel_max: Option<u16>, idle_time_out: Option<u32>, outgoing_locales: TypedValue<'a>,
        incoming_locales: TypedValue<'a>, offered_capabilities: TypedValue<'a>,
        desired_capabilities: TypedValue<'a>, properties: TypedValue<'a>,
    }
    0x11 "amqp:begin:list" Begin<'a> {
        remote_channel: Option<u16>, next_outgoing_id: u32, incoming_window: u32, outgoing_window: u32,
        handle_max: Option<u32>, offered_capabilities: TypedValue<'a>,
        desired_capabilities: TypedValue<'a>, properties: TypedValue<'a>,
    }
    0x12 "amqp:attach:list" Attach<'a> {
        name: &'a str, handle: u32, is_receiver: bool, snd_settle_mode: Option<u8>,
        rcv_settle_mode: Option<u8>, source: Option<Source<'a>>, target: TypedValue<'a>,
        unsettled: TypedValue<'a>, incomplete_unsettled: Option<bool>,
        initial_delivery_count: Option<u32>, max_message_size: Option<u64>,
        offered_capabilities: TypedValue<'a>, desired_capabilities: TypedValue<'a>,
        properties: TypedValue<'a>,
    }
    0x13 "amqp:flow:list" Flow<'a> {
        next_incoming_id: Option<u32>, incoming_window: u32, next_outgoing_id: u32,
        outgoing_window: u32, handle: Option<u32>, delivery_count: Option<u32>,
        link_credit: Option<u32>, available: Option<u32>, drain: Option<bool>, echo: Option<bool>,
        properties: TypedValue<'a>,
    }
    0x14 "amqp:transfer:list" Transfer<'a> {
        handle: u32, delivery_id: Option<u32>, delivery_tag: Option<&'a [u8]>,
        message_format: Option<u32>, settled: Option<bool>, more: Option<bool>,
        rcv_settle_mode: Option<u8>, state: Option<DeliveryState<'a>>, resume: Option<bool>,
        aborted: Option<bool>, batchable: Option<bool>,
    }
    0x15 "amqp:disposition:list" Disposition<'a> {
        is_receiver: bool, first: u32, last: Option<u32>, settled: Option<bool>,
        state: Option<DeliveryState<'a>>, batchable: Option<bool>,
    }
    0x16 "amqp:detach:list" Detach<'a> {
        handle: u32, closed: Option<bool>, error: Option<Condition<'a>>,
    }
    0x17 "amqp:end:list" End<'a> { error: Option<Condition<'a>> }
    0x18 "amqp:close:list" Close<'a> { error: Option<Condition<'a>> }
    0x1D "amqp:error:list" Condition<'a> {
        condition: Symbol<'a>, description: Option<&'a str>, info: TypedValue<'a>,
    }
    0x23 "amqp:received:list" PartlyReceived { section_number: u32, section_offset: u64 }
    0x24 "amqp:accepted:list" Accepted {}
    0x25 "amqp:rejected:list" Rejected<'a> { error: Option<Condition<'a>> }
    0x26 "amqp:released:list" Released {}
    0x27 "amqp:modified:list" Modified<'a> {
        delivery_failed: Option<bool>, undeliverable_here: Option<bool>,
        message_annotations: TypedValue<'a>,
    }
    0x28 "amqp:source:list" Source<'a> {
        address: TypedValue<'a>, durable: Option<u32>, expiry_policy: Option<Symbol<'a>>,
        timeout: Option<u32>, dynamic: Option<bool>, dynamic_node_properties: TypedValue<'a>,
        distribution_mode: Option<Symbol<'a>>, filter: TypedValue<'a>, default_outcome: TypedValue<'a>,
        outcomes: TypedValue<'a>, capabilities: TypedValue<'a>,
    }
    0x29 "amqp:target:list" Target<'a> {
        address: TypedValue<'a>, durable: Option<u32>, expiry_policy: Option<Symbol<'a>>,
        timeout: Option<u32>, dynamic: Option<bool>, dynamic_node_properties: TypedValue<'a>,
        capabilities: TypedValue<'a>,
    }
    0x30 "amqp:coordinator:list" TransactionCoordinator<'a> { capabilities: TypedValue<'a> }
    0x31 "amqp:declare:list" DeclareTransaction<'a> { global_id: TypedValue<'a> }
    0x32 "amqp:discharge:list" Discharge<'a> { txn_id: &'a [u8], fail: Option<bool> }
    0x33 "amqp:declared:list" DeclaredTransaction<'a> { txn_id: &'a [u8] }
    0x34 "amqp:transactional-state:list" TransactionalState<'a> { txn_id: &'a [u8], outcome: TypedValue<'a> }
    0x40 "amqp:sasl-mechanisms:list" SaslMechanisms<'a> { mechanisms: TypedValue<'a> }
    0x41 "amqp:sasl-init:list" SaslInit<'a> {
        mechanism: Symbol<'a>, initial_response: Option<SecretStr<'a>>, hostname: Option<&'a str>,
    }
    0x42 "amqp:sasl-challenge:list" SaslChallenge<'a> { challenge: &'a [u8] }
    0x43 "amqp:sasl-response:list" SaslResponse<'a> { response: SecretStr<'a> }
    0x44 "amqp:sasl-outcome:list" SaslOutcome<'a> { code: u8, additional_data: Option<&'a [u8]> }
    0x70 "amqp:header:list" HeaderSection {
        durable: Option<bool>, priority: Option<u8>, ttl: Option<u32>, first_acquirer: Option<bool>,
        delivery_count: Option<u32>,
    }
    0x73 "amqp:properties:list" PropertiesSection<'a> {
        message_id: TypedValue<'a>, user_id: Option<&'a [u8]>, to: TypedValue<'a>,
        subject: Option<&'a str>, reply_to: TypedValue<'a>, correlation_id: TypedValue<'a>,
        content_type: Option<Symbol<'a>>, content_encoding: Option<Symbol<'a>>,
        absolute_expiry_time: Option<i64>, creation_time: Option<i64>, group_id: Option<&'a str>,
        group_sequence: Option<u32>, reply_to_group_id: Option<&'a str>,
    }
}

macro_rules! performatives {
    ($($name:ident)*) => {
        /// Performative of a frame.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "it never outlives a call, and nothing is to be allocated")]
        pub enum Performative<'a> {
            $(
                #[doc = concat!("The performative `", stringify!($name), "`.")]
                $name($name<'a>),
            )*
        }

        impl<'a> Performative<'a> {
            /// Takes one off the beginning of a frame's body. Errors: anything else, and fields that cannot be read.
            #[inline]
            pub fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                let value = TypedValue::read(reader)?;
                let TypedValue::Described(it) = value else {
                    return Err(wrong("a frame does not begin with a described list"));
                };
                $(if is(it.descriptor, $name::CODE, $name::NAME) {
                    return $name::of(value).map(Self::$name);
                })*
                Err(wrong("a frame begins with an unknown performative"))
            }

            /// Appends it.
            pub fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(it) => it.write(out),)*
                }
            }

            /// Its name in the specification.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $name::NAME,)*
                }
            }
        }
    };
}

// The frequent ones first: they are looked for in this order.
performatives! {
    Transfer Disposition Flow Open Begin Attach Detach End Close SaslMechanisms SaslInit SaslChallenge SaslResponse
    SaslOutcome
}

/// State of a delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeliveryState<'a> {
    /// Some of it has come.
    Received(PartlyReceived),
    /// It is taken.
    Accepted,
    /// It is invalid.
    Rejected(Rejected<'a>),
    /// It was not taken, and may go elsewhere.
    Released,
    /// It was not taken, and is not what it was.
    Modified(Modified<'a>),
    /// [`DeclaredTransaction`], [`TransactionalState`], and what brokers have of their own.
    Other(TypedValue<'a>),
}

impl<'a> TypedField<'a> for DeliveryState<'a> {
    #[inline]
    fn of_value(value: Option<TypedValue<'a>>) -> Result<Self, DecodeError> {
        let Some(whole @ TypedValue::Described(it)) = value else {
            return Err(wrong("a delivery state is not described"));
        };
        let is = |code, name| is(it.descriptor, code, name);
        if is(Accepted::CODE, Accepted::NAME) {
            Accepted::of(whole).map(|_| Self::Accepted)
        } else if is(Released::CODE, Released::NAME) {
            Released::of(whole).map(|_| Self::Released)
        } else if is(Rejected::CODE, Rejected::NAME) {
            Rejected::of(whole).map(Self::Rejected)
        } else if is(Modified::CODE, Modified::NAME) {
            Modified::of(whole).map(Self::Modified)
        } else if is(PartlyReceived::CODE, PartlyReceived::NAME) {
            PartlyReceived::of(whole).map(Self::Received)
        } else {
            Ok(Self::Other(whole))
        }
    }

    fn put(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Received(it) => it.write(out),
            Self::Accepted => Accepted {}.write(out),
            Self::Rejected(it) => it.write(out),
            Self::Released => Released {}.write(out),
            Self::Modified(it) => it.write(out),
            Self::Other(it) => it.write(out),
        }
        true
    }
}

/// `amqp:resource-limit-exceeded (the queue is full)`.
impl std::fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.condition.0)?;
        match self.description {
            Some(text) if !text.is_empty() => write!(f, " ({text})"),
            _ => Ok(()),
        }
    }
}
