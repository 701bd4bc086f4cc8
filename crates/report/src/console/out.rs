//! The one way out to a terminal. All text for people passes here, and characters that could move the cursor, change
//! the terminal or turn the text around are shown as symbols, whoever wrote them.
//!
//! Text from a network is made harmless where it is put into a line ([`super::sanitise`]), so that it cannot
//! begin a line of its own either; this is what holds where somebody forgot that.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use super::text::{Style, sanitise, symbol};

/// Colours and weights that the product itself uses ([`super::Style`], clap's help).
const OWN_CODES: [&str; 9] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\u{1b}[1;31m",
];

/// Goes to the first line of a terminal, and clears all of it.
const CLEAR_SCREEN: &[u8] = b"\x1b[H\x1b[J";

/// Lines with the product's own colours; all other control and text-direction characters as symbols.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let own = OWN_CODES.iter().find(|code| rest.starts_with(**code));
        let (taken, length) = match own {
            Some(code) => (Cow::Borrowed(*code), code.len()),
            None if is_harmless(c) => (Cow::Owned(c.to_string()), c.len_utf8()),
            None => (Cow::Owned(symbol(c).to_string()), c.len_utf8()),
        };
        out.push_str(&taken);
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(out)
}

fn is_harmless(c: char) -> bool {
    matches!(c, '\n' | '\t') || symbol(c) == c
}

/// Results, to standard output. Errors: where they cannot be written; nobody may read them any more.
pub fn results(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(harmless(text).as_bytes())?;
    out.flush()
}

/// Results in place of all that the terminal of standard output shows; lines beyond its rows are left out. Errors: as
/// [`results`].
pub fn results_in_place(text: &str, rows: usize, is_first: bool) -> io::Result<()> {
    let text = harmless(text);
    // The cursor stands in a row of its own below them.
    let lines: String = text.lines().take(rows.saturating_sub(1)).map(|line| format!("{line}\x1b[K\n")).collect();
    let mut out = io::stdout().lock();
    // A screen that is cleared goes into the history of some terminals: that is for what was there before.
    out.write_all(if is_first { CLEAR_SCREEN } else { b"\x1b[H" })?;
    out.write_all(lines.as_bytes())?;
    out.write_all(b"\x1b[J")?;
    out.flush()
}

/// A file's content to standard output; to a terminal, made harmless. Errors: as [`results`].
pub fn data(bytes: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() {
        let text = String::from_utf8_lossy(bytes);
        return results(&text.lines().map(shown_line).collect::<String>());
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// A line of a file, none of whose characters is the product's own.
fn shown_line(line: &str) -> String {
    line.split('\t').map(sanitise).collect::<Vec<_>>().join("\t") + "\n"
}

/// Writes to standard error, beside the results. A closed one is ignored.
pub fn aside(text: &str) {
    let _ = io::stderr().write_all(harmless(text).as_bytes());
}

/// Goes to the first line of the terminal of standard error, and clears all of it.
pub(super) fn clear_screen_aside() {
    let mut out = io::stderr().lock();
    // A terminal that has gone away is nobody's loss.
    let _ = out.write_all(CLEAR_SCREEN).and_then(|()| out.flush());
}

/// The terminal of standard error as it is now: people change its size.
pub(super) fn style_aside() -> Style {
    Style::of(&io::stderr())
}

/// JSON in which characters that a terminal might obey are written as `\u….`: the same value.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_harmless) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_harmless(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_a_terminal_obeys_becomes_a_symbol_and_names_of_a_file_bring_no_colours() {
        for code in 0..=0x10_ffff {
            let Some(c) = char::from_u32(code).filter(|c| !matches!(c, '\n' | '\t')) else { continue };
            let shown = harmless(&c.to_string()).into_owned();
            assert!(!shown.contains(char::is_control), "{code:x}");
            let bidi = matches!(code, 0x61c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
            assert!(!bidi || shown == "\u{fffd}", "{code:x}");
        }
        let expected = "\u{1b}[1mbold\u{1b}[0m ␛[2J␛]0;x␇\u{fffd}31m␍\n";
        assert_eq!(harmless("\u{1b}[1mbold\u{1b}[0m \u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\r\n"), expected);
        assert_eq!(shown_line("t;\u{1b}[31mf\u{1b}[0m\t\u{7} 1\r"), "t;␛[31mf␛[0m\t␇ 1␍\n");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}[2J \u{202e} \u{7f} \u{e0001} ä\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = harmless_json(&text);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
        assert!(!shown.contains('\u{202e}'), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, value);
    }
}
