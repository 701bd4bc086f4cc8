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
            StackNode { parent: None, frame: 0 },
            StackNode { parent: Some(0), frame: 1 },
            StackNode { parent: Some(0), frame: 2 },
        ],
        threads: vec!["1_scheduler".into()],
        samples: (0..100)
            .map(|t| (t, u32::from(t >= 10) + u32::from(t >= 70)))
            .map(|(t, stack)| Sample { t, weight: 1, stack, complete: t < 98, ..Sample::default() })
            .collect(),
        lost: 3,
        ..Profile::default()
    };
    profile.header.unit = "samples".into();
    profile.header.kernel_event = "cpu-clock".into();
    profile
}

fn all_rows(limit: usize, sort: FunctionSort) -> FunctionTable<'static> {
    FunctionTable { of: FunctionRowOf::Function, limit, sort, only: &|_| true, rest: None, which: None }
}

#[test]
fn the_function_table_sorts_filters_and_says_what_is_missing() {
    let table = |sort, only: &dyn Fn(&str) -> bool| {
        functions(&profile(), &FunctionTable { only, ..all_rows(10, sort) }, Style::PLAIN)
    };
    let by_self = table(FunctionSort::SelfShare, &|_| true);
    let first = by_self.lines().nth(1).unwrap();
    assert!(first.contains("60.00") && first.ends_with("  [jit]     $ets:select/2␛[31m"), "{by_self}");
    let by_total = table(FunctionSort::Total, &|_| true);
    assert!(by_total.lines().nth(1).unwrap().contains("$rabbit_exchange:route/2"), "{by_total}");
    let only = table(FunctionSort::SelfShare, &|name| name.contains("route"));
    assert_has(&only, ["1 of 1 matching function (3 in all), together in 100 % of the samples"]);
    assert_lacks(only, ["$ets"]);
    assert_has(&by_self, ["100 samples, 3 lost, taken by cpu-clock"]);
    assert_has(&by_self, ["unknown share 30.00 %", "complete share 98.00 %"]);
    // There was more foot than table.
    let threads = FunctionTable { of: FunctionRowOf::Thread, ..all_rows(10, FunctionSort::SelfShare) };
    let threads = functions(&profile(), &threads, Style::PLAIN);
    assert_has(&threads, ["1 of 1 thread; 100 samples, 3 lost, taken by cpu-clock"]);
    assert_lacks(threads, ["unknown share"]);
    assert_fits(&by_self, 100, 24);
}

/// They held half of the samples, and the foot said that 0 % was unknown; tables of classes said nothing of it.
#[test]
fn names_after_a_neighbour_are_counted_apart() {
    let shown = |profile: &Profile| functions(profile, &all_rows(10, FunctionSort::SelfShare), Style::PLAIN);
    let mut profile = profile();
    assert_lacks(shown(&profile), ["estimated names"]);
    profile.frames[2] = Frame::new("[near ets_select_2+0x40]", "beam.smp", FrameKind::Runtime);
    assert_has(shown(&profile), ["unknown share 0.00 %", "estimated names 30.00 % of self"]);
    let by_class = classes(&profile, Style::PLAIN);
    assert_has(&by_class, [" ~30.00 ", " 70.00 ", "\n~ estimated: 30 % in unnamed functions; install debug symbols"]);
    let of_language = language_functions(&profile, &all_rows(10, FunctionSort::SelfShare), Style::PLAIN);
    assert_has(of_language.expect("Erlang"), ["classes are estimated: 30 % in unnamed functions"]);
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
    let which = Some("3 of 20 seconds in which sent rate > 5k");
    let table = FunctionTable { rest: Some(&rest), which, ..all_rows(10, FunctionSort::Change) };
    let rows = table.rows(&part);
    // A function that is only in the rest has a row, too.
    assert_eq!(rows.all, 3);
    let rests = || rows.shown.iter().map(|row| row.rest.expect("the rest"));
    assert!(rests().all(|it| !it.by_chance));
    let of_part: f64 = rows.shown.iter().map(|row| row.share.self_share).sum();
    let of_rest: f64 = rests().map(|it| it.self_share).sum();
    assert!([of_part, of_rest].into_iter().all(|sum| (sum - 1.0).abs() < 1e-9), "{of_part} and {of_rest}");
    let text = functions(&part, &table, Style::PLAIN);
    assert_has(text, ["+90.00", "-60.00", "3 of 20 seconds in which sent rate > 5k; rest: the other 1,000 samples"]);
    for columns in [60, 80, 120] {
        assert_fits(&functions(&part, &table, terminal(columns)), columns, 30);
    }
    // Where nothing is left there is nothing to compare with.
    let nothing = Profile::default();
    let alone = FunctionTable { of: FunctionRowOf::Function, rest: Some(&nothing), ..table };
    assert!(alone.rows(&part).shown.iter().all(|row| row.rest.is_none()));
    assert!(!functions(&part, &alone, Style::PLAIN).contains("rest"));
    // Equal shares differ by nothing.
    let same = FunctionTable { of: FunctionRowOf::Function, rest: Some(&whole), ..table };
    assert!(same.rows(&whole).shown.iter().all(|row| row.rest.is_some_and(|it| it.by_chance)));
}

#[test]
fn long_functions_are_broken_and_columns_stay() {
    let mut profile = profile();
    profile.frames[1].name = "x".repeat(300);
    let options = all_rows(10, FunctionSort::SelfShare);
    for columns in [60, 80, 120, 200] {
        let text = functions(&profile, &options, terminal(columns));
        assert_fits(&text, columns, 24);
        // One more stands in the name of another function.
        assert_eq!(text.matches('x').count(), 300 + 1, "{text}");
    }
    let pipe = functions(&profile, &options, Style::PLAIN);
    assert!(pipe.lines().nth(1).unwrap().ends_with(&"x".repeat(300)), "{pipe}");
}

#[test]
fn functions_of_the_language_have_what_is_below_them_and_all_rows_are_all_samples() {
    let of = |limit, sort, only: &dyn Fn(&str) -> bool, style| {
        language_functions(&profile(), &FunctionTable { only, ..all_rows(limit, sort) }, style)
    };
    let text = of(1, FunctionSort::SelfShare, &|_| true, Style::PLAIN).expect("Erlang");
    let lines: Vec<String> = text.lines().take(3).map(flowing).collect();
    let expected = ["total % own C code function", "60.00 60.0 $ets:select/2␛[31m", "40.00 10.0 30.0 others (1 row)"];
    assert_eq!(lines, expected);
    assert_has(&text, ["1 of 2 rows; 100 samples, 3 lost", "own: code of the function itself", "`bellows top --raw`"]);
    assert_lacks(text, ["GC"]);
    for columns in [60, 80, 120] {
        let text = of(9, FunctionSort::SelfShare, &|_| true, terminal(columns));
        assert_fits(&text.expect("Erlang"), columns, 24);
    }
    let route = |name: &str| name.contains("route");
    let only = of(9, FunctionSort::SelfShare, &route, Style::PLAIN).expect("Erlang");
    assert_has(only, ["1 of 1 matching row (2 in all), together 40.00 % of the samples"]);
    assert_eq!(of(9, FunctionSort::Total, &|_| true, Style::PLAIN), None);
    // A native program has none.
    let mut native = profile();
    for frame in &mut native.frames {
        frame.kind = FrameKind::Native;
    }
    let table = all_rows(9, FunctionSort::SelfShare);
    assert_eq!(language_functions(&native, &table, Style::PLAIN), None);
    assert!(table.language_rows(&native).is_empty());
    assert_eq!(table.language_rows(&profile()).len(), 2);
}
