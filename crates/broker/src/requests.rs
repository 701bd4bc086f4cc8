//! Clients' requests besides publishing and acknowledging.

use wire::amqp091::{
    BasicCancel, BasicConsume, BasicGet, BasicQos, BasicQosOk, BasicRecoverOk, ChannelFlowOk, ConfirmSelectOk,
    EncodeMethod, ExchangeBind, ExchangeBindOk, ExchangeDeclareOk, ExchangeDeleteOk, ExchangeUnbind, ExchangeUnbindOk,
    Method, QueueBind, QueueBindOk, QueueDeclare, QueueDeleteOk, QueuePurgeOk, QueueUnbind, QueueUnbindOk, TxCommitOk,
    TxRollbackOk, TxSelectOk,
};

use crate::arguments;
use crate::channel::{Confirms, Mode, Settlement, SettlementKind};
use crate::exchange::Destination;
use crate::log::{Cursor, Log};
use crate::queue::{Consumer, Parked, PreparedFrame};
use crate::refusal::Refusal;
use crate::session::{Peer, Reply};
use crate::slots::Key;
use crate::vhost::VirtualHost;

pub(crate) type Outcome = Result<Reply, Refusal>;

/// Deliveries of a stream that a link may have unsettled, whatever its credit: as many as a prefetch may be.
const STREAM_UNSETTLED: u32 = u16::MAX as u32;

/// The answer, unless the client wants none.
fn unless(no_wait: bool, method: impl Into<Method<'static>>) -> Reply {
    if no_wait { Reply::None } else { Reply::Method(method.into()) }
}

