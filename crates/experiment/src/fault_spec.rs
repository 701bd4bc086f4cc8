//! Faults that are injected while the load runs.

use broker::{Fault, FaultKind, Reach};
use measure::{Length, Nanos, Problem};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{ensure, unknown_name, wrong};
use super::{BrokerKind, Experiment, ExperimentError, LoadKind, LoadSpec, Origin};

/// A length for the checks of a fault that has none.
const A_WHILE: Length = Length(Nanos::from_millis(1_000));

/// One fault of a managed broker, or of the embedded one.
pub type FaultSpec = broker::FaultSpec<RunFault>;

/// A fault that the run injects or that the broker plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFault {
    /// RabbitMQ hangs (SIGSTOP), and goes on where it was (SIGCONT).
    Stop,
    /// RabbitMQ crashes (SIGKILL), and is started again with the same data.
    Kill,
    /// A node is cut off from the others of its cluster: their links stay open and carry nothing.
    Partition,
    /// The embedded broker plays this fault by itself.
    Played(FaultKind),
}

impl RunFault {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Partition => "partition",
            Self::Played(kind) => kind.name(),
        }
    }

    /// Whether the broker or its connections are away for a time, so that their return is watched.
    pub fn is_outage(self) -> bool {
        match self {
            Self::Stop | Self::Kill | Self::Partition => true,
            Self::Played(kind) => kind.reach() != Reach::Messages,
        }
    }

    /// Whether clients lose connections that they have to re-establish.
    fn ends_connections(self) -> bool {
        match self {
            Self::Stop | Self::Partition => false,
            Self::Kill => true,
            Self::Played(kind) => kind.reach() == Reach::Connections,
        }
    }
}

/// Whether a fault kills a broker, or a node, that is not started again.
pub fn is_for_good(fault: &FaultSpec) -> bool {
    fault.kind == RunFault::Kill && fault.length.is_none()
}

impl Serialize for RunFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for RunFault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let all = || [Self::Stop, Self::Kill, Self::Partition].into_iter().chain(FaultKind::ALL.map(Self::Played));
        all().find(|fault| fault.name() == name).ok_or_else(|| {
            let known: Vec<_> = all().map(Self::name).collect();
            unknown_name("value", &name, &known).into_error()
        })
    }
}

/// A file of faults for the embedded broker.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    #[serde(default)]
    fault: Vec<FaultSpec>,
}

/// Reads the `[[fault]]` entries of a script for the embedded broker. `origin` names the text in errors. Errors: where
/// it is no TOML, has an unknown key, or a fault that makes no sense.
pub fn read_faults(text: &str, origin: &str) -> Result<Vec<Fault>, ExperimentError> {
    let file: FaultFile = toml::from_str(text).map_err(|e| ExperimentError::from_toml(origin, text, &e))?;
    embedded(&file.fault).map_err(|problem| ExperimentError::new(Origin::file(origin, text).explain(problem)))
}

/// Writes faults as a script that [`read_faults`] reads.
pub fn write_faults(faults: &[FaultSpec]) -> String {
    let fault = faults.to_vec();
    toml::to_string(&FaultFile { fault }).unwrap_or_default()
}

/// The faults as the embedded broker plays them.
fn embedded(faults: &[FaultSpec]) -> Result<Vec<Fault>, Problem> {
    let played = |(i, spec): (usize, &FaultSpec)| match spec.kind {
        RunFault::Played(_) if spec.node.is_some() => {
            let why = " has no effect on the embedded broker, which is one node";
            Err(wrong(format!("fault.{i}.node"), why, "leave it out"))
        }
        RunFault::Played(kind) => spec.fault(&format!("fault.{i}"), kind.name(), kind),
        RunFault::Stop | RunFault::Kill | RunFault::Partition => {
            let help = "use kind = \"stall\" or \"reset\", or broker.kind = \"rabbitmq\"";
            Err(wrong(format!("fault.{i}.kind"), ": the embedded broker cannot be stopped or killed", help))
        }
    };
    faults.iter().enumerate().map(played).collect()
}

