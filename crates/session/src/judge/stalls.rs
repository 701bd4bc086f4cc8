//! From the silences that event loops note to stalls: who stood still, from when, and for how long.

use archive::{Stall, Stalled};
use load::Silence;
use measure::{Nanos, Time};

use super::thresholds::{MOST_STALLS, STALL_ANSWERS, STALL_NS, STALL_OWN};

/// The stalls of a run, in the order of time. `typical` is the median time until an answer, and `delayed` tells
/// how many messages of so many connections became due in a time.
pub(crate) fn stalls(
    silences: &[Silence],
    origin: Time,
    typical: Nanos,
    delayed: impl Fn(&Silence) -> u64,
) -> Vec<Stall> {
    let own = together(silences.iter().filter(|silence| silence.is_own));
    let heard_nothing = together(silences.iter().filter(|silence| !silence.is_own));
    let least = STALL_NS.max(typical.0.saturating_mul(STALL_ANSWERS));
    let overlap = |a: &Silence, b: &Silence| a.until.min(b.until).since(a.from.max(b.from));
    let is_brokers = |silence: &&Silence| {
        let stopped: u64 = own.iter().map(|own| overlap(own, silence).0).sum();
        let length = silence.until.since(silence.from).0;
        let ran = length.saturating_sub(stopped);
        length >= least && ran >= STALL_NS && ran as f64 >= length as f64 * STALL_OWN
    };
    let brokers: Vec<&Silence> = heard_nothing.iter().filter(is_brokers).collect();
    let stall = |silence: &Silence, who| Stall {
        at_s: silence.from.since(origin).as_secs_f64(),
        for_s: silence.until.since(silence.from).as_secs_f64(),
        who,
        connections: silence.connections,
        messages_delayed: silence.in_flight.max(delayed(silence)),
    };
    // What falls into a longer silence of the broker is a part of that.
    let within = |own: &Silence| {
        brokers
            .iter()
            .any(|it| it.from <= own.from && own.until <= it.until)
    };
    let ours = own.iter().filter(|own| !within(own)).map(|own| {
        // Messages were in flight, and nothing was waiting in the sockets: the broker had not run either.
        let neither = own.in_flight > 0 && !own.was_answered;
        stall(
            own,
            if neither {
                Stalled::Machine
            } else {
                Stalled::Generator
            },
        )
    });
    let theirs = brokers
        .iter()
        .map(|silence| stall(silence, Stalled::Broker));
    let mut all: Vec<Stall> = ours.chain(theirs).collect();
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    all.truncate(MOST_STALLS);
    all
}

/// Silences of several event loops that overlap are one.
fn together<'a>(silences: impl Iterator<Item = &'a Silence>) -> Vec<Silence> {
    let mut sorted: Vec<Silence> = silences.copied().collect();
    sorted.sort_by_key(|silence| silence.from);
    let mut all: Vec<Silence> = Vec::new();
    for next in sorted {
        match all.last_mut().filter(|last| next.from < last.until) {
            Some(last) => {
                last.until = last.until.max(next.until);
                last.connections += next.connections;
                last.in_flight += next.in_flight;
                last.was_answered |= next.was_answered;
            }
            None => all.push(next),
        }
    }
    all
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
            ..Silence::default()
        }
    }

    fn own(from_ms: u64, until_ms: u64, was_answered: bool) -> Silence {
        Silence {
            is_own: true,
            was_answered,
            ..silence(from_ms, until_ms)
        }
    }

    fn found(silences: &[Silence], typical_ms: u64) -> Vec<(Stalled, u64, u64)> {
        let all = stalls(silences, Time(0), Nanos(typical_ms * MS), |_| 0);
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        all.iter()
            .map(|it| (it.who, ms(it.at_s), ms(it.for_s)))
            .collect()
    }

    #[test]
    fn whoever_stood_still_is_named() {
        assert_eq!(found(&[], 1), []);
        assert_eq!(
            found(&[silence(100, 700)], 1),
            [(Stalled::Broker, 100, 600)]
        );
        assert_eq!(
            found(&[silence(100, 700)], 100),
            [],
            "answers take that long here"
        );
        assert_eq!(
            found(&[own(100, 700, true)], 1),
            [(Stalled::Generator, 100, 600)]
        );
        let both = [own(100, 700, false), silence(95, 702)];
        assert_eq!(found(&both, 1), [(Stalled::Machine, 100, 600)]);
        // The broker for longer than the generator.
        let longer = [own(400, 600, false), silence(100, 900)];
        assert_eq!(found(&longer, 1), [(Stalled::Broker, 100, 800)]);
        // What lay unread is no silence of the broker.
        let unread = [own(100, 700, true), silence(95, 701)];
        assert_eq!(found(&unread, 1), [(Stalled::Generator, 100, 600)]);
    }

    #[test]
    fn what_several_loops_note_is_one_stall() {
        let all = [silence(100, 700), silence(110, 710), silence(900, 1_100)];
        let all = stalls(&all, Time(0), Nanos(MS), |_| 7);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].connections, all[0].messages_delayed), (2, 10));
        assert_eq!((all[1].connections, all[1].messages_delayed), (1, 7));
    }
}
