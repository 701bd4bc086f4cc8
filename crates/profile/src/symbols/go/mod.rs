//! Functions of Go programs. The linker writes a table of them (`.gopclntab`), by which the runtime prints stacks, so
//! that stripping leaves it in: names, and which functions were inlined where.

mod pclntab;

use std::ops::Range;
use std::path::PathBuf;

use linux::maps;
use object::elf::{R_AARCH64_RELATIVE, R_X86_64_RELATIVE};
use object::read::ReadRef;
use object::{Object as _, ObjectSection as _, RelocationFlags, SectionKind};
use stacks::{Frame, FrameKind};

use self::pclntab::Pclntab;
use super::Function;
use super::files::{CodeSegments, read_object};

/// The table's section, in programs that may be loaded anywhere the second.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Bytes of tables that are kept at most: no program comes near.
const LARGEST: usize = 256 << 20;

#[derive(Debug)]
pub(super) struct GoFunctions {
    table: Pclntab,
    text: u64,
}

impl GoFunctions {
    /// Those of a file; `None` where Go 1.18 or later has not linked it.
    pub(super) fn of<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Option<Self> {
        let section = section(file)?;
        let mut table = Pclntab::parse(at_most(section.data().ok()?))?;
        let module = ModuleData::find(file, section.address(), &table)?;
        if let Some(trees) = bytes_from(file, module.trees) {
            table.trees = at_most(trees).into();
        }
        Some(Self { table, text: module.text })
    }

    /// The function at an address behind those inlined there, innermost first; none where the address is not Go's.
    pub(super) fn functions(&self, address: u64) -> Vec<Function<'static>> {
        let offset = address.checked_sub(self.text);
        let offset = offset.and_then(|it| u32::try_from(it).ok());
        offset.map_or_else(Vec::new, |offset| self.table.functions(offset))
    }
}

#[derive(Debug)]
pub(crate) struct GoCode {
    functions: GoFunctions,
    /// Difference to the file's addresses.
    bias: u64,
    range: Range<u64>,
}

impl GoCode {
    /// That of a process; `None` where Go 1.18 or later has not linked it.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        let code = read_object(&executable(pid), |file| {
            let (functions, segments) = (GoFunctions::of(file)?, CodeSegments::of(file));
            let (range, bias) = maps::maps(pid)?.iter().find_map(|mapping| {
                let (range, bias) = (mapping.start..mapping.end, segments.bias(mapping)?);
                range.contains(&functions.text.wrapping_add(bias)).then_some((range, bias))
            })?;
            Some(Self { functions, bias, range })
        });
        code.ok()?
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.range.contains(&address)
    }

    /// How far the stack has grown at an address since its function was called: there stands where to return to.
    pub(crate) fn stack_size(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.bias)?;
        self.functions.table.stack_size(offset.checked_sub(self.functions.text)?.try_into().ok()?)
    }
}

fn executable(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/exe"))
}

pub(crate) fn is_go(pid: u32) -> bool {
    read_object(&executable(pid), |file| section(file).is_some()).unwrap_or(false)
}

/// The functions at an offset into a Go program's code, innermost first, with lines, by `.gopclntab` and `go:func.*`.
pub fn go_functions(table: &[u8], trees: &[u8], offset: u32) -> Vec<Frame> {
    let functions = Pclntab::parse(table).map(|mut table| {
        table.trees = trees.into();
        table.functions(offset)
    });
    let frame = |it: Function<'_>| Frame::new(it.name, "", FrameKind::Native).at_line(it.line);
    functions.unwrap_or_default().into_iter().map(frame).collect()
}

fn section<'d, 'f, R: ReadRef<'d>>(file: &'f object::File<'d, R>) -> Option<object::Section<'d, 'f, R>> {
    SECTIONS.iter().find_map(|name| file.section_by_name(name))
}

/// The first bytes of a table that is too large to be one.
fn at_most(bytes: &[u8]) -> &[u8] {
    bytes.get(..LARGEST).unwrap_or(bytes)
}

/// Words of it as far as the last that is read here.
const WORDS: usize = 41;
/// `text`: the address that all offsets of functions are added to.
const TEXT: usize = 22;
/// Pointers to the table that are looked at.
const MOST_POINTERS: usize = 64;

/// Fields of the runtime's `moduledata`, which the tables refer to; it begins with a pointer to `.gopclntab`.
#[derive(Clone, Copy, Debug)]
struct ModuleData {
    text: u64,
    /// `gofunc`: what offsets of trees of inlined calls are added to.
    trees: u64,
}

impl ModuleData {
    fn find<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, at: u64, table: &Pclntab) -> Option<Self> {
        // In a program that may be loaded anywhere the file's words are 0, and relocations say what they become.
        let relocated = relatives(file).filter(|(_, value)| *value == at);
        let relocated: Vec<u64> = relocated.map(|(place, _)| place).take(MOST_POINTERS).collect();
        relocated.into_iter().chain(pointers(file, at).take(MOST_POINTERS)).find_map(|place| {
            let words = words(file, place)?;
            let [first, names, ..] = words;
            let is_one = first == at && names == at.checked_add(table.names as u64)?;
            is_one.then_some(Self { text: words[TEXT], trees: *words.get(table.trees_word())? })
        })
    }
}

/// The places that get an address when the file is loaded, and which, as the file states it.
fn relatives<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> impl Iterator<Item = (u64, u64)> {
    let known = [R_X86_64_RELATIVE, R_AARCH64_RELATIVE];
    let is_relative = move |flags| matches!(flags, RelocationFlags::Elf { r_type } if known.contains(&r_type));
    let relocations = file.dynamic_relocations().into_iter().flatten();
    relocations.filter(move |(_, it)| is_relative(it.flags())).map(|(at, it)| (at, it.addend().cast_unsigned()))
}

fn pointers<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, value: u64) -> impl Iterator<Item = u64> {
    let is_data = |kind| matches!(kind, SectionKind::Data | SectionKind::ReadOnlyDataWithRel);
    file.sections().filter(move |it| is_data(it.kind())).flat_map(move |section| {
        let (words, _) = section.data().unwrap_or_default().as_chunks::<8>();
        let start = section.address();
        let equal = (0u64..).zip(words).filter(move |(_, word)| u64::from_le_bytes(**word) == value);
        equal.map(move |(n, _)| start.wrapping_add(n * 8))
    })
}

/// The words at an address, as they are when the file is loaded where it states.
fn words<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, at: u64) -> Option<[u64; WORDS]> {
    let (chunks, _) = bytes_from(file, at)?.as_chunks::<8>();
    let chunks: &[[u8; 8]; WORDS] = chunks.first_chunk()?;
    let mut words = chunks.map(u64::from_le_bytes);
    for (place, value) in relatives(file) {
        let Some(into) = place.checked_sub(at) else { continue };
        let word = usize::try_from(into / 8).ok().and_then(|it| words.get_mut(it));
        if let Some(word) = word.filter(|_| into.is_multiple_of(8)) {
            *word = value;
        }
    }
    Some(words)
}

/// Bytes of the file from an address on, to the end of its section.
fn bytes_from<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, address: u64) -> Option<&'d [u8]> {
    let mut sections = file.sections();
    let section =
        sections.find(|section| (address.checked_sub(section.address())).is_some_and(|into| into < section.size()))?;
    let into = usize::try_from(address - section.address()).ok()?;
    section.data().ok()?.get(into..)
}
