//! The reader of `pprof` in `archive::profile::FORMATS`: any bytes are a profile or an error.
#![no_main]

use archive::profile::{FORMATS, Input};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let format = FORMATS.iter().find(|format| format.name == "pprof");
    let reader = format
        .and_then(|format| format.read.as_ref())
        .expect("a reader");
    let input = &mut Input {
        bytes: &mut &*data,
        packed: None,
        file: None,
    };
    if let Ok(Ok(profile)) = (reader.read)(input) {
        assert!(profile.is_consistent());
    }
});
