//! Where a Go program's tables refer to: the runtime's `moduledata`, which no symbol names in a stripped file, but which
//! begins with a pointer to `.gopclntab`.

use object::elf::{R_AARCH64_RELATIVE, R_X86_64_RELATIVE};
use object::read::ReadRef;
use object::{Object as _, ObjectSection as _, RelocationFlags, SectionKind};

use super::pclntab::Pclntab;

/// Words of it as far as the last that is read here.
const WORDS: usize = 41;
/// `text`: the address that all offsets of functions are added to.
const TEXT: usize = 22;
/// Pointers to the table that are looked at.
const MOST_POINTERS: usize = 64;

/// Fields of a `moduledata`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModuleData {
    /// Where the code begins.
    pub(super) text: u64,
    /// `gofunc`: what offsets of trees of inlined calls are added to.
    pub(super) trees: u64,
}

impl ModuleData {
    /// The one of a table at this address.
    pub(super) fn find<'d, R: ReadRef<'d>>(
        file: &object::File<'d, R>,
        at: u64,
        table: &Pclntab,
    ) -> Option<Self> {
        // In a program that may be loaded anywhere the file's words are 0, and relocations say what they become.
        let relocated = relatives(file).filter(|(_, value)| *value == at);
        let relocated: Vec<u64> = relocated
            .map(|(place, _)| place)
            .take(MOST_POINTERS)
            .collect();
        let fixed = pointers(file, at).take(MOST_POINTERS);
        let mut found = relocated.into_iter().chain(fixed);
        found.find_map(|place| {
            let words = words(file, place)?;
            let [first, names, ..] = words;
            let is_one = first == at && names == at.checked_add(table.names_at())?;
            is_one.then_some(Self {
                text: words[TEXT],
                trees: *words.get(table.trees_word())?,
            })
        })
    }
}

/// The places that get an address when the file is loaded, and which, as the file states it.
fn relatives<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> impl Iterator<Item = (u64, u64)> {
    let is_relative = |flags| matches!(flags, RelocationFlags::Elf { r_type } if [R_X86_64_RELATIVE, R_AARCH64_RELATIVE].contains(&r_type));
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let relative = relocations.filter(move |(_, it)| is_relative(it.flags()));
    relative.map(|(at, it)| (at, it.addend().cast_unsigned()))
}

/// The addresses of words that hold `value`.
fn pointers<'d, R: ReadRef<'d>>(
    file: &object::File<'d, R>,
    value: u64,
) -> impl Iterator<Item = u64> {
    let is_data = |kind| matches!(kind, SectionKind::Data | SectionKind::ReadOnlyDataWithRel);
    let sections = file.sections().filter(move |it| is_data(it.kind()));
    sections.flat_map(move |section| {
        let (words, _) = section.data().unwrap_or_default().as_chunks::<8>();
        let start = section.address();
        let equal = (0u64..)
            .zip(words)
            .filter(move |(_, word)| u64::from_le_bytes(**word) == value);
        equal.map(move |(n, _)| start.wrapping_add(n * 8))
    })
}

/// The words at an address, as they are when the file is loaded where it states.
fn words<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, at: u64) -> Option<[u64; WORDS]> {
    let (chunks, _) = bytes_from(file, at)?.as_chunks::<8>();
    let chunks: &[[u8; 8]; WORDS] = chunks.first_chunk()?;
    let mut words = chunks.map(u64::from_le_bytes);
    for (place, value) in relatives(file) {
        let Some(into) = place.checked_sub(at) else {
            continue;
        };
        let word = usize::try_from(into / 8)
            .ok()
            .and_then(|it| words.get_mut(it));
        if let Some(word) = word.filter(|_| into.is_multiple_of(8)) {
            *word = value;
        }
    }
    Some(words)
}

/// Bytes of the file from an address on, to the end of its section.
pub(super) fn bytes_from<'d, R: ReadRef<'d>>(
    file: &object::File<'d, R>,
    address: u64,
) -> Option<&'d [u8]> {
    let mut sections = file.sections();
    let section = sections.find(|section| {
        (address.checked_sub(section.address())).is_some_and(|into| into < section.size())
    })?;
    let into = usize::try_from(address - section.address()).ok()?;
    section.data().ok()?.get(into..)
}
