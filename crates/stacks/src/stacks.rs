//! `cpu.stacks`: one JSON value per line, appended while the run goes on.
//!
//! ```text
//! {"header":{"schema":"bellows.stacks/1","event":"cpu",…}}
//! {"thread":"1_scheduler"}                             thread 0
//! {"frame":["main","bellows","native"]}                frame 0: name, module, kind
//! {"frame":["f","b","native",["f.c",12]]}              frame 1: with a line of source code
//! {"node":[null,0]}                                    stack 0: parent, frame
//! {"process":{"id":"<0.123.0>"}}                       Erlang process 0
//! {"wait":["same_process","4_scheduler"]}              why a time off CPU ended 0: reason, waker
//! {"sample":[1200345678,0,0,1,true,1,0,0]}             t, stack, thread, cpu, complete, weight, process, wait
//! {"unwinding":"stack_copy"}                           how the samples from here on were unwound
//! {"lost":3}  {"throttled":1}  {"note":"…"}            each adds to what was said before
//! {"footer":{"from":…,"to":…,"own_cpu_ns":…,"builds":{"libc.so.6":"1a2b…"}}}
//! ```
//!
//! Threads, frames, nodes, processes and waits are numbered in the order of their lines, and stand before the first
//! line that refers to them. So the file is readable up to its last whole line whenever the writer
//! ends, by plan or not.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::frames::{Frame, FrameKind, SourceLine};
use super::model::{Builds, ErlangProcess, Profile, ProfileHeader, Sample, StackNode, Unwinding};
use super::tree::{self, Interner};
use super::waits::{Wait, WaitReason};
use crate::{Replacement, bounded};

/// Bytes that are kept before they are written without being asked.
const BUFFER: usize = 64 * 1024;
/// Bytes that a line may have; the longest holds the name of a function.
const LONGEST_LINE: u64 = 1 << 20;

