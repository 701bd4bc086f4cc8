//! Limits of the machine that are checked before many connections are opened.

use measure::{Problem, counted};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Files that are open beside the connections: event loops, the profiler's rings, the archive.
const OTHERS: u64 = 200;

/// Raises this process's limit on open files as far as it may, and says so where that is not enough
/// for all connections of a run.
///
/// # Errors
/// [`Error::Limit`], with the remedy.
pub fn make_room(connections: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    // Fails where somebody forbids it: the soft limit then counts.
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    let allowed = match raised {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    enough(connections, allowed)
}

/// `allowed`: `None` is no limit.
fn enough(connections: u64, allowed: Option<u64>) -> Result<(), Error> {
    let needed = connections + OTHERS;
    match allowed {
        Some(allowed) if allowed < needed => Err(Error::Limit(Problem::new(
            format!(
                "with {} some {} are needed",
                counted(connections, "connection"),
                counted(needed, "open file")
            ),
            format!("this process may have {}", counted(allowed, "file")),
            format!(
                "raise the hard limit to {needed} or more: LimitNOFILE= of a systemd unit, nofile \
                 in /etc/security/limits.conf, --ulimit nofile= of a container"
            ),
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_a_limit_names_what_is_needed_and_what_is_allowed() {
        assert_eq!(enough(10_000, None), Ok(()));
        assert_eq!(enough(10_000, Some(20_000)), Ok(()));
        let error = enough(10_000, Some(4_096)).expect_err("too low");
        let text = error.to_string();
        assert!(
            text.contains("10,200 open files") && text.contains("4,096 files"),
            "{text}"
        );
        assert!(error.problem().help.contains("nofile") && !error.is_usage());
    }
}
