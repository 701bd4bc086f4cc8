//! Lists of compiled modules in memory that is made up, grows, and is damaged.

use std::cell::RefCell;
use std::collections::BTreeMap;

use testkit::Random;

use super::super::compiled::tests::{TWO, Written, record};
use super::super::tests::Pieces;
use super::*;

const LIST: u64 = 0x5000_0000;

impl Pieces {
    fn words_at<const N: usize>(&self, address: u64) -> [u64; N] {
        words(self, address).unwrap()
    }

    /// Puts an entry in front, as the emulator does.
    fn put(&mut self, entry: u64, record: &[u8]) {
        let at = entry + 0x1000;
        let [version, action, first] = self.words_at(LIST);
        if first != 0 {
            let [next, _, record, len] = self.words_at(first);
            self.write(first, &[next, entry, record, len]);
        }
        self.write(entry, &[first, 0, at, record.len() as u64]);
        self.0.insert(at, record.to_vec());
        self.write(LIST, &[version, action, entry]);
    }

    fn take_out(&mut self, entry: u64) {
        let [next, previous, at, _] = self.words_at::<4>(entry);
        if next != 0 {
            let [after, _, record, len] = self.words_at(next);
            self.write(next, &[after, previous, record, len]);
        }
        if previous == 0 {
            self.write(LIST, &[VERSION, 0, next]);
        } else {
            let [_, before, record, len] = self.words_at(previous);
            self.write(previous, &[next, before, record, len]);
        }
        self.0.remove(&entry);
        self.0.remove(&at);
    }
}

fn empty() -> Pieces {
    let mut memory = Pieces::default();
    memory.write(LIST, &[VERSION, 0, 0]);
    memory
}

fn module(address: u64, name: &str) -> Vec<u8> {
    let (start, end, lines) = (0, 0x100, 1);
    record(address, 0x100, &[Written { start, end, name, lines }])
}

fn read_on(list: &mut CodeList, memory: &impl Memory) -> Option<Vec<(u64, String)>> {
    let mut found = Vec::new();
    let mut take = |it: &CompiledModule<'_>| {
        let name = it.functions.first().map_or(&b""[..], |it| it.name);
        found.push((it.code.start, String::from_utf8_lossy(name).into_owned()));
    };
    list.read_on(memory, &mut take)?;
    Some(found)
}

fn named(found: &[(u64, &str)]) -> Option<Vec<(u64, String)>> {
    Some(found.iter().map(|(at, name)| (*at, (*name).to_owned())).collect())
}

#[test]
fn modules_are_told_once_the_oldest_first() {
    let mut memory = empty();
    let mut list = CodeList::at(LIST);
    assert_eq!(read_on(&mut list, &memory), named(&[]));
    memory.put(0x10_0000, &module(0x7000, "a:a/0"));
    memory.put(0x20_0000, &[0; 32]);
    // One that is none hides no other.
    memory.put(0x28_0000, &[7; 64]);
    memory.put(0x30_0000, &record(0x8000, 0x90, &TWO));
    let all = [(0x7000, "a:a/0"), (0, ""), (0x8000, "m:f/1")];
    assert_eq!(read_on(&mut list, &memory), named(&all));
    assert_eq!(read_on(&mut list, &memory), named(&[]));
    memory.put(0x40_0000, &module(0x9000, "b:b/0"));
    memory.put(0x50_0000, &module(0xa000, "c:c/0"));
    let later = [(0x9000, "b:b/0"), (0xa000, "c:c/0")];
    assert_eq!(read_on(&mut list, &memory), named(&later));
}

/// A module is loaded again, and everything of it takes the memory that was given back.
#[test]
fn a_module_that_differs_in_its_names_alone_is_new() {
    let mut memory = empty();
    let mut list = CodeList::at(LIST);
    memory.put(0x10_0000, &module(0x6000, "m:m/0"));
    memory.put(0x20_0000, &module(0x7000, "late:first/0"));
    read_on(&mut list, &memory).unwrap();
    memory.take_out(0x20_0000);
    memory.put(0x20_0000, &module(0x7000, "late:other/0"));
    let other = [(0x7000, "late:other/0")];
    assert_eq!(read_on(&mut list, &memory), named(&other));
    assert_eq!(read_on(&mut list, &memory), named(&[]));
}

#[test]
fn what_is_no_list_is_refused() {
    let mut memory = empty();
    memory.put(0x10_0000, &module(0x7000, "a:a/0"));
    memory.put(0x20_0000, &module(0x8000, "b:b/0"));
    let refused = |change: &dyn Fn(&mut Pieces)| {
        let mut memory = memory.clone();
        change(&mut memory);
        read_on(&mut CodeList::at(LIST), &memory).is_none()
    };
    assert!(!refused(&|_| ()));
    assert!(refused(&|it| it.write(LIST, &[2, 0, 0x20_0000])), "another version");
    assert!(refused(&|it| it.write(LIST, &[1, 0, 8])), "nothing there");
    assert!(refused(&|it| drop(it.0.remove(&LIST))), "no variable");
    // The second entry: in a circle, of no record, and far too long.
    let at = 0x10_0000;
    for entry in [
        [0x20_0000, 0x20_0000, 0x10_1000, 64],
        [0, 0x30_0000, 0x10_1000, 64],
        [0, 0x20_0000, 0x77_0000, 64],
        [0, 0x20_0000, 0x10_1000, 8],
        [0, 0x20_0000, 0x10_1000, 1 << 40],
        [0, 0x20_0000, 0x10_1000, u64::MAX],
    ] {
        assert!(refused(&|it| it.write(at, &entry)), "{entry:x?}");
    }
    let len = memory.0[&0x10_1000].len() as u64;
    let without_end = |it: &mut Pieces| {
        it.write(LIST, &[VERSION, 0, at]);
        it.write(at, &[at, at, 0x10_1000, len]);
    };
    assert!(refused(&without_end), "its neighbour is itself, over and over");
}

