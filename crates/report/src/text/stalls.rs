//! Times in which somebody stood still, and those without a connection.

use archive::{Stall, Stalled, Warning};

use super::loaded;
use crate::numbers::{counted, seconds};

/// One stall: `the broker stopped answering at 4.2 s for 600 ms (1 connection, 1,200 messages delayed)`; in a run
/// of churn it delays cycles, as `items` says.
#[must_use]
pub fn stall(stall: &Stall, items: &str) -> String {
    let sentence = format!(
        "{} at {:.1} s for {} ({}, {} delayed)",
        if stall.away && stall.who == Stalled::Broker {
            "the broker was away"
        } else if stall.away {
            "bellows had no connection while the broker answered others"
        } else {
            stopped(stall.who.name())
        },
        stall.at_s,
        seconds(stall.for_s),
        counted(stall.connections, "connection"),
        counted(stall.messages_delayed, one(items))
    );
    loaded::for_items(sentence, items)
}

fn stopped(who: &str) -> &'static str {
    if who == Stalled::Broker.name() {
        "the broker stopped answering"
    } else if who == Stalled::Generator.name() {
        "bellows itself stood still"
    } else {
        "the whole machine stood still"
    }
}

pub(super) fn stalled(w: &Warning) -> (String, &'static str) {
    let times = match w.count("times") {
        0 | 1 => String::new(),
        times => format!(", the longest of {times} times"),
    };
    let whose = w.word("who") == Stalled::Broker.name();
    let text = format!(
        "{} at {:.1} s for {}{times} ({}, {} delayed{}): {}",
        stopped(w.word("who")),
        w.number("at_s"),
        seconds(w.number("for_s")),
        counted(w.count("connections"), "connection"),
        counted(w.count("messages_delayed"), one(items(w))),
        in_all(w),
        if whose {
            "the latencies hold all of it, as users would feel it"
        } else {
            "the latencies hold it, and are too high for the broker"
        }
    );
    let fault = w.word("fault");
    if whose && !fault.is_empty() {
        let text = format!("{text}; this run's own fault, {fault}, was on at that time");
        return (text, "");
    }
    let remedy = if whose {
        "look for garbage collection, a full disk or a paused machine at that time"
    } else {
        "leave bellows free cores, and run again"
    };
    (text, remedy)
}

/// When all connections were down, and for how long.
pub(super) fn away(w: &Warning) -> String {
    let times = match w.count("times") {
        0 => return String::new(),
        1 => "",
        _ => ", the longest time",
    };
    format!(
        ", and none was left at {:.1} s for {}{times} ({} delayed{})",
        w.number("at_s"),
        seconds(w.number("for_s")),
        counted(w.count("messages_delayed"), "message"),
        in_all(w),
    )
}

/// What stands behind a sum over several times, of which the longest is told.
fn in_all(w: &Warning) -> &'static str {
    match w.count("times") {
        0 | 1 => "",
        _ => " in all",
    }
}

/// What a warning counts: `messages`, `cycles`, `requests`.
pub(super) fn items(w: &Warning) -> &str {
    match w.word("unit") {
        // Earlier archives say no more.
        "" if w.values.contains_key("beside")
            || w.values.get("cycles").is_some_and(|it| it == true) =>
        {
            "cycles"
        }
        "" => "messages",
        unit => unit,
    }
}

/// One of them.
pub(super) fn one(items: &str) -> &str {
    items.strip_suffix('s').unwrap_or(items)
}
