//! The types of a chunk, which it describes itself.

use std::collections::HashMap;

use super::bytes::{Bytes, Text};

/// Bytes of the names of all types and fields.
const LONGEST_NAMES: usize = 32 << 20;
/// Types in types.
const DEEPEST: usize = 64;

/// A type: a number, a text, or fields.
#[derive(Clone, Debug, Default)]
pub(super) struct JfrType {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// A field of a type.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    pub(super) name: String,
    /// The type of its value.
    pub(super) class: u64,
    /// Whether there is the number of a constant in place of the value.
    pub(super) is_constant: bool,
    /// Whether it has any number of values.
    pub(super) is_array: bool,
}

/// The types by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct JfrTypes {
    by_id: HashMap<u64, JfrType>,
    /// Bytes of their names.
    named: usize,
}

impl JfrType {
    /// The place of a field.
    pub(super) fn place(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|it| it.name == field)
    }
}

impl JfrTypes {
    /// Reads what stands behind the size of the event of types.
    pub(super) fn read(event: &[u8]) -> Result<Self, String> {
        let mut bytes = Bytes::new(event);
        if bytes.number()? != 0 {
            return Err("its types are not where its header says".to_owned());
        }
        for _ in ["start", "duration", "number"] {
            bytes.number()?;
        }
        let mut texts = Vec::new();
        for _ in 0..bytes.count()? {
            texts.push(match bytes.text()? {
                Some(Text::Here(text)) => text.into_owned(),
                _ => String::new(),
            });
        }
        let mut classes = Self::default();
        element(&mut bytes, &texts, DEEPEST, &mut classes)?;
        Ok(classes)
    }

    pub(super) fn get(&self, id: u64) -> Option<&JfrType> {
        self.by_id.get(&id)
    }

    /// The number of the type with a name.
    pub(super) fn id(&self, name: &str) -> Option<u64> {
        let mut all = self.by_id.iter();
        all.find(|(_, class)| class.name == name).map(|(&id, _)| id)
    }
}

/// Element as told to the one around it.
enum Element {
    Field(Field),
    Other,
}

/// Reads an element with all inside it. Types are kept where they stand.
fn element(
    bytes: &mut Bytes<'_>,
    texts: &[String],
    deep: usize,
    classes: &mut JfrTypes,
) -> Result<Element, String> {
    let deep = deep.checked_sub(1).ok_or("types too deep in types")?;
    bytes.value()?;
    let text = |index: u64| {
        let text = usize::try_from(index).ok().and_then(|at| texts.get(at));
        text.map_or("", String::as_str)
    };
    let name = text(bytes.number()?);
    let mut attributes = HashMap::new();
    for _ in 0..bytes.count()? {
        let (key, value) = (bytes.number()?, bytes.number()?);
        attributes.insert(text(key), text(value));
    }
    let mut fields = Vec::new();
    for _ in 0..bytes.count()? {
        if let Element::Field(field) = element(bytes, texts, deep, classes)? {
            fields.push(field);
        }
    }
    let attribute = |key: &str| attributes.get(key).copied().unwrap_or_default();
    let number = |key: &str| attribute(key).parse().unwrap_or(u64::MAX);
    classes.named = classes.named.saturating_add(attribute("name").len());
    if classes.named > LONGEST_NAMES {
        return Err("its types have names of more than 32 MiB".to_owned());
    }
    match name {
        "class" => {
            let name = attribute("name").to_owned();
            classes.by_id.insert(number("id"), JfrType { name, fields });
            Ok(Element::Other)
        }
        "field" => Ok(Element::Field(Field {
            name: attribute("name").to_owned(),
            class: number("class"),
            is_constant: attribute("constantPool") == "true",
            is_array: !matches!(attribute("dimension"), "" | "0"),
        })),
        _ => Ok(Element::Other),
    }
}
