//! Where stacks begin: the functions that have no caller. The table is data.

/// Functions at the root of a thread or process, by their whole name.
const WHOLE: [&str; 16] = [
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
    // HotSpot.
    "thread_native_entry",
    // Threads of the kernel, and those that have just been born.
    "ret_from_fork",
    "ret_from_fork_asm",
    "kthread",
];

/// The same by the last part of their name.
const LAST_PART: [&str; 1] = [
    // Rust's own, below which a C library without symbols has nothing to say.
    "::thread_start",
];

/// The loop of a BEAM's scheduler. What lies above it is left over from the Erlang process that it
/// ran before.
const SCHEDULER_LOOP: &str = "$global::process_main";

/// Whether nothing above this function called it, whatever the stack says.
pub(crate) fn is_first(function: &str) -> bool {
    function == SCHEDULER_LOOP
}

/// Whether a stack that contains this function reaches the root of its thread, or of its Erlang
/// process.
pub(crate) fn is_root(function: &str) -> bool {
    WHOLE.contains(&function) || LAST_PART.iter().any(|end| function.ends_with(end))
}
