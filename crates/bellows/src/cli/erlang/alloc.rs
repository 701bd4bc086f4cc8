//! `erlang memory --allocators`: allocators, memory from both sides, and the node's threads.

use clap::Args;
use erlang::Helper;
use erlang::alloc::{Allocator, Carriers, MemoryStep, Microstates, NodeMemory, microstates, node_memory};
use measure::{Length, Nanos, count, counted};
use report::console::grid;
use report::text::bytes;
use serde::Serialize;

use super::connect::left;
use super::options::CountArgs;
use super::progress::Repetition;
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(next_help_heading = "Allocators")]
pub(super) struct AllocatorsArgs {
    /// Count no functions: show allocators, memory from the VM's side and the machine's, and what threads do in a
    /// window (by default of 2 s; 0 leaves threads out)
    #[arg(long, conflicts_with_all = [
        "functions", "limit", "pids", "role", "max_backlog", "max_memory", "max_run_queue",
    ])]
    pub(super) allocators: bool,
    /// Time from one reading to the next; one reading if absent
    #[arg(long, value_name = "DURATION", requires = "allocators")]
    every: Option<Length>,
    /// Readings at most
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

#[derive(Serialize)]
struct AllocReading {
    #[serde(flatten)]
    memory: NodeMemory,
    /// Steps from the VM's total to resident memory.
    difference: Vec<MemoryStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<Microstates>,
}

impl AllocatorsArgs {
    pub(super) fn show(&self, of: &CountArgs) -> Result<Done, Failure> {
        let node = of.node.connect("erlang memory --allocators")?;
        let helper = Helper::load(&node)?;
        let window = of.budget.duration;
        let repetition = Repetition { every: self.every, count: self.count };
        let done = repetition.run(|number, stop| {
            let threads = if window.is_zero() { None } else { Some(microstates(&helper, window.0.into(), stop)?) };
            let memory = node_memory(&helper)?;
            let reading = AllocReading { difference: memory.difference(), memory, threads };
            if of.json {
                return repetition.print_json(&reading);
            }
            let gap = if number > 1 { "\n" } else { "" };
            output::print(&format!("{gap}{}", shown(&reading)))
        });
        left(helper, done)
    }
}

fn shown(reading: &AllocReading) -> String {
    let mut out = allocators(&reading.memory);
    out.push('\n');
    out += &sides(reading);
    if let Some(threads) = &reading.threads {
        out.push('\n');
        out += &states(threads);
    }
    out + &format!("\nthe node took {} for the answer\n", Nanos(reading.memory.node_us * 1_000))
}

fn allocators(memory: &NodeMemory) -> String {
    let heads = "allocator<|carriers|their size|blocks|their size|used %|multi-block|single-block|pool";
    let mut sorted: Vec<&Allocator> = memory.allocators.iter().collect();
    sorted.sort_by_key(|it| std::cmp::Reverse(it.all().carrier_bytes));
    let row = |name: &str, all: Carriers, parts: [u64; 3]| {
        let mut cells = vec![
            name.to_owned(),
            count(all.carriers),
            bytes(all.carrier_bytes),
            count(all.blocks),
            bytes(all.block_bytes),
            format!("{:.1}", all.utilisation() * 100.0),
        ];
        cells.extend(parts.map(bytes));
        cells
    };
    let parts = |it: &Allocator| [it.multi.carrier_bytes, it.single.carrier_bytes, it.pool.carrier_bytes];
    let mut rows: Vec<Vec<String>> = sorted.iter().map(|it| row(&it.name, it.all(), parts(it))).collect();
    let sums = sorted.iter().fold([0; 3], |sums, it| {
        let [multi, single, pool] = parts(it);
        let [of_multi, of_single, of_pool] = sums;
        [of_multi + multi, of_single + single, of_pool + pool]
    });
    rows.push(row("all", memory.carriers(), sums));
    grid(heads, None, rows, output::style())
}

/// The VM's view, the machine's, and the difference between them.
fn sides(reading: &AllocReading) -> String {
    let memory = &reading.memory;
    let mut rows = Vec::new();
    let mut row = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push(vec![what.to_owned(), value]);
        }
    };
    let vm = |kind: &str| memory.vm.get(kind).copied().map(bytes);
    row("the VM's total", vm("total"));
    let mut rest = memory.vm.get("total").copied();
    for (kind, name) in [
        ("processes", "  processes"),
        ("binary", "  binaries"),
        ("ets", "  ETS tables"),
        ("code", "  code"),
        ("atom", "  atoms"),
    ] {
        row(name, vm(kind));
        let size = memory.vm.get(kind).copied();
        rest = rest.zip(size).and_then(|(rest, size)| rest.checked_sub(size));
    }
    row("  other", rest.map(bytes));
    for step in &reading.difference {
        let sign = if step.bytes < 0 { "-" } else { "+" };
        row(step.what, Some(format!("{sign}{}", bytes(step.bytes.unsigned_abs()))));
    }
    let machine = &memory.machine;
    row("resident (RSS), as the machine says", machine.resident.map(bytes));
    row("  with shared pages divided (PSS)", machine.proportional.map(bytes));
    row("page cache of the machine", machine.page_cache.map(bytes));
    row("memory of the machine that is available", machine.available.map(bytes));
    let threads = machine.threads.map(|it| counted(it, "thread") + "; ");
    grid("memory<|size", Some(0), rows, output::style())
        + &format!(
            "{}{} kept for the next carriers\n",
            threads.unwrap_or_default(),
            counted(memory.cached_segments, "memory segment"),
        )
}

fn states(threads: &Microstates) -> String {
    let heads = "threads, % of their time<|emulator|gc|port|check_io|aux|other|sleep";
    let known = ["emulator", "gc", "port", "check_io", "aux", "sleep"];
    let rows = threads.kinds.iter().map(|kind| {
        let share = |state: &str| kind.shares.get(state).copied().unwrap_or(0.0);
        let other: f64 =
            kind.shares.iter().filter(|(state, _)| !known.contains(&state.as_str())).map(|(_, it)| it).sum();
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let mut cells = vec![kind.threads.clone()];
        cells.extend(["emulator", "gc", "port", "check_io", "aux"].map(|state| percent(share(state))));
        cells.extend([percent(other), percent(share("sleep"))]);
        cells
    });
    let mut out = grid(heads, None, rows, output::style());
    if threads.was_on {
        out += "somebody else has turned microstate accounting on: it was read and left on\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_has_no_size() {
        let machine = erlang::alloc::MachineMemory { threads: Some(9), ..Default::default() };
        let (vm, os_pid) = ([("total".to_owned(), 300)].into(), "1".to_owned());
        let memory = NodeMemory { vm, allocators: Vec::new(), cached_segments: 3, machine, os_pid, node_us: 1 };
        let text = sides(&AllocReading { difference: Vec::new(), memory, threads: None });
        let told = "9 threads; 3 memory segments kept for the next carriers";
        assert_eq!(text.lines().last(), Some(told), "{text}");
        assert!(!text.contains("\nthreads"), "{text}");
    }
}
