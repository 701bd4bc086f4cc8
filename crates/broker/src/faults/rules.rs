//! The script while it is played.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use measure::{Nanos, SCATTER_STEP, Time, scatter};
use rustix::time::{ClockId, clock_gettime};

use super::script::{Amount, Fault, FaultKind, Origin, Who};
use super::{FaultLog, Injected, Injections, Span};
use crate::slots::Key;

/// How long a delivery is held back at most.
pub(crate) const HOLD_MOST: Nanos = Nanos::from_millis(20);
/// How far into what follows a cut falls, where the script does not say.
const CUT_WITHIN: u64 = 64;

/// Fault of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryFault {
    /// It is delivered.
    Pass,
    /// It is forgotten.
    Lose,
    /// It is delivered twice.
    Duplicate { redelivered: bool },
    /// It waits for this many others, on account of this rule.
    Hold { by: u32, rule: usize },
    /// It is delivered with this byte changed.
    Corrupt { byte: usize, mask: u8 },
}

/// Fault of connections that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionFault {
    /// On account of this rule.
    pub(crate) rule: usize,
    pub(crate) kind: FaultKind,
    pub(crate) who: Who,
    pub(crate) most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    On,
    Over,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    stage: Stage,
    /// Candidates so far.
    seen: u64,
    left: u64,
    random: u64,
}

impl Rule {
    fn new(fault: Fault) -> Self {
        let seed = match fault.amount {
            Amount::Chance { seed, .. } => seed,
            Amount::All | Amount::Every(_) => 0,
        };
        Self { stage: Stage::Waiting, seen: 0, left: fault.count.unwrap_or(u64::MAX), random: seed, fault }
    }

    /// Whether it hits this one.
    fn hits(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.seen += 1;
        let hit = match self.fault.amount {
            Amount::All => true,
            Amount::Every(n) => self.seen.is_multiple_of(n.max(1)),
            Amount::Chance { probability, .. } => {
                // 53 bits: every number that a float between 0 and 1 can tell apart.
                let chance = (next(&mut self.random) >> 11) as f64 / (1u64 << 53) as f64;
                chance < probability
            }
        };
        self.left -= u64::from(hit);
        hit
    }

    fn begins(&self, origin: Option<Time>) -> Option<Time> {
        match self.fault.at {
            None => Some(Time(0)),
            Some(after) => origin.map(|origin| origin + after),
        }
    }

    fn ends(&self, origin: Option<Time>) -> Option<Time> {
        let length = self.fault.length?;
        // Without a beginning it lasts for this long after the origin.
        match self.fault.at {
            None => origin.map(|origin| origin + length),
            Some(_) => self.begins(origin).map(|begin| begin + length),
        }
    }
}

/// Rules that are on, by what they harm.
#[derive(Debug, Default)]
struct ActiveRules {
    deliveries: Vec<usize>,
    publishes: Vec<usize>,
    confirms: Vec<usize>,
    logins: Vec<usize>,
    routes: Vec<usize>,
    blocks: Vec<usize>,
}

/// A script that is played.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Rule>,
    origin: Option<Time>,
    begins_on_demand: bool,
    now: Time,
    /// The next beginning or end.
    next_edge: Option<Time>,
    active: ActiveRules,
    /// Slows routing from the first slowdown on.
    slowdown: Option<Slowdown>,
    stall: Option<(usize, Time)>,
    connection_faults: Vec<ConnectionFault>,
    /// Confirms that leave later: when, of which connection and channel.
    late: BinaryHeap<Reverse<(Time, Key, u16)>>,
    /// Consumers with a delivery held back, by when it goes at the latest.
    holding: BinaryHeap<Reverse<(Time, Key)>>,
    /// A body with a changed byte, kept to reuse its memory.
    pub(crate) body: Vec<u8>,
    random: u64,
    /// Deliveries with the redelivered flag, and those of them that were the message's first.
    flagged: u64,
    held_back: u64,
    done: Injections,
    changed: bool,
    log: FaultLog,
}

impl Faults {
    /// Plays a script; `None` where there is nothing to play.
    pub(crate) fn new(script: &[Fault], origin: Origin, log: FaultLog) -> Option<Box<Self>> {
        if script.is_empty() {
            return None;
        }
        let injected = |fault: &Fault| Injected { kind: fault.kind.name(), ..Injected::default() };
        let mut faults = Self {
            rules: script.iter().cloned().map(Rule::new).collect(),
            begins_on_demand: origin == Origin::Declared,
            next_edge: Some(Time(0)),
            random: script.len() as u64,
            done: Injections { faults: script.iter().map(injected).collect(), ..Injections::default() },
            changed: true,
            log,
            ..Self::default()
        };
        faults.tell();
        Some(Box::new(faults))
    }

