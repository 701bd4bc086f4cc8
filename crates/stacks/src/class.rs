//! The classes that samples fall into.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the time of a sample went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub enum Class {
    /// Functions in Erlang, and in the languages that compile to it.
    ErlangCode,
    /// Functions in Java, and in the languages that compile to it.
    JavaCode,
    /// Functions of the program itself, where it is compiled to machine code.
    OwnCode,
    /// Functions of shared libraries, the C library's excepted.
    Libraries,
    /// C code that Erlang code calls: built-in and natively implemented functions, large instructions.
    BuiltInFunctions,
    /// Tables of Erlang terms.
    Ets,
    /// Sending and receiving between Erlang processes.
    Messages,
    /// Garbage collection.
    GarbageCollection,
    /// Allocators of memory.
    Allocators,
    /// Ports and drivers, files and sockets among them.
    Ports,
    /// Choosing what runs next, waking others, timers.
    Scheduling,
    /// Spinning, going to sleep, waking up.
    Waiting,
    /// Network in the kernel.
    KernelNetwork,
    /// File systems and block devices in the kernel.
    KernelDisk,
    /// Page faults and mappings of memory in the kernel.
    KernelMemory,
    /// Giving the processor to another thread when the kernel is left.
    KernelScheduling,
    /// Everything else in the kernel.
    KernelOther,
    /// Everything else of the virtual machine.
    VirtualMachine,
    /// Code whose function has no name, and that no class calls.
    Unnamed,
}

impl Class {
    /// All classes, from the broker's own code down to the kernel.
    pub const ALL: [Self; 19] = [
        Self::ErlangCode,
        Self::JavaCode,
        Self::OwnCode,
        Self::Libraries,
        Self::BuiltInFunctions,
        Self::Ets,
        Self::Messages,
        Self::GarbageCollection,
        Self::Allocators,
        Self::Ports,
        Self::Scheduling,
        Self::Waiting,
        Self::KernelNetwork,
        Self::KernelDisk,
        Self::KernelMemory,
        Self::KernelScheduling,
        Self::KernelOther,
        Self::VirtualMachine,
        Self::Unnamed,
    ];

    /// What people call it, and the rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ErlangCode => "Erlang code",
            Self::JavaCode => "Java code",
            Self::OwnCode => "own code",
            Self::Libraries => "libraries",
            Self::BuiltInFunctions => "built-in functions",
            Self::Ets => "ETS",
            Self::Messages => "messages",
            Self::GarbageCollection => "garbage collection",
            Self::Allocators => "allocators",
            Self::Ports => "ports and drivers",
            Self::Scheduling => "scheduling",
            Self::Waiting => "waiting",
            Self::KernelNetwork => "kernel: network",
            Self::KernelDisk => "kernel: disk",
            Self::KernelMemory => "kernel: memory",
            Self::KernelScheduling => "kernel: scheduling",
            Self::KernelOther => "kernel: other",
            Self::VirtualMachine => "virtual machine",
            Self::Unnamed => "code without a name",
        }
    }

    /// Whether a class is that of code, and says nothing of what it asks of the kernel.
    pub(crate) const fn is_of_code(self) -> bool {
        matches!(
            self,
            Self::ErlangCode
                | Self::JavaCode
                | Self::OwnCode
                | Self::Libraries
                | Self::BuiltInFunctions
                | Self::VirtualMachine
                | Self::Unnamed
        )
    }

    /// Whether a class is that of threads that have nothing to do. One whose core is taken away has.
    pub(crate) const fn is_of_idling(self) -> bool {
        matches!(self, Self::Scheduling | Self::Waiting)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
