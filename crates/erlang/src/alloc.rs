//! Memory from two sides: what the node's allocators took from the machine and gave out, and what the machine says of
//! the node's process. And what the node's threads do, by its own accounting of microstates.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::Problem;
use serde::Serialize;

use crate::error::Error;
use crate::helper::{Helper, MEMORY_KINDS, number, numbers, replied, text_of, unexpected, unsigned};
use crate::term::{Term, as_atom, as_int, as_list, as_text, as_tuple, atom, exactly, get, millis};

/// Shortest time-out beside a window.
const LEAST: Duration = Duration::from_secs(30);

/// Carriers of one kind, and the blocks in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Carriers {
    /// Carriers: pieces of memory that the allocator got from the machine.
    pub carriers: u64,
    /// Their bytes.
    pub carrier_bytes: u64,
    /// Blocks that are in use in them.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
}

impl Carriers {
    const fn plus(self, other: Self) -> Self {
        Self {
            carriers: self.carriers + other.carriers,
            carrier_bytes: self.carrier_bytes + other.carrier_bytes,
            blocks: self.blocks + other.blocks,
            block_bytes: self.block_bytes + other.block_bytes,
        }
    }

    /// Share of the carriers that blocks fill; 1 where there are none.
    pub fn utilisation(self) -> f64 {
        match self.carrier_bytes {
            0 => 1.0,
            bytes => self.block_bytes as f64 / bytes as f64,
        }
    }
}

/// An allocator, its instances summed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allocator {
    /// Its name, such as `binary_alloc`.
    pub name: String,
    /// Its instances: one a scheduler, and one for other threads.
    pub instances: u64,
    /// Carriers of many blocks.
    pub multi: Carriers,
    /// Carriers of one large block each.
    pub single: Carriers,
    /// Carriers of many blocks that were given up, for any instance to take.
    pub pool: Carriers,
}

impl Allocator {
    /// All its carriers.
    pub const fn all(&self) -> Carriers {
        self.multi.plus(self.single).plus(self.pool)
    }
}

/// Memory of the node's process by the machine, in bytes; unknown values are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineMemory {
    /// Memory of the process that is in RAM.
    pub resident: Option<u64>,
    /// Part of it that is no file: heaps, carriers, stacks.
    pub anonymous: Option<u64>,
    /// Part of it that is read from files: the program and its libraries.
    pub file: Option<u64>,
    /// Part of it that is shared memory: the JIT's code among it.
    pub shared: Option<u64>,
    /// Memory that was moved to swap.
    pub swap: Option<u64>,
    /// Resident memory, with what is shared between processes divided among them.
    pub proportional: Option<u64>,
    /// Threads of the process.
    pub threads: Option<u64>,
    /// The machine's page cache, of all processes.
    pub page_cache: Option<u64>,
    /// The machine's memory that programs can still get.
    pub available: Option<u64>,
}

/// A node's memory from both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeMemory {
    /// `erlang:memory/0`, in bytes.
    pub vm: BTreeMap<String, u64>,
    /// Its allocators.
    pub allocators: Vec<Allocator>,
    /// Segments that the VM keeps for its next carriers.
    pub cached_segments: u64,
    /// The machine's figures.
    pub machine: MachineMemory,
    /// The node's process on its machine.
    pub os_pid: String,
    /// How long the node took for the answer, waits for a scheduler included, in microseconds.
    pub node_us: u64,
}

/// A part of the difference between the VM's sum and resident memory. Negative: not all that is allocated is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryStep {
    /// Name of the step.
    pub what: &'static str,
    /// Bytes that it adds.
    pub bytes: i64,
}

impl MemoryStep {
    /// Its name, without the examples.
    pub fn short(&self) -> &'static str {
        self.what.split([',', '(']).next().unwrap_or_default().trim_end()
    }
}

impl NodeMemory {
    /// All carriers of all allocators.
    pub fn carriers(&self) -> Carriers {
        self.allocators.iter().map(Allocator::all).fold(Carriers::default(), Carriers::plus)
    }

    /// Steps from the VM's total to the process' resident memory; empty where the machine does not say.
    pub fn difference(&self) -> Vec<MemoryStep> {
        let carriers = self.carriers();
        steps(self.vm.get("total").copied(), carriers.carrier_bytes, carriers.block_bytes, &self.machine)
    }
}

