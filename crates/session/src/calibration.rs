//! The generator's capacity on this machine: short unthrottled loads against the embedded broker on the same cores,
//! kept per machine, so that a verdict can say whether a broker's rate was anywhere near the generator's. Where it was
//! not the generator that limited a load, or other processes were busy, the figure is marked as a lower bound.

use std::path::PathBuf;
use std::{fs, io};

use archive::{Capacity, data_folder};
use load::{Guarantee, Plan, Protocol, Sizes};
use measure::counted;
use serde::{Deserialize, Serialize};

use crate::hardware;

/// CPU of other processes that spoils a calibration, in cores.
pub const BUSY: f64 = 0.2;

measure::named! {
    /// The work of a connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Workload {
        /// Publishes without confirms.
        #[default]
        Publish = "publish, no confirms",
        /// Publishes with confirms, as many in flight as help.
        Confirm = "publish with confirms",
        /// Publishes the next message when the one before is confirmed.
        OneByOne = "publish one by one",
        /// Publishes with confirms, and as many others consume.
        InOut = "in and out",
    }
}

/// One load, and its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The work of each connection.
    pub workload: Workload,
    /// Bytes of a message.
    pub size: usize,
    /// Number of producers.
    pub connections: usize,
    /// Event loops.
    pub threads: usize,
    /// Connections were encrypted.
    pub tls: bool,
    /// Messages per second, all-out.
    pub rate: f64,
    /// CPU time of bellows per message, nanoseconds.
    pub client_ns: f64,
    /// CPU time of the embedded broker per message, nanoseconds.
    pub broker_ns: f64,
    /// The worst loop lag, nanoseconds.
    pub loop_lag_max_ns: u64,
    /// CPU that other processes used meanwhile, in cores.
    pub others_cores: f64,
    /// The generator could do more: other processes were busy, or something else limited this load.
    pub at_least: bool,
}

/// Lateness of the event loop at a rate: the send delay of its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Messages per second.
    pub rate: f64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Worst, nanoseconds.
    pub max_ns: u64,
}

/// All calibrated figures of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Always [`Calibration::SCHEMA`].
    pub schema: String,
    /// The bellows that was measured; a debug build says so.
    pub bellows: String,
    /// Processor model.
    pub cpu: String,
    /// Cores that may be used.
    pub cores: u32,
    /// Kernel name and release.
    pub kernel: String,
    /// When, RFC 3339 in UTC.
    pub created: String,
    /// CPU that other processes used meanwhile, in cores: where it is much, the figures are too low.
    pub others_cores: f64,
    /// Lateness of the event loop at rest and under load.
    pub lateness: Vec<Lateness>,
    /// The loads.
    pub points: Vec<Point>,
}

impl Point {
    /// The work of each connection, as text.
    pub fn workload_text(&self) -> String {
        let name = self.workload.name();
        if self.tls { format!("TLS {name}") } else { name.to_owned() }
    }
}

impl Calibration {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.calibration/2";

    pub(crate) fn here() -> Self {
        let machine = hardware::read();
        let build = if cfg!(debug_assertions) { " (debug)" } else { "" };
        Self {
            schema: Self::SCHEMA.to_owned(),
            bellows: format!("{}{build}", env!("CARGO_PKG_VERSION")),
            cpu: machine.cpu,
            cores: linux::cpus::usable(),
            kernel: machine.kernel,
            created: format!("{:.0}", jiff::Timestamp::now()),
            others_cores: 0.0,
            lateness: Vec::new(),
            points: Vec::new(),
        }
    }

    /// Whether other processes were so busy meanwhile that the figures are too low.
    pub fn is_busy(&self) -> bool {
        self.others_cores >= BUSY
    }

    fn is_of(&self, other: &Self) -> bool {
        let key = |c: &Self| (c.schema.clone(), c.bellows.clone(), c.cpu.clone(), c.cores, c.kernel.clone());
        key(self) == key(other)
    }
}

