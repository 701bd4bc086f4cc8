//! Numbers, texts, the types that a chunk describes itself, and their values.

use std::borrow::Cow;
use std::collections::HashMap;

/// Values in values.
const DEEPEST: usize = 16;

/// Value. Fractions are passed over: no stack has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value {
    #[default]
    None,
    Number(u64),
    Text(String),
    /// The fields of a type, in its order.
    Fields(Vec<Value>),
    List(Vec<Value>),
}

/// Values by their type and number.
pub(super) type Constants = HashMap<(u64, u64), Value>;

impl Value {
    pub(super) const fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            _ => 0,
        }
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::None | Self::Number(_) => 0,
                Self::Text(text) => text.len(),
                Self::Fields(all) | Self::List(all) => all.iter().map(Self::bytes).sum(),
            }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    pub(super) fn list(&self) -> &[Self] {
        match self {
            Self::List(all) => all,
            _ => &[],
        }
    }

    /// The value of a field; none where the type has no such field.
    pub(super) fn field(&self, class: &JfrType, name: &str) -> &Self {
        let place = class.place(name);
        match self {
            Self::Fields(all) => place.and_then(|at| all.get(at)).unwrap_or(&Self::None),
            _ => &Self::None,
        }
    }
}

/// Reads one value of a type. Without `keep` it is passed over.
pub(super) fn value(bytes: &mut Bytes<'_>, classes: &JfrTypes, id: u64, keep: bool) -> Result<Value, String> {
    of_class(bytes, classes, id, keep, DEEPEST)
}

fn of_class(bytes: &mut Bytes<'_>, classes: &JfrTypes, id: u64, keep: bool, deep: usize) -> Result<Value, String> {
    let deep = deep.checked_sub(1).ok_or("values too deep in values")?;
    bytes.value()?;
    let class = classes.get(id).ok_or("a value of an unknown type")?;
    Ok(match class.name.as_str() {
        "boolean" | "byte" => Value::Number(bytes.byte()?.into()),
        "char" | "short" | "int" | "long" => Value::Number(bytes.number()?),
        "float" => bytes.take(4).map(|_| Value::None)?,
        "double" => bytes.take(8).map(|_| Value::None)?,
        "java.lang.String" => match bytes.text()? {
            Some(Text::Here(text)) if keep => Value::Text(text.into_owned()),
            Some(Text::Constant(index)) => Value::Number(index),
            _ => Value::None,
        },
        _ => {
            let mut all = Vec::new();
            for field in &class.fields {
                let value = of_field(bytes, classes, field, keep, deep)?;
                if keep {
                    bytes.kept()?;
                    all.push(value);
                }
            }
            Value::Fields(all)
        }
    })
}

fn of_field(
    bytes: &mut Bytes<'_>,
    classes: &JfrTypes,
    field: &Field,
    keep: bool,
    deep: usize,
) -> Result<Value, String> {
    let one = |bytes: &mut Bytes<'_>| {
        if field.is_constant {
            bytes.value()?;
            return bytes.number().map(Value::Number);
        }
        of_class(bytes, classes, field.class, keep, deep)
    };
    if !field.is_array {
        return one(bytes);
    }
    let mut all = Vec::new();
    for _ in 0..bytes.count()? {
        let left = bytes.len();
        let value = one(bytes)?;
        if bytes.len() == left {
            return Err("a list of values without content".to_owned());
        }
        if keep {
            bytes.kept()?;
            all.push(value);
        }
    }
    Ok(Value::List(all))
}

/// Bytes of the names of all types and fields.
const LONGEST_NAMES: usize = 32 << 20;
/// Types in types.
const DEEPEST_ELEMENT: usize = 64;

/// A type: a number, a text, or fields.
#[derive(Clone, Debug, Default)]
pub(super) struct JfrType {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) class: u64,
    /// Whether there is the number of a constant in place of the value.
    pub(super) is_constant: bool,
    /// Whether it has any number of values.
    pub(super) is_array: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct JfrTypes {
    by_id: HashMap<u64, JfrType>,
    /// Bytes of their names.
    named: usize,
}

impl JfrType {
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
        element(&mut bytes, &texts, DEEPEST_ELEMENT, &mut classes)?;
        Ok(classes)
    }

    pub(super) fn get(&self, id: u64) -> Option<&JfrType> {
        self.by_id.get(&id)
    }

    /// The number of the type with a name.
    pub(super) fn id(&self, name: &str) -> Option<u64> {
        self.by_id.iter().find(|(_, class)| class.name == name).map(|(&id, _)| id)
    }
}

