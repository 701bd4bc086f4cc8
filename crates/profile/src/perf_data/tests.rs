//! Recordings put together by hand, whole and damaged. `crates/bellows/tests/all/formats.rs` reads those of
//! `perf record`.

use std::time::{Duration, Instant};

use perf_event_open_sys::bindings as b;
use stacks::{FirstField, FrameKind, Input, Profile, Sample, Unwinding};
use testkit::Random;

use super::PERF_DATA;

const FINISHED_ROUND: u32 = 68;
const ATTRIBUTE: usize = 128;
const FRAME_POINTERS: u64 = (b::PERF_SAMPLE_IP
    | b::PERF_SAMPLE_TID
    | b::PERF_SAMPLE_TIME
    | b::PERF_SAMPLE_CPU
    | b::PERF_SAMPLE_PERIOD
    | b::PERF_SAMPLE_CALLCHAIN) as u64;
const DWARF: u64 = FRAME_POINTERS | (b::PERF_SAMPLE_REGS_USER | b::PERF_SAMPLE_STACK_USER) as u64;
const CONTEXT_USER: u64 = b::PERF_CONTEXT_USER;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A recording of `cpu-clock` at 999 Hz with these records.
fn recording(sample_type: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let data = records.concat();
    let attributes = 104;
    let start = attributes + ATTRIBUTE as u64 + 16;
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[104, ATTRIBUTE as u64 + 16, attributes, ATTRIBUTE as u64 + 16]));
    file.extend(words(&[start, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    // Type and size, config, frequency, sample type, read format, flags (by frequency, numbers in all records).
    let mut attribute = words(&[pair(1, ATTRIBUTE as u32), 0, 999, sample_type, 0, 1 << 10 | 1 << 18]);
    attribute.resize(80, 0);
    // All registers of x86-64 but the segments'.
    attribute.extend(words(&[0xff_0fff, 8192]));
    attribute.resize(ATTRIBUTE, 0);
    file.extend(attribute);
    file.extend(words(&[0, 0]));
    file.extend(data);
    file
}

fn record(kind: u32, misc: u16, body: Vec<u8>) -> Vec<u8> {
    let size = u32::from(misc) | ((body.len() + 8) as u32) << 16;
    [words(&[pair(kind, size)]), body].concat()
}

/// A record that is no sample, with its numbers and its time behind it.
fn other(kind: u32, misc: u16, mut body: Vec<u8>, time: u64) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(8), 0);
    body.extend(words(&[pair(7, 7), time, 0]));
    record(kind, misc, body)
}

fn named(tid: u32, name: &str, time: u64) -> Vec<u8> {
    let body = [words(&[pair(7, tid)]), name.as_bytes().to_vec(), vec![0]].concat();
    other(b::PERF_RECORD_COMM, 0, body, time)
}

fn mapped(start: u64, end: u64, offset: u64, path: &str) -> Vec<u8> {
    let mut body = words(&[pair(7, 7), start, end - start, offset, 0, 5, 0]);
    body.extend(words(&[pair(5, 2)]));
    body.extend([path.as_bytes(), &[0]].concat());
    other(b::PERF_RECORD_MMAP2, 2, body, 0)
}

fn sampled(tid: u32, time: u64, addresses: &[u64]) -> Vec<u8> {
    let mut body = words(&[addresses[0], pair(7, tid), time, 3, 1_001_001]);
    body.extend(words(&[addresses.len() as u64 + 1, CONTEXT_USER]));
    body.extend(words(addresses));
    record(b::PERF_RECORD_SAMPLE, 2, body)
}

/// A sample with registers that all have this value, and a copy of the stack.
fn copied(address: u64, time: u64, register: u64) -> Vec<u8> {
    let mut body = words(&[address, pair(7, 7), time, 3, 1, 1, CONTEXT_USER, 2]);
    body.extend(words(&[register; 20]));
    body.extend(words(&[64, 1, 2, 3, 4, 5, 6, 7, 8, 64]));
    record(b::PERF_RECORD_SAMPLE, 2, body)
}

fn read(file: &[u8]) -> Result<Profile, String> {
    let reader = PERF_DATA.read.expect("a reader");
    let input =
        &mut Input { bytes: &mut &*file, packed: None, file: None, event: None, first_field: FirstField::default() };
    (reader.read)(input).expect("memory can be read")
}

fn profile_of(records: &[Vec<u8>]) -> Profile {
    read(&recording(FRAME_POINTERS, records)).expect("a profile")
}

