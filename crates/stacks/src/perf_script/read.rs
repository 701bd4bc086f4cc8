//! From the text of `perf script` to a profile.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use measure::Time;

use super::LONGEST_LINE;
use super::collapse::Total;
use super::line::{self, Form, FrameLine, Header};
use crate::bounded::{self, Line};
use crate::frames::{Frame, FrameKind};
use crate::model::{Profile, ProfileHeader, Sample, USUAL_EVENT, Unwinding};
use crate::tree::Builder;

/// Frames of a stack; deeper ones are left out. The kernel's limit is 127 unless somebody raises it.
const MOST_FRAMES: usize = 10_000;

/// Other events that are named, and bytes of a name.
const MOST_EVENTS: usize = 32;
const LONGEST_EVENT: usize = 200;

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

    fn cpu(&self) -> Option<u16> {
        let mut words = line::words(self.rest);
        let number = words.find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"))?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

/// Reads what `perf script` prints. The inner error says why it is no profile. Of several events the samples of one are
/// read: of `event`, or of the first; a note says which others there are.
pub(crate) fn read(input: &mut dyn BufRead, event: Option<&str>) -> io::Result<Result<Profile, String>> {
    let mut reader = ScriptReader {
        wanted: event.map(|event| event.as_bytes().to_vec()),
        form: Form::of_text(input.fill_buf()?),
        ..ScriptReader::default()
    };
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
struct ScriptReader {
    builder: Builder,
    wanted: Option<Vec<u8>>,
    /// Fields of its samples' first lines.
    form: Form,
    /// The one whose samples are read.
    event: Option<Vec<u8>>,
    other_events: BTreeMap<Vec<u8>, u64>,
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
    t: u64,
    cpu: u16,
    weight: u64,
    /// From the leaf up.
    frames: Vec<u32>,
    /// There are more frames than are kept.
    is_cut: bool,
    unwinding: Unwinding,
}

impl ScriptReader {
    fn line(&mut self, text: &[u8]) {
        if text.first() == Some(&b'#') {
            return;
        }
        if text.is_empty() {
            self.end_sample();
        } else if let Some(header) = self.form.header(text) {
            self.end_sample();
            if !header.is_sideband() {
                self.begin(&header);
                if let Some(frame) = header.frame() {
                    self.frame(&frame);
                    if let Some(current) = &mut self.current {
                        current.unwinding = Unwinding::Missing;
                    }
                }
            }
        } else if let Some(frame) = FrameLine::whole(text) {
            self.frame(&frame);
        } else {
            self.unknown += 1;
        }
    }

    fn begin(&mut self, header: &Header<'_>) {
        let mut weight = 1;
        if let Some(event) = header.sampled_event() {
            let is_wanted = self.wanted.as_ref().is_none_or(|wanted| is_called(event.name, wanted));
            let is_first = is_wanted && self.event.is_none();
            if is_first {
                self.event = Some(event.name.to_vec());
            }
            if self.event.as_deref() != Some(event.name) {
                let is_named = self.other_events.len() < MOST_EVENTS || self.other_events.contains_key(event.name);
                let name = if is_named { event.name } else { b"others" };
                let name = name.get(..LONGEST_EVENT).unwrap_or(name).to_vec();
                *self.other_events.entry(name).or_default() += 1;
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
            t,
            cpu: header.cpu().unwrap_or(u16::MAX),
            weight,
            frames: Vec::new(),
            is_cut: false,
            unwinding: Unwinding::Unknown,
        });
    }

    fn frame(&mut self, line: &FrameLine<'_>) {
        let Some(current) = &mut self.current else { return };
        let function = line::without_offset(line.function);
        // The name of a process, as some versions print it, and not `(anonymous namespace)::f`.
        let end = function.iter().position(|&byte| byte == b')');
        if function.first() == Some(&b'(') && end.is_some_and(|end| end + 1 == function.len()) {
            return;
        }
        let module = module_name(line.module);
        let pieces: Vec<&[u8]> = line::with_inlined(function).collect();
        for piece in pieces.iter().rev() {
            if current.frames.len() >= MOST_FRAMES {
                current.is_cut = true;
                return;
            }
            let name = String::from_utf8_lossy(piece);
            let name = Frame::function_of(name.trim());
            let frame = match kind(name, &module, line.module) {
                FrameKind::Unknown => Frame::unknown(module.as_str()),
                kind => Frame::new(name, module.as_str(), kind),
            };
            current.frames.push(self.builder.frame(&frame));
        }
    }

    fn end_sample(&mut self) {
        let Some(current) = self.current.take() else { return };
        let root = current.frames.last().copied().unwrap_or_else(|| self.builder.frame(&Frame::unknown("")));
        let is_root_known = !self.builder.profile.frames[root as usize].is_unknown();
        self.cut_stacks += u64::from(current.is_cut);
        let mut stack = self.builder.node(None, root);
        for &frame in current.frames.iter().rev().skip(1) {
            stack = self.builder.node(Some(stack), frame);
        }
        let Current { t, cpu, unwinding, .. } = current;
        let complete = is_root_known && !current.is_cut && unwinding != Unwinding::Missing;
        let sample = Sample::new(stack, current.thread, current.weight);
        self.builder.sample(Sample { t, cpu, complete, unwinding, ..sample });
    }

    fn profile(self) -> Result<Profile, String> {
        let mut profile = self.builder.profile;
        if profile.samples.is_empty() {
            let others = names(&self.other_events);
            return Err(match others.is_empty() {
                true => "as `perf script`: no sample is in it".into(),
                false => format!("as `perf script`: it has samples of {others}"),
            });
        }
        let event = String::from_utf8_lossy(self.event.as_deref().unwrap_or_default());
        let event = event.trim_end_matches(':');
        let counts_time = counts_time(event.as_bytes());
        profile.header = ProfileHeader {
            event: if counts_time { "cpu".into() } else { event.to_owned() },
            kernel_event: event.to_owned(),
            unit: match (self.has_periods, counts_time) {
                (false, _) => "samples".into(),
                (true, true) => "nanoseconds".into(),
                (true, false) => event.to_owned(),
            },
            ..ProfileHeader::new(Time(0), 0)
        };
        profile.span = (self.last > 0).then_some((0, self.last + 1));
        if !self.other_events.is_empty() {
            profile.notes.push(format!(
                "samples of other events were left out: {} (--event chooses)",
                names(&self.other_events)
            ));
        }
        for (count, one, what) in [
            (self.unknown, "line", "neither a sample nor a frame, left out"),
            (self.cut_stacks, "stack", "cut off, because there are too many frames"),
        ] {
            if count > 0 {
                profile.notes.push(format!("{}: {what}", measure::counted(count, one)));
            }
        }
        Ok(profile)
    }
}

/// Whether an event of the text is the one that is asked for, by its name or by what bellows calls it.
fn is_called(name: &[u8], wanted: &[u8]) -> bool {
    let name = name.strip_suffix(b":").unwrap_or(name);
    name == wanted || (wanted == USUAL_EVENT.as_bytes() && counts_time(name))
}

fn counts_time(event: &[u8]) -> bool {
    event.starts_with(b"cpu-clock") || event.starts_with(b"task-clock")
}

/// The events and how many samples each has.
fn names(events: &BTreeMap<Vec<u8>, u64>) -> String {
    let named = |(name, count): (&Vec<u8>, &u64)| {
        let name = String::from_utf8_lossy(name);
        format!("{} ({count})", name.trim_end_matches(':'))
    };
    let named: Vec<String> = events.iter().map(named).collect();
    named.join(", ")
}

fn module_name(module: &[u8]) -> String {
    if line::is_jit_map(module) {
        return "[jit]".into();
    }
    if module.starts_with(b"[kernel.") || module.starts_with(b"[guest.kernel.") || module.ends_with(b"vmlinux") {
        return "[kernel]".into();
    }
    match module {
        b"[unknown]" => String::new(),
        module => String::from_utf8_lossy(line::file_name(module)).into_owned(),
    }
}

/// The kind of a function by its name and its module, by bellows' name for it and by perf's.
fn kind(name: &str, module: &str, of_perf: &[u8]) -> FrameKind {
    // Memory that perf puts into brackets, and that is not the kernel's.
    const OF_PROCESS: [&str; 4] = ["[vdso]", "[heap]", "[stack]", "[vsyscall]"];
    let known = Frame::kind_from_name(name, module);
    let in_kernel = line::is_kernel(of_perf) && !OF_PROCESS.contains(&module);
    if known == FrameKind::Native && in_kernel && !module.starts_with("[anon") { FrameKind::Kernel } else { known }
}
