//! Managed nodes, with a real RabbitMQ: they start, answer, and leave nothing behind, whichever process dies.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use brokers::managed::Progress;
use brokers::rabbitmq::{Config, RabbitMq};
use brokers::{BrokerError, guardian};
use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

const HELPER: &str = env!("CARGO_BIN_EXE_managed-helper");

/// An account that every Debian has and that owns nothing.
const NOBODY: u32 = 65_534;

pub(crate) fn config(parent: &Path) -> Config {
    Config {
        parent_directory: Some(parent.to_owned()),
        guard: vec![HELPER.into(), guardian::SUBCOMMAND.into()],
        ..Config::default()
    }
}

fn start(config: &Config) -> Result<RabbitMq, BrokerError> {
    RabbitMq::start(config, &mut |_| {}, &|| false)
}

/// Live processes whose environment names the directory, as that of every process of its node does.
pub(crate) fn processes_of(parent: &Path) -> Vec<u32> {
    let parent = parent.to_str().unwrap().as_bytes();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|text| text.windows(parent.len()).any(|window| window == parent))
        })
        .collect()
}

/// Remains of nodes whose directories were in `parent`, and of the emulators `pids`.
fn left(parent: &Path, pids: &[u32], uid: u32) -> Vec<String> {
    let mut left: Vec<String> = processes_of(parent).iter().map(|pid| format!("process {pid}")).collect();
    left.extend(fs::read_dir(parent).unwrap().flatten().map(|entry| entry.path().display().to_string()));
    let jit = pids.iter().flat_map(|pid| [format!("/tmp/perf-{pid}.map"), format!("/tmp/jit-{pid}.dump")]);
    left.extend(jit.filter(|path| Path::new(path).exists()));
    let states = fs::read_dir(format!("/tmp/bellows-{uid}")).into_iter().flatten().flatten();
    left.extend(states.filter_map(|entry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        text.contains(parent.to_str().unwrap()).then_some(text)
    }));
    left
}

#[track_caller]
fn assert_nothing_left_soon(parent: &Path, pids: &[u32], uid: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !left(parent, pids, uid).is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(parent, pids, uid), Vec::<String>::new());
}

pub(crate) fn programs() -> [PathBuf; 2] {
    let erts = fs::read_dir("/usr/lib/erlang").unwrap().flatten();
    let mut erts =
        erts.map(|entry| PathBuf::from(entry.file_name())).filter(|name| name.to_str().unwrap().starts_with("erts-"));
    ["bin".into(), erts.next().unwrap().join("bin")]
}

/// A root directory with its own Erlang, as far as it matters: the programs are copies, the libraries links.
pub(crate) fn make_root(root: &Path) {
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
}

/// Addresses that a process listens on, as `/proc` writes them: `0100007F` is 127.0.0.1.
fn listening_addresses(pid: u32) -> Vec<String> {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok())
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap());
    table
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let listens = fields[3] == "0A" && sockets.iter().any(|socket| socket == fields[9]);
            listens.then(|| fields[1].split(':').next().unwrap().to_owned())
        })
        .collect()
}

const DEFINITIONS: &str = include_str!("../data/definitions.json");

#[track_caller]
fn assert_topology(broker: &RabbitMq) {
    let topology = broker.topology(&|| false).unwrap();
    let mut queues: Vec<String> = topology
        .queues
        .iter()
        .map(|queue| {
            assert!(queue.durable);
            // RabbitMQ 4 notes the type of every queue among its arguments, 3 not that of a classic one.
            let mut arguments = queue.arguments.clone();
            arguments.retain(|it| it != "x-queue-type=classic");
            arguments.sort();
            let (name, kind) = (&queue.name, &queue.kind);
            format!("{name} {kind} {} {arguments:?}", queue.messages)
        })
        .collect();
    queues.sort();
    let expected = [
        r#"log é stream 0 ["x-queue-type=stream"]"#,
        r#"plain classic 0 []"#,
        r#"safe quorum 0 ["x-max-length=17", "x-queue-type=quorum"]"#,
    ];
    assert_eq!(queues, expected);
    let exchanges: Vec<_> = topology.exchanges.iter().map(|it| (it.name.as_str(), it.kind.as_str())).collect();
    assert_eq!(exchanges, [("routes", "topic")]);
    let routed = |source: &str, destination: &str, key: &str| {
        topology.bindings.iter().any(|it| {
            (it.source.as_str(), it.destination.as_str(), it.routing_key.as_str()) == (source, destination, key)
        })
    };
    assert!(routed("routes", "plain", "a.*") && routed("", "safe", "safe"), "{:?}", topology.bindings);
    assert_eq!((topology.bindings.len(), topology.omitted), (4, 0));
}

