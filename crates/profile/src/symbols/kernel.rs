//! The kernel's symbols, from `/proc/kallsyms`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use stacks::{Frame, FrameKind};

use super::table::{Binding, Builder, Table};

/// Names of the kernel and its modules by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// A name of a module is followed by a tab and the module in brackets, as the kernel prints it.
    table: Table,
}

impl KernelSymbols {
    /// Empty where the kernel hides its addresses (`kernel.kptr_restrict`).
    pub(crate) fn load() -> Self {
        let read = || File::open("/proc/kallsyms").and_then(|f| parse(&mut BufReader::new(f)));
        Self { table: read().unwrap_or_default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(crate) fn begins_at(&self, address: u64) -> bool {
        let before = address.checked_sub(1).and_then(|before| self.table.find(before));
        before.is_none() && self.table.find(address).is_some()
    }

    pub(crate) fn frame(&self, address: u64) -> Frame {
        match self.find(address) {
            Some((name, module)) => Frame::new(name, module, FrameKind::Kernel),
            None => Frame::unknown("[kernel]"),
        }
    }

    /// Function and module (`[kernel]`, `[ext4]`).
    fn find(&self, address: u64) -> Option<(&str, &str)> {
        let entry = self.table.find(address)?;
        Some(entry.split_once('\t').unwrap_or((entry, "[kernel]")))
    }
}

/// Lines are `ffffffffc0201000 t NAME`, with a tab and `[MODULE]` behind it for a module; only code is kept.
fn parse(input: &mut dyn BufRead) -> io::Result<Table> {
    let mut builder = Builder::default();
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let mut fields = line.trim_end().splitn(3, ' ');
        if let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
            && matches!(kind, "t" | "T" | "w" | "W")
            && let Ok(address) = u64::from_str_radix(address, 16)
            && address != 0
        {
            let binding = Binding { weak: kind.eq_ignore_ascii_case("w"), global: kind == "T" };
            builder.add(address, 0, name, binding);
        }
        line.clear();
    }
    Ok(builder.build(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_kernel_and_modules_is_found() {
        let text = "ffffffff81000000 T _stext\nffffffff81000000 T startup_64\n\
                    ffffffff81000100 D data\nffffffff81000200 t do_it\ngarbage\n\
                    ffffffffc0201000 t ext4_read\t[ext4]\n";
        let symbols = KernelSymbols { table: parse(&mut text.as_bytes()).unwrap() };
        assert_eq!(symbols.find(0xffff_ffff_8100_0150), Some(("startup_64", "[kernel]")));
        assert_eq!(symbols.find(0xffff_ffff_8100_0201), Some(("do_it", "[kernel]")));
        assert_eq!(symbols.find(0xffff_ffff_c020_1004), Some(("ext4_read", "[ext4]")));
        assert_eq!(symbols.find(0x1000), None);
        // Hidden addresses give no names.
        let text = "0000000000000000 T _stext\n0000000000000000 T do_it\n";
        assert!(parse(&mut text.as_bytes()).unwrap().is_empty());
    }
}
