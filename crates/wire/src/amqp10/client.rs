//! The client's side of a connection (specification 2.4, 5.3): it logs in, opens, begins sessions and attaches links.

use measure::Time;

use super::composite::*;
use super::connection::session::{Link, Session};
use super::connection::{
    Amqp10Config, Amqp10Connection, Amqp10Side, Failure, FrameStep, NOT_ALLOWED, Phase, SaslMechanism, Violation,
    put_open, wrong_protocol,
};
use super::event::{Amqp10Error, Amqp10Event};
use super::frame::{self, FRAME_AMQP, FRAME_SASL};
use super::message::put_value;
use super::scram::ScramProof;
use super::template::TransferTemplate;
use super::types::{Symbol, TypedValue};
use super::{AMQP_HEADER, SASL_HEADER};
use crate::amqp091::{EncodeError, SecretStr, Snippet};

/// A connection, seen from the client.
pub type Amqp10Client = Amqp10Connection<LinkInitiator>;

/// Characters of a server's list of login mechanisms that are shown.
const LONGEST_OFFER: usize = 200;

/// Client's side of a connection.
#[derive(Debug)]
pub struct LinkInitiator {
    /// A login by SCRAM.
    scram: Option<ScramProof>,
}

impl Amqp10Side for LinkInitiator {
    const IS_SERVER: bool = false;

    fn take_header(connection: &mut Amqp10Client, header: &[u8; 8]) -> bool {
        let (due, next) = match connection.phase {
            Phase::SaslHeader => (SASL_HEADER, Phase::Mechanisms),
            _ => (AMQP_HEADER, Phase::Opening),
        };
        connection.phase = next;
        *header == due
    }

    fn handle_handshake<'i>(
        connection: &mut Amqp10Client,
        now: Time,
        performative: &Performative<'i>,
    ) -> Result<FrameStep<'i>, Failure> {
        match (connection.phase, performative) {
            (Phase::Mechanisms, Performative::SaslMechanisms(offer)) => {
                connection.log_in(offer.mechanisms)?;
                Ok(FrameStep::Nothing)
            }
            (Phase::Outcome, Performative::SaslChallenge(it)) if connection.side.scram.is_some() => {
                connection.respond(it.challenge)?;
                Ok(FrameStep::Nothing)
            }
            (Phase::Outcome, Performative::SaslOutcome(SaslOutcome { code: 0, additional_data })) => {
                if let Some(mut scram) = connection.side.scram.take() {
                    scram.end(*additional_data).map_err(scram_failed)?;
                }
                let out = connection.out();
                out.extend_from_slice(&AMQP_HEADER);
                let version = env!("CARGO_PKG_VERSION");
                put_open(&connection.config, "bellows", version, TypedValue::Null, &mut connection.out);
                connection.phase = Phase::Header;
                Ok(FrameStep::Nothing)
            }
            (Phase::Outcome, Performative::SaslOutcome(SaslOutcome { code, .. })) => {
                let reason = match *code {
                    1 => "wrong user or password",
                    2 | 3 => "the server has a failure of its own",
                    4 => "the server asks to try again later",
                    _ => "an outcome that is not known",
                };
                Err(Failure::LogIn(Amqp10Error::Refused { code: *code, reason }))
            }
            (Phase::Opening, Performative::Open(open)) => {
                connection.take_open(now, open);
                connection.liveness.waiting_since = None;
                connection.phase = Phase::Open;
                Ok(FrameStep::Event(Amqp10Event::Open {
                    properties: open.properties,
                    frame_max: connection.frame_max,
                    channel_max: connection.channel_max,
                }))
            }
            (phase, other) => {
                let what = format!("{} came instead of the {}", other.name(), Self::awaited(phase));
                Err((NOT_ALLOWED, what).into())
            }
        }
    }

    fn take_begin<'i>(
        connection: &mut Amqp10Client,
        channel: u16,
        begin: &Begin<'_>,
    ) -> Result<FrameStep<'i>, Violation> {
        let unasked = || (NOT_ALLOWED, format!("an unrequested session began on channel {channel}"));
        let at = usize::from(channel);
        let number = begin.remote_channel.ok_or_else(unasked)?;
        let is_free = connection.channels.get(at).is_none_or(Option::is_none);
        let channel_max = connection.config.channel_max;
        let session = connection.session(number).map_err(|_| unasked())?;
        if session.is_open || !is_free || channel > channel_max {
            return Err(unasked());
        }
        session.begun(begin);
        if connection.channels.len() <= at {
            connection.channels.resize(at + 1, None);
        }
        connection.channels[at] = Some(number);
        Ok(FrameStep::Event(Amqp10Event::Begun { session: number, incoming_window: begin.incoming_window }))
    }

    fn take_attach<'i>(
        connection: &mut Amqp10Client,
        number: u16,
        attach: &Attach<'i>,
    ) -> Result<FrameStep<'i>, Violation> {
        let session = connection.session(number)?;
        let Some(handle) = session.learn(attach.handle, attach.name, !attach.is_receiver) else {
            return Err((NOT_ALLOWED, format!("an unrequested link {:?} was attached", attach.name)));
        };
        let Some(link) = session.link(handle) else { return Ok(FrameStep::Nothing) };
        link.is_attached = true;
        if link.is_receiver {
            link.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        }
        let exists = if link.is_receiver { attach.source.is_some() } else { attach.target != TypedValue::Null };
        let address = match link.is_receiver {
            true => attach.source.map(|it| it.address),
            false => Target::of(attach.target).ok().map(|it| it.address),
        };
        Ok(FrameStep::Event(Amqp10Event::Attached {
            session: number,
            handle,
            exists,
            address: match address {
                Some(TypedValue::Str(address)) => Some(address),
                _ => None,
            },
            max_message_size: attach.max_message_size.unwrap_or(0),
            filter: attach.source.map_or(TypedValue::Null, |it| it.filter),
        }))
    }

    fn awaited(phase: Phase) -> &'static str {
        match phase {
            Phase::SaslHeader => "greeting from the server",
            Phase::Mechanisms => "offer of login mechanisms",
            Phase::Outcome => "answer to the login",
            Phase::Header | Phase::Opening => "answer to opening the connection",
            _ => "answer to closing the connection",
        }
    }
}

