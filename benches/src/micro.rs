//! Figures that need no peer process: one recording, one million samples, the profiler itself.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use brokers::rabbitmq::RabbitMq;
use measure::{Metric, Nanos, Recorder, Time};
use report::flame::{FlameOptions, svg};
use stacks::{Frame, FrameKind, Profile, ProfileHeader, Sample, StackNode, Unwinding};
use wire::openmetrics::{PageEvent, PageFormat, Parser};

use crate::environment::Bench;
use crate::peers;
use crate::table::Row;

/// Recording one latency into the product's histogram.
pub fn record() -> Vec<Row> {
    const COUNT: u64 = 50_000_000;
    let mut recorder = Recorder::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Values are made beforehand, spread over 100 us to 100 ms as latencies are.
    let values: Vec<u64> = (0..65_536).map(|_| (100_000 << (random.next() % 10)) | (random.next() % 100_000)).collect();
    let start = Instant::now();
    for i in 0..COUNT {
        recorder.record(Metric::ACK_RESPONSE, Nanos(values[(i & 0xffff) as usize]));
    }
    let ns = start.elapsed().as_nanos() as f64 / COUNT as f64;
    black_box(&recorder);
    vec![Row::new("recording one latency", "ns", ns).goal("under 30 ns", ns < 30.0)]
}

/// One million samples in memory to folded text, SVG and table.
pub fn profile_pipeline() -> Result<Vec<Row>> {
    let profile = synthetic(1_000_000);
    let start = Instant::now();
    let parts = pipeline(&profile)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(vec![
        Row::new("1 M samples to folded, SVG and table", "s", seconds)
            .goal("under 1 s", seconds < 1.0)
            .note(format!("{} bytes of folded text and SVG, {} functions", parts.bytes, parts.functions)),
    ])
}

struct Parts {
    bytes: usize,
    functions: usize,
}

fn pipeline(profile: &Profile) -> Result<Parts> {
    let folded = profile.folded();
    let picture = svg(profile, &FlameOptions::default())?;
    let functions = profile.functions();
    Ok(Parts { bytes: folded.len() + picture.len(), functions: functions.len() })
}

/// Stacks of 10 to 60 frames over 2,000 functions, 20,000 distinct leaves: what a busy node gives.
fn synthetic(count: usize) -> Profile {
    let mut random = Random(42);
    let frames = (0..2_000)
        .map(|i| Frame::new(format!("$module_{}:function_{i}/3", i % 150), "[jit]", FrameKind::Erlang))
        .collect();
    let mut stacks = vec![StackNode { parent: None, frame: 0 }];
    let mut depth = vec![0u32];
    while stacks.len() < 60_000 {
        let parent = (random.next() as usize) % stacks.len().min(40_000);
        if depth[parent] < 60 {
            depth.push(depth[parent] + 1);
            stacks.push(StackNode { parent: Some(parent as u32), frame: (random.next() % 2_000) as u32 });
        }
    }
    let samples = (0..count)
        .map(|i| Sample {
            t: i as u64 * 30_000,
            weight: 1,
            stack: 40_000 + (random.next() % 20_000) as u32,
            thread: (random.next() % 4) as u32,
            cpu: (i % 2) as u16,
            complete: true,
            unwinding: Unwinding::Unknown,
            process: None,
            wait: None,
        })
        .collect();
    let threads = (1..=4).map(|i| format!("{i}_scheduler")).collect();
    Profile { header: ProfileHeader::new(Time(0), 0), frames, stacks, threads, samples, ..Profile::default() }
}

/// Xorshift: repeatable, no dependency.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

