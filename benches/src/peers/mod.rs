//! Peers that are crates. They are heavy, so only the feature `peers` compiles them; the rest of the bench, which uses
//! bellows' own crates, is checked with these.

#[cfg(all(test, feature = "peers"))]
mod amqp10_tests;
#[cfg(feature = "peers")]
mod lapin;

use anyhow::Result;

#[cfg(feature = "peers")]
pub use self::lapin::publish;

/// Arguments of the publisher on `lapin`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Broker URL
    #[arg(long)]
    pub url: String,
    /// Stream to publish to, through the default exchange; declared first
    #[arg(long)]
    pub queue: String,
    /// Unconfirmed messages at most
    #[arg(long)]
    pub window: usize,
    /// Payload size in bytes
    #[arg(long)]
    pub size: usize,
    /// Seconds to publish
    #[arg(long)]
    pub seconds: u64,
}

/// How many samples a page of metrics has, by crate `prometheus-parse`.
#[cfg(feature = "peers")]
pub fn count_samples(page: &str) -> Result<usize> {
    let lines = page.lines().map(|line| Ok(line.to_owned()));
    Ok(prometheus_parse::Scrape::parse(lines)?.samples.len())
}

#[cfg(not(feature = "peers"))]
const ABSENT: &str = "this bench was built without its peers: make bench builds it with them";

/// Fails: `lapin` is not compiled.
#[cfg(not(feature = "peers"))]
pub fn publish(_: Args) -> Result<()> {
    anyhow::bail!(ABSENT)
}

/// Fails: `prometheus-parse` is not compiled.
#[cfg(not(feature = "peers"))]
pub fn count_samples(_: &str) -> Result<usize> {
    anyhow::bail!(ABSENT)
}
