//! Numbers of things, words of a shell and names within addresses, as text.

/// A whole number with separators between thousands: `3,288,000`.
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
pub fn counted(number: u64, what: &str) -> String {
    let plural = match what {
        _ if number == 1 => "",
        what if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", count(number))
}

/// A word as a shell reads it back.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text with `%XX` in place of every byte but letters, digits and `-._~` (the unreserved ones of RFC 3986).
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The bytes that such a text stands for; `None` where two hexadecimal digits do not follow a `%`.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            other => other,
        });
    }
    Some(out)
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

    #[test]
    fn every_name_is_read_as_it_was_written() {
        let name = "a/b c%é\u{0}~._-Z9";
        let written = percent_encoded(name);
        assert_eq!(written, "a%2Fb%20c%25%C3%A9%00~._-Z9");
        assert_eq!(percent_decoded(&written).as_deref(), Some(name.as_bytes()));
        for broken in ["%", "%4", "%zz", "a%4é"] {
            assert_eq!(percent_decoded(broken), None, "{broken}");
        }
    }
}
