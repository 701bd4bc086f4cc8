//! AMQP 1.0, as RabbitMQ speaks it from version 4 on and ActiveMQ Artemis does: all that the load knows of it.
//!
//! A connection has a session with one link for each of its clients, and one for its transactions, since the broker
//! runs sessions beside each other. Addresses are the broker's own (`address`), which it tells by its name when the
//! connection opens; what concerns queues before and after the load stands in `management`.

mod address;
mod failure;
mod link;
mod management;
mod validate;

use measure::Time;
use wire::Secret;
use wire::amqp10::{
    Amqp10Client, Amqp10Config, Amqp10Event, Composite, DeliveryState, SaslMechanism, Sections, TransactionalState,
    TypedField, TypedValue, UsualEvent, scram_nonce,
};

use self::address::Dialect;
use self::link::{BEGIN, COMMIT, COORDINATOR, CoordinatorAnswer, HANDLE, Link, attach_unused};
pub(crate) use self::link::{LinkHandle, LinkSpec};
use self::management::{LinkAdmin, Management, ManagementQuestion, ManagementReply};
use super::amqp091::AmqpConnection;
use super::{
    Confirm, Connection, ConnectionSpec, DeliveryOutcome, Event, Outgoing, Progress, WireSizes, too_many_clients,
};
use crate::failure::Stage;
use crate::{Auth, Destination, Endpoint, Environment, Error, Group, Protocol};
use plan::FRAME_MAX;
use plan::payload::TRACE_HEADER;

/// An answer that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Open,
    Attached,
    /// Questions may be sent.
    Credit,
    Fence,
    Closed,
}

/// The name of links that come and go, and of the queue that they lead to.
const UNUSED: &str = "bellows-churn";

/// A step of churn: a session, or a link of it, comes or goes on a connection without clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChurnStep {
    Begin,
    Attach,
    Detach,
    End,
}

impl ChurnStep {
    /// Purpose of it, as in "cannot ...".
    const fn action(self) -> &'static str {
        match self {
            Self::Begin => "begin a session",
            Self::Attach => "attach a link",
            Self::Detach => "detach a link",
            Self::End => "end a session",
        }
    }

    /// The answer that an event is; `None` where it is about something else. Errors: the step is refused.
    fn answer(self, event: &Amqp10Event<'_>, endpoint: &Endpoint) -> Result<Option<Answer>, Error> {
        let error = match (self, event) {
            (Self::Begin, Amqp10Event::Begun { .. })
            | (Self::Attach, Amqp10Event::Attached { exists: true, .. })
            | (Self::Detach, Amqp10Event::Detached { error: None, .. })
            | (Self::End, Amqp10Event::Ended { error: None, .. }) => return Ok(Some(Answer::Fence)),
            (_, Amqp10Event::CloseOk) => return Ok(Some(Answer::Closed)),
            (
                _,
                Amqp10Event::Detached { error, .. } | Amqp10Event::Ended { error, .. } | Amqp10Event::Closed { error },
            ) => error.as_ref(),
            _ => return Ok(None),
        };
        Err(failure::of_closing(endpoint, &Stage::SetUp(self.action().to_owned()), error))
    }
}

/// A connection with a session and a link for each of its clients, which are counted from 0.
pub(crate) struct LinkConnection {
    spec: ConnectionSpec<LinkSpec>,
    client: Amqp10Client,
    stage: Stage,
    links: Vec<Link>,
    /// In the place of links, where it only asks.
    management: Option<Management>,
    /// The broker's product and version, once it has told them.
    server: [String; 2],
    /// Links that are not attached yet, and clients without a transaction where they need one.
    busy: usize,
    answer: Option<Answer>,
    /// A client that may have something to send: credit, or steps of transactions.
    untended: Option<usize>,
    /// Whether messages may flow.
    is_running: bool,
    /// It has clients, none with transactions.
    is_plain: bool,
    /// Without clients: the last step that was asked for.
    step: Option<ChurnStep>,
}

