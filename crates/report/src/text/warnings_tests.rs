//! Sentences of warnings.

use archive::{StallWait, Stalled, Stood};

use super::*;

/// Sentence of a finding.
fn note(finding: Finding) -> String {
    warning(&Warning::new(Tier::Note, finding))
}

#[test]
fn what_helps_against_lost_samples_depends_on_the_event() {
    let lost = |event: Option<&str>, each: bool| {
        let lost = Finding::LostSamples { lost: 1_000, samples: 0, each };
        Warning { event: event.map(str::to_owned), ..Warning::new(Tier::Caution, lost) }
    };
    for (event, each, remedy) in [
        (None, false, "lower profile.frequency"),
        (Some("page-faults"), false, "lower profile.frequency"),
        (Some("off-cpu@1"), true, "profile.stacks = \"frame-pointers\""),
        (Some("mmap"), true, "sample a rarer event"),
    ] {
        let text = warning(&lost(event, each));
        assert!(text.contains(remedy), "{text}");
        let is_paced = remedy.contains("frequency");
        assert_eq!(text.contains("profile.frequency"), is_paced, "{text}");
    }
}

#[test]
fn each_names_what_was_seen_which_number_is_off_and_what_to_do() {
    let once = Stood { times: 1, at_s: 4.2, for_s: 0.6, connections: 1, messages_delayed: 1_200, failed: 0 };
    let stalled = |stood, wait, fault: Option<&str>, unit: &str| {
        note(Finding::Stalled {
            who: Stalled::Broker,
            stood,
            wait,
            fault: fault.map(str::to_owned),
            unit: unit.to_owned(),
        })
    };
    assert_eq!(
        stalled(once, StallWait::None, None, "messages"),
        "the broker stopped answering at 4.2 s for 600 ms (1 connection, 1,200 messages delayed): latencies include \
         the whole stall, as users would feel it; look for garbage collection, a full disk or a paused machine at \
         that time"
    );
    let waited = StallWait::ForCores { seconds: 0.9, other_cores: 1.2 };
    let crowded = stalled(once, waited, None, "messages");
    assert!(
        crowded.ends_with(
            "; its threads waited 900 ms in the run queue in these seconds, while other processes took 1.2 cores; stop \
             other programs on this machine, and run again"
        ),
        "{crowded}"
    );
    // The longest is told, and what all of them delayed; what the run itself did needs no search.
    let often = Stood { times: 5, ..once };
    let fault = Some("stop of node 1");
    assert_eq!(
        stalled(often, StallWait::None, fault, "messages"),
        "the broker stopped answering at 4.2 s for 600 ms, the longest of 5 stalls (1 connection, 1,200 messages \
         delayed in all): latencies include the whole stall, as users would feel it; it happened during this run's own \
         fault, stop of node 1"
    );
    let failed = Stood { failed: 3, ..once };
    let text = stalled(failed, StallWait::None, None, "requests");
    assert!(
        text.contains(
            "1,200 requests delayed): 3 of them failed, and latencies include only part of their waits; \
                       look"
        ),
        "{text}"
    );
    for (timed_out, says) in [
        (0, ", and have no latency: users waited longer than the percentiles say; the first:"),
        (20, ", all by time-outs, which count in the latencies with the time waited; the first:"),
        (15, ", 15 by time-outs, which count in the latencies with the time waited; the others have no latency: users"),
    ] {
        let text = note(Finding::CyclesFailed {
            kind: "http://h:1/".to_owned(),
            unit: "requests".to_owned(),
            failed: 20,
            timed_out,
            begun: 60,
            first_failure: String::new(),
        });
        assert!(text.contains(says), "{text}");
    }
    // Neither churn nor a probe has threads.
    let saturated = |unit: &str| note(Finding::GeneratorSaturated { at_work: 0.99, threads: 1, unit: unit.to_owned() });
    let text = saturated("messages");
    assert!(text.ends_with("; use more --threads, and more cores if necessary"));
    for unit in ["cycles", "requests"] {
        let text = saturated(unit);
        assert!(text.ends_with("; run several at once, and use more cores if necessary"), "{text}");
    }
    let lost =
        |sent, lost, corrupt, foreign| note(Finding::MessagesLost { sent, lost, duplicated: 0, corrupt, foreign });
    let text = lost(1_000, 3, 1, 0);
    assert!(text.starts_with("of 1,000 messages, 3 confirmed and never delivered, 1 damaged:"), "{text}");
    let beside_others = lost(1_000, 3, 1, 66_000);
    assert!(
        beside_others.starts_with(
            "of 1,000 messages, 3 confirmed and never delivered, 1 damaged (inconclusive: 66,000 messages of \
             other programs came, and bodies of 12 to 15 bytes have no check, so a few of them look damaged; \
             send 16 bytes or more): "
        ),
        "{beside_others}"
    );
    let few = |latency: &str, samples: u64, percentile: &str| FewSamples {
        latency: latency.to_owned(),
        samples,
        percentile: percentile.to_owned(),
    };
    let mut latencies = vec![few("ack response", 40_000, "p99.99"), few("end-to-end", 40_033, "p99.99")];
    let told = |latencies| note(Finding::TooFewSamples { latencies });
    let both = "p99.99 and above of ack response (40,000) and end-to-end (40,033)";
    assert!(
        told(latencies.clone()).starts_with(&format!("too few samples for {both}: ")),
        "{}",
        told(latencies.clone())
    );
    latencies.push(few("whole cycle", 500, "p99"));
    let more = format!("too few samples for {both}, p99 and above of whole cycle (500): ");
    assert!(told(latencies.clone()).starts_with(&more), "{}", told(latencies));
    let unanswered = |unanswered: u64, unsent: u64, gone: bool| {
        note(Finding::MessagesUnanswered { unanswered, unsent, gone, for_good: false })
    };
    let told = unanswered(3, 0, false);
    assert!(told.starts_with("of the messages, 3 without an answer: "), "{told}");
    assert!(told.contains("; use a longer phases.drain"), "{told}");
    // A longer drain is no remedy: it sends nothing.
    let told = unanswered(0, 4_000, false);
    assert!(told.starts_with("of the messages, 4,000 due and never sent: "), "{told}");
    assert!(
        told.contains("; the verdict says what delayed them; request a lower rate") && !told.contains("drain"),
        "{told}"
    );
    let told = unanswered(3, 4, false);
    assert!(
        told.contains("; the verdict says what delayed them; request a lower rate")
            && told.contains("a longer phases.drain"),
        "{told}"
    );
    let told = unanswered(0, 4_000, true);
    assert!(told.contains("why it went away") && !told.contains("lower rate"));
    // Returned messages were answered: `completed` lacks refused and unconfirmed ones alone.
    let not_accepted = |[nacked, returned, not_confirmed]: [u64; 3]| {
        note(Finding::MessagesNotAccepted { sent: 9, nacked, returned, not_confirmed, fault: None })
    };
    let told = not_accepted([0, 4, 0]);
    assert!(!told.contains("lack") && told.contains("bind a queue"), "{told}");
    for counts in [[2, 4, 0], [0, 4, 3], [2, 0, 3]] {
        let told = not_accepted(counts);
        let refused = told.contains("`completed` and the latencies lack the refused ones");
        assert_eq!((refused, told.contains("lack")), (counts[0] > 0, true), "{told}");
    }
    let told = lost(1, 1, 0, 0);
    assert!(told.starts_with("of 1 message, 1 confirmed"), "{told}");
    let not_received = |missing, sent| {
        let drained_s = 4.0;
        note(Finding::MessagesNotReceived { missing, sent, drained_s })
    };
    let told = not_received(300, Some(500));
    let known = "of 500 deliveries, 300 not received by the end of the drain (4.0 s); without confirms nobody";
    assert!(told.starts_with(known), "{told}");
    let told = not_received(800, None);
    let known = "at least 800 messages not received by the end of the drain (4.0 s): they are in no";
    assert!(told.starts_with(known), "{told}");
    let ended = |load, seconds| note(Finding::LoadEnded { seconds, planned_s: 60.0, load });
    let told = "ended by itself after 20.0 of 60.0 measured seconds: ";
    let all = ended(None, 20.0);
    assert!(all.contains(&format!("the load {told}its figures")), "{all}");
    for (seconds, told) in [(20.0, told), (0.0, "ended by itself in the warm-up: ")] {
        let one = ended(Some(1), seconds);
        let told = format!("the program of load 1 {told}the others went on without it");
        assert!(one.contains(&told), "{one}");
    }
    let interrupted = note(Finding::Interrupted { seconds: 3.0 });
    assert!(interrupted.ends_with("shorter than planned"), "no empty remedy");
}

