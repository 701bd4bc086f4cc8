//! What each node of a cluster uses in the measured phase.

use archive::NodeSummary;
use measure::Clock;

use super::recording::Recording;

impl Recording<'_> {
    /// Notes what each node has used when the measured phase begins. Its memory counts from here on: it may be killed
    /// before the first interval ends.
    pub(super) fn begin_nodes(&mut self) {
        self.nodes_before = Some((Clock.now(), self.usage.nodes()));
        self.node_peaks.clear();
        self.keep_peaks_of_nodes();
    }

    /// What each node has used since the beginning of the measured phase.
    pub(super) fn sum_up_nodes(&mut self) {
        let now = self.usage.nodes();
        let Some((since, before)) = self.nodes_before.take() else {
            return;
        };
        let seconds = Clock.now().since(since).as_secs_f64().max(1e-9);
        let peaks = self.node_peaks.iter().copied().chain(std::iter::repeat(0));
        let nodes = now.iter().zip(&before).zip(peaks).enumerate();
        let nodes = nodes.map(|(node, ((now, before), peak))| NodeSummary {
            node: u32::try_from(node).unwrap_or(u32::MAX),
            cpu_cores: now.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds,
            rss_mb: peak.max(now.rss_bytes) as f64 / 1e6,
        });
        self.summary.nodes = nodes.collect();
    }

    /// Keeps the largest memory of each.
    pub(super) fn keep_peaks_of_nodes(&mut self) {
        let nodes = self.usage.nodes();
        self.node_peaks.resize(nodes.len(), 0);
        for (peak, node) in self.node_peaks.iter_mut().zip(&nodes) {
            *peak = node.rss_bytes.max(*peak);
        }
    }
}
