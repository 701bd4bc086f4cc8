//! Whether two profiles are of the same builds of files, so that functions without a name are called alike.

use std::collections::HashMap;

use super::frames::{Frame, FrameKind};
use super::model::{Builds, Profile, without_version};

/// Samples from which on a function is worth a word: below, that it is on one side alone may be chance.
const LEAST_SAMPLES: f64 = 10.0;
/// Samples that the other side would have of the same build: none by chance is as rare as once in 150 times.
const LEAST_EXPECTED: f64 = 5.0;
/// Share of common functions from which on it is the same build: all are, but for what one side alone calls.
const SAME_BUILD: f64 = 0.5;

/// Samples of one side of functions that are called after their neighbours, by name and file.
#[derive(Clone, Debug, Default)]
pub struct NearSamples<'n> {
    /// Of each function.
    pub of: HashMap<(&'n str, &'n str), f64>,
    /// Of all functions.
    pub all: f64,
    /// The files' builds, by what files are called in all their versions.
    pub builds: Builds,
}

impl NearSamples<'_> {
    fn knows(&self, file: &str) -> bool {
        self.of.keys().any(|(_, of)| *of == file)
    }
}

/// Files that are other builds on the other side.
pub fn other_builds(a: &NearSamples<'_>, b: &NearSamples<'_>) -> Vec<String> {
    let mut files: HashMap<&str, Shares> = HashMap::new();
    for (side, other) in [(a, b), (b, a)] {
        let ratio = other.all / side.all;
        for ((name, file), samples) in &side.of {
            // Without a file nobody knows what would be another build of what.
            if *samples < LEAST_SAMPLES || samples * ratio < LEAST_EXPECTED || file.is_empty() {
                continue;
            }
            let shares = files.entry(file).or_default();
            let share = samples / side.all;
            shares.all += share;
            let Some(samples) = other.of.get(&(*name, *file)) else { continue };
            shares.common += share;
            shares.is_seen_on_both |= *samples >= LEAST_SAMPLES;
        }
    }
    let is_other = |file: &str, shares: &Shares| {
        let is_other = shares.common < shares.all * SAME_BUILD;
        match (a.builds.of(file), b.builds.of(file)) {
            (Some(one), Some(other)) => is_other && one != other,
            // One side alone may call most of a file, and one without such functions has all names, or another tool's.
            _ => is_other && !shares.is_seen_on_both && [a, b].iter().all(|it| it.knows(file)),
        }
    };
    let other = files.iter().filter(|(file, it)| is_other(file, it));
    let mut other_builds: Vec<String> = other.map(|(file, _)| (*file).to_owned()).collect();
    other_builds.sort();
    other_builds
}

/// Files whose functions have no symbol on one side alone, which would show on the other.
fn unnamed_here_alone(here: &NearSamples<'_>, there: &NearSamples<'_>) -> Vec<String> {
    let mut files: HashMap<&str, f64> = HashMap::new();
    for ((_, file), samples) in &here.of {
        *files.entry(file).or_default() += samples;
    }
    let ratio = there.all / here.all;
    let would_show = |samples: f64| samples >= LEAST_SAMPLES && samples * ratio >= LEAST_EXPECTED;
    files.retain(|file, samples| would_show(*samples) && !there.knows(file));
    files.into_keys().map(str::to_owned).collect()
}

/// Shares of a file's unnamed functions, of all that tell and of those that both sides have.
#[derive(Default)]
struct Shares {
    all: f64,
    common: f64,
    /// Whether one of them is worth a word on both sides.
    is_seen_on_both: bool,
}

impl Profile {
    /// Files that are another build in the other profile, where nameless functions are called otherwise.
    pub fn other_builds(&self, other: &Self) -> Vec<String> {
        let mut found = other_builds(&self.near_samples(), &other.near_samples());
        // A file that one side alone runs is no other build of anything.
        found.retain(|file| self.has_module(file) && other.has_module(file));
        found
    }