#[test]
fn what_the_run_itself_took_sends_nobody_into_the_brokers_log() {
    let lost = |fault: Option<&str>| {
        note(Finding::ConnectionsLost { connections: 2, away: None, fault: fault.map(str::to_owned) })
    };
    let told = lost(Some("kill of node 1"));
    assert!(told.contains("lost through the run's own kill of node 1: "), "{told}");
    assert!(!told.contains("log") && lost(None).contains("the broker's log"));
    let blocked = |fault: Option<&str>| {
        note(Finding::ConnectionBlocked {
            times: 1,
            reasons: "low on memory".to_owned(),
            fault: fault.map(str::to_owned),
        })
    };
    let told = blocked(Some("block"));
    assert!(told.contains("(low on memory) through the run's own block: "), "{told}");
    assert!(!told.contains("limit") && blocked(None).contains("raise its memory"), "{told}");
    let not_confirmed = |nacked| {
        note(Finding::MessagesNotAccepted {
            sent: 9,
            nacked,
            returned: 0,
            not_confirmed: 3,
            fault: Some("kill".to_owned()),
        })
    };
    let told = not_confirmed(0);
    assert!(told.contains("were lost through the run's own kill)"), "{told}");
    assert!(!told.contains("log") && not_confirmed(1).contains("the broker's log"));
}

