//! Secrets that an experiment's file leaves out, and `***`, which is shown in place of one and is no value.

use measure::{Problem, Refused};
use serde::Deserialize as _;
use toml::Value;
use web::redact::{self, BLOT};

use super::Experiment;

/// An experiment as a file. Where the shown one hides a value, the key is left out, and a comment names it.
pub(super) fn file(all: &Experiment, shown: &Experiment) -> String {
    let (Ok(all), Ok(mut shown)) = (Value::try_from(all), Value::try_from(shown)) else { return String::new() };
    let mut keys = Vec::new();
    leave_out(&mut shown, Some(&all), "", &mut keys);
    let text = match Experiment::deserialize(shown.clone()) {
        // In the order of the keys' list.
        Ok(experiment) => toml::to_string(&experiment),
        // A key that has to be there is left out.
        Err(_) => toml::to_string(&shown),
    };
    let text = text.unwrap_or_default();
    let secrets = match keys.as_slice() {
        [] => return text,
        [_] => "since it is a secret",
        _ => "since they are secrets",
    };
    // A key may have any letters, and a comment is one line.
    let keys = keys.join(", ");
    format!("# left out, {secrets}: {}\n{text}", keys.escape_debug())
}

/// Takes the values out that are hidden, and notes their keys; whether this is one.
fn leave_out(shown: &mut Value, all: Option<&Value>, path: &str, keys: &mut Vec<String>) -> bool {
    match shown {
        Value::Table(table) => {
            table.retain(|key, value| {
                let all = all.and_then(|it| it.get(key));
                !leave_out(value, all, &below(path, key), keys)
            });
            false
        }
        Value::Array(items) if items.iter().all(Value::is_table) => {
            for (index, item) in items.iter_mut().enumerate() {
                let all = all.and_then(|it| it.get(index));
                leave_out(item, all, &below(path, index), keys);
            }
            false
        }
        value => {
            // Of the type `Secret`, which is written as `***`; a file's own `***` is refused.
            let is_stand_in = stand_in(value, path).is_some();
            let (shown, all) = (value.to_string(), all.map(ToString::to_string));
            let all = all.unwrap_or_default();
            let is_hidden = shown.contains(BLOT) && (shown != all || is_stand_in);
            if is_hidden {
                keys.push(path.to_owned());
            } else if redact::urls(&all) != all && redact::urls(&shown) == shown {
                keys.push(format!("the password in {path}"));
            }
            is_hidden
        }
    }
}

pub(super) fn below(path: &str, key: impl std::fmt::Display) -> String {
    match path {
        "" => key.to_string(),
        path => format!("{path}.{key}"),
    }
}

/// The refusal of `***`.
pub(super) fn refused() -> Refused {
    let help = "write the secret itself, or leave the key out";
    Refused::new(format!("{BLOT} is shown in place of a secret, and is none"), help)
}

/// The refusal of the first `***` in a file.
pub(super) fn stand_in_of_file(text: &str) -> Option<Problem> {
    let table = toml::from_str::<toml::Table>(text).ok()?;
    let path = stand_in(&Value::Table(table), "")?;
    let Refused { what, help } = refused();
    Some(Problem::new(what, "", help).about(path))
}

/// The path of the first value within that was shown in place of a secret, alone or as the login of a URL. A name and
/// a description, which stand in no table, may be anything.
pub(super) fn stand_in(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Table(table) => table.iter().find_map(|(key, value)| stand_in(value, &below(path, key))),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| match item {
            Value::Table(_) => stand_in(item, &below(path, index)),
            _ => stand_in(item, path),
        }),
        Value::String(text) => {
            let is_login = text.contains("://***@") || text.contains(":***@");
            (path.contains('.') && (text == BLOT || is_login)).then(|| path.to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: &str = "[broker]\nkind = \"attach\"\nurl = \"amqp://me:s3cret@h:5673/v\"\n\
        password = \"s3cret\"\n[[load]]\nrate = 5\n[load.headers]\nx-token = \"s3cret\"\n\
        tenant = \"blue\"\n\"a\\nb-token\" = \"s3cret\"\n\
        [[probe]]\nurl = \"http://h:1/\"\n[probe.headers]\nx = \"s3cret\"\n\
        [[load]]\nkind = \"command\"\ncommand = [\"mysql\", \"--password\", \"s3cret\"]\n";

    /// It had `***` as their values, which a run of the file then sent.
    #[test]
    fn a_file_has_all_but_the_secrets_and_names_their_keys() {
        let printed = Experiment::from_toml(SECRETS, "x.toml").unwrap().to_toml();
        let (comment, rest) = printed.split_once('\n').unwrap();
        assert!(comment.starts_with("# left out, since they are secrets: "));
        let keys = ["broker.password", "the password in broker.url", "load.0.headers.x-token", "load.1.command"];
        testkit::assert_has(comment, keys);
        testkit::assert_has(comment, ["load.0.headers.a\\nb-token", "probe.0.headers.x"]);
        assert!(!rest.contains("***") && !printed.contains("s3cret"), "{printed}");
        let again = Experiment::from_toml(&printed, "again").unwrap();
        assert_eq!(again.broker.url.as_deref(), Some("amqp://me@h:5673/v"));
        assert_eq!(again.broker.password, None);
        assert_eq!(again.load[0].headers.len(), 1);
        let mut one = Experiment::built_in("demo").unwrap();
        one.description = "*** is no secret here".to_owned();
        assert!(one.to_toml().contains(&one.description));
        one.broker.env.insert("OWN".into(), "s3cret".into());
        let printed = one.to_toml();
        assert!(printed.starts_with("# left out, since it is a secret: broker.env.OWN\nname = "), "{printed}");
        // As an archive shows it, whatever the key is called.
        one.broker.env.insert("OWN".into(), BLOT.into());
        assert_eq!(one.to_toml(), printed);
    }

    #[test]
    fn what_is_shown_in_place_of_a_secret_is_refused() {
        for (text, place) in [
            ("[broker]\nkind = \"attach\"\npassword = \"***\"", "x.toml:3: password"),
            ("[broker.env]\nOWN = \"***\"", "x.toml:2: OWN"),
            ("[[load]]\n[load.headers]\nx-token = \"***\"", "x.toml:3: x-token"),
            ("[broker]\nkind = \"attach\"\nmanagement = \"http://***@h:1\"", "x.toml:3"),
            ("[[load]]\nkind = \"command\"\ncommand = [\"mysql\", \"***\"]", "x.toml:3"),
        ] {
            let problem = Experiment::from_toml(text, "x.toml").expect_err(text).problem();
            assert!(problem.cause.starts_with(place), "{problem}");
            assert!(problem.cause.contains("in place of a secret"), "{problem}");
            assert!(problem.help.contains("leave the key out"), "{problem}");
        }
        let mut experiment = Experiment::from_toml("description = \"***\"", "x.toml").unwrap();
        let refused = experiment.set("broker.password=***").expect_err("a stand-in");
        assert!(refused.to_string().contains("in place of a secret"), "{refused}");
        experiment.set("broker.password=****").expect("a password");
        experiment.set("broker.kind=attach").expect("the secret is kept");
    }
}