fn client_of(spec: &ConnectionSpec<LinkSpec>, now: Time) -> Amqp10Client {
    let endpoint = &spec.endpoint;
    let config = Amqp10Config {
        user: endpoint.user.clone(),
        password: Secret::new(endpoint.password()),
        mechanism: match endpoint.auth {
            Auth::Plain => SaslMechanism::Plain,
            Auth::External => SaslMechanism::External,
            Auth::Anonymous => SaslMechanism::Anonymous,
            Auth::ScramSha256 => SaslMechanism::ScramSha256,
        },
        nonce: scram_nonce(),
        hostname: format!("vhost:{}", endpoint.virtual_host),
        container_id: spec.name.clone(),
        heartbeat_s: endpoint.connection.heartbeat_s,
        frame_max: endpoint.connection.frame_max.min(FRAME_MAX),
        timeout: spec.timeout,
        ..Amqp10Config::default()
    };
    Amqp10Client::new(config, now)
}

impl Connection for LinkConnection {
    type ClientSpec = LinkSpec;
    type Admin<'a, E: Environment> = LinkAdmin<'a, E>;
    type Handle<'a> = LinkHandle<'a>;

    const DECLARES_AGAIN: bool = false;
    const HELP: &'static str = failure::HELP;
    const SIZES: WireSizes = WireSizes {
        frame_max: FRAME_MAX as usize,
        // A disposition of a range; with `discharge`, `declare`, and the id of a transaction.
        acknowledgement: 32,
        commit: 256,
        smallest_delivery: 40,
        delivery_head: 2_048,
    };

    fn validate(group: &Group) -> Result<(), Error> {
        AmqpConnection::validate(group)?;
        validate::validate(group)
    }

    fn consumer(group: &Group, n: usize, later: bool) -> Result<LinkSpec, Error> {
        Ok(LinkSpec::consumer(group, n, later))
    }

    fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Result<LinkSpec, Error> {
        Ok(LinkSpec::producer(group, destination, outgoing))
    }

    fn new(mut spec: ConnectionSpec<LinkSpec>, now: Time) -> Self {
        spec.endpoint.protocol = Protocol::Amqp10;
        let (asking, clients): (Vec<_>, Vec<_>) =
            std::mem::take(&mut spec.clients).into_iter().partition(|it| matches!(it, LinkSpec::Management));
        Self {
            client: client_of(&spec, now),
            stage: Stage::LogIn,
            busy: 0,
            is_plain: asking.is_empty() && !clients.is_empty() && !clients.iter().any(LinkSpec::is_transacted),
            links: clients.into_iter().map(Link::new).collect(),
            management: asking.first().map(|_| Management::default()),
            server: Default::default(),
            answer: None,
            untended: None,
            is_running: false,
            step: None,
            spec,
        }
    }

    fn trace_header(properties: &[u8]) -> Option<&[u8]> {
        match Sections(properties).application_property(TRACE_HEADER) {
            Some(TypedValue::Binary(bytes)) => Some(bytes),
            _ => None,
        }
    }

    fn restart(&mut self, endpoint: Option<&Endpoint>, now: Time) {
        if let Some(endpoint) = endpoint {
            self.spec.endpoint.clone_from(endpoint);
            self.spec.endpoint.protocol = Protocol::Amqp10;
        }
        self.client = client_of(&self.spec, now);
        (self.stage, self.busy) = (Stage::LogIn, 0);
        (self.answer, self.untended) = (None, None);
        (self.is_running, self.step) = (false, None);
        self.links.iter_mut().for_each(Link::restart);
    }

    fn endpoint(&self) -> &Endpoint {
        &self.spec.endpoint
    }

