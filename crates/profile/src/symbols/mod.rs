//! From addresses to frames. Own look-up over the `object` crate rather than `blazesym`: a profile needs the function
//! that covers an address, once per distinct address, from tables that stay in memory after the process has gone. Only
//! Go's table (`go`) also has lines and inlined calls; `blazesym`'s DWARF reader for other machine code is not needed.

mod elf;
mod files;
mod go;
mod jit;
mod kernel;
mod space;
mod table;

use std::borrow::Cow;

use linux::maps::Mapping;
use linux::{Status, maps};
use measure::Time;
use stacks::{Frame, FrameKind, SourceLine};

pub(crate) use self::elf::{build_id, defined, exported};
pub(crate) use self::files::{CodeSegments, files_of, open as open_file, vdso_image};
pub use self::go::go_functions;
pub(crate) use self::go::{GoCode, is_go};
pub use self::jit::has_erlang_names;
pub(crate) use self::space::{AddressSpace, CodeSource, MOST_FILES, Resolved, compiled_by};

use self::jit::JitMap;
use self::kernel::KernelSymbols;
use self::space::Modules;

/// A function at an address of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function<'s> {
    name: Cow<'s, str>,
    /// The line of the instruction there, where it is known.
    line: Option<SourceLine>,
}

/// Names the addresses of one process and of the kernel. Loads the tables of everything that is mapped when it is made,
/// so that nothing is read while samples come in, and what is mapped later when it is told.
#[derive(Debug)]
pub(crate) struct Symbols {
    pid: u32,
    pub(crate) kernel: KernelSymbols,
    pub(crate) modules: Modules,
    pub(crate) space: AddressSpace,
}

impl Symbols {
    /// For a process; the kernel's symbols are read where they are wanted.
    pub(crate) fn new(pid: u32, status: &Status, kernel: bool) -> Self {
        let mut symbols = Self {
            pid,
            kernel: if kernel { KernelSymbols::load() } else { KernelSymbols::default() },
            modules: Modules::of_running(pid),
            space: AddressSpace::new(JitMap::new(pid, status)),
        };
        symbols.refresh_mappings();
        symbols.space.jit.refresh();
        symbols
    }

    /// Whether the process runs code of a JIT without telling names.
    pub(crate) fn runtime_without_jit_map(&self) -> Option<FrameKind> {
        let space = &self.space;
        let silent = space.jit_kind != FrameKind::Native && !space.jit.is_present();
        silent.then_some(space.jit_kind)
    }

    /// Reads the process's mappings again; says whether they have changed. Keeps what is known where it has ended.
    pub(crate) fn refresh_mappings(&mut self) -> bool {
        let maps = maps::maps(self.pid);
        maps.is_some_and(|maps| self.space.set_mappings(maps, self.pid, &mut self.modules))
    }

    /// Reads the JIT map once more, however soon after the last time; says whether answers may have changed.
    pub(crate) fn reread_jit(&mut self) -> bool {
        self.space.jit.expect_change();
        self.space.jit.refresh()
    }

    /// The frames of an address of the process at the instant `at`, `caller` where it is a return
    /// address: the instruction after a call, which at the end of a function belongs to the next.
    pub(crate) fn user_frames(&self, ip: u64, caller: bool, at: Time) -> Resolved {
        self.space.frames(&self.modules, ip, caller, at)
    }
}

pub(crate) fn remedy_without_jit_map(runtime: FrameKind) -> &'static str {
    match runtime {
        FrameKind::Erlang => {
            "Erlang functions have no names, because the node writes no JIT map, and none were found in its memory \
             (OTP 25 and later keep them there): run as root, or start it with `+JPperf true` \
             (RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS)"
        }
        FrameKind::Java => {
            "Java methods have no names, because the JVM wrote no JIT map: start it with \
             -XX:+PreserveFramePointer, and let its JIT write /tmp/perf-PID.map"
        }
        _ => "compiled code has no names, because its compiler writes no /tmp/perf-PID.map",
    }
}

/// Symbols of the kernel and of files for recorded processes, perhaps ended: from files, and compilers' maps in `/tmp`.
#[derive(Debug, Default)]
pub(crate) struct RecordedSymbols {
    /// Loaded when the first of its functions is asked for.
    kernel: Option<KernelSymbols>,
    modules: Modules,
}

impl RecordedSymbols {
    /// Whether the kernel's functions have names; `None` where none was asked for.
    pub(crate) fn knows_kernel(&self) -> Option<bool> {
        self.kernel.as_ref().map(|kernel| !kernel.is_empty())
    }

    /// The frame of a kernel's address, named where `text`, its first function's address then, says it is this kernel.
    pub(crate) fn kernel_frame(&mut self, address: u64, text: Option<u64>) -> Frame {
        let load = || {
            let kernel = KernelSymbols::load();
            let is_same = text.is_some_and(|start| kernel.begins_at(start));
            if is_same { kernel } else { KernelSymbols::default() }
        };
        self.kernel.get_or_insert_with(load).frame(address)
    }

    /// The frames of an address in this mapping, `caller` where it is a return address. A new mapping's file is read.
    pub(crate) fn user_frames(
        &mut self,
        process: &AddressSpace,
        mapping: Option<&Mapping>,
        ip: u64,
        caller: bool,
    ) -> Vec<Frame> {
        // Their paths are ours.
        let found = mapping.map(|mapping| (mapping, self.modules.of(mapping, std::process::id())));
        process.frames_in(&self.modules, found, ip, caller, Time(u64::MAX)).frames
    }
}

#[cfg(test)]
mod tests {
    use stacks::Frame;

    use super::elf::ElfSymbols;
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
        let frame = &symbols.user_frames(findme as *const () as u64, false, Time(0)).frames[0];
        assert!(frame.name.ends_with("tests::findme"), "{frame:?}");
        assert_eq!(frame.kind, FrameKind::Native);
        let frames = &symbols.user_frames(libc::getenv as *const () as u64, false, Time(0)).frames;
        if frames[0].module.starts_with("libc.so") {
            let found = (frames.len(), frames[0].name.as_str(), frames[0].kind);
            assert_eq!(found, (1, "getenv", FrameKind::Libc));
        }
        assert_eq!(symbols.user_frames(1, false, Time(0)).frames, [Frame::unknown("")]);
        assert_eq!(symbols.kernel.frame(1), Frame::unknown("[kernel]"));
    }

    #[test]
    fn the_kernels_user_space_code_has_names() {
        let symbols = ElfSymbols::of_image(&vdso_image().expect("an image")).expect("a vdso");
        assert!(symbols.functions(u64::MAX).is_empty());
        let known = (0..0x4000).step_by(16).flat_map(|offset| symbols.functions(offset));
        assert!(known.into_iter().any(|it| it.name.contains("clock_gettime")));
    }
}
