use std::path::Path;

use super::*;

fn lengths(sizes: &Sizes, position: u64, count: u64) -> Vec<usize> {
    sizes.validate(true).unwrap();
    let stock = Stock::new(sizes, None).unwrap();
    let contents = stock.contents(position as u32, position, 4);
    (0..count).map(|n| contents.body(n, Nanos::ZERO).len()).collect()
}

fn random(distribution: Distribution) -> Sizes {
    Sizes::Random { distribution, seed: 5 }
}

fn mean(values: &[usize]) -> f64 {
    values.iter().sum::<usize>() as f64 / values.len() as f64
}

#[test]
fn a_list_is_cycled_and_one_size_needs_no_stock() {
    assert!(Stock::new(&Sizes::Fixed(12), None).is_none());
    let sizes = Sizes::List(vec![12, 100, 2_000]);
    assert_eq!(lengths(&sizes, 3, 5), [12, 100, 2_000, 12, 100]);
    assert_eq!(sizes.range(), (12, 2_000));
}

#[test]
fn uniform_sizes_reach_both_ends() {
    let sizes = random(Distribution::Uniform { min: 20, max: 29 });
    let drawn = lengths(&sizes, 0, 100_000);
    for size in 20..30 {
        let times = drawn.iter().filter(|drawn| **drawn == size).count();
        assert!(times.abs_diff(10_000) < 400, "{size}: {times}");
    }
    assert_ne!(drawn, lengths(&sizes, 1, 100_000), "each producer draws its own");
    assert_eq!(drawn, lengths(&sizes, 0, 100_000));
}

#[test]
fn normal_sizes_have_their_mean_and_deviation_and_stay_inside() {
    let sizes = random(Distribution::Normal { mean: 1_000.0, deviation: 100.0, min: 900, max: 5_000 });
    let drawn = lengths(&sizes, 0, 100_000);
    assert_eq!(*drawn.iter().min().unwrap(), 900);
    // A sixth lies below the lower bound, and is moved onto it.
    let at_bound = drawn.iter().filter(|size| **size == 900).count() as f64 / 1e5;
    assert!((at_bound - 0.1600).abs() < 0.01, "{at_bound}");
    let free = random(Distribution::Normal { mean: 1_000.0, deviation: 100.0, min: 12, max: 5_000 });
    let drawn = lengths(&free, 0, 100_000);
    assert!((mean(&drawn) - 1_000.0).abs() < 2.0);
    let squares: f64 = drawn.iter().map(|size| (*size as f64 - 1_000.0).powi(2)).sum();
    assert!(((squares / 1e5).sqrt() - 100.0).abs() < 1.0);
}

#[test]
fn weighted_sizes_come_as_often_as_they_weigh() {
    let sizes = random(Distribution::Weighted(vec![(12, 9.0), (50, 0.0), (2_000, 1.0)]));
    let drawn = lengths(&sizes, 0, 100_000);
    let large = drawn.iter().filter(|size| **size == 2_000).count();
    assert!(large.abs_diff(10_000) < 400, "{large}");
    assert!(drawn.iter().all(|size| *size == 12 || *size == 2_000));
}

#[test]
fn bodies_come_from_files_in_the_order_of_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.json"), [b'b'; 40]).unwrap();
    std::fs::write(folder.path().join("a.json"), [b'a'; 20]).unwrap();
    std::fs::write(folder.path().join("c.json"), b"{}").unwrap();
    let sizes = Sizes::Bodies(Arc::new(Bodies::read(&[folder.path()]).unwrap()));
    let stock = Stock::new(&sizes, None).unwrap();
    let body = |n: u64| stock.contents(0, 0, 1).body(n, Nanos::ZERO).to_vec();
    assert_eq!(sizes.range(), (2, 40));
    assert_eq!((body(0), body(5)), (vec![b'a'; 20], b"{}".to_vec()));
    assert_eq!(body(4), [b'b'; 40]);
    // However short they are, what tells them apart is elsewhere.
    sizes.validate(true).unwrap();
    sizes.validate(false).unwrap();
    let named = ["c.json", "b.json"].map(|name| folder.path().join(name));
    let named = Bodies::read(&named).unwrap();
    assert_eq!(named.lengths().collect::<Vec<_>>(), [2, 40], "as given");

    let refused = |path: &Path| Bodies::read(&[path]).unwrap_err().to_string();
    let said = refused(&folder.path().join("none"));
    assert!(said.contains("none"), "{said}");
    let said = refused(Path::new("/dev/zero"));
    assert!(said.contains("no regular file"), "{said}");
    let empty = tempfile::tempdir().unwrap();
    let said = refused(empty.path());
    assert!(said.contains("0 files"), "{said}");
}

