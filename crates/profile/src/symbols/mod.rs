//! From addresses to frames.
//!
//! Own look-up over the `object` crate rather than `blazesym`: a profile needs the function that
//! covers an address, once per distinct address, from tables that stay in memory after the process
//! has gone. That is a sorted table of what `.symtab`, `.dynsym`, `/proc/kallsyms` and the JIT map
//! say; line numbers and inlined calls, for which `blazesym` brings a DWARF reader, are not asked.

mod elf;
mod function_starts;
mod jit;
mod kernel;
mod name;
mod table;

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use archive::profile::{Frame, FrameKind};
use linux::Status;
use linux::maps::{self, Mapping};
use measure::Time;

pub(crate) use self::elf::open as open_file;

use self::elf::ElfSymbols;
use self::jit::JitMap;
use self::kernel::KernelSymbols;

/// Names the addresses of one process and of the kernel. Loads the tables of everything that is
/// mapped when it is made, so that nothing is read while samples come in, and what is mapped later
/// when it is told.
#[derive(Debug)]
pub(crate) struct Symbols {
    pid: u32,
    kernel: KernelSymbols,
    jit: JitMap,
    /// What a JIT map's functions are written in.
    jit_kind: FrameKind,
    /// Executable mappings by address, each with its module where it has one.
    mappings: Vec<(Mapping, Option<usize>)>,
    modules: Vec<Module>,
    /// By path and inode.
    loaded: HashMap<(String, u64), usize>,
}

#[derive(Debug)]
struct Module {
    name: String,
    kind: FrameKind,
    symbols: ElfSymbols,
}

/// A frame, and where its address lies.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) frame: Frame,
    pub(crate) place: Place,
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the code of a file.
    File,
    /// In memory that a compiler fills: the answer holds until the JIT map grows.
    Jit,
    /// In no memory that can be executed.
    Nowhere,
}

impl Symbols {
    /// For a process; the kernel's symbols are read where they are wanted.
    pub(crate) fn new(pid: u32, status: &Status, kernel: bool) -> Self {
        let mut symbols = Self {
            pid,
            kernel: if kernel {
                KernelSymbols::load()
            } else {
                KernelSymbols::default()
            },
            jit: JitMap::new(pid, status),
            jit_kind: FrameKind::Native,
            mappings: Vec::new(),
            modules: Vec::new(),
            loaded: HashMap::new(),
        };
        symbols.refresh_mappings();
        symbols.jit.refresh();
        symbols
    }

    /// Whether the kernel hides the addresses of its functions.
    pub(crate) fn kernel_is_hidden(&self) -> bool {
        self.kernel.is_empty()
    }

    /// Whether the process runs code of a JIT without telling names.
    pub(crate) fn runtime_without_jit_map(&self) -> Option<FrameKind> {
        let silent = self.jit_kind != FrameKind::Native && !self.jit.is_present();
        silent.then_some(self.jit_kind)
    }

    /// Reads the process's mappings again; says whether they have changed. Keeps what is known
    /// where it has ended.
    pub(crate) fn refresh_mappings(&mut self) -> bool {
        let Some(maps) = maps::maps(self.pid) else {
            return false;
        };
        if self.mappings.iter().map(|(mapping, _)| mapping).eq(&maps) {
            return false;
        }
        self.mappings = maps
            .into_iter()
            .map(|mapping| {
                let module = self.module_of(&mapping);
                (mapping, module)
            })
            .collect();
        let has = |name: &str| self.modules.iter().any(|m| m.name.starts_with(name));
        self.jit_kind = if has("beam.") {
            FrameKind::Erlang
        } else if has("libjvm.so") {
            FrameKind::Java
        } else {
            FrameKind::Native
        };
        true
    }

    /// Reads what has changed in the JIT map; says whether answers from it may have changed.
    pub(crate) fn refresh_jit(&mut self) -> bool {
        self.jit.refresh()
    }

    /// All samples from before the last look at the JIT map are through.
    pub(crate) fn settle_jit(&mut self) {
        self.jit.settle();
    }

    /// Whether answers from the JIT map for the instant `at` may differ from later ones.
    pub(crate) fn is_before_jit_change(&self, at: Time) -> bool {
        self.jit.is_before_change(at)
    }

    /// Why the process's JIT map was not believed, or not all of it was read.
    pub(crate) fn refused_jit_map(&self) -> Option<&str> {
        const FULL: &str =
            "the JIT map is too long to be kept: code that it names last has no name";
        let full = self.jit.is_full().then_some(FULL);
        self.jit.refused().or(full)
    }

    /// The frame of an address of the kernel.
    pub(crate) fn kernel_frame(&self, address: u64) -> Frame {
        match self.kernel.find(address) {
            Some((name, module)) => Frame::new(name, module, FrameKind::Kernel),
            None => Frame::unknown("[kernel]"),
        }
    }

    /// The frame of an address of the process at the instant `at`, `caller` where it is a return
    /// address: the instruction after a call, which at the end of a function belongs to the next.
    pub(crate) fn user_frame(&self, ip: u64, caller: bool, at: Time) -> Resolved {
        let address = ip.saturating_sub(caller.into());
        let found = self.mapping_at(address);
        if let Some((mapping, Some(module))) = found
            && let Some(module) = self.modules.get(*module)
        {
            let offset = (address - mapping.start).wrapping_add(mapping.offset);
            let frame = match module.symbols.find(offset) {
                Some(symbol) => Frame::new(name::demangle(symbol), &module.name, module.kind),
                None => Frame::unknown(&module.name),
            };
            return Resolved {
                frame,
                place: Place::File,
            };
        }
        // The BEAM's compiler puts the first instruction of a function on the stack where no call
        // returns to (`normal_exit`), so its addresses are taken as they are.
        let (frame, place) = match (self.jit.find(ip, at), found) {
            (Some(name), _) => (Frame::new(name, "[jit]", self.jit_kind), Place::Jit),
            (None, Some(_)) => (Frame::unknown("[jit]"), Place::Jit),
            (None, None) => (Frame::unknown(""), Place::Nowhere),
        };
        Resolved { frame, place }
    }

