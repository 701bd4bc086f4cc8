//! Values of the types that a chunk describes.

use std::collections::HashMap;

use super::bytes::{Bytes, Text};
use super::metadata::{Field, JfrType, JfrTypes};

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
    /// A number, or that of a constant.
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
pub(super) fn value(
    bytes: &mut Bytes<'_>,
    classes: &JfrTypes,
    id: u64,
    keep: bool,
) -> Result<Value, String> {
    of_class(bytes, classes, id, keep, DEEPEST)
}

fn of_class(
    bytes: &mut Bytes<'_>,
    classes: &JfrTypes,
    id: u64,
    keep: bool,
    deep: usize,
) -> Result<Value, String> {
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
