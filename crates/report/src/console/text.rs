//! Text for terminals: safe to print, with its width, and numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a line of text in a pipe.
pub(super) const MOST_COLUMNS: usize = 200;

/// How one output stream is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// A terminal that understands cursor movement.
    pub terminal: bool,
    /// Colours may be used. They never carry meaning alone.
    pub colour: bool,
    /// Columns that a line may fill.
    pub columns: usize,
    /// Rows of the screen.
    pub rows: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self::PLAIN
    }
}

impl Style {
    /// No terminal: no colour, nothing redrawn, tables as wide as they are, and text of at most 200 columns.
    pub const PLAIN: Self = Self { terminal: false, colour: false, columns: usize::MAX, rows: 24 };

    /// Style of a stream, by its size, `TERM` and `NO_COLOR` (<https://no-color.org>).
    pub fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if !stream.is_terminal() || dumb {
            return Self::PLAIN;
        }
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let size = rustix::termios::tcgetwinsize(stream).ok();
        let or = |value: Option<u16>, default| value.filter(|n| *n > 0).map_or(default, usize::from);
        Self {
            terminal: true,
            colour: !plain,
            columns: or(size.map(|s| s.ws_col), 80),
            rows: or(size.map(|s| s.ws_row), 24),
        }
    }

    /// Columns that a sentence may fill: longer lines are hard to read on a terminal, and to show elsewhere.
    pub fn prose_columns(self) -> usize {
        if self.terminal { self.columns.min(100) } else { self.line_columns() }
    }

    /// Columns that a headline or a row of short text may fill: all of a terminal's, and a bounded number in a pipe.
    pub(super) fn line_columns(self) -> usize {
        if self.terminal { self.columns } else { self.columns.min(MOST_COLUMNS) }
    }

    /// A text over as many lines as the screen demands. In a pipe no path and no name is broken.
    pub(super) fn lines_of(self, text: &str) -> Vec<String> {
        self.broken(text, self.line_columns())
    }

    /// A sentence over as many lines as the screen demands, like [`Self::lines_of`].
    pub(super) fn prose_lines(self, text: &str) -> Vec<String> {
        self.broken(text, self.prose_columns())
    }

    fn broken(self, text: &str, columns: usize) -> Vec<String> {
        if self.columns == usize::MAX { wrap_words(text, columns) } else { wrap(text, columns) }
    }

    /// Headline over as many lines as the screen demands.
    pub(super) fn strong_lines(self, text: &str) -> Vec<String> {
        self.lines_of(&sanitise(text)).iter().map(|line| self.strong(line)).collect()
    }

    /// A caution over as many lines as the screen demands.
    pub(super) fn caution_lines(self, text: &str) -> Vec<String> {
        self.lines_of(&sanitise(text)).iter().map(|line| self.caution(line)).collect()
    }

    pub(super) fn faint_prose(self, text: &str) -> Vec<String> {
        self.prose_lines(text).iter().map(|line| self.faint(line)).collect()
    }

    /// Bold, for headlines.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Dim, for details.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Yellow, for cautions; the words beside it say so too.
    pub fn caution(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Bold red, for errors; the words beside it say so too.
    pub fn alarm(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Cyan, for the part of a bar that is done.
    pub fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Text from a broker or a network, made safe to print: control characters appear as symbols, and
/// characters that reorder or hide text as the replacement character.
pub fn sanitise(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| symbol(c) == c) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(symbol).collect())
    }
}

pub(super) fn symbol(c: char) -> char {
    match c {
        // "Control Pictures" mirror the ASCII control characters.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Columns that the text fills. It must not hold colour codes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// At most `columns` wide; a cut is shown as `…`.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used < columns
    });
    Cow::Owned(kept.collect::<String>() + if columns > 0 { "…" } else { "" })
}

/// The distinctive end of a name, at most `room` wide; a cut is shown as `…`.
pub(super) fn fit_end(name: &str, room: usize) -> String {
    if width(name) <= room {
        return name.to_owned();
    }
    let mut ends = name.char_indices().map(|(at, _)| &name[at..]);
    format!("…{}", ends.find(|end| width(end) < room).unwrap_or_default())
}

/// Both ends of a name, either of which may be distinctive, at most `room` wide; a cut is shown as `…`.
pub fn fit_middle(name: &str, room: usize) -> String {
    if width(name) <= room {
        return name.to_owned();
    }
    ConnectionName::of(name).and_then(|it| it.fit(room)).unwrap_or_else(|| {
        // A remark in brackets, such as "(flow)", does not take the place of the number before it.
        let at = name.rfind(" (").filter(|at| name.ends_with(')') && width(&name[*at..]) <= room / 3);
        let (name, remark) = name.split_at(at.unwrap_or(name.len()));
        let room = room - width(remark);
        let begin = fit(name, room / 2);
        let end = fit_end(name, (room + 1).saturating_sub(width(&begin)));
        format!("{begin}{}{remark}", end.trim_start_matches('…'))
    })
}

