//! Folded text and pprof, written and read.

use std::collections::BTreeSet;

use super::{file, profile, small};
use crate::{FORMATS, FrameKind, Profile, ProfileError, folded_beside, folded_name, sampled_events};

fn lines(text: &str) -> BTreeSet<&str> {
    let lines: BTreeSet<_> = text.lines().collect();
    assert_eq!(lines.len(), text.lines().count(), "each stack stands once");
    lines
}

pub(super) fn open(name: &str, bytes: &[u8]) -> Result<Profile, ProfileError> {
    let (_dir, path) = file(name, bytes);
    Profile::open(path)
}

/// Facts that survive: names, modules, weights.
fn table(profile: &Profile) -> BTreeSet<(String, String, u64, u64)> {
    let rows = profile.functions().into_iter();
    rows.map(|it| (it.share.function, it.share.module, it.self_weight, it.total_weight)).collect()
}

#[test]
fn folded_text_merges_schedulers_and_sums_up() {
    let text = small().folded();
    let wanted = [
        "scheduler;main;$loop/1;$route/2 4",
        "scheduler;main;$loop/1;$fold/3;$fold/3;$route/2 2",
        "aux;main 1",
        "scheduler;[unknown];$send/2;_tcp_sendmsg 3",
    ];
    assert_eq!(lines(&text), BTreeSet::from(wanted));
    assert_eq!(text, small().folded(), "the order of lines is no accident");
    assert_eq!(Profile::default().folded(), "");
}

#[test]
fn names_that_folded_text_cannot_carry_are_changed() {
    let mut profile = profile(&[("t;a;b", 1)]);
    profile.frames[0].name = "La;b\n<script>".into();
    profile.threads[0] = "x;y\t".into();
    assert_eq!(profile.folded(), "x:y?;La:b?<script>;b 1\n");
    for [name, folded] in testkit::table(include_str!("folded-names.txt")) {
        assert_eq!(folded_name(name, "[unknown]"), folded);
    }
}

#[test]
fn what_the_jit_puts_in_front_of_a_function_is_the_functions() {
    let text = "t;main;$a:b/1 2\nt;main;$a:b/1-CodeInfoPrologue 3\nt;x-CodeInfoPrologue 1\n";
    let read = open("cpu.folded", text.as_bytes()).unwrap();
    let wanted = ["t;main;$a:b/1 5", "t;x-CodeInfoPrologue 1"];
    assert_eq!(lines(&read.folded()), BTreeSet::from(wanted));
    let perf = profile(&[("t;$a:b/1-CodeInfoPrologue", 3), ("t;$a:b/1", 4)]);
    let read = open("profile.pb.gz", &perf.to_pprof().unwrap()).unwrap();
    assert_eq!(read.folded(), "t;$a:b/1 7\n");
}

#[test]
fn folded_text_of_others_is_read_with_what_is_wrong_noted() {
    let read = open("x.txt", b"# comment\nt;main;b 2\n\nnonsense\nt;main 1.6\nalone 3\n; 1\n 5\n").unwrap();
    assert_eq!((read.total_weight(), read.header.unit.as_str()), (20 + 16 + 30 + 10, "tenths"));
    assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
    assert!(read.notes[0].contains("counts with a fraction"));
    assert!(read.notes[1].contains("2 lines") && read.notes[1].contains("`nonsense`"));
    testkit::assert_has(open("x.txt", b"nothing here\n").unwrap_err().to_string(), ["x.txt", "ends in a count"]);
}

#[test]
fn counts_with_fractions_keep_their_shares() {
    let each_of =
        |each: &str, count: u64| -> String { (0..count).map(|i| format!("t;main;f{} {each}\n", i % 7)).collect() };
    for (each, count, sum, unit) in [
        ("0.4", 1_000, 4_000, "tenths"),
        ("1.9", 10, 190, "tenths"),
        ("0.05", 10, 50, "hundredths"),
        ("1e-7", 10, 1_000, "billionths"),
        ("0.3333333333333", 3, 1_000_000, "millionths"),
        ("3", 10, 30, "weight"),
        ("3.0", 10, 30, "weight"),
    ] {
        let read = open("x.folded", each_of(each, count).as_bytes()).unwrap();
        let told = (read.total_weight(), read.header.unit.as_str());
        assert_eq!(told, (sum, unit), "{count} of {each}");
        assert_eq!(read.notes.len(), usize::from(unit != "weight"));
    }
    // No function vanishes, and those with whole counts keep their shares.
    let small = open("x.folded", b"a;hot 0.6\na;warm 0.4\na;cold 0.3\na;much 13\n").unwrap();
    let wanted = ["a;hot 6", "a;warm 4", "a;cold 3", "a;much 130"];
    assert_eq!(lines(&small.folded()), BTreeSet::from(wanted));
    // What is too large for that is rounded.
    let huge = open("x.folded", b"t;a 1e18\nt;a 0.4\nt;a 0.4\n").unwrap();
    assert_eq!((huge.samples[2].weight, huge.header.unit.as_str()), (1, "weight"));
}

