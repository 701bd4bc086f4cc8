//! Queues and topics that the plan's consumers receive from, and how many messages the queues may still hold.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use measure::Nanos;

use super::consumer::ConsumerSpec;
use super::ledger_layout::LedgerLayout;
use super::spec::{ClientSpec, ParticipantKind, ParticipantSpec};
use crate::control::Interruption;
use crate::protocol::{Admin, Connection, connect_options};
use crate::{Control, DestinationKind, Endpoint, Environment, Error, Group, Plan};

/// A queue that consumers compete for, or what one subscriber has alone.
#[derive(Debug, Default)]
pub(crate) struct Recipient {
    /// The name of the queue whose count says how many messages there are.
    /// `None` for queues that are one connection's alone, and for streams, which keep everything.
    pub(crate) queue: Option<String>,
    /// Where it has to be asked: wherever it has a consumer or producer. Brokers of one name may be several.
    places: Vec<BrokerRecipients>,
    subscribers: u32,
    pub(crate) bitmaps: Range<usize>,
    /// Deliveries that its group still waits for, where it counts them.
    budget: Option<Arc<AtomicU64>>,
}

/// A broker, by the first of the groups that connect there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BrokerRecipients {
    group: usize,
    subscribers: u32,
}

/// Finds out who receives from what, and tells consumers which recipient is theirs.
pub(crate) fn find<S>(
    plan: &Plan,
    threads: &mut [Vec<ClientSpec<S>>],
    ledger_layout: &Result<LedgerLayout, Option<String>>,
) -> Vec<Recipient> {
    let mut recipients: Vec<Recipient> = Vec::new();
    let mut shared: HashMap<(usize, bool, String), usize> = HashMap::new();
    let (places, selects) = (places(plan), plan.has_selectors());
    let producers = producers(threads, &places);
    for (thread, clients) in threads.iter_mut().enumerate() {
        for client in clients {
            let cluster = client.cluster;
            let place = places.get(client.group).copied().unwrap_or(client.group);
            for participant in &mut client.participants {
                let (named, can_be_asked) = name(participant);
                // Those of a queue's messages that a selector leaves out never come.
                let is_counted = can_be_asked && !selects;
                let ParticipantKind::Consumer(consumer) = &mut participant.kind else { continue };
                let next = recipients.len();
                let at = match named.clone() {
                    Some((is_topic, name)) => *shared.entry((cluster, is_topic, name)).or_insert(next),
                    None => next,
                };
                if at == next {
                    let mut recipient = Recipient {
                        queue: named.filter(|_| is_counted).map(|(_, name)| name),
                        bitmaps: bitmaps(consumer, thread, ledger_layout),
                        budget: consumer.budget.clone(),
                        ..Recipient::default()
                    };
                    let ids = consumer.bitmaps.as_ref().map(|it| &*it.producers);
                    for id in ids.unwrap_or_default() {
                        if let Some(place) = producers.get(id) {
                            recipient.add(*place, 0);
                        }
                    }
                    recipients.push(recipient);
                }
                if let Some(recipient) = recipients.get_mut(at) {
                    recipient.add(place, u32::from(consumer.poll.is_none()));
                }
                (consumer.recipient, consumer.is_counted) = (at as u32, is_counted);
            }
        }
    }
    recipients
}

/// The place of each group. The protocol makes none: a queue that is asked over two of them would count twice.
fn places(plan: &Plan) -> Vec<usize> {
    let place = |(at, group): (usize, &Group)| {
        plan.groups.iter().position(|other| other.endpoint.is_at(&group.endpoint)).unwrap_or(at)
    };
    plan.groups.iter().enumerate().map(place).collect()
}

/// Where each producer publishes. Of one place nobody has to be told.
fn producers<S>(threads: &[Vec<ClientSpec<S>>], places: &[usize]) -> HashMap<u32, usize> {
    if places.iter().all(|place| *place == 0) {
        return HashMap::new();
    }
    let producers = threads.iter().flatten().flat_map(|client| {
        let place = places.get(client.group).copied().unwrap_or(client.group);
        client.participants.iter().filter_map(move |it| Some((it.producer()?.id, place)))
    });
    producers.collect()
}

