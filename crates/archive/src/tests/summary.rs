//! The object for machines: all scenarios have one form.

use measure::{Metric, MetricKind, ScenarioRole};
use serde_json::json;

use crate::{BrokerSummary, Labels, MessageFlow, RequestedSummary, RunEntry, RunRecord, RunSummary, ScenarioSummary};

fn churned() -> ScenarioSummary {
    let completed = Metric::named("completed", MetricKind::Counter).expect("a key");
    ScenarioSummary {
        unit: "cycles".into(),
        rate: 0.1 + 0.2,
        counts: [(completed, 7)].into_iter().collect(),
        ..ScenarioSummary::default()
    }
}

fn names<'a>(all: impl Iterator<Item = (&'a str, &'a ScenarioSummary)>) -> Vec<&'a str> {
    all.map(|(name, _)| name).collect()
}

fn read_again(summary: &RunSummary) -> serde_json::Value {
    let object = serde_json::to_value(summary).expect("an object");
    let read: RunSummary = serde_json::from_str(&object.to_string()).expect("a summary");
    assert_eq!(&read, summary, "{object:#}");
    object
}

#[test]
fn a_run_without_messages_says_nothing_of_them_and_is_read_again() {
    let mut summary = RunSummary::default();
    summary.insert("churn", churned());
    let object = read_again(&summary);
    assert!(object.get("broker").is_none(), "{object:#}");
    let churn = &object["scenarios"]["churn"];
    assert_eq!(churn["completed"], 7, "{object:#}");
    assert!(churn.get("sent").is_none(), "{object:#}");
    summary.broker.pid = Some(4711);
    assert_eq!(read_again(&summary)["broker"], json!({"pid": 4711}));
}

fn listed_rate(summary: &RunSummary) -> Option<(f64, String)> {
    let entry = RunEntry {
        dir: "x".into(),
        id: "x".into(),
        record: Ok(RunRecord { summary: Some(summary.clone()), ..RunRecord::default() }),
        labels: Ok(Labels::default()),
        bytes: 0,
        active: false,
    };
    let (rate, unit) = entry.rate()?;
    Some((rate, unit.unwrap_or("messages").to_owned()))
}

#[test]
fn consumers_that_got_nothing_do_not_stand_for_the_churn_beside_them() {
    let mut summary = RunSummary::default();
    let watched = ScenarioSummary {
        unit: "calls".into(),
        role: ScenarioRole::Watcher,
        rate: 114.0,
        ..ScenarioSummary::default()
    };
    summary.insert("trace", watched);
    assert_eq!(listed_rate(&summary), None, "a watcher is no load");
    *summary.flow_mut() = MessageFlow::default();
    assert_eq!(listed_rate(&summary), Some((0.0, "messages".into())));
    let churn = ScenarioSummary { rate: 50.0, ..churned() };
    summary.insert("churn", churn);
    assert_eq!(listed_rate(&summary), Some((50.0, "cycles".into())));
    assert_eq!(summary.items(), "cycles");
    // Messages that were due and not sent are what the run is about.
    let requested = RequestedSummary { rate: 10.0, ..RequestedSummary::default() };
    summary.messages_mut().requested = Some(requested);
    assert_eq!(listed_rate(&summary), Some((0.0, "messages".into())));
    assert_eq!(summary.items(), "messages");
}

#[test]
fn messages_are_a_scenario_with_throughputs_and_come_first() {
    let mut summary = RunSummary {
        broker: BrokerSummary { kind: "rabbitmq".into(), ..BrokerSummary::default() },
        ..RunSummary::default()
    };
    assert_eq!((summary.items(), summary.loaded()), ("messages", ScenarioRole::Broker));
    let probe = ScenarioSummary { unit: "requests".into(), role: ScenarioRole::Server, ..ScenarioSummary::default() };
    summary.insert("a_probe", probe);
    assert_eq!((summary.items(), summary.loaded()), ("requests", ScenarioRole::Server));
    summary.flow_mut().received.total = 3;
    assert_eq!((summary.items(), summary.loaded()), ("messages", ScenarioRole::Broker));
    let object = read_again(&summary);
    let messages = &object["scenarios"]["messages"];
    assert_eq!(messages["sent"], json!({"total": 0, "rate": 0.0}));
    assert_eq!(messages["received"]["total"], 3);
    assert_eq!(messages["role"], "broker");
    assert_eq!(names(summary.scenarios()), ["messages", "a_probe"]);
    assert_eq!(names(summary.others()), ["a_probe"]);
}
