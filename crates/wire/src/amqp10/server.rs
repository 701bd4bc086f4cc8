//! The server's side of a connection, for an embedded broker. Sessions and links have the client's numbers.
//!
//! ```text
//! client                          server
//!   header of the login    --->   header of the login, mechanisms
//!   sasl-init              --->   Amqp10Request::Login  -> accept_login / refuse_login
//!                          or     Amqp10Request::Scram  -> challenge / refuse_login
//!   sasl-response          --->   Amqp10Request::Proved -> accept_login / refuse_login
//!   header                 --->   header
//!   open                   --->   Amqp10Request::Open   -> accept_open / refuse_open
//!   begin                  --->   begin
//!   attach                 --->   Amqp10Request::Link   -> accept_link / refuse_link
//! ```
//!
//! Answered in here: heartbeats, sessions, their windows, credit for what clients send, and the end of everything.

use measure::Time;

use super::composite::*;
use super::connection::session::{LINK_CREDIT, Link, Session};
use super::connection::{
    Amqp10Config, Amqp10Connection, Amqp10Side, Failure, FrameStep, NOT_ALLOWED, Phase, Violation, put_open,
};
use super::event::{Amqp10Error, Amqp10Event, Amqp10Request, Terminus};
use super::frame::{self, FRAME_AMQP, FRAME_SASL};
use super::scram::{SCRAM_SHA_256, ScramKeys, ScramLogin};
use super::types::{Descriptor, Symbol, TypedValue, put_descriptor, put_map};
use super::usual::{self, TransferHead};
use super::{AMQP_HEADER, SASL_HEADER};
use crate::amqp091::{Reader, SecretStr, ServerConfig, Value, plain_credentials};

/// The highest session of a connection.
const SESSION_MAX: u16 = 255;
/// Links of a connection, and bytes of a link's name and address: what a client can make a server keep.
const LINKS_MAX: usize = 4_096;
const NAME_MAX: usize = 1_024;
const ADDRESS_MAX: usize = 2_048;
/// Bytes of the filter that names the place in a stream where a link begins.
const OFFSET_MAX: usize = 128;
/// RabbitMQ's filter for it.
const STREAM_OFFSET: Symbol<'static> = Symbol("rabbitmq:stream-offset-spec");
/// A server that takes messages on links without an address says so.
const ANONYMOUS_RELAY: TypedValue<'static> = TypedValue::Symbol(Symbol("ANONYMOUS-RELAY"));
const INVALID_FIELD: &str = "amqp:invalid-field";
const LIMIT: &str = "amqp:resource-limit-exceeded";
/// Capability of the coordinator of transactions.
const LOCAL_TRANSACTIONS: Symbol<'static> = Symbol("amqp:local-transactions");

/// A connection, seen from the server.
pub type Amqp10Server = Amqp10Connection<LinkResponder>;

/// Server's side of a connection.
#[derive(Debug)]
pub struct LinkResponder {
    /// Separated by blanks.
    mechanisms: String,
    product: String,
    version: String,
    /// A login whose proof is awaited, and what the client is told once it is accepted.
    scram: Option<ScramLogin>,
    signature: Option<String>,
}

impl LinkResponder {
    fn offers(&self, mechanism: &str) -> bool {
        self.mechanisms.split_whitespace().any(|it| it == mechanism)
    }

    /// Appends the mechanisms, which are an array of symbols.
    fn put_mechanisms(&self, out: &mut Vec<u8>) {
        let names = || self.mechanisms.split_whitespace();
        let symbols = names().flat_map(|name| [name.len() as u8].into_iter().chain(name.bytes()));
        let symbols: Vec<u8> = symbols.collect();
        let mut array = vec![0xE0, symbols.len() as u8 + 2, names().count() as u8, 0xA3];
        array.extend_from_slice(&symbols);
        let mechanisms = TypedValue::read(&mut Reader::new(&array)).unwrap_or_default();
        frame::put(out, FRAME_SASL, 0, &SaslMechanisms { mechanisms });
    }
}

impl Amqp10Side for LinkResponder {
    const IS_SERVER: bool = true;

