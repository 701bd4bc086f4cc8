//! What the plan's consumers receive from, and how many messages its queues may still hold.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use measure::Nanos;

use super::consumer::ConsumerSpec;
use super::ledger_layout::LedgerLayout;
use super::spec::{ClientSpec, ParticipantKind, ParticipantSpec};
use crate::control::Interruption;
use crate::protocol::{Admin, Connection, connect_options};
use crate::{Control, DestinationKind, Error, Plan};

/// A queue that consumers compete for, or what one subscriber has alone.
#[derive(Debug, Default)]
pub(crate) struct Recipient {
    /// Whose count says how many messages there are: the group where it can be asked, and its name.
    /// `None` for queues that are one connection's alone, and for streams, which keep everything.
    pub(crate) queue: Option<(usize, String)>,
    /// Consumers that subscribe to it.
    subscribers: u32,
    /// Its bitmaps in the ledger.
    pub(crate) bitmaps: Range<usize>,
    /// Deliveries that its group still waits for, where it counts them.
    budget: Option<Arc<AtomicU64>>,
}

/// Finds out who receives from what, and tells consumers which recipient is theirs.
pub(crate) fn find<S>(
    threads: &mut [Vec<ClientSpec<S>>],
    ledger_layout: &Result<LedgerLayout, Option<String>>,
) -> Vec<Recipient> {
    let mut recipients: Vec<Recipient> = Vec::new();
    let mut shared: HashMap<(usize, bool, String), usize> = HashMap::new();
    for (thread, clients) in threads.iter_mut().enumerate() {
        for client in clients {
            let cluster = client.cluster;
            for participant in &mut client.participants {
                let (named, is_counted) = name(participant);
                let ParticipantKind::Consumer(consumer) = &mut participant.kind else {
                    continue;
                };
                let next = recipients.len();
                let at = match named.clone() {
                    Some((is_topic, name)) => {
                        *shared.entry((cluster, is_topic, name)).or_insert(next)
                    }
                    None => next,
                };
                if at == next {
                    recipients.push(Recipient {
                        queue: named
                            .filter(|_| is_counted)
                            .map(|(_, name)| (cluster, name)),
                        bitmaps: bitmaps(consumer, thread, ledger_layout),
                        budget: consumer.budget.clone(),
                        ..Recipient::default()
                    });
                }
                if let Some(recipient) = recipients.get_mut(at) {
                    recipient.subscribers += u32::from(consumer.poll.is_none());
                }
                (consumer.recipient, consumer.is_counted) = (at as u32, is_counted);
            }
        }
    }
    recipients
}

/// The name of a queue that others may take from too, with whether it is behind a topic; and whether
/// it can be asked how much there is.
fn name(participant: &ParticipantSpec) -> (Option<(bool, String)>, bool) {
    let destination = &participant.destination;
    let Some(name) = &participant.queue else {
        return (None, false);
    };
    let is_topic = destination.kind == DestinationKind::Topic;
    (Some((is_topic, name.clone())), !destination.exclusive)
}

/// Where the ledger keeps a consumer's deliveries.
fn bitmaps(
    consumer: &ConsumerSpec,
    thread: usize,
    ledger_layout: &Result<LedgerLayout, Option<String>>,
) -> Range<usize> {
    let (Ok(ledger_layout), Some(bitmaps)) = (ledger_layout, &consumer.bitmaps) else {
        return 0..0;
    };
    let names = ledger_layout.threads.get(thread);
    let first = names.and_then(|names| names.get(bitmaps.first));
    let first = first.map_or(0, |name| *name as usize);
    let first = first.saturating_sub(ledger_layout.producers);
    first..first + bitmaps.producers.len()
}

/// What was found out at the end of a drain, when everything sent had its answer. The questions come before the fences: what a queue no
/// longer holds when it is asked has come to its consumers before they answer.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By recipient: what its queue answered, where it did.
    depths: Vec<Option<Depth>>,
    /// The consumers have to pass this one; 0 where none was put up.
    pub(crate) fence: u64,
}

/// What a queue holds.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    messages: u32,
    consumers: u32,
}

impl Found {
    pub(crate) fn new(recipients: usize) -> Self {
        Self {
            depths: vec![None; recipients],
            fence: 0,
        }
    }

