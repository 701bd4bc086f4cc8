//! `make install`: its files, and its messages where it lacks permission.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::folder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const BELLOWS: &str = env!("CARGO_BIN_EXE_bellows");

fn script(dir: impl AsRef<OsStr>, binary: &str) -> Command {
    let mut script = Command::new(root().join("scripts/install"));
    script.arg(dir).arg(binary);
    script
}

fn install(script: &mut Command) -> Output {
    script.output().expect("scripts/install")
}

#[test]
fn binary_manual_and_completions_are_installed_and_work() {
    let dir = &*folder();
    let prefix = dir.join("a prefix");
    let output = install(&mut script(&prefix, BELLOWS));
    assert!(output.status.success(), "{output:#?}");
    let installed = prefix.join("bin/bellows");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), installed.display().to_string());
    let version = Command::new(&installed).arg("--version").output();
    assert!(version.expect("runs").status.success());
    for (file, part) in [
        ("man/man1/bellows.1", ".TH bellows 1"),
        ("man/man1/bellows-run.1", ".TH bellows"),
        ("bash-completion/completions/bellows", "-F _clap_complete_bellows bellows"),
        ("zsh/site-functions/_bellows", "#compdef bellows"),
        ("fish/vendor_completions.d/bellows.fish", "complete --keep-order --exclusive --command bellows"),
    ] {
        let path = prefix.join("share").join(file);
        assert!(fs::read_to_string(&path).unwrap_or_default().contains(part), "{file}: {part}");
    }
}

/// dash leaves the ~ of `make install PREFIX=~/x` as it is.
#[test]
fn a_tilde_that_no_shell_expanded_is_the_home_folder() {
    let home = folder();
    let install = |prefix: &str| install(script(prefix, BELLOWS).env("HOME", &home).current_dir(&home));
    assert!(install("~/in here").status.success());
    assert!(home.path().join("in here/bin/bellows").is_file());
    assert!(install("~").status.success());
    assert!(home.path().join("bin/bellows").is_file());
    let output = install("~nobody/x");
    assert!(!output.status.success(), "{output:#?}");
    testkit::assert_has(String::from_utf8_lossy(&output.stderr), ["without ~"]);
    assert!(!home.path().join("~").exists() && !home.path().join("~nobody").exists());
}

#[test]
fn a_missing_binary_is_told_in_one_line() {
    let dir = &*folder();
    let output = install(&mut script(dir, "/nonexistent/bellows"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told, "install: there is no /nonexistent/bellows: make build makes it\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(dir).expect("folder").count(), 0);
}

/// The one command by which ordinary users profile is the same everywhere, and done where it is asked for.
#[test]
fn capabilities_are_given_where_they_are_asked_for() {
    const SETCAP: &str = "setcap cap_bpf,cap_perfmon,cap_syslog+ep ";
    let dir = &*folder();
    let programs = dir.join("programs");
    fs::create_dir(&programs).expect("folder");
    let setcap = programs.join("setcap");
    fs::write(&setcap, "#!/bin/sh\necho \"setcap $*\" >> \"${0%/*}/given\"\n").expect("setcap");
    fs::set_permissions(&setcap, fs::Permissions::from_mode(0o755)).expect("mode");
    let path = std::env::var("PATH").unwrap_or_default();
    let prefix = dir.join("a prefix");
    let path = format!("{}:{path}", programs.display());
    let install = |wanted: &str| install(script(&prefix, BELLOWS).env("SETCAP", wanted).env("PATH", &path));
    let given = || fs::read_to_string(programs.join("given")).unwrap_or_default();
    assert!(install("0").status.success());
    assert_eq!(given(), "", "by itself");
    assert!(install("1").status.success());
    let wanted = format!("{SETCAP}{}\n", prefix.join("bin/bellows").display());
    assert_eq!(given(), wanted);
    // Where it may not, that is said.
    fs::write(&setcap, "#!/bin/sh\necho 'Operation not permitted' >&2; exit 1\n").expect("setcap");
    let refused = install("1");
    assert!(!refused.status.success(), "{refused:#?}");
    testkit::assert_has(String::from_utf8_lossy(&refused.stderr), ["has no capabilities: that needs root"]);

    for file in ["README.md", "docs/getting-started.md", "crates/bellows/README.Debian"] {
        assert!(fs::read_to_string(root().join(file)).expect(file).contains(SETCAP), "{file}");
    }
}

/// A package is staged below DESTDIR. Without cargo, as for root, the existing build is installed.
#[test]
fn make_installs_below_prefix_and_destdir() {
    let dir = &*folder();
    let programs = dir.join("programs");
    fs::create_dir(&programs).expect("folder");
    for name in ["bash", "sh", "env", "install", "mkdir"] {
        symlink(Path::new("/usr/bin").join(name), programs.join(name)).expect("link");
    }
    let stage = dir.join("stage");
    let output = Command::new("/usr/bin/make")
        .arg("install")
        .arg(format!("BELLOWS={BELLOWS}"))
        .arg(format!("DESTDIR={}", stage.display()))
        .arg("PREFIX=/usr")
        .current_dir(root())
        .env("PATH", &programs)
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make");
    assert!(output.status.success(), "{output:#?}");
    assert!(stage.join("usr/bin/bellows").is_file());
    assert!(stage.join("usr/share/man/man1/bellows.1").is_file());
}