    fn take_header(connection: &mut Amqp10Server, header: &[u8; 8]) -> bool {
        let Amqp10Connection { side, out, phase, .. } = connection;
        match (*phase, *header) {
            (Phase::SaslHeader, SASL_HEADER) => {
                out.extend_from_slice(&SASL_HEADER);
                side.put_mechanisms(out);
                *phase = Phase::Mechanisms;
            }
            // A client that does not log in is one of those that need not.
            (Phase::SaslHeader, AMQP_HEADER) if side.offers("ANONYMOUS") => {
                out.extend_from_slice(&AMQP_HEADER);
                *phase = Phase::Opening;
            }
            (Phase::Header, AMQP_HEADER) => {
                out.extend_from_slice(&AMQP_HEADER);
                *phase = Phase::Opening;
            }
            (Phase::SaslHeader, _) => {
                out.extend_from_slice(&SASL_HEADER);
                return false;
            }
            _ => {
                out.extend_from_slice(&AMQP_HEADER);
                return false;
            }
        }
        true
    }

    fn handle_handshake<'i>(
        connection: &mut Amqp10Server,
        now: Time,
        performative: &Performative<'i>,
    ) -> Result<FrameStep<'i>, Failure> {
        let request = match (connection.phase, performative) {
            (Phase::Mechanisms, Performative::SaslInit(init)) => {
                let request = connection.side.login(init)?;
                connection.phase = Phase::LoginPending;
                request
            }
            (Phase::Proof, Performative::SaslResponse(it)) => {
                let login = connection.side.scram.take();
                connection.side.signature = login.and_then(|login| login.finish(it.response.0));
                if connection.side.signature.is_none() {
                    return Err(connection.refuse_proof());
                }
                connection.phase = Phase::LoginPending;
                Amqp10Request::Proved
            }
            (Phase::Opening, Performative::Open(open)) => {
                connection.take_open(now, open);
                connection.phase = Phase::OpenPending;
                Amqp10Request::Open { hostname: open.hostname.unwrap_or_default() }
            }
            (phase, other) => {
                let what = format!("{} came instead of the {}", other.name(), Self::awaited(phase));
                return Err((NOT_ALLOWED, what).into());
            }
        };
        Ok(FrameStep::Event(Amqp10Event::Asked(request)))
    }

    fn take_begin<'i>(
        connection: &mut Amqp10Server,
        channel: u16,
        begin: &Begin<'_>,
    ) -> Result<FrameStep<'i>, Violation> {
        let at = usize::from(channel);
        let is_used = connection.sessions.get(at).is_some_and(Option::is_some);
        if begin.remote_channel.is_some() || is_used || channel > connection.config.channel_max {
            return Err((NOT_ALLOWED, format!("a session cannot begin on channel {channel}")));
        }
        if connection.sessions.len() <= at {
            connection.sessions.resize_with(at + 1, || None);
            connection.channels.resize(at + 1, None);
        }
        let mut session = Session::new();
        session.begun(begin);
        connection.sessions[at] = Some(session);
        connection.channels[at] = Some(channel);
        let answer = Begin { remote_channel: Some(channel), ..Session::begin() };
        frame::put(connection.out(), FRAME_AMQP, channel, &answer);
        Ok(FrameStep::Event(Amqp10Event::Begun { session: channel, incoming_window: begin.incoming_window }))
    }

    fn take_attach<'i>(
        connection: &mut Amqp10Server,
        session: u16,
        attach: &Attach<'i>,
    ) -> Result<FrameStep<'i>, Violation> {
        let places = connection.sessions.iter().flatten().map(|it| it.links.len()).sum::<usize>();
        let more = (attach.handle as usize + 1).saturating_sub(connection.session(session)?.links.len());
        if places + more > LINKS_MAX {
            return Err((LIMIT, format!("a connection has at most {LINKS_MAX} links")));
        }
        let (terminus, capabilities) = terminus_of(attach);
        let offset = attach.source.and_then(|it| stream_offset(it.filter));
        let mut link = Link::new(attach.name, !attach.is_receiver);
        if let Terminus::Address(address) = terminus {
            address.clone_into(&mut link.address);
        }
        if let Some(offset) = offset {
            put_stream_offset(&mut link.filter, offset);
        }
        if attach.name.len() > NAME_MAX || link.address.len() > ADDRESS_MAX || link.filter.len() > OFFSET_MAX {
            return Err((INVALID_FIELD, "a link's name, address or offset is too long".to_owned()));
        }
        link.is_settled = attach.snd_settle_mode == Some(1);
        link.is_coordinator = terminus == Terminus::Coordinator;
        let (handle, settled) = (attach.handle, link.is_settled);
        let its = connection.session(session)?;
        if its.handle_of(handle).is_some() || !its.place(handle, link) {
            return Err((NOT_ALLOWED, format!("a link cannot be attached at handle {handle}")));
        }
        its.know(handle, handle);
        Ok(FrameStep::Event(Amqp10Event::Asked(Amqp10Request::Link {
            session,
            handle,
            is_sender: attach.is_receiver,
            terminus,
            is_topic: capabilities.has_symbol("topic"),
            settled,
            offset,
        })))
    }

    fn awaited(phase: Phase) -> &'static str {
        match phase {
            Phase::SaslHeader => "protocol header from the client",
            Phase::Mechanisms | Phase::Outcome | Phase::LoginPending | Phase::Proof => "login of the client",
            Phase::Header | Phase::Opening | Phase::OpenPending => "opening of the connection by the client",
            Phase::Open | Phase::Closing | Phase::Closed => "answer to closing the connection",
        }
    }
}

