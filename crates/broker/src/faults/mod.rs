//! Faults that a broker injects on purpose: a script, played exactly and counted.
//!
//! ```text
//! table of a file (FaultSpec)
//!   |  checked
//!   v
//! script (Fault)  -->  Faults: which of them are on now, whom the next one hits
//!                        |  asked about every message, confirm and login, where there is a script
//!                        v
//!                      FaultLog: what was really done, for whoever compares it with a ledger
//! ```

mod log;
mod rules;
mod script;
mod slow;
mod spec;
#[cfg(test)]
mod tests;

pub use log::{FaultLog, Injected, Injections, Span};
pub(crate) use rules::{ConnectionFault, DeliveryFault, Faults};
pub use script::{Amount, Fault, FaultKind, Origin, Reach, Who};
pub use spec::FaultSpec;
