//! Differential flame graphs: the widths of one profile, the colours of how another differs.
//!
//! `inferno` colours by name and makes its own tooltips, so each frame gets a name of its own: a mark behind it, of
//! characters that no name has, which is taken out of the finished picture.

use std::fmt::Write as _;

use archive::profile::{Detail, Profile};
use compare::{Amount, ShareDifference};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap, StrokeColor};
use inferno::flamegraph::{
    Direction, FuncFrameAttrsMap, Options, TextTruncateDirection, from_lines,
};
use measure::Problem;

use super::{FlameOptions, MOST_FRAMES, drawable, drawn_names, no_samples, without_recursion};
use crate::difference::{DifferenceSide, DifferenceTree};
use crate::numbers::{percent_digits, weight};

/// The first of the characters that marks are made of, of Unicode's private use.
const FIRST_MARK: u32 = 0xe000;
/// How many of them there are: digits of a number.
const MARKS: usize = 0x1900 - 1;
/// Sorts behind all names, and is none of the digits.
const LAST: char = '\u{f8ff}';
/// Units that 100 % is as wide as.
const UNITS: f64 = 1e9;
/// A change that is written as 0.00 points.
const NOTHING: f64 = 0.00005;

/// More, less, not proven, and no change (Okabe and Ito's orange and sky blue, which people tell apart who see red and
/// green alike; black text can be read on both).
const MORE: [u8; 3] = [0xe6, 0x9f, 0x00];
const LESS: [u8; 3] = [0x56, 0xb4, 0xe9];
const UNPROVEN: [u8; 3] = [0xcd, 0xcc, 0xca];
const SAME: [u8; 3] = [0xff, 0xff, 0xff];

/// How the difference of two profiles is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferenceOptions {
    /// The image's heading.
    pub title: String,
    /// Whether frames are as wide as in the first profile, and not as in the second.
    pub widths_of_a: bool,
    /// What makes the two differ in another way, in a few words each.
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

/// Draws the differential flame graph as SVG text: shares of each profile's own samples. What the profile that gives the
/// widths has nothing of, or too little to be drawn, stands by itself at the right.
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
    let mut attributes = String::new();
    let mut palette = PaletteMap::default();
    palette.insert("", colour(SAME));
    for frame in &picture.frames {
        // Writing to a string cannot fail.
        let _ = writeln!(attributes, "{}\ttitle={}", frame.name, frame.tooltip);
        palette.insert(&frame.name, colour(frame.colour));
    }
    let amount =
        |side: &DifferenceSide<'_>| weight(side.profile.total_weight(), &side.profile.header.unit);
    let mut drawing = Options::default();
    drawing.title = drawable(&options.title);
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
    drawing.subtitle = Some(drawable(&sides));
    drawing.direction = Direction::Inverted;
    drawing.bgcolors = Some(BackgroundColor::Flat(Color::new(0xf1, 0xf0, 0xee)));
    drawing.stroke_color = StrokeColor::Color(Color::new(0xa9, 0xa8, 0xa5));
    drawing.palette_map = Some(&mut palette);
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    drawing.min_width = 0.0;
    drawing.func_frameattrs =
        FuncFrameAttrsMap::from_reader(attributes.as_bytes()).map_err(|_| no_samples())?;
    let mut out = Vec::new();
    let lines = picture.lines.iter().map(String::as_str);
    from_lines(&mut drawing, lines, &mut out).map_err(|_| no_samples())?;
    let all = format!("all (A {}, B {})", amount(a), amount(b));
    let all = quick_xml::escape::escape(drawable(&all)).into_owned();
    Ok(finished(&String::from_utf8_lossy(&out), &all, &picture).into_bytes())
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

/// A frame as it is drawn.
struct DrawnFrame {
    /// Its name with a mark behind it.
    name: String,
    tooltip: String,
    colour: [u8; 3],
}

