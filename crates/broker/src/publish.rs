//! The way of a message from a client into queues.

use wire::amqp091::{BasicPublish, DecodeMethod, MethodId};

use crate::channel::Mode;
use crate::expiries::time_to_live;
use crate::log::Record;
use crate::refusal::Refusal;
use crate::session::{Peer, Reply};
use crate::vhost::VirtualHost;

impl VirtualHost {
    /// Whether a fault refuses a message, which only a channel that confirms can tell.
    #[inline]
    fn refuses_message(&mut self, confirmed: bool) -> bool {
        let Some(faults) = &mut self.faults else {
            return false;
        };
        let refused = confirmed && faults.refuses_message();
        if !refused {
            faults.note_published();
        }
        refused
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
        let Some(channel) = self.channel_mut(number) else {
            return Reply::None;
        };
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
            self.returns
                .entry(number)
                .or_default()
                .append(record, &mut vhost.memory);
            return Reply::Return(None);
        }
        Reply::None
    }

    /// Does what a transaction collected. An exchange that has gone since loses its messages, as
    /// a publish without a transaction would.
    pub(crate) fn commit(&mut self, number: u16, vhost: &mut VirtualHost) -> Result<(), Refusal> {
        let Some(channel) = self.channel_mut(number) else {
            return Ok(());
        };
        let Mode::Transaction(transaction) = &mut channel.mode else {
            return Ok(());
        };
        let mut work = std::mem::take(&mut **transaction);
        let mut cursor = work.messages.first();
        let mut result = Ok(());
        for mandatory in work.mandatory {
            let Some((_, _, record)) = work.messages.next(&mut cursor) else {
                break;
            };
            let Some(channel) = self.channel_mut(number) else {
                break;
            };
            let (exchange, key) = (record.exchange, record.routing_key);
            result = vhost.route(exchange, key, record.properties, &mut channel.route);
            if result.is_err() {
                break;
            }
            vhost.enqueue(channel.route.queues(), &record);
            if let Some(faults) = &mut vhost.faults {
                faults.note_published();
            }
            if mandatory && channel.route.queues().is_empty() {
                self.returns
                    .entry(number)
                    .or_default()
                    .append(&record, &mut vhost.memory);
            }
        }
        work.messages.clear(&mut vhost.memory);
        for settlement in work.settlements {
            self.settle_now(number, settlement, vhost);
        }
        result
    }
}
