//! The Firefox Profiler's "processed profile" format, which <https://profiler.firefox.com> reads: tables of
//! functions and stacks that all threads share, and for each thread its samples by time. Its crate
//! `fxprof-processed-profile` takes addresses or stacks one by one, and our tables are already those of the format.

use std::collections::HashMap;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::fold::NO_THREAD;
use super::frames::FrameKind;
use super::model::{Profile, ProfileHeader, Sample};

/// Version of the layout: the first one in which all tables are shared and sources have lines.
const VERSION: u32 = 61;
/// Libraries have the number of a build, which is not kept.
const NO_BUILD: &str = "000000000000000000000000000000000";
/// `resourceTable.type` of a library.
const LIBRARY: u32 = 1;

/// Kinds of code with the profiler's colours for them. The profiler takes the grey one where none is told.
const CATEGORIES: [(FrameKind, &str, &str); 7] = [
    (FrameKind::Unknown, "Other", "grey"),
    (FrameKind::Erlang, "Erlang", "orange"),
    (FrameKind::Java, "Java", "yellow"),
    (FrameKind::Runtime, "Runtime", "purple"),
    (FrameKind::Libc, "C library", "lightblue"),
    (FrameKind::Kernel, "Kernel", "blue"),
    (FrameKind::Native, "Native", "magenta"),
];

/// A thread's samples, each with its time in nanoseconds.
type TimedSamples<'a> = Vec<(u64, &'a Sample)>;

#[derive(Default)]
struct Texts<'a> {
    all: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
}

impl<'a> Texts<'a> {
    fn index(&mut self, text: &'a str) -> usize {
        *self.index.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() - 1
        })
    }
}

