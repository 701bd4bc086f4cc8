//! `erlang calls --root` and `erlang time` at a real RabbitMQ, whose management API is asked meanwhile.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{Ended, folder, managed, run};
use erlang::Node;
use erlang::term::{as_list, atom};
use serde_json::Value;
use session::brokers::rabbitmq::RabbitMq;

const ROOT: &str = "rabbit_mgmt_wm_queues:to_json/2";

/// Asks the management API for its queues; whether it told them.
fn ask_for_queues(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let login = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
        write!(
            stream,
            "GET /api/queues HTTP/1.0\r\nHost: localhost\r\n{login}\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains(" 200 "))
}

/// The options by which the node is reached.
fn access(rabbit: &RabbitMq) -> [String; 5] {
    let erlang = rabbit.erlang().expect("how it is reached");
    let (_, port) = erlang.address.as_ref().expect("an address");
    let home = std::fs::read_link(format!("/proc/{}/cwd", rabbit.pid())).expect("its folder");
    let cookie = home.join(".erlang.cookie").display().to_string();
    [
        erlang.node.to_string(),
        "--port".to_owned(),
        port.to_string(),
        "--cookie-file".to_owned(),
        cookie,
    ]
}

fn erlang(dir: &Path, rabbit: &RabbitMq, command: &str, arguments: &[&str]) -> Ended {
    let access = access(rabbit);
    let mut all = vec!["erlang", command];
    all.extend(access.iter().map(String::as_str));
    all.extend(arguments);
    run(dir, &all)
}

fn data(ended: &Ended) -> Value {
    ended.assert_ok();
    serde_json::from_str(&ended.stdout).expect("one object")
}

#[test]
fn the_management_api_is_followed_into_the_processes_that_it_asks() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let folder = folder();
    let dir = folder.path();
    let (rabbit, port) = managed::with_management();
    let url = format!("http://127.0.0.1:{port}");
    let file = ["topology", "generate", "--queues", "50", "-o", "d.json"];
    run(dir, &file).assert_ok();
    run(dir, &["topology", "apply", "d.json", "--management", &url]).assert_ok();
    let (stop, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let followed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                told.fetch_add(u64::from(ask_for_queues(port)), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let arguments = [
            "--root",
            ROOT,
            "--for",
            "8",
            "-o",
            "path.folded",
            "--waits",
            "--json",
        ];
        let followed = erlang(dir, &rabbit, "calls", &arguments);
        stop.store(true, Ordering::Relaxed);
        followed
    });
    println!("{}", followed.stdout);
    println!(
        "{}",
        std::fs::read_to_string(dir.join("path.folded")).expect("stacks")
    );
    let human = erlang(dir, &rabbit, "time", &["rabbit_amqqueue:list(<<\"/\">>)"]);
    println!("{} {}", human.stdout, human.stderr);
    let human = erlang(dir, &rabbit, "time", &["rabbit_mgmt_db:get_overview(none)"]);
    println!("{} {}", human.stdout, human.stderr);
    let _ = (
        data(&followed),
        Node::connect(&rabbit.erlang().expect("access")),
        as_list(&atom("x")),
    );
    rabbit.stop().expect("an end");
}