#[test]
fn pprof_is_read_back() {
    let mut original = small();
    original.notes = vec!["a note".into()];
    let bytes = original.to_pprof().unwrap();
    let read = open("profile.pb.gz", &bytes).unwrap();
    assert!(read.is_consistent());
    assert_eq!(table(&read), table(&original));
    assert_eq!(lines(&read.folded()), lines(&original.folded()));
    let (a, b) = (read.summary(5), original.summary(5));
    assert_eq!((a.samples, a.complete_share, a.unknown_share), (b.samples, b.complete_share, b.unknown_share));
    assert_eq!(read.notes, original.notes);
    assert_eq!((read.header.period_ns, read.header.frequency), (1_000_000, 1000));
    assert_eq!((read.header.event.as_str(), read.header.unit.as_str()), ("cpu", "samples"));
    assert_eq!(read.threads, original.threads);
    let kinds: Vec<_> = read.functions().iter().map(|f| f.kind).collect();
    assert!(kinds.contains(&FrameKind::Erlang) && kinds.contains(&FrameKind::Kernel));
    let empty = open("e.pb.gz", &Profile::default().to_pprof().unwrap()).unwrap();
    assert!(empty.samples.is_empty());
}

#[test]
fn weights_of_another_unit_keep_it() {
    let mut original = profile(&[("t;a", 4096)]);
    original.header.event = "malloc".into();
    original.header.unit = "bytes".into();
    let read = open("m.pb.gz", &original.to_pprof().unwrap()).unwrap();
    assert_eq!((read.header.event.as_str(), read.header.unit.as_str()), ("malloc", "bytes"));
    assert_eq!((read.header.period_ns, read.total_weight()), (0, 4096));
}

/// A pprof message written down byte by byte, as another tool might have made it: a location with
/// an inlined call, no mapping, no default type, values in nanoseconds only.
#[test]
fn pprof_of_other_tools_is_read() {
    let message: &[u8] = &[
        0x0a, 4, 0x08, 1, 0x10, 2, // sample_type: cpu, nanoseconds
        0x12, 7, 0x0a, 2, 1, 2, 0x12, 1, 50, // sample: locations 1, 2; value 50
        0x22, 8, 0x08, 1, 0x22, 4, 0x08, 1, 0x10, 9, // location 1: function 1, line 9
        0x22, 10, 0x08, 2, 0x22, 2, 0x08, 2, 0x22, 2, 0x08, 3, // location 2: 2 inlined into 3
        0x2a, 4, 0x08, 1, 0x10, 3, // function 1: leaf
        0x2a, 4, 0x08, 2, 0x10, 4, // function 2: inner
        0x2a, 4, 0x08, 3, 0x10, 5, // function 3: outer
        0x32, 0, 0x32, 3, b'c', b'p', b'u', // strings
        0x32, 11, b'n', b'a', b'n', b'o', b's', b'e', b'c', b'o', b'n', b'd', b's', 0x32, 4, b'l', b'e', b'a', b'f',
        0x32, 5, b'i', b'n', b'n', b'e', b'r', 0x32, 5, b'o', b'u', b't', b'e', b'r',
    ];
    let read = open("other.pb", message).unwrap();
    assert_eq!(read.folded(), "outer;inner;leaf 50\n");
    assert_eq!((read.header.event.as_str(), read.header.unit.as_str()), ("cpu", "nanoseconds"));
    // Cut anywhere or with any byte changed it is an error or another profile, never a panic.
    for i in 0..message.len() {
        let _ = open("cut.pb", &message[..i]);
        let mut changed = message.to_vec();
        changed[i] ^= 0x81;
        let _ = open("changed.pb", &changed).map(|p| assert!(p.is_consistent()));
    }
}

#[test]
fn folders_without_a_profile_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    testkit::assert_has(Profile::open(dir.path()).unwrap_err().to_string(), ["*.stacks"]);
    assert!(Profile::open(dir.path().join("none")).is_err());
}

