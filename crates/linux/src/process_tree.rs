//! CPU time of a process and all that descends from it: a sum that never goes back. What a process used moves into
//! `cutime` and `cstime` of its parent when that has waited for it (proc(5)): only what the parent's account grows by
//! beyond what was counted is new, the rest of its life and children that nobody ever saw.

use std::collections::BTreeMap;

use measure::{Clock, Nanos, Time};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::processes::{self, ProcessId, Stat};

/// Looking for new descendants takes milliseconds with many processes: at most one part in so many of the time.
const SEARCH_SHARE: u64 = 200;

/// The accounts that `/proc` shows round user and system time down to a tick each.
const ROUNDING_TICKS: u64 = 2;

/// CPU time and memory of a process or a tree of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// CPU time, user and kernel.
    pub cpu: Nanos,
    /// Resident memory at present.
    pub rss_bytes: u64,
    /// Threads at present.
    pub threads: u32,
}

/// A process tree, and what it has used.
#[derive(Debug)]
pub struct ProcessTree {
    root: Option<ProcessId>,
    accounts: Accounts,
    next_search: Time,
    /// The machine's newest process before the last search: while it is the same, nobody was born.
    searched_up_to: Option<u32>,
    /// While the root lived.
    rss_bytes: u64,
    tick: Nanos,
}

impl ProcessTree {
    /// The tree below a process, or one of nobody.
    pub fn of(root: Option<u32>) -> Self {
        let second = rustix::param::clock_ticks_per_second().max(1);
        let tick = Nanos(1_000_000_000 / second);
        Self {
            root: root.and_then(ProcessId::of),
            accounts: Accounts::new(Nanos(tick.0 * ROUNDING_TICKS)),
            next_search: Time(0),
            searched_up_to: None,
            rss_bytes: 0,
            tick,
        }
    }

    /// Number of the process that all others descend from.
    pub fn root(&self) -> Option<u32> {
        self.root.map(|id| id.pid)
    }

    /// The root and what was found of its descendants, where they live.
    pub fn pids(&self) -> Vec<u32> {
        let descendants = self.accounts.members.keys().map(|id| id.pid);
        let mut pids: Vec<u32> = self.root().into_iter().chain(descendants).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Another process is the root from now on; the tree's usage goes on from there. The process's own before counts
    /// only as a descendant: between two readings it would be more than the machine has.
    pub fn follow(&mut self, root: u32) {
        let root = ProcessId::of(root);
        if self.root != root {
            self.search_again();
            self.read();
            self.root = root;
            self.accounts.members.clear();
            self.search_again();
            let before = self.accounts.total;
            self.read();
            self.accounts.total = before;
        }
    }

    /// The root that was killed starts again below this process, which lived before: its own use so far is not
    /// counted. All that its descendants have used is, since they are new.
    pub fn follow_starter(&mut self, starter: u32) {
        self.root = ProcessId::of(starter);
        self.accounts.members.clear();
        if let Some(id) = self.root {
            self.accounts.begin(id, self.tick);
        }
        self.search_again();
    }

    /// New descendants are looked for at the next reading, however soon that is.
    const fn search_again(&mut self) {
        self.next_search = Time(0);
        self.searched_up_to = None;
    }

    /// Its root was killed when it had used this, and nobody has waited for it; what the tree has used.
    pub fn killed(&mut self, cpu: Option<Nanos>) -> Nanos {
        let account = self.root.take().and_then(|id| self.accounts.members.get(&id));
        if let (Some(cpu), Some(account)) = (cpu, account) {
            self.accounts.total += cpu.saturating_sub(account.cpu);
        }
        self.accounts.members.clear();
        self.accounts.total
    }

    /// Forgets a root that was mistaken.
    pub fn leave(&mut self) {
        *self = Self::of(None);
    }

    /// Use up to now; `None` once the root is gone. Of a root that ends, memory is that of its last reading.
    pub fn read(&mut self) -> Option<ProcessUse> {
        let root = self.root?;
        let stat = root.stat()?;
        let ends = stat.ended() || stat.rss_pages == 0;
        self.search(root);
        let mut used = ProcessUse::default();
        let (page_bytes, tick) = (rustix::param::page_size() as u64, self.tick);
        self.accounts.look(&mut |id| {
            let (seen, stat) = Seen::now(id, tick)?;
            used.rss_bytes += stat.rss_pages.saturating_mul(page_bytes);
            used.threads = used.threads.saturating_add(stat.threads);
            Some(seen)
        });
        used.cpu = self.accounts.total;
        if ends {
            used.rss_bytes = self.rss_bytes;
        }
        self.rss_bytes = used.rss_bytes;
        Some(used)
    }

    /// Looks for new descendants, where there can be any.
    fn search(&mut self, root: ProcessId) {
        let began = Clock.now();
        if began < self.next_search {
            return;
        }
        let newest = processes::newest();
        if newest.is_some() && newest == self.searched_up_to {
            return;
        }
        self.accounts.members.entry(root).or_default();
        for (id, parent) in processes::descendants_of(self.accounts.members.keys().copied().collect()) {
            self.accounts.adopt(id, parent);
        }
        let now = Clock.now();
        self.next_search = now + Nanos(now.since(began).0.saturating_mul(SEARCH_SHARE));
        self.searched_up_to = newest;
    }
}

#[derive(Debug)]
struct Accounts {
    members: BTreeMap<ProcessId, Account>,
    total: Nanos,
    rounding: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    parent: u32,
    /// CPU time of its own, and of its children that have ended.
    cpu: Nanos,
    of_children: Nanos,
    /// Counted of children that have ended, and not yet in its account of them.
    owed: Nanos,
}

struct Seen {
    parent: u32,
    /// `None`: it has ended, and nobody has waited for it.
    cpu: Option<Nanos>,
    of_children: Nanos,
}

impl Seen {
    fn now(id: ProcessId, tick: Nanos) -> Option<(Self, Stat)> {
        // In this order: what the process is, is known of the number that its time was read by.
        let cpu = cpu_time(id.pid);
        let stat = id.stat()?;
        let of_children = Nanos(stat.children_ticks.saturating_mul(tick.0));
        Some((Self { parent: stat.parent, cpu, of_children }, stat))
    }
}

impl Accounts {
    const fn new(rounding: Nanos) -> Self {
        Self { members: BTreeMap::new(), total: Nanos::ZERO, rounding }
    }

