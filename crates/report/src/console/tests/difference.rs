//! The table of two profiles.

use super::*;
use crate::difference::{DifferenceSide, of_stacks};

fn table<'t>(a: &'t Profile, b: &'t Profile) -> DifferenceTable<'t> {
    DifferenceTable {
        of: FunctionRowOf::Function,
        limit: 20,
        sort: DifferenceSort::Change,
        only: &|_| true,
        a: DifferenceSide { profile: a, name: "7k2q" },
        b: DifferenceSide { profile: b, name: "x3m4, 3 s to 5 s" },
        forced: &[],
        other_builds: &[],
        machines_without_symbols: &[],
    }
}

fn names(text: &str) -> Vec<&str> {
    let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
    rows.filter_map(|row| row.rsplit("  ").next()).collect()
}

fn sides() -> (Profile, Profile) {
    let of = |f, g, h| of_stacks(&[("1_scheduler;main;f", f), ("1_scheduler;main;g", g), ("aux;main;h", h)]);
    (of(5_000, 4_900, 100), of(7_000, 2_895, 105))
}

#[test]
fn changes_stand_in_order_and_chance_comes_last() {
    let (a, b) = sides();
    let text = difference(&table(&a, &b), Style::PLAIN);
    assert_eq!(names(&text), ["g", "f", "h", "main"], "{text}");
    assert_lacks(&text, ["no significant"]);
    assert_has(&text, ["-20.05", "+20.00", "A: 7k2q, 10,000 samples", "B: x3m4, 3 s to 5 s, 10,000"]);
    let h = text.lines().find(|line| line.ends_with("  h")).unwrap();
    assert!(h.contains("1.00") && h.contains("1.05") && h.matches('~').count() == 2, "{h}");
    assert_has(&text, ["0.42 points at a share of 1 %", "`bellows run --repeat` shows"]);
    for columns in [60, 80, 120] {
        assert_fits(&difference(&table(&a, &b), terminal(columns)), columns, 30);
    }
}

#[test]
fn other_orders_other_rows_and_what_is_forced() {
    let (a, b) = sides();
    let by = |of, sort| difference(&DifferenceTable { of, sort, ..table(&a, &b) }, Style::PLAIN);
    let by_total = by(FunctionRowOf::Function, DifferenceSort::Total);
    assert_eq!(names(&by_total), ["main", "f", "g", "h"]);
    let by_self = by(FunctionRowOf::Function, DifferenceSort::SelfShare);
    assert_eq!(names(&by_self), ["f", "g", "h", "main"]);
    let threads = by(FunctionRowOf::Thread, DifferenceSort::Change);
    assert_lacks(&threads, ["total"]);
    assert_has(threads, ["scheduler"]);
    let forced = &[Problem::new("of different events", "cpu and mmap", "remedy")];
    let other_builds = &["beam.smp".to_owned()];
    let matching = DifferenceTable { only: &|name| name == "f", forced, other_builds, ..table(&a, &b) };
    let text = difference(&matching, Style::PLAIN);
    assert_has(&text, ["different builds of beam.smp", "forced: of different events (cpu and mmap)"]);
    assert_has(text, ["1 of 1 matching function (4 in all)"]);
    // A build without symbols lacked a class, which was called changed.
    let of = |classes: [(&str, u64); 2]| {
        let mut profile = of_stacks(&classes);
        for frame in profile.frames.iter_mut().filter(|it| !it.name.starts_with('$')) {
            (frame.module, frame.kind) = ("beam.smp".into(), FrameKind::Runtime);
        }
        profile
    };
    let named = of([("t;$a:b/1;db_get_hash", 5_000), ("t;$a:b/1;erts_schedule", 5_000)]);
    let stripped = of([("t;$a:b/1;[near eq+0x10]", 5_000), ("t;$a:b/1;erts_schedule", 5_000)]);
    let machines_without_symbols = &["beam.smp".to_owned()];
    let by_class = |machines_without_symbols: &[String]| {
        let of = FunctionRowOf::Class;
        difference(&DifferenceTable { of, machines_without_symbols, ..table(&named, &stripped) }, Style::PLAIN)
    };
    assert_has(by_class(&[]), ["-50.00"]);
    let text = by_class(machines_without_symbols);
    assert_has(&text, ["no significant difference", "differ in the symbols of beam.smp"]);
    assert_lacks(text, ["-50.00"]);
}

