//! A managed node from a root directory that has a C library of its own, as one of another release of Linux: here a
//! copy of the machine's, so that every machine with RabbitMQ can run the test.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use brokers::rabbitmq::{Config, RabbitMq};
use tempfile::TempDir;

use crate::managed::{self, config, processes_of, programs, said_by};

/// Starts a hidden node as RabbitMQ 4 does its helper, and asks it for release, directories and EPMD's names.
const HELPER_NODE: &str = include_str!("../data/helper-node.erl");

fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_ascii_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// A root directory with copies of Erlang's programs, of their loader and libraries, and a wrapper of the server as
/// Debian's `sbin` has it. All else are links to the machine's.
fn make_root(root: &Path) {
    managed::make_root(root);
    fs::create_dir(root.join("sbin")).unwrap();
    fs::write(root.join("sbin/rabbitmq-server"), "#!/bin/sh\nexit 9\n").unwrap();
    let own = root.join("usr/lib/own");
    fs::create_dir(&own).unwrap();
    let programs = root.join("usr/lib/erlang").join(&programs()[1]);
    for library in libraries(&programs.join("beam.smp")) {
        fs::copy(&library, own.join(library.file_name().unwrap())).unwrap();
        // The loader's place is fixed in the programs; it is an absolute link there, as in Debian 12.
        let name = Path::new("/usr/lib/own").join(library.file_name().unwrap());
        let place = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(name, place).unwrap();
    }
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn a_root_with_its_own_c_library_starts_by_its_own_loader() {
    testkit::needs_rabbitmq!();
    // Blanks and quotes stand in paths now and then.
    let root = TempDir::with_prefix("it's another root ").unwrap();
    let parent = TempDir::with_prefix("with blank ").unwrap();
    make_root(root.path());
    let config = Config {
        root: Some(root.path().to_owned()),
        // Its certificates are read by Erlang's crypto library.
        tls: true,
        ..config(parent.path())
    };
    let node = RabbitMq::start(&config, &mut |_| {}, &|| false).unwrap();
    let root = root.path().canonicalize().unwrap();
    // The kernel names the process after the program, though the loader was executed.
    assert_eq!(name_of(node.pid()), "beam.smp");
    let own = root.join("usr/lib/own");
    for program in ["beam.smp", "erl_child_setup", "inet_gethost"] {
        let processes = processes_of(parent.path());
        let pid = processes.into_iter().find(|pid| name_of(*pid) == program);
        let pid = pid.unwrap_or_else(|| panic!("no {program}"));
        let executed = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert!(executed.starts_with(&own), "{program} is {}", executed.display());
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let mut libc = maps.lines().filter(|line| line.ends_with("/libc.so.6"));
        assert!(libc.clone().count() > 0, "{maps}");
        assert!(libc.all(|line| line.contains(own.to_str().unwrap())), "{maps}");
    }
    let said = said_by(&node, HELPER_NODE);
    let otp = node.runtime().replace("Erlang/OTP ", "");
    assert!(said.starts_with(&format!("{{\"{otp}\",")), "{said}");
    assert!(said.contains(root.join("usr/lib/erlang").to_str().unwrap()), "{said}");
    assert!(said.contains(parent.path().to_str().unwrap()), "{said}");
    // No EPMD was started for it.
    assert!(said.ends_with(",{error,address}}"), "{said}");
    node.stop().unwrap();
    assert_eq!(processes_of(parent.path()), Vec::<u32>::new());
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}
