//! All tests of `archive` that use it from outside, as one program.

mod common;
mod hostile;
mod java;
mod java_logs;
mod latency_log;
mod run_folder;
