//! The kernel's refusals, and their remedies.

use linux::{Status, machine};
use measure::Problem;

use crate::access::{Access, AccessPart, copies_remedy};

const PARANOID: &str = "kernel.perf_event_paranoid";

/// The kernel refused even user-space events.
pub(crate) fn refused(pid: u32) -> Problem {
    let own = rustix::process::geteuid().as_raw();
    explain(pid, own, Status::of(pid).ok().map(|status| status.uid), &Access::of_this_process())
}

fn explain(pid: u32, own: u32, owner: Option<u32>, access: &Access) -> Problem {
    let (reason, remedy) = match (owner, access.remedy(&[AccessPart::Samples])) {
        (Some(owner), _) if own != 0 && owner != own => (
            format!("it belongs to user {owner}, and this is user {own}"),
            access.remedy(&AccessPart::ALL).map_or_else(
                || "profile as that user or as root".to_owned(),
                |remedy| format!("profile as that user or as root, or {remedy}"),
            ),
        ),
        (_, Some(remedy)) => (format!("{PARANOID} is {}", level(PARANOID)), remedy),
        (_, None) => (
            format!("perf_event_open is refused although {PARANOID} is {}", level(PARANOID)),
            "in a container, allow the system call: --cap-add PERFMON, or a seccomp profile with \
             perf_event_open in it"
                .to_owned(),
        ),
    };
    not_permitted(pid, &reason, remedy)
}

/// An event that happens inside the kernel is not this user's to see.
pub(crate) fn of_kernel(pid: u32, event: &str) -> Problem {
    let remedy = Access::of_this_process().remedy(&[AccessPart::Kernel]);
    let reason = format!("{event} happens inside the kernel, and {PARANOID} is {}", level(PARANOID));
    not_permitted(pid, &reason, remedy.unwrap_or_else(|| "run as root".to_owned()))
}

fn not_permitted(pid: u32, reason: &str, remedy: String) -> Problem {
    Problem::new(format!("the kernel does not allow profiling process {pid}"), reason, remedy)
}

/// The kernel or processor has no such event.
pub(crate) fn not_supported(reason: impl std::fmt::Display) -> Problem {
    let help = "boot a kernel that was built with CONFIG_PERF_EVENTS";
    Problem::new("this kernel has no performance events", reason, help)
}

/// An event that only a program in the kernel can take.
pub(crate) fn needs_program(event: &str) -> Problem {
    Problem::new(
        format!("{event} cannot be counted"),
        "it needs a program in the kernel that copies stacks, which was disabled, is not allowed, or is impossible \
         for a Go program, whose stacks are unwound by frame pointers",
        format!("use whole stacks, and {}; for a Go program use mmap-bytes", copies_remedy()),
    )
}

fn level(setting: &str) -> String {
    machine::sysctl(setting).map_or("unknown".to_owned(), |level| level.to_string())
}

/// The note of a profile that had to do without the kernel.
pub(crate) fn user_space_only() -> String {
    let remedy = Access::of_this_process().remedy(&AccessPart::ALL);
    format!(
        "user space only: time spent in the kernel is missing, because {PARANOID} is {}{}",
        level(PARANOID),
        remedy.map_or_else(String::new, |it| format!("; {it}"))
    )
}

/// The note of a profile whose kernel frames have no names.
pub(crate) fn kernel_names_hidden() -> String {
    hidden_names(&Access::of_this_process(), &level("kernel.kptr_restrict"))
}

fn hidden_names(access: &Access, level: &str) -> String {
    let why = match level {
        "0" | "1" => {
            format!("this user lacks the capability SYSLOG (kernel.kptr_restrict is {level})")
        }
        _ => format!("kernel.kptr_restrict is {level}"),
    };
    let remedy = access.remedy(&[AccessPart::KernelNames]);
    format!(
        "functions of the kernel have no names, because {why}{}",
        remedy.map_or_else(String::new, |it| format!("; {it}"))
    )
}

/// The kernel called the event's attributes invalid.
pub(crate) fn invalid(frequency: u32) -> Problem {
    let name = "kernel.perf_event_max_sample_rate";
    match machine::sysctl(name) {
        Some(most) if i64::from(frequency) > most => Problem::new(
            "the frequency is higher than this machine allows",
            format!("{frequency} samples per second, and {name} is {most}"),
            "lower the frequency or raise that setting",
        ),
        _ => not_supported("the event's attributes are invalid to it"),
    }
}

/// Not even the smallest ring may be locked in memory.
pub(crate) fn locked_memory(pages: usize) -> Problem {
    let name = "kernel.perf_event_mlock_kb";
    let kb = level(name);
    Problem::new(
        format!("cannot lock a ring of {pages} pages in memory"),
        format!("{name} is {kb}, and other profilers of this user may have used it up"),
        "raise that setting or `ulimit -l`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_cause_value_and_remedy() {
        let user = |paranoid| Access::of(false, 0, paranoid, 1);
        let foreign = explain(7, 1000, Some(102), &user(2)).sentence();
        assert!(foreign.contains("user 102") && foreign.contains("as root"), "{foreign}");
        let strict = explain(7, 1000, Some(1000), &user(4)).sentence();
        assert!(strict.contains("perf_event_paranoid is"), "{strict}");
        assert!(strict.contains("setcap cap_bpf,cap_perfmon,cap_syslog+ep /"), "{strict}");
        let root = Access::of(true, u64::MAX, 2, 1);
        let container = explain(7, 0, Some(0), &root).sentence();
        assert!(container.contains("--cap-add PERFMON"), "{container}");
        // Not that a setting is what it is already.
        let hidden = hidden_names(&user(2), "0");
        assert!(hidden.contains("lacks the capability SYSLOG"), "{hidden}");
        assert!(hidden.contains("cap_syslog+ep"), "{hidden}");
        let hidden = hidden_names(&Access::of(true, u64::MAX, 2, 2), "2");
        assert!(hidden.ends_with("kernel.kptr_restrict is 2; as root: sysctl kernel.kptr_restrict=1"), "{hidden}");
    }
}
