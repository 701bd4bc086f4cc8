//! See `wire::openmetrics::fuzzing::page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::openmetrics::fuzzing::page(data));
