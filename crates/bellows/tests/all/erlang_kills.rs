//! `bellows erlang …` at a RabbitMQ under load, killed or cut off at any moment: nothing stays behind on the node, and
//! RabbitMQ goes on serving.

use crate::common;
use crate::common::managed::{self, SharedNode};

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::{Started, bellows, folder, run, start};
use erlang::Node;
use erlang::term::as_text;
use serde_json::Value;
use testkit::{Proxy, Random};

/// Queues of the load, each with a channel of its own for its producer and its consumer.
const QUEUES: &str = "100";
/// Longest time until the node is clean again: the lease of a connection that was cut off silently, and delay of a busy
/// machine.
const CLEAN_WITHIN: Duration = Duration::from_secs(45);

/// Commands that outlast every scene.
const COMMANDS: [&[&str]; 9] = [
    &["trace", "rabbit_channel", "--limit", "100000", "--for", "60s"],
    &["trace", "rabbit_amqqueue_process", "--limit", "100000", "--returns", "--durations", "--for", "60s"],
    &["calls", "rabbit_channel", "rabbit_amqqueue_process", "--for", "30s"],
    &["calls", "rabbit_channel", "--for", "1s"],
    &["calls", "--root", "rabbit_channel:handle_method/3", "--for", "30s"],
    &["time", "rabbit_amqqueue:list(<<\"/\">>)", "--times", "100000", "--for", "30s"],
    &["top", "--json", "--every", "300ms"],
    &["alloc", "--for", "30s"],
    &["queues", "--json", "--every", "200ms"],
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Kill,
    Cut,
    HalfOpen,
}

/// A RabbitMQ with clients at work.
struct Scenery {
    rabbit: SharedNode,
    load: Started,
    dir: common::Folder,
    /// A connection that reads the node's state.
    witness: Node,
}

impl Scenery {
    fn start() -> Self {
        let dir = folder();
        let rabbit = managed::shared_node();
        let url = rabbit.url();
        let line = format!(
            "client queue://kills --num-destinations {QUEUES} --rate 500 --max-pending 50 --duration 100000 --url \
             {url} --quiet --json --no-archive"
        );
        let load = start(bellows(dir.path(), &common::words(&line)));
        let witness = Node::connect(&rabbit.erlang()).expect("connected");
        Self { rabbit, load, dir, witness }
    }

    fn port(&self) -> u16 {
        let access = self.rabbit.erlang();
        access.address.expect("an address").1
    }

    /// A command at the node by way of this port, for this long; how it failed where it did not last.
    fn look(&self, arguments: &[&str], port: u16, delay: Duration, then: impl FnOnce()) -> Option<String> {
        let access = self.rabbit.access(Some(port));
        let access = access.each_ref().map(String::as_str);
        let all = [&["erlang", arguments[0]], &access[..], &arguments[1..]].concat();
        let mut look = start(bellows(self.dir.path(), &all));
        std::thread::sleep(delay);
        let ended = look.child.try_wait().expect("wait");
        then();
        look.child.kill().expect("killed");
        let told = look.end_of_long();
        // Its window may be over, or a budget of it.
        let failed = ended.is_some_and(|it| it.code() != Some(0));
        failed.then(|| format!("{arguments:?} ended by itself: {told:?}"))
    }

    /// One command that ends in the middle of its work; returns faults afterwards.
    fn scene(&self, seed: u64) -> Option<String> {
        let mut random = Random::new(seed);
        let arguments = random.of(&COMMANDS);
        let end = random.of(&[End::Kill, End::Kill, End::Cut, End::HalfOpen]);
        let delay = Duration::from_millis(random.below(2_500));
        let failed = match end {
            End::Kill => self.look(arguments, self.port(), delay, || ()),
            End::Cut | End::HalfOpen => {
                let node = SocketAddr::from(([127, 0, 0, 1], self.port()));
                let proxy = Proxy::new(node).expect("a proxy");
                let failed = self.look(arguments, proxy.address().port(), delay, || {
                    proxy.keep_away(true);
                    match end {
                        End::HalfOpen => proxy.hold(true),
                        _ => proxy.cut(Duration::ZERO),
                    }
                });
                // The node's end of a link that is half open hears nothing: its lease ends what is there.
                let left = (end == End::HalfOpen).then(|| self.left()).flatten();
                proxy.hold(false);
                failed.or(left)
            }
        };
        let wrong = failed.or_else(|| self.left()).or_else(|| self.refuses(seed))?;
        Some(format!("{arguments:?} {end:?} {delay:?}: {wrong}"))
    }

    /// Remains on the node after it has had time to clean up.
    fn left(&self) -> Option<String> {
        let modules = ["rabbit_channel", "rabbit_amqqueue_process", "gen", "gen_server2", "lists"];
        let question = testkit::left_on_node(&modules);
        let until = Instant::now() + CLEAN_WITHIN;
        loop {
            let left = self.witness.evaluate(Duration::from_secs(30), &question).expect("an answer");
            match as_text(&left).expect("a text") {
                left if left == testkit::NOTHING_LEFT => return None,
                left if Instant::now() >= until => return Some(left),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The error of a client that connects now, where it is not served.
    fn refuses(&self, seed: u64) -> Option<String> {
        let url = self.rabbit.url();
        let queue = format!("queue://after-{seed}");
        let args = ["client", &queue, "--message-count", "20", "--url", &url, "--quiet", "--json", "--no-archive"];
        let ended = run(self.dir.path(), &args);
        let served = ended.code() == Some(0) && delivered(&ended.stdout) == Some((20, 0));
        (!served).then(|| format!("not served: {ended:?}"))
    }
}

/// Messages that a client received, and those that it lost.
fn delivered(summary: &str) -> Option<(u64, u64)> {
    let summary: Value = serde_json::from_str(summary).ok()?;
    let ledger = &summary["scenarios"]["messages"]["ledger"];
    Some((ledger["delivered"].as_u64()?, ledger["lost"].as_u64()?))
}

#[test]
fn rabbitmq_serves_and_is_clean_after_kills_and_cuts() {
    testkit::needs_rabbitmq!();
    let scenery = Scenery::start();
    let seeds: Vec<u64> = testkit::seeds(4).collect();
    // A node before OTP 27 has one trace at a time.
    let played = testkit::play(&seeds, 1, |seed| scenery.scene(seed));
    played.assert_right("--test all erlang_kills::");
    let Scenery { load, .. } = scenery;
    load.signal("INT");
    let ended = load.end_of_long();
    let (delivered, lost) = delivered(&ended.stdout).expect("a summary");
    assert!(delivered > 100, "{ended:?}");
    assert_eq!(lost, 0, "{ended:?}");
}
