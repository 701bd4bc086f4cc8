//! Symbols of ELF files: `.symtab` and `.dynsym` of the file itself, of its separate debug file
//! where one is installed, and the entries of its procedure linkage table; Go's own table of functions.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use linux::maps::Mapping;
use object::elf::{R_X86_64_IRELATIVE, STT_GNU_IFUNC};
use object::read::ReadRef;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationFlags, SectionKind, SymbolFlags,
    SymbolIndex, SymbolKind,
};

use super::Function;
use super::files::{CodeSegments, files_of, read_object};
use super::go::GoFunctions;
use super::table::{Binding, Builder, Table};
use crate::memory::Memory;

/// Where distributions install separate debug files.
const DEBUG_DIR: &str = "usr/lib/debug";
/// Bytes of an entry of `.plt` and `.plt.sec` on x86-64 and AArch64, and of `.rela.plt`.
const PLT_ENTRY: u64 = 16;
const RELA_ENTRY: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct ElfSymbols {
    /// Loadable segments: place in the file, length there, address.
    segments: Vec<(u64, u64, u64)>,
    table: Table,
    go: Option<GoFunctions>,
    /// The number of its build in hexadecimal; empty where it has none.
    pub(super) build: String,
}

impl ElfSymbols {
    /// Of the file that `path` names inside the root directory `root`, and of its debug file there
    /// or in our own root. `opened` is where the file itself is read, which differs from its name
    /// once that is deleted; `loaded` is where a process has it in its memory.
    pub(crate) fn load(opened: &Path, root: &Path, path: &str, loaded: Option<Loaded<'_>>) -> io::Result<Self> {
        read_object(opened, |file| {
            let mut builder = Builder::default();
            add_symbols(file, &mut builder);
            if file.symbol_table().is_none() {
                let mut candidates = debug_files(file, root, path).into_iter();
                if !candidates.any(|candidate| add_debug_file(file, &candidate, &mut builder)) {
                    add_nameless(file, path, loaded, &mut builder);
                }
            }
            Self::with(file, builder)
        })
    }

    /// Of a whole file in memory.
    pub(crate) fn of_image(image: &[u8]) -> io::Result<Self> {
        let file = object::File::parse(image).map_err(io::Error::other)?;
        let mut builder = Builder::default();
        add_symbols(&file, &mut builder);
        Ok(Self::with(&file, builder))
    }

    fn with<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, builder: Builder) -> Self {
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        let segments: Vec<_> = segments.collect();
        let end = segments.iter().map(|(_, size, address)| address.saturating_add(*size)).max();
        Self {
            table: builder.build(end.unwrap_or(u64::MAX)),
            segments,
            go: GoFunctions::of(file),
            build: file.build_id().ok().flatten().map_or_else(String::new, measure::hex),
        }
    }

    /// The function at `offset` of the file behind those inlined there, innermost first; none where it has no name.
    pub(crate) fn functions(&self, offset: u64) -> Vec<Function<'_>> {
        let Some(address) = self.address(offset) else { return Vec::new() };
        let go = self.go.as_ref().map(|go| go.functions(address));
        let plain = || self.table.find(address).map(|name| Function { name: Cow::Borrowed(name), line: None });
        go.filter(|functions| !functions.is_empty()).unwrap_or_else(|| plain().into_iter().collect())
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let inside = |&&(start, size, _): &&(u64, u64, u64)| offset.checked_sub(start).is_some_and(|into| into < size);
        let (start, _, address) = self.segments.iter().find(inside)?;
        Some(address.wrapping_add(offset - start))
    }
}

pub(crate) fn build_id(path: &str) -> Option<Vec<u8>> {
    read_object(path.as_ref(), |file| file.build_id().ok()?.map(<[u8]>::to_vec)).ok()?
}

