//! Classes of stacks as they are in RabbitMQ (OTP 25 and 27, stripped) and in other programs.

use crate::classes::rule;
use crate::pattern::rules;
use crate::{Class, Frame, FrameKind, Profile, Sample, StackNode, Unwinding};

/// A frame written `KIND:NAME` or `KIND:NAME@MODULE`: `e` Erlang, `j` Java, `r` runtime, `c` libc, `k` kernel, `n`
/// native, `u` unknown.
fn frame(text: &str) -> Frame {
    let (kind, name) = text.split_once(':').unwrap();
    let (name, module) = name.split_once('@').unwrap_or((name, ""));
    let (kind, usual) = match kind {
        "e" => (FrameKind::Erlang, "[jit]"),
        "j" => (FrameKind::Java, "[jit]"),
        "r" => (FrameKind::Runtime, "beam.smp"),
        "c" => (FrameKind::Libc, "libc.so.6"),
        "k" => (FrameKind::Kernel, "[kernel]"),
        "n" => (FrameKind::Native, "mosquitto"),
        "u" => (FrameKind::Unknown, ""),
        other => panic!("{other}"),
    };
    Frame::new(name, if module.is_empty() { usual } else { module }, kind)
}

/// Stacks from the root to the leaf, a sample each.
pub(super) fn profile(stacks: &[&str]) -> Profile {
    let mut profile = Profile { threads: vec!["1_scheduler".into()], ..Profile::default() };
    for stack in stacks {
        let mut parent = None;
        for text in stack.split(" > ") {
            let frame = frame(text);
            let known = profile.frames.iter().position(|it| *it == frame);
            let at = known.unwrap_or_else(|| {
                profile.frames.push(frame);
                profile.frames.len() - 1
            });
            let frame = at as u32;
            profile.stacks.push(StackNode { parent, frame });
            parent = Some(profile.stacks.len() as u32 - 1);
        }
        profile.samples.push(Sample {
            weight: 1,
            stack: parent.unwrap(),
            complete: true,
            unwinding: Unwinding::StackCopy,
            ..Sample::default()
        });
    }
    profile
}

fn class(stack: &str) -> Class {
    let profile = profile(&[stack]);
    let classes = profile.classes();
    classes[profile.samples[0].stack as usize]
}

const SYSCALL: &str = "k:entry_SYSCALL_64_after_hwframe > k:do_syscall_64";
const BIF: &str = "e:$rabbit_channel:handle_method/3 > e:$global::call_light_bif_shared";
const LOOP: &str = "e:$global::process_main > r:erts_schedule";
const THREAD: &str = "c:clone3 > c:start_thread > r:[near ethr_set_tse__-0x100]";

#[test]
fn the_built_in_rules_are_well_formed() {
    rules(include_str!("../classes.txt"), rule).expect("built-in rules");
}

#[test]
fn stacks_of_rabbitmq_and_of_other_programs_are_told_apart() {
    let known = [("{BIF}", BIF), ("{LOOP}", LOOP), ("{THREAD}", THREAD), ("{SYSCALL}", SYSCALL)];
    for [stack, wanted] in testkit::table(include_str!("classes.txt")) {
        let stack = known.iter().fold(stack.to_owned(), |stack, (name, frames)| stack.replace(name, frames));
        assert_eq!(format!("{:?}", class(&stack)), wanted, "{stack}");
    }
}

#[test]
fn a_line_that_is_no_rule_is_named() {
    for line in ["nonsense", "runtime x -> no such class", "strange x -> ETS", "runtime -> ETS"] {
        let text = format!("// comment\n\nany malloc -> allocators\n{line}");
        assert_eq!(rules(&text, rule).unwrap_err(), line);
    }
}

#[test]
fn every_sample_is_in_one_class() {
    // Random stacks of frames that meet in reality and of such that do not.
    let frames = "e:$a:b/1|e:$global::process_main|r:erts_schedule|r:[near x+0x1]|r:x|c:malloc|c:memcpy|\
                  k:do_syscall_64|k:tcp_sendmsg|k:exc_page_fault|n:main|u:[unknown]|n:crc32_z@libz.so.1|\
                  u:[unknown]@[jit]|j:A.b|r:erts_garbage_collect|u:[unknown]@libc.so.6";
    let frames: Vec<&str> = frames.split('|').collect();
    let mut random = testkit::Random::new(42);
    let mut draw = |n: usize| random.below(n as u64) as usize;
    for _ in 0..200 {
        let stacks: Vec<String> = (0..20)
            .map(|_| {
                let depth = draw(12) + 1;
                let stack: Vec<_> = (0..depth).map(|_| frames[draw(frames.len())]).collect();
                stack.join(" > ")
            })
            .collect();
        let mut profile = profile(&stacks.iter().map(String::as_str).collect::<Vec<_>>());
        for sample in &mut profile.samples {
            sample.weight = draw(1000) as u64;
        }
        let shares = profile.class_shares();
        let weight: u64 = shares.iter().map(|it| it.weight).sum();
        assert_eq!(weight, profile.total_weight());
        let share: f64 = shares.iter().map(|it| it.share).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        let mut classes: Vec<_> = shares.iter().map(|it| it.class).collect();
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), shares.len());
        // And for one function of the language, or none, in one class of its row.
        let rows = profile.language_functions();
        assert!(!rows.is_empty());
        let share: f64 = rows.iter().map(|it| it.share).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        for row in &rows {
            let parts: u64 = row.classes.iter().map(|it| it.weight).sum();
            assert_eq!(parts, row.weight, "{row:?}");
        }
    }
    assert!(Profile::default().class_shares().is_empty());
}

