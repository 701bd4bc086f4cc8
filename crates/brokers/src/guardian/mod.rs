//! The guardian: a process between bellows and a broker that bellows started, so that nothing of the
//! broker stays behind whatever happens to bellows. It knows nothing of which broker it is: it guards a
//! tree of processes, a directory, and the state file that names both.

mod client;
mod leftovers;
mod members;
mod process;

pub use client::{Guardian, Message};
pub(crate) use leftovers::{Leftovers, guarded_directories};
pub use leftovers::{clean_leftovers, guarded_directory, private_file, private_folder, random_hex};
pub use members::marker_of;
pub(crate) use members::{MARKER, members};
pub use process::{Command, SUBCOMMAND, main};
