//! A managed node from a root directory that has a C library of its own, as one of another release of Linux: here a
//! copy of the machine's, so that every machine with RabbitMQ can run the test.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use brokers::guardian;
use brokers::rabbitmq::{Config, RabbitMq};
use erlang::{Node, term::as_bytes};
use tempfile::TempDir;

/// Starts a hidden node as RabbitMQ 4 does its helper, and asks it for release, directories and EPMD's names.
const HELPER_NODE: &str = r#"
{ok, Pid, Name} = peer:start(#{name => "helper-" ++ os:getpid(), args => ["-hidden"]}),
Said = erpc:call(Name, fun() ->
    {erlang:system_info(otp_release), code:root_dir(), os:getenv("BINDIR"), erl_epmd:names()}
end),
peer:stop(Pid),
unicode:characters_to_binary(io_lib:format("~0tp", [Said])).
"#;

/// Where Erlang's own programs are, under its root directory.
fn programs() -> Vec<PathBuf> {
    let erts = fs::read_dir("/usr/lib/erlang").unwrap().flatten();
    let mut erts =
        erts.map(|entry| PathBuf::from(entry.file_name())).filter(|name| name.to_str().unwrap().starts_with("erts-"));
    vec!["bin".into(), erts.next().unwrap().join("bin")]
}

/// The loader and the libraries of a program, as the machine's `ldd` finds them.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_ascii_whitespace();
    words.filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// A root directory with copies of Erlang's programs, of their loader and libraries, and a wrapper of the server as
/// Debian's `sbin` has it. All else are links to the machine's.
fn make_root(root: &Path) {
    let real = Path::new("/usr/lib/erlang");
    let erlang = root.join("usr/lib/erlang");
    for programs in programs() {
        fs::create_dir_all(erlang.join(&programs)).unwrap();
        for entry in fs::read_dir(real.join(&programs)).unwrap().flatten() {
            fs::copy(entry.path(), erlang.join(&programs).join(entry.file_name())).unwrap();
        }
    }
    for libraries in ["lib", "releases"] {
        symlink(real.join(libraries), erlang.join(libraries)).unwrap();
    }
    symlink("/usr/lib/rabbitmq", root.join("usr/lib/rabbitmq")).unwrap();
    fs::create_dir(root.join("sbin")).unwrap();
    fs::write(root.join("sbin/rabbitmq-server"), "#!/bin/sh\nexit 9\n").unwrap();
    let own = root.join("usr/lib/own");
    fs::create_dir(&own).unwrap();
    let programs = erlang.join(&programs()[1]);
    for library in libraries(&programs.join("beam.smp")) {
        fs::copy(&library, own.join(library.file_name().unwrap())).unwrap();
        // The loader's place is fixed in the programs; it is an absolute link there, as in Debian 12.
        let name = Path::new("/usr/lib/own").join(library.file_name().unwrap());
        let place = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(name, place).unwrap();
    }
}

/// Processes whose environment names the directory.
fn processes_of(parent: &Path) -> Vec<u32> {
    let parent = parent.to_str().unwrap().as_bytes();
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_of = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|text| text.windows(parent.len()).any(|window| window == parent))
    };
    numbers.filter(is_of).collect()
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_root_with_its_own_c_library_starts_by_its_own_loader() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("no RabbitMQ; apt-get install rabbitmq-server");
    }
    // Blanks and quotes stand in paths now and then.
    let root = TempDir::with_prefix("it's another root ").unwrap();
    let parent = TempDir::with_prefix("with blank ").unwrap();
    make_root(root.path());
    let guard = env!("CARGO_BIN_EXE_managed-helper");
    let config = Config {
        root: Some(root.path().to_owned()),
        parent_directory: Some(parent.path().to_owned()),
        guard: vec![guard.into(), guardian::SUBCOMMAND.into()],
        // Its certificates are read by Erlang's crypto library.
        tls: true,
        ..Config::default()
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
    let link = Node::connect(&node.erlang().unwrap()).unwrap();
    let said = link.evaluate(std::time::Duration::from_secs(60), HELPER_NODE);
    let said = String::from_utf8_lossy(as_bytes(&said.unwrap()).unwrap()).into_owned();
    let otp = node.runtime().replace("Erlang/OTP ", "");
    assert!(said.starts_with(&format!("{{\"{otp}\",")), "{said}");
    assert!(said.contains(root.join("usr/lib/erlang").to_str().unwrap()), "{said}");
    assert!(said.contains(parent.path().to_str().unwrap()), "{said}");
    // No EPMD was started for it.
    assert!(said.ends_with(",{error,address}}"), "{said}");
    drop(link);
    node.stop().unwrap();
    assert_eq!(processes_of(parent.path()), Vec::<u32>::new());
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}