#[test]
fn the_documentation_has_every_class() {
    let docs = include_str!("../../../../docs/stacks.md");
    for class in Class::ALL {
        assert!(docs.contains(&format!("| {class} |")), "{class}");
    }
}

/// The rows of a profile: each function, and the samples of its classes.
fn language(stacks: &[&str]) -> Vec<String> {
    let rows = profile(stacks).language_functions().into_iter();
    rows.map(|row| {
        let classes = row.classes.iter().map(|it| format!("{} {}", it.weight, it.class));
        let classes = classes.collect::<Vec<_>>().join(", ");
        format!("{}: {classes}", row.function)
    })
    .collect()
}

#[test]
fn samples_count_for_the_innermost_function_of_the_language() {
    let handle = "e:$a:loop/1 > e:$rabbit_channel:handle_method/3";
    let collects = "e:$global::garbage_collect > r:erts_garbage_collect_nobump > r:[near x+0x1]";
    let stacks = [
        handle.into(),
        format!("{handle} > e:$global::call_light_bif_shared > r:iolist_size_1"),
        format!("{handle} > {collects}"),
        format!("{handle} > {collects} > c:__memmove_evex"),
        format!("{handle} > r:tcp_inet_commandv > c:writev > {SYSCALL} > k:tcp_sendmsg"),
        "e:$erlang:hibernate/3 > r:[near erts_garbage_collect_hibernate+0x540]".into(),
        format!("{LOOP} > r:erts_garbage_collect_nobump > r:[near y+0x1]"),
        LOOP.into(),
        // The scheduler's loop was not called by what ran before.
        format!("{handle} > {LOOP}"),
    ];
    assert_eq!(
        language(&stacks.each_ref().map(String::as_str)),
        [
            "$rabbit_channel:handle_method/3: 2 garbage collection, 1 Erlang code, \
             1 built-in functions, 1 kernel: network",
            "scheduling: 2 scheduling",
            "$erlang:hibernate/3: 1 built-in functions",
            "garbage collection in beam.smp: 1 garbage collection",
        ]
    );
}

#[test]
fn java_and_go_have_functions_of_the_language_and_c_has_none() {
    assert_eq!(
        language(&[
            "j:Queue.deliver",
            "j:Queue.deliver > j:StubRoutines (1)",
            "j:Queue.deliver > r:[near JVM_DoPrivileged+0x10]@libjvm.so",
            "j:[interpreted]",
            "c:start_thread > r:GCTaskThread::run@libjvm.so",
        ]),
        [
            "Queue.deliver: 2 Java code, 1 virtual machine",
            "[interpreted]: 1 Java code",
            "virtual machine in libjvm.so: 1 virtual machine",
        ]
    );
    let serve = "n:runtime.goexit@nats > n:main.serve@nats";
    let write = "n:syscall.write@nats > n:syscall.Syscall@nats";
    let stacks = [
        serve.into(),
        format!("{serve} > n:runtime.mallocgc@nats > n:runtime.nextFreeFast@nats"),
        format!("{serve} > {write} > {SYSCALL} > k:__sys_sendto"),
        "n:runtime.goexit@nats > n:github.com/a/b.(*C).readLoop@nats".into(),
        "n:runtime.gcBgMarkWorker.func2@nats > n:runtime.scanobject@nats".into(),
        format!("{serve} > n:runtime.mcall@nats > n:runtime.schedule@nats"),
    ];
    assert_eq!(
        language(&stacks.each_ref().map(String::as_str)),
        [
            "main.serve: 1 own code, 1 allocators, 1 kernel: network",
            "garbage collection: 1 garbage collection",
            "github.com/a/b.(*C).readLoop: 1 own code",
            "scheduling: 1 scheduling",
        ]
    );
    assert!(language(&["n:main > n:util.part.0", "n:main > c:malloc", LOOP]).is_empty());
}

/// Compilers' copies of C functions, which have a dot, counted as functions of Go.
#[test]
fn c_below_go_counts_for_the_go_function_that_called_it() {
    let query = "n:runtime.goexit@db > n:main.main@db > n:main.query@db";
    let calls = "n:runtime.cgocall@db > n:runtime.asmcgocall.abi0@db > n:sqlite3_step@db";
    let back = "n:runtime.cgocallback@db > n:runtime.cgocallbackg@db > n:main.compare@db";
    let stacks = [
        format!("{query} > {calls} > n:sqlite3VdbeExec.isra.0@db"),
        format!("{query} > {calls} > n:boost.org::run@db"),
        format!("{query} > {calls} > {back}"),
        "n:runtime.goexit@db > n:main.main.func1.2@db".into(),
        "c:start_thread > n:worker.constprop.0.cold@db".into(),
    ];
    assert_eq!(
        language(&stacks.each_ref().map(String::as_str)),
        ["main.query: 2 own code", "main.compare: 1 own code", "main.main.func1.2: 1 own code", "own code: 1 own code",]
    );
    for suffix in ["isra.0", "part.3", "cold", "cold.1", "lto_priv.0", "llvm.42"] {
        let copy = format!("f.constprop.0.{suffix}");
        assert_eq!(crate::without_copies(&copy), "f", "{copy}");
    }
    for whole in ["main.init.0", "a.b/c.F", "github.com/part.0x", "f", ""] {
        assert_eq!(crate::without_copies(whole), whole);
    }
}
