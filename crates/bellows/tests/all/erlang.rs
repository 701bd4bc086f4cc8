//! A RabbitMQ that bellows has not started, asked by its Erlang cookie.

use crate::common;
use crate::common::managed;

use std::fs;

use serde_json::Value;

#[test]
fn an_attached_node_is_asked_by_its_cookie() {
    let (dir, node) = &managed::shared!();
    let [name, _, port, _, cookie] = node.access(None);
    let info = node.inspect(dir, "info", &["--json"]).json();
    assert_eq!(info["rabbitmq"], node.version(), "{info:#}");
    assert_eq!(info["bellows_modules"], Value::Array(Vec::new()), "{info:#}");
    let url = node.url();
    let line = format!(
        "client queue://asked --url {url} --node {name} --node-port {port} --cookie-file {cookie} --duration 1 \
         --consumers 2 --max-pending 10 --quiet"
    );
    common::run(dir, &common::words(&line)).assert_ok();
    let record = common::record(dir);
    let queue = &record["topology"]["queues"][0];
    assert_eq!((&queue["name"], &queue["consumers"]), (&"asked".into(), &2.into()), "{record:#}");
    let cookie = fs::read_to_string(cookie).expect("the cookie");
    assert!(!record.to_string().contains(cookie.trim()), "{record:#}");
}
