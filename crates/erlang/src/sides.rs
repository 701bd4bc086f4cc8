//! Memory from both sides by one call of functions that every node has: the VM's sums, its allocators', and the
//! machine's of the process. No module is loaded and no process asked, so a run can read it every second.

use std::collections::BTreeMap;
use std::time::Duration;

use erl_dist::term::ExternalFun;

use crate::alloc::{MachineMemory, MemoryStep, steps};
use crate::error::Error;
use crate::helper::{MEMORY_KINDS, unsigned};
use crate::node::Node;
use crate::term::{Term, as_atom, as_bytes, as_int, as_tuple, atom, charlist, exactly, list, show, tuple};

/// Bytes of a strange answer that are shown.
const STRANGE_BYTES: usize = 200;

/// Bytes of an allocator, its instances summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorBytes {
    /// Its name, such as `binary_alloc`.
    pub name: String,
    /// Its carriers: pieces of memory that it got from the machine.
    pub carriers: u64,
    /// Blocks that are in use in them.
    pub blocks: u64,
}

/// A node's memory from both sides at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySides {
    /// `erlang:memory/0`, in bytes.
    pub vm: BTreeMap<String, u64>,
    /// Its allocators.
    pub allocators: Vec<AllocatorBytes>,
    /// The machine's figures; empty where the node cannot read them.
    pub machine: MachineMemory,
    /// How long the node took for the answer, waits for a scheduler included.
    pub took: Duration,
}

impl MemorySides {
    /// All carriers of all allocators, and the blocks in them.
    pub fn carriers_and_blocks(&self) -> (u64, u64) {
        let all = self.allocators.iter();
        all.fold((0, 0), |(carriers, blocks), it| {
            let sum = u64::saturating_add;
            (sum(carriers, it.carriers), sum(blocks, it.blocks))
        })
    }

    /// Steps from the VM's total to the process' resident memory; empty where the machine does not say.
    pub fn difference(&self) -> Vec<MemoryStep> {
        let total = self.vm.get("total").copied();
        let (carriers, blocks) = self.carriers_and_blocks();
        steps(total, carriers, blocks, &self.machine)
    }
}

/// A connection to a node whose memory is read again and again.
#[derive(Debug)]
pub struct SidesReader {
    node: Node,
    /// Arguments of `lists:zipwith3/4` that call everything on the node.
    arguments: Vec<Term>,
}

impl SidesReader {
    /// Asks which allocators the node has.
    pub fn new(node: Node) -> Result<Self, Error> {
        let which = vec![atom("alloc_util_allocators")];
        let allocators = node.call("erlang", "system_info", which)?;
        Ok(Self { node, arguments: calls(allocators) })
    }

    /// Reads memory from both sides.
    pub fn read(&self, timeout: Duration) -> Result<MemorySides, Error> {
        let arguments = [atom("lists"), atom("zipwith3"), list(self.arguments.clone())];
        let answer = self.node.call_within(timeout, "timer", "tc", arguments.into())?;
        sides(&answer).ok_or_else(|| Error::Exception {
            node: self.node.name().clone(),
            call: "erlang:memory/0 and erlang:system_info/1".to_owned(),
            reason: format!("it answered {}", show(&answer, STRANGE_BYTES)),
        })
    }
}

/// Calls as three lists: modules, functions and arguments. So one request reads all of it at one time.
fn calls(allocators: Term) -> Vec<Term> {
    let sizes = tuple([atom("allocator_sizes"), allocators]);
    let calls = [
        ("erlang", "memory", vec![]),
        ("erlang", "system_info", vec![sizes]),
        ("prim_file", "read_file", vec![charlist("/proc/self/status")]),
        ("prim_file", "read_file", vec![charlist("/proc/meminfo")]),
    ];
    let modules = list(calls.iter().map(|(module, _, _)| atom(module)));
    let functions = list(calls.iter().map(|(_, function, _)| atom(function)));
    let arguments = list(calls.into_iter().map(|(_, _, arguments)| list(arguments)));
    let apply = Term::from(ExternalFun::from(("erlang", "apply", 3)));
    vec![apply, modules, functions, arguments]
}

/// The answer of `timer:tc/3`.
fn sides(answer: &Term) -> Option<MemorySides> {
    let [micros, results] = exactly(as_tuple(answer)?)?;
    let [memory, sizes, status, machine] = exactly(elements(results))?;
    let vm = kinds(memory);
    vm.contains_key("total").then(|| MemorySides {
        vm,
        allocators: elements(sizes).iter().filter_map(allocator).collect(),
        machine: MachineMemory::of_files(&file(status), "", &file(machine)),
        took: Duration::from_micros(as_int(micros).map_or(0, unsigned)),
    })
}

/// The pairs of `erlang:memory/0`.
fn kinds(memory: &Term) -> BTreeMap<String, u64> {
    let known = elements(memory).iter().filter_map(keyed).filter(|(kind, _)| MEMORY_KINDS.contains(kind));
    known.map(|(kind, values)| (kind.to_owned(), now(values))).collect()
}

