//! What is done to the broker while the load runs, and what the embedded one does by itself.

use measure::Length;
use serde::{Deserialize, Serialize};

use super::validate::problem_of;
use super::{BrokerKind, Experiment, ExperimentError, Origin};

/// One fault of a managed broker, or of the embedded one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultSpec {
    /// When, from the beginning of the measured phase on; for `bellows broker`, from the first
    /// client's connection on. Absent: as long as there is a broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Length>,
    /// What is done.
    pub kind: FaultKind,
    /// How long; a killed broker is started again then. Absent: to the end.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// Hit every n-th message (delivery, confirm, login).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Hit each with this probability, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Of the probability; the same seed hits the same ones. 1 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Hit so many at most, messages or connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// `slow-ack`: how long after its message a confirm leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
    /// `duplicate`: whether the second delivery has the redelivered flag. No where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redelivered: Option<bool>,
    /// `reorder`: how many later deliveries go first. 1 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<u32>,
    /// `corrupt`: which byte of the body. Any where absent. `cut`: how many bytes of what follows
    /// still go out, 1 or more. A random number up to 64 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte: Option<usize>,
    /// `drop`: whether `connection.close` comes first. Yes where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<bool>,
    /// `drop`, `reset`, `close-channel`, `cut`: whose connections. All where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<FaultWho>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// `rabbitmq`: it hangs (SIGSTOP), and goes on where it was (SIGCONT).
    Stop,
    /// `rabbitmq`: it crashes (SIGKILL), and is started again with the same data.
    Kill,
    /// It stands still: reads, writes and accepts nothing.
    Stall,
    /// Confirms leave a fixed time after their message came.
    SlowAck,
    /// Connections are closed.
    Drop,
    /// Connections end by a TCP reset.
    Reset,
    /// Deliveries are thrown away.
    Lose,
    /// Deliveries are sent twice.
    Duplicate,
    /// Deliveries are held back until later ones have gone.
    Reorder,
    /// A bit of a delivery's body is turned over.
    Corrupt,
    /// Messages are refused with `basic.nack`.
    Nack,
    /// Channels are closed.
    CloseChannel,
    /// Publishers are blocked, with `connection.blocked`.
    Block,
    /// Connections end in the middle of a frame.
    Cut,
    /// Logins are refused.
    RefuseLogin,
}

/// Whose connections a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultWho {
    /// Those of all clients.
    All,
    /// Those that have published.
    Producers,
    /// Those that consume.
    Consumers,
}

/// What a kind of fault does to whom, and so which keys it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// A process of the system.
    Process,
    /// The whole broker, for a time.
    Broker,
    /// Connections, at one moment.
    Connections,
    /// Messages, confirms or logins.
    Messages,
}

impl FaultKind {
    /// As the file writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Stall => "stall",
            Self::SlowAck => "slow-ack",
            Self::Drop => "drop",
            Self::Reset => "reset",
            Self::Lose => "lose",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Corrupt => "corrupt",
            Self::Nack => "nack",
            Self::CloseChannel => "close-channel",
            Self::Block => "block",
            Self::Cut => "cut",
            Self::RefuseLogin => "refuse-login",
        }
    }

    const fn reach(self) -> Reach {
        match self {
            Self::Stop | Self::Kill => Reach::Process,
            Self::Stall | Self::Block => Reach::Broker,
            Self::Drop | Self::Reset | Self::CloseChannel | Self::Cut => Reach::Connections,
            Self::SlowAck
            | Self::Lose
            | Self::Duplicate
            | Self::Reorder
            | Self::Corrupt
            | Self::Nack
            | Self::RefuseLogin => Reach::Messages,
        }
    }

    /// Whether the broker or its connections are away for a time, so that their return is watched.
    #[must_use]
    pub const fn is_outage(self) -> bool {
        !matches!(self.reach(), Reach::Messages)
    }

    /// Whether clients lose connections that they have to re-establish.
    const fn ends_connections(self) -> bool {
        matches!(
            self,
            Self::Kill | Self::Drop | Self::Reset | Self::CloseChannel | Self::Cut
        )
    }
}

impl FaultSpec {
    /// What is wrong with it, with the remedy; `place` is how the file calls it.
    fn problem(&self, place: &str) -> Option<String> {
        let kind = self.kind.name();
        let reach = self.kind.reach();
        self.misplaced()
            .map(|key| {
                format!("{place}.{key} has no effect on kind = {kind:?}; leave it out")
            })
            .or_else(|| {
                let needed = [
                    ("at", "\"5s\"", self.at.is_none() && reach != Reach::Messages),
                    (
                        "for",
                        "\"2s\"",
                        self.length.is_none() && matches!(reach, Reach::Process | Reach::Broker),
                    ),
                    (
                        "delay",
                        "\"1ms\"",
                        self.delay.is_none() && self.kind == FaultKind::SlowAck,
                    ),
                ];
                let (key, example, _) = needed.into_iter().find(|(_, _, missing)| *missing)?;
                Some(format!(
                    "{place}.{key} is missing, and kind = {kind:?} needs it; write {key} = {example}"
                ))
            })
            .or_else(|| self.wrong_number(place))
    }

