//! From pprof's tables to a profile. Takes what other tools write, too.

use std::collections::{HashMap, HashSet};

use prost::encoding::{self, WireType};
use regex::bytes::{Regex, RegexBuilder};

use super::{
    CUT_OFF, Function, LABEL_PROCESS, LABEL_REASON, LABEL_STACK, LABEL_THREAD, LABEL_WAKER, LineMessage, Location,
    Mapping, ProfileMessage, SampleMessage, ValueType,
};
use crate::frames::{Frame, SourceLine, UNKNOWN};
use crate::model::{Builds, Profile, ProfileHeader, Sample};
use crate::tree::Builder;
use crate::waits::{Wait, WaitReason};

const LARGEST_MESSAGE: usize = 4 << 20;
/// Bytes of what is neither sample nor table.
const LARGEST_HEAD: usize = 64 << 10;
/// Comments that are read, and characters of each.
const MOST_COMMENTS: usize = 64;
const LONGEST_COMMENT: usize = 1_000;
/// Files whose builds are kept, and characters of the name of a file or of a build.
const MOST_BUILDS: usize = 1_024;
const LONGEST_BUILD: usize = 256;

/// Bytes that a regular expression may take.
const LARGEST_EXPRESSION: usize = 1 << 20;

/// Field numbers of the message `Profile`.
const SAMPLE: u32 = 2;
const MAPPING: u32 = 3;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRING: u32 = 6;

/// Reads an uncompressed pprof message; the error says what is wrong with it. Samples are read one by one at the end:
/// decoded as a whole, messages of two bytes would take a hundred each.
pub(crate) fn read(bytes: &[u8]) -> Result<Profile, String> {
    let mut builder = Builder::default();
    let reader = PprofReader::new(bytes, &mut builder)?;
    let value = reader.value_index();
    for_each_field(bytes, |field| {
        if field.number != SAMPLE {
            return Ok(());
        }
        let sample: SampleMessage = decode(field.body)?;
        let Some(&weight) = sample.value.get(value) else {
            return Err(format!("a sample has {} values, but value {value} is wanted", sample.value.len()));
        };
        let Ok(weight) = u64::try_from(weight) else {
            return Err(format!(
                "a sample counts {weight}, and less than nothing cannot be shown; where this is the difference of two \
                 profiles, give both of them to `bellows diff`"
            ));
        };
        reader.sample(&sample, weight, &mut builder);
        builder.room()
    })?;
    let mut profile = builder.profile;
    profile.header = reader.header(value);
    profile.builds = reader.builds();
    let comments = reader.head.comment.iter().take(MOST_COMMENTS);
    let comments = comments.map(|&c| reader.text(c).chars().take(LONGEST_COMMENT).collect());
    profile.notes = comments.collect();
    let duration = u64::try_from(reader.head.duration_nanos).unwrap_or(0);
    profile.span = (duration > 0).then_some((0, duration));
    Ok(profile)
}

struct Field<'a> {
    number: u32,
    /// The content of one that has a length; empty for numbers.
    body: &'a [u8],
    whole: &'a [u8],
}

fn for_each_field<'a>(bytes: &'a [u8], mut each: impl FnMut(Field<'a>) -> Result<(), String>) -> Result<(), String> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = rest;
        let (number, kind) = encoding::decode_key(&mut rest).map_err(|e| e.to_string())?;
        let mut body: &[u8] = &[];
        if kind == WireType::LengthDelimited {
            let length = encoding::decode_varint(&mut rest).map_err(|e| e.to_string())?;
            let halves = usize::try_from(length).ok().and_then(|at| rest.split_at_checked(at));
            (body, rest) = halves.ok_or("it is cut off in the middle of a field")?;
        } else {
            let context = encoding::DecodeContext::default();
            encoding::skip_field(kind, number, &mut rest, context).map_err(|e| e.to_string())?;
        }
        let whole = start.get(..start.len() - rest.len()).unwrap_or_default();
        each(Field { number, body, whole })?;
    }
    Ok(())
}

/// A file without its folders.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn decode<M: prost::Message + Default>(bytes: &[u8]) -> Result<M, String> {
    if bytes.len() > LARGEST_MESSAGE {
        return Err(format!("one of its messages has {} bytes", bytes.len()));
    }
    M::decode(bytes).map_err(|e| e.to_string())
}

