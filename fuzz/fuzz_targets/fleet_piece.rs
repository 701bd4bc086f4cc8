//! See `fleet::fuzzing::piece`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleet::fuzzing::piece(data));
