//! How large messages are, as people write it: `1024`, `12,2000`, `100-2000`, `files:DIR`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use load::{Bodies, Distribution, Json, SizeStep, Sizes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Length;
use super::spec_text::{self, Fields, Form, Written, flag, number, whole};

/// Body lengths. docs/schedules.md describes every kind.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeSpec {
    text: String,
    meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    Sizes(Sizes),
    /// Made when the load is planned.
    Json(Json),
    /// Read when the load is planned: one path, or several divided by commas.
    Files(String),
}

const FORMS: [Form; 9] = [
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
        example: "uniform:100-2000",
    },
    Form {
        name: "normal",
        bare: None,
        needed: &["mean", "sd"],
        optional: &["min", "max", "seed"],
        example: "normal:mean=1000,sd=200",
    },
    Form {
        name: "lognormal",
        bare: None,
        needed: &["median", "sigma"],
        optional: &["min", "max", "seed"],
        example: "lognormal:median=800,sigma=1",
    },
    Form {
        name: "exponential",
        bare: Some("mean"),
        needed: &["mean"],
        optional: &["min", "max", "seed"],
        example: "exponential:1000",
    },
    Form {
        name: "steps",
        bare: Some("steps"),
        needed: &["steps"],
        optional: &["repeat"],
        example: "steps:1000@30s,2000@30s",
    },
    Form {
        name: "weighted",
        bare: Some("sizes"),
        needed: &["sizes"],
        optional: &["seed"],
        example: "weighted:12x9,2000x1",
    },
    Form {
        name: "json",
        bare: Some("size"),
        needed: &["size"],
        optional: &["count", "fields", "seed"],
        example: "json:1000",
    },
    Form {
        name: "files",
        bare: Some("path"),
        needed: &["path"],
        optional: &[],
        example: "files:DIR",
    },
];

/// Where a distribution is cut unless something else is said: a normal one at so many standard
/// deviations (one value in 16,000 lies outside), …
const CUT: f64 = 4.0;
/// … and an exponential one at so many times its mean (one in 22,000).
const EXPONENTIAL_CUT: f64 = 10.0;

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
            Meaning::Json(json) => Ok(Sizes::Bodies(Arc::new(json.bodies()?))),
            Meaning::Files(text) => Ok(Sizes::Bodies(Arc::new(Bodies::read(&paths(text))?))),
        }
    }

    /// What kind of content bodies have, where that is known.
    pub(super) const fn content_type(&self) -> Option<&'static str> {
        match &self.meaning {
            Meaning::Json(_) => Some("application/json"),
            Meaning::Sizes(_) | Meaning::Files(_) => None,
        }
    }
}

/// A path with a comma in its name is one path.
fn paths(text: &str) -> Vec<PathBuf> {
    if Path::new(text).exists() {
        return vec![text.into()];
    }
    text.split(',').map(|path| path.trim().into()).collect()
}

impl FromStr for SizeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let meaning = match text.split_once(':') {
            Some((name, rest)) => meaning(name.trim(), rest)?,
            None if text.contains(',') => meaning("list", text)?,
            None if text.contains('-') && !text.starts_with('-') => meaning("uniform", text)?,
            None => Meaning::Sizes(Sizes::Fixed(text.parse().map_err(|_| {
                format!(
                    "{text:?} is no message size; write bytes (1024), a range (100-2000), a list \
                     (100,2000), weighted:12x9,2000x1, normal:mean=1000,sd=200, \
                     steps:1000@30s,2000@30s, json:1000 or files:DIR"
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
            paths => Ok(Meaning::Files(paths.into())),
        };
    }
    let fields = form.split(rest)?;
    form.check(&fields)?;
    let seed = form.get(&fields, "seed", 0, whole)?;
    if form.name == "json" {
        let json = Json::new(form.get(&fields, "size", 0, whole)?);
        return Ok(Meaning::Json(Json {
            count: form.get(&fields, "count", json.count, whole)?,
            fields: form.get(&fields, "fields", json.fields, whole)?,
            seed,
            ..json
        }));
    }
    let random = |distribution| Sizes::Random { distribution, seed };
    Ok(Meaning::Sizes(match form.name {
        "uniform" => {
            let (min, max) = form.get(&fields, "range", (0, 0), range)?;
            random(Distribution::Uniform { min, max })
        }
        "steps" => Sizes::Steps {
            steps: form.get(&fields, "steps", Vec::new(), |text| {
                text.split(',').map(|step| one_step(step.trim())).collect()
            })?,
            repeat: form.get(&fields, "repeat", false, flag)?,
        },
        "normal" | "lognormal" | "exponential" => random(bounded(form, &fields)?),
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
        .split_once('-')
        .ok_or_else(|| format!("{text:?} is no range"))?;
    Ok((whole(min.trim())?, whole(max.trim())?))
}

/// `1000@30s`.
fn one_step(text: &str) -> Result<SizeStep, String> {
    let (size, length) = text
        .split_once('@')
        .ok_or_else(|| format!("{text:?} is no size and length"))?;
    Ok(SizeStep {
        size: whole(size.trim())?,
        length: length.trim().parse::<Length>()?.0,
    })
}

/// A distribution without bounds of its own, cut where hardly anything lies.
fn bounded(form: &Form, fields: &Fields) -> Result<Distribution, String> {
    let value = |key| form.get(fields, key, 0.0, number);
    let (mean, deviation) = (value("mean")?, value("sd")?);
    let (median, sigma) = (value("median")?, value("sigma")?);
    let (low, high) = match form.name {
        "normal" => (mean - CUT * deviation, mean + CUT * deviation),
        "lognormal" => (median * (-CUT * sigma).exp(), median * (CUT * sigma).exp()),
        _ => (0.0, EXPONENTIAL_CUT * mean),
    };
    // Sizes far beyond what can be sent are refused when the load is planned.
    let least = (low.floor().max(0.0) as usize).max(load::payload::COMPACT_LEN);
    let most = (high.ceil() as usize).max(least);
    let min = form.get(fields, "min", least, whole)?;
    let max = form.get(fields, "max", most, whole)?;
    Ok(match form.name {
        "normal" => Distribution::Normal {
            mean,
            deviation,
            min,
            max,
        },
        "lognormal" => Distribution::LogNormal {
            median,
            sigma,
            min,
            max,
        },
        _ => Distribution::Exponential { mean, min, max },
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
                     \"uniform:100-2000\"",
                ));
            }
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}