/// See `scenarios::profiler`.
pub fn profiler(bench: &Bench, node: &RabbitMq, folder: &Path) -> Result<Vec<Row>> {
    let seconds = bench.seconds.to_string();
    let runs = folder.join("runs");
    let mut load = background(
        Command::new(&bench.bellows)
            .args(["producer", "queue://profiled", "--queue-type", "stream", "--url", &node.url()])
            .args(["--max-pending", "2000", "--message-size", "12", "--quiet", "--no-archive"])
            .args(["--duration", &(bench.seconds + 6).to_string()]),
    )?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    let pid = node.pid().to_string();
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf")
        .args(["record", "-q", "-F", "999", "-e", "cpu-clock", "-g", "-p", &pid, "-o"])
        .arg(&data)
        .args(["--", "sleep", &seconds])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok();
    let status = Command::new(&bench.bellows)
        .args(["record", "--pid", &pid, "--freq", "999", "--duration", &seconds, "--quiet"])
        .arg("--runs")
        .arg(&runs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("bellows record ended with {status}");
    }
    let perf_worked = perf.as_mut().map(Child::wait).transpose()?.is_some_and(|s| s.success());
    load.wait()?;
    let run = std::fs::read_dir(&runs)?.next().context("no run folder")??.path();
    let start = Instant::now();
    let profile = Profile::open(run.join("cpu.stacks"))?;
    pipeline(&profile)?;
    let ours = start.elapsed().as_secs_f64();
    let own_share = profile.own_cpu_ns as f64 / (bench.seconds as f64 * 1e9) * 100.0;
    let summary = profile.summary(0);
    let mut text = Row::new("stacks file to folded, SVG and table", "s", ours)
        .note(format!("{} samples, from the file on disk", summary.samples));
    if perf_worked {
        let (name, theirs) = perl_chain(bench, &data, folder)?;
        text = text.beside(name, theirs).goal("at least 20 x faster", ours * 20.0 <= theirs);
    }
    Ok(vec![
        text,
        Row::new("profiler's own CPU at 999 Hz", "% core", own_share)
            .goal("under 3 % of a core", own_share < 3.0)
            .note(format!(
                "{} lost; {:.1} % of stacks complete, {:.1} % with a nameless frame",
                summary.lost,
                summary.complete_share * 100.0,
                summary.unknown_share * 100.0
            )),
    ])
}

fn background(command: &mut Command) -> Result<Child> {
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

/// `perf script`, alone or with the Perl programs behind it where they are.
fn perl_chain(bench: &Bench, data: &Path, folder: &Path) -> Result<(&'static str, f64)> {
    let script = format!("perf script -i {} 2>/dev/null", data.display());
    let (name, chain) = match &bench.flamegraph_dir {
        Some(dir) => (
            "perf script | stackcollapse-perf.pl | flamegraph.pl",
            format!("{script} | {0}/stackcollapse-perf.pl | {0}/flamegraph.pl", dir.display()),
        ),
        None => ("perf script alone", script),
    };
    let out = folder.join("perl.out");
    let start = Instant::now();
    let status = Command::new("sh").args(["-c", &format!("{chain} > {}", out.display())]).status()?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok((name, start.elapsed().as_secs_f64()))
}

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
    const FAMILIES: &str = "messages_ready messages_unacked messages process_reductions_total process_memory_bytes \
                            consumers consumer_utilisation messages_ram messages_ram_bytes messages_ready_ram \
                            messages_unacked_ram messages_persistent messages_bytes messages_ready_bytes \
                            messages_unacked_bytes messages_paged_out disk_reads_total disk_writes_total \
                            messages_published_total head_message_timestamp";
    let families: Vec<_> = FAMILIES.split_whitespace().map(|it| format!("rabbitmq_queue_{it}")).collect();
    let mut page = String::with_capacity(series * 90);
    for (number, family) in families.iter().enumerate() {
        let kind = if family.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(page, "# TYPE {family} {kind}\n# HELP {family} One of a queue's figures");
        for queue in 0..series / families.len() {
            let value = queue * (number + 7) % 100_003;
            let _ = writeln!(page, "{family}{{vhost=\"/\",queue=\"orders-{queue}\"}} {value}");
        }
    }
    page
}
