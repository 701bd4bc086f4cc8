//! From the tables of a profile to pprof's.

use std::collections::HashMap;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use super::{
    CUT_OFF, Function, LABEL_PROCESS, LABEL_REASON, LABEL_STACK, LABEL_THREAD, LABEL_WAKER, Label, LineMessage,
    Location, Mapping, ProfileMessage, SampleMessage, ValueType,
};
use crate::frames::Frame;
use crate::model::{ErlangProcess, Profile};

impl Profile {
    /// The profile in pprof's format, compressed: the bytes of a `.pb.gz` file.
    pub fn to_pprof(&self) -> io::Result<Vec<u8>> {
        let message = Writer::default().profile(self).encode_to_vec();
        let mut gzip = GzEncoder::new(Vec::with_capacity(message.len() / 4), Compression::fast());
        gzip.write_all(&message)?;
        gzip.finish()
    }
}

#[derive(Default)]
struct Writer {
    strings: Vec<String>,
    index: HashMap<String, i64>,
}

impl Writer {
    fn profile(mut self, profile: &Profile) -> ProfileMessage {
        self.string("");
        let header = &profile.header;
        let mut sample_type = vec![self.value_type("samples", "count")];
        if header.unit != "samples" {
            let name = [&header.event, &header.unit];
            let name = name.into_iter().find(|it| !it.is_empty());
            sample_type = vec![self.value_type(name.map_or("", String::as_str), &header.unit)];
        }
        let timed = header.unit == "samples" && header.period_ns > 0;
        if timed {
            sample_type.push(self.value_type(&header.event, "nanoseconds"));
        }
        let mapping = self.mappings(profile);
        let (location, function) = self.functions(profile, &mapping);
        let sample = self.samples(profile, timed.then_some(header.period_ns));
        let (from, to) = profile.span.unwrap_or_default();
        ProfileMessage {
            period_type: timed.then(|| self.value_type(&header.event, "nanoseconds")),
            period: signed(header.period_ns),
            default_sample_type: sample_type.first().map_or(0, |t| t.r#type),
            comment: profile.notes.iter().map(|note| self.string(note)).collect(),
            time_nanos: match header.origin_unix_ns {
                0 => 0,
                origin => signed(origin.saturating_add(from)),
            },
            duration_nanos: signed(to.saturating_sub(from)),
            sample_type,
            sample,
            mapping: mapping.iter().map(|(_, m)| *m).collect(),
            location,
            function,
            string_table: self.strings,
            ..ProfileMessage::default()
        }
    }

    /// One mapping per module: first the main binary, as the format has it, then by name.
    fn mappings(&mut self, profile: &Profile) -> Vec<(String, Mapping)> {
        let command = profile.header.command.as_str();
        let mut modules: Vec<&str> = profile.frames.iter().map(|f| f.module.as_str()).collect();
        modules.retain(|module| !module.is_empty());
        // The kernel cuts a command's name after 15 bytes.
        modules.sort_by_key(|m| (command.is_empty() || !m.starts_with(command), *m));
        modules.dedup();
        (1u64..)
            .zip(modules)
            .map(|(id, module)| {
                let filename = self.string(module);
                let build_id = self.string(profile.builds.of(module).unwrap_or_default());
                let mapping = Mapping { id, filename, build_id, has_functions: true };
                (module.to_owned(), mapping)
            })
            .collect()
    }

    /// Frame `n` is location `n + 1`, for 0 is no id. Lines of a function are locations of their own.
    fn functions(&mut self, profile: &Profile, mappings: &[(String, Mapping)]) -> (Vec<Location>, Vec<Function>) {
        let ids: HashMap<&str, u64> = mappings.iter().map(|(m, p)| (m.as_str(), p.id)).collect();
        let mut known = HashMap::new();
        let mut functions = Vec::new();
        let mut location = |(id, frame): (u64, &Frame)| {
            let name = self.string(&frame.name);
            let mapping_id = ids.get(frame.module.as_str()).copied().unwrap_or(0);
            let file = frame.line.as_ref().map_or("", |line| line.file.as_str());
            let filename = self.string(file);
            let next = functions.len() as u64 + 1;
            let function_id = *known.entry((name, mapping_id, filename)).or_insert(next);
            if function_id == next {
                functions.push(Function { id: next, name, system_name: name, filename });
            }
            let line = frame.line.as_ref().map_or(0, |line| line.number.into());
            Location { id, mapping_id, line: vec![LineMessage { function_id, line }] }
        };
        let locations = (1u64..).zip(&profile.frames).map(&mut location).collect();
        (locations, functions)
    }

    fn samples(&mut self, profile: &Profile, period_ns: Option<u64>) -> Vec<SampleMessage> {
        let sums = profile.sums(|s| (s.thread, s.stack, s.complete, s.process, s.wait));
        let (thread_key, stack_key) = (self.string(LABEL_THREAD), self.string(LABEL_STACK));
        let cut_off = self.string(CUT_OFF);
        let threads: Vec<_> = profile.threads.iter().map(|name| self.string(name)).collect();
        let process_key = self.string(LABEL_PROCESS);
        let processes = profile.processes.iter().map(ErlangProcess::label);
        let processes: Vec<_> = processes.map(|label| self.string(&label)).collect();
        let waits = self.waits(profile);
        let mut path = Vec::new();
        sums.into_iter()
            .map(|((thread, stack, complete, process, wait), weight)| {
                profile.path_into(stack, &mut path);
                let str = threads.get(thread as usize).copied().unwrap_or(0);
                let mut label = vec![Label { key: thread_key, str }];
                if !complete {
                    label.push(Label { key: stack_key, str: cut_off });
                }
                let process = process.and_then(|it| processes.get(it as usize));
                label.extend(process.map(|&str| Label { key: process_key, str }));
                let wait = wait.and_then(|it| waits.get(it as usize));
                label.extend(wait.into_iter().flatten());
                let mut value = vec![signed(weight)];
                value.extend(period_ns.map(|ns| signed(weight.saturating_mul(ns))));
                let location_id = path.iter().map(|&frame| u64::from(frame) + 1).collect();
                SampleMessage { location_id, value, label }
            })
            .collect()
    }

    /// The labels that say why times off CPU ended, and who ended them.
    fn waits(&mut self, profile: &Profile) -> Vec<Vec<Label>> {
        let (reason, waker) = (self.string(LABEL_REASON), self.string(LABEL_WAKER));
        let labels = profile.waits.iter().map(|wait| {
            let mut labels = vec![Label { key: reason, str: self.string(wait.reason.name()) }];
            if !wait.waker.is_empty() {
                let str = self.string(&wait.waker);
                labels.push(Label { key: waker, str });
            }
            labels
        });
        labels.collect()
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.string(kind), unit: self.string(unit) }
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(&id) = self.index.get(text) {
            return id;
        }
        let id = i64::try_from(self.strings.len()).unwrap_or(i64::MAX);
        self.strings.push(text.to_owned());
        self.index.insert(text.to_owned(), id);
        id
    }
}

/// pprof counts in signed numbers.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
