//! Faults of the embedded broker, from how they are written to how they are played, and back.

use std::fmt::Write;

use broker::{Amount, Fault, FaultKind, Injected, Injections, Who};
use measure::Nanos;
use session::brokers::{PlayedFault, PlayedFaults};
use session::experiment::{FaultKind as Kind, FaultSpec, FaultWho};

/// What a checked entry means; every default is stated here.
pub(super) fn fault(spec: &FaultSpec) -> Fault {
    Fault {
        kind: kind(spec),
        at: spec.at.map(|at| at.0),
        length: spec.length.map(|length| length.0),
        amount: match (spec.every, spec.probability) {
            (Some(n), _) => Amount::Every(n),
            (None, Some(probability)) => Amount::Chance {
                probability,
                seed: spec.seed.unwrap_or(1),
            },
            (None, None) => Amount::All,
        },
        count: spec.count,
        who: match spec.who {
            None | Some(FaultWho::All) => Who::All,
            Some(FaultWho::Producers) => Who::Producers,
            Some(FaultWho::Consumers) => Who::Consumers,
        },
    }
}

fn kind(spec: &FaultSpec) -> FaultKind {
    match spec.kind {
        // The first two were refused when the script was read.
        Kind::Stop | Kind::Kill | Kind::Stall => FaultKind::Stall,
        Kind::SlowAck => FaultKind::SlowAck(spec.delay.map_or(Nanos::ZERO, |delay| delay.0)),
        Kind::Drop => FaultKind::Drop {
            in_order: spec.close.unwrap_or(true),
        },
        Kind::Reset => FaultKind::Reset,
        Kind::Lose => FaultKind::Lose,
        Kind::Duplicate => FaultKind::Duplicate {
            redelivered: spec.redelivered.unwrap_or(false),
        },
        Kind::Reorder => FaultKind::Reorder {
            by: spec.by.unwrap_or(1),
        },
        Kind::Corrupt => FaultKind::Corrupt { byte: spec.byte },
        Kind::Nack => FaultKind::Nack,
        Kind::CloseChannel => FaultKind::CloseChannel,
        Kind::Block => FaultKind::Block,
        Kind::Cut => FaultKind::Cut { after: spec.byte },
        Kind::RefuseLogin => FaultKind::RefuseLogin,
    }
}

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
    let _ = writeln!(
        text,
        "{published} messages taken, {again} delivered again with the redelivered flag"
    );
    text
}
