//! Recordings made by hand: what is right, and what a hostile file could hold. Those of a JVM are read in the tests
//! of the command.

use super::read;
use crate::{FrameKind, Profile};

fn number(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = value;
    for _ in 0..8 {
        if rest < 0x80 {
            bytes.push(rest as u8);
            return bytes;
        }
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [vec![3], number(text.len() as u64), text.as_bytes().to_vec()].concat()
}

const STACK: u64 = 10;
const METHOD: u64 = 12;
const CLASS: u64 = 13;
const SYMBOL: u64 = 14;
const KIND: u64 = 15;
const THREAD: u64 = 16;
const STATE: u64 = 17;
const SAMPLE: u64 = 20;

/// A type a line: its number and name, and its fields with theirs, which are constants (`*`) or any number of values.
const TYPES: &str = include_str!("types.txt").trim_ascii_end();

fn element(texts: &mut Vec<String>, name: &str, attributes: &[(&str, String)], inside: &[Vec<u8>]) -> Vec<u8> {
    let mut index = |text: &str| {
        let at = texts.iter().position(|it| it == text).unwrap_or_else(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        });
        number(at as u64)
    };
    let mut bytes = index(name);
    bytes.extend(number(attributes.len() as u64));
    for (key, value) in attributes {
        bytes.extend(index(key));
        bytes.extend(index(value));
    }
    bytes.extend(number(inside.len() as u64));
    bytes.extend(inside.concat());
    bytes
}

fn metadata(types: &str) -> Vec<u8> {
    let mut texts = Vec::new();
    let mut classes = Vec::new();
    for line in types.lines() {
        let (id, line) = line.split_once(' ').expect("a number");
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let fields: Vec<_> = words
            .map(|field| {
                let (name, class) = field.split_once(':').expect("a type");
                let id = class.trim_end_matches(['*', '[', ']']);
                let mut attributes = vec![("name", name.to_owned()), ("class", id.to_owned())];
                attributes.extend(class.ends_with('*').then(|| ("constantPool", "true".to_owned())));
                attributes.extend(class.ends_with(']').then(|| ("dimension", "1".to_owned())));
                element(&mut texts, "field", &attributes, &[])
            })
            .collect();
        let attributes = [("id", id.to_owned()), ("name", name.to_owned())];
        classes.push(element(&mut texts, "class", &attributes, &fields));
    }
    let all = element(&mut texts, "metadata", &[], &classes);
    let root = element(&mut texts, "root", &[], &[all]);
    let mut content = [0, 0, 0, 1].map(number).concat();
    content.extend(number(texts.len() as u64));
    content.extend(texts.iter().flat_map(|it| text(it)));
    content.extend(root);
    content
}

/// An event behind its size, which is padded to two bytes.
fn event(content: &[u8]) -> Vec<u8> {
    let size = content.len() as u64 + 2;
    assert!(size < 1 << 14);
    [&[size as u8 | 0x80, (size >> 7) as u8][..], content].concat()
}

/// A chunk of these events, constants and types. Constants are told by how far the ones before them are.
fn chunk(events: &[Vec<u8>], constants: &[u8], types: &[u8]) -> Vec<u8> {
    let events: Vec<u8> = events.iter().flat_map(|it| event(it)).collect();
    let at_constants = 68 + events.len() as u64;
    let constants = event(constants);
    let at_types = at_constants + constants.len() as u64;
    let types = event(types);
    let size = at_types + types.len() as u64;
    let mut bytes = b"FLR\0\0\x02\0\x01".to_vec();
    // Start, length, first tick, ticks per second.
    for number in [size, at_constants, at_types, 5_000_000_000, 0, 100, 1_000_000] {
        bytes.extend(u64::to_be_bytes(number));
    }
    bytes.extend([0, 0, 0, 1]);
    [bytes, events, constants, types].concat()
}