/// A connection's name, `connection CLIENT:PORT -> BROKER:PORT - GIVEN (1)`, in its parts.
struct ConnectionName<'a> {
    client: &'a str,
    broker: &'a str,
    /// The name that the client gave itself; empty where it gave none.
    given: &'a str,
    /// The number of a channel, and other text in brackets.
    number: &'a str,
}

impl<'a> ConnectionName<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let (client, rest) = name.split_once(" -> ")?;
        let (broker, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        let mut end = rest.len();
        while let Some(at) = rest[..end].rfind(" (").filter(|_| rest[..end].ends_with(')')) {
            end = at;
        }
        let (given, number) = rest.split_at(end);
        let given = given.strip_prefix(" - ").unwrap_or(given);
        Some(Self { client, broker, given, number })
    }

    /// Role, with the client's port alone.
    fn short(&self) -> String {
        let client = self.client;
        let (role, _) = client.split_at(client.find(' ').map_or(0, |at| at + 1));
        let port = client.rfind(':').map_or(client, |at| &client[at..]);
        format!("{role}…{port}")
    }

    /// The client's own name, without the prefix of all clients of bellows.
    fn own(&self) -> &'a str {
        self.given.strip_prefix("bellows ").unwrap_or(self.given)
    }

    /// At most `room` wide: the broker's address goes first, as many share it, then the client's. Its port, its given
    /// name and the channel's number distinguish it. `None` where these have no room.
    fn fit(&self, room: usize) -> Option<String> {
        let Self { client, broker, given, number } = *self;
        let left = |head: &str| room.saturating_sub(width(head) + width(number));
        if given.is_empty() {
            let end = fit_end(&format!("…{broker}"), left(client));
            return (left(client) > 0).then(|| format!("{client}{end}{number}"));
        }
        let short = self.short();
        let head = [client, &short].into_iter().find(|head| left(head) > width(given));
        if let Some(head) = head {
            return Some(format!("{head}…{given}{number}"));
        }
        let left = left(&short).saturating_sub(1);
        (left >= LEAST_GIVEN).then(|| format!("{short}…{}{number}", fit(self.own(), left)))
    }
}

/// A connection's name without addresses, where the client gave itself one.
fn without_addresses(name: &str) -> String {
    match ConnectionName::of(name) {
        Some(of) if !of.given.is_empty() => format!("{}…{}{}", of.short(), of.own(), of.number),
        _ => name.to_owned(),
    }
}

/// Columns below which a part of a client's name says nothing.
const LEAST_GIVEN: usize = 8;

/// Names at most `room` wide, each cut at the best place; if they look alike then, so that their difference is seen.
pub fn fit_apart(names: &[String], room: usize) -> Vec<String> {
    let mut shown: Vec<String> = names.iter().map(|name| fit_middle(name, room)).collect();
    // Each time some of a group are told from the others of it.
    for _ in 0..names.len() {
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, text) in shown.iter().enumerate() {
            alike.entry(text.clone()).or_default().push(at);
        }
        let mut has_changed = false;
        for group in alike.values() {
            let letters = |text: fn(&str) -> String| -> Vec<Vec<char>> {
                group.iter().map(|at| text(&names[*at]).chars().collect()).collect()
            };
            let short = letters(without_addresses);
            let whole = if short.iter().any(|it| Some(it) != short.first()) { short } else { letters(str::to_owned) };
            let Some(from) = first_difference(&whole, |name, at| name.get(at).copied()) else { continue };
            let behind = first_difference(&whole, |name, at| name.iter().rev().nth(at).copied());
            for (at, name) in group.iter().zip(&whole) {
                let until = name.len().saturating_sub(behind.unwrap_or(0)).max(from + 1);
                let text = fit_around(name, from, until, room);
                has_changed |= text != shown[*at];
                shown[*at] = text;
            }
        }
        if !has_changed {
            break;
        }
    }
    shown
}

/// How far names are the same, from one of their ends; `None` where they are so as a whole.
fn first_difference(names: &[Vec<char>], letter: impl Fn(&[char], usize) -> Option<char>) -> Option<usize> {
    let (first, rest) = names.split_first()?;
    let longest = names.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).find(|at| rest.iter().any(|it| letter(it, *at) != letter(first, *at)))
}

