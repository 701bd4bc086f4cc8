//! Names within addresses: `%XX` stands for each byte that would mean something else there.

/// The text with `%XX` in place of every byte but letters, digits and `-._~` (the unreserved ones of RFC 3986).
#[must_use]
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
#[must_use]
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
