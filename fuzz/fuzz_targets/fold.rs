//! `stacks::Collapse`: any bytes are folded or refused. The first byte chooses the options.
#![no_main]

use stacks::{Collapse, CollapseOptions};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&flags, text)) = data.split_first() else {
        return;
    };
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
    if collapse.read(&mut &*text, None).expect("memory can be read").is_ok() {
        collapse.write(&mut std::io::sink()).expect("no disk is needed");
    }
});
