//! Resource usage of each node of a cluster in the measured phase.

use archive::NodeSummary;
use measure::Nanos;

use super::recording::Recording;

impl Recording<'_> {
    /// Notes each node's usage when the measured phase begins. Its memory counts from here on: it may be killed before
    /// the first interval ends.
    pub(super) fn begin_nodes(&mut self) {
        self.used.nodes_before = Some(self.usage.nodes());
        self.used.node_peaks.clear();
        self.keep_peaks_of_nodes();
    }

    /// Sums up each node's usage since the measured phase began.
    pub(super) fn sum_up_nodes(&mut self) {
        let now = self.usage.nodes();
        let Some(before) = self.used.nodes_before.take() else {
            return;
        };
        let peaks = self
            .used
            .node_peaks
            .iter()
            .copied()
            .chain(std::iter::repeat(0));
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

    /// CPU time that each node used in the measured phase, all processes that it was together; of a broker that is no
    /// cluster the whole.
    pub(super) fn cpu_of_nodes(&self) -> Vec<Option<Nanos>> {
        let nodes = &self.summary.nodes;
        if nodes.is_empty() {
            let used = self.used.between.and_then(|(begin, end)| {
                let (begin, end) = (begin.broker?, end.broker?);
                Some(end.cpu.saturating_sub(begin.cpu))
            });
            return vec![used];
        }
        let whole = self.measured_length.as_secs_f64();
        let cpu_s = nodes
            .iter()
            .map(|it| it.cpu_cores * it.ran_s.unwrap_or(whole));
        cpu_s.map(|it| Some(Nanos((it * 1e9) as u64))).collect()
    }

    /// Keeps the largest memory of each.
    pub(super) fn keep_peaks_of_nodes(&mut self) {
        let nodes = self.usage.nodes();
        self.used.node_peaks.resize(nodes.len(), 0);
        for (peak, node) in self.used.node_peaks.iter_mut().zip(&nodes) {
            *peak = node.used.rss_bytes.max(*peak);
        }
    }
}
