//! Consumers come and go.

use wire::amqp091::{BasicCancel, BasicConsume};

use crate::arguments;
use crate::consumer::{Consumer, Parked, PreparedFrame};
use crate::log::Cursor;
use crate::refusal::Refusal;
use crate::requests::Outcome;
use crate::session::{Peer, Reply};
use crate::slots::Key;
use crate::vhost::VirtualHost;

/// How a consumer is let in.
struct Admission {
    /// Where it starts, in a stream.
    cursor: Cursor,
    priority: i32,
}

impl Peer {
    pub(crate) fn consume(
        &mut self,
        number: u16,
        wanted: &BasicConsume<'_>,
        vhost: &mut VirtualHost,
    ) -> Outcome {
        let name = self.queue_name(number, wanted.queue)?;
        let key = vhost.queue_key(self.key, &name)?;
        let connection = self.key;
        let Some(channel) = self.channel_mut(number) else {
            return Ok(Reply::None);
        };
        let tag = if wanted.consumer_tag.is_empty() {
            vhost.generated_name("amq.ctag")
        } else {
            wanted.consumer_tag.to_owned()
        };
        if channel
            .consumers
            .get(&*tag)
            .is_some_and(|c| vhost.consumers.get(*c).is_some())
        {
            let text = format!("attempt to reuse consumer tag '{tag}'");
            return Err(Refusal::not_allowed(&text));
        }
        let Admission { cursor, priority } = vhost.check_consume(key, wanted, channel.prefetch)?;
        let Some(queue) = vhost.queues.get_mut(key) else {
            return Ok(Reply::None);
        };
        queue.exclusively_consumed = wanted.exclusive;
        let consumer = vhost.consumers.insert(Consumer {
            connection,
            channel: number,
            tag: tag.as_str().into(),
            queue: key,
            no_ack: wanted.no_ack,
            prefetch: channel.prefetch,
            unacked: 0,
            priority,
            parked: Parked::No,
            cursor,
            prepared: PreparedFrame::default(),
            held: None,
        });
        queue.consumers.push(consumer);
        queue.ring.push(consumer, priority);
        channel.consumers.insert(tag.into(), consumer);
        Ok(Reply::Consuming(consumer, wanted.no_wait))
    }

    pub(crate) fn cancel(
        &mut self,
        number: u16,
        wanted: &BasicCancel<'_>,
        vhost: &mut VirtualHost,
    ) -> Outcome {
        let Some(channel) = self.channel_mut(number) else {
            return Ok(Reply::None);
        };
        if let Some(consumer) = channel.consumers.remove(wanted.consumer_tag)
            && let Some(queue) = vhost.remove_consumer(consumer)
        {
            vhost.remove_queue(queue);
        }
        Ok(if wanted.no_wait {
            Reply::None
        } else {
            Reply::Cancelled(wanted.consumer_tag.into())
        })
    }
}

impl VirtualHost {
    /// Whether and how a queue lets a consumer in.
    fn check_consume(
        &self,
        key: Key,
        wanted: &BasicConsume<'_>,
        prefetch: u32,
    ) -> Result<Admission, Refusal> {
        let open = Admission {
            cursor: Cursor::default(),
            priority: 0,
        };
        let Some(queue) = self.queues.get(key) else {
            return Ok(open);
        };
        let place = format!("queue '{}' in vhost '/'", queue.name);
        if queue.exclusively_consumed || wanted.exclusive && !queue.consumers.is_empty() {
            return Err(Refusal::access(&format!("{place} in exclusive use")));
        }
        if queue.is_stream() {
            return self.check_stream_consume(key, wanted, prefetch, &place);
        }
        let priority = match wanted.arguments.get("x-priority").map(|v| (v, v.as_i64())) {
            None => 0,
            Some((_, Some(level))) => level.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            Some((other, None)) => {
                let why = arguments::not_an_integer(other);
                let text = format!("invalid arg 'x-priority' for {place}: {why}");
                return Err(Refusal::precondition(&text));
            }
        };
        Ok(Admission { priority, ..open })
    }

    fn check_stream_consume(
        &self,
        key: Key,
        wanted: &BasicConsume<'_>,
        prefetch: u32,
        place: &str,
    ) -> Result<Admission, Refusal> {
        if wanted.no_ack {
            let text = format!("automatic acknowledgement not supported by stream queues {place}");
            return Err(Refusal::not_implemented(&text));
        }
        if prefetch == 0 {
            let text = format!("consumer prefetch count is not set for '{place}'");
            return Err(Refusal::precondition(&text));
        }
        let Some(log) = self.queues.get(key).map(|q| q.log()) else {
            return Ok(Admission {
                cursor: Cursor::default(),
                priority: 0,
            });
        };
        let offset = wanted.arguments.get("x-stream-offset");
        let cursor = match offset.map(|o| (o, o.as_str(), o.as_i64().map(u64::try_from))) {
            None | Some((_, Some("next"), _)) => log.last(),
            Some((_, Some("first"), _)) => log.first(),
            Some((_, Some("last"), _)) => log.last_segment(),
            Some((_, _, Some(Ok(index)))) => log.at_index(index),
            Some((other, ..)) => {
                return Err(Refusal::precondition(&format!(
                    "invalid arg 'x-stream-offset' for {place}: '{}'; the embedded broker knows \
                     first, last, next and a number",
                    arguments::show(other)
                )));
            }
        };
        Ok(Admission {
            cursor,
            priority: 0,
        })
    }
}