/// What is drawn.
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
            colour: shade(of, self.full),
        });
        marked
    }

    /// Writes down how wide the drawn nodes are, by what they have beyond their drawn callees.
    fn stacks(
        &mut self,
        tree: &DifferenceTree,
        root: &str,
        names: &[String],
        drawn: &[bool],
        shares: &[f64],
    ) {
        let units = |at: usize| (shares.get(at).copied().unwrap_or(0.0) * UNITS).round() as u64;
        let is_drawn = |at: usize| drawn.get(at) == Some(&true);
        let mut own: Vec<u64> = (0..tree.nodes.len()).map(units).collect();
        for (at, node) in tree
            .nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| is_drawn(*at))
        {
            if let Some(caller) = node.parent.and_then(|it| own.get_mut(it)) {
                *caller = caller.saturating_sub(units(at));
            }
        }
        for (at, own) in own.into_iter().enumerate() {
            if own == 0 || !is_drawn(at) {
                continue;
            }
            let mut path = Vec::new();
            let mut next = Some(at);
            while let Some((this, node)) = next.and_then(|it| Some((it, tree.nodes.get(it)?))) {
                path.push(names.get(this).map_or("", String::as_str));
                next = node.parent;
            }
            path.extend((!root.is_empty()).then_some(root));
            path.reverse();
            self.lines.push(format!("{} {own}", path.join(";")));
        }
    }

    /// Draws what has no width in the profile that gives the widths, below one frame of its own, with its callers.
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
fn shade(of: &ShareDifference, full: f64) -> [u8; 3] {
    let change = of.change();
    if change.abs() < NOTHING {
        return SAME;
    }
    if !of.proven || full <= 0.0 {
        return UNPROVEN;
    }
    let to = if change > 0.0 { MORE } else { LESS };
    // The faintest can be told from white.
    let strength = 0.2 + 0.8 * (change.abs() / full).min(1.0);
    let mut shade = SAME;
    for (channel, to) in shade.iter_mut().zip(to) {
        let from = f64::from(*channel);
        *channel = (from + (f64::from(to) - from) * strength).round() as u8;
    }
    shade
}

const fn colour([r, g, b]: [u8; 3]) -> Color {
    Color::new(r, g, b)
}

/// A number as characters that no name has.
fn mark(number: usize) -> String {
    let digit = |value: usize| char::from_u32(FIRST_MARK + (value % MARKS) as u32);
    let mut mark: String = digit(number).into_iter().collect();
    let mut rest = number / MARKS;
    while rest > 0 {
        mark.extend(digit(rest));
        rest /= MARKS;
    }
    mark
}

fn is_mark(c: char) -> bool {
    (FIRST_MARK..=u32::from(LAST)).contains(&u32::from(c))
}

/// The picture without marks, with a legend and another tooltip for the frame of all.
fn finished(svg: &str, all: &str, picture: &Picture) -> String {
    let svg: String = svg.chars().filter(|c| !is_mark(*c)).collect();
    let (before, rest) = svg.split_once("<title>all (").unwrap_or((&svg, ""));
    let (_, after) = rest.split_once("</title>").unwrap_or(("", rest));
    let mut svg = format!("{before}<title>{all}</title>{after}");
    let height = before.split_once(" height=\"").and_then(|(_, rest)| {
        let (height, _) = rest.split_once('"')?;
        height.parse::<f64>().ok()
    });
    if let Some(end) = svg.rfind("</svg>") {
        svg.insert_str(end, &legend(height.unwrap_or(0.0) - 17.0, picture.full));
    }
    svg
}

/// What the colours mean, at the bottom.
fn legend(y: f64, full: f64) -> String {
    let points = full * 100.0;
    let scale = match full > 0.0 {
        true => format!("full colour: {points:.2} points, the largest change"),
        false => "no change is proven".to_owned(),
    };
    let rows = [
        (Some(LESS), "less in B"),
        (Some(MORE), "more in B"),
        (Some(SAME), "the same"),
        (Some(UNPROVEN), "not proven: chance gives as much"),
        (None, scale.as_str()),
    ];
    let (mut text, mut x) = ("<g id=\"legend\">".to_owned(), 10.0);
    for (colour, what) in rows {
        if let Some([r, g, b]) = colour {
            let top = y - 10.0;
            let _ = write!(
                text,
                "<rect x=\"{x}\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"rgb({r},{g},{b})\" stroke=\"#777\"/>"
            );
            x += 17.0;
        }
        let _ = write!(text, "<text x=\"{x}\" y=\"{y}\">{what}</text>");
        x += 7.3 * what.len() as f64 + 18.0;
    }
    text + "</g>"
}
