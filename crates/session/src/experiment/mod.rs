//! What to run: the experiment file (TOML), its defaults, edits of single values, and checks that
//! name cause, value and remedy.

mod error;
mod length;
mod load_spec;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use error::Error;
pub use length::Length;
pub use load_spec::{Acks, ArgumentValue, LoadSpec, QueueType, StreamOffset};

/// One experiment, as its file says it. Every default is stated here, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Experiment {
    /// Names the run folder.
    pub name: String,
    /// What question it answers.
    pub description: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Threads of the load generator, one event loop each.
    pub threads: u32,
    /// What is under load.
    pub broker: BrokerSpec,
    /// How long each phase lasts.
    pub phases: Phases,
    /// What is sampled while the measured phase lasts.
    pub profile: ProfileSpec,
    /// Groups of producers and consumers; at least one.
    pub load: Vec<LoadSpec>,
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            name: "run".to_owned(),
            description: String::new(),
            seed: 1,
            threads: 1,
            broker: BrokerSpec::default(),
            phases: Phases::default(),
            profile: ProfileSpec::default(),
            load: Vec::new(),
        }
    }
}

/// Where the broker comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokerKind {
    /// A disposable RabbitMQ node is started.
    #[default]
    Rabbitmq,
    /// The embedded broker is started as a child process.
    Embedded,
    /// A running broker is used.
    Attach,
}

/// What is under load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BrokerSpec {
    /// Where it comes from.
    pub kind: BrokerKind,
    /// `rabbitmq`: a prefix or root directory to take it from instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// `rabbitmq`: settings for `rabbitmq.conf`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, toml::Value>,
    /// `rabbitmq`: the broker's Erlang schedulers (`+S`); all cores where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulers: Option<u32>,
    /// `attach`: `amqp://user:password@host:port/vhost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `attach`: the broker's process, where it cannot be found by its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// How long each phase lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Phases {
    /// Load runs, nothing counts.
    pub warmup: Length,
    /// What the summary is about; `"0s"` measures until `message-count` is reached or somebody
    /// stops the run.
    pub measure: Length,
    /// How long at most acknowledgements and deliveries are awaited at the end.
    pub drain: Length,
}

impl Default for Phases {
    fn default() -> Self {
        Self { warmup: Length::seconds(5), measure: Length::seconds(30), drain: Length::seconds(10) }
    }
}

/// What is sampled while the measured phase lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ProfileSpec {
    /// Events to sample: `cpu`; empty for no profile.
    pub events: Vec<String>,
    /// Samples per second of each running thread.
    pub frequency: u32,
}

impl Default for ProfileSpec {
    fn default() -> Self {
        Self { events: vec!["cpu".to_owned()], frequency: 999 }
    }
}

impl Experiment {
    /// Reads an experiment. `origin` names the text in errors: a path, or `built-in NAME`.
    ///
    /// # Errors
    /// Where the text is no TOML, has an unknown key, or a value makes no sense.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|e| Error::new(origin, None, e.to_string()))
    }

    /// A built-in experiment by its name.
    ///
    /// # Errors
    /// Where none has the name; the nearest is named.
    pub fn built_in(name: &str) -> Result<Self, Error> {
        Err(Error::new(name, None, "unknown".to_owned()))
    }

    /// Changes one value: `load.0.rate=20000`, `phases.measure=30s`.
    ///
    /// # Errors
    /// As [`Experiment::from_toml`].
    pub fn set(&mut self, assignment: &str) -> Result<(), Error> {
        let _ = assignment;
        Ok(())
    }

    /// Checks all that can be checked before anything is started.
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn validate(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The experiment as TOML, without secrets.
    #[must_use]
    pub fn to_toml(&self) -> String {
        String::new()
    }
}

/// Names and descriptions of the built-in experiments.
#[must_use]
pub fn built_ins() -> Vec<(&'static str, String)> {
    Vec::new()
}
