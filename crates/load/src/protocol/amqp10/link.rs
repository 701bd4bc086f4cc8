//! One client's link, and the way to send and settle over it.

mod transaction;

use wire::amqp10::{
    Amqp10Client, Amqp10Error, Attach, Composite, DeliveryState, Descriptor, Flow, HeaderSection, MessageHead,
    Modified, PropertiesSection, Rejected, Source, Symbol, Target, TransferTemplate, TypedValue, put_descriptor,
    put_map,
};
use wire::amqp091::Reader;

pub(super) use self::transaction::{BEGIN, COMMIT, COORDINATOR, CoordinatorAnswer};
use self::transaction::{LONGEST_ID, TransactionStep, Transactions};
use super::address::{Dialect, LinkNode};
use crate::failure::one_line;
use crate::protocol::{BodyLengths, Outgoing, Receiver, Sender};
use crate::{Ack, Argument, Destination, Error, Group, Guarantee, MessageProperties, QueueType, StreamOffset};
use plan::payload::{FULL_LEN, TRACE_HEADER};

/// The handle of each client's own link, in a session of its own.
pub(super) const HANDLE: u32 = 0;
/// Stands in the action of a consumer before its selector.
pub(super) const BY_SELECTOR: &str = " by the selector ";
/// The header that is the property `group-id`, as JMS maps it: brokers look for a message's group there.
const GROUP_ID: &str = "JMSXGroupID";
/// Messages that may be on their way to a consumer which settles none, or without limit.
const UNLIMITED: u32 = 2_000;
/// Fences that are put up one after the other where brokers say each time that more comes.
const MOST_FENCES: u32 = 100;

#[derive(Clone, Debug)]
pub(crate) enum LinkSpec {
    Producer(Box<Sending>),
    Consumer(Receiving),
    /// Questions to the broker's management, and its answers.
    Management,
}

/// How messages are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    node: LinkNode,
    /// Nothing is answered.
    settled: bool,
    transacted: bool,
    persistent: bool,
    properties: MessageProperties,
    has_trace_header: bool,
    bodies: BodyLengths,
}

/// How messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    node: LinkNode,
    /// Messages are settled when they are sent.
    settled: bool,
    transacted: bool,
    /// The most that may be on their way or not settled.
    credit: u32,
    /// Whether `credit` counts those that are not settled.
    is_limit: bool,
    /// It begins when the load says so.
    later: bool,
    /// Where in a stream it begins.
    offset: Option<StreamOffset>,
    /// The expression that is true of what it takes.
    selector: Option<String>,
}

impl LinkSpec {
    pub(super) fn is_transacted(&self) -> bool {
        match self {
            Self::Producer(it) => it.transacted,
            Self::Consumer(it) => it.transacted,
            Self::Management => false,
        }
    }

    /// The link of a group's `n`-th consumer.
    pub(super) fn consumer(group: &Group, n: usize, later: bool) -> Self {
        let wanted = &group.consumers;
        let prefetch = u32::try_from(wanted.most_unacked()).unwrap_or(u32::MAX);
        let settled = wanted.ack == Ack::Auto;
        let transacted = wanted.commit_every > 0;
        let is_stream = group.destinations[n % group.destinations.len()].amqp091.queue_type == QueueType::Stream;
        Self::Consumer(Receiving {
            node: LinkNode::consumed(group, n),
            settled,
            transacted,
            credit: if prefetch == 0 { UNLIMITED.max(wanted.commit_every) } else { prefetch },
            // What waits for a transaction must not grow.
            is_limit: (prefetch > 0 || transacted) && !settled,
            later,
            offset: is_stream.then_some(wanted.amqp091.stream_offset),
            selector: wanted.selector.clone(),
        })
    }

    pub(super) fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Self {
        let wanted = &group.producers;
        Self::Producer(Box::new(Sending {
            node: LinkNode::published(destination),
            settled: wanted.guarantee == Guarantee::Unconfirmed,
            transacted: wanted.guarantee.commit_every() > 0,
            persistent: wanted.persistent,
            properties: outgoing.properties,
            has_trace_header: wanted.has_trace_header(),
            bodies: outgoing.bodies,
        }))
    }
}

