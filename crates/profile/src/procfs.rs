//! What `/proc` tells of a process and of the kernel's settings.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// What matters of `/proc/PID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) name: String,
    /// `R`, `S`, …, `Z` for a process that has ended but was not waited for.
    pub(crate) state: char,
    /// The thread group: the process that a thread belongs to.
    pub(crate) tgid: u32,
    /// Effective user.
    pub(crate) uid: u32,
    /// The process's number in its own pid namespace.
    pub(crate) inner_pid: u32,
    /// Threads of the kernel have no memory of their own.
    pub(crate) has_memory: bool,
}

impl Status {
    /// Of a process or thread.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let bytes = fs::read(format!("/proc/{pid}/status"))?;
        Ok(Self::parse(&String::from_utf8_lossy(&bytes), pid))
    }

    fn parse(text: &str, pid: u32) -> Self {
        let mut status = Self {
            state: '?',
            tgid: pid,
            inner_pid: pid,
            ..Self::default()
        };
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match key {
                "Name" => status.name = value.to_owned(),
                "State" => status.state = value.chars().next().unwrap_or('?'),
                "Tgid" => status.tgid = value.parse().unwrap_or(pid),
                // real, effective, saved, file system
                "Uid" => status.uid = number(value.split_whitespace().nth(1)).unwrap_or(0),
                // One per namespace, the innermost last.
                "NSpid" => {
                    status.inner_pid = number(value.split_whitespace().last()).unwrap_or(pid);
                }
                "VmSize" => status.has_memory = true,
                _ => {}
            }
        }
        status
    }
}

fn number(text: Option<&str>) -> Option<u32> {
    text?.parse().ok()
}

/// When a process started, by the wall clock as it stands now, to a hundredth of a second.
pub(crate) fn started(pid: u32) -> Option<SystemTime> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The second field is the name, in parentheses and of any characters; the 22nd is the start, in
    // ticks since the machine was started.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = Duration::try_from(up).ok()?;
    let started =
        Duration::from_nanos(1_000_000_000 / per_second).checked_mul(u32::try_from(ticks).ok()?)?;
    SystemTime::now().checked_sub(up.checked_sub(started)?)
}

/// The numbers of a process's threads, in ascending order; empty where it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut tids: Vec<u32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    tids.sort_unstable();
    tids
}

/// A thread's name.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(
        String::from_utf8_lossy(&bytes)
            .trim_end_matches('\n')
            .to_owned(),
    )
}

/// A setting of the kernel: `kernel.perf_event_paranoid`.
pub(crate) fn sysctl(name: &str) -> Option<i64> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The processors that are switched on.
pub(crate) fn online_cpus() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(&list);
    if cpus.is_empty() {
        // Without sysfs: as many as this process may use, counted from 0.
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        return (0..u32::try_from(count).unwrap_or(1)).collect();
    }
    cpus
}

/// `0-3,8,10-11`. No machine has more than 65,536 processors, so larger numbers are left out.
fn cpu_list(text: &str) -> Vec<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&cpu| cpu < 1 << 16);
    text.split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((from, to)) => Some(number(from)?..=number(to)?),
            None => number(part).map(|cpu| cpu..=cpu),
        })
        .flatten()
        .collect()
}

/// One executable mapping of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    /// As the kernel prints it, unescaped: a path, `[vdso]`, `//anon`, or nothing.
    pub(crate) path: String,
    /// The file has no name any more.
    pub(crate) deleted: bool,
}

/// The executable mappings of a process, in the order of addresses; `None` where it has ended or
/// they may not be read.
pub(crate) fn maps(pid: u32) -> Option<Vec<Mapping>> {
    let bytes = fs::read(format!("/proc/{pid}/maps")).ok()?;
    // A process that has ended still shows an empty file until it is waited for.
    (!bytes.is_empty()).then(|| parse_maps(&String::from_utf8_lossy(&bytes)))
}