/// Steps from the VM's total to resident memory, of all carriers' bytes and their blocks'; none if not told.
pub(crate) fn steps(total: Option<u64>, carriers: u64, blocks: u64, machine: &MachineMemory) -> Vec<MemoryStep> {
    let (Some(total), Some(anonymous)) = (total, machine.anonymous) else { return Vec::new() };
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let step = |what, to: u64, from: u64| MemoryStep { what, bytes: signed(to) - signed(from) };
    let swapped = machine.swap.unwrap_or(0);
    vec![
        step("blocks without a kind", blocks, total),
        step("free parts of carriers", carriers, blocks),
        step(
            "outside of carriers (stacks of threads, drivers, malloc, cached segments), less carriers not in RAM",
            anonymous.saturating_add(swapped),
            carriers,
        ),
        step("moved to swap", 0, swapped),
        step("shared memory, with the JIT's code", machine.shared.unwrap_or(0), 0),
        step("program and libraries", machine.file.unwrap_or(0), 0),
    ]
}

/// States of a kind of threads in a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadStates {
    /// The kind of threads, such as `scheduler`.
    pub threads: String,
    /// Share of their time by state, such as `emulator`, `gc` or `sleep`.
    pub shares: BTreeMap<String, f64>,
    /// Their time in all states, in seconds.
    pub seconds: f64,
}

/// The microstates of a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Microstates {
    /// Kinds of threads that did anything.
    pub kinds: Vec<ThreadStates>,
    /// Whether somebody else had turned the accounting on.
    pub was_on: bool,
}

/// Reads memory from both sides.
pub fn node_memory(helper: &Helper) -> Result<NodeMemory, Error> {
    let longest = helper.node().timeout().max(LEAST);
    let answer = helper.call_within(longest, "bellows_alloc", "read", vec![])?;
    memory(&answer).ok_or_else(|| unexpected(helper, "bellows_alloc:read/0"))
}

/// Accounts the microstates of a window, which ends sooner where `stop` says so, beside other bellows of this version.
/// An error where another version accounts there, or somebody ended the accounting.
pub fn microstates(helper: &Helper, window: Duration, stop: &dyn Fn() -> bool) -> Result<Microstates, Error> {
    let worker = helper.run("bellows_alloc", "account", millis(window))?;
    let longest = window + helper.node().timeout().max(LEAST);
    let answer = helper.ask_until(&worker, atom("states"), longest, stop)?;
    let reply = replied(helper, answer, "microstate accounting of threads", longest)?;
    helper.stop(worker)?;
    let Some(since) = busy_for(&reply) else {
        return states(&reply).ok_or_else(|| unexpected(helper, "bellows_alloc:account/2"));
    };
    Err(Error::Other(Problem::new(
        format!("another version of bellows measures the threads of {}", helper.node().name()),
        format_args!("since {} s", since.as_secs()),
        "wait until it has ended, or leave the threads out with --duration 0s",
    )))
}

/// For how long somebody else accounts, who does not share it.
fn busy_for(reply: &Term) -> Option<Duration> {
    match as_tuple(reply)? {
        [busy, ms] if as_atom(busy) == Some("busy") => Some(Duration::from_millis(unsigned(as_int(ms)?))),
        _ => None,
    }
}

fn memory(answer: &Term) -> Option<NodeMemory> {
    let vm = get(answer, "memory")?;
    let machine = get(answer, "machine")?;
    let file = |key: &str| get(machine, key).and_then(as_text).unwrap_or_default();
    Some(NodeMemory {
        vm: numbers(vm, &MEMORY_KINDS),
        allocators: as_list(get(answer, "allocators")?)?.iter().map(allocator).collect::<Option<_>>()?,
        cached_segments: number(answer, "cached_segments")?,
        machine: MachineMemory::of_files(&file("status"), &file("rollup"), &file("machine")),
        os_pid: text_of(answer, "os_pid")?,
        node_us: number(answer, "took_us")?,
    })
}

fn allocator(term: &Term) -> Option<Allocator> {
    let carriers = |key: &str| {
        let [carriers, carrier_bytes, blocks, block_bytes] = exactly(as_tuple(get(term, key)?)?)?;
        let number = |term: &Term| as_int(term).map(unsigned);
        Some(Carriers {
            carriers: number(carriers)?,
            carrier_bytes: number(carrier_bytes)?,
            blocks: number(blocks)?,
            block_bytes: number(block_bytes)?,
        })
    };
    Some(Allocator {
        name: text_of(term, "name")?,
        instances: number(term, "instances")?,
        multi: carriers("multi")?,
        single: carriers("single")?,
        pool: carriers("pool")?,
    })
}

