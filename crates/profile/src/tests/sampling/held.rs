//! Memory that is held at the end: what each function of a C program holds is known.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use measure::{Clock, Nanos};
use stacks::{Profile, ProfileHeader, StacksWriter};

use crate::tests::sampling::allocations::assert_sampled;
use crate::tests::sampling::child::Process;
use crate::tests::sampling::events::{attach, needs_tracepoints, weight_of, while_doing};
use crate::tests::sampling::{compiled, refused};

/// `holds.c`, waiting for what it is told.
fn holds() -> (Process, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let exe = compiled("holds.c", folder.path(), &["-O2", "-rdynamic", "-pthread", "-fno-builtin"]);
    (Process::run(Command::new(&exe)), folder)
}

/// By function: its pages that are held.
const PAGES: [(&str, u64); 20] = [
    ("leaks_maps", 40),
    ("churns_maps", 0),
    ("unmaps_parts", 6),
    ("makes_to_grow", 4),
    ("grows", 6),
    ("makes_to_shrink", 3),
    ("shrinks", 0),
    ("makes_to_move", 5),
    ("makes_a_place", 0),
    ("moves", 0),
    ("makes_to_replace", 5),
    ("replaces", 3),
    ("makes_to_fail", 2),
    ("calls_that_fail", 0),
    ("thread_maps", 40),
    ("maps_for_others", 0),
    ("unmaps_for_others", 0),
    ("makes_for_child", 9),
    ("child_maps", 0),
    ("moves_the_heap", 6),
];

fn assert_is_whole(profile: &Profile, outcome: &Outcome) {
    assert_eq!(outcome.lost, 0);
    assert!(outcome.notes.is_empty(), "{outcome:?}");
    assert_eq!(profile.header.unit, "bytes");
    let complete = profile.summary(5).complete_share;
    assert!(complete > 0.95, "{complete}");
}

#[test]
fn address_space_is_held_by_the_function_that_took_it() {
    needs_tracepoints!();
    let (mut child, _folder) = holds();
    let [(held, outcome)] = while_doing(child.pid(), ["mmap-held"], || child.tell("maps", "did"));
    assert_is_whole(&held, &outcome);
    let page = rustix::param::page_size() as u64;
    let found = PAGES.map(|(name, _)| (name, weight_of(&held, name)));
    let wanted = PAGES.map(|(name, pages)| (name, pages * page));
    assert_eq!(found, wanted);
    // Samples stand where the memory was taken.
    assert!(held.samples.is_sorted_by_key(|it| it.t));
    let (from, to) = held.span.unwrap();
    assert!(held.samples.iter().all(|it| from <= it.t && it.t <= to));
}

#[test]
fn another_program_holds_nothing_of_the_one_before() {
    needs_tracepoints!();
    let (mut child, _folder) = holds();
    let events = ["mmap-held", "malloc-held"];
    let [(mapped, _), (allocated, _)] = while_doing(child.pid(), events, || {
        child.tell("maps", "did");
        child.tell("exec", "did");
    });
    let page = rustix::param::page_size() as u64;
    let before: u64 = PAGES.iter().map(|(name, _)| weight_of(&mapped, name)).sum();
    assert_eq!((before, weight_of(&mapped, "after_exec")), (0, 7 * page));
    assert_eq!(weight_of(&allocated, "before_exec"), 0);
}

#[test]
fn a_period_holds_what_was_taken_in_it() {
    needs_tracepoints!();
    let (mut child, folder) = holds();
    let path = |name: &str| folder.path().join(name);
    let mut sampler = attach(child.pid(), "mmap-held", &path("first")).unwrap();
    sampler.start().unwrap();
    child.tell("maps", "did");
    let header = ProfileHeader::new(Clock.now(), 0);
    let sink = StacksWriter::create(&path("second"), header).unwrap();
    let first = sampler.turn(Clock.now(), sink).recv_timeout(Duration::from_secs(20)).unwrap();
    child.tell("maps", "did");
    let second = sampler.stop().unwrap();
    assert!(first.samples > 0 && second.samples > 0);
    let page = rustix::param::page_size() as u64;
    for part in ["first", "second"] {
        let held = Profile::open(path(part)).unwrap();
        for (name, pages) in PAGES {
            assert_eq!(weight_of(&held, name), pages * page, "{name} in the {part}");
        }
    }
}

