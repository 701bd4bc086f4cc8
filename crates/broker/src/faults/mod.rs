//! What a broker does to its clients on purpose: a script of faults, played exactly and counted.
//!
//! ```text
//! script (Fault)  -->  Faults: which of them are on now, whom the next one hits
//!                        |  asked about every message, confirm and login, where there is a script
//!                        v
//!                      FaultLog: what was really done, for whoever compares it with a ledger
//! ```

mod handover;
mod log;
mod rules;
mod script;
mod strike;
#[cfg(test)]
mod tests;

pub(crate) use handover::Handover;
pub use log::{FaultLog, Injected, Injections, Span};
pub(crate) use rules::Faults;
pub use script::{Amount, Fault, FaultKind, Origin, Who};
pub(crate) use strike::STALL_LOOK;
