//! Report of the embedded broker's faults: a line for the run that started it, and text for people.

use std::fmt::Write;

use broker::{Injected, Injections};
use brokers::{PlayedFault, PlayedFaults};
use measure::Nanos;

/// For the run that started this broker.
pub(super) fn line(injections: &Injections) -> String {
    let played = |done: &Injected| PlayedFault {
        kind: done.kind.to_owned(),
        count: done.count,
        start_ns: done.span.map(|span| span.start.0),
        end_ns: done.span.and_then(|span| span.end).map(|end| end.0),
    };
    let played = PlayedFaults {
        faults: injections.faults.iter().map(played).collect(),
        published: injections.published,
        redelivered: injections.redelivered,
    };
    let json = serde_json::to_string(&played).unwrap_or_default();
    format!("{json}\n")
}

/// For people: one line for each fault, and the two counts that a ledger is compared with.
pub(super) fn printed(injections: &Injections) -> String {
    let mut text = String::new();
    for done in &injections.faults {
        let _ = write!(text, "{}: {} hit", done.kind, done.count);
        match (done.span, injections.origin) {
            (Some(span), Some(origin)) => {
                let after = span.start.since(origin).as_secs_f64();
                let _ = write!(text, ", at {after:.3} s");
                if let Some(length) = span.end.map(|end| end.since(span.start)) {
                    let _ = match length {
                        Nanos::ZERO => Ok(()),
                        length => write!(text, " for {:.3} s", length.as_secs_f64()),
                    };
                }
            }
            (Some(_), None) => text.push_str(", nobody came"),
            (None, _) => text.push_str(", its time did not come"),
        }
        text.push('\n');
    }
    let (published, again) = (injections.published, injections.redelivered);
    let taken = measure::counted(published, "message");
    let _ = writeln!(text, "{taken} taken, {again} redelivered");
    text
}
