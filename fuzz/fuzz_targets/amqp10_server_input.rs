//! See `wire::amqp10::fuzzing::server_input`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::amqp10::fuzzing::server_input(data));
