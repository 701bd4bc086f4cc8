//! `perf` as the peer.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use stacks::{Profile, ProfileSummary};
use wait4::Wait4;

use super::Sampling;

/// Its version; `None` where there is no `perf` that runs here.
pub fn version() -> Option<String> {
    let output = Command::new("perf").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// `perf record` of a process.
pub fn record(pid: u32, sampling: Sampling, data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("perf");
    command
        // Without -N it copies the programs of the process to the home directory.
        .args(["record", "-q", "-N", "-e", "cpu-clock"])
        .args(["-F", &sampling.frequency.to_string()])
        .args(args)
        .args(["-p", &pid.to_string(), "-o"])
        .arg(data)
        .args(["--", "sleep", &sampling.seconds.to_string()]);
    command
}

/// Its file as bellows reads it, so that the same rules say what is complete and what has no name.
pub fn read(data: &Path) -> Result<ProfileSummary> {
    let profile = Profile::open_as(&[profile::PERF_DATA], data, None)?;
    Ok(profile.summary(0))
}

/// CPU seconds of `perf script`, which every further tool reads its stacks from.
pub fn script(data: &Path) -> Result<f64> {
    let mut child = Command::new("perf")
        .args(["script", "-i"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("perf script")?;
    let ended = child.wait4()?;
    if !ended.status.success() {
        bail!("perf script ended with {}", ended.status);
    }
    Ok((ended.rusage.utime + ended.rusage.stime).as_secs_f64())
}
