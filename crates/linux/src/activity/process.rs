//! Meters of some processes, added up.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::fs::MetadataExt as _;

use super::{Meters, Unit};
use crate::{ProcessId, read_lossy, threads, value};

/// Processes with more have no context switches here: reading a thread takes some 20 microseconds.
const MOST_THREADS: usize = 500;
/// Readings that a member may be missing from before it counts as ended; its number may be another's some time later.
const MOST_MISSED: u32 = 10;

/// Counts of some processes so far. Totals keep the counts of processes and threads that have ended.
#[derive(Clone, Debug, Default)]
pub struct ProcessActivity {
    processes: Growth<ProcessId>,
    threads: Growth<(ProcessId, u32)>,
}

/// Sums of what members have counted, which never go back.
#[derive(Clone, Debug)]
struct Growth<Member> {
    seen: BTreeMap<Member, Seen>,
    sums: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    counts: Vec<u64>,
    /// Readings since then in which it was missing.
    missed: u32,
}

impl<Member> Default for Growth<Member> {
    fn default() -> Self {
        Self { seen: BTreeMap::new(), sums: Vec::new() }
    }
}

impl<Member: Ord> Growth<Member> {
    /// Adds what all that live have counted since they were read last; what is new counts from its beginning. A member
    /// or a count may be missing for some readings, such as one that could not be read in time: it is not new then.
    fn add(&mut self, now: impl IntoIterator<Item = (Member, Vec<u64>)>) {
        for seen in self.seen.values_mut() {
            seen.missed += 1;
        }
        for (member, counts) in now {
            let seen = self.seen.entry(member).or_default();
            seen.missed = 0;
            seen.counts.resize(seen.counts.len().max(counts.len()), 0);
            self.sums.resize(self.sums.len().max(counts.len()), 0.0);
            let before = seen.counts.iter_mut();
            for ((sum, then), count) in self.sums.iter_mut().zip(before).zip(counts) {
                *sum += count.saturating_sub(*then) as f64;
                *then = count;
            }
        }
        self.seen.retain(|_, seen| seen.missed <= MOST_MISSED);
    }
}

impl ProcessActivity {
    /// Reads the meters of these processes; what may not be seen is left out.
    pub fn read(&mut self, pids: &[u32]) -> Meters {
        let mut meters = Meters::default();
        let ids: Vec<ProcessId> = pids.iter().copied().filter_map(ProcessId::of).collect();
        if ids.is_empty() {
            return meters;
        }
        memory(&ids, &mut meters);
        let counts = ids.iter().filter_map(|id| Some((*id, totals(*id)?)));
        self.processes.add(counts.collect::<Vec<_>>());
        let totals = [
            ("page faults", ("kind", "minor"), Unit::Things),
            ("page faults", ("kind", "major"), Unit::Things),
            ("disk", ("direction", "read"), Unit::Bytes),
            ("disk", ("direction", "written"), Unit::Bytes),
        ];
        for ((name, label, unit), sum) in totals.into_iter().zip(&self.processes.sums) {
            meters.total(name, &[label], unit, *sum);
        }
        let threads = ids.iter().flat_map(|id| threads::ids(id.pid).into_iter().map(move |tid| (*id, tid)));
        let threads: Vec<(ProcessId, u32)> = threads.take(MOST_THREADS + 1).collect();
        if threads.len() > MOST_THREADS {
            return meters;
        }
        let switches = threads.into_iter().filter_map(|(id, tid)| {
            let counts = switches(&status(&format!("{}/task/{tid}", id.pid))?)?;
            Some(((id, tid), counts))
        });
        self.threads.add(switches.collect::<Vec<_>>());
        for (kind, sum) in ["waited", "preempted"].into_iter().zip(&self.threads.sums) {
            meters.total("context switches", &[("kind", kind)], Unit::Things, *sum);
        }
        meters
    }
}

fn status(of: &str) -> Option<String> {
    read_lossy(format!("/proc/{of}/status")).ok()
}

