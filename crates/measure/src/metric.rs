//! The five latencies of a message and the containers that hold one value for each.

use serde::{Deserialize, Serialize};

/// The latencies of a message's life. With a target rate the headline latencies are
/// [`Metric::AckResponse`] and [`Metric::EndToEnd`], which count from the intended time; the
/// other three are there to explain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Intended send time to the broker's acknowledgement.
    AckResponse,
    /// Intended send time to delivery.
    EndToEnd,
    /// Actual send time to the broker's acknowledgement.
    SendAck,
    /// Actual send time to delivery.
    Transfer,
    /// Intended to actual send time.
    SendDelay,
}

impl Metric {
    /// All metrics, headline first.
    pub const ALL: [Self; 5] = [
        Self::AckResponse,
        Self::EndToEnd,
        Self::SendAck,
        Self::Transfer,
        Self::SendDelay,
    ];

    /// The name that people read and the tag in the HDR log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AckResponse => "ack response",
            Self::EndToEnd => "end-to-end",
            Self::SendAck => "send ack",
            Self::Transfer => "transfer",
            Self::SendDelay => "send delay",
        }
    }

    /// The key in JSON.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::AckResponse => "ack_response",
            Self::EndToEnd => "end_to_end",
            Self::SendAck => "send_ack",
            Self::Transfer => "transfer",
            Self::SendDelay => "send_delay",
        }
    }
}

/// One value per metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct PerMetric<T> {
    /// See [`Metric::AckResponse`].
    pub ack_response: T,
    /// See [`Metric::EndToEnd`].
    pub end_to_end: T,
    /// See [`Metric::SendAck`].
    pub send_ack: T,
    /// See [`Metric::Transfer`].
    pub transfer: T,
    /// See [`Metric::SendDelay`].
    pub send_delay: T,
}

impl<T> PerMetric<T> {
    /// Makes each value from its metric.
    pub fn from_fn(mut make: impl FnMut(Metric) -> T) -> Self {
        Self {
            ack_response: make(Metric::AckResponse),
            end_to_end: make(Metric::EndToEnd),
            send_ack: make(Metric::SendAck),
            transfer: make(Metric::Transfer),
            send_delay: make(Metric::SendDelay),
        }
    }

    /// The value of one metric.
    pub const fn get(&self, metric: Metric) -> &T {
        match metric {
            Metric::AckResponse => &self.ack_response,
            Metric::EndToEnd => &self.end_to_end,
            Metric::SendAck => &self.send_ack,
            Metric::Transfer => &self.transfer,
            Metric::SendDelay => &self.send_delay,
        }
    }

    /// The value of one metric, to change.
    pub const fn get_mut(&mut self, metric: Metric) -> &mut T {
        match metric {
            Metric::AckResponse => &mut self.ack_response,
            Metric::EndToEnd => &mut self.end_to_end,
            Metric::SendAck => &mut self.send_ack,
            Metric::Transfer => &mut self.transfer,
            Metric::SendDelay => &mut self.send_delay,
        }
    }

    /// Metric and value, headline first.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &T)> {
        Metric::ALL
            .into_iter()
            .map(|metric| (metric, self.get(metric)))
    }
}