/// Which functions the profile says are of no interest, such as those that profile.
#[derive(Debug, Default)]
struct Uninteresting {
    dropped: Option<Regex>,
    /// These of them are, all the same.
    kept: Option<Regex>,
}

impl Uninteresting {
    /// One that is no regular expression, as Go has more kinds of them, drops and keeps nothing.
    fn of(dropped: &str, kept: &str) -> Self {
        let expression = |text: &str| {
            let whole = Some(text).filter(|text| !text.is_empty())?;
            // As pprof has it: the whole name.
            let built =
                RegexBuilder::new(&format!("^(?:{whole})$")).unicode(false).size_limit(LARGEST_EXPRESSION).build();
            built.ok()
        };
        Self { dropped: expression(dropped), kept: expression(kept) }
    }

    fn holds(&self, name: &str) -> bool {
        // Some compilers' names have arguments.
        let alone = name.split_once('(').map_or(name, |(alone, _)| alone);
        let alone = if alone.is_empty() { name } else { alone };
        let is = |expression: &Option<Regex>| {
            let it = expression.as_ref();
            it.is_some_and(|it| it.is_match(name.as_bytes()) || it.is_match(alone.as_bytes()))
        };
        is(&self.dropped) && !is(&self.kept)
    }
}

/// The tables, and what else there is beside the samples.
#[derive(Default)]
struct PprofReader<'a> {
    head: ProfileMessage,
    strings: Vec<&'a str>,
    locations: HashMap<u64, Location>,
    /// Name and file.
    functions: HashMap<u64, (i64, i64)>,
    /// Those of no interest.
    dropped: HashSet<u64>,
    /// File and build.
    mappings: HashMap<u64, (i64, i64)>,
}

impl<'a> PprofReader<'a> {
    fn new(bytes: &'a [u8], builder: &mut Builder) -> Result<Self, String> {
        let mut this = Self::default();
        let mut head = Vec::new();
        for_each_field(bytes, |field| {
            match field.number {
                SAMPLE => {}
                MAPPING => {
                    let mapping: Mapping = decode(field.body)?;
                    this.mappings.insert(mapping.id, (mapping.filename, mapping.build_id));
                    builder.take(64);
                }
                LOCATION => {
                    let location: Location = decode(field.body)?;
                    builder.take(160 + 2 * location.line.len() * size_of::<LineMessage>());
                    this.locations.insert(location.id, location);
                }
                FUNCTION => {
                    let function: Function = decode(field.body)?;
                    // The linker's name stands in for one that is missing.
                    let name = Some(function.name).filter(|name| *name != 0).unwrap_or(function.system_name);
                    this.functions.insert(function.id, (name, function.filename));
                    builder.take(64);
                }
                STRING => {
                    let text = std::str::from_utf8(field.body).map_err(|e| e.to_string())?;
                    this.strings.push(text);
                    builder.take(2 * size_of::<&str>());
                }
                _ if head.len() + field.whole.len() > LARGEST_HEAD => {
                    return Err(format!("more than {LARGEST_HEAD} bytes beside its tables"));
                }
                _ => head.extend_from_slice(field.whole),
            }
            builder.room()
        })?;
        this.head = decode(&head)?;
        let [dropped, kept] = [this.head.drop_frames, this.head.keep_frames];
        let uninteresting = Uninteresting::of(this.text(dropped), this.text(kept));
        let dropped = this.functions.iter().filter(|(_, (name, _))| uninteresting.holds(this.text(*name)));
        this.dropped = dropped.map(|(id, _)| *id).collect();
        Ok(this)
    }

