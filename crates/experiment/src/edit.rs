//! Changing one value of an experiment by its dotted path, with the same checks as the file's.

use measure::Refused;
use serde::Deserialize;
use toml::Value;

use super::error::explained;
use super::flat_table::ReplaceAt;
use super::{Experiment, ExperimentError, left_out};

/// The experiment with `path=value` applied, which this option was given.
pub(super) fn edited(experiment: &Experiment, option: &str, assignment: &str) -> Result<Experiment, ExperimentError> {
    let shown = web::redact::assignment(assignment);
    let fail = |refused: Refused| ExperimentError::of_edit(option, &shown, refused);
    let no_path = |what| fail(Refused::new(what, "write --set load.0.rate=20000"));
    let Some((path, value)) = assignment.split_once('=') else { return Err(no_path("it has no value")) };
    let parts: Vec<&str> = path.trim().split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(no_path("a part of the path is empty"));
    }
    let root = Value::try_from(experiment).map_err(|e| fail(e.to_string().into()))?;
    let text = value.trim();
    let value = read_value(text);
    if left_out::stand_in(&value, &parts.join(".")).is_some() {
        return Err(fail(left_out::refused()));
    }
    let read_with = |value: Value| -> Result<Experiment, Refused> {
        let mut root = root.clone();
        replace(&mut root, &parts, value)?;
        Experiment::deserialize(root).map_err(|e| explained(e.message()))
    };
    // A password, a name or a variable may be a number, which its type takes as text.
    let is_plain = matches!(value, Value::Integer(_) | Value::Float(_) | Value::Boolean(_));
    let as_text = || is_plain.then(|| read_with(Value::String(text.to_owned())).ok()).flatten();
    let read = read_with(value).or_else(|refused| as_text().ok_or(refused)).map_err(fail)?;
    let mut edited = experiment.clone();
    // What is beside the path stays as it is: secrets were not written, and some have no key.
    edited.replace_at(&parts, read);
    drop_other_arrivals(&mut edited, &parts);
    let origin = experiment.origin.clone();
    edited.origin = origin.changed(&parts.join("."), option, shown);
    edited.settle_broker();
    Ok(edited)
}

/// Keeps only the last set of a group's rate, schedule and think time.
fn drop_other_arrivals(experiment: &mut Experiment, path: &[&str]) {
    let ["load", index, key @ ("rate" | "schedule" | "think-time"), ..] = path else { return };
    let index = index.parse().unwrap_or(usize::MAX);
    let Some(group) = experiment.load.get_mut(index) else { return };
    if *key != "rate" {
        group.rate = None;
    }
    if *key != "schedule" {
        group.schedule = None;
    }
    if *key != "think-time" {
        group.think_time = None;
    }
}

/// TOML where it is TOML (`20000`, `true`, `["cpu"]`, `"text"`), text otherwise (`30s`, a time).
fn read_value(text: &str) -> Value {
    toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .filter(|value| !value.is_datetime())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Puts `new` at the end of the path, with keys that are not there yet; whether they may be, the types check.
fn replace(at: &mut Value, path: &[&str], new: Value) -> Result<(), Refused> {
    let [first, rest @ ..] = path else {
        *at = new;
        return Ok(());
    };
    match at {
        Value::Table(table) => {
            let is_in_list = rest.len() > 1 && rest[0].parse::<usize>().is_ok();
            if is_in_list && !table.contains_key(*first) {
                let what = format!("there is no {first}.{}: the experiment has no {first}", rest[0]);
                let help = format!("write a whole one, as in --set '{first}=[{{ key = \"value\" }}]'");
                return Err(Refused::new(what, help));
            }
            let missing = || Value::Table(toml::Table::new());
            replace(table.entry((*first).to_owned()).or_insert_with(missing), rest, new)
        }
        Value::Array(items) => {
            let count = items.len();
            let index = first.parse::<usize>().map_err(|_| {
                Refused::new(format!("{first:?} is not the number of a list entry"), "write it as in load.0.rate")
            })?;
            let item = items.get_mut(index).ok_or_else(|| {
                Refused::new(format!("there is no entry {index}: the list has {count}"), "count from 0")
            })?;
            replace(item, rest, new)
        }
        _ => Err(format!("{first:?} is below a plain value").into()),
    }
}
