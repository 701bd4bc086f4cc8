//! Stalls: times in which the broker, the generator or the machine stood still.

use serde::{Deserialize, Serialize};

measure::named! {
    /// The side that stood still.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    #[serde(rename_all = "snake_case")]
    pub enum Stalled {
        /// The broker: messages were in flight, and it answered none.
        #[default]
        Broker = "broker",
        /// bellows did not run, and the broker did.
        Generator = "generator",
        /// Neither ran.
        Machine = "machine",
    }
}

/// A time in which nothing was answered although something was in flight, or in which nothing could be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began, in seconds since the run's origin.
    pub at_s: f64,
    /// How long it took, seconds.
    pub for_s: f64,
    /// The side that stood still.
    pub who: Stalled,
    /// All connections were down, for the whole of it or from some moment on.
    pub away: bool,
    /// Connections that were silent or down.
    pub connections: u64,
    /// Messages that were in flight or became due meanwhile, before the end of sending.
    pub messages_delayed: u64,
    /// Operations among them that failed or were given up: latencies do not hold all of their waits.
    pub failed: u64,
}