fn parse_maps(text: &str) -> Vec<Mapping> {
    let mut maps: Vec<_> = text.lines().filter_map(parse_mapping).collect();
    maps.sort_by_key(|m| m.start);
    maps
}

/// `560f081dc000-560f081f0000 r-xp 00003000 fe:00 247741                     /usr/bin/sed`
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let (field, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        field
    };
    let (range, permissions, offset, _device, inode) =
        (field(), field(), field(), field(), field());
    let path = rest.trim_start();
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        path: path.replace("\\012", "\n"),
        deleted,
    })
}

/// Whether a mapping is of a file with code in it, rather than of memory that a compiler fills.
pub(crate) fn is_file(mapping: &Mapping) -> bool {
    let anonymous = ["/memfd:", "/dev/zero", "/SYSV", "//anon", "/anon_hugepage"];
    mapping.path.starts_with('/') && !anonymous.iter().any(|a| mapping.path.starts_with(a))
}

/// A path of the process's own file system, as seen from here.
pub(crate) fn in_root_of(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_the_inner_pid_and_kernel_threads_apart() {
        let text = "Name:\tbeam.smp\nState:\tS (sleeping)\nTgid:\t40\nPid:\t41\n\
                    Uid:\t1\t102\t3\t4\nNSpid:\t41\t7\nVmSize:\t   12 kB\n";
        let status = Status::parse(text, 41);
        assert_eq!((status.name.as_str(), status.state), ("beam.smp", 'S'));
        assert_eq!((status.tgid, status.uid, status.inner_pid), (40, 102, 7));
        assert!(status.has_memory);
        let status = Status::parse("Name:\tkthreadd\nUid:\tx\ngarbage", 2);
        assert_eq!(
            (status.uid, status.inner_pid, status.has_memory),
            (0, 2, false)
        );
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(cpu_list("0-1\n"), [0, 1]);
        assert_eq!(cpu_list("0,2-3,7"), [0, 2, 3, 7]);
        assert!(cpu_list("").is_empty());
        assert!(cpu_list("3-1,x,-,0-99999999").is_empty());
    }

    #[test]
    fn only_executable_mappings_are_kept_with_any_path() {
        let text = "\
7faf1eacd000-7faf1eaf3000 r--p 00000000 fe:00 326269                     /usr/lib/libc.so.6
7faf1eaf3000-7faf1ec49000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6
1000-2000 rwxp 00000000 00:00 0 
3000-4000 r-xp 00001000 fe:00 9          /opt/with space/a\\012b (deleted)
nonsense
5000-6000 r-xp zz fe:00 9 /x
ffff-10000 r-xp 00000000 00:00 0                          [vdso]";
        let maps = parse_maps(text);
        let paths: Vec<_> = maps.iter().map(|m| m.path.as_str()).collect();
        assert_eq!(
            paths,
            ["", "/opt/with space/a\nb", "[vdso]", "/usr/lib/libc.so.6"]
        );
        let last = &maps[3];
        assert_eq!(
            (last.start, last.offset, last.inode),
            (0x7faf_1eaf_3000, 0x26000, 326_269)
        );
        assert!(maps[1].deleted && is_file(&maps[1]) && !is_file(&maps[0]) && !is_file(&maps[2]));
    }

    #[test]
    fn this_process_is_found() {
        let pid = std::process::id();
        let status = Status::of(pid).expect("status");
        assert!(status.has_memory && status.tgid == pid);
        assert!(threads(pid).contains(&pid));
        let exe = std::env::current_exe().unwrap();
        let maps = maps(pid).expect("maps");
        assert!(maps.iter().any(|m| Path::new(&m.path) == exe));
        assert!(!online_cpus().is_empty());
        let age = SystemTime::now().duration_since(started(pid).expect("start"));
        assert!(age.is_ok_and(|age| age < Duration::from_secs(3600)));
        assert!(Status::of(u32::MAX).is_err());
    }
}
