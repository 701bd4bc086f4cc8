//! Where structures of this kernel have their fields, from the description of its types that it carries (BTF,
//! `Documentation/bpf/btf.rst`).

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::OnceLock;

const FILE: &str = "/sys/kernel/btf/vmlinux";
/// Bytes of it that are read; kernels have some 6 MB.
const LONGEST: u64 = 64 << 20;
const MAGIC: u32 = 0xeb9f;
const STRUCT: u32 = 4;

/// Where the kernel keeps a return address while it has another in its place, so that it hears of a function's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplacedReturns {
    /// In `struct task_struct`: the thread's `struct uprobe_task`.
    pub(crate) utask: i16,
    /// In that: the last `struct return_instance`.
    pub(crate) return_instances: i16,
    /// In that: where on the stack the return address was, and what it was.
    pub(crate) stack: i16,
    pub(crate) orig_ret_vaddr: i16,
    /// And the one before it, of a function that called this one.
    pub(crate) next: i16,
}

impl ReplacedReturns {
    /// Those of this kernel; `None` where it does not describe them.
    pub(crate) fn of_kernel() -> Option<Self> {
        static FOUND: OnceLock<Option<ReplacedReturns>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let mut bytes = Vec::new();
            let file = File::open(FILE).ok()?;
            file.take(LONGEST).read_to_end(&mut bytes).ok()?;
            Self::read(&bytes)
        })
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let fields = fields(
            bytes,
            &[
                ("task_struct", "utask"),
                ("uprobe_task", "return_instances"),
                ("return_instance", "stack"),
                ("return_instance", "orig_ret_vaddr"),
                ("return_instance", "next"),
            ],
        )?;
        let [utask, return_instances, stack, orig_ret_vaddr, next] = fields.try_into().ok()?;
        Some(Self {
            utask,
            return_instances,
            stack,
            orig_ret_vaddr,
            next,
        })
    }
}

/// Where structures have these fields, in bytes; `None` where one is not found.
fn fields(bytes: &[u8], wanted: &[(&str, &str)]) -> Option<Vec<i16>> {
    let word = |at: usize| {
        let word = bytes.get(at..at.checked_add(4)?)?;
        word.try_into().ok().map(u32::from_ne_bytes)
    };
    if word(0)? & 0xffff != MAGIC {
        return None;
    }
    let [header, types, length, names] = [4, 8, 12, 16].map(|at| Some(word(at)? as usize));
    let (types, names) = (header? + types?, header? + names?);
    let is_named = |offset: u32, name: &str| {
        let text = bytes.get(names + offset as usize..);
        text.is_some_and(|text| {
            text.starts_with(name.as_bytes()) && text.get(name.len()) == Some(&0)
        })
    };
    let mut found = HashMap::new();
    let mut at = types;
    while at < types + length? && found.len() < wanted.len() {
        let (name, info) = (word(at)?, word(at + 4)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        at += 12;
        let of_this = wanted.iter().enumerate();
        let of_this = of_this.filter(|(_, (of, _))| kind == STRUCT && is_named(name, of));
        for (number, (_, field)) in of_this {
            let mut members = (0..count).map(|it| at + it * 12);
            let member = members.find(|&it| word(it).is_some_and(|name| is_named(name, field)));
            if let Some(member) = member {
                // With bit fields in the structure the upper 8 bits are a field's length.
                let bits = word(member + 8)?;
                let bits = if info >> 31 == 1 {
                    bits & 0xff_ffff
                } else {
                    bits
                };
                found.insert(number, i16::try_from(bits / 8).ok()?);
            }
        }
        at += size_behind(kind, count)?;
    }
    (0..wanted.len())
        .map(|it| found.get(&it).copied())
        .collect()
}

/// Bytes that follow the first 12 of a type of this kind; `None` for one that is not known.
fn size_behind(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables and tags.
        1 | 14 | 17 => 4,
        // Pointers, forward declarations, other names, qualifiers, functions, floating point numbers.
        2 | 7..=12 | 16 | 18 => 0,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => count * 12,
        // Enumerations, arguments.
        6 | 13 => count * 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of `struct a { int x; long y; }`, behind a pointer and an integer.
    fn described() -> Vec<u8> {
        let names = b"\0a\0x\0y\0";
        let pointer = [0, 2 << 24, 1];
        let integer = [0, 1 << 24, 4, 32];
        let structure = [1, 4 << 24 | 2, 16, 3, 2, 0, 5, 2, 64];
        let types: Vec<u32> = [&pointer[..], &integer, &structure].concat();
        let length = types.len() as u32 * 4;
        let header = [MAGIC | 1 << 16, 24, 0, length, length, names.len() as u32];
        let words = header.into_iter().chain(types);
        words.flat_map(u32::to_ne_bytes).chain(*names).collect()
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let bytes = described();
        let find = |wanted: &[(&str, &str)]| fields(&bytes, wanted);
        assert_eq!(find(&[("a", "y"), ("a", "x")]), Some(vec![8, 0]));
        assert_eq!(find(&[("a", "z")]), None);
        assert_eq!(find(&[("x", "y")]), None);
        for length in 0..bytes.len() {
            let _ = fields(&bytes[..length], &[("a", "y")]);
        }
        // Any damage gives some answer.
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] = 0xff;
            let _ = fields(&bytes, &[("a", "y"), ("a", "none")]);
        }
    }
}
