//! A sorted table from addresses to names.

use std::fmt::{self, Write as _};

use cpp_demangle::{DemangleOptions, Symbol};
use stacks::Frame;

/// A function that is farther away is of another file.
const FARTHEST_NEIGHBOUR: u64 = 64 << 10;

/// How much a name is preferred where several stand for one address, as `perf` prefers them: a sized one, then a strong
/// one, then a global one, then the one with fewer leading underscores, then the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) weak: bool,
    pub(crate) global: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    /// First address after it; 0 until [`Builder::build`] has found it.
    end: u64,
    name: u32,
    len: u32,
    binding: Binding,
}

/// Names by address. Entries may nest; the one that begins last is found.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    names: String,
}

#[derive(Debug, Default)]
pub(crate) struct Builder {
    table: Table,
}

impl Builder {
    /// Adds a symbol; size 0 means up to the next one.
    pub(crate) fn add(&mut self, start: u64, size: u64, name: &str, binding: Binding) {
        let table = &mut self.table;
        // Offsets are 32 bits wide: the names of no program come near 4 GB.
        let (Ok(at), Ok(len)) = (u32::try_from(table.names.len()), u32::try_from(name.len())) else { return };
        table.names.push_str(name);
        table.entries.push(Entry { start, end: start.saturating_add(size), name: at, len, binding });
    }

    /// Adds functions that begin at these addresses and have no name of their own, each as [`Frame::near`] the one with
    /// a name that is nearest: of the same source file, mostly. Where none is near, by how far into `file` they are.
    pub(crate) fn add_neighbours(&mut self, file: &str, mut starts: Vec<u64>) {
        let table = &mut self.table;
        table.entries.sort_by_key(|entry| entry.start);
        starts.sort_unstable();
        starts.dedup();
        let next = starts.iter().skip(1).copied().chain([u64::MAX]);
        let mut found = Vec::new();
        for (&start, next) in starts.iter().zip(next) {
            let after = table.entries.partition_point(|entry| entry.start <= start);
            let before = after.checked_sub(1).and_then(|at| table.entries.get(at));
            if before.is_some_and(|before| before.start == start || start < before.end) {
                continue;
            }
            let neighbours = before.into_iter().chain(table.entries.get(after));
            let gap = |entry: &&Entry| start.abs_diff(entry.end.min(entry.start.max(start)));
            let nearest = neighbours.min_by_key(gap);
            let size = next.min(start.saturating_add(FARTHEST_NEIGHBOUR)) - start;
            let name = match nearest.filter(|entry| gap(entry) <= FARTHEST_NEIGHBOUR) {
                Some(nearest) => Frame::near(&demangle(text(&table.names, nearest)), nearest.start, start),
                None => Frame::near(file, 0, start),
            };
            found.push((start, size, name));
        }
        for (start, size, name) in found {
            self.add(start, size, &name, Binding::default());
        }
    }

    /// Sorts, keeps each address's best name, and gives symbols without a size the room up to the next, or to `limit`.
    pub(crate) fn build(self, limit: u64) -> Table {
        let mut table = self.table;
        let names = &table.names;
        table.entries.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| rank(b, names).cmp(&rank(a, names))));
        table.entries.dedup_by_key(|entry| entry.start);
        let starts: Vec<u64> = table.entries.iter().map(|entry| entry.start).collect();
        for (entry, next) in table.entries.iter_mut().zip(starts.into_iter().skip(1).chain([limit])) {
            if entry.end == entry.start {
                entry.end = next;
            }
        }
        table.entries.shrink_to_fit();
        table.names.shrink_to_fit();
        table
    }
}

/// Larger is better.
fn rank<'n>(entry: &Entry, names: &'n str) -> (bool, bool, bool, std::cmp::Reverse<usize>, u32, &'n str) {
    let name = text(names, entry);
    let underscores = name.len() - name.trim_start_matches('_').len();
    let sized = entry.end > entry.start;
    let Binding { weak, global } = entry.binding;
    (sized, !weak, global, std::cmp::Reverse(underscores), entry.len, name)
}

fn text<'n>(names: &'n str, entry: &Entry) -> &'n str {
    let start = entry.name as usize;
    names.get(start..start + entry.len as usize).unwrap_or("")
}

impl Table {
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        (address < entry.end).then(|| text(&self.names, entry))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Longer names are left as they are: 300 bytes of a template can unfold to gigabytes.
const LONGEST: usize = 4096;

/// A text that takes no more than [`LONGEST`] bytes.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

fn demangle_rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut text = Bounded::default();
    write!(text, "{name:#}").ok().map(|()| text.0)
}

