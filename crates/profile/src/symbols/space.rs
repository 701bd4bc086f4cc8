//! The mapped files of a process, and from its addresses to frames.

use std::collections::HashMap;
use std::sync::Arc;

use linux::maps::{self, Mapping};
use measure::Time;
use stacks::{Builds, Frame, FrameKind};

use super::elf::{ElfSymbols, Loaded};
use super::jit::JitMap;
use super::{Function, files, table};
use crate::memory::ProcessMemory;

/// Files of which the symbols and the unwind tables are read; a process can map any number.
pub(crate) const MOST_FILES: usize = 1024;

/// The frames of an address, and where it lies.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// One at least; behind those of functions that were inlined there, innermost first.
    pub(crate) frames: Vec<Frame>,
    pub(crate) place: CodeSource,
}

impl Resolved {
    /// Whether a compiler made what is there, and has not told its name.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.place == CodeSource::Jit && self.frames.iter().any(Frame::is_unknown)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeSource {
    File,
    /// In memory that a compiler fills: the answer holds until the JIT map grows.
    Jit,
    /// In no memory that can be executed.
    Nowhere,
}

/// Symbols of files, each loaded once.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    all: Vec<Module>,
    /// By path and inode.
    loaded: HashMap<(Arc<str>, u64), usize>,
    /// Of the process that has them loaded, where it runs and may be looked into.
    memory: Option<ProcessMemory>,
}

#[derive(Debug)]
struct Module {
    name: String,
    kind: FrameKind,
    symbols: ElfSymbols,
}

impl Modules {
    pub(super) fn of_running(pid: u32) -> Self {
        Self { memory: ProcessMemory::open(pid).ok(), ..Self::default() }
    }

    /// Files of which nothing was read, because there are so many.
    pub(crate) const fn left_out(&self) -> usize {
        self.all.len().saturating_sub(MOST_FILES)
    }

    pub(crate) fn builds(&self) -> Builds {
        let mut builds = Builds::default();
        let known = self.all.iter().filter(|it| !it.symbols.build.is_empty());
        known.for_each(|it| builds.add(&it.name, &it.symbols.build));
        builds
    }

    /// The module of a mapping, loaded where it is new; without symbols where it cannot be read, or is one of too many.
    pub(super) fn of(&mut self, mapping: &Mapping, pid: u32) -> Option<usize> {
        let vdso = &*mapping.path == "[vdso]";
        if !vdso && !maps::is_file(mapping) {
            return None;
        }
        let key = (mapping.path.clone(), mapping.inode);
        if let Some(&module) = self.loaded.get(&key) {
            return Some(module);
        }
        let symbols = if self.all.len() >= MOST_FILES {
            None
        } else if vdso {
            files::vdso_image().and_then(|image| ElfSymbols::of_image(&image).ok())
        } else {
            let root = maps::in_root_of(pid, "/");
            let files = files::files_of(pid, mapping);
            let loaded = (self.memory.as_ref()).map(|memory| Loaded { mapping, memory });
            files.iter().map(|file| ElfSymbols::load(file, &root, &mapping.path, loaded)).find_map(Result::ok)
        };
        let name = mapping.path.rsplit('/').next().unwrap_or_default().to_owned();
        let kind = Frame::kind_of_module(&name);
        self.all.push(Module { name, kind, symbols: symbols.unwrap_or_default() });
        let module = self.all.len() - 1;
        self.loaded.insert(key, module);
        Some(module)
    }
}

#[derive(Debug)]
pub(crate) struct AddressSpace {
    pub(crate) jit: JitMap,
    /// Language of a JIT map's functions.
    pub(crate) jit_kind: FrameKind,
    /// Executable mappings by address, each with its module where it has one.
    mappings: Vec<(Mapping, Option<usize>)>,
}

impl AddressSpace {
    pub(super) const fn new(jit: JitMap) -> Self {
        Self { jit, jit_kind: FrameKind::Native, mappings: Vec::new() }
    }

    /// Of a recorded process, whose mappings somebody else knows; its JIT map is read.
    pub(crate) fn recorded(pid: u32) -> Self {
        let mut space = Self::new(JitMap::left_behind(pid));
        space.jit.refresh();
        space
    }

    /// Takes the mappings of now by address, whose files process `pid` sees; whether they differ from those before.
    pub(super) fn set_mappings(&mut self, maps: Vec<Mapping>, pid: u32, modules: &mut Modules) -> bool {
        if self.mappings.iter().map(|(mapping, _)| mapping).eq(&maps) {
            return false;
        }
        let mappings = maps.into_iter().map(|mapping| {
            let module = modules.of(&mapping, pid);
            (mapping, module)
        });
        self.mappings = mappings.collect();
        let mapped = self.mappings.iter().filter_map(|(_, module)| *module);
        let mapped = mapped.filter_map(|module| modules.all.get(module));
        self.jit_kind = mapped.fold(FrameKind::Native, |kind, module| compiled_by(kind, &module.name));
        true
    }

