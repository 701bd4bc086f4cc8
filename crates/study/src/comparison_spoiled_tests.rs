//! Runs that do not count: whose evidence they are, and what is shown of the other side.

use archive::{Decision, FailedBy};

use super::comparison_tests::{ALIKE, compared, numbered, run, scraping};
use super::*;
use crate::example_warnings::warn;

fn spoiled_side(runs: u32, spoiled: u32, code: WarningCode) -> Vec<RunRecord> {
    numbered(runs, |at, summary| {
        if at < spoiled {
            warn(summary, code, Tier::Invalid);
        }
    })
}

#[test]
fn a_side_whose_broker_goes_is_never_the_same() {
    let options = ComparisonOptions { margin: 0.05, ..ComparisonOptions::default() };
    let side = |gone| spoiled_side(8, gone, WarningCode::BrokerGone);
    let same = comparison(&side(0), &side(0), options).expect("comparable");
    assert!(!same.is_undecided() && same.figures.len() == 1, "{same:#?}");
    // fisher_exact([[0, 8], [3, 5]]) of SciPy is 0.2, of 6 it is 0.007; all of a side leave no other figure.
    for (gone, p, decision) in
        [(3, 0.2, Decision::Undecided), (6, 0.006_993, Decision::Changed), (8, 0.000_155_4, Decision::Changed)]
    {
        let found = comparison(&side(0), &side(gone), options).expect("comparable");
        let invalid = &found.figures[0];
        assert_eq!((invalid.name.as_str(), invalid.decision), ("invalid runs", decision));
        assert!(invalid.p.is_some_and(|it| (it - p).abs() < 1e-6), "{invalid:#?}");
        assert_eq!(invalid.is_worse(), decision == Decision::Changed);
        assert!(found.is_worse() || found.is_undecided());
        let why = &found.b.left_out[0].why;
        assert_eq!(why, "invalid: connections were lost for good");
        assert_eq!(found.b.left_out.len(), gone as usize);
        assert!(!comparison(&side(gone), &side(0), options).expect("comparable").is_worse());
    }
    // A run that broke off is its side's, too, where it broke off through it.
    let mut failed = side(0);
    failed[2].state = RunState::Failed;
    for (by, is_evidence, why) in
        [(FailedBy::Side, true, "failed"), (FailedBy::Generator, false, "failed through the generator or its machine")]
    {
        failed[2].failed_by = Some(by);
        let found = comparison(&side(0), &failed, options).expect("comparable");
        assert_eq!(found.is_undecided(), is_evidence, "{found:#?}");
        assert_eq!(found.b.left_out[0].why, why);
    }
}

/// A broker elsewhere that refused connections, or hung, told no version: its runs are evidence against its side, not
/// runs of another broker.
#[test]
fn runs_whose_broker_never_answered_are_of_their_side() {
    for first in [false, true] {
        let mut refused = spoiled_side(8, 0, WarningCode::BrokerGone);
        let (from, to) = if first { (0, 6) } else { (2, 8) };
        for record in &mut refused[from..to] {
            record.state = RunState::Failed;
            record.failed_by = Some(FailedBy::Side);
            record.versions.broker = None;
        }
        let well = spoiled_side(8, 0, WarningCode::BrokerGone);
        let found = compared(&well, &refused);
        assert_eq!(found.figures[0].of_runs.map(|it| it.b), Some((6, 8)));
        assert!(found.is_worse(), "{found:#?}");
        assert_eq!(found.b.what, "4.0");
    }
}

#[test]
fn runs_that_were_stopped_do_not_water_down_those_that_a_side_spoiled() {
    let mut side = spoiled_side(8, 3, WarningCode::BrokerGone);
    for record in &mut side[3..] {
        (record.state, record.summary) = (RunState::Interrupted, None);
    }
    let well = spoiled_side(8, 0, WarningCode::BrokerGone);
    let found = compared(&well, &side);
    let invalid = &found.figures[0];
    let counted = invalid.of_runs.expect("counted");
    assert_eq!((counted.a, counted.b), ((0, 8), (3, 3)));
    // fisher_exact([[0, 8], [3, 0]]) of SciPy: one of 165.
    assert!(invalid.p.is_some_and(|it| (it - 1.0 / 165.0).abs() < 1e-9) && found.is_worse(), "{invalid:#?}");
}

