//! Differential flame graphs: the widths of one profile with the colours of how another differs; and the call paths of
//! a comparison, as wide as their mean cost on both sides, coloured by proven changes.
//!
//! `inferno` colours by name and makes its own tooltips, so each frame gets a name of its own: a mark behind it, of
//! characters that no name has, which is taken out of the finished picture.

use std::fmt::Write as _;

use archive::{ComparedFrame, ComparedStacks};
use compare::{Amount, ShareDifference};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap, StrokeColor};
use inferno::flamegraph::{FuncFrameAttrsMap, Options};
use measure::Problem;
use stacks::{Detail, Profile, folded_name};

use super::{FlameOptions, MOST_FRAMES, draw, drawable, drawn_names, height, higher, no_samples, without_recursion};
use crate::difference::{DifferenceSide, DifferenceTree};
use crate::numbers::{percent_digits, weight};
use crate::text::functions::{frame_told, signed_time, time};
use crate::text::shortened;

/// A change that is written as 0.00 points.
const NOTHING: f64 = 0.00005;

/// Characters of a name that are drawn, so that the file stays small.
const LONGEST: usize = 160;
/// In place of a function's missing name.
const NO_NAME: &str = "[unknown]";

/// The first of the characters that marks are made of, of Unicode's private use.
const FIRST_MARK: u32 = 0xe000;
/// How many of them there are: digits of a number.
const MARKS: usize = 0x1900 - 1;
/// Sorts behind all names, and is none of the digits.
const LAST: char = '\u{f8ff}';
/// Units that 100 % is as wide as.
const UNITS: f64 = 1e9;

/// More, less, not proven, and no change (Okabe and Ito's orange and sky blue, safe for colour-blind readers).
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

