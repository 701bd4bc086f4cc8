//! Tables of a file whose keys are fields of several structs.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};
use serde::ser::{Serialize, SerializeMap};

/// Reads and writes a struct as one table of a file: each key with the place of its value, which may be inside
/// of another struct. A key that is absent leaves the struct's default; neither `None` nor an empty list or table
/// is written, nor a key that the struct's `writes` leaves out.
macro_rules! flat_table {
    ($type:ty { $($key:literal => $($field:ident).+,)+ }) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(if self.writes($key) {
                    $crate::flat_table::write(&mut map, $key, &self.$($field).+)?;
                })+
                serde::ser::SerializeMap::end(map)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                const KEYS: &[&str] = &[$($key),+];
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
                        let known = $crate::flat_table::KnownKey(KEYS);
                        while let Some(key) = map.next_key_seed(known)? {
                            match key {
                                $($key => read.$($field).+ = map.next_value()?,)+
                                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
                            }
                        }
                        Ok(read)
                    }
                }
                deserializer.deserialize_map(Table)
            }
        }
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

/// Writes an entry of a table, where there is one.
pub(super) fn write<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: &impl Serialize,
) -> Result<(), M::Error> {
    use serde_json::Value;
    match serde_json::to_value(value).map(super::without_nulls) {
        Ok(Value::Null) => Ok(()),
        Ok(Value::Array(items)) if items.is_empty() => Ok(()),
        Ok(Value::Object(items)) if items.is_empty() => Ok(()),
        _ => map.serialize_entry(key, value),
    }
}
