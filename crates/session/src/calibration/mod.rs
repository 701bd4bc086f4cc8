//! The generator's capacity on this machine: short unthrottled loads against the embedded broker, kept per machine, so
//! that a verdict can say whether a broker's rate was anywhere near the generator's.
//!
//! The figures are those of one event loop, and of as many as there are cores, beside an embedded broker
//! on the same cores. They say what the generator has done here, hence "could have made"; they are no
//! promise. Where it was not the generator that limited a load, or where other processes were busy, the
//! figure is a lower bound, and is marked as one.

mod capacity;
mod store;

use serde::{Deserialize, Serialize};

use crate::hardware;

pub use store::{Keeping, keep, kept};

/// CPU of other processes that spoils a calibration, in cores.
pub const BUSY: f64 = 0.2;

measure::named! {
    /// The work of a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Workload {
        /// Publishes without confirms.
        Publish = "publish, no confirms",
        /// Publishes with confirms, as many in flight as help.
        Confirm = "publish with confirms",
        /// Publishes the next message when the one before is confirmed.
        OneByOne = "publish one by one",
        /// Publishes with confirms, and as many others consume.
        InOut = "in and out",
    }
}

/// The result of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    #[must_use]
    pub fn workload_text(&self) -> String {
        workload_text(self.workload, self.tls)
    }
}

pub(crate) fn workload_text(workload: Workload, tls: bool) -> String {
    let name = workload.name();
    if tls {
        format!("TLS {name}")
    } else {
        name.to_owned()
    }
}

impl Calibration {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.calibration/2";

    pub(crate) fn here() -> Self {
        let machine = hardware::read();
        let build = if cfg!(debug_assertions) {
            " (debug)"
        } else {
            ""
        };
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
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.others_cores >= BUSY
    }

    /// Whether it holds for this machine and this bellows.
    fn is_of(&self, other: &Self) -> bool {
        let key = |c: &Self| {
            (
                c.schema.clone(),
                c.bellows.clone(),
                c.cpu.clone(),
                c.cores,
                c.kernel.clone(),
            )
        };
        key(self) == key(other)
    }
}
