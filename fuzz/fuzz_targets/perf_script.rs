//! The reader of `perf-script` in `stacks::FORMATS`: any bytes are a profile or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| reader::read_named("perf-script", data));
