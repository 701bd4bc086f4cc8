//! What a broker does to its clients on purpose: a script of faults, played exactly and counted.
//!
//! ```text
//! script (Fault)  -->  Faults: which of them are on now, whom the next one hits
//!                        |  asked about every message, confirm and login, where there is a script
//!                        v
//!                      FaultLog: what was really done, for whoever compares it with a ledger
//! ```

mod log;
mod rules;
mod script;
#[cfg(test)]
mod tests;

pub use log::{FaultLog, Injected, Injections, Span};
pub(crate) use rules::{ConnectionFault, DeliveryFault, Faults};
pub use script::{Amount, Fault, FaultKind, Origin, Who};
