//! What is done to the broker while the load runs.

use serde::{Deserialize, Serialize};

use super::{BrokerKind, Experiment, Length};

/// One fault of a managed broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultSpec {
    /// When, from the beginning of the measured phase on.
    pub at: Length,
    /// What.
    pub kind: FaultKind,
    /// How long the broker is away; a killed one is started again then.
    #[serde(rename = "for")]
    pub length: Length,
}

/// What is done to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It hangs (SIGSTOP), and goes on where it was (SIGCONT).
    Stop,
    /// It crashes (SIGKILL), and is started again with the same data.
    Kill,
}

impl FaultKind {
    /// As the file writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
        }
    }
}

impl Experiment {
    /// What is wrong with the faults, with the remedy.
    pub(super) fn fault_problem(&self) -> Option<String> {
        if self.fault.is_empty() {
            return None;
        }
        if self.broker.kind != BrokerKind::Rabbitmq {
            return Some(format!(
                "fault: a broker of kind {:?} cannot be stopped or killed; take broker.kind = \
                 \"rabbitmq\"",
                self.broker.kind.name()
            ));
        }
        let mut free_from = Length::default();
        for (i, fault) in self.fault.iter().enumerate() {
            let end = Length(fault.at.0 + fault.length.0);
            if fault.length.is_zero() {
                return Some(format!("fault.{i}.for is 0s; write for = \"2s\""));
            }
            if fault.at < free_from {
                return Some(format!(
                    "fault.{i}.at = {} comes before the fault before it has ended, at {free_from}; \
                     write them in the order of time",
                    fault.at
                ));
            }
            if !self.phases.measure.is_zero() && end > self.phases.measure {
                return Some(format!(
                    "fault.{i} ends {end} after the beginning of the measured phase, which is only \
                     {} long; use a longer phases.measure",
                    self.phases.measure
                ));
            }
            free_from = end;
        }
        let kills = self.fault.iter().any(|it| it.kind == FaultKind::Kill);
        let at = self.load.iter().position(|load| load.recover.is_none())?;
        kills.then(|| {
            format!(
                "fault: a killed broker takes the connections with it, and load.{at} would end; \
                 add recover = \"200ms-500ms\" to it"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(faults: &str, recover: &str) -> String {
        let text = format!(
            "[phases]\nmeasure = \"20s\"\n{faults}\n[[load]]\ndestination = \"queue://q\"\n{recover}"
        );
        let experiment = Experiment::from_toml(&text, "test").unwrap();
        experiment
            .validate()
            .map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn faults_that_cannot_be_played_are_refused_with_the_remedy() {
        let fault = |at: &str, kind: &str, length: &str| {
            format!("[[fault]]\nat = \"{at}\"\nkind = \"{kind}\"\nfor = \"{length}\"\n")
        };
        let stop = fault("5s", "stop", "2s");
        let recover = "recover = \"1s\"";
        assert_eq!(problem(&stop, ""), "");
        assert_eq!(problem(&fault("5s", "kill", "2s"), recover), "");
        let refused = |faults: &str, part: &str| {
            let text = problem(faults, "");
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        };
        refused(&fault("5s", "kill", "2s"), "add recover = ");
        refused(&fault("19s", "stop", "2s"), "which is only 20s long");
        refused(&fault("5s", "stop", "0s"), "fault.0.for is 0s");
        refused(
            &(stop.clone() + &fault("6s", "stop", "1s")),
            "fault.1.at = 6s",
        );
        refused(
            &format!("[broker]\nkind = \"embedded\"\n{stop}"),
            "kind = \"rabbitmq\"",
        );
    }
}
