//! The reader of what an Erlang node keeps of the modules that it has compiled: any bytes name functions, or none.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    profile::beam_functions(data);
});
