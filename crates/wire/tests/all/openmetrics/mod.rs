//! Pages of metrics: what a writer wrote is read back however it arrives, wrong lines are told and skipped, and an
//! independent parser reads the same.

mod common;
mod independent;
mod random;
mod wrong;