    #[inline]
    fn poll<'a, 'i: 'a>(&'a mut self, now: Time, input: &mut &'i [u8]) -> Result<Option<(usize, Event<'a>)>, Error> {
        if let Some(client) = self.untended.take() {
            self.tend(client, now);
        }
        if self.is_plain
            && let Some(event) = self.client.poll_usual(now, input)
        {
            return self.usual(event);
        }
        let endpoint = &self.spec.endpoint;
        let failed = |error| failure::of_wire(endpoint, &self.stage, &error);
        let Some(event) = self.client.poll(now, input).map_err(failed)? else { return Ok(None) };
        if let Some(management) = &mut self.management
            && self.busy + usize::from(self.is_running) > 0
            && !matches!(event, Amqp10Event::Closed { .. } | Amqp10Event::CloseOk)
        {
            self.answer = management.take(&event, endpoint)?;
            return Ok(Some((0, if self.answer.is_some() { Event::Answer } else { Event::Other })));
        }
        match event {
            Amqp10Event::Delivery { session, id, message, .. } => {
                let at = usize::from(session);
                let event = delivered(&mut self.links[at], id, message.before, message.body.bytes());
                self.untended = self.links[at].is_hungry().then_some(at);
                let event = event.filter(|_| self.is_running).ok_or_else(|| failure::unasked(endpoint, "delivery"))?;
                Ok(Some((at, event)))
            }
            Amqp10Event::Aborted { session, id, .. } => {
                let at = usize::from(session);
                if !self.links[at].aborted(id) {
                    return Err(failure::unasked(endpoint, "delivery"));
                }
                self.untended = self.links[at].is_hungry().then_some(at);
                Ok(Some((at, Event::Other)))
            }
            Amqp10Event::Settled { session, first, last, state } if !self.links.is_empty() => {
                let at = usize::from(session);
                let link = &mut self.links[at];
                if let Some(answer) = link.coordinated(session, first..=last, state).map_err(failed)? {
                    self.untended = Some(at);
                    let event = coordinated(&answer, endpoint)?;
                    if answer == CoordinatorAnswer::Declared && !self.is_running {
                        self.answer = Some(Answer::Attached);
                        return Ok(Some((at, Event::Answer)));
                    }
                    return Ok(Some((at, event)));
                }
                // Nothing else is sent on a consumer's session that could be settled.
                if !link.is_sender() {
                    return Err(failure::unasked(endpoint, "disposition of an unsent message"));
                }
                let Some(outcome) = outcome_of(state, link.is_transactional()) else {
                    return Ok(Some((at, Event::Other)));
                };
                let Some((tag, last)) = link.tags_of(first, last) else {
                    return Err(failure::never_sent(endpoint, first, last));
                };
                Ok(Some((at, Event::Confirm(Confirm { first: Some(tag), last, outcome }))))
            }
            other => {
                if let Amqp10Event::Open { properties: TypedValue::Map(properties), .. } = other {
                    self.server = ["product", "version"].map(|name| text(properties.get(name)));
                }
                let (at, what) = conversed(&other, self.step, &mut self.links, endpoint, &self.stage)?;
                self.untended = self.links.get(at).is_some_and(Link::is_untended).then_some(at);
                self.answer = what.or(self.answer.take());
                Ok(Some((at, if what.is_some() { Event::Answer } else { Event::Other })))
            }
        }
    }

    fn proceed(&mut self, now: Time) -> Result<Progress, Error> {
        match self.answer.take() {
            Some(Answer::Open) => {
                self.attach()?;
                Ok(if self.busy == 0 { self.begin() } else { Progress::LoggedIn })
            }
            Some(Answer::Attached) => {
                self.busy = self.busy.saturating_sub(1);
                Ok(if self.busy == 0 { self.begin() } else { Progress::Waiting })
            }
            Some(Answer::Credit) => {
                self.send_question()?;
                Ok(Progress::Waiting)
            }
            Some(Answer::Fence) => Ok(Progress::Answered),
            Some(Answer::Closed) => Ok(Progress::Closed),
            None => {
                self.excuse_silence(now);
                Ok(Progress::Waiting)
            }
        }
    }

    fn handle(&mut self, client: usize) -> LinkHandle<'_> {
        LinkHandle { client: &mut self.client, link: &mut self.links[client], session: client as u16 }
    }

    fn fence(&mut self, client: usize) -> Result<(), Error> {
        self.links[client].is_fenced = true;
        self.client.flow(client as u16, HANDLE, 0, true);
        Ok(())
    }

    fn give_up(&mut self, now: Time) {
        self.client.close(now);
    }

    fn is_answered(&self) -> bool {
        self.is_running && self.links.iter().all(|link| !link.is_fenced)
    }

    fn reserve(&mut self, output: usize) {
        self.client.reserve(output);
    }

    fn leave(&mut self, now: Time) -> Result<(), Error> {
        self.stage = Stage::Closing;
        self.close_if_committed(now);
        Ok(())
    }

    #[inline]
    fn pending_output(&self) -> &[u8] {
        self.client.pending_output()
    }

    #[inline]
    fn consume_output(&mut self, bytes: usize) {
        self.client.consume_output(bytes);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.client.next_timeout()
    }

    fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        self.client.handle_timeout(now).map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn excuse_silence(&mut self, now: Time) {
        self.client.excuse_silence(now);
    }

    #[inline]
    fn needs(&self, input: &[u8]) -> usize {
        self.client.needs(input)
    }

    fn end_of_input(&self, rest: &[u8]) -> Error {
        failure::of_wire(&self.spec.endpoint, &self.stage, &self.client.end_of_input(rest))
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

/// Whose an event is that is no message nor about any, and which answer.
fn conversed(
    event: &Amqp10Event<'_>,
    step: Option<ChurnStep>,
    links: &mut [Link],
    endpoint: &Endpoint,
    stage: &Stage,
) -> Result<(usize, Option<Answer>), Error> {
    if let Some(step) = step {
        return Ok((0, step.answer(event, endpoint)?));
    }
    let at = usize::from;
    Ok(match event {
        Amqp10Event::Open { .. } => (0, Some(Answer::Open)),
        Amqp10Event::CloseOk => (0, Some(Answer::Closed)),
        Amqp10Event::Begun { session, incoming_window } => {
            let link = &links[at(*session)];
            refuse_oversized(link, *incoming_window, 0, endpoint)?;
            (at(*session), None)
        }
        // A transaction is what is waited for.
        Amqp10Event::Attached { session, handle: COORDINATOR, exists: true, .. } => (at(*session), None),
        Amqp10Event::Attached { session, exists: true, max_message_size, filter, .. } => {
            let link = &links[at(*session)];
            refuse_oversized(link, 0, *max_message_size, endpoint)?;
            refuse_unselected(link, *filter, endpoint)?;
            (at(*session), Some(Answer::Attached))
        }
        Amqp10Event::Flow { session, handle: Some(HANDLE), uncounted: 0, flow } => {
            (at(*session), links[at(*session)].passes_fence(flow).then_some(Answer::Fence))
        }
        // No client is asked anything.
        Amqp10Event::Asked(_) => (0, None),
        // The reason why a link leads nowhere comes next.
        Amqp10Event::Attached { session, .. }
        | Amqp10Event::Flow { session, .. }
        | Amqp10Event::Delivery { session, .. }
        | Amqp10Event::Aborted { session, .. }
        | Amqp10Event::Settled { session, .. } => (at(*session), None),
        Amqp10Event::Detached { session, error, .. } | Amqp10Event::Ended { session, error } => {
            let link = &links[at(*session)];
            let is_coordinator = match event {
                Amqp10Event::Detached { handle, .. } => *handle == COORDINATOR,
                // Some end the session.
                _ => link.is_transactional() && failure::is_not_implemented(error.as_ref()),
            };
            let action = |its: &str| if is_coordinator { its.to_owned() } else { link.action() };
            return Err(match stage {
                Stage::LogIn | Stage::SetUp(_) => {
                    failure::of_closing(endpoint, &Stage::SetUp(action(BEGIN)), error.as_ref())
                }
                Stage::Running | Stage::Closing => failure::of_detaching(endpoint, action(COMMIT), error.as_ref()),
            });
        }
        Amqp10Event::Closed { error } => {
            let is_set_up = links.is_empty() || matches!(stage, Stage::SetUp(_));
            let is_log_in = is_set_up && failure::is_of_virtual_host(error.as_ref());
            return Err(failure::of_closing(endpoint, if is_log_in { &Stage::LogIn } else { stage }, error.as_ref()));
        }
    })
}

/// Refuses a producer whose messages the broker would never take.
fn refuse_oversized(link: &Link, window: u32, max_message_size: u64, endpoint: &Endpoint) -> Result<(), Error> {
    match link.oversized(window, max_message_size) {
        None => Ok(()),
        Some((detail, help)) => {
            Err(Error::Refused { endpoint: endpoint.to_string(), action: link.action(), detail, help: help.into() })
        }
    }
}

/// Refuses a broker that would deliver all messages where some were asked for.
fn refuse_unselected(link: &Link, applied: TypedValue<'_>, endpoint: &Endpoint) -> Result<(), Error> {
    if !link.lacks_selector(applied) {
        return Ok(());
    }
    Err(Error::Refused {
        endpoint: endpoint.to_string(),
        action: link.action(),
        detail: "the broker does not apply the selector".to_owned(),
        help: format!(
            "{}; the broker's log says what is wrong (--verbose shows that of a disposable one); RabbitMQ has \
             selectors of streams alone, from 4.2 on",
            failure::CHECK_SELECTOR
        ),
    })
}

/// The engine's form of a delivery; `None` where it is not the link's next.
#[inline]
fn delivered<'a>(link: &mut Link, id: u32, before: Sections<'a>, body: &'a [u8]) -> Option<Event<'a>> {
    let redelivered = before.may_be_repeated();
    let tag = link.received(id)?;
    Some(Event::Delivery { tag, redelivered, body, properties: before.0 })
}

/// The engine's form of a coordinator's answer. A transaction that is not committed ends the connection, as over AMQP
/// 0.9.1: its messages have no answer.
fn coordinated(answer: &CoordinatorAnswer<'_>, endpoint: &Endpoint) -> Result<Event<'static>, Error> {
    match answer {
        CoordinatorAnswer::Declared | CoordinatorAnswer::Repeated => Ok(Event::Other),
        CoordinatorAnswer::Committed => Ok(Event::Committed),
        CoordinatorAnswer::Refused(action, reason) => {
            Err(failure::of_closing(endpoint, &Stage::SetUp((*action).to_owned()), reason.as_ref()))
        }
    }
}

/// The outcome that a state means for a message; `None` where it leaves that open, as transactions do until they are
/// committed.
fn outcome_of(state: Option<DeliveryState<'_>>, is_transactional: bool) -> Option<DeliveryOutcome> {
    let state = match state {
        Some(DeliveryState::Other(value)) if is_transactional => match TransactionalState::of(value) {
            Ok(it) => DeliveryState::of_value(Some(it.outcome)).ok(),
            Err(_) => state,
        },
        state => state,
    };
    match state {
        // How far a message came is no answer to it.
        Some(DeliveryState::Received(_)) => None,
        Some(DeliveryState::Accepted) | None => (!is_transactional).then_some(DeliveryOutcome::Accepted),
        Some(DeliveryState::Released | DeliveryState::Modified(_)) => Some(DeliveryOutcome::Unroutable),
        Some(_) => Some(DeliveryOutcome::Refused),
    }
}

impl LinkConnection {
    /// Hands on nearly all input of a connection without transactions. It is made where it goes: a copy of an event
    /// costs more than reading it.
    #[inline(always)]
    fn usual<'i>(&mut self, event: UsualEvent<'i>) -> Result<Option<(usize, Event<'i>)>, Error> {
        let (UsualEvent::Delivery { session, .. } | UsualEvent::Accepted { session, .. }) = event;
        let at = usize::from(session);
        let Some(link) = self.links.get_mut(at).filter(|_| self.is_running) else {
            return Err(failure::unasked(&self.spec.endpoint, "frame"));
        };
        match event {
            UsualEvent::Delivery { id, before, body, .. } => match delivered(link, id, Sections(before), body) {
                Some(event) => {
                    self.untended = link.is_hungry().then_some(at);
                    Ok(Some((at, event)))
                }
                None => Err(failure::unasked(&self.spec.endpoint, "delivery")),
            },
            // Nothing is sent on a consumer's session that could be settled.
            UsualEvent::Accepted { .. } if !link.is_sender() => {
                Err(failure::unasked(&self.spec.endpoint, "disposition of an unsent message"))
            }
            UsualEvent::Accepted { first, last, .. } => match link.tags_of(first, last) {
                Some((tag, last)) => {
                    let outcome = DeliveryOutcome::Accepted;
                    Ok(Some((at, Event::Confirm(Confirm { first: Some(tag), last, outcome }))))
                }
                None => Err(failure::never_sent(&self.spec.endpoint, first, last)),
            },
        }
    }

    /// Begins the sessions and attaches the links, all at once.
    fn attach(&mut self) -> Result<(), Error> {
        let most = self.most_clients();
        if self.links.len() > most {
            return Err(too_many_clients(&self.spec.endpoint, self.links.len(), most));
        }
        let dialect = Dialect::of(&self.server[0]);
        self.busy = self.links.iter().map(Link::set_up_answers).sum();
        if self.management.is_some() && dialect == Dialect::Artemis {
            self.stage = Stage::SetUp("manage queues".to_owned());
            let attached = Management::attach(&mut self.client, &self.spec.name);
            attached.map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))?;
            self.busy = Management::LINKS;
        }
        for (at, link) in self.links.iter_mut().enumerate() {
            link.dialect = dialect;
            self.stage = Stage::SetUp(link.action());
            let name = format!("{} {at}", self.spec.name);
            let attached = link.attach(at as u16, &name, &mut self.client);
            attached.map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))?;
        }
        Ok(())
    }

    /// All links are attached: messages may flow.
    fn begin(&mut self) -> Progress {
        (self.stage, self.is_running) = (Stage::Running, true);
        for (at, link) in self.links.iter_mut().enumerate() {
            link.begin(at as u16, &mut self.client);
        }
        Progress::Ready
    }

    /// Lets a client's link send what is due.
    #[inline]
    fn tend(&mut self, client: usize, now: Time) {
        self.links[client].tend(client as u16, &mut self.client);
        if self.stage == Stage::Closing {
            self.close_if_committed(now);
        }
    }

    /// Says goodbye once the last commits are answered: what they acknowledge would go back to its queue.
    fn close_if_committed(&mut self, now: Time) {
        if self.links.iter().all(Link::is_committed) {
            self.client.close(now);
        }
    }

    fn most_clients(&self) -> usize {
        usize::from(self.client.channel_max()) + 1
    }

    /// Asks for a step of churn; [`Progress::Answered`] tells of its answer.
    pub(crate) fn take_step(&mut self, step: ChurnStep) -> Result<(), Error> {
        (self.step, self.stage) = (Some(step), Stage::SetUp(step.action().to_owned()));
        let client = &mut self.client;
        let sent = match step {
            ChurnStep::Begin => client.begin(0),
            ChurnStep::Attach => attach_unused(UNUSED, Dialect::of(&self.server[0]), client),
            ChurnStep::Detach => client.detach(0, HANDLE),
            ChurnStep::End => client.end_session(0),
        };
        sent.map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    /// Asks the broker's management, of which [`LinkConnection::reply`] has the answer.
    fn ask(&mut self, action: &str, question: ManagementQuestion) -> Result<(), Error> {
        self.stage = Stage::SetUp(action.to_owned());
        if let Some(management) = &mut self.management {
            management.question = Some(question);
        }
        self.send_question()
    }

    fn send_question(&mut self) -> Result<(), Error> {
        let sent = self.management.as_mut().map_or(Ok(()), |it| it.send(&mut self.client));
        sent.map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn reply(&mut self) -> Option<ManagementReply> {
        self.management.as_mut()?.reply.take()
    }
}

fn text(value: Option<TypedValue<'_>>) -> String {
    match value {
        Some(TypedValue::Str(text)) => text.to_owned(),
        _ => String::new(),
    }
}
