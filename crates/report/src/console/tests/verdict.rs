//! Who limited the run, and why: as much of it as there is room for.

use archive::{LimitedBy, Reason, Verdict};

use super::*;

fn reason(code: &str, text: &str, decided: bool) -> Reason {
    Reason {
        code: code.into(),
        text: text.into(),
        decided,
    }
}

fn judged(warnings: usize) -> RunSummary {
    RunSummary {
        verdict: Some(Verdict {
            limited_by: LimitedBy::Broker,
            sentence: "limited by the broker: it did not read".into(),
            reasons: vec![
                reason(
                    "socket_full",
                    "for 93 % of the producers' time the sockets took no more bytes",
                    true,
                ),
                reason(
                    "broker_cpu",
                    "the broker used 1.90 cores\u{1b}[2J, its busiest thread (2_scheduler) 97 % of one",
                    true,
                ),
                reason(
                    "loop_busy",
                    "the event loop was at work for 21 % of the time",
                    true,
                ),
                reason("ready", "a fourth that decided", true),
                reason("capacity", "a circumstance", false),
            ],
            ..Verdict::default()
        }),
        ..run_summary(warnings)
    }
}

#[test]
fn what_decided_follows_the_sentence_where_there_is_room() {
    let record = record(RunState::Complete, None);
    for (rows, warnings) in [(24, 0), (24, 12), (50, 1)] {
        let style = Style { rows, ..TERMINAL };
        let text = summary(&shape(), &record, &judged(warnings), Some("x"), style);
        assert_fits(&text, 80, rows - 1);
        assert!(text.contains("verdict: limited by the broker"), "{text}");
        assert!(!text.contains("circumstance") && !text.contains("a fourth"));
        let reasons = text.matches("\n  - ").count();
        let least = match (rows, warnings) {
            (50, _) => 3,
            (_, 0) => 2,
            _ => 0,
        };
        assert!(reasons >= least, "{reasons} reasons: {text}");
        assert!(text.contains("24,012 samples"), "{text}");
    }
}

#[test]
fn a_pipe_gets_what_decided_in_lines_of_its_own() {
    let record = record(RunState::Complete, None);
    let text = summary(&shape(), &record, &judged(0), Some("x"), Style::PLAIN);
    let because: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("  because "))
        .collect();
    assert_eq!(because.len(), 3, "{text}");
    assert!(because[0].contains("for 93 % of the producers' time"));
    assert!(!text.contains('\u{1b}'), "{text}");
}
