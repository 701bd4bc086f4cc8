//! Folded text of `stackcollapse-perf.pl`, `flamegraph.pl` and inferno: a line per stack, `thread;root;…;leaf count`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, BufRead};

use measure::Time;

use super::fold::{Detail, FoldedNames, NO_THREAD, ThreadRules};
use super::frames::{Frame, FrameKind, UNKNOWN, is_root_function};
use super::model::{Profile, ProfileHeader, Sample};
use super::tree::Builder;
use crate::bounded::{self, Line};

/// Bytes that a line may have: a stack of some thousand long names.
const LONGEST_LINE: u64 = 1 << 20;

impl Profile {
    /// The profile as folded text. The first field is the thread's group, unless no thread has a name; names are
    /// changed as [`folded_name`] says. Lines are in the order of the stack tree, which depends on nothing but the
    /// profile.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        self.each_line(self.has_threads(), |line, weight| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line} {weight}");
        });
        text
    }

    /// Whether any thread has a name.
    pub fn has_threads(&self) -> bool {
        self.threads.iter().any(|name| !name.is_empty())
    }

    fn each_line(&self, threads: bool, mut take: impl FnMut(String, u64)) {
        let profile = self.with_reasons();
        let groups = profile.thread_groups();
        let named = |name: &str, empty| folded_name(name, empty).into_owned();
        let names = FoldedNames {
            frames: (profile.frames.iter()).map(|frame| named(&frame.name, UNKNOWN)).collect(),
            groups: threads.then(|| groups.names.iter().map(|name| named(name, NO_THREAD)).collect()),
            deeper: "",
        };
        for (line, weight) in profile.folded_lines(&groups, Detail::ALL, &names) {
            take(line, weight);
        }
    }
}

/// Two profiles as `difffolded.pl` writes them: `stack weight-of-a weight-of-b`, each stack of either once, in their
/// order as text. Threads stand in it where both profiles name theirs.
pub fn folded_beside(a: &Profile, b: &Profile) -> String {
    let threads = a.has_threads() && b.has_threads();
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (side, profile) in [a, b].into_iter().enumerate() {
        profile.each_line(threads, |line, weight| {
            if let Some(sum) = sums.entry(line).or_default().get_mut(side) {
                *sum = sum.saturating_add(weight);
            }
        });
    }
    let mut text = String::new();
    for (line, [a, b]) in sums {
        let _ = writeln!(text, "{line} {a} {b}");
    }
    text
}

/// A name as folded text can carry it, which has no escapes: `;` parts fields and becomes `:`, control characters
/// become `?`, blanks at either end are left out, `#` at the beginning would make the line a comment, and a number
/// behind a blank at the end would be taken for a count. `empty` stands for a name of which nothing is left.
pub fn folded_name<'n>(name: &'n str, empty: &'n str) -> Cow<'n, str> {
    let mut name = Cow::Borrowed(name);
    if name.contains(|c: char| c == ';' || c.is_control()) {
        let replace = |c: char| match c {
            ';' => ':',
            c if c.is_control() => '?',
            c => c,
        };
        name = Cow::Owned(name.chars().map(replace).collect());
    }
    if name.trim().len() < name.len() {
        name = Cow::Owned(name.trim().to_owned());
    }
    if name.is_empty() {
        return Cow::Borrowed(empty);
    }
    if name.starts_with('#') {
        name = Cow::Owned(format!("_{name}"));
    }
    let last = name.char_indices().rfind(|(_, c)| c.is_whitespace());
    if let Some((blank, c)) = last {
        let after = blank + c.len_utf8();
        if name.get(after..).is_some_and(|text| count_of(text).is_some()) {
            name.to_mut().replace_range(blank..after, "_");
        }
    }
    name
}

/// How texts of other tools begin that end in numbers, too, and what they are.
const OTHERS: [(&str, &str); 4] = [
    ("--- ", "a text of pprof's (`go tool pprof -proto` makes a profile of it that is read)"),
    ("heap profile:", "Go's text of a heap (ask the server for it without `debug=1`)"),
    ("goroutine profile:", "Go's text of goroutines (ask the server for it without `debug=1`)"),
    ("threadcreate profile:", "Go's text of threads (ask the server for it without `debug=1`)"),
];

