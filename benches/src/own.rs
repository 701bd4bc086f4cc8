//! bellows as a process among the peers: its own JSON object gives the figures.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use archive::RunSummary;

/// Runs a load on the broker at `url`. Blanks separate its words; `warmup` and `seconds` are the lengths of its phases.
pub fn load(bellows: &Path, url: &str, words: &str, warmup: u64, seconds: u64) -> Result<RunSummary> {
    let (warmup, seconds) = (warmup.to_string(), seconds.to_string());
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--url", url, "--warmup", &warmup, "--duration", &seconds]);
    start(bellows, &args)?.finish()
}

/// CPU time of bellows per message, microseconds.
pub fn cpu_us(summary: &RunSummary) -> Result<f64> {
    let cpu_us = summary.messages().cpu_us_each.client;
    cpu_us.context("bellows told no CPU time")
}

/// Peak memory of bellows, 10^6 bytes.
pub fn memory_mb(summary: &RunSummary) -> Result<f64> {
    summary.rss_mb.client.context("bellows told no memory")
}

/// Starts `bellows ARGS --json --quiet --no-archive`, without waiting for its end.
pub fn start(bellows: &Path, args: &[&str]) -> Result<Running> {
    let child = Command::new(bellows)
        .args(args)
        .args(["--json", "--quiet", "--no-archive"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", bellows.display()))?;
    Ok(Running { child, command: args.join(" ") })
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
