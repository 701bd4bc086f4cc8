//! The experiments that come with bellows: the files of `experiments/`, embedded.

use measure::Problem;

use super::error::unknown_name;
use super::{Experiment, ExperimentError};

const FILES: [(&str, &str); 17] = [
    ("demo", include_str!("../../../experiments/demo.toml")),
    (
        "stream-publish",
        include_str!("../../../experiments/stream-publish.toml"),
    ),
    (
        "stream-consume",
        include_str!("../../../experiments/stream-consume.toml"),
    ),
    (
        "classic-in-out",
        include_str!("../../../experiments/classic-in-out.toml"),
    ),
    (
        "quorum-publish",
        include_str!("../../../experiments/quorum-publish.toml"),
    ),
    ("crash", include_str!("../../../experiments/crash.toml")),
    (
        "cluster-kill",
        include_str!("../../../experiments/cluster-kill.toml"),
    ),
    (
        "connection-churn",
        include_str!("../../../experiments/connection-churn.toml"),
    ),
    (
        "churn-beside",
        include_str!("../../../experiments/churn-beside.toml"),
    ),
    (
        "mgmt-api",
        include_str!("../../../experiments/mgmt-api.toml"),
    ),
    (
        "scrape-storm",
        include_str!("../../../experiments/scrape-storm.toml"),
    ),
    ("rated", include_str!("../../../experiments/rated.toml")),
    (
        "artemis-one-to-one",
        include_str!("../../../experiments/artemis-one-to-one.toml"),
    ),
    (
        "artemis-rated",
        include_str!("../../../experiments/artemis-rated.toml"),
    ),
    (
        "artemis-durable-topics",
        include_str!("../../../experiments/artemis-durable-topics.toml"),
    ),
    (
        "artemis-perf",
        include_str!("../../../experiments/artemis-perf.toml"),
    ),
    (
        "embedded",
        include_str!("../../../experiments/embedded.toml"),
    ),
];

/// A built-in experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// What `bellows run` takes.
    pub name: &'static str,
    /// The file, with its comments: a start for one's own.
    pub text: &'static str,
}

impl BuiltIn {
    /// What question it answers.
    #[must_use]
    pub fn description(&self) -> String {
        find(self.name)
            .map(|experiment| experiment.description)
            .unwrap_or_default()
    }
}

/// The built-in experiments.
#[must_use]
pub fn built_ins() -> Vec<BuiltIn> {
    FILES
        .iter()
        .map(|(name, text)| BuiltIn { name, text })
        .collect()
}

pub(super) fn find(name: &str) -> Result<Experiment, ExperimentError> {
    let Some((known, text)) = FILES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        let unknown = unknown_name("experiment", name, &known);
        let hint = "an experiment of your own is a file whose name ends in .toml";
        let help = format!("{} ({hint})", unknown.help);
        return Err(ExperimentError::new(Problem::new(unknown.what, name, help)));
    };
    Experiment::from_toml(text, &format!("built-in {known}"))
}