/// The addresses in a process of what a mapped file exports under these names; `None` where it cannot be read.
pub(crate) fn exported(pid: u32, mapping: &Mapping, names: &[&'static str]) -> Option<Vec<(&'static str, u64)>> {
    let exported = |path: PathBuf| {
        let found = read_object(&path, |file| {
            let bias = CodeSegments::of(file).bias(mapping)?;
            let found = file.dynamic_symbols().filter(ObjectSymbol::is_definition).filter_map(|symbol| {
                let name = symbol.name().ok()?;
                let name = names.iter().find(|wanted| **wanted == name)?;
                Some((*name, bias.wrapping_add(symbol.address())))
            });
            Some(found.collect::<Vec<_>>())
        });
        found.ok()?
    };
    files_of(pid, mapping).into_iter().find_map(exported)
}

/// Where a mapped file can be read, and where in it functions of these names begin; `None` also where it has 32 bits.
pub(crate) fn defined(
    pid: u32,
    mapping: &Mapping,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<(PathBuf, Vec<(String, u64)>)> {
    let defined = |path: PathBuf| {
        let found = read_object(&path, |file| {
            let found = file.dynamic_symbols().chain(file.symbols()).filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| is_wanted(name))?;
                let is_code = symbol.is_definition() && symbol.kind() == SymbolKind::Text;
                Some((name.to_owned(), file_offset(file, symbol.address()).filter(|_| is_code)?))
            });
            // Those of 32 bits have their arguments on the stack.
            file.is_64().then(|| found.collect::<Vec<_>>())
        });
        Some((path, found.ok()??))
    };
    files_of(pid, mapping).into_iter().find_map(defined)
}

fn file_offset<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let into = address.checked_sub(segment.address())?;
        (into < size).then(|| offset.saturating_add(into))
    })
}

fn add_symbols<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, builder: &mut Builder) {
    let is_code = |symbol: &object::Symbol<'d, '_, R>| match symbol.kind() {
        SymbolKind::Text => true,
        // Written in assembler, without a type.
        SymbolKind::Unknown | SymbolKind::Label => symbol
            .section_index()
            .and_then(|index| file.section_by_index(index).ok())
            .is_some_and(|section| section.kind() == SectionKind::Text),
        _ => false,
    };
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.is_definition()
            && is_code(&symbol)
            && let Ok(name) = symbol.name()
            && !name.is_empty()
        {
            let binding = Binding { weak: symbol.is_weak(), global: symbol.is_global() };
            builder.add(symbol.address(), symbol.size(), name, binding);
        }
    }
    add_plt(file, builder);
}

/// Names the functions that a stripped file says nothing of but where they begin: by the function that they
/// implement where `loaded` tells it, otherwise by their neighbours.
fn add_nameless<'d, R: ReadRef<'d>>(
    file: &object::File<'d, R>,
    path: &str,
    loaded: Option<Loaded<'_>>,
    builder: &mut Builder,
) {
    let Some(section) = file.section_by_name(".eh_frame_hdr") else { return };
    let Ok(bytes) = section.uncompressed_data() else { return };
    let mut starts = function_starts(&bytes, section.address());
    starts.sort_unstable();
    let implementation = Binding { weak: false, global: true };
    let taken = loaded.map(|loaded| selected(file, loaded, &starts));
    for (start, name) in taken.into_iter().flatten() {
        let next = starts.partition_point(|other| *other <= start);
        let size = starts.get(next).map_or(0, |next| next - start);
        builder.add(start, size, name, implementation);
    }
    builder.add_neighbours(path.rsplit('/').next().unwrap_or(path), starts);
}

/// Names the entries of the procedure linkage table `NAME@plt`: entry `n` jumps to what relocation
/// `n` of `.rela.plt` names; `.plt` begins with one or two entries of its own, `.plt.sec` with none.
fn add_plt<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, builder: &mut Builder) {
    let (Some(relocations), Some(symbols)) = (file.section_by_name(".rela.plt"), file.dynamic_symbol_table()) else {
        return;
    };
    let Ok(relocations) = relocations.data() else { return };
    let count = (relocations.len() / RELA_ENTRY) as u64;
    let Some((section, own)) = file.section_by_name(".plt.sec").map(|s| (s, 0)).or_else(|| {
        let section = file.section_by_name(".plt")?;
        let own = section.size().saturating_sub(count * PLT_ENTRY);
        Some((section, own))
    }) else {
        return;
    };
    let binding = Binding { weak: true, global: false };
    for (n, entry) in (0u64..).zip(relocations.chunks_exact(RELA_ENTRY)) {
        let index = entry.get(12..16).and_then(|bytes| bytes.try_into().ok());
        let Some(index) = index.map(u32::from_le_bytes) else { continue };
        let symbol = symbols.symbol_by_index(SymbolIndex(index as usize));
        if let Ok(name) = symbol.and_then(|symbol| symbol.name())
            && !name.is_empty()
        {
            let address = section.address().saturating_add(own + n * PLT_ENTRY);
            builder.add(address, PLT_ENTRY, &format!("{name}@plt"), binding);
        }
    }
}

