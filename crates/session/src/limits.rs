//! The cores that a process may use: its affinity, and the quotas of its control groups. Two processes
//! of one machine need not share any.

use std::collections::BTreeSet;
use std::fs;

/// What one process may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    /// Processors, by number.
    cpus: BTreeSet<u32>,
    /// Cores worth of time, and the control group that allows no more.
    quota: Option<(f64, String)>,
}

/// What two processes of one machine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    /// Cores, of both.
    pub(crate) cores: u32,
    /// They have no core in common: neither takes time from the other.
    pub(crate) apart: bool,
    /// That is all that the machine has.
    pub(crate) whole: bool,
}

impl Limits {
    /// Those of a process; `None` where it is gone.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let status = fs::read(format!("/proc/{pid}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let allowed = |line: &str| line.strip_prefix("Cpus_allowed_list:").map(cpu_list);
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Some(Self {
            cpus: status.lines().find_map(allowed)?,
            quota: quota(&groups, &|path| fs::read_to_string(path).ok()),
        })
    }

    /// Cores that the process may use at once.
    fn cores(&self) -> f64 {
        let all = self.cpus.len() as f64;
        self.quota.as_ref().map_or(all, |(quota, _)| quota.min(all))
    }

    /// What the two may use, on a machine of so many cores (0: nobody knows).
    pub(crate) fn together(&self, other: &Self, machine: u32) -> Together {
        let all = self.cpus.union(&other.cpus).count() as f64;
        let one_group = match (&self.quota, &other.quota) {
            (Some((quota, one)), Some((_, other))) if one == other => Some(*quota),
            _ => None,
        };
        let cores = one_group
            .unwrap_or(self.cores() + other.cores())
            .min(all)
            .max(1.0);
        Together {
            cores: cores.ceil() as u32,
            apart: self.cpus.is_disjoint(&other.cpus),
            whole: cores >= f64::from(machine),
        }
    }
}

/// The cores of the machine, as far as this process's control groups let anybody in them use them. An
/// affinity that somebody gave to bellows alone does not make the machine smaller.
pub(crate) fn machine_cores() -> u32 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &str| fs::read_to_string(path).ok();
    let usable = |path: &str| read(path).map(|list| cpu_list(&list));
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.map(|group| format!("{UNIFIED}{group}/cpuset.cpus.effective"));
    let cpus = own
        .and_then(|path| usable(&path))
        .or_else(|| usable("/sys/devices/system/cpu/online"))
        .map_or(0, |cpus| cpus.len());
    if cpus == 0 {
        return crate::hardware::cores();
    }
    let quota = quota(&groups, &read).map_or(f64::INFINITY, |(quota, _)| quota);
    quota.min(cpus as f64).ceil().max(1.0) as u32
}

/// `0-3,8`. No machine has more than 65,536 processors, so larger numbers are left out.
fn cpu_list(text: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&cpu| cpu < 1 << 16);
    text.split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((from, to)) => Some(number(from)?..=number(to)?),
            None => number(part).map(|cpu| cpu..=cpu),
        })
        .flatten()
        .collect()
}

/// Where control groups are, of version 2, and those of version 1 that limit CPU time.
const UNIFIED: &str = "/sys/fs/cgroup";
const CPU: &str = "/sys/fs/cgroup/cpu";

/// The smallest quota of the control groups in `/proc/PID/cgroup` (cgroups(7)) and of those that they
/// lie in: `0::/path` of version 2, `4:cpu,cpuacct:/path` of version 1.
fn quota(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<(f64, String)> {
    let mut smallest: Option<(f64, String)> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
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

    fn limits(cpus: &str, quota: Option<(f64, &str)>) -> Limits {
        Limits {
            cpus: cpu_list(cpus),
            quota: quota.map(|(cores, group)| (cores, group.to_owned())),
        }
    }

    #[test]
    fn what_two_may_use_is_the_union_within_their_quotas() {
        let free = |cpus| limits(cpus, None);
        let within = |cpus, cores, group| limits(cpus, Some((cores, group)));
        for (one, other, machine, cores, apart, whole) in [
            (free("1"), free("0-1"), 2, 2, false, true),
            (free("0-1"), free("0-1"), 2, 2, false, true),
            (free("1"), free("0"), 2, 2, true, true),
            (free("0"), free("0"), 2, 1, false, false),
            (free("0-3"), free("4-7"), 64, 8, true, false),
            (
                within("0-7", 2.0, "/a"),
                within("0-7", 2.0, "/a"),
                8,
                2,
                false,
                false,
            ),
            (
                within("0-7", 2.0, "/a"),
                within("0-7", 1.5, "/b"),
                8,
                4,
                false,
                false,
            ),
            (within("0-7", 2.0, "/a"), free("0-7"), 8, 8, false, true),
            (
                within("0", 0.5, "/a"),
                within("0", 0.5, "/a"),
                1,
                1,
                false,
                true,
            ),
        ] {
            let expected = Together {
                cores,
                apart,
                whole,
            };
            assert_eq!(one.together(&other, machine), expected, "{one:?} {other:?}");
            assert_eq!(other.together(&one, machine), expected, "{other:?} {one:?}");
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
        assert_eq!(
            found("7:memory:/x\n4:cpu,cpuacct:/x/y\n0::/a\n"),
            Some((0.5, "/sys/fs/cgroup/cpu/x".into()))
        );
        assert_eq!(found("nonsense\n::\n"), None);
    }

    #[test]
    fn this_process_has_limits_within_the_machine() {
        let own = Limits::of(std::process::id()).unwrap();
        let cores = crate::hardware::cores();
        assert!(
            own.cores() <= f64::from(cores) && own.cores() > 0.0,
            "{own:?}"
        );
        assert!(machine_cores() >= cores);
        assert_eq!(Limits::of(u32::MAX), None);
    }
}
