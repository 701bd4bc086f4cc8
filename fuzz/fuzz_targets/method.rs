//! See `wire::amqp091::fuzzing::method`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::amqp091::fuzzing::method(data));