/// Where the debug file of `file` may be, by build id and link, in the root directory of the process and in ours.
fn debug_files<'d>(file: &impl Object<'d>, root: &Path, path: &str) -> Vec<PathBuf> {
    let mut inside: Vec<PathBuf> = Vec::new();
    if let Ok(Some([first, rest @ ..])) = file.build_id() {
        inside.push(Path::new(DEBUG_DIR).join(format!(".build-id/{first:02x}/{}.debug", measure::hex(rest))));
    }
    if let Ok(Some((name, _))) = file.gnu_debuglink()
        && let Ok(name) = std::str::from_utf8(name)
        && !name.contains('/')
    {
        let dir = Path::new(path.trim_start_matches('/')).parent().unwrap_or(Path::new(""));
        inside.push(dir.join(name));
        inside.push(dir.join(".debug").join(name));
        inside.push(Path::new(DEBUG_DIR).join(dir).join(name));
    }
    [root, Path::new("/")].iter().flat_map(|root| inside.iter().map(|path| root.join(path))).collect()
}

/// Takes the symbols of a debug file if it belongs to `file`, which the build ids tell.
fn add_debug_file<'d>(file: &impl Object<'d>, path: &Path, builder: &mut Builder) -> bool {
    let added = read_object(path, |debug| {
        let same = matches!((file.build_id(), debug.build_id()), (Ok(Some(a)), Ok(Some(b))) if a == b);
        if same {
            add_symbols(debug, builder);
        }
        same
    });
    added.unwrap_or(false)
}

/// Version, and how the three parts behind it are written: a pointer of 32 bits relative to its own place, a count of
/// 32 bits, and a table of pairs of 32 bits relative to the section. All linkers write it so.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// Where the functions of a stripped file begin: `.eh_frame_hdr`, a sorted table for exceptions, has the first address
/// of every one, without names. In the order of the section, which is at `address`; none if written otherwise.
fn function_starts(section: &[u8], address: u64) -> Vec<u64> {
    let Some(table) = section.strip_prefix(&HEADER) else { return Vec::new() };
    let (words, _) = table.as_chunks::<4>();
    let [_pointer, count, table @ ..] = words else { return Vec::new() };
    let (pairs, _) = table.as_chunks::<2>();
    let count = u32::from_le_bytes(*count) as usize;
    let starts =
        pairs.iter().take(count).map(|[start, _entry]| address.wrapping_add_signed(i32::from_le_bytes(*start).into()));
    starts.collect()
}

/// The C library has fifty; a file that is none must not keep us busy.
const MOST: usize = 1024;

#[derive(Clone, Copy)]
pub(crate) struct Loaded<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) memory: &'a dyn Memory,
}

