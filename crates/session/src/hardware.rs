//! The machine, as the kernel describes it.

use std::fs;

use archive::Hardware;
use linux::machine;

/// Kernel settings that bear on results or on what can be profiled.
const SETTINGS: [(&str, &str); 6] = [
    ("kernel.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"),
    ("kernel.perf_event_max_sample_rate", "/proc/sys/kernel/perf_event_max_sample_rate"),
    ("kernel.kptr_restrict", "/proc/sys/kernel/kptr_restrict"),
    ("transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("scaling_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
];

/// The machine, as far as this process can see it.
pub(crate) fn read() -> Hardware {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let uname = rustix::system::uname();
    Hardware {
        cpu: cpu_model(&cpuinfo),
        cores: machine::cores(),
        memory_bytes: machine::memory_bytes().unwrap_or(0),
        kernel: format!(
            "{} {} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy(),
            uname.machine().to_string_lossy()
        ),
        os: os_name(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
        clock_source: clock_source(),
        virtualised: has_flag(&cpuinfo, "hypervisor"),
        settings: settings(),
    }
}

pub(crate) fn clock_source() -> Option<String> {
    trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

fn settings() -> Vec<(String, String)> {
    let read = |(name, path): &(&str, &str)| Some(((*name).to_owned(), chosen(&trimmed(path)?)));
    SETTINGS.iter().filter_map(read).collect()
}

/// The marked choice of `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> String {
    let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    marked.map_or(text, |(chosen, _)| chosen).to_owned()
}

/// A small file without the white space around it; `None` where it is missing or empty.
pub(crate) fn trimmed(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn cpu_model(cpuinfo: &str) -> String {
    let value =
        |key: &str| Some(cpuinfo.lines().find(|line| line.starts_with(key))?.split_once(':')?.1.trim().to_owned());
    // Arm names no model; its implementer and part are what there is.
    value("model name")
        .or_else(|| Some(format!("{} part {}", value("CPU implementer")?, value("CPU part")?)))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|word| word == flag))
}

fn os_name(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_all_that_matters_and_files_are_understood() {
        let hardware = read();
        assert!(hardware.cores >= linux::cpus::usable() && hardware.memory_bytes > 100_000_000, "{hardware:?}");
        assert!(hardware.kernel.starts_with("Linux ") && !hardware.cpu.is_empty());
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Xeon 1\n"), "Xeon 1");
        assert_eq!(cpu_model("CPU implementer : 0x41\nCPU part : 0xd40\n"), "0x41 part 0xd40");
        assert_eq!(os_name("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("performance"), "performance");
        assert!(has_flag("flags\t: fpu hypervisor\n", "hypervisor"));
    }
}
