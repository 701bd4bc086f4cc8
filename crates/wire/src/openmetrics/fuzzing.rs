//! The entry of the fuzz target, which tests replay.

use super::{PageEvent, PageFormat, Parser};

/// Any bytes are a page: the first chooses the format, the second the length of pieces. Read in pieces and read at once
/// it says the same.
///
/// # Panics
/// Where it does not.
pub fn page(data: &[u8]) {
    let &[flags, length, ref page @ ..] = data else { return };
    let format = if flags & 1 == 0 { PageFormat::Prometheus } else { PageFormat::OpenMetrics };
    let at_once = told(format, page, page.len().max(1));
    let in_pieces = told(format, page, usize::from(length).max(1));
    assert_eq!(at_once, in_pieces);
}

/// All events of a page that arrives in pieces of this length, as text.
fn told(format: PageFormat, page: &[u8], length: usize) -> Vec<String> {
    let mut events = Vec::new();
    let mut parser = Parser::new(format);
    let mut on = |event: PageEvent<'_>| {
        if let PageEvent::Sample(sample) = &event {
            events.extend(sample.labels.iter().map(|label| label.value().into_owned()));
        }
        events.push(format!("{event:?}"));
    };
    for piece in page.chunks(length) {
        parser.feed(piece, &mut on);
    }
    parser.finish(&mut on);
    events.push(format!("{:?}", parser.totals()));
    events
}