    /// Virtual machines whose functions without a symbol count for other classes in the other profile: they are other
    /// builds, or have symbols on one side alone.
    pub fn machines_without_symbols(&self, other: &Self) -> Vec<String> {
        let (a, b) = (self.near_samples(), other.near_samples());
        let mut found = other_builds(&a, &b);
        found.extend(unnamed_here_alone(&a, &b));
        found.extend(unnamed_here_alone(&b, &a));
        found.retain(|file| Frame::kind_of_module(file) == FrameKind::Runtime);
        found.retain(|file| self.has_module(file) && other.has_module(file));
        found.sort();
        found.dedup();
        found
    }

    /// Samples at the leaf of functions that are called after their neighbours.
    fn near_samples(&self) -> NearSamples<'_> {
        let mut near = NearSamples { builds: self.builds.without_versions(), ..NearSamples::default() };
        for sample in &self.samples {
            let count = self.header.count(sample) as f64;
            near.all += count;
            let node = self.stacks.get(sample.stack as usize);
            let frame = node.and_then(|node| self.frames.get(node.frame as usize));
            if let Some(frame) = frame.filter(|it| it.is_near()) {
                let file = without_version(&frame.module);
                *near.of.entry((&frame.name, file)).or_default() += count;
            }
        }
        near
    }

    fn has_module(&self, file: &str) -> bool {
        self.frames.iter().map(|it| without_version(&it.module)).any(|it| it == file)
    }

    /// Merges functions of these files that have no name of their own into one.
    pub fn with_one_unnamed(&self, files: &[String]) -> Self {
        let of_files = |file: &str| files.iter().any(|it| it == file);
        self.with_frames(|frame| match without_version(&frame.module) {
            file if frame.is_near() && of_files(file) => (Frame::without_symbol(file).into(), file),
            _ => (frame.name.as_str().into(), &frame.module),
        })
    }
}

#[cfg(test)]
mod tests {
    use measure::Time;

    use super::super::merge::Merge;
    use super::super::model::ProfileHeader;
    use super::super::tests::{profile, stored};
    use super::*;

    fn of(stacks: &[(&str, usize)]) -> Profile {
        let samples = stacks.iter().flat_map(|(stack, count)| vec![(*stack, 1); *count]);
        profile(&samples.collect::<Vec<_>>())
    }

    fn build(number: u32, samples: [usize; 3]) -> Profile {
        let near = ["f-0x", "g+0x"].map(|it| format!("t;start;[near {it}{number}]"));
        let [f, g, named] = samples;
        of(&[(&near[0], f), (&near[1], g), ("t;start;named", named)])
    }

    #[test]
    fn places_of_another_build_are_one_function() {
        let (a, b) = (build(1, [10, 5, 85]), build(2, [12, 4, 84]));
        let file = "broker".to_owned();
        assert_eq!(a.other_builds(&b), std::slice::from_ref(&file));
        assert!(a.other_builds(&a).is_empty());
        let of_beam = |profile: &Profile| {
            let mut profile = profile.clone();
            profile.frames.iter_mut().for_each(|it| it.module = "beam.smp".into());
            profile
        };
        let [a_beam, b_beam, whole] = [&a, &b, &build(1, [0, 0, 100])].map(of_beam);
        let machines = Profile::machines_without_symbols;
        assert_eq!(machines(&a_beam, &b_beam), ["beam.smp"]);
        // Symbols were installed between two runs.
        assert_eq!([machines(&a_beam, &whole), machines(&whole, &a_beam)], [["beam.smp"], ["beam.smp"]]);
        assert!(machines(&a_beam, &a_beam).is_empty() && machines(&a, &b).is_empty());
        let one = a.with_one_unnamed(std::slice::from_ref(&file));
        let rows: Vec<_> = one.functions().into_iter().map(|it| (it.share.function, it.self_weight)).collect();
        let unnamed = format!("[no symbol in {file}]");
        let expected = [("named", 85), (unnamed.as_str(), 15), ("start", 0)];
        assert_eq!(rows, expected.map(|(name, own)| (name.to_owned(), own)));
    }

    /// Files of other tools have one sample for each stack, with its weight.
    #[test]
    fn samples_that_were_added_up_are_as_many_as_their_weight() {
        let [a, b] = [1, 2].map(|number| {
            let mut profile = build(number, [1, 1, 1]);
            profile.samples.iter_mut().zip([100, 50, 850]).for_each(|(sample, weight)| sample.weight = weight);
            profile
        });
        assert_eq!(a.other_builds(&b), ["broker"]);
    }

