//! All tests of `load` that use it from outside, as one program.

mod allocations;
mod beside;
mod churn;
mod common;
mod drain;
mod engine;
mod idle;
mod injected;
mod ledger;
mod names;
mod omission;
mod peers;
mod phases;
mod probe;
mod recovery;
mod schedules;
mod scripted;
mod silence;
mod sources;
mod stops;
mod subscriptions;
mod tls;
mod tls_records;
mod tokens;
mod waits;
mod workloads;