/// Where a client's link leads, and what its end is to be capable of.
fn terminus_of<'a>(attach: &Attach<'a>) -> (Terminus<'a>, TypedValue<'a>) {
    let (address, is_dynamic, capabilities) = match (attach.is_receiver, Target::of(attach.target)) {
        (true, _) => {
            let source = attach.source.unwrap_or_default();
            (source.address, source.dynamic, source.capabilities)
        }
        (false, Ok(target)) => (target.address, target.dynamic, target.capabilities),
        (false, Err(_)) if attach.target == TypedValue::Null => Default::default(),
        (false, Err(_)) if TransactionCoordinator::of(attach.target).is_ok() => {
            return (Terminus::Coordinator, TypedValue::Null);
        }
        (false, Err(_)) => return (Terminus::Other, TypedValue::Null),
    };
    let terminus = match address {
        _ if is_dynamic == Some(true) => Terminus::Dynamic,
        TypedValue::Str(address) => Terminus::Address(address),
        TypedValue::Null if !attach.is_receiver => Terminus::Anonymous,
        _ => Terminus::Other,
    };
    (terminus, capabilities)
}

/// The place in a stream that a filter names.
fn stream_offset(filter: TypedValue<'_>) -> Option<TypedValue<'_>> {
    let TypedValue::Map(filters) = filter else { return None };
    let offset = match filters.get(STREAM_OFFSET.0)? {
        TypedValue::Described(it) => it.value().ok()?,
        value => value,
    };
    Some(offset).filter(|it| *it != TypedValue::Null)
}

/// Appends the filter of a place in a stream.
fn put_stream_offset(out: &mut Vec<u8>, offset: TypedValue<'_>) {
    put_map(out, |out| {
        TypedValue::Symbol(STREAM_OFFSET).write(out);
        put_descriptor(out, Descriptor::Name(STREAM_OFFSET));
        offset.write(out);
        2
    });
}

impl LinkResponder {
    /// The request in a choice of a mechanism.
    fn login<'i>(&mut self, init: &SaslInit<'i>) -> Result<Amqp10Request<'i>, Violation> {
        let mechanism = init.mechanism.0;
        if !self.offers(mechanism) {
            return Err((NOT_ALLOWED, format!("the login mechanism {mechanism:?} is not offered")));
        }
        let response = init.initial_response.unwrap_or_default();
        let unreadable = || (NOT_ALLOWED, format!("the login response is not as {mechanism} has it"));
        let (user, password) = match mechanism {
            SCRAM_SHA_256 => {
                let (login, user) = ScramLogin::begin(response.0).ok_or_else(unreadable)?;
                self.scram = Some(login);
                return Ok(Amqp10Request::Scram { user });
            }
            "PLAIN" => plain_credentials(response).ok_or_else(unreadable)?,
            _ => ("", ""),
        };
        Ok(Amqp10Request::Login { mechanism, user, password: SecretStr(password.as_bytes()) })
    }
}

