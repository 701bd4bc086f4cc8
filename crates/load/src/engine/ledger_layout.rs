//! Which client keeps which bitmap of the ledger.

use std::collections::HashMap;

use super::consumer::BitmapSpec;
use super::routes::{Key, Routes, key};
use super::spec::{ClientSpec, ParticipantKind};
use crate::{Group, Plan};

/// Bodies below the full header tell this many producers apart.
const MOST_PRODUCERS: usize = 1 << 16;
/// A bitmap takes about 150 bytes on its event loop, and at least twice that in the ledger.
const MOST_BITMAPS: usize = 50_000;

/// Most pairs of consumer and producer: 8 bytes for the newest message of each, 256 MiB in all (5,000 × 5,000).
const MOST_PAIRS: usize = 32 << 20;

/// The bitmaps of a run.
#[derive(Debug, Default)]
pub(crate) struct LedgerLayout {
    pub(crate) producers: usize,
    /// The producer of each bitmap of deliveries.
    pub(crate) deliveries: Vec<usize>,
    /// The names of each thread's bitmaps.
    pub(crate) threads: Vec<Vec<u32>>,
    /// Other workers' producers send to consumers here, or the reverse: this is a part of the ledger.
    pub(crate) is_part: bool,
}

/// Lays out the ledger of all clients, and tells them which are theirs. `None`: this run has no ledger;
/// with a reason where somebody might wonder. `unknown`: why it is not known who gets which messages, where it is not.
pub(crate) fn open<S>(
    plan: &Plan,
    unknown: Option<String>,
    threads: &mut [Vec<ClientSpec<S>>],
    routes: &mut Routes,
) -> Result<LedgerLayout, Option<String>> {
    let mut consuming = plan.groups.iter().filter(|group| group.consumer_count() > 0);
    let has_consumers = consuming.clone().next().is_some();
    let consumers_count = consuming.any(|group| group.consumers.message_count.is_some());
    // Also where a share has none of them: what it keeps is added to the others' ledgers.
    let producers: usize = plan.groups.iter().map(Group::producer_count).sum();
    if !plan.ledger || consumers_count || producers == 0 || !has_consumers {
        return Err(None);
    }
    if let Some(reason) = unknown {
        return Err(Some(format!("no ledger is kept: {reason}")));
    }
    if producers > MOST_PRODUCERS {
        return Err(Some(format!("no ledger is kept for {producers} producers: the limit is {MOST_PRODUCERS}")));
    }
    let mut ledger_layout = LedgerLayout { producers, is_part: plan.is_spread(), ..LedgerLayout::default() };
    // Competing consumers of a queue share their bitmaps, wherever they run.
    let mut shared: HashMap<SharedQueue, usize> = HashMap::new();
    for clients in &mut *threads {
        let bitmaps = ledger_layout.open_thread(clients, routes, &mut shared);
        ledger_layout.threads.push(bitmaps);
    }
    let limits = [
        (pairs(threads), MOST_PAIRS, "pairs of a producer and a consumer that it reaches"),
        (ledger_layout.deliveries.len(), MOST_BITMAPS, "pairs of producer and subscriber"),
    ];
    if let Some((count, most, what)) = limits.into_iter().find(|(count, most, _)| count > most) {
        forget_bitmaps(threads);
        return Err(Some(format!("no ledger is kept for {count} {what}: the limit is {most}")));
    }
    Ok(ledger_layout)
}

/// Without a ledger no client keeps a part of it.
fn forget_bitmaps<S>(threads: &mut [Vec<ClientSpec<S>>]) {
    let clients = threads.iter_mut().flatten();
    for participant in clients.flat_map(|client| &mut client.participants) {
        match &mut participant.kind {
            ParticipantKind::Producer(producer) => producer.bitmap = None,
            ParticipantKind::Consumer(consumer) => consumer.bitmaps = None,
        }
    }
}

/// How many producers reach each consumer, all consumers together.
fn pairs<S>(threads: &[Vec<ClientSpec<S>>]) -> usize {
    let participants = threads.iter().flatten().flat_map(|client| &client.participants);
    let bitmaps = participants.filter_map(|it| it.consumer()?.bitmaps.as_ref());
    bitmaps.map(|it| it.producers.len()).sum()
}

/// A queue, or a subscription that consumers share.
type SharedQueue = (Key, Option<String>);

impl LedgerLayout {
    /// Producers that run here.
    pub(crate) fn own_producers(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().flatten().map(|name| *name as usize).filter(|name| *name < self.producers)
    }

    /// The names of a thread's bitmaps, in the order that its clients know them by.
    fn open_thread<S>(
        &mut self,
        clients: &mut [ClientSpec<S>],
        routes: &mut Routes,
        shared: &mut HashMap<SharedQueue, usize>,
    ) -> Vec<u32> {
        let mut names = Vec::new();
        let mut here: HashMap<SharedQueue, usize> = HashMap::new();
        let participants = clients.iter_mut().flat_map(|client| {
            let cluster = client.cluster;
            client.participants.iter_mut().map(move |participant| (cluster, participant))
        });
        for (cluster, participant) in participants {
            let key = key(cluster, &participant.destination);
            let gets_all = Routes::gets_all(participant);
            match &mut participant.kind {
                ParticipantKind::Producer(producer) => {
                    producer.bitmap = Some(names.len());
                    names.push(producer.id);
                }
                ParticipantKind::Consumer(consumer) => {
                    let ids = routes.reach(cluster, &participant.destination).producers;
                    if ids.is_empty() {
                        continue;
                    }
                    let first = if gets_all {
                        let first = self.open_deliveries(&ids);
                        add(&mut names, self.producers + first, ids.len())
                    } else {
                        let share = (key, participant.share.clone());
                        *here.entry(share.clone()).or_insert_with(|| {
                            let first = *shared.entry(share).or_insert_with(|| self.open_deliveries(&ids));
                            add(&mut names, self.producers + first, ids.len())
                        })
                    };
                    consumer.bitmaps = Some(BitmapSpec { producers: ids, first });
                }
            }
        }
        names
    }

    fn open_deliveries(&mut self, producers: &[u32]) -> usize {
        let first = self.deliveries.len();
        self.deliveries.extend(producers.iter().map(|id| *id as usize));
        first
    }
}

/// Adds `count` names from `first` on; tells where they stand.
fn add(names: &mut Vec<u32>, first: usize, count: usize) -> usize {
    let at = names.len();
    names.extend((first..first + count).map(|name| name as u32));
    at
}
