//! Files of definitions against a real RabbitMQ's management API, and against servers that are none.

use crate::common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::pages::{answer, serve};
use common::{bellows, folder, managed, run, start};
use serde_json::Value;

/// The objects of a section of a file that are not the broker's own.
fn names(dir: &Path, file: &str, section: &str) -> Vec<String> {
    let objects = common::read_json(&dir.join(file))[section].as_array().cloned().unwrap_or_default();
    let key = if section == "bindings" { "routing_key" } else { "name" };
    let name = |object: &Value| object[key].as_str().expect("a name").to_owned();
    let mut names: Vec<String> = objects.iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn queues_are_made_imported_exported_and_deleted_again() {
    let (dir, node) = &managed::shared!();
    let port = node.management();
    let api = format!("http://127.0.0.1:{port}");
    let user = node.url();
    let (user, password) = login(&user);
    let topology = |args: &[&str]| {
        let mut command = bellows(dir, &["topology"]);
        command.args(args);
        if args.first() != Some(&"generate") {
            command.args(["--management", &api, "--user", &user]);
            command.env("BELLOWS_PASSWORD", &password);
        }
        start(command).end()
    };
    // Over several requests, with a name that has to be escaped.
    let generate =
        common::words("generate --queues 1200 --exchange in/out --bindings 2 --exchange-type topic -o some.json");
    topology(&[&generate[..], &["--prefix", "o/ä #"]].concat()).assert_ok();
    testkit::assert_begins(topology(&["apply", "some.json"]).ok().stdout, "3,601 objects imported in ");
    topology(&["export", "-o", "all.json"]).assert_ok();
    let exported = fs::metadata(dir.join("all.json")).expect("a file");
    assert_eq!(exported.permissions().mode() & 0o777, 0o600);
    for section in ["queues", "bindings"] {
        assert_eq!(names(dir, "all.json", section), names(dir, "some.json", section));
    }
    assert_eq!(names(dir, "all.json", "exchanges"), ["in/out"]);
    // What is imported twice is there once.
    topology(&["apply", "some.json", "--quiet"]).assert_ok();
    // What stands in no file stays.
    topology(&["generate", "--queues", "1", "--prefix", "kept", "-o", "kept.json"]).assert_ok();
    topology(&["apply", "kept.json"]).assert_ok();
    for (begin, end) in [("1,201 objects deleted in ", " s\n"), ("0 objects deleted in ", " s; 1,201 were not there\n")]
    {
        let deleted = topology(&["delete", "some.json"]).ok().stdout;
        testkit::assert_begins(&deleted, begin);
        testkit::assert_ends(&deleted, end);
    }
    topology(&["export", "-o", "left.json"]).assert_ok();
    assert_eq!(names(dir, "left.json", "queues"), ["kept0"]);
    assert_eq!(names(dir, "left.json", "exchanges"), [""; 0]);
    assert_eq!(names(dir, "left.json", "users"), std::slice::from_ref(&user));

    // RabbitMQ takes the line break out of a name that is to be deleted: another queue would go.
    let lines =
        r#"{"queues": [{"name": "kept\n0", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}]}"#;
    fs::write(dir.join("lines.json"), lines).expect("a file");
    topology(&["apply", "lines.json"]).assert_ok();
    topology(&["delete", "lines.json"]).assert_error(1, &["line breaks", "kept\\n0"]);
    topology(&["export", "-o", "lines_left.json"]).assert_ok();
    let left = names(dir, "lines_left.json", "queues");
    assert_eq!(left, ["kept\n0", "kept0"]);

    // One virtual host's, and what is wrong with objects or login.
    topology(&["export", "--vhost", "/", "-o", "one.json"]).assert_ok();
    assert_eq!(names(dir, "one.json", "queues"), left);
    for args in [["export", "-o", "x.json"].as_slice(), &["apply", "one.json"], &["delete", "one.json"]] {
        let args = [args, &["--vhost", "none"]].concat();
        topology(&args).assert_error(1, &["no virtual host \"none\"", "there is \"/\""]).says(["add_vhost"]);
    }
    fs::write(dir.join("bad.json"), r#"{"queues": [{"name": 1, "vhost": "/"}]}"#).expect("a file");
    // RabbitMQ 4.0 would take it, and never delete it again.
    topology(&["apply", "bad.json"]).assert_error(1, &["name of one of its queues is not text", "\"name\":1"]);
    // A reason that RabbitMQ writes as a list of characters.
    let unknown = r#"{"exchanges": [{"name": "x", "vhost": "/", "type": "nosuch", "durable": true,
        "auto_delete": false, "internal": false, "arguments": {}}]}"#;
    fs::write(dir.join("type.json"), unknown).expect("a file");
    topology(&["apply", "type.json"]).assert_error(1, &["cannot import exchanges", "unknown exchange type 'nosuch'"]);
    let no = ["topology", "export", "--management", &api, "--user", "no"];
    start(bellows(dir, &no).env("BELLOWS_PASSWORD", "sesame")).end().assert_error(1, &["401"]).says_not(["sesame"]);
    // The password for the API alone comes before the other, also for the usual user.
    let mut command = bellows(dir, &["topology", "export", "--management", &api]);
    start(command.env("BELLOWS_PASSWORD", "guest").env("BELLOWS_MANAGEMENT_PASSWORD", "sesame"))
        .end()
        .assert_error(1, &["401"])
        .says(["the password in BELLOWS_MANAGEMENT_PASSWORD or BELLOWS_PASSWORD"]);
    assert!(!dir.join("x.json").exists());
}

