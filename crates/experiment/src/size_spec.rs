//! How large messages are, as people write it: `1024`, `12,2000`, `100-2000`, `files:DIR`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use load::{Bodies, Distribution, Json, SizeStep, Sizes};
use measure::{Bytes, Length, Refused};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::grammar::{Fields, Grammar, Written, find, flag, grammars, number, whole};

/// A value made when first requested. Copies share it, even earlier ones; it takes no part in comparisons.
#[derive(Debug)]
pub(super) struct Once<T>(Arc<OnceLock<Arc<T>>>);

impl<T> Once<T> {
    /// The value, which `make` makes the first time.
    pub(super) fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        if let Some(made) = self.0.get() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(self.0.get_or_init(|| made)))
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Once<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Body lengths. docs/schedules.md describes every kind.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeSpec {
    text: String,
    parsed: Parsed,
    bodies: Once<Bodies>,
}

#[derive(Clone, Debug, PartialEq)]
enum Parsed {
    Sizes(Sizes),
    /// Made when the load is planned.
    Json(Json),
    /// Read when the load is planned: one path, or several divided by commas.
    Files(String),
}

const GRAMMARS: [Grammar; 9] = grammars! {
    "list", Some("sizes"), ["sizes"], [], "100,2000";
    "uniform", Some("range"), ["range"], ["seed"], "uniform:100-2000";
    "normal", None, ["mean" "sd"], ["min" "max" "seed"], "normal:mean=1000,sd=200";
    "lognormal", None, ["median" "sigma"], ["min" "max" "seed"], "lognormal:median=800,sigma=1";
    "exponential", Some("mean"), ["mean"], ["min" "max" "seed"], "exponential:1000";
    "steps", Some("steps"), ["steps"], ["repeat"], "steps:1000@30s,2000@30s";
    "weighted", Some("sizes"), ["sizes"], ["seed"], "weighted:12x9,2000x1";
    "json", Some("size"), ["size"], ["count" "fields" "seed"], "json:1000";
    "files", Some("path"), ["path"], [], "files:DIR";
};

/// Default cut of a distribution: a normal one at this many standard deviations (one value in 16,000 lies outside), …
const CUT: f64 = 4.0;
/// … and an exponential one at this many times its mean (one in 22,000).
const EXPONENTIAL_CUT: f64 = 10.0;

impl SizeSpec {
    /// Messages of one size.
    pub fn fixed(bytes: usize) -> Self {
        Self { text: bytes.to_string(), parsed: Parsed::Sizes(Sizes::Fixed(bytes)), bodies: Once::default() }
    }

    /// The sizes for the load engine. Bodies are made, or read from their files, once, and shared by all that is
    /// resolved from this specification later. Errors: files that cannot be read or sent.
    pub(super) fn resolve(&self) -> Result<Sizes, load::Error> {
        let bodies = match &self.parsed {
            Parsed::Sizes(sizes) => return Ok(sizes.clone()),
            Parsed::Json(json) => self.bodies.get_or_make(|| json.bodies()),
            Parsed::Files(text) => self.bodies.get_or_make(|| Bodies::read(&paths(text))),
        };
        bodies.map(Sizes::Bodies)
    }

    /// The files that bodies are read from, in their order; `None` where they are made. Errors: a folder that cannot be
    /// read.
    pub fn files(&self) -> Result<Option<Vec<PathBuf>>, load::Error> {
        match &self.parsed {
            Parsed::Files(text) => Bodies::files(&paths(text)).map(Some),
            Parsed::Sizes(_) | Parsed::Json(_) => Ok(None),
        }
    }

    /// Whether bodies are read from files.
    pub const fn is_from_files(&self) -> bool {
        matches!(self.parsed, Parsed::Files(_))
    }

    /// All files of a folder as bodies, in the order of their names.
    pub fn folder(folder: &Path) -> Self {
        let path = folder.display().to_string();
        Self { text: format!("files:{path}"), parsed: Parsed::Files(path), bodies: Once::default() }
    }

    /// The content type of message bodies, where known.
    pub(super) const fn content_type(&self) -> Option<&'static str> {
        match &self.parsed {
            Parsed::Json(_) => Some("application/json"),
            Parsed::Sizes(_) | Parsed::Files(_) => None,
        }
    }
}

/// A path with a comma in its name is one path.
fn paths(text: &str) -> Vec<PathBuf> {
    if Path::new(text).exists() { vec![text.into()] } else { text.split(',').map(|path| path.trim().into()).collect() }
}

impl FromStr for SizeSpec {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let text = text.trim();
        let parsed = match text.split_once(':') {
            Some((name, rest)) => parsed(name.trim(), rest)?,
            None if text.contains(',') => parsed("list", text)?,
            None if text.contains('-') && !text.starts_with('-') => parsed("uniform", text)?,
            None => Parsed::Sizes(Sizes::Fixed(size(text).map_err(|_| {
                let help = "write bytes (1024, 4KiB), a range (100-2000), a list (100,2000), \
                 weighted:12x9,2000x1, normal:mean=1000,sd=200, steps:1000@30s,2000@30s, json:1000 or files:DIR";
                Refused::new(format!("{text:?} is not a message size"), help)
            })?)),
        };
        Ok(Self { text: text.to_owned(), parsed, bodies: Once::default() })
    }
}

