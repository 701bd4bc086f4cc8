//! Messages about runs that do not count, runs that are left, and the end.

use archive::{Comparison, Decision, PairedRun, PairedRuns, RunRecord, RunSummary};

use super::*;

fn run(pair: u32, side: ComparedSideName) -> PairedRun {
    PairedRun { pair, side, id: format!("run-{pair}-{}", side.tag()), spoiled: None, own: false, disturbed: false }
}

/// A run that does not count, because of its own side or the other.
fn spoiled(pair: u32, side: ComparedSideName, own: bool) -> PairedRun {
    PairedRun { spoiled: Some("failed".to_owned()), own, ..run(pair, side) }
}

#[test]
fn runs_are_left_until_every_pair_is_made_that_counts_or_is_evidence() {
    use ComparedSideName::{A, B};
    let left = |runs: Vec<PairedRun>| runs_left(&PairedRuns { pairs: 3, runs, ..PairedRuns::default() });
    assert_eq!(left(vec![]), 6);
    assert_eq!(left(vec![run(0, A), run(0, B)]), 4);
    // Evidence is made once, and its partner is made, too.
    assert_eq!(left(vec![spoiled(0, B, true)]), 5);
    assert_eq!(left(vec![run(0, A), spoiled(0, B, true), run(1, B)]), 3);
    // What neither side caused is made anew, without the other run of its pair.
    assert_eq!(left(vec![run(0, A), spoiled(0, B, false)]), 6);
    assert_eq!(left(vec![spoiled(0, A, false), run(1, A)]), 5);
    assert_eq!(left(vec![spoiled(0, A, true), spoiled(0, B, false)]), 6);
    let all = |own| (0..3).flat_map(move |pair| [run(pair, A), spoiled(pair, B, own)]);
    assert_eq!(left(all(true).collect()), 0);
    // Of three pairs one is made anew.
    assert_eq!(left(all(false).collect()), 2);
}

/// The message about the last of these runs, of four requested pairs.
fn told(runs: &[&PairedRun]) -> Option<String> {
    let of = PairedRuns { pairs: 4, runs: runs.iter().copied().cloned().collect(), ..PairedRuns::default() };
    what_becomes(&of, paired::anew(true, false))
}

#[test]
fn what_becomes_of_a_pair_is_said_once() {
    use ComparedSideName::{A, B};
    let says = |runs: &[&PairedRun]| told(runs).expect("a line");
    let own = spoiled(2, B, true);
    let expected = "does not count: failed; this is a result of B, and the pair is not replaced";
    assert_eq!(says(&[&run(2, A), &own]), expected);
    let anew = "another pair takes its place";
    let other = spoiled(2, B, false);
    assert!(says(&[&other]).ends_with(anew));
    let disturbed = PairedRun { disturbed: true, ..run(2, A) };
    assert_eq!(says(&[&disturbed]), format!("was disturbed by other programs; {anew}, if quieter"));
    // That a side spoiled its run is said whatever hit the pair, and what becomes of the pair is true of both.
    assert_eq!(says(&[&disturbed, &own]), format!("does not count: failed; that is a result of B; {anew}"));
    let both = PairedRun { disturbed: true, ..own.clone() };
    assert!(says(&[&own, &disturbed]).ends_with(anew) && says(&[&both]).ends_with(anew));
    assert_eq!([told(&[&disturbed, &disturbed]), told(&[&own, &run(2, A)])], [None, None]);
    // It may be decided without it.
    let of = PairedRuns { pairs: 4, runs: vec![disturbed.clone()], ..PairedRuns::default() };
    let told = what_becomes(&of, paired::anew(true, true)).expect("a line");
    assert!(told.ends_with(&format!("{anew} unless all is decided before, if quieter")), "{told}");
    // There is no room for a third.
    let (zeroth, first) = (spoiled(0, A, false), spoiled(1, B, false));
    let most = "no further pair is made (at most 2 of 4 are replaced): the least disturbed pairs count";
    assert!(says(&[&zeroth, &first, &disturbed]).ends_with(most));
    let next = spoiled(3, B, false);
    assert!(says(&[&zeroth, &first, &disturbed, &next]).ends_with("; the pair is left out; 3 pairs remain"));
}

