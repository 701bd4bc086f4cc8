//! Where stacks begin: the functions that have no caller. The table is data.

/// Functions at the root of a thread or process, by their whole name.
const WHOLE: [&str; 20] = [
    // What an Erlang process returns to when its function is done.
    "$erts_beamasm:normal_exit/0",
    // Processes.
    "_start",
    "main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    // Threads.
    "start_thread",
    "__clone",
    "clone",
    "__clone3",
    "clone3",
    "__clone_internal",
    // Go: goroutines, and what runs before the first; with the linker's mark of functions in assembler where names
    // come from the symbol table.
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.rt0_go",
    "runtime.rt0_go.abi0",
    // HotSpot.
    "thread_native_entry",
    // Threads of the kernel, and those that have just been born.
    "ret_from_fork",
    "ret_from_fork_asm",
    "kthread",
];

/// Roots by the last part of their name.
const LAST_PART: [&str; 1] = [
    // Rust's own, below which a C library without symbols has nothing to say.
    "::thread_start",
];

/// Where schedulers begin: the loop of a BEAM's, a thread of Go's, and the switch from a goroutine to that. What lies above
/// is left over from the Erlang process or goroutine that ran before, or of the C library that started the thread.
const SCHEDULERS: [&str; 5] = [
    "$global::process_main",
    "runtime.mstart",
    "runtime.mstart.abi0",
    "runtime.mcall",
    "runtime.mcall.abi0",
];

/// Whether nothing above this function called it, whatever the stack says.
#[must_use]
pub fn is_first_function(function: &str) -> bool {
    SCHEDULERS.contains(&function)
}

/// Whether a stack that contains this function reaches the root of its thread, or of its Erlang
/// process.
#[must_use]
pub fn is_root_function(function: &str) -> bool {
    is_first_function(function)
        || WHOLE.contains(&function)
        || LAST_PART.iter().any(|end| function.ends_with(end))
}