    /// Somebody has connected.
    pub(crate) fn note_connection(&mut self, now: Time) {
        if self.origin.is_none() && !self.begins_on_demand {
            self.set_origin(now);
        }
    }

    fn set_origin(&mut self, origin: Time) {
        self.origin = Some(origin);
        self.done.origin = Some(origin);
        self.changed = true;
        self.next_edge = Some(Time(0));
    }

    /// Lets the time go on: faults begin and end.
    pub(crate) fn advance(&mut self, now: Time) {
        self.now = now;
        if self.origin.is_none()
            && self.begins_on_demand
            && let Some(origin) = self.log.told()
        {
            self.set_origin(origin);
        }
        if self.next_edge.is_none_or(|edge| edge > now) {
            return;
        }
        for at in 0..self.rules.len() {
            self.turn_rule(at, now);
        }
        let edges = self.rules.iter().filter_map(|rule| match rule.stage {
            Stage::Waiting => rule.begins(self.origin),
            Stage::On => rule.ends(self.origin),
            Stage::Over => None,
        });
        self.next_edge = edges.min();
    }

    fn turn_rule(&mut self, at: usize, now: Time) {
        let origin = self.origin;
        let Some(rule) = self.rules.get_mut(at) else { return };
        let (begins, ends) = (rule.begins(origin), rule.ends(origin));
        if rule.stage == Stage::Waiting && begins.is_some_and(|begin| begin <= now) {
            rule.stage = Stage::On;
            self.begin(at, now, ends);
        }
        let Some(rule) = self.rules.get_mut(at) else { return };
        if rule.stage == Stage::On && ends.is_some_and(|end| end <= now) {
            rule.stage = Stage::Over;
            self.end(at, now);
        }
    }

    fn begin(&mut self, at: usize, now: Time, ends: Option<Time>) {
        let Some(rule) = self.rules.get_mut(at) else { return };
        let connection_fault =
            ConnectionFault { rule: at, kind: rule.fault.kind, who: rule.fault.who, most: rule.left };
        let mut end = None;
        match rule.fault.kind {
            FaultKind::Stall => {
                // The event loop stands still, and says when it did.
                rule.stage = Stage::Over;
                self.stall = ends.map(|end| (at, end));
                return;
            }
            FaultKind::Drop { .. } | FaultKind::Reset | FaultKind::CloseChannel | FaultKind::Cut { .. } => {
                rule.stage = Stage::Over;
                end = Some(now);
                self.connection_faults.push(connection_fault);
            }
            FaultKind::SlowAck(_) => self.active.confirms.push(at),
            FaultKind::Nack => self.active.publishes.push(at),
            FaultKind::RefuseLogin => self.active.logins.push(at),
            FaultKind::SlowRoute { .. } => self.active.routes.push(at),
            FaultKind::Block => self.active.blocks.push(at),
            FaultKind::Lose | FaultKind::Duplicate { .. } | FaultKind::Reorder { .. } | FaultKind::Corrupt { .. } => {
                self.active.deliveries.push(at);
            }
        }
        self.note_span(at, Span { start: now, end });
    }

    fn end(&mut self, at: usize, now: Time) {
        let ActiveRules { deliveries, publishes, confirms, logins, routes, blocks } = &mut self.active;
        for list in [deliveries, publishes, confirms, logins, routes, blocks] {
            list.retain(|rule| *rule != at);
        }
        if let Some(span) = self.done.faults.get_mut(at).and_then(|f| f.span.as_mut()) {
            span.end = Some(now);
        }
        self.changed = true;
    }

    fn note_span(&mut self, at: usize, span: Span) {
        if let Some(fault) = self.done.faults.get_mut(at) {
            fault.span = Some(span);
        }
        self.changed = true;
    }

    /// Something was done on account of a rule.
    pub(crate) fn count(&mut self, rule: usize, times: u64) {
        if let Some(fault) = self.done.faults.get_mut(rule) {
            fault.count += times;
            self.changed = true;
        }
    }

    /// Until when the broker stands still from now on, and on account of which rule.
    pub(crate) const fn take_stall(&mut self) -> Option<(usize, Time)> {
        self.stall.take()
    }

    /// It stood still.
    pub(crate) fn stalled(&mut self, rule: usize, start: Time, end: Time) {
        let end = Some(end);
        self.note_span(rule, Span { start, end });
        self.count(rule, 1);
    }

    /// Takes a connection fault that is due.
    pub(crate) fn next_connection_fault(&mut self) -> Option<ConnectionFault> {
        self.connection_faults.pop()
    }

    /// How many bytes still go out to a connection that is cut.
    pub(crate) fn cut_after(&mut self, wanted: Option<usize>) -> usize {
        let random = || (next(&mut self.random) % CUT_WITHIN) as usize + 1;
        wanted.map_or_else(random, |bytes| bytes.max(1))
    }

