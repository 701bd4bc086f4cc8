//! Stalls, and times without a connection.

use archive::{Stall, StallWait, Stalled, Stood};
use measure::ScenarioRole;

use crate::numbers::{count, counted, seconds};

/// One stall: `the broker stopped answering at 4.2 s for 600 ms (1 connection, 1,200 messages delayed)`.
pub fn stall(stall: &Stall, items: &str, role: ScenarioRole) -> String {
    let target = role.target();
    format!(
        "{} at {:.1} s for {} ({}, {} delayed)",
        if stall.away && stall.who == Stalled::Broker {
            format!("the {target} was away")
        } else if stall.away {
            format!("bellows had no connection while the {target} answered others")
        } else {
            stopped(stall.who, target)
        },
        stall.at_s,
        seconds(stall.for_s),
        counted(stall.connections, "connection"),
        counted(stall.messages_delayed, one(items))
    )
}

/// The longest stall, and the number of shorter ones of each: `…; 4 shorter stalls: 2 of the broker, 2 of bellows`.
pub(super) fn longest_stall(stalls: &[&Stall], items: &str, role: ScenarioRole) -> String {
    let longest = stalls.iter().max_by(|a, b| a.for_s.total_cmp(&b.for_s));
    let Some(longest) = longest else { return String::new() };
    let own = |who: Stalled| {
        let all = stalls.iter().filter(|it| it.who == who).count();
        (who, all - usize::from(who == longest.who))
    };
    let shorter = [Stalled::Broker, Stalled::Generator, Stalled::Machine].map(own);
    let of_all = shorter.iter().map(|it| it.1).sum::<usize>();
    let text = stall(longest, items, role);
    if of_all == 0 {
        return text;
    }
    let of_each = shorter.iter().filter(|it| it.1 > 0);
    let of_each: Vec<String> = of_each
        .map(|(who, times)| match who {
            Stalled::Broker => format!("{times} of the {}", role.target()),
            Stalled::Generator => format!("{times} of bellows"),
            Stalled::Machine => format!("{times} of the machine"),
        })
        .collect();
    format!("{text}; {}: {}", counted(of_all as u64, "shorter stall"), of_each.join(", "))
}

fn stopped(who: Stalled, target: &str) -> String {
    match who {
        Stalled::Broker => format!("the {target} stopped answering"),
        Stalled::Generator => "bellows itself stood still".to_owned(),
        Stalled::Machine => "the whole machine stood still".to_owned(),
    }
}

/// Who stood still.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoodStill<'a> {
    pub(super) who: Stalled,
    /// The worker of a fleet that it was, where it was one.
    pub(super) worker: Option<&'a str>,
}

/// Text and remedy of a stall, with its known cause.
pub(super) fn stalled(
    StoodStill { who, worker }: StoodStill<'_>,
    stood: &Stood,
    wait: StallWait,
    fault: Option<&str>,
    unit: &str,
    role: ScenarioRole,
) -> (String, &'static str) {
    let target = role.target();
    let times = match stood.times {
        0 | 1 => String::new(),
        times => format!(", the longest of {} stalls", count(times)),
    };
    let is_broker = who == Stalled::Broker;
    let text = format!(
        "{} at {:.1} s for {}{times} ({}, {} delayed{}): {}",
        worker.map_or_else(|| stopped(who, target), |name| format!("worker {name} stood still")),
        stood.at_s,
        seconds(stood.for_s),
        counted(stood.connections, "connection"),
        counted(stood.messages_delayed, one(unit)),
        in_all(stood),
        match (is_broker, stood.failed) {
            (true, 0) => "latencies include the whole stall, as users would feel it".to_owned(),
            (true, failed) =>
                format!("{} of them failed, and latencies include only part of their waits", count(failed)),
            _ => format!("latencies include it, and are too high for the {target}"),
        }
    );
    if let Some(fault) = fault {
        let text = format!("{text}; it happened during this run's own fault, {fault}");
        return (text, "");
    }
    let threads = if who == Stalled::Machine { format!("{target} and bellows") } else { "its threads".to_owned() };
    match wait {
        StallWait::ForCores { seconds: waited, other_cores } => (
            format!(
                "{text}; {threads} waited {} in the run queue in these seconds, while other processes took \
                 {other_cores:.1} cores",
                seconds(waited)
            ),
            "stop other programs on this machine, and run again",
        ),
        StallWait::Unknown => (
            format!(
                "{text}; the machine was full in these seconds, and it is not known whether {threads} waited for a \
                 core"
            ),
            "run again with free cores; if it stalls again, look for garbage collection, a full disk or a paused \
             machine at that time",
        ),
        StallWait::None if is_broker => {
            (text, "look for garbage collection, a full disk or a paused machine at that time")
        }
        StallWait::None if worker.is_some() => (text, "see what held up that worker's machine, and run again"),
        StallWait::None => (text, "give bellows free cores, and run again"),
    }
}

/// When all connections were down, and for how long.
pub(super) fn gone_away(stood: &Stood) -> String {
    let times = if stood.times == 1 { "" } else { ", the longest time" };
    format!(
        "; none was left at {:.1} s for {}{times} ({} delayed{})",
        stood.at_s,
        seconds(stood.for_s),
        counted(stood.messages_delayed, "message"),
        in_all(stood),
    )
}

/// Words behind a sum over several times, of which the longest is given.
const fn in_all(stood: &Stood) -> &'static str {
    if stood.times < 2 { "" } else { " in all" }
}

/// One of them.
pub(super) fn one(items: &str) -> &str {
    items.strip_suffix('s').unwrap_or(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_not_known_is_no_wait_of_nothing() {
        let role = ScenarioRole::Broker;
        let stall = |wait| {
            stalled(StoodStill { who: Stalled::Broker, worker: None }, &Stood::default(), wait, None, "messages", role)
        };
        assert!(!stall(StallWait::None).0.contains("not known"));
        let of_fleet = stalled(
            StoodStill { who: Stalled::Generator, worker: Some("m3") },
            &Stood::default(),
            StallWait::None,
            None,
            "messages",
            role,
        );
        testkit::assert_begins(of_fleet.0, "worker m3 stood still at 0.0 s for ");
        let (text, advice) = stall(StallWait::Unknown);
        assert!(text.ends_with("it is not known whether its threads waited for a core"), "{text}");
        assert!(advice.starts_with("run again with free cores"), "{advice}");
    }

    /// The verdict counts the broker's own stalls, and so do its reasons.
    #[test]
    fn shorter_stalls_are_counted_by_who_stood_still() {
        let stall = |who, for_s| Stall { who, for_s, ..Stall::default() };
        use Stalled::{Broker, Generator, Machine};
        let all = [
            stall(Broker, 0.2),
            stall(Broker, 0.789),
            stall(Generator, 0.15),
            stall(Machine, 0.12),
            stall(Broker, 0.3),
        ];
        let told = |all: &[Stall], role| longest_stall(&all.iter().collect::<Vec<_>>(), "messages", role);
        let of_all = told(&all, ScenarioRole::Broker);
        assert!(of_all.starts_with("the broker stopped answering at 0.0 s for 789 ms"), "{of_all}");
        assert!(of_all.ends_with("; 4 shorter stalls: 2 of the broker, 1 of bellows, 1 of the machine"), "{of_all}");
        testkit::assert_ends(told(&all[..2], ScenarioRole::Server), "; 1 shorter stall: 1 of the server");
        assert!(!told(&all[..1], ScenarioRole::Broker).contains("shorter"));
        assert_eq!(told(&[], ScenarioRole::Broker), "");
    }
}
