//! One line of `perf script`. What is a thread's name, a number or a function's name is told apart as
//! `stackcollapse-perf.pl` does, which is the only agreement that there is: names may hold blanks,
//! numbers and brackets. Which lines begin a sample is told by the form of the text's samples, which all share.

/// The first line of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'l> {
    /// The thread's name.
    pub(super) comm: &'l [u8],
    /// The process, where the line has both numbers.
    pub(super) pid: Option<&'l [u8]>,
    pub(super) tid: &'l [u8],
    /// Text between thread and period: processor and time.
    pub(super) rest: &'l [u8],
    /// The event, where the line ends in one: `stackcollapse-perf.pl` sees no other.
    pub(super) event: Option<EventField<'l>>,
}

/// The end of a sample's first line: `1001001 cpu-clock:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventField<'l> {
    /// Digits of the sample's period; a 0 is left out, because a sample counts for something.
    pub(super) period: Option<&'l [u8]>,
    pub(super) name: &'l [u8],
}

/// A line of a stack: `7f3c5a12 process_main+0x1c (/usr/lib/beam.smp)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameLine<'l> {
    pub(super) address: &'l [u8],
    /// With its offset; names of inlined functions stand behind `->`.
    pub(super) function: &'l [u8],
    pub(super) module: &'l [u8],
}

/// Blanks as Perl has them, which takes the vertical tab for one, too.
pub(super) fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// How many bytes at the start are of a kind.
fn span(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !is(byte)).unwrap_or(bytes.len())
}

/// A line without the blanks at its end.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|&byte| !is_blank(byte));
    line.get(..end.map_or(0, |last| last + 1)).unwrap_or_default()
}

impl<'l> Header<'l> {
    /// The event that the sample is of, also where something stands behind it, which [`Header::event`] does not read.
    pub(super) fn sampled_event(&self) -> Option<EventField<'l>> {
        EventField::in_place(self.rest).map(|(event, _)| event).or(self.event)
    }

    /// Reads `comm pid/tid …` or `comm tid …`, as the script does: a name has two characters at least.
    pub(super) fn parse(line: &'l [u8]) -> Option<Self> {
        Self::named(line, 2)
    }

    /// Reads names as short as may be. Without stacks `perf script` has blanks, the frame behind the event, and a time.
    fn of_any(line: &'l [u8]) -> Option<Self> {
        let indented = line.get(span(line, is_blank)..)?;
        let short = Self::named(indented, 1).filter(|header| {
            // Behind the numbers: `x 12 7/8` is the thread `x 12`.
            let next = words(header.rest).next().unwrap_or_default();
            next.starts_with(b"[") || next.ends_with(b":") || next.iter().all(u8::is_ascii_digit)
        });
        let header = short.or_else(|| Self::named(indented, 2))?;
        let is_first = indented.len() == line.len();
        (is_first || words(header.rest).take(2).any(is_time)).then_some(header)
    }

    /// Whether the line is no sample, but a record of its own: `--show-mmap-events` and the like show them.
    pub(super) fn is_sideband(&self) -> bool {
        let mut told = words(self.rest).filter(|word| !is_time(word) && !word.starts_with(b"["));
        told.next().is_some_and(|word| word.starts_with(b"PERF_RECORD_"))
    }

    /// Whether its event is one as perf tells them, and no word with a colon.
    fn has_event_of_perf(&self) -> bool {
        EventField::in_place(self.rest).is_some_and(|(event, behind)| {
            event.period.is_some() || event.name.contains(&b':') || trim_end(behind).is_empty()
        })
    }

    /// The frame behind the event, of a recording without stacks.
    pub(super) fn frame(&self) -> Option<FrameLine<'l>> {
        let (_, behind) = EventField::in_place(self.rest)?;
        let frame = FrameLine::whole(behind)?;
        let is_address = frame.address.len() >= 4 && frame.address.iter().all(u8::is_ascii_hexdigit);
        is_address.then_some(frame)
    }

    /// The name ends before the first number that stands alone.
    fn named(line: &'l [u8], shortest: usize) -> Option<Self> {
        if is_blank(*line.first()?) {
            return None;
        }
        let mut at = shortest;
        loop {
            at += span(line.get(at..)?, |byte| !is_blank(byte));
            let blanks = span(line.get(at..)?, is_blank);
            let after = line.get(at + blanks..)?;
            if blanks > 0
                && let Some(ids) = Ids::parse(after)
            {
                return Some(Self {
                    comm: line.get(..at)?,
                    pid: ids.tid.map(|_| ids.first),
                    tid: ids.tid.unwrap_or(ids.first),
                    rest: ids.rest,
                    event: EventField::parse(line),
                });
            }
            if blanks == 0 {
                return None;
            }
            at += blanks;
        }
    }
}