const LARGEST: u64 = 1 << 20;

fn file_name(calibration: &Calibration) -> String {
    let text = format!("calibration {} {} cores {}", calibration.cpu, calibration.cores, calibration.bellows);
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    name.truncate(150);
    name + ".json"
}

/// Whether a calibration was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In this file.
    Kept(PathBuf),
    /// The one that was kept before was taken on a quieter machine, and stays.
    Quieter,
}

/// Stores the calibration for this machine, which needs a home, unless the stored one was taken on a less busy machine.
pub fn keep(calibration: &Calibration) -> io::Result<Keeping> {
    if kept().is_some_and(|before| !replaces(calibration, &before)) {
        return Ok(Keeping::Quieter);
    }
    let folder = data_folder()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "neither XDG_DATA_HOME nor HOME is set"))?;
    fs::create_dir_all(&folder)?;
    let mut text = serde_json::to_vec_pretty(calibration)?;
    text.push(b'\n');
    let path = folder.join(file_name(calibration));
    stacks::replace_file(&path, &text)?;
    Ok(Keeping::Kept(path))
}

/// A quiet calibration replaces any, a busy one only a busier one.
fn replaces(new: &Calibration, before: &Calibration) -> bool {
    !new.is_busy() || new.others_cores <= before.others_cores
}

/// The calibration of this machine and this bellows; a file that is unreadable or of another kernel counts as none.
pub fn kept() -> Option<Calibration> {
    let here = Calibration::here();
    let path = data_folder()?.join(file_name(&here));
    if fs::metadata(&path).ok()?.len() > LARGEST {
        return None;
    }
    let found: Calibration = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    found.is_of(&here).then_some(found)
}

/// With at most this many messages in flight per producer, each waits for the one before.
const FEW: u32 = 3;
/// Multiple of the calibrated connections above which the calibration is not applied.
const BEYOND: f64 = 20.0;

impl Calibration {
    /// The capacity calibrated here for a load like this one; `None` where none is similar.
    pub(crate) fn capacity(&self, plan: &Plan) -> Option<Capacity> {
        let producing = plan.groups.iter().find(|g| g.own_producers().next().is_some())?;
        let producers: usize = plan.groups.iter().map(|group| group.own_producers().count()).sum();
        let consumers: usize = plan.groups.iter().map(|group| group.own_consumers().count()).sum();
        let settings = &producing.producers;
        let Sizes::Fixed(size) = settings.sizes else { return None };
        let confirms = match settings.guarantee {
            // It is that of AMQP.
            _ if plan.is_closed_loop() || producing.protocol == Protocol::Mqtt => return None,
            Guarantee::Unconfirmed => false,
            Guarantee::Confirms => true,
            Guarantee::Commits(_) | Guarantee::Replies => return None,
        };
        let few = confirms && (1..=FEW).contains(&settings.max_pending);
        let workload = match (consumers > 0, confirms) {
            _ if few => Workload::OneByOne,
            (true, _) => Workload::InOut,
            (false, true) => Workload::Confirm,
            (false, false) => Workload::Publish,
        };
        let tls = producing.endpoint.tls.is_some();
        let line = self.line(workload, tls, producers, plan.threads)?;
        let first = line.first()?;
        let rate = 1.0 / seconds_each(&line, size)?;
        let mut shape = format!(
            "{}, {size} B, {}, {}",
            first.workload_text(),
            counted(first.connections as u64, "producer"),
            counted(first.threads as u64, "event loop")
        );
        if self.is_busy() {
            let others = self.others_cores;
            shape += &format!(", while other processes used {others:.1} cores");
        }
        let at_least = self.is_busy() || first.threads < plan.threads || line.iter().any(|p| p.at_least);
        Some(Capacity { rate, shape, at_least })
    }

