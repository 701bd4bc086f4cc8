//! Records that the emulator keeps for debuggers of each compiled module, from OTP 25 on
//! (`erts/emulator/beam/jit/beam_jit_metadata.cpp`), in the machine's byte order:
//!
//! ```text
//! module    kind u32 = 1, 4 bytes, address u64, functions u32, length u32, name, 6 bytes
//! function  start u32, end u32, lines u32, name, 2 bytes             both from the module's address on
//! line      start u32, number u32, name of the file, 2 bytes
//! name      length u16, so many bytes, the last of which is 0
//! ```
//!
//! Each function is followed by its lines. Shared pieces of code are functions of a module `global`; the other kind
//! says how the emulator itself was started:
//!
//! ```text
//! emulator  kind u32 = 0, 4 bytes, frames u32 (1: chained), 4 bytes, what processes return to u64, 8 bytes
//! ```

use std::ops::Range;

use crate::record::Fields;

const EMULATOR: u32 = 0;
const MODULE: u32 = 1;

/// Bytes of a record in front of a module's name.
pub(super) const HEAD: usize = 24;
/// Bytes of a head with its unused part, which is all that a record of the emulator has.
const WHOLE_HEAD: usize = 32;
/// Unused bytes at the end of the emulator's structures.
const AFTER_MODULE: usize = 6;
const AFTER_OTHERS: usize = 2;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CompiledModule<'a> {
    pub(crate) code: Range<u64>,
    /// In the order of the record, which is that of addresses.
    pub(crate) functions: Vec<CompiledFunction<'a>>,
}

/// A function of a module, as `module:function/arity`, or the code that stands in front of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompiledFunction<'a> {
    pub(crate) code: Range<u64>,
    pub(crate) name: &'a [u8],
    /// In the order of the record.
    pub(crate) lines: Vec<CompiledLine<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompiledLine<'a> {
    pub(crate) start: u64,
    pub(crate) number: u32,
    pub(crate) file: &'a [u8],
}

impl<'a> CompiledModule<'a> {
    /// Reads a record; `None` where anything in it is wrong, up to its length. The emulator's is a module without code.
    pub(super) fn parse(record: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(record);
        let kind = fields.u32()?;
        if kind == EMULATOR {
            return Some(Self::default());
        }
        fields.take(4)?;
        let address = fields.u64()?;
        let count = fields.u32()?;
        let end = address.checked_add(fields.u32()?.into())?;
        let code = address..end;
        name(&mut fields, AFTER_MODULE)?;
        let mut functions = Vec::new();
        for _ in 0..count {
            functions.push(function(&mut fields, &code)?);
        }
        let is_module = kind == MODULE && fields.0.is_empty();
        is_module.then_some(Self { code, functions })
    }
}

fn function<'a>(fields: &mut Fields<'a>, module: &Range<u64>) -> Option<CompiledFunction<'a>> {
    let address = |fields: &mut Fields<'_>| {
        let address = module.start.checked_add(fields.u32()?.into())?;
        (address <= module.end).then_some(address)
    };
    let code = address(fields)?..address(fields)?;
    let count = fields.u32()?;
    let name_of_it = name(fields, AFTER_OTHERS)?;
    let mut lines = Vec::new();
    for _ in 0..count {
        lines.push(CompiledLine {
            start: module.start.checked_add(fields.u32()?.into())?,
            number: fields.u32()?,
            file: name(fields, AFTER_OTHERS)?,
        });
    }
    (code.start <= code.end).then_some(CompiledFunction { code, name: name_of_it, lines })
}

/// A name, without what follows it.
fn name<'a>(fields: &mut Fields<'a>, unused: usize) -> Option<&'a [u8]> {
    let len = fields.take(2)?.try_into().ok().map(u16::from_ne_bytes)?;
    let (&last, name) = fields.take(len.into())?.split_last()?;
    fields.take(unused)?;
    (last == 0).then_some(name)
}

/// Return address of processes' last function, and whether Erlang frames are chained, from the record
/// that says how the emulator was started; `None` for other records.
pub(super) fn of_emulator(record: &[u8]) -> Option<(u64, bool)> {
    let mut fields = Fields(record);
    let is_emulator = fields.u32()? == EMULATOR && record.len() == WHOLE_HEAD;
    fields.take(4)?;
    let frames = fields.u32()?;
    fields.take(4)?;
    let exit = fields.u64()?;
    (is_emulator && frames <= 1).then_some((exit, frames == 1))
}