    fn mapping_at(&self, address: u64) -> Option<&(Mapping, Option<usize>)> {
        let after = self
            .mappings
            .partition_point(|(mapping, _)| mapping.start <= address);
        let found = self.mappings.get(after.checked_sub(1)?)?;
        (address < found.0.end).then_some(found)
    }

    /// The module of a mapping, loaded where it is new. A file that cannot be read is a module
    /// without symbols.
    fn module_of(&mut self, mapping: &Mapping) -> Option<usize> {
        let vdso = mapping.path == "[vdso]";
        if !vdso && !maps::is_file(mapping) {
            return None;
        }
        let key = (mapping.path.clone(), mapping.inode);
        if let Some(&module) = self.loaded.get(&key) {
            return Some(module);
        }
        let symbols = if vdso {
            vdso_symbols()
        } else {
            self.file_symbols(mapping)
        };
        let name = mapping
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let kind = Frame::kind_of_module(&name);
        self.modules.push(Module {
            name,
            kind,
            symbols: symbols.unwrap_or_default(),
        });
        let module = self.modules.len() - 1;
        self.loaded.insert(key, module);
        Some(module)
    }

    fn file_symbols(&self, mapping: &Mapping) -> Option<ElfSymbols> {
        let root = maps::in_root_of(self.pid, "/");
        files_of(self.pid, mapping)
            .iter()
            .find_map(|file| ElfSymbols::load(file, &root, &mapping.path).ok())
    }
}

/// Where a mapped file can be read: through the process's own root directory; a deleted one through
/// the mapping itself.
pub(crate) fn files_of(pid: u32, mapping: &Mapping) -> Vec<PathBuf> {
    let by_name = maps::in_root_of(pid, &mapping.path);
    let (start, end) = (mapping.start, mapping.end);
    let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    if mapping.deleted {
        vec![by_mapping]
    } else {
        vec![by_name, by_mapping]
    }
}

/// The addresses in a process of what a mapped file exports under these names.
pub(crate) fn exported(
    pid: u32,
    mapping: &Mapping,
    names: &[&'static str],
) -> Option<Vec<(&'static str, u64)>> {
    let mut files = files_of(pid, mapping).into_iter();
    files.find_map(|file| elf::exported(&file, mapping, names).ok())
}

/// What to say where a runtime's compiler tells no names.
pub(crate) fn remedy_without_jit_map(runtime: FrameKind) -> &'static str {
    match runtime {
        FrameKind::Erlang => {
            "Erlang functions have no names, because the node writes no JIT map: start it with \
             `+JPperf true` (RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS)"
        }
        FrameKind::Java => {
            "Java methods have no names, because the JVM wrote no JIT map: start it with \
             -XX:+PreserveFramePointer and run `jcmd PID Compiler.perfmap`"
        }
        _ => "compiled code has no names, because its compiler writes no /tmp/perf-PID.map",
    }
}

fn vdso_symbols() -> Option<ElfSymbols> {
    ElfSymbols::of_image(&vdso_image()?).ok()
}

/// The kernel maps the same image into every process, so ours serves.
pub(crate) fn vdso_image() -> Option<Vec<u8>> {
    let maps = maps::maps(std::process::id())?;
    let vdso = maps.iter().find(|mapping| mapping.path == "[vdso]")?;
    let len = usize::try_from(vdso.end.checked_sub(vdso.start)?).ok()?;
    let mut memory = fs::File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(vdso.start)).ok()?;
    let mut image = vec![0; len];
    memory.read_exact(&mut image).ok()?;
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn findme(x: u64) -> u64 {
        std::hint::black_box(x).wrapping_mul(3)
    }

    fn own() -> Symbols {
        let pid = std::process::id();
        Symbols::new(pid, &Status::of(pid).unwrap(), true)
    }

    #[test]
    fn functions_of_this_process_have_their_names() {
        let symbols = own();
        let frame = symbols
            .user_frame(findme as *const () as u64, false, Time(0))
            .frame;
        assert!(frame.name.ends_with("tests::findme"), "{frame:?}");
        assert_eq!(frame.kind, FrameKind::Native);
        let frame = symbols
            .user_frame(libc::getenv as *const () as u64, false, Time(0))
            .frame;
        if frame.module.starts_with("libc.so") {
            assert_eq!(
                (frame.name.as_str(), frame.kind),
                ("getenv", FrameKind::Libc)
            );
        }
        assert_eq!(
            symbols.user_frame(1, false, Time(0)).frame,
            Frame::unknown("")
        );
        assert_eq!(symbols.kernel_frame(1), Frame::unknown("[kernel]"));
    }

    #[test]
    fn the_kernels_user_space_code_has_names() {
        let symbols = vdso_symbols().expect("a vdso");
        let known = (0..0x4000)
            .step_by(16)
            .filter_map(|offset| symbols.find(offset));
        assert!(known.into_iter().any(|name| name.contains("clock_gettime")));
    }
}
