//! Differential flame graphs, read as browsers read them.

use stacks::Profile;

use testkit::assert_has;

use super::difference::{DifferenceOptions, difference_svg};
use crate::difference::{DifferenceSide, of_stacks};

const BLUE: &str = "rgb(86,180,233)";
const ORANGE: &str = "rgb(230,159,0)";
const GREY: &str = "rgb(205,204,202)";
const WHITE: &str = "rgb(255,255,255)";

fn drawn(a: &Profile, b: &Profile, options: &DifferenceOptions) -> String {
    let [a, b] = [(a, "first <run>"), (b, "second")].map(|(profile, name)| DifferenceSide { profile, name });
    String::from_utf8(difference_svg(&a, &b, options).unwrap()).unwrap()
}

/// A frame's tooltip, its width in per cent, its colour.
#[derive(Debug)]
struct Seen {
    tooltip: String,
    width: f64,
    colour: String,
}

fn seen(svg: &str, name: &str) -> Vec<Seen> {
    let start = format!("<title>{name} (");
    let frames = svg.match_indices(&start).map(|(at, _)| &svg[at..]);
    let between = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap();
        rest.split_once(to).unwrap().0.to_owned()
    };
    frames
        .map(|frame| Seen {
            tooltip: between(frame, "<title>", "</title>"),
            width: between(frame, " width=\"", "%").parse().unwrap(),
            colour: between(frame, " fill=\"", "\""),
        })
        .collect()
}

fn one(svg: &str, name: &str) -> Seen {
    let mut found = seen(svg, name);
    assert_eq!(found.len(), 1, "{name} in {svg}");
    found.remove(0)
}

fn a() -> Profile {
    of_stacks(&[("t;main;f", 500), ("t;main;g", 300), ("t;main;gone;deep", 200)])
}

fn b() -> Profile {
    of_stacks(&[("t;main;f", 1_400), ("t;main;g", 600)])
}

#[test]
fn widths_are_of_b_and_colours_of_the_difference() {
    let svg = drawn(&a(), &b(), &DifferenceOptions::default());
    // The picture has what is only in A beside the whole of B.
    for (name, tooltip, colour, share) in [
        ("f", "f (A 50.00 %, B 70.00 %, +20.00 points)", ORANGE, 70.0),
        ("gone", "gone (A 20.00 %, B 0.00 %, -20.00 points)", BLUE, 20.0),
        ("g", "g (A 30.00 %, B 30.00 %, +0.00 points)", WHITE, 30.0),
    ] {
        let frame = one(&svg, name);
        assert_eq!((&*frame.tooltip, &*frame.colour), (tooltip, colour));
        assert!((frame.width - share / 1.2).abs() < 0.01, "{frame:?}");
    }
    let alone = one(&svg, "only in A");
    assert!(alone.tooltip.contains("(20.00 % of A is nothing in B"), "{alone:?}");
    let main: Vec<String> = seen(&svg, "main").into_iter().map(|it| it.colour).collect();
    assert_eq!(main, [WHITE, WHITE], "in the picture, and as a caller beside it");
    let all = "all (A 1,000 samples, B 2,000 samples)";
    assert_has(&svg, [all, "A: first &lt;run&gt;, 1,000 samples", "full colour: 20.00 points"]);
    assert!(!svg.contains(|c: char| ('\u{e000}'..='\u{f8ff}').contains(&c)));
}

#[test]
fn swapped_sides_swap_the_colours_and_widths_of_a_are_those_of_the_other_side() {
    let swapped = drawn(&b(), &a(), &DifferenceOptions::default());
    assert_eq!(one(&swapped, "f").colour, BLUE);
    assert_eq!(one(&swapped, "gone").colour, ORANGE);
    assert!(seen(&swapped, "only in A").is_empty(), "all of A is in B");
    let of_a = DifferenceOptions { widths_of_a: true, ..DifferenceOptions::default() };
    let svg = drawn(&b(), &a(), &of_a);
    assert!((one(&svg, "f").width - 70.0 / 1.2).abs() < 0.01);
    assert_has(one(&svg, "only in B").tooltip, ["20.00 % of B"]);
    assert_has(svg, ["widths of A"]);
}

