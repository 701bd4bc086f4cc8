//! The experiments that come with bellows: the files of `experiments/`, embedded.

use measure::Problem;

use super::error::unknown_name;
use super::{Experiment, ExperimentError};

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../experiments/", $name, ".toml")))),*]
    };
}

const FILES: [(&str, &str); 22] = files! {
    "demo" "stream-publish" "stream-consume" "classic-in-out" "quorum-publish" "crash"
    "cluster-kill" "connection-churn" "churn-beside" "mgmt-api" "scrape-storm" "rated"
    "matched" "artemis-one-to-one" "artemis-rated" "artemis-durable-topics" "artemis-perf" "embedded"
    "mqtt-fan-in" "mqtt-fan-out" "mqtt-shared" "mqtt-10000-connections"
};

/// A built-in experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// The argument of `bellows run`.
    pub name: &'static str,
    /// The file with its comments, as a template.
    pub text: &'static str,
}

impl BuiltIn {
    /// The question that the experiment answers.
    pub fn description(&self) -> String {
        find(self.name).map(|experiment| experiment.description).unwrap_or_default()
    }
}

/// The built-in experiments.
pub fn built_ins() -> Vec<BuiltIn> {
    FILES.iter().map(|(name, text)| BuiltIn { name, text }).collect()
}

pub(super) fn find(name: &str) -> Result<Experiment, ExperimentError> {
    let Some((known, text)) = FILES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        let unknown = unknown_name("experiment", name, &known);
        let hint = "an experiment of your own is a file whose name ends in .toml";
        return Err(ExperimentError::new(Problem::new(unknown.what, name, format!("{} ({hint})", unknown.help))));
    };
    Experiment::from_toml(text, &format!("built-in {known}"))
}