/// Resident memory by kind, what was swapped out, threads and open files.
fn memory(ids: &[ProcessId], meters: &mut Meters) {
    let kinds =
        [("anonymous", "RssAnon"), ("mapped files", "RssFile"), ("shared", "RssShmem"), ("swapped out", "VmSwap")];
    let mut sums = [None::<f64>; 4];
    for text in ids.iter().filter_map(|id| status(&id.pid.to_string())) {
        for (sum, (_, key)) in sums.iter_mut().zip(kinds) {
            if let Some(kib) = value(&text, key) {
                *sum = Some(sum.unwrap_or(0.0) + kib as f64 * 1024.0);
            }
        }
    }
    for ((kind, _), sum) in kinds.into_iter().zip(sums) {
        meters.level("memory", &[("kind", kind)], Unit::Bytes, sum);
    }
    // The size of the folder is their number, from Linux 6.2 on; to count them takes long where there are many.
    let open = ids.iter().filter_map(|id| {
        Some(fs::metadata(format!("/proc/{}/fd", id.pid)).ok()?.st_size() as f64).filter(|files| *files > 0.0)
    });
    let open: f64 = open.sum();
    meters.level("open files", &[], Unit::Things, Some(open).filter(|files| *files > 0.0));
}

/// Minor and major faults; then bytes read from and written to disks, where they may be seen.
fn totals(id: ProcessId) -> Option<Vec<u64>> {
    let stat = id.stat()?;
    let mut counts = vec![stat.minor_faults, stat.major_faults];
    let io = read_lossy(format!("/proc/{}/io", id.pid)).unwrap_or_default();
    let bytes = value(&io, "read_bytes").zip(value(&io, "write_bytes"));
    counts.extend(bytes.into_iter().flat_map(|(read, written)| [read, written]));
    Some(counts)
}

/// Switches because it waited, and because another one was to run.
fn switches(status: &str) -> Option<Vec<u64>> {
    let waited = value(status, "voluntary_ctxt_switches")?;
    Some(vec![waited, value(status, "nonvoluntary_ctxt_switches")?])
}

#[cfg(test)]
mod tests {
    use super::super::Amount;
    use super::*;

    fn find(meters: &Meters, name: &str, label: &str) -> Option<f64> {
        let mut all = meters.iter();
        let (_, amount) =
            all.find(|(it, _)| it.name == name && it.labels.first().is_none_or(|(_, value)| value == label))?;
        match amount {
            Amount::Level(value) | Amount::Total(value) => Some(*value),
        }
    }

    #[test]
    fn this_process_has_memory_faults_and_switches() {
        let mut activity = ProcessActivity::default();
        let me = [std::process::id()];
        let before = activity.read(&me);
        let anonymous = |meters: &Meters| find(meters, "memory", "anonymous").unwrap();
        let block = vec![1u8; 64 << 20];
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = activity.read(&me);
        assert!(anonymous(&after) >= anonymous(&before) + 60e6);
        drop(block);
        let faults = |meters: &Meters| find(meters, "page faults", "minor").unwrap();
        assert!(faults(&after) > faults(&before));
        let waited = |meters: &Meters| find(meters, "context switches", "waited").unwrap();
        assert!(waited(&after) > waited(&before));
        assert_eq!(activity.read(&[u32::MAX]), Meters::default());
    }

    #[test]
    fn sums_go_on_when_members_end_or_begin_again() {
        let mut growth = Growth::default();
        growth.add([(1, vec![10, 1]), (2, vec![5, 0])]);
        growth.add([(2, vec![7, 0]), (3, vec![100, 2])]);
        growth.add([(2, vec![8, 0])]);
        assert_eq!(growth.sums, [118.0, 3.0]);
        // A number that is less than before is another member's.
        growth.add([(2, vec![3, 0])]);
        assert_eq!(growth.sums, [118.0, 3.0]);
    }

    #[test]
    fn sums_do_not_jump_when_a_member_or_a_count_is_missing_for_some_readings() {
        let mut growth = Growth::default();
        growth.add([(1, vec![1_000, 500]), (2, vec![10, 0])]);
        growth.add([(2, vec![11, 0])]);
        assert_eq!(growth.sums, [1_011.0, 500.0]);
        growth.add([(1, vec![1_002, 501]), (2, vec![11, 0])]);
        assert_eq!(growth.sums, [1_013.0, 501.0]);
        // What may be seen of a process can be less for a moment.
        growth.add([(1, vec![1_003]), (2, vec![11, 0])]);
        growth.add([(1, vec![1_003, 502]), (2, vec![11, 0])]);
        assert_eq!(growth.sums, [1_014.0, 502.0]);
        // Members that are gone for good are forgotten.
        for number in 0..1_000 {
            growth.add([(100 + number, vec![1])]);
        }
        assert!(growth.seen.len() < 20, "{}", growth.seen.len());
    }
}