/// A name of which this part is seen, from its beginning on, and as much of both ends as there is room for.
fn fit_around(name: &[char], from: usize, until: usize, room: usize) -> String {
    let mut kept = vec![false; name.len()];
    let text = |kept: &[bool]| {
        let mut text = String::new();
        for (letter, is_kept) in name.iter().zip(kept) {
            match is_kept {
                true => text.push(*letter),
                false if !text.ends_with('…') => text.push('…'),
                false => {}
            }
        }
        text
    };
    let mut best = text(&kept);
    let ends = (0..from).zip((until..name.len()).rev().map(Some).chain(std::iter::repeat(None)));
    let ends = ends.flat_map(|(begin, end)| [Some(begin), end].into_iter().flatten());
    let all = (from..until.min(name.len())).chain(ends).chain((until..name.len()).rev());
    for at in all {
        kept[at] = true;
        let longer = text(&kept);
        if width(&longer) > room {
            // A letter that closes a gap makes nothing wider: the next one may have room.
            kept[at] = false;
            continue;
        }
        best = longer;
    }
    best
}

/// Exactly `columns` wide, text at the left.
pub(super) fn left(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    // Formatting would panic at widths above 65,535.
    let pad = " ".repeat(columns.saturating_sub(width(&text)));
    format!("{text}{pad}")
}

/// Exactly `columns` wide, text at the right.
pub(super) fn right(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    let pad = " ".repeat(columns.saturating_sub(width(&text)));
    format!("{pad}{text}")
}

/// Breaks at blanks into lines of at most `columns`, not between a number and its unit; longer words break anywhere.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    broken(text, columns, LongWords::Anywhere)
}

/// Lines like those of [`wrap`]; longer names break behind a sign, where one stands in the second half of a line.
pub(super) fn wrap_names(text: &str, columns: usize) -> Vec<String> {
    broken(text, columns, LongWords::BehindSigns)
}

/// Lines like those of [`wrap`], all but the first of them indented.
pub(super) fn wrap_hanging(text: &str, columns: usize) -> Vec<String> {
    let lines = wrap(text, columns.saturating_sub(2)).into_iter().enumerate();
    lines.map(|(at, line)| if at == 0 { line } else { format!("  {line}") }).collect()
}

/// Breaks at blanks like [`wrap`], but no word, path or command: a longer one has a line of its own.
pub(super) fn wrap_words(text: &str, columns: usize) -> Vec<String> {
    broken(text, columns, LongWords::Whole)
}

/// Where words are broken that are wider than a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LongWords {
    Anywhere,
    BehindSigns,
    Whole,
}

/// Bytes of a line of one word that stay in it: up to its last sign, where that stands in the second half.
fn up_to_sign(line: &str, columns: usize) -> usize {
    let is_sign = |c: char| matches!(c, ':' | '_' | '/' | '.' | '-' | '@' | ',' | '=' | '>');
    let behind = line.rfind(is_sign).map_or(0, |at| at + 1);
    if width(&line[..behind]) * 2 > columns { behind } else { line.len() }
}

/// Lines of a text.
fn broken(text: &str, columns: usize, long: LongWords) -> Vec<String> {
    let columns = columns.max(1);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in words(text, columns) {
        let wide = painted_width(word);
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + wide > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if gap > 0 {
            line.push(' ');
            used += gap;
        }
        if long == LongWords::Whole || wide <= columns {
            line.push_str(word);
            used += wide;
            continue;
        }
        for c in word.chars() {
            let w = c.width().unwrap_or(0);
            if used > 0 && used + w > columns {
                let kept = if long == LongWords::BehindSigns { up_to_sign(&line, columns) } else { line.len() };
                let rest = line.split_off(kept);
                used = width(&rest);
                lines.push(std::mem::replace(&mut line, rest));
            }
            line.push(c);
            used += w;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Units that stay with the number before them, also before a slash: `msg/s`.
const UNITS: [&str; 26] = [
    "%", "ns", "us", "µs", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "k", "M",
    "G", "Hz", "kHz", "core", "cores", "points", "msg",
];

/// The words of a text. A number and its unit are one where they have room in a line.
fn words(text: &str, columns: usize) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let word_end = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
        let mut end = word_end(rest);
        let is_number = rest[..end].ends_with(|c: char| c.is_ascii_digit());
        while let Some(next) = rest[end..].strip_prefix(' ') {
            let longer = end + 1 + word_end(next);
            let next = &next[..word_end(next)];
            // Before a sign of percent also a letter stands for a number.
            let belongs = next.starts_with('%') || (is_number && is_unit(next));
            if !belongs || width(&rest[..longer]) > columns {
                break;
            }
            end = longer;
        }
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_start();
        (!word.is_empty()).then_some(word)
    })
}