/// Draws the differential flame graph as SVG text: shares of each profile's own samples. What the profile of the widths
/// lacks, or is too narrow to be drawn, stands at the right. Fails where neither profile has a sample.
pub fn difference_svg(
    a: &DifferenceSide<'_>,
    b: &DifferenceSide<'_>,
    options: &DifferenceOptions,
) -> Result<Vec<u8>, Problem> {
    let tree = tree(a.profile, b.profile);
    let picture = Picture::new(&tree, options);
    let amount = |side: &DifferenceSide<'_>| weight(side.profile.total_weight(), &side.profile.header.unit);
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
    let same = if has_elided { "the same, or a caller of what one side alone has" } else { "the same" };
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

fn tree(a: &Profile, b: &Profile) -> DifferenceTree {
    let threads = a.has_threads() && b.has_threads();
    let detail = Detail { least_weight: 0, most_frames: MOST_FRAMES };
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
            let amount = Amount { weight: weight as f64, squares: square as f64 * squares.scale };
            tree.add(side, &without_recursion(&line), amount);
        }
    }
    tree
}

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
        let widths = |it: &ShareDifference| if options.widths_of_a { (it.a, it.b) } else { (it.b, it.a) };
        let least = options.min_share;
        let wide: Vec<bool> = (differences.iter()).map(|it| widths(it).0 >= least && widths(it).0 > 0.0).collect();
        let alone: Vec<bool> = (differences.iter().zip(&wide))
            .map(|(it, wide)| !wide && widths(it).1 >= least && widths(it).1 > 0.0)
            .collect();
        let drawn = differences.iter().zip(wide.iter().zip(&alone));
        let drawn = drawn.filter(|(it, (wide, alone))| it.proven && (**wide || **alone)).map(|(it, _)| it);
        let full = drawn.fold(0.0, |full: f64, it| full.max(it.change().abs()));

        let mut picture = Self { frames: Vec::new(), lines: Vec::new(), full };
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
    fn frames(&mut self, tree: &DifferenceTree, differences: &[ShareDifference], drawn: &[bool]) -> Vec<String> {
        let names = tree.nodes.iter().zip(differences.iter().zip(drawn)).map(|(node, (it, drawn))| {
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
        let proven = if of.proven || of.change().abs() < NOTHING { "" } else { ", not proven" };
        self.frames.push(DrawnFrame {
            name: marked.clone(),
            tooltip: format!("{name} ({why}{}{proven})", shares(of)),
            colour: coloured(of, self.full),
        });
        marked
    }

    /// Writes the widths of the drawn nodes, without those of their drawn callees.
    fn stacks(&mut self, tree: &DifferenceTree, root: &str, names: &[String], drawn: &[bool], shares: &[f64]) {
        self.lines.extend(folded(root, names, drawn, shares, |at| tree.nodes.get(at).and_then(|node| node.parent)));
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
        let tops = tree
            .nodes
            .iter()
            .enumerate()
            .filter(|(at, node)| is(alone, *at) && node.parent.is_none_or(|caller| !is(alone, caller)));
        let share: f64 = tops.filter_map(|(at, _)| shares.get(at)).sum();
        let mut names = vec![String::new(); tree.nodes.len()];
        for (at, (node, it)) in tree.nodes.iter().zip(differences).enumerate() {
            let Some(place) = names.get_mut(at).filter(|_| is(&with_callers, at)) else { continue };
            let name = tree.names.get(node.name).map_or("", String::as_str);
            let is_alone = is(alone, at);
            let why = if is_alone { String::new() } else { format!("caller of what only {of} has: ") };
            *place = self.frame(name, it, &why);
            if let Some(frame) = self.frames.last_mut().filter(|_| !is_alone) {
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

/// Draws a comparison's differential flame graph as SVG text. Errors: where it has no stacks, or none costs anything.
pub fn comparison_svg(of: &ComparedStacks, title: &str) -> Result<Vec<u8>, Problem> {
    let all = of.broker.a + of.broker.b;
    if of.frames.is_empty() || all.is_nan() || all <= 0.0 {
        return Err(no_samples());
    }
    let full = of.frames.iter().filter(|it| it.proven).fold(0.0, |full: f64, it| full.max(it.change().abs()));
    let frames: Vec<DrawnFrame> =
        (of.frames.iter().enumerate()).map(|(at, frame)| drawn(of, frame, at, full)).collect();
    let names: Vec<String> = frames.iter().map(|it| it.name.clone()).collect();
    let shares: Vec<f64> = (of.frames.iter()).map(|it| (it.a + it.b) / all).collect();
    let parent = |at: usize| of.frames.get(at)?.parent.map(|it| it as usize).filter(|it| *it < at);
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
        lines: &folded("", &names, &vec![true; frames.len()], &shares, parent),
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

fn drawn(of: &ComparedStacks, frame: &ComparedFrame, at: usize, full: f64) -> DrawnFrame {
    let name = of.name(frame).map_or("", |it| it.function.as_str());
    let name = drawable(&shortened(name, LONGEST));
    let name = folded_name(&name, NO_NAME);
    DrawnFrame {
        name: format!("{name}{}", mark(at)),
        tooltip: format!("{name} ({})", frame_told(frame)),
        colour: if frame.proven && full > 0.0 { shade(frame.change(), full) } else { UNPROVEN },
    }
}

struct DrawnFrame {
    /// Its name with a mark behind it.
    name: String,
    tooltip: String,
    colour: [u8; 3],
}

/// A picture without its drawing.
struct Marked<'p> {
    title: &'p str,
    subtitle: &'p str,
    frames: &'p [DrawnFrame],
    /// Folded text of the frames' names.
    lines: &'p [String],
    /// Text of the root frame.
    all: &'p str,
    /// Meaning of colours; an entry without a colour is words alone.
    legend: &'p [(Option<[u8; 3]>, &'p str)],
}

impl Marked<'_> {
    /// The picture as SVG text; fails where there is nothing to draw.
    fn svg(&self) -> Result<Vec<u8>, Problem> {
        let mut attributes = String::new();
        let mut palette = PaletteMap::default();
        palette.insert("", colour(SAME));
        for frame in self.frames {
            // Writing to a string cannot fail.
            let _ = writeln!(attributes, "{}\ttitle={}", frame.name, frame.tooltip);
            palette.insert(&frame.name, colour(frame.colour));
        }
        let mut drawing = Options::default();
        drawing.bgcolors = Some(BackgroundColor::Flat(Color::new(0xf1, 0xf0, 0xee)));
        drawing.stroke_color = StrokeColor::Color(Color::new(0xa9, 0xa8, 0xa5));
        drawing.palette_map = Some(&mut palette);
        drawing.min_width = 0.0;
        drawing.func_frameattrs = FuncFrameAttrsMap::from_reader(attributes.as_bytes()).map_err(|_| no_samples())?;
        let svg = draw(drawing, self.title, self.subtitle, self.lines)?;
        Ok(self.finished(&svg).into_bytes())
    }

    /// The picture without marks, with a legend and another tooltip for the frame of all.
    fn finished(&self, svg: &str) -> String {
        let all = quick_xml::escape::escape(drawable(self.all)).into_owned();
        let is_mark = |c: &char| (FIRST_MARK..=u32::from(LAST)).contains(&u32::from(*c));
        let svg: String = svg.chars().filter(|c| !is_mark(c)).collect();
        let (before, rest) = svg.split_once("<title>all (").unwrap_or((&svg, ""));
        let (_, after) = rest.split_once("</title>").unwrap_or(("", rest));
        let (legend, room) = legend(self.legend);
        // The picture ends below the frames.
        let (height, before) = (height(before), higher(before, room));
        let mut svg = format!("{before}<title>{all}</title>{after}");
        if let Some(end) = svg.rfind("</svg>") {
            let legend = format!("<g id=\"legend\" transform=\"translate(0,{height})\">{legend}</g>");
            svg.insert_str(end, &legend);
        }
        svg
    }
}

/// The drawn frames of a tree as folded text, each without its drawn callees, callers (`parent`) first. `names` are
/// marked, and empty where not drawn, as is a missing `root`; `shares` (0 to 1) include callees.
fn folded(
    root: &str,
    names: &[String],
    drawn: &[bool],
    shares: &[f64],
    parent: impl Fn(usize) -> Option<usize>,
) -> Vec<String> {
    let units = |at: usize| (shares.get(at).copied().unwrap_or(0.0) * UNITS).round() as u64;
    let is_drawn = |at: usize| drawn.get(at) == Some(&true);
    let mut own: Vec<u64> = (0..shares.len()).map(units).collect();
    for at in (0..shares.len()).filter(|at| is_drawn(*at)) {
        if let Some(caller) = parent(at).and_then(|it| own.get_mut(it)) {
            *caller = caller.saturating_sub(units(at));
        }
    }
    let mut lines = Vec::new();
    for (at, own) in own.into_iter().enumerate().filter(|(at, own)| *own > 0 && is_drawn(*at)) {
        let callers = std::iter::successors(Some(at), |at| parent(*at));
        let mut path: Vec<&str> = callers.map(|at| names.get(at).map_or("", String::as_str)).collect();
        path.extend((!root.is_empty()).then_some(root));
        path.reverse();
        lines.push(format!("{} {own}", path.join(";")));
    }
    lines
}
/// The colour of a proven change, beside the largest.
fn shade(change: f64, full: f64) -> [u8; 3] {
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

/// Lines below a picture that explain the colours, and the height that they add. Narrow screens have room for them.
fn legend(rows: &[(Option<[u8; 3]>, &str)]) -> (String, usize) {
    const LEFT: f64 = 10.0;
    const WIDEST: f64 = 390.0;
    const LINE: usize = 20;
    // A square stands in what `inferno` leaves free below the frames.
    let (mut text, mut x, mut y) = (String::new(), LEFT, 0);
    for (colour, what) in rows {
        let square = if colour.is_some() { 17.0 } else { 0.0 };
        let wide = square + 7.3 * what.chars().count() as f64;
        if x > LEFT && x + wide > WIDEST {
            (x, y) = (LEFT, y + LINE);
        }
        if let Some([r, g, b]) = colour {
            let top = y as f64 - 10.0;
            let _ = write!(
                text,
                "<rect x=\"{x}\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"rgb({r},{g},{b})\" stroke=\"#777\"/>"
            );
        }
        let _ = write!(text, "<text x=\"{}\" y=\"{y}\">{what}</text>", x + square);
        x += wide + 18.0;
    }
    (text, y + LINE / 2)
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
            broker: CostChange { a: 10_000.0, b: 10_500.0, ..CostChange::default() },
            names: ["scheduler", "route;<b>", &"x".repeat(5_000)]
                .map(|it| ComparedName { function: it.to_owned(), module: "m".to_owned() })
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
            let at = svg.find(start).unwrap_or_else(|| panic!("{start} in {svg}"));
            let (_, rest) = svg[at..].split_once("fill=\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        assert_eq!(coloured("<title>scheduler (A"), "rgb(205,204,202)");
        // The largest change has the full colour, one of a third of it a third of it.
        assert_eq!(coloured("<title>route:&lt;b&gt; (A 1.00 µs, B 1.60 µs, +600 ns"), "rgb(230,159,0)");
        assert_eq!(coloured("<title>route:&lt;b&gt; (A 400 ns"), "rgb(205,204,202)");
        let cheaper = coloured("<title>xxx");
        assert!(!["rgb(205,204,202)", "rgb(255,255,255)"].contains(&cheaper.as_str()), "{cheaper}");
        assert!(svg.contains("[+590 ns, +610 ns]") && svg.contains("shows from 50 ns"), "{svg}");
        assert!(!svg.contains('\u{e000}'), "marks are taken out");
        let mut few = stacks(4);
        few.frames.iter_mut().for_each(|it| it.visible = None);
        let svg = String::from_utf8(comparison_svg(&few, "t").unwrap()).unwrap();
        assert!(svg.contains("too few runs") && !svg.contains("shows from"), "{svg}");
        assert!(!svg.contains("[+590 ns"), "{svg}");
    }

    #[test]
    fn the_file_stays_small_and_nothing_to_draw_is_told() {
        let svg = comparison_svg(&stacks(3_000), "t").unwrap();
        assert!(svg.len() < 3_000_000, "{}", svg.len());
        assert!(comparison_svg(&ComparedStacks::default(), "t").is_err());
    }
}