impl Profile {
    /// The profile as the Firefox Profiler reads it, JSON in gzip.
    pub fn to_firefox(&self, title: &str) -> io::Result<Vec<u8>> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut gzip, &self.processed(title))?;
        gzip.flush()?;
        gzip.finish()
    }

    fn processed(&self, title: &str) -> Value {
        let mut modules = Texts::default();
        let of_frame: Vec<Option<usize>> = (self.frames.iter())
            .map(|frame| (!frame.module.is_empty()).then(|| modules.index(&frame.module)))
            .collect();
        let libraries = modules.all.iter().map(|module| {
            json!({"name": module, "path": module, "debugName": module, "debugPath": module,
                "breakpadId": NO_BUILD, "codeId": null, "arch": null})
        });
        json!({
            "meta": self.meta(title),
            "libs": libraries.collect::<Vec<_>>(),
            "shared": self.shared(&modules.all, &of_frame),
            "threads": self.sampled_threads(),
            "pages": [],
            "profilerOverhead": [],
            "counters": [],
        })
    }

    fn meta(&self, title: &str) -> Value {
        let categories =
            CATEGORIES.map(|(_, name, color)| json!({"name": name, "color": color, "subcategories": ["Other"]}));
        json!({
            "categories": categories,
            "debug": false,
            "extensions": {"length": 0, "baseURL": [], "id": [], "name": []},
            "interval": milliseconds(self.interval_ns()),
            "preprocessedProfileVersion": VERSION,
            "processType": 0,
            "product": title,
            "importedFrom": format!("bellows {}", env!("CARGO_PKG_VERSION")),
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"},
            "startTime": milliseconds(self.header.origin_unix_ns),
            "symbolicated": true,
            "pausedRanges": [],
            "version": 24,
            "usesOnlyOneStackType": true,
            "sourceCodeIsNotOnSearchfox": true,
            "markerSchema": [],
        })
    }

    /// The tables that threads share: one function and one frame for each of ours.
    fn shared<'a>(&'a self, modules: &[&'a str], of_frame: &[Option<usize>]) -> Value {
        let mut texts = Texts::default();
        let names: Vec<usize> = self.frames.iter().map(|f| texts.index(&f.name)).collect();
        let libraries: Vec<usize> = modules.iter().map(|module| texts.index(module)).collect();
        let functions = names.len();
        let category = |kind| CATEGORIES.iter().position(|(known, ..)| *known == kind);
        let categories = self.frames.iter().map(|f| category(f.kind).unwrap_or(0));
        let nothing = vec![Value::Null; functions];
        let zeros = vec![0; functions];
        let prefixes: Vec<Option<u32>> = self.stacks.iter().map(|node| node.parent).collect();
        let frames: Vec<u32> = self.stacks.iter().map(|node| node.frame).collect();
        let resources = of_frame.iter().map(|library| library.map_or(json!(-1), |it| json!(it)));
        json!({
            "stackTable": {"length": self.stacks.len(), "prefix": prefixes, "frame": frames},
            "frameTable": {
                "length": functions,
                "func": (0..functions).collect::<Vec<_>>(),
                "category": categories.collect::<Vec<_>>(),
                "subcategory": zeros,
                "line": nothing,
                "column": nothing,
                "address": vec![-1; functions],
                "nativeSymbol": nothing,
                "inlineDepth": zeros,
                "innerWindowID": zeros,
            },
            "funcTable": {
                "length": functions,
                "name": names,
                "isJS": vec![false; functions],
                "relevantForJS": vec![false; functions],
                "resource": resources.collect::<Vec<_>>(),
                "source": nothing,
                "lineNumber": nothing,
                "columnNumber": nothing,
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "resourceTable": {
                "length": libraries.len(),
                "lib": (0..libraries.len()).collect::<Vec<_>>(),
                "name": libraries,
                "host": vec![Value::Null; libraries.len()],
                "type": vec![LIBRARY; libraries.len()],
            },
            "sources": {"length": 0, "id": [], "filename": [], "startLine": [], "startColumn": [], "sourceMapURL": []},
            "stringArray": texts.all,
        })
    }

    fn sampled_threads(&self) -> Vec<Value> {
        let mut by_thread: Vec<TimedSamples<'_>> = vec![Vec::new(); self.threads.len()];
        // Where the format that it came from had no times, samples stand one behind the other.
        let timed = self.samples.iter().any(|sample| sample.t > 0);
        let mut passed = 0u64;
        for sample in self.in_time_order() {
            let at = if timed { sample.t } else { passed };
            passed = passed.saturating_add(self.lasts_ns(sample));
            if let Some(samples) = by_thread.get_mut(sample.thread as usize) {
                samples.push((at, sample));
            }
        }
        let end = self.span.map_or(passed, |(_, end)| end);
        let threads = (1u32..).zip(self.threads.iter().zip(&by_thread));
        let sampled = threads.filter(|(_, (_, samples))| !samples.is_empty());
        let one = |(tid, (name, samples)): (u32, (&String, &TimedSamples<'_>))| {
            json!({
                "name": if name.is_empty() { NO_THREAD } else { name },
                "isMainThread": tid == 1,
                "pausedRanges": [],
                "pid": self.header.pid.to_string(),
                "processName": self.header.command,
                "processShutdownTime": null,
                "processStartupTime": 0,
                "processType": "default",
                "registerTime": 0,
                "tid": tid.to_string(),
                "unregisterTime": milliseconds(end),
                "showMarkersInTimeline": false,
                "samples": self.sample_table(samples),
                "markers": {"length": 0, "category": [], "data": [], "endTime": [], "name": [],
                    "phase": [], "startTime": []},
            })
        };
        sampled.map(one).collect()
    }

    fn sample_table(&self, samples: &[(u64, &Sample)]) -> Value {
        let mut before = 0;
        let deltas = samples.iter().map(|(at, _)| {
            let delta = at.saturating_sub(before);
            before = *at;
            milliseconds(delta)
        });
        let deltas: Vec<f64> = deltas.collect();
        let stacks: Vec<u32> = samples.iter().map(|(_, sample)| sample.stack).collect();
        let (kind, weights): (_, Vec<Value>) = match self.header.unit.as_str() {
            "nanoseconds" => ("tracing-ms", samples.iter().map(|(_, it)| json!(milliseconds(it.weight))).collect()),
            "bytes" => ("bytes", samples.iter().map(|(_, it)| json!(it.weight)).collect()),
            _ => ("samples", samples.iter().map(|(_, it)| json!(it.weight)).collect()),
        };
        json!({"length": samples.len(), "weightType": kind, "stack": stacks, "timeDeltas": deltas, "weight": weights})
    }

    /// Time from one sample to the next; a millisecond where that is not known.
    fn interval_ns(&self) -> u64 {
        match self.header.period_ns {
            0 => 1_000_000,
            period => period,
        }
    }

    /// How long a sample lasts on a time axis that its format did not have.
    fn lasts_ns(&self, sample: &Sample) -> u64 {
        match self.header.unit.as_str() {
            "nanoseconds" => sample.weight,
            "samples" | ProfileHeader::WEIGHT => sample.weight.saturating_mul(self.interval_ns()),
            _ => self.interval_ns(),
        }
    }
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}