    /// A key that means nothing to this kind of fault.
    fn misplaced(&self) -> Option<&'static str> {
        let (kind, reach) = (self.kind, self.kind.reach());
        let of_messages = reach == Reach::Messages;
        let of_connections = reach == Reach::Connections;
        let keys = [
            ("for", self.length.is_some(), !of_connections),
            ("every", self.every.is_some(), of_messages),
            ("probability", self.probability.is_some(), of_messages),
            ("seed", self.seed.is_some(), of_messages),
            ("count", self.count.is_some(), of_messages || of_connections),
            ("delay", self.delay.is_some(), kind == FaultKind::SlowAck),
            (
                "redelivered",
                self.redelivered.is_some(),
                kind == FaultKind::Duplicate,
            ),
            ("by", self.by.is_some(), kind == FaultKind::Reorder),
            (
                "byte",
                self.byte.is_some(),
                matches!(kind, FaultKind::Corrupt | FaultKind::Cut),
            ),
            ("close", self.close.is_some(), kind == FaultKind::Drop),
            ("who", self.who.is_some(), of_connections),
        ];
        let wrong = |(_, set, fits): &(&str, bool, bool)| *set && !fits;
        keys.into_iter().find(wrong).map(|(key, ..)| key)
    }

    fn wrong_number(&self, place: &str) -> Option<String> {
        if self.length.is_some_and(Length::is_zero) {
            return Some(format!("{place}.for is 0s; write for = \"2s\""));
        }
        let zero = [
            ("every", self.every == Some(0)),
            ("count", self.count == Some(0)),
            ("by", self.by == Some(0)),
            ("byte", self.byte == Some(0) && self.kind == FaultKind::Cut),
        ];
        if let Some((key, _)) = zero.into_iter().find(|(_, zero)| *zero) {
            return Some(format!("{place}.{key} = 0 hits nothing; take 1 or more"));
        }
        if self.every.is_some() && self.probability.is_some() {
            return Some(format!(
                "{place} has both every and probability; leave one of them out"
            ));
        }
        if self.seed.is_some() && self.probability.is_none() {
            return Some(format!(
                "{place}.seed has no effect without a probability; add probability = 0.01"
            ));
        }
        let probability = self
            .probability
            .filter(|chance| !(*chance > 0.0 && *chance <= 1.0))?;
        Some(format!(
            "{place}.probability = {probability} is not above 0 and at most 1; 0.01 hits every \
             hundredth on average"
        ))
    }
}

/// A file of faults for the embedded broker.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    #[serde(default)]
    fault: Vec<FaultSpec>,
}

/// Reads the `[[fault]]` entries of a script for the embedded broker. `origin` names the text in
/// errors.
///
/// # Errors
/// Where it is no TOML, has an unknown key, or a fault that makes no sense.
pub fn read_faults(text: &str, origin: &str) -> Result<Vec<FaultSpec>, ExperimentError> {
    let file: FaultFile =
        toml::from_str(text).map_err(|e| ExperimentError::from_toml(origin, text, &e))?;
    match problem_of_embedded(&file.fault) {
        Some(problem) => Err(ExperimentError::new(
            Origin::file(origin, text).explain(problem_of(&problem)),
        )),
        None => Ok(file.fault),
    }
}

/// The same entries as text.
#[must_use]
pub(crate) fn write_faults(faults: &[FaultSpec]) -> String {
    let fault = faults.to_vec();
    toml::to_string(&FaultFile { fault }).unwrap_or_default()
}

fn problem_of_embedded(faults: &[FaultSpec]) -> Option<String> {
    faults.iter().enumerate().find_map(|(i, fault)| {
        let place = format!("fault.{i}");
        if fault.kind.reach() == Reach::Process {
            return Some(format!(
                "{place}.kind: the embedded broker cannot be stopped or killed; take kind = \
                 \"stall\" or \"reset\", or broker.kind = \"rabbitmq\""
            ));
        }
        fault.problem(&place)
    })
}

impl Experiment {
    /// What is wrong with the faults, with the remedy.
    pub(super) fn fault_problem(&self) -> Option<String> {
        if self.fault.is_empty() {
            return None;
        }
        match self.broker.kind {
            BrokerKind::Rabbitmq => self.problem_of_managed(),
            BrokerKind::Embedded => problem_of_embedded(&self.fault),
            BrokerKind::Attach => Some(
                "fault: a broker that was not started for the run cannot be harmed; take \
                 broker.kind = \"rabbitmq\" or \"embedded\""
                    .to_owned(),
            ),
        }
        .or_else(|| self.fault_beyond_the_end())
        .or_else(|| self.fault_without_recovery())
    }

