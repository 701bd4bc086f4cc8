//! Flame graphs as self-contained SVG, drawn by `inferno`.
//!
//! `inferno` reads folded text, one line per distinct stack, of which a large profile has more than an image has
//! pixels: what would be narrower than one is folded into its caller, and what lies too deep into one frame.

mod difference;

use std::fmt::Write as _;
use std::path::Path;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};
use measure::Problem;
use stacks::{Detail, EventKind, FoldedNames, Format, Frame, FrameKind, NO_THREAD, Profile, UNKNOWN, folded_name};

use crate::console::sanitise;
use crate::numbers::weight_head;

pub use difference::{DifferenceOptions, comparison_svg, difference_svg};

/// Frames of a stack that are drawn. Kernels record 127 by default; no browser shows tens of thousands of rows.
const MOST_FRAMES: u32 = 1000;
/// Name of the frame that stands for all deeper ones.
const DEEPER: &str = "[deeper frames]";
/// Characters of a name that are drawn: a hundredth of them fits into the widest frame.
const LONGEST_NAME: usize = 1000;
/// Larger sums are scaled down: `inferno` adds them as integers and draws them as `f64`.
const LARGEST_SUM: u128 = 1 << 53;
/// Characters of a line of the subtitle, for which screens of 400 pixels have room.
const WIDEST: usize = 52;
/// Pixels from one line of the subtitle to the next.
const LINE: usize = 16;

/// How a flame graph is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameOptions {
    /// The image's heading.
    pub title: String,
    /// Smaller heading below it: window, samples.
    pub subtitle: Option<String>,
    /// Frames with less than this share of the samples (0 to 1) are folded into their callers.
    pub min_share: f64,
}

impl Default for FlameOptions {
    fn default() -> Self {
        // 1/2000 is 0.6 of a pixel of the image's 1,200.
        Self { title: "Flame graph".to_owned(), subtitle: None, min_share: 0.0005 }
    }
}

/// Draws the flame graph of a whole profile (of a part: see [`Profile::window`]) as SVG text. Fails without a sample.
pub fn svg(profile: &Profile, options: &FlameOptions) -> Result<Vec<u8>, Problem> {
    let total = profile.total_weight();
    if total == 0 {
        return Err(no_samples());
    }
    let profile = &*profile.with_reasons();
    let groups = profile.thread_groups();
    let names = drawn_names(profile, &groups.names);
    let detail = Detail { least_weight: (options.min_share * total as f64).ceil() as u64, most_frames: MOST_FRAMES };
    let sum: u128 = profile.samples.iter().map(|s| u128::from(s.weight)).sum();
    let shift = (0..64u32).find(|shift| sum >> shift <= LARGEST_SUM).unwrap_or(64);
    let mut recurs = false;
    let lines: Vec<String> = profile
        .folded_lines(&groups, detail, &names)
        .map(|(line, weight)| {
            let once = without_recursion(&line);
            recurs |= once.len() < line.len();
            format!("{once} {}", weight.checked_shr(shift).unwrap_or(0))
        })
        .collect();

    let mut palette = palette(profile, &names);
    let mut drawing = Options::default();
    let recursion = recurs.then_some("recursion is drawn once");
    let subtitle: Vec<&str> = options.subtitle.as_deref().into_iter().chain(recursion).collect();
    let unit = profile.header.unit.as_str();
    drawing.count_name = drawable(weight_head(unit));
    let scale = if unit == "nanoseconds" { 1e-6 } else { 1.0 };
    drawing.factor = scale * 2f64.powi(shift.cast_signed());
    drawing.bgcolors = Some(BackgroundColor::Flat(Color::new(0xfb, 0xfb, 0xfa)));
    drawing.palette_map = Some(&mut palette);
    drawing.min_width = options.min_share * 100.0;
    Ok(draw(drawing, &options.title, &subtitle.join(", "), &lines)?.into_bytes())
}

fn draw(mut drawing: Options<'_>, title: &str, subtitle: &str, lines: &[String]) -> Result<String, Problem> {
    let subtitle = drawable(subtitle);
    drawing.title = drawable(title);
    drawing.subtitle = (!subtitle.is_empty()).then(|| subtitle.clone());
    // The root stands at the top: that is what a browser shows of a high image.
    drawing.direction = Direction::Inverted;
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    let mut out = Vec::new();
    from_lines(&mut drawing, lines.iter().map(String::as_str), &mut out).map_err(|_| no_samples())?;
    Ok(subtitle_wrapped(String::from_utf8_lossy(&out).into_owned(), &subtitle))
}

