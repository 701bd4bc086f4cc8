//! The order in which a load's processes are asked to end: each once, whatever group or session it is in, but not
//! before the processes that it reads from.

use linux::{ProcessId, processes};

/// A program that passes signals on to its only child, and ends with it.
const HANDS_ON: &str = "timeout";

/// A process that runs.
#[derive(Clone, Debug)]
pub(super) struct LoadProcess {
    pub(super) id: ProcessId,
    parent: u32,
    command: String,
    /// The pipe that it reads.
    reads: Option<processes::PipeId>,
    /// The pipes that it may write to.
    writes: Vec<processes::PipeId>,
}

impl LoadProcess {
    /// All descendants of this process that have not ended.
    pub(super) fn below(ancestor: u32) -> Vec<Self> {
        let all = processes::descendants(ancestor).into_iter();
        all.filter_map(Self::of).collect()
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = processes::stat(pid).filter(|stat| !stat.ended())?;
        Some(Self {
            id: stat.id(pid),
            parent: stat.parent,
            command: stat.command,
            reads: processes::pipe_read(pid),
            writes: processes::pipes_written(pid),
        })
    }

    /// Whether it ends by itself once this other one has.
    fn ends_after(&self, other: &Self) -> bool {
        let is_fed = self.reads.is_some_and(|it| other.writes.contains(&it));
        let has_started = self.command == HANDS_ON && other.parent == self.id.pid;
        self.id != other.id && (is_fed || has_started)
    }
}

/// A process that has not been asked.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: ProcessId,
    /// The process waits for others now.
    waits: bool,
    /// The process had to wait, and has the rest of the time to end by itself.
    has_waited: bool,
}

/// Processes to end now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) ask: Vec<ProcessId>,
    pub(super) kill: Vec<ProcessId>,
}

/// The end of a load's processes.
#[derive(Debug, Default)]
pub(super) struct EndRequests {
    has_begun: bool,
    is_last: bool,
    waiting: Vec<Waiting>,
    asked: Vec<ProcessId>,
}

impl EndRequests {
    /// Whether the last turn has begun.
    pub(super) const fn is_last(&self) -> bool {
        self.is_last
    }

    /// The processes to end now: at first those that were running, later also orphans that `adopter` has inherited.
    /// Children that a process starts after it was asked are left alone: they may print its last words. Readers end by
    /// themselves after those that they read from. In the `last` turn all that remain are asked, and processes that
    /// others still read from are killed, so that their readers get the rest of the pipes.
    pub(super) fn turn(&mut self, all: &[LoadProcess], adopter: u32, last: bool) -> Turn {
        for one in all {
            let is_known =
                self.asked.contains(&one.id) || self.waiting.iter().any(|it| it.id == one.id);
            if !is_known && (!self.has_begun || one.parent == adopter) {
                self.waiting.push(Waiting {
                    id: one.id,
                    waits: false,
                    has_waited: false,
                });
            }
        }
        self.has_begun = true;
        let find = |id: ProcessId| all.iter().find(|it| it.id == id);
        self.waiting.retain(|it| find(it.id).is_some());
        for one in &mut self.waiting {
            one.waits = find(one.id).is_some_and(|it| all.iter().any(|other| it.ends_after(other)));
            one.has_waited |= one.waits;
        }
        // Those whose writers are killed have their time after it.
        let begins_last = last && !self.is_last;
        self.is_last |= last;
        let is_ready = |it: &Waiting| !it.waits && (!it.has_waited || begins_last);
        let has_asked = self.asked.iter().any(|id| find(*id).is_some());
        // Where all wait for each other, or for one that nobody asks, none would end.
        let is_stuck = !has_asked && self.waiting.iter().all(|it| it.waits);
        let ready = self.waiting.extract_if(.., |it| is_stuck || is_ready(it));
        let ask: Vec<ProcessId> = ready.map(|it| it.id).collect();
        self.asked.extend(&ask);
        let mut kill = match begins_last {
            true => self.waited_for(all),
            false => Vec::new(),
        };
        kill.retain(|id| !ask.contains(id));
        Turn { ask, kill }
    }