/// One client's link, in a session of its own.
pub(super) struct Link {
    spec: LinkSpec,
    /// The names that the broker has, once it is known.
    pub(super) dialect: Dialect,
    /// Once it is attached, where it sends.
    template: Option<TransferTemplate>,
    /// A message's body, where all are of one length.
    body: Vec<u8>,
    /// Frames of the largest message.
    frames: u32,
    sent: u64,
    /// Delivery id on the wire that its first delivery to be settled would have if none before it had been aborted, how
    /// many there were, and up to which all are settled.
    first: u32,
    received: u64,
    settled: u64,
    /// From which delivery on numbers on the wire are ahead of ours by how many that were aborted.
    aborted: Vec<(u64, u32)>,
    /// Messages that it may be let have more.
    spare: u32,
    transactions: Option<Box<Transactions>>,
    /// The largest frame that the broker takes, in bytes, once it is attached.
    frame_max: u32,
    /// An answer is awaited that comes after everything else.
    pub(super) is_fenced: bool,
    /// It is to be asked for once more, which was done so often.
    is_unasked: bool,
    fences: u32,
}

impl Link {
    pub(super) fn new(spec: LinkSpec) -> Self {
        let mut body = Vec::new();
        if let LinkSpec::Producer(it) = &spec
            && let BodyLengths::Same(len) = it.bodies
        {
            body.resize(len, 0);
        }
        Self {
            transactions: spec.is_transacted().then(|| Box::new(Transactions::new())),
            frame_max: 0,
            spec,
            dialect: Dialect::default(),
            template: None,
            body,
            frames: 1,
            sent: 0,
            first: 0,
            received: 0,
            settled: 0,
            aborted: Vec::new(),
            spare: 0,
            is_fenced: false,
            is_unasked: false,
            fences: 0,
        }
    }

    pub(super) fn restart(&mut self) {
        (self.template, self.is_fenced, self.is_unasked, self.fences) = (None, false, false, 0);
        if let Some(transactions) = &mut self.transactions {
            **transactions = Transactions::new();
        }
        self.aborted.clear();
        (self.sent, self.first, self.received, self.settled, self.spare) = (0, 0, 0, 0, 0);
    }

    pub(super) const fn is_sender(&self) -> bool {
        matches!(self.spec, LinkSpec::Producer(_))
    }

    pub(super) const fn is_transactional(&self) -> bool {
        self.transactions.is_some()
    }

    /// Whether all commits that were asked for are answered.
    pub(super) fn is_committed(&self) -> bool {
        self.transactions.as_ref().is_none_or(|it| it.is_done())
    }

    /// Answers that its set-up waits for.
    pub(super) fn set_up_answers(&self) -> usize {
        1 + usize::from(self.is_transactional())
    }

    /// Purpose of attaching it, as in "cannot ...".
    pub(super) fn action(&self) -> String {
        match &self.spec {
            LinkSpec::Producer(it) => format!("send to {}", one_line(it.node.address(self.dialect))),
            LinkSpec::Consumer(it) => {
                let by = it.selector.as_ref().map_or_else(String::new, |it| format!("{BY_SELECTOR}{it:?}"));
                format!("receive from {}{by}", one_line(it.node.address(self.dialect)))
            }
            LinkSpec::Management => "manage queues".to_owned(),
        }
    }

