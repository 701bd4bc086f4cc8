//! A BEAM whose memory is made up, and others that are none.

use std::collections::BTreeMap;

use super::*;

#[derive(Clone, Default)]
pub(in crate::beam) struct Pieces(pub(in crate::beam) BTreeMap<u64, Vec<u8>>);

impl Memory for Pieces {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let piece = self.0.range(..=address).next_back();
        let from = piece.and_then(|(start, all)| {
            let at = usize::try_from(address - start).ok()?;
            all.get(at..at.checked_add(bytes.len())?)
        });
        from.map(|from| bytes.copy_from_slice(from)).is_some()
    }
}

impl Pieces {
    pub(in crate::beam) fn write(&mut self, address: u64, words: &[u64]) {
        self.0.insert(address, words.iter().flat_map(|it| it.to_ne_bytes()).collect());
    }
}

const NORMAL_EXIT: u64 = 0x7fad_87e2_0e38;

/// A BEAM of `schedulers` schedulers with fields at the given word offsets.
struct Build {
    schedulers: u64,
    scheduler_words: u64,
    number: u64,
    stop: usize,
    heap: usize,
}

/// Debian's OTP 25.2.3.
const DEBIAN_25: Build = Build { schedulers: 2, scheduler_words: 41_728 / 8, number: 23, stop: 11, heap: 16 };

impl Build {
    fn memory(&self) -> (Pieces, Variables) {
        let mut pieces = Pieces::default();
        let (variables, table, entries) = (0x5000_0000, 0x5100_0000, 0x6000_0000);
        let schedulers = 0x7000_0000;
        pieces.write(variables, &[NORMAL_EXIT, 1, self.schedulers, schedulers]);
        let mut words = vec![0; 64];
        words[9] = 0x5000_0000;
        words[24] = entries;
        pieces.write(table, &words);
        let mut words = vec![0; 4096];
        for i in 0..20u64 {
            let (process, heap) = (0x1_0000_0000 + i * 4096, 0x2_0000_0000 + i * 8192);
            let hend = heap + 800 + i * 8;
            words[i as usize * 3] = process;
            let mut fields = vec![0; 64];
            fields[0] = (i * 3) << 32 | i << 4 | 3;
            fields[5] = heap;
            fields[self.stop - 1] = heap + 200;
            fields[self.stop] = hend - 48;
            fields[self.stop + 1] = hend - 16;
            fields[self.heap] = heap;
            fields[self.heap + 1] = hend;
            pieces.write(process, &fields);
            pieces.write(hend - 16, &[0, NORMAL_EXIT]);
        }
        pieces.write(entries, &words);
        let mut words = vec![0; (self.scheduler_words * self.schedulers) as usize + 200];
        for i in 0..self.schedulers {
            let at = (i * self.scheduler_words + self.number) as usize;
            words[at] = i + 1;
            words[at + 2] = 1;
            words[at - 2] = if i == 0 { 0x1_0000_0000 } else { 0 };
        }
        pieces.write(schedulers, &words);
        // Two dirty ones beside them, in memory of their own.
        let dirty = 0x7800_0000;
        let mut words = vec![0; (self.scheduler_words * 2) as usize + 200];
        for i in 0..2 {
            let at = (i * self.scheduler_words + self.number) as usize;
            words[at - 1] = 1;
            words[at + 1] = i + 1;
        }
        pieces.write(dirty, &words);
        pieces.write(variables + 32, &[2, dirty]);
        let symbols = [
            ("beam_normal_exit", variables),
            ("erts_frame_layout", variables + 8),
            ("erts_no_schedulers", variables + 16),
            ("erts_aligned_scheduler_data", variables + 24),
            ("erts_proc", table),
            ("erts_no_dirty_cpu_schedulers", variables + 32),
            ("erts_aligned_dirty_cpu_scheduler_data", variables + 40),
            // These are of the other kind, so that nothing is known of them.
            ("erts_no_dirty_io_schedulers", variables + 32),
            ("erts_aligned_dirty_io_scheduler_data", variables + 40),
        ];
        let variables = Variables { exported: symbols.into(), data: Vec::new() };
        (pieces, variables)
    }
}

impl Build {
    /// Memory of an emulator that exports nothing: its variables lie among others.
    fn hidden(&self) -> (Pieces, Variables) {
        let (mut memory, _) = self.memory();
        let (data, entry, record) = (0x5200_0000, 0x5300_0000, 0x5400_0000);
        let files = 0x7c00_0000;
        let mut words = vec![0x5200_0040, 1, 0, 0x5100_0000, 7, u64::MAX];
        // Those of OTP 29, with 1,048,576 places in lines of eight.
        words.extend([1 | 1 << 32, 0, entry, 0, 0]);
        words.extend([0x6000_0000, 0, 1 << 20, (1 << 20) - 1, (1 << 17) - 1, 7, 17 << 32 | 3]);
        words.extend([self.schedulers, 0x7000_0000, 2, 0x7800_0000, 3, files]);
        words.resize(200, 0);
        memory.write(data, &words);
        memory.write(entry, &[0, 0, record, 32]);
        memory.write(record, &[0, 1, NORMAL_EXIT, 0]);
        let mut io = vec![0; (self.scheduler_words * 3) as usize + 200];
        for i in 0..3 {
            let at = (i * self.scheduler_words + self.number) as usize;
            (io[at - 1], io[at + 1]) = (2, i + 1);
        }
        memory.write(files, &io);
        (memory, Variables { data: vec![(data, words)], ..Variables::default() })
    }
}