    fn text(&self, index: i64) -> &'a str {
        usize::try_from(index).ok().and_then(|i| self.strings.get(i)).copied().unwrap_or_default()
    }

    /// Which of a sample's values is its weight: `samples`, else the default one, else the last (as pprof chooses).
    fn value_index(&self) -> usize {
        let position = |wanted: &dyn Fn(&ValueType) -> bool| self.head.sample_type.iter().position(wanted);
        let default = self.head.default_sample_type;
        position(&|t| self.text(t.r#type) == "samples")
            .or_else(|| position(&|t| default != 0 && t.r#type == default))
            .unwrap_or(self.head.sample_type.len().saturating_sub(1))
    }

    fn header(&self, value: usize) -> ProfileHeader {
        let name = |t: &ValueType| self.text(t.r#type).to_owned();
        let types = &self.head.sample_type;
        let chosen = types.get(value);
        let counts_samples = chosen.is_some_and(|t| self.text(t.r#type) == "samples");
        let timed = self.head.period_type.filter(|t| self.text(t.unit) == "nanoseconds" && counts_samples);
        let period_ns = timed.map_or(0, |_| u64::try_from(self.head.period).unwrap_or(0));
        let event = match timed.as_ref().or(chosen) {
            Some(t) if !matches!(self.text(t.r#type), "samples" | ProfileHeader::WEIGHT) => name(t),
            _ => String::new(),
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
            frequency: 1_000_000_000u64.checked_div(period_ns).and_then(|f| u32::try_from(f).ok()).unwrap_or(0),
            kernel_frames: true,
            origin_unix_ns: u64::try_from(self.head.time_nanos).unwrap_or(0),
            ..ProfileHeader::default()
        }
    }

    fn frame(&self, line: &LineMessage, module: &str) -> Frame {
        let function = self.functions.get(&line.function_id);
        let (name, file) =
            function.map_or(("", ""), |&(name, file)| (Frame::function_of(self.text(name)), self.text(file)));
        let kind = Frame::kind_from_name(name, module);
        let name = if name.is_empty() { UNKNOWN } else { name };
        let number = u32::try_from(line.line).ok().filter(|number| *number > 0);
        Frame::new(name, module, kind).at_line(number.map(|number| SourceLine { file: file.to_owned(), number }))
    }

    fn builds(&self) -> Builds {
        let mut builds = Builds::default();
        let texts = self.mappings.values().map(|(file, build)| (file_name(self.text(*file)), self.text(*build)));
        let is_short = |text: &str| !text.is_empty() && text.len() <= LONGEST_BUILD;
        let known = texts.filter(|(file, build)| is_short(file) && is_short(build));
        known.take(MOST_BUILDS).for_each(|(file, build)| builds.add(file, build));
        builds
    }

    /// A sample's stack without functions that the profile calls uninteresting below another, and their callees.
    fn stack(&self, sample: &SampleMessage, builder: &mut Builder) -> Option<u32> {
        let (mut parent, mut has_other) = (None, false);
        for id in sample.location_id.iter().rev() {
            let (module, lines) = self.locations.get(id).map_or(("", &[] as &[_]), |l| {
                let path = self.mappings.get(&l.mapping_id).map_or("", |&(file, _)| self.text(file));
                (file_name(path), l.line.as_slice())
            });
            if lines.is_empty() {
                let frame = builder.frame(&Frame::unknown(module));
                parent = Some(builder.node(parent, frame));
                has_other = true;
            }
            for line in lines.iter().rev() {
                let is_dropped = self.dropped.contains(&line.function_id);
                if is_dropped && has_other {
                    return parent;
                }
                has_other |= !is_dropped;
                let frame = builder.frame(&self.frame(line, module));
                parent = Some(builder.node(parent, frame));
            }
        }
        parent
    }

    fn sample(&self, sample: &SampleMessage, weight: u64, builder: &mut Builder) {
        let label = |key: &str| sample.label.iter().find(|l| self.text(l.key) == key);
        let thread = builder.thread(label(LABEL_THREAD).map_or("", |l| self.text(l.str)));
        let complete = label(LABEL_STACK).is_none_or(|l| self.text(l.str) != CUT_OFF);
        let process = label(LABEL_PROCESS).map(|l| builder.process(self.text(l.str)));
        let reason = label(LABEL_REASON).and_then(|l| WaitReason::named(self.text(l.str)));
        let wait = reason.map(|reason| {
            let waker = label(LABEL_WAKER).map_or("", |l| self.text(l.str)).to_owned();
            builder.wait(&Wait { reason, waker })
        });
        let stack = self.stack(sample, builder).unwrap_or_else(|| {
            let frame = builder.frame(&Frame::unknown(""));
            builder.node(None, frame)
        });
        builder.sample(Sample { complete, process, wait, ..Sample::new(stack, thread, weight) });
    }
}