impl Peer {
    /// Deals with a request.
    pub(crate) fn request(&mut self, number: u16, method: &Method<'_>, vhost: &mut VirtualHost) -> Reply {
        let outcome = match method {
            _ if self.channel_mut(number).is_none() => Ok(Reply::None),
            Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_) => self.exchange_request(number, method, vhost),
            Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueueUnbind(_)
            | Method::QueuePurge(_)
            | Method::QueueDelete(_) => self.queue_request(number, method, vhost),
            Method::BasicConsume(m) => self.consume(number, m, vhost),
            Method::BasicCancel(m) => self.cancel(number, m, vhost),
            Method::BasicGet(m) => self.get(number, m, vhost),
            Method::BasicQos(m) => self.qos(number, m, vhost),
            Method::BasicRecover(m) => {
                self.recover(number, m.requeue, vhost).map(|()| Reply::Method(BasicRecoverOk {}.into()))
            }
            Method::BasicRecoverAsync(m) => self.recover(number, m.requeue, vhost).map(|()| Reply::None),
            Method::ChannelFlow(m) if m.active => Ok(Reply::Method(ChannelFlowOk { active: true }.into())),
            Method::ChannelFlow(_) => Err(Refusal::not_implemented("active=false")),
            _ => self.mode_request(number, method, vhost),
        };
        outcome.unwrap_or_else(|refusal| Reply::Refuse(refusal, method.info().id))
    }

    fn exchange_request(&mut self, _number: u16, method: &Method<'_>, vhost: &mut VirtualHost) -> Outcome {
        Ok(match method {
            Method::ExchangeDeclare(m) => {
                vhost.declare_exchange(m)?;
                unless(m.no_wait, ExchangeDeclareOk {})
            }
            Method::ExchangeDelete(m) => {
                vhost.delete_exchange(m.exchange, m.if_unused)?;
                unless(m.no_wait, ExchangeDeleteOk {})
            }
            Method::ExchangeBind(ExchangeBind { destination, source, routing_key, no_wait, arguments, .. }) => {
                let to = bound_exchange(vhost, destination)?;
                vhost.bind(source, to, routing_key, *arguments)?;
                unless(*no_wait, ExchangeBindOk {})
            }
            Method::ExchangeUnbind(ExchangeUnbind { destination, source, routing_key, no_wait, arguments, .. }) => {
                let to = bound_exchange(vhost, destination)?;
                vhost.unbind(source, to, routing_key, *arguments)?;
                unless(*no_wait, ExchangeUnbindOk {})
            }
            _ => Reply::None,
        })
    }

    fn queue_request(&mut self, number: u16, method: &Method<'_>, vhost: &mut VirtualHost) -> Outcome {
        Ok(match method {
            Method::QueueDeclare(m) => return self.declare_queue(number, m, vhost),
            Method::QueueBind(QueueBind { queue, exchange, routing_key, no_wait, arguments, .. }) => {
                let name = self.queue_name(number, queue)?;
                // RabbitMQ: an empty key together with an empty queue means that queue's name.
                let key = if queue.is_empty() && routing_key.is_empty() { &*name } else { routing_key };
                let to = Destination::Queue(vhost.queue_key(self.key, &name)?);
                vhost.bind(exchange, to, key, *arguments)?;
                unless(*no_wait, QueueBindOk {})
            }
            Method::QueueUnbind(QueueUnbind { queue, exchange, routing_key, arguments, .. }) => {
                let name = self.queue_name(number, queue)?;
                if let Some(key) = vhost.queue_names.get(&*name).copied() {
                    vhost.queue_key(self.key, &name)?;
                    vhost.unbind(exchange, Destination::Queue(key), routing_key, *arguments)?;
                }
                Reply::Method(QueueUnbindOk {}.into())
            }
            Method::QueuePurge(m) => {
                let name = self.queue_name(number, m.queue)?;
                let key = vhost.queue_key(self.key, &name)?;
                let message_count = clamp(vhost.purge(key)?);
                unless(m.no_wait, QueuePurgeOk { message_count })
            }
            Method::QueueDelete(m) => {
                let name = self.queue_name(number, m.queue)?;
                let messages = vhost.delete_queue(self.key, &name, m.if_unused, m.if_empty)?;
                unless(m.no_wait, QueueDeleteOk { message_count: clamp(messages) })
            }
            _ => Reply::None,
        })
    }

    pub(crate) fn declare_queue(&mut self, number: u16, wanted: &QueueDeclare<'_>, vhost: &mut VirtualHost) -> Outcome {
        let known = vhost.queues.len();
        let mut wanted = *wanted;
        let last = self.queue_name(number, "").ok().filter(|_| wanted.passive);
        if let Some(last) = last.as_deref().filter(|_| wanted.queue.is_empty()) {
            wanted.queue = last;
        }
        let key = vhost.declare_queue(self.key, &wanted)?;
        if wanted.exclusive && vhost.queues.len() > known {
            if self.owned.len() == self.owned.capacity() {
                self.owned.retain(|queue| vhost.queues.get(*queue).is_some());
            }
            self.owned.push(key);
        }
        let name = vhost.queues.get(key).map(|q| q.name.clone());
        if let (Some(channel), Some(name)) = (self.channel_mut(number), name) {
            channel.last_queue = name;
        }
        Ok(if wanted.no_wait { Reply::None } else { Reply::Declared(key) })
    }

    /// The queue meant: an empty name is the last one declared on the channel.
    pub(crate) fn queue_name(&mut self, number: u16, name: &str) -> Result<Box<str>, Refusal> {
        if !name.is_empty() {
            return Ok(name.into());
        }
        let last = self.channel_mut(number).map(|c| c.last_queue.clone());
        last.filter(|n| !n.is_empty()).ok_or_else(|| Refusal::missing_queue("no previously declared queue"))
    }

    fn get(&mut self, number: u16, wanted: &BasicGet<'_>, vhost: &mut VirtualHost) -> Outcome {
        let name = self.queue_name(number, wanted.queue)?;
        let queue = vhost.queue_key(self.key, &name)?;
        if vhost.queues.get(queue).is_some_and(|q| q.is_stream()) {
            return Err(Refusal::not_implemented(format_args!(
                "basic.get not supported by stream queues queue '{name}' in vhost '/'"
            )));
        }
        Ok(Reply::Get { queue, no_ack: wanted.no_ack })
    }

    fn qos(&mut self, number: u16, wanted: &BasicQos, vhost: &mut VirtualHost) -> Outcome {
        if wanted.prefetch_size > 0 {
            return Err(Refusal::not_implemented(format_args!("prefetch_size!=0 ({})", wanted.prefetch_size)));
        }
        let Some(channel) = self.channel_mut(number) else { return Ok(Reply::None) };
        let count = u32::from(wanted.prefetch_count);
        if wanted.global {
            channel.shared_prefetch = count;
            let consumers: Vec<Key> = channel.consumers.values().copied().collect();
            consumers.into_iter().for_each(|c| vhost.wake(c, Parked::ForCredit));
        } else {
            channel.prefetch = count;
        }
        Ok(Reply::Method(BasicQosOk {}.into()))
    }

    fn recover(&mut self, number: u16, requeue: bool, vhost: &mut VirtualHost) -> Result<(), Refusal> {
        if !requeue {
            return Err(Refusal::not_implemented("requeue=false"));
        }
        self.settle_now(number, Settlement { tag: 0, multiple: true, kind: SettlementKind::Requeued }, vhost);
        Ok(())
    }

    /// Confirms and transactions, of which a channel has one or the other.
    fn mode_request(&mut self, number: u16, method: &Method<'_>, vhost: &mut VirtualHost) -> Outcome {
        let Some(channel) = self.channel_mut(number) else { return Ok(Reply::None) };
        let no_transaction = || Refusal::precondition("channel is not transactional");
        Ok(match (method, &mut channel.mode) {
            (Method::ConfirmSelect(_), Mode::Transaction(_)) => {
                return Err(Refusal::precondition("cannot switch from tx to confirm mode"));
            }
            (Method::ConfirmSelect(m), mode) => {
                if matches!(mode, Mode::Plain) {
                    *mode = Mode::Confirm(Confirms::default());
                }
                unless(m.no_wait, ConfirmSelectOk {})
            }
            (Method::TxSelect(_), Mode::Confirm(_)) => {
                return Err(Refusal::precondition("cannot switch from confirm to tx mode"));
            }
            (Method::TxSelect(_), mode) => {
                if matches!(mode, Mode::Plain) {
                    *mode = Mode::Transaction(Box::default());
                }
                Reply::Method(TxSelectOk {}.into())
            }
            (Method::TxCommit(_), Mode::Transaction(_)) => {
                self.commit(number, vhost)?;
                Reply::Return(Some(TxCommitOk {}.into()))
            }
            (Method::TxRollback(_), Mode::Transaction(transaction)) => {
                transaction.messages.clear(&mut vhost.memory);
                **transaction = Default::default();
                Reply::Method(TxRollbackOk {}.into())
            }
            (Method::TxCommit(_) | Method::TxRollback(_), _) => return Err(no_transaction()),
            (other, _) => {
                return Err(Refusal::command_invalid(format_args!("unexpected method {}", other.info().name)));
            }
        })
    }
}

