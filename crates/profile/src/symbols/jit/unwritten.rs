//! The names of a JIT map of a BEAM that writes none: from its memory, where they are kept for debuggers.

use linux::maps;
use measure::{Clock, Nanos, Time};

use super::super::elf::exported;
use super::table::JitTable;
use crate::beam::{self, CodeList, CompiledModule, Variables};
use crate::memory::{Mappings, ProcessMemory};

/// The emulator's memory is read again after this many times the last reading's time, at most a twentieth of the
/// thread; where there was no list, after a second. The first, longest reading precedes the samples.
const REST: u64 = 20;

#[derive(Debug)]
pub(super) struct Unwritten {
    pid: u32,
    memory: ProcessMemory,
    list: CodeList,
    /// When the memory may be looked at next; `None` before the first look.
    next: Option<Time>,
}

impl Unwritten {
    /// Of a process; `None` where it is no BEAM, or may not be looked into.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let maps = maps::maps(pid)?;
        let memory = ProcessMemory::open(pid).ok()?;
        let emulator = beam::emulator(&maps)?;
        let exported = exported(pid, emulator, &beam::NAMES).unwrap_or_default();
        let variables = Variables::of(pid, emulator, &memory, exported);
        Some(Self { pid, list: CodeList::at(variables.code_list(&memory)?), memory, next: None })
    }

    /// Adds what was compiled since the last look; says whether there was anything.
    pub(super) fn read_on(&mut self, table: &mut JitTable) -> bool {
        let begin = Clock.now();
        if self.next.is_some_and(|next| begin < next) {
            return false;
        }
        let pid = self.pid;
        // Looked up for the first new module: mostly there is none.
        let mut compiled = None;
        let read = self.list.read_on(&self.memory, &mut |module| {
            let (compiled, code) = (compiled.get_or_insert_with(|| compiled_memory(pid)), &module.code);
            if code.start < code.end && [code.start, code.end - 1].iter().all(|it| compiled.at(*it).is_some()) {
                add(module, table);
            }
        });
        let took = Clock.now().since(begin);
        let rest = self.next.map_or(Nanos(0), |_| Nanos(took.0.saturating_mul(REST)));
        self.next = Some(begin + read.map_or(rest.max(Nanos::SECOND), |_| rest));
        read.is_some_and(|modules| modules > 0)
    }
}

/// Whether the names of Erlang functions can be read from a process's memory.
pub fn has_erlang_names(pid: u32) -> bool {
    Unwritten::of(pid).is_some()
}

/// Names are those that the emulator would write into a map.
fn add(module: &CompiledModule<'_>, table: &mut JitTable) {
    for it in &module.functions {
        let name = format!("${}", String::from_utf8_lossy(it.name));
        table.add(it.code.start, it.code.end, &name);
        for line in &it.lines {
            table.add_line_of_source(line.start, &String::from_utf8_lossy(line.file), line.number);
        }
    }
}

