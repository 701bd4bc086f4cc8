//! The programs of `kernel/*.c`, as `scripts/kernel` compiles them, brought into the kernel.
//!
//! Nothing is pinned: maps and programs hang on this process's descriptors and events, and go when it goes.

use std::error::Error;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::{io, iter};

use aya::maps::{HashMap, Map, MapData};
use aya::programs::Program;
use aya::{Ebpf, EbpfLoader, Pod, VerifierLogLevel};

use super::PidNamespace;
use crate::tracepoint::Field;

static OBJECT: &[u8] = aya::include_bytes_aligned!("kernel/programs.o");

/// The programs, which the kernel checks when they are asked for, and their maps.
#[derive(Debug)]
pub(super) struct KernelPrograms(Ebpf);

/// A map with keys of 32 bits that is written from here.
#[derive(Debug)]
pub(super) struct KernelMap<V>(Mutex<HashMap<MapData, u32, V>>);

/// Settings made before the programs are loaded, by the names of `kernel/memory.h`.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) constants: Vec<(&'static str, u64)>,
    /// Numbers that are drawn from.
    pub(super) draws: Option<Box<super::Draws>>,
    /// How many entries maps have; others have one.
    pub(super) entries: Vec<(&'static str, u32)>,
}

impl Settings {
    /// Threads have the numbers by which they are known there; those of the machine where there is none.
    pub(super) fn number_in(&mut self, namespace: Option<PidNamespace>) {
        if let Some(PidNamespace { device, inode }) = namespace {
            self.constants.extend([("NAMESPACE_DEVICE", device), ("NAMESPACE_INODE", inode)]);
        }
    }

    pub(super) fn read_field(&mut self, field: Field) {
        let offset = field.offset.unsigned_abs().into();
        self.constants.extend([("FIELD_OFFSET", offset), ("FIELD_SIZE", field.size.into())]);
    }
}

impl KernelPrograms {
    /// Makes the maps, where the kernel allows it.
    pub(super) fn load(settings: &Settings) -> io::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut loader = EbpfLoader::new();
        loader.verifier_log_level(VerifierLogLevel::STATS);
        for (name, value) in &settings.constants {
            loader.override_global(name, value, true);
        }
        if let Some(draws) = &settings.draws {
            loader.override_global("draws", &**draws, true);
        }
        for &(map, entries) in &settings.entries {
            loader.map_max_entries(map, entries);
        }
        loader.load(OBJECT).map(Self).map_err(|it| refusal(&it))
    }

    /// Loads a program, if that was not done. The kernel may not allow it, or be older than 5.15.
    pub(super) fn program(&mut self, name: &str) -> io::Result<OwnedFd> {
        let program = self.0.program_mut(&format!("bellows_{name}"));
        let program = program.ok_or(io::ErrorKind::InvalidData)?;
        if program.fd().is_err() {
            let loaded = match program {
                Program::PerfEvent(it) => it.load(),
                Program::TracePoint(it) => it.load(),
                Program::KProbe(it) => it.load(),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            loaded.map_err(|it| refusal(&it))?;
        }
        program.fd().map_err(|it| refusal(&it))?.as_fd().try_clone_to_owned()
    }

    /// Takes a map. Programs that are not loaded yet need it as long as it is.
    pub(super) fn table<V: Pod>(&mut self, name: &str) -> io::Result<KernelMap<V>> {
        let map = match self.0.take_map(name) {
            // They are written alike: descriptors have 32 bits.
            Some(Map::HashMap(it) | Map::Array(it) | Map::PerfEventArray(it) | Map::ProgramArray(it)) => {
                Map::HashMap(it)
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(KernelMap(Mutex::new(HashMap::try_from(map).map_err(|it| refusal(&it))?)))
    }
}

impl<V: Pod> KernelMap<V> {
    pub(super) fn set(&self, key: u32, value: V) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value, 0).map_err(|it| refusal(&it))
    }
}

impl KernelMap<i32> {
    pub(super) fn set_descriptor(&self, key: u32, value: BorrowedFd<'_>) -> io::Result<()> {
        self.set(key, value.as_raw_fd())
    }
}

/// The kernel's own error below one of the loader's, if there is one.
fn refusal(error: &(dyn Error + 'static)) -> io::Error {
    let mut causes = iter::successors(Some(error), |&it| it.source());
    let number = causes.find_map(|it| it.downcast_ref::<io::Error>()?.raw_os_error());
    number.map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}
