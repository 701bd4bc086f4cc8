//! How much CPU time a process has used, in nanoseconds.
//!
//! `/proc/PID/stat` counts in ticks of 10 ms, too coarse for the cost of a message in a short run;
//! the scheduler's own sum is behind the process's CPU clock (`clock_getcpuclockid(3)`), threads
//! that have ended included.

use measure::Nanos;
use nix::time::ClockId;
use nix::unistd::Pid;

/// CPU time that process `pid` has used so far, all its threads, user and kernel; `None` where
/// there is no such process. Needs no permission.
#[must_use]
pub fn cpu_time(pid: u32) -> Option<Nanos> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok()?;
    let time = clock.now().ok()?;
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanos = u64::try_from(time.tv_nsec()).ok()?;
    Some(Nanos(seconds * 1_000_000_000 + nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_grows_with_work_and_nobody_has_none() {
        let before = cpu_time(std::process::id()).unwrap();
        let mut x = 1u64;
        while cpu_time(std::process::id()).unwrap().saturating_sub(before) < Nanos(2_000_000) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert_eq!(cpu_time(0), None);
        assert_eq!(cpu_time(u32::MAX), None);
        // The largest number that Linux gives a process is 2^22.
        assert_eq!(cpu_time((1 << 22) + 1), None);
    }

    #[test]
    fn another_process_can_be_read() {
        let mut child = std::process::Command::new("sleep")
            .arg("5")
            .spawn()
            .unwrap();
        let time = cpu_time(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(time.is_some_and(|time| time < Nanos::SECOND), "{time:?}");
    }
}