/// Checks the faults of a broker that is stopped and killed from outside.
fn check_managed(faults: &[FaultSpec], nodes: u32) -> Result<(), Problem> {
    let mut free_from = Length::default();
    // Those that stay away, with the faults that killed them.
    let mut away: Vec<(u32, usize)> = Vec::new();
    for (i, spec) in faults.iter().enumerate() {
        let name = spec.kind.name();
        let is_managed = !matches!(spec.kind, RunFault::Played(_));
        let why = format!(" = {name:?} is a fault of the embedded broker");
        let help = "use kind = \"stop\" or \"kill\", or broker.kind = \"embedded\"";
        ensure(is_managed, format!("fault.{i}.kind"), why, help)?;
        // Who stops or kills a broker has to say when and for how long, as for one that stalls; unless it stays away.
        let checked =
            FaultSpec { length: (spec.length).or_else(|| is_for_good(spec).then_some(A_WHILE)), ..spec.clone() };
        checked.fault(&format!("fault.{i}"), name, FaultKind::Stall)?;
        check_node(i, spec, nodes)?;
        let node = spec.node.unwrap_or(0);
        if let Some((_, by)) = away.iter().find(|(gone, _)| *gone == node) {
            let why = format!(" would hit a node that fault.{by} has killed permanently");
            let help = format!("add for = \"2s\" to fault.{by}, or name another node");
            return Err(wrong(format!("fault.{i}"), why, help));
        }
        away.extend(is_for_good(spec).then_some((node, i)));
        let at = spec.at.unwrap_or_default();
        let why = format!(" = {at} is before the end of the previous fault, at {free_from}");
        ensure(at >= free_from, format!("fault.{i}.at"), why, "order the faults by time")?;
        free_from = Length(at.0 + spec.length.unwrap_or_default().0);
    }
    Ok(())
}

/// Checks that the node of a fault exists, and has others to be cut off from.
fn check_node(i: usize, spec: &FaultSpec, nodes: u32) -> Result<(), Problem> {
    let node = spec.node.unwrap_or(0);
    let why = format!(" = {node}, and there are {nodes}, from 0 on");
    let help = "name one that there is, or set broker.nodes";
    ensure(spec.node.is_none() || node < nodes, format!("fault.{i}.node"), why, help)?;
    let is_fine = spec.kind != RunFault::Partition || nodes > 1;
    let why = " = \"partition\" needs several nodes";
    ensure(is_fine, format!("fault.{i}.kind"), why, "set broker.nodes = 3")
}

impl Experiment {
    /// Checks that the broker can have the faults, that they fit into the time, and that the load outlasts them.
    pub(super) fn check_faults(&self) -> Result<(), Problem> {
        match self.broker.kind {
            BrokerKind::Rabbitmq | BrokerKind::Artemis | BrokerKind::Mosquitto => {
                check_managed(&self.fault, self.broker.node_count())?;
            }
            BrokerKind::Embedded => drop(embedded(&self.fault)?),
            BrokerKind::Attach if self.fault.is_empty() => {}
            BrokerKind::Attach => {
                let cause = "fault.0: only a broker that bellows started for the run can have faults";
                return Err(Problem::new(cause, "", "use broker.kind = \"rabbitmq\" or \"embedded\"").about("fault.0"));
            }
        }
        self.check_end_of_faults()?;
        self.check_recovery()
    }

    fn check_end_of_faults(&self) -> Result<(), Problem> {
        let measure = self.phases.measure;
        for (i, spec) in self.fault.iter().enumerate() {
            let length = spec.length.filter(|_| spec.kind.is_outage());
            let end = Length(spec.at.unwrap_or_default().0 + length.unwrap_or_default().0);
            if end > measure && !measure.is_zero() {
                let cause = format!(
                    "fault.{i} ends {end} after the beginning of the measured phase, which is only {measure} long"
                );
                let length = length.map_or_else(String::new, |_| format!(" --set fault.{i}.for=…"));
                let help = format!("use a longer phases.measure, or move the fault: --set fault.{i}.at=…{length}");
                return Err(Problem::new(cause, "", help).about(format!("fault.{i}")));
            }
        }
        Ok(())
    }

