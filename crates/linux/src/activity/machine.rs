//! Meters of the machine.

use std::path::Path;

use super::{Meters, Unit};
use crate::{read_lossy, value};

/// Bytes of a sector in `/proc/diskstats`, whatever the device's own are.
const SECTOR: f64 = 512.0;
/// Devices of which meters are read; a machine may have thousands.
const MOST_DEVICES: usize = 32;

/// Counts of the whole machine so far, and how its memory stands now. Values that the kernel lacks are left out.
pub fn machine() -> Meters {
    let mut meters = Meters::default();
    let read = |path: &str| read_lossy(path).unwrap_or_default();
    let tick = 1.0 / rustix::param::clock_ticks_per_second().max(1) as f64;
    stat(&read("/proc/stat"), tick, &mut meters);
    memory(&read("/proc/meminfo"), &mut meters);
    let is_disk = |name: &str| {
        // Partitions have no folder of their own there; loops and memory are no disks.
        let memory = ["loop", "ram", "zram"].iter().any(|it| name.starts_with(it));
        !memory && Path::new("/sys/block").join(name).exists()
    };
    disks(&read("/proc/diskstats"), is_disk, &mut meters);
    networks(&read("/proc/self/net/dev"), &mut meters);
    let page = rustix::param::page_size() as f64;
    paging(&read("/proc/vmstat"), page, &mut meters);
    for resource in ["cpu", "memory", "io"] {
        let path = format!("/proc/pressure/{resource}");
        pressure(&read(&path), resource, &mut meters);
    }
    meters
}

/// `cpu  user nice system idle iowait irq softirq steal …` in ticks, then one line per other fact (proc(5)).
fn stat(text: &str, tick: f64, meters: &mut Meters) {
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(' ') else { continue };
        let fields: Vec<f64> = rest.split_ascii_whitespace().map_while(number).collect();
        let at = |i: usize| fields.get(i).copied();
        match key {
            "cpu" => cpu(&at, tick, meters),
            "ctxt" => meters.total("context switches", &[], Unit::Things, at(0)),
            "processes" => meters.total("processes started", &[], Unit::Things, at(0)),
            "procs_running" => meters.level("threads", &[("state", "runnable")], Unit::Things, at(0)),
            "procs_blocked" => meters.level("threads", &[("state", "waiting for a disk")], Unit::Things, at(0)),
            _ => {}
        }
    }
}

fn cpu(at: &dyn Fn(usize) -> Option<f64>, tick: f64, meters: &mut Meters) {
    let sum = |fields: &[usize]| -> Option<f64> {
        let ticks: Option<f64> = fields.iter().map(|field| at(*field)).sum();
        ticks.map(|ticks| ticks * tick)
    };
    let states: [(&str, &[usize]); 5] = [
        ("user", &[0, 1]),
        ("system", &[2]),
        ("interrupts", &[5, 6]),
        ("stolen", &[7]),
        ("idle, waiting for a disk", &[4]),
    ];
    for (state, fields) in states {
        meters.total("CPU", &[("state", state)], Unit::CpuSeconds, sum(fields));
    }
}

/// `Key:   number kB`.
fn memory(text: &str, meters: &mut Meters) {
    let find = |key: &str| value(text, key).map(|kib| kib as f64 * 1024.0);
    let sum = |keys: &[&str]| -> Option<f64> { keys.iter().map(|key| find(key)).sum() };
    let shared = find("Shmem").unwrap_or(0.0);
    let cached = sum(&["Cached", "Buffers"]).map(|all| (all - shared).max(0.0));
    let kinds = [
        ("programs", find("AnonPages")),
        ("page cache", cached),
        ("shared", find("Shmem")),
        ("kernel", sum(&["Slab", "KernelStack", "PageTables"])),
    ];
    for (kind, bytes) in kinds {
        meters.level("memory", &[("kind", kind)], Unit::Bytes, bytes);
    }
    // Beside it the kinds could not be told apart.
    meters.level("free memory", &[], Unit::Bytes, find("MemFree"));
    meters.level("not yet written to disk", &[], Unit::Bytes, sum(&["Dirty", "Writeback"]));
    let swap = find("SwapTotal").zip(find("SwapFree")).filter(|(all, _)| *all > 0.0);
    meters.level("swap used", &[], Unit::Bytes, swap.map(|(all, free)| (all - free).max(0.0)));
}

/// `major minor name reads merged sectors ms writes merged sectors ms in-flight ms-busy …`.
fn disks(text: &str, is_disk: impl Fn(&str) -> bool, meters: &mut Meters) {
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let name = fields.next()?;
        let counts: Vec<f64> = fields.map_while(number).collect();
        Some((name, counts))
    });
    for (name, counts) in lines.filter(|(name, _)| is_disk(name)).take(MOST_DEVICES) {
        let device = ("device", name);
        let at = |i: usize| counts.get(i).copied();
        for (direction, sectors, operations) in [("read", 2, 0), ("written", 6, 4)] {
            let labels = [device, ("direction", direction)];
            if let Some((sectors, operations)) = at(sectors).zip(at(operations)) {
                meters.total("disk", &labels, Unit::Bytes, sectors * SECTOR);
                meters.total("disk operations", &labels, Unit::Things, operations);
            }
        }
        let busy = at(9).map(|ms| ms / 1e3);
        meters.total("disk busy", &[device], Unit::Seconds, busy);
    }
}

