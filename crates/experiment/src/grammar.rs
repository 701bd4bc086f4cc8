//! The grammar `NAME:KEY=VALUE,…` of schedules and sizes: as text on the command line, and as tables in a file.

use std::collections::BTreeMap;

use measure::Refused;
use serde::{Deserialize, Serializer, ser::SerializeMap};

use super::error::unknown_name;

/// Keys with their values as text.
pub(super) type Fields = BTreeMap<String, String>;

/// The keys of a kind of schedule or of sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grammar {
    pub(super) name: &'static str,
    /// The key of a bare value.
    pub(super) bare: Option<&'static str>,
    pub(super) needed: &'static [&'static str],
    pub(super) optional: &'static [&'static str],
    pub(super) example: &'static str,
}

/// Grammars, a row each: name, key of a bare value, required keys, optional keys, example.
macro_rules! grammars {
    ($($name:literal, $bare:expr, [$($needed:literal)*], [$($optional:literal)*], $example:literal;)*) => {
        [$(Grammar {
            name: $name,
            bare: $bare,
            needed: &[$($needed),*],
            optional: &[$($optional),*],
            example: $example,
        }),*]
    };
}
pub(super) use grammars;

/// Finds a grammar by its name; `what` is a schedule or a size.
pub(super) fn find<'a>(what: &str, grammars: &'a [Grammar], name: &str) -> Result<&'a Grammar, Refused> {
    grammars.iter().find(|grammar| grammar.name == name).ok_or_else(|| {
        let known: Vec<&str> = grammars.iter().map(|grammar| grammar.name).collect();
        unknown_name(what, name, &known)
    })
}

impl Grammar {
    /// Takes `KEY=VALUE,…` apart. What has no key belongs to the bare one, in its order.
    pub(super) fn split(&self, text: &str) -> Result<Fields, Refused> {
        let mut fields = Fields::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let pair =
                item.split_once('=').filter(|(key, _)| key.trim().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            match (pair, self.bare) {
                (Some((key, value)), _) => {
                    let (key, value) = (key.trim(), value.trim());
                    if fields.insert(key.to_owned(), value.to_owned()).is_some() {
                        return Err(self.refuse(format!("{key} is given twice")));
                    }
                }
                (None, Some(bare)) => {
                    let all = fields.entry(bare.to_owned()).or_default();
                    if !all.is_empty() {
                        all.push(',');
                    }
                    all.push_str(item);
                }
                (None, None) => return Err(self.refuse(format!("{item:?} has no key"))),
            }
        }
        Ok(fields)
    }

    /// Checks that no key is missing or unknown.
    pub(super) fn check(&self, fields: &Fields) -> Result<(), Refused> {
        let known = || self.needed.iter().chain(self.optional).copied();
        if let Some(key) = fields.keys().find(|key| !known().any(|k| k == key.as_str())) {
            let known: Vec<&str> = known().collect();
            return Err(unknown_name(&format!("key of {:?}", self.name), key, &known));
        }
        let missing = self.needed.iter().find(|key| !fields.contains_key(**key));
        missing.map_or(Ok(()), |key| Err(self.refuse(format!("{:?} needs {key}", self.name))))
    }

    /// A refusal whose remedy is the example.
    pub(super) fn refuse(&self, what: String) -> Refused {
        Refused::new(what, format!("write {}", self.example))
    }

    /// The value of a key, else `absent`.
    pub(super) fn get<T, E: Into<Refused>>(
        &self,
        fields: &Fields,
        key: &str,
        absent: T,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Refused> {
        match fields.get(key) {
            Some(text) => read(text).map_err(|e| self.refuse(format!("{key}: {}", e.into().what))),
            None => Ok(absent),
        }
    }
}

/// A number from 0 on.
pub(super) fn number(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("{text:?} is not a number of 0 or more"))
}

/// A whole number from 0 on.
pub(super) fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number of 0 or more"))
}

/// `true` or `false`.
pub(super) fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is neither true nor false"))
}

/// A schedule or sizes as TOML holds them.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Written {
    Value(OneOrList),
    Table(BTreeMap<String, OneOrList>),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrList {
    One(Scalar),
    List(Vec<Scalar>),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Scalar {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl OneOrList {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::One(one) => one.into_text(),
            Self::List(items) => items.into_iter().map(Scalar::into_text).collect::<Vec<_>>().join(","),
        }
    }
}

/// Writes fields as a table, numbers as numbers.
pub(super) fn serialize<S: Serializer>(kind: (&str, &str), fields: &Fields, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len() + 1))?;
    map.serialize_entry(kind.0, kind.1)?;
    for (key, text) in fields {
        if let Ok(number) = text.parse::<i64>() {
            map.serialize_entry(key, &number)?;
        } else if let Some(number) = number(text).ok().filter(|_| text.contains('.')) {
            map.serialize_entry(key, &number)?;
        } else if let Ok(flag) = text.parse::<bool>() {
            map.serialize_entry(key, &flag)?;
        } else {
            map.serialize_entry(key, text)?;
        }
    }
    map.end()
}