    /// Calibrated points by size, of the nearest numbers of connections and, at most as requested, of event loops.
    fn line(&self, workload: Workload, tls: bool, connections: usize, threads: usize) -> Option<Vec<&Point>> {
        let distance = |point: &Point| (connections as f64 / point.connections as f64).ln().abs();
        let known = |p: &&Point| p.workload == workload && p.tls == tls && p.rate > 0.0 && p.connections > 0;
        // Loops without a connection do nothing.
        let useful = threads.min(connections).max(1);
        let like: Vec<&Point> =
            self.points.iter().filter(known).filter(|p| p.threads <= useful && distance(p) <= BEYOND.ln()).collect();
        let threads = like.iter().map(|p| p.threads).max()?;
        let most = like.iter().filter(|p| p.threads == threads);
        let nearest = most.min_by(|a, b| distance(a).total_cmp(&distance(b)))?.connections;
        let mut line: Vec<&Point> =
            like.into_iter().filter(|p| p.connections == nearest && p.threads == threads).collect();
        line.sort_by_key(|p| p.size);
        Some(line)
    }
}

/// Seconds per message, on the line through the measured sizes: it grows evenly between two of them, as copying does.
fn seconds_each(line: &[&Point], size: usize) -> Option<f64> {
    let each = |p: &Point| 1.0 / p.rate;
    let above = line.iter().position(|p| p.size >= size);
    let (low, high) = match above {
        Some(0) => return line.first().map(|p| each(p)),
        Some(at) => (line.get(at - 1)?, line.get(at)?),
        // Beyond the largest: as from the one before to it.
        None if line.len() > 1 => (line.get(line.len() - 2)?, line.last()?),
        None => return line.last().map(|p| each(p)),
    };
    let part = (size as f64 - low.size as f64) / (high.size as f64 - low.size as f64);
    Some((each(low) + (each(high) - each(low)) * part).max(each(low).min(each(high))))
}

#[cfg(test)]
mod tests {
    use load::{Destination, Group};

    use super::*;

    #[test]
    fn a_file_is_named_after_machine_and_version_and_another_kernel_is_another_machine() {
        let calibration = Calibration {
            cpu: "Intel(R) Xeon(R) CPU @ 2.20GHz/../x".into(),
            cores: 2,
            bellows: "0.1.0 (debug)".into(),
            ..Calibration::here()
        };
        assert_eq!(file_name(&calibration), "calibration-intel-r-xeon-r-cpu-2-20ghz-x-2-cores-0-1-0-debug.json");
        assert!(Calibration::here().is_of(&Calibration::here()));
        let other = Calibration { kernel: "Linux 1.0".into(), ..Calibration::here() };
        assert!(!other.is_of(&Calibration::here()));
    }

    #[test]
    fn a_quiet_calibration_is_not_lost_to_a_busy_one() {
        let with = |others_cores| Calibration { others_cores, ..Calibration::here() };
        assert!(replaces(&with(0.05), &with(0.0)));
        assert!(replaces(&with(0.05), &with(1.0)));
        assert!(!replaces(&with(0.5), &with(0.05)));
        assert!(replaces(&with(0.5), &with(1.0)));
    }

    fn calibration() -> Calibration {
        let point = |workload, size, connections, rate| Point {
            workload,
            size,
            connections,
            threads: 1,
            rate,
            client_ns: 100.0,
            broker_ns: 100.0,
            ..Point::default()
        };
        Calibration {
            points: vec![
                point(Workload::Publish, 12, 1, 8e6),
                point(Workload::Confirm, 12, 1, 4e6),
                point(Workload::Confirm, 1_024, 1, 1e6),
                point(Workload::Confirm, 16_384, 1, 1e5),
                point(Workload::Confirm, 12, 100, 2e6),
                point(Workload::OneByOne, 12, 1, 3e4),
            ],
            ..Calibration::here()
        }
    }