/// Reads an element with all inside it; the field that it is, for the type around it. Types are kept where they stand.
fn element(
    bytes: &mut Bytes<'_>,
    texts: &[String],
    deep: usize,
    classes: &mut JfrTypes,
) -> Result<Option<Field>, String> {
    let deep = deep.checked_sub(1).ok_or("types too deep in types")?;
    bytes.value()?;
    let text = |index: u64| usize::try_from(index).ok().and_then(|at| texts.get(at)).map_or("", String::as_str);
    let name = text(bytes.number()?);
    let mut attributes = HashMap::new();
    for _ in 0..bytes.count()? {
        let (key, value) = (bytes.number()?, bytes.number()?);
        attributes.insert(text(key), text(value));
    }
    let mut fields = Vec::new();
    for _ in 0..bytes.count()? {
        fields.extend(element(bytes, texts, deep, classes)?);
    }
    let attribute = |key: &str| attributes.get(key).copied().unwrap_or_default();
    let number = |key: &str| attribute(key).parse().unwrap_or(u64::MAX);
    classes.named = classes.named.saturating_add(attribute("name").len());
    if classes.named > LONGEST_NAMES {
        return Err("its types have names of more than 32 MiB".to_owned());
    }
    if name == "class" {
        classes.by_id.insert(number("id"), JfrType { name: attribute("name").to_owned(), fields });
    }
    Ok((name == "field").then(|| Field {
        name: attribute("name").to_owned(),
        class: number("class"),
        is_constant: attribute("constantPool") == "true",
        is_array: !matches!(attribute("dimension"), "" | "0"),
    }))
}

/// Error for bytes that end too early.
pub(super) const CUT_OFF: &str = "it is cut off";
/// Values that are read for each byte of a recording: those of a hostile one can be empty, and as many as it likes.
const VALUES_PER_BYTE: u64 = 4;
/// Values of one event that are kept.
const MOST_KEPT: u64 = 16 << 20;

/// Reads a stretch of a recording. All numbers but those of the header are packed, seven bits to a byte.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    /// Values that may still be read.
    fuel: u64,
    /// Values that may still be kept.
    room: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Here(Cow<'a, str>),
    /// An index into the texts of the chunk.
    Constant(u64),
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, fuel: VALUES_PER_BYTE.saturating_mul(bytes.len() as u64), room: MOST_KEPT }
    }

    pub(super) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| CUT_OFF.to_owned())
    }

    pub(super) fn byte(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]| byte)
    }

    /// A number of the header.
    pub(super) fn wide(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_be_bytes)
    }

    /// A packed number; the ninth byte of the largest ones has eight bits.
    pub(super) fn number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for at in 0..9 {
            let byte = self.byte()?;
            if at == 8 {
                return Ok(number | u64::from(byte) << 56);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                break;
            }
        }
        Ok(number)
    }

    /// How many elements follow, each of a byte at least.
    pub(super) fn count(&mut self) -> Result<usize, String> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > self.rest.len() {
            return Err(format!("{count} elements in {} bytes", self.rest.len()));
        }
        Ok(count)
    }

    /// One more value is read.
    pub(super) fn value(&mut self) -> Result<(), String> {
        self.fuel = self.fuel.checked_sub(1).ok_or("too many empty values")?;
        Ok(())
    }

    /// One more value is kept.
    pub(super) fn kept(&mut self) -> Result<(), String> {
        self.room = self.room.checked_sub(1).ok_or("an event of too many values")?;
        Ok(())
    }

    /// A text; `None` where there is none.
    pub(super) fn text(&mut self) -> Result<Option<Text<'a>>, String> {
        Ok(Some(Text::Here(match self.byte()? {
            0 => return Ok(None),
            1 => Cow::Borrowed(""),
            2 => return Ok(Some(Text::Constant(self.number()?))),
            3 => {
                let length = self.count()?;
                String::from_utf8_lossy(self.take(length)?)
            }
            4 => {
                let length = self.count()?;
                let mut units = Vec::with_capacity(length.min(1 << 16));
                for _ in 0..length {
                    units.push(self.number()? as u16);
                }
                Cow::Owned(String::from_utf16_lossy(&units))
            }
            5 => {
                let length = self.count()?;
                let chars = self.take(length)?.iter().map(|&byte| char::from(byte));
                Cow::Owned(chars.collect())
            }
            other => return Err(format!("a text of the unknown kind {other}")),
        })))
    }
}
