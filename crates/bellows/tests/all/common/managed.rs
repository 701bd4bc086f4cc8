//! A real RabbitMQ that tests share: one for each lane of `scripts/test`, started by the first test that needs it. Each
//! test gets it with a virtual host `/` of its own. Tests of starting, stopping, killing and configuring start their
//! own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use brokers::guardian;
use brokers::rabbitmq::{Config, RabbitMq};
use erlang::queues::{QueueRequest, QueueSort, read_queues};
use erlang::term::as_atom;
use erlang::{ConnectOptions, Cookie, Helper, Node};
use serde::{Deserialize, Serialize};

/// The lane's folder, which `scripts/lane` names.
const LANE: &str = "LANE_OF_TEST";
/// Makes [`keeps_a_node`] a keeper, which writes its node's facts there.
const KEEPS: &str = "KEEPS_A_NODE_IN";
/// The root directory of its RabbitMQ, where that is not the machine's.
const ROOT: &str = "BELLOWS_RABBITMQ_ROOT";
/// Files in that folder: facts of the node, and output of the keeper.
const FACTS: &str = "node.json";
const LOG: &str = "keeper.log";

/// Gives a node a virtual host `/` with nothing in it, and takes all else.
const CLEAR: &str = "[rabbit_vhost:delete(V, <<\"tests\">>) || V <- rabbit_vhost:list()], \
    [rabbit_auth_backend_internal:delete_user(U, <<\"tests\">>) \
        || L <- rabbit_auth_backend_internal:list_users(), {user, U} <- L, U =/= <<\"guest\">>], \
    ok = rabbit_vhost:add(<<\"/\">>, <<\"tests\">>), All = <<\".*\">>, \
    rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"/\">>, All, All, All, <<\"tests\">>), ok.";

/// A shared node, by its keeper's files.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SharedNode {
    url: String,
    pid: u32,
    version: String,
    management: u16,
    name: String,
    address: (String, u16),
    folder: PathBuf,
    /// Ends the keeper of a node that no lane has.
    #[serde(skip)]
    keeper: Option<(Child, tempfile::TempDir)>,
}

impl SharedNode {
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// The port of its management API.
    pub(crate) const fn management(&self) -> u16 {
        self.management
    }

    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn cookie_file(&self) -> PathBuf {
        self.folder.join(".erlang.cookie")
    }

    /// How to reach its Erlang node.
    pub(crate) fn erlang(&self) -> ConnectOptions {
        let cookie = Cookie::read(&self.cookie_file()).expect("its cookie");
        let mut options = ConnectOptions::new(self.name.parse().expect("a name"), cookie);
        options.address = Some(self.address.clone());
        options.timeout = super::DEADLINE;
        options
    }

    /// The `[broker]` of an experiment on it.
    pub(crate) fn broker(&self) -> String {
        let lines = self.settings();
        let lines: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("[broker]\n{lines}")
    }

    /// Arguments of `bellows erlang` that reach its node, at this port or at its own.
    pub(crate) fn access(&self, port: Option<u16>) -> [String; 5] {
        let port = port.unwrap_or(self.address.1).to_string();
        let cookie = self.cookie_file().display().to_string();
        [self.name.clone(), "--port".to_owned(), port, "--cookie-file".to_owned(), cookie]
    }

    /// Runs a command of `bellows erlang` at its node.
    pub(crate) fn inspect(&self, dir: &Path, command: &str, arguments: &[&str]) -> super::Ended {
        let access = self.access(None);
        let access: Vec<&str> = access.iter().map(String::as_str).collect();
        super::run(dir, &[&["erlang", command], &access[..], arguments].concat())
    }

    /// The options of a command that runs on it: `--set broker.kind=attach …`.
    pub(crate) fn options(&self) -> Vec<String> {
        let settings = self.settings().into_iter();
        let options = settings.map(|(key, value)| ["--set".to_owned(), format!("broker.{key}={value}")]);
        options.flatten().collect()
    }