    /// Whether publishers are blocked.
    pub(crate) const fn is_blocking(&self) -> bool {
        !self.active.blocks.is_empty()
    }

    /// A publisher's connection was blocked: by the block that began first, where several are on.
    pub(crate) fn note_blocked(&mut self) {
        if let Some(rule) = self.active.blocks.first().copied() {
            self.count(rule, 1);
        }
    }

    /// The kind of the first of these rules that hits, which is counted.
    fn hit(&mut self, list: fn(&ActiveRules) -> &[usize]) -> Option<FaultKind> {
        let rules = &mut self.rules;
        let rule = list(&self.active).iter().copied().find(|&at| rules.get_mut(at).is_some_and(Rule::hits))?;
        self.count(rule, 1);
        self.rules.get(rule).map(|rule| rule.fault.kind)
    }

    /// Whether this login is refused.
    pub(crate) fn refuses_login(&mut self) -> bool {
        self.hit(|active| &active.logins).is_some()
    }

    /// A message is routed: where a fault says so, that takes longer.
    pub(crate) fn slow_route(&mut self) {
        if let Some(FaultKind::SlowRoute { millionths }) = self.hit(|active| &active.routes) {
            self.slowdown.get_or_insert_with(Slowdown::new).slow(millionths);
        }
    }

    /// Whether this message is refused.
    pub(crate) fn refuses_message(&mut self) -> bool {
        self.hit(|active| &active.publishes).is_some()
    }

    /// A message was taken.
    pub(crate) const fn note_published(&mut self) {
        self.done.published += 1;
        self.changed = true;
    }

    /// When the confirm of the message that has just come leaves; `None`: at once.
    pub(crate) fn confirm_due(&mut self) -> Option<Time> {
        match self.hit(|active| &active.confirms)? {
            FaultKind::SlowAck(delay) => Some(self.now + delay),
            _ => None,
        }
    }

    /// A channel has confirms to send then.
    pub(crate) fn confirm_later(&mut self, due: Time, connection: Key, channel: u16) {
        self.late.push(Reverse((due, connection, channel)));
    }

    /// The next channel whose confirms are due.
    pub(crate) fn next_late(&mut self) -> Option<(Key, u16)> {
        let Reverse((due, key, channel)) = *self.late.peek()?;
        if due > self.now {
            return None;
        }
        self.late.pop();
        Some((key, channel))
    }

    /// Decides the first delivery of a message.
    pub(crate) fn delivery(&mut self, body_len: usize, holds_already: bool) -> DeliveryFault {
        for &at in &self.active.deliveries {
            let Some(rule) = self.rules.get_mut(at) else { continue };
            let fault = rule.fault.kind;
            let possible = match fault {
                FaultKind::Reorder { .. } => !holds_already,
                FaultKind::Corrupt { byte } => byte.unwrap_or(0) < body_len,
                _ => true,
            };
            if possible && rule.hits() {
                return self.delivery_fault(at, fault, body_len);
            }
        }
        DeliveryFault::Pass
    }

    fn delivery_fault(&mut self, rule: usize, fault: FaultKind, body_len: usize) -> DeliveryFault {
        if let FaultKind::Reorder { by } = fault {
            // Counted once a later one has really gone first.
            return DeliveryFault::Hold { by: by.max(1), rule };
        }
        self.count(rule, 1);
        match fault {
            FaultKind::Lose => DeliveryFault::Lose,
            FaultKind::Duplicate { redelivered } => DeliveryFault::Duplicate { redelivered },
            FaultKind::Corrupt { byte } => {
                let random = next(&mut self.random);
                let anywhere = (random >> 3) as usize % body_len.max(1);
                DeliveryFault::Corrupt { byte: byte.unwrap_or(anywhere), mask: 1 << (random & 7) }
            }
            _ => DeliveryFault::Pass,
        }
    }

    /// A consumer has a delivery held back; returns until when at the latest.
    pub(crate) fn hold(&mut self, consumer: Key) -> Time {
        let until = self.now + HOLD_MOST;
        self.holding.push(Reverse((until, consumer)));
        until
    }

    /// The next consumer that may have held a delivery back for too long.
    pub(crate) fn next_held(&mut self) -> Option<Key> {
        let Reverse((until, consumer)) = *self.holding.peek()?;
        if until > self.now {
            return None;
        }
        self.holding.pop();
        Some(consumer)
    }

    /// Whether a time has come.
    pub(crate) fn has_come(&self, time: Time) -> bool {
        time <= self.now
    }

