//! Output for a known interval, to the blank.

use measure::{Counters, Interval, Metric, Nanos, Phase, Time};

use super::*;

const CLIENT: Sides = Sides { producers: true, paced: true, consumers: true };
const CONSUMER: Sides = Sides { producers: false, paced: false, consumers: true };

/// 1.01 s in which every latency was 100.5 us, and one transfer 2 ms.
fn interval(phase: Phase) -> Interval {
    let mut interval = Interval::new();
    interval.reset(Time(5), phase);
    interval.end = interval.start + Nanos::from_millis(1_010);
    interval.counters = Counters { sent: 8_196, completed: 8_195, received: 8_194, blocked: 12, ..Counters::default() };
    for metric in [Metric::SEND_DELAY, Metric::SEND_ACK, Metric::TRANSFER] {
        interval.latencies.record_n(metric, Nanos(100_500), 9);
    }
    let slow = Nanos::from_millis(2);
    interval.latencies.record(Metric::TRANSFER, slow);
    interval
}

const LATENCY: &str = "mean:    100.51 us - 50.00%:    100.54 us - 90.00%:    100.54 us - 99.00%:    \
    100.54 us - 99.90%:    100.54 us - 99.99%:    100.54 us - max:       100.54 us";

#[test]
fn a_block_is_what_artemis_prints() {
    let text = block(CLIENT, &interval(Phase::Warmup), true);
    let lines: Vec<&str> = text.split('\n').collect();
    let expected = [
        "",
        "--- warmup true  ",
        "--- sent:          8114 msg/sec ",
        "--- blocked:         11 msg/sec ",
        "--- completed:     8113 msg/sec ",
        "--- received:      8112 msg/sec ",
    ];
    assert_eq!(lines[..6], expected);
    assert_eq!(lines[6], format!("--- send delay time: {LATENCY} "));
    assert_eq!(lines[7], format!("--- send ack time:   {LATENCY} "));
    assert!(lines[8].ends_with("max:      2000.89 us"), "{}", lines[8]);
    assert_eq!(lines[9..], [""]);
    let text = block(CONSUMER, &interval(Phase::Drain), false);
    assert_eq!(text, "\n--- warmup false \n--- received:      8112 msg/sec\n");
    testkit::assert_has(block(CONSUMER, &Interval::new(), false), ["--- received:         0 msg/sec"]);
}

#[test]
fn the_summary_is_what_artemis_prints() {
    let measured = interval(Phase::Measure);
    let end = |success| End { success, totals: &measured.counters, measured: &measured };
    let text = summary(CLIENT, end(true));
    let expected = format!(
        "\n--- SUMMARY\n--- result:              success\n--- total sent:             8196\n\
         --- total blocked:            12\n--- total completed:        8195\n\
         --- total received:         8194 \n--- aggregated delay send time: {LATENCY} \n\
         --- aggregated send time:       {LATENCY} \n--- aggregated transfer time:   mean: "
    );
    assert!(text.starts_with(&expected), "{text}");
    let text = summary(CONSUMER, end(false));
    assert!(text.starts_with("\n--- SUMMARY\n--- result:                 fail\n--- total received:"));
}

#[test]
fn samples_have_artemis_keys_in_its_order() {
    let measured = interval(Phase::Measure);
    let slow = r#"{"mean":"290.50","50":101,"90":101,"99":2001,"99.9":2001,"99.99":2001,"max":2001,"count":10}"#;
    assert_eq!(
        interval_sample(CONSUMER, &measured, 7),
        format!(r#"{{"sampleType":"interval","warmup":false,"time":7,"received":8112,"transferTime":{slow}}}"#)
    );
    let end = End { success: false, totals: &measured.counters, measured: &measured };
    let text = summary_sample(CLIENT, end, 9);
    let start = r#"{"sampleType":"summary","time":9,"result":"fail","totalSent":8196,"totalBlocked":12,"totalCompleted":8195,"totalReceived":8194,"totalDelaySendTime":{"mean":"100.51","#;
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with(&format!(r#""totalTransferTime":{slow}}}"#)), "{text}");
}

#[test]
fn histogram_lines_are_in_microseconds_and_what_was_due_in_the_warm_up_keeps_its_tag_after_it() {
    let lines = histogram_lines(CLIENT, &interval(Phase::Warmup), 1_795_246_159.068_4).unwrap();
    let heads: Vec<&str> = lines.lines().map(|it| it.split_once(",HISTFAAAA").expect("a histogram").0).collect();
    let head = |name: &str, longest: &str| format!("Tag=warmup {name},1795246159.068,1.010,{longest}");
    assert_eq!(heads, [head("delay send", "0.000"), head("send", "0.000"), head("transfer", "0.002")]);
    let mut interval = interval(Phase::Measure);
    interval.set_due(Time(7), Time(u64::MAX));
    let took = Nanos::from_millis(3);
    interval.due(Time(6)).record(Metric::SEND_ACK, took);
    interval.due(Time(7)).record(Metric::SEND_ACK, took);
    let lines = histogram_lines(CLIENT, &interval, 9.0).unwrap();
    let tags: Vec<_> = lines.lines().filter_map(|it| it.split(',').next()).collect();
    assert_eq!(tags, ["Tag=delay send", "Tag=send", "Tag=transfer", "Tag=warmup send"]);
}