/// The numbers of process and thread.
struct Ids<'l> {
    first: &'l [u8],
    tid: Option<&'l [u8]>,
    rest: &'l [u8],
}

impl<'l> Ids<'l> {
    fn parse(text: &'l [u8]) -> Option<Self> {
        let (first, rest) = text.split_at_checked(span(text, |b| b.is_ascii_digit()))?;
        let (_, rest) = rest.split_at_checked(span(rest, |byte| byte == b'/'))?;
        let (second, rest) = rest.split_at_checked(span(rest, |b| b.is_ascii_digit()))?;
        let is_one = !first.is_empty() && rest.first().is_some_and(|&byte| is_blank(byte));
        // 0 is the idle process of each processor, and counts as none.
        let is_thread = !second.is_empty() && second != b"0";
        is_one.then_some(Self { first, tid: is_thread.then_some(second), rest })
    }
}

impl<'l> EventField<'l> {
    /// Reads the end of the line: a colon, a period, and the event with another colon.
    fn parse(line: &'l [u8]) -> Option<Self> {
        let line = trim_end(line).strip_suffix(b":")?;
        let start = line.iter().rposition(|&byte| is_blank(byte))? + 1;
        let (before, name) = line.split_at_checked(start)?;
        let before = trim_end(before);
        let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, period) = before.split_at_checked(before.len() - digits)?;
        let ends = trim_end(before).ends_with(b":");
        (ends && !name.is_empty()).then_some(Self { period: counting(period), name })
    }

    /// Reads the event behind processor and time, with the rest, which is anything where a tracepoint says it.
    fn in_place(mut rest: &'l [u8]) -> Option<(Self, &'l [u8])> {
        let mut period: &[u8] = &[];
        loop {
            let text = rest.get(span(rest, is_blank)..)?;
            let (word, behind) = text.split_at_checked(span(text, |byte| !is_blank(byte)))?;
            if word.is_empty() {
                return None;
            }
            rest = behind;
            if word.iter().all(u8::is_ascii_digit) {
                period = word;
            } else if word.ends_with(b":") && !is_time(word) {
                let name = word.strip_suffix(b":").filter(|name| !name.is_empty())?;
                let period = counting(period);
                return Some((Self { period, name }, behind));
            } else {
                period = &[];
            }
        }
    }
}

/// The digits of a period, unless there are none or they are a 0.
fn counting(digits: &[u8]) -> Option<&[u8]> {
    (!digits.is_empty() && digits != b"0").then_some(digits)
}

/// Whether a word is a time: `25607.109216:`.
fn is_time(word: &[u8]) -> bool {
    let is_of_time = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    word.strip_suffix(b":").is_some_and(|time| time.iter().all(is_of_time))
}

pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| is_blank(byte)).filter(|word| !word.is_empty())
}

impl<'l> FrameLine<'l> {
    /// Reads an address, a function, and in the last brackets a module.
    pub(super) fn parse(line: &'l [u8]) -> Option<Self> {
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let open = line.get(..close)?.windows(2).rposition(|pair| pair == b" (")?;
        let start = span(line, is_blank);
        // The function has one character at least; where all is short, it takes that of what is before it.
        let last = open.checked_sub(1)?;
        let word = start + span(line.get(start..)?, is_word);
        let function = word + span(line.get(word..)?, is_blank);
        let (word, function) = (word.min(last), function.min(last));
        (word > start).then_some(Self {
            address: line.get(start..word)?,
            function: line.get(function..open)?,
            module: line.get(open + 2..close)?,
        })
    }

