//! What the kernel's refusals mean, and what to do about them.

use linux::{Status, machine};
use measure::Problem;

use crate::Error;

const PARANOID: &str = "kernel.perf_event_paranoid";

/// The kernel refused even user-space events.
pub(crate) fn refused(pid: u32) -> Error {
    let own = rustix::process::geteuid().as_raw();
    let owner = Status::of(pid).ok().map(|status| status.uid);
    explain(pid, own, owner, machine::sysctl(PARANOID))
}

fn explain(pid: u32, own: u32, owner: Option<u32>, paranoid: Option<i64>) -> Error {
    let (reason, remedy) = match (owner, paranoid) {
        (Some(owner), _) if own != 0 && owner != own => (
            format!("it belongs to user {owner}, and this is user {own}"),
            "profile as that user or as root".to_owned(),
        ),
        // Debian's and Ubuntu's kernels know levels above 2, which forbid everything.
        (_, Some(level)) if level > 2 => (
            format!("{PARANOID} is {level}"),
            format!("as root: sysctl {PARANOID}=1 (or 2 for user space only)"),
        ),
        (_, level) => (
            format!(
                "perf_event_open is refused although {PARANOID} is {}",
                level.map_or("unknown".to_owned(), |level| level.to_string())
            ),
            "in a container, allow the system call: --cap-add PERFMON, or a seccomp profile with \
             perf_event_open in it"
                .to_owned(),
        ),
    };
    Error::NotPermitted {
        pid,
        reason,
        remedy,
    }
}

/// An event that happens inside the kernel is not this user's to see.
pub(crate) fn of_kernel(pid: u32, event: &str) -> Error {
    let level = machine::sysctl(PARANOID).map_or("unknown".to_owned(), |level| level.to_string());
    Error::NotPermitted {
        pid,
        reason: format!("{event} happens inside the kernel, and {PARANOID} is {level}"),
        remedy: format!(
            "run as root, give bellows the capability PERFMON, or sysctl {PARANOID}=-1"
        ),
    }
}

/// An event that only a program in the kernel can take.
pub(crate) fn needs_program(event: &str) -> Error {
    Error::Options(Problem::new(
        format!("{event} cannot be counted"),
        "a program in the kernel counts it and copies the stack, which was not wanted, is not allowed, or is not done for a Go \
         program, whose stacks are walked by frame pointers",
        "take whole stacks, and run as root or give bellows the capabilities BPF and PERFMON, on Linux 5.15 or later; of a \
         Go program take mmap-bytes",
    ))
}

/// The note of a profile that had to do without the kernel.
pub(crate) fn user_space_only() -> String {
    let level = machine::sysctl(PARANOID).map_or("unknown".to_owned(), |level| level.to_string());
    format!(
        "user space only: time spent in the kernel is missing, because {PARANOID} is {level}; \
         as root, `sysctl {PARANOID}=1` allows it"
    )
}

/// The note of a profile whose kernel frames have no names.
pub(crate) fn kernel_names_hidden() -> String {
    let level = machine::sysctl("kernel.kptr_restrict");
    format!(
        "functions of the kernel have no names, because kernel.kptr_restrict is {}; \
         as root, `sysctl kernel.kptr_restrict=0` shows them",
        level.map_or("unknown".to_owned(), |level| level.to_string())
    )
}

/// The kernel called the event's attributes invalid.
pub(crate) fn invalid(frequency: u32) -> Error {
    let name = "kernel.perf_event_max_sample_rate";
    match machine::sysctl(name) {
        Some(most) if i64::from(frequency) > most => Error::Options(Problem::new(
            "the frequency is higher than this machine allows",
            format!("{frequency} samples per second, and {name} is {most}"),
            "lower the frequency or raise that setting",
        )),
        _ => Error::NotSupported {
            reason: "the event's attributes are invalid to it".into(),
        },
    }
}

/// Not even the smallest ring may be locked in memory.
pub(crate) fn locked_memory(pages: usize) -> Error {
    let name = "kernel.perf_event_mlock_kb";
    let kb = machine::sysctl(name).map_or("unknown".to_owned(), |kb| kb.to_string());
    Error::Options(Problem::new(
        format!("cannot lock a ring of {pages} pages in memory"),
        format!("{name} is {kb}, and other profilers of this user may have used it up"),
        "raise that setting or `ulimit -l`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_cause_value_and_remedy() {
        let foreign = explain(7, 1000, Some(102), Some(2)).problem().sentence();
        assert!(
            foreign.contains("user 102") && foreign.contains("as root"),
            "{foreign}"
        );
        let strict = explain(7, 1000, Some(1000), Some(4)).problem().sentence();
        assert!(strict.contains("perf_event_paranoid is 4"), "{strict}");
        assert!(
            strict.contains("sysctl kernel.perf_event_paranoid=1"),
            "{strict}"
        );
        let container = explain(7, 0, Some(0), Some(2)).problem().sentence();
        assert!(container.contains("--cap-add PERFMON"), "{container}");
    }
}
