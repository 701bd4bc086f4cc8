//! Pages of metrics: how fast one is parsed, beside another parser and beside reading the same bytes from memory.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use wire::openmetrics::{PageEvent, PageFormat, Parser};

use crate::environment::Bench;
use crate::peers;
use crate::table::Row;

/// Series of a page of 100,000 queues.
const SERIES: usize = 2_000_000;
/// Bytes that a scrape takes from its socket at once.
const PIECE: usize = 64 << 10;
/// The part of the page that the other parser is given: it takes seconds for all of it.
const PEER_SERIES: usize = SERIES / 20;

/// One page of 2,000,000 series.
pub fn pages(bench: &Bench) -> Result<Vec<Row>> {
    let small = page(PEER_SERIES);
    let page = page(SERIES);
    let mut copy = vec![0; page.len()];
    // Each takes its turn, so that a machine that changes its speed changes it for all.
    let mut best = [0.0_f64; 3];
    for _ in 0..bench.pairs.max(3) {
        let own = rate(page.len(), || {
            ensure!(parse(page.as_bytes()) == SERIES as u64, "not all series");
            Ok(())
        })?;
        let memory = rate(page.len(), || {
            copy.copy_from_slice(black_box(page.as_bytes()));
            black_box(&copy);
            Ok(())
        })?;
        let peer = rate(small.len(), || {
            let samples = peers::count_samples(&small)?;
            ensure!(samples == PEER_SERIES, "not all series");
            Ok(())
        })?;
        for (best, tried) in best.iter_mut().zip([own, memory, peer]) {
            *best = best.max(tried);
        }
    }
    let [own, memory, peer] = best;
    let what = format!("a page of {} MB is parsed", page.len() / 1_000_000);
    Ok(vec![
        Row::new(what, "GB/s", own)
            .beside("prometheus-parse", peer)
            .beside("memory (copied)", memory)
            .goal("1.5 GB/s on one core", own >= 1.5)
            .note(format!("{SERIES} series; the best of each one's turns")),
    ])
}

fn parse(page: &[u8]) -> u64 {
    let mut samples = 0;
    let mut sum = 0.0;
    let mut parser = Parser::new(PageFormat::Prometheus);
    let mut on = |event: PageEvent<'_>| {
        if let PageEvent::Sample(sample) = event {
            samples += 1;
            sum += sample.value;
        }
    };
    for piece in page.chunks(PIECE) {
        parser.feed(piece, &mut on);
    }
    parser.finish(&mut on);
    black_box(sum);
    samples
}

/// Bytes handled in a nanosecond, which are GB/s.
fn rate(bytes: usize, mut handle: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    handle()?;
    Ok(bytes as f64 / start.elapsed().as_nanos() as f64)
}

/// As RabbitMQ's page for each object: 20 families, and a series of each queue in each.
fn page(series: usize) -> String {
    const FAMILIES: [&str; 20] = [
        "rabbitmq_queue_messages_ready",
        "rabbitmq_queue_messages_unacked",
        "rabbitmq_queue_messages",
        "rabbitmq_queue_process_reductions_total",
        "rabbitmq_queue_process_memory_bytes",
        "rabbitmq_queue_consumers",
        "rabbitmq_queue_consumer_utilisation",
        "rabbitmq_queue_messages_ram",
        "rabbitmq_queue_messages_ram_bytes",
        "rabbitmq_queue_messages_ready_ram",
        "rabbitmq_queue_messages_unacked_ram",
        "rabbitmq_queue_messages_persistent",
        "rabbitmq_queue_messages_bytes",
        "rabbitmq_queue_messages_ready_bytes",
        "rabbitmq_queue_messages_unacked_bytes",
        "rabbitmq_queue_messages_paged_out",
        "rabbitmq_queue_disk_reads_total",
        "rabbitmq_queue_disk_writes_total",
        "rabbitmq_queue_messages_published_total",
        "rabbitmq_queue_head_message_timestamp",
    ];
    let mut page = String::with_capacity(series * 90);
    for (number, family) in FAMILIES.iter().enumerate() {
        let kind = if family.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let _ = writeln!(
            page,
            "# TYPE {family} {kind}\n# HELP {family} One of a queue's figures"
        );
        for queue in 0..series / FAMILIES.len() {
            let value = queue * (number + 7) % 100_003;
            let _ = writeln!(
                page,
                "{family}{{vhost=\"/\",queue=\"orders-{queue}\"}} {value}"
            );
        }
    }
    page
}
