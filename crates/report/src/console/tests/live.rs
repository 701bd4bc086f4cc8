//! Live tables on screens of several sizes: sparklines, the histogram, and the time of several runs.

use std::time::{Duration, Instant};

use super::super::live::run_heading;
use super::super::live_charts::MOST_VALUES;
use super::scenario::scraped;
use super::*;

const WIDTHS: [usize; 4] = [60, 80, 120, 200];

fn screen(columns: usize, rows: usize, seconds: u32) -> LiveTable {
    let mut live = LiveTable::new(shape(), Style { rows, ..terminal(columns) });
    let mut measured = Interval::new();
    measured.end = Time(60_000_000_000);
    for metric in [Metric::ACK_RESPONSE, Metric::END_TO_END] {
        for (us, number) in [(301, 8_000), (3_000, 100), (13_000, 14)] {
            let latencies = &mut measured.latencies;
            latencies.record_n(metric, Nanos::from_micros(us), number);
        }
    }
    for second in 0..seconds {
        let mut point = point(Phase::Measure, f64::from(second));
        let step = u64::from(second % 7);
        point.counters.sent = 8_000 + 100 * step;
        let latency = LatencySummary { p99_ns: 3_000_000 + 100_000 * step, ..latency(8_114) };
        let all = Metric::MESSAGES.into_iter();
        point.latency = all.map(|metric| (metric, latency.clone())).collect();
        live.point(&point, &measured);
    }
    live
}

fn values(row: &str) -> usize {
    row.chars().filter(|c| ('▁'..='█').contains(c)).count()
}

#[test]
fn sparklines_are_as_long_as_the_screen_is_wide_and_name_their_scales() {
    for columns in WIDTHS {
        let live = screen(columns, 50, 300);
        let lines = live.lines();
        assert_fits(&lines.join("\n"), columns - 1, 49);
        let (sent, ack) = (row(&live, "sent "), row(&live, "ack response "));
        let (number, of_ack) = (values(&sent), values(&ack));
        if columns == 60 {
            assert_eq!((number, of_ack), (0, 0), "no room: {lines:#?}");
            continue;
        }
        assert_ends(&sent, "  8,000–8,600");
        assert_ends(&ack, "  3.00–3.60 ms");
        assert!(width(&ack) >= columns - 4 && number >= columns - 72, "{columns}: {lines:#?}");
        for head in [format!("last {number} s, msg/s"), format!("p99, last {of_ack} s")] {
            let has_it = lines.iter().any(|line| line.ends_with(&head));
            assert!(has_it, "{head}: {lines:#?}");
        }
        // The phases have the whole width, too.
        assert!(width(&lines[1]) > columns * 3 / 4, "{lines:#?}");
    }
}

#[test]
fn the_histogram_is_the_first_to_go_where_a_screen_is_too_low() {
    for columns in WIDTHS {
        let mut live = screen(columns, 24, 20);
        let mut shown = |rows: usize| {
            live.style.rows = rows;
            let lines = live.lines();
            assert_fits(&lines.join("\n"), columns - 1, rows - 1);
            let bars = lines.iter().filter(|line| line.contains('■')).count();
            let has = |begin: &str| lines.iter().any(|line| line.starts_with(begin));
            assert_eq!(has("end-to-end up to"), bars > 0, "{lines:#?}");
            let figures = ["blocked ", "send delay ", "broker 1.20 cores"];
            assert!(bars == 0 || figures.into_iter().all(has), "{lines:#?}");
            bars
        };
        // Three of the rows hold latencies, if there are as many.
        let bars: Vec<usize> = (10..60).map(&mut shown).collect();
        assert!(bars[..13].iter().all(|bars| *bars == 0), "{bars:?}");
        assert!(bars[14..].iter().all(|bars| *bars == 3), "{bars:?}");
    }
    // Before the measured phase there is none.
    let mut warmup = LiveTable::new(shape(), terminal(120));
    warmup.point(&point(Phase::Warmup, 0.0), &Interval::new());
    assert!(!warmup.lines().join("\n").contains('■'));
}

#[test]
fn a_run_of_hours_keeps_no_more_seconds_than_the_widest_screen_shows() {
    let mut live = screen(600, 60, 500);
    for _ in 0..500 {
        live.beside.add(&scraped(2.0));
    }
    assert_eq!(live.recent.len(), MOST_VALUES);
    for begin in ["sent ", "ack response ", "per-object "] {
        assert_eq!(values(&row(&live, begin)), MOST_VALUES, "{begin}");
    }
}

#[test]
fn the_time_of_several_runs_and_the_time_left_are_shown_with_each() {
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    let mut runs = RunsProgress::new(began);
    let first = runs.begin(8, began);
    assert_eq!(first.text(at(5)), "5 s elapsed");
    runs.end(at(60));
    let second = runs.begin(7, at(60));
    assert_eq!(second.text(at(60)), "60 s elapsed, 7 min left");
    assert_eq!(second.text(at(120)), "2 min elapsed, 6 min left");
    assert_eq!(second.text(at(600)), "10 min elapsed", "later than expected");
    runs.end(at(180));
    let third = runs.begin(2, at(180));
    assert_eq!(third.text(at(180)), "3 min elapsed, 3 min left");
    // At the end, also where nothing was shown before.
    assert_eq!(runs.so_far(at(185)).as_deref(), Some("2 runs in 3 min"));
    assert_eq!(RunsProgress::new(began).so_far(began), None);
    let most = runs.begin_of_at_most(100, at(180));
    let told = "3 min elapsed, at most 3.3 h left unless trials disagree";
    assert_eq!(most.text(at(180)), told);
    assert!(width(told) < WIDTHS[0]);

    let title = "stream-publish, pair 3 of 8, A";
    let shape = |progress| Shape { title: title.into(), progress: Some(progress), ..shape() };
    // In a pipe.
    assert_eq!(run_heading(&shape(third), at(180)), format!("{title}; 3 min elapsed, 3 min left"));
    assert_eq!(run_heading(&shape(first), at(180)), title);
    // On a screen, before the load and during it.
    for columns in WIDTHS {
        let mut live = LiveTable::new(shape(third), terminal(columns));
        live.step = "starting the broker".into();
        let lines = live.lines();
        assert_eq!(lines[0], title);
        assert!(lines[1].ends_with(" elapsed, 6 min left"), "{lines:#?}");
        assert_eq!(lines[2], "starting the broker");
        live.step.clear();
        live.point(&point(Phase::Measure, 5.0), &Interval::new());
        let lines = live.lines();
        assert!(lines[2].ends_with(" elapsed, 6 min left"), "{lines:#?}");
        assert_fits(&lines.join("\n"), columns - 1, 23);
        live.waiting = Some("killed: 3 s".into());
        assert_eq!(live.lines()[2], "killed: 3 s");
    }
}