    /// A delivery goes out with the redelivered flag.
    pub(crate) fn note_redelivered(&mut self, was_overtaken: bool) {
        self.flagged += 1;
        self.done.reordered_redelivered += u64::from(was_overtaken);
        self.changed = true;
    }

    /// A message that never went out goes back to its queue, and will come with the flag.
    pub(crate) const fn note_held_back(&mut self) {
        self.held_back += 1;
        self.changed = true;
    }

    /// When something is to be done even if nothing comes.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let late = self.late.peek().map(|Reverse(entry)| entry.0);
        let held = self.holding.peek().map(|Reverse(entry)| entry.0);
        [self.next_edge, late, held].into_iter().flatten().min()
    }

    /// Tells the log what has changed since the last time.
    pub(crate) fn tell(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.done.redelivered = self.flagged.saturating_sub(self.held_back);
            self.log.store(&self.done);
        }
    }
}

/// The next number of a sequence.
const fn next(state: &mut u64) -> u64 {
    let drawn = scatter(*state);
    *state = state.wrapping_add(SCATTER_STEP);
    drawn
}

/// Messages between two looks at how much CPU they take.
const BETWEEN_LOOKS: u32 = 1_000;
/// Turns of the loop that are timed before the first message.
const TIMED_TURNS: u32 = 20_000;
/// How often they are timed; the least counts, since nobody was in between.
const TIMED: u32 = 5;
/// Millionths of one.
const MILLION: f64 = 1e6;

/// A loop that takes a share of what the thread's messages take. It looks at the thread's CPU time now and then, so
/// that the share is what was asked for on any machine and at any rate.
#[derive(Debug)]
struct Slowdown {
    /// Nanoseconds of CPU that a turn of the loop takes.
    turn_ns: f64,
    /// Turns for each message.
    turns: u32,
    /// Turns since the last look.
    turned: u64,
    messages: u32,
    /// The thread's CPU time at the last look.
    since: Nanos,
}

impl Slowdown {
    fn new() -> Self {
        let once = || {
            let before = thread_cpu();
            burn(TIMED_TURNS);
            thread_cpu().saturating_sub(before).0 as f64 / f64::from(TIMED_TURNS)
        };
        let least = (0..TIMED).map(|_| once()).fold(f64::INFINITY, f64::min);
        Self { turn_ns: least.max(0.01), turns: 0, turned: 0, messages: 0, since: thread_cpu() }
    }

    /// Makes a message dearer by so many millionths of what one takes.
    fn slow(&mut self, millionths: u32) {
        burn(self.turns);
        self.turned += u64::from(self.turns);
        self.messages += 1;
        if self.messages >= BETWEEN_LOOKS {
            self.look(millionths, thread_cpu());
        }
    }

    fn look(&mut self, millionths: u32, now: Nanos) {
        let spent = now.saturating_sub(self.since).0 as f64;
        let own = spent - self.turned as f64 * self.turn_ns;
        let each = own.max(0.0) / f64::from(self.messages);
        let turns = each * f64::from(millionths) / MILLION / self.turn_ns;
        // Half of what it was, so that a busy moment does not change much.
        self.turns = match self.turns {
            0 => turns.round() as u32,
            before => f64::midpoint(f64::from(before), turns).round() as u32,
        };
        (self.turned, self.messages, self.since) = (0, 0, now);
    }
}

/// A frame of its own in profiles.
#[inline(never)]
fn burn(turns: u32) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gets_dearer_by_its_share_of_what_one_takes() {
        let mut slow = Slowdown { turn_ns: 2.0, turns: 0, turned: 0, messages: 0, since: Nanos(0) };
        // A thousand messages of 10 us each, of which a fiftieth is 200 ns.
        slow.messages = BETWEEN_LOOKS;
        slow.look(20_000, Nanos(10_000_000));
        assert_eq!(slow.turns, 100);
        // What the loop itself takes is none of it.
        slow.messages = BETWEEN_LOOKS;
        slow.turned = 100 * u64::from(BETWEEN_LOOKS);
        slow.look(20_000, Nanos(20_200_000));
        assert_eq!(slow.turns, 100);
        assert_eq!((slow.turned, slow.messages), (0, 0));
    }

    #[test]
    fn it_takes_the_time_that_it_means_to_take() {
        const TURNS: u32 = 200_000;
        let slow = Slowdown::new();
        let meant = f64::from(TURNS) * slow.turn_ns;
        let took = || {
            let before = thread_cpu();
            burn(TURNS);
            thread_cpu().saturating_sub(before).0 as f64
        };
        // Other programs may have the processor's caches, or half of its core.
        let took: Vec<f64> = (0..10).map(|_| took()).collect();
        let is_meant = |took: &f64| *took > meant * 0.7 && *took < meant * 3.0;
        assert!(took.iter().any(is_meant), "{took:?} for {meant}");
    }
}
