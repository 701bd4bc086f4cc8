//! Random numbers for property tests, and random scenes, several at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The generator xorshift64*: one seed gives the same numbers every time, on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator. Neighbouring seeds give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    /// A number from 0 to `bound - 1`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    /// True once in `n` times.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several values.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Scenes that were played, and what was wrong with some.
#[derive(Debug)]
pub struct Played {
    scenes: usize,
    /// With their seeds.
    pub problems: Vec<(u64, String)>,
}

/// Plays the scene of every seed, so many at the same time; `problem` plays one and tells what is wrong with it.
pub fn play(seeds: &[u64], at_once: usize, problem: impl Fn(u64) -> Option<String> + Sync) -> Played {
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
        let joined =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.flatten().collect()
    });
    Played { scenes: seeds.len(), problems }
}

impl Played {
    /// Fails where something was wrong; `test` is what repeats it: `--test all MODULE::[NAME]`.
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
