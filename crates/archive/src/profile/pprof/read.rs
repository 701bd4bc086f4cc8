//! From pprof's tables to a profile. Takes what other tools write, too.

use std::collections::HashMap;

use prost::Message as _;

use super::{CUT_OFF, LABEL_STACK, LABEL_THREAD, proto};
use crate::profile::frames::{Frame, UNKNOWN};
use crate::profile::model::{Profile, ProfileHeader, Sample};
use crate::profile::tree::Builder;

/// Reads an uncompressed pprof message. The error says what is wrong with it.
pub(in crate::profile) fn read(bytes: &[u8]) -> Result<Profile, String> {
    let message = proto::Profile::decode(bytes).map_err(|e| e.to_string())?;
    let reader = Reader::new(&message);
    let mut builder = Builder::default();
    let value = reader.value_index();
    for sample in &message.sample {
        let Some(&weight) = sample.value.get(value) else {
            return Err(format!(
                "a sample has {} values, but value {value} is wanted",
                sample.value.len()
            ));
        };
        reader.sample(sample, u64::try_from(weight).unwrap_or(0), &mut builder);
    }
    let mut profile = builder.profile;
    profile.header = reader.header(value);
    profile.notes = message
        .comment
        .iter()
        .map(|&c| reader.text(c).to_owned())
        .collect();
    let duration = u64::try_from(message.duration_nanos).unwrap_or(0);
    profile.span = (duration > 0).then_some((0, duration));
    Ok(profile)
}

struct Reader<'a> {
    message: &'a proto::Profile,
    locations: HashMap<u64, &'a proto::Location>,
    functions: HashMap<u64, i64>,
    mappings: HashMap<u64, i64>,
}

impl<'a> Reader<'a> {
    fn new(message: &'a proto::Profile) -> Self {
        Self {
            message,
            locations: message.location.iter().map(|l| (l.id, l)).collect(),
            functions: message.function.iter().map(|f| (f.id, f.name)).collect(),
            mappings: message.mapping.iter().map(|m| (m.id, m.filename)).collect(),
        }
    }

    fn text(&self, index: i64) -> &'a str {
        let entry = usize::try_from(index)
            .ok()
            .and_then(|i| self.message.string_table.get(i));
        entry.map_or("", String::as_str)
    }

    /// Which of a sample's values is its weight: `samples` where there is one, else the default
    /// one, else the last (as pprof itself chooses).
    fn value_index(&self) -> usize {
        let position = |wanted: &dyn Fn(&proto::ValueType) -> bool| {
            self.message.sample_type.iter().position(wanted)
        };
        let default = self.message.default_sample_type;
        position(&|t| self.text(t.r#type) == "samples")
            .or_else(|| position(&|t| default != 0 && t.r#type == default))
            .unwrap_or(self.message.sample_type.len().saturating_sub(1))
    }

    fn header(&self, value: usize) -> ProfileHeader {
        let name = |t: &proto::ValueType| self.text(t.r#type).to_owned();
        let types = &self.message.sample_type;
        let chosen = types.get(value);
        let counts_samples = chosen.is_some_and(|t| self.text(t.r#type) == "samples");
        let timed = self
            .message
            .period_type
            .filter(|t| self.text(t.unit) == "nanoseconds" && counts_samples);
        let period_ns = timed.map_or(0, |_| u64::try_from(self.message.period).unwrap_or(0));
        let event = match timed.as_ref().or(chosen) {
            Some(t) if self.text(t.r#type) != "samples" => name(t),
            _ => "cpu".into(),
        };
        let unit = match chosen {
            Some(t) if !counts_samples => self.text(t.unit).to_owned(),
            _ => "samples".into(),
        };
        ProfileHeader {
            schema: ProfileHeader::SCHEMA.into(),
            event,
            unit,
            period_ns,
            frequency: 1_000_000_000u64
                .checked_div(period_ns)
                .and_then(|f| u32::try_from(f).ok())
                .unwrap_or(0),
            kernel_frames: true,
            origin_unix_ns: u64::try_from(self.message.time_nanos).unwrap_or(0),
            ..ProfileHeader::default()
        }
    }

    fn sample(&self, sample: &proto::Sample, weight: u64, builder: &mut Builder) {
        let label = |key: &str| sample.label.iter().find(|l| self.text(l.key) == key);
        let thread = builder.thread(label(LABEL_THREAD).map_or("", |l| self.text(l.str)));
        let complete = label(LABEL_STACK).is_none_or(|l| self.text(l.str) != CUT_OFF);
        let mut parent = None;
        for id in sample.location_id.iter().rev() {
            let (module, lines) = self.locations.get(id).map_or(("", &[] as &[_]), |l| {
                let path = self
                    .mappings
                    .get(&l.mapping_id)
                    .map_or("", |&m| self.text(m));
                (path.rsplit('/').next().unwrap_or(path), l.line.as_slice())
            });
            if lines.is_empty() {
                let frame = builder.frame(&Frame::unknown(module));
                parent = Some(builder.node(parent, frame));
            }
            for line in lines.iter().rev() {
                let name = self
                    .functions
                    .get(&line.function_id)
                    .map_or("", |&n| Frame::function_of(self.text(n)));
                let kind = Frame::kind_from_name(name, module);
                let name = if name.is_empty() { UNKNOWN } else { name };
                let frame = builder.frame(&Frame::new(name, module, kind));
                parent = Some(builder.node(parent, frame));
            }
        }
        let stack = parent.unwrap_or_else(|| {
            let frame = builder.frame(&Frame::unknown(""));
            builder.node(None, frame)
        });
        let sample = Sample {
            t: 0,
            weight,
            stack,
            thread,
            cpu: u16::MAX,
            complete,
        };
        builder.profile.samples.push(sample);
    }
}