impl Amqp10Connection<LinkResponder> {
    /// Waits for the client's header. With the mechanism `ANONYMOUS` clients need not log in.
    pub fn new(config: &ServerConfig, now: Time) -> Self {
        let text = |name| config.properties.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut side = LinkResponder {
            mechanisms: config.mechanisms.clone(),
            product: text("product").to_owned(),
            version: text("version").to_owned(),
            scram: None,
            signature: None,
        };
        // The last, as clients that take the first that they know expect another.
        side.mechanisms.extend([" ", SCRAM_SHA_256]);
        let config = Amqp10Config {
            container_id: side.product.clone(),
            heartbeat_s: config.heartbeat_s,
            frame_max: config.frame_max,
            channel_max: match config.channel_max {
                0 => SESSION_MAX,
                highest => highest.min(SESSION_MAX),
            },
            max_body: config.max_body,
            timeout: config.timeout,
            ..Amqp10Config::default()
        };
        Self::begun(side, config, &[], now)
    }

    /// Answers [`Amqp10Request::Login`] and [`Amqp10Request::Proved`]. Does nothing at another time.
    pub fn accept_login(&mut self) {
        if self.phase == Phase::LoginPending && self.side.scram.is_none() {
            let signature = self.side.signature.take();
            let additional_data = signature.as_deref().map(str::as_bytes);
            frame::put(self.out(), FRAME_SASL, 0, &SaslOutcome { code: 0, additional_data });
            self.phase = Phase::Header;
        }
    }

    /// Answers [`Amqp10Request::Scram`] for a user with these keys. The nonce is random for each login, printable
    /// ASCII, and without commas. Does nothing at another time.
    pub fn challenge(&mut self, keys: &ScramKeys, nonce: &str) {
        if self.phase == Phase::LoginPending
            && let Some(login) = &mut self.side.scram
        {
            let challenge = login.challenge(keys, nonce);
            frame::put(self.out(), FRAME_SASL, 0, &SaslChallenge { challenge: challenge.as_bytes() });
            self.phase = Phase::Proof;
        }
    }

    /// Tells a client whose proof is wrong.
    fn refuse_proof(&mut self) -> Failure {
        frame::put(self.out(), FRAME_SASL, 0, &SaslOutcome { code: 1, additional_data: None });
        Failure::LogIn(Amqp10Error::Refused { code: 1, reason: "wrong user or password" })
    }

    /// Refuses [`Amqp10Request::Login`], [`Amqp10Request::Scram`] or [`Amqp10Request::Proved`], which ends the
    /// connection. Does nothing at another time.
    pub fn refuse_login(&mut self) {
        if self.phase == Phase::LoginPending {
            frame::put(self.out(), FRAME_SASL, 0, &SaslOutcome { code: 1, additional_data: None });
            self.end();
        }
    }

    /// Answers [`Amqp10Request::Open`]: the connection is open. Does nothing at another time.
    pub fn accept_open(&mut self) {
        if self.phase == Phase::OpenPending {
            put_open(&self.config, &self.side.product, &self.side.version, ANONYMOUS_RELAY, &mut self.out);
            self.liveness.waiting_since = None;
            self.phase = Phase::Open;
        }
    }

    /// Refuses [`Amqp10Request::Open`]: opens the connection and closes it. Does nothing at another time.
    pub fn refuse_open(&mut self, now: Time, condition: &str, text: &str) {
        if self.phase == Phase::OpenPending {
            self.accept_open();
            self.close(now, condition, text);
        }
    }

    /// Answers [`Amqp10Request::Link`] of a [`Terminus::Dynamic`], whose node has this address now.
    pub fn accept_dynamic_link(&mut self, session: u16, handle: u32, address: &str) {
        if let Ok(its) = self.session(session)
            && let Some(link) = its.link(handle)
        {
            address.clone_into(&mut link.address);
            link.is_dynamic = true;
        }
        self.accept_link(session, handle, false);
    }