    pub(super) fn attach(&mut self, session: u16, name: &str, client: &mut Amqp10Client) -> Result<(), Amqp10Error> {
        client.begin(session)?;
        let (mut source, mut target) = (Source::default(), Target::default());
        let (node, settled) = match &self.spec {
            LinkSpec::Producer(it) => (&it.node, it.settled),
            LinkSpec::Consumer(it) => (&it.node, it.settled),
            LinkSpec::Management => return Ok(()),
        };
        let is_receiver = !self.is_sender();
        let address = TypedValue::Str(node.address(self.dialect));
        let capabilities = node.capabilities(self.dialect);
        match is_receiver {
            true => (source.address, source.capabilities) = (address, capabilities),
            false => (target.address, target.capabilities) = (address, capabilities),
        }
        let mut filter = Vec::new();
        if let LinkSpec::Consumer(spec) = &self.spec
            && (spec.offset.is_some() || spec.selector.is_some())
        {
            put_filters(&mut filter, spec.offset, spec.selector.as_deref(), self.dialect);
            source.filter = TypedValue::read(&mut Reader::new(&filter)).unwrap_or_default();
        }
        let mut encoded = Vec::new();
        target.write(&mut encoded);
        let attach = Attach {
            name,
            handle: HANDLE,
            is_receiver,
            snd_settle_mode: Some(u8::from(settled)),
            rcv_settle_mode: Some(0),
            source: Some(source),
            target: TypedValue::read(&mut Reader::new(&encoded)).unwrap_or_default(),
            initial_delivery_count: (!is_receiver).then_some(0),
            ..Attach::default()
        };
        client.attach(session, &attach)?;
        self.frame_max = client.frame_max();
        if self.is_transactional() {
            Transactions::attach(session, name, client)?;
        }
        if let LinkSpec::Producer(sending) = &self.spec {
            // Of the first transaction the id is not known yet.
            let transaction = self.transactions.as_ref().map(|_| [0; LONGEST_ID]);
            let (template, frames) =
                sending.template(session, transaction.as_ref().map(|id| &id[..]), self.frame_max)?;
            (self.template, self.frames) = (Some(template), frames);
        }
        Ok(())
    }

    /// Lets a consumer have its first messages.
    pub(super) fn begin(&mut self, session: u16, client: &mut Amqp10Client) {
        if let LinkSpec::Consumer(Receiving { credit, later: false, .. }) = self.spec {
            client.flow(session, HANDLE, credit, false);
        }
    }

    /// Takes a delivery and tells its number; `None` where it is not the next. With a limit it takes credit until it is
    /// acknowledged, even where the broker has settled it.
    #[inline]
    pub(super) fn received(&mut self, id: u32) -> Option<u64> {
        let LinkSpec::Consumer(spec) = &self.spec else { return None };
        let (all_settled, is_limit) = (spec.settled, spec.is_limit);
        if self.received == 0 {
            self.first = id;
        }
        if id != self.wire_id(self.received + 1) {
            return None;
        }
        self.received += 1;
        if all_settled {
            self.settled = self.received;
        }
        self.spare += u32::from(!is_limit);
        Some(self.received)
    }

    /// Takes that a delivery was given up before its end; false where it is not the next.
    #[cold]
    pub(super) fn aborted(&mut self, id: u32) -> bool {
        // It took credit.
        self.spare += 1;
        let next = self.received + 1;
        if self.received == 0 {
            return true;
        }
        if id != self.wire_id(next) {
            return false;
        }
        let all = self.aborted.last().map_or(0, |it| it.1).wrapping_add(1);
        match self.aborted.last_mut() {
            Some((from, ahead)) if *from == next => *ahead = all,
            _ => self.aborted.push((next, all)),
        }
        // What is settled is never asked for again, but for how many there were.
        let settled = self.aborted.partition_point(|(from, _)| *from <= self.settled + 1);
        if settled > self.aborted.len() / 2 {
            self.aborted.drain(..settled - 1);
        }
        true
    }

    /// The number on the wire of the delivery that is ours by this one.
    fn wire_id(&self, tag: u64) -> u32 {
        let before = self.aborted.partition_point(|(from, _)| *from <= tag);
        let ahead = before.checked_sub(1).and_then(|at| self.aborted.get(at)).map_or(0, |it| it.1);
        self.first.wrapping_add((tag - 1) as u32).wrapping_add(ahead)
    }

    /// The first and the last message, counted from 1, of a range of numbers on the wire; `None` where one of them was
    /// never sent.
    #[inline]
    pub(super) fn tags_of(&self, first: u32, last: u32) -> Option<(u64, u64)> {
        let tag = self.tag_of(first);
        let end = tag + u64::from(last.wrapping_sub(first));
        (end <= self.sent).then_some((tag, end))
    }