    /// One function of a file is what both sides call, and most is what one side calls alone.
    #[test]
    fn one_build_is_told_by_its_number_or_by_one_function_of_both_sides() {
        let used = |functions: [(&str, usize); 3]| {
            let stacks = functions.map(|(name, count)| (format!("t;start;[near {name}]"), count));
            of(&stacks.each_ref().map(|(stack, count)| (stack.as_str(), *count)))
        };
        let a = used([("f-0x1", 40), ("g+0x1", 60), ("h+0x1", 0)]);
        let mut b = used([("f-0x1", 20), ("g+0x1", 0), ("h+0x1", 80)]);
        assert!(a.other_builds(&b).is_empty());
        // Fewer samples prove nothing by themselves.
        b = used([("f-0x1", 9), ("g+0x1", 0), ("h+0x1", 91)]);
        assert_eq!(a.other_builds(&b), ["broker"]);
        let build = |profile: &Profile, number: &str| {
            let mut profile = profile.clone();
            profile.builds.add("broker", number);
            profile
        };
        assert!(build(&a, "1").other_builds(&build(&b, "1")).is_empty());
        assert_eq!(build(&a, "1").other_builds(&build(&b, "2")), ["broker"]);
        assert_eq!(build(&a, "1").other_builds(&b), ["broker"]);
        // Text of `perf script` has neither builds nor such functions, and names of its own.
        let text = of(&[("t;start;named", 50), ("t;start;EVP_f", 50)]);
        for (a, b) in [(&build(&a, "1"), &text), (&text, &build(&a, "1"))] {
            assert!(a.other_builds(b).is_empty());
        }
        // What was joined of two builds is of none.
        let mut joined = build(&b, "1");
        joined.builds.add("broker", "2");
        assert_eq!((joined.builds.of("broker"), joined.builds.of("x")), (None, None));
    }

    #[test]
    fn files_keep_the_builds() {
        let mut profile = build(1, [1, 1, 1]);
        profile.header = ProfileHeader::new(Time(0), 0);
        profile.builds.add("broker", "0a1b");
        let (_dir, paths) = stored(&profile);
        for path in paths {
            assert_eq!(Profile::open(&path).expect("a profile").builds, profile.builds, "{path:?}");
        }
        let mut merge = Merge::default();
        merge.add(profile.clone());
        merge.add(profile.clone());
        assert_eq!(merge.finish().builds, profile.builds);
    }

    #[test]
    fn what_is_hardly_sampled_or_of_no_file_tells_no_build() {
        let none = |a: &Profile, b: &Profile| {
            assert!(a.other_builds(b).is_empty() && b.other_builds(a).is_empty());
        };
        // Samples of one build that chance has parted.
        none(&build(1, [9, 9, 982]), &build(2, [9, 9, 982]));
        // Of a short window nothing is expected of the other side's functions.
        none(&build(1, [0, 0, 40]), &build(1, [10, 10, 980]));
        none(&build(1, [1, 0, 100]), &build(1, [20, 20, 960]));
        // One function that one side alone calls is no other build.
        none(&build(1, [100, 0, 900]), &build(1, [100, 90, 810]));
        let of_no_file = [build(1, [50, 50, 0]), build(2, [50, 50, 0])].map(|mut profile| {
            profile.frames.iter_mut().for_each(|it| it.module.clear());
            profile
        });
        none(&of_no_file[0], &of_no_file[1]);
    }

    #[test]
    fn a_library_of_another_version_is_another_build() {
        let [a, b] = [3, 4].map(|version| {
            let mut profile = build(version, [50, 50, 0]);
            for frame in &mut profile.frames {
                frame.module = format!("libcrypto.so.{version}");
            }
            profile
        });
        assert_eq!(a.other_builds(&b), ["libcrypto.so"]);
        // A library is one class, whatever its functions are called.
        assert!(a.machines_without_symbols(&b).is_empty());
        let names = |of: &Profile| {
            let one = of.with_one_unnamed(&["libcrypto.so".to_owned()]);
            one.functions().into_iter().map(|it| it.share.function).collect::<Vec<_>>()
        };
        assert_eq!(names(&a), names(&b));
    }
}
