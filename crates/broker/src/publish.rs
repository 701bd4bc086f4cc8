//! The way of a message from a client into queues; and acknowledgements, refusals and what comes back.

use wire::amqp091::{BasicAck, BasicNack, BasicPublish, DecodeMethod, MethodId};

use crate::channel::{Mode, Settlement, SettlementKind};
use crate::dead_letters::Reason;
use crate::log::{Log, Record};
use crate::memory::Memory;
use crate::queue::{Parked, time_to_live};
use crate::refusal::Refusal;
use crate::session::{Peer, Reply};
use crate::slots::Key;
use crate::unacked::Unacked;
use crate::vhost::{RouteCache, VirtualHost};

impl VirtualHost {
    /// Whether a fault refuses a message, which only a channel that confirms can tell.
    #[inline]
    pub(crate) fn refuses_message(&mut self, confirmed: bool) -> bool {
        let Some(faults) = &mut self.faults else { return false };
        let refused = confirmed && faults.refuses_message();
        if !refused {
            faults.note_published();
        }
        refused
    }

    /// Publishes what a transaction has collected, and calls `published` with each message and whether no queue was
    /// there for it. Errors: an exchange has gone; its message and those behind it are lost.
    pub(crate) fn publish_all(
        &mut self,
        messages: &mut Log,
        route: &mut RouteCache,
        mut published: impl FnMut(&Record<'_>, bool, &mut Memory),
    ) -> Result<(), Refusal> {
        let mut cursor = messages.first();
        let mut result = Ok(());
        while let Some((_, _, record)) = messages.next(&mut cursor) {
            result = self.route(record.exchange, record.routing_key, record.properties, route);
            if result.is_err() {
                break;
            }
            self.enqueue(route.queues(), &record);
            if let Some(faults) = &mut self.faults {
                faults.note_published();
            }
            published(&record, route.queues().is_empty(), &mut self.memory);
        }
        messages.clear(&mut self.memory);
        result
    }
}

const PUBLISH: MethodId = <BasicPublish<'_> as DecodeMethod<'_>>::INFO.id;

impl Peer {
    /// Routes a message, or keeps it until its transaction commits.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        number: u16,
        record: &Record<'_>,
        mandatory: bool,
        immediate: bool,
        vhost: &mut VirtualHost,
    ) -> Reply {
        self.is_publisher = true;
        let connection = self.key;
        let Some(channel) = self.channel_mut(number) else { return Reply::None };
        if immediate {
            return Reply::Refuse(Refusal::not_implemented("immediate=true"), PUBLISH);
        }
        let (exchange, key, properties) = (record.exchange, record.routing_key, record.properties);
        // The exchange has to exist even if the message waits for a commit.
        let routed = vhost.route(exchange, key, properties, &mut channel.route);
        if let Err(refusal) = routed.and_then(|()| time_to_live(properties)) {
            return Reply::Refuse(refusal, PUBLISH);
        }
        if let Mode::Transaction(transaction) = &mut channel.mode {
            transaction.messages.append(record, &mut vhost.memory);
            transaction.mandatory.push(mandatory);
            return Reply::None;
        }
        let queues = channel.route.queues();
        let unroutable = mandatory && queues.is_empty();
        let confirmed = matches!(channel.mode, Mode::Confirm(_));
        let taken = !vhost.refuses_message(confirmed) && vhost.enqueue(queues, record);
        if let Mode::Confirm(confirms) = &mut channel.mode {
            confirms.published += 1;
            if !taken {
                confirms.refused.push(confirms.published);
            }
            if let Some(faults) = &mut vhost.faults
                && let Some(due) = faults.confirm_due().and_then(|due| confirms.delay(due))
            {
                faults.confirm_later(due, connection, number);
            }
            if !std::mem::replace(&mut confirms.is_due, true) {
                self.due_confirm(number);
            }
        }
        if unroutable {
            self.returns.entry(number).or_default().append(record, &mut vhost.memory);
            return Reply::Return(None);
        }
        Reply::None
    }

