//! Crate `prometheus-parse`, which reads pages of metrics.

use anyhow::Result;

/// How many samples a page has.
pub fn count_samples(page: &str) -> Result<usize> {
    let lines = page.lines().map(|line| Ok(line.to_owned()));
    Ok(prometheus_parse::Scrape::parse(lines)?.samples.len())
}