fn parsed(name: &str, rest: &str) -> Result<Parsed, Refused> {
    let grammar = find("kind of message sizes", &GRAMMARS, name)?;
    if grammar.name == "files" {
        // A path may hold anything.
        return match rest.trim() {
            "" => Err(grammar.refuse("\"files\" needs a path".to_owned())),
            paths => Ok(Parsed::Files(paths.into())),
        };
    }
    let fields = grammar.split(rest)?;
    grammar.check(&fields)?;
    let seed = grammar.get(&fields, "seed", 0, whole)?;
    if grammar.name == "json" {
        let json = Json::new(grammar.get(&fields, "size", 0, size)?);
        return Ok(Parsed::Json(Json {
            count: grammar.get(&fields, "count", json.count, whole)?,
            fields: grammar.get(&fields, "fields", json.fields, whole)?,
            seed,
            ..json
        }));
    }
    let random = |distribution| Sizes::Random { distribution, seed };
    Ok(Parsed::Sizes(match grammar.name {
        "uniform" => {
            let (min, max) = grammar.get(&fields, "range", (0, 0), range)?;
            random(Distribution::Uniform { min, max })
        }
        "steps" => Sizes::Steps {
            steps: grammar.get(&fields, "steps", Vec::new(), |text| {
                text.split(',').map(|step| one_step(step.trim())).collect::<Result<_, Refused>>()
            })?,
            repeat: grammar.get(&fields, "repeat", false, flag)?,
        },
        "normal" | "lognormal" | "exponential" => random(bounded(grammar, &fields)?),
        "weighted" => {
            let values = grammar.get(&fields, "sizes", Vec::new(), |text| {
                text.split(',').map(weighted).collect::<Result<_, String>>()
            })?;
            random(Distribution::Weighted(values))
        }
        _ => Sizes::List(
            grammar
                .get(&fields, "sizes", Vec::new(), |text| text.split(',').map(size).collect::<Result<_, String>>())?,
        ),
    }))
}

fn size(text: &str) -> Result<usize, String> {
    let size = text.parse().map(Bytes::as_usize);
    size.map_err(|_| format!("{text:?} is not a whole number of bytes, such as 1024 or 4KiB"))
}

/// Bytes on average, which need not be whole.
fn bytes(text: &str) -> Result<f64, String> {
    number(text).or_else(|_| size(text).map(|bytes| bytes as f64))
}

fn range(text: &str) -> Result<(usize, usize), String> {
    let (min, max) = text.split_once('-').ok_or_else(|| format!("{text:?} is not a range"))?;
    Ok((size(min)?, size(max)?))
}

/// Reads a size and how long it is sent: `1000@30s`.
fn one_step(text: &str) -> Result<SizeStep, Refused> {
    let (bytes, length) = text.split_once('@').ok_or_else(|| format!("{text:?} is not a size and length"))?;
    Ok(SizeStep { size: size(bytes)?, length: length.trim().parse::<Length>()?.0 })
}

/// A distribution without bounds of its own, cut where its density is negligible.
fn bounded(grammar: &Grammar, fields: &Fields) -> Result<Distribution, Refused> {
    let bytes = |key| grammar.get(fields, key, 0.0, bytes);
    let (mean, deviation, median) = (bytes("mean")?, bytes("sd")?, bytes("median")?);
    let sigma = grammar.get(fields, "sigma", 0.0, number)?;
    let (low, high) = match grammar.name {
        "normal" => (mean - CUT * deviation, mean + CUT * deviation),
        "lognormal" => (median * (-CUT * sigma).exp(), median * (CUT * sigma).exp()),
        _ => (0.0, EXPONENTIAL_CUT * mean),
    };
    // Sizes far beyond what can be sent are refused when the load is planned.
    let least = (low.floor().max(0.0) as usize).max(load::payload::COMPACT_LEN);
    let most = (high.ceil() as usize).max(least);
    let min = grammar.get(fields, "min", least, size)?;
    let max = grammar.get(fields, "max", most, size)?;
    Ok(match grammar.name {
        "normal" => Distribution::Normal { mean, deviation, min, max },
        "lognormal" => Distribution::LogNormal { median, sigma, min, max },
        _ => Distribution::Exponential { mean, min, max },
    })
}

/// Reads a size and its weight: `2000x1`.
fn weighted(text: &str) -> Result<(usize, f64), String> {
    let (bytes, weight) = text.split_once('x').ok_or_else(|| format!("{text:?} is not a size and weight"))?;
    Ok((size(bytes)?, number(weight.trim())?))
}

/// Writes the sizes as on a command line.
impl fmt::Display for SizeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for SizeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.parsed {
            Parsed::Sizes(Sizes::Fixed(bytes)) => serializer.serialize_u64(*bytes as u64),
            _ => serializer.serialize_str(&self.text),
        }
    }
}

impl<'de> Deserialize<'de> for SizeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Written::deserialize(deserializer)? {
            Written::Value(value) => value.into_text(),
            Written::Table(_) => {
                let help = "write a number of bytes, a list of them, or a text such as \"uniform:100-2000\"";
                return Err(Refused::new("a message size is not a table", help).into_error());
            }
        };
        text.parse().map_err(Refused::into_error)
    }
}
