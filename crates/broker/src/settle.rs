//! Acknowledgements, refusals and what comes back.

use wire::amqp091::{BasicAck, BasicNack, DecodeMethod};

use crate::channel::{Mode, Settlement, SettlementKind};
use crate::consumer::Parked;
use crate::dead_letters::Reason;
use crate::refusal::Refusal;
use crate::session::{Peer, Reply};
use crate::slots::Key;
use crate::unacked::Unacked;
use crate::vhost::VirtualHost;

impl Peer {
    /// Settles deliveries, or keeps the settlement until its transaction commits.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        number: u16,
        settlement: Settlement,
        vhost: &mut VirtualHost,
    ) -> Reply {
        let Some(channel) = self.channel_mut(number) else {
            return Reply::None;
        };
        let Settlement {
            tag,
            multiple,
            kind,
        } = settlement;
        if !(channel.deliveries.contains(tag) || tag == 0 && multiple) {
            let cause = match kind {
                SettlementKind::Accepted => BasicAck::INFO.id,
                SettlementKind::Rejected | SettlementKind::Requeued => BasicNack::INFO.id,
            };
            let text = format!("unknown delivery tag {tag}");
            return Reply::Refuse(Refusal::precondition(&text), cause);
        }
        if let Mode::Transaction(transaction) = &mut channel.mode {
            transaction.settlements.push(settlement);
        } else {
            self.settle_now(number, settlement, vhost);
        }
        Reply::None
    }

    /// Settles deliveries. Tags that no longer wait are left alone.
    pub(crate) fn settle_now(
        &mut self,
        number: u16,
        settlement: Settlement,
        vhost: &mut VirtualHost,
    ) {
        let Some(channel) = self.channel_mut(number) else {
            return;
        };
        let Settlement {
            tag,
            multiple,
            kind,
        } = settlement;
        let finish: fn(&mut VirtualHost, &Unacked) = match kind {
            SettlementKind::Accepted => VirtualHost::settle_delivery,
            SettlementKind::Rejected => VirtualHost::reject_delivery,
            SettlementKind::Requeued => VirtualHost::return_delivery,
        };
        if multiple {
            let up_to = if tag == 0 { u64::MAX } else { tag };
            while let Some(delivery) = channel.deliveries.take_up_to(up_to) {
                finish(vhost, &delivery);
            }
        } else if let Some(delivery) = channel.deliveries.take(tag) {
            finish(vhost, &delivery);
        }
        if channel.shared_prefetch > 0 {
            let consumers: Vec<Key> = channel.consumers.values().copied().collect();
            consumers
                .into_iter()
                .for_each(|c| vhost.wake(c, Parked::ForCredit));
        }
    }
}

impl VirtualHost {
    /// A delivery was dealt with: the message is forgotten.
    #[inline]
    pub(crate) fn settle_delivery(&mut self, delivery: &Unacked) {
        if let Some(queue) = self.queues.get_mut(delivery.queue) {
            queue.settle(delivery.address, &mut self.memory);
        }
        self.restore_credit(delivery.consumer);
    }

    /// A delivery was refused for good: the message goes to where its queue sends dead letters.
    fn reject_delivery(&mut self, delivery: &Unacked) {
        if let Some(queue) = self.queues.get_mut(delivery.queue) {
            queue.give_up(delivery.address, Reason::Rejected, &mut self.memory);
            if queue.has_new_dead_letters() {
                self.burials.push(delivery.queue);
            }
        }
        self.restore_credit(delivery.consumer);
    }

    /// A delivery was not dealt with: the message goes back to its place.
    pub(crate) fn return_delivery(&mut self, delivery: &Unacked) {
        if let Some(queue) = self.queues.get_mut(delivery.queue) {
            queue.give_back(delivery.address, delivery.was_overtaken, &mut self.memory);
        }
        self.expire_queue(delivery.queue);
        self.mark_dirty(delivery.queue);
        self.restore_credit(delivery.consumer);
    }

    #[inline]
    fn restore_credit(&mut self, consumer: Option<Key>) {
        let Some(key) = consumer else { return };
        let Some(consumer) = self.consumers.get_mut(key) else {
            return;
        };
        consumer.unacked = consumer.unacked.saturating_sub(1);
        if consumer.parked == Parked::ForCredit {
            self.wake(key, Parked::ForCredit);
        }
    }

    /// Takes a consumer away from its queue; returns the queue if it lives for consumers only and has none left.
    pub(crate) fn remove_consumer(&mut self, key: Key) -> Option<Key> {
        let consumer = self.consumers.remove(key)?;
        let queue = self.queues.get_mut(consumer.queue)?;
        if let Some(held) = consumer.held {
            queue.give_back(held.address, false, &mut self.memory);
            self.expire_queue(consumer.queue);
            if let Some(faults) = &mut self.faults {
                faults.note_held_back();
            }
            self.mark_dirty(consumer.queue);
        }
        let queue = self.queues.get_mut(consumer.queue)?;
        queue.ring.remove(key);
        queue.consumers.retain(|c| *c != key);
        queue.exclusively_consumed = false;
        (queue.flags.auto_delete && queue.consumers.is_empty()).then_some(consumer.queue)
    }
}
