//! Scripts of faults from the command line, and their summary.

use crate::common;

use std::fs;
use std::net::TcpStream;

use common::{bellows, folder, run, start};

#[test]
fn an_experiment_reports_what_was_injected_beside_the_ledger() {
    let dir = &*folder();
    fs::write(dir.join("faulty.toml"), include_str!("../data/experiments/faulty.toml")).expect("file");
    let object = run(dir, &["run", "faulty.toml", "--json", "--quiet"]).json();
    let messages = &object["scenarios"]["messages"];
    let fault = |kind: &str| common::named(&object["faults"], "kind", kind);
    assert_eq!(fault("lose")["count"], messages["ledger"]["lost"]);
    assert!(messages["ledger"]["lost"].as_u64() > Some(20), "{object:#}");
    assert_eq!(fault("duplicate")["count"], 3);
    assert_eq!(messages["ledger"]["duplicated"], 3);
    assert_eq!(fault("drop")["count"], 1);
    let stall = fault("stall");
    assert_eq!(stall["count"], 1);
    // Where others have the cores, it begins and is seen late: `stalls` holds it against virtual time.
    assert_eq!(stall["asked_s"], 0.1, "{stall}");
    for step in ["back_s", "first_confirm_s", "backlog_gone_s"] {
        assert!(stall[step].as_f64() > Some(0.0), "{step}: {stall}");
    }
    let distance = stall["t"].as_f64().unwrap_or(0.0) - fault("drop")["t"].as_f64().unwrap_or(0.0);
    assert!((distance - 0.2).abs() < 0.15, "{distance} s between them");

    testkit::assert_has(common::figures(dir), ["stall at ", "duplicate at "]);
}

#[test]
fn the_broker_alone_prints_what_it_did() {
    let dir = &*folder();
    fs::write(dir.join("faults.toml"), "[[fault]]\nkind = \"refuse-login\"\ncount = 1\n").expect("file");
    let port = common::free_port().to_string();
    let broker = start(bellows(dir, &["broker", "--listen", &format!("127.0.0.1:{port}"), "--faults", "faults.toml"]));
    common::wait_for("the broker", || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    let url = format!("amqp://127.0.0.1:{port}");
    run(dir, &["client", "queue://q", "--url", &url, "--duration", "1"]).says(["403"]);
    // On the same port, over the other protocol.
    let over_1_0 =
        ["client", "queue://q", "--url", url.as_str(), "--protocol", "amqp10", "--duration", "1", "--rate", "200"];
    run(dir, &over_1_0).assert_ok();
    broker.signal("TERM");
    let told = broker.end().ok().stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.len() == 3 && lines[1].starts_with("refuse-login: 1 hit"), "{told}");

    fs::write(dir.join("faults.toml"), "[[fault]]\nkind = \"lose\"\nevry = 2\n").expect("file");
    run(dir, &["broker", "--faults", "faults.toml"]).says(["faults.toml:3"]);
}
