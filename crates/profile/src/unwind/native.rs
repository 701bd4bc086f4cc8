//! Unwinding of native code from a copy of its stack, by the unwind tables that compilers put into
//! every binary for exceptions (`.eh_frame`), which stripping leaves in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use linux::maps::{self, Mapping};
use object::read::{ReadCache, ReadRef};
use object::{Object as _, ObjectSection as _};

use crate::memory::Mappings;
use crate::stack_copy::StackCopy;
use crate::symbols::{self, CodeSegments};

/// Frames of a stack at most. Deeper ones do not fit into the copy.
const MOST_FRAMES: usize = 512;

/// Where unwinding came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At code that a JIT compiled, with these values of `rsp` and `rbp`.
    Compiled { sp: u64, frame: u64 },
    /// At the thread's first function.
    Root { sp: u64 },
    /// At a function without unwind table, or at the end of the copy.
    Lost,
}

#[derive(Default)]
pub(crate) struct NativeUnwinder {
    pid: u32,
    mappings: Vec<Mapping>,
    unwinder: UnwinderX86_64<Section>,
    cache: CacheX86_64,
    /// By path and inode; nothing for a file that cannot be read.
    tables: HashMap<(Arc<str>, u64), Option<Tables>>,
    /// Mappings of a recorded process that were met, by their starts.
    met: HashSet<u64>,
}

type Section = Arc<[u8]>;

#[derive(Clone)]
struct Tables {
    segments: CodeSegments,
    sections: ExplicitModuleSectionInfo<Section>,
}

impl NativeUnwinder {
    /// Reads the tables of everything that is mapped.
    pub(super) fn new(pid: u32) -> Self {
        let mut native = Self::unmapped(pid);
        native.refresh();
        native
    }

    /// Without mappings yet, whose files process `pid` sees.
    pub(crate) fn unmapped(pid: u32) -> Self {
        Self { pid, ..Self::default() }
    }

    /// Reads the process's mappings again: it may have new ones. Keeps what is known where it has ended.
    pub(super) fn refresh(&mut self) {
        if let Some(maps) = maps::maps(self.pid) {
            self.set_mappings(maps);
        }
    }

    fn set_mappings(&mut self, maps: Vec<Mapping>) {
        if maps == self.mappings {
            return;
        }
        self.unwinder = UnwinderX86_64::new();
        maps.iter().filter(|it| has_tables(it)).for_each(|it| self.add(it));
        self.mappings = maps;
    }

    fn add(&mut self, mapping: &Mapping) {
        let key = (mapping.path.clone(), mapping.inode);
        let pid = self.pid;
        let has_room = self.tables.len() < symbols::MOST_FILES;
        let tables = self.tables.entry(key);
        let tables = tables.or_insert_with(|| has_room.then(|| load(pid, mapping)).flatten());
        let Some(tables) = tables else { return };
        let Some(bias) = tables.segments.bias(mapping) else { return };
        self.unwinder.add_module(Module::new(
            mapping.path.to_string(),
            mapping.start..mapping.end,
            bias,
            tables.sections.clone(),
        ));
    }

    pub(crate) fn is_compiled(&self, address: u64) -> bool {
        self.mapping_at(address).is_some_and(is_filled)
    }

    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.mapping_at(address).is_some_and(|it| has_tables(it) || is_filled(it))
    }

    fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|it| it.start <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|it| address < it.end)
    }

    /// Forgets the mappings of a recorded process: another one's follow, or it has others now.
    pub(crate) fn forget_recorded(&mut self) {
        self.unwinder = UnwinderX86_64::new();
        self.cache = CacheX86_64::new();
        self.met = HashSet::new();
    }

    /// Takes what the file at an address of a recorded process says of unwinding, where it was not met yet.
    fn meet(&mut self, mappings: &Mappings, address: u64) {
        let mapping = mappings.at(address).filter(|it| has_tables(it));
        if let Some(mapping) = mapping.filter(|it| self.met.insert(it.start)) {
            self.add(mapping);
        }
    }

    /// Takes the addresses of native code from the leaf up, and of the compiled code that called it. The mappings of a
    /// recorded process are looked at where the stack leads through them.
    pub(crate) fn unwind(
        &mut self,
        copy: &StackCopy<'_>,
        recorded: Option<&Mappings>,
        take: &mut dyn FnMut(u64),
    ) -> End {
        let registers = UnwindRegsX86_64::new(copy.ip, copy.sp, copy.bp);
        take(copy.ip);
        self.go_on(copy, FrameAddress::from_instruction_pointer(copy.ip), registers, recorded, take)
    }

    /// Unwinds from a return address on, which is taken too, with the values of `rsp` and `rbp` behind the return.
    pub(crate) fn resume(
        &mut self,
        copy: &StackCopy<'_>,
        caller: u64,
        sp: u64,
        bp: u64,
        take: &mut dyn FnMut(u64),
    ) -> End {
        let Some(address) = FrameAddress::from_return_address(caller) else {
            return End::Root { sp };
        };
        take(caller);
        self.go_on(copy, address, UnwindRegsX86_64::new(caller, sp, bp), None, take)
    }

    fn go_on(
        &mut self,
        copy: &StackCopy<'_>,
        mut address: FrameAddress,
        mut registers: UnwindRegsX86_64,
        recorded: Option<&Mappings>,
        take: &mut dyn FnMut(u64),
    ) -> End {
        let mut read = |at: u64| copy.native.word(at).ok_or(());
        for _ in 0..MOST_FRAMES {
            if let Some(mappings) = recorded {
                self.meet(mappings, address.address_for_lookup());
            }
            let caller = self.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            let sp = registers.sp();
            let caller = match caller {
                Ok(Some(caller)) => caller,
                Ok(None) => return End::Root { sp },
                Err(_) => return End::Lost,
            };
            let is_compiled = match recorded {
                Some(mappings) => mappings.at(caller).is_some_and(is_filled),
                None => self.is_compiled(caller),
            };
            if is_compiled {
                take(caller);
                return End::Compiled { sp, frame: registers.bp() };
            }
            let Some(next) = FrameAddress::from_return_address(caller) else {
                return End::Root { sp };
            };
            take(caller);
            address = next;
        }
        End::Lost
    }
}

/// Whether a mapping is of a file that can have unwind tables.
fn has_tables(mapping: &Mapping) -> bool {
    maps::is_file(mapping) || &*mapping.path == "[vdso]"
}

/// Whether a mapping is memory that a compiler may fill.
fn is_filled(mapping: &Mapping) -> bool {
    !has_tables(mapping) && !mapping.path.starts_with('[')
}

fn load(pid: u32, mapping: &Mapping) -> Option<Tables> {
    if &*mapping.path == "[vdso]" {
        return tables(symbols::vdso_image()?.as_slice());
    }
    symbols::files_of(pid, mapping).iter().find_map(|file| {
        let cache = ReadCache::new(symbols::open_file(file).ok()?);
        tables(&cache)
    })
}

fn tables<'d, R: ReadRef<'d>>(data: R) -> Option<Tables> {
    let file = object::File::parse(data).ok()?;
    let range = |name| {
        let section = file.section_by_name(name)?;
        let start = section.address();
        Some(start..start.checked_add(section.size())?)
    };
    let bytes = |name| file.section_by_name(name)?.uncompressed_data().ok().map(Section::from);
    Some(Tables {
        segments: CodeSegments::of(&file),
        sections: ExplicitModuleSectionInfo {
            text_svma: range(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: bytes(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: bytes(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        },
    })
}