    /// Which message of the link, counted from 1, a number on the wire means; those wrap. What is not sent yet is the
    /// next one.
    fn tag_of(&self, id: u32) -> u64 {
        let id = id.wrapping_sub(self.transactions.as_ref().map_or(0, |it| it.requests_before));
        let behind = (self.sent as u32).wrapping_sub(id);
        match self.sent.checked_sub(behind as u64) {
            Some(before) if behind <= u32::MAX / 2 => before + 1,
            _ => self.sent + 1,
        }
    }

    /// Why no message of the largest size would ever leave, where the peer has told its limits: frames in a session,
    /// and bytes of a message; 0 for none.
    pub(super) fn oversized(&self, window: u32, max_message_size: u64) -> Option<(String, &'static str)> {
        let (LinkSpec::Producer(spec), Some(template)) = (&self.spec, &self.template) else { return None };
        let (BodyLengths::Same(most) | BodyLengths::Between(_, most)) = spec.bodies;
        let len = template.message_len(most);
        if window > 0 && self.frames > window {
            let detail =
                format!("a message of {len} bytes takes {} frames, the broker takes {window} at a time", self.frames);
            return Some((
                detail,
                "send smaller messages (message-size), or allow larger frames, here (frame-max) and in the broker",
            ));
        }
        (max_message_size > 0 && len > max_message_size).then(|| {
            let detail = format!("a message takes {len} bytes, the broker takes {max_message_size} at most");
            (detail, "send smaller messages (message-size), or raise max_message_size in RabbitMQ's configuration")
        })
    }

    /// Whether it asked for a selector that is none of the filters which the broker says it applies.
    pub(super) fn lacks_selector(&self, applied: TypedValue<'_>) -> bool {
        let [name, _] = self.dialect.selector();
        let found = if let TypedValue::Map(items) = applied { items.get(name) } else { None };
        // Null stands for a filter that is not applied.
        let value = match found {
            Some(TypedValue::Described(it)) => it.value().ok(),
            found => found,
        };
        let is_applied = value.is_some_and(|it| it != TypedValue::Null);
        !is_applied && matches!(&self.spec, LinkSpec::Consumer(Receiving { selector: Some(_), .. }))
    }

    /// Takes a flow from a broker that has counted all messages; tells whether a fence waited for it. One that says
    /// that more comes is no answer yet, but was sent for reasons of its own: the question is asked once more.
    pub(super) fn passes_fence(&mut self, flow: &Flow<'_>) -> bool {
        let more_comes = !self.is_sender() && flow.available > Some(0) && flow.link_credit > Some(0);
        if self.is_fenced && more_comes && self.fences < MOST_FENCES {
            self.fences += 1;
            self.is_unasked = true;
            return false;
        }
        self.fences = 0;
        std::mem::take(&mut self.is_fenced)
    }

    /// Whether it may have something to send: credit, steps of transactions, or a fence.
    pub(super) const fn is_untended(&self) -> bool {
        self.is_transactional() || self.is_unasked
    }

    /// Whether it should be let have more messages.
    #[inline]
    pub(super) const fn is_hungry(&self) -> bool {
        match &self.spec {
            LinkSpec::Consumer(spec) => self.spare > 0 && self.spare >= spec.credit / 2,
            LinkSpec::Producer(_) | LinkSpec::Management => false,
        }
    }

    /// Sends what is due: steps of transactions, and credit.
    #[inline]
    pub(super) fn tend(&mut self, session: u16, client: &mut Amqp10Client) {
        if let Some(transactions) = &mut self.transactions {
            let settled = transactions.work_off(session, client);
            self.give_back(settled);
        }
        if std::mem::take(&mut self.is_unasked) {
            client.flow(session, HANDLE, 0, true);
        }
        if self.is_hungry() {
            client.flow(session, HANDLE, std::mem::take(&mut self.spare), false);
        }
    }

    /// So many deliveries are settled.
    #[inline]
    const fn give_back(&mut self, settled: u32) {
        if let LinkSpec::Consumer(Receiving { is_limit: true, .. }) = self.spec {
            self.spare += settled;
        }
    }
}

