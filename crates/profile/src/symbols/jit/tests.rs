//! Maps that grow, are replaced, and belong to somebody else.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use measure::{Clock, Nanos};

use super::*;

fn wanted(started: Option<SystemTime>) -> Wanted {
    Wanted { pid: 1, owners: [rustix::process::geteuid().as_raw(); 3], started }
}

fn map(path: &Path) -> JitMap {
    JitMap::from_candidates(vec![path.to_owned()], wanted(None))
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf-1.map");
    (dir, path)
}

fn name(map: &JitMap, address: u64) -> Option<&str> {
    map.find(address, Clock.now())
}

#[test]
fn a_growing_map_is_read_on_from_where_it_ended() {
    let (dir, path) = place();
    let places = vec![dir.path().join("none"), path.clone()];
    let mut map = JitMap::from_candidates(places, wanted(None));
    assert!(!map.refresh() && !map.is_present());
    let mut file = File::create(&path).unwrap();
    file.write_all(b"1000 10 a\n2000 10 b").unwrap();
    assert!(map.refresh());
    assert_eq!((name(&map, 0x1000), name(&map, 0x2000)), (Some("a"), None));
    assert!(!map.refresh());
    file.write_all(b"c\n").unwrap();
    assert!(map.refresh());
    assert_eq!(name(&map, 0x2000), Some("bc"));
    assert!(map.before.is_none(), "growing replaces nothing");
}

#[test]
fn a_map_of_a_stranger_or_from_before_the_process_is_not_believed() {
    let (_dir, path) = place();
    fs::write(&path, "1000 10 of_2020\n").unwrap();
    let of_a_stranger = Wanted { owners: [u32::MAX; 3], ..wanted(None) };
    let mut map = JitMap::from_candidates(vec![path.clone()], of_a_stranger);
    assert!(!map.refresh());
    testkit::assert_has(map.refused().unwrap(), ["belongs to user"]);
    let of_2020 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_590_000_000);
    File::options().write(true).open(&path).unwrap().set_modified(of_2020).unwrap();
    let started = SystemTime::now();
    let mut map = JitMap::from_candidates(vec![path.clone()], wanted(Some(started)));
    assert!(!map.refresh() && !map.is_present());
    assert_eq!(name(&map, 0x1000), None);
    testkit::assert_has(map.refused().unwrap(), ["before process 1 started"]);
    // The process writes its own at last.
    fs::write(&path, "1000 10 own\n").unwrap();
    assert!(map.refresh());
    assert_eq!((name(&map, 0x1000), map.refused()), (Some("own"), None));
}

#[test]
fn pipes_links_and_folders_are_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::os::unix::fs::symlink("/proc/self/status", &link).unwrap();
    for path in [&pipe, &link, &dir.path().to_owned()] {
        assert!(MapFile::open(path, &wanted(None)).is_err());
        assert!(file::find(path, &wanted(None)).is_err());
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Emptied and written again, as `fopen(…, "w")` does.
    Rewritten,
    /// Overwritten where it is, without being emptied.
    Overwritten,
    /// Another file takes its name.
    Renamed,
}

const WAYS: [Way; 3] = [Way::Rewritten, Way::Overwritten, Way::Renamed];

fn replace(path: &Path, text: &str, way: Way) {
    match way {
        Way::Rewritten => fs::write(path, text).unwrap(),
        Way::Overwritten => {
            let mut file = File::options().write(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.set_len(text.len() as u64).unwrap();
        }
        Way::Renamed => {
            let beside = path.with_extension("new");
            fs::write(&beside, text).unwrap();
            fs::rename(&beside, path).unwrap();
        }
    }
}

/// Whether answers change, now or once the comparison that is owed is made: on a busy machine it rests for long.
fn refreshes(map: &mut JitMap) -> bool {
    let end = Clock.now() + Nanos::from_millis(10_000);
    while Clock.now() < end {
        if map.refresh() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_map_that_is_replaced_names_each_sample_by_its_time() {
    let (_dir, path) = place();
    for way in WAYS {
        for new in ["1000 10 new\n", "1000 10 new\n2000 10 xyz\n", "1000 10 new\n2000 10 xyz\n3000 10 more\n"] {
            fs::write(&path, "1000 10 old\n2000 10 xyz\n").unwrap();
            let mut map = map(&path);
            assert!(map.refresh());
            assert_eq!(name(&map, 0x1000), Some("old"));
            let before = Clock.now();
            std::thread::sleep(Duration::from_millis(30));
            replace(&path, new, way);
            assert!(refreshes(&mut map), "{way:?} {new}");
            assert_eq!(map.find(0x1000, before), Some("old"), "{way:?} {new}");
            assert!(map.is_before_change(before));
            assert_eq!(name(&map, 0x1000), Some("new"), "{way:?} {new}");
            // Until all samples from before are through.
            map.settle();
            assert_eq!(map.find(0x1000, before), Some("new"), "{way:?} {new}");
        }
    }
}

#[test]
fn whatever_happens_to_a_map_it_says_what_the_file_says() {
    let (_dir, path) = place();
    let mut random = testkit::Random::new(99);
    let mut next = |below| random.below(below);
    fs::write(&path, "").unwrap();
    let mut map = map(&path);
    for step in 0..60 {
        let mut text = String::new();
        for _ in 0..next(6) {
            let (start, size, name) = (next(256), next(40) + 1, next(1000) + 1);
            text.push_str(&format!("{start:02x} {size:02x} {name:04}\n"));
        }
        match WAYS.get(next(4) as usize) {
            Some(way) => replace(&path, &text, *way),
            None => File::options().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap(),
        }
        map.settle();
        while map.refresh() || map.file.as_ref().is_some_and(MapFile::is_owed) {}
        let content = fs::read_to_string(&path).unwrap();
        let mut model = JitTable::default();
        content.lines().for_each(|line| model.add_line(line));
        for address in 0..300 {
            let found = map.find(address, Clock.now() + Nanos(1));
            assert_eq!(found, model.find(address), "address {address} after step {step}");
        }
    }
}
