//! Profiles with names of any characters and stacks of any shape, in every form that they are shown in.

use std::collections::BTreeMap;

use quick_xml::events::Event;
use stacks::{FORMATS, FirstField, Frame, FrameKind, Profile, ReadOptions, Sample, StackNode};
use testkit::Random;

use crate::console::{self, FunctionRowOf, FunctionSort, FunctionTable, Style};
use crate::flame::{FlameOptions, svg};
use crate::view::encode;

struct Maker(Random);

impl Maker {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Any character: one that some form has a use for, else of all planes.
    fn character(&mut self) -> char {
        const SPECIAL: [char; 24] = [
            ' ', '\t', '\n', '\0', '\u{1b}', ';', '#', '<', '>', '&', '"', '\'', '0', '7', '.', '_', '\u{85}',
            '\u{a0}', '\u{2003}', '\u{2028}', '\u{202e}', '\u{fffd}', '\u{fffe}', '\u{ffff}',
        ];
        match self.0.below(3) {
            0 => self.0.of(&SPECIAL),
            1 => self.0.of(&['a', 'b', '/', '1', ':', '$']),
            _ => char::from_u32(self.0.below(0x11_0000) as u32).unwrap_or('\u{10ffff}'),
        }
    }

    fn name(&mut self) -> String {
        const KNOWN: &str =
            "| |a 12|a\u{a0}7|a\u{3000}1.5|# x|#|a;b|\u{ffff}|1_scheduler|[unknown]|--|a 1 2|nan|x inf|f_[k]|-";
        match self.0.below(3) {
            0 => self.0.of(&KNOWN.split('|').collect::<Vec<_>>()).to_owned(),
            1 if self.0.below(20) == 0 => self.character().to_string().repeat(50_000),
            _ => (0..self.0.below(12)).map(|_| self.character()).collect(),
        }
    }

    fn profile(&mut self) -> Profile {
        let kinds = [FrameKind::Erlang, FrameKind::Kernel, FrameKind::Unknown];
        let frames: Vec<Frame> =
            (0..=self.0.below(8)).map(|_| Frame::new(self.name(), self.name(), self.0.of(&kinds))).collect();
        let stacks: Vec<StackNode> = (0..=self.0.below(40))
            .map(|i| StackNode {
                parent: (i > 0 && self.0.below(8) > 0).then(|| self.0.below(i) as u32),
                frame: self.0.below(frames.len() as u64) as u32,
            })
            .collect();
        let mut threads: Vec<String> = (0..self.0.below(4)).map(|_| self.name()).collect();
        threads.push("named".into());
        let samples = (0..=self.0.below(60)).map(|t| Sample {
            t: t * 1_000_000,
            weight: self.0.below(5) + 1,
            stack: self.0.below(stacks.len() as u64) as u32,
            thread: self.0.below(threads.len() as u64) as u32,
            complete: true,
            ..Sample::default()
        });
        let mut profile = Profile { samples: samples.collect(), frames, stacks, threads, ..Profile::default() };
        profile.header.event = self.name();
        profile.header.unit = "samples".into();
        assert!(profile.is_consistent());
        profile
    }
}

/// One stack of so many frames, with samples at its leaf, in its middle and at its root.
fn deep(frames: u32) -> Profile {
    let node = |i: u32| StackNode { parent: i.checked_sub(1), frame: i % 2 };
    let sample = |stack| Sample { t: 1, weight: 10, stack, complete: true, ..Sample::default() };
    let mut profile = Profile {
        frames: ["even", "odd"].map(|name| Frame::new(name, "", FrameKind::Native)).into(),
        stacks: (0..frames).map(node).collect(),
        threads: vec!["t".into()],
        samples: vec![sample(0), sample(frames / 2), sample(frames - 1)],
        ..Profile::default()
    };
    profile.header.unit = "samples".into();
    profile
}

