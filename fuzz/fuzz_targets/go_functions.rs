//! The reader of Go's table of functions: any bytes name functions, or none. The first eight bytes are the offset that
//! is looked up, and the length of the table; the trees of inlined calls follow it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((numbers, rest)) = data.split_first_chunk::<8>() else {
        return;
    };
    let [a, b, c, d, e, f, g, h] = *numbers;
    let offset = u32::from_le_bytes([a, b, c, d]);
    let length = u32::from_le_bytes([e, f, g, h]) as usize;
    let (table, trees) = rest.split_at(length.min(rest.len()));
    profile::go_functions(table, trees, offset);
});
