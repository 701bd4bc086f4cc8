//! Flame graphs as self-contained SVG, drawn by `inferno`.
//!
//! `inferno` reads folded text, one line per distinct stack. A profile of a million samples has
//! far more stacks than an image has pixels, so what would be narrower than a pixel is folded into
//! its caller before any text is made.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use archive::profile::{Frame, FrameKind, Profile};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use crate::console::sanitise;

/// How a flame graph is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameOptions {
    /// Heading.
    pub title: String,
    /// Smaller heading below it: window, samples.
    pub subtitle: Option<String>,
    /// Frames with less than this share of the samples (0 to 1) are folded into their callers.
    pub min_share: f64,
}

impl Default for FlameOptions {
    fn default() -> Self {
        // 1/2000 is 0.6 of a pixel of the image's 1,200.
        Self {
            title: "CPU".to_owned(),
            subtitle: None,
            min_share: 0.0005,
        }
    }
}

/// Why no flame graph could be drawn.
#[derive(Debug, thiserror::Error)]
pub enum FlameError {
    /// There is nothing to draw.
    #[error("the profile holds no sample in this window")]
    NoSamples,
    /// The file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Draws the flame graph of a whole profile (of a part: see [`Profile::window`]) as SVG text.
///
/// # Errors
/// Where the profile has no sample.
pub fn svg(profile: &Profile, options: &FlameOptions) -> Result<Vec<u8>, FlameError> {
    let total = profile.total_weight();
    if total == 0 {
        return Err(FlameError::NoSamples);
    }
    let groups = profile.thread_groups();
    let names = Names::of(profile, &groups);
    let least = (options.min_share * total as f64).ceil() as u64;
    let lines = folded(profile, &groups, &names, least);

    let mut palette = names.palette(profile);
    let mut drawing = Options::default();
    drawing.title = sanitise(&options.title).into_owned();
    drawing.subtitle = options
        .subtitle
        .as_deref()
        .map(|s| sanitise(s).into_owned());
    drawing.count_name = sanitise(&profile.header.unit).into_owned();
    drawing.bgcolors = Some(BackgroundColor::Flat(Color::new(0xfb, 0xfb, 0xfa)));
    drawing.palette_map = Some(&mut palette);
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    drawing.min_width = options.min_share * 100.0;
    let mut out = Vec::new();
    from_lines(&mut drawing, lines.iter().map(String::as_str), &mut out)
        .map_err(|_| FlameError::NoSamples)?;
    Ok(out)
}

/// Draws the flame graph into a file, which appears whole or not at all.
///
/// # Errors
/// Where the profile has no sample or the file cannot be written.
pub fn write_svg(profile: &Profile, options: &FlameOptions, path: &Path) -> Result<(), FlameError> {
    let content = svg(profile, options)?;
    write_whole(path, &content).map_err(|source| FlameError::Io {
        path: path.to_owned(),
        source,
    })
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let mut partial = name.to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(partial);
    let written = File::create(&partial).and_then(|file| {
        let mut file = BufWriter::new(file);
        file.write_all(content)?;
        file.into_inner()?.sync_all()?;
        fs::rename(&partial, path)
    });
    if written.is_err() {
        // What was not finished must not stay; the first error is the one worth telling.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Names as folded text can carry them.
struct Names {
    frames: Vec<String>,
    groups: Vec<String>,
}

impl Names {
    fn of(profile: &Profile, groups: &[String]) -> Self {
        let named = |name: &str, empty: &str| {
            if name.trim().is_empty() {
                empty.to_owned()
            } else {
                foldable(name)
            }
        };
        Self {
            frames: profile
                .frames
                .iter()
                .map(|f| named(&f.name, "[unknown]"))
                .collect(),
            groups: groups.iter().map(|g| named(g, "[thread]")).collect(),
        }
    }

    /// A colour for every name that can appear, so that none is left to chance.
    fn palette(&self, profile: &Profile) -> PaletteMap {
        let mut palette = PaletteMap::default();
        for name in &self.groups {
            palette.insert(name, Color::new(0xd4, 0xd2, 0xce));
        }
        palette.insert("", Color::new(0xe2, 0xe0, 0xdc));
        for (name, frame) in self.frames.iter().zip(&profile.frames) {
            palette.insert(name, colour(frame));
        }
        palette
    }
}

/// `;` parts frames, and a number at the end of a line is its count: neither may stand in a name.
fn foldable(name: &str) -> String {
    let mut name = sanitise(name.trim()).replace(';', ",");
    if let Some(blank) = name.rfind(char::is_whitespace)
        && name[blank..].trim().parse::<f64>().is_ok()
    {
        name.replace_range(blank..=blank, "_");
    }
    name
}

/// One line per thread group and stack, as `group;root;…;leaf count`.
fn folded(profile: &Profile, groups: &[String], names: &Names, least: u64) -> Vec<String> {
    let kept = wide_enough(profile, least);
    let group_ids = group_ids(groups);
    let mut counts: HashMap<(u32, Option<u32>), u64> = HashMap::new();
    for sample in &profile.samples {
        let group = group_ids.get(sample.thread as usize).copied().unwrap_or(0);
        let leaf = kept.get(sample.stack as usize).copied().flatten();
        *counts.entry((group, leaf)).or_default() += sample.weight;
    }
    let mut path = Vec::new();
    let mut lines = Vec::with_capacity(counts.len());
    for ((group, leaf), count) in counts {
        path.clear();
        let mut next = leaf;
        while let Some(node) = next.and_then(|n| profile.stacks.get(n as usize)) {
            path.push(
                names
                    .frames
                    .get(node.frame as usize)
                    .map_or("", String::as_str),
            );
            // Parents come first; anything else would be a loop.
            next = node
                .parent
                .filter(|parent| next.is_some_and(|this| *parent < this));
        }
        let mut line = names
            .groups
            .get(group as usize)
            .cloned()
            .unwrap_or_default();
        for name in path.iter().rev() {
            line.push(';');
            line.push_str(name);
        }
        line.push_str(&format!(" {count}"));
        lines.push(line);
    }
    lines
}

/// For every node the nearest node at or above it with at least `least` samples in or below it.
fn wide_enough(profile: &Profile, least: u64) -> Vec<Option<u32>> {
    let mut inclusive = vec![0u64; profile.stacks.len()];
    for sample in &profile.samples {
        if let Some(weight) = inclusive.get_mut(sample.stack as usize) {
            *weight += sample.weight;
        }
    }
    for (index, node) in profile.stacks.iter().enumerate().rev() {
        let weight = inclusive.get(index).copied().unwrap_or(0);
        let parent = node.parent.filter(|p| (*p as usize) < index);
        if let Some(sum) = parent.and_then(|p| inclusive.get_mut(p as usize)) {
            *sum += weight;
        }
    }
    let mut kept: Vec<Option<u32>> = Vec::with_capacity(inclusive.len());
    for ((index, node), weight) in (0u32..).zip(&profile.stacks).zip(inclusive) {
        let nearest = if weight >= least {
            Some(index)
        } else {
            node.parent
                .and_then(|p| kept.get(p as usize).copied().flatten())
        };
        kept.push(nearest);
    }
    kept
}

/// Threads of one group share the number of its first thread.
fn group_ids(groups: &[String]) -> Vec<u32> {
    let mut first: HashMap<&str, u32> = HashMap::new();
    (0u32..)
        .zip(groups)
        .map(|(id, name)| *first.entry(name).or_insert(id))
        .collect()
}

/// One family of hues per kind of code, the shade by module: stable from run to run. No two
/// families differ by red against green alone.
fn colour(frame: &Frame) -> Color {
    let (hue, saturation) = match frame.kind {
        FrameKind::Erlang => (32.0, 0.88),
        FrameKind::Java => (48.0, 0.80),
        FrameKind::Runtime => (268.0, 0.42),
        FrameKind::Libc => (185.0, 0.42),
        FrameKind::Kernel => (218.0, 0.50),
        FrameKind::Native => (320.0, 0.38),
        FrameKind::Unknown => (0.0, 0.0),
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
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
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

#[cfg(test)]
mod tests {
    use archive::profile::{Sample, StackNode};

    use super::*;

    fn sample(stack: u32, weight: u64) -> Sample {
        Sample {
            t: 0,
            weight,
            stack,
            thread: 0,
            cpu: 0,
            complete: true,
        }
    }

    fn profile() -> Profile {
        let frame = |name: &str, kind| Frame::new(name, "m", kind);
        let mut profile = Profile {
            frames: vec![
                frame("$rabbit_exchange:route/2", FrameKind::Erlang),
                frame("<script>alert(1)</script>", FrameKind::Native),
                frame("operator; 12", FrameKind::Native),
                frame("tiny\u{1b}", FrameKind::Kernel),
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
                    parent: Some(1),
                    frame: 2,
                },
                StackNode {
                    parent: Some(0),
                    frame: 3,
                },
            ],
            threads: vec!["1_scheduler".into()],
            samples: vec![sample(1, 5_000), sample(2, 4_999), sample(3, 1)],
            ..Profile::default()
        };
        profile.header.unit = "samples".into();
        profile
    }

    #[test]
    fn the_picture_holds_every_wide_frame_as_text() {
        let options = FlameOptions {
            title: "a <b> run".into(),
            ..FlameOptions::default()
        };
        let svg = String::from_utf8(svg(&profile(), &options).unwrap()).unwrap();
        assert!(
            svg.contains("$rabbit_exchange:route/2 (10,000 samples, 100.00%)"),
            "{svg}"
        );
        assert!(svg.contains("&lt;script&gt;alert(1)&lt;/script&gt; (9,999 samples, 99.99%)"));
        assert!(!svg.contains("<script>alert"));
        assert!(
            svg.contains("operator,_12 (4,999 samples, 49.99%)"),
            "a count was mistaken"
        );
        assert!(svg.contains("a &lt;b&gt; run"));
        assert!(!svg.contains("tiny"), "0.01 % is narrower than a pixel");
    }

    #[test]
    fn what_is_too_narrow_counts_for_its_caller() {
        let options = FlameOptions {
            min_share: 0.6,
            ..FlameOptions::default()
        };
        let svg = String::from_utf8(svg(&profile(), &options).unwrap()).unwrap();
        assert!(svg.contains("(9,999 samples, 99.99%)"));
        assert!(!svg.contains("operator"));
    }

    #[test]
    fn two_drawings_are_the_same() {
        let options = FlameOptions::default();
        assert_eq!(
            svg(&profile(), &options).unwrap(),
            svg(&profile(), &options).unwrap()
        );
    }

    #[test]
    fn families_of_code_have_their_own_hues() {
        let of = |kind| colour(&Frame::new("f", "m", kind));
        let kinds = [
            FrameKind::Erlang,
            FrameKind::Java,
            FrameKind::Runtime,
            FrameKind::Libc,
            FrameKind::Kernel,
            FrameKind::Native,
            FrameKind::Unknown,
        ];
        for (i, a) in kinds.iter().enumerate() {
            for b in &kinds[i + 1..] {
                assert_ne!(of(*a), of(*b), "{a:?} and {b:?}");
            }
        }
        let grey = of(FrameKind::Unknown);
        assert!(grey.r == grey.g && grey.g == grey.b);
    }

    #[test]
    fn an_empty_profile_is_refused_and_leaves_no_file() {
        let dir = std::env::temp_dir().join(format!("bellows-flame-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("cpu.svg");
        let error = write_svg(&Profile::default(), &FlameOptions::default(), &path).unwrap_err();
        assert!(matches!(error, FlameError::NoSamples));
        assert!(write_svg(&profile(), &FlameOptions::default(), &path).is_ok());
        let names: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["cpu.svg"]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
