//! Tables of a file: of each key one row, with its meaning, its name, its field and type, what its texts name, and its
//! default.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};
use serde::ser::{Serialize, SerializeMap};
use serde_json::{Map, Value};

/// Rules of a table, beside its rows.
pub(super) trait FlatTable {
    /// The key that a file has to have.
    const REQUIRED: Option<&'static str> = None;

    /// Keys that are not written with their defaults.
    const SPARSE: &'static [&'static str] = &[];

    /// Whether a key is written, with the value that it has.
    fn writes(&self, _key: &str) -> bool {
        true
    }
}

/// A value of a file that a path leads into: a table, or a list of tables.
pub(super) trait ReplaceAt {
    /// Takes over from another value only the one at the path: all beside it stays, also fields without a key.
    fn replace_at(&mut self, path: &[&str], from: Self);
}

impl<T: ReplaceAt> ReplaceAt for Option<T> {
    fn replace_at(&mut self, path: &[&str], from: Self) {
        match (self, from) {
            (Some(value), Some(from)) => value.replace_at(path, from),
            (value, from) => *value = from,
        }
    }
}

impl<T: ReplaceAt> ReplaceAt for Vec<T> {
    fn replace_at(&mut self, path: &[&str], from: Self) {
        let [index, rest @ ..] = path else {
            *self = from;
            return;
        };
        let index = index.parse().unwrap_or(usize::MAX);
        if let Some((item, new)) = self.get_mut(index).zip(from.into_iter().nth(index)) {
            item.replace_at(rest, new);
        }
    }
}

/// A field of a table. A path leads into those with [`ReplaceAt`], and the compiler prefers their own
/// `put`; any other is replaced as a whole.
pub(super) struct Field<'a, T>(pub(super) &'a mut T);

impl<T: ReplaceAt> Field<'_, T> {
    pub(super) fn put(self, path: &[&str], from: T) {
        self.0.replace_at(path, from);
    }
}

/// Fields that no path leads into.
pub(super) trait PutWhole<T> {
    fn put(self, path: &[&str], from: T);
}

impl<T> PutWhole<T> for Field<'_, T> {
    fn put(self, _: &[&str], from: T) {
        *self.0 = from;
    }
}

measure::named! {
    /// Kind of a text: of a name, with the word that its pseudonyms begin with in a report for others, or of another.
    /// Nothing is nobody's own; words are somebody's, but for numbers; arguments and headers have keys of somebody's
    /// own, but for RabbitMQ's; values of headers and own ones are somebody's, whatever their keys.
    #[allow(missing_docs)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TextKind {
        Queue = "queue", Exchange = "exchange", RoutingKey = "key", VirtualHost = "vhost", Node = "node",
        Host = "host", User = "user", Connection = "connection", Process = "process", Path = "path",
        Experiment = "experiment", Label = "label", Tag = "tag", Text = "text",
        Nothing = "nothing", Words = "words", Address = "address", Terms = "Erlang terms", Arguments = "arguments",
        Headers = "headers", Own = "own",
    }
}

/// Texts of a value.
#[derive(Clone, Copy, Debug)]
pub enum Held {
    /// Of one kind.
    Kind(TextKind),
    /// Of a table, by its keys.
    Table(&'static [(&'static str, Held)]),
}

/// Types of rows, with their texts where the row says nothing else.
pub trait Texts {
    /// Texts of a value.
    const HELD: Held;
}

/// Gives types their texts: a kind, or the keys of a table with theirs.
macro_rules! texts {
    (@ { $($key:literal: $kind:ident),* }) => { Held::Table(&[$(($key, Held::Kind(TextKind::$kind))),*]) };
    (@ $kind:ident) => { Held::Kind(TextKind::$kind) };
    ($($held:tt => $($of:ty),+;)+) => {
        $($(impl Texts for $of {
            const HELD: Held = texts!(@ $held);
        })+)+
    };
}

texts! {
    // Numbers with units, too, are known by their form, and behind a flag any word may stand.
    Words => String, super::Secret, bool, u8, u16, u32, u64, usize, measure::Length, measure::LengthRange,
        measure::Rate, load::LatencyStep, BTreeMap<String, toml::Value>;
    Nothing => measure::Bytes, load::Protocol, load::MqttVersion, load::Auth, load::Allocation, load::Placement,
        load::StopCondition, load::QueueType, load::StreamOffset, load::Declare, load::Ack, load::Refusal,
        web::scrape::Selector, load::scenario::churn::ChurnKind, super::SizeSpec, super::ScheduleSpec,
        super::NodesSpec, super::BrokerKind, super::BrokerData, super::LoadKind, super::OwnPage;
    Path => PathBuf;
    Host => IpAddr;
    Arguments => BTreeMap<String, String>, BTreeMap<String, load::Argument>;
    Own => load::MessageProperties;
    { "name": Exchange, "type": Nothing } => load::Exchange;
    { "name": Queue } => load::Subscription;
    { "pattern": Queue, "apply-to": Nothing } => super::PolicySpec;
    { "kind": Nothing, "who": Nothing } => super::FaultSpec;
    { "that": Nothing } => super::RequireSpec;
    {} => load::AmqpDestination, load::MqttOptions, load::QueueHandling, load::Consumers, load::Endpoint, super::Origin,
        Box<super::BrokerSpec>;
}