/// `  name: bytes packets errors drop fifo frame compressed multicast bytes packets …`.
fn networks(text: &str, meters: &mut Meters) {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    for (name, rest) in lines.take(MOST_DEVICES) {
        let counts: Vec<f64> = rest.split_ascii_whitespace().map_while(number).collect();
        for (direction, field) in [("received", 0), ("sent", 8)] {
            let labels = [("interface", name.trim()), ("direction", direction)];
            // An interface that nothing has ever passed is of no use to anybody.
            if let Some(bytes) = counts.get(field).filter(|bytes| **bytes > 0.0) {
                meters.total("network", &labels, Unit::Bytes, *bytes);
            }
        }
    }
}

/// `key number`.
fn paging(text: &str, page: f64, meters: &mut Meters) {
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else { continue };
        let value = number(value);
        let bytes = value.map(|pages| pages * page);
        let swapped = |direction| ("direction", direction);
        match key {
            "pgmajfault" => meters.total("major page faults", &[], Unit::Things, value),
            "pswpin" => meters.total("swapped", &[swapped("in")], Unit::Bytes, bytes),
            "pswpout" => meters.total("swapped", &[swapped("out")], Unit::Bytes, bytes),
            _ => {}
        }
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`, and the same for `full`.
fn pressure(text: &str, resource: &'static str, meters: &mut Meters) {
    for line in text.lines() {
        let Some((extent, rest)) = line.split_once(' ') else { continue };
        let micros = rest.rsplit_once("total=").and_then(|(_, it)| number(it));
        // Nobody can wait for the CPU while everybody does: `full` is always 0 for the machine.
        if !matches!((extent, resource), ("some", _) | ("full", "memory" | "io")) {
            continue;
        }
        let waiting = format!("{resource} ({extent})");
        let labels = ("waiting for", waiting.as_str());
        meters.total("pressure", &[labels], Unit::Seconds, micros.map(|micros| micros / 1e6));
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<u64>().ok().map(|it| it as f64)
}

#[cfg(test)]
mod tests {
    use super::super::Amount;
    use super::*;

    /// Each meter as `name value value… amount`.
    fn told(meters: &Meters) -> Vec<String> {
        let one = |(name, amount): &(super::super::MeterName, Amount)| {
            let labels = name.labels.iter().map(|(_, value)| value.as_str());
            let words: Vec<&str> = [name.name].into_iter().chain(labels).collect();
            match amount {
                Amount::Level(value) => format!("{} = {value}", words.join(", ")),
                Amount::Total(value) => format!("{} + {value}", words.join(", ")),
            }
        };
        meters.iter().map(one).collect()
    }

    fn filled(fill: impl FnOnce(&mut Meters)) -> Vec<String> {
        let mut meters = Meters::default();
        fill(&mut meters);
        told(&meters)
    }

    #[test]
    fn this_machine_has_cpu_memory_and_a_network() {
        // An interface that nothing has passed yet is not shown.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let _connected = std::net::TcpStream::connect(address).expect("a connection");
        let told = told(&machine());
        for wanted in ["CPU, user", "memory, programs", "network, lo", "context switches"] {
            assert!(told.iter().any(|it| it.starts_with(wanted)), "{wanted}: {told:?}");
        }
        let names: std::collections::BTreeSet<_> = machine().iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names.len(), machine().iter().count(), "no meter stands twice");
    }

    #[test]
    fn files_are_understood() {
        let text = include_str!("../../tests/data/stat.txt");
        let expected: Vec<&str> = include_str!("../../tests/data/stat-told.txt").lines().collect();
        assert_eq!(filled(|meters| stat(text, 0.01, meters)), expected);

        let line = " 254 0 vda 10 5 20 12 30 44 40 30 0 7000 42 47 45 53\n 254 1 vda1 1 1 1 1\n cut";
        let expected = [
            "disk, vda, read + 10240",
            "disk operations, vda, read + 10",
            "disk, vda, written + 20480",
            "disk operations, vda, written + 30",
            "disk busy, vda + 7",
        ];
        assert_eq!(filled(|meters| disks(line, |name| name == "vda", meters)), expected);

        let lines = "Inter-| Receive\n face |bytes\n  lo: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n e: 0 0";
        let expected = ["network, lo, received + 5", "network, lo, sent + 6"];
        assert_eq!(filled(|meters| networks(lines, meters)), expected);

        let paged = filled(|meters| paging("pgmajfault 3\npswpin 2\nnr_free x\n", 4096.0, meters));
        assert_eq!(paged, ["major page faults + 3", "swapped, in + 8192"]);
        let line = "some avg10=1.00 avg60=0.00 avg300=0.00 total=2000000\nfull total=5\n";
        assert_eq!(filled(|meters| pressure(line, "cpu", meters)), ["pressure, cpu (some) + 2"]);
    }

    #[test]
    fn kinds_of_memory_do_not_overlap() {
        let text = "MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 5 kB\nCached: 40 kB\nShmem: 8 kB\n\
            AnonPages: 30 kB\nSlab: 4 kB\nKernelStack: 1 kB\nPageTables: 2 kB\nDirty: 1 kB\n\
            Writeback: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugePages_Total: 0\n";
        let expected = [
            "memory, programs = 30720",
            "memory, page cache = 37888",
            "memory, shared = 8192",
            "memory, kernel = 7168",
            "free memory = 10240",
            "not yet written to disk = 1024",
        ];
        assert_eq!(filled(|meters| memory(text, meters)), expected);
    }
}
