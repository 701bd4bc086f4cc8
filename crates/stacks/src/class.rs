//! The classes that samples fall into.

use std::fmt;

use serde::{Deserialize, Serialize};

measure::named! {
    /// Class of a sample's code.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    pub enum Class {
        /// Functions in Erlang, and in the languages that compile to it.
        ErlangCode = "Erlang code",
        /// Functions in Java, and in the languages that compile to it.
        JavaCode = "Java code",
        /// Functions of the program itself, where it is compiled to machine code.
        OwnCode = "own code",
        /// Functions of shared libraries, the C library's excepted.
        Libraries = "libraries",
        /// C code that Erlang code calls: built-in and natively implemented functions, large instructions.
        BuiltInFunctions = "built-in functions",
        /// Tables of Erlang terms.
        Ets = "ETS",
        /// Sending and receiving between Erlang processes.
        Messages = "messages",
        /// Garbage collection.
        GarbageCollection = "garbage collection",
        /// Allocators of memory.
        Allocators = "allocators",
        /// Ports and drivers, files and sockets among them.
        Ports = "ports and drivers",
        /// Choosing what runs next, waking others, timers.
        Scheduling = "scheduling",
        /// Spinning, going to sleep, waking up.
        Waiting = "waiting",
        /// Network in the kernel.
        KernelNetwork = "kernel: network",
        /// File systems and block devices in the kernel.
        KernelDisk = "kernel: disk",
        /// Page faults and mappings of memory in the kernel.
        KernelMemory = "kernel: memory",
        /// Giving the processor to another thread when the kernel is left.
        KernelScheduling = "kernel: scheduling",
        /// Everything else in the kernel.
        KernelOther = "kernel: other",
        /// Everything else of the virtual machine.
        VirtualMachine = "virtual machine",
        /// Code whose function has no name, and that no class calls.
        Unnamed = "code without a name",
    }
}

impl Class {
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
