//! Verdict and reasons, as far as there is room.

use archive::{LimitedBy, Reason, Verdict};

use super::*;

fn reason(code: &str, text: &str, decided: bool) -> Reason {
    Reason { code: code.into(), text: text.into(), decided }
}

fn judged(warnings: usize) -> RunSummary {
    RunSummary {
        verdict: Some(Verdict {
            limited_by: LimitedBy::Broker,
            sentence: "limited by the broker: it did not read".into(),
            reasons: vec![
                reason("socket_full", "producers were held up by full sockets 93 % of the time", true),
                reason(
                    "broker_cpu",
                    "the broker used 1.90 cores\u{1b}[2J, its busiest thread (2_scheduler) 97 % of one",
                    true,
                ),
                reason("loop_busy", "the event loop was busy 21 % of the time", true),
                reason("ready", "a fourth that decided", true),
                reason("capacity", "a circumstance", false),
            ],
            ..Verdict::default()
        }),
        ..run_summary(warnings)
    }
}

#[test]
fn what_decided_follows_the_sentence() {
    let record = record(RunState::Complete, None);
    for style in [terminal(60), terminal(80), Style::PLAIN] {
        let text = summary(&shape(), &record, &judged(12), Some("x"), style);
        assert_fits(&text, style.columns, usize::MAX);
        assert_has(&text, ["\nverdict: limited by the broker", "\n  - producers were held up by full sockets 93 %"]);
        assert_lacks(&text, ["circumstance", "a fourth", "\u{1b}"]);
        assert_eq!(text.matches("\n  - ").count(), 3, "{text}");
    }
}
