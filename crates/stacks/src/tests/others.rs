//! Files of other tools that were read wrongly once: what they are, or why they are refused.

use super::forms::open;
use super::{file, packed};
use crate::{Collapse, CollapseOptions, FORMATS, FirstField, Profile, ReadOptions};

macro_rules! other {
    ($name:literal) => {
        ($name, include_bytes!(concat!("others/", $name)) as &[u8])
    };
}

fn read((name, bytes): (&str, &[u8])) -> Profile {
    open(name, bytes).unwrap()
}

#[test]
fn samples_are_told_from_what_stands_beside_them() {
    for (other, wanted) in [
        (other!("perf-one-char-thread.txt"), "w;slow 1001001\nww;fast 1001001\n"),
        (other!("perf-sideband.txt"), "app;main;f 1001001\n"),
        (other!("perf-no-stacks.txt"), "app;f 2002002\n"),
        (other!("perf-first-line.txt"), "app;main;f 1001001\n"),
        // `main` is a function: it is a whole stack, too.
        (other!("folded-no-thread.folded"), "main 5\nmain;a 3\n"),
        // Functions of no interest are left out with what they call.
        (other!("pprof-drop-frames.pb.gz"), "main;a 3\n"),
    ] {
        assert_eq!(read(other).folded(), wanted, "{}", other.0);
    }
    let notes = read(other!("perf-sideband.txt")).notes;
    assert_eq!(notes, Vec::<String>::new());
    let mut collapse = Collapse::new(CollapseOptions::default());
    let (_, mut text) = other!("perf-sideband.txt");
    collapse.read(&mut text, None).unwrap().unwrap();
    assert_eq!(collapse.notes(), Vec::<String>::new());
}

#[test]
fn what_was_recorded_without_call_graphs_has_no_complete_stack() {
    let note = "recorded without call graphs: no stacks; `perf record -g` records them";
    let thread = ReadOptions { first_field: FirstField::Thread, ..ReadOptions::default() };
    let of_thread = |text: &str| {
        let (_dir, path) = file("x.folded", text);
        Profile::open_with_lines(&FORMATS, &path, thread).unwrap()
    };
    for profile in [
        read(other!("perf-no-stacks.txt")),
        of_thread("app;f 2002002\napp;g 1001001\n"),
        open("x.folded", b"f 2\ng 1\n").unwrap(),
    ] {
        assert_eq!(profile.summary(0).complete_share, 0.0, "{profile:?}");
        assert!(profile.notes.iter().any(|it| it == note), "{profile:?}");
    }
    let folded = open("x.folded", b"app;main;f 2\n").unwrap();
    assert_eq!(folded.header.unit, "weight", "nothing says what is counted");
    for whole in [
        read(other!("perf-first-line.txt")),
        open("x.folded", b"app;main;f 2\napp;idle 1\n").unwrap(),
        of_thread("app;main;f 2\napp;idle 1\n"),
    ] {
        assert_eq!(whole.summary(0).complete_share, 1.0, "{whole:?}");
        assert!(!whole.notes.iter().any(|it| it == note), "{whole:?}");
    }
}

#[test]
fn a_thread_without_a_stack_leaves_the_others_what_they_are() {
    let text = b"swapper;start_thread;b 3\npool_[1];c 2\nswapper 12\n";
    let read = open("x.folded", text).unwrap();
    assert!(read.threads.iter().any(|it| it == "pool_[1]"), "{read:?}");
    assert!(read.threads.iter().any(|it| it == "swapper"), "{read:?}");
    let of_java = open("x.folded", b"java/lang/Thread.run_[j];a 3\nstart_thread;b 2\n").unwrap();
    assert_eq!(of_java.threads, [""]);
}

/// First field as the lines tell it, and as the option says.
#[test]
fn the_first_field_is_a_thread_where_something_says_so() {
    let of = |text: &str, first_field| {
        let (_dir, path) = file("x.folded", text);
        let options = ReadOptions { first_field, ..ReadOptions::default() };
        let read = Profile::open_with_lines(&FORMATS, &path, options).unwrap();
        let is_told = !read.notes.iter().any(|it| it.starts_with("the first field"));
        (read.has_threads(), is_told)
    };
    for [text, is_thread, is_told] in testkit::table(include_str!("first-fields.txt")) {
        let inferred = of(text, FirstField::Inferred);
        assert_eq!(inferred, (is_thread == "true", is_told == "true"), "{text}");
        assert!(of(text, FirstField::Thread).1, "{text}");
        assert_eq!(of(text, FirstField::Function), (false, true), "{text}");
    }
    assert!(of("main;a 3\n", FirstField::Thread).0);
}