#[test]
fn a_profile_beside_itself_is_white_chance_is_grey_and_an_empty_side_is_drawn_but_two_are_refused() {
    let svg = drawn(&a(), &a(), &DifferenceOptions::default());
    for name in ["main", "f", "g", "gone", "deep"] {
        let frame = one(&svg, name);
        assert!(frame.colour == WHITE && frame.tooltip.ends_with("+0.00 points)"), "{frame:?}");
    }
    assert!(svg.contains("no change is proven") && seen(&svg, "only in A").is_empty());
    let few = |f, g| of_stacks(&[("t;main;f", f), ("t;main;g", g)]);
    let f = one(&drawn(&few(50, 50), &few(55, 45), &DifferenceOptions::default()), "f");
    assert_eq!((&*f.tooltip, &*f.colour), ("f (A 50.00 %, B 55.00 %, +5.00 points, not proven)", GREY));
    let nothing = Profile::default();
    assert!((one(&drawn(&a(), &nothing, &DifferenceOptions::default()), "only in A").width - 100.0).abs() < 0.01);
    assert_eq!(one(&drawn(&nothing, &a(), &DifferenceOptions::default()), "f").width, 50.0);
    let side = DifferenceSide { profile: &nothing, name: "nothing" };
    assert!(difference_svg(&side, &side, &DifferenceOptions::default()).is_err());
}

#[test]
fn what_is_forced_and_names_that_lie_stand_as_text() {
    let hostile =
        of_stacks(&[("t;<script>alert(1)</script>;a b 12;#c;\u{e001}x", 70), ("t;tab\tname;\"quoted\";=;x (A 1)", 30)]);
    let options = DifferenceOptions { forced: vec!["cpu and <mmap>".into()], ..DifferenceOptions::default() };
    let svg = drawn(&hostile, &hostile, &options);
    assert!(!svg.contains("<script>alert"), "{svg}");
    assert!(svg.contains("forced: cpu and &lt;mmap&gt;"));
    assert!((one(&svg, "a b_12").width - 70.0).abs() < 0.01);
    assert!((one(&svg, "=").width - 30.0).abs() < 0.01);
    let mut reader = quick_xml::Reader::from_str(&svg);
    while reader.read_event().expect("XML") != quick_xml::events::Event::Eof {}
}

#[test]
fn more_frames_than_there_are_marks_keep_their_own_names() {
    let names: Vec<String> = (0..13_000).map(|i| format!("t;main;f{i}")).collect();
    let stacks: Vec<(&str, u64)> = names.iter().map(|it| (it.as_str(), 1)).collect();
    let options = DifferenceOptions { min_share: 0.0, ..DifferenceOptions::default() };
    let profile = of_stacks(&stacks);
    let svg = drawn(&profile, &profile, &options);
    for i in [0, 6_398, 6_399, 6_400, 12_999] {
        one(&svg, &format!("f{i}"));
    }
    assert_eq!(svg.matches("<title>f").count(), 13_000);
}

#[test]
fn the_legend_stands_below_the_frames_inside_the_picture() {
    let svg = drawn(&a(), &b(), &DifferenceOptions::default());
    let numbers = |text: &str, name: &str| -> Vec<f64> {
        let start = format!(" {name}=\"");
        let values = text.split(&start).skip(1).filter_map(|it| it.split('"').next()?.parse().ok());
        values.collect()
    };
    let (frames, legend) = svg.split_once("<g id=\"legend\"").unwrap();
    let (header, frames) = frames.split_once("<svg id=\"frames\"").unwrap();
    let (_, moved) = legend.split_once("translate(0,").unwrap();
    let moved: f64 = moved.split(')').next().unwrap().parse().unwrap();
    let bottoms = frames.split("<rect").skip(1).map(|it| {
        let of = |name| numbers(it.split("/>").next().unwrap(), name)[0];
        of("y") + of("height")
    });
    let floor = bottoms.fold(0.0, f64::max);
    let squares = legend.split("<rect").skip(1).flat_map(|it| numbers(it.split('/').next().unwrap(), "y"));
    let top = moved + squares.fold(f64::INFINITY, f64::min);
    assert!(top > floor, "{top} and {floor}");
    let last = moved + numbers(legend, "y").into_iter().fold(0.0, f64::max);
    let heights = numbers(header, "height");
    assert!(heights.len() >= 2 && heights.iter().all(|it| *it > last + 4.0 && *it == heights[0]), "{heights:?} {last}");
    assert!(header.contains(&format!(" {}\" xmlns", heights[0])), "{header}");
    let right = legend.split("<text x=\"").skip(1).map(|it| {
        let (x, rest) = it.split_once('"').unwrap();
        let text = rest.split_once('>').unwrap().1.split('<').next().unwrap();
        x.parse::<f64>().unwrap() + 7.3 * text.len() as f64
    });
    assert!(right.fold(0.0, f64::max) <= 400.0, "{legend}");
}