/// The last line of a file that was ended in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// First moment of sampling, nanoseconds since the origin.
    pub from: u64,
    /// Last moment of sampling, nanoseconds since the origin.
    pub to: u64,
    /// CPU time that the profiler itself used, nanoseconds.
    pub own_cpu_ns: u64,
    /// Bytes of the process's stacks that were copied.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Share of the process's CPU time that the samples stand for (0 to 1); absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Which build each file is of, as far as that is known.
    #[serde(default, skip_serializing_if = "Builds::is_empty")]
    pub builds: Builds,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Header(Cow<'a, ProfileHeader>),
    Thread(#[serde(borrow)] Cow<'a, str>),
    Frame(
        #[serde(borrow)] Cow<'a, str>,
        #[serde(borrow)] Cow<'a, str>,
        FrameKind,
        #[serde(default, skip_serializing_if = "Option::is_none")] Option<(Cow<'a, str>, u32)>,
    ),
    Node(Option<u32>, u32),
    Process(Cow<'a, ErlangProcess>),
    Wait(WaitReason, #[serde(borrow)] Cow<'a, str>),
    Sample(
        u64,
        u32,
        u32,
        u16,
        bool,
        u64,
        // Null where none ran, and something follows.
        #[serde(default, skip_serializing_if = "Option::is_none")] Option<Option<u32>>,
        #[serde(default, skip_serializing_if = "Option::is_none")] Option<u32>,
    ),
    Unwinding(Unwinding),
    Lost(u64),
    Throttled(u64),
    Note(#[serde(borrow)] Cow<'a, str>),
    Footer(Footer),
}

/// Appends a profile to a file while it is being taken. After an error of the disk, the first of which is kept
/// ([`StacksWriter::error`]), nothing more is written, and what is in the file stays readable.
pub struct StacksWriter {
    out: Box<dyn Write + Send>,
    header: Option<ProfileHeader>,
    buffer: Vec<u8>,
    interner: Interner,
    /// Of the last sample.
    unwinding: Unwinding,
    error: Option<io::Error>,
}

impl std::fmt::Debug for StacksWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StacksWriter").field("error", &self.error).finish_non_exhaustive()
    }
}

impl StacksWriter {
    /// Creates the file, which must not exist. [`StacksWriter::header_mut`] may complete its first line until a flush.
    pub fn create(path: &Path, header: ProfileHeader) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(Self::new(file, header))
    }

    /// A writer into anything that takes bytes.
    pub fn new(out: impl Write + Send + 'static, header: ProfileHeader) -> Self {
        Self {
            out: Box::new(out),
            header: Some(header),
            buffer: Vec::with_capacity(BUFFER + 4096),
            interner: Interner::default(),
            unwinding: Unwinding::default(),
            error: None,
        }
    }

    /// The header while it has not been written yet.
    pub fn header_mut(&mut self) -> Option<&mut ProfileHeader> {
        self.header.as_mut()
    }

    /// The index of a frame, which is written where it is new.
    pub fn frame(&mut self, frame: &Frame) -> u32 {
        let (id, new) = self.interner.frame(frame);
        if new {
            let (name, module) = (frame.name.as_str().into(), frame.module.as_str().into());
            let line = frame.line.as_ref();
            let line = line.map(|it| (it.file.as_str().into(), it.number));
            self.line(&Line::Frame(name, module, frame.kind, line));
        }
        id
    }

    /// The index of the stack that has `frame` as its leaf, called from `parent`.
    pub fn node(&mut self, parent: Option<u32>, frame: u32) -> u32 {
        let (id, new) = self.interner.node(parent, frame);
        if new {
            self.line(&Line::Node(parent, frame));
        }
        id
    }

    /// The index of a thread name.
    pub fn thread(&mut self, name: &str) -> u32 {
        let (id, new) = self.interner.thread(name);
        if new {
            self.line(&Line::Thread(name.into()));
        }
        id
    }

    /// The index of an Erlang process, which its identifier tells from others.
    pub fn process(&mut self, process: &ErlangProcess) -> u32 {
        let ((index, new), id) = self.interner.process(&process.id);
        if new && id == process.id {
            self.line(&Line::Process(Cow::Borrowed(process)));
        } else if new {
            self.line(&Line::Process(Cow::Owned(ErlangProcess::unnamed(id))));
        }
        index
    }

    /// The index of why a time off CPU ended, and by whom.
    pub fn wait(&mut self, wait: &Wait) -> u32 {
        let ((index, new), Wait { reason, waker }) = self.interner.wait(wait);
        if new {
            self.line(&Line::Wait(reason, waker.into()));
        }
        index
    }

    /// Writes a sample whose indices came from this writer.
    pub fn sample(&mut self, s: &Sample) {
        if s.unwinding != self.unwinding {
            self.unwinding = s.unwinding;
            self.line(&Line::Unwinding(s.unwinding));
        }
        let process = match (s.process, s.wait) {
            (None, None) => None,
            (process, _) => Some(process),
        };
        self.line(&Line::Sample(s.t, s.stack, s.thread, s.cpu, s.complete, s.weight, process, s.wait));
    }

    /// `count` more samples were lost.
    pub fn lost(&mut self, count: u64) {
        self.line(&Line::Lost(count));
    }

    /// The kernel stopped sampling for a while, `count` more times.
    pub fn throttled(&mut self, count: u64) {
        self.line(&Line::Throttled(count));
    }

    /// Something that the profile's reader should know.
    pub fn note(&mut self, text: &str) {
        self.line(&Line::Note(text.into()));
    }

    /// Hands everything to the file. Call it each second.
    pub fn flush(&mut self) {
        self.line_header();
        self.drain();
        if self.error.is_none() {
            self.error = self.out.flush().err();
        }
    }

    /// The first error of the disk, after which nothing more was written.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes the last line. The error is the disk's first since the beginning; the file is readable up to it.
    pub fn finish(mut self, footer: Footer) -> io::Result<()> {
        self.line(&Line::Footer(footer));
        self.flush();
        self.error.map_or(Ok(()), Err)
    }

    fn line_header(&mut self) {
        if let Some(header) = self.header.take() {
            self.encode(&Line::Header(Cow::Owned(header)));
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        self.line_header();
        self.encode(line);
        if self.buffer.len() >= BUFFER {
            self.drain();
        }
    }

    fn encode(&mut self, line: &Line<'_>) {
        if self.error.is_none() {
            // Writing plain values into memory cannot fail; were it to, the error is kept.
            self.error = serde_json::to_writer(&mut self.buffer, line).err().map(io::Error::from);
            self.buffer.push(b'\n');
        }
    }

    fn drain(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }
}

impl Profile {
    /// Replaces a `.stacks` file by this profile and what of its tables its samples refer to; a failure keeps it.
    pub fn write_stacks(&self, path: &Path) -> io::Result<()> {
        let mut replacement = Replacement::begin(path)?;
        let mut writer = StacksWriter::new(replacement.file().try_clone()?, self.header.clone());
        let mut nodes: Vec<Option<u32>> = vec![None; self.stacks.len()];
        for sample in &self.samples {
            let Some(stack) = self.copy_node(sample.stack, &mut writer, &mut nodes) else { continue };
            let name = self.threads.get(sample.thread as usize);
            let thread = writer.thread(name.map_or("", String::as_str));
            let process = sample.process.and_then(|it| self.processes.get(it as usize));
            let process = process.map(|process| writer.process(process));
            let wait = sample.wait.and_then(|it| self.waits.get(it as usize));
            let wait = wait.map(|wait| writer.wait(wait));
            writer.sample(&Sample { stack, thread, process, wait, ..*sample });
        }
        self.notes.iter().for_each(|note| writer.note(note));
        if self.lost > 0 {
            writer.lost(self.lost);
        }
        if self.throttled > 0 {
            writer.throttled(self.throttled);
        }
        let (from, to) = self.span.unwrap_or_default();
        writer.finish(Footer {
            from,
            to,
            own_cpu_ns: self.own_cpu_ns,
            copied_bytes: self.copied_bytes,
            cpu_share: self.cpu_share,
            builds: self.builds.clone(),
        })?;
        replacement.finish()
    }

    /// Writes a stack from its root down to `leaf`, as far as it is new; its new index.
    fn copy_node(&self, leaf: u32, writer: &mut StacksWriter, copies: &mut [Option<u32>]) -> Option<u32> {
        let mut missing = Vec::new();
        let mut parent = None;
        let mut next = Some(leaf);
        while let Some(index) = next {
            if let Some(known) = copies.get(index as usize).copied().flatten() {
                parent = Some(known);
                break;
            }
            let node = self.stacks.get(index as usize)?;
            missing.push((index, node.frame));
            // A parent that does not come first would be a loop.
            next = node.parent.filter(|&parent| parent < index);
        }
        for (index, frame) in missing.into_iter().rev() {
            let frame = writer.frame(self.frames.get(frame as usize)?);
            let copy = writer.node(parent, frame);
            *copies.get_mut(index as usize)? = Some(copy);
            parent = Some(copy);
        }
        parent
    }
}

/// Reads a `.stacks` file as far as it is whole; notes say what was left out. The inner error says why it is no
/// profile: it has no header of a known version, or would take more memory than `most` bytes.
pub(super) fn read(input: &mut dyn BufRead, most: usize) -> io::Result<Result<Profile, String>> {
    let mut bytes = Vec::with_capacity(256);
    let start = bounded::next_line(input, LONGEST_LINE, &mut bytes)?;
    let header = match serde_json::from_slice(&bytes) {
        Ok(Line::Header(header)) if start == bounded::Line::Whole && header.schema == ProfileHeader::SCHEMA => {
            header.into_owned()
        }
        _ => return Ok(Err("its first line is not a known header".into())),
    };
    let mut reader = StacksReader::default();
    let mut ended = false;
    for number in 2u64.. {
        let added = match bounded::next_line(input, LONGEST_LINE, &mut bytes)? {
            bounded::Line::Whole => reader.add(&bytes).map_err(|why| format!("cannot be used ({why})")),
            bounded::Line::None | bounded::Line::CutOff => break,
            bounded::Line::TooLong => Err("has no end".to_owned()),
        };
        match added {
            Ok(footer) => ended |= footer,
            Err(why) => {
                let note = format!("line {number} of the stacks file {why}; it and all that follows are left out");
                reader.profile.notes.push(note);
                return Ok(Ok(reader.of(header)));
            }
        }
        if let Err(why) = tree::room(reader.taken, most) {
            return Ok(Err(format!("{why}; a file that is not packed may take more")));
        }
    }
    if !ended {
        reader.profile.notes.push(
            "the stacks file has no last line: the run is not over, or the profiler was cut off; \
             up to a second of samples at the end is missing"
                .into(),
        );
    }
    Ok(Ok(reader.of(header)))
}

#[derive(Default)]
struct StacksReader {
    profile: Profile,
    /// How the samples from here on were unwound.
    unwinding: Unwinding,
    /// Bytes of memory that the tables take.
    taken: usize,
}

impl StacksReader {
    fn of(self, header: ProfileHeader) -> Profile {
        Profile { header, ..self.profile }
    }

    /// Whether all that a sample refers to came before it.
    fn knows(&self, stack: u32, thread: u32, process: Option<u32>, wait: Option<u32>) -> Result<(), String> {
        let profile = &self.profile;
        let known = (stack as usize) < profile.stacks.len()
            && (thread as usize) < profile.threads.len()
            && process.is_none_or(|it| (it as usize) < profile.processes.len())
            && wait.is_none_or(|it| (it as usize) < profile.waits.len());
        let why = || format!("sample of unknown stack {stack}, thread {thread}, process {process:?} or wait {wait:?}");
        known.then_some(()).ok_or_else(why)
    }

    /// Adds one line; says whether it was the footer.
    fn add(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let line: Line<'_> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        self.taken += match line {
            Line::Sample(..) => size_of::<Sample>(),
            Line::Node(..) => size_of::<StackNode>(),
            // Their texts are not longer than the line.
            Line::Frame(..) => size_of::<Frame>() + bytes.len(),
            Line::Process(_) => size_of::<ErlangProcess>() + bytes.len(),
            Line::Wait(..) => size_of::<Wait>() + bytes.len(),
            Line::Thread(_) | Line::Note(_) => size_of::<String>() + bytes.len(),
            _ => 0,
        };
        if let Line::Sample(_, stack, thread, _, _, _, process, wait) = line {
            self.knows(stack, thread, process.flatten(), wait)?;
        }
        let profile = &mut self.profile;
        match line {
            Line::Sample(t, stack, thread, cpu, complete, weight, process, wait) => {
                profile.samples.push(Sample {
                    t,
                    weight,
                    stack,
                    thread,
                    cpu,
                    complete,
                    unwinding: self.unwinding,
                    process: process.flatten(),
                    wait,
                });
            }
            Line::Node(parent, frame) => {
                let known = (frame as usize) < profile.frames.len()
                    && parent.is_none_or(|p| (p as usize) < profile.stacks.len());
                if !known {
                    return Err(format!("node of unknown frame {frame} or parent {parent:?}"));
                }
                profile.stacks.push(StackNode { parent, frame });
            }
            Line::Frame(name, module, kind, line) => {
                let line = line.map(|(file, number)| SourceLine { file: file.into_owned(), number });
                let frame = Frame::new(name, module, kind).at_line(line);
                profile.frames.push(frame);
            }
            Line::Thread(name) => profile.threads.push(name.into_owned()),
            Line::Wait(reason, waker) => profile.waits.push(Wait { reason, waker: waker.into_owned() }),
            Line::Process(process) => profile.processes.push(process.into_owned()),
            Line::Unwinding(next) => self.unwinding = next,
            Line::Lost(count) => profile.lost = profile.lost.saturating_add(count),
            Line::Throttled(count) => profile.throttled = profile.throttled.saturating_add(count),
            Line::Note(text) => profile.notes.push(text.into_owned()),
            Line::Footer(footer) => {
                profile.own_cpu_ns = footer.own_cpu_ns;
                profile.copied_bytes = footer.copied_bytes;
                profile.cpu_share = footer.cpu_share;
                profile.builds = footer.builds;
                profile.span = Some((footer.from, footer.to));
                return Ok(true);
            }
            Line::Header(_) => return Err("a second header".into()),
        }
        Ok(false)
    }
}
