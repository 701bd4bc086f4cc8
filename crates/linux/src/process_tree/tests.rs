//! Trees whose processes come and go at random, played and real.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::Random;

use super::*;

const TICK: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Played {
    parent: u32,
    cpu: u64,
    of_children: u64,
    /// Its children's ends are of no interest to it (`SIGCHLD` ignored).
    ignores: bool,
}

/// A played machine: 1 adopts orphans, 2 is the root of the tree.
struct Machine {
    random: Random,
    next: u32,
    live: BTreeMap<u32, Played>,
    truth: u64,
    /// Of that, what went where nobody can see it.
    hidden: u64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let root = Played { parent: 1, ..Played::default() };
        Self { random: Random::new(seed), next: 3, live: [(2, root)].into(), truth: 0, hidden: 0 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn any(&mut self) -> u32 {
        let at = self.below(self.live.len() as u64) as usize;
        self.live.keys().copied().nth(at).unwrap()
    }

    fn step(&mut self) {
        let pid = self.any();
        match self.below(8) {
            0 | 1 => {
                let ignores = self.below(8) == 0;
                let child = Played { parent: pid, ignores, ..Played::default() };
                self.live.insert(self.next, child);
                self.next += 1;
            }
            2 if pid != 2 => self.end(pid),
            _ => {
                let used = self.below(30_000_000);
                self.live.get_mut(&pid).unwrap().cpu += used;
                self.truth += used;
            }
        }
    }

    fn see(&self, id: ProcessId) -> Option<Seen> {
        let played = self.live.get(&id.pid)?;
        let of_children = Nanos(played.of_children / TICK * TICK);
        Some(Seen { parent: played.parent, cpu: Some(Nanos(played.cpu)), of_children })
    }

    fn end(&mut self, pid: u32) {
        let ended = self.live.remove(&pid).unwrap();
        for orphan in self.live.values_mut().filter(|it| it.parent == pid) {
            orphan.parent = 1;
        }
        let all = ended.cpu + ended.of_children;
        match self.live.get_mut(&ended.parent) {
            Some(parent) if !parent.ignores => parent.of_children += all,
            // What was counted before stays so; the rest nobody can know. Where its end is mistaken
            // for one that its parent will have, as much of the parent's account is not believed.
            _ => self.hidden += 2 * all,
        }
    }
}

/// 500 machines of 400 events: the sum never goes back, is never more than was used, and lacks only
/// what nobody could see.
#[test]
fn what_a_changing_tree_uses_is_counted_once() {
    let this = ProcessId::of(std::process::id()).unwrap();
    let id = |pid| ProcessId::new(pid, this.start());
    for seed in 0..500 {
        let mut machine = Machine::new(seed);
        let mut accounts = Accounts::new(Nanos(TICK * ROUNDING_TICKS));
        let mut before = Nanos::ZERO;
        for _ in 0..400 / 8 {
            for _ in 0..8 {
                machine.step();
            }
            // Every fourth look finds who is new.
            if machine.below(4) == 0 {
                for (pid, played) in &machine.live {
                    accounts.adopt(id(*pid), played.parent);
                }
            } else {
                accounts.members.entry(id(2)).or_default();
            }
            accounts.look(&mut |id| machine.see(id));
            assert!(accounts.total >= before, "seed {seed}: it went back");
            before = accounts.total;
            // Each process that has had children may round.
            let rounding = TICK * ROUNDING_TICKS * u64::from(machine.next);
            let (total, truth) = (accounts.total, machine.truth);
            assert!(total.0 <= truth + rounding, "seed {seed}: {total} of {truth}");
        }
        for pid in machine.live.keys() {
            accounts.members.entry(id(*pid)).or_default();
        }
        accounts.look(&mut |id| machine.see(id));
        let rounding = TICK * ROUNDING_TICKS * u64::from(machine.next);
        let (total, truth, hidden) = (accounts.total, machine.truth, machine.hidden);
        assert!(total.0 + hidden + rounding >= truth, "seed {seed}: {total} of {truth}, {hidden} hidden");
    }
}

/// A shell whose children spin and end between two looks, and one that is left by its parent.
#[test]
fn children_that_nobody_saw_and_orphans_count() {
    let spin = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";
    let script = format!(
        "echo 1; read go; for n in 1 2 3; do sh -c '{spin}'; done; \
         sh -c '(while :; do :; done) & echo $!; read go' ; echo 3; read go"
    );
    let mut root =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(root.stdout.take().unwrap()).lines();
    let mut hear = || lines.next().unwrap().unwrap();
    let mut stdin = root.stdin.take().unwrap();
    let mut go = || std::io::Write::write_all(&mut stdin, b"\n").unwrap();
    let mut tree = ProcessTree::of(Some(root.id()));
    hear();
    let first = tree.read().unwrap().cpu;
    go();
    let spinner: u32 = hear().parse().unwrap();
    let spun = tree.read().unwrap();
    assert!(spun.cpu.saturating_sub(first) >= Nanos::from_millis(20), "three children came and went: {:?}", spun.cpu);
    tree.next_search = Time(0);
    tree.read();
    assert!(tree.pids().contains(&spinner), "{:?}", tree.pids());
    // Its parent ends; the spinner is somebody else's child from now on.
    go();
    assert_eq!(hear(), "3");
    let begin = tree.read().unwrap().cpu;
    let deadline = Instant::now() + Duration::from_secs(10);
    while tree.read().unwrap().cpu.saturating_sub(begin) < Nanos::from_millis(50) {
        assert!(Instant::now() < deadline, "the orphan's time is not counted");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ProcessId::of(spinner).unwrap().signal(rustix::process::Signal::KILL));
    let last = tree.read().unwrap().cpu;
    go();
    root.wait().unwrap();
    assert!(last >= begin);
    assert_eq!(tree.read(), None, "the root is gone");
}

/// Memory of a process between its end and its parent's notice of it.
#[test]
fn the_memory_of_a_process_that_ends_is_the_last_that_it_had() {
    let mut child = testkit::ChildGuard::idle();
    let mut tree = ProcessTree::of(Some(child.id()));
    let deadline = Instant::now() + Duration::from_secs(10);
    let lived = loop {
        let used = tree.read().unwrap();
        // Before it has become `sleep` it is a copy of this process.
        let has_begun = processes::stat(child.id()).is_some_and(|stat| stat.command == "sleep");
        if has_begun && used.rss_bytes > 0 || Instant::now() > deadline {
            break tree.read().unwrap();
        }
    };
    assert!(lived.rss_bytes > 0);
    child.kill().unwrap();
    let id = ProcessId::of(child.id()).unwrap();
    while id.is_alive() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(tree.read().map(|used| used.rss_bytes), Some(lived.rss_bytes));
    child.wait().unwrap();
    assert_eq!(tree.read(), None);
}

#[test]
fn our_own_time_grows_with_work_and_nobody_has_none() {
    let before = cpu_time(std::process::id()).unwrap();
    let mut x = 1u64;
    while cpu_time(std::process::id()).unwrap().saturating_sub(before) < Nanos(2_000_000) {
        x = std::hint::black_box(x.wrapping_mul(3));
    }
    assert_eq!(cpu_time(0), None);
    assert_eq!(cpu_time(u32::MAX), None);
    // The largest number that Linux gives a process is 2^22.
    assert_eq!(cpu_time((1 << 22) + 1), None);
}
