//! `archive::LatencyLog`: any bytes are a histogram log or a refusal, and a log contradicts itself nowhere.
#![no_main]

use archive::LatencyLog;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(log) = LatencyLog::parse("log", &mut &*data, None) {
        for tag in &log.tags {
            let counted: u64 = tag.values.iter().map(|it| it.1).sum();
            assert_eq!(counted, tag.count);
            assert!(tag.values.is_sorted_by(|a, b| a.0 <= b.0));
            assert!(tag.percentiles.is_sorted());
        }
    }
});
