//! Processes: with a number of one's choice, for tests of what happens when the kernel uses one again, and signals.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct ChildGuard(pub Child);

impl ChildGuard {
    /// One that does nothing.
    pub fn idle() -> Self {
        let child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn();
        Self(child.expect("sleep starts"))
    }
}

impl Deref for ChildGuard {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for ChildGuard {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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

/// Sends a process a signal by name, such as `STOP`, and waits until a stopped one stands still: on a busy machine its
/// other threads go on for as long as the one that was told to stop waits for a core.
pub fn signal(pid: u32, name: &str) {
    let arguments = [format!("-{name}"), pid.to_string()];
    let sent = Command::new("kill").args(arguments).status();
    assert!(sent.expect("kill").success(), "cannot send {name} to {pid}");
    let until = Instant::now() + Duration::from_secs(10);
    while name == "STOP" && !stands_still(pid) {
        assert!(Instant::now() < until, "{pid} does not stop");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Each of its threads is stopped, or gone.
fn stands_still(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
    })
}

/// A tool of the JDK that has little to do: with one compiler and one collector it takes half of the CPU time.
pub fn java(tool: &str) -> Command {
    let mut command = Command::new(tool);
    command.env("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
    command
}