/// First field of folded text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstField {
    /// The lines tell: a thread where something in them says so and nothing against it, else a function.
    #[default]
    Inferred,
    /// The name of a thread, or of its program.
    Thread,
    /// A function.
    Function,
}

/// Roots of stacks as other profilers write them, beside those that [`is_root_function`] knows.
const OTHER_ROOTS: [&str; 6] = [
    UNKNOWN,
    "entry_SYSCALL_64",
    "entry_SYSCALL_64_after_hwframe",
    "secondary_startup_64",
    "java/lang/Thread.run",
    "java.lang.Thread.run",
];

/// Reads folded text. Lines without a count are skipped and counted in a note. The inner error says why it is none.
pub(super) fn read(input: &mut dyn BufRead, first_field: FirstField) -> io::Result<Result<Profile, String>> {
    let mut builder = Builder::default();
    let mut fractions = Fractions::default();
    let mut evidence = Evidence::default();
    let (mut skipped, mut example) = (0u64, String::new());
    let mut bytes = Vec::new();
    loop {
        match bounded::next_line(input, LONGEST_LINE, &mut bytes)? {
            Line::Whole | Line::CutOff => {}
            Line::None => break,
            Line::TooLong => return Ok(Err("one of its lines has no end".into())),
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if evidence.lines == 0
            && let Some((_, what)) = OTHERS.iter().find(|(start, _)| line.starts_with(start))
        {
            return Ok(Err(format!("it is {what}")));
        }
        if !add(&mut builder, &mut fractions, &mut evidence, line) {
            skipped += 1;
            if skipped == 1 {
                example = line.chars().take(60).collect();
            }
        }
        if let Err(why) = builder.room() {
            return Ok(Err(why));
        }
    }
    let mut profile = builder.profile;
    let (unit, note) = fractions.scale(&mut profile.samples);
    if let Some(why) = evidence.against(skipped) {
        return Ok(Err(why));
    }
    let inferred = evidence.first_field(&profile.threads);
    let is_function = match first_field {
        FirstField::Inferred => inferred != Some(FirstField::Thread),
        certain => certain == FirstField::Function,
    };
    if is_function {
        profile = match with_threads_as_frames(&profile) {
            Ok(profile) => profile,
            Err(why) => return Ok(Err(why)),
        };
    }
    if profile.samples.iter().all(|it| profile.stack(it.stack).len() <= 1) {
        profile.without_stacks();
    }
    if first_field == FirstField::Inferred && inferred.is_none() {
        profile.notes.push(NOT_TOLD.into());
    }
    profile.header = ProfileHeader { unit: unit.into(), ..ProfileHeader::new(Time(0), 0) };
    profile.notes.extend(note.into_iter().chain(left_out(skipped, &example)));
    Ok(Ok(profile))
}

/// How many lines were no stacks, where any were.
fn left_out(lines: u64, example: &str) -> Option<String> {
    let counted = measure::counted(lines, "line");
    (lines > 0).then(|| format!("skipped {counted} without a count at the end; the first is `{example}`"))
}

/// Signs in the lines of what the text is.
#[derive(Debug, Default)]
struct Evidence {
    /// Lines with a stack and a count.
    lines: u64,
    /// Those of them that have another count in front.
    twice: u64,
    /// Some first field is marked as a function, or is the root of a stack.
    has_functions_first: bool,
    /// Some first field is a thread's, or a root stands behind it.
    has_threads_first: bool,
    /// Some line has several fields.
    has_stacks: bool,
    /// Some count is none of nothing.
    counts: bool,
    /// Stacks of one field.
    alone: HashSet<String>,
}

/// Whether it is a thread with its number, as async-profiler (`[main tid=7]`) and `stackcollapse-perf.pl`
/// (`java-12/13`) write it.
fn is_numbered(field: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let of_perf = field
        .rsplit_once('-')
        .is_some_and(|(_, numbers)| numbers.split('/').count() <= 2 && numbers.split('/').all(is_number));
    of_perf || field.starts_with('[') && field.contains("tid=")
}

/// The note where the lines do not tell what the first field is.
const NOT_TOLD: &str = "the first field of each line is taken for a function; where it is the thread's or the \
                        program's name, --first-field thread says so";

impl Evidence {
    /// Takes in the fields of a line with two or more.
    fn see(&mut self, first: &str, second: &str) {
        let [root, behind] = [first, second].map(|field| {
            let name = field.strip_suffix("_[k]").unwrap_or(field);
            let (name, _) = Frame::from_marked_name(name);
            is_root_function(name) || OTHER_ROOTS.contains(&name)
        });
        let (_, kind) = Frame::from_marked_name(first);
        let is_marked = kind == FrameKind::Java && !is_numbered(first) || first.ends_with("_[j]");
        // Threads are called so, too.
        self.has_functions_first |= is_marked || root && first != "main";
        let is_numbered = is_numbered(first);
        let is_known = first == NO_THREAD || ThreadRules::built_in().know(first);
        self.has_threads_first |= behind || is_numbered || is_known;
    }

    /// First field, as far as the lines tell it.
    fn first_field(&self, threads: &[String]) -> Option<FirstField> {
        // Samples without a stack are a thread alone, too: not every thread is.
        let mut named = threads.iter().filter(|it| !it.is_empty()).peekable();
        let has_names = named.peek().is_some();
        match () {
            () if !has_names => Some(FirstField::Function),
            () if self.has_functions_first => Some(FirstField::Function),
            () if named.all(|it| self.alone.contains(it)) => Some(FirstField::Function),
            () if self.has_threads_first => Some(FirstField::Thread),
            () => None,
        }
    }

    /// Why it is no folded text.
    fn against(&self, skipped: u64) -> Option<String> {
        match self.lines {
            0 => Some("no line of it ends in a count, as folded stacks do".into()),
            lines if lines == self.twice => Some(
                "its lines end in two counts, as difffolded.pl writes the difference of two profiles: \
                 give both of them to `bellows diff`"
                    .into(),
            ),
            lines if lines < skipped => Some(format!(
                "only {} of its {} end in a count, as folded stacks do",
                lines,
                measure::counted(lines + skipped, "line")
            )),
            _ if !self.counts => Some("all of its counts are 0".into()),
            // Any sentence may end in a number.
            _ if !self.has_stacks && self.alone.iter().any(|it| it.contains([' ', '\t'])) => {
                Some("its lines end in numbers, but none of them has a `;` between functions".into())
            }
            _ => None,
        }
    }
}

/// The profile with what was taken for threads as the functions that they are.
fn with_threads_as_frames(profile: &Profile) -> Result<Profile, String> {
    let mut builder = Builder::default();
    for sample in &profile.samples {
        let thread = profile.threads.get(sample.thread as usize);
        let named = thread.filter(|name| !name.is_empty()).map(|name| {
            let (name, kind) = Frame::from_marked_name(Frame::function_of(name));
            Frame::new(name, "", kind)
        });
        let mut parent = None;
        for frame in named.iter().chain(profile.stack(sample.stack)) {
            let frame = builder.frame(frame);
            parent = Some(builder.node(parent, frame));
        }
        let thread = builder.thread("");
        let stack = parent.unwrap_or(sample.stack);
        builder.sample(Sample { stack, thread, ..*sample });
        builder.room()?;
    }
    Ok(builder.profile)
}

/// Adds a line; whether it is one of folded text.
fn add(builder: &mut Builder, fractions: &mut Fractions, evidence: &mut Evidence, line: &str) -> bool {
    let Some((stack, count)) = line
        .rsplit_once([' ', '\t'])
        .and_then(|(stack, count)| Some((stack.trim_end(), count_of(count)?)))
        .filter(|(stack, _)| !stack.is_empty())
    else {
        return false;
    };
    evidence.lines += 1;
    evidence.has_stacks |= stack.contains(';');
    evidence.counts |= !matches!(count, Count::Whole(0) | Count::Fraction(0.0));
    let before = stack.rsplit_once([' ', '\t']).map(|(_, before)| before);
    evidence.twice += u64::from(before.is_some_and(|text| count_of(text).is_some()));
    let (thread, frames) = stack.split_once(';').unwrap_or(("", stack));
    if !thread.is_empty() {
        evidence.see(thread, frames.split(';').next().unwrap_or_default());
    }
    if thread.is_empty() && evidence.alone.insert(stack.to_owned()) {
        builder.take(stack.len() + 64);
    }
    let thread = builder.thread(thread);
    let mut parent = None;
    for name in frames.split(';').map(Frame::function_of) {
        let (name, kind) = Frame::from_marked_name(name);
        let frame = builder.frame(&Frame::new(name, "", kind));
        parent = Some(builder.node(parent, frame));
    }
    if let Some(stack) = parent {
        let weight = match count {
            Count::Whole(value) => value,
            Count::Fraction(value) => {
                if value.fract() > 0.0 {
                    builder.take(2 * size_of::<(usize, f64)>());
                    fractions.0.push((builder.profile.samples.len(), value));
                }
                value as u64
            }
        };
        builder.sample(Sample::new(stack, thread, weight));
    }
    true
}

/// A count: flamegraph.pl allows fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Count {
    Whole(u64),
    Fraction(f64),
}

