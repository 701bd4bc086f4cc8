//! What warnings say.

use super::*;

#[test]
fn what_helps_against_lost_samples_depends_on_the_event() {
    let lost = || Warning::new(WarningCode::LostSamples, Tier::Caution).with("lost", 1_000);
    let paced = lost().with("event", "page-faults");
    let each = |event: &str| lost().with("event", event).with("each", true);
    for (lost, remedy) in [
        (lost(), "lower profile.frequency"),
        (paced, "lower profile.frequency"),
        (each("off-cpu@1"), "profile.stacks = \"frame-pointers\""),
        (each("mmap"), "sample fewer of the events"),
    ] {
        let text = warning(&lost);
        assert!(text.contains(remedy), "{text}");
        let is_paced = remedy.contains("frequency");
        assert_eq!(text.contains("profile.frequency"), is_paced, "{text}");
    }
}

#[test]
fn each_names_what_was_seen_which_number_is_off_and_what_to_do() {
    let w = Warning::new(WarningCode::Stalled, Tier::Note)
        .with("who", "broker")
        .with("times", 1)
        .with("at_s", 4.2)
        .with("for_s", 0.6)
        .with("connections", 1)
        .with("messages_delayed", 1_200);
    assert_eq!(
        warning(&w),
        "the broker stopped answering at 4.2 s for 600 ms (1 connection, 1,200 messages delayed): the latencies hold \
         all of it, as users would feel it; look for garbage collection, a full disk or a paused machine at that time"
    );
    let full = w.clone().with("other_cores", 1.2);
    assert_eq!(warning(&full), warning(&w), "it did not wait for a core");
    let crowded = warning(&full.with("waited_s", 0.9));
    assert!(
        crowded.ends_with(
            "; its threads waited 900 ms in the run queue in these seconds, while other processes took 1.2 cores; end \
             what else runs on this machine, and run again"
        ),
        "{crowded}"
    );
    // The longest is told, and what all of them delayed; what the run itself did needs no search.
    let of_fault = w.clone().with("times", 5).with("fault", "stop of node 1");
    assert_eq!(
        warning(&of_fault),
        "the broker stopped answering at 4.2 s for 600 ms, the longest of 5 times (1 connection, 1,200 messages delayed in \
         all): the latencies hold all of it, as users would feel it; this run's own fault, stop of node 1, was on at that \
         time"
    );
    let of_failed = w.with("failed", 3).with("unit", "requests");
    let text = warning(&of_failed);
    assert!(
        text.contains("1,200 requests delayed): 3 of them failed, and the latencies do not hold all of their waits; look"),
        "{text}"
    );
    let w = Warning::new(WarningCode::CyclesFailed, Tier::Caution)
        .with("kind", "http://h:1/")
        .with("unit", "requests")
        .with("failed", 20)
        .with("begun", 60);
    for (timed_out, says) in [
        (
            0,
            ", and have no latency: what users felt is worse than the percentiles say;",
        ),
        (
            20,
            ", all by time-outs, which latencies hold with the time they waited; the first:",
        ),
        (
            15,
            ", 15 by time-outs, which latencies hold with the time they waited; the others have no latency: what",
        ),
    ] {
        let text = warning(&w.clone().with("timed_out", timed_out));
        assert!(text.contains(says), "{text}");
    }
    // Neither churn nor a probe has threads.
    let w = Warning::new(WarningCode::GeneratorSaturated, Tier::Invalid).with("at_work", 0.99);
    assert!(warning(&w).ends_with("; use more --threads, and more cores if need be"));
    for unit in ["cycles", "requests"] {
        let text = warning(&w.clone().with("unit", unit));
        assert!(
            text.ends_with("; run several at once, and use more cores if need be"),
            "{text}"
        );
    }
    let w = Warning::new(WarningCode::MessagesLost, Tier::Invalid)
        .with("sent", 1_000)
        .with("lost", 3)
        .with("corrupt", 1);
    assert!(
        warning(&w).starts_with("of 1,000 messages, 3 confirmed and never delivered, 1 damaged:"),
        "{}",
        warning(&w)
    );
    let beside_others = w.with("foreign", 66_000);
    assert!(
        warning(&beside_others).starts_with(
            "of 1,000 messages, 3 confirmed and never delivered, 1 damaged (cannot tell at 12 to 15 bytes, where bodies have no check and \
             some of the 66,000 messages of other programs that came look damaged by chance: send 16 bytes or more): "
        ),
        "{}",
        warning(&beside_others)
    );
    let few = |latency: &str, samples: u64, percentile: &str| serde_json::json!({ "latency": latency, "samples": samples, "percentile": percentile });
    let mut latencies = vec![
        few("ack response", 40_000, "p99.99"),
        few("end-to-end", 40_033, "p99.99"),
    ];
    let told = |latencies| {
        let w = Warning::new(WarningCode::TooFewSamples, Tier::Note);
        warning(&w.with("latencies", latencies))
    };
    let both = "p99.99 and above of ack response (40,000) and end-to-end (40,033)";
    assert!(
        told(latencies.clone()).starts_with(&format!("too few samples for {both}: ")),
        "{}",
        told(latencies.clone())
    );
    latencies.push(few("whole cycle", 500, "p99"));
    let more = format!("too few samples for {both}, p99 and above of whole cycle (500): ");
    assert!(
        told(latencies.clone()).starts_with(&more),
        "{}",
        told(latencies)
    );
    let unanswered = |unanswered: u64, unsent: u64| {
        let w = Warning::new(WarningCode::MessagesUnanswered, Tier::Caution);
        warning(&w.with("unanswered", unanswered).with("unsent", unsent))
    };
    let told = unanswered(3, 0);
    assert!(
        told.starts_with("of the messages, 3 without an answer: "),
        "{told}"
    );
    assert!(
        told.contains("; the broker had not answered when the drain ended: "),
        "{told}"
    );
    // A longer drain is no remedy: it sends nothing.
    let told = unanswered(0, 4_000);
    assert!(
        told.starts_with("of the messages, 4,000 due and never sent: "),
        "{told}"
    );
    assert!(
        told.contains(
            "; more messages were due than could be sent by the end of the measured phase: "
        ) && told.contains("request a lower rate")
            && !told.contains("drain"),
        "{told}"
    );
    let told = unanswered(3, 4);
    assert!(
        told.contains("; more messages were due than could be sent and answered: ")
            && told.contains("a lower rate"),
        "{told}"
    );
    let gone = Warning::new(WarningCode::MessagesUnanswered, Tier::Caution);
    let told = warning(&gone.with("unsent", 4_000).with("gone", true));
    assert!(told.contains("why the broker went away") && !told.contains("lower rate"));
    // What was returned was answered: only what was refused or not confirmed is not in `completed`.
    let not_accepted = |counts: [u64; 3]| {
        let w = Warning::new(WarningCode::MessagesNotAccepted, Tier::Caution).with("sent", 9);
        let names = ["nacked", "returned", "not_confirmed"]
            .into_iter()
            .zip(counts);
        warning(&names.fold(w, |w, (name, count)| w.with(name, count)))
    };
    let told = not_accepted([0, 4, 0]);
    assert!(
        !told.contains("missing") && told.contains("bind a queue"),
        "{told}"
    );
    for counts in [[2, 4, 0], [0, 4, 3], [2, 0, 3]] {
        let told = not_accepted(counts);
        let refused = told.contains("those refused are missing from `completed`");
        assert_eq!(
            (refused, told.contains("missing")),
            (counts[0] > 0, true),
            "{told}"
        );
    }
    let one = Warning::new(WarningCode::MessagesLost, Tier::Invalid);
    let told = warning(&one.with("sent", 1).with("lost", 1));
    assert!(told.starts_with("of 1 message, 1 confirmed"), "{told}");
    let w = Warning::new(WarningCode::Interrupted, Tier::Note).with("seconds", 3.0);
    assert!(
        warning(&w).ends_with("shorter than planned"),
        "no empty remedy"
    );
}

