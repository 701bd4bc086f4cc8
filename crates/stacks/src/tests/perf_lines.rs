//! Lines between the samples of `perf script` that are none: what perf warns of, and any sentence with numbers in it.

use testkit::Random;

use super::forms::open;
use crate::{Collapse, CollapseOptions};

const WARNING: &str = "Warning:\nProcessed 100 events and lost 3 chunks!\n\nCheck IO/CPU overload!\n\n";
const SIDEBAND: &str = include_str!("perf-sideband.txt");

fn collapsed(text: &str) -> Collapse {
    let mut collapse = Collapse::new(CollapseOptions::default());
    collapse.read(&mut text.as_bytes(), None).unwrap().unwrap();
    collapse
}

fn folded(text: &str) -> String {
    let mut out = Vec::new();
    collapsed(text).write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_perf_warns_of_is_no_sample() {
    let text = format!("{WARNING}{SIDEBAND}");
    let read = open("x.txt", text.as_bytes()).unwrap();
    assert_eq!(read.folded(), "app;main;f 1001001\n");
    assert_eq!(read.notes, ["3 lines: neither a sample nor a frame, left out"]);
    assert_eq!(folded(&text), "app;main;f 1001001\n");
}

/// Words, numbers and marks in any order.
fn sentence(random: &mut Random) -> String {
    const WORDS: &str = "Warning: lost Processed chunks! events IO/CPU 100 3 12/13 7, 99% note: see (or so) 0.5";
    let all: Vec<&str> = WORDS.split(' ').collect();
    let length = 1 + random.below(9);
    let words: Vec<&str> = (0..length).map(|_| random.of(&all)).collect();
    words.join(" ") + random.of(&["\n", ".\n", ":\n", "\n\n"])
}

/// Whatever fields the samples have, sentences between them change nothing.
#[test]
fn sentences_between_samples_change_nothing() {
    const HEADS: [&str; 4] = [
        "x 12 7/8 [001] 1.5: 1001001 cpu-clock: ",
        "app 700 1.5: cycles:P: ",
        "app 700 [000] d..1. 1.5: 5 sched:sched_switch: prev_comm=a ==> b",
        "app 700 1.5: ",
    ];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let head = random.of(&HEADS);
        let (mut plain, mut told) = (String::new(), sentence(&mut random));
        for _ in 0..=random.below(6) {
            let frame = random.of(&["f", "g", "std::h(int)"]);
            let sample = format!("{head}\n\t4011aa {frame}+0x1 (/opt/app)\n\t10 main (/opt/app)\n\n");
            plain += &sample;
            told += &sample;
            for _ in 0..random.below(3) {
                told += &sentence(&mut random);
            }
        }
        let mut read = open("x.perf", told.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{told}"));
        read.notes.clear();
        assert_eq!(read, open("x.perf", plain.as_bytes()).unwrap(), "seed {seed}\n{told}");
        assert_eq!(folded(&told), folded(&plain), "seed {seed}\n{told}");
    }
}

/// Output of compilers, tests and servers is no profile, though a number follows its first word.
#[test]
fn sentences_alone_are_no_profile() {
    for text in [
        "Found 3 errors:\nfoo.c:1: bad thing\n",
        "line 12 error:\n  something (else)\nline 14 error:\n  other (x)\n",
        "running 5 tests:\n  ok a (0.1s)\n  ok b (0.2s)\n",
        "Starting up\nworker 12 1234.567: started a job\nworker 13 1234.6: started a job\n",
        "Starting up\nworker 12 1234.567: job: started\nworker 13 1234.6: job: done\n",
        "epoch 3 0.25: loss of 0.1\nepoch 4 0.26: loss of 0.1\n",
    ] {
        let read = open("x.txt", text.as_bytes());
        assert!(read.is_err(), "{text}{:?}", read.map(|it| it.folded()));
    }
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let text: String = (0..1 + random.below(9)).map(|_| sentence(&mut random)).collect();
        // As folded text `lost 3` may be a function's.
        let is_perf = open("x.perf", text.as_bytes()).map(|it| it.folded()).is_ok_and(|it| it.contains("[unknown]"));
        assert!(!is_perf, "seed {seed}\n{text}");
    }
    // What perf prints is one, with whatever fields: with the function in the sample's line, with an event and no
    // stack.
    for text in [
        "app 700 cycles: \n\t    4011aa f+0x1 (/opt/app)\n\n",
        "app 700 1.5: \n\t    4011aa f+0x1 (/opt/app)\n\n",
        "  app 700 1.5: 9 cycles: 4011aa f+0x1 (/opt/app)\n",
        "app 700 [000] 1.5: sched:sched_switch: prev_comm=a ==> next_comm=b\n",
        "app 700 1.5: cycles: \n",
    ] {
        assert!(open("x.perf", text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn samples_without_stacks_are_counted() {
    let text = "             app   700   100.000001:    1001001 cpu-clock:      4011aa f+0x1 (/opt/app)\n".repeat(2);
    let bare = collapsed(&text);
    assert_eq!((bare.stacks(), bare.without_stacks()), (0, 2));
    let bare = collapsed("app 700 1.5: 1 cycles: \napp 700 1.6: 1 cycles: \n");
    assert_eq!((bare.stacks(), bare.without_stacks()), (0, 2));
    let whole = collapsed(SIDEBAND);
    assert_eq!((whole.stacks(), whole.without_stacks()), (1, 0));
}
