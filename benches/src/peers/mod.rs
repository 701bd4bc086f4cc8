//! Peers that are crates. They are heavy, so only the feature `peers` compiles them; the rest of the bench, which uses
//! bellows' own crates, is checked with these.

#[cfg(not(feature = "peers"))]
mod absent;
#[cfg(feature = "peers")]
mod lapin;
#[cfg(feature = "peers")]
mod prometheus;

#[cfg(feature = "peers")]
pub use self::{lapin::publish, prometheus::count_samples};
#[cfg(not(feature = "peers"))]
pub use absent::{count_samples, publish};

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
