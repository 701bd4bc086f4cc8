//! Numbers as LEB128: short where they are small.

/// Writes a number, seven bits in each byte, the lowest first.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number of [`put_number`]; `None` where it is cut off or too large.
pub fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        number |= bits << shift;
        if *byte < 0x80 {
            // The tenth byte has room for one bit.
            return (bits << shift >> shift == bits).then_some(number);
        }
    }
    None
}

/// Reads several; `None` as [`take_number`].
pub fn take_numbers<const N: usize>(bytes: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = take_number(bytes)?;
    }
    Some(numbers)
}