impl MachineMemory {
    /// Reads files of `/proc`: the process' `status` and `smaps_rollup`, and the machine's `meminfo`.
    pub(crate) fn of_files(status: &str, rollup: &str, machine: &str) -> Self {
        let value = |file: &str, key: &str| {
            let line = file.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |file: &str, key: &str| value(file, key).map(|kb| kb.saturating_mul(1_024));
        Self {
            resident: bytes(status, "VmRSS"),
            anonymous: bytes(status, "RssAnon"),
            file: bytes(status, "RssFile"),
            shared: bytes(status, "RssShmem"),
            swap: bytes(status, "VmSwap"),
            proportional: bytes(rollup, "Pss"),
            threads: value(status, "Threads"),
            page_cache: bytes(machine, "Cached"),
            available: bytes(machine, "MemAvailable"),
        }
    }
}

fn states(reply: &Term) -> Option<Microstates> {
    let [_, was_on, states] = exactly(as_tuple(reply)?)?;
    let mut kinds: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for state in as_list(states)?.iter() {
        let [threads, state, us] = exactly(as_tuple(state)?)?;
        let of_kind = kinds.entry(as_atom(threads)?.to_owned()).or_default();
        of_kind.insert(as_atom(state)?.to_owned(), as_int(us)? as f64 / 1e6);
    }
    let kinds = kinds.into_iter().filter_map(|(threads, mut shares)| {
        let seconds: f64 = shares.values().sum();
        shares.values_mut().for_each(|it| *it /= seconds);
        (seconds > 0.0).then_some(ThreadStates { threads, shares, seconds })
    });
    Some(Microstates { kinds: kinds.collect(), was_on: as_atom(was_on) == Some("true") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{int, list, tuple};

    fn carriers(carriers: u64, carrier_bytes: u64, blocks: u64, block_bytes: u64) -> Carriers {
        Carriers { carriers, carrier_bytes, blocks, block_bytes }
    }

    #[test]
    fn the_steps_lead_from_the_total_to_resident_memory() {
        let status = "Name:\tbeam.smp\nVmRSS:\t  900 kB\nRssAnon:\t 700 kB\nRssFile:\t 150 kB\nRssShmem:\t 50 kB\n\
            VmSwap:\t 10 kB\nThreads:\t9\n";
        let rollup = "563-7ff ---p 0 00:00 0 [rollup]\nRss: 900 kB\nPss:                 800 kB\nPss_Anon: 1 kB\n";
        let machine = MachineMemory::of_files(status, rollup, "Cached:  77 kB\nMemAvailable: 5 kB\n");
        assert_eq!(machine.proportional, Some(800 << 10));
        assert_eq!((machine.threads, machine.page_cache), (Some(9), Some(77 << 10)));
        let memory = NodeMemory {
            vm: BTreeMap::from([("total".to_owned(), 300 << 10)]),
            allocators: vec![Allocator {
                name: "eheap_alloc".to_owned(),
                instances: 3,
                multi: carriers(2, 400 << 10, 9, 200 << 10),
                single: carriers(1, 200 << 10, 1, 150 << 10),
                pool: carriers(1, 10 << 10, 1, 1 << 10),
            }],
            cached_segments: 0,
            machine,
            os_pid: "1".to_owned(),
            node_us: 1,
        };
        assert!((memory.carriers().utilisation() - 351.0 / 610.0).abs() < 1e-9);
        let steps: i64 = memory.difference().iter().map(|step| step.bytes).sum();
        assert_eq!(steps, (900 - 300) << 10);
        let unknown = NodeMemory { machine: MachineMemory::default(), ..memory };
        assert!(unknown.difference().is_empty());
    }

    #[test]
    fn microstates_become_shares_and_idle_kinds_are_left_out() {
        let state = |threads, state, us| tuple(vec![atom(threads), atom(state), int(us)]);
        let states = list(vec![
            state("async", "sleep", 0),
            state("scheduler", "emulator", 250_000),
            state("scheduler", "sleep", 750_000),
        ]);
        let read = super::states(&tuple(vec![atom("ok"), atom("false"), states])).unwrap();
        assert!(!read.was_on);
        let [scheduler] = read.kinds.as_slice() else { panic!("{read:?}") };
        assert_eq!(scheduler.shares.get("emulator"), Some(&0.25));
        assert_eq!(scheduler.seconds, 1.0);
    }
}