/// The node reports whose queue a process serves, for every kind.
fn assert_processes(broker: &RabbitMq) {
    let all = broker.erlang_processes(&|| false).unwrap();
    for queue in ["plain", "safe", "log é"] {
        let of = all.iter().map(|it| it.label()).filter(|label| *label == format!("queue {queue}"));
        assert_eq!(of.count(), 1, "{queue}");
    }
}

pub(crate) fn said_by(node: &RabbitMq, expression: &str) -> String {
    let link = erlang::Node::connect(&node.erlang().unwrap()).unwrap();
    let said = link.evaluate(Duration::from_secs(60), expression).unwrap();
    String::from_utf8(erlang::term::as_bytes(&said).unwrap().to_vec()).unwrap()
}

/// A field of what `/proc/PID/stat` has behind the name: state, parent, process group, session (proc_pid_stat(5)).
fn stat(pid: u32, field: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').nth(field).unwrap().to_owned()
}

fn step(progress: Progress<'_>) -> Option<String> {
    match progress {
        Progress::Step(text) => Some(text.to_owned()),
        Progress::Waiting(..) | Progress::Logged(_) | Progress::Ready(_) => None,
    }
}

#[test]
fn two_nodes_run_side_by_side_and_leave_nothing() {
    testkit::needs_rabbitmq!();
    // Whoever has the default ports, a RabbitMQ or this test: no node may need them.
    let _taken = [5672, 4369].map(|port| TcpListener::bind(("127.0.0.1", port)));
    let (files, parent, other_parent) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::with_prefix("with blank ").unwrap());
    make_root(files.path());
    let definitions = files.path().join("definitions.json");
    fs::write(&definitions, DEFINITIONS).unwrap();
    let load = [("load_definitions".to_owned(), definitions.to_str().unwrap().to_owned())];
    let own = Config { schedulers: Some(1), settings: load.clone().into(), ..config(parent.path()) };
    let rooted = Config { root: Some(files.path().to_owned()), settings: load.into(), ..config(other_parent.path()) };
    let (own, rooted) = thread::scope(|scope| {
        let rooted = scope.spawn(|| start(&rooted).unwrap());
        (start(&own).unwrap(), rooted.join().unwrap())
    });

    assert_ne!(own.url(), rooted.url());
    for (broker, prefix) in [(&own, Path::new("/usr/lib/erlang")), (&rooted, files.path())] {
        let program = fs::read_link(format!("/proc/{}/exe", broker.pid())).unwrap();
        assert!(program.starts_with(prefix) && program.ends_with("beam.smp"), "{program:?}");
        assert!(broker.version().starts_with(|c: char| c.is_ascii_digit()), "{}", broker.version());
        assert!(broker.runtime().starts_with("Erlang/OTP "), "{}", broker.runtime());
        assert!(broker.process().log_tail(500).contains(&format!("RabbitMQ {}", broker.version())));
        assert_eq!(listening_addresses(broker.pid()), ["0100007F", "0100007F"]);
        // The terminal's Ctrl-C does not reach it.
        assert_ne!(stat(broker.pid(), 3), stat(std::process::id(), 3));
        // The cookie is no argument that anybody may read.
        let command = fs::read(format!("/proc/{}/cmdline", broker.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&command).contains("setcookie"));
        assert_topology(broker);
        assert_processes(broker);
    }
    assert!(Path::new(&format!("/tmp/perf-{}.map", own.pid())).exists(), "{:?}", own.notes());

    // A crash and a new start: another process, the same data behind the same port.
    let (url, mut own) = (own.url(), own);
    let first = own.pid();
    assert!(own.process().kill());
    // While it is away its number is anybody's; a restart used to kill whoever had it.
    let sleep = || Command::new("sleep").arg("60").spawn().unwrap();
    let stranger = testkit::process_with_number(first, sleep);
    own.restart(&mut |_| {}, &|| false).unwrap();
    assert_ne!(own.pid(), first);
    match stranger {
        Some(mut stranger) => {
            assert_eq!(stranger.try_wait().unwrap(), None, "it was killed");
            stranger.kill().unwrap();
            stranger.wait().unwrap();
        }
        None => eprintln!("nobody could be given the number {first}"),
    }
    assert_eq!(own.url(), url);
    let names = |broker: &RabbitMq| {
        broker.topology(&|| false).unwrap().queues.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    assert!(names(&own).contains(&"safe".to_owned()), "{:?}", names(&own));

    let pids = [first, own.pid(), rooted.pid()];
    assert!(own.process().pause() && own.process().resume());
    assert!(rooted.process().pause());
    drop(rooted);
    assert_eq!(left(other_parent.path(), &pids[2..], getuid().as_raw()), Vec::<String>::new());
    assert!(own.process().kill());
    own.stop().unwrap();
    assert_eq!(left(parent.path(), &pids, getuid().as_raw()), Vec::<String>::new());
}

