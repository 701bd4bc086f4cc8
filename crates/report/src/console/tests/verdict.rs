//! Verdict and reasons, as far as there is room.

use archive::{LimitedBy, Reason, Verdict};

use super::*;

#[test]
fn what_decided_follows_the_sentence() {
    let busiest = "the broker used 1.90 cores\u{1b}[2J, its busiest thread (2_scheduler) 97 % of one";
    let reasons = [
        ("requested", "54,800 of 54,800 msg/s were sent, as the verdict says, too", true),
        ("socket_full", "producers were held up by full sockets 93 % of the time", true),
        ("broker_cpu", busiest, true),
        ("loop_busy", "the event loop was busy 21 % of the time", true),
        ("ready", "a fourth that decided", true),
        ("capacity", "a circumstance", false),
    ];
    let reasons = reasons.map(|(code, text, decided)| Reason { code: code.into(), text: text.into(), decided }).into();
    let sentence = "limited by the broker: it did not read for 93 % of the time in which something was due".into();
    let verdict = Verdict { limited_by: LimitedBy::Broker, sentence, reasons, ..Verdict::default() };
    let judged = RunSummary { verdict: Some(verdict), ..run_summary(12) };
    let record = record(RunState::Complete, None);
    for style in [terminal(60), terminal(80), Style::PLAIN] {
        let text = summary(&shape(), &record, &judged, Some("x"), style);
        assert_fits(&text, style.columns, usize::MAX);
        assert_has(&text, ["\nverdict: limited by the broker", "\n  - producers were held up by full sockets 93 %"]);
        assert_lacks(&text, ["circumstance", "a fourth", "\u{1b}", "as the verdict says"]);
        assert_eq!(text.matches("\n  - ").count(), 3, "{text}");
        // Below the figures of other tools it was one line, however long.
        let text = remarks(&judged, style);
        assert_fits(&text, style.columns, usize::MAX);
        assert_has(&text, ["\nverdict: limited by the broker"]);
    }
}