#[test]
fn of_a_list_that_is_too_long_the_newest_are_read() {
    let mut memory = empty();
    let records = [module(0x7000, "old:f/0"), module(0x8000, "new:f/0")];
    for (record, at) in records.iter().zip([0x1000, 0x2000]) {
        memory.0.insert(at, record.clone());
    }
    let len = records[0].len() as u64;
    let last = MOST_ENTRIES as u64 + 1;
    let place = |n: u64| if n > last { 0 } else { 0x10_0000 + n * 32 };
    for n in 0..=last {
        let before = n.checked_sub(1).map_or(0, place);
        let record = if n == last { 0x1000 } else { 0x2000 };
        memory.write(place(n), &[place(n + 1), before, record, len]);
    }
    memory.write(LIST, &[VERSION, 0, place(0)]);
    let mut list = CodeList::at(LIST);
    let told = read_on(&mut list, &memory).unwrap();
    assert_eq!(told.len(), MOST_ENTRIES);
    assert!(told.iter().all(|(_, name)| name == "new:f/0"));
    assert_eq!(read_on(&mut list, &memory), named(&[]));
}

/// Memory that the emulator changes while it is read.
struct Restless {
    now: RefCell<Pieces>,
    /// Next changes, each with the number of reads until then.
    changes: RefCell<Vec<(u64, Pieces)>>,
}

impl Memory for Restless {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let mut changes = self.changes.borrow_mut();
        if let Some((left, after)) = changes.last_mut() {
            if *left == 0 {
                self.now.swap(&RefCell::new(after.clone()));
                changes.pop();
            } else {
                *left -= 1;
            }
        }
        self.now.borrow().read(address, bytes)
    }
}

/// Modules come and go while the list is read: what is told is of a module that was there, and what is there at the
/// next look has been told.
#[test]
fn a_list_that_changes_while_it_is_read_tells_no_other_names() {
    let mut torn = 0;
    for seed in testkit::seeds(300) {
        let mut random = Random::new(seed);
        let mut memory = empty();
        let mut list = CodeList::at(LIST);
        let mut there = BTreeMap::new();
        let mut ever = BTreeMap::new();
        let mut told = BTreeMap::new();
        for step in 0..30u64 {
            let before = memory.clone();
            let mut changes = Vec::new();
            for n in 0..=random.below(12) {
                let entry = 0x10_0000 * (1 + random.below(8));
                if there.remove(&entry).is_some() {
                    memory.take_out(entry);
                } else {
                    let (address, name) = (0x7000 + entry, format!("m:f{step:02}_{n:02}/0"));
                    memory.put(entry, &module(address, &name));
                    ever.insert(name.clone(), address);
                    there.insert(entry, (address, name));
                }
                changes.push((random.below(6), memory.clone()));
            }
            changes.reverse();
            let restless = Restless { now: RefCell::new(before), changes: RefCell::new(changes) };
            let found = read_on(&mut list, &restless);
            torn += u32::from(found.is_none());
            for (address, name) in found.unwrap_or_default() {
                assert!(ever.get(&name) == Some(&address), "{name}, seed {seed}");
                told.insert(address, name);
            }
            told.extend(read_on(&mut list, &memory).unwrap());
            let all = there.values().all(|(at, name)| told.get(at) == Some(name));
            assert!(all, "seed {seed}, step {step}");
        }
    }
    assert!(torn > 0, "no look was disturbed");
}

#[test]
fn any_memory_is_read_without_panic() {
    let mut whole = empty();
    for n in 1..6 {
        whole.put(n * 0x10_0000, &record(n * 0x7000, 0x90, &TWO));
    }
    let addresses: Vec<u64> = whole.0.keys().copied().collect();
    for seed in testkit::seeds(2000) {
        let mut random = Random::new(seed);
        let mut memory = whole.clone();
        for _ in 0..=random.below(4) {
            let address = random.of(&addresses);
            let Some(piece) = memory.0.get_mut(&address) else { continue };
            let len = piece.len() as u64;
            if len < 8 {
                continue;
            }
            match random.below(4) {
                0 => drop(memory.0.remove(&address)),
                1 => piece.truncate(random.below(len) as usize),
                2 => piece[random.below(len) as usize] = random.below(256) as u8,
                // A word of the list points to somewhere else in it.
                _ => {
                    let at = random.below(len / 8) as usize * 8;
                    piece[at..at + 8].copy_from_slice(&random.of(&addresses).to_ne_bytes());
                }
            }
        }
        let mut list = CodeList::at(LIST);
        for _ in 0..2 {
            assert!(read_on(&mut list, &memory).unwrap_or_default().len() <= 5, "seed {seed}");
        }
    }
}
