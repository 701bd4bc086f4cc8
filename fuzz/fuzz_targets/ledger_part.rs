//! See `fleet::fuzzing::ledger`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleet::fuzzing::ledger(data));
