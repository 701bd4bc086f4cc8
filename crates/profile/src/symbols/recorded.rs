//! Names for the addresses of processes that somebody has recorded, and that may have ended since: from the files
//! of this machine, and from the maps that compilers have left in `/tmp`.

use linux::maps::Mapping;
use measure::Time;
use stacks::Frame;

use super::kernel::KernelSymbols;
use super::space::{AddressSpace, Modules};

/// Symbols of the kernel and of files, which all recorded processes share.
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

    /// The frame of an address of the kernel. It has a name where `text`, the address of the kernel's first function
    /// when it was recorded, says that the same kernel runs here now.
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
