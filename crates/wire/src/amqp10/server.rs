//! The server's side of a connection, for an embedded broker. Sessions and links have the client's numbers.
//!
//! ```text
//! client                          server
//!   header of the login    --->   header of the login, mechanisms
//!   sasl-init              --->   Amqp10Request::Login  -> accept_login / refuse_login
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
use super::event::{Amqp10Event, Amqp10Request};
use super::frame::{self, FRAME_AMQP, FRAME_SASL};
use super::types::{Symbol, TypedValue};
use super::usual::{self, TransferHead};
use super::{AMQP_HEADER, SASL_HEADER};
use crate::amqp091::{Reader, SecretStr, ServerConfig, Value, plain_credentials};

/// The highest session of a connection.
const SESSION_MAX: u16 = 255;
/// Links of a connection, and bytes of a link's name and address: what a client can make a server keep.
const LINKS_MAX: usize = 4_096;
const NAME_MAX: usize = 1_024;
const ADDRESS_MAX: usize = 2_048;
const INVALID_FIELD: &str = "amqp:invalid-field";
const LIMIT: &str = "amqp:resource-limit-exceeded";

/// A connection, seen from the server.
pub type Amqp10Server = Amqp10Connection<LinkResponder>;

/// Server's side of a connection.
#[derive(Debug)]
pub struct LinkResponder {
    /// Separated by blanks.
    mechanisms: String,
    product: String,
    version: String,
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
        let (address, capabilities) = match (attach.is_receiver, Target::of(attach.target)) {
            (true, _) => attach.source.map_or_else(Default::default, |it| (it.address, it.capabilities)),
            (false, Ok(target)) => (target.address, target.capabilities),
            // Such as the coordinator of transactions.
            (false, Err(_)) => Default::default(),
        };
        let address = match address {
            TypedValue::Str(address) => Some(address),
            _ => None,
        };
        if attach.name.len() > NAME_MAX || address.is_some_and(|it| it.len() > ADDRESS_MAX) {
            return Err((INVALID_FIELD, "a link's name or address is too long".to_owned()));
        }
        let mut link = Link::new(attach.name, !attach.is_receiver);
        address.unwrap_or_default().clone_into(&mut link.address);
        link.is_settled = attach.snd_settle_mode == Some(1);
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
            address,
            is_topic: capabilities.has_symbol("topic"),
            settled,
        })))
    }

    fn awaited(phase: Phase) -> &'static str {
        match phase {
            Phase::SaslHeader => "protocol header from the client",
            Phase::Mechanisms | Phase::Outcome | Phase::LoginPending => "login of the client",
            Phase::Header | Phase::Opening | Phase::OpenPending => "opening of the connection by the client",
            Phase::Open | Phase::Closing | Phase::Closed => "answer to closing the connection",
        }
    }
}

impl LinkResponder {
    /// The request in a choice of a mechanism.
    fn login<'i>(&self, init: &SaslInit<'i>) -> Result<Amqp10Request<'i>, Violation> {
        let mechanism = init.mechanism.0;
        if !self.offers(mechanism) {
            return Err((NOT_ALLOWED, format!("the login mechanism {mechanism:?} is not offered")));
        }
        let response = init.initial_response.unwrap_or_default();
        let (user, password) = match mechanism {
            "PLAIN" => plain_credentials(response)
                .ok_or_else(|| (NOT_ALLOWED, "the login response is not as PLAIN has it".to_owned()))?,
            _ => ("", ""),
        };
        Ok(Amqp10Request::Login { mechanism, user, password: SecretStr(password.as_bytes()) })
    }
}

impl Amqp10Connection<LinkResponder> {
    /// Waits for the client's header. `anonymous` also lets clients in that do not log in.
    pub fn new(config: &ServerConfig, anonymous: bool, now: Time) -> Self {
        let text = |name| config.properties.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut side = LinkResponder {
            mechanisms: config.mechanisms.clone(),
            product: text("product").to_owned(),
            version: text("version").to_owned(),
        };
        if anonymous {
            side.mechanisms.push_str(" ANONYMOUS");
        }
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

    /// Answers [`Amqp10Request::Login`]. Does nothing at another time.
    pub fn accept_login(&mut self) {
        if self.phase == Phase::LoginPending {
            frame::put(self.out(), FRAME_SASL, 0, &SaslOutcome { code: 0, additional_data: None });
            self.phase = Phase::Header;
        }
    }

    /// Refuses [`Amqp10Request::Login`], which ends the connection. Does nothing at another time.
    pub fn refuse_login(&mut self) {
        if self.phase == Phase::LoginPending {
            frame::put(self.out(), FRAME_SASL, 0, &SaslOutcome { code: 1, additional_data: None });
            self.end();
        }
    }

    /// Answers [`Amqp10Request::Open`]: the connection is open. Does nothing at another time.
    pub fn accept_open(&mut self) {
        if self.phase == Phase::OpenPending {
            put_open(&self.config, &self.side.product, &self.side.version, &mut self.out);
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

    /// Answers [`Amqp10Request::Link`]; a client that sends on it may begin.
    pub fn accept_link(&mut self, session: u16, handle: u32) {
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
        let Some(link) = self.link(session, handle) else { return };
        let (name, address) = (link.name.clone(), link.address.clone());
        let (is_receiver, is_settled) = (link.is_receiver, link.is_settled);
        let address = TypedValue::Str(&address);
        let mut target = Vec::new();
        let target_address = if is_receiver { address } else { TypedValue::Null };
        Target { address: target_address, ..Target::default() }.write(&mut target);
        let source = Source { address: if is_receiver { TypedValue::Null } else { address }, ..Source::default() };
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
