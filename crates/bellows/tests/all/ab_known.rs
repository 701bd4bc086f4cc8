//! Proofs of `bellows ab` on a real RabbitMQ: deliberate changes are found with their sign, and attributed to their
//! code; none is found where nothing was changed. They take minutes each: `make prove`. `ab_rabbitmq.rs` has another
//! one.

use crate::common;

use std::fmt::Write as _;
use std::path::Path;

use common::{bellows, figure, folder, start};
use serde_json::{Value, json};

const IGNORED: &str = "BELLOWS_PAIRS is not set: make prove";
/// A classic queue behind a fanout exchange, at full speed.
const BEHIND_AN_EXCHANGE: &str = "exchange = { name = \"known\", type = \"fanout\", durable = true }\n\
    max-pending = 100\nprefetch = 200\nack = 100";
/// One queue, behind the default exchange.
const PLAIN: &str = "max-pending = 1000\nprefetch = 200\nack = 100";
/// Consumers would take most messages before they are dropped.
const NOT_RECEIVED: &str = "max-pending = 1000\nconsumers = 0";
/// Producers who wait for nothing: flow control alone slows them down.
const UNCONFIRMED: &str = "producers = 4\nproducer-connections = 4\nconfirm = false\nprefetch = 200\nack = 100";

/// Pairs that show a change by tens of per cent.
const FEW_PAIRS: &str = "5";

/// Results of `bellows ab` for a load with further options that change much.
fn found(dir: &Path, load: &str, further: &[&str]) -> Result<Value, &'static str> {
    std::env::var("BELLOWS_PAIRS").map_err(|_| IGNORED)?;
    Ok(found_of(dir, FEW_PAIRS, load, further))
}

/// Results with as many pairs as a change by some per cent needs.
fn found_of_many(dir: &Path, further: &[&str]) -> Result<Value, &'static str> {
    let pairs = std::env::var("BELLOWS_PAIRS").map_err(|_| IGNORED)?;
    Ok(found_of(dir, &pairs, PLAIN, further))
}

fn found_of(dir: &Path, pairs: &str, load: &str, further: &[&str]) -> Value {
    let text = format!(
        "name = \"known\"\nphases = {{ warmup = \"1s\", measure = \"3s\" }}\n\
         [[load]]\ndestination = \"queue://known\"\nmessage-size = 100\n{load}\n"
    );
    std::fs::write(dir.join("known.toml"), text).expect("a file");
    let mut args = vec!["ab", "known.toml", "--pairs", pairs, "--json", "--quiet"];
    args.extend(further);
    let found = start(bellows(dir, &args)).end_of_long().printed();
    println!("{further:?}: {}", told(&found));
    found
}

/// The figures and the first functions, for readers of the proof's output.
fn told(found: &Value) -> String {
    let mut text = String::new();
    for figure in found["figures"].as_array().expect("figures") {
        let _ =
            write!(text, "\n  {} {} {} {}", figure["name"], figure["change"], figure["interval"], figure["decision"]);
    }
    for function in functions(found).iter().take(12) {
        let own = &function["own"];
        let _ = write!(text, "\n  {} {} {} {}", function["function"], own["a"], own["b"], own["proven"]);
    }
    text
}

fn functions(found: &Value) -> &[Value] {
    let functions = found["functions"]["functions"].as_array();
    functions.unwrap_or_else(|| panic!("functions: {found:#}"))
}

fn changed(found: &Value, name: &str) -> f64 {
    let figure = figure(found, name);
    assert_eq!(figure["decision"], "changed", "{figure:#}");
    figure["change"].as_f64().expect("a change")
}

/// Changes of the proven functions whose names have this part, in nanoseconds a message, with their callees.
fn proven(found: &Value, part: &str) -> Vec<f64> {
    let of_part = |it: &&Value| it["function"].as_str().is_some_and(|it| it.contains(part));
    let proven = |it: &&Value| it["total"]["proven"] == true;
    let functions = functions(found).iter().filter(of_part).filter(proven);
    let change = |it: &Value| Some(it["total"]["b"].as_f64()? - it["total"]["a"].as_f64()?);
    functions.filter_map(change).collect()
}

