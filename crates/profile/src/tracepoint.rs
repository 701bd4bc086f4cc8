//! Tracepoints: their numbers and fields, which the kernel tells in tracefs.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use measure::Problem;

/// Bytes of a description that are read.
const LONGEST_FORMAT: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    /// The number that `perf_event_attr.config` takes.
    pub(crate) number: u64,
    /// The field that samples weigh by.
    pub(crate) field: Option<Field>,
}

/// A number in a tracepoint's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) offset: i16,
    /// 4 or 8 bytes.
    pub(crate) size: u8,
}

impl Tracepoint {
    /// The tracepoint `category:name`, and one of its fields; an error where the kernel has none, or does not show it.
    pub(crate) fn find(name: &str, field: Option<&str>) -> Result<Self, Problem> {
        let events = linux::tracefs::tracepoints().map_err(|error| not_readable(name, &error))?;
        Self::find_in(&events.folder, name, field)
    }

    fn find_in(events: &Path, name: &str, field: Option<&str>) -> Result<Self, Problem> {
        let folder: PathBuf = name.split(':').fold(events.to_owned(), |at, it| at.join(it));
        let read = |file: &str| read(&folder.join(file)).map_err(|e| unknown(name, events, &e));
        let number = read("id")?;
        let number = number.trim().parse();
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let number = number.map_err(|_| unknown(name, events, &invalid()))?;
        let find = |field: &str| {
            Field::of(&read("format")?, field).map(Some).ok_or_else(|| {
                Problem::new(
                    format!("the tracepoint {name} has no number called {field}"),
                    folder.join("format").display(),
                    "use the event that counts calls",
                )
            })
        };
        Ok(Self { number, field: field.map_or(Ok(None), find)? })
    }
}

impl Field {
    /// A field of a tracepoint, from its description: `field:unsigned long len; offset:24; size:8; signed:0;`.
    fn of(format: &str, wanted: &str) -> Option<Self> {
        format.lines().find_map(|line| {
            let mut parts = line.trim().split(';').map(str::trim);
            let declared = parts.next()?.strip_prefix("field:")?;
            let (_, name) = declared.rsplit_once([' ', '*'])?;
            if name != wanted {
                return None;
            }
            let (mut offset, mut size) = (None, None);
            for part in parts {
                match part.split_once(':') {
                    Some(("offset", value)) => offset = value.parse::<i16>().ok(),
                    Some(("size", value)) => size = value.parse::<u8>().ok(),
                    _ => {}
                }
            }
            let (offset, size) = (offset?, size?);
            let is_aligned = offset >= 8 && offset % i16::from(size) == 0;
            (matches!(size, 4 | 8) && is_aligned).then_some(Self { offset, size })
        })
    }

    /// Its value in the raw part of a sample, which begins with its length in 32 bits.
    pub(crate) fn value(self, raw: &[u8]) -> Option<u64> {
        let at = usize::try_from(self.offset).ok()?.checked_add(4)?;
        let bytes = raw.get(at..at.checked_add(self.size.into())?)?;
        match self.size {
            4 => bytes.try_into().ok().map(u32::from_ne_bytes).map(u64::from),
            _ => bytes.try_into().ok().map(u64::from_ne_bytes),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(LONGEST_FORMAT).read_to_string(&mut text)?;
    Ok(text)
}

fn not_readable(name: &str, error: &io::Error) -> Problem {
    Problem::new(
        format!("the tracepoint {name} cannot be opened"),
        format!("tracefs is not mounted, or not readable for this user ({error})"),
        "run as root, or as root: mount -t tracefs tracefs /sys/kernel/tracing",
    )
}

fn unknown(name: &str, events: &Path, error: &io::Error) -> Problem {
    let (cause, help) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("this kernel has no tracepoint {name}"),
            format!("`ls {0} {0}/sched` lists those it has", events.display()),
        ),
        _ => (format!("the tracepoint {name} cannot be opened"), "run as root".to_owned()),
    };
    Problem::new(cause, error, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sys_enter_mmap\nID: 101\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long addr;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long len;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;\n\nprint fmt: \"len: 0x%08lx\"\n";

    #[test]
    fn numbers_and_fields_are_read_from_tracefs() {
        let events = tempfile::tempdir().unwrap();
        let folder = events.path().join("syscalls/sys_enter_mmap");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("id"), "101\n").unwrap();
        std::fs::write(folder.join("format"), FORMAT).unwrap();
        let find = |name, field| Tracepoint::find_in(events.path(), name, field);
        let mmap = find("syscalls:sys_enter_mmap", Some("len")).unwrap();
        let field = Field { offset: 24, size: 8 };
        assert_eq!((mmap.number, mmap.field), (101, Some(field)));
        assert_eq!(find("syscalls:sys_enter_mmap", None).unwrap().field, None);
        let text = |name, field| find(name, field).unwrap_err().sentence();
        let none = text("syscalls:sys_enter_nmap", None);
        assert!(none.contains("no tracepoint syscalls:sys_enter_nmap"), "{none}");
        for field in ["length", "comm[16]", "common_type", ""] {
            let none = text("syscalls:sys_enter_mmap", Some(field));
            assert!(none.contains("no number called"), "{none}");
        }
        std::fs::write(folder.join("id"), "none").unwrap();
        assert!(find("syscalls:sys_enter_mmap", None).is_err());
    }

    #[test]
    fn without_tracefs_the_remedy_is_told() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let text = not_readable("sched:sched_switch", &denied).sentence();
        assert!(text.contains("run as root") && text.contains("mount -t tracefs"), "{text}");
    }

    #[test]
    fn a_field_is_taken_from_a_sample_of_any_length() {
        let mut raw = 40u32.to_ne_bytes().to_vec();
        raw.extend((0..5u64).flat_map(u64::to_ne_bytes));
        let field = |offset, size| Field { offset, size };
        assert_eq!(field(24, 8).value(&raw), Some(3));
        assert_eq!(field(24, 4).value(&raw), Some(3));
        for len in 0..36 {
            assert_eq!(field(24, 8).value(&raw[..len]), None);
        }
        assert_eq!(field(i16::MAX, 8).value(&raw), None);
        assert_eq!(field(-8, 8).value(&raw), None);
    }
}
