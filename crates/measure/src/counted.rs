//! How numbers of things, and words of a shell, are written.

/// A whole number with separators between thousands: `3,288,000`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of things: `1 connection`, `2,000 connections`, `1 process`, `2 processes`.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    let plural = match what {
        _ if number == 1 => "",
        what if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", count(number))
}

/// A word as a shell reads it back.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_plural() {
        for (number, what, text) in [
            (0, "loop", "0 loops"),
            (1, "loop", "1 loop"),
            (1, "process", "1 process"),
            (2, "process", "2 processes"),
            (3_288_000, "message", "3,288,000 messages"),
        ] {
            assert_eq!(counted(number, what), text);
        }
    }
}
