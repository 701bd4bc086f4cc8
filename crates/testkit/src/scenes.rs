//! Random scenes, several at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Scenes that were played, and what was wrong with some.
#[derive(Debug)]
pub struct Played {
    scenes: usize,
    /// With their seeds.
    pub problems: Vec<(u64, String)>,
}

/// Plays the scene of every seed, so many at the same time; `problem` plays one and tells what is wrong with it.
///
/// # Panics
/// Where `problem` does.
pub fn play(
    seeds: &[u64],
    at_once: usize,
    problem: impl Fn(u64) -> Option<String> + Sync,
) -> Played {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.extend(problem(seed).map(|why| (seed, why)));
        }
        found
    };
    let problems = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.flatten().collect()
    });
    Played {
        scenes: seeds.len(),
        problems,
    }
}

impl Played {
    /// Fails where something was wrong; `test` is what repeats it: `--test all MODULE::[NAME]`.
    ///
    /// # Panics
    /// With the first problem.
    pub fn assert_right(&self, test: &str) {
        let failed: Vec<u64> = self.problems.iter().map(|(seed, _)| *seed).collect();
        if let Some((seed, why)) = self.problems.first() {
            panic!(
                "{} of {} scenes are wrong, seeds {failed:?}; to repeat the first:\n\
                 BELLOWS_FIRST_SEED={seed} BELLOWS_SEEDS=1 cargo test --workspace {test}\n{why}",
                failed.len(),
                self.scenes,
            );
        }
    }
}
