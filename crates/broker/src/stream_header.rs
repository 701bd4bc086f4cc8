//! The header that tells a stream's consumer where it is, `x-stream-offset`, put into properties without decoding them.

/// Property flags: content-type, content-encoding, headers; in the order of their values.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;

const NAME: &[u8] = b"\x0fx-stream-offsetl";

/// Writes `properties` (flags and values) to `out` with the offset as one header more. What cannot
/// be understood is copied as it is.
pub(crate) fn with_offset(properties: &[u8], offset: u64, out: &mut Vec<u8>) {
    out.clear();
    if insert(properties, offset, out).is_none() {
        out.clear();
        out.extend_from_slice(properties);
    }
}

fn insert(properties: &[u8], offset: u64, out: &mut Vec<u8>) -> Option<()> {
    let (flags, values) = properties.split_first_chunk::<2>()?;
    let flags = u16::from_be_bytes(*flags);
    let mut before = 0;
    for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
        if flags & flag != 0 {
            before += 1 + usize::from(*values.get(before)?);
        }
    }
    let (before, rest) = values.split_at_checked(before)?;
    let (headers, rest) = if flags & HEADERS == 0 {
        (&[][..], rest)
    } else {
        let (length, rest) = rest.split_first_chunk::<4>()?;
        rest.split_at_checked(u32::from_be_bytes(*length) as usize)?
    };
    out.extend_from_slice(&(flags | HEADERS).to_be_bytes());
    out.extend_from_slice(before);
    let length = u32::try_from(headers.len() + NAME.len() + 8).ok()?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(NAME);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::{BasicProperties, FieldTable, Properties, Value};

    #[test]
    fn the_offset_joins_whatever_is_there() {
        let mut headers = FieldTable::new();
        headers.insert("colour", "red").unwrap();
        let with_headers = BasicProperties {
            content_type: Some("text/plain"),
            content_encoding: Some("gzip"),
            headers: Some(headers.view()),
            delivery_mode: Some(2),
            ..BasicProperties::default()
        };
        let without = BasicProperties { headers: None, ..with_headers };
        for properties in [with_headers, without, BasicProperties::default()] {
            let bytes = properties.to_bytes().unwrap();
            let mut out = vec![9; 3];
            with_offset(&bytes, 7_000_000_000, &mut out);
            let decoded = Properties::from_bytes(&out).decode().unwrap();
            let found = decoded.headers.expect("headers");
            assert_eq!(found.get("x-stream-offset"), Some(Value::I64(7_000_000_000)));
            let colour = found.get("colour").and_then(Value::as_str);
            assert_eq!(colour.is_some(), properties.headers.is_some());
            assert_eq!(BasicProperties { headers: properties.headers, ..decoded }, properties);
        }
    }

    #[test]
    fn what_cannot_be_understood_stays_as_it_is() {
        for broken in [&[][..], &[0x80], &[0x80, 0], &[0x80, 0, 9, 1], &[0x20, 0, 0, 0, 1, 0]] {
            let mut out = Vec::new();
            with_offset(broken, 1, &mut out);
            assert_eq!(out, broken);
        }
    }
}
