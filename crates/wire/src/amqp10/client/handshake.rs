//! The client's part of the handshake: log in, open the connection; and whether the peer still lives (specification
//! 2.4.5). Each side is closed by the other where it says nothing for the time-out that the other has set. This side
//! looks twice per time-out whether it has written anything, and sends an empty frame if not; it gives the peer up
//! after twice the time-out that it has asked for.

use measure::{Nanos, Time};

use super::super::composite::*;
use super::super::frame::{self, FRAME_AMQP, FRAME_SASL};
use super::super::types::{Symbol, TypedValue, put_map};
use super::super::{AMQP_HEADER, MIN_FRAME_MAX, SASL_HEADER};
use super::{Amqp10Client, Amqp10Error, Amqp10Event, Failure, NOT_ALLOWED, Phase, SaslMechanism, Step};
use crate::amqp091::{self, Reader, SecretStr, Snippet};

/// Error for first bytes of another protocol.
#[cold]
pub(super) fn wrong_protocol(offset: u64, input: &[u8]) -> Amqp10Error {
    let guess = match input {
        [b'A', b'M', b'Q', b'P', 0, 0, 9, 1, ..] => {
            "it speaks AMQP 0-9-1 only; RabbitMQ speaks AMQP 1.0 from 4.0 on, and before that with a plugin".to_owned()
        }
        _ => amqp091::guess(input),
    };
    let bytes = Snippet::of(input);
    Amqp10Error::WrongProtocol { guess, offset, bytes }
}

impl Amqp10Client {
    /// Takes the header off that is due; `false` where it has not come whole.
    pub(super) fn take_header(&mut self, input: &mut &[u8]) -> Result<bool, Amqp10Error> {
        let (header, next) = match self.phase {
            Phase::SaslHeader => (SASL_HEADER, Phase::Mechanisms),
            _ => (AMQP_HEADER, Phase::Opening),
        };
        let Some(came) = input.first_chunk::<8>() else { return Ok(false) };
        if *came != header {
            let offset = self.offset;
            self.end();
            return Err(wrong_protocol(offset, input));
        }
        *input = &input[came.len()..];
        self.offset += came.len() as u64;
        self.phase = next;
        Ok(true)
    }

    /// Takes a performative of the handshake.
    pub(super) fn handle_handshake<'i>(
        &mut self,
        now: Time,
        performative: &Performative<'i>,
    ) -> Result<Step<'i>, Failure> {
        match (self.phase, performative) {
            (Phase::Mechanisms, Performative::SaslMechanisms(offer)) => {
                self.log_in(offer.mechanisms)?;
                Ok(Step::Nothing)
            }
            (Phase::Outcome, Performative::SaslOutcome(SaslOutcome { code: 0, .. })) => {
                self.open();
                Ok(Step::Nothing)
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
            (Phase::Opening, Performative::Open(open)) => Ok(self.opened(now, open)),
            (_, other) => Err((NOT_ALLOWED, format!("{} came instead of the {}", other.name(), self.awaited())).into()),
        }
    }

    fn log_in(&mut self, offered: TypedValue<'_>) -> Result<(), Failure> {
        let mechanism = self.config.mechanism;
        let wanted = mechanism.name();
        if !offered.has_symbol(wanted) {
            return Err(Failure::LogIn(Amqp10Error::NoMechanism { wanted }));
        }
        let (user, password) = (&self.config.user, self.config.password.expose());
        let response = match mechanism {
            SaslMechanism::Plain => format!("\0{user}\0{password}"),
            SaslMechanism::External => String::new(),
            SaslMechanism::Anonymous => "bellows".to_owned(),
        };
        let hostname = Some(self.config.hostname.as_str()).filter(|it| !it.is_empty());
        let init =
            SaslInit { mechanism: Symbol(wanted), initial_response: Some(SecretStr(response.as_bytes())), hostname };
        frame::put(&mut self.out, FRAME_SASL, 0, &init);
        self.phase = Phase::Outcome;
        Ok(())
    }

    fn open(&mut self) {
        let config = &self.config;
        let mut properties = Vec::new();
        put_map(&mut properties, |out| {
            let version = env!("CARGO_PKG_VERSION");
            let all = [("product", "bellows"), ("version", version), ("platform", "Rust")];
            for (name, value) in all {
                TypedValue::Symbol(Symbol(name)).write(out);
                TypedValue::Str(value).write(out);
            }
            2 * all.len() as u32
        });
        let open = Open {
            container_id: &config.container_id,
            hostname: Some(config.hostname.as_str()).filter(|it| !it.is_empty()),
            max_frame_size: Some(config.frame_max.max(MIN_FRAME_MAX)),
            channel_max: Some(config.channel_max),
            idle_time_out: Some(u32::from(config.heartbeat_s) * 1_000).filter(|it| *it > 0),
            properties: TypedValue::read(&mut Reader::new(&properties)).unwrap_or_default(),
            ..Open::default()
        };
        self.out.extend_from_slice(&AMQP_HEADER);
        frame::put(&mut self.out, FRAME_AMQP, 0, &open);
        self.phase = Phase::Header;
    }

    fn opened<'i>(&mut self, now: Time, open: &Open<'i>) -> Step<'i> {
        let frame_max = open.max_frame_size.unwrap_or(u32::MAX).max(MIN_FRAME_MAX);
        self.frame_max = frame_max.min(self.config.frame_max.max(MIN_FRAME_MAX));
        self.channel_max = open.channel_max.unwrap_or(u16::MAX).min(self.config.channel_max);
        self.liveness.beat(open.idle_time_out.unwrap_or(0), now);
        self.liveness.waiting_since = None;
        self.phase = Phase::Open;
        Step::Event(Amqp10Event::Open {
            properties: open.properties,
            frame_max: self.frame_max,
            channel_max: self.channel_max,
        })
    }

    /// Answer that a time-out was waiting for.
    pub(super) const fn awaited(&self) -> &'static str {
        match self.phase {
            Phase::SaslHeader => "greeting from the server",
            Phase::Mechanisms => "offer of login mechanisms",
            Phase::Outcome => "answer to the login",
            Phase::Header | Phase::Opening => "answer to opening the connection",
            _ => "answer to closing the connection",
        }
    }
}

