//! Which lines begin a sample: those of the form that the samples of a text have, which is the same for all of them.

use super::line::{self, FrameLine, Header};

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

    /// That of a line; `None` where anything but processor, flags and period stands before time and event, or in their
    /// place: then it is a sentence with a number in it.
    fn of(header: &Header<'_>) -> Option<Self> {
        let mut words = line::words(header.rest);
        let all_digits = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
        let told = words.find(|word| !(all_digits(word) || is_bracketed(word) || is_flags(word)));
        let Some(told) = told else {
            return Some(Self::default());
        };
        if line::is_time(told) && told.contains(&b'.') {
            let event = header
                .sampled_event()
                .filter(|it| !it.name.starts_with(b"["));
            return Some(Self {
                time: true,
                event: event.is_some() && !header.is_sideband(),
            });
        }
        let name = told.strip_suffix(b":")?;
        let is_event = !line::is_time(told) && !name.is_empty() && !name.starts_with(b"[");
        is_event.then_some(Self {
            time: false,
            event: true,
        })
    }

    /// A line that begins a sample of a text of this form, or is a record of its own.
    pub(super) fn header(self, line: &[u8]) -> Option<Header<'_>> {
        let header = Header::of_any(line)?;
        let has_all = |it: Self| it.time >= self.time && it.event >= self.event;
        let is_one = header.is_sideband() || Self::of(&header).is_some_and(has_all);
        is_one.then_some(header)
    }
}

/// Whether a text begins as that of `perf script`: its first line that is no comment is that of a sample, with a time or
/// an event; or one soon after it is, with a time. Sentences with a number in them are like that, too, so that a frame has
/// to be there, or a line that no sentence is like.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    let mut forms = forms(start);
    let first = forms.next().flatten().unwrap_or_default();
    let begins = first.time || first.event || forms.flatten().any(|it| it.time);
    begins && (lines(start).any(is_frame) || lines(start).take(LINES_BEFORE).any(is_bare_sample))
}

/// Fields of each of the first lines, without comments.
fn forms(start: &[u8]) -> impl Iterator<Item = Option<Form>> {
    let headers = lines(start).take(LINES_BEFORE).map(Header::of_any);
    headers.map(|header| Form::of(&header?))
}

/// The lines of a text that are no comments.
fn lines(start: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = start.split(|&byte| byte == b'\n');
    lines.filter(|line| !line.is_empty() && line.first() != Some(&b'#'))
}

/// A line of a stack, or a sample's with the function that ran behind its event. A word may be a number in hexadecimal.
fn is_frame(line: &[u8]) -> bool {
    let inline = Header::of_any(line).and_then(|it| it.frame());
    let own = || FrameLine::whole(line).filter(|_| line::is_blank(line[0]));
    inline.or_else(own).is_some_and(|frame| {
        let is_address = frame.address.iter().all(u8::is_ascii_hexdigit);
        is_address && frame.address.iter().any(u8::is_ascii_digit) && !frame.function.is_empty()
    })
}

/// A sample's line without a frame: with a time, and an event that has a period, that is named as perf names them, or that
/// ends the line.
fn is_bare_sample(line: &[u8]) -> bool {
    Header::of_any(line).is_some_and(|header| {
        let has_both = Form {
            time: true,
            event: true,
        };
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