#[inline(never)]
fn recorded_function(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

/// A mapping of this program's code, and an address of a function in it.
fn own_code() -> (Vec<u8>, u64) {
    let address = recorded_function as *const () as u64;
    let maps = linux::maps::maps(std::process::id()).expect("maps");
    let map = maps.iter().find(|it| (it.start..it.end).contains(&address)).expect("a mapping");
    (mapped(map.start, map.end, map.offset, &map.path), address)
}

#[test]
fn samples_get_their_names_in_the_order_of_time() {
    let (code, address) = own_code();
    let records = [
        named(7, "main", 0),
        code,
        sampled(7, 3_000, &[address]),
        record(FINISHED_ROUND, 0, Vec::new()),
        // Of another processor: older, and before its thread got its name.
        sampled(8, 2_000, &[address, 0x10]),
        named(8, "worker", 2_500),
        sampled(8, 4_000, &[address]),
        record(FINISHED_ROUND, 0, Vec::new()),
        other(b::PERF_RECORD_LOST, 0, words(&[1, 42]), 4_100),
        other(b::PERF_RECORD_THROTTLE, 0, words(&[1, 2, 3]), 4_200),
    ];
    let profile = profile_of(&records);
    assert!(profile.is_consistent());
    let of = |at: usize| {
        let sample = profile.samples[at];
        (sample.t, profile.threads[sample.thread as usize].as_str())
    };
    assert_eq!([of(0), of(1), of(2)], [(0, ":8"), (1_000, "main"), (2_000, "worker")]);
    let sample = profile.samples[1];
    assert_eq!((sample.weight, sample.cpu), (1_001_001, 3));
    let stack = profile.stack(sample.stack);
    assert!(stack[0].name.ends_with("tests::recorded_function"), "{stack:?}");
    assert_eq!(stack[0].kind, FrameKind::Native);
    assert_eq!(profile.stack(profile.samples[0].stack)[0].name, "[unknown]", "nothing is mapped there");
    let header = &profile.header;
    assert_eq!((header.event.as_str(), header.unit.as_str(), header.frequency), ("cpu", "nanoseconds", 999));
    assert_eq!((header.pid, header.command.as_str()), (7, "main"));
    assert_eq!((profile.lost, profile.throttled), (42, 1));
}

#[test]
fn samples_without_callers_are_no_stacks() {
    let (code, address) = own_code();
    let alone = record(b::PERF_RECORD_SAMPLE, 2, words(&[address, pair(7, 7), 1_000, 3, 1_001_001]));
    let flat = FRAME_POINTERS & !(b::PERF_SAMPLE_CALLCHAIN as u64);
    let profile = read(&recording(flat, &[code, alone])).expect("a profile");
    let sample = profile.samples[0];
    assert_eq!((sample.complete, sample.unwinding), (false, Unwinding::Missing));
    let summary = profile.summary(0);
    assert_eq!((summary.complete_share, summary.frame_pointer_share), (0.0, 0.0));
}

#[test]
fn memory_is_as_it_was_when_a_sample_was_taken() {
    let (code, address) = own_code();
    let start = address & !0xfff;
    let executed = [words(&[pair(9, 9)]), b"other\0".to_vec()].concat();
    let records = [
        named(7, "parent", 0),
        code,
        sampled(7, 1_000, &[address]),
        task(b::PERF_RECORD_FORK, 0, [9, 7], 2_000),
        of_process(sampled(9, 3_000, &[address]), 9, 9),
        other(b::PERF_RECORD_COMM, 1 << 13, executed, 4_000),
        of_process(sampled(9, 5_000, &[address]), 9, 9),
        // Another file takes the place of a page of the first process.
        at(mapped(start, start + 0x1000, 0, "/no/such/file"), 5_500),
        sampled(7, 6_000, &[address]),
    ];
    let profile = profile_of(&records);
    let function = ("parent", "recorded_function");
    assert_eq!(leaves(&profile), [function, function, ("other", "[unknown]"), ("parent", "[unknown]")]);
    let module = |it: &Sample| profile.stack(it.stack)[0].module.clone();
    let modules: Vec<_> = profile.samples.iter().map(module).collect();
    assert_eq!(modules, [&*modules[0], &*modules[0], "", "file"]);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let whole = recording(FRAME_POINTERS, &[sampled(7, 1, &[1])]);
    let changed = |at: usize, to: &[u8]| {
        let mut file = whole.clone();
        file[at..at + to.len()].copy_from_slice(to);
        read(&file).expect_err("an error")
    };
    assert!(read(b"PERFILE2").unwrap_err().contains("shorter than the header"));
    assert!(changed(0, b"2ELIFREP").contains("other byte order"));
    assert!(changed(8, &16u64.to_le_bytes()).contains("written to a pipe"));
    assert!(changed(40, &u64::MAX.to_le_bytes()).contains("is invalid"));
    assert!(changed(32, &0u64.to_le_bytes()).contains("no event"));
    let packed = recording(FRAME_POINTERS, &[record(81, 0, vec![0; 16])]);
    assert!(read(&packed).unwrap_err().contains("perf record -z"));
    assert!(read(&recording(FRAME_POINTERS, &[])).unwrap_err().contains("no sample"));
    // One that was killed has not written down how long it is.
    let mut killed = whole.clone();
    killed[48..56].copy_from_slice(&0u64.to_le_bytes());
    let profile = read(&killed).expect("a profile");
    assert!(profile.notes.iter().any(|note| note.contains("is incomplete")), "{:?}", profile.notes);
    killed.truncate(killed.len() - 3);
    assert!(read(&killed).unwrap_err().contains("no sample"));
}

#[test]
fn damaged_recordings_are_read_or_refused() {
    let (code, address) = own_code();
    let records = [
        named(7, "main", 0),
        code,
        copied(address, 2_000, 0x1000),
        record(FINISHED_ROUND, 0, Vec::new()),
        record(71, 0, words(&[8, 1])),
        words(&[0]),
    ];
    let whole = recording(DWARF, &records);
    assert_eq!(read(&whole).expect("a profile").samples.len(), 1);
    for length in 0..whole.len() {
        let _ = read(&whole[..length]);
    }
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let mut file = whole.clone();
        for _ in 0..=random.below(6) {
            let at = random.below(file.len() as u64) as usize;
            let any = random.below(256) as u8;
            let odd = random.of(&[0, 1, 0x7f, 0x80, 0xff, any]);
            match random.below(4) {
                0 => file[at] = odd,
                1 => file[at..].iter_mut().take(8).for_each(|byte| *byte = odd),
                2 => file.truncate(at.max(1)),
                _ => drop(file.splice(at..at, vec![odd; random.below(20) as usize])),
            }
        }
        if let Ok(profile) = read(&file) {
            assert!(profile.is_consistent(), "seed {seed}");
        }
    }
}