fn bound_exchange(vhost: &VirtualHost, name: &str) -> Result<Destination, Refusal> {
    if name.is_empty() { Err(Refusal::default_exchange()) } else { vhost.exchange_key(name).map(Destination::Exchange) }
}

fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl VirtualHost {
    fn purge(&mut self, key: Key) -> Result<u64, Refusal> {
        let Some(queue) = self.queues.get_mut(key) else { return Ok(0) };
        if queue.is_stream() {
            return Err(Refusal::not_implemented(format_args!(
                "queue.purge not supported by stream queues queue '{}' in vhost '/'",
                queue.name
            )));
        }
        Ok(queue.purge(&mut self.memory))
    }
}

impl Peer {
    pub(crate) fn consume(&mut self, number: u16, wanted: &BasicConsume<'_>, vhost: &mut VirtualHost) -> Outcome {
        let name = self.queue_name(number, wanted.queue)?;
        let key = vhost.queue_key(self.key, &name)?;
        let connection = self.key;
        let Some(channel) = self.channel_mut(number) else { return Ok(Reply::None) };
        let tag = if wanted.consumer_tag.is_empty() {
            vhost.generated_name("amq.ctag")
        } else {
            wanted.consumer_tag.to_owned()
        };
        if channel.consumers.get(&*tag).is_some_and(|c| vhost.consumers.get(*c).is_some()) {
            return Err(Refusal::not_allowed(format_args!("attempt to reuse consumer tag '{tag}'")));
        }
        // A link goes by its credit.
        let is_link = matches!(channel.mode, Mode::Session(_));
        let prefetch = Some(channel.prefetch).filter(|_| !is_link);
        let (cursor, priority) = vhost.check_consume(key, wanted, prefetch)?;
        let Some(queue) = vhost.queues.get_mut(key) else { return Ok(Reply::None) };
        // Those of a stream are never used up: nothing but its credit would bound what it leaves unsettled.
        let prefetch = if is_link && queue.is_stream() { STREAM_UNSETTLED } else { channel.prefetch };
        queue.exclusively_consumed = wanted.exclusive;
        let consumer = vhost.consumers.insert(Consumer {
            connection,
            channel: number,
            handle: 0,
            tag: tag.as_str().into(),
            queue: key,
            no_ack: wanted.no_ack,
            prefetch,
            unacked: 0,
            own: Vec::new(),
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

    pub(crate) fn cancel(&mut self, number: u16, wanted: &BasicCancel<'_>, vhost: &mut VirtualHost) -> Outcome {
        let Some(channel) = self.channel_mut(number) else { return Ok(Reply::None) };
        if let Some(consumer) = channel.consumers.remove(wanted.consumer_tag)
            && let Some(queue) = vhost.remove_consumer(consumer)
        {
            vhost.remove_queue(queue);
        }
        Ok(if wanted.no_wait { Reply::None } else { Reply::Cancelled(wanted.consumer_tag.into()) })
    }
}

impl VirtualHost {
    /// Whether a queue lets a consumer in, where it starts in a stream, and its priority.
    fn check_consume(
        &self,
        key: Key,
        wanted: &BasicConsume<'_>,
        prefetch: Option<u32>,
    ) -> Result<(Cursor, i32), Refusal> {
        let Some(queue) = self.queues.get(key) else { return Ok((Cursor::default(), 0)) };
        let place = format!("queue '{}' in vhost '/'", queue.name);
        if queue.exclusively_consumed || wanted.exclusive && !queue.consumers.is_empty() {
            return Err(Refusal::access(format_args!("{place} in exclusive use")));
        }
        if queue.is_stream() {
            return check_stream_consume(queue.log(), wanted, prefetch, &place).map(|cursor| (cursor, 0));
        }
        let priority = match wanted.arguments.get("x-priority").map(|v| (v, v.as_i64())) {
            None => 0,
            Some((_, Some(level))) => level.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            Some((other, None)) => {
                let why = arguments::not_an_integer(other);
                return Err(Refusal::precondition(format_args!("invalid arg 'x-priority' for {place}: {why}")));
            }
        };
        Ok((Cursor::default(), priority))
    }
}

/// Where a consumer starts in a stream. Without a link it needs a prefetch, and acknowledgements.
fn check_stream_consume(
    log: &Log,
    wanted: &BasicConsume<'_>,
    prefetch: Option<u32>,
    place: &str,
) -> Result<Cursor, Refusal> {
    if wanted.no_ack && prefetch.is_some() {
        return Err(Refusal::not_implemented(format_args!(
            "automatic acknowledgement not supported by stream queues {place}"
        )));
    }
    if prefetch == Some(0) {
        return Err(Refusal::precondition(format_args!("consumer prefetch count is not set for '{place}'")));
    }
    let offset = wanted.arguments.get("x-stream-offset");
    match offset.map(|o| (o, o.as_str(), o.as_i64().map(u64::try_from))) {
        None | Some((_, Some("next"), _)) => Ok(log.last()),
        Some((_, Some("first"), _)) => Ok(log.first()),
        Some((_, Some("last"), _)) => Ok(log.last_segment()),
        Some((_, _, Some(Ok(index)))) => Ok(log.at_index(index)),
        Some((other, ..)) => Err(Refusal::precondition(format_args!(
            "invalid arg 'x-stream-offset' for {place}: '{}'; the embedded broker knows first, last, next and a number",
            arguments::show(other)
        ))),
    }
}
