//! Memory that is held at the end: what each function of a C program holds is known.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use crate::tests::sampling::allocations::{assert_is_whole, assert_sampled};
use crate::tests::sampling::child::Process;
use crate::tests::sampling::events::{attach, needs_tracepoints, weight_of, while_doing};
use crate::tests::sampling::{compiled, refused};
use measure::{Clock, Nanos};
use stacks::{Profile, ProfileHeader, StacksWriter};

fn holds() -> (Process, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let exe = compiled("holds.c", folder.path(), &["-O2", "-rdynamic", "-pthread", "-fno-builtin"]);
    (Process::run(Command::new(&exe)), folder)
}

/// By pages that are held: the functions.
const PAGES: [(u64, &str); 8] = [
    (40, "leaks_maps thread_maps"),
    (9, "makes_for_child"),
    (6, "unmaps_parts grows moves_the_heap"),
    (5, "makes_to_move makes_to_replace"),
    (4, "makes_to_grow"),
    (3, "makes_to_shrink replaces"),
    (2, "makes_to_fail"),
    (0, "churns_maps shrinks makes_a_place moves calls_that_fail maps_for_others unmaps_for_others child_maps"),
];

fn each(table: &'static [(u64, &'static str)]) -> impl Iterator<Item = (&'static str, u64)> {
    table.iter().flat_map(|(held, names)| names.split(' ').map(move |name| (name, *held)))
}

fn assert_pages(held: &Profile) {
    let page = rustix::param::page_size() as u64;
    let found: Vec<_> = each(&PAGES).map(|(name, _)| (name, weight_of(held, name))).collect();
    let wanted: Vec<_> = each(&PAGES).map(|(name, pages)| (name, pages * page)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn address_space_is_held_by_the_function_that_took_it() {
    needs_tracepoints!();
    let (mut child, _folder) = holds();
    let [held] = while_doing(child.pid(), ["mmap-held"], || child.tell("maps", "did"));
    assert_is_whole(&held, "bytes");
    let held = held.0;
    assert_pages(&held);
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
    let before: u64 = each(&PAGES).map(|(name, _)| weight_of(&mapped, name)).sum();
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
    for part in ["first", "second"] {
        assert_pages(&Profile::open(path(part)).unwrap());
    }
}

/// How often `holds.c` allocates in each function.
const BLOCKS: u64 = 15_000;
/// By bytes of each block that are held: the functions.
const BYTES: [(u64, &str); 4] = [
    (1000, "malloc_leaks calloc_leaks realloc_leaks resizes takes_to_fail second_owner"),
    (1024, "aligned_leaks memalign_leaks"),
    (0, "churns_blocks takes_to_resize resizes_in_vain takes_to_drop resizes_to_nothing child_maps"),
    (0, "takes_for_others frees_for_others first_owner frees_of_first"),
];

#[test]
fn blocks_of_the_allocator_are_held_by_the_function_that_took_them() {
    testkit::skip_for!(refused());
    let (mut child, _folder) = holds();
    let [held] = while_doing(child.pid(), ["malloc-held"], || child.tell("allocates", "did"));
    assert_is_whole(&held, "bytes");
    let held = held.0;
    let found: BTreeMap<_, _> = each(&BYTES).map(|(name, _)| (name, weight_of(&held, name))).collect();
    for (name, bytes) in each(&BYTES) {
        if bytes == 0 {
            assert_eq!(found[name], 0, "{name} of {found:?}");
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
    let held = (Profile::open(&path).unwrap(), outcome);
    assert_is_whole(&held, "bytes");
    let held = held.0;
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