/// Draws the flame graph into a file, as [`stacks::write_output`] does. Fails without a sample, or a writable file.
pub fn write_svg(profile: &Profile, options: &FlameOptions, path: &Path) -> Result<(), Problem> {
    stacks::write_output(path, &svg(profile, options)?).map_err(|source| Problem::io("write", path, &source))
}

/// The flame graph as one of the formats of profiles.
pub const SVG: Format = Format {
    name: "svg",
    ends: &[".svg"],
    what: "a flame graph for a browser",
    lines: false,
    read: None,
    write: Some(|profile, heading| {
        let options = FlameOptions {
            title: heading.title.clone(),
            subtitle: heading.subtitle.clone(),
            ..FlameOptions::default()
        };
        svg(profile, &options)
    }),
};

fn no_samples() -> Problem {
    Problem::new("there is nothing to draw", "the profile holds no sample in this window", "choose a larger window")
}

/// A stack in which frames that follow themselves, alone or as a group of up to four, stand once.
fn without_recursion(line: &str) -> String {
    const LONGEST_GROUP: usize = 4;
    let mut out: Vec<&str> = Vec::new();
    for name in line.split(';') {
        out.push(name);
        let repeated = (1..=LONGEST_GROUP).find(|length| {
            out.len().checked_sub(2 * length).is_some_and(|at| out[at..at + length] == out[at + length..])
        });
        if let Some(length) = repeated {
            out.truncate(out.len() - length);
        }
    }
    out.join(";")
}

/// Names as image and folded text can carry them.
fn drawn_names(profile: &Profile, groups: &[String]) -> FoldedNames {
    let named = |name: &str, empty| folded_name(&drawable(name), empty).into_owned();
    FoldedNames {
        frames: profile.frames.iter().map(|f| named(&f.name, UNKNOWN)).collect(),
        // Where no thread is known, a row for it says nothing.
        groups: profile.has_threads().then(|| groups.iter().map(|g| named(g, NO_THREAD)).collect()),
        deeper: DEEPER,
    }
}

/// A colour for every name that can appear, so that none is left to inferno's choice.
fn palette(profile: &Profile, names: &FoldedNames) -> PaletteMap {
    let mut palette = PaletteMap::default();
    for name in names.groups.iter().flatten() {
        palette.insert(name, Color::new(0xd4, 0xd2, 0xce));
    }
    palette.insert("", Color::new(0xe2, 0xe0, 0xdc));
    palette.insert(DEEPER, Color::new(0xd4, 0xd2, 0xce));
    for (name, frame) in names.frames.iter().zip(&profile.frames) {
        palette.insert(name, colour(frame, profile.header.kind));
    }
    palette
}

/// Text as the image can carry it. XML has no place for U+FFFE and U+FFFF, escaped or not
/// (<https://www.w3.org/TR/xml/#charsets>); control characters are shown by their symbols.
fn drawable(text: &str) -> String {
    let mut out: String = sanitise(text)
        .chars()
        .take(LONGEST_NAME)
        .map(|c| match c {
            '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
            // Unicode's private use: nobody can say how such a character looks.
            '\u{e000}'..='\u{f8ff}' => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect();
    if text.chars().nth(LONGEST_NAME).is_some() {
        out.push('…');
    }
    out
}

/// One family of hues per kind of code, the shade by module: stable from run to run. No two
/// families differ by red against green alone. Memory is green and waiting blue, as those of `flamegraph.pl` are, the
/// kinds of code shades of it.
fn colour(frame: &Frame, event: EventKind) -> Color {
    let order = match frame.kind {
        FrameKind::Erlang => 0.0,
        FrameKind::Java => 1.0,
        FrameKind::Runtime => 2.0,
        FrameKind::Native => 3.0,
        FrameKind::Libc => 4.0,
        FrameKind::Kernel | FrameKind::Unknown => 5.0,
    };
    let (hue, saturation) = match frame.kind {
        FrameKind::Unknown => (0.0, 0.0),
        _ if event == EventKind::Memory => (100.0 + order * 13.0, 0.45),
        _ if event == EventKind::OffCpu => (195.0 + order * 9.0, 0.55),
        FrameKind::Erlang => (32.0, 0.88),
        FrameKind::Java => (48.0, 0.80),
        FrameKind::Runtime => (268.0, 0.42),
        FrameKind::Libc => (185.0, 0.42),
        FrameKind::Kernel => (218.0, 0.50),
        FrameKind::Native => (320.0, 0.38),
    };
    // All Erlang code has the module `[jit]`; what tells it apart is the module in its name.
    let module = match frame.kind {
        FrameKind::Erlang => frame.name.split(':').next().unwrap_or_default(),
        _ => &frame.module,
    };
    let shade = f64::from(fnv1a(module) % 8) / 7.0;
    hsl(hue + (shade - 0.5) * 14.0, saturation, 0.62 + shade * 0.18)
}

/// 32-bit FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Hue in degrees, saturation and lightness from 0 to 1 (CSS Color Module Level 4, section 7).
fn hsl(hue: f64, saturation: f64, lightness: f64) -> Color {
    let channel = |n: f64| {
        let k = (n + hue / 30.0).rem_euclid(12.0);
        let a = saturation * lightness.min(1.0 - lightness);
        let value = lightness - a * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    Color::new(channel(0.0), channel(8.0), channel(4.0))
}

/// A picture with its subtitle in lines, and the rest moved down.
fn subtitle_wrapped(svg: String, subtitle: &str) -> String {
    let lines = subtitle_lines(subtitle);
    let parts = svg.split_once("<text id=\"subtitle\"");
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once('>')?)));
    let parts =
        parts.and_then(|(before, (attributes, rest))| Some((before, attributes, rest.split_once("</text>")?.1)));
    let Some((before, attributes, after)) = parts.filter(|_| lines.len() > 1) else { return svg };
    let room = LINE * (lines.len() - 1);
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let line = quick_xml::escape::escape(line.as_str());
        let down = if at == 0 { 0 } else { LINE };
        // Writing to a string cannot fail.
        let _ = write!(text, "<tspan x=\"50%\" dy=\"{down}\">{line}</tspan>");
    }
    let before = higher(before, room);
    let after = ["details", "matched"].into_iter().fold(after.to_owned(), |after, id| moved(&after, id, room));
    let after = after.replacen("<svg id=\"frames\"", &format!("<svg id=\"frames\" y=\"{room}\""), 1);
    format!("{before}<text id=\"subtitle\"{attributes}>{text}</text>{after}")
}