/// The good side's measurements are shown, whether runs stand in pairs or not.
#[test]
fn a_side_that_spoils_all_of_its_runs_hides_nothing_of_the_other() {
    for paired in [false, true] {
        let options = ComparisonOptions { paired, ..ComparisonOptions::default() };
        let well = spoiled_side(8, 0, WarningCode::BrokerGone);
        let gone = spoiled_side(8, 8, WarningCode::BrokerGone);
        let found = comparison(&well, &gone, options).expect("comparable");
        assert_eq!((found.a.runs.len(), found.b.runs.len()), (8, 0));
        assert!(found.is_worse() && found.b.left_out.len() == 8);
        let [invalid, rate] = &found.figures[..] else { panic!("{:#?}", found.figures) };
        assert_eq!((invalid.a.len(), invalid.b.len()), (8, 0));
        assert_eq!(rate.name, "sent rate");
        assert!((rate.means.0 - 1_001.0).abs() < 1.0 && rate.means.1 == 0.0);
        assert!(rate.decision == Decision::Undecided && !rate.is_tested());
        let turned = comparison(&gone, &well, options).expect("comparable");
        assert_eq!((turned.a.runs.len(), turned.b.runs.len()), (0, 8));
        assert!(!turned.is_worse() && turned.figures.len() == 2);
    }
}

/// With two runs left of a side no figure can be called changed, and none takes level from what can be.
#[test]
fn what_cannot_be_proven_takes_no_level_from_what_can() {
    let side = |gone: usize| {
        let mut runs = scraping(vec![1_000; 8], 2_000, 0);
        for (at, run) in runs.iter_mut().enumerate() {
            let summary = run.summary.as_mut().expect("a summary");
            summary.flow_mut().sent.rate = 1_000.0 + at as f64;
            summary.messages_mut().cpu_us_each.broker = Some(20.0 + at as f64);
            for name in ["other", "third"] {
                let mut page = summary.scrapes[0].clone();
                page.name = name.into();
                page.response.p50_ns += at as u64;
                page.response.p99_ns += 2 * at as u64;
                summary.scrapes.push(page);
            }
            if at < gone {
                warn(summary, WarningCode::BrokerGone, Tier::Invalid);
            }
        }
        runs
    };
    for gone in [6, 7] {
        let found = compared(&side(0), &side(gone));
        assert!(found.figures.len() > 7, "{:#?}", found.figures);
        let invalid = &found.figures[0];
        assert_eq!((invalid.corrected_p, invalid.is_worse()), (invalid.p, true));
    }
    // Two of eight show nothing, however they divide, and cost the others nothing.
    let fast = ALIKE.map(|it| run("x", "4.0", 1, 1_000.0 * it));
    let slow = ALIKE.map(|it| run("x", "4.0", 1, 900.0 * it));
    let mut broken = run("x", "4.0", 1, 900.0);
    broken.state = RunState::Failed;
    broken.failed_by = Some(FailedBy::Side);
    let slow = [&slow[..], &[broken]].concat();
    let found = compared(&fast, &slow);
    let rate = &found.figures[1];
    assert!(rate.is_worse() && rate.corrected_p == rate.p, "{rate:#?}");
}

#[test]
fn a_generator_that_one_side_saturates_leaves_it_open_and_others_on_the_machine_do_not() {
    let side = |full| spoiled_side(8, full, WarningCode::GeneratorSaturated);
    let found = compared(&side(0), &side(6));
    let full = &found.figures[0];
    assert_eq!(full.name, "generator-limited runs");
    assert!(full.decision == Decision::Undecided && found.is_undecided() && !found.is_worse());
    let mut disturbed = side(6);
    for record in &mut disturbed {
        warn(record.summary.as_mut().expect("a summary"), WarningCode::CpuSteal, Tier::Caution);
    }
    let found = compared(&side(0), &disturbed);
    assert!(found.figures.iter().all(|it| it.of_runs.is_none()), "{found:#?}");
}