/// The names of the functions in a record of the emulator's, for the fuzz target.
pub fn beam_functions(record: &[u8]) -> Vec<String> {
    let module = CompiledModule::parse(record).unwrap_or_default();
    module.functions.iter().map(|it| String::from_utf8_lossy(it.name).into_owned()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A function as the emulator writes it.
    pub(in crate::beam) struct Written<'a> {
        pub(in crate::beam) start: u32,
        pub(in crate::beam) end: u32,
        pub(in crate::beam) name: &'a str,
        pub(in crate::beam) lines: u32,
    }

    fn write_name(name: &str, unused: usize, to: &mut Vec<u8>) {
        let len = u16::try_from(name.len() + 1).unwrap();
        to.extend(len.to_ne_bytes());
        to.extend(name.bytes());
        // Whatever was in the memory before.
        to.extend(std::iter::once(0).chain((0..unused).map(|n| n as u8 + 7)));
    }

    pub(in crate::beam) fn record(address: u64, length: u32, functions: &[Written<'_>]) -> Vec<u8> {
        let mut record = [1u32.to_ne_bytes(), [9; 4]].concat();
        record.extend(address.to_ne_bytes());
        record.extend(u32::try_from(functions.len()).unwrap().to_ne_bytes());
        record.extend(length.to_ne_bytes());
        write_name("m", AFTER_MODULE, &mut record);
        for it in functions {
            let numbers = [it.start, it.end, it.lines];
            record.extend(numbers.iter().flat_map(|it| it.to_ne_bytes()));
            write_name(it.name, AFTER_OTHERS, &mut record);
            for line in 0..it.lines {
                record.extend([it.start, line].iter().flat_map(|it| it.to_ne_bytes()));
                write_name("m.erl", AFTER_OTHERS, &mut record);
            }
        }
        record
    }

    pub(in crate::beam) const TWO: [Written<'static>; 2] = [
        Written { start: 0, end: 0x40, name: "m:f/1", lines: 2 },
        Written { start: 0x40, end: 0x90, name: "m:é/0", lines: 0 },
    ];

    #[test]
    fn functions_have_their_addresses_and_names() {
        let record = record(0x7f00_0000, 0x90, &TWO);
        let module = CompiledModule::parse(&record).unwrap();
        assert_eq!(module.code, 0x7f00_0000..0x7f00_0090);
        let functions: Vec<_> = module.functions.iter().map(|it| (it.code.clone(), it.name)).collect();
        assert_eq!(
            functions,
            [(0x7f00_0000..0x7f00_0040, "m:f/1".as_bytes()), (0x7f00_0040..0x7f00_0090, "m:é/0".as_bytes()),]
        );
        assert_eq!(beam_functions(&record), ["m:f/1", "m:é/0"]);
        // What is said of the emulator has no code.
        assert_eq!(CompiledModule::parse(&[0; 32]), Some(CompiledModule::default()));
    }

    #[test]
    fn records_that_are_none_are_refused_and_any_byte_may_be_wrong() {
        let whole = record(0x7f00_0000, 0x90, &TWO);
        for len in 0..whole.len() {
            assert_eq!(CompiledModule::parse(&whole[..len]), None, "{len} bytes");
        }
        let mut long = whole.clone();
        long.push(0);
        assert_eq!(CompiledModule::parse(&long), None);
        let wrong = |address, length, start, end| {
            let name = "m:f/1";
            let function = Written { start, end, name, lines: 0 };
            CompiledModule::parse(&record(address, length, &[function])).is_none()
        };
        assert!(!wrong(0x1000, 0x90, 0, 0x90));
        assert!(wrong(0x1000, 0x90, 0, 0x91), "behind the module");
        assert!(wrong(0x1000, 0x90, 0x20, 0x10), "ends before it begins");
        assert!(wrong(u64::MAX - 8, 0x90, 0, 1), "no such addresses");
        assert_eq!(CompiledModule::parse(&[2; 64]), None, "another kind");
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut record = whole.clone();
                record[at] = byte;
                let module = CompiledModule::parse(&record).unwrap_or_default();
                let inside = |it: &CompiledFunction<'_>| {
                    module.code.start <= it.code.start && it.code.start <= it.code.end && it.code.end <= module.code.end
                };
                assert!(module.functions.iter().all(inside), "{byte:x} at {at}");
            }
        }
    }
}
