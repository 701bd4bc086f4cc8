//! `scripts/setup` before a machine that lacks something, played with programs of its own making.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Programs that the script itself needs, and those that it looks for.
const TOOLS: [&str; 8] = ["bash", "env", "cat", "printf", "sort", "rm", "tee", "chmod"];
const PRESENT: [&str; 7] = ["cargo", "cc", "perf", "chromium", "java", "python3", "npm"];

/// A directory of programs that is all of the script's `PATH`.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&programs);
        fs::create_dir_all(&programs).unwrap();
        for tool in TOOLS {
            symlink(Path::new("/usr/bin").join(tool), programs.join(tool)).unwrap();
        }
        let machine = Self(programs);
        for program in PRESENT {
            machine.add(program, "");
        }
        machine.add("node", "echo v22.1.0");
        machine
    }

    fn add(&self, program: &str, script: &str) {
        let path = self.0.join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn setup(&self, group: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup");
        Command::new(script)
            .arg(group)
            .env("PATH", &self.0)
            .output()
            .unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The script looks for these at fixed places, so this machine must have them.
fn has_fixed_parts() -> bool {
    let jar = ["HdrHistogram", "hdrhistogram"].map(|name| {
        Path::new("/usr/share/java")
            .join(name)
            .with_extension("jar")
            .exists()
    });
    testkit::has_rabbitmq() && jar.contains(&true)
}

#[test]
fn what_is_missing_is_installed_after_a_fresh_list_where_it_must() {
    if !has_fixed_parts() {
        testkit::skip!("no RabbitMQ or no libhdrhistogram-java; scripts/setup test");
    }
    let machine = Machine::new("installs");
    // Without a fresh list it fails. The calls are written down, and the program appears.
    machine.add(
        "apt-get",
        r#"cd "${0%/*}"
echo "$*" >> calls
case "$*" in
    *update) echo > updated ;;
    *) [ -e updated ] && printf '#!/bin/sh\n' > tmux && chmod 755 tmux ;;
esac"#,
    );
    machine.add("sudo", r#"[ "$1" = -n ] && shift; exec "$@""#);
    let output = machine.setup("test");
    assert!(output.status.success(), "{}", said(&output));
    let calls = fs::read_to_string(machine.0.join("calls")).unwrap();
    let install = "--quiet --yes install --no-install-recommends tmux";
    assert_eq!(
        calls,
        format!("{install}\n--quiet --yes update\n{install}\n")
    );

    assert!(machine.setup("test").status.success());
    assert_eq!(
        fs::read_to_string(machine.0.join("calls")).unwrap(),
        calls,
        "nothing more to do"
    );
}

#[test]
fn what_cannot_be_installed_is_told_in_one_line() {
    if !has_fixed_parts() {
        testkit::skip!("no RabbitMQ or no libhdrhistogram-java; scripts/setup test");
    }
    let machine = Machine::new("tells");
    assert!(
        machine.setup("demo").status.success(),
        "the demo needs no tmux"
    );
    let output = machine.setup("test");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        said(&output),
        "setup: missing: tmux (names of Debian's packages)\n"
    );

    machine.add("apt-get", "echo broken >&2; exit 100");
    machine.add("sudo", r#"[ "$1" = -n ] && shift; exec "$@""#);
    let output = machine.setup("test");
    assert_eq!(output.status.code(), Some(1));
    let last = said(&output).lines().last().unwrap().to_owned();
    assert!(
        last.ends_with("sudo apt-get install --no-install-recommends tmux"),
        "{last}"
    );

    machine.add("tmux", "");
    machine.add("node", "echo v18.20.4");
    let output = machine.setup("test");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("this is 18.20.4"),
        "{}",
        said(&output)
    );
}