#[test]
fn variables_that_are_not_exported_are_found_among_others() {
    let (memory, exported) = DEBIAN_25.memory();
    let known = Vm::discover(&memory, &exported).unwrap();
    let (memory, variables) = DEBIAN_25.hidden();
    assert_eq!(variables.code_list(&memory), Some(0x5200_0030));
    let mut found = Vm::discover(&memory, &variables).unwrap();
    let files = (1..=3).map(|number| Scheduler { kind: schedulers::SchedulerKind::DirtyIo, number });
    for of_files in files {
        assert!(found.current_process.remove(&of_files).is_some(), "{of_files:?}");
    }
    assert_eq!(found, known);
    let (_, words) = &variables.data[0];
    for at in 0..30 {
        let mut other = words.clone();
        other[at] ^= 0x5555_5555_5555_5555;
        let _ = Vm::discover(&memory, &Variables { data: vec![(0x5200_0000, other)], ..Variables::default() });
    }
    for piece in memory.0.keys() {
        let mut missing = memory.clone();
        missing.0.remove(piece);
        let _ = Vm::discover(&missing, &variables);
    }
    for (variables, why) in [
        (Variables::default(), NO_EXIT),
        (Variables { data: vec![(0x5200_0000, words[..11].to_vec())], ..Variables::default() }, NO_TABLE),
        (Variables { data: vec![(0x5200_0000, words[..18].to_vec())], ..Variables::default() }, NO_SCHEDULER),
    ] {
        assert_eq!(Vm::discover(&memory, &variables), Err(why));
    }
}

#[test]
fn offsets_are_found_wherever_they_are() {
    let builds = [
        DEBIAN_25,
        Build { schedulers: 1, ..DEBIAN_25 },
        Build { schedulers: 17, scheduler_words: 4096 / 8, number: 40, stop: 9, heap: 14 },
    ];
    for build in builds {
        let (memory, symbols) = build.memory();
        let vm = Vm::discover(&memory, &symbols).unwrap();
        let bytes = |word: usize| (word * 8) as i16;
        let layout = ProcessLayout {
            stop: bytes(build.stop),
            frame_pointer: bytes(build.stop + 1),
            heap: bytes(build.heap),
            hend: bytes(build.heap + 1),
        };
        assert_eq!((vm.process, vm.frame_pointers), (layout, true));
        assert_eq!(vm.normal_exit, NORMAL_EXIT);
        let current = |first, i| first + (i * build.scheduler_words + build.number - 2) * 8;
        let wanted = (0..build.schedulers).map(|i| (format!("{}_scheduler", i + 1), current(0x7000_0000, i)));
        let dirty = (0..2).map(|i| (format!("{}_dirty_cpu_sch", i + 1), current(0x7800_0000, i)));
        let wanted = wanted.chain(dirty);
        let wanted = wanted.map(|(thread, at)| (Scheduler::of_thread(&thread).unwrap(), at));
        assert_eq!(vm.current_process, wanted.collect());
        assert_eq!(vm.identifiers, IdentifierLayout::WithPlace);
    }
}

#[test]
fn memory_that_is_no_beam_is_unfamiliar() {
    let (mut memory, symbols) = DEBIAN_25.memory();
    for (name, unfamiliar) in
        [("beam_normal_exit", NO_EXIT), ("erts_proc", NO_TABLE), ("erts_no_schedulers", NO_SCHEDULER)]
    {
        let mut variables = symbols.clone();
        variables.exported.remove(name);
        assert_eq!(Vm::discover(&memory, &variables), Err(unfamiliar));
    }
    for piece in memory.0.keys() {
        let (mut garbled, mut missing) = (memory.clone(), memory.clone());
        garbled.0.get_mut(piece).unwrap().iter_mut().for_each(|byte| *byte ^= 0x55);
        missing.0.remove(piece);
        let _ = Vm::discover(&garbled, &symbols);
        let _ = Vm::discover(&missing, &symbols);
    }
    assert!(Vm::discover(&Pieces::default(), &symbols).is_err());
    // Things that begin alike are no processes.
    for (_, process) in memory.0.range_mut(0x1_0000_0000..0x2_0000_0000) {
        process[..8].copy_from_slice(&0x73u64.to_ne_bytes());
    }
    assert_eq!(Vm::discover(&memory, &symbols), Err(NO_TABLE));
}
