//! See `fleet::fuzzing::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleet::fuzzing::message(data));
