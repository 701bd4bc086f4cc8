//! Differential flame graphs: the widths of one profile, the colours of how another differs.

use compare::{Amount, ShareDifference};
use measure::Problem;
use stacks::{Detail, Profile};

use super::marked::{DrawnFrame, LAST, LESS, MORE, Marked, SAME, UNPROVEN, Widths, mark, shade};
use super::{FlameOptions, MOST_FRAMES, drawn_names, without_recursion};
use crate::difference::{DifferenceSide, DifferenceTree};
use crate::numbers::{percent_digits, weight};

/// A change that is written as 0.00 points.
const NOTHING: f64 = 0.00005;

/// How the difference of two profiles is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferenceOptions {
    /// The image's heading.
    pub title: String,
    /// Whether frames are as wide as in the first profile, and not as in the second.
    pub widths_of_a: bool,
    /// Other differences between the two, in a few words each.
    pub forced: Vec<String>,
    /// Frames with less than this share (0 to 1) are folded into their callers.
    pub min_share: f64,
}

impl Default for DifferenceOptions {
    fn default() -> Self {
        Self {
            title: "Difference".to_owned(),
            widths_of_a: false,
            forced: Vec::new(),
            min_share: FlameOptions::default().min_share,
        }
    }
}

/// Draws the differential flame graph as SVG text: shares of each profile's own samples. What the profile that gives
/// the widths has nothing of, or too little to be drawn, stands by itself at the right.
///
/// # Errors
/// Where neither profile has a sample.
pub fn difference_svg(
    a: &DifferenceSide<'_>,
    b: &DifferenceSide<'_>,
    options: &DifferenceOptions,
) -> Result<Vec<u8>, Problem> {
    let tree = tree(a.profile, b.profile);
    let picture = Picture::new(&tree, options);
    let amount =
        |side: &DifferenceSide<'_>| weight(side.profile.total_weight(), &side.profile.header.unit);
    let widths = if options.widths_of_a { "A" } else { "B" };
    let forced = options.forced.iter().map(|why| format!("forced: {why}, "));
    let sides = format!(
        "{}A: {}, {}; B: {}, {}; widths of {widths}",
        forced.collect::<String>(),
        a.name,
        amount(a),
        b.name,
        amount(b)
    );
    let points = picture.full * 100.0;
    let scale = match picture.full > 0.0 {
        true => format!("full colour: {points:.2} points, the largest change"),
        false => "no change is proven".to_owned(),
    };
    // Its blocks have callers that both sides have.
    let has_elided = picture.frames.iter().any(|it| it.name.starts_with(LAST));
    let same = match has_elided {
        true => "the same, or a caller of what one side alone has",
        false => "the same",
    };
    Marked {
        title: &options.title,
        subtitle: &sides,
        frames: &picture.frames,
        lines: &picture.lines,
        all: &format!("all (A {}, B {})", amount(a), amount(b)),
        legend: &[
            (Some(LESS), "less in B"),
            (Some(MORE), "more in B"),
            (Some(SAME), same),
            (Some(UNPROVEN), "not proven: chance gives as much"),
            (None, &scale),
        ],
    }
    .svg()
}

/// The stacks of both.
fn tree(a: &Profile, b: &Profile) -> DifferenceTree {
    let threads = a.has_threads() && b.has_threads();
    let detail = Detail {
        least_weight: 0,
        most_frames: MOST_FRAMES,
    };
    let mut tree = DifferenceTree::default();
    for (side, profile) in [a, b].into_iter().enumerate() {
        let groups = profile.thread_groups();
        let mut names = drawn_names(profile, &groups.names);
        if !threads {
            names.groups = None;
        }
        let squares = profile.squares();
        let squared = squares.profile.folded_lines(&groups, detail, &names);
        let lines = profile.folded_lines(&groups, detail, &names);
        for ((line, weight), (_, square)) in lines.zip(squared) {
            let amount = Amount {
                weight: weight as f64,
                squares: square as f64 * squares.scale,
            };
            tree.add(side, &without_recursion(&line), amount);
        }
    }
    tree
}

/// Frames to draw.
struct Picture {
    frames: Vec<DrawnFrame>,
    /// Folded text of the frames' names.
    lines: Vec<String>,
    /// The change that has the full colour; 0 where none is proven.
    full: f64,
}