fn login(url: &str) -> (String, String) {
    let rest = url.strip_prefix("amqp://").expect("scheme");
    let Some((login, _)) = rest.split_once('@') else { return ("guest".to_owned(), "guest".to_owned()) };
    let (user, password) = login.split_once(':').expect("a password");
    (user.to_owned(), password.to_owned())
}

#[test]
fn what_is_no_definitions_or_no_api_is_refused() {
    let dir = &*folder();
    fs::write(dir.join("text.json"), "queues").expect("a file");
    let apply = |file: &str, url: &str| run(dir, &["topology", "apply", file, "--management", url]);
    apply("none.json", "http://127.0.0.1:1").assert_error(1, &["cannot read"]);
    apply("text.json", "http://127.0.0.1:1").assert_error(1, &["has no definitions"]);
    run(dir, &["topology", "generate", "--queues", "1", "-o", "one.json"]).assert_ok();
    apply("one.json", "127.0.0.1").assert_error(1, &["is not the address of a management API"]);
    apply("one.json", "http://u:geheim@127.0.0.1:1").assert_error(1, &["is not the address"]);
    apply("one.json", "http://127.0.0.1:1").assert_error(1, &["cannot import queues", "refused"]);
    // A node that takes the request and is busy.
    let (_silent, address) = common::listener();
    let busy = format!("http://{address}");
    for (args, help) in [
        (["apply", "one.json"].as_slice(), "what was imported stays; run it again, or allow more with --timeout"),
        (&["delete", "one.json"], "what was deleted is gone; run it again, or allow more"),
        (&["export"], "the node is busy: allow more with --timeout"),
    ] {
        let args = [&["topology"], args, &["--management", &busy, "--timeout", "300ms"]].concat();
        run(dir, &args).assert_error(1, &["was not complete within the time-out"]).says([help]);
    }
    run(dir, &["topology", "export", "--timeout", "0"]).assert_error(2, &["--timeout 0s is too short"]);
    let broker = common::Broker::start(dir);
    apply("one.json", &format!("http://{}", broker.address())).assert_error(1, &["cannot import queues"]);
    let made = run(dir, &["topology", "generate", "--queues", "3", "--type", "stream"]).json();
    assert_eq!(made["queues"][2]["arguments"]["x-queue-type"], "stream");
    run(dir, &["topology", "generate", "--queues", "1k", "-o", "1k.json"]).assert_ok();
    assert_eq!(names(dir, "1k.json", "queues").len(), 1_000);
    for wrong in ["0", "2.1M", "1.0001k", "1K", "-1", "many"] {
        run(dir, &["topology", "generate", &format!("--queues={wrong}")])
            .ends(2)
            .says(["it must be a whole number from 1 to 2,000,000, such as 500 or 1k"]);
    }
}

/// A server that refuses a login may repeat it, in each of its forms.
#[test]
fn a_login_that_is_refused_is_not_repeated_and_passes_no_proxy() {
    let dir = folder();
    let (proxy, proxy_address) = common::listener();
    let address = serve(|request, stream| {
        let login = request.header("authorization").unwrap_or_default();
        let body = format!("password swordfish9 of me:swordfish9 ({login})");
        stream.write_all(answer("401 Unauthorized", &body).as_bytes()).expect("an answer");
    });
    let args = ["topology", "export", "--management", &format!("http://{address}"), "--user", "me"];
    let mut command = bellows(dir.path(), &args);
    for name in ["NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.env("ALL_PROXY", format!("http://{proxy_address}"));
    command.env("BELLOWS_MANAGEMENT_PASSWORD", "swordfish9");
    start(command).end().assert_error(1, &["401", "password *** of me:*** (Basic ***)"]);
    proxy.set_nonblocking(true).expect("a listener");
    assert!(proxy.accept().is_err(), "the proxy was asked");
}
