//! Frames: names of Java methods, and functions without callers, where stacks begin. The table is data.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The name of a frame whose function could not be found.
pub const UNKNOWN: &str = "[unknown]";

/// Name of all Java code that is interpreted.
pub(super) const INTERPRETED: &str = "[interpreted]";
/// Prefix of functions that are called after a neighbour.
const NEAR: &str = "[near ";

/// Beginnings of the names of code that the emulator's JIT shares between functions, and of the loop of a scheduler.
const JIT_CODE: [&str; 2] = ["$global::", "$erts_beamasm:"];
/// Erlang modules that every process runs in: they do not tell what it does.
const FRAMEWORK: [&str; 9] =
    ["proc_lib", "gen", "gen_server", "gen_server2", "gen_statem", "gen_event", "gen_batch_server", "lists", "erlang"];

measure::named! {
    /// Kind of a frame's code.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FrameKind {
        /// Erlang code that the BEAM's JIT compiled.
        Erlang = "erlang",
        /// Java code that a JVM compiled, or its interpreter.
        Java = "java",
        /// The machine below them: `beam.smp`, `libjvm.so` and their parts.
        Runtime = "runtime",
        /// The C library and the dynamic loader.
        Libc = "libc",
        /// The operating system's kernel.
        Kernel = "kernel",
        /// Any other machine code.
        Native = "native",
        /// An address without a name.
        Unknown = "unknown",
    }
}

/// A line of source code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file as the compiler was given it; empty where only its number is known.
    pub file: String,
    /// Counted from 1.
    pub number: u32,
}

impl SourceLine {
    /// The name of the file without its folders.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }
}

/// One function, or one line of it. Frames are unique inside a profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Name as the symbol table or JIT map writes it, demangled; [`UNKNOWN`] where there is none.
    pub name: String,
    /// File name of the binary (`beam.smp`), `[kernel]`, `[jit]`, a kernel module (`[ext4]`), or empty if unknown.
    pub module: String,
    /// Kind of code.
    pub kind: FrameKind,
    /// The line of the instruction, where it is known and was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
}

impl Frame {
    /// A frame.
    pub fn new(name: impl Into<String>, module: impl Into<String>, kind: FrameKind) -> Self {
        Self { name: name.into(), module: module.into(), kind, line: None }
    }

    /// The frame of a line of this function.
    pub fn at_line(self, line: Option<SourceLine>) -> Self {
        Self { line, ..self }
    }

    /// The function with its line, as far as that is known: `main server.go:14`.
    pub fn name_with_line(&self) -> Cow<'_, str> {
        match &self.line {
            None => Cow::Borrowed(&self.name),
            Some(SourceLine { file, number }) if file.is_empty() => format!("{} line {number}", self.name).into(),
            Some(line) => format!("{} {}:{}", self.name, line.file_name(), line.number).into(),
        }
    }

    /// A frame without a name, in `module` where that is known.
    pub fn unknown(module: impl Into<String>) -> Self {
        Self::new(UNKNOWN, module, FrameKind::Unknown)
    }

    /// Whether the function could not be found.
    pub fn is_unknown(&self) -> bool {
        self.kind == FrameKind::Unknown
    }

    /// The name of a function at `address` of a stripped file that has none, from a function nearby
    /// that has one. The brackets mark it as a place, and not a name.
    pub fn near(function: &str, its_address: u64, address: u64) -> String {
        let sign = if address < its_address { '-' } else { '+' };
        let distance = address.abs_diff(its_address);
        format!("{NEAR}{function}{sign}{distance:#x}]")
    }

    /// Whether the function's own name is not known, only that of its neighbour.
    pub fn is_near(&self) -> bool {
        Self::is_name_near(&self.name)
    }

    /// Whether a function is called after its neighbour.
    pub fn is_name_near(name: &str) -> bool {
        name.starts_with(NEAR)
    }

    /// The name of all functions of a module together that have no name of their own.
    pub fn without_symbol(module: &str) -> String {
        format!("[no symbol in {module}]")
    }

    /// The function that a name from a JIT map belongs to. The BEAM gives the code in front of a
    /// function, which says what function it is and runs when it is called, a name of its own.
    pub fn function_of(name: &str) -> &str {
        name.strip_suffix("-CodeInfoPrologue").filter(|f| f.starts_with('$')).unwrap_or(name)
    }

    /// Whether a function is code of the emulator's JIT, which is of no Erlang module.
    pub(super) fn is_of_jit(name: &str) -> bool {
        JIT_CODE.iter().any(|it| name.starts_with(it))
    }

    /// The Erlang module of `$module:function/arity`; `None` for one that every process runs in, and for other code.
    pub fn own_module(name: &str) -> Option<&str> {
        if Self::is_of_jit(name) {
            return None;
        }
        let (module, _) = name.strip_prefix('$')?.split_once(':')?;
        (!FRAMEWORK.contains(&module)).then_some(module)
    }

    /// The kind that a name alone tells, for formats that carry no kind (folded text, pprof of
    /// other tools): Erlang names carry a `$`, `_[k]` is perf's mark of the kernel.
    pub fn kind_from_name(name: &str, module: &str) -> FrameKind {
        if name == UNKNOWN || name.is_empty() {
            return FrameKind::Unknown;
        }
        if module.starts_with("[kernel") || name.ends_with("_[k]") {
            return FrameKind::Kernel;
        }
        if name.starts_with('$') { FrameKind::Erlang } else { Self::kind_of_module(module) }
    }

    /// A name of folded text without async-profiler's or FlameGraph's mark of compiled or inlined code, and its kind.
    pub fn from_marked_name(name: &str) -> (&str, FrameKind) {
        const MARKS: [&str; 4] = ["_[j]", "_[i]", "_[0]", "_[1]"];
        let unmarked = MARKS.iter().find_map(|mark| name.strip_suffix(mark));
        let of_java = |name: &str| name.contains(['.', '/']) && !name.contains("::");
        match unmarked.map(|name| (name, Self::kind_from_name(name, ""))) {
            Some((name, FrameKind::Native)) if of_java(name) => (name, FrameKind::Java),
            Some(known) => known,
            None => (name, Self::kind_from_name(name, "")),
        }
    }

    /// The kind of machine code that lives in the binary `module`.
    pub fn kind_of_module(module: &str) -> FrameKind {
        const RUNTIME: [&str; 3] = ["libjvm.so", "libzip.so", "libjava.so"];
        const LIBC: &str = "libc.so libc-2. libc.musl ld-linux ld-musl libpthread libm.so libdl.so [vdso]";
        if RUNTIME.contains(&module) || module.starts_with("beam.") {
            FrameKind::Runtime
        } else if LIBC.split(' ').any(|prefix| module.starts_with(prefix)) {
            FrameKind::Libc
        } else {
            FrameKind::Native
        }
    }
}

