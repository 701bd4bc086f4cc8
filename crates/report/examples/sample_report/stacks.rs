//! A made-up CPU profile of a RabbitMQ node: a few real paths with many leaves around them.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use stacks::{ErlangProcess, EventKind, Footer, Frame, FrameKind, ProfileHeader, Sample, SourceLine, StacksWriter};

use crate::random::Random;
use crate::{ORIGIN, STARTED_UNIX_NS, State};

use FrameKind::{Erlang, Kernel, Libc, Runtime, Unknown};

const ROOT: &str = "$proc_lib:init_p_do_apply/3";

/// Names of a path from the root, and how often it is on CPU.
type WeightedPath = (u32, Vec<&'static str>);

/// Paths as folded stacks.
static PATHS: LazyLock<Vec<WeightedPath>> = LazyLock::new(|| {
    let path = |line: &'static str| -> Option<WeightedPath> {
        let (names, weight) = line.rsplit_once(' ')?;
        Some((weight.parse().ok()?, names.split(';').collect()))
    };
    include_str!("paths.folded").lines().filter_map(path).collect()
});

/// Leaves below any of them.
const LEAVES: [&str; 12] = [
    "$lists:reverse/2",
    "$maps:get/3",
    "$binary:part/3",
    "process_main",
    "erts_alloc",
    "erts_free",
    "copy_struct_x",
    "size_object_x",
    "memcpy",
    "malloc",
    "$erlang:send/2",
    "asm_sysvec_apic_timer_interrupt",
];

const HOSTILE: [&str; 4] = [
    "$<script>alert(1)</script>:init/1",
    "</script><script>document.title='broken'</script>",
    "$evil\u{1b}[31m:\u{202e}desrever/0",
    "a;b \"quoted\" & <img src=x onerror=alert(1)>",
];

fn frame(name: &str) -> Frame {
    let (kind, module) = match name {
        "[unknown]" => (Unknown, ""),
        _ if name.starts_with('$') => (Erlang, "[jit]"),
        "memcpy" | "memmove" | "malloc" | "writev" | "epoll_wait" => (Libc, "libc.so.6"),
        "prim_file_writev_nif" | "efile_writev" | "prim_inet:async_recv" => (Runtime, "beam.smp"),
        _ if is_kernel(name) => (Kernel, "[kernel]"),
        _ => (Runtime, "beam.smp"),
    };
    Frame::new(name, module, kind)
}