fn count_of(text: &str) -> Option<Count> {
    text.parse().ok().map(Count::Whole).or_else(|| {
        let value: f64 = text.parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(Count::Fraction(value))
    })
}

/// Samples whose counts have a fraction, with these counts.
#[derive(Debug, Default)]
struct Fractions(Vec<(usize, f64)>);

/// Larger sums of counts lose digits as floating-point numbers, which scripts of pages have alone.
const MOST_EXACT: f64 = 9e15;
/// A count this large may be rounded: that changes it by less than a thousandth.
const ENOUGH: f64 = 1e3;

impl Fractions {
    /// Multiplies all weights by the first power of ten that leaves no fraction which matters; what they count then,
    /// and a note on it.
    fn scale(&self, samples: &mut [Sample]) -> (&'static str, Option<String>) {
        if self.0.is_empty() {
            return (ProfileHeader::WEIGHT, None);
        }
        let sum = samples.iter().map(|it| it.weight as f64).sum::<f64>();
        let sum = sum + self.0.iter().map(|it| it.1.fract()).sum::<f64>();
        let is_enough = |factor: f64| {
            self.0.iter().map(|it| it.1 * factor).all(|it| it >= ENOUGH || (it - it.round()).abs() <= 1e-9 * it)
        };
        let parts = ProfileHeader::PARTS_OF_WEIGHT.map(|(power, unit)| (10_f64.powi(power), unit));
        let mut fitting = parts.iter().filter(|it| sum * it.0 <= MOST_EXACT);
        let chosen = fitting.clone().find(|it| is_enough(it.0)).or(fitting.next_back()).copied();
        let (factor, unit) = chosen.unwrap_or((1.0, ProfileHeader::WEIGHT));
        for sample in samples.iter_mut() {
            sample.weight = sample.weight.saturating_mul(factor as u64);
        }
        // What rounding adds or leaves, the next one gets: a thousand of 0.4 are 400, not none.
        let mut rest = 0.0;
        for (at, count) in &self.0 {
            let exact = count * factor + rest;
            rest = exact - exact.round();
            if let Some(sample) = samples.get_mut(*at) {
                sample.weight = exact.round() as u64;
            }
        }
        let note = match unit {
            ProfileHeader::WEIGHT => "counts with a fraction are rounded, so that their sum is right".to_owned(),
            unit => format!("counts with a fraction: all weights are in {unit}"),
        };
        (unit, Some(note))
    }
}