/// `top` had functions of Erlang, and `diff` of the same run native ones.
#[test]
fn functions_of_the_language_hold_the_native_code_below_them() {
    let of = |own| {
        let mut profile = of_stacks(&[("t;$a:b/1;memcpy", own), ("t;$c:d/1;memcpy", 1_000)]);
        let erlang = profile.frames.iter_mut().filter(|it| it.name.starts_with('$'));
        erlang.for_each(|it| it.kind = FrameKind::Erlang);
        profile
    };
    let (a, b) = (of(1_000), of(3_000));
    let table = DifferenceTable { of: FunctionRowOf::Language, ..table(&a, &b) };
    let text = difference(&table, Style::PLAIN);
    assert_has(&text, ["$a:b/1", "+25.00", "`bellows diff --raw`"]);
    assert_lacks(text, ["memcpy", "total"]);
}

#[test]
fn programs_get_figures_where_people_get_marks() {
    let (a, b) = sides();
    let json = serde_json::to_value(difference_as_json(&table(&a, &b))).unwrap();
    let row = &json["rows"][0];
    let values = [&row["function"], &row["module"], &row["a"]["self"], &row["b"]["samples"], &row["self_by_chance"]];
    assert_eq!(serde_json::json!(values), serde_json::json!(["g", "m", 0.49, 2_895, false]));
    let change = row["self_change"].as_f64().unwrap();
    assert!((change + 0.2005).abs() < 1e-9);
    assert_eq!(json["smallest_changes"][0]["share"], 0.01);
    let none = Profile::default();
    let json = serde_json::to_value(difference_as_json(&table(&none, &none))).unwrap();
    assert_eq!(json["rows"], serde_json::json!([]));
    assert_has(difference(&table(&none, &a), Style::PLAIN), ["One side is empty"]);
    // A share does not change by more than 100 points.
    let few = of_stacks(&[("t;main;f", 2), ("t;main;g", 1)]);
    let shown = difference(&table(&few, &few), Style::PLAIN);
    assert_has(&shown, ["no significant difference\n", "Too few samples to detect"]);
    assert_lacks(shown, ["points at a share"]);
}

/// Folded text has no modules, and a library's version says nothing.
#[test]
fn functions_are_found_again_without_modules_and_in_another_version() {
    let (a, mut b) = sides();
    let changed = |b: &Profile| {
        let json = serde_json::to_value(difference_as_json(&table(&a, b))).unwrap();
        json["rows"].as_array().unwrap().len()
    };
    for (module, rows) in [("m", 4), ("", 4), ("other", 8)] {
        b.frames.iter_mut().for_each(|it| it.module = module.into());
        assert_eq!(changed(&b), rows, "{module}");
    }
    let mut old = a.clone();
    old.frames.iter_mut().for_each(|it| it.module = "libx.so.1.1".into());
    b.frames.iter_mut().for_each(|it| it.module = "libx.so.3".into());
    assert_has(difference(&table(&old, &b), Style::PLAIN), ["4 of 4 functions"]);
}

#[test]
fn a_narrow_table_has_names_of_more_than_eight_letters() {
    let name = "rabbit_channel:handle_method/3";
    let of = |own, other| {
        let (own_stack, other_stack) = (format!("1_scheduler;main;{name}"), "1_scheduler;main;g");
        of_stacks(&[(own_stack.as_str(), own), (other_stack, other)])
    };
    let (a, b) = (of(5_000, 5_000), of(7_000, 3_000));
    let text = difference(&table(&a, &b), terminal(60));
    assert_fits(&text, 60, 30);
    assert_eq!(text.matches(name).count(), 2, "{text}");
    let mut heads = text.lines().filter(|line| line.contains("function"));
    assert_has(heads.next().unwrap(), ["self B %  change  function"]);
    assert_has(heads.next().unwrap(), ["total B %  change  function"]);
    // Both ends of a longer one are there.
    let long = format!("{name}{}", "x".repeat(40));
    let of = |own| of_stacks(&[(&*format!("t;main;{long}"), own), ("t;main;g", 3_000)]);
    let text = difference(&table(&of(9_000), &of(1_000)), terminal(60));
    assert_fits(&text, 60, 30);
    assert_eq!(text.matches("rabbit_channe").count(), 2, "{text}");
    assert_eq!(text.matches('…').count(), 2, "{text}");
}