/// How often `holds.c` allocates in each function.
const BLOCKS: u64 = 15_000;
/// By function: the bytes of each block that are held.
const BYTES: [(&str, u64); 18] = [
    ("malloc_leaks", 1000),
    ("calloc_leaks", 1000),
    ("realloc_leaks", 1000),
    ("aligned_leaks", 1024),
    ("memalign_leaks", 1024),
    ("churns_blocks", 0),
    ("takes_to_resize", 0),
    ("resizes", 1000),
    ("takes_to_fail", 1000),
    ("resizes_in_vain", 0),
    ("takes_to_drop", 0),
    ("resizes_to_nothing", 0),
    ("takes_for_others", 0),
    ("frees_for_others", 0),
    ("first_owner", 0),
    ("frees_of_first", 0),
    ("second_owner", 1000),
    ("child_maps", 0),
];

#[test]
fn blocks_of_the_allocator_are_held_by_the_function_that_took_them() {
    testkit::skip_for!(refused());
    let (mut child, _folder) = holds();
    let [(held, outcome)] = while_doing(child.pid(), ["malloc-held"], || child.tell("allocates", "did"));
    assert_is_whole(&held, &outcome);
    let found: BTreeMap<_, _> = BYTES.iter().map(|(name, _)| (name, weight_of(&held, name))).collect();
    for (name, bytes) in BYTES {
        if bytes == 0 {
            assert_eq!(found[&name], 0, "{name} of {found:?}");
        } else {
            assert_sampled("held", &held, name, bytes * BLOCKS, 131_072.0);
        }
    }
}

/// Each size of the block is given back for the next, also for one that is taken later.
#[test]
fn what_happens_after_the_end_of_the_window_changes_nothing() {
    testkit::skip_for!(refused());
    let (mut child, folder) = holds();
    let path = folder.path().join("held");
    let mut sampler = attach(child.pid(), "malloc-held", &path).unwrap();
    sampler.start().unwrap();
    child.tell("regrows", "did");
    let end = Clock.now();
    sampler.hold_until(end);
    child.tell("regrows", "did");
    let outcome = sampler.stop().unwrap();
    let held = Profile::open(&path).unwrap();
    assert_is_whole(&held, &outcome);
    // A block of that size is never missed by chance, and stands for itself alone.
    assert_eq!((held.samples.len(), weight_of(&held, "regrows")), (1, 40_000_000));
    assert!(held.header.origin + Nanos(held.samples[0].t) < end);
}

/// While functions that allocate run, the kernel has replaced their return addresses.
#[test]
fn other_events_have_whole_stacks_while_blocks_are_followed() {
    testkit::skip_for!(refused());
    let (mut child, _folder) = holds();
    let [(_, held), (cpu, _)] = while_doing(child.pid(), ["malloc-held", "cpu"], || child.tell("churns", "did"));
    // Of those that were lost it is told how many there were in all.
    assert!(held.samples == 0 && held.taken > 100, "{held:?}");
    let burns = weight_of(&cpu, "burns") as f64 / cpu.total_weight() as f64;
    let complete = cpu.summary(5).complete_share;
    println!("{} samples: {complete} complete, {burns} below burns", cpu.samples.len());
    assert!(complete > 0.95 && burns > 0.95, "{complete}, {burns}");
}

/// Where the code of the kernel's probes was cannot be looked up any more.
#[test]
fn a_process_that_ends_at_once_has_whole_stacks_while_blocks_are_followed() {
    needs_tracepoints!();
    let (mut child, _folder) = holds();
    let events = ["malloc-held", "mmap-held"];
    let [(blocks, _), (maps, _)] = while_doing(child.pid(), events, || child.tell("ends", "did"));
    assert_eq!(weight_of(&blocks, "ends"), 60_000_000);
    assert!(weight_of(&maps, "ends") >= 60_000_000);
    assert!(maps.summary(5).complete_share > 0.95);
}