fn of_process(mut record: Vec<u8>, pid: u32, tid: u32) -> Vec<u8> {
    let is_sample = record[0] == b::PERF_RECORD_SAMPLE as u8;
    let at = if is_sample { 16 } else { 8 };
    record[at..at + 4].copy_from_slice(&pid.to_le_bytes());
    record[at + 4..at + 8].copy_from_slice(&tid.to_le_bytes());
    record
}

fn at(mut record: Vec<u8>, time: u64) -> Vec<u8> {
    let end = record.len();
    record[end - 16..end - 8].copy_from_slice(&time.to_le_bytes());
    record
}

fn task(kind: u32, misc: u16, pids: [u32; 2], time: u64) -> Vec<u8> {
    let [pid, parent] = pids;
    other(kind, misc, words(&[pair(pid, parent), pair(pid, parent), time]), time)
}

/// Thread and leaf of each sample.
fn leaves(profile: &Profile) -> Vec<(&str, &str)> {
    let leaf = |it: &Sample| {
        let leaf = profile.stack(it.stack).pop().expect("a frame");
        let name = leaf.name.rsplit(':').next().unwrap_or_default();
        (profile.threads[it.thread as usize].as_str(), name)
    };
    profile.samples.iter().map(leaf).collect()
}

#[test]
fn a_number_that_is_used_again_has_nothing_of_the_process_before() {
    let (code, address) = own_code();
    let (fork, exit) = (b::PERF_RECORD_FORK, b::PERF_RECORD_EXIT);
    let sample = |time| sampled(7, time, &[address]);
    // From a parent of which nothing is known, whether its end was written down or not.
    for ended in [true, false] {
        let mut records = vec![named(7, "first", 0), code.clone(), sample(1_000)];
        if ended {
            records.push(task(exit, 0, [7, 1], 2_000));
            // The kernel's last samples of a thread come behind its end.
            records.push(sample(2_500));
        }
        records.push(task(fork, 0, [7, 2], 3_000));
        records.extend([4_000, 5_000].map(sample));
        let profile = profile_of(&records);
        let mut wanted = vec![("first", "recorded_function")];
        wanted.extend(ended.then_some(("first", "recorded_function")));
        wanted.extend([(":7", "[unknown]"); 2]);
        assert_eq!(leaves(&profile), wanted);
    }
    // `perf` marks the records that it makes of processes that were there before: they have mappings of their own.
    let records = [
        named(7, "parent", 0),
        code,
        task(fork, 1 << 13, [9, 7], 1_000),
        of_process(sampled(9, 2_000, &[address]), 9, 9),
    ];
    assert_eq!(leaves(&profile_of(&records)), [("parent", "[unknown]")]);
}