/// Attaches a link of the first session to send over, which leads to a queue of this name and is not used.
pub(super) fn attach_unused(name: &str, dialect: Dialect, client: &mut Amqp10Client) -> Result<(), Amqp10Error> {
    let node = LinkNode::published(&Destination::queue(name));
    let (address, capabilities) = (TypedValue::Str(node.address(dialect)), node.capabilities(dialect));
    let mut target = Vec::new();
    Target { address, capabilities, ..Target::default() }.write(&mut target);
    let attach = Attach {
        name,
        handle: HANDLE,
        source: Some(Source::default()),
        target: TypedValue::read(&mut Reader::new(&target)).unwrap_or_default(),
        initial_delivery_count: Some(0),
        ..Attach::default()
    };
    client.attach(0, &attach)
}

impl Sending {
    /// The template of its messages, which belong to this transaction, and how many frames the largest takes.
    fn template(
        &self,
        session: u16,
        transaction: Option<&[u8]>,
        frame_max: u32,
    ) -> Result<(TransferTemplate, u32), Amqp10Error> {
        let given = &self.properties;
        let mut all = application_properties(given);
        if self.has_trace_header {
            all.push((TRACE_HEADER, TypedValue::Binary(&[0; FULL_LEN])));
        }
        let message = MessageHead {
            header: HeaderSection {
                durable: Some(self.persistent),
                priority: given.priority,
                ttl: given.expiration.as_deref().and_then(|text| text.parse().ok()),
                ..HeaderSection::default()
            },
            properties: properties(given),
            application_properties: &all,
        };
        let template = match transaction {
            None => TransferTemplate::new(session, HANDLE, self.settled, &message, frame_max),
            Some(id) => TransferTemplate::transactional(session, HANDLE, id, &message, frame_max),
        }?;
        let (BodyLengths::Same(most) | BodyLengths::Between(_, most)) = self.bodies;
        let frames = template.wire_len(most).0;
        Ok((template, frames))
    }
}

/// The name of the filter by which RabbitMQ knows where a consumer begins in a stream, and its descriptor.
const OFFSET: &str = "rabbitmq:stream-offset-spec";

/// Appends the filters of a consumer: where in a stream it begins, and what it takes.
fn put_filters(out: &mut Vec<u8>, offset: Option<StreamOffset>, selector: Option<&str>, dialect: Dialect) {
    let offset = offset.map(|offset| match offset {
        StreamOffset::First => TypedValue::Str("first"),
        StreamOffset::Last => TypedValue::Str("last"),
        StreamOffset::Next => TypedValue::Str("next"),
        StreamOffset::Offset(offset) => TypedValue::Ulong(offset),
        StreamOffset::Time(unix_s) => TypedValue::Timestamp(unix_s.saturating_mul(1_000).cast_signed()),
    });
    let filters = [([OFFSET; 2], offset), (dialect.selector(), selector.map(TypedValue::Str))];
    put_map(out, |out| {
        let mut values = 0;
        for ([name, descriptor], value) in filters {
            if let Some(value) = value {
                TypedValue::Symbol(Symbol(name)).write(out);
                put_descriptor(out, Descriptor::Name(Symbol(descriptor)));
                value.write(out);
                values += 2;
            }
        }
        values
    });
}

/// Headers, but for the one that is a property of its own.
fn application_properties(given: &MessageProperties) -> Vec<(&str, TypedValue<'_>)> {
    let all = given.headers.iter().map(|(name, value)| match value {
        Argument::Flag(flag) => (name.as_str(), TypedValue::Bool(*flag)),
        Argument::Integer(number) => (name.as_str(), TypedValue::Long(*number)),
        Argument::Text(text) => (name.as_str(), TypedValue::Str(text)),
    });
    all.filter(|(name, value)| *name != GROUP_ID || value.as_str().is_none()).collect()
}

fn properties(given: &MessageProperties) -> PropertiesSection<'_> {
    fn value(text: Option<&String>) -> TypedValue<'_> {
        text.map_or(TypedValue::Null, |text| TypedValue::Str(text))
    }
    PropertiesSection {
        message_id: value(given.message_id.as_ref()),
        user_id: given.user_id.as_deref().map(str::as_bytes),
        reply_to: value(given.reply_to.as_ref()),
        correlation_id: value(given.correlation_id.as_ref()),
        content_type: given.content_type.as_deref().map(Symbol),
        content_encoding: given.content_encoding.as_deref().map(Symbol),
        creation_time: given.timestamp.map(|s| s.saturating_mul(1_000).cast_signed()),
        group_id: match given.headers.get(GROUP_ID) {
            Some(Argument::Text(group)) => Some(group),
            _ => None,
        },
        ..PropertiesSection::default()
    }
}

