//! bellows as a process among the peers: its own JSON object gives the figures.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use archive::RunSummary;

/// Runs `bellows ARGS --json --quiet --no-archive` and reads its object.
pub fn run(bellows: &Path, args: &[&str]) -> Result<RunSummary> {
    start(bellows, args)?.finish()
}

/// Starts the command, without waiting for its end.
pub fn start(bellows: &Path, args: &[&str]) -> Result<Running> {
    let child = Command::new(bellows)
        .args(args)
        .args(["--json", "--quiet", "--no-archive"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", bellows.display()))?;
    Ok(Running {
        child,
        command: args.join(" "),
    })
}

/// A bellows that has been started.
pub struct Running {
    child: Child,
    command: String,
}

impl Running {
    /// Waits for its end and reads its object.
    pub fn finish(self) -> Result<RunSummary> {
        let output = self.child.wait_with_output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("bellows {}: {}", self.command, error.trim());
        }
        serde_json::from_slice(&output.stdout).context("bellows printed no run object")
    }
}