/// The name of a queue that others may take from, whether a topic's, and whether its length can be asked.
fn name(participant: &ParticipantSpec) -> (Option<(bool, String)>, bool) {
    let destination = &participant.destination;
    let Some(name) = &participant.queue else { return (None, false) };
    let is_topic = destination.kind == DestinationKind::Topic;
    (Some((is_topic, name.clone())), !destination.exclusive)
}

/// Where the ledger keeps a consumer's deliveries.
fn bitmaps(
    consumer: &ConsumerSpec,
    thread: usize,
    ledger_layout: &Result<LedgerLayout, Option<String>>,
) -> Range<usize> {
    let (Ok(ledger_layout), Some(bitmaps)) = (ledger_layout, &consumer.bitmaps) else { return 0..0 };
    let names = ledger_layout.threads.get(thread);
    let first = names.and_then(|names| names.get(bitmaps.first)).map_or(0, |name| *name as usize);
    let first = first.saturating_sub(ledger_layout.producers);
    first..first + bitmaps.producers.len()
}

/// Answers at the end of a drain, when everything sent had its answer. The questions come before the fences: messages
/// that a queue no longer holds when it is asked have come to its consumers before they answer.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By recipient: what its queue answered, at each place where it did.
    depths: Vec<Vec<Depth>>,
    /// The consumers have to pass this one; 0 where none was put up.
    pub(crate) fence: u64,
}

/// Answer of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    messages: u32,
    consumers: u32,
    /// Consumers of the plan's that subscribe where it was asked.
    subscribers: u32,
}

impl Found {
    pub(crate) fn new(recipients: usize) -> Self {
        Self { depths: vec![Vec::new(); recipients], fence: 0 }
    }

    /// Messages that the broker may hold for a recipient whose consumers have all of theirs; `None` if unknown.
    pub(crate) fn held(&self, at: usize, recipient: &Recipient) -> Option<u64> {
        if self.fence == 0 {
            return None;
        }
        if recipient.queue.is_none() {
            return Some(0);
        }
        let depths = self.depths.get(at)?;
        if depths.len() != recipient.places.len() {
            return None;
        }
        let messages = depths.iter().map(|depth| u64::from(depth.messages));
        let is_one = depths.iter().all(|depth| depth.consumers == recipient.subscribers)
            && depths.iter().any(|depth| depth.consumers > depth.subscribers);
        if is_one {
            // A queue that counts those who subscribe elsewhere is the same there.
            return messages.max();
        }
        // Deliveries of a stranger, or of a connection believed to be up, come back when not acknowledged.
        depths.iter().all(|depth| depth.consumers <= depth.subscribers).then(|| messages.sum())
    }

    /// Whether no recipient that still wants something can get anything.
    pub(crate) fn nothing_is_held(&self, recipients: &[Recipient]) -> bool {
        let mut all = recipients.iter().enumerate();
        all.all(|(at, it)| it.wants_no_more() || self.held(at, it) == Some(0))
    }
}

impl Recipient {
    fn add(&mut self, group: usize, subscribers: u32) {
        self.subscribers += subscribers;
        match self.places.iter_mut().find(|place| place.group == group) {
            Some(place) => place.subscribers += subscribers,
            None => self.places.push(BrokerRecipients { group, subscribers }),
        }
    }

    /// Whether its group has all the deliveries that it counts.
    pub(crate) fn wants_no_more(&self) -> bool {
        let budget = self.budget.as_ref();
        budget.is_some_and(|budget| budget.load(Ordering::Relaxed) == 0)
    }
}

/// Asks queues how much they hold, beside the coordinator: a broker in trouble takes its time.
pub(crate) struct Inquiry {
    control: Control,
    answers: Receiver<(usize, Depth)>,
}

