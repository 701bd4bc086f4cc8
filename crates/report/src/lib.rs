//! Views of runs for people: console tables, flame graphs and the HTML report.

pub mod artemis;
mod comparison;
pub mod console;
pub mod difference;
pub mod flame;
pub mod html;
mod junit;
mod numbers;
pub mod perf_test;
mod redact;
#[cfg(test)]
mod tests;
pub mod text;
pub mod view;

pub use comparison::ComparisonFormat;
pub use junit::{JunitRuns, junit};