#[test]
fn names_are_whole_and_gone_files_have_theirs() {
    let cpp = read(other!("perf-cpp-names.txt"));
    assert_eq!(
        cpp.folded(),
        "app;main;(anonymous namespace)::inner;std::function<void (int)>::operator();A::operator() 1001001\n\
         app;main;(anonymous namespace)::inner;std::function<void (int, long)>::operator();B::operator() 1001001\n"
    );
    let gone = b"ab 1 1.0: 1 cpu-clock:\n\t10 f(int)+0x1 (/opt/my app (deleted))\n\n";
    let gone = open("x.txt", gone).unwrap();
    let frame = &gone.frames[0];
    assert_eq!((frame.name.as_str(), frame.module.as_str()), ("f(int)", "my app"));
}

#[test]
fn an_event_is_chosen_by_any_name() {
    let text = b"ab 1 1.0: 10 cpu_atom/cycles/P:\n\t10 f (/bin/a)\n\nab 1 1.1: 3 page-faults:\n\t10 g (/bin/a)\n\n";
    let (_dir, path) = file("x.txt", text);
    let of = |event| Profile::open_as(&FORMATS, &path, event);
    assert_eq!(of(None).unwrap().folded(), "ab;f 10\n");
    assert_eq!(of(Some("cpu_atom/cycles/P")).unwrap().folded(), "ab;f 10\n");
    let faults = of(Some("page-faults")).unwrap();
    assert_eq!(faults.folded(), "ab;g 3\n");
    assert_eq!(faults.notes, ["samples of other events were left out: cpu_atom/cycles/P (1) (--event chooses)"]);
    testkit::assert_has(of(Some("mmap")).unwrap_err().to_string(), ["cpu_atom/cycles/P (1), page-faults (1)"]);
}

#[test]
fn what_is_something_else_is_refused_with_the_reason() {
    // Work is bounded, too: 200 KB of gzip can stand for 200 MB of text.
    let beyond_belief = packed(format!("t;{} 1\n", "f".repeat(1_000)).repeat(40_000));
    for (other, why) in [
        (other!("legacy-contention.txt"), "a text of pprof's"),
        (other!("difffolded.folded"), "two counts"),
        (other!("pprof-negative.pb.gz"), "the difference of two profiles"),
        (("heap.txt", b"heap profile: 1: 32 [2: 64] @ heap/1048576\n1: 32 [2: 64] @ 0x1 0x2\n"), "Go's text of a heap"),
        (("cpu.prof", &[0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 16, 39]), "binary data"),
        (("notes.txt", b"we measured\nthe broker\nand lost 3\n"), "only 1 of its 3 lines"),
        (("sums.txt", b"requests sent 5000\nrequests failed 3\n"), "none of them has a `;`"),
        (("x.folded", b"a;b 0\na;c 0\n"), "all of its counts are 0"),
        (("x.folded", b"a;b 9223372036854775807\na;c 1\n"), "more than can be counted"),
        (("x.folded", b"a;b 99999999999999999999999\n"), "more than can be counted"),
        (("x.perf", b"ab 1 1.0: 99999999999999999999 cycles:\n\t10 f (/bin/a)\n\n"), "more than can be counted"),
        (("empty", b""), "the file is empty"),
        (("x.pb.gz", b"\x1f\x8b\x08garbage"), "cannot read"),
        (("y.pb.gz", &packed("no protobuf at all")), "as pprof"),
        (("x.stacks", b"{\"header\":1}\n"), "not a known header"),
        (("x.bin", b"\xff\xfe\x00"), "binary data"),
        (("load.jfr.gz", &packed(b"FLR\0\0\x02\0\0 and nothing else")), "flight recorder"),
        (("x.folded.gz", &beyond_belief), "bytes unpacked"),
        (("x.txt", b"{\"nodes\":[]}"), "JSON"),
        (("x.txt", b"<svg></svg>"), "HTML or an image"),
        (("x.txt", b"\x7fELF\x02\x01"), "a program"),
        (("x.txt", b"hello\n"), "it looks like text"),
    ] {
        let (name, bytes) = other;
        let error = open(name, bytes).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(why) && said.contains(name), "{name}: {said}");
        if name == "x.txt" {
            assert!(error.problem().help.contains("bellows help profile-formats"));
        }
    }
}
