//! Conversion of silences that event loops note into stalls: who stood still, from when, and for how long.

use archive::{Stall, Stalled};
use load::Silence;
use measure::{Nanos, Time};

use super::thresholds::{MOST_STALLS, STALL_ANSWERS, STALL_NS, STALL_OWN, UNTIL_LOST};

/// The longest stalls of a run, in the order of time. `typical` is the median answer time, all event loops have so many
/// `connections`, `due` counts what became due between two instants, `answered` tells whether others had answers.
pub(crate) fn stalls(
    silences: &[Silence],
    origin: Time,
    typical: Nanos,
    connections: u64,
    due: impl Fn(Time, Time) -> u64,
    answered: impl Fn(&Silence) -> bool,
) -> Vec<Stall> {
    let own = together(silences.iter().filter(|silence| silence.is_own));
    let away = all_away(silences, connections, due);
    let heard_nothing = together(silences.iter().filter(|it| !it.is_own && !it.is_away).chain(&away));
    let least = STALL_NS.max(typical.0.saturating_mul(STALL_ANSWERS));
    let is_brokers = |silence: &&Silence| {
        let stopped: u64 = own.iter().map(|own| overlap(own, silence).0).sum();
        let length = silence.until.since(silence.from).0;
        let ran = length.saturating_sub(stopped);
        // Being away is no slow answer.
        let long = length >= if silence.is_away { STALL_NS } else { least };
        long && ran >= STALL_NS && ran as f64 >= length as f64 * STALL_OWN
    };
    let brokers: Vec<&Silence> = heard_nothing.iter().filter(is_brokers).collect();
    let stall = |silence: &Silence, who| Stall {
        at_s: silence.from.since(origin).as_secs_f64(),
        for_s: silence.until.since(silence.from).as_secs_f64(),
        who,
        away: silence.is_away,
        connections: silence.connections,
        messages_delayed: silence.in_flight + silence.unsent,
        failed: silence.failed,
    };
    // What falls into a longer silence of the broker is a part of that.
    let within = |own: &Silence| brokers.iter().any(|it| it.from <= own.from && own.until <= it.until);
    let ours = own.iter().filter(|own| !within(own)).map(|own| {
        // Messages were in flight, and nothing was waiting in the sockets: the broker had not run either.
        let neither = own.in_flight > 0 && !own.was_answered;
        stall(own, if neither { Stalled::Machine } else { Stalled::Generator })
    });
    let theirs = brokers.iter().map(|silence| {
        // A broker that answers others is there: it is our reconnect delay that has not passed.
        let is_ours = silence.is_away && answered(silence);
        let who = if is_ours { Stalled::Generator } else { Stalled::Broker };
        stall(silence, who)
    });
    let mut all: Vec<Stall> = ours.chain(theirs).collect();
    all.sort_by(|a, b| b.for_s.total_cmp(&a.for_s));
    all.truncate(MOST_STALLS);
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    all
}

fn overlap(a: &Silence, b: &Silence) -> Nanos {
    a.until.min(b.until).since(a.from.max(b.from))
}

/// Times in which the clients of every event loop were disconnected: all `connections` of them.
fn all_away(silences: &[Silence], connections: u64, due: impl Fn(Time, Time) -> u64) -> Vec<Silence> {
    let of_loops = || silences.iter().filter(|silence| silence.is_away);
    let mut moments: Vec<(Time, bool, u64)> =
        of_loops().flat_map(|it| [(it.from, true, it.connections), (it.until, false, it.connections)]).collect();
    moments.sort_unstable();
    let (mut down, mut from, mut all) = (0, None, Vec::new());
    for (at, is_lost, count) in moments {
        if is_lost {
            down += count;
        } else {
            down -= count;
        }
        if down >= connections {
            from.get_or_insert(at);
        } else if let Some(from) = from.take() {
            let mut away =
                Silence { from, until: at, connections, unsent: due(from, at), is_away: true, ..Silence::default() };
            let then = of_loops().filter(|it| overlap(it, &away) > Nanos::ZERO);
            away.in_flight = then.map(|it| it.in_flight).sum();
            all.push(away);
        }
    }
    all
}

/// Silences of several event loops at the same time are one, and so are one before a connection's loss and its absence.
fn together<'a>(silences: impl Iterator<Item = &'a Silence>) -> Vec<Silence> {
    let mut sorted: Vec<Silence> = silences.copied().collect();
    sorted.sort_by_key(|silence| silence.from);
    // Each with the time that all its parts have in common: a chain of short ones is no long one.
    let mut all: Vec<(Silence, Silence)> = Vec::new();
    for next in sorted {
        let length = |silence: &Silence| silence.until.since(silence.from);
        let is_one = |(last, common): &(Silence, Silence)| {
            let shorter = length(common).min(length(&next));
            let is_away = last.is_away || next.is_away;
            let adjoins = next.from <= last.until + UNTIL_LOST;
            Nanos(overlap(common, &next).0 * 2) > shorter || is_away && adjoins
        };
        match all.last_mut().filter(|last| is_one(last)) {
            Some((last, common)) => {
                common.from = common.from.max(next.from);
                common.until = common.until.min(next.until);
                join(last, &next);
            }
            None => all.push((next, next)),
        }
    }
    all.into_iter().map(|(silence, _)| silence).collect()
}