/// The whole image, read by a parser; the titles of its frames, and its height.
fn parsed(svg: &[u8]) -> (Vec<String>, f64) {
    let text = std::str::from_utf8(svg).expect("text");
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert_eq!(text.chars().filter(|&c| !legal(c)).collect::<Vec<char>>(), [], "characters that XML forbids");
    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().enable_all_checks(true);
    let mut depth = 0;
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(tag) => {
                for attribute in tag.attributes() {
                    let attribute = attribute.expect("an attribute");
                    attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0).expect("an attribute's value");
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Text(part) => assert!(part.decode().is_ok(), "{part:?}"),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "every element is closed");
    let titles = text.split("<title>").skip(1).filter_map(|it| Some(it.split_once("</title>")?.0.to_owned()));
    let height = text.split("height=\"").nth(1).and_then(|it| it.split('"').next()?.parse().ok());
    (titles.collect(), height.expect("a height"))
}

fn read_back(name: &str, bytes: &[u8]) -> Profile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    // Names of threads may be such as nobody would take for a thread's.
    let options = ReadOptions { first_field: FirstField::Thread, ..ReadOptions::default() };
    Profile::open_with_lines(&FORMATS, &path, options).expect(name).without_lines()
}

/// Depth of a stack times the weight of its samples, summed up: the profile's area.
fn area(profile: &Profile) -> u64 {
    let depth = |s: &Sample| profile.stack(s.stack).len() as u64;
    profile.samples.iter().map(|s| s.weight * depth(s)).sum()
}

fn leaves(profile: &Profile) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for f in profile.functions() {
        let name = f.share.function;
        let name = if name.is_empty() { "[unknown]".into() } else { name };
        *sums.entry(name).or_default() += f.self_weight;
    }
    sums
}

fn folded_text_carries(profile: &Profile) {
    let read = read_back("cpu.folded", profile.folded().as_bytes());
    let is_flat = |note: &String| note.starts_with("recorded without call graphs");
    assert!(read.notes.iter().all(is_flat), "a line was not understood");
    assert_eq!((read.total_weight(), area(&read)), (profile.total_weight(), area(profile)));
    assert_eq!(read.folded(), read_back("cpu.folded", read.folded().as_bytes()).folded());
}

fn pprof_carries(profile: &Profile) {
    let read = read_back("profile.pb.gz", &profile.to_pprof().unwrap());
    assert!(read.is_consistent());
    assert_eq!(area(&read), area(profile));
    assert_eq!(leaves(&read), leaves(profile));
}

fn the_table_shows(profile: &Profile) {
    let (of, sort) = (FunctionRowOf::Function, FunctionSort::SelfShare);
    let table = FunctionTable { of, limit: 100, sort, only: &|_| true, rest: None, which: None };
    let text = console::functions(profile, &table, Style::PLAIN);
    let raw = text.chars().find(|&c| c.is_control() && c != '\n');
    assert_eq!(raw, None, "a raw control character in {text:?}");
}

#[test]
fn few_samples_are_told_before_any_share() {
    let told = |samples: usize| {
        let mut profile = Profile::default();
        profile.header.unit = "samples".to_owned();
        profile.samples = vec![Sample { weight: 1, complete: true, ..Sample::default() }; samples];
        console::few_samples(&profile, Style::PLAIN)
    };
    assert!(told(9).starts_with("9 samples are too few for shares: each may be off by 33 points."));
    assert!(told(1).starts_with("1 sample is too few"));
    assert_eq!((told(0), told(100)), (String::new(), String::new()));
}