impl Inquiry {
    /// Begins to ask; no step of it takes longer than `timeout`.
    pub(crate) fn begin<C: Connection, E: Environment>(
        environment: &E,
        plan: &Plan,
        recipients: &[Recipient],
        timeout: Nanos,
    ) -> Result<Self, Error> {
        let (sender, answers) = channel();
        let mut queues: Vec<(BrokerRecipients, usize, String)> = Vec::new();
        for (at, recipient) in recipients.iter().enumerate() {
            if let Some(name) = &recipient.queue {
                let places = recipient.places.iter();
                queues.extend(places.map(|place| (*place, at, name.clone())));
            }
        }
        let mut plan = plan.clone();
        plan.timeout = timeout.min(plan.timeout);
        let control = Control::new();
        let (stop, asker) = (control.clone(), environment.clone());
        let ask_all = move || {
            for group in 0..plan.groups.len() {
                let here = queues.iter().filter(|queue| queue.0.group == group);
                let here: Vec<_> = here.map(|(place, at, name)| (*at, place.subscribers, name.as_str())).collect();
                // A broker that does not answer has said what there is to say.
                let _ = ask::<C, E>(&asker, &plan, group, &here, &stop, &sender);
            }
        };
        environment.run_beside("ask queues", ask_all).map_err(|error| Error::machine("start a thread", error))?;
        Ok(Self { control, answers })
    }

    /// Takes the answers so far; whether all that will answer have done so.
    pub(crate) fn take(&self, found: &mut Found) -> bool {
        loop {
            match self.answers.try_recv() {
                Ok((at, depth)) => {
                    if let Some(depths) = found.depths.get_mut(at) {
                        depths.push(depth);
                    }
                }
                Err(end) => return end == TryRecvError::Disconnected,
            }
        }
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        self.control.abort();
    }
}

fn ask<C: Connection, E: Environment>(
    environment: &E,
    plan: &Plan,
    group: usize,
    queues: &[(usize, u32, &str)],
    control: &Control,
    answers: &Sender<(usize, Depth)>,
) -> Result<(), Interruption> {
    let Some(group) = plan.groups.get(group).filter(|_| !queues.is_empty()) else { return Ok(()) };
    let mut admin = connect::<C, E>(environment, plan, group, control)?;
    for (at, subscribers, name) in queues {
        // One that is not there may be elsewhere, or come back with what it held.
        let Some((messages, consumers)) = admin.depth(name)? else { continue };
        let depth = Depth { messages, consumers, subscribers: *subscribers };
        // Who asked may have had enough.
        let _ = answers.send((*at, depth));
    }
    admin.close()
}

/// Connects to the first of a group's nodes that answers, in the group's protocol.
pub(super) fn connect<'a, C: Connection, E: Environment>(
    environment: &E,
    plan: &Plan,
    group: &Group,
    control: &'a Control,
) -> Result<C::Admin<'a, E>, Interruption> {
    let connect = |endpoint: &Endpoint| {
        let options = connect_options(endpoint, &group.source_addresses)?;
        let mut endpoint = endpoint.clone();
        endpoint.protocol = group.protocol;
        <C::Admin<'a, E>>::connect(environment, &endpoint, options, plan.timeout, control)
    };
    let mut result = connect(&group.endpoint);
    for endpoint in &group.further {
        if !matches!(result, Err(Interruption::Failed(_))) {
            break;
        }
        result = connect(endpoint);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Destination;

    /// Its queue was asked once for each, and held twice as much.
    #[test]
    fn a_broker_is_one_place_over_whichever_protocol() {
        let urls = ["amqp://h", "amqp10://other@h", "amqp://h:1", "amqp://h/v", "amqps10://g:1"];
        let at = |url: &str| Group::new(url.parse().unwrap(), vec![Destination::queue("q")]);
        let plan = Plan { groups: urls.into_iter().map(at).collect(), ..Plan::default() };
        assert_eq!(places(&plan), [0, 0, 2, 3, 4]);
    }
}