fn is_unit(word: &str) -> bool {
    let ends = |c: char| matches!(c, ',' | '.' | ';' | ':' | ')' | ']' | '"' | '?' | '!');
    let unit = word.trim_end_matches(ends);
    UNITS.contains(&unit.split('/').next().unwrap_or_default())
}

/// Columns that a text fills that may hold the product's own colour codes.
fn painted_width(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let plain = parts.next().map_or(0, width);
    let painted = parts.map(|part| width(part.split_once('m').map_or(part, |it| it.1)));
    plain + painted.sum::<usize>()
}

/// A sentence over as many lines as the screen demands.
pub fn sentence(text: &str, style: Style) -> String {
    style.prose_lines(&sanitise(text)).join("\n") + "\n"
}

/// Lines of prose, each over as many as it needs. A path wider than the screen stays whole, for copying.
pub fn prose(text: &str, style: Style) -> String {
    let columns = style.prose_columns();
    let mut out = String::new();
    for line in text.lines() {
        let told = line.trim_start_matches(' ');
        let (indent, _) = line.split_at(line.len() - told.len());
        if painted_width(line) <= columns {
            out.push_str(&format!("{line}\n"));
            continue;
        }
        for part in wrap_words(told, columns.saturating_sub(indent.len())) {
            out.push_str(&format!("{indent}{part}\n"));
        }
    }
    out
}

/// Names, and beside each in a column its text, over as many lines as that needs.
pub fn listed<N: AsRef<str>, T: AsRef<str>>(rows: &[(N, T)], style: Style) -> String {
    let names = rows.iter().map(|(name, _)| width(name.as_ref())).max().unwrap_or(0);
    let columns = style.prose_columns().saturating_sub(names + 2).max(20);
    let gap = format!("\n{}", " ".repeat(names + 2));
    let mut text = String::new();
    for (name, what) in rows {
        let name = left(&sanitise(name.as_ref()), names);
        let what = style.broken(&sanitise(what.as_ref()), columns).join(&gap);
        text.push_str(&format!("{name}  {what}\n"));
    }
    text
}

