//! Deliveries that a script of faults may hit.

use crate::consumer::{Consumer, Held};
use crate::faults::{DeliveryFault, Faults};
use crate::log::Record;
use crate::memory::Memory;
use crate::outgoing;
use crate::queue::Queue;
use crate::session::Session;
use crate::slots::Key;
use crate::unacked::{self, Unacked};

/// A message on its way to a consumer, where a script of faults is played.
pub(crate) struct Handover<'a> {
    pub(crate) consumer_key: Key,
    pub(crate) consumer: &'a mut Consumer,
    pub(crate) session: &'a mut Session,
}

/// A delivery of a message to a consumer.
#[derive(Clone, Copy)]
struct Delivery {
    address: u64,
    redelivered: bool,
    /// It was held back until others had gone first.
    was_overtaken: bool,
}

impl Delivery {
    const fn of(address: u64, redelivered: bool) -> Self {
        Self {
            address,
            redelivered,
            was_overtaken: false,
        }
    }
}

impl Handover<'_> {
    /// Sends a message; tells whether it could.
    fn send(&mut self, delivery: Delivery, record: &Record<'_>) -> bool {
        let Session { server, peer } = &mut *self.session;
        let consumer = &mut *self.consumer;
        let Some(channel) = peer.channel_mut(consumer.channel) else {
            return false;
        };
        let tag = if consumer.no_ack {
            channel.deliveries.next_tag()
        } else {
            let holder = (delivery.address != unacked::NOTHING).then_some(self.consumer_key);
            consumer.unacked += u32::from(holder.is_some());
            channel.deliveries.push(Unacked {
                queue: consumer.queue,
                address: delivery.address,
                consumer: holder,
                was_overtaken: delivery.was_overtaken,
            })
        };
        let sent = outgoing::deliver(server, consumer, tag, delivery.redelivered, record);
        // Nothing can be sent to a connection that failed; its transport's end cleans up.
        peer.is_finished |= sent.is_err();
        true
    }

    /// Takes the next message and does to it what a script says.
    pub(crate) fn deliver_next(
        &mut self,
        queue: &mut Queue,
        faults: &mut Faults,
        memory: &mut Memory,
    ) {
        let holds = self.consumer.held.is_some();
        let Some(taken) = queue.take() else { return };
        let (address, redelivered, record) = (taken.address, taken.redelivered, taken.record);
        let fault = if redelivered {
            faults.note_redelivered(taken.was_overtaken);
            DeliveryFault::Pass
        } else {
            faults.delivery(record.body.len(), holds)
        };
        match fault {
            DeliveryFault::Lose => {
                queue.settle(address, memory);
                return;
            }
            DeliveryFault::Hold { by, rule } => {
                self.consumer.held = Some(Held {
                    address,
                    left: by,
                    is_overtaken: false,
                    until: faults.hold(self.consumer_key),
                    rule,
                });
                return;
            }
            DeliveryFault::Corrupt { byte, mask } => {
                let mut body = std::mem::take(&mut faults.body);
                body.clear();
                body.extend_from_slice(record.body);
                if let Some(byte) = body.get_mut(byte) {
                    *byte ^= mask;
                }
                let damaged = Record {
                    body: &body,
                    ..record
                };
                self.send(Delivery::of(address, redelivered), &damaged);
                faults.body = body;
            }
            DeliveryFault::Pass => {
                self.send(Delivery::of(address, redelivered), &record);
            }
            DeliveryFault::Duplicate { redelivered: flag } => {
                self.send(Delivery::of(address, redelivered), &record);
                // Settling the copy changes nothing.
                self.send(Delivery::of(unacked::NOTHING, flag), &record);
            }
        }
        if self.consumer.no_ack {
            queue.settle(address, memory);
        }
        // One that says nothing of its sender overtakes nobody, nor does one that comes again.
        let overtakes = !redelivered && !matches!(fault, DeliveryFault::Corrupt { .. });
        if overtakes && let Some(held) = &mut self.consumer.held {
            held.is_overtaken = true;
            held.left -= 1;
            if held.left == 0 {
                self.release(queue, faults, memory);
            }
        }
    }

    /// Sends what was held back.
    pub(crate) fn release(&mut self, queue: &mut Queue, faults: &mut Faults, memory: &mut Memory) {
        let Some(held) = self.consumer.held.take() else {
            return;
        };
        let Some(record) = queue.log().get(held.address) else {
            return;
        };
        faults.count(held.rule, u64::from(held.is_overtaken));
        let delivery = Delivery {
            was_overtaken: held.is_overtaken,
            ..Delivery::of(held.address, false)
        };
        let sent = self.send(delivery, &record);
        if sent && self.consumer.no_ack {
            queue.settle(held.address, memory);
        }
    }
}
