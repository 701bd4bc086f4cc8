//! One slot for a request: a connection, new or kept from the request before, and the response on it.

use measure::{Clock, Metric, Time};
use transport::{ClientSocket, ConnectAttempt, Output, Received, SocketError, SocketOptions};
use wire::http1::{HttpError, HttpEvent, ResponseDecoder};

use super::{ProbePlan, RequestContext};
use crate::scenario::operations::{Buffers, Slot};
use crate::{Error, failure};

/// Reads of one connection before the others get their turn.
const READS_PER_TURN: usize = 4;

/// How far a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStage {
    Empty,
    Connecting,
    Securing,
    /// The request is sent, or the response read.
    Responding,
    /// A connection without a request.
    Kept,
}

impl RequestStage {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Empty | Self::Kept => "idle",
            Self::Connecting => "connecting",
            Self::Securing => "in the TLS handshake",
            Self::Responding => "waiting for the response",
        }
    }
}

/// The outcome of a turn.
#[derive(Debug)]
pub(super) enum Turn {
    Open,
    /// The response has come whole; its status says whether in order.
    Ended(u16),
    /// A connection without a request was closed by the other side.
    Closed,
}

/// Why a request got no further.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Box<Error>,
    /// The connection broke, as it does where a server closes a kept one just then.
    pub(super) is_loss: bool,
}

/// A request's bytes that are not sent.
#[derive(Debug, Default)]
struct RequestBytes {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output for RequestBytes {
    fn pending(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    fn consume(&mut self, bytes: usize) {
        self.sent += bytes;
    }
}

pub(super) struct RequestSlot {
    pub(super) number: usize,
    pub(super) stage: RequestStage,
    socket: Option<ClientSocket>,
    attempt: Option<ConnectAttempt>,
    output: RequestBytes,
    decoder: ResponseDecoder,
    status: u16,
    pub(super) due: Time,
    pub(super) sent: Time,
    step_began: Time,
    first_byte: Option<Time>,
    /// The response has to be there then.
    pub(super) deadline: Time,
    is_reused: bool,
}

impl Slot for RequestSlot {
    fn new(number: usize, now: Time) -> Self {
        Self {
            number,
            stage: RequestStage::Empty,
            socket: None,
            attempt: None,
            output: RequestBytes::default(),
            decoder: ResponseDecoder::default(),
            status: 0,
            due: now,
            sent: now,
            step_began: now,
            first_byte: None,
            deadline: now,
            is_reused: false,
        }
    }

    fn due(&self) -> Option<Time> {
        self.is_busy().then_some(self.due)
    }

    fn notice(&mut self, event: &mio::event::Event) {
        if let Some(socket) = &mut self.socket {
            socket.notice(event.into());
        }
    }

    fn wants_turn(&self) -> bool {
        let socket = self.socket.as_ref();
        self.stage != RequestStage::Empty && socket.is_some_and(transport::Socket::is_readable)
    }
}

impl RequestSlot {
    pub(super) const fn is_busy(&self) -> bool {
        !matches!(self.stage, RequestStage::Empty | RequestStage::Kept)
    }

    /// Whether the connection's loss says nothing of this request: no byte came, and another one was answered on it.
    pub(super) fn may_retry(&self, plan: &ProbePlan) -> bool {
        self.is_reused && self.decoder.received() == 0 && plan.is_safe()
    }

    /// A request begins; on a kept connection it is queued at once.
    pub(super) fn begin(&mut self, plan: &ProbePlan, head: &[u8], due: Time, now: Time) {
        (self.due, self.sent, self.deadline) = (due, now, now + plan.timeout);
        self.queue(plan, head, now);
        self.is_reused = self.stage == RequestStage::Kept;
        if self.is_reused {
            self.stage = RequestStage::Responding;
        }
    }

    fn queue(&mut self, plan: &ProbePlan, head: &[u8], now: Time) {
        self.output.bytes.clear();
        self.output.bytes.extend_from_slice(head);
        self.output.sent = 0;
        self.decoder.expect(&plan.method);
        (self.status, self.first_byte, self.step_began) = (0, None, now);
    }

    /// Connects; the request follows.
    pub(super) fn dial(&mut self, head: &[u8], context: &mut RequestContext<'_>, now: Time) -> Result<(), Failure> {
        let plan = context.plan;
        self.queue(plan, head, now);
        self.is_reused = false;
        let mut attempt = context.attempt(&[], self.deadline, now);
        let socket = attempt.connect(context.poll.registry(), self.number, now);
        self.socket = Some(socket.map_err(|error| plan.broken(error, RequestStage::Connecting))?);
        self.attempt = Some(attempt);
        self.stage = RequestStage::Connecting;
        Ok(())
    }

    /// Whether an address does not answer, and the next is to be tried.
    pub(super) fn is_late(&self, now: Time) -> bool {
        let attempt = self.attempt.as_ref();
        self.stage == RequestStage::Connecting && attempt.is_some_and(|it| it.is_late(now))
    }