#[test]
fn sizes_change_with_the_intended_time() {
    let step = |size, seconds| SizeStep { size, length: Nanos(seconds * Nanos::SECOND.0) };
    let steps = vec![step(100, 30), step(2_000, 60), step(12, 1)];
    let at = |repeat: bool, ns: u64| {
        let steps = steps.clone();
        let sizes = Sizes::Steps { steps, repeat };
        assert_eq!(sizes.range(), (12, 2_000));
        Stock::new(&sizes, None).unwrap().contents(0, 0, 1).body(7, Nanos(ns)).len()
    };
    let second = Nanos::SECOND.0;
    assert_eq!(at(true, 0), 100);
    assert_eq!(at(true, 30 * second - 1), 100);
    assert_eq!(at(true, 30 * second), 2_000);
    assert_eq!(at(true, 90 * second), 12);
    assert_eq!(at(true, 91 * second), 100, "anew");
    assert_eq!(at(true, (91 * 1_000_000 + 31) * second), 2_000);
    assert_eq!(at(false, 500 * second), 12, "kept");
}

#[test]
fn exponential_and_lognormal_sizes_have_their_shape() {
    let exponential = random(Distribution::Exponential { mean: 1_000.0, min: 12, max: 20_000 });
    let drawn = lengths(&exponential, 0, 100_000);
    for size in [50, 300, 1_000, 2_500, 6_000] {
        let share = drawn.iter().filter(|d| **d <= size).count() as f64 / 1e5;
        let exact = 1.0 - (-(size as f64 + 0.5) / 1_000.0).exp();
        assert!((share - exact).abs() < 0.005, "{size}: {share} for {exact}");
    }
    let lognormal = random(Distribution::LogNormal { median: 800.0, sigma: 0.7, min: 12, max: 100_000 });
    let drawn = lengths(&lognormal, 0, 100_000);
    // The normal distribution's 2.5, 15.87, 50, 84.13 and 97.5 %.
    for (z, exact) in [(-1.96, 0.025), (-1.0, 0.1587), (0.0, 0.5), (1.0, 0.8413), (1.96, 0.975)] {
        let size = 800.0 * f64::exp(0.7 * z);
        let share = drawn.iter().filter(|d| (**d as f64) < size).count() as f64 / 1e5;
        assert!((share - exact).abs() < 0.006, "{z}: {share} for {exact}");
    }
    assert!(drawn.iter().all(|size| (12..=100_000).contains(size)));
}

#[test]
fn a_trace_says_how_large_its_messages_are() {
    let trace = Arc::new(Trace::parse(&b"0,12\n1,100\n2,2000\n3,40"[..], "t").unwrap());
    let dealt = Stock::new(&Sizes::Fixed(64), Some((Arc::clone(&trace), false))).unwrap();
    let second = dealt.contents(1, 1, 2);
    assert_eq!([0, 1, 2].map(|n| second.body(n, Nanos::ZERO).len()), [100, 40, 100]);
    let each = Stock::new(&Sizes::Fixed(64), Some((trace, true))).unwrap();
    let second = each.contents(1, 1, 2);
    assert_eq!([0, 1, 2].map(|n| second.body(n, Nanos::ZERO).len()), [12, 100, 2_000]);
    let times = Arc::new(Trace::parse(&b"0\n1"[..], "t").unwrap());
    assert!(Stock::new(&Sizes::Fixed(64), Some((times, false))).is_none());
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let refused = |sizes: Sizes, part: &str| {
        let error = sizes.validate(true).unwrap_err().to_string();
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    };
    refused(Sizes::Fixed(11), "11 bytes has no room");
    refused(Sizes::List(vec![100, 4]), "4 bytes has no room");
    refused(Sizes::List(vec![]), "0 message sizes");
    refused(Sizes::Fixed(usize::MAX), "larger than brokers");
    refused(random(Distribution::Uniform { min: 30, max: 20 }), "from 30 to 20");
    refused(random(Distribution::Weighted(vec![(20, 0.0)])), "weights");
    refused(random(Distribution::Weighted(vec![(20, f64::NAN)])), "weights");
    refused(random(Distribution::Normal { mean: f64::NAN, deviation: 1.0, min: 12, max: 20 }), "with NaN");
    assert!(Sizes::Fixed(1).validate(false).is_ok());
}