/// Definitions with further bindings of the exchange to the queue, which a message follows once.
fn definitions(bindings: u32) -> Value {
    let binding = |number: u32| {
        json!({"source": "known", "vhost": "/", "destination": "known", "destination_type": "queue",
               "routing_key": format!("further-{number}"), "arguments": {}})
    };
    let bindings: Vec<Value> = (0..bindings).map(binding).collect();
    json!({
        "vhosts": [{"name": "/"}],
        "exchanges": [{"name": "known", "vhost": "/", "type": "fanout", "durable": true,
                       "auto_delete": false, "internal": false, "arguments": {}}],
        "queues": [{"name": "known", "vhost": "/", "durable": true, "auto_delete": false,
                    "arguments": {"x-queue-type": "classic"}}],
        "bindings": bindings,
    })
}

#[test]
#[ignore = "make prove: minutes"]
fn a_thousand_further_bindings_are_found_in_the_routing() {
    let dir = &*folder();
    for (name, bindings) in [("few.json", 1), ("many.json", 1_000)] {
        let text = definitions(bindings).to_string();
        std::fs::write(dir.join(name), text).expect("a file");
    }
    let sides = ["--a-set", "broker.definitions=few.json", "--b-set", "broker.definitions=many.json"];
    let found = testkit::or_skip!(found(dir, BEHIND_AN_EXCHANGE, &sides));
    assert!(changed(&found, "received rate") < -0.2);
    assert!(changed(&found, "broker cpu") > 0.2);
    let routing = proven(&found, "rabbit_exchange:route/2");
    let whole = &found["functions"]["broker"];
    let whole = whole["b"].as_f64().expect("b") - whole["a"].as_f64().expect("a");
    assert!(routing.iter().any(|it| *it > whole * 0.5), "{routing:?} of {whole}");
}

#[test]
#[ignore = "make prove: minutes"]
fn flow_control_that_is_off_is_found_in_flow_control() {
    let dir = &*folder();
    let off = r#"broker.advanced="[{rabbit, [{credit_flow_default_credit, {0, 0}}]}].""#;
    let found = testkit::or_skip!(found(dir, UNCONFIRMED, &["--b-set", off, "--set", "phases.drain=1s"]));
    // Nobody holds producers back, so that messages pile up in the mailboxes of channels and of the queue.
    assert!(changed(&found, "broker memory") > 0.5);
    let flow = proven(&found, "credit_flow:");
    assert!(!flow.is_empty() && flow.iter().all(|it| *it < 0.0), "{flow:?}");
}

#[test]
#[ignore = "make prove: minutes"]
fn a_scheduler_fewer_is_found_in_waking_and_waiting() {
    let dir = &*folder();
    let one = ["--a-set", "broker.schedulers=2", "--b-set", "broker.schedulers=1"];
    let found = testkit::or_skip!(found_of_many(dir, &one));
    // Its CPU as a whole spreads by more than that from run to run, where virtual machines share the processor.
    let names = ["sched", "finish_task_switch", "futex", "wake", "steal", "irqentry_exit"];
    let cheaper = names.iter().flat_map(|it| proven(&found, it));
    assert!(cheaper.clone().any(|it| it < 0.0), "{}", told(&found));
}

#[test]
#[ignore = "make prove: minutes"]
fn a_queue_of_one_message_is_found_in_dropping() {
    let dir = &*folder();
    let short =
        ["--a-set", "load.0.arguments={x-max-length=1000000000}", "--b-set", "load.0.arguments={x-max-length=1}"];
    let found = testkit::or_skip!(found(dir, NOT_RECEIVED, &short));
    let dropping = [proven(&found, "drop"), proven(&found, "rabbit_amqqueue_process:maybe_drop_head")].concat();
    assert!(dropping.iter().any(|it| *it > 0.0), "{}", told(&found));
}

#[test]
#[ignore = "make prove: minutes"]
fn a_broker_against_itself_has_not_changed() {
    let dir = &*folder();
    let found = testkit::or_skip!(found_of_many(dir, &["--aa"]));
    for figure in found["figures"].as_array().expect("figures") {
        assert_ne!(figure["decision"], "changed", "{figure:#}");
    }
    let proven = functions(&found).iter().filter(|it| it["own"]["proven"] == true);
    let names: Vec<&Value> = proven.map(|it| &it["function"]).collect();
    assert!(names.len() * 20 <= functions(&found).len(), "{names:?}");
}
