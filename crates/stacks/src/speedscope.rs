//! Speedscope's own format (<https://www.speedscope.app/file-format-schema.json>): functions once, and for each
//! group of threads its stacks one after the other, each with its weight.

use std::io;

use serde::Serialize;

use super::model::Profile;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared<'a>,
    profiles: Vec<Sampled<'a>>,
    name: &'a str,
    active_profile_index: usize,
    exporter: String,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
}

/// Samples of one group of threads in the order of time.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u64,
    /// The sum of all weights.
    end_value: u64,
    /// Functions from the root down, as indices.
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

impl Profile {
    /// The profile as speedscope reads it, JSON. Neighbours of one stack are one sample; the clock's times are
    /// left out, for the format has a sum of weights in their place.
    pub fn to_speedscope(&self, title: &str) -> io::Result<Vec<u8>> {
        let groups = self.thread_groups();
        let header = &self.header;
        let counts_ticks = header.unit == "samples" && header.period_ns > 0;
        let factor = if counts_ticks { header.period_ns } else { 1 };
        let unit = match header.unit.as_str() {
            _ if counts_ticks => "nanoseconds",
            "nanoseconds" => "nanoseconds",
            "bytes" => "bytes",
            _ => "none",
        };
        let empty = |name| {
            let (samples, weights) = (Vec::new(), Vec::new());
            Sampled { kind: "sampled", name, unit, start_value: 0, end_value: 0, samples, weights }
        };
        let mut profiles: Vec<Sampled<'_>> = groups.names.iter().map(|name| empty(name)).collect();
        let mut last = vec![None; profiles.len()];
        let mut path = Vec::new();
        for sample in self.in_time_order() {
            let at = groups.of_thread.get(sample.thread as usize).copied().unwrap_or(u32::MAX) as usize;
            let (Some(profile), Some(last)) = (profiles.get_mut(at), last.get_mut(at)) else { continue };
            let weight = sample.weight.saturating_mul(factor);
            profile.end_value = profile.end_value.saturating_add(weight);
            let before = profile.weights.last_mut();
            if let Some(before) = before.filter(|_| *last == Some(sample.stack)) {
                *before = before.saturating_add(weight);
                continue;
            }
            self.path_into(sample.stack, &mut path);
            profile.samples.push(path.iter().rev().copied().collect());
            profile.weights.push(weight);
            *last = Some(sample.stack);
        }
        profiles.retain(|profile| !profile.samples.is_empty());
        let frames = self.frames.iter().map(|frame| Function { name: &frame.name, file: &frame.module });
        let file = File {
            schema: SCHEMA,
            shared: Shared { frames: frames.collect() },
            profiles,
            name: title,
            active_profile_index: 0,
            exporter: format!("bellows {}", env!("CARGO_PKG_VERSION")),
        };
        Ok(serde_json::to_vec(&file)?)
    }
}