#[test]
fn a_run_folder_gives_the_richest_profile_of_the_event_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let leaf = |event| Profile::open_as(&FORMATS, dir.path(), event).map(|it| it.frames[0].name.clone());
    let put = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
    put("brk.folded", "t;first_by_name 1\n");
    put("sched:fork.folded", "t;fork 1\n");
    assert_eq!(leaf(None).unwrap(), "first_by_name");
    put("cpu.folded", "t;usual 1\n");
    put("cpu.svg", "");
    assert_eq!(leaf(None).unwrap(), "usual");
    assert_eq!(leaf(Some("brk")).unwrap(), "first_by_name");
    assert_eq!(leaf(Some("sched:fork")).unwrap(), "fork");
    assert_eq!(sampled_events(dir.path()), ["cpu", "brk", "sched:fork"]);
    let pprof = profile(&[("t;pprof", 1)]).to_pprof().unwrap();
    std::fs::write(dir.path().join("brk.pb.gz"), &pprof).unwrap();
    assert_eq!((leaf(Some("brk")).unwrap(), leaf(None).unwrap()), ("pprof".into(), "usual".into()));
    for none in ["mmap", "../cpu", ""] {
        let error = leaf(Some(none)).unwrap_err().problem();
        assert!(error.value.contains("cpu, brk, sched:fork"), "{}", error.sentence());
    }
    assert_eq!(sampled_events(dir.path()), ["cpu", "brk", "sched:fork"]);
    std::fs::write(dir.path().join("profile.pb.gz"), pprof).unwrap();
    assert_eq!(leaf(None).unwrap(), "pprof");
    // A file that says what it is of.
    let mut of_cpu = small();
    of_cpu.header.event = "cpu".into();
    let file = dir.path().join("x.stacks");
    of_cpu.write_stacks(&file).unwrap();
    assert!(Profile::open_as(&FORMATS, &file, Some("cpu")).is_ok());
    testkit::assert_has(Profile::open_as(&FORMATS, &file, Some("brk")).unwrap_err().to_string(), ["no profile of brk"]);
}

/// The pprof of the event that came first on the command line has a name that does not tell which that was.
#[test]
fn each_event_is_found_in_whichever_order_they_were_named_and_whatever_is_left() {
    const EVENTS: [&str; 3] = ["cpu", "off-cpu", "brk"];
    let of = |event: &str, form: &str| {
        let mut it = profile(&[(&format!("t;{event}"), 1)]);
        it.header.event = event.to_owned();
        it.header.unit = format!("{event} of {form}");
        it
    };
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: String| dir.path().join(name);
        for (place, event) in order.map(|it| EVENTS[it]).into_iter().enumerate() {
            let name = match place {
                0 => "profile.pb.gz".to_owned(),
                _ => format!("{event}.pb.gz"),
            };
            std::fs::write(at(name), of(event, "pprof").to_pprof().unwrap()).unwrap();
            std::fs::write(at(format!("{event}.folded")), of(event, "folded").folded()).unwrap();
            of(event, "stacks").write_stacks(&at(format!("{event}.stacks"))).unwrap();
        }
        let leaf = |event: Option<&str>| {
            let read = Profile::open_as(&FORMATS, dir.path(), event)?;
            assert_eq!(read.header.event, read.frames[0].name, "{order:?}");
            Ok::<_, ProfileError>(read.header.event)
        };
        let all = || {
            assert_eq!(leaf(None).unwrap(), "cpu", "{order:?}");
            for event in EVENTS {
                assert_eq!(leaf(Some(event)).unwrap(), event, "{order:?}");
            }
            let error = leaf(Some("mmap")).unwrap_err().problem();
            for event in EVENTS {
                assert!(error.value.contains(event), "{order:?}: {}", error.value);
            }
        };
        all();
        for event in EVENTS {
            std::fs::remove_file(at(format!("{event}.stacks"))).unwrap();
        }
        all();
        // Without folded text only its content tells what the first pprof is of.
        for event in EVENTS {
            std::fs::remove_file(at(format!("{event}.folded"))).unwrap();
        }
        all();
        for event in EVENTS {
            let text = of(event, "folded").folded();
            std::fs::write(at(format!("{event}.folded")), text).unwrap();
            let _ = std::fs::remove_file(at(format!("{event}.pb.gz")));
        }
        std::fs::remove_file(at("profile.pb.gz".into())).unwrap();
        all();
    }
}

/// `difffolded.pl` prints each stack of either file with the counts of the first and of the second.
#[test]
fn two_profiles_stand_beside_each_other_as_difffolded_writes_them() {
    let a = profile(&[("1_scheduler;main;a 7", 3), ("aux;main", 2), ("2_scheduler;main;a 7", 1)]);
    let mut b = profile(&[("1_scheduler;main;b", 5), ("aux;main", 7)]);
    assert_eq!(folded_beside(&a, &b), "aux;main 2 7\nscheduler;main;a_7 4 0\nscheduler;main;b 0 5\n");
    b.threads.iter_mut().for_each(String::clear);
    assert_eq!(folded_beside(&a, &b), "main 2 7\nmain;a_7 4 0\nmain;b 0 5\n");
    assert_eq!(folded_beside(&Profile::default(), &Profile::default()), "");
}