fn scram_failed(what: String) -> Failure {
    Failure::LogIn(Amqp10Error::Scram { what })
}

impl Amqp10Connection<LinkInitiator> {
    /// Queues the header of the login as the first output.
    pub fn new(config: Amqp10Config, now: Time) -> Self {
        Self::begun(LinkInitiator { scram: None }, config, &SASL_HEADER, now)
    }

    fn log_in(&mut self, offered: TypedValue<'_>) -> Result<(), Failure> {
        let mechanism = self.config.mechanism;
        let wanted = mechanism.name();
        if !offered.has_symbol(wanted) {
            let all: Vec<_> = offered.symbols().collect();
            let offered = all.join(" ").chars().take(LONGEST_OFFER).collect();
            return Err(Failure::LogIn(Amqp10Error::NoMechanism { offered, wanted }));
        }
        let (user, password) = (&self.config.user, self.config.password.expose());
        let response = match mechanism {
            SaslMechanism::Plain => format!("\0{user}\0{password}"),
            SaslMechanism::External => String::new(),
            SaslMechanism::Anonymous => "bellows".to_owned(),
            SaslMechanism::ScramSha256 if self.config.nonce.is_empty() => {
                return Err(scram_failed("there is no random nonce for it".to_owned()));
            }
            SaslMechanism::ScramSha256 => {
                let (proof, message) = ScramProof::begin(user, &self.config.nonce);
                self.side.scram = Some(proof);
                message
            }
        };
        let hostname = Some(self.config.hostname.as_str()).filter(|it| !it.is_empty());
        let init =
            SaslInit { mechanism: Symbol(wanted), initial_response: Some(SecretStr(response.as_bytes())), hostname };
        frame::put(&mut self.out, FRAME_SASL, 0, &init);
        self.phase = Phase::Outcome;
        Ok(())
    }

    /// Answers a challenge of a login by SCRAM.
    fn respond(&mut self, challenge: &[u8]) -> Result<(), Failure> {
        let Some(scram) = &mut self.side.scram else { return Ok(()) };
        let response = scram.respond(challenge, self.config.password.expose()).map_err(scram_failed)?;
        frame::put(&mut self.out, FRAME_SASL, 0, &SaslResponse { response: SecretStr(response.as_bytes()) });
        Ok(())
    }

    /// Begins a session on a channel that is not in use.
    /// Errors: a connection that is not open, a channel that the peer does not allow.
    pub fn begin(&mut self, session: u16) -> Result<(), Amqp10Error> {
        let at = usize::from(session);
        if session > self.channel_max || self.sessions.get(at).is_some_and(Option::is_some) {
            return Err(EncodeError::NotOpen.into());
        }
        self.send(session, &Session::begin())?;
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        self.sessions[at] = Some(Session::new());
        Ok(())
    }

    /// Attaches a link under the handle that it names, which is not in use and at most 255. Its name is unique.
    /// Errors: a connection that is not open, no such session, a handle that cannot be had.
    pub fn attach(&mut self, session: u16, attach: &Attach<'_>) -> Result<(), Amqp10Error> {
        let its = self.session(session).map_err(|_| EncodeError::NotOpen)?;
        if !its.place(attach.handle, Link::new(attach.name, attach.is_receiver)) {
            return Err(EncodeError::NotOpen.into());
        }
        self.send(session, attach)
    }

