//! Allocators other than the C library's.

use std::process::Command;

use crate::tests::sampling::child::Process;
use crate::tests::sampling::events::{attach, weight_of, while_doing};
use crate::tests::sampling::{compiled, refused, source};

const FLAGS: [&str; 6] = ["-O1", "-rdynamic", "-pthread", "-fno-builtin", "-fno-optimize-sibling-calls", "-ldl"];

/// A block that is resized was given back, also where two functions have seen the call.
#[test]
fn an_allocator_that_hands_on_holds_each_block_once() {
    testkit::skip_for!(refused());
    let folder = tempfile::tempdir().unwrap();
    let exe = compiled("holds.c", folder.path(), &FLAGS);
    let library = compiled("hands_on.c", folder.path(), &[&FLAGS[..], &["-shared", "-fPIC"]].concat());
    let mut command = Command::new(exe);
    command.env("LD_PRELOAD", library);
    let mut child = Process::run(command);
    let [(held, _)] = while_doing(child.pid(), ["malloc-held"], || child.tell("regrows", "did"));
    assert_eq!(weight_of(&held, "regrows"), 40_000_000);
}

/// Each block of `prefixed.c` is large enough to be followed, and stands for itself.
#[test]
fn jemalloc_gives_back_by_functions_of_its_own() {
    testkit::skip_for!(refused());
    let folder = tempfile::tempdir().unwrap();
    let mut child = Process::run(Command::new(compiled("prefixed.c", folder.path(), &FLAGS)));
    let events = ["malloc-held", "malloc-bytes"];
    let [(held, _), (bytes, _)] = while_doing(child.pid(), events, || child.tell("acts", "did"));
    let of = |name| weight_of(&held, name);
    let held = ["takes", "takes_with_flags", "resizes"].map(of);
    assert_eq!(held, [0, 10_000_000, 200_000_000]);
    // What a register cannot hold was never asked for.
    assert_eq!(weight_of(&bytes, "overflows"), 0);
    assert!(weight_of(&bytes, "takes_with_flags") > 200_000_000);
}

/// Their arguments are elsewhere.
#[test]
fn functions_of_32_bits_are_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (source, exe) = (source("small.c"), folder.path().join("small"));
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-O1", "-static", "-nostdlib", "-fno-builtin", "-fno-pie", "-no-pie"]);
    if !cc.arg("-o").arg(&exe).arg(&source).status().is_ok_and(|it| it.success()) {
        testkit::skip!("the C compiler makes no programs of 32 bits");
    }
    if Command::new(&exe).arg("--version").stdin(std::process::Stdio::null()).spawn().map(|mut it| it.kill()).is_err() {
        testkit::skip!("this kernel runs no programs of 32 bits");
    }
    let child = Process::run(Command::new(&exe));
    for event in ["malloc-held", "malloc-bytes"] {
        let path = folder.path().join(event);
        let Err(problem) = attach(child.pid(), event, &path) else {
            panic!("{event} was taken");
        };
        assert!(problem.sentence().contains("64"), "{}", problem.sentence());
    }
}
