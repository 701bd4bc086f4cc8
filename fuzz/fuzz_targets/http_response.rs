//! See `wire::http1::fuzzing::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::http1::fuzzing::response(data));