    fn begin(&mut self, id: ProcessId, tick: Nanos) {
        if let Some((Seen { parent, cpu: Some(cpu), of_children }, _)) = Seen::now(id, tick) {
            self.members.insert(id, Account { parent, cpu, of_children, owed: Nanos::ZERO });
        }
    }

    fn adopt(&mut self, id: ProcessId, parent: u32) {
        self.members.entry(id).or_default().parent = parent;
    }

    /// Counts what all have used since the last look; `None`: a process is gone.
    fn look(&mut self, see: &mut dyn FnMut(ProcessId) -> Option<Seen>) {
        // Parents first: what a child leaves them between the two is not counted twice then.
        let mut ids: Vec<ProcessId> = self.members.keys().copied().collect();
        ids.sort_by_key(|id| (id.start(), id.pid));
        let seen: Vec<(ProcessId, Option<Seen>)> = ids.into_iter().map(|id| (id, see(id))).collect();
        let gone = seen.iter().filter(|(_, seen)| seen.is_none());
        let fresh = self.inherited(&gone.map(|(id, _)| *id).collect::<Vec<_>>());
        for (id, seen) in seen {
            let Some(account) = self.members.get_mut(&id) else { continue };
            let Some(seen) = seen else {
                self.members.remove(&id);
                continue;
            };
            account.parent = seen.parent;
            let cpu = seen.cpu.unwrap_or(account.cpu).max(account.cpu);
            self.total += cpu.saturating_sub(account.cpu);
            account.cpu = cpu;
            let fresh = fresh.get(&id).copied().unwrap_or_default();
            let grown = seen.of_children.saturating_sub(account.of_children);
            account.of_children = account.of_children.max(seen.of_children);
            let owed = account.owed + fresh;
            self.total += grown.saturating_sub(owed);
            // What does not come the next time never does: the parent ignores its children's ends.
            account.owed = owed.saturating_sub(grown).min(fresh.max(self.rounding));
        }
    }

    /// CPU time of processes that are gone, by the nearest ancestor that is left: its account of children will have it.
    fn inherited(&self, gone: &[ProcessId]) -> BTreeMap<ProcessId, Nanos> {
        let mut inherited: BTreeMap<ProcessId, Nanos> = BTreeMap::new();
        for id in gone {
            let counted = self.members.get(id).copied().unwrap_or_default();
            let parent_of = |account: &Account| self.members.keys().find(|id| id.pid == account.parent).copied();
            let mut heir = parent_of(&counted);
            // As many generations as there are members at most.
            for _ in 0..self.members.len() {
                heir = match heir {
                    Some(id) if gone.contains(&id) => self.members.get(&id).and_then(parent_of),
                    _ => break,
                };
            }
            if let Some(heir) = heir.filter(|heir| !gone.contains(heir)) {
                let share = counted.cpu + counted.of_children;
                *inherited.entry(heir).or_default() += share;
            }
        }
        inherited
    }
}

/// CPU time that process `pid` has used so far, all its threads, user and kernel, by the process's CPU clock
/// (`clock_getcpuclockid(3)`): `/proc/PID/stat` counts in ticks of 10 ms. `None` where there is no such process.
pub fn cpu_time(pid: u32) -> Option<Nanos> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let time = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok()?.now().ok()?;
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanos = u64::try_from(time.tv_nsec()).ok()?;
    Some(Nanos(seconds * 1_000_000_000 + nanos))
}

#[cfg(test)]
mod tests;
