//! The reader of `profile::PERF_DATA`: any bytes are a profile or an error.
#![no_main]

use archive::profile::Input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let reader = profile::PERF_DATA.read.expect("a reader");
    let input = &mut Input {
        bytes: &mut &*data,
        packed: None,
        file: None,
    };
    if let Ok(Ok(profile)) = (reader.read)(input) {
        assert!(profile.is_consistent());
    }
});