    /// Processes that others wait for, were not asked, and do not wait themselves.
    fn waited_for(&self, all: &[LoadProcess]) -> Vec<ProcessId> {
        let is_waiting = |one: &LoadProcess| self.waiting.iter().any(|it| it.id == one.id);
        let keeps_one = |one: &LoadProcess| {
            let mut others = all.iter();
            others.any(|other| is_waiting(other) && other.ends_after(one))
        };
        let found = all.iter().filter(|one| !is_waiting(one) && keeps_one(one));
        found.map(|it| it.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, parent, command, the pipe that it reads and the one that it writes.
    type Row = (u32, u32, &'static str, Option<u64>, Option<u64>);

    fn turn(ending: &mut EndRequests, all: &[Row], last: bool) -> (Vec<u32>, Vec<u32>) {
        let pipe = |inode| processes::PipeId { device: 1, inode };
        let running = |&(pid, parent, command, reads, writes): &Row| LoadProcess {
            id: ProcessId::new(pid, 5),
            parent,
            command: command.to_owned(),
            reads: reads.map(pipe),
            writes: writes.map(pipe).into_iter().collect(),
        };
        let all: Vec<LoadProcess> = all.iter().map(running).collect();
        let Turn { ask, kill } = ending.turn(&all, 1, last);
        let numbers = |ids: Vec<ProcessId>| ids.into_iter().map(|id| id.pid).collect();
        (numbers(ask), numbers(kill))
    }

    fn asked(ending: &mut EndRequests, all: &[Row]) -> Vec<u32> {
        let (ask, kill) = turn(ending, all, false);
        assert_eq!(kill, [0; 0]);
        ask
    }

    #[test]
    fn what_reads_from_others_is_asked_after_them() {
        let mut ending = EndRequests::default();
        let (sh, load) = ((2, 1, "sh", None, None), (3, 2, "load", None, Some(7)));
        let sed = (4, 2, "sed", Some(7), Some(8));
        let tee = (5, 2, "tee", Some(8), None);
        assert_eq!(asked(&mut ending, &[sh, load, sed, tee]), [2, 3]);
        // The shell has ended. What the load starts at its end is its own affair.
        let (orphan, last) = ((3, 1, "load", None, Some(7)), (6, 3, "curl", None, None));
        assert_eq!(asked(&mut ending, &[orphan, last, sed, tee]), [0; 0]);
        // The load has ended and left it; who reads from it has the rest of the time.
        let last = (6, 1, "curl", None, None);
        assert_eq!(asked(&mut ending, &[last, sed, tee]), [6]);
        assert_eq!(asked(&mut ending, &[sed, tee]), [0; 0]);
        let next = turn(&mut ending, &[sed, tee], true);
        assert_eq!(next, (vec![4], vec![]), "it has not ended by itself");
        assert_eq!(turn(&mut ending, &[tee], true), (vec![], vec![]));
    }

    #[test]
    fn what_does_not_end_is_killed_before_what_reads_from_it() {
        let mut ending = EndRequests::default();
        let load = (3, 1, "load", None, Some(7));
        let (sed, tee) = (
            (4, 1, "sed", Some(7), Some(8)),
            (5, 1, "tee", Some(8), None),
        );
        assert_eq!(asked(&mut ending, &[load, sed, tee]), [3]);
        assert_eq!(asked(&mut ending, &[load, sed, tee]), [0; 0]);
        assert!(!ending.is_last());
        let next = turn(&mut ending, &[load, sed, tee], true);
        assert_eq!(next, (vec![], vec![3]));
        assert!(ending.is_last());
        // These have what is left of the time.
        assert_eq!(turn(&mut ending, &[sed, tee], true), (vec![], vec![]));
        assert_eq!(turn(&mut ending, &[tee], true), (vec![], vec![]));
    }

    #[test]
    fn what_hands_its_end_on_is_not_asked_beside_its_program() {
        let mut ending = EndRequests::default();
        let timeout = (2, 1, "timeout", None, None);
        let load = (3, 2, "load", None, None);
        assert_eq!(asked(&mut ending, &[timeout, load]), [3]);
        assert_eq!(asked(&mut ending, &[timeout]), [0; 0]);
        assert_eq!(turn(&mut ending, &[timeout], true).0, [2]);
    }

    #[test]
    fn those_that_wait_for_each_other_are_all_asked() {
        let mut ending = EndRequests::default();
        let one = (2, 1, "a", Some(7), Some(8));
        let other = (3, 1, "b", Some(8), Some(7));
        assert_eq!(asked(&mut ending, &[one, other]), [2, 3]);
    }
}