    /// Answers [`Amqp10Request::Link`]; a client that sends on it may begin. With `is_stream` the link begins where the
    /// client has asked for.
    pub fn accept_link(&mut self, session: u16, handle: u32, is_stream: bool) {
        if let Ok(its) = self.session(session)
            && let Some(link) = its.link(handle).filter(|_| !is_stream)
        {
            link.filter.clear();
        }
        self.answer_link(session, handle, true);
        let Ok(its) = self.session(session) else { return };
        let Some(link) = its.link(handle) else { return };
        link.is_attached = true;
        if link.is_receiver {
            link.credit = LINK_CREDIT;
            let flow = its.flow(Some(handle));
            frame::put(self.out(), FRAME_AMQP, session, &flow);
        }
    }

    /// Refuses [`Amqp10Request::Link`], or ends a link that was accepted.
    pub fn refuse_link(&mut self, session: u16, handle: u32, condition: &str, text: &str) {
        if self.link(session, handle).is_some_and(|link| !link.is_attached) {
            self.answer_link(session, handle, false);
        }
        self.detach(session, handle, condition, text);
    }

    fn answer_link(&mut self, session: u16, handle: u32, exists: bool) {
        let Some(link) = self.session(session).ok().and_then(|its| its.link(handle)) else { return };
        let (name, address, filter) = (link.name.clone(), link.address.clone(), std::mem::take(&mut link.filter));
        let (is_receiver, is_settled, is_coordinator) = (link.is_receiver, link.is_settled, link.is_coordinator);
        let dynamic = link.is_dynamic.then_some(true);
        let address = Some(address.as_str()).filter(|it| !it.is_empty()).map_or(TypedValue::Null, TypedValue::Str);
        let filter = TypedValue::read(&mut Reader::new(&filter)).unwrap_or_default();
        let mut target = Vec::new();
        let (to, source) = match is_receiver {
            true => (Target { address, dynamic, ..Target::default() }, Source::default()),
            false => (Target::default(), Source { address, dynamic, filter, ..Source::default() }),
        };
        match is_coordinator {
            true => TransactionCoordinator { capabilities: TypedValue::Symbol(LOCAL_TRANSACTIONS) }.write(&mut target),
            false => to.write(&mut target),
        }
        let target = TypedValue::read(&mut Reader::new(&target)).unwrap_or_default();
        let attach = Attach {
            name: &name,
            handle,
            is_receiver,
            snd_settle_mode: Some(u8::from(is_settled)),
            rcv_settle_mode: Some(0),
            source: Some(source).filter(|_| exists || is_receiver),
            target: if exists || !is_receiver { target } else { TypedValue::Null },
            initial_delivery_count: (!is_receiver).then_some(0),
            max_message_size: Some(self.config.max_body).filter(|_| is_receiver),
            ..Attach::default()
        };
        frame::put(self.out(), FRAME_AMQP, session, &attach);
    }

    /// Detaches a link for good, for a reason. Does nothing where there is none, or on a connection that is not open.
    pub fn detach(&mut self, session: u16, handle: u32, condition: &str, text: &str) {
        let is_open = self.phase == Phase::Open;
        let Some(link) = self.session(session).ok().and_then(|its| its.link(handle)) else { return };
        if is_open && !std::mem::replace(&mut link.is_detaching, true) {
            let detach = Detach { handle, closed: Some(true), error: Some(reason(condition, text)) };
            frame::put(self.out(), FRAME_AMQP, session, &detach);
        }
    }

    /// Ends a session for a reason. Does nothing where there is none, or on a connection that is not open.
    pub fn end_session(&mut self, session: u16, condition: &str, text: &str) {
        let is_open = self.phase == Phase::Open;
        let Ok(its) = self.session(session) else { return };
        if is_open && !std::mem::replace(&mut its.is_ending, true) {
            frame::put(self.out(), FRAME_AMQP, session, &End { error: Some(reason(condition, text)) });
        }
    }

