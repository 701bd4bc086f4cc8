//! Pictures whose frames have colours and tooltips of their own.
//!
//! `inferno` colours by name and makes its own tooltips, so each frame gets a name of its own: a mark behind it, of
//! characters that no name has, which is taken out of the finished picture.

use std::fmt::Write as _;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap, StrokeColor};
use inferno::flamegraph::{
    Direction, FuncFrameAttrsMap, Options, TextTruncateDirection, from_lines,
};
use measure::Problem;

use super::{drawable, height, higher, no_samples, subtitle_wrapped};

/// The first of the characters that marks are made of, of Unicode's private use.
const FIRST_MARK: u32 = 0xe000;
/// How many of them there are: digits of a number.
const MARKS: usize = 0x1900 - 1;
/// Sorts behind all names, and is none of the digits.
pub(super) const LAST: char = '\u{f8ff}';
/// Units that 100 % is as wide as.
pub(super) const UNITS: f64 = 1e9;

/// More, less, not proven, and no change (Okabe and Ito's orange and sky blue, safe for red-green colour blindness;
/// black text is readable on both).
pub(super) const MORE: [u8; 3] = [0xe6, 0x9f, 0x00];
pub(super) const LESS: [u8; 3] = [0x56, 0xb4, 0xe9];
pub(super) const UNPROVEN: [u8; 3] = [0xcd, 0xcc, 0xca];
pub(super) const SAME: [u8; 3] = [0xff, 0xff, 0xff];

/// A frame as it is drawn.
pub(super) struct DrawnFrame {
    /// Its name with a mark behind it.
    pub(super) name: String,
    pub(super) tooltip: String,
    pub(super) colour: [u8; 3],
}

/// A picture without its drawing.
pub(super) struct Marked<'p> {
    pub(super) title: &'p str,
    pub(super) subtitle: &'p str,
    pub(super) frames: &'p [DrawnFrame],
    /// Folded text of the frames' names.
    pub(super) lines: &'p [String],
    /// Text of the root frame.
    pub(super) all: &'p str,
    /// Meaning of colours; an entry without a colour is words alone.
    pub(super) legend: &'p [(Option<[u8; 3]>, &'p str)],
}

impl Marked<'_> {
    /// The picture as SVG text.
    ///
    /// # Errors
    /// Where there is nothing to draw.
    pub(super) fn svg(&self) -> Result<Vec<u8>, Problem> {
        let mut attributes = String::new();
        let mut palette = PaletteMap::default();
        palette.insert("", colour(SAME));
        for frame in self.frames {
            // Writing to a string cannot fail.
            let _ = writeln!(attributes, "{}\ttitle={}", frame.name, frame.tooltip);
            palette.insert(&frame.name, colour(frame.colour));
        }
        let mut drawing = Options::default();
        drawing.title = drawable(self.title);
        drawing.subtitle = Some(drawable(self.subtitle));
        drawing.direction = Direction::Inverted;
        drawing.bgcolors = Some(BackgroundColor::Flat(Color::new(0xf1, 0xf0, 0xee)));
        drawing.stroke_color = StrokeColor::Color(Color::new(0xa9, 0xa8, 0xa5));
        drawing.palette_map = Some(&mut palette);
        drawing.text_truncate_direction = TextTruncateDirection::Right;
        drawing.min_width = 0.0;
        drawing.func_frameattrs =
            FuncFrameAttrsMap::from_reader(attributes.as_bytes()).map_err(|_| no_samples())?;
        let mut out = Vec::new();
        let lines = self.lines.iter().map(String::as_str);
        from_lines(&mut drawing, lines, &mut out).map_err(|_| no_samples())?;
        let svg = String::from_utf8_lossy(&out).into_owned();
        let svg = subtitle_wrapped(svg, &drawable(self.subtitle));
        Ok(self.finished(&svg).into_bytes())
    }

    /// The picture without marks, with a legend and another tooltip for the frame of all.
    fn finished(&self, svg: &str) -> String {
        let all = quick_xml::escape::escape(drawable(self.all)).into_owned();
        let svg: String = svg.chars().filter(|c| !is_mark(*c)).collect();
        let (before, rest) = svg.split_once("<title>all (").unwrap_or((&svg, ""));
        let (_, after) = rest.split_once("</title>").unwrap_or(("", rest));
        let (legend, room) = legend(self.legend);
        // The picture ends below the frames.
        let (height, before) = (height(before), higher(before, room));
        let mut svg = format!("{before}<title>{all}</title>{after}");
        if let Some(end) = svg.rfind("</svg>") {
            let legend =
                format!("<g id=\"legend\" transform=\"translate(0,{height})\">{legend}</g>");
            svg.insert_str(end, &legend);
        }
        svg
    }
}

/// Widths of a tree's frames, and the drawn ones.
pub(super) struct Widths<'w> {
    /// Name of the root; empty without one.
    pub(super) root: &'w str,
    /// The marked names; empty where a frame is not drawn.
    pub(super) names: &'w [String],
    pub(super) drawn: &'w [bool],
    /// Share of each frame with all that it calls (0 to 1).
    pub(super) shares: &'w [f64],
}

impl Widths<'_> {
    /// The drawn frames as folded text, each without its drawn callees. Callers, which `parent` gives, come first.
    pub(super) fn lines(&self, parent: impl Fn(usize) -> Option<usize>) -> Vec<String> {
        let units = |at: usize| {
            let share = self.shares.get(at).copied().unwrap_or(0.0);
            (share * UNITS).round() as u64
        };
        let is_drawn = |at: usize| self.drawn.get(at) == Some(&true);
        let count = self.shares.len();
        let mut own: Vec<u64> = (0..count).map(units).collect();
        for at in (0..count).filter(|at| is_drawn(*at)) {
            if let Some(caller) = parent(at).and_then(|it| own.get_mut(it)) {
                *caller = caller.saturating_sub(units(at));
            }
        }
        let mut lines = Vec::new();
        for (at, own) in own.into_iter().enumerate() {
            if own == 0 || !is_drawn(at) {
                continue;
            }
            let mut path = Vec::new();
            let mut next = Some(at);
            while let Some(this) = next {
                path.push(self.names.get(this).map_or("", String::as_str));
                next = parent(this);
            }
            path.extend((!self.root.is_empty()).then_some(self.root));
            path.reverse();
            lines.push(format!("{} {own}", path.join(";")));
        }
        lines
    }
}

/// The colour of a proven change, beside the largest.
pub(super) fn shade(change: f64, full: f64) -> [u8; 3] {
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
pub(super) fn mark(number: usize) -> String {
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
