//! `bellows runs report --redact`: of runs with telling names everywhere none remains in the file, over RabbitMQ
//! and the embedded broker, in pages of runs and of comparisons.

use crate::common;

use std::fs;
use std::path::Path;

use common::{folder, managed, page_parts, run};

/// Names that appear nowhere else.
const TELLING: &str = "secret-orders secret_orders hidden.key covert-exchange bluewhale moonshot payroll-merger \
    initech orders-api orders_api stealth-scrape hush-tag sesame";

fn experiment(dir: &Path, broker: &str, probes: &str) {
    let text = format!(
        "name = \"payroll-merger\"\ndescription = \"Does the cluster of Initech hold?\"\n{broker}\
         [phases]\nwarmup = \"200ms\"\nmeasure = \"2s\"\ndrain = \"3s\"\n\
         [[load]]\ndestination = \"queue://secret-orders\"\nnum-destinations = 2\nrouting-key = \"hidden.key\"\nrate = \
         500\n\
         headers = {{ \"x-tenant\" = \"bluewhale\", moonshot = \"sesame\" }}\n\
         [load.exchange]\nname = \"covert-exchange\"\ntype = \"topic\"\n{probes}"
    );
    fs::write(dir.join("payroll-merger.toml"), text).expect("an experiment");
}

/// No name is anywhere in a page: not in its data, and not in the rest of the file.
fn assert_none(path: &Path) -> serde_json::Value {
    let (data, _) = page_parts(path);
    let file = fs::read_to_string(path).expect("readable").to_lowercase();
    let all = data.to_string().to_lowercase();
    for name in common::words(TELLING) {
        assert!(!all.contains(name), "{name} is in the data");
        // The data itself is packed.
        assert!(!file.contains(name), "{name} is in the file");
    }
    data
}

#[test]
fn no_name_of_a_run_over_rabbitmq_remains() {
    let (dir, node) = &managed::shared!();
    let probes = "[[probe]]\nname = \"orders-api\"\nurl = \"/api/queues/%2F/secret-orders0\"\nevery = \"500ms\"\n\
                  [[scrape]]\nurl = \"http://localhost:1/metrics\"\nname = \"stealth-scrape\"\nevery = \"1s\"\n";
    experiment(dir, &node.broker(), probes);
    run(dir, &["run", "payroll-merger.toml", "--tag", "hush-tag", "--note", "open sesame", "--quiet"]).assert_ok();
    let plain = common::only_run(dir);
    let whole = common::record(dir).to_string().to_lowercase();
    assert!(whole.contains("secret-orders1"), "the test has names to look for");
    run(dir, &["runs", "report", "last", "--redact", "-o", "for-others.html"]).assert_ok();
    let data = assert_none(&dir.join("for-others.html"));
    // What belongs together still does.
    let queues = data["topology"]["queues"].as_array().expect("queues");
    assert_eq!(queues.len(), 2, "{queues:?}");
    let bound = |queue: &serde_json::Value| {
        let bindings = data["topology"]["bindings"].as_array().expect("bindings");
        bindings.iter().any(|it| it["destination"] == queue["name"] && it["source"] == "exchange-1")
    };
    assert!(queues.iter().all(bound), "{:#}", data["topology"]);
    assert_eq!(data["experiment"]["load"][0]["exchange"]["name"], "exchange-1");
    assert_eq!(data["versions"]["broker"].as_str().map(|it| it.starts_with("RabbitMQ")), Some(true));
    // The report of the run itself is what it was.
    assert!(!plain.join("report-redacted.html").exists());
}

#[test]
fn no_name_remains_in_a_run_or_a_comparison_of_the_embedded_broker() {
    let dir = &*folder();
    experiment(dir, "[broker]\nkind = \"embedded\"\n", "");
    run(dir, &["run", "payroll-merger.toml", "--quiet", "--tag", "hush-tag", "--runs", "single"]).assert_ok();
    run(dir, &["runs", "report", "last", "--redact", "-o", "one.html", "--runs", "single"]).assert_ok();
    assert_none(&dir.join("one.html"));
    let line = common::words(
        "ab payroll-merger.toml --pairs 2 --quiet --no-profile --set phases.measure=300ms --b-set \
         load.0.routing-key=initech.key --runs turns",
    );
    let ended = run(dir, &line);
    assert!(ended.code().is_some_and(|it| it <= 4 && it != 1), "{ended:#?}");
    let turns = fs::read_dir(dir.join("turns")).expect("a folder");
    let turns = turns.flatten().next().expect("the runs in turns").path();
    run(dir, &["runs".as_ref(), "report".as_ref(), turns.as_os_str(), "--redact".as_ref()]).assert_ok();
    let data = assert_none(&turns.join("report-redacted.html"));
    assert_eq!(data["differences"][0]["key"], "load.0.routing-key");
    let values = [&data["differences"][0]["a"], &data["differences"][0]["b"]];
    assert!(values.iter().all(|it| it.as_str().is_some_and(|it| it.contains("key-"))), "{values:?}");
}
