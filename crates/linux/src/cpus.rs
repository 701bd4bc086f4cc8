//! Processors, by number, and those that a process may use: its affinity, and the quotas of its control groups. Two
//! processes of one machine need not share any.

use std::collections::BTreeSet;
use std::fs;

/// The processors that are switched on.
pub fn online() -> BTreeSet<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(&list);
    if cpus.is_empty() {
        // Without sysfs: as many as this process may use, counted from 0.
        return (0..usable()).collect();
    }
    cpus
}

/// One more than the highest number of a processor that is switched on.
pub fn end() -> u32 {
    online().last().map_or(1, |last| last.saturating_add(1))
}

/// Cores that this process may use, by its affinity and its control group's quota.
pub fn usable() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Reads `0-3,8`. No machine has more than 65,536 processors, so larger numbers are left out.
pub(crate) fn cpu_list(text: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&cpu| cpu < 1 << 16);
    text.split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((from, to)) => Some(number(from)?..=number(to)?),
            None => number(part).map(|cpu| cpu..=cpu),
        })
        .flatten()
        .collect()
}

/// CPU limits of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuLimits {
    cpus: BTreeSet<u32>,
    /// Cores worth of time, and the control group that allows no more.
    quota: Option<(f64, String)>,
}

/// Cores of two processes on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinedCores {
    /// Cores that at least one of them may use.
    pub cores: u32,
    /// They have no core in common: neither takes time from the other.
    pub disjoint: bool,
    /// `cores` is all that the machine has.
    pub whole_machine: bool,
}

impl CpuLimits {
    /// The limits of a process; `None` where it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let status = crate::read_lossy(format!("/proc/{pid}/status")).ok()?;
        let allowed = |line: &str| line.strip_prefix("Cpus_allowed_list:").map(cpu_list);
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Some(Self {
            cpus: status.lines().find_map(allowed)?,
            quota: quota(&groups, &|path| fs::read_to_string(path).ok()),
        })
    }

    fn cores(&self) -> f64 {
        let all = self.cpus.len() as f64;
        self.quota.as_ref().map_or(all, |(quota, _)| quota.min(all))
    }

    /// The cores that the two may use, on a machine of `machine` cores (0: unknown).
    pub fn combined(&self, other: &Self, machine: u32) -> CombinedCores {
        let all = self.cpus.union(&other.cpus).count() as f64;
        let one_group = match (&self.quota, &other.quota) {
            (Some((quota, one)), Some((_, other))) if one == other => Some(*quota),
            _ => None,
        };
        let cores = one_group.unwrap_or(self.cores() + other.cores()).min(all).max(1.0);
        CombinedCores {
            cores: cores.ceil() as u32,
            disjoint: self.cpus.is_disjoint(&other.cpus),
            whole_machine: cores >= f64::from(machine),
        }
    }
}

/// Where control groups are, of version 2, and those of version 1 that limit CPU time.
pub(crate) const UNIFIED: &str = "/sys/fs/cgroup";
const CPU: &str = "/sys/fs/cgroup/cpu";

/// The smallest quota of the control groups in `/proc/PID/cgroup` (cgroups(7)) and of those that they
/// lie in: `0::/path` of version 2, `4:cpu,cpuacct:/path` of version 1.
pub(crate) fn quota(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<(f64, String)> {
    let mut smallest: Option<(f64, String)> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let mount = match controllers {
            "" => UNIFIED,
            list if list.split(',').any(|controller| controller == "cpu") => CPU,
            _ => continue,
        };
        // Outside of what we see of the tree.
        if path.split('/').any(|part| part == "..") {
            continue;
        }
        let mut path = path.trim_end_matches('/');
        loop {
            let group = format!("{mount}{path}");
            let found = quota_of(&group, mount == UNIFIED, read);
            if let Some(cores) = found.filter(|it| smallest.as_ref().is_none_or(|s| *it < s.0)) {
                smallest = Some((cores, group));
            }
            match path.rfind('/') {
                Some(end) => path = path.get(..end).unwrap_or_default(),
                None => break,
            }
        }
    }
    smallest
}

/// The cores that one control group allows; `None` without a limit.
fn quota_of(group: &str, unified: bool, read: &dyn Fn(&str) -> Option<String>) -> Option<f64> {
    let text = if unified {
        read(&format!("{group}/cpu.max"))?
    } else {
        let file = |name| read(&format!("{group}/cpu.cfs_{name}_us"));
        format!("{} {}", file("quota")?.trim(), file("period")?)
    };
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<f64>);
    // `max` or -1: no limit.
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        let list = |text| cpu_list(text).into_iter().collect::<Vec<_>>();
        assert_eq!(list("0-1\n"), [0, 1]);
        assert_eq!(list("0,2-3,7"), [0, 2, 3, 7]);
        assert!(list("").is_empty());
        assert!(list("3-1,x,-,0-99999999").is_empty());
        assert!(!online().is_empty());
    }

    fn limits(cpus: &str, quota: Option<(f64, &str)>) -> CpuLimits {
        CpuLimits { cpus: cpu_list(cpus), quota: quota.map(|(cores, group)| (cores, group.to_owned())) }
    }

    #[test]
    fn what_two_may_use_is_the_union_within_their_quotas() {
        let free = |cpus| limits(cpus, None);
        let within = |cpus, cores, group| limits(cpus, Some((cores, group)));
        for (one, other, machine, cores, disjoint, whole_machine) in [
            (free("1"), free("0-1"), 2, 2, false, true),
            (free("0-1"), free("0-1"), 2, 2, false, true),
            (free("1"), free("0"), 2, 2, true, true),
            (free("0"), free("0"), 2, 1, false, false),
            (free("0-3"), free("4-7"), 64, 8, true, false),
            (within("0-7", 2.0, "/a"), within("0-7", 2.0, "/a"), 8, 2, false, false),
            (within("0-7", 2.0, "/a"), within("0-7", 1.5, "/b"), 8, 4, false, false),
            (within("0-7", 2.0, "/a"), free("0-7"), 8, 8, false, true),
            (within("0", 0.5, "/a"), within("0", 0.5, "/a"), 1, 1, false, true),
        ] {
            let expected = CombinedCores { cores, disjoint, whole_machine };
            assert_eq!(one.combined(&other, machine), expected, "{one:?} {other:?}");
            assert_eq!(other.combined(&one, machine), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn quotas_of_both_versions_are_read_up_to_the_root() {
        let files = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/a/b/cpu.max" => "max 100000\n",
                "/sys/fs/cgroup/a/cpu.max" => "150000 100000\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us" => "50000\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us" => "100000\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us" => "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us" => "100000\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let found = |groups| quota(groups, &files);
        assert_eq!(found("0::/a/b\n"), Some((1.5, "/sys/fs/cgroup/a".into())));
        assert_eq!(found("0::/\n"), None);
        assert_eq!(found("0::/../a\n"), None);
        assert_eq!(found("7:memory:/x\n4:cpu,cpuacct:/x/y\n0::/a\n"), Some((0.5, "/sys/fs/cgroup/cpu/x".into())));
        assert_eq!(found("nonsense\n::\n"), None);
    }

    #[test]
    fn this_process_has_limits_within_the_machine() {
        let own = CpuLimits::of(std::process::id()).unwrap();
        let cores = usable();
        assert!(own.cores() <= f64::from(cores) && own.cores() > 0.0, "{own:?}");
        assert_eq!(CpuLimits::of(u32::MAX), None);
    }
}
