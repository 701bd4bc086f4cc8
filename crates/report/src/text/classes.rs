//! Classes of code in a profile.

use stacks::{Class, ClassShare, ProfileSummary};

use crate::numbers::percent;

/// Classes below this share of all samples are named together.
const LEAST_SHARE: f64 = 0.02;

/// One line: the classes with the largest shares, as text that is not sanitised. Nothing for a profile without samples.
#[must_use]
pub fn classes(profile: &ProfileSummary) -> Option<String> {
    let all = profile.classes.iter();
    let (large, small): (Vec<&ClassShare>, Vec<_>) = all.partition(|it| it.share >= LEAST_SHARE);
    let rest: f64 = small.iter().map(|it| it.share).sum();
    let rest = (rest > 0.0).then(|| format!("others {}", percent(rest)));
    let parts = large
        .iter()
        .map(|it| format!("{} {}", it.class, percent(it.share)));
    let parts: Vec<_> = parts.chain(rest).collect();
    let what = match profile.unit.as_str() {
        "samples" | "nanoseconds" | "" => "time",
        unit => unit,
    };
    (!parts.is_empty()).then(|| format!("{what} in: {}", parts.join(", ")))
}

/// Meaning of a class.
#[must_use]
pub const fn class_meaning(class: Class) -> &'static str {
    match class {
        Class::ErlangCode => "functions that the JIT compiled",
        Class::JavaCode => "functions that the Java virtual machine compiled or interprets",
        Class::OwnCode => "functions of the program itself",
        Class::Libraries => {
            "shared libraries, such as zlib, OpenSSL and natively implemented functions"
        }
        Class::BuiltInFunctions => "C code of the emulator that Erlang code calls",
        Class::Ets => "reading and writing ETS tables, and their match specifications",
        Class::Messages => {
            "sending and receiving between Erlang processes, with the copies that it takes"
        }
        Class::GarbageCollection => "garbage collection",
        Class::Allocators => "the emulator's allocators, malloc and its relatives",
        Class::Ports => "sockets and files in the emulator, as far as the kernel is not asked",
        Class::Scheduling => "choosing what runs next, waking others, timers",
        Class::Waiting => "spinning for locks, going to sleep, waking up, asking what is ready",
        Class::KernelNetwork => "TCP, IP, sockets",
        Class::KernelDisk => "file systems, their page cache, block devices",
        Class::KernelMemory => "page faults, mapping and unmapping memory",
        Class::KernelScheduling => "the thread left the kernel, and another got the processor",
        Class::KernelOther => "interrupts, and system calls that fit nowhere else",
        Class::VirtualMachine => "the rest of the emulator or the Java virtual machine",
        Class::Unnamed => "functions that no symbol names, and nothing with a class calls",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_classes_come_together() {
        assert_eq!(classes(&ProfileSummary::default()), None);
        let share = |class, share| ClassShare {
            class,
            share,
            weight: 1,
        };
        let profile = ProfileSummary {
            classes: vec![
                share(Class::ErlangCode, 0.6),
                share(Class::GarbageCollection, 0.37),
                share(Class::Ets, 0.015),
                share(Class::Waiting, 0.015),
            ],
            ..ProfileSummary::default()
        };
        assert_eq!(
            classes(&profile).as_deref(),
            Some("time in: Erlang code 60 %, garbage collection 37 %, others 3.0 %")
        );
    }
}
