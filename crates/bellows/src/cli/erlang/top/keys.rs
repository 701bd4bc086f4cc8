//! The line that names the keys of the live view.

use std::time::Duration;

use report::console::{fit, width, wrap};

/// A key, and its action in a few words, and in one. The first rows are the last to be omitted.
type KeyText = (&'static str, String, String);

/// As much of the line as fits: in few words where the terminal is narrow, then without the keys that need a reminder
/// least; `?` shows those.
pub(super) fn line(window: Duration, columns: usize) -> String {
    let keys = keys(window);
    let long = format!(
        "keys: {}",
        joined(keys.iter().map(|(key, what, _)| (*key, what)))
    );
    if width(&long) <= columns {
        return long;
    }
    for left in (1..=keys.len()).rev() {
        let more = ("?", &"more".to_owned());
        let shown = keys.iter().take(left).map(|(key, _, what)| (*key, what));
        let text = match left == keys.len() {
            true => joined(shown),
            false => joined(shown.chain([more])),
        };
        if width(&text) <= columns {
            return text;
        }
    }
    fit("? keys", columns).into_owned()
}

/// All keys, on as many lines as they need.
pub(super) fn all(window: Duration, columns: usize) -> Vec<String> {
    let keys = keys(window);
    let mut keys: Vec<String> = keys
        .iter()
        .map(|(key, what, _)| format!("{key} {what}"))
        .collect();
    keys.push("? fewer".to_owned());
    wrap(&format!("keys: {}", keys.join(", ")), columns)
}

fn joined<'a>(keys: impl Iterator<Item = (&'a str, &'a String)>) -> String {
    let keys: Vec<String> = keys.map(|(key, what)| format!("{key} {what}")).collect();
    keys.join("  ")
}

fn keys(window: Duration) -> [KeyText; 7] {
    let seconds = format!("{:.1} s", window.as_secs_f64());
    let key = |key, long: &str, short: &str| (key, long.to_owned(), short.to_owned());
    [
        key("q", "end", "end"),
        key("r", "reductions", "reductions"),
        key("m", "memory", "memory"),
        key("l", "message queue", "messages"),
        key("b", "binaries", "binaries"),
        key("p", "pause", "pause"),
        key("+/-", &format!("window ({seconds})"), &seconds),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let two = Duration::from_secs(2);
        let at = |columns| line(two, columns);
        assert!(at(120).starts_with("keys: q end  r reductions"));
        assert!(at(120).ends_with("+/- window (2.0 s)"));
        assert!(at(80).ends_with("p pause  +/- 2.0 s"), "{}", at(80));
        assert_eq!(at(40), "q end  r reductions  m memory  ? more");
        for columns in 6..200 {
            let text = at(columns);
            assert!(width(&text) <= columns && !text.contains('…'), "{text}");
            let all = all(two, columns).join(" ");
            assert!(columns < 20 || all.contains("? fewer"), "{all}");
        }
    }
}
