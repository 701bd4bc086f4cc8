//! The integers (LEB128) that the page's columns are made of.

/// Appends a variable-length integer.
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_length() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300] {
            put(&mut bytes, value);
        }
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
    }
}
