//! One clear line for what went wrong, and one for what to do.

use super::text::{Style, sanitise};

/// `error: …`, where there is one `help: …` below it, and below that the lines of a log that
/// explains it; ends in a newline. The text may come from a network and is made harmless.
#[must_use]
pub fn error(message: &str, help: Option<&str>, log: &str, style: Style) -> String {
    let line = |label: String, text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{label} {}\n", sanitise(&text))
    };
    let mut out = line(style.alarm("error:"), message);
    if let Some(help) = help {
        out.push_str(&line(style.strong("help:"), help));
    }
    for entry in log.lines() {
        out.push_str(&format!("  {}\n", sanitise(entry.trim_end())));
    }
    out
}
