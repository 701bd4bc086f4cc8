//! Figures beside the load of a cluster: CPU and memory of its nodes, and pages of metrics.

use archive::{NodeSummary, PageCpu, ScrapedPage};
use measure::LatencySummary;

/// Three nodes, of which one was away for a while.
pub(crate) fn nodes() -> Vec<NodeSummary> {
    let used = [(0, 0.412, 151.3), (1, 0.118, 139.0), (2, 0.387, 1_402.0)];
    let used = used.map(|(node, cpu_cores, rss_mb)| NodeSummary {
        node,
        cpu_cores,
        ran_s: (node == 1).then_some(6.2),
        rss_mb,
        ..NodeSummary::default()
    });
    used.into()
}

/// Pages of known cost, of unknown cost, of another server, and one that never came.
pub(crate) fn scrapes() -> Vec<ScrapedPage> {
    let cpu = |seconds, interval| Some(PageCpu { seconds, interval });
    vec![
        ScrapedPage { is_of_broker: true, broker_cpu: cpu(0.0274, (0.0124, 0.0421)), ..page("per-object", 20) },
        ScrapedPage { is_of_broker: true, broker_cpu: cpu(0.001, (-0.002, 0.004)), ..page("aggregated", 20) },
        ScrapedPage { is_of_broker: true, ..page("detailed", 3) },
        page("another machine", 20),
        ScrapedPage { failed: 20, ..page("away", 0) },
    ]
}

fn page(name: &str, completed: u64) -> ScrapedPage {
    let ns = 1_000_000 * completed.min(1);
    ScrapedPage {
        name: name.into(),
        url: "http://127.0.0.1:15692/metrics".into(),
        completed,
        response: LatencySummary {
            count: completed,
            mean_ns: ns * 30,
            p50_ns: ns * 29,
            p99_ns: ns * 41,
            max_ns: ns * 43,
            ..LatencySummary::default()
        },
        received_bytes: 24_000 * completed,
        arrived_bytes: 24_000 * completed.min(1),
        page_bytes: 265_471 * completed.min(1),
        page_bytes_max: 265_471 * completed.min(1),
        series: 3_283 * completed.min(1),
        series_max: 3_283 * completed.min(1),
        ..ScrapedPage::default()
    }
}