impl<T: Texts> Texts for Option<T> {
    const HELD: Held = T::HELD;
}

impl<T: Texts> Texts for Vec<T> {
    const HELD: Held = T::HELD;
}

/// Texts of a field.
pub(super) const fn held_by<S, T: Texts>(_: fn(&S) -> &T) -> Held {
    T::HELD
}

/// Declares, reads and writes a struct that is one table of a file, by a row of each key. A field without a key is in
/// no file; keys `inside` have their values in structs of such fields. A key that is absent leaves the default; neither
/// `None` nor an empty list or table is written, nor what [`FlatTable`] leaves out.
macro_rules! flat_table {
    (
        $(#[$attribute:meta])*
        pub struct $type:ident {
            $($(#[doc = $meaning:literal])* $($key:literal)? $field:ident: $of:ty $(as $kind:ident)? = $default:expr,)+
        }
        $(inside { $($inner:literal => $($place:ident).+ $(as $named:ident)?,)+ })?
    ) => {
        $(#[$attribute])*
        pub struct $type {
            $($(#[doc = $meaning])* pub $field: $of,)+
        }

        impl $type {
            /// Keys of the table.
            pub const KEYS: &'static [&'static str] = &[$($($key,)?)+ $($($inner,)+)?];

            /// Keys with their meanings, but those `inside`; of a field without a key the key is empty.
            pub const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((concat!($($key)?), concat!($($meaning),*)),)+];
        }

        impl $crate::flat_table::Texts for $type {
            const HELD: $crate::flat_table::Held = {
                use $crate::flat_table::{Held, flat_table};
                const KEYS: &[(&str, Held)] = &[
                    $((concat!($($key)?), flat_table!(@held $type, $field $(, $kind)?)),)+
                    $($(($inner, flat_table!(@held $type, $($place).+ $(, $named)?)),)+)?
                ];
                Held::Table(KEYS)
            };
        }

        impl Default for $type {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::flat_table::ReplaceAt for $type {
            fn replace_at(&mut self, path: &[&str], from: Self) {
                use $crate::flat_table::{Field, PutWhole as _};
                let [key, rest @ ..] = path else {
                    *self = from;
                    return;
                };
                match *key {
                    $($($key => Field(&mut self.$field).put(rest, from.$field),)?)+
                    $($($inner => self.$($place).+ = from.$($place).+,)+)?
                    _ => {}
                }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use $crate::flat_table::{FlatTable, write};
                let absent = <$type>::default();
                let mut map = serializer.serialize_map(None)?;
                $($(if FlatTable::writes(self, $key) {
                    write(&mut map, $key, &self.$field, &absent.$field, Self::SPARSE)?;
                })?)+
                $($(if FlatTable::writes(self, $inner) {
                    write(&mut map, $inner, &self.$($place).+, &absent.$($place).+, Self::SPARSE)?;
                })+)?
                serde::ser::SerializeMap::end(map)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Table;
                impl<'de> serde::de::Visitor<'de> for Table {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a table")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$type, A::Error> {
                        let mut read = <$type>::default();
                        let mut missing = <$type as $crate::flat_table::FlatTable>::REQUIRED;
                        let known = $crate::flat_table::KnownKey(<$type>::KEYS);
                        while let Some(key) = map.next_key_seed(known)? {
                            missing = missing.filter(|it| *it != key);
                            match key {
                                $($($key => read.$field = map.next_value()?,)?)+
                                $($($inner => read.$($place).+ = map.next_value()?,)+)?
                                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
                            }
                        }
                        match missing {
                            Some(key) => Err(serde::de::Error::missing_field(key)),
                            None => Ok(read),
                        }
                    }
                }
                deserializer.deserialize_map(Table)
            }
        }
    };
    (@held $of:ty, $($place:ident).+) => { $crate::flat_table::held_by(|it: &$of| &it.$($place).+) };
    (@held $of:ty, $($place:ident).+, $kind:ident) => {
        $crate::flat_table::Held::Kind($crate::flat_table::TextKind::$kind)
    };
}
pub(super) use flat_table;

/// Reads a key of a table, which must be one of these.
#[derive(Clone, Copy)]
pub(super) struct KnownKey(pub(super) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KnownKey {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KnownKey {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|known| **known == key);
        known.copied().ok_or_else(|| E::unknown_field(key, self.0))
    }
}

/// The keys of a table whose values are not the defaults, with their values.
pub(super) fn given<T: Serialize + Default>(table: &T) -> Map<String, Value> {
    let written = |table: &T| match serde_json::to_value(table) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let plain = written(&T::default());
    written(table).into_iter().filter(|(key, value)| plain.get(key) != Some(value)).collect()
}

/// Writes an entry of a table, unless it is `None`, an empty list or table, or a `sparse` key's default.
pub(super) fn write<M: SerializeMap, T: Serialize + PartialEq>(
    map: &mut M,
    key: &'static str,
    value: &T,
    absent: &T,
    sparse: &[&str],
) -> Result<(), M::Error> {
    let may_be_absent = match serde_json::to_value(value).map(super::without_nulls) {
        Ok(Value::Null) => true,
        Ok(Value::Array(items)) => items.is_empty(),
        Ok(Value::Object(items)) => items.is_empty(),
        _ => sparse.contains(&key),
    };
    if may_be_absent && value == absent { Ok(()) } else { map.serialize_entry(key, value) }
}
