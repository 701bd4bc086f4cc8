//! Data for others: a serializer that redacts names in every text, and keeps names of fields and variants, and code.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Value;

use super::{Redaction, text};

/// Fields whose texts are code or identifiers of bellows, by the type that has them.
const VERBATIM: [(&str, &str); 10] = [
    ("ProfileHead", "names modules event kernel_event unit"),
    ("ProfileHead", "classes known"),
    ("FunctionChange", "function module"),
    ("BrokerSummary", "kind version"),
    ("QueueRecord", "type"),
    ("ExchangeRecord", "type"),
    ("ScenarioSummary", "kind unit"),
    ("RunView", "versions hardware seed created guarantee"),
    ("ComparisonView", "hardware"),
    ("NamedPanel", "unit"),
];
/// Fields that say of an enum's value which it is.
const TAGS: [&str; 3] = ["code", "kind", "chart"];

/// Fields whose text names a metric, as keys of tables do.
const METRICS: [(&str, &str); 3] = [("", "metric"), ("MetricInfo", "key"), ("ScenarioSummary", "headline")];

/// Fields with sentences of bellows that end in the words of a system, a library or a broker.
const SAID: [(&str, &str); 9] = [
    ("Event", "label"),
    ("FailureCount", "reason"),
    ("LeftOut", "why"),
    ("ProgramSummary", "status"),
    ("TrialView", "why"),
    ("RunView", "notes"),
    ("LimitView", "notes"),
    ("MatrixView", "notes forced"),
    ("ComparisonView", "notes forced"),
];

fn has(table: &[(&str, &str)], of: &str, field: &str) -> bool {
    table.iter().filter(|it| it.0 == of).any(|it| it.1.split(' ').any(|it| it == field))
}

/// Data with redacted texts; fields keep their order.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Anything but a list or a table.
    Plain(Value),
    List(Vec<Shown>),
    Table(Vec<(String, Shown)>),
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(value) => value.serialize(to),
            Self::List(items) => to.collect_seq(items),
            Self::Table(fields) => to.collect_map(fields.iter().map(|(key, value)| (key, value))),
        }
    }
}

/// The redacted data; fails where it cannot be written as JSON.
pub(super) fn shown(data: &(impl Serialize + ?Sized), texts: &mut Redaction) -> Result<Shown, serde_json::Error> {
    data.serialize(Showing { texts, of: Of::Data })
}

/// Kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Data,
    Said,
    Key,
    Code,
}

struct Showing<'t> {
    texts: &'t mut Redaction,
    of: Of,
}

impl<'t> Showing<'t> {
    fn text(&mut self, text: &str) -> String {
        let names = &mut self.texts.names;
        match self.of {
            Of::Data => text::redacted(names, text),
            Of::Said => text::said(names, text),
            // Most are words of bellows.
            Of::Key if names.is_ordinary(text) => text.to_owned(),
            Of::Key => text::redacted(names, text),
            Of::Code => {
                self.texts.left(text);
                text.to_owned()
            }
        }
    }

    /// For a text of this kind within it: all within code or somebody's words is of their kind.
    fn within(&mut self, of: Of) -> Showing<'_> {
        Showing { texts: self.texts, of: if self.of == Of::Data { of } else { self.of } }
    }

    fn items(self) -> Items<'t> {
        Items { showing: self, items: Vec::new(), variant: None }
    }

    fn fields(self, of: &'static str) -> Fields<'t> {
        Fields { showing: self, of, fields: Vec::new(), key: None, variant: None }
    }
}

struct Items<'t> {
    showing: Showing<'t>,
    items: Vec<Shown>,
    variant: Option<&'static str>,
}

struct Fields<'t> {
    showing: Showing<'t>,
    of: &'static str,
    fields: Vec<(String, Shown)>,
    key: Option<String>,
    variant: Option<&'static str>,
}

type Failed = serde_json::Error;

fn plain<T: Serialize + ?Sized>(value: &T) -> Result<Shown, Failed> {
    serde_json::to_value(value).map(Shown::Plain)
}

/// Form of a variant with a value.
fn tagged(variant: Option<&'static str>, inner: Shown) -> Shown {
    match variant {
        None => inner,
        Some(variant) => Shown::Table(vec![(variant.to_owned(), inner)]),
    }
}