    /// Parses a module whose file is gone, too: `(/usr/bin/node (deleted))`.
    pub(super) fn whole(line: &'l [u8]) -> Option<Self> {
        let line = trim_end(line);
        let Some(there) = line.strip_suffix(b" (deleted))") else { return Self::parse(line) };
        let open = there.windows(2).rposition(|pair| pair == b" (")?;
        let module = there.get(open + 2..)?;
        // Read as always, the function has the file behind it.
        let frame = Self::parse(line)?;
        let end = frame.function.windows(2).rposition(|pair| pair == b" (")?;
        let function = frame.function.get(..end)?;
        Some(Self { function, module, ..frame })
    }
}

pub(super) fn without_offset(function: &[u8]) -> &[u8] {
    let Some(at) = function.windows(3).rposition(|three| three == b"+0x") else { return function };
    let (name, offset) = function.split_at(at);
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let digits = offset.get(3..).unwrap_or_default();
    if !digits.is_empty() && digits.iter().all(is_hex) { name } else { function }
}

/// The function and those that are inlined into it, in the order of calls; nothing for an empty text.
pub(super) fn with_inlined(function: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = function;
    while let Some(shorter) = rest.strip_suffix(b"->") {
        rest = shorter;
    }
    let mut rest = (!rest.is_empty()).then_some(rest);
    std::iter::from_fn(move || {
        let all = rest?;
        let arrow = all.windows(2).position(|pair| pair == b"->");
        let (name, after) = arrow.map_or((all, None), |at| (&all[..at], Some(&all[at + 2..])));
        rest = after;
        Some(name)
    })
}

/// A function's name without what breaks folded text: `;`, arguments, quotes, Java's mark of an object's type.
pub(super) fn tidied(function: &[u8], java: bool) -> Vec<u8> {
    const ANONYMOUS: &[u8] = b"(anonymous namespace)";
    let mut name: Vec<u8> = function.iter().map(|&byte| if byte == b';' { b':' } else { byte }).collect();
    if !is_go_method(&name) {
        let brackets = (0..name.len()).filter(|&at| name[at] == b'(');
        let arguments = brackets.into_iter().find(|&at| !name[at..].starts_with(ANONYMOUS));
        name.truncate(arguments.unwrap_or(name.len()));
    }
    name.retain(|byte| !matches!(byte, b'"' | b'\''));
    if java && name.first() == Some(&b'L') && name.contains(&b'/') {
        name.remove(0);
    }
    name
}

/// Whether it is like `net/http.(*Client).Do`, whose brackets are no arguments.
fn is_go_method(name: &[u8]) -> bool {
    let open = name.windows(2).position(|pair| pair == b".(");
    let close = name.windows(2).rposition(|pair| pair == b").");
    open.zip(close).is_some_and(|(open, close)| open + 2 <= close)
}

/// Whether a module is of the kernel: its image, or a module in brackets.
pub(super) fn is_kernel(module: &[u8]) -> bool {
    let named = module.starts_with(b"[") || module.ends_with(b"vmlinux");
    named && !contains(module, b"unknown")
}

/// Whether a module is the map that a compiler wrote, `/tmp/perf-4711.map`.
pub(super) fn is_jit_map(module: &[u8]) -> bool {
    (0..module.len()).any(|at| {
        let digits = module[at..].strip_prefix(b"/tmp/perf-").unwrap_or_default();
        let count = span(digits, |byte| byte.is_ascii_digit());
        count > 0 && digits[count..].starts_with(b".map")
    })
}

/// Whether the tool that tells inlined functions may know a module: no map, nothing of the kernel.
pub(super) fn is_plain_file(module: &[u8]) -> bool {
    let in_brackets = || {
        let mut open = None;
        module.iter().enumerate().any(|(at, byte)| match byte {
            b'[' if open.is_none() => {
                open = Some(at);
                false
            }
            b']' => open.take().is_some_and(|open| at > open + 1),
            _ => false,
        })
    };
    // Any character may stand before `map`, as in the script.
    let is_map = (0..module.len()).any(|at| {
        let digits = module[at..].strip_prefix(b"perf-").unwrap_or_default();
        let count = span(digits, |byte| byte.is_ascii_digit());
        // A digit may be that character, too.
        let after = |from: usize| {
            let rest = digits.get(from..);
            rest.is_some_and(|rest| rest.len() > 3 && rest[1..].starts_with(b"map"))
        };
        count > 0 && (after(count) || (count > 1 && after(count - 1)))
    });
    !is_map && !contains(module, b"kernel.") && !in_brackets()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

pub(super) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Lines in front of the first sample that may be anything: what programs say that write the text, or its reader.
const LINES_BEFORE: usize = 100;

/// Fields of samples' first lines, as `perf script -F` chooses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    time: bool,
    event: bool,
}

