//! Removal of the modules that were loaded into a node.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use erlang::{Error, Helper};

use crate::output;

/// Longest clean-up without a message.
const SILENT: Duration = Duration::from_secs(2);

/// Removes the loaded modules; reports where the node takes long, since it asks each of its processes.
pub(super) fn leave(helper: Helper) -> Result<(), Error> {
    let (left, leaving) = mpsc::channel::<()>();
    let tell = move || {
        if leaving.recv_timeout(SILENT) == Err(RecvTimeoutError::Timeout) {
            output::line_aside(
                "takes bellows' modules away again; a busy node needs its time for that",
            );
        }
    };
    // Without a thread nothing is said, and all else works.
    let teller = thread::Builder::new().name("leave".into()).spawn(tell);
    let closed = helper.close();
    drop(left);
    if let Ok(teller) = teller {
        let _ = teller.join();
    }
    closed
}
