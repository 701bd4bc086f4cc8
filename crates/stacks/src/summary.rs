//! Summary of a profile, and the classes that samples fall into.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::frames::{Frame, FrameKind};

impl ProfileSummary {
    /// Fewer samples say nothing of a profile's shares: each may be off by ten points.
    pub const FEW_SAMPLES: u64 = 100;

    /// Whether some were taken, and too few to tell shares.
    pub fn has_few_samples(&self) -> bool {
        (1..Self::FEW_SAMPLES).contains(&self.samples)
    }

    /// Share of samples in functions of a virtual machine that have no symbol, as far as they are in [`Self::top`].
    pub fn unnamed_machine_share(&self) -> f64 {
        self.top.iter().map(FunctionShare::of_unnamed_machine).sum()
    }
}

impl FunctionShare {
    /// Self share of a virtual machine's function that has no symbol; 0 for any other.
    pub(super) fn of_unnamed_machine(&self) -> f64 {
        let is_of_machine = Frame::kind_of_module(&self.module) == FrameKind::Runtime;
        if is_of_machine && Frame::is_name_near(&self.function) { self.self_share } else { 0.0 }
    }
}

/// Summary of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// `cpu`, …
    pub event: String,
    /// The node that was sampled, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The kernel's event that they were taken at, such as `cpu-clock`; empty where unknown.
    pub clock: String,
    /// Samples per second of CPU time that were requested; 0 where unknown.
    pub frequency: u32,
    /// Samples kept.
    pub samples: u64,
    /// Unit of weights: `samples`, `calls`, `bytes`, `nanoseconds`, …; empty where unknown.
    pub unit: String,
    /// Sum of the samples' weights.
    pub weight: u64,
    /// Samples that the kernel had to drop.
    pub lost: u64,
    /// Share of samples with at least one frame that has no name (0 to 1).
    pub unknown_share: f64,
    /// Share of samples whose stack reaches the root of its thread or Erlang process (0 to 1).
    pub complete_share: f64,
    /// Share of the process's CPU time that the samples stand for (0 to 1); absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Share of samples whose stack was unwound from copies of the thread's stacks (0 to 1).
    pub copied_share: f64,
    /// Share of samples whose stack was unwound by frame pointers (0 to 1).
    pub frame_pointer_share: f64,
    /// Bytes of stacks that were copied for a sample, on average.
    pub copied_bytes: u64,
    /// Shares of classes, largest first: every sample counts for one class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassShare>,
    /// Documented patterns that have their share of the samples, largest share first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_patterns: Vec<PatternShare>,
    /// The Erlang processes with the largest shares, at most 5; absent where none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<WorkShare>,
    /// The functions with the largest self share, at most 20.
    pub top: Vec<FunctionShare>,
    /// The functions of Erlang, Java or Go with the largest shares, each with the native code below it, and the
    /// classes of the samples without such a function, at most 20 rows; absent where no such function is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub language_functions: Vec<LanguageShare>,
    /// The function of the process's own Erlang, Java or Go code with the largest total share that is not everything's
    /// frame, nor mostly waits; absent where there is none, or most stacks are incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<FunctionShare>,
}

/// A class's part of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassShare {
    /// The class.
    pub class: Class,
    /// Share of all samples (0 to 1).
    pub share: f64,
    /// Sum of the samples' weights.
    #[serde(rename = "samples")]
    pub weight: u64,
}

/// A documented pattern's part of all samples, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PatternShare {
    /// Name of the pattern.
    pub pattern: String,
    /// Share of all samples (0 to 1).
    pub share: f64,
    /// The function that has most of it, as the symbol table or JIT map writes it; absent where no function does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Share of all samples that belong to the pattern and lie below that function (0 to 1).
    pub function_share: f64,
    /// Activity of its samples: `collect garbage of Erlang processes`.
    pub says: String,
    /// Cure found elsewhere.
    pub cure: String,
    /// The address where that is written.
    pub source: String,
}

/// A process's part of all samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkShare {
    /// Whose work it is: `queue orders-7`, or `<0.123.0>` where the node has not said what that is.
    pub of: String,
    /// Role: `queue`, `channel`; empty where not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Share of all samples (0 to 1).
    pub share: f64,
}

/// One row of the function table; shares are of all samples (0 to 1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Name as the symbol table or JIT map writes it.
    pub function: String,
    /// Binary, `[kernel]` or `[jit]`.
    pub module: String,
    /// At the leaf.
    #[serde(rename = "self")]
    pub self_share: f64,
    /// Anywhere in the stack, recursion counted once.
    pub total: f64,
}

/// Samples with the same innermost function of Erlang, Java or Go, or of one class without one. Each is in one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanguageShare {
    /// Name of the function by symbol table or JIT map, or of the class, such as `garbage collection in beam.smp`.
    pub function: String,
    /// The class of samples without a function; absent for a function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Share of all samples (0 to 1), those in native code below the function among them.
    pub share: f64,
    /// Sum of the samples' weights.
    #[serde(rename = "samples")]
    pub weight: u64,
    /// The classes of the samples, largest first: the function's own code, and the native code below it.
    pub classes: Vec<ClassShare>,
}

measure::named! {
    /// Class of a sample's code.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    pub enum Class {
        /// Functions that the JIT compiled.
        ErlangCode = "Erlang code",
        /// Functions that the Java virtual machine compiled or interprets.
        JavaCode = "Java code",
        /// Functions of the program itself.
        OwnCode = "own code",
        /// Shared libraries, such as zlib, OpenSSL and natively implemented functions.
        Libraries = "libraries",
        /// C code of the emulator that Erlang code calls.
        BuiltInFunctions = "built-in functions",
        /// Reading and writing ETS tables, and their match specifications.
        Ets = "ETS",
        /// Sending and receiving between Erlang processes, including copies.
        Messages = "messages",
        /// Garbage collection.
        GarbageCollection = "garbage collection",
        /// The emulator's allocators, malloc and its relatives.
        Allocators = "allocators",
        /// Sockets and files in the emulator, outside the kernel.
        Ports = "ports and drivers",
        /// Choosing what runs next, waking others, timers.
        Scheduling = "scheduling",
        /// Spinning for locks, going to sleep, waking up, polling for I/O.
        Waiting = "waiting",
        /// TCP, IP, sockets.
        KernelNetwork = "kernel: network",
        /// File systems, their page cache, block devices.
        KernelDisk = "kernel: disk",
        /// Page faults, mapping and unmapping memory.
        KernelMemory = "kernel: memory",
        /// Switching the processor to another thread.
        KernelScheduling = "kernel: scheduling",
        /// Interrupts, and other system calls.
        KernelOther = "kernel: other",
        /// The rest of the emulator or the Java virtual machine.
        VirtualMachine = "virtual machine",
        /// Functions without a symbol and without a classified caller.
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

    /// Whether a class is that of a virtual machine's own code.
    pub(crate) const fn is_of_machine(self) -> bool {
        matches!(
            self,
            Self::BuiltInFunctions
                | Self::Ets
                | Self::Messages
                | Self::GarbageCollection
                | Self::Allocators
                | Self::Ports
                | Self::VirtualMachine
        )
    }

    /// Whether names of a virtual machine's functions tell a class from others, so that it needs symbols.
    pub const fn needs_symbols(self) -> bool {
        self.is_of_machine() || matches!(self, Self::Scheduling | Self::Waiting | Self::Unnamed)
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
