//! Binaries that are not as they were built: deleted while they run, or stripped.

use crate::tests::sampling::child::Process;
use crate::tests::sampling::{not_root, profile_for, refused, share};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn copy() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("burner");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    (dir, exe)
}

fn share_of_work(process: &Process) -> f64 {
    let (profile, _) = profile_for(process.pid(), Duration::from_millis(300));
    share(&profile, "::work")
}

#[test]
fn a_program_that_was_deleted_while_it_runs_keeps_its_names() {
    testkit::skip_for!(refused());
    testkit::skip_for!(not_root("open what another process has mapped"));
    let (_dir, exe) = copy();
    let process = Process::start_as(&exe, "ratio", None);
    std::fs::remove_file(&exe).unwrap();
    assert!(share_of_work(&process) > 0.9);
    // The name belongs to another program now, as after an upgrade.
    std::fs::write(&exe, "something else").unwrap();
    assert!(share_of_work(&process) > 0.9);
}

#[test]
fn a_stripped_program_has_the_names_of_its_debug_file() {
    testkit::skip_for!(refused());
    let (dir, exe) = copy();
    let debug = dir.path().join(".debug/burner.debug");
    std::fs::create_dir(dir.path().join(".debug")).unwrap();
    let objcopy = |arguments: &[&str], files: &[&Path]| {
        Command::new("objcopy").args(arguments).args(files).status().is_ok_and(|s| s.success())
    };
    if !objcopy(&["--only-keep-debug"], &[&exe, &debug]) {
        testkit::skip!("objcopy (package binutils) is not installed");
    }
    let link = format!("--add-gnu-debuglink={}", debug.display());
    assert!(objcopy(&["--strip-all", &link], &[&exe]));
    let process = Process::start_as(&exe, "ratio", None);
    assert!(share_of_work(&process) > 0.9, "with its debug file");
    // A debug file of another build has other addresses.
    std::fs::copy("/bin/true", &debug).unwrap();
    assert!(share_of_work(&process) < 0.1, "with another program's debug file");
}
