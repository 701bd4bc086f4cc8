//! What each thread of a process used: CPU time, and the time in which it was ready to run and had no
//! core. One thread that fills a core limits a broker however many cores it has.

use std::collections::BTreeMap;
use std::fs;

use measure::Nanos;

/// What the threads of some processes had used up to an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threads(BTreeMap<u32, Times>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    process: u32,
    cpu: Nanos,
    starved: Nanos,
}

/// What was used between two instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ThreadUse {
    /// CPU time of the busiest thread.
    pub(crate) busiest: Nanos,
    /// Its name, as long as it lives.
    pub(crate) name: Option<String>,
    /// Time that the threads together waited for a core.
    pub(crate) starved: Nanos,
}

impl Threads {
    /// Reads all threads of these processes.
    pub(crate) fn read(processes: impl IntoIterator<Item = u32>) -> Self {
        let mut all = BTreeMap::new();
        for process in processes {
            let Ok(folder) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for thread in folder.flatten() {
                let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
                let text = fs::read_to_string(thread.path().join("schedstat"));
                if let Some((id, times)) = id.zip(text.ok().and_then(|t| parse(process, &t))) {
                    all.insert(id, times);
                }
            }
        }
        Self(all)
    }

    /// What was used since `before`; `None` where nothing is known.
    pub(crate) fn since(&self, before: &Self) -> Option<ThreadUse> {
        let mut used = ThreadUse::default();
        let mut busiest = None;
        for (id, after) in &self.0 {
            let then = before.0.get(id).copied().unwrap_or_default();
            used.starved += after.starved.saturating_sub(then.starved);
            let cpu = after.cpu.saturating_sub(then.cpu);
            if busiest.is_none() || cpu > used.busiest {
                used.busiest = cpu;
                busiest = Some((after.process, *id));
            }
        }
        let (process, thread) = busiest?;
        used.name = fs::read(format!("/proc/{process}/task/{thread}/comm"))
            .ok()
            .map(|name| String::from_utf8_lossy(&name).trim_end().to_owned());
        Some(used)
    }
}

/// `CPU-nanoseconds nanoseconds-in-the-run-queue slices`; zeros where the kernel keeps no account.
fn parse(process: u32, text: &str) -> Option<Times> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (cpu, starved) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Times {
        process,
        cpu: Nanos(cpu),
        starved: Nanos(starved),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_thread_is_found() {
        let me = std::process::id();
        let before = Threads::read([me]);
        let busy = std::thread::Builder::new()
            .name("busy one".into())
            .spawn(move || {
                let end = std::time::Instant::now() + std::time::Duration::from_millis(60);
                let mut x = 1u64;
                while std::time::Instant::now() < end {
                    x = std::hint::black_box(x.wrapping_mul(3));
                }
                Threads::read([me])
            })
            .unwrap();
        let after = busy.join().unwrap();
        let used = after.since(&before).unwrap();
        // The scheduler's sum is brought up to date at ticks; other tests may be busier than ours.
        assert!(used.busiest >= Nanos::from_millis(5), "{used:?}");
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        assert_eq!(Threads::read([u32::MAX]).since(&Threads::default()), None);
        assert_eq!(parse(1, ""), None);
        assert_eq!(parse(1, "5 x 1"), None);
        assert_eq!(parse(1, "5 7 1").map(|t| t.starved), Some(Nanos(7)));
    }
}