macro_rules! numbers {
    ($($name:ident: $kind:ty),*) => {
        $(fn $name(self, value: $kind) -> Result<Shown, Failed> {
            plain(&value)
        })*
    };
}

impl<'t> Serializer for Showing<'t> {
    type Ok = Shown;
    type Error = Failed;
    type SerializeSeq = Items<'t>;
    type SerializeTuple = Items<'t>;
    type SerializeTupleStruct = Items<'t>;
    type SerializeTupleVariant = Items<'t>;
    type SerializeMap = Fields<'t>;
    type SerializeStruct = Fields<'t>;
    type SerializeStructVariant = Fields<'t>;

    numbers!(serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
        serialize_f64: f64);

    fn serialize_char(self, value: char) -> Result<Shown, Failed> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(mut self, value: &str) -> Result<Shown, Failed> {
        Ok(Shown::Plain(Value::String(self.text(value))))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Shown, Failed> {
        plain(value)
    }

    fn serialize_none(self) -> Result<Shown, Failed> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Shown, Failed> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Shown, Failed> {
        Ok(Shown::Plain(Value::Null))
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Shown, Failed> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<Shown, Failed> {
        self.texts.left(variant);
        Ok(Shown::Plain(Value::String(variant.to_owned())))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<Shown, Failed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Shown, Failed> {
        Ok(tagged(Some(variant), value.serialize(self)?))
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Items<'t>, Failed> {
        Ok(self.items())
    }

    fn serialize_tuple(self, _length: usize) -> Result<Items<'t>, Failed> {
        Ok(self.items())
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Items<'t>, Failed> {
        Ok(self.items())
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Items<'t>, Failed> {
        Ok(Items { variant: Some(variant), ..self.items() })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Fields<'t>, Failed> {
        Ok(self.fields(""))
    }

    fn serialize_struct(self, name: &'static str, _length: usize) -> Result<Fields<'t>, Failed> {
        Ok(self.fields(name))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Fields<'t>, Failed> {
        Ok(Fields { variant: Some(variant), ..self.fields(name) })
    }
}

impl Items<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        self.items.push(value.serialize(self.showing.within(Of::Data))?);
        Ok(())
    }

    fn done(self) -> Result<Shown, Failed> {
        Ok(tagged(self.variant, Shown::List(self.items)))
    }
}

impl Fields<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, key: String, value: &T, of: Of) -> Result<(), Failed> {
        self.fields.push((key, value.serialize(self.showing.within(of))?));
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Failed> {
        self.showing.texts.left(key);
        // A tag comes first, and names the variant of an enum.
        let is_tag = self.fields.is_empty() && TAGS.contains(&key);
        let of = match self.of {
            of if is_tag || has(&VERBATIM, of, key) => Of::Code,
            of if has(&METRICS, "", key) || has(&METRICS, of, key) => Of::Key,
            of if has(&SAID, of, key) => Of::Said,
            _ => Of::Data,
        };
        self.push(key.to_owned(), value, of)
    }

    fn done(self) -> Result<Shown, Failed> {
        Ok(tagged(self.variant, Shown::Table(self.fields)))
    }
}

macro_rules! lists {
    ($($kind:ident: $push:ident),*) => {
        $(impl $kind for Items<'_> {
            type Ok = Shown;
            type Error = Failed;

            fn $push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
                self.push(value)
            }

            fn end(self) -> Result<Shown, Failed> {
                self.done()
            }
        })*
    };
}

lists!(SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field);

macro_rules! tables {
    ($($kind:ident),*) => {
        $(impl $kind for Fields<'_> {
            type Ok = Shown;
            type Error = Failed;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Failed> {
                self.field(key, value)
            }

            fn end(self) -> Result<Shown, Failed> {
                self.done()
            }
        })*
    };
}

tables!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Fields<'_> {
    type Ok = Shown;
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        self.key = Some(match key.serialize(self.showing.within(Of::Key))? {
            Shown::Plain(Value::String(text)) => text,
            Shown::Plain(other) => other.to_string(),
            Shown::List(_) | Shown::Table(_) => return Err(Failed::custom("a key is no text")),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        let key = self.key.take().unwrap_or_default();
        self.push(key, value, Of::Data)
    }

    fn end(self) -> Result<Shown, Failed> {
        self.done()
    }
}