#[test]
fn a_failed_start_shows_the_log_and_leaves_nothing() {
    testkit::needs_rabbitmq!();
    let parent = TempDir::new().unwrap();
    let settings = [("channel_max".to_owned(), "nonsense".to_owned())].into();
    let hasty = Duration::from_millis(1);
    let own = || config(parent.path());
    type Case = (Config, fn(&BrokerError) -> bool, &'static str);
    let cases: [Case; 3] = [
        (Config { settings, ..own() }, |it| matches!(it, BrokerError::Exited(_)), "channel_max"),
        (Config { start_timeout: Some(hasty), ..own() }, |it| matches!(it, BrokerError::NotReady(_)), ""),
        (Config { guard: vec!["false".into()], ..own() }, |it| matches!(it, BrokerError::Guard(_)), ""),
    ];
    for (config, is_so, log) in cases {
        let error = start(&config).unwrap_err();
        assert!(is_so(&error) && error.problem().log.contains(log), "{error:?}");
        assert_eq!(left(parent.path(), &[], getuid().as_raw()), Vec::<String>::new());
    }

    // What a Ctrl-C during the start comes to: it is heeded while the node is on its way.
    let begin = Instant::now();
    let unwanted = || begin.elapsed() > Duration::from_millis(1_500);
    let error = RabbitMq::start(&config(parent.path()), &mut |_| {}, &unwanted).unwrap_err();
    assert!(matches!(error, BrokerError::Cancelled), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert_eq!(left(parent.path(), &[], getuid().as_raw()), Vec::<String>::new());
}

struct Owner {
    process: Child,
    broker: u32,
    guard: u32,
}

impl Owner {
    /// Starts one by `command`, the helper or something that becomes it.
    fn start(mut command: Command, parent: &Path) -> Self {
        let mut process = command.arg("own").arg(parent).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let broker = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the owner ended: {told}")).unwrap();
            if let Some(pid) = line.strip_prefix("ready ") {
                break pid.parse().unwrap();
            }
            told.push_str(&line);
        };
        let guard = stat(broker, 1).parse().unwrap();
        assert_ne!(guard, process.id(), "the broker is the guardian's child");
        Self { process, broker, guard }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The way of a user in a shell without `HOME`: an ordinary one, where this test is root.
#[test]
fn an_ordinary_users_node_goes_when_its_owner_is_killed() {
    testkit::needs_rabbitmq!();
    let files = TempDir::new().unwrap();
    let parent = TempDir::new().unwrap();
    let (command, uid) = if getuid().is_root() {
        let helper = files.path().join("helper");
        fs::copy(HELPER, &helper).unwrap();
        for directory in [files.path(), parent.path()] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::chown(parent.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = Command::new(helper);
        command.uid(NOBODY).gid(NOBODY);
        (command, NOBODY)
    } else {
        (Command::new(HELPER), getuid().as_raw())
    };
    let mut command = command;
    command.env_remove("HOME").current_dir("/");
    let owner = Owner::start(command, parent.path());
    let pids = [owner.broker];
    assert!(!left(parent.path(), &pids, uid).is_empty());
    owner.kill();
    assert_nothing_left_soon(parent.path(), &pids, uid);
}

#[test]
fn the_next_start_removes_what_owner_and_guardian_could_not() {
    testkit::needs_rabbitmq!();
    let parent = TempDir::new().unwrap();
    let owner = Owner::start(Command::new(HELPER), parent.path());
    let pids = [owner.broker];
    let uid = getuid().as_raw();
    kill_process(Pid::from_raw(owner.guard as i32).unwrap(), Signal::KILL).unwrap();
    owner.kill();
    thread::sleep(Duration::from_millis(200));
    assert!(processes_of(parent.path()).contains(&pids[0]), "nobody is there to end the broker");

    // Leftovers come first, also where the start then fails.
    let nowhere = Config { root: Some("/nowhere".into()), ..config(parent.path()) };
    let mut told = Vec::new();
    let mut hear = |it: Progress<'_>| told.extend(step(it));
    let error = RabbitMq::start(&nowhere, &mut hear, &|| false).unwrap_err();
    assert!(error.problem().cause.contains("no RabbitMQ found"), "{error}");
    assert_eq!(left(parent.path(), &pids, uid), Vec::<String>::new());
    assert!(told.iter().any(|step| step.contains("left behind")), "{told:?}");
}

#[test]
fn a_guardian_without_orders_says_so() {
    for (arguments, code) in [(&[][..], 2), (&["/nowhere/launch.json"][..], 1)] {
        let output = Command::new(HELPER).arg(guardian::SUBCOMMAND).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("failed "));
    }
}

/// Played with a start script of our own: the first time it finds its port taken.
#[test]
fn a_port_that_somebody_takes_first_is_replaced() {
    testkit::needs_rabbitmq!();
    let (root, parent) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::create_dir_all(root.path().join("plugins/rabbit-9.8.7")).unwrap();
    fs::create_dir(root.path().join("sbin")).unwrap();
    let script = root.path().join("sbin/rabbitmq-server");
    let ports = root.path().join("ports");
    let text = format!(
        "#!/bin/sh\necho $RABBITMQ_NODE_PORT >> {ports}\n\
         [ $(wc -l < {ports}) = 1 ] && echo 'listen error: eaddrinuse' || echo 'another error'\n\
         exit 3\n",
        ports = ports.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();

    let config = Config { root: Some(root.path().to_owned()), ..config(parent.path()) };
    let mut told = Vec::new();
    let mut hear = |it: Progress<'_>| told.extend(step(it));
    let error = RabbitMq::start(&config, &mut hear, &|| false).unwrap_err();
    let is_the_second = |error: &BrokerError| match error {
        BrokerError::Exited(it) => it.value == "exit status 3" && it.log == "another error",
        _ => false,
    };
    assert!(is_the_second(&error), "{error}");
    assert!(told.iter().any(|step| step.contains("RabbitMQ 9.8.7")), "{told:?}");
    assert!(told.iter().any(|step| step.contains("trying others")), "{told:?}");
    let ports = fs::read_to_string(ports).unwrap();
    let ports: Vec<&str> = ports.lines().collect();
    assert!(ports.len() == 2 && ports[0] != ports[1], "{ports:?}");
    assert_eq!(left(parent.path(), &[], getuid().as_raw()), Vec::<String>::new());
}