    /// Reads and writes what there is, up to a limit.
    pub(super) fn turn(&mut self, context: &mut RequestContext<'_>, buffers: &mut Buffers) -> Result<Turn, Failure> {
        let plan = context.plan;
        let metrics = context.counts.own.metrics;
        if self.stage == RequestStage::Connecting && !self.finish_connecting(context)? {
            return Ok(Turn::Open);
        }
        for _ in 0..READS_PER_TURN {
            self.flush(plan)?;
            let Some(socket) = self.socket.as_mut().filter(|it| it.is_readable()) else { break };
            let received = socket.read(&mut buffers.cipher, &mut buffers.plain);
            let is_secured = !socket.is_being_secured();
            if self.stage == RequestStage::Kept {
                match received {
                    Ok(Received::Nothing) => continue,
                    _ => return Ok(Turn::Closed),
                }
            }
            let received = received.map_err(|error| plan.broken(error, self.stage))?;
            if self.stage == RequestStage::Securing && is_secured {
                self.took(metrics.secure, context);
                self.stage = RequestStage::Responding;
            }
            let ended = match received {
                Received::Nothing => false,
                Received::End => {
                    self.decoder.handle_end().map_err(|error| plan.misunderstood(&error))?;
                    true
                }
                Received::Bytes(filled) => {
                    context.counts.add(metrics.bytes, self.due, filled as u64);
                    let bytes = buffers.plain.get(..filled).unwrap_or_default();
                    self.decode(bytes, plan)?
                }
            };
            if ended {
                return Ok(self.end(context));
            }
        }
        self.flush(plan)?;
        Ok(Turn::Open)
    }

    fn finish_connecting(&mut self, context: &mut RequestContext<'_>) -> Result<bool, Failure> {
        let plan = context.plan;
        let (Some(socket), Some(attempt)) = (&mut self.socket, &mut self.attempt) else { return Ok(false) };
        let now = Clock.now();
        match socket.finish_connecting(SocketOptions::default()) {
            Ok(true) => {
                let is_secured = !socket.is_being_secured();
                self.took(context.counts.own.metrics.connect, context);
                self.stage = if is_secured { RequestStage::Responding } else { RequestStage::Securing };
                return Ok(true);
            }
            Ok(false) if !attempt.is_late(now) => return Ok(false),
            Err(error) if !attempt.has_more() => return Err(plan.broken(error.into(), RequestStage::Connecting)),
            Ok(false) | Err(_) => {}
        }
        // The name has other addresses.
        let dialled = attempt.connect(context.poll.registry(), self.number, now);
        *socket = dialled.map_err(|error| plan.broken(error, RequestStage::Connecting))?;
        Ok(false)
    }

    fn flush(&mut self, plan: &ProbePlan) -> Result<(), Failure> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        match socket.flush(&mut self.output) {
            // Whoever closed the connection may have answered before.
            Err(error) if error.is_loss() && socket.is_readable() => Ok(()),
            Err(error) => Err(plan.broken(error, self.stage)),
            Ok(()) => Ok(()),
        }
    }

    /// Whether the response has ended.
    fn decode(&mut self, bytes: &[u8], plan: &ProbePlan) -> Result<bool, Failure> {
        if !bytes.is_empty() {
            self.first_byte.get_or_insert_with(|| Clock.now());
        }
        let mut input = bytes;
        loop {
            let event = self.decoder.handle_input(&mut input);
            match event.map_err(|error| plan.misunderstood(&error))? {
                None => return Ok(false),
                Some(HttpEvent::Head(head)) => self.status = head.status,
                Some(HttpEvent::Body(_)) => {}
                Some(HttpEvent::End) => {
                    // What nobody asked for must not answer the next request.
                    if !input.is_empty() || !self.output.pending().is_empty() {
                        self.drop_connection();
                    }
                    return Ok(true);
                }
            }
        }
    }

    fn end(&mut self, context: &mut RequestContext<'_>) -> Turn {
        let counts = &mut context.counts;
        let now = Clock.now();
        let first = self.first_byte.unwrap_or(now);
        let (due, sent) = (self.due, self.sent);
        counts.answered(sent, now, self.status);
        if self.status < 400 {
            let metrics = counts.own.metrics;
            counts.record(metrics.first_byte, due, first.since(sent));
            counts.record(metrics.body, due, now.since(first));
            counts.record(metrics.from_send, due, now.since(sent));
            counts.record(metrics.response, due, now.since(due));
        }
        if self.socket.is_some() && self.decoder.is_reusable() {
            self.stage = RequestStage::Kept;
        } else {
            self.drop_connection();
        }
        Turn::Ended(self.status)
    }

    fn took(&mut self, step: Metric, context: &mut RequestContext<'_>) {
        let now = Clock.now();
        let took = now.since(self.step_began);
        context.counts.record(step, self.due, took);
        self.step_began = now;
    }

    pub(super) fn drop_connection(&mut self) {
        self.stage = RequestStage::Empty;
        if let Some(mut socket) = self.socket.take() {
            socket.hang_up();
        }
    }
}

impl ProbePlan {
    /// Whether a request may be sent twice.
    fn is_safe(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// The failure of a request whose socket fails at this stage.
    fn broken(&self, error: SocketError, stage: RequestStage) -> Failure {
        let endpoint = self.place();
        let is_loss = error.is_loss();
        let error = match error {
            SocketError::Tls(error) => failure::of_handshake(endpoint, &error),
            SocketError::Io(error) if stage == RequestStage::Connecting => Error::Connect {
                endpoint,
                detail: error.to_string(),
                help: "check that the server runs, and host and port".into(),
            },
            SocketError::Io(error) => Error::Lost { endpoint, detail: error.to_string() },
        };
        Failure { error: Box::new(error), is_loss }
    }

    fn misunderstood(&self, error: &HttpError) -> Failure {
        let endpoint = self.place();
        // How much had come differs from request to request, and makes no reason of its own.
        let error = match error {
            HttpError::Truncated { within, .. } => {
                Error::Lost { endpoint, detail: format!("the connection ended {within}") }
            }
            HttpError::Broken { what, .. } => {
                Error::Protocol { endpoint, detail: format!("the response breaks HTTP/1.1: {what}") }
            }
            error => Error::Protocol { endpoint, detail: error.to_string() },
        };
        Failure { is_loss: matches!(error, Error::Lost { .. }), error: Box::new(error) }
    }
}
