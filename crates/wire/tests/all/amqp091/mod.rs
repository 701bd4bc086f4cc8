//! AMQP 0-9-1: tables, bytes, and both sides of a connection in virtual time.

pub(crate) mod common;
mod faults;
mod memory;
mod methods;
mod pair;
mod recorded;
mod stamps;
mod tables;