/// Memory with code that is of no file.
fn compiled_memory(pid: u32) -> Mappings {
    let mut compiled = Mappings::default();
    let maps = maps::maps(pid).unwrap_or_default().into_iter();
    maps.filter(|it| !maps::is_file(it)).for_each(|it| compiled.insert(it));
    compiled
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Node {
        child: Child,
        output: BufReader<std::process::ChildStdout>,
    }

    impl Node {
        fn start(flags: &[&str]) -> Result<Self, String> {
            let mut command = Command::new("erl");
            command.args(flags).args(["+S", "1:1", "-noshell", "-eval"]);
            // Evaluates line after line.
            command.arg(
                "F = fun F() -> {ok, T, _} = io:scan_erl_exprs(\"\"), {ok, E} = erl_parse:parse_exprs(T), \
                 {value, V, _} = erl_eval:exprs(E, []), io:format(\"~0p~n\", [V]), F() end, F().",
            );
            command.env("ERL_CRASH_DUMP_SECONDS", "0");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let child = command.spawn();
            let mut child = child.map_err(|error| format!("erl (package erlang-base): {error}"))?;
            let output = BufReader::new(child.stdout.take().unwrap());
            let mut node = Self { child, output };
            node.eval("ready.");
            Ok(node)
        }

        fn eval(&mut self, expression: &str) -> String {
            self.child.stdin.as_mut().unwrap().write_all(format!("{expression}\n").as_bytes()).unwrap();
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            line.trim().to_owned()
        }

        fn map(&self) -> String {
            format!("/tmp/perf-{}.map", self.child.id())
        }
    }

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = std::fs::remove_file(self.map());
        }
    }

    /// Loads a module `late` with one function, and lets the code before it go.
    fn load(node: &mut Node, function: &str) {
        let loaded = node.eval(&format!(
            "begin F = {function}, {{ok, _, B}} = compile:forms([{{attribute, 1, module, late}}, \
             {{attribute, 1, export, [{{F, 0}}]}}, \
             {{function, 1, F, 0, [{{clause, 1, [], [], [{{atom, 1, ok}}]}}]}}]), \
             code:purge(late), {{module, M}} = code:load_binary(late, [], B), M end."
        ));
        assert_eq!(loaded, "late");
    }

    /// Asserts that memory and map agree on each address of the map; returns it.
    fn assert_like_map(table: &JitTable, node: &Node) -> String {
        let text = std::fs::read_to_string(node.map()).unwrap();
        let mut map = JitTable::default();
        text.lines().for_each(|line| map.add_line(line));
        for line in text.lines() {
            let (start, size) = range(line);
            for address in [start, start + size.saturating_sub(1)] {
                assert_eq!(table.find(address), map.find(address), "{line}");
            }
        }
        text
    }

    fn started() -> Result<(Node, Unwritten), String> {
        let node = Node::start(&["+JPperf", "map"])?;
        let unwritten = Unwritten::of(node.child.id());
        Ok((node, unwritten.ok_or("the memory of a child cannot be read here")?))
    }

    /// Reads on, however soon after the last look.
    fn look(unwritten: &mut Unwritten, table: &mut JitTable) -> bool {
        unwritten.next = None;
        unwritten.read_on(table)
    }

    fn range(line: &str) -> (u64, u64) {
        let mut numbers = line.split(' ').map(|it| it.trim_start_matches("0x"));
        let mut number = || u64::from_str_radix(numbers.next().unwrap(), 16).unwrap();
        (number(), number())
    }

    #[test]
    fn names_in_memory_are_those_of_the_map() {
        let (mut node, mut unwritten) = testkit::or_skip!(started());
        let mut table = JitTable::default();
        assert!(has_erlang_names(node.child.id()) && unwritten.read_on(&mut table));
        let text = assert_like_map(&table, &node);
        let functions = text.lines().filter(|it| !it.ends_with("-CodeInfoPrologue"));
        assert!(functions.count() > 5_000);
        for name in ["$lists:member/2", "$global::process_main"] {
            assert!(text.contains(&format!(" {name}\n")), "{name}");
        }
        // Modules of the same size, each in the memory of one that was purged.
        let names: Vec<String> = (10..20).map(|n| format!("loaded_{n}")).collect();
        for name in &names {
            load(&mut node, name);
            assert!(look(&mut unwritten, &mut table), "{name} was loaded");
            assert_like_map(&table, &node);
        }
        assert!(!look(&mut unwritten, &mut table));
        let text = assert_like_map(&table, &node);
        let of = |name: &String| {
            let end = format!(" $late:{name}/0");
            let line = text.lines().find(|line| line.ends_with(&end));
            range(line.expect(name)).0
        };
        let mut places: Vec<u64> = names.iter().map(of).collect();
        assert_eq!(table.find(*places.last().unwrap()), Some("$late:loaded_19/0"));
        places.sort_unstable();
        places.dedup();
        assert!(places.len() < names.len(), "no memory was used again");
    }

    #[test]
    fn callers_have_the_lines_that_the_emulator_says() {
        // Without a JIT map: lines come from memory alone, and there they are, whatever the flags.
        let (mut node, mut unwritten) = testkit::or_skip!(started());
        let mut table = JitTable::default();
        assert!(unwritten.read_on(&mut table));
        let callers = node.eval(include_str!("callers.erl"));
        let mut found = 0;
        for caller in callers.trim_matches('"').split(';') {
            let fields: Vec<&str> = caller.split(',').collect();
            let [address, name, file, line] = fields[..] else {
                panic!("{callers}");
            };
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            let function = format!("${name}");
            assert_eq!(table.find(address), Some(function.as_str()), "{caller}");
            let told = table.line(address, true);
            let told = told.map(|it| (it.file_name().to_owned(), it.number));
            let wanted = (file.rsplit('/').next().unwrap().to_owned(), line.parse().unwrap());
            assert_eq!(told.unwrap_or_default(), wanted, "{caller}");
            found += u32::from(wanted.1 > 0);
        }
        assert!(found >= 10, "{found} lines: {callers}");
    }

    #[test]
    fn other_processes_tell_no_names() {
        assert!(!has_erlang_names(std::process::id()));
    }
}