    /// Detaches a link for good; [`Amqp10Event::Detached`] answers. Errors: a connection that is not open.
    pub fn detach(&mut self, session: u16, handle: u32) -> Result<(), Amqp10Error> {
        if let Ok(its) = self.session(session)
            && let Some(link) = its.link(handle)
        {
            link.is_detaching = true;
        }
        self.send(session, &Detach { handle, closed: Some(true), error: None })
    }

    /// Ends a session; [`Amqp10Event::Ended`] answers. Errors: a connection that is not open.
    pub fn end_session(&mut self, session: u16) -> Result<(), Amqp10Error> {
        if let Ok(its) = self.session(session) {
            its.is_ending = true;
        }
        self.send(session, &End { error: None })
    }

    /// Hot path: queues a message; `fill` writes into the part of its body that the first frame holds, which is the
    /// front of `body` until then. Does nothing on a connection that is not open. [`Self::credit`] tells whether
    /// the peer takes it.
    #[inline]
    pub fn publish(&mut self, template: &TransferTemplate, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        self.out();
        let session = self.sessions.get_mut(usize::from(template.session()));
        if self.phase == Phase::Open
            && let Some(session) = session.and_then(Option::as_mut)
        {
            let frames = template.put(&mut self.out, session.next_delivery_id, body, fill);
            session.sent_message(template.handle(), frames);
        }
    }

    /// Sends a message whose body is one value, such as a request to a coordinator of transactions; its number, by
    /// which it is settled. `None` on a connection that is not open, and where the peer takes no message now.
    pub fn send_value<'a>(&mut self, session: u16, handle: u32, value: &impl Composite<'a>) -> Option<u32> {
        if self.phase != Phase::Open || self.credit(session, handle, 1) == 0 {
            return None;
        }
        self.out();
        let its = self.sessions.get_mut(usize::from(session))?.as_mut()?;
        let id = its.next_delivery_id;
        let tag = id.to_be_bytes();
        let transfer = Transfer {
            handle,
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        let start = self.out.len();
        frame::put(&mut self.out, FRAME_AMQP, session, &transfer);
        put_value(&mut self.out, value);
        frame::close(&mut self.out, start);
        its.sent_message(handle, 1);
        Some(id)
    }

    /// Lets a receiver have so many messages more. With `echo` the peer answers by [`Amqp10Event::Flow`], after
    /// what it has sent before. Does nothing on a connection that is not open.
    #[inline]
    pub fn flow(&mut self, session: u16, handle: u32, more: u32, echo: bool) {
        let is_open = self.phase == Phase::Open;
        let Ok(its) = self.session(session) else { return };
        if let Some(link) = its.link(handle).filter(|link| link.is_receiver) {
            link.credit = link.credit.saturating_add(more);
        }
        let mut flow = its.flow(Some(handle));
        flow.echo = Some(true).filter(|_| echo);
        if its.link(handle).is_some_and(|link| !link.is_receiver) {
            flow.available = Some(0);
        }
        if is_open {
            frame::put(self.out(), FRAME_AMQP, session, &flow);
        }
    }

    /// Messages that a link has sent or received, by its own counter.
    pub fn delivery_count(&self, session: u16, handle: u32) -> u32 {
        self.link(session, handle).map_or(0, |link| link.delivery_count)
    }

    /// Starts the orderly close; [`Amqp10Event::CloseOk`] ends it. Before the handshake is complete, or after an
    /// error, there is nothing to close and nothing is sent.
    pub fn close(&mut self, now: Time) {
        self.begin_close(now, None);
    }

    /// Makes room now for `output` bytes to write. Without it the buffer grows when that is first needed.
    pub fn reserve(&mut self, output: usize) {
        self.out().reserve(output);
    }

    /// Bytes that must be there before [`Self::poll`] can take anything off `input`, which it has left: the length
    /// of its first frame, 0 where that is not known.
    #[inline]
    pub fn needs(&self, input: &[u8]) -> usize {
        match self.phase {
            Phase::SaslHeader | Phase::Header => 0,
            _ => frame::size(input),
        }
    }

    /// The largest frame that the peer takes, in bytes, once the connection is open.
    pub const fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// The highest session, once the connection is open.
    pub const fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// The transport reached its end; `rest` is the unconsumed input. Says what that means.
    pub fn end_of_input(&self, rest: &[u8]) -> Amqp10Error {
        if self.phase == Phase::SaslHeader && !rest.is_empty() {
            return wrong_protocol(0, rest);
        }
        let during = match self.phase {
            Phase::SaslHeader | Phase::Mechanisms | Phase::LoginPending | Phase::Proof => "before the login",
            Phase::Outcome => "during the login, as brokers do to refuse it",
            Phase::Header | Phase::Opening | Phase::OpenPending => "while the connection was being opened",
            Phase::Open => "while it was in use",
            Phase::Closing | Phase::Closed => "before it agreed to close it",
        };
        Amqp10Error::Disconnected { during, received: self.offset + rest.len() as u64, bytes: Snippet::of(rest) }
    }
}