    /// Whether clients reconnect where a fault ends their connections.
    fn check_recovery(&self) -> Result<(), Problem> {
        let ends = self.fault.iter().position(|spec| spec.kind.ends_connections());
        let loses = |load: &LoadSpec| load.kind == LoadKind::Messages && load.recover.is_none();
        let group = self.load.iter().position(loses);
        let (Some(i), Some(group)) = (ends, group) else { return Ok(()) };
        let cause = format!("fault.{i} ends connections, and load.{group} with them");
        let help = format!("add recover = \"200ms-500ms\" to load.{group}");
        Err(Problem::new(cause, "", help).about(format!("fault.{i}.kind")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec_tests::refused;

    fn problem(faults: &str, recover: &str) -> String {
        let load = format!("[[load]]\ndestination = \"queue://q\"\n{recover}");
        refused(&format!("[phases]\nmeasure = \"20s\"\n{faults}\n{load}"))
    }

    /// `bellows run cluster-kill --duration 10` asked for a longer phase only.
    #[test]
    fn a_fault_that_ends_too_late_can_be_moved() {
        let mut experiment = Experiment::built_in("cluster-kill").unwrap();
        experiment.set("phases.measure=10s").unwrap();
        let help = experiment.check_end_of_faults().unwrap_err().help;
        assert!(help.ends_with("--set fault.0.at=… --set fault.0.for=…"), "{help}");
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
            testkit::assert_has(problem(faults, ""), [part]);
        };
        // It stays away, and other nodes may be hit.
        let for_good = "[[fault]]\nat = \"5s\"\nkind = \"kill\"\n";
        assert_eq!(problem(for_good, recover), "");
        let cluster = "[broker]\nkind = \"rabbitmq\"\nnodes = 3\n";
        let other = |node: u32| format!("{cluster}{for_good}{stop}node = {node}\n");
        assert_eq!(problem(&other(1).replace("5s", "6s"), recover), "");
        let told = problem(&other(0).replace("5s", "6s"), recover);
        assert!(told.contains("fault.1 would hit a node that fault.0 has killed permanently"), "{told}");
        refused("[[fault]]\nat = \"5s\"\nkind = \"stop\"\n", "fault.0.for is missing");
        refused(&fault("5s", "kill", "2s"), "add recover = ");
        refused(&fault("19s", "stop", "2s"), "which is only 20s long");
        refused(&fault("5s", "stop", "0s"), "fault.0.for is 0s");
        refused(&(stop.clone() + &fault("6s", "stop", "1s")), "fault.1.at = 6s");
        refused(&format!("[broker]\nkind = \"embedded\"\n{stop}"), "kind = \"rabbitmq\"");
        refused(&format!("[broker]\nkind = \"attach\"\n{stop}"), "started for the run");
        refused(&fault("5s", "stall", "2s"), "broker.kind = \"embedded\"");
    }

    fn embedded(fault: &str) -> String {
        let read = read_faults(&format!("[[fault]]\n{fault}"), "script");
        read.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn faults_of_the_embedded_broker_know_their_keys() {
        for [fine] in testkit::table(include_str!("../tests/data/faults.txt")) {
            assert_eq!(embedded(fine), "");
        }
        for [wrong, part] in testkit::table(include_str!("../tests/data/no-faults.txt")) {
            testkit::assert_has(embedded(wrong), [part]);
        }
        let text = "[[fault]]\nkind = \"lose\"\nat = 2.5\nevery = 3\n[[fault]]\nkind = \"cut\"\nat = \"1s\"\nbyte = 5";
        let file: FaultFile = toml::from_str(text).unwrap();
        let again = read_faults(&write_faults(&file.fault), "again").unwrap();
        assert_eq!(again, read_faults(text, "script").unwrap());
    }

    #[test]
    fn the_docs_name_every_kind_of_fault() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md");
        let text = std::fs::read_to_string(page).expect("docs/faults.md");
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let named: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(named, FaultKind::ALL.map(FaultKind::name));
    }
}