fn join(silence: &mut Silence, next: &Silence) {
    silence.until = silence.until.max(next.until);
    if silence.is_away || next.is_away {
        // The same connections, first silent and then lost.
        silence.connections = silence.connections.max(next.connections);
        silence.in_flight = silence.in_flight.max(next.in_flight);
    } else {
        silence.connections += next.connections;
        silence.in_flight += next.in_flight;
    }
    silence.unsent += next.unsent;
    silence.failed += next.failed;
    silence.is_away |= next.is_away;
    silence.was_answered |= next.was_answered;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn silence(from_ms: u64, until_ms: u64) -> Silence {
        Silence {
            from: Time(from_ms * MS),
            until: Time(until_ms * MS),
            connections: 1,
            in_flight: 5,
            unsent: 7,
            ..Silence::default()
        }
    }

    fn own(from_ms: u64, until_ms: u64, was_answered: bool) -> Silence {
        Silence { is_own: true, was_answered, ..silence(from_ms, until_ms) }
    }

    fn found(silences: &[Silence], typical_ms: u64) -> Vec<(Stalled, u64, u64)> {
        let all = stalls(silences, Time(0), Nanos(typical_ms * MS), 4, |_, _| 0, |_| false);
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        all.iter().map(|it| (it.who, ms(it.at_s), ms(it.for_s))).collect()
    }

    #[test]
    fn whoever_stood_still_is_named_and_what_several_loops_note_is_one_stall() {
        assert_eq!(found(&[], 1), []);
        assert_eq!(found(&[silence(100, 700)], 1), [(Stalled::Broker, 100, 600)]);
        assert_eq!(found(&[silence(100, 700)], 100), [], "answers take that long here");
        assert_eq!(found(&[own(100, 700, true)], 1), [(Stalled::Generator, 100, 600)]);
        assert_eq!(found(&[own(100, 700, false), silence(95, 702)], 1), [(Stalled::Machine, 100, 600)]);
        // The broker for longer than the generator.
        assert_eq!(found(&[own(400, 600, false), silence(100, 900)], 1), [(Stalled::Broker, 100, 800)]);
        // What lay unread is no silence of the broker.
        assert_eq!(found(&[own(100, 700, true), silence(95, 701)], 1), [(Stalled::Generator, 100, 600)]);
        let short: Vec<Silence> = (0..100).map(|at| silence(at * 60, at * 60 + 150)).collect();
        assert_eq!(found(&short, 40), [], "short ones, one after the other");
        let all = [silence(100, 700), silence(110, 710), silence(900, 1_100)];
        let all = stalls(&all, Time(0), Nanos(MS), 4, |_, _| 900, |_| false);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].connections, all[0].messages_delayed), (2, 24));
        assert_eq!((all[1].connections, all[1].messages_delayed), (1, 12));
    }

    fn away(from_ms: u64, until_ms: u64, connections: u64) -> Silence {
        Silence { is_away: true, connections, unsent: 0, ..silence(from_ms, until_ms) }
    }

    #[test]
    fn a_time_in_which_all_connections_are_down_is_a_stall_unless_the_broker_answers_others() {
        assert_eq!(found(&[away(100, 700, 4)], 1), [(Stalled::Broker, 100, 600)]);
        assert_eq!(found(&[away(100, 700, 4)], 500), [(Stalled::Broker, 100, 600)], "however slow its answers are");
        assert_eq!(found(&[away(100, 700, 3)], 1), [], "one was up");
        // Two event loops: from the last connection's loss to the first one's return.
        let loops = [away(100, 700, 1), away(200, 900, 3)];
        assert_eq!(found(&loops, 1), [(Stalled::Broker, 200, 500)]);
        // What was in flight on them all, and a message each millisecond.
        let due = |from: Time, until: Time| until.since(from).0 / MS;
        let all = stalls(&loops, Time(0), Nanos(MS), 4, due, |_| false);
        assert_eq!((all[0].connections, all[0].messages_delayed), (4, 510));
        let of = |silence: Silence| {
            let all = stalls(&[silence], Time(0), Nanos(MS), 4, |_, _| 0, |_| true);
            all.iter().map(|it| (it.who, it.away)).collect::<Vec<_>>()
        };
        assert_eq!(of(away(100, 5_000, 4)), [(Stalled::Generator, true)]);
        let hangs = (Stalled::Broker, false);
        assert_eq!(of(silence(100, 5_000)), [hangs], "ours had no answer");
    }

    #[test]
    fn the_silence_before_a_connection_is_lost_is_a_part_of_the_same_stall() {
        let all = [silence(100, 2_000), away(2_001, 5_000, 4), silence(6_000, 6_400)];
        let all = stalls(&all, Time(0), Nanos(MS), 4, |_, _| 400, |_| false);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].away && !all[1].away, "{all:?}");
        assert!((all[0].at_s, all[0].for_s) == (0.1, 4.9), "{all:?}");
        // In flight while it was silent, which is cut off then; due meanwhile, and due while it was away.
        assert_eq!((all[0].connections, all[0].messages_delayed), (4, 5 + 7 + 400));
    }

    #[test]
    fn where_there_are_too_many_the_longest_are_kept() {
        let count = MOST_STALLS as u64 + 5;
        let all: Vec<Silence> = (0..count)
            .map(|at| silence(at * 1_000, at * 1_000 + 200))
            .chain([silence(count * 1_000, count * 1_000 + 900)])
            .collect();
        let found = found(&all, 1);
        assert_eq!(found.len(), MOST_STALLS);
        assert_eq!(found.last(), Some(&(Stalled::Broker, count * 1_000, 900)));
    }
}
