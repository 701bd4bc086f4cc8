//! Resource usage of each node of a cluster in the measured phase.

use archive::NodeSummary;

use super::recording::Recording;

impl Recording<'_> {
    /// Notes each node's usage when the measured phase begins. Its memory counts from here on: it may be killed before
    /// the first interval ends.
    pub(super) fn begin_nodes(&mut self) {
        self.nodes_before = Some(self.usage.nodes());
        self.node_peaks.clear();
        self.keep_peaks_of_nodes();
    }

    /// Sums up each node's usage since the measured phase began.
    pub(super) fn sum_up_nodes(&mut self) {
        let now = self.usage.nodes();
        let Some(before) = self.nodes_before.take() else {
            return;
        };
        let peaks = self.node_peaks.iter().copied().chain(std::iter::repeat(0));
        let nodes = now.iter().zip(&before).zip(peaks).enumerate();
        let nodes = nodes.map(|(node, ((now, before), peak))| {
            let cpu = now.used.cpu.saturating_sub(before.used.cpu).as_secs_f64();
            let watched = now.watched.saturating_sub(before.watched);
            let ran = now.ran.saturating_sub(before.ran);
            let (was_away, ran) = (ran < watched, ran.as_secs_f64());
            NodeSummary {
                node: u32::try_from(node).unwrap_or(u32::MAX),
                cpu_cores: if ran > 0.0 { cpu / ran } else { 0.0 },
                ran_s: was_away.then_some(ran),
                rss_mb: peak.max(now.used.rss_bytes) as f64 / 1e6,
            }
        });
        self.summary.nodes = nodes.collect();
    }

    /// Keeps the largest memory of each.
    pub(super) fn keep_peaks_of_nodes(&mut self) {
        let nodes = self.usage.nodes();
        self.node_peaks.resize(nodes.len(), 0);
        for (peak, node) in self.node_peaks.iter_mut().zip(&nodes) {
            *peak = node.used.rss_bytes.max(*peak);
        }
    }
}
