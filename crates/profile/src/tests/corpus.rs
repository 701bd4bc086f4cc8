//! Replays the committed corpora of the fuzz targets for profiles: each seed is a profile or an error, and at least one
//! of each format is a profile.

use std::fs;
use std::path::Path;

use crate::PERF_DATA;
use stacks::{Collapse, CollapseOptions, FORMATS, FirstField, Input};

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files.map(|file| fs::read(file.expect("an entry").path()).expect("a seed")).collect()
}

#[test]
fn every_reader_reads_its_corpus() {
    for format in FORMATS.iter().chain([&PERF_DATA]) {
        let Some(reader) = format.read else { continue };
        let mut profiles = 0;
        for seed in seeds(&format.name.replace('-', "_")) {
            let first_field = FirstField::default();
            let input = &mut Input { bytes: &mut &*seed, packed: None, file: None, event: None, first_field };
            let read = (reader.read)(input).expect("memory can be read");
            profiles += usize::from(read.is_ok_and(|profile| profile.is_consistent()));
        }
        assert!(profiles > 0, "{}", format.name);
    }
}

#[test]
fn fold_folds_its_corpus() {
    for seed in seeds("fold") {
        let (&flags, text) = seed.split_first().expect("a first byte");
        let is = |bit: u8| flags & (1 << bit) != 0;
        let mut collapse = Collapse::new(CollapseOptions {
            pid: is(0),
            tid: is(1),
            kernel: is(2),
            jit: is(3),
            addresses: is(4),
            source_lines: is(5),
            event: is(6).then(|| "cpu-clock".into()),
        });
        let read = collapse.read(&mut &*text, None).expect("memory can be read");
        if read.is_ok() {
            collapse.write(&mut std::io::sink()).expect("no disk is needed");
        }
    }
}

#[test]
fn an_erlang_node_names_the_functions_of_its_corpus() {
    let seeds = seeds("beam_functions").into_iter();
    assert_eq!(seeds.map(|seed| crate::beam_functions(&seed).len()).filter(|count| *count > 3).count(), 5);
}

#[test]
fn go_names_the_functions_of_its_corpus() {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let inlined = seeds("go_functions").into_iter().filter(|seed| {
        let (numbers, rest) = seed.split_at(8);
        let (offset, length) = numbers.split_at(4);
        let (table, trees) = rest.split_at(number(length) as usize);
        crate::go_functions(table, trees, number(offset)).len() > 1
    });
    assert!(inlined.count() >= 2);
}
