//! Whole folders and logs, ours and hostile ones.

mod common;
mod hostile;
mod java;
mod java_logs;
mod latency_log;
mod run_folder;
mod summary;
