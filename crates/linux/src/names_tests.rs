//! Names of files and processes are anybody's, and need not be text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Status;
use crate::maps::{Mapping, maps};

/// Crate `procfs` refuses the whole file for one such name.
#[test]
fn a_name_that_is_no_text_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(OsStr::from_bytes(b"sl\xffeep\n"));
    std::fs::copy("/bin/sleep", &path).unwrap();
    let child = testkit::ChildGuard(Command::new(&path).arg("60").spawn().unwrap());
    // Its loader maps the library once it runs.
    let is_whole = |maps: &[Mapping]| {
        let has = |end| maps.iter().any(|m| m.path.contains(end));
        has("sl\u{fffd}eep\n") && has("libc")
    };
    let end = Instant::now() + Duration::from_secs(10);
    let mut found = Vec::new();
    while !is_whole(&found) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
        found = maps(child.id()).unwrap_or_default();
    }
    let status = Status::of(child.id());
    assert!(is_whole(&found), "{found:?}");
    let name = status.expect("a status").name;
    assert!(name.starts_with("sl\u{fffd}eep"), "{name}");
}
