//! The table of functions, `.gopclntab` (`runtime/symtab.go`, `cmd/link/internal/ld/pcln.go`). Offsets are 32 bits
//! wide:
//!
//! ```text
//! header        magic  0 0 quantum pointer-size  functions  files  (text)
//!               offsets of: names, units, files, values, functions
//! functions     start in the code, place behind here      for each, and the end of the last one's code
//! function      start  name  ...  count of value tables  ...  count of data  value tables...  data...
//! value table   varints: change of the value, zigzag; length of code that has it, in quanta; up to a change of 0
//! ```
//!
//! One value table says which inlined call an instruction is of. The calls stand in a tree, in `go:func.*`, each with
//! its function's name and an instruction of the caller at the place of the call. Every number may be a lie.

use stacks::SourceLine;

use super::super::Function;

/// Where these versions of Go have what is read here.
const SHAPES: [(u32, Shape); 2] = [
    // 1.18 and 1.19
    (0xffff_fff0, Shape { trees_word: 38, function: 40, call: 20, call_name: 12, call_site: 16 }),
    // 1.20 and later
    (0xffff_fff1, Shape { trees_word: 40, function: 44, call: 16, call_name: 4, call_site: 8 }),
];

/// Of a header: how many functions there are, and the offsets of parts.
const COUNT: usize = 8;
const NAMES: usize = 32;
const UNITS: usize = 40;
const FILES: usize = 48;
const VALUES: usize = 56;
const FUNCTIONS: usize = 64;
/// Of a function.
const NAME: usize = 4;
const STACK_OF_CODE: usize = 16;
const FILE_OF_CODE: usize = 20;
const LINE_OF_CODE: usize = 24;
const VALUE_TABLES: usize = 28;
const UNIT: usize = 32;
/// A function's flags, so far before its value tables, and that of those that set the stack pointer by themselves.
const FLAGS_BEFORE: usize = 3;
const SETS_STACK: u8 = 2;
/// Which of a function's value tables tells the inlined call, and which of its data is the tree.
const CALL_OF_CODE: usize = 2;
const TREE: usize = 3;
/// No data of this kind.
const NONE: u32 = u32::MAX;

/// Calls within calls that are followed at most.
const MOST_INLINED: usize = 64;
/// Entries of a value table that are read at most.
const MOST_VALUES: usize = 1 << 16;
const LONGEST_NAME: usize = 4096;

/// Where the parts of tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Which word of the `moduledata` is the address of trees.
    trees_word: usize,
    /// Bytes of a function before its value tables; the last is the count of data.
    function: usize,
    /// Bytes of a call in a tree, and where it has its function's name, and its place in the caller.
    call: usize,
    call_name: usize,
    call_site: usize,
}

/// A table whose header is good.
#[derive(Debug)]
pub(super) struct Pclntab {
    shape: Shape,
    bytes: Box<[u8]>,
    pub(super) names: usize,
    units: usize,
    files: usize,
    values: usize,
    functions: usize,
    count: usize,
    quantum: u64,
    /// Bytes from `go:func.*` on, without which inlined calls are not known.
    pub(super) trees: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
struct CodePlace {
    at: usize,
    start: u32,
}

impl Pclntab {
    /// A table of a program for a machine with addresses of 64 bits, lowest byte first, linked by Go 1.18 or later.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let magic = u32_at(bytes, 0)?;
        let (_, shape) = SHAPES.into_iter().find(|(known, _)| *known == magic)?;
        let [0, 0, quantum, 8] = *bytes.get(4..8)?.first_chunk()? else { return None };
        Some(Self {
            shape,
            names: place_at(bytes, NAMES)?,
            units: place_at(bytes, UNITS)?,
            files: place_at(bytes, FILES)?,
            values: place_at(bytes, VALUES)?,
            functions: place_at(bytes, FUNCTIONS)?,
            count: place_at(bytes, COUNT)?,
            quantum: quantum.into(),
            bytes: bytes.into(),
            trees: Box::default(),
        })
    }

    pub(super) const fn trees_word(&self) -> usize {
        self.shape.trees_word
    }

