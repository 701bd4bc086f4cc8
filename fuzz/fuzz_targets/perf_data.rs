//! The reader of `profile::PERF_DATA`: any bytes are a profile or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| reader::read(&profile::PERF_DATA, data));
