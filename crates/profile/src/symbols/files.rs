//! Files of a process: where they can be read, and where their addresses lie in the process.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use linux::maps::{self, Mapping};
use object::elf::PF_X;
use object::read::ReadCache;
use object::{Object, ObjectSegment as _, SegmentFlags};

/// Where a mapped file can be read: through the process's own root directory; a deleted one through the mapping itself.
pub(crate) fn files_of(pid: u32, mapping: &Mapping) -> Vec<PathBuf> {
    let by_name = maps::in_root_of(pid, &mapping.path);
    let (start, end) = (mapping.start, mapping.end);
    let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    if mapping.deleted { vec![by_mapping] } else { vec![by_name, by_mapping] }
}

/// Tables of symbols are read whole, and a file of holes may state any length: a longer one has to be on the disk.
const LONGEST: u64 = 256 << 20;
/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Only plain files: a path of another process may name a pipe or a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let on_disk = metadata.blocks().saturating_mul(BLOCK);
    match metadata.is_file() {
        true if metadata.len() <= LONGEST.max(on_disk) => Ok(file),
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

pub(super) fn read_object<T>(
    path: &Path,
    read: impl for<'d> FnOnce(&object::File<'d, &'d ReadCache<File>>) -> T,
) -> io::Result<T> {
    let cache = ReadCache::new(open(path)?);
    let file = object::File::parse(&cache).map_err(io::Error::other)?;
    Ok(read(&file))
}

/// The kernel maps the same image into every process, so ours serves.
pub(crate) fn vdso_image() -> Option<Vec<u8>> {
    let maps = maps::maps(std::process::id())?;
    let vdso = maps.iter().find(|mapping| &*mapping.path == "[vdso]")?;
    let len = usize::try_from(vdso.end.checked_sub(vdso.start)?).ok()?;
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(vdso.start)).ok()?;
    let mut image = vec![0; len];
    memory.read_exact(&mut image).ok()?;
    Some(image)
}

/// Of memory on x86-64: a mapping begins and ends at one.
const PAGE: u64 = 4096;

#[derive(Clone, Debug)]
pub(crate) struct CodeSegments(Vec<Segment>);

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    size: u64,
    /// The address that the file states for its start.
    address: u64,
}

impl CodeSegments {
    pub(crate) fn of<'d>(file: &impl Object<'d>) -> Self {
        let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X));
        let segments = file.segments().filter(|it| is_code(it.flags())).map(|it| {
            let (start, size) = it.file_range();
            Segment { start, size, address: it.address() }
        });
        Self(segments.collect())
    }

    /// Difference between a mapping's addresses and those in the file; `None` where it holds none of these segments.
    pub(crate) fn bias(&self, mapping: &Mapping) -> Option<u64> {
        // Pages are mapped whole. What a linker packs densely shares its first page with the segment before, which is
        // mapped elsewhere, so that the last segment that begins in the page is meant.
        let first_page = |it: &&Segment| it.start - it.start % PAGE;
        let mapped = self
            .0
            .iter()
            .filter(|it| first_page(it) <= mapping.offset && mapping.offset < it.start.saturating_add(it.size));
        let segment = mapped.max_by_key(|it| it.start)?;
        let stated = segment.address.wrapping_sub(segment.start);
        Some(mapping.start.wrapping_sub(stated.wrapping_add(mapping.offset)))
    }
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    #[test]
    fn only_plain_files_that_are_on_the_disk_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        let file = File::create(&path).unwrap();
        for (length, opens) in [(0, true), (LONGEST, true), (LONGEST + 1, false)] {
            file.set_len(length).unwrap();
            assert_eq!(open(&path).is_ok(), opens, "{length}");
        }
        assert!(open(dir.path()).is_err());
        assert!(open(Path::new("/dev/null")).is_err());
    }

    fn mapping(start: u64, end: u64, offset: u64) -> Mapping {
        Mapping { start, end, offset, inode: 0, path: "".into(), deleted: false }
    }

    /// Segments as linkers lay them out: in the order of the file, with or without room between them, each at an
    /// address that lies in its page where the file has it.
    fn segments(random: &mut Random) -> Vec<(Segment, bool)> {
        let packed = random.below(2) == 0;
        let (mut start, mut address) = (0, random.below(4) * 0x20_0000);
        let mut all = Vec::new();
        let count = 1 + random.below(5);
        for number in 0..count {
            let size = PAGE + random.below(5 * PAGE);
            let segment = Segment { start, size, address };
            // Two of code next to each other are joined by every linker.
            let is_code = number % 2 == random.below(2) && !all.last().is_some_and(|it: &(_, bool)| it.1);
            all.push((segment, is_code));
            start += size + random.below(if packed { 64 } else { 3 * PAGE });
            address += size + PAGE * (1 + random.below(3));
            address = address - address % PAGE + start % PAGE;
        }
        all
    }

    #[test]
    fn every_part_of_a_mapped_file_has_the_bias_that_it_was_loaded_with() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let all = segments(&mut random);
            let code = CodeSegments(all.iter().filter(|it| it.1).map(|it| it.0).collect());
            let bias = random.below(1 << 30) * PAGE;
            for (segment, _) in all.iter().filter(|it| it.1) {
                let into = segment.start % PAGE;
                let (start, offset) = (bias + segment.address - into, segment.start - into);
                let pages = (into + segment.size).div_ceil(PAGE);
                // What has other rights for a while is several mappings.
                for page in [0, random.below(pages), pages - 1] {
                    let at = page * PAGE;
                    let part = mapping(start + at, start + pages * PAGE, offset + at);
                    assert_eq!(code.bias(&part), Some(bias), "seed {seed}, page {page}");
                }
            }
        }
        assert_eq!(CodeSegments(Vec::new()).bias(&mapping(0, 1, 0)), None);
    }
}
