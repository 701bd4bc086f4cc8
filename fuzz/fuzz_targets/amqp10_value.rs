//! See `wire::amqp10::fuzzing::value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::amqp10::fuzzing::value(data));
