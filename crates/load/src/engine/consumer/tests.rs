use super::*;
use crate::Bodies;
use plan::payload::FULL_LEN;

#[test]
fn damage_behind_the_header_is_seen_whatever_is_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), b"first").unwrap();
    std::fs::write(folder.path().join("b"), b"second").unwrap();
    let bodies = Arc::new(Bodies::read(&[folder.path()]).unwrap());
    let known = Known {
        groups: vec![(3..5, Arc::clone(&bodies))],
    };
    let judged = |producer: u32, sequence: u64, body: &[u8]| {
        let mut trace_header = [0; FULL_LEN];
        let (from, to) = (Time(5), Time(6));
        payload::write_front(
            &mut trace_header,
            body.len(),
            7,
            producer,
            sequence,
            from,
            to,
        );
        let header = payload::read_trace_header(&trace_header, body.len(), Time(9)).unwrap();
        known.is_whole(&header, body)
    };
    assert!(judged(3, 0, b"first") && judged(4, 7, b"second"));
    assert!(!judged(3, 1, b"first"), "another message's body");
    assert!(!judged(3, 0, b"firsT"));
    assert!(judged(2, 0, &[0; 40]), "filler behind a header");
    let mut text = [0; 40];
    text[33] = b'x';
    assert!(!judged(5, 0, &text), "should be filler");
}