    /// Does what a transaction collected. An exchange that has gone since loses its messages, as
    /// a publish without a transaction would.
    pub(crate) fn commit(&mut self, number: u16, vhost: &mut VirtualHost) -> Result<(), Refusal> {
        let Some(channel) = self.channel_mut(number) else { return Ok(()) };
        let Mode::Transaction(transaction) = &mut channel.mode else { return Ok(()) };
        let mut work = std::mem::take(&mut **transaction);
        let mut route = std::mem::take(&mut channel.route);
        let mut mandatory = work.mandatory.iter();
        let result = vhost.publish_all(&mut work.messages, &mut route, |record, is_unroutable, memory| {
            if mandatory.next() == Some(&true) && is_unroutable {
                self.returns.entry(number).or_default().append(record, memory);
            }
        });
        if let Some(channel) = self.channel_mut(number) {
            channel.route = route;
        }
        for settlement in work.settlements {
            self.settle_now(number, settlement, vhost);
        }
        result
    }
}

impl Peer {
    /// Settles deliveries, or keeps the settlement until its transaction commits.
    #[inline]
    pub(crate) fn settle(&mut self, number: u16, settlement: Settlement, vhost: &mut VirtualHost) -> Reply {
        let Some(channel) = self.channel_mut(number) else { return Reply::None };
        let Settlement { tag, multiple, kind } = settlement;
        if !(channel.deliveries.contains(tag) || tag == 0 && multiple) {
            let cause = match kind {
                SettlementKind::Accepted => BasicAck::INFO.id,
                SettlementKind::Rejected | SettlementKind::Requeued | SettlementKind::Failed => BasicNack::INFO.id,
            };
            return Reply::Refuse(Refusal::precondition(format_args!("unknown delivery tag {tag}")), cause);
        }
        if let Mode::Transaction(transaction) = &mut channel.mode {
            transaction.settlements.push(settlement);
        } else {
            self.settle_now(number, settlement, vhost);
        }
        Reply::None
    }

    /// Settles deliveries. Tags that no longer wait are left alone.
    pub(crate) fn settle_now(&mut self, number: u16, settlement: Settlement, vhost: &mut VirtualHost) {
        let Some(channel) = self.channel_mut(number) else { return };
        let Settlement { tag, multiple, kind } = settlement;
        let finish = kind.finish();
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
            consumers.into_iter().for_each(|c| vhost.wake(c, Parked::ForCredit));
        }
    }
}

impl SettlementKind {
    /// The way of a delivery that was settled so.
    pub(crate) fn finish(self) -> fn(&mut VirtualHost, &Unacked) {
        match self {
            Self::Accepted => VirtualHost::settle_delivery,
            Self::Rejected => VirtualHost::reject_delivery,
            Self::Requeued => VirtualHost::return_delivery,
            Self::Failed => VirtualHost::return_failed,
        }
    }
}

impl VirtualHost {
    /// A delivery was dealt with: the message is forgotten.
    #[inline]
    fn settle_delivery(&mut self, delivery: &Unacked) {
        if let Some(queue) = self.queues.get_mut(delivery.queue) {
            queue.settle(delivery.address, &mut self.memory);
        }
        self.restore_credit(delivery);
    }

    /// A delivery was refused for good: the message goes to where its queue sends dead letters.
    fn reject_delivery(&mut self, delivery: &Unacked) {
        if let Some(queue) = self.queues.get_mut(delivery.queue) {
            queue.give_up(delivery.address, Reason::Rejected, &mut self.memory);
            if queue.has_new_dead_letters() {
                self.burials.push(delivery.queue);
            }
        }
        self.restore_credit(delivery);
    }

    /// A delivery failed, or its channel is gone: the message goes back to its place, and this counts.
    pub(crate) fn return_failed(&mut self, delivery: &Unacked) {
        self.return_delivery(&Unacked { failures: delivery.failures.saturating_add(1), ..*delivery });
    }

    /// A delivery was not dealt with: the message goes back to its place.
    pub(crate) fn return_delivery(&mut self, delivery: &Unacked) {
        if let Some(queue) = self.queues.get_mut(delivery.queue) {
            queue.give_back(delivery.address, delivery.was_overtaken, delivery.failures, &mut self.memory);
        }
        self.expire_queue(delivery.queue);
        self.mark_dirty(delivery.queue);
        self.restore_credit(delivery);
    }

    #[inline]
    fn restore_credit(&mut self, delivery: &Unacked) {
        if delivery.is_of_stream {
            self.memory.release_stream_delivery();
        }
        let Some(key) = delivery.consumer else { return };
        let Some(consumer) = self.consumers.get_mut(key) else { return };
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
            queue.give_back(held.address, false, 0, &mut self.memory);
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
