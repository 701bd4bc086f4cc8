//! Imports into a node before the load: its policies, and a file of definitions.

use std::fs;

use measure::Problem;
use serde_json::Value;

use super::super::BrokerError;
use super::install::PRODUCT;
use experiment::BrokerSpec;
use web::definitions::Definitions;

/// The first release without classic mirrored queues, which refuses their policies.
const WITHOUT_MIRRORS: u32 = 4;

/// Definitions to import into a RabbitMQ of this version, in this order, and their names.
pub(super) fn definitions_to_import(
    spec: &BrokerSpec,
    version: &str,
) -> Result<Vec<(String, Vec<u8>)>, BrokerError> {
    let check = |text: &[u8], name: &str| {
        let definitions = Definitions::parse(text, name)?;
        refuse_mirrors(&definitions, version, name)
    };
    let mut all = Vec::new();
    // Queues of the file have their policies from the beginning.
    if !spec.policy.is_empty() {
        let policies = spec.policy.iter().enumerate().map(|(number, policy)| {
            serde_json::json!({
                "vhost": "/", "name": format!("bellows-{number}"), "pattern": policy.pattern,
                "apply-to": policy.apply_to.as_deref().unwrap_or("queues"),
                "priority": policy.priority.unwrap_or(0), "definition": policy.definition,
            })
        });
        let policies: Vec<_> = policies.collect();
        let text = serde_json::json!({ "policies": policies }).to_string();
        check(text.as_bytes(), "broker.policy").map_err(BrokerError::Config)?;
        all.push(("policies".to_owned(), text.into_bytes()));
    }
    if let Some(file) = &spec.definitions {
        let text = fs::read(file).map_err(BrokerError::io("read", file))?;
        let name = file.display().to_string();
        check(&text, &name).map_err(BrokerError::Config)?;
        all.push((name, text));
    }
    Ok(all)
}

/// Refuses policies of classic mirrored queues where RabbitMQ has none: it would refuse all that is imported with them.
fn refuse_mirrors(definitions: &Definitions, version: &str, name: &str) -> Result<(), Problem> {
    let major: Option<u32> = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_none_or(|major| major < WITHOUT_MIRRORS) {
        return Ok(());
    }
    let policies = definitions
        .in_order()
        .filter(|(section, _)| *section == "policies")
        .flat_map(|(_, policies)| policies);
    for policy in policies {
        let keys = policy.get("definition").and_then(Value::as_object);
        let mut keys = keys.into_iter().flat_map(|it| it.keys());
        if let Some(key) = keys.find(|key| key.starts_with("ha-")) {
            let pattern = policy.get("pattern").unwrap_or(&Value::Null);
            return Err(Problem::new(
                format!("{PRODUCT} {version} has no classic mirrored queues"),
                format!("{name}: {key} in the policy for {pattern}"),
                "leave the ha-* keys out and take quorum queues (queue-type = \"quorum\"), or name a RabbitMQ before \
                 4.0 with broker.root",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::Experiment;

    #[test]
    fn policies_of_mirrored_queues_are_refused_from_4_0_on() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("exported.json");
        let policy = "{\"vhost\": \"/\", \"name\": \"m\", \"pattern\": \"^m\", \"definition\": {\"ha-params\": 2}}";
        fs::write(&file, format!("{{\"policies\": [{policy}]}}")).unwrap();
        let in_file = format!("[broker]\ndefinitions = {file:?}");
        let written = "[broker]\n[[broker.policy]]\npattern = \"^m\"\ndefinition = { max-length = 1, ha-mode = \"all\" }";
        for (text, name, key) in [
            (in_file.as_str(), "exported.json", "ha-params"),
            (written, "broker.policy", "ha-mode"),
        ] {
            let spec = Experiment::from_toml(text, "test").unwrap().broker;
            assert_eq!(definitions_to_import(&spec, "3.13.7").unwrap().len(), 1);
            // A version that is none is the broker's matter.
            assert_eq!(definitions_to_import(&spec, "odd").unwrap().len(), 1);
            for version in ["4.0.5", "4", "10.1"] {
                let error = definitions_to_import(&spec, version).unwrap_err().problem();
                assert!(
                    error.cause.contains(&format!("RabbitMQ {version} ")),
                    "{error:?}"
                );
                assert!(
                    error.value.contains(name) && error.value.contains(key),
                    "{error:?}"
                );
                assert!(
                    error.value.contains("^m") && error.help.contains("quorum"),
                    "{error:?}"
                );
            }
        }
        let others =
            "[broker]\n[[broker.policy]]\npattern = \"^ha-\"\ndefinition = { max-length = 1 }";
        let spec = Experiment::from_toml(others, "test").unwrap().broker;
        assert_eq!(definitions_to_import(&spec, "4.0.5").unwrap().len(), 1);
    }

    #[test]
    fn policies_are_written_as_rabbitmq_reads_them() {
        let text = "[broker]\n[[broker.policy]]\npattern = \"^ha\\\\.\"\ndefinition = { ha-mode = \"all\", max-length = 10 }";
        let experiment = Experiment::from_toml(text, "test").unwrap();
        let [(what, json)] = &definitions_to_import(&experiment.broker, "3.10.8").unwrap()[..]
        else {
            panic!("one import");
        };
        assert_eq!(what, "policies");
        let json: Value = serde_json::from_slice(json).unwrap();
        let policy = &json["policies"][0];
        assert_eq!(policy["pattern"], "^ha\\.");
        assert_eq!(policy["apply-to"], "queues");
        assert_eq!(policy["definition"]["ha-mode"], "all");
        assert_eq!(policy["definition"]["max-length"], 10);
    }
}
