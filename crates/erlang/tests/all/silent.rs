//! A node that hangs: it is told within the time-out, nothing waits for it longer, and nothing stays behind on it.

use crate::{clean, common};

use std::thread;
use std::time::{Duration, Instant};

use common::{Beam, WORKERS, eval, follow, left_behind};
use erlang::alloc::microstates;
use erlang::calls::{CallsOptions, RootOptions};
use erlang::timing::{TimeOptions, time};
use erlang::top::{TopRequest, TopSort, top};
use erlang::trace::Trace;
use erlang::{Budget, ConnectOptions, Error, Helper, Node};

/// A silent node is told after this time.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// Far longer than any test waits.
const WINDOW: Duration = Duration::from_secs(60);
/// Allowance for a busy machine.
const BESIDE: Duration = Duration::from_secs(8);
/// When a node is stopped.
const DELAY: Duration = Duration::from_millis(700);

type DeedOf = fn(&Helper) -> Result<(), Error>;

/// Operations on the node for a window.
const DEEDS: [(&str, DeedOf); 6] = [
    ("top", |helper| {
        let request = TopRequest { window: WINDOW, sort: TopSort::Reductions, limit: 10, flow: false };
        top(helper, &request, &|| false).map(drop)
    }),
    ("microstates", |helper| microstates(helper, WINDOW, &|| false).map(drop)),
    ("calls", |helper| {
        let budget = Budget::lasting(WINDOW * 3);
        let options = CallsOptions { blocks: 100, bursts: 3, budget, ..common::calls_options("lists", WINDOW) };
        common::count(helper, &options, &|| false).map(drop)
    }),
    ("follow", |helper| {
        let options = RootOptions { duration: WINDOW, ..clean::root_options() };
        follow(helper, &options, |_| false).map(drop)
    }),
    ("time", |helper| {
        let options = TimeOptions { times: 1_000_000, duration: WINDOW, ..clean::time_options() };
        time(helper, &options, || false, &mut None).map(drop)
    }),
    ("trace", |helper| {
        let mut trace = Trace::start(helper, &common::trace_options("lists:last/1", WINDOW))?;
        while trace.ended().is_none() {
            trace.next(Duration::from_millis(250))?;
        }
        trace.close()
    }),
];

fn started() -> (tempfile::TempDir, Beam) {
    let (home, beam, node) = common::started();
    eval(&node, WORKERS);
    (home, beam)
}

fn impatient(beam: &Beam) -> Node {
    let options = ConnectOptions { timeout: TIMEOUT, ..beam.options() };
    Node::connect(&options).expect("connected")
}

#[test]
fn a_node_that_hangs_in_a_window_is_told_and_left_clean() {
    let (_home, beam) = started();
    for (deed, perform) in DEEDS {
        let node = impatient(&beam);
        let helper = Helper::load(&node).expect("loaded");
        let took = thread::scope(|scope| {
            let done = scope.spawn(|| perform(&helper));
            thread::sleep(DELAY);
            beam.signal("STOP");
            let stopped = Instant::now();
            let error = done.join().expect("no panic").expect_err("a silent node");
            assert!(matches!(error, Error::Silent(_)), "{deed}: {error:?}");
            stopped.elapsed()
        });
        assert!(took < TIMEOUT + BESIDE, "{deed}: {took:?}");
        // What would clean up does not wait for the node once more.
        let begun = Instant::now();
        helper.close().expect_err("no node");
        drop(node);
        assert!(begun.elapsed() < TIMEOUT, "{deed}: {:?}", begun.elapsed());
        beam.signal("CONT");
        assert_eq!(left_behind(&beam.connect()), None, "{deed}");
    }
}

#[test]
fn a_node_without_news_is_not_silent_and_one_that_hangs_is_not_waited_for_at_the_end() {
    let (_home, beam) = started();
    let node = impatient(&beam);
    // Its own ticks come every 15 seconds.
    let nothing = node.mailbox().receive(Duration::from_secs(5)).expect("a connection");
    assert_eq!(nothing, None);
    node.call("erlang", "node", vec![]).expect("an answer");
    let helper = Helper::load(&node).expect("loaded");
    beam.signal("STOP");
    let begun = Instant::now();
    helper.close().expect_err("no node");
    drop(node);
    let took = begun.elapsed();
    assert!(took < TIMEOUT + BESIDE, "{took:?}");
    beam.signal("CONT");
    assert_eq!(left_behind(&beam.connect()), None);
}
