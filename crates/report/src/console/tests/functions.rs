//! The table of functions.

use super::*;

fn profile() -> Profile {
    let mut profile = Profile {
        frames: vec![
            Frame::new("$rabbit_exchange:route/2", "[jit]", FrameKind::Erlang),
            Frame::new("$ets:select/2\u{1b}[31m", "[jit]", FrameKind::Erlang),
            Frame::unknown("beam.smp"),
        ],
        stacks: vec![
            StackNode {
                parent: None,
                frame: 0,
            },
            StackNode {
                parent: Some(0),
                frame: 1,
            },
            StackNode {
                parent: Some(0),
                frame: 2,
            },
        ],
        threads: vec!["1_scheduler".into()],
        samples: (0..100)
            .map(|i| Sample {
                t: i,
                weight: 1,
                stack: if i < 10 {
                    0
                } else if i < 70 {
                    1
                } else {
                    2
                },
                thread: 0,
                cpu: 0,
                complete: i < 98,
                unwinding: Unwinding::Unknown,
                process: None,
                wait: None,
            })
            .collect(),
        lost: 3,
        ..Profile::default()
    };
    profile.header.unit = "samples".into();
    profile.header.kernel_event = "cpu-clock".into();
    profile
}

#[test]
fn the_function_table_sorts_filters_and_says_what_is_missing() {
    let table = |sort, only: &dyn Fn(&str) -> bool| {
        functions(
            &profile(),
            &FunctionTable {
                of: FunctionRowOf::Function,
                limit: 10,
                sort,
                only,
                rest: None,
                which: None,
            },
            Style::PLAIN,
        )
    };
    let by_self = table(FunctionSort::SelfShare, &|_| true);
    let first = by_self.lines().nth(1).unwrap();
    assert!(
        first.contains("60.00") && first.ends_with("  [jit]     $ets:select/2␛[31m"),
        "{by_self}"
    );
    let by_total = table(FunctionSort::Total, &|_| true);
    assert!(
        by_total
            .lines()
            .nth(1)
            .unwrap()
            .contains("$rabbit_exchange:route/2"),
        "{by_total}"
    );
    let only = table(FunctionSort::SelfShare, &|name| name.contains("route"));
    assert!(
        !only.contains("$ets")
            && only
                .contains("1 of 1 matching function (3 in all), together in 100 % of the samples")
    );
    for part in [
        "100 samples, 3 lost, taken by cpu-clock",
        "unknown share 30.00 %",
        "complete share 98.00 %",
    ] {
        assert!(by_self.contains(part), "{part} in {by_self}");
    }
    assert_fits(&by_self, 100, 24);
}

#[test]
fn a_part_stands_beside_the_rest_and_chance_is_marked() {
    let whole = profile();
    let mut part = whole.clone();
    part.samples.truncate(1);
    part.samples[0].weight = 100;
    let mut rest = whole.clone();
    for sample in &mut rest.samples {
        sample.weight *= 10;
    }
    let table = FunctionTable {
        of: FunctionRowOf::Function,
        limit: 10,
        sort: FunctionSort::Change,
        only: &|_| true,
        rest: Some(&rest),
        which: Some("3 of 20 seconds in which sent rate > 5k"),
    };
    let rows = table.rows(&part);
    // A function that is only in the rest has a row, too.
    assert_eq!(rows.all, 3);
    let shares: Vec<(f64, f64, bool)> = rows
        .shown
        .iter()
        .map(|row| {
            let rest = row.rest.expect("the rest");
            (row.share.self_share, rest.self_share, rest.by_chance)
        })
        .collect();
    assert!(
        shares.iter().all(|(_, _, by_chance)| !by_chance),
        "{shares:?}"
    );
    assert!((shares.iter().map(|(part, ..)| part).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!((shares.iter().map(|(_, rest, _)| rest).sum::<f64>() - 1.0).abs() < 1e-9);
    let text = functions(&part, &table, Style::PLAIN);
    assert!(text.contains("+90.00") && text.contains("-60.00"), "{text}");
    assert!(
        text.contains("3 of 20 seconds in which sent rate > 5k; rest: the other 1,000 samples"),
        "{text}"
    );
    for columns in [60, 80, 120] {
        assert_fits(&functions(&part, &table, terminal(columns)), columns, 30);
    }
    // Where nothing is left there is nothing to compare with.
    let nothing = Profile::default();
    let alone = FunctionTable {
        of: FunctionRowOf::Function,
        rest: Some(&nothing),
        ..table
    };
    assert!(alone.rows(&part).shown.iter().all(|row| row.rest.is_none()));
    assert!(!functions(&part, &alone, Style::PLAIN).contains("rest"));
    // Equal shares differ by nothing.
    let same = FunctionTable {
        of: FunctionRowOf::Function,
        rest: Some(&whole),
        ..table
    };
    assert!(
        same.rows(&whole)
            .shown
            .iter()
            .all(|row| row.rest.is_some_and(|it| it.by_chance))
    );
}

#[test]
fn long_functions_are_broken_and_columns_stay() {
    let mut profile = profile();
    profile.frames[1].name = "x".repeat(300);
    let options = FunctionTable {
        of: FunctionRowOf::Function,
        limit: 10,
        sort: FunctionSort::SelfShare,
        only: &|_| true,
        rest: None,
        which: None,
    };
    for columns in [60, 80, 120, 200] {
        let text = functions(&profile, &options, terminal(columns));
        assert_fits(&text, columns, 24);
        // One more stands in the name of another function.
        assert_eq!(text.matches('x').count(), 300 + 1, "{text}");
    }
    let pipe = functions(&profile, &options, Style::PLAIN);
    assert!(
        pipe.lines().nth(1).unwrap().ends_with(&"x".repeat(300)),
        "{pipe}"
    );
}