#[test]
fn what_makes_stacks_whole_depends_on_what_executes_the_program() {
    let incomplete = |runtime: &str, copied_share: f64| {
        let w = Warning::new(WarningCode::ProfileIncomplete, Tier::Caution)
            .with("complete_share", 0.6)
            .with("copied_share", copied_share)
            .with("runtime", runtime);
        warning(&w)
    };
    let native = incomplete("native", 0.0);
    assert!(native.contains("let stacks be copied") && native.contains("-fno-omit-frame-pointer"));
    assert!(incomplete("java", 0.0).contains("-XX:+PreserveFramePointer"));
    let erlang = incomplete("erlang", 0.0);
    assert!(erlang.contains("let stacks be copied") && erlang.contains("+JPperf true"));
    assert!(incomplete("erlang", 0.9).ends_with("(self) hold"));
}

#[test]
fn without_a_schedule_no_message_is_late() {
    let late = |scheduled: bool| {
        let warning = Warning::new(WarningCode::GeneratorLate, Tier::Caution)
            .with("late_share", 0.5)
            .with("lag_seconds_share", 0.7)
            .with("lag_max_ns", 3_000_000)
            .with("scheduled", scheduled);
        super::warning(&warning)
    };
    assert!(late(true).contains("was late by up to 3.00 ms, 50 % of the messages"));
    let of_requests =
        Warning::new(WarningCode::GeneratorLate, Tier::Caution).with("unit", "requests");
    let said = warning(&of_requests);
    assert!(
        said.contains("of the requests by over 1 ms: their times"),
        "{said}"
    );
    let unthrottled = late(false);
    assert!(!unthrottled.contains("late by"), "{unthrottled}");
    assert!(unthrottled.contains("in 70"), "{unthrottled}");
}

#[test]
fn faults_that_did_not_take_place_are_told_with_the_first_reason() {
    let missed = |failed: u64, not_begun: u64, late: u64| {
        let w = Warning::new(WarningCode::FaultsMissed, Tier::Invalid)
            .with("planned", 5)
            .with("failed", failed)
            .with("not_begun", not_begun)
            .with("late", late)
            .with("latest_s", 13.72);
        let first = if failed > 0 {
            "kill of node 1: it is gone"
        } else {
            ""
        };
        warning(&w.with("first_failure", first))
    };
    assert!(
        missed(1, 2, 1).starts_with(
            "of 5 faults, 1 could not be done, 2 had not begun when the run ended (kill of node 1: it is gone); 1 began up \
             to 13.7 s after the time in the experiment, because the one before took longer: the run does not show"
        ),
        "{}",
        missed(1, 2, 1)
    );
    assert!(missed(0, 0, 2).starts_with("of 5 faults, 2 began up to 13.7 s after the time"));
    let down = Warning::new(WarningCode::BrokerGone, Tier::Caution).with("connections", 2_u64);
    let told = warning(&down.with("fault", "kill of node 1"));
    let begin =
        "2 connections were down when the run ended, for its own kill of node 1 was for good: ";
    assert!(told.starts_with(begin), "{told}");
    let gone = |nodes: &str, count: u64| {
        let w = Warning::new(WarningCode::NodeGone, Tier::Invalid);
        warning(&w.with("nodes", nodes).with("count", count))
    };
    assert!(gone("1", 1).starts_with("node 1 of the cluster was not there any more"));
    assert!(gone("0, 2", 2).starts_with("nodes 0, 2 of the cluster were not"));
}
