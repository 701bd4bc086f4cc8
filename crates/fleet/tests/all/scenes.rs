//! Random scenes, and their ends.

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
        let at = SECOND + random.below(9 * SECOND);
        let worker = random.below(workers as u64) as usize;
        let length = random.below(8 * SECOND);
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

fn problem(seed: u64, scene: Scene) -> Option<String> {
    let mut world = World::new(seed, scene);
    world.play(60 * SECOND);
    world.judge()
}

#[test]
fn whatever_fails_sums_are_exact_and_no_load_is_left_alone() {
    let seeds: Vec<u64> = testkit::seeds(60).collect();
    let played = testkit::play(&seeds, 2, |seed| {
        let mut random = Random::new(seed);
        let workers = 1 + random.below(8) as usize;
        let scene = scene(&mut random, workers);
        problem(seed, scene)
    });
    played.assert_right("-p fleet --test all scenes::");
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
    assert_eq!(problem(1, scene), None);
}