/// The way to send and settle over one client's link.
pub(crate) struct LinkHandle<'a> {
    pub(super) client: &'a mut Amqp10Client,
    pub(super) link: &'a mut Link,
    pub(super) session: u16,
}

impl LinkHandle<'_> {
    fn settle(&mut self, tag: u64, multiple: bool, state: DeliveryState<'_>) {
        let link = &mut *self.link;
        let first = if multiple { link.settled + 1 } else { tag };
        if first > tag || tag > link.received {
            return;
        }
        if first == link.settled + 1 {
            link.settled = tag;
        }
        let (from, to, count) = (link.wire_id(first), link.wire_id(tag), (tag - first + 1) as u32);
        if let Some(transactions) = &mut link.transactions {
            transactions.push(TransactionStep::Accept { from, to, count });
        } else {
            self.client.settle(self.session, from, to, state);
            link.give_back(count);
        }
        link.tend(self.session, self.client);
    }

    fn commit_all(&mut self) {
        if let Some(transactions) = &mut self.link.transactions {
            transactions.push(TransactionStep::Commit);
        }
        self.link.tend(self.session, self.client);
    }
}

impl Sender for LinkHandle<'_> {
    #[inline]
    fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        if let Some(template) = &self.link.template {
            self.client.publish(template, &self.link.body, fill);
            self.link.sent += 1;
        }
    }

    #[inline]
    fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        if let Some(template) = &self.link.template {
            self.client.publish(template, body, fill);
            self.link.sent += 1;
        }
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.commit_all();
        Ok(())
    }

    fn credit(&self) -> u64 {
        if self.link.transactions.as_ref().is_some_and(|it| !it.is_open()) {
            return 0;
        }
        self.client.credit(self.session, HANDLE, self.link.frames).into()
    }

    fn set_message_id(&mut self, id: &[u8]) {
        if let Some(template) = &mut self.link.template {
            template.set_message_id(id);
        }
    }

    fn set_timestamp(&mut self, unix_s: u64) {
        if let Some(template) = &mut self.link.template {
            template.set_creation_time(unix_s.saturating_mul(1_000).cast_signed());
        }
    }

    fn set_trace_header(&mut self, header: &[u8; FULL_LEN]) {
        if let Some(template) = &mut self.link.template {
            template.set_last_property(header);
        }
    }

    fn message_wire_len(&self) -> (usize, usize) {
        let (LinkSpec::Producer(spec), Some(template)) = (&self.link.spec, &self.link.template) else { return (1, 1) };
        let len = |bytes| template.wire_len(bytes).1;
        match spec.bodies {
            BodyLengths::Same(all) => (len(all), len(all)),
            BodyLengths::Between(least, most) => (len(least), len(most)),
        }
    }

    fn pending(&self) -> usize {
        self.client.pending_output().len()
    }
}

impl Receiver for LinkHandle<'_> {
    #[inline]
    fn acknowledge(&mut self, tag: u64, multiple: bool) {
        self.settle(tag, multiple, DeliveryState::Accepted);
    }

    fn refuse(&mut self, tag: u64, multiple: bool, requeue: bool) {
        let dialect = self.link.dialect;
        let state = if requeue { requeued(dialect) } else { DeliveryState::Rejected(Rejected::default()) };
        self.settle(tag, multiple, state);
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.commit_all();
        Ok(())
    }

    fn subscribe(&mut self) -> Result<(), Error> {
        if let LinkSpec::Consumer(Receiving { credit, .. }) = self.link.spec {
            self.client.flow(self.session, HANDLE, credit, false);
        }
        Ok(())
    }
}

