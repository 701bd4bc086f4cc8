//! Functions that a library has in several implementations, of which it takes one for this machine when it is loaded
//! (`IFUNC`): `memcpy` and its like. A stripped library names the function that selects, and not what it selects
//! from. Which one it was stands in the memory of a process that has it loaded.

use std::collections::HashMap;

use linux::maps::Mapping;
use object::elf::{R_X86_64_IRELATIVE, STT_GNU_IFUNC};
use object::read::ReadRef;
use object::{Object as _, ObjectSymbol as _, RelocationFlags, SymbolFlags};

use super::bias::bias;
use crate::memory::Memory;

/// The C library has fifty; a file that is none must not keep us busy.
const MOST: usize = 1024;

/// A file that a running process has mapped.
#[derive(Clone, Copy)]
pub(crate) struct Loaded<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) memory: &'a dyn Memory,
}

/// The addresses, as the file states them, of the implementations that were taken, with the function's name; several
/// functions may share one. `starts` is where the file's functions begin, in order: what is none of them
/// is not written yet.
pub(super) fn selected<'d, R: ReadRef<'d>>(
    file: &object::File<'d, R>,
    loaded: Loaded<'_>,
    starts: &[u64],
) -> Vec<(u64, &'d str)> {
    let Some(bias) = bias(file, loaded.mapping) else {
        return Vec::new();
    };
    let is_selector = |flags| matches!(flags, SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC);
    let mut selectors: HashMap<u64, Vec<&str>> = HashMap::new();
    for symbol in file.dynamic_symbols() {
        if !symbol.is_undefined()
            && is_selector(symbol.flags())
            && let Ok(name) = symbol.name()
        {
            selectors.entry(symbol.address()).or_default().push(name);
        }
    }
    let irelative = RelocationFlags::Elf {
        r_type: R_X86_64_IRELATIVE,
    };
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let relocations = relocations.filter(|(_, it)| it.flags() == irelative);
    let taken = relocations.take(MOST).filter_map(|(at, relocation)| {
        let names = selectors.get(&relocation.addend().cast_unsigned())?;
        let address = loaded.memory.word(bias.wrapping_add(at))?;
        let address = address.wrapping_sub(bias);
        starts.binary_search(&address).ok()?;
        Some(names.iter().map(move |name| (address, *name)))
    });
    taken.flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::function_starts::function_starts;
    use super::*;
    use crate::memory::ProcessMemory;

    /// Functions taken in this process's C library, as addresses here; `None` where it is linked in another way.
    fn in_own_libc(memory: &dyn Memory) -> Option<Vec<(u64, String)>> {
        use object::ObjectSection as _;
        let maps = linux::maps::maps(std::process::id()).unwrap();
        let mapping = maps.iter().find(|m| m.path.contains("libc.so"))?;
        let bytes = std::fs::read(Path::new(&*mapping.path)).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section = file.section_by_name(".eh_frame_hdr").unwrap();
        let starts = function_starts(section.data().unwrap(), section.address());
        let bias = bias(&file, mapping).unwrap();
        let found = selected(&file, Loaded { mapping, memory }, &starts).into_iter();
        let found = found.map(|(address, name)| (bias.wrapping_add(address), name.to_owned()));
        Some(found.collect())
    }

    #[test]
    fn the_implementation_that_is_called_has_the_name_of_its_function() {
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let Some(found) = in_own_libc(&memory) else {
            testkit::skip!("this program is not linked with a shared libc");
        };
        // A pointer to such a function points to the implementation.
        let strlen = libc::strlen as *const () as u64;
        let names = found.iter().filter(|(address, _)| *address == strlen);
        let names: Vec<_> = names.map(|(_, name)| name.as_str()).collect();
        assert!(names.contains(&"strlen"), "{names:?} of {found:?}");
    }

    #[test]
    fn what_is_no_function_of_the_file_has_no_name() {
        /// Memory that is not written yet.
        struct Same(u8);
        impl Memory for Same {
            fn read(&self, _: u64, bytes: &mut [u8]) -> bool {
                bytes.fill(self.0);
                true
            }
        }
        for byte in [0, 0x41, 0xff] {
            let Some(found) = in_own_libc(&Same(byte)) else {
                testkit::skip!("this program is not linked with a shared libc");
            };
            assert_eq!(found, [], "{byte:x}");
        }
    }
}