/// The begin of a picture that is so much higher: the image, its view box, and its background.
fn higher(before: &str, room: usize) -> String {
    let [is, becomes] = [height(before), height(before) + room];
    before
        .replace(&format!(" height=\"{is}\""), &format!(" height=\"{becomes}\""))
        .replace(&format!(" {is}\" xmlns"), &format!(" {becomes}\" xmlns"))
}

/// The height of a picture by its begin, in pixels.
fn height(before: &str) -> usize {
    let height = before.split_once(" height=\"").and_then(|(_, rest)| {
        let (height, _) = rest.split_once('"')?;
        height.parse().ok()
    });
    height.unwrap_or(0)
}

/// The text with such an identifier so much further down.
fn moved(svg: &str, id: &str, by: usize) -> String {
    let parts = svg.split_once(&format!("<text id=\"{id}\""));
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(" y=\"")?)));
    let moved = parts.and_then(|(before, (attributes, rest))| {
        let (y, rest) = rest.split_once('"')?;
        let y = y.parse::<f64>().ok()? + by as f64;
        Some(format!("{before}<text id=\"{id}\"{attributes} y=\"{y:.2}\"{rest}"))
    });
    moved.unwrap_or_else(|| svg.to_owned())
}

/// A text in lines of at most [`WIDEST`] characters, broken at blanks where it has some.
fn subtitle_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let wide = word.chars().count();
        if let Some(line) = lines.last_mut()
            && line.chars().count() + 1 + wide <= WIDEST
        {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        lines.extend(characters.chunks(WIDEST).map(|part| part.iter().collect()));
    }
    lines
}

