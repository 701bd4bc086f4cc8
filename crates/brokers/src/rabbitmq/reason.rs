//! Why a node ended, in its log.

use std::path::Path;

use super::super::log::read;

/// At most `lines` lines that say why a node ended: from the first error on, without the crash
/// reports that repeat it at length.
pub(super) fn reason(log: &Path, lines: usize) -> String {
    reason_in(&read(log), lines)
}

fn reason_in(text: &str, lines: usize) -> String {
    let told: Vec<&str> = text.lines().filter(|line| !is_noise(line)).collect();
    let is_stamped = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let first_error = told.iter().position(|line| line.contains(" [error] "));
    let first = match first_error {
        Some(error) => error,
        // The emulator refused to start, said why, and explained all of its options.
        None if !told.iter().any(is_stamped) => 0,
        None => told.len().saturating_sub(lines),
    };
    told.into_iter()
        .skip(first)
        .take(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Empty lines, and those of crash reports: they are indented, or come from the emulator's end.
fn is_noise(line: &str) -> bool {
    let message = line.split_once(" [error] <").map_or(line, |(_, rest)| {
        rest.split_once("> ").map_or("", |(_, message)| message)
    });
    message.trim().is_empty()
        || (message.len() < line.len() && message.starts_with("   "))
        || [
            "  crasher:",
            "  neighbours:",
            "Kernel pid terminated",
            "{\"Kernel pid",
            "Crash dump",
        ]
        .iter()
        .any(|noise| message.starts_with(noise))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: &str = "\
2026-11-21 02:46:05.1+00:00 [info] <0.138.0> Feature flags: list
2026-11-21 02:46:05.5+00:00 [error] <0.138.0> BrokerError preparing configuration in phase transform_datatypes:
2026-11-21 02:46:05.6+00:00 [error] <0.138.0>   - \"nonsense\" cannot be converted to a(n) integer

BOOT FAILED
2026-11-21 02:46:05.6+00:00 [error] <0.138.0> 
2026-11-21 02:46:06.6+00:00 [error] <0.138.0>     supervisor: {local,rabbit_prelaunch_sup}
2026-11-21 02:46:06.6+00:00 [error] <0.136.0>   crasher:
Kernel pid terminated (application_controller) (…)
Crash dump is being written to: erl_crash.dump...done
";

    #[test]
    fn the_reason_is_what_comes_before_the_crash_reports() {
        let reason = reason_in(BROKEN, 10);
        let lines: Vec<&str> = reason.lines().collect();
        assert_eq!(lines.len(), 3, "{reason}");
        assert!(lines[0].ends_with("transform_datatypes:"));
        assert!(lines[1].contains("nonsense"));
        assert_eq!(lines[2], "BOOT FAILED");
        assert_eq!(reason_in(BROKEN, 1).lines().count(), 1);
    }

    #[test]
    fn an_emulator_that_refuses_its_options_says_so_first() {
        let usage = format!(
            "bad amount of schedulers foo\nUsage: beam.smp\n{}",
            "-a size\n".repeat(90)
        );
        assert!(reason_in(&usage, 5).starts_with("bad amount of schedulers foo"));
    }

    #[test]
    fn a_log_without_errors_gives_its_end() {
        let log: String = (0..9)
            .map(|line| format!("2026-11-21 [info] <0.1.0> {line}\n"))
            .collect();
        assert_eq!(reason_in(&log, 1), "2026-11-21 [info] <0.1.0> 8");
        assert_eq!(reason_in("", 5), "");
    }
}