#[test]
fn a_drain_that_was_stopped_was_not_too_short() {
    let cut = |finding| warning(&Warning { drain_cut: true, ..Warning::new(Tier::Caution, finding) });
    let told = cut(Finding::MessagesOutstanding { sent: 10, outstanding: 3 });
    assert!(told.ends_with("; let the drain end by itself"), "{told}");
    let told = cut(Finding::Interrupted { seconds: 3.0 });
    assert!(told.contains("all of its 3.0 measured seconds"), "{told}");
    let whole = note(Finding::MessagesOutstanding { sent: 10, outstanding: 3 });
    assert!(whole.contains("longer phases.drain"), "{whole}");
}

#[test]
fn what_makes_stacks_whole_depends_on_what_executes_the_program() {
    let incomplete = |runtime: &str, copied_share: f64| {
        let gap = ProfileGap::Callers { complete_share: 0.6, copied_share, runtime: runtime.to_owned() };
        warning(&Warning::new(Tier::Caution, Finding::ProfileIncomplete { gap }))
    };
    let native = incomplete("native", 0.0);
    assert!(native.contains("let bellows copy stacks") && native.contains("-fno-omit-frame-pointer"));
    assert!(incomplete("java", 0.0).contains("-XX:+PreserveFramePointer"));
    let erlang = incomplete("erlang", 0.0);
    assert!(erlang.contains("let bellows copy stacks") && erlang.contains("+JPperf true"));
    assert!(incomplete("erlang", 0.9).ends_with("self shares are right"));
}

#[test]
fn without_a_schedule_no_message_is_late() {
    let late = |scheduled: bool, unit: &str| {
        note(Finding::GeneratorLate {
            late_share: 0.5,
            lag_seconds_share: 0.7,
            lag_max_ns: 3_000_000,
            scheduled,
            unit: unit.to_owned(),
        })
    };
    assert!(late(true, "messages").contains("was late by up to 3.00 ms, 50 % of the messages"));
    let said = late(true, "requests");
    assert!(said.contains("of the requests by over 1 ms: their times"), "{said}");
    let unthrottled = late(false, "messages");
    assert!(!unthrottled.contains("late by"), "{unthrottled}");
    assert!(unthrottled.contains("in 70"), "{unthrottled}");
}

#[test]
fn faults_that_did_not_take_place_are_told_with_the_first_reason() {
    let missed = |failed: u64, not_begun: u64, late: u64| {
        let first = if failed > 0 { "kill of node 1: it is gone" } else { "" };
        let faults =
            MissedFaults { planned: 5, failed, first_failure: first.to_owned(), not_begun, late, latest_s: 13.72 };
        note(Finding::FaultsMissed { faults })
    };
    assert!(
        missed(1, 2, 1).starts_with(
            "of 5 faults, 1 failed, 2 had not begun when the run ended (kill of node 1: it is gone); 1 began up to \
             13.7 s late, because the one before took longer: the run differs"
        ),
        "{}",
        missed(1, 2, 1)
    );
    assert!(missed(0, 0, 2).starts_with("of 5 faults, 2 began up to 13.7 s late, "));
    let down = Finding::BrokerGone { connections: 2, away: None, fault: Some("kill of node 1".to_owned()) };
    let told = note(down);
    let begin = "2 connections were down when the run ended, because its own kill of node 1 is permanent: ";
    assert!(told.starts_with(begin), "{told}");
    let gone = |nodes| note(Finding::NodeGone { nodes });
    assert!(gone(vec![1]).starts_with("node 1 of the cluster was gone when"));
    assert!(gone(vec![0, 2]).starts_with("nodes 0, 2 of the cluster were gone"));
}
