//! Traces of functions on the broker's Erlang node beside a load: how long calls of them take, as a metric of the run,
//! and which calls they were. Those of one node are one trace there, because before Erlang/OTP 27 a node has no more: a
//! thread talks with it ([`node`]), reports calls to each trace's scenario ([`beside`]) and their details to a log.

mod beside;
mod log;
mod node;

use std::collections::BTreeMap;

use erlang::ConnectOptions;

pub(crate) use beside::TracePlan;
pub(crate) use log::{TraceLog, TraceState};

/// How to reach a broker's nodes for traces, by number, and the log of the traces.
#[derive(Clone, Debug, Default)]
pub struct TracedBroker {
    pub(crate) nodes: BTreeMap<u32, ConnectOptions>,
    pub(crate) log: TraceLog,
}
