use measure::{Nanos, Time};

use super::*;

pub(crate) fn interval(ms: &[u64]) -> Interval {
    let mut interval = Interval::new();
    interval.reset(Time(0), Phase::Measure);
    interval.end = Time(1_000_000_000);
    interval.counters.sent = ms.len() as u64;
    for ms in ms {
        let latency = Nanos::from_millis(*ms);
        interval.latencies.record_n(Metric::END_TO_END, latency, 1);
    }
    interval
}

fn only(snapshot: &Snapshot, name: &str) -> Value {
    let (_, family) = snapshot.families().find(|(it, _)| *it == name).unwrap();
    assert_eq!(family.members.len(), 1, "{family:?}");
    family.members.values().next().unwrap().clone()
}

#[test]
fn quantiles_are_there_where_the_last_interval_has_latencies_and_nowhere_else() {
    let mut snapshot = Snapshot::new("x");
    // Whatever came before: answers, silence, answers, a drain.
    for number in 0..64_u64 {
        let (answers, drains) = (number % 3 != 0, number % 5 == 0);
        let mut next = interval(if answers { &[7, 9] } else { &[] });
        if drains {
            next.phase = Phase::Drain;
            next.latencies = Interval::new().latencies;
        }
        snapshot.add(&next);
        let found = snapshot.families().find(|it| it.0 == quantile_name());
        assert_eq!(found.is_some(), answers && !drains, "{number}");
        if let Some((_, family)) = found {
            assert_eq!(family.members.len(), QUANTILES.len(), "{number}");
        }
    }
}

#[test]
fn totals_add_up_and_quantiles_are_the_last_intervals() {
    let mut snapshot = Snapshot::new("x");
    snapshot.add(&interval(&[1, 3, 3]));
    snapshot.add(&interval(&[40]));
    assert_eq!(only(&snapshot, "bellows_messages_sent"), Value::Total(4));
    let Value::Durations(durations) = only(&snapshot, "bellows_latency") else { panic!("{snapshot:?}") };
    assert_eq!(durations.count(), 4);
    // A duration of 1 ms is kept as up to 1.0005 ms, and so lies above the bound of 1 ms.
    let at = |bound: f64| BOUNDS.iter().position(|it| *it == bound).unwrap();
    let below = |bound: f64| durations.counts[..=at(bound)].iter().sum::<u64>();
    assert_eq!((below(2e-3), below(5e-3), below(5e-2)), (1, 3, 4));
    assert!((durations.sum_s - 0.047).abs() < 1e-4, "{}", durations.sum_s);
    let (_, quantiles) = snapshot.families().find(|(name, _)| *name == "bellows_latency_quantile").unwrap();
    assert_eq!(quantiles.members.len(), QUANTILES.len());
    for value in quantiles.members.values() {
        assert!(matches!(value, Value::Gauge(s) if (*s - 0.04).abs() < 1e-4), "{value:?}");
    }
}

#[test]
fn a_source_has_what_it_told_last() {
    let mut snapshot = Snapshot::new("x");
    let queue = |name: &str| SeriesName::new("page 1", "ready", SeriesUnit::Count).with("queue-name", name);
    let other = SeriesName::new("machine", "load", SeriesUnit::Count);
    snapshot.tell(&[(queue("a"), 1.0), (queue("b"), 2.0), (other, 3.0)]);
    snapshot.tell(&[(queue("b"), 4.0)]);
    let Value::Gauge(value) = only(&snapshot, "bellows_page_1_ready") else { panic!("{snapshot:?}") };
    assert_eq!(value, 4.0);
    assert_eq!(only(&snapshot, "bellows_machine_load"), Value::Gauge(3.0));
    assert_eq!(snapshot.series, 2);
}

#[test]
fn what_is_no_number_is_gone_and_no_page_says_which_run_it_is_of() {
    let mut snapshot = Snapshot::new("mine");
    let ready = || SeriesName::new("page", "ready", SeriesUnit::Count);
    snapshot.tell(&[(ready().with("experiment", "theirs"), 1.0)]);
    let (_, family) = snapshot.families().next().unwrap();
    let labels = family.members.keys().next().unwrap();
    assert_eq!(labels["experiment"], "mine");
    assert_eq!(labels["exported_experiment"], "theirs");
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        snapshot.tell(&[(ready(), 1.0)]);
        assert_eq!(only(&snapshot, "bellows_page_ready"), Value::Gauge(1.0));
        snapshot.tell(&[(ready(), odd)]);
        assert_eq!((snapshot.series, snapshot.families().count()), (0, 0), "{odd}");
    }
}

#[test]
fn names_and_labels_that_are_alike_as_identifiers_stay_apart() {
    let mut snapshot = Snapshot::new("x");
    let series = |name: &str, unit| SeriesName::new("page", name, unit);
    let all = [
        (series("sum(ready)", SeriesUnit::Count), 1.0),
        (series("sum_ready", SeriesUnit::Count), 2.0),
        (series("Sum Ready", SeriesUnit::Bytes), 3.0),
        (series("ready", SeriesUnit::Count).with("Queue", "a").with("queue", "b"), 4.0),
    ];
    let values = |snapshot: &Snapshot| -> Vec<(String, Value)> {
        let families = snapshot.families();
        families.flat_map(|(name, family)| family.members.values().map(|it| (name.to_owned(), it.clone()))).collect()
    };
    snapshot.tell(&all);
    let expected = [
        ("bellows_page_ready", 4.0),
        ("bellows_page_sum_ready", 1.0),
        ("bellows_page_sum_ready_2", 2.0),
        ("bellows_page_sum_ready_3", 3.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), Value::Gauge(value)));
    assert_eq!(values(&snapshot), expected);
    let ready = snapshot.families.get("bellows_page_ready").expect("a family");
    let labels = ready.members.keys().next().expect("a series");
    assert_eq!((&*labels["queue"], &*labels["queue_2"]), ("a", "b"));
    // In another order, and after some were away, each keeps its name.
    snapshot.tell(&all[2..3]);
    let again: Vec<_> = all.iter().rev().cloned().collect();
    snapshot.tell(&again);
    assert_eq!(values(&snapshot), expected);
}

#[test]
fn names_are_identifiers_and_their_number_is_bounded() {
    for (name, expected) in [
        ("idle, waiting for a disk", "idle_waiting_for_a_disk"),
        ("1x", "_1x"),
        ("<b>é</b>", "_b_b"),
        ("", "_"),
        ("CPU%", "cpu"),
    ] {
        assert_eq!(identifier(name), expected);
    }
    let mut snapshot = Snapshot::new("x");
    let many = (0..MOST_SERIES + 5)
        .map(|i| (SeriesName::new("page", "ready", SeriesUnit::Count).with("queue", &i.to_string()), 1.0));
    snapshot.tell(&many.collect::<Vec<_>>());
    assert_eq!(snapshot.series, MOST_SERIES);
    snapshot.tell(&[(SeriesName::new("page", "ready", SeriesUnit::Count), 1.0)]);
    assert!(snapshot.series <= 1, "{}", snapshot.series);
}