/// Text of a file; empty where it was not read.
fn file(result: &Term) -> String {
    let text = match as_tuple(result) {
        Some([ok, text]) if as_atom(ok) == Some("ok") => as_bytes(text),
        _ => None,
    };
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

/// Sums over an allocator's instances `{instance, Number, Kinds}`, with sizes by kind of carrier; `None` if off.
fn allocator(sizes: &Term) -> Option<AllocatorBytes> {
    let (name, [instances]) = keyed(sizes)? else { return None };
    let instances = elements(instances);
    let kinds = instances.iter().filter_map(|it| as_tuple(it)?.get(2)).flat_map(elements).filter_map(keyed);
    let sizes = kinds.flat_map(|(_, sizes)| sizes.iter().flat_map(elements));
    let mut sums = AllocatorBytes { name: name.to_owned(), carriers: 0, blocks: 0 };
    for (key, values) in sizes.filter_map(keyed) {
        match key {
            "carriers_size" => sums.carriers = sums.carriers.saturating_add(now(values)),
            "blocks" => sums.blocks = sums.blocks.saturating_add(blocks(values)),
            _ => {}
        }
    }
    (!instances.is_empty()).then_some(sums)
}

/// The sizes of all blocks: `[{Allocator, [{size, Bytes, …}]}]`.
fn blocks(owners: &[Term]) -> u64 {
    let owners = owners.iter().flat_map(elements).filter_map(keyed);
    let of_owner = owners.flat_map(|(_, blocks)| blocks.iter().flat_map(elements));
    let sizes = of_owner.filter_map(keyed).filter(|(key, _)| *key == "size");
    sizes.fold(0, |sum, (_, size)| sum.saturating_add(now(size)))
}

/// The present one of several values: the maxima since then and ever stand behind it.
fn now(values: &[Term]) -> u64 {
    values.first().and_then(as_int).map_or(0, unsigned)
}

/// A tuple's key, and what stands behind it.
fn keyed(term: &Term) -> Option<(&str, &[Term])> {
    let (key, values) = as_tuple(term)?.split_first()?;
    Some((as_atom(key)?, values))
}

/// Elements of a list; none of another term.
fn elements(term: &Term) -> &[Term] {
    match term {
        Term::List(it) => &it.elements,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{int, text};

    fn pair(key: &str, value: Term) -> Term {
        tuple([atom(key), value])
    }

    fn carriers(kind: &str, blocks: &[(&str, i64)], carriers: i64) -> Term {
        let blocks = blocks.iter().map(|(owner, bytes)| {
            let size = tuple([atom("size"), int(*bytes), int(999), int(999)]);
            pair(owner, list([size]))
        });
        let size = tuple([atom("carriers_size"), int(carriers), int(999), int(999)]);
        pair(kind, list([pair("blocks", list(blocks)), size]))
    }

    fn answer() -> Term {
        let instance = |number, kinds: Vec<Term>| tuple([atom("instance"), int(number), list(kinds)]);
        let heaps = list([
            instance(0, vec![carriers("mbcs", &[("eheap_alloc", 100)], 300)]),
            instance(
                1,
                vec![
                    carriers("mbcs", &[("eheap_alloc", 20), ("ets_alloc", 5)], 100),
                    // A pool has no maxima.
                    pair("mbcs_pool", list([pair("carriers_size", int(50))])),
                    carriers("sbcs", &[], 0),
                ],
            ),
        ]);
        let memory = [pair("total", int(150)), pair("ets", int(7)), pair("news", int(1))];
        let status = "VmRSS:\t900 kB\nRssAnon:\t1 kB\nRssFile:\t800 kB\nRssShmem:\t99 kB\n";
        let sizes = [pair("eheap_alloc", heaps), pair("sl_alloc", atom("false"))];
        let results = [list(memory), list(sizes), pair("ok", text(status)), pair("error", atom("enoent"))];
        tuple([int(420), list(results)])
    }

    #[test]
    fn instances_are_summed_and_the_steps_lead_to_resident_memory() {
        let sides = sides(&answer()).unwrap();
        let [heaps] = sides.allocators.as_slice() else { panic!("{sides:?}") };
        assert_eq!((heaps.carriers, heaps.blocks), (450, 125));
        assert_eq!(sides.took, Duration::from_micros(420));
        let vm: Vec<(&str, u64)> = sides.vm.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(vm, [("ets", 7), ("total", 150)]);
        let steps: i64 = sides.difference().iter().map(|step| step.bytes).sum();
        assert_eq!(steps, (900 << 10) - 150);
        assert_eq!(sides.machine.page_cache, None);
    }

    #[test]
    fn answers_of_another_form_are_no_memory_and_no_panic() {
        let no_total = tuple([int(1), list([list([]), list([]), atom("x"), atom("y")])]);
        let huge = carriers("mbcs", &[("a", i64::MAX); 3], i64::MAX);
        let instance = tuple([atom("instance"), int(0), list([huge])]);
        let huge = allocator(&pair("a", list([instance.clone(), instance.clone(), instance])));
        assert_eq!(huge.unwrap().carriers, u64::MAX, "no overflow");
        for strange in [no_total, atom("x"), tuple([int(1), list([])]), list([])] {
            assert_eq!(sides(&strange), None, "{strange:?}");
        }
    }
}
