//! Sentences of warnings.

use archive::{StallWait, Stalled, Stood};
use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

use super::*;
use crate::tests::fixtures::{failed_requests, generator_late, stalled};

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
        assert_has(&text, [remedy]);
        assert_eq!(text.contains("profile.frequency"), !each, "{text}");
    }
}

#[test]
fn each_names_what_was_seen_which_number_is_off_and_what_to_do() {
    let once = Stood { times: 1, at_s: 4.2, for_s: 0.6, connections: 1, messages_delayed: 1_200, failed: 0 };
    let stalled = |stood, wait, fault, unit| note(stalled(Stalled::Broker, stood, wait, fault, unit));
    let expected = "the broker stopped answering at 4.2 s for 600 ms (1 connection, 1,200 messages delayed): latencies \
                    include the whole stall, as users would feel it; look for garbage collection, a full disk or a \
                    paused machine at that time";
    assert_eq!(stalled(once, StallWait::None, None, "messages"), expected);
    let waited = StallWait::ForCores { seconds: 0.9, other_cores: 1.2 };
    assert_ends(
        stalled(once, waited, None, "messages"),
        "; its threads waited 900 ms in the run queue in these seconds, while other processes took 1.2 cores; stop \
         other programs on this machine, and run again",
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
    let part = "1,200 requests delayed): 3 of them failed, and latencies include only part of their waits; look";
    assert_has(stalled(failed, StallWait::None, None, "requests"), [part]);
    for (timed_out, says) in [
        (0, " failed (they count in no latency); the first:"),
        (20, " (all by time-outs, which count in the latencies with the time waited); the first:"),
        (15, " (15 by time-outs, which count in the latencies with the time waited; the others have no latency); the"),
    ] {
        assert_has(note(failed_requests(20, timed_out, 60, "")), [says]);
    }
    // Neither churn nor a probe has threads.
    let saturated = |unit: &str| note(Finding::GeneratorSaturated { at_work: 0.99, threads: 1, unit: unit.to_owned() });
    assert_ends(saturated("messages"), "; use more --threads, and more cores if necessary");
    for unit in ["cycles", "requests"] {
        assert_ends(saturated(unit), "; run several at once, and use more cores if necessary");
    }
    let lost =
        |sent, lost, corrupt, foreign| note(Finding::MessagesLost { sent, lost, duplicated: 0, corrupt, foreign });
    assert_begins(lost(1_000, 3, 1, 0), "of 1,000 messages, 3 confirmed and never delivered, 1 damaged:");
    assert_begins(
        lost(1_000, 3, 1, 66_000),
        "of 1,000 messages, 3 confirmed and never delivered, 1 damaged (inconclusive: 66,000 messages of other \
         programs came, and bodies of 12 to 15 bytes have no check, so a few of them look damaged; send 16 bytes or \
         more): ",
    );
    assert_begins(lost(1, 1, 0, 0), "of 1 message, 1 confirmed");
    let few = |(latency, samples, percentile): (&str, u64, &str)| {
        let (latency, percentile) = (latency.to_owned(), percentile.to_owned());
        FewSamples { latency, samples, percentile }
    };
    let all = [("ack response", 40_000, "p99.99"), ("end-to-end", 40_033, "p99.99"), ("whole cycle", 500, "p99")];
    let both = "p99.99 and above of ack response (40,000) and end-to-end (40,033)";
    for (number, told) in [(2, ""), (3, ", p99 and above of whole cycle (500)")] {
        let latencies = all[..number].iter().copied().map(few).collect();
        assert_begins(note(Finding::TooFewSamples { latencies }), format!("too few samples for {both}{told}: "));
    }
    let unanswered = |unanswered: u64, unsent: u64, gone: bool| {
        note(Finding::MessagesUnanswered { unanswered, unsent, gone, for_good: false })
    };
    let told = unanswered(3, 0, false);
    assert_begins(&told, "3 messages had no answer: ");
    assert_has(told, ["; use a longer phases.drain"]);
    // A longer drain is no remedy: it sends nothing.
    let lower = "; the verdict says what delayed them; request a lower rate";
    // `send ack` and `transfer`, which begin when a message is sent, have none of it.
    let told = unanswered(0, 1, false);
    assert_begins(
        told,
        "1 message was due and never sent: each counts in the latencies with its wait from the due time",
    );
    let told = unanswered(0, 4_000, false);
    assert_begins(&told, "4,000 messages were due and never sent: ");
    assert_has(&told, [lower]);
    assert_lacks(told, ["drain"]);
    assert_has(unanswered(3, 4, false), [lower, "a longer phases.drain"]);
    let told = unanswered(0, 4_000, true);
    assert_has(&told, ["why it went away"]);
    assert_lacks(told, ["lower rate"]);
    // Returned messages were answered: `completed` lacks refused and unconfirmed ones alone.
    let not_accepted = |[nacked, returned, not_confirmed]: [u64; 3]| {
        note(Finding::MessagesNotAccepted { sent: 9, nacked, returned, not_confirmed, fault: None })
    };
    let told = not_accepted([0, 4, 0]);
    assert_lacks(&told, ["lack"]);
    assert_has(told, ["bind a queue"]);
    for counts in [[2, 4, 0], [0, 4, 3], [2, 0, 3]] {
        let told = not_accepted(counts);
        let refused = told.contains("`completed` and the latencies lack the refused ones");
        assert_eq!((refused, told.contains("lack")), (counts[0] > 0, true), "{told}");
    }
    let not_received = |missing, sent| note(Finding::MessagesNotReceived { missing, sent, drained_s: 4.0 });
    let known = "of 500 deliveries, 300 not received by the end of the drain (4.0 s); without confirms nobody";
    assert_begins(not_received(300, Some(500)), known);
    let known = "at least 800 messages not received by the end of the drain (4.0 s): they are in no";
    assert_begins(not_received(800, None), known);
    let ended = |load, seconds| note(Finding::LoadEnded { seconds, planned_s: 60.0, load });
    let told = "ended by itself after 20.0 of 60.0 measured seconds: ";
    assert_has(ended(None, 20.0), [&format!("the load {told}its figures")]);
    for (seconds, told) in [(20.0, told), (0.0, "ended by itself in the warm-up: ")] {
        let told = format!("the program of load 1 {told}the others went on without it");
        assert_has(ended(Some(1), seconds), [&told]);
    }
    // No empty remedy.
    assert_ends(note(Finding::Interrupted { seconds: 3.0 }), "shorter than planned");
}

#[test]
fn what_the_run_itself_took_sends_nobody_into_the_brokers_log() {
    let lost = |fault: Option<&str>| {
        note(Finding::ConnectionsLost { connections: 2, away: None, fault: fault.map(str::to_owned) })
    };
    let told = lost(Some("kill of node 1"));
    assert_has(&told, ["lost through the run's own kill of node 1: "]);
    assert_lacks(told, ["log"]);
    assert_has(lost(None), ["the broker's log"]);
    let blocked = |fault: Option<&str>| {
        let reasons = "low on memory".to_owned();
        note(Finding::ConnectionBlocked { times: 1, reasons, fault: fault.map(str::to_owned) })
    };
    let told = blocked(Some("block"));
    assert_has(&told, ["(low on memory) through the run's own block: "]);
    assert_lacks(told, ["limit"]);
    assert_has(blocked(None), ["raise its memory"]);
    let not_confirmed = |nacked| {
        let fault = Some("kill".to_owned());
        note(Finding::MessagesNotAccepted { sent: 9, nacked, returned: 0, not_confirmed: 3, fault })
    };
    let told = not_confirmed(0);
    assert_has(&told, ["were lost through the run's own kill)"]);
    assert_lacks(told, ["log"]);
    assert_has(not_confirmed(1), ["the broker's log"]);
}

#[test]
fn a_drain_that_was_stopped_was_not_too_short() {
    let cut = |finding| warning(&Warning { drain_cut: true, ..Warning::new(Tier::Caution, finding) });
    let outstanding = || Finding::MessagesOutstanding { sent: 10, outstanding: 3 };
    assert_ends(cut(outstanding()), "; let the drain end by itself");
    assert_has(cut(Finding::Interrupted { seconds: 3.0 }), ["all of its 3.0 measured seconds"]);
    assert_has(note(outstanding()), ["longer phases.drain"]);
}

#[test]
fn what_makes_stacks_whole_depends_on_what_executes_the_program() {
    let incomplete = |runtime: &str, copied_share: f64| {
        let gap = ProfileGap::Callers { complete_share: 0.6, copied_share, runtime: runtime.to_owned() };
        warning(&Warning::new(Tier::Caution, Finding::ProfileIncomplete { gap }))
    };
    assert_has(incomplete("native", 0.0), ["let bellows copy stacks", "-fno-omit-frame-pointer"]);
    assert_has(incomplete("java", 0.0), ["-XX:+PreserveFramePointer"]);
    assert_has(incomplete("erlang", 0.0), ["let bellows copy stacks", "+JPperf true"]);
    assert_ends(incomplete("erlang", 0.9), "self shares are right");
}

#[test]
fn without_a_schedule_no_message_is_late() {
    let late = |scheduled, unit| note(generator_late(0.5, 0.7, scheduled, unit));
    assert_has(late(true, "messages"), ["was late by up to 3.00 ms, 50 % of the messages"]);
    assert_has(late(true, "requests"), ["of the requests by over 1 ms: their times"]);
    let unthrottled = late(false, "messages");
    assert_lacks(&unthrottled, ["late by"]);
    assert_has(unthrottled, ["in 70"]);
}

#[test]
fn faults_that_did_not_take_place_are_told_with_the_first_reason() {
    let missed = |failed: u64, not_begun: u64, late: u64| {
        let first = if failed > 0 { "kill of node 1: it is gone" } else { "" };
        let faults =
            MissedFaults { planned: 5, failed, first_failure: first.to_owned(), not_begun, late, latest_s: 13.72 };
        note(Finding::FaultsMissed { faults })
    };
    assert_begins(
        missed(1, 2, 1),
        "of 5 faults, 1 failed, 2 had not begun when the run ended (kill of node 1: it is gone); 1 began up to 13.7 s \
         late, because the one before took longer: the run differs",
    );
    assert_begins(missed(0, 0, 2), "of 5 faults, 2 began up to 13.7 s late, ");
    let down = Finding::BrokerGone { connections: 2, away: None, fault: Some("kill of node 1".to_owned()) };
    let begin = "2 connections were down when the run ended, because its own kill of node 1 is permanent: ";
    assert_begins(note(down), begin);
    let lost = Finding::BrokerGone { connections: 2, away: None, fault: None };
    assert_begins(note(lost), "2 connections were still down when the run ended: rates are too low");
    let gone = |nodes| note(Finding::NodeGone { nodes });
    assert_begins(gone(vec![1]), "node 1 of the cluster was gone when");
    assert_begins(gone(vec![0, 2]), "nodes 0, 2 of the cluster were gone");
    let lost = |producers| Finding::WorkerLost {
        worker: "b".to_owned(),
        at_s: 3.21,
        why: "it was silent for 5 s".to_owned(),
        producers,
        consumers: producers,
    };
    let begin = "worker b was lost, last heard at 3.2 s: it was silent for 5 s; ";
    assert_begins(note(lost(None)), format!("{begin}its part of the load is missing"));
    let without = "from then on 50 % of the producers and 50 % of the consumers are missing";
    assert_begins(note(lost(Some(0.5))), format!("{begin}{without}"));
    assert_ends(note(lost(None)), "see what it printed, and whether its machine still runs");
    let Finding::WorkerLost { worker, at_s, producers, consumers, .. } = lost(None) else { unreachable!() };
    let why = format!("{}, and 5 messages are in no count", archive::WORKER_STOPPED);
    let asked = Finding::WorkerLost { worker, at_s, why, producers, consumers };
    assert_ends(note(asked), "start it again, or run with as many workers as there are");
}

#[test]
fn latencies_between_two_clocks_are_told_with_their_bound() {
    let idle = Finding::WorkersIdle { idle: 1, workers: 3 };
    assert_begins(note(idle), "1 of 3 workers had nothing to do: the load has few parts; give it more destinations");
    let of = |p50_s| note(Finding::ClockBound { latency: "end-to-end".to_owned(), p50_s, bound_s: 80e-6 });
    assert_begins(of(Some(1.24e-3)), "end-to-end p50 1.24 ms ± 80.0 µs: it was taken by the clocks of two machines");
    assert_begins(of(None), "end-to-end was taken by the clocks of two machines, which agree to ± 80.0 µs: its p50 is");
    let broken = Finding::ClockBoundBroken { worker: "b".to_owned(), deliveries: 3, by_s: 2e-3 };
    assert_begins(note(broken), "3 messages came to worker b up to 2.00 ms before they were sent");
}

#[test]
fn a_worker_is_told_with_its_part_and_its_clock() {
    let of = archive::WorkerSummary {
        name: "a".to_owned(),
        labels: [("zone".to_owned(), "b".to_owned())].into(),
        late_s: Some(2e-3),
        clock_bound_s: Some(31e-6),
        sent: 1_500,
        received: 1_500,
        cpu_cores: 0.2,
        at_work: 0.041,
        ..archive::WorkerSummary::default()
    };
    let text = super::super::worker(&of);
    let begin = "a (zone=b): 1,500 sent, 1,500 received, 0.20 cores, busy 4.1 %, started 2.00 ms late, clock ± 31.0 µs";
    assert_eq!(text, begin);
    let unknown = archive::WorkerSummary { at_work: 0.0, late_s: Some(20e-6), clock_bound_s: None, ..of.clone() };
    assert_ends(super::super::worker(&unknown), "1,500 received, 0.20 cores");
    let absence = archive::WorkerAbsence { tolerated: true, ..archive::WorkerAbsence::default() };
    let lost = archive::WorkerSummary { lost_s: Some(3.21), absence, cpu_cores: 0.0, ..of.clone() };
    // It told nothing of its event loops.
    let end = "1,500 received, started 2.00 ms late, clock ± 31.0 µs, lost at 3.2 s, tolerated";
    assert_ends(super::super::worker(&lost), end);
    let full = archive::WorkerSummary { limits: true, clock_offset_s: Some(-1.24e-3), ..of };
    let table = super::super::worker_table(&[full, lost]);
    let column = |head: &str| table.iter().find(|it| it.head == head).map(|it| it.cells.join(" | "));
    for (head, cells) in [
        ("labels", Some("zone=b | zone=b")),
        ("busy", Some("4.1 % | –")),
        ("clock offset", Some("-1.24 ms ± 31.0 µs | –")),
        ("state", Some("ended; limited the run | lost at 3.2 s, tolerated")),
        // Nobody has one.
        ("host", None),
    ] {
        assert_eq!(column(head).as_deref(), cells, "{head}");
    }
}
