//! The machine as a whole: its cores, memory, settings and CPU time.

use std::fs;

use crate::cpus::{self, UNIFIED, cpu_list, quota};
use crate::value;

/// A setting of the kernel, such as `kernel.perf_event_paranoid`.
pub fn sysctl(name: &str) -> Option<i64> {
    fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?.trim().parse().ok()
}

/// Whether this process is in a user namespace, whose root and whose capabilities are none to the kernel itself.
pub fn in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps_everybody(&map))
}

/// Whether the users of a namespace are those of the machine, as in its first one.
fn maps_everybody(uid_map: &str) -> bool {
    let first = ["0", "0", "4294967295"];
    uid_map.split_whitespace().eq(first)
}

/// Changes with every boot; empty where the kernel does not tell.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The cores of the machine, as far as this process's control groups let anybody in them use them. An
/// affinity that somebody gave to bellows alone does not make the machine smaller.
pub fn cores() -> u32 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &str| fs::read_to_string(path).ok();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.and_then(|group| read(&format!("{UNIFIED}{group}/cpuset.cpus.effective")));
    let cpus = own.map(|list| cpu_list(&list)).filter(|cpus| !cpus.is_empty()).unwrap_or_else(cpus::online);
    let quota = quota(&groups, &read).map_or(f64::INFINITY, |(quota, _)| quota);
    quota.min(cpus.len() as f64).ceil().max(1.0) as u32
}

/// Bytes of memory that the machine has; `None` where it does not tell.
pub fn memory_bytes() -> Option<u64> {
    total_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Bytes of memory that the machine has, or this container may use; `u64::MAX` where neither tells.
pub fn usable_memory_bytes() -> u64 {
    let container = fs::read_to_string(format!("{UNIFIED}/memory.max"));
    let container = container.ok().and_then(|text| text.trim().parse().ok());
    let machine = memory_bytes().unwrap_or(u64::MAX);
    container.map_or(machine, |container: u64| container.min(machine))
}

fn total_memory(meminfo: &str) -> Option<u64> {
    Some(value(meminfo, "MemTotal")?.saturating_mul(1024))
}

/// CPU time of the machine since it started, in ticks over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// All ticks, whatever they were used for.
    pub total: u64,
    /// Ticks in which nobody ran.
    pub idle: u64,
    /// Ticks that the hypervisor gave to others.
    pub steal: u64,
    /// Cores that are online.
    pub cores: u32,
}

impl CpuTicks {
    /// Ticks up to now.
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`; user time has guest time (proc(5)).
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let fields = lines.next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let ticks: Vec<u64> = fields.take(8).map(|field| field.parse().unwrap_or(0)).collect();
        let cores = lines.take_while(|line| line.starts_with("cpu")).count();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        Some(Self {
            total: ticks.iter().fold(0, |sum, ticks| sum.saturating_add(*ticks)),
            idle: at(3).saturating_add(at(4)),
            steal: at(7),
            cores: u32::try_from(cores).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_seen() {
        assert!(cores() >= cpus::usable());
        assert!(memory_bytes().unwrap() > 100_000_000);
        assert!(usable_memory_bytes() <= memory_bytes().unwrap());
        assert!(CpuTicks::read().unwrap().cores >= 1);
        assert!([0, 36].contains(&boot_id().len()));
    }

    #[test]
    fn the_users_of_a_namespace_are_told_from_the_machines() {
        assert!(maps_everybody("         0          0 4294967295\n"));
        for inside in ["0 1000 1\n", "0 100000 65536\n", "0 0 1\n1 100000 65536\n", ""] {
            assert!(!maps_everybody(inside), "{inside:?}");
        }
    }

    #[test]
    fn files_are_understood() {
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:     2048 kB\n"), Some(2 << 20));
        assert_eq!(total_memory("MemTotal: x kB"), None);
        let ticks = CpuTicks::parse("cpu  10 20 30 400 50 6 7 80 9 9\ncpu0 1 2").unwrap();
        let expected = CpuTicks { total: 603, idle: 450, steal: 80, cores: 1 };
        assert_eq!(ticks, expected);
        assert_eq!(CpuTicks::parse(""), None);
    }
}
