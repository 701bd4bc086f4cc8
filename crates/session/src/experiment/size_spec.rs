//! How large messages are, as people write it: `1024`, `12,2000`, `uniform:100..2000`, `files:DIR`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use load::{Bodies, Distribution, Sizes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::spec_text::{self, Fields, Form, Written, number, whole};

/// Body lengths. docs/schedules.md describes every kind.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeSpec {
    text: String,
    meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    Sizes(Sizes),
    /// Read when the load is planned.
    Files(PathBuf),
}

const FORMS: [Form; 5] = [
    Form {
        name: "list",
        bare: Some("sizes"),
        needed: &["sizes"],
        optional: &[],
        example: "100,2000",
    },
    Form {
        name: "uniform",
        bare: Some("range"),
        needed: &["range"],
        optional: &["seed"],
        example: "uniform:100..2000",
    },
    Form {
        name: "normal",
        bare: None,
        needed: &["mean", "sd"],
        optional: &["min", "max", "seed"],
        example: "normal:mean=1000,sd=200",
    },
    Form {
        name: "weighted",
        bare: Some("sizes"),
        needed: &["sizes"],
        optional: &["seed"],
        example: "weighted:12x9,2000x1",
    },
    Form {
        name: "files",
        bare: Some("path"),
        needed: &["path"],
        optional: &[],
        example: "files:DIR",
    },
];

/// Where a normal distribution is cut unless something else is said, in standard deviations: one
/// value in 16,000 lies outside.
const CUT: f64 = 4.0;

impl SizeSpec {
    /// All messages alike.
    #[must_use]
    pub fn fixed(bytes: usize) -> Self {
        Self {
            text: bytes.to_string(),
            meaning: Meaning::Sizes(Sizes::Fixed(bytes)),
        }
    }

    /// What it means to the load engine; bodies are read from their files.
    ///
    /// # Errors
    /// Files that cannot be read or sent.
    pub(super) fn sizes(&self) -> Result<Sizes, load::Error> {
        match &self.meaning {
            Meaning::Sizes(sizes) => Ok(sizes.clone()),
            Meaning::Files(path) => Ok(Sizes::Bodies(Arc::new(Bodies::read(path)?))),
        }
    }
}

impl FromStr for SizeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let meaning = match text.split_once(':') {
            Some((name, rest)) => meaning(name.trim(), rest)?,
            None if text.contains(',') => meaning("list", text)?,
            None => Meaning::Sizes(Sizes::Fixed(text.parse().map_err(|_| {
                format!(
                    "{text:?} is no message size; write bytes (1024), a list (100,2000), \
                     uniform:100..2000, normal:mean=1000,sd=200, weighted:12x9,2000x1 or files:DIR"
                )
            })?)),
        };
        Ok(Self {
            text: text.to_owned(),
            meaning,
        })
    }
}

fn meaning(name: &str, rest: &str) -> Result<Meaning, String> {
    let form = spec_text::form("kind of message sizes", &FORMS, name)?;
    if form.name == "files" {
        // A path may hold anything.
        return match rest.trim() {
            "" => Err(format!("\"files\" needs a path; {}", form.hint())),
            path => Ok(Meaning::Files(path.into())),
        };
    }
    let fields = form.split(rest)?;
    form.check(&fields)?;
    let seed = form.get(&fields, "seed", 0, whole)?;
    let random = |distribution| Sizes::Random { distribution, seed };
    Ok(Meaning::Sizes(match form.name {
        "uniform" => {
            let (min, max) = form.get(&fields, "range", (0, 0), range)?;
            random(Distribution::Uniform { min, max })
        }
        "normal" => random(normal(form, &fields)?),
        "weighted" => {
            let values = form.get(&fields, "sizes", Vec::new(), |text| {
                text.split(',').map(weighted).collect()
            })?;
            random(Distribution::Weighted(values))
        }
        _ => Sizes::List(form.get(&fields, "sizes", Vec::new(), |text| {
            text.split(',').map(|size| whole(size.trim())).collect()
        })?),
    }))
}

fn range(text: &str) -> Result<(usize, usize), String> {
    let (min, max) = text
        .split_once("..")
        .ok_or_else(|| format!("{text:?} is no range"))?;
    Ok((whole(min.trim())?, whole(max.trim())?))
}

fn normal(form: &Form, fields: &Fields) -> Result<Distribution, String> {
    let mean = form.get(fields, "mean", 0.0, number)?;
    let deviation = form.get(fields, "sd", 0.0, number)?;
    let least = load::payload::COMPACT_LEN;
    // Sizes far beyond what can be sent are refused when the load is planned.
    let min = ((mean - CUT * deviation).floor().max(0.0) as usize).max(least);
    let max = ((mean + CUT * deviation).ceil() as usize).max(min);
    Ok(Distribution::Normal {
        mean,
        deviation,
        min: form.get(fields, "min", min, whole)?,
        max: form.get(fields, "max", max, whole)?,
    })
}

/// `2000x1`.
fn weighted(text: &str) -> Result<(usize, f64), String> {
    let (size, weight) = text
        .split_once('x')
        .ok_or_else(|| format!("{text:?} is no size and weight"))?;
    Ok((whole(size.trim())?, number(weight.trim())?))
}

/// As it is written on a command line.
impl fmt::Display for SizeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for SizeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.meaning {
            Meaning::Sizes(Sizes::Fixed(bytes)) => serializer.serialize_u64(*bytes as u64),
            _ => serializer.serialize_str(&self.text),
        }
    }
}

impl<'de> Deserialize<'de> for SizeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match spec_text::written(deserializer)? {
            Written::One(one) => one.into_text(),
            Written::List(items) => spec_text::joined(items),
            Written::Table(_) => {
                return Err(serde::de::Error::custom(
                    "a message size is a number of bytes, a list of them, or a text such as \
                     \"uniform:100..2000\"",
                ));
            }
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}