impl Picture {
    fn new(tree: &DifferenceTree, options: &DifferenceOptions) -> Self {
        let differences = tree.differences();
        let widths = |it: &ShareDifference| match options.widths_of_a {
            true => (it.a, it.b),
            false => (it.b, it.a),
        };
        let least = options.min_share;
        let wide: Vec<bool> = (differences.iter())
            .map(|it| widths(it).0 >= least && widths(it).0 > 0.0)
            .collect();
        let alone: Vec<bool> = (differences.iter().zip(&wide))
            .map(|(it, wide)| !wide && widths(it).1 >= least && widths(it).1 > 0.0)
            .collect();
        let drawn = differences.iter().zip(wide.iter().zip(&alone));
        let drawn = drawn.filter(|(it, (wide, alone))| it.proven && (**wide || **alone));
        let full = drawn.fold(0.0, |full: f64, (it, _)| full.max(it.change().abs()));

        let mut picture = Self {
            frames: Vec::new(),
            lines: Vec::new(),
            full,
        };
        let shares: Vec<f64> = differences.iter().map(|it| widths(it).0).collect();
        let others: Vec<f64> = differences.iter().map(|it| widths(it).1).collect();
        let main = picture.frames(tree, &differences, &wide);
        picture.stacks(tree, "", &main, &wide, &shares);
        if alone.contains(&true) {
            picture.elided(tree, &differences, &alone, &others, options.widths_of_a);
        }
        picture
    }

    /// Draws nodes; the names of all, empty where a node is not drawn.
    fn frames(
        &mut self,
        tree: &DifferenceTree,
        differences: &[ShareDifference],
        drawn: &[bool],
    ) -> Vec<String> {
        let nodes = tree.nodes.iter().zip(differences.iter().zip(drawn));
        let names = nodes.map(|(node, (it, drawn))| {
            if !drawn {
                return String::new();
            }
            let name = tree.names.get(node.name).map_or("", String::as_str);
            self.frame(name, it, "")
        });
        names.collect()
    }

    /// Draws a node; its name.
    fn frame(&mut self, name: &str, of: &ShareDifference, why: &str) -> String {
        let marked = format!("{name}{}", mark(self.frames.len()));
        let proven = if of.proven || of.change().abs() < NOTHING {
            ""
        } else {
            ", not proven"
        };
        self.frames.push(DrawnFrame {
            name: marked.clone(),
            tooltip: format!("{name} ({why}{}{proven})", shares(of)),
            colour: coloured(of, self.full),
        });
        marked
    }

    /// Writes the widths of the drawn nodes, without those of their drawn callees.
    fn stacks(
        &mut self,
        tree: &DifferenceTree,
        root: &str,
        names: &[String],
        drawn: &[bool],
        shares: &[f64],
    ) {
        let widths = Widths {
            root,
            names,
            drawn,
            shares,
        };
        let lines = widths.lines(|at| tree.nodes.get(at).and_then(|node| node.parent));
        self.lines.extend(lines);
    }

    /// Draws frames that the profile which gives the widths lacks, below one frame of their own, with their callers.
    fn elided(
        &mut self,
        tree: &DifferenceTree,
        differences: &[ShareDifference],
        alone: &[bool],
        shares: &[f64],
        widths_of_a: bool,
    ) {
        let (of, in_which) = if widths_of_a { ("B", "A") } else { ("A", "B") };
        let mut with_callers = alone.to_vec();
        for (at, node) in tree.nodes.iter().enumerate().rev() {
            if with_callers.get(at) == Some(&true)
                && let Some(caller) = node.parent.and_then(|it| with_callers.get_mut(it))
            {
                *caller = true;
            }
        }
        let is = |of: &[bool], at: usize| of.get(at) == Some(&true);
        let tops = tree.nodes.iter().enumerate().filter(|(at, node)| {
            is(alone, *at) && node.parent.is_none_or(|caller| !is(alone, caller))
        });
        let share: f64 = tops.filter_map(|(at, _)| shares.get(at)).sum();
        let mut names = vec![String::new(); tree.nodes.len()];
        for (at, (node, it)) in tree.nodes.iter().zip(differences).enumerate() {
            let Some(place) = names.get_mut(at).filter(|_| is(&with_callers, at)) else {
                continue;
            };
            let name = tree.names.get(node.name).map_or("", String::as_str);
            let why = match is(alone, at) {
                true => String::new(),
                false => format!("caller of what only {of} has: "),
            };
            *place = self.frame(name, it, &why);
            if !is(alone, at)
                && let Some(frame) = self.frames.last_mut()
            {
                frame.colour = SAME;
            }
        }
        let root = format!("{LAST}only in {of}");
        let percent = percent_digits(share);
        self.frames.push(DrawnFrame {
            name: root.clone(),
            tooltip: format!("only in {of} ({percent} % of {of} is nothing in {in_which}, or too narrow to be drawn)"),
            colour: SAME,
        });
        self.stacks(tree, &root, &names, alone, shares);
    }
}

/// `A 1.20 %, B 3.40 %, +2.20 points`.
fn shares(of: &ShareDifference) -> String {
    let (a, b) = (percent_digits(of.a), percent_digits(of.b));
    format!("A {a} %, B {b} %, {:+.2} points", of.change() * 100.0)
}

/// The colour of a change, beside the largest.
fn coloured(of: &ShareDifference, full: f64) -> [u8; 3] {
    match of.change() {
        change if change.abs() < NOTHING => SAME,
        change if of.proven && full > 0.0 => shade(change, full),
        _ => UNPROVEN,
    }
}