fn demangle_cpp(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") || symbol.len() > LONGEST {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut text = Bounded::default();
    Symbol::new(symbol).ok()?.structured_demangle(&mut text, &options).ok().map(|()| text.0)
}

/// A symbol's name: Rust's and C++'s demangled, without hashes and arguments; versions (`memcpy@@GLIBC_2.14`) cut off.
pub(crate) fn demangle(symbol: &str) -> String {
    // A place near a function, whose name was written out already.
    if symbol.starts_with('[') {
        return symbol.to_owned();
    }
    if let Some(name) = demangle_rust(symbol).or_else(|| demangle_cpp(symbol)) {
        return name;
    }
    match symbol.split_once('@') {
        // `getenv@plt` is not `getenv`.
        Some((name, version)) if !name.is_empty() && version != "plt" => name.to_owned(),
        _ => symbol.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBAL: Binding = Binding { weak: false, global: true };
    const WEAK: Binding = Binding { weak: true, global: true };
    const LOCAL: Binding = Binding { weak: false, global: false };

    #[test]
    fn addresses_find_the_symbol_that_covers_them() {
        let mut builder = Builder::default();
        builder.add(300, 0, "open_end", LOCAL);
        builder.add(100, 50, "sized", GLOBAL);
        builder.add(200, 0, "unsized", LOCAL);
        let table = builder.build(400);
        for (addresses, name) in [
            (&[99, 150, 400, u64::MAX][..], None),
            (&[100, 149], Some("sized")),
            (&[200, 299], Some("unsized")),
            (&[399], Some("open_end")),
        ] {
            for address in addresses {
                assert_eq!(table.find(*address), name, "{address}");
            }
        }
        assert_eq!(Builder::default().build(0).find(0), None);
    }

    #[test]
    fn functions_without_names_are_near_the_one_before_them() {
        let mut builder = Builder::default();
        builder.add(0x1000, 0x40, "exported", GLOBAL);
        builder.add(0x2000, 0x10, "_ZN9CodeCache9find_blobEPv", GLOBAL);
        let starts = vec![0x2020, 0x10, 0x1000, 0x1030, 0x1050, 0x1090, 0x1ff0, 0x9_0000];
        builder.add_neighbours("beam.smp", starts);
        let table = builder.build(0x10_0000);
        for [address, name] in testkit::table(include_str!("../../tests/data/neighbours.txt")) {
            let found = table.find(u64::from_str_radix(address, 16).unwrap());
            assert_eq!(found.unwrap_or_default(), name, "{address}");
        }
        let mut hostile = Builder::default();
        hostile.add(u64::MAX - 8, 4, "last", GLOBAL);
        hostile.add_neighbours("", vec![u64::MAX, u64::MAX - 2, 0]);
        assert!(hostile.build(0).find(u64::MAX - 1).is_some());
    }

    #[test]
    fn the_best_of_several_names_is_kept() {
        let names = [
            ("_text", 0, GLOBAL),
            ("local", 8, LOCAL),
            ("weak_and_long_name", 8, WEAK),
            ("__read", 8, GLOBAL),
            ("read", 8, GLOBAL),
        ];
        for turn in 0..names.len() {
            let mut builder = Builder::default();
            for (name, size, binding) in names.iter().cycle().skip(turn).take(names.len()) {
                builder.add(64, *size, name, *binding);
            }
            assert_eq!(builder.build(100).find(65), Some("read"), "turn {turn}");
        }
    }

    #[test]
    fn names_are_as_people_write_them() {
        for (symbol, name) in [
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN9CodeCache9find_blobEPv", "CodeCache::find_blob"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("pthread_getspecific@GLIBC_2.2.5", "pthread_getspecific"),
        ] {
            assert_eq!(demangle(symbol), name);
        }
        for whole in ["getenv@plt", "[near getenv@plt+0x40]", "$rabbit_exchange:route/2", "_Zgarbage", "@@", ""] {
            assert_eq!(demangle(whole), whole);
        }
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays_as_it_is() {
        // Each argument of `f` is an `A` of eight times the one before.
        let levels = (1..10).map(|n| format!("S0_I{}E", format!("S{n}_").repeat(8)));
        let symbol = format!("_Z1fI1AIiiiiiiiiE{}Evv", levels.collect::<String>());
        assert!(Symbol::new(&symbol).is_ok());
        let begun = std::time::Instant::now();
        assert_eq!(demangle(&symbol), symbol);
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }
}
