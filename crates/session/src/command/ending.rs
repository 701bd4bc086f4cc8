//! Which of a load's processes are asked to end, and when: all of them once, whatever group or session they are in, but
//! none before those that it gets its words from.

use linux::{ProcessId, processes};
use measure::{Nanos, Time};

/// What hands its end on to the only program that it has started, and ends with that.
const HANDS_ON: &str = "timeout";
/// What reads from others has this long for the rest once they have ended, until it is asked, too.
const READS_ON: Nanos = Nanos::SECOND;

/// A process that runs.
#[derive(Clone, Debug)]
pub(super) struct LoadProcess {
    pub(super) id: ProcessId,
    parent: u32,
    command: String,
    /// The pipe that it reads.
    reads: Option<u64>,
    /// The pipes that it writes its output and its errors to.
    writes: [Option<u64>; 2],
}

impl LoadProcess {
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

/// One that is to be asked.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: ProcessId,
    /// It had to wait for others, …
    has_waited: bool,
    /// … which have ended by then.
    since: Option<Time>,
}

/// The end of a load's processes.
#[derive(Debug, Default)]
pub(super) struct EndRequests {
    has_begun: bool,
    waiting: Vec<Waiting>,
    asked: Vec<ProcessId>,
}

impl EndRequests {
    /// Whether one that should have ended by itself is to be asked by now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let due = |it: &Waiting| it.since.is_some_and(|since| now >= since + READS_ON);
        self.waiting.iter().any(due)
    }

    /// Those of all that run which are to be asked now: at first those that were there, later also what others have left to
    /// `adopter`. What somebody starts who has been asked is none of them: it may be his last words.
    pub(super) fn turn(&mut self, all: &[LoadProcess], adopter: u32, now: Time) -> Vec<ProcessId> {
        for one in all {
            let is_known =
                self.asked.contains(&one.id) || self.waiting.iter().any(|it| it.id == one.id);
            if !is_known && (!self.has_begun || one.parent == adopter) {
                self.waiting.push(Waiting {
                    id: one.id,
                    has_waited: false,
                    since: None,
                });
            }
        }
        self.has_begun = true;
        let find = |id: ProcessId| all.iter().find(|it| it.id == id);
        self.waiting.retain(|it| find(it.id).is_some());
        for one in &mut self.waiting {
            let waits = find(one.id).is_some_and(|it| all.iter().any(|other| it.ends_after(other)));
            one.has_waited |= waits;
            one.since = one.since.or(Some(now)).filter(|_| !waits);
        }
        let is_ready = |it: &Waiting| {
            it.since
                .is_some_and(|since| !it.has_waited || now >= since + READS_ON)
        };
        let has_asked = self.asked.iter().any(|id| find(*id).is_some());
        // Where all wait for each other, or for one that nobody asks, none would end.
        let is_stuck = !has_asked && self.waiting.iter().all(|it| it.since.is_none());
        let ready = self.waiting.extract_if(.., |it| is_stuck || is_ready(it));
        let ready: Vec<ProcessId> = ready.map(|it| it.id).collect();
        self.asked.extend(&ready);
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, parent, command, the pipe that it reads and the one that it writes.
    type Row = (u32, u32, &'static str, Option<u64>, Option<u64>);

    fn asked(ending: &mut EndRequests, all: &[Row], second: u64) -> Vec<u32> {
        let running = |&(pid, parent, command, reads, writes): &Row| LoadProcess {
            id: ProcessId::new(pid, 5),
            parent,
            command: command.to_owned(),
            reads,
            writes: [writes, None],
        };
        let all: Vec<LoadProcess> = all.iter().map(running).collect();
        let next = ending.turn(&all, 1, Time(second * 1_000_000_000));
        next.into_iter().map(|id| id.pid).collect()
    }

    #[test]
    fn what_reads_from_others_is_asked_after_them() {
        let mut ending = EndRequests::default();
        let (sh, load) = ((2, 1, "sh", None, None), (3, 2, "load", None, Some(7)));
        let sed = (4, 2, "sed", Some(7), Some(8));
        let tee = (5, 2, "tee", Some(8), None);
        assert_eq!(asked(&mut ending, &[sh, load, sed, tee], 0), [2, 3]);
        // The shell has ended. What the load starts at its end is its own affair.
        let (orphan, last) = ((3, 1, "load", None, Some(7)), (6, 3, "curl", None, None));
        assert_eq!(asked(&mut ending, &[orphan, last, sed, tee], 5), [0; 0]);
        // The load has ended and left it; who reads from it has a second for the rest.
        let last = (6, 1, "curl", None, None);
        assert_eq!(asked(&mut ending, &[last, sed, tee], 6), [6]);
        assert!(!ending.is_due(Time(6_999_999_999)) && ending.is_due(Time(7_000_000_000)));
        assert_eq!(asked(&mut ending, &[sed, tee], 7), [4]);
        assert_eq!(asked(&mut ending, &[tee], 8), [0; 0]);
        assert_eq!(asked(&mut ending, &[tee], 9), [5]);
        assert_eq!(asked(&mut ending, &[tee], 20), [0; 0]);
    }

    #[test]
    fn what_hands_its_end_on_is_not_asked_beside_its_program() {
        let mut ending = EndRequests::default();
        let timeout = (2, 1, "timeout", None, None);
        let load = (3, 2, "load", None, None);
        assert_eq!(asked(&mut ending, &[timeout, load], 0), [3]);
        assert_eq!(asked(&mut ending, &[timeout], 1), [0; 0]);
        assert_eq!(asked(&mut ending, &[timeout], 2), [2]);
    }

    #[test]
    fn those_that_wait_for_each_other_are_all_asked() {
        let mut ending = EndRequests::default();
        let one = (2, 1, "a", Some(7), Some(8));
        let other = (3, 1, "b", Some(8), Some(7));
        assert_eq!(asked(&mut ending, &[one, other], 0), [2, 3]);
    }
}
