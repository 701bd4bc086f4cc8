//! The guardian: a process between bellows and a broker that bellows started, so that nothing of the
//! broker stays behind whatever happens to bellows. It knows nothing of which broker it is: it guards a
//! tree of processes, a directory, and the state file that names both.

mod client;
mod error;
mod leftovers;
mod members;
mod process;

pub use error::GuardianError;
pub use leftovers::clean_leftovers;
pub use process::{SUBCOMMAND, main};

pub(crate) use client::{Guardian, Message};
pub(crate) use leftovers::{
    Leftovers, guarded_directories, guarded_directory, private_file, private_folder, random_hex,
};
pub(crate) use members::{MARKER, marker_of, members};
pub(crate) use process::Command;