/// Seconds as `0:07`, `1:00`, `2:03:04`.
pub(super) fn clock(seconds: f64) -> String {
    let whole = if seconds.is_finite() && seconds > 0.0 { seconds as u64 } else { 0 };
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn control_characters_become_symbols() {
        assert_eq!(sanitise("plain"), "plain");
        assert_eq!(sanitise("a\u{1b}[31mb\n\u{7f}\u{9b}2J"), "a␛[31mb␊␡\u{fffd}2J");
        assert_eq!(sanitise("safe\u{202e}exe"), "safe\u{fffd}exe");
    }

    #[test]
    fn padding_counts_columns_not_bytes() {
        assert_eq!(left("äö", 4), "äö  ");
        assert_eq!(right("日本", 5), " 日本");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(left("abcdef", 4), "abc…");
    }

    #[test]
    fn lines_break_at_blanks_but_not_before_a_unit_and_further_ones_of_a_hanging_text_are_indented() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a longest b", 4), ["a", "long", "est", "b"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("abc", 0), ["a", "b", "c"]);
        assert!(wrap("incomprehensibilities x", 8).iter().all(|line| width(line) <= 8));
        assert!(wrap("", 8).is_empty());
        assert_eq!(wrap("it took 12 %, or 3 ms", 10), ["it took", "12 %, or", "3 ms"]);
        assert_eq!(wrap("sent 3.11 M msg/s (0.4 cores)", 14), ["sent", "3.11 M msg/s", "(0.4 cores)"]);
        assert_eq!(wrap("of 12 samples", 6), ["of 12", "sample", "s"]);
        assert_eq!(wrap("run 2 2 h", 6), ["run 2", "2 h"]);
        assert_eq!(wrap("a change of M %, the", 14), ["a change of", "M %, the"]);
        for columns in 12..60 {
            let text = "B has a 24.0 % higher sent rate [+23.0 %, +25.0 %]; p99 31.0 ms, 54,800 msg/s";
            for line in wrap(text, columns) {
                assert!(!line.starts_with('%') && !line.starts_with("ms"), "{columns}: {line}");
                assert!(width(&line) <= columns, "{columns}: {line}");
            }
        }
        assert_eq!(wrap_hanging("A: 2 runs; one left out", 12), ["A: 2 runs;", "  one left", "  out"]);
        assert_eq!(wrap_hanging("A: 2 runs", 12), ["A: 2 runs"]);
    }

    #[test]
    fn prose_breaks_on_a_terminal_and_what_has_to_be_copied_does_not() {
        let screen = Style { terminal: true, columns: 12, ..Style::PLAIN };
        let text = "\na  b\none two three\n  page: /a/very/long/path here\n";
        assert_eq!(prose(text, screen), "\na  b\none two\nthree\n  page:\n  /a/very/long/path\n  here\n");
        assert_eq!(prose(text, Style::PLAIN), text);
        let painted = "\u{1b}[1;31merror:\u{1b}[0m two";
        assert_eq!(prose(painted, screen), format!("{painted}\n"));
    }

    #[test]
    fn both_ends_of_a_long_name_are_kept() {
        let name = "rabbitmq_queue_messages{queue=\"orders\"}";
        assert_eq!(fit_middle(name, 80), name);
        let channel = "channel 127.0.0.1:45678 -> 127.0.0.1:5672 (12)";
        assert_eq!(fit_middle(channel, 40), "channel 127.0.0.1:45678….0.0.1:5672 (12)");
        assert_eq!(fit_middle(channel, 30), "channel 127.0.0.1:45678…2 (12)");
        let named = "connection [::1]:33056 -> [::1]:5672 - bellows producer 2 of queue://demo";
        assert_eq!(fit_middle(named, 56), "connection …:33056…bellows producer 2 of queue://demo");
        assert_eq!(fit_middle(named, 40), "connection …:33056…producer 2 of queue:…");
        let numbered = format!("{} (3) (flow)", named.replace("connection", "channel"));
        assert_eq!(fit_middle("queue of-a-long-name.12 (flow)", 24), "queue o…g-name.12 (flow)");
        assert_eq!(fit_middle(&numbered, 40), "channel …:33056…producer 2 o… (3) (flow)");
        for room in 29..50 {
            let cut = fit_middle(channel, room);
            assert!(cut.starts_with("channel 127.0.0.1:45678") && cut.ends_with("(12)"), "{cut}");
            assert!(width(&cut) <= room, "{room}: {cut}");
        }
        let cut = fit_middle(name, 20);
        assert_eq!((cut.as_str(), width(&cut)), ("rabbitmq_…=\"orders\"}", 20));
        for room in 0..40 {
            assert!(width(&fit_middle(name, room)) <= room.max(1), "{room}");
        }
    }

    #[test]
    fn names_that_differ_do_not_look_alike() {
        let channel = |client: &str, given: &str, number: u32| {
            format!("channel 10.0.0.{client}:33056 -> 127.0.0.1:5672 - {given} ({number})")
        };
        let names = [
            channel("1", "bellows producer 2 of queue://a-long-name/orders-1", 1),
            channel("1", "bellows producer 2 of queue://a-long-name/orders-1", 2),
            channel("2", "bellows producer 2 of queue://a-long-name/orders-1", 1),
            channel("1", "bellows producer 2 of queue://a-long-name/orders-2", 1),
            channel("1", "bellows consumer 2 of queue://a-long-name/orders-1", 1),
            "queue warehouse.europe.north.orders.incoming.of.customers".to_owned(),
            "queue warehouse.europe.south.orders.incoming.of.customers".to_owned(),
            "queue warehouse.europe.north.orders.incoming.of.suppliers".to_owned(),
            "queue 日本語の長い名前の列その一はここにあります".to_owned(),
            "queue 日本語の長い名前の列その二はここにあります".to_owned(),
        ];
        for room in 20..90 {
            let shown = fit_apart(&names, room);
            assert!(shown.iter().all(|it| width(it) <= room), "{room}: {shown:#?}");
            assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), names.len(), "{room}: {shown:#?}");
        }
        let shown = fit_apart(&names, 40);
        assert!(shown[3].contains("producer") && shown[4].contains("consumer"), "{shown:#?}");
        // Equal names look equal.
        let shown = fit_apart(&["a".repeat(50), "a".repeat(50)], 10);
        assert_eq!(shown[0], shown[1]);
    }

    #[test]
    fn clocks_show_hours_only_when_there_are_some() {
        assert_eq!([7.9, 60.0, 7384.0].map(clock), ["0:07", "1:00", "2:03:04"]);
    }

    #[test]
    fn colour_is_off_where_it_is_not_wanted() {
        assert_eq!(Style::PLAIN.alarm("x"), "x");
        let coloured = Style { colour: true, ..Style::PLAIN };
        assert_eq!(coloured.caution("x"), "\u{1b}[33mx\u{1b}[0m");
    }
}