fn pool(class: u64, values: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = [class, values.len() as u64].map(number).concat();
    for (key, value) in values {
        bytes.extend(number(*key));
        bytes.extend(value);
    }
    bytes
}

/// Constants of these pools, with how far the ones before them are.
fn of_pools(before: u64, pools: &[Vec<u8>]) -> Vec<u8> {
    [[1, 0, 0, before, 0, pools.len() as u64].map(number).concat(), pools.concat()].concat()
}

/// Pools of a stack `Busy.heavy` below `memcpy`, cut off or not, of the thread `worker`.
fn pools(is_cut: bool) -> Vec<Vec<u8>> {
    vec![
        pool(SYMBOL, &[(1, text("a/b/Busy")), (2, text("heavy")), (3, text("memcpy")), (4, vec![1])]),
        pool(CLASS, &[(7, number(1)), (8, number(4))]),
        pool(METHOD, &[(1, [number(7), number(2)].concat()), (2, [number(8), number(3)].concat())]),
        pool(KIND, &[(1, text("JIT compiled")), (2, text("Native"))]),
        pool(THREAD, &[(1, [text("os"), text("worker <1>")].concat())]),
        pool(STACK, &[(300, [vec![u8::from(is_cut), 2], number(2), number(2), number(1), number(1)].concat())]),
    ]
}

fn constants(before: u64, is_cut: bool) -> Vec<u8> {
    of_pools(before, &pools(is_cut))
}

fn sample(ticks: u64, stack: u64) -> Vec<u8> {
    [SAMPLE, ticks, 1, stack].map(number).concat()
}

fn small() -> Vec<u8> {
    let events = [sample(1_000_100, 300), sample(500_100, 300), sample(600_100, 999)];
    chunk(&events, &constants(0, false), &metadata(TYPES))
}

fn names(profile: &Profile, leaf: u32) -> Vec<(&str, FrameKind)> {
    let stack = profile.stack(leaf);
    stack.iter().map(|frame| (frame.name.as_str(), frame.kind)).collect()
}

#[test]
fn samples_have_their_stacks_threads_and_times() {
    let cut = chunk(&[sample(100, 300)], &constants(0, true), &metadata(TYPES));
    let profile = read(&[small(), cut].concat()).expect("a recording");
    assert!(profile.is_consistent());
    let times: Vec<u64> = profile.samples.iter().map(|it| it.t).collect();
    // Both chunks began at the same moment.
    assert_eq!(times, [0, 500_000_000, 600_000_000, 1_000_000_000]);
    let known = [("a.b.Busy.heavy", FrameKind::Java), ("memcpy", FrameKind::Native)];
    assert_eq!(names(&profile, profile.samples[1].stack), known);
    assert_eq!(names(&profile, profile.samples[2].stack), [("[unknown]", FrameKind::Unknown)]);
    assert_eq!(profile.samples.iter().map(|it| it.complete).collect::<Vec<_>>(), [false, true, false, true]);
    assert_eq!(profile.threads, ["worker <1>"]);
    assert_eq!(profile.header.origin_unix_ns, 5_000_000_000);
    assert_eq!((profile.header.event.as_str(), profile.total_weight()), ("cpu", 4));
}

/// A recording whose samples have these states; a number is the place of its thread's state.
fn with_states(states: &[u64]) -> Vec<u8> {
    let types = format!("{TYPES} state:17*\n17 jdk.types.ThreadState name:2");
    let names = ["STATE_DEFAULT", "STATE_RUNNABLE", "STATE_SLEEPING"];
    let names: Vec<_> = (0..).zip(names.map(text)).collect();
    let constants = of_pools(0, &[pools(false), vec![pool(STATE, &names)]].concat());
    let events: Vec<_> =
        (0..).zip(states).map(|(at, state)| [sample(1_000 + at, 300), number(*state)].concat()).collect();
    chunk(&events, &constants, &metadata(&types))
}

