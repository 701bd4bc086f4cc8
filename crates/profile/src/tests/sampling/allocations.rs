//! Allocations: calls and bytes of each function are known by what the child was told to do.

use crate::Outcome;
use crate::tests::sampling::child::Process;
use crate::tests::sampling::child::memory::ALLOCATE;
use crate::tests::sampling::events::{weight_of, while_doing};
use crate::tests::sampling::refused;
use measure::Clock;
use stacks::Profile;

const TIMES: u64 = 30_000;

/// Whether a weight is what was done, as far as samples of which each stands for so much can tell.
pub(crate) fn assert_sampled(what: &str, profile: &Profile, name: &str, wanted: u64, one_in: f64) {
    let (weight, wanted) = (weight_of(profile, name) as f64, wanted as f64);
    // A sample more for each call is chance alone; four standard deviations.
    let error = 4.0 * (one_in / wanted).sqrt();
    assert!((weight / wanted - 1.0).abs() < error, "{what} by {name}: {weight} of {wanted}, +-{error:.2}");
}

/// Nothing is lost, the allocator's functions are at the leaf, and the stacks end where the thread began.
pub(crate) fn assert_is_whole((profile, outcome): &(Profile, Outcome), unit: &str) {
    assert_eq!((outcome.lost, &outcome.notes), (0, &Vec::new()));
    assert_eq!(profile.header.unit, unit);
    let complete = profile.summary(5).complete_share;
    assert!(complete > 0.95, "{complete}");
}

#[test]
fn allocations_are_counted_by_calls_and_by_bytes() {
    testkit::skip_for!(refused());
    let mut child = Process::start("tasks");
    let events = ["malloc", "malloc-bytes", "free"];
    let [calls, bytes, frees] = while_doing(child.pid(), events, || child.tell(&format!("allocate {TIMES}"), "did"));
    for (profiled, unit) in [(&calls, "calls"), (&bytes, "bytes"), (&frees, "calls")] {
        assert_is_whole(profiled, unit);
    }
    for (name, each, size) in ALLOCATE {
        assert_sampled("calls", &calls.0, name, each * TIMES, 256.0);
        assert_sampled("bytes", &bytes.0, name, size * TIMES, 131_072.0);
        assert_sampled("frees", &frees.0, name, TIMES, 256.0);
    }
}

/// Cost of an event: run by hand (`--ignored --nocapture`), for the table in docs/stacks.md.
#[test]
#[ignore = "prints what a call costs while it is counted"]
fn what_a_counted_allocation_costs() {
    let mut child = Process::start("tasks");
    let pid = child.pid();
    let mut took = |line: &str| {
        let from = Clock.now();
        child.tell(line, "did");
        Clock.now().since(from).0
    };
    let line = format!("allocate {TIMES}");
    let plain = took(&line);
    for (event, calls) in [("malloc", 6), ("malloc-bytes", 6), ("free", 4), ("malloc-held", 10)] {
        let mut counted = 0;
        let _ = while_doing(pid, [event], || counted = took(&line));
        let each = counted.saturating_sub(plain) / (calls * TIMES);
        println!("{event}: {each} ns a call");
    }
}
