//! Access of this user to other programs and to the kernel, and remedies.

use std::path::{Path, PathBuf};

use linux::{Status, machine};
use measure::shell_word;

/// The capabilities that a profile is whole with, as `setcap` takes them.
const ALL: &str = "cap_bpf,cap_perfmon,cap_syslog+ep";
const SYS_ADMIN: u64 = 1 << 21;
const SYSLOG: u64 = 1 << 34;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// Facts that decide a profile's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    is_root: bool,
    /// It is in a user namespace, which gives none of the capabilities that count here.
    in_user_namespace: bool,
    /// Its effective capabilities, a bit each.
    capabilities: u64,
    paranoid: Option<i64>,
    kptr_restrict: Option<i64>,
}

/// A part of a profile that may be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPart {
    /// Samples at all.
    Samples,
    /// The kernel's own work for a program.
    Kernel,
    /// Names of the kernel's functions.
    KernelNames,
    /// Callers of code without frame pointers, from copies of stacks.
    WholeStacks,
}

impl AccessPart {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Samples, Self::Kernel, Self::KernelNames, Self::WholeStacks];
}

impl Access {
    /// That of this process.
    pub fn of_this_process() -> Self {
        let status = Status::of(std::process::id()).ok();
        let in_user_namespace = machine::in_user_namespace();
        Self {
            is_root: rustix::process::geteuid().is_root(),
            in_user_namespace,
            capabilities: if in_user_namespace { 0 } else { status.map_or(0, |it| it.capabilities) },
            paranoid: machine::sysctl("kernel.perf_event_paranoid"),
            kptr_restrict: machine::sysctl("kernel.kptr_restrict"),
        }
    }

    const fn has(&self, capability: u64) -> bool {
        self.capabilities & capability != 0
    }

    /// Whether the kernel shows a part. Unreadable, `perf_event_paranoid` is taken for 2 and `kptr_restrict` for 1.
    pub fn shows(&self, part: AccessPart) -> bool {
        let is_trusted = self.has(PERFMON | SYS_ADMIN);
        let paranoid = self.paranoid.unwrap_or(2);
        let restrict = self.kptr_restrict.unwrap_or(1);
        match part {
            // Debian's and Ubuntu's kernels know levels above 2, which forbid everything.
            AccessPart::Samples => is_trusted || paranoid <= 2,
            AccessPart::Kernel => is_trusted || paranoid <= 1,
            // `kallsyms_show_value` of the kernel.
            AccessPart::KernelNames => restrict == 0 && paranoid <= 1 || restrict <= 1 && self.has(SYSLOG),
            AccessPart::WholeStacks => is_trusted && self.has(BPF | SYS_ADMIN),
        }
    }

    /// Commands for root that show these parts to this program; `None` where the kernel shows them already.
    pub fn remedy(&self, parts: &[AccessPart]) -> Option<String> {
        let file = std::env::current_exe().map_or_else(|_| "bellows".into(), still_there);
        self.remedy_for(&file, parts)
    }

    /// As [`Access::remedy`], for the program in this file.
    fn remedy_for(&self, file: &Path, parts: &[AccessPart]) -> Option<String> {
        let mut missing = parts.iter().filter(|part| !self.shows(**part)).peekable();
        missing.peek()?;
        let (names, others): (Vec<&AccessPart>, Vec<&AccessPart>) =
            missing.partition(|it| **it == AccessPart::KernelNames);
        let capabilities = match (self.in_user_namespace, self.is_root) {
            _ if others.is_empty() && self.has(SYSLOG) => None,
            (true, _) => {
                Some("run it as root outside of this user namespace, where capabilities have no effect".to_owned())
            }
            // Root itself lacks them, as in a container, whose maker gives them.
            (false, true) => Some("give the container the capabilities BPF, PERFMON and SYSLOG (--cap-add)".to_owned()),
            (false, false) => Some(format!("as root: setcap {ALL} {}", shell_word(&file.to_string_lossy()))),
        };
        const ADDRESSES: &str = "sysctl kernel.kptr_restrict=1";
        let hides_addresses = !names.is_empty() && self.kptr_restrict.unwrap_or(1) > 1;
        Some(match (capabilities, hides_addresses) {
            (Some(capabilities), false) => capabilities,
            (Some(capabilities), true) => format!("{capabilities}; {ADDRESSES}"),
            (None, true) => format!("as root: {ADDRESSES}"),
            (None, false) => String::new(),
        })
    }
}

/// Remedy to copy stacks, to be read behind a colon or a semicolon.
pub(crate) fn copies_remedy() -> String {
    let linux = "on Linux 5.15 or later";
    match Access::of_this_process().remedy(&AccessPart::ALL) {
        Some(remedy) => format!("{remedy}, {linux}"),
        None => format!("allow bpf in the container's seccomp profile, {linux}"),
    }
}

