//! Profiles: where a process spent its time, and where other events struck it, as time-stamped stacks, and the forms
//! they are written in. A [`Profile`] is six tables that refer to each other by index. Stacks are a tree whose
//! [`StackNode`]s samples point at, and all is computed per node: a million samples cost no more than their stacks.
//!
//! [`FORMATS`] is the table of formats. Files of others are read within bounds ([`bounded`]); ours appear whole or not
//! at all ([`Replacement`]).

pub mod bounded;
mod builds;
mod classes;
mod comparable;
mod firefox;
mod fold;
mod folded;
mod format;
mod frames;
mod grouped;
mod jfr;
mod known;
mod merge;
mod model;
mod open;
mod packed;
mod pattern;
mod perf_script;
mod pprof;
mod replace;
mod shares;
mod speedscope;
mod stacks;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod tree;
mod waits;
mod work;

pub use builds::{NearSamples, other_builds};
pub use classes::LanguageFrame;
pub use comparable::{incomparable, incomparable_summaries};
pub use fold::{Detail, FoldedNames, NO_THREAD, ThreadGroups};
pub use folded::{FirstField, folded_beside, folded_name};
pub use format::{Beginning, FORMATS, Format, Heading, Input, Reader, Write, format_of_name, other_than_text};
pub use frames::{
    Frame, FrameKind, SourceLine, UNKNOWN, is_first_function, is_root_function, java_method, without_copies,
};
pub use grouped::WaitBy;
pub use known::KnownPattern;
pub use merge::Merge;
pub use model::{
    Builds, ErlangProcess, EventKind, Profile, ProfileHeader, Sample, Squares, StackNode, USUAL_EVENT, Unwinding,
};
pub use open::{ProfileError, ReadOptions, sampled_events};
pub use packed::{read_problem, unpacked};
pub use perf_script::{Collapse, CollapseOptions, Inlined};
pub use replace::{Replacement, replace_file, write_output, write_secret};
pub use shares::{ShareDetail, ShareName, ShareNode, ShareTree};
pub use stacks::{Footer, StacksWriter};
pub use summary::{Class, ClassShare, FunctionShare, LanguageShare, PatternShare, ProfileSummary, WorkShare};
pub use table::FunctionCount;
pub use tree::Builder;
pub use waits::{Wait, WaitReason, WaitRules, WakeClue};
pub use work::{Work, WorkBy, WorkKind};

/// Names of the files of a folder with profiles.
pub mod file {
    /// The profile of the first event as pprof.
    pub const PPROF: &str = "profile.pb.gz";
    /// Extension of the pprof of a further event: `mmap.pb.gz`.
    pub const FURTHER_PPROF: &str = "pb.gz";
    /// Extension of the time-stamped stacks of an event: `cpu.stacks`.
    pub const STACKS: &str = "stacks";
    /// Extension of the folded text of an event: `cpu.folded`.
    pub const FOLDED: &str = "folded";
    /// Extension of the flame graph of an event: `cpu.svg`.
    pub const FLAME: &str = "svg";
    /// The file of an event with this extension.
    pub fn of_event(event: &str, extension: &str) -> String {
        format!("{event}.{extension}")
    }
}
