//! Outcome of every message, in a line where all is well.

use measure::ledger::LedgerSummary;

use super::*;

#[test]
fn the_ledger_is_one_line_where_all_is_well() {
    let mut run = run_summary(0);
    let clean = LedgerSummary { sent: 1_234_567, delivered: 1_234_567, exact: true, ..LedgerSummary::default() };
    run.flow_mut().ledger = Some(clean);
    for style in [TERMINAL, Style::PLAIN] {
        let text = summary(&shape(), &record(RunState::Complete, None), &run, None, style);
        assert_has(&text, ["ledger: 0 lost, 0 duplicated, 0 redelivered, 0 reordered, 0 corrupt\n"]);
        assert_lacks(text, ["unconfirmed"]);
    }
    run.flow_mut().ledger = Some(LedgerSummary {
        lost: 1_234,
        outstanding: 6,
        returned: 9,
        unconfirmed_missing: 5,
        foreign: 7,
        exact: false,
        ..clean
    });
    let text = summary(&shape(), &record(RunState::Complete, None), &run, None, TERMINAL);
    assert_fits(&text, 80, usize::MAX);
    let [lost, open] = ["about 1,234 lost", "6 outstanding (confirmed and not delivered;"];
    assert_has(text.replace('\n', " "), [lost, open, "9 returned as unroutable, 5 unconfirmed and missing"]);
}