/// The file that is called so now: one that was replaced or removed while it ran has a mark at the end of its name.
fn still_there(file: PathBuf) -> PathBuf {
    let name = file.to_str().and_then(|it| it.strip_suffix(" (deleted)"));
    match name {
        Some(name) if !file.exists() => PathBuf::from(name),
        _ => file,
    }
}

#[cfg(test)]
impl Access {
    pub(crate) const fn of(is_root: bool, capabilities: u64, paranoid: i64, restrict: i64) -> Self {
        let (paranoid, kptr_restrict) = (Some(paranoid), Some(restrict));
        Self { is_root, in_user_namespace: false, capabilities, paranoid, kptr_restrict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> impl Iterator<Item = Access> {
        let bits = [SYSLOG, PERFMON, BPF, SYS_ADMIN];
        let sets = (0..1 << bits.len())
            .map(move |set: u64| (0..bits.len()).filter(|it| set >> it & 1 == 1).map(|it| bits[it]).sum::<u64>());
        sets.flat_map(|set| {
            [true, false].into_iter().flat_map(move |is_root| {
                (-1..=4).flat_map(move |paranoid| {
                    (0..=2).flat_map(move |restrict| {
                        let state = Access::of(is_root, set, paranoid, restrict);
                        let inside = Access { in_user_namespace: true, capabilities: 0, ..state };
                        [state, inside]
                    })
                })
            })
        })
    }

    fn after(state: &Access, commands: &str) -> Access {
        let mut done = *state;
        for command in commands.split("; ") {
            let command = command.strip_prefix("as root: ").unwrap_or(command);
            let all = SYSLOG | PERFMON | BPF;
            match command {
                "setcap cap_bpf,cap_perfmon,cap_syslog+ep '/opt/my tools/bellows'" => {
                    // In a container without them nobody may give them.
                    assert!(!state.is_root && !state.in_user_namespace, "{state:?}");
                    done.capabilities |= all;
                }
                "give the container the capabilities BPF, PERFMON and SYSLOG (--cap-add)" => {
                    assert!(state.is_root && !state.in_user_namespace, "{state:?}");
                    done.capabilities |= all;
                }
                "run it as root outside of this user namespace, where capabilities have no effect" => {
                    assert!(state.in_user_namespace, "{state:?}");
                    done = Access { is_root: true, in_user_namespace: false, capabilities: u64::MAX, ..done };
                }
                "sysctl kernel.kptr_restrict=1" => {
                    assert_eq!(state.kptr_restrict, Some(2), "{state:?}");
                    done.kptr_restrict = Some(1);
                }
                other => panic!("{state:?}: {other:?}"),
            }
        }
        done
    }

    #[test]
    fn every_remedy_mends_the_state_that_prints_it() {
        let mut mended = 0;
        for state in states() {
            let groups = AccessPart::ALL.map(|part| vec![part]);
            for parts in groups.into_iter().chain([AccessPart::ALL.to_vec()]) {
                let is_whole = parts.iter().all(|it| state.shows(*it));
                let Some(commands) = state.remedy_for(Path::new("/opt/my tools/bellows"), &parts) else {
                    assert!(is_whole, "{state:?} {parts:?}");
                    continue;
                };
                assert!(!is_whole, "{state:?} {parts:?}: {commands}");
                let done = after(&state, &commands);
                for part in parts {
                    assert!(done.shows(part), "{state:?} {part:?}: {commands}");
                }
                mended += 1;
            }
        }
        assert!(mended > 500, "{mended}");
    }

    #[test]
    fn a_program_that_was_replaced_is_called_as_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        assert_eq!(still_there(file("bellows (deleted)")), file("bellows"));
        assert_eq!(still_there(file("bellows")), file("bellows"));
        std::fs::write(file("so called (deleted)"), "").expect("a file");
        assert_eq!(still_there(file("so called (deleted)")), file("so called (deleted)"));
    }

    #[test]
    fn what_the_kernel_shows_to_whom() {
        let user = |paranoid, restrict| Access::of(false, 0, paranoid, restrict);
        let shown = |of: Access| AccessPart::ALL.map(|part| of.shows(part));
        // Samples, kernel, names, whole stacks.
        assert_eq!(shown(user(2, 0)), [true, false, false, false]);
        assert_eq!(shown(user(1, 0)), [true, true, true, false]);
        assert_eq!(shown(user(1, 1)), [true, true, false, false]);
        assert_eq!(shown(user(4, 1)), [false, false, false, false]);
        let given = |restrict| Access::of(false, SYSLOG | PERFMON | BPF, 4, restrict);
        assert_eq!(shown(given(1)), [true; 4]);
        assert_eq!(shown(given(2)), [true, true, false, true]);
        // Without one of them names stay hidden, though kptr_restrict is 0.
        assert!(!Access::of(false, PERFMON | BPF, 2, 0).shows(AccessPart::KernelNames));
    }
}
