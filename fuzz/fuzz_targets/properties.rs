//! See `wire::amqp091::fuzzing::properties`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::amqp091::fuzzing::properties(data));
