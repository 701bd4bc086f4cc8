//! The executable memory of a process.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::read_lossy;

/// One executable mapping of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Of the file; 0 where there is none.
    pub inode: u64,
    /// As the kernel prints it, unescaped: a path, `[vdso]`, `//anon`, or nothing. Shared by the copies of a mapping.
    pub path: Arc<str>,
    /// The file has no name any more.
    pub deleted: bool,
}

fn text(pid: u32) -> Option<String> {
    read_lossy(format!("/proc/{pid}/maps")).ok()
}

/// The executable mappings of a process, in the order of addresses; `None` where it has ended or they may not be read.
pub fn maps(pid: u32) -> Option<Vec<Mapping>> {
    // A process that has ended still shows an empty file until it is waited for.
    text(pid).filter(|text| !text.is_empty()).map(|text| parse_maps(&text))
}

/// The addresses of all mappings of a process, executable or not, in ascending order; empty where they may not be read.
pub fn ranges(pid: u32) -> Vec<Range<u64>> {
    text(pid).unwrap_or_default().lines().filter_map(range_of).collect()
}

fn range_of(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The one of them that an address lies in.
pub fn range_around(ranges: &[Range<u64>], address: u64) -> Option<Range<u64>> {
    let after = ranges.partition_point(|range| range.start <= address);
    let range = ranges.get(after.checked_sub(1)?)?;
    range.contains(&address).then(|| range.clone())
}

/// Where a process has the code of the kernel's probes; empty where it has none.
pub fn probe_code(pid: u32) -> Range<u64> {
    let maps = maps(pid).unwrap_or_default().into_iter();
    let mut own = maps.filter(|it| &*it.path == "[uprobes]");
    own.next().map_or(0..0, |it| it.start..it.end)
}

/// Where the heap of a process ends, which the call `brk` moves; `None` where it has none.
pub fn heap_end(pid: u32) -> Option<u64> {
    heap_end_in(&text(pid)?)
}

fn heap_end_in(text: &str) -> Option<u64> {
    // Pages with other rights than the rest are mappings of their own.
    let heap = text.lines().rfind(|line| line.ends_with(" [heap]"))?;
    range_of(heap).map(|heap| heap.end)
}

fn parse_maps(text: &str) -> Vec<Mapping> {
    let maps = text.lines().filter_map(parse_mapping);
    let code = maps.filter(|(_, permissions)| permissions.as_bytes().get(2) == Some(&b'x'));
    let mut code: Vec<_> = code.map(|(mapping, _)| mapping).collect();
    code.sort_by_key(|m| m.start);
    code
}

/// Where a process has the variables of a file that it has mapped: what can be written of it, and the memory of no file
/// that follows (`.bss`). Empty where that may not be read.
pub fn variables(pid: u32, file: &Mapping) -> Vec<Range<u64>> {
    let text = text(pid).unwrap_or_default();
    let mut found: Vec<Range<u64>> = Vec::new();
    for (mapping, permissions) in text.lines().filter_map(parse_mapping) {
        let is_of_file = mapping.path == file.path && mapping.inode == file.inode;
        let follows = mapping.path.is_empty() && found.last().is_some_and(|last| last.end == mapping.start);
        if permissions.starts_with("rw") && (is_of_file || follows) {
            found.push(mapping.start..mapping.end);
        }
    }
    found
}

/// A mapping and its permissions, of
/// `560f081dc000-560f081f0000 r-xp 00003000 fe:00 247741                     /usr/bin/sed`
fn parse_mapping(line: &str) -> Option<(Mapping, &str)> {
    let Range { start, end } = range_of(line)?;
    let mut fields = line.splitn(6, ' ').skip(1);
    let mut field = || fields.next().unwrap_or_default();
    let (permissions, offset, _device, inode, path) = (field(), field(), field(), field(), field().trim_start());
    let deleted = path.strip_suffix(" (deleted)");
    let mapping = Mapping {
        start,
        end,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        path: deleted.unwrap_or(path).replace("\\012", "\n").into(),
        deleted: deleted.is_some(),
    };
    Some((mapping, permissions))
}

/// Whether a mapping is of a file with code in it, rather than of memory that a compiler fills.
pub fn is_file(mapping: &Mapping) -> bool {
    let anonymous = ["/memfd:", "/dev/zero", "/SYSV", "//anon", "/anon_hugepage"];
    mapping.path.starts_with('/') && !anonymous.iter().any(|a| mapping.path.starts_with(a))
}

/// A path of the process's own file system, as seen from here.
pub fn in_root_of(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_executable_mappings_are_kept_with_any_path() {
        let text = include_str!("../tests/data/maps.txt");
        let maps = parse_maps(text);
        let paths: Vec<_> = maps.iter().map(|m| &*m.path).collect();
        assert_eq!(paths, ["", "/opt/with space/a\nb", "[vdso]", "/usr/lib/libc.so.6"]);
        let last = &maps[3];
        assert_eq!((last.start, last.offset, last.inode), (0x7faf_1eaf_3000, 0x26000, 326_269));
        assert!(maps[1].deleted && is_file(&maps[1]) && !is_file(&maps[0]) && !is_file(&maps[2]));
    }

    #[test]
    fn the_heap_is_found_by_its_name() {
        let text = "\
1000-2000 rw-p 00000000 00:00 0                          /tmp/[heap] or so
5581f000-55a21000 rw-p 00000000 00:00 0                          [heap]";
        assert_eq!(heap_end_in(text), Some(0x55a2_1000));
        // A page that may not be written any more lies in it.
        let split = "\
1000-4000 rw-p 00000000 00:00 0                          [heap]
4000-5000 r--p 00000000 00:00 0                          [heap]
5000-9000 rw-p 00000000 00:00 0                          [heap]
7f00-8000 rw-p 00000000 00:00 0 
";
        assert_eq!(heap_end_in(split), Some(0x9000));
        assert_eq!(heap_end_in("x [heap]\n"), None);
        assert_eq!(heap_end_in(""), None);
    }

    #[test]
    fn this_process_is_mapped() {
        let exe = std::env::current_exe().unwrap();
        let maps = maps(std::process::id()).expect("maps");
        assert!(maps.iter().any(|m| Path::new(&*m.path) == exe));
        let on_stack = 1u8;
        let address = (&raw const on_stack) as u64;
        let ranges = ranges(std::process::id());
        let stack = range_around(&ranges, address).expect("a stack");
        assert!(stack.contains(&address));
        assert_eq!(range_around(&ranges, 1), None);
        assert_eq!(range_around(&[], 1), None);
        let (near, next) = (10..20, 20..30);
        let ends = [9, 10, 19, 20, 29, 30].map(|at| range_around(&[near.clone(), next.clone()], at));
        let [near, next] = [near, next].map(Some);
        assert_eq!(ends, [None, near.clone(), near, next.clone(), next, None]);
    }
}
