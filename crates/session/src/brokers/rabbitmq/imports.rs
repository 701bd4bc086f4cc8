//! What is imported into a node before the load: its policies, and a file of definitions.

use std::fs;

use super::super::BrokerError;
use crate::definitions::Definitions;
use crate::experiment::BrokerSpec;

/// What is imported, in this order, and what it is called.
pub(super) fn definitions_to_import(
    spec: &BrokerSpec,
) -> Result<Vec<(String, Vec<u8>)>, BrokerError> {
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
        all.push(("policies".to_owned(), text.into_bytes()));
    }
    if let Some(file) = &spec.definitions {
        let text = fs::read(file).map_err(BrokerError::io("read", file))?;
        let name = file.display().to_string();
        Definitions::parse(&text, &name).map_err(BrokerError::Config)?;
        all.push((name, text));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    #[test]
    fn policies_are_written_as_rabbitmq_reads_them() {
        let text = "[broker]\n[[broker.policy]]\npattern = \"^ha\\\\.\"\ndefinition = { ha-mode = \"all\", max-length = 10 }";
        let experiment = Experiment::from_toml(text, "test").unwrap();
        let [(what, json)] = &definitions_to_import(&experiment.broker).unwrap()[..] else {
            panic!("one import");
        };
        assert_eq!(what, "policies");
        let json: serde_json::Value = serde_json::from_slice(json).unwrap();
        let policy = &json["policies"][0];
        assert_eq!(policy["pattern"], "^ha\\.");
        assert_eq!(policy["apply-to"], "queues");
        assert_eq!(policy["definition"]["ha-mode"], "all");
        assert_eq!(policy["definition"]["max-length"], 10);
    }
}
