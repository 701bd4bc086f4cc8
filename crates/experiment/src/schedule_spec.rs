//! When messages are sent, as people write it: `ramp:from=100,to=20000,over=60s`, or the same keys as a table.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use load::{ArrivalSchedule, RateProfile, Spacing, Step, Trace};
use measure::{Length, Nanos, Rate, Refused, per_second};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::unknown_name;
use super::grammar::{Fields, Grammar, Written, find, flag, grammars, serialize, whole};
use super::size_spec::Once;

/// A rate over time. docs/schedules.md describes every shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSpec {
    shape: &'static str,
    /// The keys as they were written.
    fields: Fields,
    parsed: Parsed,
    spacing: Spacing,
    resolved: Once<ArrivalSchedule>,
}

#[derive(Clone, Debug, PartialEq)]
enum Parsed {
    Profile(RateProfile),
    /// A recording, which is read when the load is planned, and when it begins again.
    Trace(PathBuf, Option<Nanos>),
}

const GRAMMARS: [Grammar; 7] = grammars! {
    "constant", Some("rate"), ["rate"], ["arrivals" "seed"], "constant:20000";
    "steps", Some("steps"), ["steps"], ["arrivals" "seed" "repeat"], "steps:1000@10s,5000@10s";
    "ramp", None, ["from" "to" "over"], ["arrivals" "seed"], "ramp:from=100,to=20000,over=60s";
    "sine", None, ["mean" "amplitude" "period"], ["arrivals" "seed"], "sine:mean=5000,amplitude=4000,period=20s";
    "burst", None, ["rate" "on" "off"], ["arrivals" "seed" "idle"], "burst:rate=20000,on=1s,off=4s";
    "poisson", Some("rate"), ["rate"], ["seed"], "poisson:5000";
    "trace", Some("file"), ["file"], ["every"], "trace:FILE";
};

impl ScheduleSpec {
    /// The schedule for the load engine: a trace is read, and the instants are prepared, once for all plans of this
    /// specification, whose group says whether it is `per_producer`.
    pub(super) fn resolve(&self, per_producer: bool) -> Result<ArrivalSchedule, load::Error> {
        let schedule = self.resolved.get_or_make(|| {
            let profile = match &self.parsed {
                Parsed::Profile(profile) => profile.clone(),
                Parsed::Trace(file, every) => RateProfile::Trace { trace: Trace::read(file)?.into(), every: *every },
            };
            Ok(ArrivalSchedule::new(profile, self.spacing, per_producer))
        })?;
        Ok((*schedule).clone())
    }

    /// The recording that it follows; `None` of other schedules.
    pub fn trace_file(&self) -> Option<&Path> {
        match &self.parsed {
            Parsed::Trace(file, _) => Some(file),
            Parsed::Profile(_) => None,
        }
    }

    /// This schedule, with its recording in another file.
    pub fn with_trace_file(&self, file: &Path) -> Self {
        let Parsed::Trace(_, every) = &self.parsed else { return self.clone() };
        let mut fields = self.fields.clone();
        fields.insert("file".to_owned(), file.display().to_string());
        let parsed = Parsed::Trace(file.to_owned(), *every);
        Self { fields, parsed, resolved: Once::default(), ..self.clone() }
    }

    fn of(name: &str, fields: Fields) -> Result<Self, Refused> {
        let grammar = find("schedule", &GRAMMARS, name)?;
        grammar.check(&fields)?;
        let parsed = parsed(grammar, &fields)?;
        let poisson = match fields.get("arrivals").map(String::as_str) {
            None => grammar.name == "poisson",
            Some("even") => false,
            Some("poisson") => true,
            Some(other) => {
                let unknown = unknown_name("value", other, &["even", "poisson"]);
                return Err(Refused::new(format!("arrivals: {}", unknown.what), unknown.help));
            }
        };
        let seed = grammar.get(&fields, "seed", 0, whole)?;
        if !poisson && fields.contains_key("seed") {
            return Err(Refused::new("seed has no effect on even arrivals", "leave it out, or add arrivals=poisson"));
        }
        Ok(Self {
            shape: grammar.name,
            parsed,
            spacing: if poisson { Spacing::Poisson { seed } } else { Spacing::Even },
            fields,
            resolved: Once::default(),
        })
    }
}

