//! Profiles: where a process spent its time, as time-stamped stacks, and the forms they are
//! written in.
//!
//! A [`Profile`] is five tables that refer to each other by index. Stacks are a tree: a
//! [`StackNode`] is one frame below its parent, and a sample points at the node of its leaf. All
//! that is computed from a profile is computed per node, not per sample, so that a million samples
//! cost no more than their distinct stacks.
//!
//! | form | made by | read by |
//! | --- | --- | --- |
//! | `*.stacks` (JSON lines, appended as the run goes) | [`StacksWriter`] | [`Profile::open`] |
//! | `*.pb.gz` (pprof) | [`Profile::to_pprof`] | [`Profile::open`] |
//! | `*.folded` (perf-collapse text) | [`Profile::folded`] | [`Profile::open`] |

mod classes;
mod fold;
mod folded;
mod frames;
mod model;
mod open;
mod pattern;
mod pprof;
mod processes;
mod roles;
mod stacks;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod tree;
mod work;

pub use classes::{ClassRules, ClassRulesError};
pub use fold::{Detail, FoldedNames, NO_THREAD, ThreadGroups};
pub use folded::folded_name;
pub use frames::{Frame, FrameKind, UNKNOWN};
pub use model::{Profile, ProfileHeader, Sample, StackNode, Unwinding};
pub use open::ProfileError;
pub use processes::ErlangProcess;
pub use stacks::{Footer, StacksWriter};
pub use table::FunctionCount;
pub use threads::{ThreadRules, ThreadRulesError};
pub use work::{Work, WorkBy, WorkKind};