fn is_kernel(name: &str) -> bool {
    const PREFIXES: [&str; 13] = [
        "__tcp_",
        "asm_",
        "copy_user",
        "do_syscall",
        "entry_SYSCALL",
        "ep_poll",
        "ext4_",
        "finish_task",
        "ip_",
        "loopback",
        "sock_",
        "tcp_",
        "vfs_",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !name.starts_with("tcp_inet")
}

/// Queues that differ only at the end of their long names.
const ALIKE: [&str; 2] = [
    "orders-of-the-web-shop-which-are-to-be-packed-and-sent-to-customers-eu-1",
    "orders-of-the-web-shop-which-are-to-be-packed-and-sent-to-customers-eu-2",
];

/// Queues, channels and connections of a node; one of a name that means harm.
fn processes(out: &mut StacksWriter, state: &State) -> Vec<u32> {
    let queues: &[&str] = match (state.hostile, state.faults) {
        (true, _) => &["<img src=x onerror=alert(1)>\u{1b}[31m"],
        (_, true) => &ALIKE,
        _ => &["orders-7"],
    };
    let process = |id: usize, role: &str, name: &str, connection: &str| ErlangProcess {
        id: format!("<0.{id}.0>"),
        role: role.into(),
        name: name.into(),
        vhost: "/".into(),
        connection: connection.into(),
        from_stacks: false,
    };
    let queues = queues.iter().zip(400..);
    let mut all: Vec<ErlangProcess> = queues.map(|(queue, id)| process(id, "queue", queue, "")).collect();
    for i in 0..400 {
        let connection = format!("producer-{}", i / 3);
        let role = ["connection", "channel", "writer"].get(i % 3).copied().unwrap_or_default();
        all.push(process(500 + i, role, &format!("{connection} (1)"), &connection));
    }
    all.push(ErlangProcess::unnamed("<0.1201.0>"));
    all.iter().map(|process| out.process(process)).collect()
}

/// Events beside time on CPU, with the largest weight of a sample and the number of samples per CPU sample.
const FURTHER: [(&str, &str, &str, EventKind, u64, u32); 2] = [
    ("off-cpu", "context-switches", "nanoseconds", EventKind::OffCpu, 4_000_000, 3),
    ("mmap-bytes", "syscalls:sys_enter_mmap", "bytes", EventKind::Memory, 1 << 20, 40),
];

/// Writes the stacks of events other than time on CPU into a folder.
pub(crate) fn write_further(dir: &Path, state: &State) -> io::Result<()> {
    for (event, kernel_event, unit, kind, heaviest, rarer) in FURTHER {
        let header = ProfileHeader {
            event: event.into(),
            kernel_event: kernel_event.into(),
            unit: unit.into(),
            kind,
            pid: 4711,
            command: "beam.smp".into(),
            ..ProfileHeader::new(ORIGIN, STARTED_UNIX_NS)
        };
        let file = dir.join(format!("{event}.stacks"));
        let mut out = StacksWriter::create(&file, header)?;
        let (mut random, mut written) = (Random(u64::from(rarer)), Written::default());
        let threads: Vec<u32> = (1..=2).map(|i| out.thread(&format!("{i}_scheduler"))).collect();
        let processes = processes(&mut out, state);
        let samples = state.samples / rarer;
        for i in 0..samples {
            let share = f64::from(i) / f64::from(samples);
            let path = PATHS.get(random.below(PATHS.len()));
            let path = path.map_or(&[ROOT][..], |(_, path)| path.as_slice());
            let (stack, complete) = stack(&mut out, &mut written, path, state.hostile, &mut random);
            let start = if state.load.is_some() { 5.0 } else { 0.0 };
            out.sample(&Sample {
                t: ((start + share * f64::from(state.seconds)) * 1e9) as u64,
                weight: 4_096 + random.next() % heaviest / 4_096 * 4_096,
                stack,
                thread: threads.get(random.below(2)).copied().unwrap_or(0),
                complete,
                process: processes.get(random.below(3)).copied(),
                ..Sample::default()
            });
        }
        out.finish(Footer { to: u64::from(state.seconds) * 1_000_000_000, ..Footer::default() })?;
    }
    Ok(())
}

/// Writes `cpu.stacks` into a folder.
pub(crate) fn write(dir: &Path, state: &State) -> io::Result<()> {
    let header = ProfileHeader {
        event: "cpu".into(),
        kernel_event: "cpu-clock".into(),
        unit: "samples".into(),
        period_ns: 1_001_001,
        frequency: 999,
        pid: 4711,
        command: "beam.smp".into(),
        ..ProfileHeader::new(ORIGIN, STARTED_UNIX_NS)
    };
    let mut out = StacksWriter::create(&dir.join("cpu.stacks"), header)?;
    let (mut random, mut written) = (Random(11), Written::default());
    let threads: Vec<u32> = (1..=4).map(|i| out.thread(&format!("{i}_scheduler"))).collect();
    let others = [out.thread("1_dirty_io_sche"), out.thread("2_dirty_io_sche"), out.thread("erts_poll")];
    let processes = processes(&mut out, state);
    let total: u32 = PATHS.iter().map(|(weight, _)| weight).sum();
    let (start, length) = (if state.load.is_some() { 5.0 } else { 0.0 }, f64::from(state.seconds));
    let cut = if state.state == archive::RunState::Running { 0.5 } else { 1.0 };
    for i in 0..state.samples {
        let share = f64::from(i) / f64::from(state.samples);
        if share > cut {
            break;
        }
        // Half a second of silence where the load stalls.
        if state.load.is_some() && (0.45..0.45 + 0.5 / length).contains(&share) {
            continue;
        }
        let mut pick = random.below(total as usize) as u32;
        // Garbage collection comes in waves: something to see over time.
        let wave = (share * 40.0).sin() > 0.8;
        let path = PATHS.iter().find(|(weight, _)| {
            let here = pick < *weight;
            pick = pick.wrapping_sub(*weight);
            here
        });
        let Some((_, path)) = path.filter(|_| !wave || random.unit() < 0.7).or(PATHS.get(10)) else { continue };
        let (stack, complete) = stack(&mut out, &mut written, path, state.hostile, &mut random);
        let thread = if path.contains(&"erts_dirty_io_thread_func") {
            others.get(random.below(2))
        } else {
            let busy = if random.unit() < 0.7 { 2 } else { 4 };
            threads.get(random.below(busy))
        };
        out.sample(&Sample {
            t: ((start + share * length) * 1e9) as u64 + random.next() % 900_000,
            weight: 1,
            stack,
            thread: thread.copied().unwrap_or(0),
            cpu: random.below(2) as u16,
            complete,
            // One queue takes a third of the node, or two of them; schedulers look for work, too.
            process: match random.below(10) {
                0 => None,
                1 if state.faults => processes.get(1).copied(),
                1..=3 => processes.first().copied(),
                4 if state.faults => processes.first().copied(),
                _ => processes.get(random.below(processes.len())).copied(),
            },
            ..Sample::default()
        });
    }
    out.lost(17);
    if cut < 1.0 {
        out.flush();
        return Ok(());
    }
    out.finish(Footer {
        from: (start * 1e9) as u64,
        to: ((start + length) * 1e9) as u64,
        own_cpu_ns: 640_000_000,
        cpu_share: Some(0.93),
        ..Footer::default()
    })
}

/// The line at which an Erlang function calls another.
fn line(name: &str, called: Option<&&str>) -> Option<SourceLine> {
    let (module, _) = name.strip_prefix('$')?.split_once(':')?;
    let after = called.map_or(3, |it| it.len() % 9 * 2) as u32;
    (module != "global")
        .then(|| SourceLine { file: format!("src/{module}.erl"), number: 100 + name.len() as u32 * 7 + after })
}

/// Ids of what a file has already: of a million samples few differ.
#[derive(Default)]
struct Written {
    /// Nodes by their path and the number of its names that they stand for.
    nodes: HashMap<(*const &'static str, usize), u32>,
    /// Frames below paths, by their names.
    frames: HashMap<String, u32>,
}

impl Written {
    fn node(&mut self, out: &mut StacksWriter, path: &[&'static str], depth: usize) -> Option<u32> {
        let key = (path.as_ptr(), depth);
        if let Some(node) = self.nodes.get(&key) {
            return Some(*node);
        }
        let mut node = None;
        for (at, name) in path.iter().take(depth).enumerate() {
            let line = line(name, path.get(at + 1));
            let id = out.frame(&frame(name).at_line(line));
            node = Some(out.node(node, id));
        }
        self.nodes.extend(node.map(|node| (key, node)));
        node
    }

    fn frame(&mut self, out: &mut StacksWriter, name: String) -> u32 {
        *self.frames.entry(name).or_insert_with_key(|name| out.frame(&frame(name)))
    }
}

/// A stack along a path: sometimes only part of it, sometimes something below it.
fn stack(
    out: &mut StacksWriter,
    written: &mut Written,
    path: &[&'static str],
    hostile: bool,
    random: &mut Random,
) -> (u32, bool) {
    let depth = if random.unit() < 0.55 { path.len() } else { 1 + random.below(path.len()) };
    let mut node = written.node(out, path, depth);
    if hostile && random.unit() < 0.3 {
        let name = HOSTILE.get(random.below(HOSTILE.len())).copied().unwrap_or_default();
        let id = out.frame(&frame(name));
        node = Some(out.node(node, id));
    }
    for _ in 0..random.below(4) {
        // Hundreds of functions with few samples each, as in every real profile.
        let name = if random.unit() < 0.6 {
            LEAVES.get(random.below(LEAVES.len())).copied().unwrap_or_default().to_owned()
        } else {
            let module = [
                "rabbit_misc",
                "rabbit_basic",
                "rabbit_amqqueue",
                "mc_amqpl",
                "mc",
                "ra_log",
                "osiris_log",
                "rabbit_access_control",
            ];
            let module = module.get(random.below(module.len())).copied().unwrap_or_default();
            format!("${module}:f{}/{}", (random.unit() * random.unit() * 60.0) as u32, random.below(4))
        };
        let id = written.frame(out, name);
        node = Some(out.node(node, id));
    }
    (node.unwrap_or(0), path.first() != Some(&"[unknown]"))
}