    fn settings(&self) -> [(&'static str, String); 6] {
        [
            ("kind", "\"attach\"".to_owned()),
            ("url", format!("{:?}", self.url)),
            ("node", format!("{:?}", self.name)),
            ("node-port", self.address.1.to_string()),
            ("cookie-file", format!("{:?}", self.cookie_file())),
            ("management", format!("\"http://127.0.0.1:{}\"", self.management)),
        ]
    }

    /// Messages in a queue, ready or not acknowledged; `None` where it is not known yet.
    pub(crate) fn messages(&self, queue: &str) -> Option<u64> {
        let node = Node::connect(&self.erlang()).expect("a connection");
        let helper = Helper::load(&node).expect("the helper");
        let request = QueueRequest { vhost: None, sort: QueueSort::Name, limit: 100, fresh: None };
        let counts = read_queues(&helper, &request).expect("counts");
        helper.close().expect("a clean node");
        let row = counts.rows.into_iter().find(|row| row.name == queue)?;
        Some(row.ready? + row.unacked?)
    }

    /// Gives the test a virtual host `/` with nothing in it, and no other one; and no other user.
    fn clear(&self) {
        let node = Node::connect(&self.erlang()).expect("a connection");
        // RabbitMQ 4.0 fails where a queue ends by itself while its virtual host is deleted.
        super::wait_for("a node with nothing in it", || {
            let cleared = node.evaluate(super::DEADLINE, CLEAR);
            cleared.is_ok_and(|it| as_atom(&it) == Some("ok"))
        });
    }
}

impl Drop for SharedNode {
    fn drop(&mut self) {
        if let Some((mut keeper, _)) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// A folder of the test's own, and the lane's node; leaves the test where there is no RabbitMQ.
macro_rules! shared {
    () => {{
        testkit::needs_rabbitmq!();
        (crate::common::folder(), crate::common::managed::shared_node())
    }};
}

pub(crate) use shared;

/// The lane's node; one of the test's own where there is no lane.
pub(crate) fn shared_node() -> SharedNode {
    node_of("rabbitmq", root().as_deref())
}

/// The lane's node of the newest RabbitMQ in reach.
pub(crate) fn newest_node() -> Option<SharedNode> {
    newest_root().map(|root| node_of("newest", Some(&root)))
}

/// The node that tests of this group share.
fn node_of(group: &str, root: Option<&Path>) -> SharedNode {
    let node = if let Some(lane) = std::env::var_os(LANE) {
        let own = std::env::var("NEXTEST_TEST_GROUP");
        assert_eq!(own.as_deref(), Ok(group), "the group that the test belongs to: .config/nextest.toml");
        of_lane(Path::new(&lane), root)
    } else {
        let folder = tempfile::tempdir().expect("a folder");
        let keeper = start_keeper(folder.path(), root, Stdio::piped());
        let mut node = await_facts(folder.path());
        node.keeper = Some((keeper, folder));
        node
    };
    node.clear();
    node
}

#[allow(clippy::zombie_processes, reason = "the keeper outlives the test")]
fn of_lane(lane: &Path, root: Option<&Path>) -> SharedNode {
    let there = facts(lane).filter(|node| Path::new(&format!("/proc/{}", node.pid)).exists());
    if let Some(node) = &there {
        // A test that was killed may have left it stopped.
        super::signal(node.pid, "CONT");
    }
    there.unwrap_or_else(|| {
        let _ = fs::remove_file(lane.join(FACTS));
        let alive = File::open(lane.join("alive")).expect("the pipe of the lane");
        start_keeper(lane, root, Stdio::from(alive));
        await_facts(lane)
    })
}

fn facts(folder: &Path) -> Option<SharedNode> {
    serde_json::from_slice(&fs::read(folder.join(FACTS)).ok()?).ok()
}

fn await_facts(folder: &Path) -> SharedNode {
    let log = || fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    super::wait_for("a RabbitMQ", || {
        assert!(!log().contains("panicked"), "{}", log());
        facts(folder).is_some()
    });
    facts(folder).expect("what it is")
}

/// Starts this program as the keeper of a node. It outlives the test, and ends with `until`.
fn start_keeper(folder: &Path, root: Option<&Path>, until: Stdio) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args(["common::managed::keeps_a_node", "--exact", "--ignored"])
        .env(KEEPS, folder)
        .env(ROOT, root.unwrap_or(Path::new("")))
        .env_remove(LANE)
        .stdin(until)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join(LOG)).expect("a file"))
        .process_group(0);
    command.spawn().expect("a keeper")
}

/// Keeps a node until its standard input ends, where it is started for that.
#[test]
#[ignore = "what keeps a node for other tests"]
fn keeps_a_node() {
    let Some(folder) = std::env::var_os(KEEPS).map(PathBuf::from) else { return };
    let management = super::free_port();
    let node = start_with(management);
    let access = node.erlang().expect("how it is reached");
    super::wait_for("the management API", || std::net::TcpStream::connect(("127.0.0.1", management)).is_ok());
    let facts = SharedNode {
        url: node.plain_url(),
        pid: node.pid(),
        version: node.version().to_owned(),
        management,
        name: access.node.to_string(),
        address: access.address.expect("an address"),
        folder: fs::read_link(format!("/proc/{}/cwd", node.pid())).expect("its folder"),
        keeper: None,
    };
    let text = serde_json::to_vec(&facts).expect("JSON");
    let new = folder.join("node.new");
    fs::write(&new, text).expect("written");
    fs::rename(new, folder.join(FACTS)).expect("written");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    node.stop().expect("an end");
}

fn start_with(management: u16) -> RabbitMq {
    let mut settings = BTreeMap::from([
        ("management.tcp.port".to_owned(), management.to_string()),
        ("management.tcp.ip".to_owned(), "127.0.0.1".to_owned()),
    ]);
    if root().is_some() {
        // As one day by default.
        let feature = "deprecated_features.permit.transient_nonexcl_queues";
        settings.insert(feature.to_owned(), "false".to_owned());
    }
    let config = Config {
        plugins: vec!["rabbitmq_management".to_owned()],
        settings,
        // It waits for most of the time, and tests beside it need the core on which it would spin.
        emulator_arguments: ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"].map(str::to_owned).to_vec(),
        root: root(),
        guard: guard(),
        ..Config::default()
    };
    RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ")
}

/// Where the newest RabbitMQ in reach is, if it is not the machine's.
pub(crate) fn newest_root() -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/newest");
    root().or_else(|| made.canonicalize().ok())
}

/// Root directory of a RabbitMQ to test in place of the machine's.
fn root() -> Option<PathBuf> {
    let root = std::env::var_os(ROOT);
    root.filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// The guardian of nodes that tests start: this build's.
pub(crate) fn guard() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_bellows").into(), guardian::SUBCOMMAND.into()]
}
