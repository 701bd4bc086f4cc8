//! The programs that bellows brings into the kernel are what their sources compile to: a source that was changed
//! without `scripts/kernel` fails here. `make prove` compiles them anew and compares.

use std::path::Path;
use std::process::Command;

#[test]
fn the_programs_are_of_these_sources() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stack_copy/kernel");
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", "programs.sum"]);
    let checked = check.current_dir(sources).output().expect("sha256sum");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "run scripts/kernel: {said}");
}