    /// How many messages the broker may hold for a recipient whose consumers have all they were
    /// given; `None` where nobody knows.
    pub(crate) fn held(&self, at: usize, recipient: &Recipient) -> Option<u64> {
        if self.fence == 0 {
            return None;
        }
        if recipient.queue.is_none() {
            return Some(0);
        }
        let depth = self.depths.get(at).copied().flatten()?;
        // What a stranger, or a connection of ours that the broker believes to be up, has taken and
        // not acknowledged comes back.
        (depth.consumers <= recipient.subscribers).then_some(u64::from(depth.messages))
    }

    /// Whether no recipient that still wants something can get anything.
    pub(crate) fn nothing_is_held(&self, recipients: &[Recipient]) -> bool {
        recipients
            .iter()
            .enumerate()
            .all(|(at, recipient)| recipient.wants_no_more() || self.held(at, recipient) == Some(0))
    }
}

impl Recipient {
    /// Whether its group has all the deliveries that it counts.
    pub(crate) fn wants_no_more(&self) -> bool {
        let budget = self.budget.as_ref();
        budget.is_some_and(|budget| budget.load(Ordering::Relaxed) == 0)
    }
}

/// Asks queues how much they hold, on a thread of its own: a broker in trouble takes its time.
#[derive(Debug)]
pub(crate) struct Inquiry {
    control: Control,
    is_over: Arc<AtomicBool>,
    answers: Receiver<(usize, Depth)>,
    thread: Option<JoinHandle<()>>,
}

impl Inquiry {
    /// Begins to ask; no step of it takes longer than `timeout`.
    pub(crate) fn begin<C: Connection>(
        plan: &Plan,
        recipients: &[Recipient],
        timeout: Nanos,
    ) -> Result<Self, Error> {
        let (sender, answers) = channel();
        let (control, is_over) = (Control::new(), Arc::new(AtomicBool::new(false)));
        let mut queues: Vec<(usize, usize, String)> = Vec::new();
        for (at, recipient) in recipients.iter().enumerate() {
            if let Some((group, name)) = recipient.queue.as_ref() {
                queues.push((*group, at, name.clone()));
            }
        }
        let mut plan = plan.clone();
        plan.timeout = timeout.min(plan.timeout);
        let (stop, over) = (control.clone(), Arc::clone(&is_over));
        let thread = std::thread::Builder::new()
            .name("ask queues".into())
            .spawn(move || {
                for group in 0..plan.groups.len() {
                    let here = queues.iter().filter(|queue| queue.0 == group);
                    let here: Vec<_> = here.map(|(_, at, name)| (*at, name.as_str())).collect();
                    // A broker that does not answer has said what there is to say.
                    let _ = ask::<C>(&plan, group, &here, &stop, &sender);
                }
                over.store(true, Ordering::Release);
            })
            .map_err(|error| Error::machine("start a thread", error))?;
        Ok(Self {
            control,
            is_over,
            answers,
            thread: Some(thread),
        })
    }

    /// Whether all that will answer have done so.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Takes the answers so far.
    pub(crate) fn take(&self, found: &mut Found) {
        for (at, depth) in self.answers.try_iter() {
            if let Some(place) = found.depths.get_mut(at) {
                *place = Some(depth);
            }
        }
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        self.control.abort();
        if let Some(thread) = self.thread.take().filter(|_| self.is_over()) {
            let _ = thread.join();
        }
    }
}

/// Asks a group's broker, at the first of its nodes that answers.
fn ask<C: Connection>(
    plan: &Plan,
    group: usize,
    queues: &[(usize, &str)],
    control: &Control,
    answers: &Sender<(usize, Depth)>,
) -> Result<(), Interruption> {
    let Some(group) = plan.groups.get(group).filter(|_| !queues.is_empty()) else {
        return Ok(());
    };
    let mut result = Ok(());
    for endpoint in std::iter::once(&group.endpoint).chain(&group.further) {
        let options = connect_options(endpoint, &group.source_addresses)?;
        let mut admin = match <C::Admin<'_>>::connect(endpoint, options, plan.timeout, control) {
            Ok(admin) => admin,
            Err(Interruption::Stopped) => return Err(Interruption::Stopped),
            Err(error) => {
                result = Err(error);
                continue;
            }
        };
        for (at, name) in queues {
            let answer = admin.depth(name)?;
            let (messages, consumers) = answer.unwrap_or_default();
            let depth = Depth {
                messages,
                consumers,
            };
            // Who asked may have had enough.
            let _ = answers.send((*at, depth));
        }
        return admin.close();
    }
    result
}
