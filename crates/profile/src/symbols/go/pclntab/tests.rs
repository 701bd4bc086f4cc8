use testkit::Random;

use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A header, and its parts behind it: names, units, files, values, functions.
fn table(magic: u32, count: u64, parts: &[Vec<u8>; 5]) -> Vec<u8> {
    let mut table = words(&[magic]);
    table.extend([0, 0, 1, 8]);
    table.extend([count, 1, 0x40_0000].iter().flat_map(|word| word.to_le_bytes()));
    let mut place = 72;
    for part in parts {
        table.extend(u64::to_le_bytes(place));
        place += part.len() as u64;
    }
    table.extend(parts.concat());
    table
}

/// `main.outer` at 0x10, into which `main.middle` is inlined from 0x14 on, and into that `main.inner` from 0x18 to
/// 0x20; `main.leaf` at 0x40, up to 0x50. With the tree of calls, which begins 4 bytes behind.
fn known(version: usize) -> (Vec<u8>, Vec<u8>) {
    let (magic, shape) = SHAPES[version];
    let mut functions = words(&[0x10, 20, 0x40, 20 + 100, 0x50]);
    let mut function = |start: u32, name: u32, flags: u8, tables: [u32; 3], data: [u32; 4]| {
        // The stack, the file and the line of code, and one file before those of the unit.
        let mut fixed = words(&[start, name, 0, 0, 22, 12, 17, 3, 1]);
        fixed.resize(shape.function - FLAGS_BEFORE, 0);
        fixed.extend([flags, 0]);
        fixed.push(4);
        fixed.extend(words(&tables));
        fixed.extend(words(&data));
        fixed.resize(100, 0);
        functions.extend(fixed);
    };
    function(0x10, 1, 4, [0, 0, 1], [NONE, NONE, NONE, 4]);
    function(0x40, 36, 6, [0, 0, 0], [NONE; 4]);
    let names = b"\0main.outer\0main.middle\0main.inner\0\0main.leaf\0".to_vec();
    // -1 for 4 bytes, 0 for 4, 1 for 8, 0 for 2, -1 for 0x1e.
    let mut values = vec![0, 0, 4, 2, 4, 2, 8, 1, 2, 1, 0x1e, 0];
    // The first file of the unit for 8 bytes, then the second. Line 7 for 8 bytes, then 9.
    values.extend([2, 8, 2, 0x28, 0, 16, 8, 4, 0x28, 0]);
    // A stack of 0 bytes for 4 bytes, of 8 for 2, then of 24.
    values.extend([2, 4, 16, 2, 32, 0x2a, 0]);
    let mut trees = vec![0xff; 4];
    for (name, site) in [(12u32, 2u32), (24, 5)] {
        let mut call = vec![0; shape.call];
        call[shape.call_name..][..4].copy_from_slice(&name.to_le_bytes());
        call[shape.call_site..][..4].copy_from_slice(&site.to_le_bytes());
        trees.extend(call);
    }
    let parts = [names, words(&[NONE, 0, 5]), b"a.go\0b.go\0".to_vec(), values, functions];
    (table(magic, 2, &parts), trees)
}

fn names(table: &[u8], trees: &[u8], offset: u32) -> Vec<String> {
    super::super::go_functions(table, trees, offset).into_iter().map(|it| it.name).collect()
}

#[test]
fn functions_have_stacks_where_they_do_not_set_them_by_themselves() {
    for version in 0..SHAPES.len() {
        let (table, _) = known(version);
        let table = Pclntab::parse(&table).unwrap();
        let sizes = [0x0f, 0x10, 0x13, 0x14, 0x16, 0x3f, 0x40].map(|it| table.stack_size(it));
        let known = [None, Some(0), Some(0), Some(8), Some(24), Some(24), None];
        assert_eq!(sizes, known);
    }
}

#[test]
fn functions_have_names_behind_those_that_were_inlined() {
    for version in 0..SHAPES.len() {
        let (table, trees) = known(version);
        for (offsets, wanted) in [
            (&[0x0f, 0x50, u32::MAX][..], vec![]),
            (&[0x10, 0x22, 0x3f], vec!["main.outer"]),
            (&[0x14, 0x21], vec!["main.middle", "main.outer"]),
            (&[0x18, 0x1f], vec!["main.inner", "main.middle", "main.outer"]),
            (&[0x40, 0x4f], vec!["main.leaf"]),
        ] {
            for offset in offsets {
                assert_eq!(names(&table, &trees, *offset), wanted, "{offset:x}");
            }
        }
        assert_eq!(names(&table, &[], 0x18), ["main.outer"], "without a tree");
        let lines = |offset| {
            let functions = super::super::go_functions(&table, &trees, offset);
            functions.iter().map(|it| it.name_with_line().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(lines(0x10), ["main.outer a.go:7"]);
        assert_eq!(lines(0x18), ["main.inner b.go:9", "main.middle a.go:7", "main.outer a.go:7"]);
        assert_eq!(lines(0x4f), ["main.leaf b.go:9"]);
    }
}

#[test]
fn damaged_tables_end_and_do_no_harm() {
    let check = |table: &[u8], trees: &[u8]| {
        for offset in (0..0x60).step_by(4).chain([u32::MAX]) {
            let names = names(table, trees, offset);
            assert!(names.len() <= MOST_INLINED + 1);
            let _ = Pclntab::parse(table).map(|it| it.stack_size(offset));
            // A byte that is none of UTF-8 becomes three.
            assert!(names.iter().all(|it| it.len() <= 3 * LONGEST_NAME));
        }
    };
    for version in 0..SHAPES.len() {
        let (table, trees) = known(version);
        for len in 0..table.len() {
            check(&table[..len], &trees);
        }
        for len in 0..trees.len() {
            check(&table, &trees[..len]);
        }
        for at in 0..table.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = table.clone();
                damaged[at] = value;
                check(&damaged, &trees);
            }
        }
        for seed in testkit::seeds(2000) {
            let mut random = Random::new(seed);
            let (mut table, mut trees) = (table.clone(), trees.clone());
            for _ in 0..=random.below(8) {
                let at = 8 + random.below(table.len() as u64 - 8) as usize;
                table[at] = random.below(256) as u8;
                let at = random.below(trees.len() as u64) as usize;
                trees[at] = random.below(256) as u8;
            }
            check(&table, &trees);
        }
    }
}

#[test]
fn calls_that_are_inlined_into_themselves_end() {
    let (table, mut trees) = known(1);
    let shape = SHAPES[1].1;
    // The outer call's place is inside itself.
    trees[4 + shape.call_site..][..4].copy_from_slice(&4u32.to_le_bytes());
    let names = names(&table, &trees, 0x14);
    assert_eq!(names.len(), MOST_INLINED + 1);
    assert_eq!(names.last().unwrap(), "main.outer");
}