/// Whatever hits the runs, the number left is the number made when nothing else goes wrong, and another pair is made
/// exactly where that was announced.
#[test]
fn what_is_left_and_said_is_what_is_made() {
    let next_run = |of: &PairedRuns| next_run_of(&[of], of.seed).map(|it| it.1);
    let hits = [(true, true, false), (true, true, true), (true, false, false), (false, false, true)];
    for seed in 0..3_000_u64 {
        let mut of = PairedRuns { pairs: 1 + seed as u32 % 5, seed, ..PairedRuns::default() };
        let mut kinds = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut said = 0;
        while let Some(next) = next_run(&of) {
            let (spoiled, own, disturbed) = hits.get((kinds >> 32) as usize % 8).copied().unwrap_or_default();
            kinds = kinds.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            of.runs.push(PairedRun {
                spoiled: spoiled.then(|| "failed".to_owned()),
                own,
                disturbed,
                ..run(next.pair, next.side)
            });
            let is_first = of.runs.iter().filter(|it| it.pair == next.pair && it.is_hit());
            let is_first = is_first.count() == 1 && of.runs.last().is_some_and(PairedRun::is_hit);
            let told = what_becomes(&of, paired::anew(true, false)).unwrap_or_default();
            said += u32::from(is_first && told.contains("another pair takes its place"));
            let mut clean = of.clone();
            while let Some(next) = next_run(&clean) {
                clean.runs.push(run(next.pair, next.side));
            }
            assert_eq!(runs_left(&of), clean.runs.len() - of.runs.len(), "{of:#?}");
        }
        assert_eq!(of.runs.iter().map(|it| it.pair + 1).max(), Some(of.pairs + said), "{of:#?}");
    }
}

#[test]
fn strict_asks_for_every_pair() {
    let of = |decision| {
        let figure = archive::ComparedFigure { decision, change: 0.5, ..archive::ComparedFigure::default() };
        let compared = Comparison { figures: vec![figure], ..Comparison::default() };
        ComparedMatrix::of_one("x", compared)
    };
    for is_strict in [false, true] {
        let ends = [Decision::Same, Decision::Changed, Decision::Undecided].map(|it| done(&of(it), is_strict, true));
        assert_eq!(ends, [Done::Fine, Done::Missed, Done::Unknown]);
    }
    let ends = [true, false].map(|is_strict| done(&of(Decision::Same), is_strict, false));
    assert_eq!(ends, [Done::Invalid, Done::Fine]);
}

/// A run that broke off under load is kept as evidence, also where the command was killed before it was noted.
#[test]
fn runs_that_broke_off_are_not_made_again_and_those_that_were_stopped_are() {
    let of = |state, summary: Option<RunSummary>| RunRecord { state, summary, ..RunRecord::default() };
    let summary = || Some(RunSummary::default());
    for (state, summary, ended) in [
        (RunState::Complete, summary(), true),
        (RunState::Failed, summary(), true),
        (RunState::Failed, None, false),
        (RunState::Interrupted, summary(), false),
        (RunState::Running, None, false),
    ] {
        assert_eq!(has_ended(&of(state, summary)), ended, "{state:?}");
    }
    for (by, own) in [(archive::FailedBy::Side, true), (archive::FailedBy::Generator, false)] {
        let lost = RunRecord { failed_by: Some(by), ..of(RunState::Failed, summary()) };
        let run = paired_run(NextRun { pair: 1, side: ComparedSideName::B }, &lost);
        assert_eq!((run.own, run.spoiled.is_some_and(|it| it.starts_with("failed"))), (own, true), "{by:?}");
    }
}
