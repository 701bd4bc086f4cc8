//! Warnings on the console: the consequence of each for the numbers.

use archive::{StallWait, Stalled, Stood};

use super::*;
use crate::tests::fixtures::{requirement, stalled};

fn warned_of(tiers: [Tier; 3]) -> RunSummary {
    let mut run = run_summary(3);
    for (warning, tier) in run.warnings.iter_mut().zip(tiers) {
        warning.tier = tier;
    }
    run
}

#[test]
fn the_tiers_of_warnings_are_told_apart_by_words_and_colours() {
    let mut run = warned_of([Tier::Invalid, Tier::Caution, Tier::Note]);
    let text = warnings(&run.warnings, Style::PLAIN);
    let labels = text.lines().map(|line| line.split(' ').next().unwrap());
    assert_eq!(labels.collect::<Vec<_>>(), ["invalid:", "caution:", "note:"]);
    let colour = Style { colour: true, ..terminal(60) };
    let text = warnings(&run.warnings, colour);
    for label in ["\u{1b}[1;31minvalid: ", "\u{1b}[33mcaution: ", "\u{1b}[2mnote: "] {
        assert_eq!(text.matches(label).count(), 1, "{text}");
    }
    let that = "end-to-end p99 > 20ms, and something else that is long to say";
    run.requirements = [Some(true), Some(false), None].map(|met| requirement(that, met, Some(3_231_000.0))).into();
    let text = summary(&shape(), &record(RunState::Complete, None), &run, None, terminal(60));
    assert_fits(&text, 60, usize::MAX);
    assert_has(flowing(&text), ["met ", "MISSED ", "unknown ", "something else that is long"]);
}

#[test]
fn what_puts_figures_in_doubt_stands_above_them() {
    let run = warned_of([Tier::Note, Tier::Caution, Tier::Invalid]);
    let text = summary(&shape(), &record(RunState::Complete, None), &run, Some("runs/x"), Style::PLAIN);
    let order =
        ["stream-publish: ", "\ninvalid: 2:", "\ncaution: 1:", "CPU µs/msg", "251 ms", "\nnote: 0:", "\nreport: "];
    let places = order.map(|part| text.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
    assert_eq!(text.matches("use a machine").count(), 3, "{text}");
}

#[test]
fn stalls_are_listed_by_length_unless_warnings_tell_them_all() {
    let stall = |at_s, for_s| archive::Stall { at_s, for_s, ..archive::Stall::default() };
    let mut run = run_summary(1);
    run.stalls = vec![stall(14.25, 0.75), stall(19.5, 0.5), stall(2.0, 1.0)];
    let told = |run: &RunSummary| {
        let record = record(RunState::Complete, None);
        summary(&shape(), &record, run, None, Style::PLAIN)
    };
    // The last one lies before the measured phase, which the verdict and the warnings are about.
    assert_eq!(told(&run).matches("\nstall: ").count(), 2);
    let tells = |at_s, for_s| {
        let stood = Stood { times: 1, at_s, for_s, ..Stood::default() };
        Warning::new(Tier::Note, stalled(Stalled::Broker, stood, StallWait::None, None, "messages"))
    };
    run.warnings[0] = tells(14.25, 0.75);
    // A list without the longest would be taken for a list of the longest.
    let text = told(&run);
    assert_eq!(text.matches("\nstall: ").count(), 2, "{text}");
    run.stalls.remove(1);
    assert!(!told(&run).contains("stall: "), "{}", told(&run));
    let all = [(11.0, 0.3), (12.0, 0.2), (13.0, 0.9), (15.0, 0.4), (17.0, 0.1)];
    run.stalls = all.map(|(at_s, for_s)| stall(at_s, for_s)).into();
    run.warnings[0] = tells(13.0, 0.9);
    let text = told(&run);
    let longest = [" at 11.0 s for 300 ms", " at 13.0 s for 900 ms", " at 15.0 s for 400 ms"];
    let places = longest.map(|it| text.find(&format!("\nstall: the broker stopped answering{it}")));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert_has(text, ["\nand 2 shorter stalls\n"]);
    run.stalls = [11.0, 12.0, 13.0, 15.0].map(|at_s| stall(at_s, 0.5)).into();
    assert_has(told(&run), ["\nand 1 shorter stall\n"]);
}
