//! AMQP 1.0: values, frames and messages against qpid-proton's, and client and server in virtual time.

mod client;
mod proton;
mod random;
pub(crate) mod server;

use crate::amqp091::common::{Recorded, recorded_in};

pub(crate) fn recorded() -> Vec<Recorded> {
    recorded_in(include_str!("../../data/proton-session.txt"))
}