#[test]
fn threads_that_sleep_took_no_cpu_time() {
    let wall = "were taken by the wall clock, and not by CPU time";
    let asleep = "are of threads that slept or waited";
    let note = |out: u64, all: u64, what: &str| {
        format!("{out} of {all} samples of jdk.ExecutionSample {what}: they were left out")
    };
    for (recording, weight, notes) in [
        // async-profiler with `event=cpu,wall=…` tells samples of CPU time apart from those of the wall clock.
        (with_states(&[0, 2, 2, 0, 1, 2]), 2, vec![note(4, 6, wall)]),
        // Older ones, and the virtual machine's own recorder, only tell who could run.
        (with_states(&[1, 2, 1, 1]), 3, vec![note(1, 4, asleep)]),
        // One of each kind of recorder behind the other.
        ([with_states(&[0, 2]), with_states(&[1, 1, 2])].concat(), 3, vec![note(1, 5, wall), note(1, 5, asleep)]),
        (with_states(&[1, 1]), 2, Vec::new()),
    ] {
        let read = read(&recording).expect("a recording");
        assert_eq!((read.total_weight(), read.notes), (weight, notes));
    }
    let asleep = read(&with_states(&[2, 2])).unwrap_err();
    assert_eq!(asleep, "all of its 2 samples are of threads that slept or waited");
}

#[test]
fn numbers_are_packed_as_the_recorder_does() {
    for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 56, u64::MAX] {
        assert_eq!(super::values::Bytes::new(&number(value)).number(), Ok(value));
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_its_reason() {
    let deep = format!("{TYPES}\n30 deep again:30");
    let endless = of_pools(0, &[pool(30, &[(1, vec![])])]);
    let forward = of_pools(40, &[]);
    // Constants that reach into those behind them.
    let inner = vec![0x7f; 30];
    let into = constants(0_u64.wrapping_sub(30), false);
    let lists = format!("{TYPES}\n31 nothing\n32 jdk.types.ThreadGroup all:31[]");
    let empty = [of_pools(0, &[pool(32, &[(1, number(5))])]), vec![0; 9]].concat();
    let mut old = small();
    old[5] = 1;
    let mut unfinished = small();
    unfinished[8..16].fill(0);
    let mut many = small();
    many[8..16].fill(0xff);
    for (bytes, why) in [
        (chunk(&[], &constants(0, false), &metadata(TYPES)), "it has no samples"),
        (chunk(&[], &endless, &metadata(&deep)), "too deep"),
        (chunk(&[], &forward, &metadata(TYPES)), "circle"),
        (chunk(&[inner], &into, &metadata(TYPES)), "in each other"),
        (chunk(&[], &empty, &metadata(&lists)), "without content"),
        (chunk(&[vec![SAMPLE as u8]], &constants(0, false), &metadata(TYPES)), "cut off"),
        (chunk(&[], &constants(0, false)[..9], &metadata(TYPES)), "elements"),
        (chunk(&[], &[9], &metadata(TYPES)), "constants are not where"),
        (chunk(&[], &constants(0, false), &[9]), "types are not where"),
        (old, "version 1"),
        (unfinished, "not finished"),
        (many, "cut off"),
        ([small(), b"tail".to_vec()].concat(), "something else"),
    ] {
        let error = read(&bytes).expect_err(why);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn damage_anywhere_does_no_harm() {
    let whole = [small(), small()].concat();
    let mut random = testkit::Random::new(7);
    let mut random = |below: usize| random.below(below as u64) as usize;
    for length in 0..whole.len() {
        let _ = read(&whole[..length]).map(|it| assert!(it.is_consistent()));
    }
    for _ in 0..20_000 {
        let mut damaged = whole.clone();
        for _ in 0..=random(4) {
            let at = random(damaged.len());
            damaged[at] = random(256) as u8;
        }
        let _ = read(&damaged).map(|it| assert!(it.is_consistent()));
    }
}