fn the_page_holds(profile: &Profile) {
    let (head, bytes) = encode(profile, usize::MAX);
    let head = serde_json::to_value(&head).unwrap();
    let mut bytes = bytes.iter();
    let mut next = || {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = *bytes.next().expect("a number");
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    };
    let number = |key: &str| head[key].as_u64().unwrap() as usize;
    let (nodes, samples) = (number("nodes"), number("samples"));
    let parents: Vec<u64> = (0..nodes).map(|_| next()).collect();
    let frames: Vec<usize> = (0..nodes).map(|_| next() as usize).collect();
    let classes: Vec<usize> = (0..nodes).map(|_| next() as usize).collect();
    let known = head["classes"].as_array().unwrap().len();
    assert!(classes.iter().all(|class| *class < known));
    let _ticks: Vec<u64> = (0..samples).map(|_| next()).collect();
    let found: Vec<usize> = (0..samples).map(|_| next() as usize).collect();
    let weighted = head["weighted"].as_bool().unwrap();
    for (sample, &leaf) in profile.samples.iter().zip(&found) {
        let mut path = Vec::new();
        let mut at = leaf;
        loop {
            path.push(head["names"][frames[at]].as_str().unwrap());
            match parents[at] {
                0 => break,
                distance => at -= distance as usize,
            }
        }
        let stack = profile.stack(sample.stack);
        assert!(path.iter().copied().take(stack.len()).eq(stack.iter().rev().map(|frame| frame.name.as_str())));
        assert_eq!(path.len(), stack.len() + 1, "the thread, then the stack");
        assert_eq!(if weighted { next() } else { 1 }, sample.weight);
    }
}

#[test]
fn profiles_of_any_names_and_shapes_are_shown_in_every_form() {
    for seed in testkit::seeds(25) {
        let profile = Maker::new(seed).profile();
        let title = Maker::new(seed + 1000).name();
        println!("seed {seed}");
        folded_text_carries(&profile);
        pprof_carries(&profile);
        the_table_shows(&profile);
        the_page_holds(&profile);
        let options = FlameOptions { title: title.clone(), subtitle: Some(title), ..FlameOptions::default() };
        let (titles, _) = parsed(&svg(&profile, &options).unwrap());
        let all = format!("all ({} samples, 100%)", profile.total_weight());
        assert!(titles.contains(&all), "{all} is missing in {titles:?}");
    }
}

#[test]
fn names_that_once_ended_the_command_are_drawn() {
    for name in ["a\u{a0}7", "\u{ffff}", "\u{a0}", "a\u{3000}1e3"] {
        let mut profile = deep(3);
        profile.threads = vec![name.into()];
        profile.frames[0].name = name.into();
        let (titles, _) = parsed(&svg(&profile, &FlameOptions::default()).unwrap());
        assert!(titles.iter().any(|t| t.starts_with("all (30 samples")), "{titles:?}");
    }
}

#[test]
fn a_stack_of_sixty_thousand_frames_is_drawn_as_far_as_can_be_seen() {
    let mut profile = deep(60_000);
    // Recursion is drawn once; here no group of up to four functions follows itself.
    for name in ["third", "fourth", "fifth"] {
        profile.frames.push(Frame::new(name, "", FrameKind::Native));
    }
    for (node, frame) in profile.stacks.iter_mut().zip((0..5).cycle()) {
        node.frame = frame;
    }
    let (titles, height) = parsed(&svg(&profile, &FlameOptions::default()).unwrap());
    assert!(height < 20_000.0, "{height} pixels");
    let deeper = titles.iter().filter(|t| t.starts_with("[deeper frames] (20 samples"));
    assert_eq!(deeper.count(), 1, "two samples of three lie deeper");
    let drawn = titles.iter().filter(|t| !t.starts_with('[') && !t.starts_with("t ") && t.contains("(20 samples, "));
    assert_eq!(drawn.count(), 999, "all but the root, which has 30");
    the_table_shows(&profile);
    pprof_carries(&profile);
    the_page_holds(&profile);
    let at_leaves = [("even", 20), ("fifth", 10), ("fourth", 0), ("odd", 0), ("third", 0)];
    assert_eq!(leaves(&profile), BTreeMap::from(at_leaves.map(|(name, weight)| (name.to_owned(), weight))));
}

#[test]
fn weights_of_any_size_are_drawn() {
    let mut profile = deep(3);
    for sample in &mut profile.samples {
        sample.weight = u64::MAX;
    }
    parsed(&svg(&profile, &FlameOptions::default()).unwrap());
    the_table_shows(&profile);
    the_page_holds(&profile);
    profile.to_pprof().unwrap();
    assert!(profile.folded().starts_with("t;even"));
}
