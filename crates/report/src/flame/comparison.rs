//! Differential flame graph of call paths, as wide as their mean cost on both sides, coloured by proven changes.

use archive::{ComparedFrame, ComparedStacks};
use measure::Problem;

use super::marked::{DrawnFrame, LESS, MORE, Marked, UNPROVEN, Widths, mark, shade};
use super::{drawable, no_samples};
use crate::text::functions::{frame_told, signed_time, time};
use crate::text::shortened;
use stacks::folded_name;

/// Characters of a name that are drawn, so that the file stays small.
const LONGEST: usize = 160;
/// In place of a function's missing name.
const NO_NAME: &str = "[unknown]";

/// Draws the differential flame graph of a comparison as SVG text.
///
/// # Errors
/// Where it has no stacks, or none of them costs anything.
pub fn comparison_svg(of: &ComparedStacks, title: &str) -> Result<Vec<u8>, Problem> {
    let all = of.broker.a + of.broker.b;
    if of.frames.is_empty() || all.is_nan() || all <= 0.0 {
        return Err(no_samples());
    }
    let full = full(of);
    let frames: Vec<DrawnFrame> = (of.frames.iter().enumerate())
        .map(|(at, frame)| drawn(of, frame, at, full))
        .collect();
    let names: Vec<String> = frames.iter().map(|it| it.name.clone()).collect();
    let shares: Vec<f64> = (of.frames.iter()).map(|it| (it.a + it.b) / all).collect();
    let widths = Widths {
        root: "",
        names: &names,
        drawn: &vec![true; frames.len()],
        shares: &shares,
    };
    let parent = |at: usize| {
        let frame = of.frames.get(at)?;
        frame.parent.map(|it| it as usize).filter(|it| *it < at)
    };
    let broker = &of.broker;
    let sides = format!(
        "CPU per message: A {}, B {}; widths are the mean of both; below {} % of it a frame belongs to its caller",
        time(broker.a),
        time(broker.b),
        of.least_share * 100.0,
    );
    let scale = match full > 0.0 {
        true => format!("full colour: {}, the largest proven change", time(full)),
        false => "no change is proven".to_owned(),
    };
    Marked {
        title,
        subtitle: &sides,
        frames: &frames,
        lines: &widths.lines(parent),
        all: &format!(
            "the whole broker (A {}, B {}, {})",
            time(broker.a),
            time(broker.b),
            signed_time(broker.change())
        ),
        legend: &[
            (Some(LESS), "cheaper in B"),
            (Some(MORE), "dearer in B"),
            (Some(UNPROVEN), "not proven: chance gives as much"),
            (None, &scale),
        ],
    }
    .svg()
}

/// The change that has the full colour; 0 where none is proven.
fn full(of: &ComparedStacks) -> f64 {
    let proven = of.frames.iter().filter(|it| it.proven);
    proven.fold(0.0, |full: f64, it| full.max(it.change().abs()))
}

fn drawn(of: &ComparedStacks, frame: &ComparedFrame, at: usize, full: f64) -> DrawnFrame {
    let name = of.name(frame).map_or("", |it| it.function.as_str());
    let name = drawable(&shortened(name, LONGEST));
    let name = folded_name(&name, NO_NAME);
    DrawnFrame {
        name: format!("{name}{}", mark(at)),
        tooltip: format!("{name} ({})", frame_told(frame)),
        colour: match frame.proven && full > 0.0 {
            true => shade(frame.change(), full),
            false => UNPROVEN,
        },
    }
}

#[cfg(test)]
mod tests {
    use archive::{ComparedName, CostChange};

    use super::*;

    fn stacks(count: u32) -> ComparedStacks {
        let frame = |parent, name, a: f64, b: f64, proven| ComparedFrame {
            parent,
            name,
            a,
            b,
            interval: (b - a - 10.0, b - a + 10.0),
            asked: proven,
            proven,
            visible: Some(50.0),
        };
        let mut frames = vec![
            frame(None, 0, 10_000.0, 10_500.0, false),
            frame(Some(0), 1, 1_000.0, 1_600.0, true),
            frame(Some(0), 2, 500.0, 300.0, true),
            frame(Some(0), 1, 400.0, 0.0, false),
        ];
        frames.extend((4..count).map(|_| frame(Some(1), 2, 20.0, 20.0, false)));
        ComparedStacks {
            broker: CostChange {
                a: 10_000.0,
                b: 10_500.0,
                ..CostChange::default()
            },
            names: ["scheduler", "route;<b>", &"x".repeat(5_000)]
                .map(|it| ComparedName {
                    function: it.to_owned(),
                    module: "m".to_owned(),
                })
                .to_vec(),
            frames,
            least_share: 0.001,
            ..ComparedStacks::default()
        }
    }

    #[test]
    fn what_is_proven_has_a_colour_and_all_else_is_grey() {
        let svg = String::from_utf8(comparison_svg(&stacks(4), "t").unwrap()).unwrap();
        let coloured = |start: &str| {
            let at = svg
                .find(start)
                .unwrap_or_else(|| panic!("{start} in {svg}"));
            let (_, rest) = svg[at..].split_once("fill=\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        assert_eq!(coloured("<title>scheduler (A"), "rgb(205,204,202)");
        // The largest change has the full colour, one of a third of it a third of it.
        assert_eq!(
            coloured("<title>route:&lt;b&gt; (A 1.00 us, B 1.60 us, +600 ns"),
            "rgb(230,159,0)"
        );
        assert_eq!(
            coloured("<title>route:&lt;b&gt; (A 400 ns"),
            "rgb(205,204,202)"
        );
        let cheaper = coloured("<title>xxx");
        assert!(
            !["rgb(205,204,202)", "rgb(255,255,255)"].contains(&cheaper.as_str()),
            "{cheaper}"
        );
        assert!(
            svg.contains("[+590 ns, +610 ns]") && svg.contains("shows from 50 ns"),
            "{svg}"
        );
        assert!(!svg.contains('\u{e000}'), "marks are taken out");
        let mut few = stacks(4);
        few.frames.iter_mut().for_each(|it| it.visible = None);
        let svg = String::from_utf8(comparison_svg(&few, "t").unwrap()).unwrap();
        assert!(
            svg.contains("too few runs to tell") && !svg.contains("shows from"),
            "{svg}"
        );
        assert!(!svg.contains("[+590 ns"), "{svg}");
    }

    #[test]
    fn the_file_stays_small_and_nothing_to_draw_is_told() {
        let svg = comparison_svg(&stacks(3_000), "t").unwrap();
        assert!(svg.len() < 3_000_000, "{}", svg.len());
        assert!(comparison_svg(&ComparedStacks::default(), "t").is_err());
    }
}
