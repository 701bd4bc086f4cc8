//! Visible symbols for characters that are invisible or reorder text.

use std::fmt::Write as _;

/// Adds a character as a page shows it: control characters as symbols, hiding or reordering ones as numbers.
pub(crate) fn push(out: &mut String, c: char) {
    match c {
        '\0'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
        '\u{7f}' => out.push('\u{2421}'),
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => {
            let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c));
        }
        other => out.push(other),
    }
}

/// A text as a page shows it.
pub(crate) fn visible(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        push(&mut out, c);
        out
    })
}