/// The state that puts a delivery back into its queue, and has it marked as redelivered when it comes again. RabbitMQ
/// marks what was released (`first-acquirer`), Artemis only what it counts as failed (`delivery-count`).
fn requeued(dialect: Dialect) -> DeliveryState<'static> {
    match dialect {
        Dialect::RabbitMq => DeliveryState::Released,
        Dialect::Artemis => DeliveryState::Modified(Modified { delivery_failed: Some(true), ..Modified::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure;
    use super::*;
    use crate::Endpoint;

    fn receiver(settled: bool) -> Link {
        Link::new(LinkSpec::Consumer(Receiving {
            node: LinkNode::published(&Destination::queue("q")),
            settled,
            transacted: false,
            credit: 10,
            is_limit: !settled,
            later: false,
            offset: None,
            selector: None,
        }))
    }

    #[test]
    fn a_fence_is_passed_by_no_flow_that_says_that_more_comes() {
        let flow = |available, link_credit| Flow { available, link_credit, ..Flow::default() };
        let mut link = receiver(false);
        link.is_fenced = true;
        assert!(!link.passes_fence(&flow(Some(50), Some(1))) && link.is_untended());
        assert!(link.passes_fence(&flow(Some(0), Some(1))));
        assert!(!link.passes_fence(&flow(Some(0), Some(1))), "no fence waits");
        for (available, credit) in [(None, Some(1)), (Some(50), Some(0)), (Some(50), None)] {
            link.is_fenced = true;
            assert!(link.passes_fence(&flow(available, credit)), "{available:?} {credit:?}");
        }
        link.is_fenced = true;
        let asked = (0..).take_while(|_| !link.passes_fence(&flow(Some(1), Some(1)))).count();
        assert_eq!(asked, MOST_FENCES as usize, "not for ever");
    }

    #[test]
    fn a_stream_is_read_from_where_its_filter_says() {
        let filter = |offset| {
            let mut bytes = Vec::new();
            put_filters(&mut bytes, Some(offset), None, Dialect::RabbitMq);
            let value = TypedValue::read(&mut Reader::new(&bytes)).unwrap();
            let TypedValue::Map(items) = value else { panic!("{value:?}") };
            let found = items.get("rabbitmq:stream-offset-spec");
            let Some(TypedValue::Described(described)) = found else { panic!("{found:?}") };
            assert_eq!(described.descriptor, Descriptor::Name(Symbol("rabbitmq:stream-offset-spec")));
            format!("{:?}", described.value().unwrap())
        };
        assert_eq!(filter(StreamOffset::First), "Str(\"first\")");
        assert_eq!(filter(StreamOffset::Offset(u64::MAX)), format!("Ulong({})", u64::MAX));
        assert_eq!(filter(StreamOffset::Time(1_700_000_000)), "Timestamp(1700000000000)");
    }

    /// Who ignores a selector delivers everything, and figures would be those of another load.
    #[test]
    fn a_selector_is_named_as_each_broker_names_it_and_missed_where_it_is_not_applied() {
        for (dialect, name, descriptor) in [
            (Dialect::RabbitMq, "sql-filter", "amqp:sql-filter"),
            (Dialect::Artemis, "jms-selector", "apache.org:selector-filter:string"),
        ] {
            let mut bytes = Vec::new();
            put_filters(&mut bytes, Some(StreamOffset::First), Some("a = 1"), dialect);
            let value = TypedValue::read(&mut Reader::new(&bytes)).unwrap();
            let TypedValue::Map(items) = value else { panic!("{value:?}") };
            assert!(items.len() == 4 && items.get(OFFSET).is_some(), "{items:?}");
            let Some(TypedValue::Described(it)) = items.get(name) else { panic!("{items:?}") };
            assert_eq!(it.descriptor, Descriptor::Name(Symbol(descriptor)));
            assert_eq!(it.value().unwrap(), TypedValue::Str("a = 1"));

            let mut link = receiver(false);
            link.dialect = dialect;
            assert!(!link.lacks_selector(TypedValue::Null), "it asks for none");
            let LinkSpec::Consumer(spec) = &mut link.spec else { panic!("a consumer") };
            spec.selector = Some("a = 1".to_owned());
            assert!(!link.lacks_selector(value));
            assert!(link.action().ends_with(" by the selector \"a = 1\""), "{}", link.action());
            let mut other = Vec::new();
            put_filters(&mut other, Some(StreamOffset::First), None, dialect);
            let other = TypedValue::read(&mut Reader::new(&other)).unwrap();
            assert!(link.lacks_selector(TypedValue::Null) && link.lacks_selector(other));
            let mut null = Vec::new();
            put_map(&mut null, |out| {
                TypedValue::Symbol(Symbol(name)).write(out);
                TypedValue::Null.write(out);
                2
            });
            assert!(link.lacks_selector(TypedValue::read(&mut Reader::new(&null)).unwrap()));
        }
    }

    #[test]
    fn the_group_of_a_message_is_no_application_property() {
        let mut given = MessageProperties::default();
        given.headers.insert("k".to_owned(), Argument::Integer(1));
        given.headers.insert("JMSXGroupID".to_owned(), Argument::Text("blue".to_owned()));
        assert_eq!(properties(&given).group_id, Some("blue"));
        assert_eq!(application_properties(&given), [("k", TypedValue::Long(1))]);
    }

    #[test]
    fn numbers_on_the_wire_wrap_and_those_of_messages_do_not() {
        let mut link = receiver(false);
        let wrap = 1u64 << 32;
        for (sent, id, tag) in [
            (1, 0, 1),
            (1_000, 999, 1_000),
            (wrap, u32::MAX, wrap),
            (wrap + 3, 2, wrap + 3),
            (wrap + 3, u32::MAX, wrap),
            (3 * wrap + 1, 0, 3 * wrap + 1),
            // What is not sent yet.
            (1, 1, 2),
            (1, 5, 2),
            (wrap + 3, 3, wrap + 4),
            (wrap + 3, 1_000, wrap + 4),
        ] {
            link.sent = sent;
            assert_eq!(link.tag_of(id), tag, "{sent} {id}");
            assert_eq!(link.tags_of(id, id), (tag <= sent).then_some((tag, tag)), "{sent} {id}");
        }
        // Ranges that end before they begin, or begin before the first message.
        link.sent = 10;
        let ranges = [(3, 7), (7, 3), (0xFFFF_FFF0, 5), (9, 10)];
        assert_eq!(ranges.map(|(first, last)| link.tags_of(first, last)), [Some((4, 8)), None, None, None]);
        let endpoint = Endpoint::new("h", 1);
        let said = |first, last| failure::never_sent(&endpoint, first, last).to_string();
        assert!(said(7, 3).ends_with("the broker settled deliveries 7 to 3, not all of which were sent"));
        assert!(said(9, 9).ends_with("the broker settled delivery 9, which was never sent"));
    }

    #[test]
    fn what_goes_back_to_its_queue_is_marked_by_each_broker() {
        assert_eq!(requeued(Dialect::RabbitMq), DeliveryState::Released);
        let is_counted = |it: Modified<'_>| it.delivery_failed == Some(true) && it.undeliverable_here.is_none();
        assert!(matches!(requeued(Dialect::Artemis), DeliveryState::Modified(it) if is_counted(it)));
    }

    #[test]
    fn an_aborted_delivery_takes_a_number_on_the_wire_and_none_of_the_messages() {
        for settled in [false, true] {
            let mut link = receiver(settled);
            let start = u32::MAX - 2;
            let id = |n: u32| start.wrapping_add(n);
            assert!(link.aborted(id(0)));
            assert_eq!(link.received(id(1)), Some(1));
            assert!(link.aborted(id(2)) && link.aborted(id(3)));
            assert!(!link.aborted(id(7)), "out of turn");
            assert_eq!(link.received(id(5)), None, "out of turn");
            assert_eq!(link.received(id(4)), Some(2));
            assert!(link.aborted(id(5)));
            assert_eq!(link.received(id(6)), Some(3));
            if settled {
                assert_eq!(link.aborted, [(3, 3)], "nothing is settled by number");
                continue;
            }
            assert_eq!([1, 2, 3].map(|tag| link.wire_id(tag)), [1, 4, 6].map(id));
            link.settled = 3;
            assert!(link.aborted(id(7)));
            assert_eq!(link.aborted, [(4, 4)]);
            assert_eq!(link.received(id(8)), Some(4));
            assert_eq!(link.wire_id(4), id(8));
        }
    }
}