/// The implementations that a library has taken of functions with several (`IFUNC`, as `memcpy`): their addresses, as
/// the file states them, and names. A stripped library names only what selects; the choice stands in the memory of a
/// process that has it loaded. What is none of `starts`, the file's functions in order, is not written yet.
fn selected<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, loaded: Loaded<'_>, starts: &[u64]) -> Vec<(u64, &'d str)> {
    let Some(bias) = CodeSegments::of(file).bias(loaded.mapping) else { return Vec::new() };
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
    let irelative = RelocationFlags::Elf { r_type: R_X86_64_IRELATIVE };
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let taken = relocations.filter(|(_, it)| it.flags() == irelative).take(MOST).filter_map(|(at, relocation)| {
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

    use super::*;
    use crate::memory::ProcessMemory;
    use crate::symbols::open_file;

    #[test]
    fn damaged_files_are_errors_not_panics() {
        let exe = std::fs::read("/proc/self/exe").unwrap();
        assert!(ElfSymbols::of_image(b"").is_err());
        assert!(ElfSymbols::of_image(b"\x7fELF").is_err());
        // Headers of a real file with every byte of them changed in turn, and cut off.
        let image = &exe[..exe.len().min(64 * 1024)];
        for i in 0..512 {
            let mut bytes = image.to_vec();
            bytes[i] ^= 0xff;
            let _ = ElfSymbols::of_image(&bytes).map(|symbols| symbols.functions(0x1000).len());
        }
        for len in (0..image.len()).step_by(997) {
            let _ = ElfSymbols::of_image(&image[..len]);
        }
        assert!(open_file(Path::new("/dev/null")).is_err() && open_file(Path::new("/tmp")).is_err());
    }

    #[test]
    fn debug_files_are_looked_for_in_both_roots() {
        let exe = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*exe).unwrap();
        let Ok(Some(id)) = file.build_id() else {
            testkit::skip!("this program was linked without a build id");
        };
        let files = debug_files(&file, Path::new("/proc/1/root"), "/usr/bin/x");
        let name = format!("usr/lib/debug/.build-id/{:02x}/", id[0]);
        assert!(files[0].starts_with(Path::new("/proc/1/root").join(&name)));
        assert!(files.iter().any(|f| f.starts_with(Path::new("/").join(&name))));
    }

    fn section(count: u32, pairs: &[[i32; 2]]) -> Vec<u8> {
        let mut section = HEADER.to_vec();
        section.extend([0; 4]);
        section.extend(count.to_le_bytes());
        section.extend(pairs.as_flattened().iter().flat_map(|w| w.to_le_bytes()));
        section
    }

    #[test]
    fn every_function_of_a_table_is_found_and_those_that_end_early_or_are_none_do_no_harm() {
        assert_eq!(function_starts(&section(2, &[[-0x100, 7], [0x20, 8]]), 0x1000), [0xf00, 0x1020]);
        let whole = section(u32::MAX, &[[1, 2], [3, 4]]);
        assert_eq!(function_starts(&whole, u64::MAX), [0, 2]);
        for len in 0..whole.len() {
            assert!(function_starts(&whole[..len], 0).len() < 2);
        }
        assert!(function_starts(&[2; 64], 0).is_empty());
    }

    /// Functions taken in this process's C library, as addresses here; `None` where it is linked in another way.
    fn in_own_libc(memory: &dyn Memory) -> Option<Vec<(u64, String)>> {
        use object::ObjectSection as _;
        let maps = linux::maps::maps(std::process::id()).unwrap();
        let mapping = maps.iter().find(|m| m.path.contains("libc.so"))?;
        let bytes = std::fs::read(Path::new(&*mapping.path)).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section = file.section_by_name(".eh_frame_hdr").unwrap();
        let starts = function_starts(section.data().unwrap(), section.address());
        let bias = CodeSegments::of(&file).bias(mapping).unwrap();
        let found = selected(&file, Loaded { mapping, memory }, &starts).into_iter();
        Some(found.map(|(address, name)| (bias.wrapping_add(address), name.to_owned())).collect())
    }

    #[test]
    fn the_implementation_that_is_called_has_the_name_of_its_function() {
        /// Memory that is not written yet.
        struct Same(u8);
        impl Memory for Same {
            fn read(&self, _: u64, bytes: &mut [u8]) -> bool {
                bytes.fill(self.0);
                true
            }
        }
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let Some(found) = in_own_libc(&memory) else {
            testkit::skip!("this program is not linked with a shared libc");
        };
        // A pointer to such a function points to the implementation.
        let strlen = libc::strlen as *const () as u64;
        let names = found.iter().filter(|(address, _)| *address == strlen);
        let names: Vec<_> = names.map(|(_, name)| name.as_str()).collect();
        assert!(names.contains(&"strlen"), "{names:?} of {found:?}");
        for byte in [0, 0x41, 0xff] {
            assert_eq!(in_own_libc(&Same(byte)), Some(Vec::new()), "no function of the file: {byte:x}");
        }
    }
}
