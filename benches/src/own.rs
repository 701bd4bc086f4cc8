//! bellows as a process among the peers: its own JSON object gives the figures.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use archive::RunSummary;

/// Runs `bellows ARGS --json --quiet --no-archive` and reads its object.
pub fn run(bellows: &Path, args: &[&str]) -> Result<RunSummary> {
    let output = Command::new(bellows)
        .args(args)
        .args(["--json", "--quiet", "--no-archive"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", bellows.display()))?;
    if !output.status.success() {
        bail!(
            "bellows {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("bellows printed no run object")
}