fn parsed(grammar: &Grammar, fields: &Fields) -> Result<Parsed, Refused> {
    let rate = |key| grammar.get(fields, key, 0.0, rate_or_zero);
    let length = |key| {
        let length = grammar.get(fields, key, Length::default(), str::parse);
        length.map(|length| length.0)
    };
    let text = |key| fields.get(key).map(String::as_str).unwrap_or_default();
    let profile = match grammar.name {
        "steps" => RateProfile::Steps {
            steps: grammar.get(fields, "steps", Vec::new(), steps)?,
            repeat: grammar.get(fields, "repeat", false, flag)?,
        },
        "ramp" => RateProfile::ramp(rate("from")?, rate("to")?, length("over")?),
        "sine" => RateProfile::Sine { mean: rate("mean")?, amplitude: rate("amplitude")?, period: length("period")? },
        "burst" => RateProfile::bursts(rate("rate")?, length("on")?, rate("idle")?, length("off")?),
        "trace" => {
            let every = fields.contains_key("every").then(|| length("every"));
            return Ok(Parsed::Trace(text("file").into(), every.transpose()?));
        }
        _ => {
            let rate = Rate::per_second(rate("rate")?);
            let bad = || grammar.refuse(format!("rate: {:?} is not above 0", text("rate")));
            RateProfile::Constant(rate.ok_or_else(bad)?)
        }
    };
    Ok(Parsed::Profile(profile))
}

/// Reads the steps of a schedule: `1000@10s,100-5000@60s`.
fn steps(text: &str) -> Result<Vec<Step>, Refused> {
    text.split(',').map(|step| one_step(step.trim())).collect()
}

fn rate_or_zero(text: &str) -> Result<f64, String> {
    per_second(text).ok_or_else(|| format!("{text:?} is not a number of 0 or more, such as 2000, 2k or 10/min"))
}

fn one_step(text: &str) -> Result<Step, Refused> {
    let (rates, length) = text.split_once('@').ok_or_else(|| format!("{text:?} is not a rate and length"))?;
    let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
    Ok(Step { from: rate_or_zero(from)?, to: rate_or_zero(to)?, length: length.trim().parse::<Length>()?.0 })
}

impl FromStr for ScheduleSpec {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (name, fields) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let grammar = find("schedule", &GRAMMARS, name)?;
        Self::of(name, grammar.split(fields)?)
    }
}

/// Writes the schedule as on a command line.
impl fmt::Display for ScheduleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shape)?;
        for (i, (key, value)) in self.fields.iter().enumerate() {
            let before = if i == 0 { ':' } else { ',' };
            let bare = GRAMMARS.iter().any(|grammar| grammar.name == self.shape && grammar.bare == Some(key));
            if bare {
                write!(f, "{before}{value}")?;
            } else {
                write!(f, "{before}{key}={value}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for ScheduleSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(("shape", self.shape), &self.fields, serializer)
    }
}

impl<'de> Deserialize<'de> for ScheduleSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = match Written::deserialize(deserializer)? {
            Written::Value(value) => value.into_text().parse(),
            Written::Table(table) => {
                let mut fields: Fields = table.into_iter().map(|(key, value)| (key, value.into_text())).collect();
                match fields.remove("shape") {
                    Some(shape) => Self::of(&shape, fields),
                    None => Err(Refused::new("a schedule needs a shape", "add one, such as shape = \"ramp\"")),
                }
            }
        };
        spec.map_err(Refused::into_error)
    }
}
