//! One clear line for the error, and one for the remedy.

use measure::Problem;
use serde_json::json;

use super::text::{Style, prose, sanitise};

/// `error: …`, `help: …` below it, and below that the lines of a log that explains it; ends in a
/// newline. The text may come from a network and is made harmless.
#[must_use]
pub fn error(problem: &Problem, style: Style) -> String {
    let line = |label: String, text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        prose(&format!("{label} {}", sanitise(&text)), style)
    };
    let mut out = line(style.alarm("error:"), &problem.to_string());
    if !problem.help.is_empty() {
        out.push_str(&line(style.strong("help:"), &problem.help));
    }
    for entry in problem.log.lines() {
        out.push_str(&prose(&format!("  {}", sanitise(entry.trim_end())), style));
    }
    out
}

/// JSON of an error: `{"error": {"cause", "value", "help"}}`.
#[must_use]
pub fn error_as_json(problem: &Problem) -> serde_json::Value {
    json!({ "error": problem })
}