impl Form {
    /// The form of a text, by its beginning: that of the line that tells most.
    pub(super) fn of_text(start: &[u8]) -> Self {
        forms(start).flatten().max().unwrap_or_default()
    }

    /// That of a line; `None` where anything but processor, flags and period precedes time and event: a sentence.
    fn of(header: &Header<'_>) -> Option<Self> {
        let mut words = words(header.rest);
        let all_digits = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
        let told = words.find(|word| !(all_digits(word) || is_bracketed(word) || is_flags(word)));
        let Some(told) = told else { return Some(Self::default()) };
        if is_time(told) && told.contains(&b'.') {
            let event = header.sampled_event().filter(|it| !it.name.starts_with(b"["));
            return Some(Self { time: true, event: event.is_some() && !header.is_sideband() });
        }
        let name = told.strip_suffix(b":")?;
        let is_event = !is_time(told) && !name.is_empty() && !name.starts_with(b"[");
        is_event.then_some(Self { time: false, event: true })
    }

    /// A line that begins a sample of a text of this form, or is a record of its own.
    pub(super) fn header(self, line: &[u8]) -> Option<Header<'_>> {
        let header = Header::of_any(line)?;
        let has_all = |it: Self| it.time >= self.time && it.event >= self.event;
        let is_one = header.is_sideband() || Self::of(&header).is_some_and(has_all);
        is_one.then_some(header)
    }
}

/// Whether a text begins as that of `perf script`: its first line that is no comment is that of a sample, with a time
/// or an event; or one soon after it is, with a time. Sentences with a number in them are like that, too, so that a
/// frame has to be there, or a line that no sentence is like.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    let mut forms = forms(start);
    let first = forms.next().flatten().unwrap_or_default();
    let begins = first.time || first.event || forms.flatten().any(|it| it.time);
    begins && (lines(start).any(is_frame) || lines(start).take(LINES_BEFORE).any(is_bare_sample))
}

/// Fields of each of the first lines, without comments.
fn forms(start: &[u8]) -> impl Iterator<Item = Option<Form>> {
    lines(start).take(LINES_BEFORE).map(Header::of_any).map(|header| Form::of(&header?))
}

/// The lines of a text that are no comments.
fn lines(start: &[u8]) -> impl Iterator<Item = &[u8]> {
    start.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && line.first() != Some(&b'#'))
}

/// A line of a stack, or a sample's with the function that ran behind its event. A word may be a number in hexadecimal.
fn is_frame(line: &[u8]) -> bool {
    let inline = Header::of_any(line).and_then(|it| it.frame());
    let own = || FrameLine::whole(line).filter(|_| is_blank(line[0]));
    inline.or_else(own).is_some_and(|frame| {
        let is_address = frame.address.iter().all(u8::is_ascii_hexdigit);
        is_address && frame.address.iter().any(u8::is_ascii_digit) && !frame.function.is_empty()
    })
}

/// A sample's line without a frame: with a time and a period's event, named by perf, or at the line's end.
fn is_bare_sample(line: &[u8]) -> bool {
    Header::of_any(line).is_some_and(|header| {
        let has_both = Form { time: true, event: true };
        Form::of(&header) == Some(has_both) && header.has_event_of_perf()
    })
}

/// A processor: `[001]`.
fn is_bracketed(word: &[u8]) -> bool {
    word.starts_with(b"[") && word.ends_with(b"]")
}

/// Flags that some fields print before the time: `d..1.`, `UK`.
fn is_flags(word: &[u8]) -> bool {
    let dotted = !word.ends_with(b":") && word.iter().filter(|&&byte| byte == b'.').count() > 1;
    word.len() <= 8 && (dotted || word.iter().all(u8::is_ascii_uppercase))
}