    fn plan(set: impl FnOnce(&mut Group)) -> Plan {
        let queue = Destination::parse("queue://q").unwrap();
        let mut group = Group::new("amqp://localhost".parse().unwrap(), vec![queue]);
        (group.producers.max_pending, group.producers.sizes) = (1_000, Sizes::Fixed(12));
        (group.producers.per_destination, group.consumers.per_destination) = (1, 0);
        set(&mut group);
        Plan { groups: vec![group], ..Plan::default() }
    }

    fn rate(set: impl FnOnce(&mut Group)) -> Option<f64> {
        Some(calibration().capacity(&plan(set))?.rate)
    }

    #[test]
    fn a_load_over_tls_gets_the_figure_of_one() {
        let over_tls = plan(|group| group.endpoint = "amqps://localhost".parse().unwrap());
        let mut known = calibration();
        assert_eq!(known.capacity(&over_tls), None, "nothing over TLS was measured");
        known.points.push(Point { tls: true, rate: 1e6, ..known.points[1] });
        let found = known.capacity(&over_tls).unwrap();
        assert_eq!((found.rate, found.shape.contains("TLS")), (1e6, true));
        assert_eq!(known.capacity(&plan(|_| {})).unwrap().rate, 4e6);
    }

    #[test]
    fn what_was_measured_is_what_is_said_and_nothing_is_guessed_but_between_sizes() {
        assert_eq!(rate(|_| {}), Some(4e6));
        assert_eq!(rate(|g| g.producers.guarantee = Guarantee::Unconfirmed), Some(8e6));
        assert_eq!(rate(|g| g.producers.max_pending = 1), Some(3e4));
        assert_eq!(rate(|g| g.producers.per_destination = 60), Some(2e6));
        let capacity = calibration().capacity(&plan(|_| {})).unwrap();
        assert_eq!(capacity.shape, "publish with confirms, 12 B, 1 producer, 1 event loop");
        let busy = Calibration { others_cores: 0.8, ..calibration() };
        let found = busy.capacity(&plan(|_| {})).unwrap();
        assert!(found.at_least && found.shape.ends_with("other processes used 0.8 cores"), "{found:?}");
        assert_eq!(rate(|g| g.producers.per_destination = 10_000), None);
        assert_eq!(rate(|g| g.consumers.per_destination = 1), None);
        assert_eq!(rate(|g| g.producers.per_destination = 0), None);
        assert_eq!(rate(|g| g.producers.sizes = Sizes::List(vec![1, 2])), None);
        assert_eq!(rate(|g| g.producers.guarantee = Guarantee::Commits(10)), None);
        let close = |size: usize, expected: f64| {
            let found = rate(|g| g.producers.sizes = Sizes::Fixed(size)).unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{size}: {found}");
        };
        close(1_024, 1e6);
        // Half-way from 0.25 us to 1 us.
        close(518, 1.6e6);
        // 10 us at 16 KiB, 9 us more for each further 15 KiB.
        close(31_744, 1e6 / 19.0);
    }

    #[test]
    fn several_event_loops_are_those_that_were_measured() {
        let mut known = calibration();
        let point = *known.points.get(4).unwrap();
        known.points.push(Point { threads: 2, rate: 3e6, at_least: true, ..point });
        let capacity = |known: &Calibration, producers: usize, threads: usize| {
            let plan = Plan { threads, ..plan(|g| g.producers.per_destination = producers) };
            let found = known.capacity(&plan).unwrap();
            (found.rate, found.at_least)
        };
        assert_eq!(capacity(&known, 60, 1), (2e6, false));
        assert_eq!(capacity(&known, 60, 2), (3e6, true));
        // What is between the two is the lower one, and so a lower bound.
        known.points.last_mut().unwrap().threads = 4;
        assert_eq!(capacity(&known, 60, 2), (2e6, true));
        // A second loop without a connection does nothing.
        assert_eq!(capacity(&known, 1, 2), (4e6, true));
    }
}
