//! Random scenes, and their ends.

use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::Random;

use crate::world::{Fault, MS, SECOND, Scene, World};

fn scene(random: &mut Random, workers: usize) -> Scene {
    let mut scene = Scene {
        workers,
        tolerate: random.below(3) as usize,
        probes: 20,
        load: 3 * SECOND,
        messages: 5,
        loses: random.of(&[0, 100, 10]),
        slowest: random.of(&[1, 30, 700]) * MS,
        faults: Vec::new(),
    };
    for _ in 0..random.below(4) {
        let at = SECOND + random.below(9_000) * MS;
        let worker = random.below(workers as u64) as usize;
        let length = random.below(8_000) * MS;
        let fault = match random.below(12) {
            0..4 => Fault::Restart(worker),
            4..7 => Fault::Pause(worker, length),
            7..10 => Fault::CutOff(worker, length),
            10 => Fault::PauseCoordinator(length),
            _ => Fault::KillCoordinator,
        };
        scene.faults.push((at, fault));
    }
    scene
}

/// What is wrong, and whether the run is whole.
fn played(seed: u64, scene: Scene) -> (Option<String>, bool) {
    let mut world = World::new(seed, scene);
    world.play(60 * SECOND);
    (world.judge(), world.is_whole())
}

#[test]
fn whatever_fails_sums_are_exact_and_no_load_is_left_alone() {
    let seeds: Vec<u64> = testkit::seeds(60).collect();
    let whole = AtomicUsize::new(0);
    let scenes = testkit::play(&seeds, 2, |seed| {
        let mut random = Random::new(seed);
        let workers = 1 + random.below(8) as usize;
        let scene = scene(&mut random, workers);
        let (problem, is_whole) = played(seed, scene);
        whole.fetch_add(is_whole.into(), Ordering::Relaxed);
        problem
    });
    scenes.assert_right("-p fleet --test all scenes::");
    let whole = whole.into_inner();
    assert!((seeds.len() / 4..seeds.len()).contains(&whole), "{whole} runs of {} are whole", seeds.len());
}

#[test]
fn a_hundred_workers_of_which_some_fail() {
    let mut scene = scene(&mut Random::new(1), 100);
    (scene.loses, scene.tolerate, scene.load) = (100, 3, 2 * SECOND);
    scene.faults = vec![
        (4 * SECOND, Fault::Restart(7)),
        (5 * SECOND, Fault::CutOff(8, 9 * SECOND)),
        (5 * SECOND, Fault::Pause(9, 2 * SECOND)),
    ];
    assert_eq!(played(1, scene), (None, false));
}
