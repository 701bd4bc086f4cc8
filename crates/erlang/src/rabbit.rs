//! Whether RabbitMQ has started on a node, which answers long before.

use std::time::{Duration, Instant};

use measure::Problem;

use crate::error::Error;
use crate::node::Node;
use crate::term::{as_atom, as_int, as_tuple, atom};

/// Time between two looks at a node that starts.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A node that is younger has not been stopped by somebody, but is about to start.
const YOUNG: Duration = Duration::from_secs(30);

/// State of RabbitMQ on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RabbitState {
    /// It starts: queues may not be known yet.
    Starting,
    /// It knows its queues.
    Started,
    /// The node runs without it, as after `rabbitmqctl stop_app`.
    Stopped,
    /// The node has no RabbitMQ, or one before 3.8, which does not say.
    Unknown,
}

impl RabbitState {
    /// Asks the node.
    ///
    /// # Errors
    /// The node does not answer in time, or the connection is no more.
    pub fn of(node: &Node) -> Result<Self, Error> {
        let state = match node.call("rabbit_boot_state", "get", Vec::new()) {
            Err(Error::Exception { .. }) => return Ok(Self::Unknown),
            answer => answer?,
        };
        Ok(match as_atom(&state) {
            Some("booting") => Self::Starting,
            Some("core_started" | "ready") => Self::Started,
            Some("stopped") if age(node)? < YOUNG => Self::Starting,
            Some("stopping" | "stopped") => Self::Stopped,
            _ => Self::Unknown,
        })
    }

    /// Waits until RabbitMQ starts no more, and calls `waits` once where that takes time.
    ///
    /// # Errors
    /// It still starts after the longest wait; or as [`RabbitState::of`].
    pub fn settled(node: &Node, longest: Duration, waits: impl FnOnce()) -> Result<Self, Error> {
        let end = Instant::now() + longest;
        let mut waits = Some(waits);
        loop {
            match Self::of(node)? {
                Self::Starting if Instant::now() < end => {}
                Self::Starting => return Err(Error::Options(still_starting(node, longest))),
                settled => return Ok(settled),
            }
            if let Some(waits) = waits.take() {
                waits();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Why a node without tables of queues has none.
    pub(crate) fn without_queues(self, node: &Node) -> Problem {
        let name = node.name();
        match self {
            Self::Starting | Self::Started => still_starting(node, Duration::ZERO),
            Self::Stopped => Problem::new(
                format!("RabbitMQ is stopped on {name}"),
                "",
                "start it with rabbitmqctl start_app",
            ),
            Self::Unknown => Problem::new(
                "the node runs no RabbitMQ",
                name,
                "name a node of RabbitMQ: epmd -names lists those of a machine",
            ),
        }
    }
}

fn still_starting(node: &Node, waited: Duration) -> Problem {
    let after = match waited.is_zero() {
        true => String::new(),
        false => format!("after {waited:?} of waiting"),
    };
    Problem::new(
        format!("RabbitMQ on {} is still starting", node.name()),
        after,
        "run it again when rabbitmqctl await_startup has returned, or wait longer with --timeout",
    )
}

/// How long the node has been running.
fn age(node: &Node) -> Result<Duration, Error> {
    let clock = node.call("erlang", "statistics", vec![atom("wall_clock")])?;
    let ms = as_tuple(&clock).and_then(|it| it.first()).and_then(as_int);
    let ms = ms.and_then(|it| u64::try_from(it).ok());
    Ok(Duration::from_millis(ms.unwrap_or(u64::MAX)))
}
