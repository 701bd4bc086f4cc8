//! Which of a load's processes are asked to end, and when: all of them once, whatever group or session they are in, but
//! none before those that it gets its words from.

use std::mem;

use linux::{ProcessId, processes};

/// What hands its end on to the only program that it has started, and ends with that.
const HANDS_ON: &str = "timeout";

/// A process that runs.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) id: ProcessId,
    parent: u32,
    command: String,
    /// The pipe that it reads.
    reads: Option<u64>,
    /// The pipes that it writes its output and its errors to.
    writes: [Option<u64>; 2],
}

impl Running {
    /// All that descend from this process and have not ended.
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
            reads: processes::pipe(pid, 0),
            writes: [1, 2].map(|descriptor| processes::pipe(pid, descriptor)),
        })
    }

    /// Whether it ends by itself once this other one has.
    fn ends_after(&self, other: &Self) -> bool {
        let is_fed = self.reads.is_some() && other.writes.contains(&self.reads);
        let has_started = self.command == HANDS_ON && other.parent == self.id.pid;
        self.id != other.id && (is_fed || has_started)
    }
}

/// The end of a load's processes.
#[derive(Debug, Default)]
pub(super) struct Ending {
    begun: bool,
    /// Those that are to be asked.
    waiting: Vec<ProcessId>,
    asked: Vec<ProcessId>,
}

impl Ending {
    /// Those of all that run which are to be asked now: at first those that were there, later also what others have left to
    /// `adopter`. What somebody starts who has been asked is none of them: it may be his last words.
    pub(super) fn next(&mut self, all: &[Running], adopter: u32) -> Vec<ProcessId> {
        let is_new = |it: &&Running| !self.waiting.contains(&it.id) && !self.asked.contains(&it.id);
        let is_meant = |it: &&Running| !self.begun || it.parent == adopter;
        let new = all.iter().filter(is_new).filter(is_meant);
        let new: Vec<ProcessId> = new.map(|it| it.id).collect();
        self.begun = true;
        self.waiting.extend(new);
        let find = |id: &ProcessId| all.iter().find(|it| it.id == *id);
        let waits = |id: &ProcessId| {
            find(id).is_some_and(|one| all.iter().any(|other| one.ends_after(other)))
        };
        let (mut later, mut now): (Vec<_>, Vec<_>) = mem::take(&mut self.waiting)
            .into_iter()
            .filter(|id| find(id).is_some())
            .partition(waits);
        // Where all wait for each other, or for one that nobody asks, none would end.
        if now.is_empty() && !self.asked.iter().any(|id| find(id).is_some()) {
            mem::swap(&mut now, &mut later);
        }
        self.waiting = later;
        self.asked.extend(&now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, parent, command, the pipe that it reads and the one that it writes.
    type Process = (u32, u32, &'static str, Option<u64>, Option<u64>);

    fn asked(ending: &mut Ending, all: &[Process]) -> Vec<u32> {
        let running = |&(pid, parent, command, reads, writes): &Process| Running {
            id: ProcessId::new(pid, 5),
            parent,
            command: command.to_owned(),
            reads,
            writes: [writes, None],
        };
        let all: Vec<Running> = all.iter().map(running).collect();
        let next = ending.next(&all, 1);
        next.into_iter().map(|id| id.pid).collect()
    }

    #[test]
    fn what_reads_from_others_is_asked_after_them() {
        let mut ending = Ending::default();
        let (sh, load) = ((2, 1, "sh", None, None), (3, 2, "load", None, Some(7)));
        let (sed, tee) = (
            (4, 2, "sed", Some(7), Some(8)),
            (5, 2, "tee", Some(8), None),
        );
        assert_eq!(asked(&mut ending, &[sh, load, sed, tee]), [2, 3]);
        // The shell has ended. What the load starts at its end is its own affair.
        let (orphan, last) = ((3, 1, "load", None, Some(7)), (6, 3, "curl", None, None));
        assert_eq!(asked(&mut ending, &[orphan, last, sed, tee]), [0; 0]);
        // It left without its last words, and those that read have not noticed it yet.
        let last = (6, 1, "curl", None, None);
        assert_eq!(asked(&mut ending, &[last, sed, tee]), [4, 6]);
        assert_eq!(asked(&mut ending, &[tee]), [5]);
        assert_eq!(asked(&mut ending, &[tee]), [0; 0]);
    }

    #[test]
    fn what_hands_its_end_on_is_not_asked_beside_its_program() {
        let mut ending = Ending::default();
        let (timeout, load) = ((2, 1, "timeout", None, None), (3, 2, "load", None, None));
        assert_eq!(asked(&mut ending, &[timeout, load]), [3]);
        assert_eq!(asked(&mut ending, &[timeout]), [2]);
    }

    #[test]
    fn those_that_wait_for_each_other_are_all_asked() {
        let mut ending = Ending::default();
        let (one, other) = ((2, 1, "a", Some(7), Some(8)), (3, 1, "b", Some(8), Some(7)));
        assert_eq!(asked(&mut ending, &[one, other]), [2, 3]);
    }
}
