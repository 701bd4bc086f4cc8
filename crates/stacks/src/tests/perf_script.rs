//! The text of `perf script`, folded and read. The expected lines are those of `stackcollapse-perf.pl`;
//! `crates/bellows/tests/all/formats.rs` compares with the script itself where it is there.

use testkit::Random;

use super::forms::open;
use super::packed;
use crate::{Collapse, CollapseOptions, FrameKind};

/// Samples of all shapes that `perf script` has: with and without process, processor and period, several events,
/// compiled, inlined, unknown and kernel functions, C++ and Go names, no stack, and one that is cut off.
const SCRIPT: &[u8] = include_bytes!("perf-script.txt");

fn folded(options: CollapseOptions, text: &[u8]) -> Result<String, String> {
    let mut collapse = Collapse::new(options);
    collapse.read(&mut &*text, None).unwrap()?;
    let mut out = Vec::new();
    collapse.write(&mut out).unwrap();
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn the_text_is_folded_as_the_script_does() {
    let none = CollapseOptions::default();
    let plain = include_str!("perf-script.folded");
    assert_eq!(folded(none.clone(), SCRIPT).unwrap(), plain);
    let marked = CollapseOptions { kernel: true, jit: true, ..none.clone() };
    let marked = folded(marked, SCRIPT).unwrap();
    for line in [
        "beam.smp;[libc.so.6];process_main;$rabbit_exchange:route/2_[j];nf_hook_slow_[k];tcp_sendmsg_[k] 2002002",
        "java;tcp_sendmsg_[k];a/B:::outer_[j];a/C:::inner_[i];inlined_[i];java/io/PrintStream:::print_[j] 235",
    ] {
        assert!(marked.lines().any(|it| it == line), "{line} is not in {marked}");
    }
    let numbered = CollapseOptions { tid: true, addresses: true, ..none.clone() };
    let numbered = folded(numbered, SCRIPT).unwrap();
    for start in [
        "V8_WorkerThread-24636/25607;[unknown <0>];",
        "beam.smp-4711/4719;[libc.so.6 <7f3c0b07>];",
        "java-?/12688;",
        "swapper-?/0;",
    ] {
        assert!(numbered.lines().any(|it| it.starts_with(start)), "{start} is not in {numbered}");
    }
    let other = CollapseOptions { event: Some("instructions".into()), ..none };
    assert_eq!(folded(other, SCRIPT).unwrap(), "perf;main 1\nswapper;native_safe_halt 1\n");
}

/// A recording of `bellows broker` under load, and what the script makes of it with `--kernel`.
#[test]
fn a_recording_of_our_own_broker_is_folded_and_read() {
    let text = include_bytes!("broker-script.txt");
    let options = CollapseOptions { kernel: true, ..CollapseOptions::default() };
    let wanted = include_str!("broker-script.folded");
    assert_eq!(folded(options, text).unwrap(), wanted);
    let read = open("x.txt", text).unwrap();
    assert_eq!(read.samples.len(), 16);
    assert_eq!(read.total_weight(), 16 * 20_408_163, "49 Hz");
    let kinds = |kind| read.functions().iter().any(|function| function.kind == kind);
    assert!(kinds(FrameKind::Kernel) && kinds(FrameKind::Libc) && kinds(FrameKind::Native));
    assert!(read.notes.is_empty(), "{:?}", read.notes);
}

#[test]
fn places_in_the_source_follow_their_functions() {
    let text = include_bytes!("perf-script-places.txt");
    let options = CollapseOptions { source_lines: true, ..CollapseOptions::default() };
    assert_eq!(
        folded(options, text).unwrap(),
        "a.out;[unknown];inlined_[i];__libc_start_main:libc-2.33.so;main:file.cpp:137;\
         some_method_name:uniform_int_dist.h:300 667783\n"
    );
}

#[test]
fn inlined_functions_stand_in_the_place_of_their_frame() {
    let mut collapse = Collapse::new(CollapseOptions::default());
    let mut asked = Vec::new();
    let mut tell = |address: &[u8], function: &[u8], module: &[u8]| {
        asked.push([address, function, module].map(|it| String::from_utf8_lossy(it).into_owned()));
        (address == b"10").then(|| b"outer;inner".to_vec())
    };
    let text = b"ab 1 1.0: 1 x:\n 10 f+0x1 (/bin/a)\n 20 g+0x1 (/bin/a)\n 30 h ([kernel.kallsyms])\n \
        40 j (/tmp/perf-1.map)\n\n";
    collapse.read(&mut &text[..], Some(&mut tell)).unwrap().unwrap();
    let mut out = Vec::new();
    collapse.write(&mut out).unwrap();
    assert_eq!(out, b"ab;j;h;g;outer;inner 1\n");
    assert_eq!(asked.len(), 2, "kernel and maps are no files: {asked:?}");
    assert_eq!(asked[0], ["10", "f+0x1", "/bin/a"]);
}

#[test]
fn the_text_is_read_as_a_profile() {
    let read = open("x.txt", SCRIPT).unwrap();
    assert!(read.is_consistent());
    assert_eq!((read.header.event.as_str(), read.header.unit.as_str()), ("cpu", "nanoseconds"));
    assert_eq!(read.header.kernel_event, "cpu-clock");
    let first = read.samples[0];
    assert_eq!((first.t, first.cpu, first.weight), (0, 1, 1_001_001));
    assert_eq!(read.samples[1].t, 1_000, "microseconds become nanoseconds");
    let names: Vec<_> = read.stack(first.stack).iter().map(|f| (f.name.as_str(), f.module.as_str(), f.kind)).collect();
    assert_eq!(
        names,
        [
            ("[unknown]", "libc.so.6", FrameKind::Unknown),
            ("process_main", "beam.smp", FrameKind::Runtime),
            ("$rabbit_exchange:route/2", "[jit]", FrameKind::Erlang),
            ("nf_hook_slow", "[nf_conntrack]", FrameKind::Kernel),
            ("tcp_sendmsg", "[kernel]", FrameKind::Kernel),
        ]
    );
    assert!(!first.complete, "its root has no name");
    assert_eq!(read.threads[first.thread as usize], "beam.smp");
    let inlined = &read.samples[3];
    let names: Vec<_> = read.stack(inlined.stack).iter().map(|f| f.name.clone()).collect();
    assert_eq!(names, ["tcp_sendmsg", "La/B;::outer", "La/C;::inner", "inlined", "Ljava/io/PrintStream;::print"]);
    let other = "samples of other events were left out: ";
    assert!(read.notes.iter().any(|note| note.starts_with(other)), "{:?}", read.notes);
    let last = read.samples.last().unwrap();
    assert_eq!(read.stack(last.stack)[0].name, "main", "the last one is cut off and kept");
    // Packed, and with the comments of --header before it.
    assert_eq!(open("x.gz", &packed(SCRIPT)).unwrap(), read);
}

#[test]
fn events_that_are_no_clock_keep_their_unit_and_a_sample_without_a_period_counts_once() {
    for (period, unit, weight) in [("4096 ", Some("page-faults"), 4096), ("", Some("samples"), 1), ("0 ", None, 1)] {
        let text = format!("ab 1 1.0: {period}page-faults:\n\t10 f (/bin/a)\n\n").repeat(20);
        let read = open("x.txt", text.as_bytes()).unwrap();
        assert_eq!(read.header.event, "page-faults");
        assert!(unit.is_none_or(|unit| unit == read.header.unit), "{period}: {}", read.header.unit);
        let wanted = format!("ab;f {}\n", 20 * weight);
        assert_eq!(read.folded(), wanted);
        assert_eq!(folded(CollapseOptions::default(), text.as_bytes()).unwrap(), wanted);
    }
}

#[test]
fn hostile_text_is_refused_or_read_within_bounds() {
    let head = b"ab 1 1.0: 1 x:\n";
    let long = [head.as_slice(), &b"f".repeat(2 << 20)].concat();
    assert!(folded(CollapseOptions::default(), &long).unwrap_err().contains("bytes"));
    assert!(open("x.txt", &long).unwrap_err().to_string().contains("no end"));
    // A stack of two million frames.
    let deep = [head.as_slice(), &b" 1 function (/bin/a)\n".repeat(2_100_000)].concat();
    assert!(folded(CollapseOptions::default(), &deep).unwrap_err().contains("MiB"));
    let read = open("x.txt", &deep).unwrap();
    assert_eq!(read.stack(read.samples[0].stack).len(), 10_000);
    assert!(read.notes.iter().any(|note| note.contains("too many frames")), "{:?}", read.notes);
    // A stack counts once, however much of it is left out, and what has no root is not complete.
    let deep = [head.as_slice(), &b" 1 function (/bin/a)\n".repeat(10_100)].concat();
    let two = [deep.as_slice(), b"\n", &deep].concat();
    let read = open("x.txt", &two).unwrap();
    assert_eq!(read.notes, ["2 stacks: cut off, because there are too many frames"]);
    assert!(read.samples.iter().all(|sample| !sample.complete));
    // Counts beyond all types.
    let huge = format!("ab 1 1.0: {} x:\n 1 f (/bin/a)\n\n", "9".repeat(30)).repeat(2);
    assert_eq!(folded(CollapseOptions::default(), huge.as_bytes()).unwrap(), "ab;f 2e+30\n");
    testkit::assert_has(open("x.txt", huge.as_bytes()).unwrap_err().to_string(), ["more than can be counted"]);
    // Lines that are nothing.
    let odd = b"ab 1 1.0: 1 x:\n 1 (\n )\n 1 ()\n()\n ( (\n (f) (g)\n \xff\xfe (\xff)\n\n/ / / /\n";
    let _ = (folded(CollapseOptions::default(), odd), open("x.txt", odd));
}

/// Output of `perf script` for `perf record -e page-faults -c 1 -e sched:sched_switch`, with the period of the second
/// event as `-F +period` shows it, and with text behind it that looks like an event.
const WITH_TRACEPOINT: &[u8] = include_bytes!("perf-script-tracepoint.txt");

#[test]
fn events_with_text_behind_them_are_others() {
    let read = open("x.txt", WITH_TRACEPOINT).unwrap();
    assert_eq!(read.header.event, "page-faults");
    assert_eq!(read.folded(), "sh;f 2\n");
    assert_eq!(read.notes, ["samples of other events were left out: sched:sched_switch (2) (--event chooses)"]);
    // The first event is the one that has text behind it.
    let start = WITH_TRACEPOINT.windows(2).position(|two| two == b"\n\n");
    let read = open("x.txt", &WITH_TRACEPOINT[start.unwrap() + 2..]).unwrap();
    assert_eq!(read.header.event, "sched:sched_switch");
    assert_eq!(read.folded(), "sh;g 2\n");
    assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
    // The script folds what it does not tell apart, and a note says it.
    let mut collapse = Collapse::new(CollapseOptions::default());
    collapse.read(&mut &*WITH_TRACEPOINT, None).unwrap().unwrap();
    let notes = collapse.notes();
    assert!(notes.len() == 1 && notes[0].starts_with("1 samples of sched:sched_switch"), "{notes:?}");
}

/// Whatever the order of the events, and whatever stands behind them, only samples of the first one are read.
#[test]
fn any_order_of_events_gives_the_samples_of_the_first() {
    const EVENTS: [(&str, &str); 4] = [
        ("cpu-clock:u", ""),
        ("page-faults", " "),
        ("sched:sched_switch", " prev_comm=a: 1 b:"),
        ("syscalls:sys_enter_mmap", " addr: 0x0, len: 0x1000"),
    ];
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut text, mut first) = (String::new(), None);
        let mut counts = [0_u64; EVENTS.len()];
        for at in 0..=random.below(30) {
            let index = random.below(EVENTS.len() as u64) as usize;
            let (event, behind) = EVENTS[index];
            let cpu = random.of(&["", "[001]"]);
            let period = random.of(&["", "1", "0"]);
            text += &format!("x 12 7/8 {cpu} 1.{at:06}: {period} {event}:{behind}\n\t10 f{index} (/bin/a)\n\n");
            first.get_or_insert(index);
            counts[index] += 1;
        }
        let first = first.unwrap();
        let read = open("x.txt", text.as_bytes()).unwrap();
        assert_eq!(read.header.kernel_event, EVENTS[first].0, "seed {seed}");
        let wanted = format!("x_12;f{first} {}\n", counts[first]);
        assert_eq!(read.folded(), wanted, "seed {seed}\n{text}");
    }
}