    /// Starts the orderly close for a reason; [`Amqp10Event::CloseOk`] ends it. Does nothing on a connection that is
    /// not open.
    pub fn close(&mut self, now: Time, condition: &str, text: &str) {
        self.begin_close(now, Some(reason(condition, text)));
    }

    /// Hot path: queues a message, which is `head` and `body`, as the session's next delivery; deliveries count from 0.
    /// What the client's window does not take waits until it does. [`Self::credit`] tells whether the client takes it.
    #[inline]
    pub fn deliver(&mut self, session: u16, handle: u32, settled: bool, head: &[u8], body: &[u8]) {
        self.out();
        let Self { out, sessions, frame_max, phase, waiting, .. } = self;
        let Some(its) = sessions.get_mut(usize::from(session)).and_then(Option::as_mut) else { return };
        let id = its.next_delivery_id;
        its.sent_message(handle, 0);
        if *phase != Phase::Open || its.is_ending {
            return;
        }
        let fits = its.remote_window > 0 && its.waits() == 0;
        let usual = TransferHead { handle, id, settled };
        if fits && usual::put_delivery(out, session, usual, [head, body], *frame_max as usize) {
            its.sent(1);
            return;
        }
        let tag = id.to_be_bytes();
        let mut transfer = Transfer {
            handle,
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(settled),
            more: Some(true),
            ..Transfer::default()
        };
        let mut rest = [head, body];
        loop {
            let fits = its.remote_window > 0 && its.waits() == 0;
            let before = its.waits();
            let to = if fits { &mut *out } else { &mut its.waiting };
            let more = put_part(to, session, &transfer, &mut rest, *frame_max as usize);
            if fits {
                its.sent(1);
            }
            *waiting += its.waits() - before;
            if !more {
                return;
            }
            (transfer.delivery_id, transfer.delivery_tag, transfer.message_format) = (None, None, None);
        }
    }

    /// Tells the state of a client's deliveries from `first` to `last`, which are settled later. Does nothing on a
    /// connection that is not open.
    pub fn inform(&mut self, session: u16, first: u32, last: u32, state: DeliveryState<'_>) {
        if self.phase == Phase::Open {
            self.put_disposition(session, first, last, false, state);
        }
    }

    /// Tells a client that wants a link's credit used up that nothing is left to send, and the credit is gone.
    pub fn end_drain(&mut self, session: u16, handle: u32) {
        let Ok(its) = self.session(session) else { return };
        let Some(link) = its.link(handle).filter(|link| link.is_draining && !link.is_detaching) else { return };
        link.is_draining = false;
        link.delivery_count = link.delivery_count.wrapping_add(link.credit);
        link.credit = 0;
        let flow = Flow { drain: Some(true), ..its.flow(Some(handle)) };
        frame::put(self.out(), FRAME_AMQP, session, &flow);
    }

    /// Bytes to write now, and those that wait for the windows of sessions.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.pending_output().len() + self.waiting
    }

    /// Whether the client is to answer our closing the connection.
    pub fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// Whether the handshake is complete and nobody has closed the connection.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }
}

fn reason<'a>(condition: &'a str, text: &'a str) -> Condition<'a> {
    Condition { condition: Symbol(condition), description: Some(text), info: TypedValue::Null }
}

/// Appends a frame with as much of a message as fits; tells whether more is left.
#[inline]
fn put_part(out: &mut Vec<u8>, session: u16, transfer: &Transfer<'_>, rest: &mut [&[u8]; 2], frame_max: usize) -> bool {
    let start = out.len();
    out.extend_from_slice(&frame::head(FRAME_AMQP, session, 0));
    transfer.write(out);
    // The last field is whether more follows.
    let more_at = out.len() - 1;
    let mut room = frame_max.saturating_sub(out.len() - start);
    for piece in rest.iter_mut() {
        let (now, later) = piece.split_at(room.min(piece.len()));
        out.extend_from_slice(now);
        room -= now.len();
        *piece = later;
    }
    let more = rest.iter().any(|piece| !piece.is_empty());
    if let (false, Some(last)) = (more, out.get_mut(more_at)) {
        *last = 0x42;
    }
    frame::close(out, start);
    more
}
