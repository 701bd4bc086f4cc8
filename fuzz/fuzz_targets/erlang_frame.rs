//! An Erlang node's bytes: a frame, and a term by itself. Whatever is decoded can be shown and encoded again, and its
//! memory was counted before.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = erlang::Frame::read(data);
    if let Ok(term) = erlang::term::decode(data) {
        let size = erlang::term::check(data).expect("what is decoded was checked");
        assert!(size.bytes == data.len() && size.memory <= 256 << 20);
        let _ = erlang::term::show(&term, 1000);
        let _ = erlang::term::encode(&term, &mut Vec::new());
    }
});
