//! The keys of `rabbitmq.conf`, by the schemas that RabbitMQ and its plugins bring: a node takes seconds to refuse one
//! that it does not know.

use std::collections::BTreeMap;
use std::fs;

use super::super::BrokerError;
use super::install::Installation;

/// A schema has thousands of lines, and not millions.
const MOST_BYTES: u64 = 4 << 20;

/// Refuses settings that no schema of the installation knows. Where its plugins are packed, nothing is known.
pub(super) fn check(
    installation: &Installation,
    settings: &BTreeMap<String, String>,
) -> Result<(), BrokerError> {
    let known = if settings.is_empty() {
        Vec::new()
    } else {
        keys(installation)
    };
    let unknown = settings
        .keys()
        .find(|key| !known.iter().any(|it| is_meant(it, key)));
    let Some(unknown) = unknown.filter(|_| !known.is_empty()) else {
        return Ok(());
    };
    let alike = |key: &&String| (strsim::jaro_winkler(key, unknown) * 1e6) as u64;
    let nearest = known.iter().max_by_key(alike).map_or("", String::as_str);
    Err(BrokerError::config(
        format!(
            "broker.config: RabbitMQ {} has no such key",
            installation.version
        ),
        format!("unknown key {unknown:?}"),
        format!("the nearest one that it has is {nearest:?}"),
    ))
}

/// The keys of all schemas; none where one of them cannot be read.
fn keys(installation: &Installation) -> Vec<String> {
    let mut keys = Vec::new();
    for plugin in fs::read_dir(&installation.plugins)
        .into_iter()
        .flatten()
        .flatten()
    {
        if plugin.path().extension().is_some_and(|it| it == "ez") {
            return Vec::new();
        }
        let schemas = fs::read_dir(plugin.path().join("priv/schema"));
        for schema in schemas.into_iter().flatten().flatten() {
            let path = schema.path();
            if path.extension().is_none_or(|it| it != "schema") {
                continue;
            }
            let small = fs::metadata(&path).is_ok_and(|file| file.len() <= MOST_BYTES);
            match fs::read(&path) {
                Ok(text) if small => keys.extend(mapped(&String::from_utf8_lossy(&text))),
                _ => return Vec::new(),
            }
        }
    }
    keys
}

/// The keys of a schema's mappings: `{mapping, "listeners.tcp.$name", …`.
fn mapped(schema: &str) -> impl Iterator<Item = String> {
    let mappings = schema.split("{mapping,").skip(1);
    mappings.filter_map(|text| {
        let (key, _) = text.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(key.to_owned())
    })
}

/// Whether a schema's key, in which `$name` stands for any word, means this one.
fn is_meant(known: &str, key: &str) -> bool {
    let (mut known, mut key) = (known.split('.'), key.split('.'));
    loop {
        match (known.next(), key.next()) {
            (None, None) => return true,
            (Some(known), Some(word)) if known == word || known.starts_with('$') => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_schemas_mappings() {
        let schema = "%% {datatype}\n{mapping, \"a.b\", \"rabbit.b\", [{datatype, integer}]}.\n\
                      {mapping,\n  \"listeners.tcp.$name\", \"x\"}.\n{translation, \"rabbit.y\"}. {mapping, cut";
        let keys: Vec<String> = mapped(schema).collect();
        assert_eq!(keys, ["a.b", "listeners.tcp.$name"]);
        let meant = |key| keys.iter().any(|known| is_meant(known, key));
        assert!(meant("a.b") && meant("listeners.tcp.default"));
        assert!(!meant("a") && !meant("a.b.c") && !meant("listeners.tcp") && !meant(""));
    }

    #[test]
    fn a_key_that_the_installed_rabbitmq_does_not_know_is_refused_with_the_nearest() {
        let Ok(installation) = Installation::find(None) else {
            testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
        };
        let with = |key: &str| BTreeMap::from([(key.to_owned(), "1".to_owned())]);
        for key in [
            "channel_max",
            "vm_memory_high_watermark.relative",
            "log.file.level",
        ] {
            assert!(check(&installation, &with(key)).is_ok(), "{key}");
        }
        if keys(&installation).is_empty() {
            testkit::skip!("its plugins are packed");
        }
        let problem = check(&installation, &with("chanel_max"))
            .unwrap_err()
            .problem();
        assert!(problem.value.contains("chanel_max"), "{problem:?}");
        assert!(problem.help.contains("\"channel_max\""), "{problem:?}");
    }
}
