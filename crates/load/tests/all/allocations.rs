//! The data path allocates nothing: after warm-up, no event loop asks for memory.
#![allow(unsafe_code, reason = "a global allocator that counts is an unsafe trait")]

use crate::common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use load::{
    Ack, ArrivalProcess, ArrivalSchedule, Control, Destination, Distribution, Endpoint, Group, Guarantee, Json, Plan,
    RateProfile, RunEvent, Sink, Sizes, Spacing,
};
use measure::{Interval, Nanos, Phase};

struct Counting;

/// Allocations of threads that are neither the broker's nor the test's.
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// Bytes of a histogram's counts.
const HISTOGRAM_BYTES: usize = 33 * 1_024 * 8;
/// Histograms that exist, and the most that existed at once.
static HISTOGRAMS: AtomicI64 = AtomicI64::new(0);
static MOST_HISTOGRAMS: AtomicI64 = AtomicI64::new(0);

fn note_histogram(layout: Layout, change: i64) {
    if layout.size() == HISTOGRAM_BYTES {
        let now = HISTOGRAMS.fetch_add(change, Ordering::Relaxed) + change;
        MOST_HISTOGRAMS.fetch_max(now, Ordering::Relaxed);
    }
}

thread_local! {
    /// 0: not looked at yet; 1: counted; 2: not.
    static KIND: Cell<u8> = const { Cell::new(0) };
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

fn is_counted() -> bool {
    let looking = LOOKING.try_with(|l| l.replace(true)).unwrap_or(true);
    if looking {
        return false;
    }
    let kind = KIND.try_with(|kind| {
        if kind.get() == 0 {
            let ours = thread::current().name().is_some_and(|name| name.starts_with("load "));
            kind.set(if ours { 1 } else { 2 });
        }
        kind.get()
    });
    let _ = LOOKING.try_with(|l| l.set(false));
    kind == Ok(1)
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_counted() {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
        note_histogram(layout, 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note_histogram(layout, -1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_counted() {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Watch {
    at_measure: Option<u64>,
    last: u64,
    messages: u64,
}

impl Sink for Watch {
    fn interval(&mut self, merged: &Interval) {
        if merged.phase == Phase::Measure {
            // The first measured interval may still end in the warm-up's growth of buffers.
            self.at_measure.get_or_insert_with(|| COUNTED.load(Ordering::Relaxed));
            self.last = COUNTED.load(Ordering::Relaxed);
            self.messages += merged.counters.received;
        }
    }

    fn event(&mut self, _: RunEvent) {}
}

#[test]
fn no_event_loop_allocates_after_warm_up() {
    let broker = common::embedded();
    let group = group(Endpoint::new("127.0.0.1", broker.local_addr().port()));
    // Beside it what is computed and drawn for every message.
    let mut drawn = group.clone();
    drawn.destinations = vec![Destination::queue("drawn")];
    drawn.producers.arrivals = ArrivalProcess::Scheduled(ArrivalSchedule::new(
        RateProfile::Sine { mean: 2_000.0, amplitude: 1_000.0, period: Nanos::SECOND },
        Spacing::Poisson { seed: 1 },
        false,
    ));
    drawn.producers.sizes = Sizes::Random { distribution: Distribution::Uniform { min: 12, max: 3_000 }, seed: 1 };
    // And bodies that stay as they are.
    let mut has_trace_header = group.clone();
    has_trace_header.destinations = vec![Destination::queue("has_trace_header")];
    has_trace_header.producers.sizes = Sizes::Bodies(Arc::new(Json::new(300).bodies().expect("bodies")));
    let (allocations, messages) = allocated(vec![group, drawn, has_trace_header]);
    assert_eq!(allocations, 0, "allocations while {messages} messages passed");
}

/// Histograms are nearly all of the generator's memory: an event loop has one for each of its intervals and
/// for each metric that it records, also for what was due in the warm-up. The second that its slices add up to
/// has another, and one more of a metric with late answers to what was due in the warm-up.
#[test]
fn histograms_are_as_many_as_are_recorded() {
    let histogram = measure::new_histogram();
    assert_eq!(histogram.distinct_values() * 8, HISTOGRAM_BYTES);
    drop(histogram);
    let broker = common::embedded();
    let confirmed = group(Endpoint::new("127.0.0.1", broker.local_addr().port()));
    let mut scheduled = confirmed.clone();
    scheduled.producers.arrivals = common::rate(3_000.0);
    let mut unconfirmed = scheduled.clone();
    unconfirmed.producers.guarantee = Guarantee::Unconfirmed;
    // End-to-end and transfer; with confirms also send ack and ack response; with a schedule also send delay.
    for (group, metrics) in [(unconfirmed, 3), (confirmed, 4), (scheduled, 5)] {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = HISTOGRAMS.load(Ordering::Relaxed);
        MOST_HISTOGRAMS.store(before, Ordering::Relaxed);
        let mut watch = Watch::default();
        let outcome = load::run(&plan(vec![group]), &Control::new(), &mut watch).expect("load");
        assert!(outcome.error.is_none(), "{outcome:?}");
        let most = MOST_HISTOGRAMS.load(Ordering::Relaxed) - before;
        let second = most - 9 * metrics;
        assert!((metrics..=2 * metrics).contains(&second), "{most} at once");
    }
}

/// `rustls` allocates for each record; a record holds as many messages as there are.
#[test]
fn over_tls_allocations_are_by_the_record() {
    let authority = common::Authority::new("ca");
    let (_broker, secured) = common::secured(authority.listener(&["127.0.0.1"], None));
    let mut endpoint = Endpoint::new("127.0.0.1", secured.port());
    endpoint.tls = Some(authority.trusted());
    let (allocations, messages) = allocated(vec![group(endpoint)]);
    assert!(allocations * 4 < messages, "{allocations} allocations while {messages} messages passed");
}

fn group(endpoint: Endpoint) -> Group {
    let mut group = Group::new(endpoint, vec![Destination::queue("allocations")]);
    (group.producers.per_destination, group.consumers.per_destination) = (1, 1);
    group.producers.max_pending = 500;
    group.producers.sizes = 32.into();
    group.consumers.ack = Ack::Every(50);
    group.consumers.prefetch = 200;
    group
}

fn plan(groups: Vec<Group>) -> Plan {
    Plan { groups, phases: common::phases(500, 1_100, 10_000), ..Plan::default() }
}

/// One at a time: they share the count.
static ALONE: Mutex<()> = Mutex::new(());

fn allocated(groups: Vec<Group>) -> (u64, u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut watch = Watch::default();
    let before = COUNTED.load(Ordering::Relaxed);
    let outcome = load::run(&plan(groups), &Control::new(), &mut watch).expect("load");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(watch.messages > 5_000, "only {} messages", watch.messages);
    let first = watch.at_measure.expect("a measured interval");
    assert!(first > before, "the event loops' names have changed: nothing is counted");
    (watch.last - first, watch.messages)
}