#[test]
fn a_parent_and_its_child_change_their_memory_each_for_itself() {
    let (code, address) = own_code();
    let start = address & !0xfff;
    let other_file = mapped(start, start + 0x1000, 0, "/no/such/file");
    for changed in [7, 9] {
        let records = [
            named(7, "parent", 0),
            code.clone(),
            task(b::PERF_RECORD_FORK, 0, [9, 7], 1_000),
            at(of_process(other_file.clone(), changed, changed), 2_000),
            sampled(7, 3_000, &[address]),
            of_process(sampled(9, 4_000, &[address]), 9, 9),
        ];
        let profile = profile_of(&records);
        let name = |pid| ("parent", if pid == changed { "[unknown]" } else { "recorded_function" });
        assert_eq!(leaves(&profile), [name(7), name(9)]);
    }
}

#[test]
fn large_recordings_are_read_in_time_and_to_the_end() {
    let (code, address) = own_code();
    let own = |pid: u32, time: u64| {
        [
            at(of_process(named(pid, "last", 0), pid, pid), time),
            at(of_process(code.clone(), pid, pid), time + 1),
            of_process(sampled(pid, time + 2, &[address]), pid, pid),
        ]
        .concat()
    };
    let page = |at: u64| mapped(at << 13, (at << 13) + 0x1000, 0, "/no/such/file");
    let dwarf = copied(address, 0, address);
    let sample = sampled(7, 0, &[address, 0x2000, 0x4000]);
    let alternating =
        |sample: &[u8]| (1..20_000).map(|i| [page(i), sample.to_vec()].concat()).collect::<Vec<_>>().concat();
    let replaced = page(1).repeat(1_100_000);
    let forks: Vec<_> =
        (1..1_000).map(page).chain((100..20_100).map(|pid| task(b::PERF_RECORD_FORK, 0, [pid, 7], 0))).collect();
    let short: Vec<_> = (10..140_000)
        .map(|pid| {
            let exit = task(b::PERF_RECORD_EXIT, 0, [pid, 1], 0);
            let name = of_process(named(pid, "x", 0), pid, pid);
            [of_process(page(1), pid, pid), name, exit].concat()
        })
        .collect();
    let last = own(5, u64::MAX >> 1);
    for (what, kind, records) in [
        ("mappings and samples", FRAME_POINTERS, alternating(&sample)),
        ("mappings that are replaced", FRAME_POINTERS, replaced),
        ("processes that are forked", FRAME_POINTERS, forks.concat()),
        ("processes that have ended", FRAME_POINTERS, short.concat()),
        ("mappings and copied stacks", DWARF, alternating(&dwarf)),
    ] {
        let end = if kind == DWARF { dwarf.clone() } else { last.clone() };
        let file = recording(kind, &[code.clone(), records, end]);
        let start = Instant::now();
        let profile = read(&file).expect("a profile");
        let took = start.elapsed();
        assert!(took < Duration::from_secs(20), "{what}: {took:?}");
        let last = leaves(&profile).pop().expect("a sample");
        assert_eq!(last.1, "recorded_function", "{what}");
        assert!(kind == DWARF || last.0 == "last", "{what}: {last:?}");
        let notes = profile.notes.iter();
        assert_eq!(notes.filter(|it| it.contains("left out")).count(), 0, "{what}: {:?}", profile.notes);
    }
}

#[test]
fn mappings_for_which_there_is_no_room_are_told_of() {
    let (code, address) = own_code();
    let page = |at: u64| mapped(at << 13, (at << 13) + 0x1000, 0, "/x");
    let pages: Vec<_> = (1..(1 << 20) + 10).map(page).collect();
    let profile = profile_of(&[pages.concat(), code, sampled(7, 1, &[address])]);
    assert_eq!(leaves(&profile), [(":7", "[unknown]")]);
    assert!(profile.notes.iter().any(|it| it.contains("too many")), "{:?}", profile.notes);
}

#[test]
fn a_period_of_zero_counts_once() {
    let mut sample = sampled(7, 1, &[0x1000]);
    // Behind head, address, numbers, time and processor.
    sample[40..48].copy_from_slice(&0u64.to_le_bytes());
    assert_eq!(profile_of(&[sample]).total_weight(), 1);
}