    fn problem_of_managed(&self) -> Option<String> {
        let mut free_from = Length::default();
        for (i, fault) in self.fault.iter().enumerate() {
            let place = format!("fault.{i}");
            if fault.kind.reach() != Reach::Process {
                return Some(format!(
                    "{place}.kind = {:?} is a fault of the embedded broker; take kind = \"stop\" \
                     or \"kill\", or broker.kind = \"embedded\"",
                    fault.kind.name()
                ));
            }
            if let Some(problem) = fault.problem(&place) {
                return Some(problem);
            }
            let at = fault.at.unwrap_or_default();
            if at < free_from {
                return Some(format!(
                    "{place}.at = {at} comes before the fault before it has ended, at {free_from}; \
                     write them in the order of time"
                ));
            }
            free_from = Length(at.0 + fault.length.unwrap_or_default().0);
        }
        None
    }

    fn fault_beyond_the_end(&self) -> Option<String> {
        let measure = self.phases.measure;
        if measure.is_zero() {
            return None;
        }
        self.fault.iter().enumerate().find_map(|(i, fault)| {
            let length = fault.length.filter(|_| fault.kind.is_outage());
            let end = Length(fault.at.unwrap_or_default().0 + length.unwrap_or_default().0);
            (end > measure).then(|| {
                format!(
                    "fault.{i} ends {end} after the beginning of the measured phase, which is only \
                     {measure} long; use a longer phases.measure"
                )
            })
        })
    }

    fn fault_without_recovery(&self) -> Option<String> {
        let fault = self.fault.iter().find(|it| it.kind.ends_connections())?;
        let at = self.load.iter().position(|load| load.recover.is_none())?;
        Some(match fault.kind {
            FaultKind::Kill => format!(
                "fault: a killed broker takes the connections with it, and load.{at} would end; \
                 add recover = \"200ms-500ms\" to it"
            ),
            kind => format!(
                "fault: kind = {:?} ends connections, and load.{at} with them; add recover = \
                 \"200ms-500ms\" to it",
                kind.name()
            ),
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
        refused(
            &format!("[broker]\nkind = \"attach\"\n{stop}"),
            "not started for the run",
        );
        refused(&fault("5s", "stall", "2s"), "broker.kind = \"embedded\"");
    }

    fn embedded(fault: &str) -> String {
        match read_faults(&format!("[[fault]]\n{fault}"), "script") {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn faults_of_the_embedded_broker_know_their_keys() {
        for fine in [
            "kind = \"stall\"\nat = \"1s\"\nfor = \"500ms\"",
            "kind = \"slow-ack\"\ndelay = \"1ms\"",
            "kind = \"drop\"\nat = \"1s\"\nclose = false\nwho = \"producers\"\ncount = 2",
            "kind = \"lose\"\nprobability = 0.5\nseed = 7\nfor = \"3s\"",
            "kind = \"reorder\"\nevery = 10\nby = 3\ncount = 5",
            "kind = \"corrupt\"\nevery = 10\nbyte = 0",
            "kind = \"cut\"\nat = \"1s\"\nbyte = 5",
            "kind = \"refuse-login\"\nat = \"1s\"\ncount = 5",
        ] {
            assert_eq!(embedded(fine), "");
        }
        for (wrong, part) in [
            ("kind = \"stall\"\nat = \"1s\"", "fault.0.for is missing"),
            ("kind = \"drop\"", "fault.0.at is missing"),
            ("kind = \"slow-ack\"", "delay = \"1ms\""),
            (
                "kind = \"lose\"\nby = 1",
                "fault.0.by has no effect on kind = \"lose\"",
            ),
            (
                "kind = \"reset\"\nat = \"1s\"\nfor = \"1s\"",
                "fault.0.for has no effect",
            ),
            ("kind = \"lose\"\nevery = 0", "every = 0 hits nothing"),
            ("kind = \"lose\"\nseed = 1", "without a probability"),
            ("kind = \"lose\"\nprobability = 1.5", "probability = 1.5"),
            (
                "kind = \"lose\"\nprobability = 0.5\nevery = 2",
                "both every and",
            ),
            (
                "kind = \"kill\"\nat = \"1s\"\nfor = \"1s\"",
                "cannot be stopped or killed",
            ),
            ("kind = \"explode\"", "explode"),
            ("kind = \"lose\"\nevry = 2", "evry"),
        ] {
            let text = embedded(wrong);
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        let specs =
            read_faults("[[fault]]\nkind = \"lose\"\nat = 2.5\nevery = 3", "script").unwrap();
        assert_eq!(read_faults(&write_faults(&specs), "again").unwrap(), specs);
    }
}
