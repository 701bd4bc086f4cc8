//! One clear line for what went wrong, and one for what to do.

use super::text::{Style, sanitise};

/// `error: …` and, where there is one, `help: …` below it, ending in a newline. The text may come
/// from a network and is made harmless.
#[must_use]
pub fn error(message: &str, help: Option<&str>, style: Style) -> String {
    let line = |label: String, text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{label} {}\n", sanitise(&text))
    };
    let mut out = line(style.alarm("error:"), message);
    if let Some(help) = help {
        out.push_str(&line(style.strong("help:"), help));
    }
    out
}