    /// The frames of an address at the instant `at`, `caller` where it is a return address.
    pub(super) fn frames(&self, modules: &Modules, ip: u64, caller: bool, at: Time) -> Resolved {
        let found = self.mapping_at(ip.saturating_sub(caller.into()));
        let found = found.map(|(mapping, module)| (mapping, *module));
        self.frames_in(modules, found, ip, caller, at)
    }

    /// Frames of an address in a mapping with this module.
    pub(super) fn frames_in(
        &self,
        modules: &Modules,
        found: Option<(&Mapping, Option<usize>)>,
        ip: u64,
        caller: bool,
        at: Time,
    ) -> Resolved {
        let address = ip.saturating_sub(caller.into());
        if let Some((mapping, Some(module))) = found
            && let Some(module) = modules.all.get(module)
        {
            let offset = (address - mapping.start).wrapping_add(mapping.offset);
            let functions = module.symbols.functions(offset).into_iter();
            let named =
                |it: Function<'_>| Frame::new(table::demangle(&it.name), &module.name, module.kind).at_line(it.line);
            let mut frames: Vec<Frame> = functions.map(named).collect();
            if frames.is_empty() {
                frames.push(Frame::unknown(&module.name));
            }
            return Resolved { frames, place: CodeSource::File };
        }
        // The BEAM's compiler puts the first instruction of a function on the stack where no call
        // returns to (`normal_exit`), so its addresses are taken as they are.
        let (frame, place) = match (self.jit.find(ip, at), found) {
            (Some(name), _) => {
                let name = match self.jit_kind {
                    FrameKind::Java => stacks::java_method(name),
                    _ => name.to_owned(),
                };
                (Frame::new(name, "[jit]", self.jit_kind).at_line(self.jit.line(ip, caller, at)), CodeSource::Jit)
            }
            // What the kernel has put there, such as `[uprobes]`.
            (None, Some((mapping, _))) if mapping.path.starts_with('[') => {
                (Frame::unknown(&*mapping.path), CodeSource::File)
            }
            (None, Some(_)) => (Frame::unknown("[jit]"), CodeSource::Jit),
            (None, None) => (Frame::unknown(""), CodeSource::Nowhere),
        };
        Resolved { frames: vec![frame], place }
    }

    fn mapping_at(&self, address: u64) -> Option<&(Mapping, Option<usize>)> {
        let after = self.mappings.partition_point(|(mapping, _)| mapping.start <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|(mapping, _)| address < mapping.end)
    }
}

/// Language of a JIT map's functions, where a process maps this file beside those before.
pub(crate) fn compiled_by(before: FrameKind, path: &str) -> FrameKind {
    let module = path.rsplit('/').next().unwrap_or_default();
    match before {
        FrameKind::Erlang => before,
        _ if module.starts_with("beam.") => FrameKind::Erlang,
        _ if module.starts_with("libjvm.so") => FrameKind::Java,
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beyond_the_most_have_the_name_of_the_file_alone() {
        let pid = std::process::id();
        let exe = std::env::current_exe().unwrap();
        let own = maps::maps(pid).unwrap();
        let own = own.iter().find(|it| *it.path == *exe.to_string_lossy());
        let own = own.unwrap();
        let at = files_beyond_the_most_have_the_name_of_the_file_alone as *const () as u64;
        let frame_after = |files: usize| {
            let mut modules = Modules::of_running(pid);
            for number in 0..files {
                // Nothing lies there, so that no file is read in its place either.
                let none = Mapping { path: format!("/nowhere/{number}").into(), start: 0, end: 0, ..own.clone() };
                modules.of(&none, pid);
            }
            let module = modules.of(own, pid);
            let space = AddressSpace::new(JitMap::new(pid, &linux::Status::of(pid).unwrap()));
            let found = space.frames_in(&modules, Some((own, module)), at, false, Time(0));
            (found.frames, modules.left_out())
        };
        let (known, left_out) = frame_after(MOST_FILES - 1);
        assert!(known[0].name.ends_with("the_name_of_the_file_alone"), "{known:?}");
        assert_eq!(left_out, 0);
        let (unknown, left_out) = frame_after(MOST_FILES + 2);
        assert_eq!(unknown, [Frame::unknown(&known[0].module)]);
        assert_eq!(left_out, 3);
    }
}
