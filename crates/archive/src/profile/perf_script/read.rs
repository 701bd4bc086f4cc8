//! From the text of `perf script` to a profile.

use std::io::{self, BufRead};

use measure::Time;

use super::LONGEST_LINE;
use super::line::{self, FrameLine, Header};
use super::total::Total;
use crate::bounded::{self, Line};
use crate::profile::frames::{Frame, FrameKind};
use crate::profile::model::{Profile, ProfileHeader, Sample, Unwinding};
use crate::profile::tree::Builder;

/// Frames of a stack; deeper ones are left out. The kernel's limit is 127 unless somebody raises it.
const MOST_FRAMES: usize = 10_000;

/// Whether a text begins as that of `perf script`: its first line that is no comment is that of a sample, with a time or
/// an event at its end.
pub(in crate::profile) fn looks_like(start: &[u8]) -> bool {
    let lines = start.split(|&byte| byte == b'\n');
    let mut told = lines.filter(|line| !line.is_empty() && line.first() != Some(&b'#'));
    let header = told.next().and_then(Header::parse);
    header.is_some_and(|header| header.sampled_event().is_some() || header.time_ns().is_some())
}

impl Header<'_> {
    /// Seconds since the machine's start, in nanoseconds.
    fn time_ns(&self) -> Option<u64> {
        line::words(self.rest).find_map(|word| {
            let text = std::str::from_utf8(word.strip_suffix(b":")?).ok()?;
            let (seconds, fraction) = text.split_once('.')?;
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let known = digits(fraction) && (1..=9).contains(&fraction.len());
            let fraction: u64 = known.then(|| format!("{fraction:0<9}").parse().ok())??;
            let seconds: u64 = seconds.parse().ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
        })
    }

    /// The processor.
    fn cpu(&self) -> Option<u16> {
        let mut words = line::words(self.rest);
        let number = words.find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"))?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

/// Reads what `perf script` prints. The inner error says why it is no profile. Of several events the first one's
/// samples are read, and a note says how many others there are.
pub(in crate::profile) fn read(input: &mut dyn BufRead) -> io::Result<Result<Profile, String>> {
    let mut reader = Reader::default();
    let mut text = Vec::new();
    loop {
        match bounded::next_line(input, LONGEST_LINE, &mut text)? {
            Line::Whole | Line::CutOff => {}
            Line::None => break,
            Line::TooLong => return Ok(Err("one of its lines has no end".into())),
        }
        reader.line(&text);
        if let Err(why) = reader.builder.room() {
            return Ok(Err(why));
        }
    }
    reader.end_sample();
    Ok(reader.profile())
}

#[derive(Default)]
struct Reader {
    builder: Builder,
    event: Option<Vec<u8>>,
    other_events: u64,
    /// Time of the first sample.
    origin: Option<u64>,
    last: u64,
    has_periods: bool,
    current: Option<Current>,
    cut_stacks: u64,
    unknown: u64,
}

/// The sample that is being read.
struct Current {
    thread: u32,
    java: bool,
    t: u64,
    cpu: u16,
    weight: u64,
    /// From the leaf up.
    frames: Vec<u32>,
    /// There are more frames than are kept.
    is_cut: bool,
}

impl Reader {
    fn line(&mut self, text: &[u8]) {
        if text.first() == Some(&b'#') {
            return;
        }
        if text.is_empty() {
            self.end_sample();
        } else if let Some(header) = Header::parse(text) {
            self.end_sample();
            self.begin(&header);
        } else if let Some(frame) = FrameLine::parse(text) {
            self.frame(&frame);
        } else {
            self.unknown += 1;
        }
    }

    fn begin(&mut self, header: &Header<'_>) {
        let mut weight = 1;
        if let Some(event) = header.sampled_event() {
            let wanted = self.event.get_or_insert_with(|| event.name.to_vec());
            if wanted != event.name {
                self.other_events += 1;
                return;
            }
            self.has_periods |= event.period.is_some();
            weight = event.period.map_or(1, |it| Total::of(it).saturated());
        }
        let at = header.time_ns().unwrap_or(0);
        let t = at.saturating_sub(*self.origin.get_or_insert(at));
        self.last = self.last.max(t);
        self.current = Some(Current {
            thread: self.builder.thread(&String::from_utf8_lossy(header.comm)),
            java: header.comm.starts_with(b"java"),
            t,
            cpu: header.cpu().unwrap_or(u16::MAX),
            weight,
            frames: Vec::new(),
            is_cut: false,
        });
    }

    fn frame(&mut self, line: &FrameLine<'_>) {
        let Some(current) = &mut self.current else {
            return;
        };
        let function = line::without_offset(line.function);
        if function.first() == Some(&b'(') {
            return;
        }
        let module = module_name(line.module);
        let pieces: Vec<&[u8]> = line::with_inlined(function).collect();
        for piece in pieces.iter().rev() {
            if current.frames.len() >= MOST_FRAMES {
                current.is_cut = true;
                return;
            }
            let name = line::tidied(piece, current.java);
            let name = String::from_utf8_lossy(&name);
            let name = Frame::function_of(name.trim());
            let frame = match kind(name, &module, line.module) {
                FrameKind::Unknown => Frame::unknown(module.as_str()),
                kind => Frame::new(name, module.as_str(), kind),
            };
            current.frames.push(self.builder.frame(&frame));
        }
    }

    fn end_sample(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let root = current.frames.last().copied();
        let root = root.unwrap_or_else(|| self.builder.frame(&Frame::unknown("")));
        let is_root_known = !self.builder.profile.frames[root as usize].is_unknown();
        self.cut_stacks += u64::from(current.is_cut);
        let mut stack = self.builder.node(None, root);
        for &frame in current.frames.iter().rev().skip(1) {
            stack = self.builder.node(Some(stack), frame);
        }
        self.builder.sample(Sample {
            t: current.t,
            weight: current.weight,
            stack,
            thread: current.thread,
            cpu: current.cpu,
            complete: is_root_known && !current.is_cut,
            unwinding: Unwinding::Unknown,
            process: None,
            wait: None,
        });
    }

    fn profile(self) -> Result<Profile, String> {
        let mut profile = self.builder.profile;
        if profile.samples.is_empty() {
            return Err("as `perf script`: no sample is in it".into());
        }
        let event = String::from_utf8_lossy(self.event.as_deref().unwrap_or_default());
        let event = event.trim_end_matches(':');
        let counts_time = ["cpu-clock", "task-clock"]
            .iter()
            .any(|it| event.starts_with(it));
        profile.header = ProfileHeader {
            event: if counts_time {
                "cpu".into()
            } else {
                event.to_owned()
            },
            kernel_event: event.to_owned(),
            unit: match (self.has_periods, counts_time) {
                (false, _) => "samples".into(),
                (true, true) => "nanoseconds".into(),
                (true, false) => event.to_owned(),
            },
            ..ProfileHeader::new(Time(0), 0)
        };
        profile.span = (self.last > 0).then_some((0, self.last + 1));
        let notes = [
            (
                self.other_events,
                "samples of other events than the first were left out",
            ),
            (
                self.unknown,
                "lines were neither a sample nor a frame, and were skipped",
            ),
            (
                self.cut_stacks,
                "stacks were cut off, because they are too deep",
            ),
        ];
        let notes = notes.iter().filter(|(count, _)| *count > 0);
        profile.notes = notes
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        Ok(profile)
    }
}

/// The name that bellows gives a module.
fn module_name(module: &[u8]) -> String {
    if line::is_jit_map(module) {
        return "[jit]".into();
    }
    if module.starts_with(b"[kernel.")
        || module.starts_with(b"[guest.kernel.")
        || module.ends_with(b"vmlinux")
    {
        return "[kernel]".into();
    }
    match module {
        b"[unknown]" | b"deleted)" => String::new(),
        module => String::from_utf8_lossy(line::file_name(module)).into_owned(),
    }
}

/// The kind of a function by its name and its module, by bellows' name for it and by perf's.
fn kind(name: &str, module: &str, of_perf: &[u8]) -> FrameKind {
    // Memory that perf puts into brackets, and that is not the kernel's.
    const OF_PROCESS: [&str; 4] = ["[vdso]", "[heap]", "[stack]", "[vsyscall]"];
    let known = Frame::kind_from_name(name, module);
    let in_kernel = line::is_kernel(of_perf) && !OF_PROCESS.contains(&module);
    if known == FrameKind::Native && in_kernel && !module.starts_with("[anon") {
        return FrameKind::Kernel;
    }
    known
}