#[derive(Debug)]
pub(super) struct Liveness {
    /// How long the handshake and the close may take.
    timeout: Nanos,
    /// When the handshake or the close began, while one is in progress.
    pub(super) waiting_since: Option<Time>,
    /// The longest silence of the peer; zero for any.
    silence_max: Nanos,
    pub(super) heard_at: Time,
    /// Bytes heard so far, consumed or not.
    heard: u64,
    /// Half of what the peer asks for; zero where it does not.
    beat: Nanos,
    next_beat: Time,
    /// Whether anything was written since the last look.
    pub(super) written: bool,
}

impl Liveness {
    pub(super) const fn new(timeout: Nanos, heartbeat_s: u16, now: Time) -> Self {
        Self {
            timeout,
            waiting_since: Some(now),
            silence_max: Nanos(heartbeat_s as u64 * 2_000_000_000),
            heard_at: now,
            heard: 0,
            beat: Nanos::ZERO,
            next_beat: now,
            written: false,
        }
    }

    /// The peer wants to hear something every `idle_time_out_ms`.
    fn beat(&mut self, idle_time_out_ms: u32, now: Time) {
        self.beat = Nanos(u64::from(idle_time_out_ms) * 500_000);
        self.next_beat = now + self.beat;
    }

    /// So many bytes have come by now.
    #[inline]
    pub(super) const fn hear(&mut self, now: Time, bytes: u64) {
        if bytes > self.heard {
            self.heard = bytes;
            self.heard_at = now;
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let some = |length: Nanos, time: Time| (length > Nanos::ZERO).then_some(time);
        let waiting = self.waiting_since.map(|since| since + self.timeout);
        let silent = some(self.silence_max, self.heard_at + self.silence_max);
        let beat = some(self.beat, self.next_beat);
        [waiting, silent, beat].into_iter().flatten().min()
    }

    /// Tells whether a heartbeat is due.
    pub(super) fn check(&mut self, now: Time, awaited: &'static str) -> Result<bool, Amqp10Error> {
        if let Some(since) = self.waiting_since
            && now.since(since) >= self.timeout
        {
            return Err(Amqp10Error::TimedOut { awaited, waited: now.since(since), received: self.heard });
        }
        let silent = now.since(self.heard_at);
        if self.silence_max > Nanos::ZERO && silent >= self.silence_max {
            return Err(Amqp10Error::Silent { silent });
        }
        if self.beat == Nanos::ZERO || now < self.next_beat {
            return Ok(false);
        }
        self.next_beat = now + self.beat;
        Ok(!std::mem::take(&mut self.written))
    }
}
