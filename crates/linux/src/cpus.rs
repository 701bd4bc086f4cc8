//! Processors, by number.

use std::collections::BTreeSet;
use std::fs;

/// The processors that are switched on.
#[must_use]
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
#[must_use]
pub fn end() -> u32 {
    online().last().map_or(1, |last| last.saturating_add(1))
}

/// Cores that this process may use, by its affinity and its control group's quota.
#[must_use]
pub fn usable() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
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
}