#[cfg(test)]
mod difference_tests;
#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::{assert_has, assert_lacks};

    use super::*;
    use crate::difference::of_stacks;

    fn profile() -> Profile {
        let [route, script] = ["s;$rabbit_exchange:route/2", "s;$rabbit_exchange:route/2;<script>alert(1)</script>"];
        let [named, tiny] = [format!("{script};operator"), format!("{route};tiny\u{1b}")];
        let mut profile = of_stacks(&[(script, 5_000), (named.as_str(), 4_999), (tiny.as_str(), 1)]);
        profile.frames[2].name = "operator; 12".into();
        (profile.frames[0].kind, profile.frames[3].kind) = (FrameKind::Erlang, FrameKind::Kernel);
        profile
    }

    fn drawn(profile: &Profile, options: &FlameOptions) -> String {
        String::from_utf8(svg(profile, options).unwrap()).unwrap()
    }

    #[test]
    fn the_picture_holds_every_wide_frame_as_text() {
        let options = FlameOptions { title: "a <b> run".into(), ..FlameOptions::default() };
        let picture = drawn(&profile(), &options);
        let parts = [
            "$rabbit_exchange:route/2 (10,000 samples, 100.00%)",
            "&lt;script&gt;alert(1)&lt;/script&gt; (9,999 samples, 99.99%)",
            // Its end was mistaken for a count.
            "operator:_12 (4,999 samples, 49.99%)",
            "a &lt;b&gt; run",
        ];
        assert_has(&picture, parts);
        // 0.01 % is narrower than a pixel.
        assert_lacks(&picture, ["<script>alert", "tiny"]);
        assert_eq!(drawn(&profile(), &options), picture, "two drawings are the same");
        // What is too narrow counts for its caller.
        let narrow = drawn(&profile(), &FlameOptions { min_share: 0.6, ..options });
        assert_has(&narrow, ["(9,999 samples, 99.99%)"]);
        assert_lacks(narrow, ["operator"]);
    }

    #[test]
    fn recursion_is_drawn_once_and_the_root_stands_at_the_top() {
        let stack = format!("t;main{};{}leaf", ";loop".repeat(300), "walk;visit;".repeat(200));
        let svg = drawn(&of_stacks(&[(stack.as_str(), 10)]), &FlameOptions::default());
        for name in ["main", "loop", "walk", "visit", "leaf"] {
            assert_eq!(svg.matches(&format!("<title>{name} (")).count(), 1, "{name}");
        }
        assert!(svg.contains("recursion is drawn once"));
        let y = |name: &str| -> f64 {
            let frame = &svg[svg.find(&format!("<title>{name} (")).unwrap()..];
            let from = frame.find(" y=\"").unwrap() + 4;
            frame[from..].split('"').next().unwrap().parse().unwrap()
        };
        assert!(y("main") < y("leaf") && y("leaf") < 300.0, "{svg}");
    }

    #[test]
    fn families_of_code_have_their_own_hues() {
        let of = |kind| colour(&Frame::new("f", "m", kind), EventKind::OnCpu);
        use FrameKind::{Erlang, Java, Kernel, Libc, Native, Runtime, Unknown};
        let kinds = [Erlang, Java, Runtime, Libc, Kernel, Native, Unknown];
        for (i, a) in kinds.iter().enumerate() {
            for b in &kinds[i + 1..] {
                assert_ne!(of(*a), of(*b), "{a:?} and {b:?}");
            }
        }
        let grey = of(Unknown);
        assert!(grey.r == grey.g && grey.g == grey.b);
    }

    #[test]
    fn an_empty_profile_is_refused_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.svg");
        let error = write_svg(&Profile::default(), &FlameOptions::default(), &path).unwrap_err();
        assert!(error.value.contains("no sample"), "{error}");
        assert!(write_svg(&profile(), &FlameOptions::default(), &path).is_ok());
        assert_eq!(fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>(), ["cpu.svg"]);
    }

    #[test]
    fn a_subtitle_breaks_at_blanks_and_all_below_it_moves_down() {
        assert_eq!(subtitle_lines("short"), ["short"]);
        let long = format!("A: {}; B: b, 12 samples", "x".repeat(60));
        let broken = subtitle_lines(&long);
        assert!(broken.iter().all(|it| it.chars().count() <= WIDEST));
        assert_eq!(broken.concat().replace(' ', ""), long.replace(' ', ""));
        let words = subtitle_lines(&["seven12"; 20].join(" "));
        assert!(words.len() == 4 && words.iter().all(|it| it.starts_with("seven12")));
        let svg = "<svg width=\"1200\" height=\"100\" viewBox=\"0 0 1200 100\" xmlns=\"x\"><rect height=\"100\"/>\
                   <text id=\"subtitle\" x=\"50.0000%\" y=\"48.00\">all</text>\
                   <text id=\"details\" x=\"10.00\" y=\"64.00\"> </text>\
                   <text id=\"search\" x=\"1190.00\" y=\"24.00\">Search</text>\
                   <text id=\"matched\" x=\"1190.00\" y=\"89.00\"> </text>\
                   <svg id=\"frames\" x=\"10\"></svg></svg>";
        assert_eq!(subtitle_wrapped(svg.to_owned(), "all"), svg);
        let more = subtitle_wrapped(svg.to_owned(), &["a <wide> word"; 10].join(" "));
        assert_eq!(more.matches("&lt;wide&gt;").count(), 10);
        assert_eq!(more.matches("<tspan x=\"50%\" dy=\"16\">").count(), 2);
        let parts = [
            "height=\"132\" viewBox=\"0 0 1200 132\"",
            "<rect height=\"132\"/>",
            "id=\"details\" x=\"10.00\" y=\"96.00\"",
            "id=\"search\" x=\"1190.00\" y=\"24.00\"",
            "id=\"matched\" x=\"1190.00\" y=\"121.00\"",
            "<svg id=\"frames\" y=\"32\" x=\"10\">",
        ];
        assert_has(&more, parts);
    }
}
