//! A process with a number of one's choice, for tests of what happens when the kernel uses one again.

use std::fs;
use std::process::Child;

/// Other processes of the machine may be quicker.
const ATTEMPTS: u32 = 1_000;

/// Starts processes with `spawn` until one has this number, which must be free. `None` where the
/// kernel does not let us choose (`/proc/sys/kernel/ns_last_pid` asks for `CAP_CHECKPOINT_RESTORE`).
pub fn process_with_number(number: u32, spawn: impl Fn() -> Child) -> Option<Child> {
    for _ in 0..ATTEMPTS {
        let last = number.checked_sub(1)?.to_string();
        fs::write("/proc/sys/kernel/ns_last_pid", last).ok()?;
        let mut child = spawn();
        if child.id() == number {
            return Some(child);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    None
}
