//! The functions by which a program allocates, and where a process has them.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;

use linux::maps::{self, Mapping};
use measure::Problem;

use crate::symbols;

/// Prefixes of allocators' names before the C library's: jemalloc, and jemalloc in Rust.
const PREFIXES: [&str; 2] = ["je_", "_rjem_"];
/// A process may map any number of files.
const MOST_PROBES: usize = 64;

/// A function of an allocator, and where its arguments say how many bytes are meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    name: &'static str,
    /// The argument by its place (`first`); `product`: the first two, multiplied; `resize`: the second, unless the
    /// first is a null pointer, with which the function hands on to `malloc`.
    size: &'static str,
    /// The argument that points to the result's place, where the function returns 0; `None`: it returns the address.
    behind: Option<&'static str>,
}

pub(crate) static ALLOCATE: [Function; 8] = [
    function("malloc", "first"),
    function("calloc", "product"),
    function("realloc", "resize"),
    function("aligned_alloc", "second"),
    function("memalign", "second"),
    Function { behind: Some("first"), ..function("posix_memalign", "third") },
    // Of jemalloc, for who knows the size, as Rust.
    function("mallocx", "first"),
    function("rallocx", "resize"),
];

/// Functions that free their first argument. The size is never used.
pub(crate) static FREE: [Function; 5] = [
    function("free", "first"),
    // Of C23.
    function("free_sized", "first"),
    function("free_aligned_sized", "first"),
    // Of jemalloc.
    function("dallocx", "first"),
    function("sdallocx", "first"),
];

const fn function(name: &'static str, size: &'static str) -> Function {
    Function { name, size, behind: None }
}

/// A place in a file at which a program in the kernel runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// The file, as it is seen from here.
    pub(crate) path: CString,
    pub(crate) offset: u64,
    size: &'static str,
    behind: Option<&'static str>,
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Calls or bytes are counted where the function begins.
    Counted,
    /// Follows allocations, where the function begins.
    Begins,
    /// Follows allocations, where the function returns.
    Returns,
    /// Ends allocations, where the function begins.
    Frees,
}

impl Probe {
    pub(crate) fn is_followed(&self) -> bool {
        self.role != Role::Counted
    }

    /// The program that runs there (`stack_copy/kernel/probes.h`).
    pub(crate) fn program(&self) -> String {
        let size = self.size;
        match (self.role, self.behind) {
            (Role::Counted, _) => format!("counts_{size}"),
            (Role::Begins, None) => format!("begins_{size}"),
            (Role::Begins, Some(argument)) => format!("begins_{size}_behind_{argument}"),
            (Role::Returns, _) => "returns".to_owned(),
            (Role::Frees, _) => "frees".to_owned(),
        }
    }

    fn with(&self, role: Role) -> Self {
        Self { role, ..self.clone() }
    }
}

/// Where a process allocates and gives back, so that what it allocates can be followed.
pub(crate) fn find_followed(pid: u32) -> Result<Arc<[Probe]>, Problem> {
    let allocate = find(pid, &ALLOCATE)?;
    // A program that was linked statically and gives nothing back has no function for it.
    let free = find(pid, &FREE).unwrap_or_else(|_| Arc::new([]));
    // They are switched on in this order: whatever begins is seen to return, and what is numbered to be given back.
    let roles = [(&free, Role::Frees), (&allocate, Role::Returns), (&allocate, Role::Begins)];
    Ok(roles.into_iter().flat_map(|(probes, role)| probes.iter().map(move |it| it.with(role))).collect())
}

/// Where a process has these functions; an error where it has none of them.
pub(crate) fn find(pid: u32, functions: &[Function]) -> Result<Arc<[Probe]>, Problem> {
    let maps = maps::maps(pid).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let files = maps.iter().filter(|it| maps::is_file(it) && seen.insert(it.path.to_string()));
    let probes: Arc<[Probe]> = files.flat_map(|file| in_file(pid, file, functions)).take(MOST_PROBES).collect();
    if probes.is_empty() {
        return Err(Problem::new(
            format!("process {pid} has no function to count allocations at"),
            "no 64-bit file that it maps has a symbol malloc, as in Go programs and stripped static ones",
            "use the event mmap-bytes or page-faults",
        ));
    }
    Ok(probes)
}

/// The functions of one file; those with a prefix where it has no others.
fn in_file(pid: u32, mapping: &Mapping, functions: &[Function]) -> Vec<Probe> {
    let known = |name: &str| functions.iter().find(|it| it.name == without_prefix(name));
    let Some((path, defined)) = symbols::defined(pid, mapping, &|name| known(name).is_some()) else {
        return Vec::new();
    };
    let Ok(path) = CString::new(path.into_os_string().into_vec()) else { return Vec::new() };
    let is_plain = |name: &str| without_prefix(name) == name;
    let has_plain = defined.iter().any(|(name, _)| is_plain(name));
    let mut probes: Vec<Probe> = Vec::new();
    for (name, offset) in defined {
        let is_same = probes.iter().any(|it| it.offset == offset);
        let function = known(&name).filter(|_| !is_same && is_plain(&name) == has_plain);
        probes.extend(function.map(|function| Probe {
            path: path.clone(),
            offset,
            size: function.size,
            behind: function.behind,
            role: Role::Counted,
        }));
    }
    probes
}

fn without_prefix(name: &str) -> &str {
    PREFIXES.iter().find_map(|it| name.strip_prefix(it)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_of_this_process_has_all_functions_and_nothing_twice() {
        let probes = find(std::process::id(), &ALLOCATE).unwrap();
        let libc: Vec<_> = probes.iter().filter(|it| it.path.to_string_lossy().contains("libc.")).collect();
        let places: BTreeSet<_> = libc.iter().map(|it| (&it.path, it.offset)).collect();
        assert_eq!(places.len(), libc.len());
        assert!(libc.len() >= 5, "{probes:?}");
        assert!(libc.iter().all(|it| it.offset > 0));
    }

    #[test]
    fn a_process_without_an_allocator_is_told_a_remedy() {
        let text = find(u32::MAX, &FREE).unwrap_err().sentence();
        assert!(text.contains("mmap-bytes"), "{text}");
    }
}