/// The name of a JVM's code: class and method, without types and what differs from run to run. HotSpot writes `int
/// java.lang.String.indexOf(int, int)`, agents `Ljava/lang/String;::indexOf`. Interpreted code has one name.
pub fn java_method(name: &str) -> String {
    if name == "Interpreter" {
        return INTERPRETED.to_owned();
    }
    // Stubs and adapters are written in words: `StubRoutines (1)`.
    let method = match name.split_once('(') {
        Some((_, rest)) if !rest.contains(')') => return name.to_owned(),
        Some((method, _)) if method.ends_with([' ', ')']) || method.is_empty() => return name.to_owned(),
        Some((method, _)) => method.rsplit(' ').next().unwrap_or(method),
        None => name,
    };
    let Some((class, method)) = method.rsplit_once("::") else { return without_numbers(method) };
    let inner = class.strip_prefix('L').and_then(|it| it.strip_suffix(';'));
    let class = inner.map_or_else(|| class.to_owned(), |path| path.replace('/', "."));
    without_numbers(&format!("{class}.{method}"))
}

/// Without the number of a lambda and the address of a hidden class: `A$$Lambda$14/0x0000000800c03000.run`.
fn without_numbers(name: &str) -> String {
    const LAMBDA: &str = "$$Lambda$";
    let mut text = name.to_owned();
    for (begin, radix) in [(LAMBDA, 10), ("/0x", 16), ("+0x", 16)] {
        if let Some(at) = text.find(begin) {
            let rest = text.get(at + begin.len()..).unwrap_or_default();
            let rest = rest.trim_start_matches(|it: char| it.is_digit(radix));
            // The flight recorder writes a number of the class: `A$$Lambda$14.360062456.run`.
            let number = rest.trim_start_matches(['.', '/']);
            let behind = number.trim_start_matches(|it: char| it.is_ascii_digit());
            let is_number = behind.len() < number.len() && matches!(behind.get(..1), None | Some("."));
            let rest = if is_number { behind } else { rest }.to_owned();
            let kept = if begin == LAMBDA { at + LAMBDA.len() - 1 } else { at };
            text.truncate(kept);
            text.push_str(&rest);
        }
    }
    text
}

/// A function's name without the suffixes of compilers' copies and parts: `.isra.0`, `.cold`, `.llvm.123`.
pub fn without_copies(name: &str) -> &str {
    /// A number may follow.
    const ALONE: [&str; 2] = ["cold", "localalias"];
    /// A number follows.
    const NUMBERED: [&str; 8] = ["clone", "constprop", "isra", "llvm", "lto_priv", "part", "_omp_fn", "__uniq"];
    let mut rest = name;
    while let Some((before, last)) = rest.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|it| it.is_ascii_digit());
        let word = if is_number { before.rsplit_once('.') } else { Some((before, last)) };
        let is_suffix = |word: &str| ALONE.contains(&word) || is_number && NUMBERED.contains(&word);
        match word {
            Some((before, word)) if is_suffix(word) => rest = before,
            _ => break,
        }
    }
    rest
}

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
    // Go: goroutines, and what runs before the first; marked by the linker where names come from the symbol table.
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

/// Where schedulers begin: a BEAM's loop, Go's threads and switches from goroutines. Frames above are left over from
/// the Erlang process or goroutine before, or of the C library that started the thread.
const SCHEDULERS: [&str; 5] =
    ["$global::process_main", "runtime.mstart", "runtime.mstart.abi0", "runtime.mcall", "runtime.mcall.abi0"];

/// Whether nothing above this function called it, whatever the stack says.
pub fn is_first_function(function: &str) -> bool {
    SCHEDULERS.contains(&function)
}

/// Whether a stack that contains this function reaches the root of its thread, or of its Erlang process.
pub fn is_root_function(function: &str) -> bool {
    is_first_function(function) || WHOLE.contains(&function) || LAST_PART.iter().any(|end| function.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_methods_have_one_name_whoever_wrote_it() {
        for [written, name] in testkit::table(include_str!("tests/java-methods.txt")) {
            assert_eq!(java_method(written), name, "{written}");
        }
        let stubs = ["StubRoutines (1)", "I2C/C2I adapters", "vtable chunks", "jlong_disjoint_arraycopy"];
        for whole in stubs.into_iter().chain(["void broken(", "()", ""]) {
            assert_eq!(java_method(whole), whole);
        }
    }
}