    /// The function at an offset into the code behind those inlined there, innermost first, each with its line.
    pub(super) fn functions(&self, offset: u32) -> Vec<Function<'static>> {
        let mut found = Vec::new();
        let Some(place) = self.function_at(offset) else { return found };
        let mut into = offset - place.start;
        let mut add = |name: String, into| {
            found.push(Function { name: name.into(), line: self.line(place, into) });
            found.len()
        };
        for _ in 0..MOST_INLINED {
            let Some((name, site)) = self.call_at(place, into) else { break };
            add(name, into);
            into = site;
        }
        if let Some(name) = self.name(u32_at(&self.bytes, place.at.saturating_add(NAME))) {
            add(name, into);
        }
        found
    }

    /// How far the stack has grown at an offset into the code since its function was called.
    pub(super) fn stack_size(&self, offset: u32) -> Option<u64> {
        let place = self.function_at(offset)?;
        let flags = place.at.checked_add(self.shape.function - FLAGS_BEFORE)?;
        if self.bytes.get(flags)? & SETS_STACK != 0 {
            return None;
        }
        let table = u32_at(&self.bytes, place.at.checked_add(STACK_OF_CODE)?)?;
        u64::try_from(self.value(table, offset - place.start)?).ok()
    }

    /// The line of the instruction `into` a function, whose innermost call it is of.
    fn line(&self, function: CodePlace, into: u32) -> Option<SourceLine> {
        let word = |at: usize| u32_at(&self.bytes, function.at.checked_add(at)?);
        let number = u32::try_from(self.value(word(LINE_OF_CODE)?, into)?).ok().filter(|number| *number > 0)?;
        let file = u32::try_from(self.value(word(FILE_OF_CODE)?, into)?).ok()?;
        let entry = (file as usize).checked_add(word(UNIT)? as usize)?.checked_mul(4)?.checked_add(self.units)?;
        let file = u32_at(&self.bytes, entry).filter(|file| *file != NONE)?;
        let file = self.text(self.files.checked_add(file as usize)?)?;
        Some(SourceLine { file, number })
    }

    fn function_at(&self, offset: u32) -> Option<CodePlace> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.entry(middle)?.0 <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (start, place) = self.entry(low.checked_sub(1)?)?;
        let (end, _) = self.entry_start(low)?;
        let at = self.functions.checked_add(place as usize)?;
        (start <= offset && offset < end).then_some(CodePlace { at, start })
    }

    fn entry(&self, n: usize) -> Option<(u32, u32)> {
        let (start, at) = self.entry_start(n)?;
        Some((start, u32_at(&self.bytes, at.checked_add(4)?)?))
    }

    /// Start of function `n`, or the end of the last one's code, and where that stands.
    fn entry_start(&self, n: usize) -> Option<(u32, usize)> {
        let at = self.functions.checked_add(n.checked_mul(8)?)?;
        Some((u32_at(&self.bytes, at)?, at))
    }

    /// The inlined call that an instruction of a function is of: its name, and where in the function the caller is.
    fn call_at(&self, function: CodePlace, into: u32) -> Option<(String, u32)> {
        let tables = u32_at(&self.bytes, function.at.checked_add(VALUE_TABLES)?)? as usize;
        let fixed_end = function.at.checked_add(self.shape.function)?;
        let data = usize::from(*self.bytes.get(fixed_end - 1)?);
        if tables <= CALL_OF_CODE || data <= TREE {
            return None;
        }
        let table = u32_at(&self.bytes, fixed_end.checked_add(CALL_OF_CODE * 4)?)?;
        let tree_at = fixed_end.checked_add(tables.checked_mul(4)?)?;
        let tree = u32_at(&self.bytes, tree_at.checked_add(TREE * 4)?)?;
        if table == 0 || tree == NONE {
            return None;
        }
        let call = usize::try_from(self.value(table, into)?).ok()?;
        let call = call.checked_mul(self.shape.call)?.checked_add(tree as usize)?;
        let name = u32_at(&self.trees, call.checked_add(self.shape.call_name)?);
        let site = u32_at(&self.trees, call.checked_add(self.shape.call_site)?)?;
        Some((self.name(name)?, site))
    }

    /// Value of a table at the instruction `into` its function.
    fn value(&self, table: u32, into: u32) -> Option<i32> {
        let start = self.values.checked_add(table as usize)?;
        let mut bytes = self.bytes.get(start..)?;
        let (mut value, mut end) = (-1i32, 0u64);
        for n in 0..MOST_VALUES {
            let change = varint(&mut bytes)?;
            if change == 0 && n > 0 {
                return None;
            }
            let half = (change >> 1).cast_signed();
            value = value.wrapping_add(if change & 1 == 0 { half } else { !half });
            end = end.saturating_add(u64::from(varint(&mut bytes)?) * self.quantum);
            if u64::from(into) < end {
                return Some(value);
            }
        }
        None
    }

    fn name(&self, offset: Option<u32>) -> Option<String> {
        self.text(self.names.checked_add(offset? as usize)?)
    }

    /// Text of the table from a place up to a zero.
    fn text(&self, start: usize) -> Option<String> {
        let bytes = self.bytes.get(start..)?;
        let name = bytes.get(..LONGEST_NAME.min(bytes.len()))?.split(|byte| *byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A number of 64 bits that counts something in memory.
fn place_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// A number in groups of 7 bits, lowest first; the highest bit of a byte says that more follow.
fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
